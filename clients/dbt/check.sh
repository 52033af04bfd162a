#!/usr/bin/env bash
# check.sh DBT HOST PORT WORK: seeds, runs twice, tests and documents the project against a server, then looks at what is there.
set -euo pipefail
dbt=$1 host=$2 port=$3 work=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PGHOST=$host PGPORT=$port PGUSER=dbt PGDATABASE=thalweg
export DBT_PROFILES_DIR=$here DBT_PROJECT_DIR=$here DBT_TARGET_PATH=$work/target DBT_LOG_PATH=$work/logs DO_NOT_TRACK=1

sql() { psql -X -qAt -v ON_ERROR_STOP=1 -c "$1"; }

# expect WANTED QUERY: the query's rows are these.
expect() {
    local found
    found=$(sql "$2")
    [ "$found" = "$1" ] || { echo "dbt: $2 gives \"$found\", not \"$1\"" >&2; exit 1; }
}

run() { "$dbt" --quiet "$@"; }

sql "DROP SCHEMA IF EXISTS dbt_check CASCADE; DROP TABLE IF EXISTS dbt_orders CASCADE" 2>/dev/null
sql "CREATE TABLE dbt_orders (id int PRIMARY KEY, region_id int, amount numeric(10, 2), at timestamp, paid boolean)"
sql "INSERT INTO dbt_orders VALUES (1, 1, 1.50, '2024-01-31', true), (2, 2, 2.25, NULL, true), (3, 1, 9, NULL, false)"
run build
expect "north|1|1.50
south|1|2.25" "SELECT * FROM dbt_check.totals ORDER BY region"

# The view goes on by itself; tables are made anew, and grow, when dbt runs again.
sql "INSERT INTO dbt_orders VALUES (4, 1, 4, NULL, true)"
expect "north|2|5.50" "SELECT * FROM dbt_check.totals WHERE region = 'north'"
run build
run run --full-refresh
expect 3 "SELECT count(*) FROM dbt_check.kept"
expect 3 "SELECT count(*) FROM dbt_check.grown"
expect 7.75 "SELECT total FROM dbt_check.overview"
expect "Orders that are paid." "SELECT obj_description('dbt_check.paid_orders'::regclass)"
expect "The region's name, as in 'north'." "SELECT col_description('dbt_check.totals'::regclass, 1)"
run docs generate --no-compile
grep -q '"dbt_check".*"totals"' "$work/target/catalog.json"
sql "DROP SCHEMA dbt_check CASCADE; DROP TABLE dbt_orders CASCADE" 2>/dev/null
echo "dbt $(sed -n 's/^dbt-core==//p' "$here/../python/requirements.txt") ok"
