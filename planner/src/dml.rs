//! `INSERT`, `UPDATE` and `DELETE` as plans of the rows that they are about.
//!
//! An insert's plan gives the table's columns; a delete's the rows that go; an update's the old columns followed by the new
//! ones. What is assigned is cast as Postgres casts on assignment. Keys and NULLs are checked by who writes the rows.

pub(crate) mod conflict;
mod literals;

pub use conflict::{OnTaken, replaced, replacing_exprs};

use crate::ast::{self, Expr as SqlExpr, SelectItem, Spanned};
use crate::bind::find_object;
use crate::errors::{span_position, sql_error};
use crate::functions::{assign, text};
use crate::logical::{BoundQuery, LogicalPlanner, Scope, output_columns};
use crate::parse::parse_expr;
use crate::physical::physical_expr;
use crate::relation::StreamRelations;
use crate::rewrite;
use crate::statement::{Name, Statement, Word};
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_catalog::{CarriedType, CatalogObject, Column, ObjectDefinition, SqlError, SqlResult, SqlState, SqlType, suggest};

/// A data change, bound.
#[derive(Clone, Debug)]
pub struct BoundChange {
    /// The table.
    pub table: Arc<CatalogObject>,
    /// The rows that the change is about, before any rule; see the module.
    pub plan: LogicalPlan,
    /// `RETURNING …` as a query over the table, before any rule.
    pub returning: Option<LogicalPlan>,
    /// The types of parameters.
    pub parameters: Vec<SqlType>,
    /// What becomes of new rows whose key is taken.
    pub on_taken: OnTaken,
}

/// What `RETURNING` gives for a batch of the table's rows.
#[derive(Clone, Debug)]
pub struct Returning {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Their values, over the table's columns.
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
}

/// The table that a change is of, and the places of the columns that it writes.
///
/// # Errors
/// As [`writable`], and `42703` for a column that is not there.
pub fn changed(statement: &Statement, scope: &Scope<'_>) -> SqlResult<(Arc<CatalogObject>, BTreeSet<usize>)> {
    let words: Vec<Word>;
    let table = match statement {
        Statement::Insert(insert) => {
            let ast::TableObject::TableName(name) = &insert.table else {
                return Err(SqlError::unsupported("INSERT into a table function is not supported"));
            };
            words = insert.columns.iter().map(crate::parse_fold).collect();
            writable(&table_name(name)?, scope)?
        }
        Statement::Update(update) => {
            words = update.assignments.iter().map(|a| assignment_of(a).map(|(word, _)| word)).collect::<SqlResult<_>>()?;
            target(&update.table.relation, scope)?.0
        }
        Statement::Delete(delete) => {
            words = vec![];
            let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
            let first = from.first().ok_or_else(|| SqlError::syntax("expected a table's name"))?;
            target(&first.relation, scope)?.0
        }
        _ => return Err(SqlError::internal("not a change of data")),
    };
    let all = words.is_empty() && matches!(statement, Statement::Insert(insert) if insert.source.is_some());
    let columns = match all {
        true => (0..table.columns.len()).collect(),
        false => words.iter().map(|word| place_of(&table, word)).collect::<SqlResult<_>>()?,
    };
    Ok((table, columns))
}

