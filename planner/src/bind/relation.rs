//! `CREATE SOURCE` and `CREATE TABLE`.

use super::{BindContext, columns, place_name, take_connector, take_duration};
use crate::rewrite::interval_micros;
use crate::statement::{CreateRelation, IncludeClause, WatermarkClause, Word, options_map};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use std::collections::BTreeMap;
use thalweg_catalog::object::{ConnectorSpec, Include, MessagePart, WatermarkSpec};
use thalweg_catalog::{CatalogObject, Column, ObjectDefinition, SqlError, SqlResult, SqlState, SqlType};

/// The source that `CREATE SOURCE` declares; none if its name is taken and that is fine.
///
/// # Errors
/// Whatever is wrong with its name, columns, watermark, options.
pub fn bind_create_source(create: &CreateRelation, context: &BindContext<'_>) -> SqlResult<Option<CatalogObject>> {
    let Some((schema, name)) = place_name(&create.name, create.if_not_exists, context)? else { return Ok(None) };
    if let Some(key) = create.primary_key.as_ref().and_then(|key| key.first()) {
        return Err(source_key().at(key.position));
    }
    if let Some(column) = create.columns.iter().find(|c| c.primary_key) {
        return Err(source_key().at(column.name.position));
    }
    let (columns, connector, watermark) = connected(create, "source", context)?;
    let definition = ObjectDefinition::Source { connector, watermark };
    Ok(Some(object(schema, name, columns, definition, context)))
}

fn source_key() -> SqlError {
    SqlError::unsupported("a source has no PRIMARY KEY")
        .with_hint("Use CREATE TABLE … WITH (connector = '…') to keep one row for each key.")
}

/// The table that `CREATE TABLE` declares; none if its name is taken and that is fine.
///
/// # Errors
/// Whatever is wrong with its name, columns, key, watermark, options.
pub fn bind_create_table(create: &CreateRelation, context: &BindContext<'_>) -> SqlResult<Option<CatalogObject>> {
    let Some((schema, name)) = place_name(&create.name, create.if_not_exists, context)? else { return Ok(None) };
    let is_connected = create.options.iter().any(|o| o.name.value == "connector");
    if is_connected {
        let (columns, connector, watermark) = connected(create, "table", context)?;
        let primary_key = key_of(create, &columns)?;
        let definition = ObjectDefinition::Table { primary_key, connector: Some(connector), watermark };
        return Ok(Some(object(schema, name, columns, definition, context)));
    }
    if let Some(include) = create.includes.first() {
        return Err(without_connector("INCLUDE").at(include.position));
    }
    if let Some(format) = &create.format {
        return Err(without_connector("FORMAT").at(format.position));
    }
    let (columns, primary_key) = columns::declared(create, context)?;
    if columns.is_empty() {
        return Err(SqlError::new(SqlState::InvalidTableDefinition, "a table needs at least one column").at(create.name.position));
    }
    let mut options = options_map(&create.options);
    let watermark = watermark(create, &columns, &mut options)?;
    if let Some(option) = create.options.iter().find(|o| options.contains_key(&o.name.value)) {
        return Err(SqlError::invalid_parameter(format!("table has no option \"{}\"", option.name.value))
            .with_hint("Options go with a connector: add connector = '…'.")
            .at(option.name.position));
    }
    let definition = ObjectDefinition::Table { primary_key, connector: None, watermark };
    Ok(Some(object(schema, name, columns, definition, context)))
}

fn without_connector(what: &str) -> SqlError {
    SqlError::syntax(format!("{what} goes with a connector")).with_hint("Add WITH (connector = '…').")
}

/// The key by names, which is known to be right once the columns were declared.
fn key_of(create: &CreateRelation, columns: &[Column]) -> SqlResult<Vec<usize>> {
    let inline = create.columns.iter().filter(|c| c.primary_key).map(|c| &c.name);
    let words: Vec<&Word> = match &create.primary_key {
        Some(words) => words.iter().collect(),
        None => inline.collect(),
    };
    words.into_iter().map(|word| columns::place_of(columns, word, &create.name.name)).collect()
}

/// The columns, connector and watermark of a relation that a connector fills.
fn connected(
    create: &CreateRelation,
    kind: &str,
    context: &BindContext<'_>,
) -> SqlResult<(Vec<Column>, ConnectorSpec, Option<WatermarkSpec>)> {
    let position = create.name.position;
    let mut options = options_map(&create.options);
    let connector = take_connector(&mut options, kind, position)?;
    let (mut columns, _) = columns::declared(create, context)?;
    // The watermark's options are none of the connector's.
    let durations = Durations::take(&mut options, kind).map_err(|e| e.at(position))?;
    if columns.is_empty() {
        let known = context.connectors.default_columns(&connector, &options).map_err(|e| e.at(position))?;
        columns = known.ok_or_else(|| {
            SqlError::new(SqlState::InvalidTableDefinition, format!("{kind} \"{}\" needs columns", create.name.name))
                .with_hint("Declare them in parentheses after the name.")
                .at(position)
        })?;
        key_of(create, &columns)?.into_iter().for_each(|place| columns[place].nullable = false);
    }
    let includes = included(&create.includes, &mut columns)?;
    let watermark = watermark_of(create.watermark.as_ref(), &columns, &create.name.name, durations)?;
    let spec = ConnectorSpec {
        connector,
        options,
        encode: create.format.as_ref().map(|f| f.encode),
        encode_options: create.format.as_ref().map(|f| options_map(&f.options)).unwrap_or_default(),
        includes,
    };
    context.connectors.check_source(&spec, &columns).map_err(|e| match e.position {
        Some(_) => e,
        None => e.at(position),
    })?;
    Ok((columns, spec, watermark))
}

