// pgx: connects, creates, inserts, reads; prepared and in binary form, in batches, by COPY, through a pool, with pgx's other ways to
// send a query, and follows a view as it changes.
//
// THALWEG_URL=postgres://… go test
package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

func connect(t *testing.T, options string) *pgx.Conn {
	t.Helper()
	connection, err := pgx.Connect(context.Background(), os.Getenv("THALWEG_URL")+options)
	must(t, err)
	t.Cleanup(func() { must(t, connection.Close(context.Background())) })
	return connection
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, found, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(found, wanted) {
		t.Fatalf("found %#v, not %#v", found, wanted)
	}
}

// fresh makes the table and the view over it, under names of the test's own.
func fresh(t *testing.T, connection *pgx.Conn, name string) {
	t.Helper()
	for _, statement := range []string{
		"DROP TABLE IF EXISTS %s CASCADE",
		"CREATE TABLE %s (id bigint PRIMARY KEY, customer text, amount numeric(10, 2), at timestamptz, paid boolean, tags text[])",
		"CREATE MATERIALIZED VIEW %[1]s_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM %[1]s GROUP BY customer",
	} {
		_, err := connection.Exec(context.Background(), fmt.Sprintf(statement, name))
		must(t, err)
	}
	t.Cleanup(func() {
		_, err := connection.Exec(context.Background(), "DROP TABLE "+name+" CASCADE")
		must(t, err)
	})
}

type order struct {
	ID       int64
	Customer *string
	Amount   pgtype.Numeric
	At       *time.Time
	Paid     *bool
	Tags     []string
}

func TestRowsComeBackAsTheyWereWritten(t *testing.T) {
	ctx := context.Background()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			connection := connect(t, "&default_query_exec_mode="+mode)
			fresh(t, connection, "go_orders")
			at, paid, ann := time.Date(2024, 1, 31, 12, 0, 0, 500_000_000, time.UTC), true, "ann"
			var amount pgtype.Numeric
			must(t, amount.Scan("1.50"))
			tags := []string{"a", "b,c", `"`}
			tag, err := connection.Exec(ctx, "INSERT INTO go_orders VALUES ($1, $2, $3, $4, $5, $6)", int64(1), ann, amount, at, paid, tags)
			must(t, err)
			expect(t, tag.String(), "INSERT 0 1")
			_, err = connection.Exec(ctx, "INSERT INTO go_orders VALUES ($1, $2, $3, $4, $5, $6)", int64(2), nil, nil, nil, nil, nil)
			must(t, err)
			rows, err := connection.Query(ctx, "SELECT * FROM go_orders WHERE id <= $1 ORDER BY id", int64(5))
			must(t, err)
			found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[order])
			must(t, err)
			expect(t, len(found), 2)
			expect(t, found[0].At.UTC(), at)
			expect(t, []any{*found[0].Customer, *found[0].Paid, found[0].Tags}, []any{ann, true, tags})
			text, err := found[0].Amount.Value()
			must(t, err)
			expect(t, text, "1.50")
			expect(t, found[1], order{ID: 2})
			var n int64
			must(t, connection.QueryRow(ctx, "SELECT n FROM go_orders_totals WHERE customer = $1", "ann").Scan(&n))
			expect(t, n, int64(1))
		})
	}
}

func TestABatchIsAnsweredInItsOrder(t *testing.T) {
	ctx := context.Background()
	connection := connect(t, "")
	fresh(t, connection, "go_batch")
	batch := &pgx.Batch{}
	for id := range 20 {
		batch.Queue("INSERT INTO go_batch (id, customer) VALUES ($1, $2)", id, fmt.Sprint("c", id%2))
	}
	batch.Queue("SELECT count(*) FROM go_batch")
	results := connection.SendBatch(ctx, batch)
	for range 20 {
		tag, err := results.Exec()
		must(t, err)
		expect(t, tag.RowsAffected(), int64(1))
	}
	var n int64
	must(t, results.QueryRow().Scan(&n))
	expect(t, n, int64(20))
	must(t, results.Close())
}