/// The plan of an `INSERT`; `declared` are types of parameters that the client gave.
///
/// # Errors
/// What the user is told.
pub fn bind_insert(
    planner: &LogicalPlanner,
    insert: &ast::Insert,
    scope: &Scope<'_>,
    declared: &[Option<SqlType>],
) -> SqlResult<BoundChange> {
    let ast::TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT into a table function is not supported"));
    };
    let table = writable(&table_name(name)?, scope)?;
    let explicit = insert.columns.iter().map(|c| place_of(&table, &crate::parse_fold(c))).collect::<SqlResult<Vec<usize>>>()?;
    if let Some(twice) = (0..explicit.len()).find(|i| explicit[..*i].contains(&explicit[*i])) {
        let word = crate::parse_fold(&insert.columns[twice]);
        return Err(SqlError::new(SqlState::DuplicateColumn, format!("column \"{}\" specified more than once", word.value))
            .at(word.position));
    }
    let targets: Vec<usize> = if explicit.is_empty() { (0..table.columns.len()).collect() } else { explicit.clone() };
    let mut types = declared.to_vec();
    conflict::infer_assigned(insert, &table, &mut types)?;
    let Some(source) = &insert.source else { return insert_defaults(planner, table, insert, scope, &types) };
    let mut query = (**source).clone();
    let width = prepare_values(&mut query, &table, &targets)?;
    literals::type_rows(&mut query.body, &table, &targets)?;
    infer_values(&query, &table, &targets, &mut types);
    let (bound, parameters) = planner.plan_with_parameters(&query, scope, &types)?;
    let (on_taken, parameters) = conflict::on_taken(planner, insert, &table, scope, parameters)?;
    let given = bound.plan.schema().fields().len();
    let position = span_position(source.span()).unwrap_or(1);
    if given > targets.len() {
        return Err(SqlError::syntax("INSERT has more expressions than target columns").at(position));
    }
    if given < targets.len() && !explicit.is_empty() {
        return Err(SqlError::syntax("INSERT has more target columns than expressions").at(position));
    }
    let outputs = bound.plan.schema().columns();
    // The types that count are those after the analysis of literals.
    let settled = planner.analyze(&bound.plan)?;
    let mut exprs = vec![];
    for (index, column) in table.columns.iter().enumerate() {
        let value = match targets.iter().position(|t| *t == index).filter(|place| *place < given) {
            Some(place) => {
                let from = settled.schema().field(place).data_type().clone();
                assigned(Expr::Column(outputs[place].clone()), &from, column, width.is_some(), position)?
            }
            None => default_value(planner, column, scope)?,
        };
        exprs.push(value.alias(&column.name));
    }
    let plan = LogicalPlanBuilder::from(bound.plan).project(exprs).and_then(|b| b.build()).map_err(|e| sql_error(&e))?;
    let returning = returning(planner, insert.returning.as_deref(), &table, &table_alias(insert, &table), scope)?;
    Ok(BoundChange { table, plan, returning, parameters, on_taken })
}

fn table_alias(insert: &ast::Insert, table: &CatalogObject) -> String {
    insert.table_alias.as_ref().map_or_else(|| table.name.clone(), |alias| crate::parse_fold(alias).value)
}

/// `INSERT INTO t DEFAULT VALUES`.
fn insert_defaults(
    planner: &LogicalPlanner,
    table: Arc<CatalogObject>,
    insert: &ast::Insert,
    scope: &Scope<'_>,
    types: &[Option<SqlType>],
) -> SqlResult<BoundChange> {
    let known = types.iter().map_while(Clone::clone).collect();
    let (on_taken, parameters) = conflict::on_taken(planner, insert, &table, scope, known)?;
    let exprs = table
        .columns
        .iter()
        .map(|column| default_value(planner, column, scope).map(|value| value.alias(&column.name)))
        .collect::<SqlResult<Vec<_>>>()?;
    let plan = LogicalPlanBuilder::empty(true).project(exprs).and_then(|b| b.build()).map_err(|e| sql_error(&e))?;
    let returning = returning(planner, insert.returning.as_deref(), &table, &table_alias(insert, &table), scope)?;
    Ok(BoundChange { table, plan, returning, parameters, on_taken })
}