/// Adds the columns of `INCLUDE` clauses, or finds those that were declared for them.
fn included(clauses: &[IncludeClause], columns: &mut Vec<Column>) -> SqlResult<Vec<Include>> {
    let mut includes: Vec<Include> = vec![];
    for clause in clauses {
        let (default_name, sql_type) = match clause.part {
            MessagePart::Key => ("_key", SqlType::Bytea),
            MessagePart::Partition => ("_partition", SqlType::Int4),
            MessagePart::Offset => ("_offset", SqlType::Int8),
            MessagePart::Timestamp => ("_timestamp", SqlType::TimestampTz),
            MessagePart::Headers => ("_headers", SqlType::Jsonb),
        };
        let name = clause.name.as_ref().map_or(default_name, |word| word.value.as_str());
        let column = match columns.iter().position(|c| c.name == name) {
            // A declared column of the name says in which type the part is wanted.
            Some(place) if !includes.iter().any(|i| i.column == place) => place,
            Some(_) => {
                return Err(columns::duplicate(&Word { value: name.to_string(), position: clause.position }));
            }
            None => {
                columns.push(Column::new(name, sql_type));
                columns.len() - 1
            }
        };
        includes.push(Include { column, part: clause.part });
    }
    Ok(includes)
}

/// Options of a `WITH` clause that are about the watermark.
struct Durations {
    idle_timeout_ms: Option<u64>,
    max_drift_ms: Option<u64>,
}

impl Durations {
    fn take(options: &mut BTreeMap<String, String>, kind: &str) -> SqlResult<Durations> {
        Ok(Durations {
            idle_timeout_ms: take_duration(options, "idle_timeout", kind)?,
            max_drift_ms: take_duration(options, "max_drift", kind)?,
        })
    }
}

fn watermark(
    create: &CreateRelation,
    columns: &[Column],
    options: &mut BTreeMap<String, String>,
) -> SqlResult<Option<WatermarkSpec>> {
    let durations = Durations::take(options, "table").map_err(|e| e.at(create.name.position))?;
    watermark_of(create.watermark.as_ref(), columns, &create.name.name, durations)
}

fn watermark_of(
    clause: Option<&WatermarkClause>,
    columns: &[Column],
    relation: &str,
    durations: Durations,
) -> SqlResult<Option<WatermarkSpec>> {
    let Some(clause) = clause else {
        let given = [("idle_timeout", durations.idle_timeout_ms), ("max_drift", durations.max_drift_ms)];
        return match given.iter().find(|(_, value)| value.is_some()) {
            Some((name, _)) => Err(SqlError::invalid_parameter(format!("option \"{name}\" goes with a watermark"))
                .with_hint("Add WATERMARK FOR column AS column - INTERVAL '…' to the columns.")),
            None => Ok(None),
        };
    };
    let column = columns::place_of(columns, &clause.column, relation)?;
    let declared = &columns[column];
    if !matches!(declared.sql_type, SqlType::Timestamp | SqlType::TimestampTz) {
        return Err(SqlError::new(
            SqlState::DatatypeMismatch,
            format!("watermark column \"{}\" must be a timestamp, not {}", declared.name, declared.sql_type),
        )
        .at(clause.column.position));
    }
    let delay_us = watermark_delay(&clause.expr, &declared.name).map_err(|e| e.at(clause.expr_position))?;
    Ok(Some(WatermarkSpec { column, delay_us, idle_timeout_ms: durations.idle_timeout_ms, max_drift_ms: durations.max_drift_ms }))
}

/// The delay of `column - INTERVAL '…'`, or none for `column` alone.
fn watermark_delay(expr: &Expr, column: &str) -> SqlResult<i64> {
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(ident) if crate::parse_fold(ident).value == column);
    let form = || {
        SqlError::unsupported("this form of watermark is not supported")
            .with_hint(format!("Write WATERMARK FOR {column} AS {column} - INTERVAL '5 seconds'."))
    };
    match expr {
        Expr::Nested(inner) => watermark_delay(inner, column),
        Expr::Identifier(_) if is_column(expr) => Ok(0),
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } if is_column(left) => {
            let delay = interval_micros(right)?;
            if delay < 0 {
                return Err(SqlError::invalid_parameter("a watermark cannot run ahead of its column"));
            }
            Ok(delay)
        }
        _ => Err(form()),
    }
}

fn object(
    schema: String,
    name: String,
    columns: Vec<Column>,
    definition: ObjectDefinition,
    context: &BindContext<'_>,
) -> CatalogObject {
    let depends_on = columns::types_of(&columns);
    CatalogObject {
        id: context.catalog.next_id(),
        schema,
        name,
        columns,
        definition,
        sql: context.sql.to_string(),
        depends_on,
        comment: None,
        column_comments: BTreeMap::new(),
        created_ms: context.now_ms,
    }
}
