//! `CREATE VIEW`, `CREATE MATERIALIZED VIEW` and `CREATE SINK`.

use super::{BindContext, columns, find_object, place_name, take_connector};
use crate::logical::{BoundQuery, Scope, check_distinct_names, output_columns};
use crate::parse::{self, select_all};
use crate::relation::CheckedStreams;
use crate::rewrite;
use crate::statement::{CreateSink, CreateTableAs, CreateView, OptionPair, SinkInput, Statement, Word, options_map};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use thalweg_catalog::object::{ConnectorSpec, Emit, SinkMode};
use thalweg_catalog::options::parse_bytes;
use thalweg_catalog::{CatalogObject, Column, ObjectDefinition, ObjectId, SqlError, SqlResult, SqlState, SqlType, suggest};

/// A materialized view or sink, and what it runs.
#[derive(Clone, Debug)]
pub struct BoundQueryObject {
    /// What goes into the catalog. The key of a materialized view is yet to be filled in from the lowering.
    pub object: CatalogObject,
    /// The optimised plan of its query, to be lowered.
    pub plan: LogicalPlan,
}

/// The view that `CREATE VIEW` declares; none if its name is taken and that is fine.
///
/// # Errors
/// Whatever is wrong with its name or query.
pub fn bind_create_view(create: &CreateView, context: &BindContext<'_>) -> SqlResult<Option<CatalogObject>> {
    let Some(target) = place_name(&create.name, create.if_not_exists, context)? else { return Ok(None) };
    let scope = Scope { catalog: context.catalog, relations: context.relations, search_path: context.search_path };
    let bound = context.planner.plan_query(&create.query.query, &scope, &[])?;
    refuse_parameters(&bound.plan)?;
    let described = context.planner.describe(&bound.plan)?;
    let columns = named(described, &create.columns)?;
    let definition = ObjectDefinition::View { query: create.query.text.clone() };
    Ok(Some(object(target, columns, definition, bound.depends_on, context)))
}

/// The table that `CREATE TABLE … AS` declares, for the columns that its query gives; none if its name is taken and that is fine.
///
/// # Errors
/// Whatever is wrong with its name or columns.
pub fn bind_create_table_as(
    create: &CreateTableAs,
    described: Vec<Column>,
    context: &BindContext<'_>,
) -> SqlResult<Option<CatalogObject>> {
    let Some(target) = place_name(&create.name, create.if_not_exists, context)? else { return Ok(None) };
    let mut columns = named(described, &create.columns)?;
    if let Some(column) = columns.iter().find(|column| matches!(column.sql_type, SqlType::Record(_))) {
        let message = format!("column \"{}\" has pseudo-type record", column.name);
        return Err(SqlError::new(SqlState::InvalidTableDefinition, message).at(create.name.position));
    }
    columns.iter_mut().for_each(|column| column.nullable = true);
    let definition = ObjectDefinition::Table { primary_key: vec![], connector: None, watermark: None };
    let depends_on = columns::types_of(&columns);
    Ok(Some(object(target, columns, definition, depends_on, context)))
}

/// The view that `CREATE MATERIALIZED VIEW` declares; none if its name is taken and that is fine.
///
/// # Errors
/// Whatever is wrong with its name, query or options; `0A000` for a query whose result can't be kept.
pub fn bind_create_materialized_view(create: &CreateView, context: &BindContext<'_>) -> SqlResult<Option<BoundQueryObject>> {
    let Some(target) = place_name(&create.name, create.if_not_exists, context)? else { return Ok(None) };
    memory_option(&create.options)?;
    if let Some(other) = create.options.iter().find(|o| o.name.value != "memory") {
        return Err(SqlError::invalid_parameter(format!("materialized view has no option \"{}\"", other.name.value))
            .with_hint(suggest::hint(&other.name.value, ["memory"].iter().copied()))
            .at(other.name.position));
    }
    let (bound, plan) = continuous(&create.query.query, context)?;
    let columns = named(output_columns(plan.schema())?, &create.columns)?;
    let definition = ObjectDefinition::MaterializedView { query: create.query.text.clone(), emit: create.emit, key: vec![] };
    let object = object(target, columns, definition, bound.depends_on, context);
    Ok(Some(BoundQueryObject { object, plan }))
}