/// The plan of an `UPDATE`: the old values of all columns, then the new ones.
///
/// # Errors
/// What the user is told.
pub fn bind_update(
    planner: &LogicalPlanner,
    update: &ast::Update,
    scope: &Scope<'_>,
    declared: &[Option<SqlType>],
) -> SqlResult<BoundChange> {
    let position = span_position(update.table.span()).unwrap_or(1);
    if update.from.is_some() || !update.table.joins.is_empty() {
        return Err(SqlError::unsupported("UPDATE … FROM is not supported")
            .with_hint("Use a subquery: SET column = (SELECT …) WHERE … IN (SELECT …).")
            .at(position));
    }
    let (table, alias) = target(&update.table.relation, scope)?;
    let mut values: BTreeMap<usize, SqlExpr> = BTreeMap::new();
    let mut types = declared.to_vec();
    for assignment in &update.assignments {
        let (word, value) = assignment_of(assignment)?;
        let place = place_of(&table, &word)?;
        let mut value = if is_default(&value) { default_expr(&table.columns[place])? } else { value };
        if matches!(table.columns[place].sql_type, SqlType::Array(_)) {
            literals::typed(&mut value, &table.columns[place].sql_type)?;
        }
        infer(&value, &table.columns[place].sql_type, &mut types);
        if values.insert(place, value).is_some() {
            return Err(SqlError::syntax(format!("multiple assignments to same column \"{}\"", word.value)).at(word.position));
        }
    }
    let column = |name: &str| SqlExpr::CompoundIdentifier(vec![rewrite::ident(&alias), rewrite::ident(name)]);
    let mut items = vec![];
    for (index, known) in table.columns.iter().enumerate() {
        items.push(SelectItem::ExprWithAlias { expr: column(&known.name), alias: rewrite::ident(&format!("old {index}")) });
    }
    let mut literal = vec![];
    for (index, known) in table.columns.iter().enumerate() {
        let expr = values.remove(&index).unwrap_or_else(|| column(&known.name));
        literal.push(is_literal(&expr));
        items.push(SelectItem::ExprWithAlias { expr, alias: rewrite::ident(&format!("new {index}")) });
    }
    let query = rewrite::query(rewrite::select(items, update.table.relation.clone(), update.selection.clone()));
    let (bound, parameters) = planner.plan_with_parameters(&query, scope, &types)?;
    let settled = planner.analyze(&bound.plan)?;
    let outputs = bound.plan.schema().columns();
    let width = table.columns.len();
    let mut exprs: Vec<Expr> = outputs[..width].iter().cloned().map(Expr::Column).collect();
    for (index, column) in table.columns.iter().enumerate() {
        let from = settled.schema().field(width + index).data_type().clone();
        let output = outputs[width + index].clone();
        let name = output.name.clone();
        exprs.push(assigned(Expr::Column(output), &from, column, literal[index], position)?.alias(name));
    }
    let plan = LogicalPlanBuilder::from(bound.plan).project(exprs).and_then(|b| b.build()).map_err(|e| sql_error(&e))?;
    let returning = returning(planner, update.returning.as_deref(), &table, &alias, scope)?;
    Ok(BoundChange { table, plan, returning, parameters, on_taken: OnTaken::Fail })
}

/// The plan of a `DELETE`: the rows that go.
///
/// # Errors
/// What the user is told.
pub fn bind_delete(
    planner: &LogicalPlanner,
    delete: &ast::Delete,
    scope: &Scope<'_>,
    declared: &[Option<SqlType>],
) -> SqlResult<BoundChange> {
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
    let [only] = from.as_slice() else {
        return Err(SqlError::unsupported("DELETE from several tables is not supported"));
    };
    let (table, alias) = target(&only.relation, scope)?;
    let columns = table.columns.iter().map(|c| {
        let expr = SqlExpr::CompoundIdentifier(vec![rewrite::ident(&alias), rewrite::ident(&c.name)]);
        SelectItem::ExprWithAlias { expr, alias: rewrite::ident(&c.name) }
    });
    let selection = deleted_rows(delete, &only.relation);
    let query = rewrite::query(rewrite::select(columns.collect(), only.relation.clone(), selection));
    let (bound, parameters) = planner.plan_with_parameters(&query, scope, declared)?;
    let returning = returning(planner, delete.returning.as_deref(), &table, &alias, scope)?;
    Ok(BoundChange { table, plan: bound.plan, returning, parameters, on_taken: OnTaken::Fail })
}

