//! Every form of statement, and what is said to those that are none.

use super::parse;
use crate::statement::*;
use thalweg_catalog::object::{Emit, Encode, MessagePart};
use thalweg_catalog::{ObjectKind, SqlError};

fn one(sql: &str) -> Statement {
    let mut statements = parse(sql).unwrap_or_else(|e| panic!("{sql}: {e} at {:?} {:?}", e.position, e.detail));
    assert_eq!(statements.len(), 1, "{sql}");
    statements.remove(0).statement
}

fn fails(sql: &str) -> SqlError {
    match parse(sql) {
        Err(error) => error,
        Ok(statements) => panic!("{sql} was read as {statements:?}"),
    }
}

/// The error's code, position and message.
fn shown(error: &SqlError) -> String {
    let position = error.position.map_or("-".into(), |p| p.to_string());
    format!("{} {position} {}", error.state.code(), error.message)
}

#[test]
fn statements_about_rights_are_read() {
    for (sql, tag) in [
        (
            "create role x with superuser nocreatedb login connection limit 3 encrypted password 'p' valid until 'infinity'",
            "CREATE ROLE",
        ),
        ("create user x in role a, b admin c", "CREATE ROLE"),
        ("create group x", "CREATE ROLE"),
        ("alter user current_user password null", "ALTER ROLE"),
        ("alter role x set search_path to a, b", "ALTER ROLE"),
        ("alter role x reset all", "ALTER ROLE"),
        ("alter role x rename to y", "ALTER ROLE"),
        ("drop user if exists x, y", "DROP ROLE"),
        ("grant a, b to c, session_user with admin option", "GRANT ROLE"),
        ("revoke admin option for a from b cascade", "REVOKE ROLE"),
        ("revoke a from b", "REVOKE ROLE"),
        ("grant select, insert (a, b), all privileges on table t, s.u to public, group c with grant option", "GRANT"),
        ("grant usage on schema s to x granted by current_user", "GRANT"),
        ("grant execute on function pg_catalog.f(int, text) to x", "GRANT"),
        ("grant all on all tables in schema s to x", "GRANT"),
        ("grant connect, temp on database d to x", "GRANT"),
        ("grant usage on secret k to x", "GRANT"),
        ("grant select on secret to x", "GRANT"),
        ("revoke grant option for select on t from x restrict", "REVOKE"),
        ("alter default privileges for role x in schema s grant select on tables to y", "ALTER DEFAULT PRIVILEGES"),
        ("alter default privileges revoke all on schemas from public", "ALTER DEFAULT PRIVILEGES"),
        ("alter table t owner to current_role", "ALTER TABLE"),
        ("alter schema s owner to x", "ALTER SCHEMA"),
        ("reassign owned by x, y to z", "REASSIGN OWNED"),
        ("drop owned by x cascade", "DROP OWNED"),
        ("alter table t no force row level security", "ALTER TABLE"),
        ("create policy p on t as restrictive for select to x using (a = (select 1))", "CREATE POLICY"),
        ("alter policy p on t to public", "ALTER POLICY"),
        ("drop policy if exists p on s.t", "DROP POLICY"),
        ("create secret if not exists k as 'v'", "CREATE SECRET"),
        ("drop secret if exists k", "DROP SECRET"),
        ("create schema authorization x", "CREATE SCHEMA"),
    ] {
        assert_eq!(one(sql).tag(), tag, "{sql}");
    }
}

#[test]
fn no_password_or_secret_is_printed() {
    for sql in ["create role x password 'hush'", "alter role x password 'hush'", "create secret k as 'hush'"] {
        let statement = one(sql);
        assert!(!format!("{statement:?}").contains("hush"), "{sql}");
        assert!(matches!(statement, Statement::Access(access) if access.holds_secret()), "{sql}");
    }
}

