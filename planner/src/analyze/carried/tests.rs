use crate::testing::{columns_of, error, rows, value};

#[test]
fn values_have_one_text_and_their_type() {
    for (sql, expected) in [
        ("select inet '10.0.0.1/32', '10'::cidr", "10.0.0.1|10.0.0.0/8"),
        ("select '10'::bit(3), '1011'::bit(3), '1011'::varbit(2), B'101', X'1F', bit '11'", "100|101|10|101|00011111|11"),
        ("select '[1,5]'::int4range, ' empty'::daterange", "[1,6)|empty"),
        ("select '$5'::money::numeric + 1", "6.00"),
        ("select 5::money, 1.005::money", "$5.00|$1.01"),
        ("select '10.0.0.1'::inet::text, '10.0.0.1'::inet || '', concat('10.0.0.1'::inet)", "10.0.0.1/32|10.0.0.1/32|10.0.0.1"),
        ("select '10.0.0.1/32'::cidr::inet, '12:00+01'::timetz::time", "10.0.0.1|12:00:00"),
        ("select null::inet, coalesce(null, '1.1.1.1'::inet)", "-|1.1.1.1"),
        ("select '{1.1.1.1/32,null}'::inet[]", "[1.1.1.1, -]"),
    ] {
        assert_eq!(value(sql), expected, "{sql}");
    }
    for (sql, expected) in [
        ("select '1.1.1.1'::inet", "inet inet"),
        ("select '1.1.1.1'::inet::text", "text text"),
        ("select '1'::bit", "bit bit(1)"),
        ("select case when id = 1 then '1.1.1.1'::inet else '2.2.2.2' end as x from n", "x inet"),
        ("select coalesce('1.1.1.1'::inet, null) as x", "x inet"),
        ("select '1.1.1.1'::inet as x union select '2.2.2.2'::inet", "x inet"),
        ("select (select '1.1.1.1'::inet) as x", "x inet"),
        ("select '{1.1.1.1}'::inet[] as x", "x inet[]"),
    ] {
        let columns = columns_of(sql).unwrap_or_else(|e| panic!("{sql}: {e} {:?}", e.detail));
        assert_eq!(columns[0], expected, "{sql}");
    }
}

#[test]
fn equality_does_not_depend_on_what_was_written() {
    for (sql, expected) in [
        ("select '1.1.1.1/32' = '1.1.1.1'::inet, '1.1.1.1'::inet <> '1.1.1.1/32'", "true|false"),
        ("select '1.1.1.1/32'::cidr = '1.1.1.1'::inet", "true"),
        ("select '1.1.1.1'::inet in ('1.1.1.1/32'), '1.1.1.1/32' = any(array['1.1.1.1'::inet])", "true|true"),
        ("select '1.1.1.1'::inet = any('{1.1.1.1/32}'), '1.1.1.1'::inet = any(array['1.1.1.1/32'])", "true|true"),
        ("select case '1.1.1.1'::inet when '1.1.1.1/32' then 1 else 2 end, nullif('1.1.1.1'::inet, '1.1.1.1/32')", "1|-"),
        ("select '[1,2]'::int4range is not distinct from '[1,3)'", "true"),
    ] {
        assert_eq!(value(sql), expected, "{sql}");
    }
}

#[test]
fn values_are_in_their_own_order() {
    let sorted = |values: &str, of: &str| {
        rows(&format!("select v::{of} from (values {values}) as t(v) order by v::{of} desc")).expect("rows")
    };
    assert_eq!(sorted("('$2'), ('$10'), ('-$1')", "money"), ["$10.00", "$2.00", "-$1.00"]);
    assert_eq!(sorted("('9.0.0.1'), ('10.0.0.1'), ('10.0.0.0/8')", "inet"), ["10.0.0.1", "10.0.0.0/8", "9.0.0.1"]);
    assert_eq!(value("select '9.0.0.1'::inet < '10.0.0.1', '$9'::money between '$1' and '$10'"), "true|true");
    assert_eq!(value("select '2/0'::pg_lsn < '10/0', '[2,3)'::int4range < '[10,11)'"), "true|true");
    let ranked = "select row_number() over (order by v::money) as r from (values ('$10'), ('$2')) as t(v) order by v";
    assert_eq!(rows(ranked).expect("rows"), ["2", "1"]);
    let joined = "select array_to_string(array_agg(v order by v::money), ',') from (values ('$10'), ('$2')) as t(v)";
    assert_eq!(value(joined), "$2,$10");
}

#[test]
fn what_is_not_computed_is_refused() {
    for (sql, code) in [
        ("select '1.1.1.1'::inet = id from n", "42883"),
        ("select '1.1.1.1'::inet = s from n", "42883"),
        ("select '1.1.1.1'::inet = '08002b010203'::macaddr", "42883"),
        ("select '<a/>'::xml = '<a/>'", "42883"),
        ("select count(*) from n group by point '1,2'", "42883"),
        ("select distinct '<a/>'::xml from n", "42883"),
        ("select 1 from n order by 'a'::tsvector", "42883"),
        ("select 'a'::tsvector < 'b'::tsvector", "42883"),
        ("select max('1.1.1.1'::inet) from n", "0A000"),
        ("select upper('1.1.1.1'::inet)", "0A000"),
        ("select '1.1.1.1'::inet like '1%'", "0A000"),
        ("select greatest('1.1.1.1'::inet, '2.2.2.2'::inet)", "0A000"),
        ("select '1.1.1.1'::inet::int", "42846"),
        ("select 5::inet", "42846"),
        ("select true::money", "42846"),
        ("select '1.1.1.1'::inet::macaddr", "42846"),
        ("select case when true then '1.1.1.1'::inet else s end from n", "42804"),
        ("select '1.1.1.1'::inet union select s from n", "42804"),
        ("select array['1.1.1.1'::inet, s] from n", "42804"),
        ("select '12:00'::timetz(2)", "0A000"),
        ("select 'x'::inet", "22P02"),
        ("select inet 'x'", "22P02"),
        ("select uuid 'x'", "22P02"),
        ("select '{x}'::inet[]", "22P02"),
        ("select '1.1.1.1'::inet = 'x'", "22P02"),
    ] {
        let error = error(sql);
        assert_eq!(error.state.code(), code, "{sql}: {error}");
    }
}