/// The condition on the rows that a `DELETE` takes: with `USING`, that there is a row of the other relations that goes with them.
pub(crate) fn deleted_rows(delete: &ast::Delete, relation: &ast::TableFactor) -> Option<SqlExpr> {
    let Some(using) = &delete.using else { return delete.selection.clone() };
    // A row goes once, however many rows of the others it meets.
    let items = vec![SelectItem::UnnamedExpr(rewrite::number(1))];
    let mut inner = rewrite::select(items, relation.clone(), delete.selection.clone());
    inner.from = using.clone();
    Some(SqlExpr::Exists { subquery: Box::new(rewrite::query(inner)), negated: false })
}

/// The expressions of a `RETURNING`, over the columns of the table.
///
/// # Errors
/// `0A000` for a subquery in it.
pub fn returning_exprs(
    planner: &LogicalPlanner,
    returning: &LogicalPlan,
    table: &CatalogObject,
    now_us: i64,
) -> SqlResult<Returning> {
    let plan = planner.optimize_batch(returning, now_us)?;
    let columns = output_columns(plan.schema())?;
    let (exprs, name) = flatten(&plan)?;
    let fields = DFSchema::try_from_qualified_schema(name, &table.arrow_schema()).map_err(|e| sql_error(&e))?;
    let options = planner.state().config_options();
    let exprs = exprs.iter().map(|expr| physical_expr(expr, &fields, options)).collect::<SqlResult<_>>()?;
    Ok(Returning { columns, exprs })
}

/// The outputs of projections over one scan, over the scan's columns.
fn flatten(plan: &LogicalPlan) -> SqlResult<(Vec<Expr>, datafusion::common::TableReference)> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let exprs = plan.schema().columns().into_iter().map(Expr::Column).collect();
            Ok((exprs, scan.table_name.clone()))
        }
        LogicalPlan::SubqueryAlias(alias) => flatten(&alias.input),
        LogicalPlan::Projection(projection) => {
            let (inner, name) = flatten(&projection.input)?;
            let schema = projection.input.schema();
            let mut exprs = vec![];
            for expr in &projection.expr {
                let replaced = expr.clone().transform_up(|part| match &part {
                    Expr::Column(column) => Ok(Transformed::yes(inner[schema.index_of_column(column)?].clone().unalias())),
                    _ => Ok(Transformed::no(part)),
                });
                exprs.push(replaced.map_err(|e| sql_error(&e))?.data.unalias());
            }
            Ok((exprs, name))
        }
        _ => Err(SqlError::unsupported("RETURNING with a subquery or aggregate is not supported")
            .with_hint("Give columns of the table and expressions over them.")),
    }
}

fn returning(
    planner: &LogicalPlanner,
    items: Option<&[SelectItem]>,
    table: &Arc<CatalogObject>,
    alias: &str,
    scope: &Scope<'_>,
) -> SqlResult<Option<LogicalPlan>> {
    let Some(items) = items else { return Ok(None) };
    let parts = [&table.schema, &table.name].map(|part| ast::ObjectNamePart::Identifier(rewrite::ident(part)));
    let mut factor = rewrite::table_factor(ast::ObjectName(parts.to_vec()));
    if let ast::TableFactor::Table { alias: slot, .. } = &mut factor {
        *slot = Some(ast::TableAlias { explicit: true, name: rewrite::ident(alias), columns: vec![] });
    }
    let query = rewrite::query(rewrite::select(items.to_vec(), factor, None));
    let scope = Scope { relations: &StreamRelations, ..*scope };
    let BoundQuery { plan, .. } = planner.plan_query(&query, &scope, &[])?;
    Ok(Some(plan))
}

fn table_name(name: &ast::ObjectName) -> SqlResult<Name> {
    let mut words: Vec<Word> = name.0.iter().filter_map(|part| part.as_ident()).map(crate::parse_fold).collect();
    let position = words.first().map_or(1, |w| w.position);
    match words.pop() {
        Some(last) => Ok(Name { schema: words.pop().map(|w| w.value), name: last.value, position }),
        None => Err(SqlError::syntax("expected a table's name")),
    }
}

