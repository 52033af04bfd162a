// node-postgres: connects, creates, inserts, reads; prepared, in binary form, through a pool.
//
// node check.js HOST PORT

const assert = require('node:assert');
const { Client, Pool } = require('pg');

/** Reads a view's changes through a cursor while another connection writes: each comes before the next is written. */
async function follow(where, client) {
  const feed = new Client(where);
  await feed.connect();
  await feed.query('BEGIN');
  await feed.query('DECLARE feed CURSOR FOR SUBSCRIBE TO node_totals WITH (snapshot = false)');
  for (const n of ['1', '2', '3']) {
    await client.query(`INSERT INTO node_orders (id, customer) VALUES ($1, 'followed')`, [1000 + Number(n)]);
    for (let arrived = false; !arrived; ) {
      const { rows } = await feed.query('FETCH 1 feed');
      arrived = rows.some((row) => row.customer === 'followed' && row.n === n && Object.values(row)[1] === '1');
    }
  }
  await feed.query('ROLLBACK');
  await feed.end();
  await client.query(`DELETE FROM node_orders WHERE customer = 'followed'`);
}

async function main(host, port) {
  const where = { host, port, user: 'node', database: 'thalweg' };
  const client = new Client(where);
  await client.connect();
  await client.query('DROP TABLE IF EXISTS node_orders CASCADE');
  await client.query('CREATE TABLE node_orders (id int PRIMARY KEY, customer text, amount double precision, at timestamptz, paid boolean)');
  await client.query('CREATE MATERIALIZED VIEW node_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM node_orders GROUP BY customer');

  const insert = 'INSERT INTO node_orders VALUES ($1, $2, $3, $4, $5)';
  const at = new Date('2024-01-31T12:00:00.250Z');
  for (const row of [[1, 'ann', 1.5, at, true], [2, 'bob', 2, null, false], [3, 'ann', 4.25, at, null]]) {
    const result = await client.query(insert, row);
    assert.strictEqual(result.rowCount, 1);
  }
  const all = await client.query('SELECT * FROM node_orders ORDER BY id');
  assert.deepStrictEqual(all.rows[0], { id: 1, customer: 'ann', amount: 1.5, at, paid: true });
  assert.deepStrictEqual(all.rows[2].paid, null);

  for (let round = 0; round < 3; round++) {
    const named = await client.query({ name: 'by-customer', text: 'SELECT n, total FROM node_totals WHERE customer = $1', values: ['ann'] });
    assert.deepStrictEqual(named.rows, [{ n: '2', total: 5.75 }]);
  }
  const binary = await client.query({ text: 'SELECT id, customer, paid FROM node_orders WHERE id = $1', values: [2], binary: true });
  assert.deepStrictEqual(binary.rows, [{ id: 2, customer: 'bob', paid: false }]);

  const several = await client.query('SELECT 1 AS one; SELECT 2 AS two');
  assert.deepStrictEqual(several.map((result) => result.rows[0]), [{ one: 1 }, { two: 2 }]);

  await assert.rejects(client.query('SELECT * FROM nosuch'), { code: '42P01' });
  await assert.rejects(client.query('SELECT nosuch FROM node_orders'), { code: '42703', position: '8' });
  await assert.rejects(client.query('INSERT INTO node_orders (id) VALUES (1)'), { code: '23505' });

  await follow(where, client);

  await client.query('BEGIN');
  await client.query('SELECT 1');
  await client.query('COMMIT');

  const pool = new Pool({ ...where, max: 4 });
  const counts = await Promise.all(Array.from({ length: 20 }, () => pool.query('SELECT count(*) AS n FROM node_orders')));
  assert(counts.every((result) => result.rows[0].n === '3'));
  await pool.end();

  await client.query('DROP TABLE node_orders CASCADE');
  await client.end();
  console.log('node-postgres', require('pg/package.json').version, 'ok');
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
