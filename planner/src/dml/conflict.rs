//! `ON CONFLICT`: what becomes of new rows whose key another row has.

use super::{assigned, assignment_of, default_expr, infer, is_default, is_literal, literals, place_of, table_alias};
use crate::analyze::has_subquery;
use crate::ast::{self, Expr as SqlExpr, SelectItem, Spanned};
use crate::errors::{span_position, sql_error};
use crate::logical::{LogicalPlanner, Scope};
use crate::physical::physical_expr;
use crate::relation::StreamRelations;
use crate::rewrite;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_expr::PhysicalExpr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, SqlError, SqlResult, SqlState, SqlType};

/// What the row is called that could not be added.
const EXCLUDED: &str = "excluded";

/// What becomes of a new row whose key another row has.
#[derive(Clone, Debug)]
pub enum OnTaken {
    /// The statement fails.
    Fail,
    /// It is left out.
    Skip,
    /// The other row is changed. A query over the table joined with the new rows, before any rule: the values of all columns,
    /// then whether the row is changed at all.
    Update(LogicalPlan),
}

/// The update that an insert makes of rows that are there.
pub(crate) fn update_of(insert: &ast::Insert) -> Option<&ast::DoUpdate> {
    match &insert.on {
        Some(ast::OnInsert::OnConflict(ast::OnConflict { action: ast::OnConflictAction::DoUpdate(update), .. })) => Some(update),
        _ => None,
    }
}

/// The relations that the expressions of an insert's update can name: the table, and the new rows.
pub(crate) fn named_relations(table: &ast::ObjectName, alias: Option<&ast::Ident>) -> [ast::TableWithJoins; 2] {
    let named = |name: Option<ast::Ident>| {
        let mut factor = rewrite::table_factor(table.clone());
        if let ast::TableFactor::Table { alias, .. } = &mut factor {
            *alias = name.map(|name| ast::TableAlias { explicit: true, name, columns: vec![] });
        }
        ast::TableWithJoins { relation: factor, joins: vec![] }
    };
    [named(alias.cloned()), named(Some(rewrite::ident(EXCLUDED)))]
}

/// The places of the columns that an insert changes in rows that are there.
///
/// # Errors
/// `42703` for a column that is not there.
pub fn replaced(insert: &ast::Insert, table: &CatalogObject) -> SqlResult<BTreeSet<usize>> {
    let assignments = update_of(insert).map(|update| update.assignments.as_slice()).unwrap_or_default();
    assignments.iter().map(|assignment| assignment_of(assignment).and_then(|(word, _)| place_of(table, &word))).collect()
}

/// Parameters that are assigned have the type of their column.
pub(super) fn infer_assigned(insert: &ast::Insert, table: &CatalogObject, types: &mut Vec<Option<SqlType>>) -> SqlResult<()> {
    for assignment in update_of(insert).iter().flat_map(|update| &update.assignments) {
        let (word, value) = assignment_of(assignment)?;
        infer(&value, &table.columns[place_of(table, &word)?].sql_type, types);
    }
    if let Some(condition) = update_of(insert).and_then(|update| update.selection.as_ref()) {
        infer(condition, &SqlType::Boolean, types);
    }
    Ok(())
}