#[test]
fn every_form_of_statement_is_read() {
    for (sql, tag) in [
        ("select 1", "SELECT"),
        ("(select 1) union all (select 2)", "SELECT"),
        ("with a as (select 1) select * from a", "SELECT"),
        ("values (1), (2)", "SELECT"),
        ("table t", "SELECT"),
        ("insert into t values (1, default)", "INSERT"),
        ("insert into t (a) select 1 returning a", "INSERT"),
        ("insert into t default values", "INSERT"),
        ("update t set a = 1 where b returning *", "UPDATE"),
        ("delete from t using u where t.a = u.a", "DELETE"),
        ("create source s (a int) with (connector = 'kafka')", "CREATE SOURCE"),
        ("create table if not exists t (a int primary key, b text default 'x' not null)", "CREATE TABLE"),
        ("create local temporary table t (a int) on commit preserve rows", "CREATE TABLE"),
        ("create table if not exists t (a, b) as (select 1, 2) with no data", "CREATE TABLE AS"),
        ("create temp table t on commit preserve rows as table u with data", "CREATE TABLE AS"),
        ("create view v as select 1", "CREATE VIEW"),
        ("create materialized view v (a) as select 1", "CREATE MATERIALIZED VIEW"),
        ("create sink k from v with (connector = 'print')", "CREATE SINK"),
        ("create schema if not exists s", "CREATE SCHEMA"),
        ("drop materialized view if exists a, b.c cascade", "DROP MATERIALIZED VIEW"),
        ("drop source a restrict", "DROP SOURCE"),
        ("drop schema s", "DROP SCHEMA"),
        ("create type s.t as enum ('a', 'b')", "CREATE TYPE"),
        ("create type t as enum ()", "CREATE TYPE"),
        ("alter type t add value if not exists 'c' before 'b'", "ALTER TYPE"),
        ("alter type t owner to ada", "ALTER TYPE"),
        ("drop type if exists t, s.u cascade", "DROP TYPE"),
        ("comment on type t is 'it'", "COMMENT"),
        ("alter view v rename to w", "ALTER VIEW"),
        ("alter materialized view v rename to w", "ALTER MATERIALIZED VIEW"),
        ("comment on materialized view v is $tag$it's$tag$", "COMMENT"),
        ("comment on column s.t.c is null", "COMMENT"),
        ("explain select 1", "EXPLAIN"),
        ("explain (logical, format json) create materialized view v as select 1", "EXPLAIN"),
        ("explain analyze verbose select 1", "EXPLAIN"),
        ("explain (select 1)", "EXPLAIN"),
        ("describe t", "DESCRIBE"),
        ("flush;", "FLUSH"),
        ("cancel job v", "CANCEL JOB"),
        ("cancel job 16390", "CANCEL JOB"),
        ("alter system set checkpoint_interval = '2s'", "ALTER SYSTEM"),
        ("set session authorization default", "SET"),
        ("reset all", "RESET"),
        ("begin work isolation level serializable, read only not deferrable", "BEGIN"),
        ("start transaction read write", "START TRANSACTION"),
        ("commit and no chain", "COMMIT"),
        ("end", "COMMIT"),
        ("abort", "ROLLBACK"),
        ("rollback to savepoint x", "ROLLBACK"),
        ("savepoint x", "SAVEPOINT"),
        ("release x", "RELEASE"),
        ("set transaction isolation level repeatable read", "SET"),
        ("set session characteristics as transaction read only", "SET"),
        ("declare c no scroll cursor with hold for select 1", "DECLARE CURSOR"),
        ("declare c cursor for subscribe to v with (snapshot = false, progress)", "DECLARE CURSOR"),
        ("move 3 in c", "MOVE"),
        ("close all", "CLOSE CURSOR ALL"),
        ("prepare p (int, text) as select $1, $2", "PREPARE"),
        ("execute p (1, 'x')", "EXECUTE"),
        ("deallocate prepare p", "DEALLOCATE"),
        ("deallocate all", "DEALLOCATE ALL"),
        ("discard all", "DISCARD ALL"),
        ("discard temporary", "DISCARD TEMP"),
        ("listen c", "LISTEN"),
        ("truncate table only a, s.b restart identity cascade", "TRUNCATE TABLE"),
        ("refresh materialized view concurrently s.v with data", "REFRESH MATERIALIZED VIEW"),
        ("unlisten *", "UNLISTEN"),
        ("notify c, 'hello'", "NOTIFY"),
        ("copy t (a, b) from stdin", "COPY"),
        ("copy t from stdin with (format csv, header, delimiter ';', null '')", "COPY"),
        ("copy (select 1) to stdout (format binary)", "COPY"),
        ("copy (subscribe v with (snapshot = false)) to stdout", "COPY"),
        ("copy t to stdout csv header", "COPY"),
        ("subscribe to v", "SUBSCRIBE"),
        ("subscribe (select * from v)", "SUBSCRIBE"),
    ] {
        assert_eq!(one(sql).tag(), tag, "{sql}");
    }
}

