"""SQLAlchemy 2 over psycopg2 and psycopg: tables from metadata, the ORM, and reflection of what is there.

check.py HOST PORT
"""

import datetime
import decimal
import sys

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    metadata = sa.MetaData(schema="alchemy_check")


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    line: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    customer: Mapped[str | None] = mapped_column(sa.String(40))
    amount: Mapped[decimal.Decimal | None] = mapped_column(sa.Numeric(10, 2), server_default=sa.text("0.50"))
    at: Mapped[datetime.datetime | None] = mapped_column(sa.DateTime(timezone=True))
    tags: Mapped[list[str] | None] = mapped_column(postgresql.ARRAY(sa.Text))
    note: Mapped[dict | None] = mapped_column(postgresql.JSONB)


def write(engine):
    at = datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.timezone.utc)
    with Session(engine) as session:
        session.add(Order(id=1, line=1, customer="ann", amount=decimal.Decimal("1.50"), at=at, tags=["a", "b,c"], note={"k": [1]}))
        session.add_all(Order(id=n, line=1, customer="bob", tags=[]) for n in range(2, 50))
        session.commit()
        first = session.get(Order, (1, 1))
        assert (first.customer, first.amount, first.at, first.tags, first.note) == ("ann", decimal.Decimal("1.50"), at, ["a", "b,c"], {"k": [1]})
        # What the server filled in comes back by RETURNING or by a read.
        assert session.get(Order, (2, 1)).amount == decimal.Decimal("0.50")
        first.customer = "anna"
        session.delete(session.get(Order, (49, 1)))
        session.commit()
        names = session.scalars(sa.select(Order.customer).where(Order.id.in_([1, 2])).order_by(Order.id)).all()
        assert names == ["anna", "bob"], names
        counted = session.execute(sa.select(Order.customer, sa.func.count()).group_by(Order.customer).order_by(Order.customer)).all()
        assert [tuple(row) for row in counted] == [("anna", 1), ("bob", 47)], counted
        with session.begin_nested() as nested:
            session.execute(sa.delete(Order))
            nested.rollback()
        assert session.scalar(sa.select(sa.func.count()).select_from(Order)) == 48
        session.rollback()
    with engine.connect() as connection:
        try:
            connection.execute(sa.insert(Order).values(id=1, line=1))
            raise AssertionError("a key was taken twice")
        except sa.exc.IntegrityError:
            connection.rollback()
        parts = connection.execution_options(stream_results=True, max_row_buffer=10).execute(sa.select(Order.id).order_by(Order.id))
        assert parts.scalars().all() == list(range(1, 49))


def reflect(engine):
    inspector = sa.inspect(engine)
    assert "alchemy_check" in inspector.get_schema_names()
    assert inspector.get_table_names("alchemy_check") == ["orders"]
    assert inspector.get_view_names("alchemy_check") == ["dear"]
    assert inspector.get_materialized_view_names("alchemy_check") == ["totals"]
    assert inspector.has_table("orders", "alchemy_check") and inspector.has_table("totals", "alchemy_check") and not inspector.has_table("orders")
    columns = {c["name"]: c for c in inspector.get_columns("orders", "alchemy_check")}
    types = {name: repr(c["type"]) for name, c in columns.items()}
    assert types == {
        "id": "BIGINT()", "line": "INTEGER()", "customer": "VARCHAR(length=40)", "amount": "NUMERIC(precision=10, scale=2)",
        "at": "TIMESTAMP(timezone=True)", "tags": "ARRAY(TEXT())", "note": "JSONB(astext_type=Text())",
    }, types
    assert [c["nullable"] for c in columns.values()] == [False, False, True, True, True, True, True]
    assert columns["amount"]["default"] == "0.50", columns["amount"]
    key = inspector.get_pk_constraint("orders", "alchemy_check")
    assert (key["constrained_columns"], key["name"]) == (["id", "line"], "orders_pkey"), key
    for what in ("get_foreign_keys", "get_indexes", "get_unique_constraints", "get_check_constraints"):
        assert getattr(inspector, what)("orders", "alchemy_check") == [], what
    assert inspector.get_table_comment("orders", "alchemy_check") == {"text": "what was ordered"}
    assert "customer" in inspector.get_view_definition("totals", "alchemy_check")
    assert [c["name"] for c in inspector.get_columns("totals", "alchemy_check")] == ["customer", "n", "total"]
    assert inspector.get_sequence_names("alchemy_check") == []
    assert inspector.get_enums("alchemy_check") == []

    found = sa.MetaData(schema="alchemy_check")
    found.reflect(engine, views=True)
    assert sorted(found.tables) == ["alchemy_check.dear", "alchemy_check.orders", "alchemy_check.totals"], sorted(found.tables)
    with engine.connect() as connection:
        totals = found.tables["alchemy_check.totals"]
        row = connection.execute(sa.select(totals).where(totals.c.customer == "bob")).one()
        assert (row.n, row.total) == (47, decimal.Decimal("23.50")), row


def main(driver, host, port):
    engine = sa.create_engine(f"postgresql+{driver}://alchemy@{host}:{port}/thalweg")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.schema.DropSchema("alchemy_check", cascade=True, if_exists=True))
        connection.execute(sa.schema.CreateSchema("alchemy_check"))
    Base.metadata.create_all(engine)
    # A second time it finds everything there.
    Base.metadata.create_all(engine)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("COMMENT ON TABLE alchemy_check.orders IS 'what was ordered'"))
        connection.execute(sa.text("CREATE VIEW alchemy_check.dear AS SELECT id, amount FROM alchemy_check.orders WHERE amount > 1"))
        connection.execute(sa.text(
            "CREATE MATERIALIZED VIEW alchemy_check.totals AS"
            " SELECT customer, count(*) AS n, sum(amount) AS total FROM alchemy_check.orders GROUP BY customer"
        ))
    write(engine)
    reflect(engine)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.schema.DropSchema("alchemy_check", cascade=True))
    engine.dispose()


if __name__ == "__main__":
    for driver in ("psycopg2", "psycopg"):
        main(driver, sys.argv[1], int(sys.argv[2]))
    print("SQLAlchemy", sa.__version__, "ok")
