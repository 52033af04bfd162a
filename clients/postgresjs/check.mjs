// postgres.js: connects, creates, inserts, reads; by named statements, by parts, through COPY, in transactions, and many at once.
//
// node check.mjs HOST PORT

import assert from 'node:assert';
import { readFileSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import postgres from 'postgres';

const [host, port] = [process.argv[2], Number(process.argv[3])];
const notices = [];
const sql = postgres({ host, port, user: 'postgresjs', database: 'thalweg', max: 4, onnotice: (notice) => notices.push(notice.message) });

await sql`DROP TABLE IF EXISTS js_orders CASCADE`;
assert.deepStrictEqual(notices, ['table "js_orders" does not exist, skipping']);
await sql`CREATE TABLE js_orders (id int PRIMARY KEY, customer text, amount double precision, at timestamptz, tags text[], note jsonb)`;
await sql`CREATE MATERIALIZED VIEW js_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM js_orders GROUP BY customer`;

// The driver asks the server which types the parameters have, and takes arrays as the server names them.
const at = new Date('2024-01-31T12:00:00.250Z');
const rows = [
  { id: 1, customer: 'ann', amount: 1.5, at, tags: ['a', 'b,c'], note: { deep: [1, null] } },
  { id: 2, customer: null, amount: 2, at: null, tags: [], note: null },
];
assert.deepStrictEqual([...(await sql`SELECT total FROM js_totals`)], []);
const inserted = await sql`INSERT INTO js_orders ${sql(rows)} RETURNING id`;
assert.deepStrictEqual([...inserted], [{ id: 1 }, { id: 2 }]);
assert.strictEqual(inserted.command, 'INSERT');
const all = await sql`SELECT * FROM js_orders ORDER BY id`;
assert.deepStrictEqual([...all], rows);
assert.deepStrictEqual([...(await sql`SELECT id FROM js_orders WHERE id IN ${sql([1, 3])}`)], [{ id: 1 }]);
assert.deepStrictEqual([...(await sql`SELECT id FROM js_orders WHERE id = ANY(${[2, 3]}::int[])`)], [{ id: 2 }]);
await sql`FLUSH`;
assert.deepStrictEqual([...(await sql`SELECT total FROM js_totals WHERE customer = ${'ann'}`)], [{ total: 1.5 }]);
assert.deepStrictEqual((await sql`SELECT id, customer FROM js_orders`.values()).count, 2);
assert.deepStrictEqual((await sql`SELECT id, tags FROM js_orders`.describe()).columns.map((c) => c.type), [23, 1009]);

// Many at once over few connections: statements wait in each connection's queue, sent before the one before is answered.
const many = await Promise.all(Array.from({ length: 100 }, (_, n) => sql`SELECT ${n}::int AS n`));
assert.deepStrictEqual(many.map((result) => result[0].n), Array.from({ length: 100 }, (_, n) => n));

const counted = [];
await sql`SELECT * FROM generate_series(1, 25) AS n`.cursor(10, (part) => { counted.push(part.length); });
assert.deepStrictEqual(counted, [10, 10, 5]);

// A transaction, with a savepoint that is taken back.
await sql.begin(async (sql) => {
  await sql`INSERT INTO js_orders (id, customer) VALUES (3, 'bob')`;
  await assert.rejects(sql.savepoint(async (sql) => {
    await sql`INSERT INTO js_orders (id, customer) VALUES (4, 'bob')`;
    await sql`INSERT INTO js_orders (id, customer) VALUES (4, 'bob')`;
  }), { code: '23505', table_name: 'js_orders', constraint_name: 'js_orders_pkey' });
});
// Another connection sees it a moment later; after FLUSH for sure.
await sql`FLUSH`;
assert.deepStrictEqual([...(await sql`SELECT n FROM js_totals WHERE customer = 'bob'`)], [{ n: '1' }]);

const lines = Readable.from(Array.from({ length: 1000 }, (_, n) => `${n + 100}\tcopied\n`));
await pipeline(lines, await sql`COPY js_orders (id, customer) FROM STDIN`.writable());
await sql`FLUSH`;
assert.deepStrictEqual([...(await sql`SELECT n FROM js_totals WHERE customer = 'copied'`)], [{ n: '1000' }]);
let text = '';
for await (const chunk of await sql`COPY (SELECT id FROM js_orders WHERE customer = 'copied' ORDER BY id LIMIT 3) TO STDOUT`.readable()) text += chunk;
assert.strictEqual(text, '100\n101\n102\n');

// A view's changes: each arrives before the next is made.
const feed = await sql`COPY (SUBSCRIBE TO js_totals WITH (snapshot = false)) TO STDOUT`.readable();
const changes = feed[Symbol.asyncIterator]();
for (const n of [1, 2, 3]) {
  await sql`INSERT INTO js_orders (id, customer) VALUES (${5000 + n}, 'followed')`;
  for (let came = ''; !came.includes(`\t1\tfollowed\t${n}\t`); ) came += (await changes.next()).value;
}

const heard = new Promise((resolve) => { sql.listen('js_channel', resolve, () => sql.notify('js_channel', 'hello')); });
assert.strictEqual(await heard, 'hello');

const slow = sql`SELECT pg_sleep(600)`.execute();
setTimeout(() => slow.cancel(), 200);
await assert.rejects(slow, { code: '57014' });
await assert.rejects(sql`SELECT * FROM nosuch`, { code: '42P01' });

await sql`DROP TABLE js_orders CASCADE`;
// The feed has no end of its own.
await sql.end({ timeout: 0 });
const about = JSON.parse(readFileSync(new URL('node_modules/postgres/package.json', import.meta.url)));
console.log('postgres.js', about.version, 'ok');