#[test]
fn texts_are_split_into_statements_with_their_places() {
    let statements = parse("-- first\nselect 1 ;; /* x; */ select 'a;b' -- end\n;").expect("two statements");
    let shown: Vec<(&str, usize)> = statements.iter().map(|s| (s.text.as_str(), s.offset)).collect();
    assert_eq!(shown, [("select 1", 9), ("select 'a;b'", 30)]);
    assert!(parse("").expect("nothing").is_empty());
    assert!(parse(" ; -- only a comment\n /* and one */ ;").expect("nothing").is_empty());
}

#[test]
fn places_count_characters_of_the_whole_text() {
    assert_eq!(shown(&fails("select 'ä';\nselec 1")), "42601 13 syntax error at or near \"selec\"");
    assert_eq!(shown(&fails("select 1; select from where")), "42601 23 syntax error at or near \"where\"");
}

#[test]
fn syntax_errors_name_the_token_at_fault() {
    for (sql, expected) in [
        ("selec 1", "42601 1 syntax error at or near \"selec\""),
        ("select 1 +", "42601 11 syntax error at end of input"),
        ("select * from t where", "42601 22 syntax error at end of input"),
        ("select (1", "42601 10 syntax error at end of input"),
        ("select 1 2", "42601 10 syntax error at or near \"2\""),
        ("insert into", "42601 12 syntax error at end of input"),
        ("create table", "42601 13 syntax error at end of input"),
        ("create table t (a)", "42601 18 syntax error at or near \")\""),
        ("create source s (a int) with (connector 'kafka')", "42601 41 syntax error at or near \"'kafka'\""),
        ("create materialized view v select 1", "42601 28 syntax error at or near \"select\""),
        ("create materialized view v as selec 1", "42601 31 syntax error at or near \"selec\""),
        ("create materialized view v as select 1 from t emit on window clos", "42601 62 syntax error at or near \"clos\""),
        ("drop table", "42601 11 syntax error at end of input"),
        ("drop table a b", "42601 14 syntax error at or near \"b\""),
        ("set x", "42601 6 syntax error at end of input"),
        ("begin isolation level foo", "42601 23 syntax error at or near \"foo\""),
        ("copy t", "42601 7 syntax error at end of input"),
        ("select 'abc", "42601 8 unterminated quoted string at or near \"'abc\""),
        ("fetch", "42601 6 syntax error at end of input"),
    ] {
        match parse(sql) {
            Err(error) => assert_eq!(shown(&error), expected, "{sql}"),
            Ok(_) => panic!("{sql} was read"),
        }
    }
}

#[test]
fn what_is_not_there_is_refused_with_a_hint() {
    for (sql, position) in [
        ("create or replace view v as select 1", 8),
        ("create index i on t (a)", 8),
        ("create temp view v as select 1", 8),
        ("create unlogged table t (a int)", 8),
        ("create temp table t (a int) on commit drop", 29),
        ("create table t (a int) on commit preserve rows", 24),
        ("create materialized view v as select 1 with no data", 40),
        ("vacuum t", 1),
        ("lock table t", 1),
        ("alter table t add column c int", 15),
        ("commit prepared 'x'", 8),
        ("copy t from '/etc/passwd'", 13),
        ("create table t (a int unique)", 19),
        ("create table t (a int, foreign key (a) references u)", 24),
        ("create source s (a int) format upsert encode json", 32),
        ("create source s (a int) format plain encode avro", 45),
        ("with a as (select 1) insert into t select * from a", 1),
    ] {
        let error = fails(sql);
        assert_eq!((error.state.code(), error.position), ("0A000", Some(position)), "{sql}: {error}");
    }
    let hint = fails("create materialized view v as select 1 with no data").hint;
    assert_eq!(hint.as_deref(), Some("A materialized view always holds its query's result."));
}