/// The sink that `CREATE SINK` declares; none if its name is taken and that is fine.
///
/// # Errors
/// Whatever is wrong with its name, query or options; `0A000` for a query that can't be followed.
pub fn bind_create_sink(create: &CreateSink, context: &BindContext<'_>) -> SqlResult<Option<BoundQueryObject>> {
    let Some(target) = place_name(&create.name, create.if_not_exists, context)? else { return Ok(None) };
    let position = create.name.position;
    let (query, text, input_key) = sink_query(&create.input, context)?;
    let (bound, plan) = continuous(&query, context)?;
    let columns = output_columns(plan.schema())?;
    check_distinct_names(&columns).map_err(|e| e.at(position))?;
    memory_option(&create.options)?;
    let mut options = options_map(&create.options);
    options.remove("memory");
    let connector = take_connector(&mut options, "sink", position)?;
    let (mode, key) = sink_mode(&mut options, &columns, input_key, create)?;
    let spec = ConnectorSpec {
        connector,
        options,
        encode: create.format.as_ref().map(|f| f.encode),
        encode_options: create.format.as_ref().map(|f| options_map(&f.options)).unwrap_or_default(),
        includes: vec![],
    };
    context.connectors.check_sink(&spec, &columns, mode, &key).map_err(|e| match e.position {
        Some(_) => e,
        None => e.at(position),
    })?;
    let definition = ObjectDefinition::Sink { query: text, emit: create.emit, connector: spec, mode, key };
    let object = object(target, columns, definition, bound.depends_on, context);
    Ok(Some(BoundQueryObject { object, plan }))
}

/// A sink's query, its text, and the key of the relation that it sends as it is.
fn sink_query(input: &SinkInput, context: &BindContext<'_>) -> SqlResult<(ast::Query, String, Vec<usize>)> {
    match input {
        SinkInput::Query(embedded) => Ok(((*embedded.query).clone(), embedded.text.clone(), vec![])),
        SinkInput::Relation(name) => {
            let found = find_object(name, context.catalog, context.search_path)?;
            let parts = [&found.schema, &found.name].map(|part| ast::ObjectNamePart::Identifier(rewrite::ident(part)));
            let query = select_all(ast::ObjectName(parts.to_vec()));
            let text = query.to_string();
            Ok((query, text, found.key().to_vec()))
        }
    }
}

fn sink_mode(
    options: &mut BTreeMap<String, String>,
    columns: &[Column],
    input_key: Vec<usize>,
    create: &CreateSink,
) -> SqlResult<(SinkMode, Vec<usize>)> {
    let position =
        |option: &str| create.options.iter().find(|o| o.name.value == option).map_or(create.name.position, |o| o.name.position);
    let key = match options.remove("primary_key") {
        None => None,
        Some(text) => {
            let words = text.split(',').map(|name| Word { value: name.trim().to_string(), position: position("primary_key") });
            Some(words.map(|word| columns::place_of(columns, &word, &create.name.name)).collect::<SqlResult<Vec<usize>>>()?)
        }
    };
    let mode = match options.remove("type").map(|t| t.to_lowercase()).as_deref() {
        Some("append-only") => SinkMode::AppendOnly,
        Some("upsert") => SinkMode::Upsert,
        Some("changelog") => SinkMode::Changelog,
        None if key.is_some() => SinkMode::Upsert,
        None => SinkMode::AppendOnly,
        Some(other) => {
            return Err(SqlError::invalid_parameter(format!("invalid value for option \"type\" of sink: \"{other}\""))
                .with_hint("Use 'append-only', 'upsert' or 'changelog'.")
                .at(position("type")));
        }
    };
    match (mode, key) {
        (SinkMode::AppendOnly | SinkMode::Changelog, None) => Ok((mode, vec![])),
        (SinkMode::AppendOnly | SinkMode::Changelog, Some(_)) => {
            Err(SqlError::invalid_parameter("only an upsert sink has a primary key")
                .with_hint("Use type = 'upsert', or leave out primary_key.")
                .at(position("primary_key")))
        }
        (SinkMode::Upsert, Some(key)) if !key.is_empty() => Ok((mode, key)),
        (SinkMode::Upsert, None) if !input_key.is_empty() => Ok((mode, input_key)),
        (SinkMode::Upsert, _) => Err(SqlError::invalid_parameter("an upsert sink needs the option \"primary_key\"")
            .with_hint("Add primary_key = 'a,b' to the WITH clause.")
            .at(position("type"))),
    }
}