/// The table of an `UPDATE` or `DELETE`, and what its columns are qualified with.
fn target(factor: &ast::TableFactor, scope: &Scope<'_>) -> SqlResult<(Arc<CatalogObject>, String)> {
    let ast::TableFactor::Table { name, alias, args: None, .. } = factor else {
        return Err(SqlError::syntax("expected a table's name").at(span_position(factor.span()).unwrap_or(1)));
    };
    let table = writable(&table_name(name)?, scope)?;
    let alias = alias.as_ref().map_or_else(|| table.name.clone(), |alias| crate::parse_fold(&alias.name).value);
    Ok((table, alias))
}

/// The table of this name, if SQL can write to it.
///
/// # Errors
/// `42P01` if there is none, `42809` if it is something else, `0A000` if a connector fills it.
pub fn writable(name: &Name, scope: &Scope<'_>) -> SqlResult<Arc<CatalogObject>> {
    let object = find_object(name, scope.catalog, scope.search_path)?;
    match &object.definition {
        ObjectDefinition::Table { connector: None, .. } => Ok(Arc::clone(object)),
        ObjectDefinition::Table { connector: Some(connector), .. } => {
            Err(SqlError::unsupported(format!("cannot change table \"{}\"", object.name))
                .with_detail(format!("Its rows come from connector \"{}\".", connector.connector))
                .at(name.position))
        }
        _ => Err(SqlError::new(SqlState::WrongObjectType, format!("cannot change {} \"{}\"", object.kind(), object.name))
            .with_hint("Only tables can be written to.")
            .at(name.position)),
    }
}

fn place_of(table: &CatalogObject, word: &Word) -> SqlResult<usize> {
    table.columns.iter().position(|c| c.name == word.value).ok_or_else(|| {
        let message = format!("column \"{}\" of relation \"{}\" does not exist", word.value, table.name);
        let error = SqlError::new(SqlState::UndefinedColumn, message).at(word.position);
        match suggest::nearest(&word.value, table.columns.iter().map(|c| c.name.as_str())) {
            Some(near) => error.with_hint(format!("Did you mean \"{near}\"?")),
            None => error,
        }
    })
}

fn assignment_of(assignment: &ast::Assignment) -> SqlResult<(Word, SqlExpr)> {
    let ast::AssignmentTarget::ColumnName(name) = &assignment.target else {
        return Err(SqlError::unsupported("assignment to several columns at once is not supported")
            .with_hint("Assign the columns one by one.")
            .at(span_position(assignment.span()).unwrap_or(1)));
    };
    match name.0.last().and_then(|part| part.as_ident()) {
        Some(ident) => Ok((crate::parse_fold(ident), assignment.value.clone())),
        None => Err(SqlError::syntax("expected a column's name")),
    }
}