#[test]
fn create_source_is_read_whole() {
    let sql = "CREATE SOURCE IF NOT EXISTS app.\"Bids\" (
        auction BIGINT, \"dateTime\" TIMESTAMP NOT NULL, price NUMERIC(10,2),
        WATERMARK FOR \"dateTime\" AS \"dateTime\" - INTERVAL '5 seconds'
    ) INCLUDE key AS k INCLUDE timestamp
    WITH (connector = 'kafka', properties.bootstrap.server = 'localhost:9092', batch = 100, follow = true)
    FORMAT PLAIN ENCODE JSON (strict = 'false')";
    let Statement::CreateSource(create) = one(sql) else { panic!("a source") };
    assert_eq!((create.name.schema.as_deref(), create.name.name.as_str(), create.if_not_exists), (Some("app"), "Bids", true));
    let columns: Vec<(&str, bool)> = create.columns.iter().map(|c| (c.name.value.as_str(), c.not_null)).collect();
    assert_eq!(columns, [("auction", false), ("dateTime", true), ("price", false)]);
    assert_eq!(create.watermark.expect("a watermark").column.value, "dateTime");
    let includes: Vec<_> = create.includes.iter().map(|i| (i.part, i.name.as_ref().map(|n| n.value.as_str()))).collect();
    assert_eq!(includes, [(MessagePart::Key, Some("k")), (MessagePart::Timestamp, None)]);
    let options: Vec<_> = create.options.iter().map(|o| (o.name.value.as_str(), o.value.as_str())).collect();
    assert_eq!(
        options,
        [("connector", "kafka"), ("properties.bootstrap.server", "localhost:9092"), ("batch", "100"), ("follow", "true")]
    );
    let format = create.format.expect("a format");
    assert_eq!((format.encode, format.options.len()), (Encode::Json, 1));
}

#[test]
fn clauses_after_a_query_are_not_taken_for_aliases() {
    let sql = "CREATE MATERIALIZED VIEW v AS SELECT a FROM t EMIT ON WINDOW CLOSE WITH (memory = '512MB')";
    let Statement::CreateMaterializedView(create) = one(sql) else { panic!("a view") };
    assert_eq!((create.emit, create.query.text.as_str()), (Emit::OnWindowClose, "SELECT a FROM t"));
    assert_eq!(create.options[0].value, "512MB");
    let sql = "CREATE SINK k AS SELECT a FROM t WITH (connector = 'file', type = 'upsert') FORMAT PLAIN ENCODE CSV";
    let Statement::CreateSink(create) = one(sql) else { panic!("a sink") };
    let SinkInput::Query(query) = &create.input else { panic!("a query") };
    assert_eq!((query.text.as_str(), create.options.len(), create.format.is_some()), ("SELECT a FROM t", 2, true));
    let sql = "create materialized view v as with a as (select 1 as x) select * from a emit on window close";
    let Statement::CreateMaterializedView(create) = one(sql) else { panic!("a view") };
    assert_eq!(create.query.text, "with a as (select 1 as x) select * from a");
}

#[test]
fn settings_are_read_in_all_forms() {
    let set = |sql: &str| match one(sql) {
        Statement::Set(set) => (set.scope, set.name.clone().unwrap_or("all".into()), set.value()),
        other => panic!("{sql}: {other:?}"),
    };
    let session = |name: &str, value: Option<&str>| (SetScope::Session, name.to_string(), value.map(String::from));
    assert_eq!(set("SET search_path TO app, \"Public\""), session("search_path", Some("app, Public")));
    assert_eq!(set("SET DateStyle = 'ISO'"), session("datestyle", Some("ISO")));
    assert_eq!(set("set extra_float_digits = -3"), session("extra_float_digits", Some("-3")));
    assert_eq!(set("set x.y = on"), session("x.y", Some("on")));
    assert_eq!(set("set session timezone to default"), session("timezone", None));
    assert_eq!(set("SET TIME ZONE 'Europe/Berlin'"), session("timezone", Some("Europe/Berlin")));
    assert_eq!(set("SET TIME ZONE LOCAL"), session("timezone", None));
    assert_eq!(set("SET NAMES 'UTF8'"), session("client_encoding", Some("UTF8")));
    assert_eq!(set("RESET ALL"), session("all", None));
    assert_eq!(set("set local statement_timeout = 0"), (SetScope::Local, "statement_timeout".into(), Some("0".into())));
    assert_eq!(set("alter system reset x"), (SetScope::System, "x".into(), None));
}