/// What becomes of new rows, and the types of all parameters, of which these are known.
///
/// # Errors
/// `42P10` for columns that are not the key, `42704` for a constraint that is not there, and what is wrong with an update.
pub(super) fn on_taken(
    planner: &LogicalPlanner,
    insert: &ast::Insert,
    table: &Arc<CatalogObject>,
    scope: &Scope<'_>,
    parameters: Vec<SqlType>,
) -> SqlResult<(OnTaken, Vec<SqlType>)> {
    let Some(ast::OnInsert::OnConflict(conflict)) = &insert.on else { return Ok((OnTaken::Fail, parameters)) };
    check_target(conflict, table)?;
    let ast::OnConflictAction::DoUpdate(update) = &conflict.action else { return Ok((OnTaken::Skip, parameters)) };
    let position = span_position(insert.table.span()).unwrap_or(1);
    if conflict.conflict_target.is_none() {
        let text = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
        return Err(SqlError::syntax(text).with_hint("For example, ON CONFLICT (column_name).").at(position));
    }
    let (query, literal) = update_query(insert, update, table)?;
    let known: Vec<Option<SqlType>> = parameters.iter().cloned().map(Some).collect();
    let scope = Scope { relations: &StreamRelations, ..*scope };
    let (bound, types) = planner.plan_with_parameters(&query, &scope, &known)?;
    let parameters = if types.len() > parameters.len() { types } else { parameters };
    if bound.plan.expressions().iter().any(has_subquery) {
        return Err(refused().at(position));
    }
    let settled = planner.analyze(&bound.plan)?;
    let mut exprs = vec![];
    for (index, output) in bound.plan.schema().columns().into_iter().enumerate() {
        let (name, value) = (output.name.clone(), Expr::Column(output));
        exprs.push(match table.columns.get(index) {
            Some(column) => {
                let from = settled.schema().field(index).data_type().clone();
                assigned(value, &from, column, literal[index], position)?.alias(name)
            }
            None => condition(value, settled.schema().field(index).data_type(), position)?.alias(name),
        });
    }
    let plan = LogicalPlanBuilder::from(bound.plan).project(exprs).and_then(|b| b.build()).map_err(|e| sql_error(&e))?;
    Ok((OnTaken::Update(plan), parameters))
}

/// What decides whether a row is changed.
fn condition(value: Expr, from: &DataType, position: usize) -> SqlResult<Expr> {
    match from {
        DataType::Boolean => Ok(value),
        DataType::Null => Ok(Expr::Cast(Cast::new(Box::new(value), DataType::Boolean))),
        other => {
            let found = SqlType::from_arrow(other).map_or_else(|_| other.to_string(), |t| t.to_string());
            let message = format!("argument of WHERE must be type boolean, not type {found}");
            Err(SqlError::new(SqlState::DatatypeMismatch, message).at(position))
        }
    }
}

/// The query of [`OnTaken::Update`], and which of its outputs are literals.
fn update_query(insert: &ast::Insert, update: &ast::DoUpdate, table: &CatalogObject) -> SqlResult<(ast::Query, Vec<bool>)> {
    let mut values: BTreeMap<usize, SqlExpr> = BTreeMap::new();
    for assignment in &update.assignments {
        let (word, value) = assignment_of(assignment)?;
        let place = place_of(table, &word)?;
        let mut value = if is_default(&value) { default_expr(&table.columns[place])? } else { value };
        literals::typed(&mut value, &table.columns[place].sql_type)?;
        if values.insert(place, value).is_some() {
            return Err(SqlError::syntax(format!("multiple assignments to same column \"{}\"", word.value)).at(word.position));
        }
    }
    let alias = rewrite::ident(&table_alias(insert, table));
    let (mut items, mut literal) = (vec![], vec![]);
    for (index, column) in table.columns.iter().enumerate() {
        let own = || SqlExpr::CompoundIdentifier(vec![alias.clone(), rewrite::ident(&column.name)]);
        let expr = values.remove(&index).unwrap_or_else(own);
        literal.push(is_literal(&expr));
        items.push(SelectItem::ExprWithAlias { expr, alias: rewrite::ident(&format!("new {index}")) });
    }
    let mut changes = update.selection.clone().unwrap_or_else(|| SqlExpr::value(ast::Value::Boolean(true)));
    if matches!(&changes, SqlExpr::Value(value) if value.value == ast::Value::Null) {
        changes = rewrite::cast(changes, ast::DataType::Boolean);
    }
    literals::typed(&mut changes, &SqlType::Boolean)?;
    items.push(SelectItem::ExprWithAlias { expr: changes, alias: rewrite::ident("changes") });
    let parts = [&table.schema, &table.name].map(|part| ast::ObjectNamePart::Identifier(rewrite::ident(part)));
    let from = named_relations(&ast::ObjectName(parts.to_vec()), Some(&alias));
    Ok((rewrite::query(ast::Select { from: from.to_vec(), ..rewrite::select_values(items) }), literal))
}

