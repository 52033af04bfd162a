"""asyncpg: connects, creates, inserts, reads; everything prepared and in binary form, by COPY, by cursors, through a pool.

check.py HOST PORT
"""

import asyncio
import datetime
import decimal
import json
import sys
import uuid

import asyncpg

COLUMNS = "id bigint PRIMARY KEY, customer text, amount numeric(10, 2), at timestamptz, day date, paid boolean, tags text[], key uuid, note jsonb, took interval"


async def main(host, port):
    where = dict(host=host, port=port, user="asyncpg", database="thalweg")
    connection = await asyncpg.connect(**where)
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await connection.execute("DROP TABLE IF EXISTS async_orders CASCADE")
    await connection.execute(f"CREATE TABLE async_orders ({COLUMNS})")
    await connection.execute(
        "CREATE MATERIALIZED VIEW async_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM async_orders GROUP BY customer"
    )
    at = datetime.datetime(2024, 1, 31, 12, 0, 0, 500000, tzinfo=datetime.timezone.utc)
    row = (
        1, "ann", decimal.Decimal("1.50"), at, at.date(), True, ["a", None, "b,c"], uuid.UUID(int=7), {"deep": [1, None]},
        datetime.timedelta(days=1, seconds=2),
    )
    empty = (2,) + (None,) * 9
    await connection.executemany("INSERT INTO async_orders VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", [row, empty])
    found = [tuple(r) for r in await connection.fetch("SELECT * FROM async_orders ORDER BY id")]
    assert found == [row, empty], found
    assert await connection.fetchval("SELECT total FROM async_totals WHERE customer = $1", "ann") == decimal.Decimal("1.50")
    assert await connection.fetch("SELECT id FROM async_orders WHERE id = ANY($1)", [2, 3]) == [(2,)]
    # Types that the driver has to ask about first: it reads them from pg_type with its own query.
    assert await connection.fetchval("SELECT ROW(1, 'a'::text, NULL::int)") == (1, "a", None)
    statement = await connection.prepare("SELECT key, tags FROM async_orders WHERE id = $1")
    assert [a.type.name for a in statement.get_attributes()] == ["uuid", "text[]"]
    assert await statement.fetchrow(1) == (uuid.UUID(int=7), ["a", None, "b,c"])

    copied = await connection.copy_records_to_table("async_orders", records=[(n, "copied", at) for n in range(10, 110)], columns=["id", "customer", "at"])
    assert copied == "COPY 100", copied
    assert await connection.fetchval("SELECT n FROM async_totals WHERE customer = 'copied'") == 100

    async with connection.transaction():
        cursor = await connection.cursor("SELECT id FROM async_orders WHERE customer = $1 ORDER BY id", "copied")
        assert [r[0] for r in await cursor.fetch(3)] == [10, 11, 12]
        assert await cursor.fetchrow() == (13,)
        counted = 0
        async for _ in connection.cursor("SELECT id FROM async_orders", prefetch=30):
            counted += 1
        assert counted == 102, counted
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO async_orders (id) VALUES (500)")
            async with connection.transaction():
                await connection.execute("INSERT INTO async_orders (id) VALUES (1)")
        raise AssertionError("a key was taken twice")
    except asyncpg.UniqueViolationError as error:
        assert error.constraint_name == "async_orders_pkey"
    assert await connection.fetchval("SELECT count(*) FROM async_orders WHERE id = 500") == 0
    try:
        await connection.fetch("SELECT pg_sleep(600)", timeout=0.2)
        raise AssertionError("a statement goes on after its time")
    except asyncio.TimeoutError:
        assert await connection.fetchval("SELECT 1") == 1

    heard = asyncio.get_running_loop().create_future()
    await connection.add_listener("async_channel", lambda _connection, _pid, _channel, payload: heard.set_result(payload))
    # A pool resets its connections, after each use, by a query of four statements.
    async with asyncpg.create_pool(**where, min_size=2, max_size=4) as pool:
        counts = await asyncio.gather(*(pool.fetchval("SELECT count(*) FROM async_orders WHERE id = $1", n) for n in range(40)))
        assert sum(counts) == 32, counts
        await pool.execute("SELECT pg_notify('async_channel', 'hello')")
    assert await asyncio.wait_for(heard, 20) == "hello"
    await connection.execute("DROP TABLE async_orders CASCADE")
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
    print("asyncpg", asyncpg.__version__, "ok")