#[test]
fn show_tells_lists_from_settings() {
    let show = |sql: &str| match one(sql) {
        Statement::Show(show) => show,
        other => panic!("{sql}: {other:?}"),
    };
    let objects = |kind| Show::Objects { kind, schema: None, like: None };
    assert_eq!(show("show tables"), objects(ObjectKind::Table));
    assert_eq!(show("SHOW MATERIALIZED VIEWS"), objects(ObjectKind::MaterializedView));
    assert_eq!(
        show("show sources from app like 'a%'"),
        Show::Objects { kind: ObjectKind::Source, schema: Some("app".into()), like: Some("a%".into()) }
    );
    assert_eq!(show("show jobs"), Show::Jobs);
    assert_eq!(show("show all"), Show::AllSettings);
    assert_eq!(show("show transaction isolation level"), Show::Setting("transaction_isolation".into()));
    assert_eq!(show("show TimeZone"), Show::Setting("timezone".into()));
    assert_eq!(show("show time zone"), Show::Setting("timezone".into()));
    let Show::Create(kind, name) = show("show create materialized view v") else { panic!("a definition") };
    assert_eq!((kind, name.name.as_str()), (ObjectKind::MaterializedView, "v"));
}

#[test]
fn fetch_is_read_in_all_forms() {
    use FetchDirection::*;
    let fetch = |sql: &str| match one(sql) {
        Statement::Fetch { direction, cursor, .. } => (direction, cursor.value),
        other => panic!("{sql}: {other:?}"),
    };
    for (sql, direction) in [
        ("fetch c", Forward(1)),
        ("fetch next c", Forward(1)),
        ("fetch next from c", Forward(1)),
        ("fetch prior in c", Forward(-1)),
        ("fetch first from c", Absolute(1)),
        ("fetch last from c", Absolute(-1)),
        ("fetch absolute -2 from c", Absolute(-2)),
        ("fetch relative 3 from c", Relative(3)),
        ("fetch 5 c", Forward(5)),
        ("fetch 100 in c", Forward(100)),
        ("fetch all from c", ForwardAll),
        ("fetch forward c", Forward(1)),
        ("fetch forward 7 from c", Forward(7)),
        ("fetch forward all from c", ForwardAll),
        ("fetch backward from c", Forward(-1)),
        ("fetch backward 2 c", Forward(-2)),
        ("fetch backward all in c", BackwardAll),
        ("fetch from c", Forward(1)),
    ] {
        assert_eq!(fetch(sql), (direction, "c".to_string()), "{sql}");
    }
    assert_eq!(fetch("fetch next"), (Forward(1), "next".to_string()));
}

#[test]
fn copy_options_are_checked() {
    let options = |sql: &str| match one(sql) {
        Statement::Copy(copy) => copy.options,
        other => panic!("{sql}: {other:?}"),
    };
    let csv = options("copy t to stdout with (format 'csv', header true, quote '''', encoding 'utf-8')");
    assert_eq!((csv.format, csv.header, csv.quote.as_deref()), (CopyFormat::Csv, true, Some("'")));
    assert_eq!(options("copy t from stdin delimiter as '|' null as 'x'").delimiter.as_deref(), Some("|"));
    assert_eq!(options("copy binary t to stdout").format, CopyFormat::Binary);
    for (sql, code) in [
        ("copy t to stdout (format xml)", "22023"),
        ("copy t to stdout (formt csv)", "42601"),
        ("copy t to stdout (delimiter 'ab')", "0A000"),
        ("copy t to stdout (format binary, header)", "42601"),
        ("copy t to stdout (encoding 'latin1')", "0A000"),
    ] {
        assert_eq!(fails(sql).state.code(), code, "{sql}");
    }
    assert_eq!(fails("copy t to stdout (formt csv)").hint.as_deref(), Some("Did you mean \"format\"?"));
}

#[test]
fn deep_nesting_is_refused_rather_than_overflowing_the_stack() {
    let sql = format!("select {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(fails(&sql).state.code(), "54001");
}

#[test]
fn names_fold_to_lower_case_unless_quoted() {
    let Statement::Drop(drop) = one("DROP TABLE Foo, \"Foo\", Db.App.T") else { panic!("a drop") };
    let names: Vec<_> = drop.names.iter().map(|n| (n.schema.as_deref(), n.name.as_str(), n.position)).collect();
    assert_eq!(names, [(None, "foo", 12), (None, "Foo", 17), (Some("app"), "t", 24)]);
}