fn check_target(conflict: &ast::OnConflict, table: &CatalogObject) -> SqlResult<()> {
    match &conflict.conflict_target {
        None => Ok(()),
        Some(ast::ConflictTarget::Columns(columns)) => {
            let places = columns.iter().map(|column| place_of(table, &crate::parse_fold(column)));
            let places = places.collect::<SqlResult<BTreeSet<usize>>>()?;
            let key: BTreeSet<usize> = table.key().iter().copied().collect();
            if !key.is_empty() && places == key {
                return Ok(());
            }
            let text = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
            Err(SqlError::new(SqlState::InvalidColumnReference, text).with_hint("Name the columns of the primary key."))
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let given = name.0.last().and_then(|part| part.as_ident()).map(|ident| crate::parse_fold(ident).value);
            if !table.key().is_empty() && given == Some(format!("{}_pkey", table.name)) {
                return Ok(());
            }
            let text = format!("constraint \"{}\" for table \"{}\" does not exist", given.unwrap_or_default(), table.name);
            Err(SqlError::new(SqlState::UndefinedObject, text))
        }
    }
}

/// The expressions of an update of rows that are there, over the columns of such a row followed by those of the new one: the values
/// of all columns, then whether the row is changed.
///
/// # Errors
/// `0A000` for what looks beyond the two rows.
pub fn replacing_exprs(planner: &LogicalPlanner, update: &LogicalPlan, now_us: i64) -> SqlResult<Vec<Arc<dyn PhysicalExpr>>> {
    let plan = planner.optimize_batch(update, now_us)?;
    let made = |e: datafusion::error::DataFusionError| sql_error(&e);
    let mut sides = vec![];
    relations(update, &mut sides);
    let [old, new] = sides.as_slice() else { return Err(refused()) };
    let fields: DFSchema = old.join(new).map_err(made)?;
    let options = planner.state().config_options();
    over_relations(&plan, &fields)?.iter().map(|expr| physical_expr(expr, &fields, options)).collect()
}

/// The columns of the relations that a plan before any rule joins.
fn relations(plan: &LogicalPlan, found: &mut Vec<DFSchema>) {
    match plan {
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_) => found.push(plan.schema().as_ref().clone()),
        other => other.inputs().into_iter().for_each(|input| relations(input, found)),
    }
}

/// The outputs of projections over joined relations, over the relations' columns: only `fields`, and not what a subquery gives.
fn over_relations(plan: &LogicalPlan, fields: &DFSchema) -> SqlResult<Vec<Expr>> {
    match plan {
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_) => {
            let columns = plan.schema().columns();
            let is_side = columns.iter().all(|column| fields.has_column(column));
            if is_side { Ok(columns.into_iter().map(Expr::Column).collect()) } else { Err(refused()) }
        }
        LogicalPlan::Join(join) if join.on.is_empty() && join.filter.is_none() => {
            Ok([over_relations(&join.left, fields)?, over_relations(&join.right, fields)?].concat())
        }
        LogicalPlan::Projection(projection) => {
            let inner = over_relations(&projection.input, fields)?;
            let schema = projection.input.schema();
            let replaced = projection.expr.iter().map(|expr| {
                expr.clone().unalias().transform_up(|part| match &part {
                    Expr::Column(column) => Ok(Transformed::yes(inner[schema.index_of_column(column)?].clone())),
                    _ => Ok(Transformed::no(part)),
                })
            });
            replaced.map(|expr| expr.data().map_err(|e| sql_error(&e))).collect()
        }
        _ => Err(refused()),
    }
}

fn refused() -> SqlError {
    SqlError::unsupported("ON CONFLICT DO UPDATE with a subquery, an aggregate or a window function is not supported")
        .with_hint("Use columns of the row that is there and of excluded, and expressions over them.")
}