fn is_default(expr: &SqlExpr) -> bool {
    matches!(expr, SqlExpr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Whether the type of a written value still follows from where it goes.
fn is_literal(expr: &SqlExpr) -> bool {
    match expr {
        SqlExpr::Value(_) => true,
        SqlExpr::Nested(inner) => is_literal(inner),
        _ => false,
    }
}

fn default_expr(column: &Column) -> SqlResult<SqlExpr> {
    let mut default = column.default.as_deref().map_or_else(|| Ok(rewrite::null()), parse_expr)?;
    literals::typed(&mut default, &column.sql_type)?;
    Ok(default)
}

fn default_value(planner: &LogicalPlanner, column: &Column, scope: &Scope<'_>) -> SqlResult<Expr> {
    let expr = planner.plan_expr(&default_expr(column)?, &DFSchema::empty(), scope)?;
    Ok(assign::to_type(Expr::Cast(Cast::new(Box::new(expr), column.sql_type.to_arrow())), &column.sql_type))
}

/// Puts defaults in for `DEFAULT`. Gives the width of the rows if the query is `VALUES` alone.
fn prepare_values(query: &mut ast::Query, table: &CatalogObject, targets: &[usize]) -> SqlResult<Option<usize>> {
    let ast::SetExpr::Values(values) = query.body.as_mut() else { return Ok(None) };
    let mut width = 0;
    for row in &mut values.rows {
        width = width.max(row.len());
        for (place, value) in row.iter_mut().enumerate() {
            if is_default(value) {
                *value = match targets.get(place) {
                    Some(target) => default_expr(&table.columns[*target])?,
                    None => rewrite::null(),
                };
            }
        }
    }
    Ok(Some(width))
}

/// Parameters that stand alone in `VALUES` have the type of the column that they go to.
fn infer_values(query: &ast::Query, table: &CatalogObject, targets: &[usize], types: &mut Vec<Option<SqlType>>) {
    let ast::SetExpr::Values(values) = query.body.as_ref() else { return };
    for row in &values.rows {
        for (value, target) in row.iter().zip(targets) {
            infer(value, &table.columns[*target].sql_type, types);
        }
    }
}

fn infer(value: &SqlExpr, sql_type: &SqlType, types: &mut Vec<Option<SqlType>>) {
    let SqlExpr::Value(value) = value else { return };
    let ast::Value::Placeholder(name) = &value.value else { return };
    let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
    if let Some(number) = number.filter(|n| (1..=65_535).contains(n)) {
        if types.len() < number {
            types.resize(number, None);
        }
        types[number - 1].get_or_insert_with(|| sql_type.clone());
    }
}

/// A value cast to the column that it is assigned to.
fn assigned(value: Expr, from: &DataType, column: &Column, literal: bool, position: usize) -> SqlResult<Expr> {
    if !is_assignable(from, &column.sql_type, literal) {
        let found = SqlType::from_arrow(from).map_or_else(|_| from.to_string(), |t| t.to_string());
        let message = format!("column \"{}\" is of type {} but expression is of type {found}", column.name, column.sql_type);
        return Err(SqlError::new(SqlState::DatatypeMismatch, message)
            .with_hint("You will need to rewrite or cast the expression.")
            .at(position));
    }
    if column.sql_type == SqlType::Bytea && matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        return Ok(text::bytes_of(value));
    }
    let cast = Expr::Cast(Cast::new(Box::new(value), column.sql_type.to_arrow()));
    Ok(assign::to_type(cast, &column.sql_type))
}

/// Whether Postgres casts values of one type when they are assigned to a column of the other. The type of a literal in
/// quotes, and of NULL, follows from the column.
pub(crate) fn is_assignable(from: &DataType, to: &SqlType, literal: bool) -> bool {
    if literal && matches!(from, DataType::Utf8 | DataType::Null) || *from == DataType::Null {
        return true;
    }
    let Ok(from) = SqlType::from_arrow(from) else { return false };
    let is_number = |t: &SqlType| {
        matches!(t, SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Float4 | SqlType::Float8 | SqlType::Numeric(_))
    };
    let is_text = |t: &SqlType| t.to_arrow() == DataType::Utf8;
    let is_time = |t: &SqlType| matches!(t, SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz);
    let is_exact = |t: &SqlType| is_number(t) && !matches!(t, SqlType::Float4 | SqlType::Float8);
    match to {
        // Everything has a text form.
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => true,
        to if is_number(to) => is_number(&from),
        SqlType::Carried(CarriedType::Money) if is_exact(&from) => true,
        to if is_text(to) => is_text(&from),
        to if is_time(to) => is_time(&from),
        SqlType::Time => matches!(from, SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz),
        SqlType::Array(item) => match from {
            SqlType::Array(found) => is_assignable(&found.to_arrow(), item, literal),
            _ => false,
        },
        to => from.to_arrow() == to.to_arrow(),
    }
}

#[cfg(test)]
mod tests;
