//! Functions on text that clients expect, and those that rewritten queries need.

use super::{Function, as_int, as_text, lenient, strict, text_at};
use crate::pg_catalog::relation::{Cell, Kind};
use crate::pg_catalog::types::{quoted, split_name};
use thalweg_catalog::{SqlError, SqlResult};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("quote_ident", Kind::Text, |_, args| Ok(text_at(args, 0).map(|text| quoted(&text)).into())),
    strict("quote_literal", Kind::Text, |_, args| Ok(text_at(args, 0).map(|text| literal(&text)).into())),
    lenient("quote_nullable", Kind::Text, |_, args| {
        Ok(text_at(args, 0).map_or_else(|| "NULL".to_string(), |text| literal(&text)).into())
    }),
    strict("parse_ident", Kind::TextArray, |_, args| {
        let (schema, name) = split_name(&text_at(args, 0).unwrap_or_default());
        Ok(schema.into_iter().chain([name]).collect::<Vec<String>>().into())
    }),
    lenient("format", Kind::Text, format),
    strict("pg_size_pretty", Kind::Text, |_, args| Ok(as_int(args.first()).map(size_pretty).into())),
    lenient("json_build_object", Kind::Text, json_build_object),
    lenient("jsonb_build_object", Kind::Text, json_build_object),
    lenient("_option_texts", Kind::TextArray, |_, args| {
        let options = match args.first() {
            Some(Cell::Texts(options)) => options.as_slice(),
            _ => &[],
        };
        let shown = options.iter().map(|option| match option.split_once('=') {
            Some((name, value)) => format!("{} {}", quoted(name), literal(value)),
            None => quoted(option),
        });
        Ok(shown.collect::<Vec<String>>().into())
    }),
    strict("_like_pattern", Kind::Text, |_, args| {
        let escape = text_at(args, 1).unwrap_or_default();
        Ok(text_at(args, 0).map(|pattern| with_backslashes(&pattern, &escape)).into())
    }),
];

fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// `%I`, `%L`, `%s` and `%%`; a place may be named as in `%1$I`.
fn format(_: &crate::pg_catalog::snapshot::SystemSnapshot, args: &[Cell]) -> SqlResult<Cell> {
    let Some(template) = text_at(args, 0) else { return Ok(Cell::Null) };
    let (mut out, mut next) = (String::new(), 1);
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        if !digits.is_empty() && chars.next_if_eq(&'$').is_some() {
            next = digits.parse().unwrap_or(1);
        }
        let specifier = chars.next();
        if specifier == Some('%') {
            out.push('%');
            continue;
        }
        let Some(arg) = args.get(next) else {
            return Err(SqlError::invalid_parameter("too few arguments for format()"));
        };
        next += 1;
        match (specifier, as_text(arg)) {
            (Some('s'), text) => out.push_str(&text.unwrap_or_default()),
            (Some('I'), Some(text)) => out.push_str(&quoted(&text)),
            (Some('L'), text) => out.push_str(&text.map_or_else(|| "NULL".to_string(), |text| literal(&text))),
            _ => return Err(SqlError::invalid_parameter("unrecognized format() type specifier")),
        }
    }
    Ok(out.into())
}

fn size_pretty(bytes: i64) -> String {
    let (mut value, mut unit) = (bytes, 0);
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    while value.abs() >= 10 * 1024 && unit + 1 < units.len() {
        value = (value + 512 * value.signum()) / 1024;
        unit += 1;
    }
    format!("{value} {}", units[unit])
}

fn json_build_object(_: &crate::pg_catalog::snapshot::SystemSnapshot, args: &[Cell]) -> SqlResult<Cell> {
    if !args.len().is_multiple_of(2) {
        return Err(SqlError::invalid_parameter("argument list must have even number of elements"));
    }
    let json = |cell: &Cell| match cell {
        Cell::Null => "null".to_string(),
        Cell::Bool(value) => value.to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::Float(value) => value.to_string(),
        other => serde_json::Value::from(as_text(other).unwrap_or_default()).to_string(),
    };
    let pairs = args.chunks(2).map(|pair| {
        let name = serde_json::Value::from(as_text(&pair[0]).unwrap_or_default());
        format!("{name} : {}", json(&pair[1]))
    });
    Ok(format!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")).into())
}

/// A LIKE pattern whose escape character is the backslash instead of `escape`.
fn with_backslashes(pattern: &str, escape: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if escape.starts_with(c) {
            out.push('\\');
            out.extend(chars.next());
        } else if c == '\\' {
            out.push_str("\\\\");
        } else {
            out.push(c);
        }
    }
    out
}
