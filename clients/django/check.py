"""Django: its inspectdb writes models of what is there, and these models read and write.

check.py HOST PORT
"""

import datetime
import decimal
import io
import sys
import types

import django
from django.conf import settings
from django.core.management import call_command

OBJECTS = """
CREATE TABLE dj_orders (id bigint PRIMARY KEY, customer varchar(40) NOT NULL, amount numeric(10, 2), at timestamptz, day date,
    paid boolean NOT NULL DEFAULT false, note jsonb, key uuid, raw bytea, took interval, score double precision);
CREATE MATERIALIZED VIEW dj_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM dj_orders GROUP BY customer;
CREATE VIEW dj_dear AS SELECT id, amount FROM dj_orders WHERE amount > 1
"""
FIELDS = [
    "id = models.BigIntegerField(primary_key=True)",
    "customer = models.CharField(max_length=40)",
    "amount = models.DecimalField(max_digits=10, decimal_places=2, blank=True, null=True)",
    "at = models.DateTimeField(blank=True, null=True)",
    "day = models.DateField(blank=True, null=True)",
    "paid = models.BooleanField()",
    "note = models.JSONField(blank=True, null=True)",
    "key = models.UUIDField(blank=True, null=True)",
    "raw = models.BinaryField(blank=True, null=True)",
    "took = models.DurationField(blank=True, null=True)",
    "score = models.FloatField(blank=True, null=True)",
]


def inspected(*arguments):
    """The module that inspectdb writes for these relations."""
    out = io.StringIO()
    call_command("inspectdb", *arguments, stdout=out)
    return out.getvalue()


def main(host, port):
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": "thalweg", "USER": "django", "HOST": host, "PORT": port}
    settings.configure(DATABASES={"default": database}, USE_TZ=True, INSTALLED_APPS=[])
    django.setup()
    from django.db import IntegrityError, connection, transaction

    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS dj_orders CASCADE")
        for statement in OBJECTS.split(";"):
            cursor.execute(statement)
    names = {name: kind for name, kind in ((t.name, t.type) for t in connection.introspection.get_table_list(connection.cursor()))}
    assert (names["dj_orders"], names["dj_totals"], names["dj_dear"]) == ("t", "v", "v"), names

    text = inspected("dj_orders", "dj_totals", "dj_dear", "--include-views")
    for field in FIELDS:
        assert field in text, f"{field} is not in\n{text}"
    module = types.ModuleType("inspected")
    module.__dict__["__name__"] = "inspected"
    exec(text.replace("class Meta:", "class Meta:\n        app_label = 'inspected'"), module.__dict__)
    orders, totals = module.DjOrders.objects, module.DjTotals

    at = datetime.datetime(2024, 1, 31, 12, 0, 0, 500000, tzinfo=datetime.timezone.utc)
    values = dict(customer="ann", amount=decimal.Decimal("1.50"), at=at, day=at.date(), paid=True, note={"k": [1]}, raw=b"\x00\xff",
                  took=datetime.timedelta(days=1, seconds=2), score=0.5)
    orders.create(id=1, **values)
    orders.bulk_create(module.DjOrders(id=n, customer="bob", paid=False) for n in range(2, 20))
    found = orders.values().get(id=1)
    found["raw"] = bytes(found["raw"])
    assert {**values, "id": 1, "key": None} == found, found
    assert orders.filter(customer="bob", id__in=[2, 3]).update(paid=True) == 2
    assert orders.filter(paid=True).count() == 3
    assert list(orders.filter(at__year=2024, customer__icontains="AN").values_list("id", flat=True)) == [1]
    assert orders.filter(note={"k": [1]}).count() == 1
    try:
        with transaction.atomic():
            orders.create(id=500, customer="x", paid=False)
            with transaction.atomic():
                orders.create(id=1, customer="x", paid=False)
        raise AssertionError("a key was taken twice")
    except IntegrityError:
        assert not orders.filter(id=500).exists()
    assert [o.id for o in orders.order_by("id").iterator(chunk_size=5)] == list(range(1, 20))
    orders.filter(id=19).delete()
    assert totals.objects.values_list("n", flat=True).get(customer="bob") == 17
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE dj_orders CASCADE")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    print("Django", django.__version__, "ok")