/// The bound and the optimised plan of a query that is to be followed.
fn continuous(query: &ast::Query, context: &BindContext<'_>) -> SqlResult<(BoundQuery, LogicalPlan)> {
    let relations = CheckedStreams(context.relations);
    let scope = Scope { catalog: context.catalog, relations: &relations, search_path: context.search_path };
    let bound = context.planner.plan_query(query, &scope, &[])?;
    refuse_parameters(&bound.plan)?;
    let plan = context.planner.optimize_stream(&bound.plan).map_err(|error| at_function(error, query))?;
    Ok((bound, plan))
}

fn refuse_parameters(plan: &LogicalPlan) -> SqlResult<()> {
    match plan.get_parameter_names().map_err(|e| crate::sql_error(&e))?.into_iter().min() {
        Some(name) => Err(SqlError::new(SqlState::UndefinedParameter, format!("there is no parameter {name}"))),
        None => Ok(()),
    }
}

/// The error with the place of the function that it names in the query, since plans don't keep it.
fn at_function(error: SqlError, query: &ast::Query) -> SqlError {
    let Some(name) = error.message.strip_prefix("function ").and_then(|rest| rest.split('(').next()).map(str::to_string) else {
        return error;
    };
    let found = ast::visit_expressions(query, |expr| match expr {
        ast::Expr::Function(function) => {
            let ident = function.name.0.last().and_then(|part| part.as_ident());
            match ident.map(crate::parse_fold) {
                Some(word) if names_function(&word.value, &name) => ControlFlow::Break(word.position),
                _ => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    match (error.position, found) {
        (None, ControlFlow::Break(position)) => error.at(position),
        _ => error,
    }
}

/// Whether a written name is a function's, by itself or by one of the names that stand for `now`.
fn names_function(written: &str, name: &str) -> bool {
    written == name || (name == "now" && ["current_timestamp", "transaction_timestamp", "statement_timestamp"].contains(&written))
}

/// The columns under the names that were given, which may be fewer.
fn named(mut columns: Vec<Column>, names: &[Word]) -> SqlResult<Vec<Column>> {
    if let Some(extra) = names.get(columns.len()) {
        return Err(SqlError::syntax("CREATE VIEW specifies more column names than columns").at(extra.position));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name.value.clone();
    }
    check_distinct_names(&columns)?;
    Ok(columns)
}

/// The job's memory budget in bytes, if the options have one.
fn memory_option(options: &[OptionPair]) -> SqlResult<Option<u64>> {
    match options.iter().find(|o| o.name.value == "memory") {
        None => Ok(None),
        Some(option) => match parse_bytes(&option.value) {
            Some(bytes) if bytes > 0 => Ok(Some(bytes)),
            _ => Err(SqlError::invalid_parameter(format!("invalid value for option \"memory\": \"{}\"", option.value))
                .with_hint("Write a number and a unit, such as '512MB'.")
                .at(option.name.position)),
        },
    }
}

/// The memory budget in bytes that the statement which created a job gave it: `WITH (memory = '512MB')`.
///
/// # Errors
/// `22023` for a value that is none; whatever is wrong with a text that created nothing.
pub fn job_memory_bytes(sql: &str) -> SqlResult<Option<u64>> {
    match parse::parse(sql)?.pop().map(|parsed| parsed.statement) {
        Some(Statement::CreateMaterializedView(create)) => memory_option(&create.options),
        Some(Statement::CreateSink(create)) => memory_option(&create.options),
        _ => Ok(None),
    }
}

fn object(
    (schema, name): (String, String),
    columns: Vec<Column>,
    definition: ObjectDefinition,
    depends_on: Vec<ObjectId>,
    context: &BindContext<'_>,
) -> CatalogObject {
    debug_assert!(!matches!(definition, ObjectDefinition::View { .. }) || definition_emit(&definition).is_none());
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

fn definition_emit(definition: &ObjectDefinition) -> Option<Emit> {
    match definition {
        ObjectDefinition::MaterializedView { emit, .. } | ObjectDefinition::Sink { emit, .. } => Some(*emit),
        _ => None,
    }
}