func TestCopyTakesRowsInBinaryForm(t *testing.T) {
	ctx := context.Background()
	connection := connect(t, "")
	fresh(t, connection, "go_copied")
	rows := [][]any{}
	for id := range 100 {
		rows = append(rows, []any{int64(id), "copied", time.Unix(int64(id), 0)})
	}
	n, err := connection.CopyFrom(ctx, pgx.Identifier{"go_copied"}, []string{"id", "customer", "at"}, pgx.CopyFromRows(rows))
	must(t, err)
	expect(t, n, int64(100))
	must(t, connection.QueryRow(ctx, "SELECT n FROM go_copied_totals").Scan(&n))
	expect(t, n, int64(100))
}

func TestErrorsCarryTheirState(t *testing.T) {
	connection := connect(t, "")
	fresh(t, connection, "go_errors")
	for statement, state := range map[string]string{
		"SELECT * FROM nosuch":                       "42P01",
		"SELECT nosuch FROM go_errors":               "42703",
		"SELECT 1 / 0":                               "22012",
		"INSERT INTO go_errors (id) VALUES (1), (1)": "23505",
	} {
		_, err := connection.Exec(context.Background(), statement)
		var failed *pgconn.PgError
		if !errors.As(err, &failed) || failed.Code != state {
			t.Fatalf("%s: %v, not %s", statement, err, state)
		}
	}
}

func TestACancelledContextEndsTheStatement(t *testing.T) {
	connection, err := pgx.Connect(context.Background(), os.Getenv("THALWEG_URL"))
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err = connection.Exec(ctx, "SELECT pg_sleep(600)")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestATransactionIsSeenWholeOrNotAtAll(t *testing.T) {
	ctx := context.Background()
	connection, other := connect(t, ""), connect(t, "")
	fresh(t, connection, "go_transactions")
	boom := errors.New("boom")
	count := func(c *pgx.Conn) (n int64) {
		must(t, c.QueryRow(ctx, "SELECT count(*) FROM go_transactions").Scan(&n))
		return n
	}
	err := pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO go_transactions (id) VALUES (1)")
		must(t, err)
		// A transaction inside a transaction is a savepoint.
		inner := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO go_transactions (id) VALUES (2)")
			must(t, err)
			return boom
		})
		expect(t, inner, boom)
		expect(t, count(other), int64(0))
		return nil
	})
	must(t, err)
	expect(t, count(connection), int64(1))
}

func TestAPoolServesManyAtOnce(t *testing.T) {
	ctx := context.Background()
	fresh(t, connect(t, ""), "go_pooled")
	pool, err := pgxpool.New(ctx, os.Getenv("THALWEG_URL")+"&pool_max_conns=8")
	must(t, err)
	defer pool.Close()
	done := make(chan error)
	for id := range 64 {
		go func() {
			_, err := pool.Exec(ctx, "INSERT INTO go_pooled (id, customer) VALUES ($1, 'pooled')", id)
			done <- err
		}()
	}
	for range 64 {
		must(t, <-done)
	}
	var n int64
	must(t, pool.QueryRow(ctx, "SELECT n FROM go_pooled_totals").Scan(&n))
	expect(t, n, int64(64))
}

// lines hands on what COPY sends, as it comes.
type lines chan string

func (l lines) Write(bytes []byte) (int, error) {
	for _, line := range strings.Split(strings.TrimSuffix(string(bytes), "\n"), "\n") {
		l <- line
	}
	return len(bytes), nil
}

func TestChangesArriveAsTheyHappen(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	connection := connect(t, "")
	fresh(t, connection, "go_followed")
	feed, err := pgx.Connect(ctx, os.Getenv("THALWEG_URL"))
	must(t, err)
	came := make(lines, 100)
	go func() {
		_, err := feed.PgConn().CopyTo(ctx, came, "COPY (SUBSCRIBE TO go_followed_totals WITH (snapshot = false)) TO STDOUT")
		came <- fmt.Sprint("ended: ", err)
	}()
	for id := 1; id <= 3; id++ {
		_, err := connection.Exec(ctx, "INSERT INTO go_followed (id, customer) VALUES ($1, 'ann')", id)
		must(t, err)
		// The old count goes and the new one comes, before the next row is written.
		for gone, here := id == 1, false; !gone || !here; {
			select {
			case line := <-came:
				fields := strings.Split(line, "\t")
				gone = gone || reflect.DeepEqual(fields[1:4], []string{"-1", "ann", fmt.Sprint(id - 1)})
				here = here || reflect.DeepEqual(fields[1:4], []string{"1", "ann", fmt.Sprint(id)})
			case <-time.After(20 * time.Second):
				t.Fatal("a change did not arrive")
			}
		}
	}
}
