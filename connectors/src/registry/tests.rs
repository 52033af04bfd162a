use super::*;
use crate::testing::{columns, spec};
use thalweg_catalog::object::{Encode, Include, MessagePart};

fn refused_source(spec: &ConnectorSpec) -> SqlError {
    source(spec, &columns(&[("a", "bigint")])).err().unwrap()
}

fn refused_sink(spec: &ConnectorSpec, mode: SinkMode, key: &[usize]) -> SqlError {
    sink(spec, &columns(&[("a", "bigint")]), mode, key, "k").err().unwrap()
}

#[test]
fn d21_an_unknown_connector_is_refused_with_the_nearest_one() {
    let error = refused_source(&spec("kafak", &[], Some(Encode::Json)));
    assert_eq!((error.state.code(), error.hint.as_deref()), ("22023", Some("Did you mean \"kafka\"?")));
    let error = refused_sink(&spec("blackhol", &[], None), SinkMode::AppendOnly, &[]);
    assert_eq!(error.hint.as_deref(), Some("Did you mean \"blackhole\"?"));
    assert_eq!(refused_source(&spec("print", &[], None)).state.code(), "0A000");
    assert_eq!(refused_sink(&spec("nexmark", &[], None), SinkMode::AppendOnly, &[]).state.code(), "0A000");
}

#[test]
fn an_encoding_must_fit_its_connector() {
    for (connector, encode, code) in [
        ("nexmark", Some(Encode::Json), "0A000"),
        ("datagen", Some(Encode::Csv), "0A000"),
        ("kafka", Some(Encode::Parquet), "0A000"),
        ("file", None, "22023"),
    ] {
        let options: &[(&str, &str)] = match connector {
            "kafka" => &[("topic", "t"), ("properties.bootstrap.server", "localhost:9092")],
            "file" => &[("path", "x")],
            _ => &[],
        };
        assert_eq!(refused_source(&spec(connector, options, encode)).state.code(), code, "{connector}");
    }
    for encode in [Encode::Json, Encode::Csv, Encode::Parquet] {
        assert!(source(&spec("file", &[("path", "x")], Some(encode)), &columns(&[("a", "bigint")])).is_ok());
        assert!(sink(&spec("file", &[("path", "x")], Some(encode)), &[], SinkMode::AppendOnly, &[], "k").is_ok());
    }
    assert_eq!(
        refused_sink(&spec("file", &[("path", "x")], Some(Encode::Bytes)), SinkMode::AppendOnly, &[]).state.code(),
        "0A000"
    );
    assert_eq!(refused_source(&spec("file", &[("path", "x")], Some(Encode::Bytes))).state.code(), "42P16");
    assert_eq!(refused_sink(&spec("print", &[], Some(Encode::Json)), SinkMode::AppendOnly, &[]).state.code(), "0A000");
}

#[test]
fn d21_unknown_and_meaningless_options_are_refused() {
    let file = |options: &[(&str, &str)]| refused_source(&spec("file", options, Some(Encode::Json)));
    assert_eq!(file(&[]).state.code(), "22023");
    assert_eq!(file(&[("path", "x"), ("folow", "true")]).hint.as_deref(), Some("Did you mean \"follow\"?"));
    assert_eq!(file(&[("path", "x"), ("compression", "gzpi")]).hint.as_deref(), Some("Did you mean \"gzip\"?"));
    assert_eq!(file(&[("path", "x"), ("discovery_interval", "1s")]).state.code(), "22023");
    assert_eq!(file(&[("path", "gs://bucket/x")]).state.code(), "0A000");
    assert_eq!(file(&[("path", "s3:///x")]).state.code(), "22023");
    assert_eq!(file(&[("path", "s3://b/x"), ("s3.endpoint", "http://localhost:1")]).state.code(), "22023");
    assert_eq!(refused_sink(&spec("blackhole", &[("x", "y")], None), SinkMode::AppendOnly, &[]).state.code(), "22023");
    let mut parquet = spec("file", &[("path", "x"), ("compression", "gzip")], Some(Encode::Parquet));
    assert_eq!(refused_source(&parquet).state.code(), "22023");
    parquet.options.remove("compression");
    parquet.encode_options.insert("header".into(), "true".into());
    assert_eq!(refused_source(&parquet).state.code(), "22023");
}

#[test]
fn sinks_say_what_shapes_they_take() {
    let error = refused_sink(&spec("file", &[("path", "x")], Some(Encode::Json)), SinkMode::Upsert, &[0]);
    assert_eq!((error.state.code(), error.hint.is_some()), ("0A000", true));
    assert_eq!(refused_sink(&spec("print", &[], None), SinkMode::Upsert, &[]).state.code(), "42P16");
    assert!(sink(&spec("print", &[], None), &columns(&[("a", "bigint")]), SinkMode::Upsert, &[0], "k").is_ok());
    for connector in ["print", "blackhole"] {
        assert!(sink(&spec(connector, &[], None), &columns(&[("a", "bigint")]), SinkMode::Changelog, &[], "k").is_ok());
    }
    for connector in ["file", "kafka"] {
        let error = refused_sink(&spec(connector, &[("path", "x")], Some(Encode::Json)), SinkMode::Changelog, &[]);
        assert_eq!((error.state.code(), error.hint.is_some()), ("0A000", true), "{connector}");
    }
}

#[test]
fn only_messages_have_something_to_include() {
    let mut given = spec("nexmark", &[("table", "bid")], None);
    given.includes.push(Include { column: 0, part: MessagePart::Key });
    assert_eq!(refused_source(&given).state.code(), "0A000");
}

#[test]
fn nexmark_knows_its_columns() {
    let of =
        |table: &str| default_columns("nexmark", &spec("nexmark", &[("table", table)], None).options).unwrap().unwrap().len();
    assert_eq!([of("person"), of("auction"), of("bid"), of("all")], [8, 10, 7, 4]);
    assert_eq!(default_columns("file", &Default::default()).unwrap(), None);
}
