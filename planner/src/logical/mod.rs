//! Queries to logical plans: names and types are looked up, then rules rewrite the plan.
//!
//! A query goes through three steps. [`LogicalPlanner::plan_query`] binds it; parameters are still open then.
//! [`LogicalPlanner::analyze`] settles types and Postgres's meaning of numbers. [`LogicalPlanner::optimize_stream`] or
//! [`LogicalPlanner::optimize_batch`] rewrite it for the engine that is to run it; both do the analysis first.

mod binder;
pub(crate) mod casts;
pub(crate) mod intervals;
pub(crate) mod json;
mod parameters;
mod places;
pub(crate) mod rules;

use crate::errors::sql_error;
use crate::functions::denied;
use crate::relation::RelationSource;
use crate::rewrite;
use crate::session::{SessionSettings, session_state};
use arrow::datatypes::{DataType, Schema};
use binder::Binder;
use chrono::{DateTime, Utc};
use datafusion::common::DFSchema;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerContext};
use datafusion::sql::sqlparser::ast;
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_catalog::{Catalog, Column, ObjectId, SqlError, SqlResult, SqlState, SqlType};

pub use parameters::{parameter_types, substitute_parameters};

/// What a query's names are looked up in.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The objects there are.
    pub catalog: &'a Catalog,
    /// What stands for them in the plan.
    pub relations: &'a dyn RelationSource,
    /// The schemas that unqualified names are looked up in, in order.
    pub search_path: &'a [String],
}

/// A query whose names have been found.
#[derive(Clone, Debug)]
pub struct BoundQuery {
    /// The plan, before any rule.
    pub plan: LogicalPlan,
    /// The relations and types that the query names, sorted: a view rather than what it reads in turn.
    pub depends_on: Vec<ObjectId>,
}

/// Plans queries with the functions and settings of a session.
#[derive(Clone, Debug)]
pub struct LogicalPlanner {
    state: SessionState,
    streaming: Arc<Optimizer>,
}

impl LogicalPlanner {
    /// A planner with default settings, as views are planned: time zone UTC.
    pub fn new() -> LogicalPlanner {
        LogicalPlanner::with_state(session_state(&SessionSettings::default(), Arc::new(RuntimeEnv::default())))
    }

    /// A planner with a session's settings and functions; see [`session_state`].
    pub fn with_state(state: SessionState) -> LogicalPlanner {
        LogicalPlanner { state, streaming: Arc::new(Optimizer::with_rules(rules::streaming())) }
    }

    /// DataFusion's state.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// Looks up all names of a query. `parameters` are the types of `$1`, `$2`, …; where there are none, they follow from
    /// the query: see [`parameter_types`].
    ///
    /// # Errors
    /// What the user is told, with a position in the statement's text where one is known.
    pub fn plan_query(&self, query: &ast::Query, scope: &Scope<'_>, parameters: &[SqlType]) -> SqlResult<BoundQuery> {
        let binder = Binder::new(self, scope);
        binder.check_functions(query)?;
        let mut query = query.clone();
        let types = rewrite::resolve_types(&mut query, scope.catalog, scope.search_path)?;
        rewrite::rewrite_query(&mut query)?;
        let BoundQuery { plan, depends_on } = binder.bind(query, parameters)?;
        Ok(BoundQuery { plan, depends_on: types.into_iter().chain(depends_on).collect::<BTreeSet<_>>().into_iter().collect() })
    }

    /// [`LogicalPlanner::plan_query`] where the client has given some types of parameters, or none: the rest follow from
    /// the query, else are text. Gives the types of all of them too.
    ///
    /// # Errors
    /// As [`LogicalPlanner::plan_query`].
    pub fn plan_with_parameters(
        &self,
        query: &ast::Query,
        scope: &Scope<'_>,
        declared: &[Option<SqlType>],
    ) -> SqlResult<(BoundQuery, Vec<SqlType>)> {
        let mut declared = declared.to_vec();
        let mut resolved = query.clone();
        rewrite::resolve_types(&mut resolved, scope.catalog, scope.search_path)?;
        let query = &resolved;
        for (place, written) in rewrite::written_parameter_types(query) {
            if declared.len() <= place {
                declared.resize(place + 1, None);
            }
            declared[place].get_or_insert(written);
        }
        // What is known already must not be guessed: `date + $1` would look for a date.
        let used = rewrite::parameter_places(query).last().map_or(0, |last| last + 1);
        if used > 0 && declared.len() >= used && declared.iter().all(Option::is_some) {
            let types: Vec<SqlType> = declared.into_iter().flatten().collect();
            return Ok((self.plan_query(query, scope, &types)?, types));
        }
        let loose = self.plan_query(query, scope, &[])?;
        let types = parameter_types(&loose.plan, &declared)?;
        if types.is_empty() {
            return Ok((loose, types));
        }
        Ok((self.plan_query(query, scope, &types)?, types))
    }

    /// Looks up an expression over the columns of a relation, such as `RETURNING`'s.
    ///
    /// # Errors
    /// As [`LogicalPlanner::plan_query`].
    pub fn plan_expr(&self, expr: &ast::Expr, schema: &DFSchema, scope: &Scope<'_>) -> SqlResult<Expr> {
        let binder = Binder::new(self, scope);
        binder.check_functions(expr)?;
        let mut expr = expr.clone();
        rewrite::resolve_types(&mut expr, scope.catalog, scope.search_path)?;
        rewrite::rewrite_expr(&mut expr)?;
        binder.bind_expr(expr, schema)
    }

    /// The plan with all types settled.
    ///
    /// # Errors
    /// Operators and functions that are not there for their arguments' types, among others.
    pub fn analyze(&self, plan: &LogicalPlan) -> SqlResult<LogicalPlan> {
        let analyzed = self
            .state
            .analyzer()
            .execute_and_check(plan.clone(), self.state.config_options(), |_, _| {})
            .map_err(|e| sql_error(&e))?;
        settle_output(analyzed)
    }

    /// The columns that a plan gives, once analyzed.
    ///
    /// # Errors
    /// As [`LogicalPlanner::analyze`].
    pub fn describe(&self, plan: &LogicalPlan) -> SqlResult<Vec<Column>> {
        output_columns(self.analyze(plan)?.schema())
    }

    /// The plan as it is to be lowered to a streaming plan: analyzed, decorrelated, filters pushed down, unread columns
    /// pruned. Rules that only help a batch engine, or change what streams, are left out.
    ///
    /// # Errors
    /// As [`LogicalPlanner::analyze`], and `0A000` for a function whose result depends on more than its arguments: what a
    /// view retracts must be what it gave before.
    pub fn optimize_stream(&self, plan: &LogicalPlan) -> SqlResult<LogicalPlan> {
        let plan = self.analyze(plan)?;
        rules::check_deterministic(&plan)?;
        let context = OptimizerContext::new_with_config_options(self.options()).without_query_execution_start_time();
        let context = context.with_skip_failing_rules(false);
        let context = WithFunctions { context, functions: &self.state };
        let plan = self.streaming.optimize(plan, &context, |_, _| {}).map_err(|e| sql_error(&e))?;
        rules::check_deterministic(&plan)?;
        denied::check(&plan)?;
        Ok(plan)
    }

    /// The plan as DataFusion is to run it, with `now()` and its like standing for `now_us`, microseconds since 1970.
    /// Make it physical with the state's query planner: [`SessionState::create_physical_plan`] would optimise it again.
    ///
    /// # Errors
    /// As [`LogicalPlanner::analyze`].
    pub fn optimize_batch(&self, plan: &LogicalPlan, now_us: i64) -> SqlResult<LogicalPlan> {
        let plan = rules::with_known_filters(self.analyze(plan)?)?;
        let now = DateTime::from_timestamp_micros(now_us).ok_or_else(|| SqlError::internal("the clock is out of bounds"))?;
        let context = OptimizerContext::new_with_config_options(self.options()).with_query_execution_start_time(now);
        let context = context.with_skip_failing_rules(false);
        let context = WithFunctions { context, functions: &self.state };
        let plan = self.state.optimizer().optimize(plan, &context, |_, _| {}).map_err(|e| sql_error(&e))?;
        denied::check(&plan)?;
        Ok(plan)
    }

    fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(self.state.config_options())
    }
}

/// A context for rules that look up functions by name, which DataFusion's own panic without: `DISTINCT ON` is one.
struct WithFunctions<'a> {
    context: OptimizerContext,
    functions: &'a SessionState,
}

impl OptimizerConfig for WithFunctions<'_> {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        self.context.query_execution_start_time()
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        self.context.alias_generator()
    }

    fn options(&self) -> Arc<ConfigOptions> {
        OptimizerConfig::options(&self.context)
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.functions)
    }
}

impl Default for LogicalPlanner {
    fn default() -> Self {
        LogicalPlanner::new()
    }
}

/// The columns of a plan's output as a user knows them.
///
/// # Errors
/// `0A000` for a type that has no SQL counterpart.
pub fn output_columns(schema: &DFSchema) -> SqlResult<Vec<Column>> {
    schema
        .fields()
        .iter()
        .map(|field| {
            Ok(Column {
                name: rewrite::visible_name(field.name()).to_string(),
                sql_type: output_type(field.data_type(), || SqlType::from_field(field))?,
                nullable: field.is_nullable(),
                default: None,
            })
        })
        .collect()
}

/// A plan's Arrow schema with the names that a user knows. DataFusion's batches have hidden parts in repeated names.
pub fn output_schema(schema: &DFSchema) -> Schema {
    let fields: Vec<_> =
        schema.fields().iter().map(|field| field.as_ref().clone().with_name(rewrite::visible_name(field.name()))).collect();
    Schema::new(fields)
}

/// Counts and ranks are unsigned in DataFusion and bigint in Postgres.
fn output_type(data_type: &DataType, otherwise: impl FnOnce() -> SqlResult<SqlType>) -> SqlResult<SqlType> {
    match data_type {
        DataType::UInt64 => Ok(SqlType::Int8),
        _ => otherwise(),
    }
}

/// The plan with output columns in the Arrow types that carry SQL types, cast where they are in others.
fn settle_output(plan: LogicalPlan) -> SqlResult<LogicalPlan> {
    let mut exprs = vec![];
    let mut changed = false;
    for (qualifier, field) in plan.schema().iter() {
        let wanted = output_type(field.data_type(), || SqlType::from_field(field))?.to_arrow();
        let column = Expr::Column(datafusion::common::Column::new(qualifier.cloned(), field.name()));
        if wanted == *field.data_type() {
            exprs.push(column);
        } else {
            changed = true;
            let cast = Expr::Cast(Cast::new(Box::new(column), wanted));
            exprs.push(cast.alias_qualified(qualifier.cloned(), field.name()));
        }
    }
    if !changed {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).project(exprs).and_then(|b| b.build()).map_err(|e| sql_error(&e))
}

/// Refuses output columns that share a name, as a relation's columns can't.
///
/// # Errors
/// `42701` with the name.
pub fn check_distinct_names(columns: &[Column]) -> SqlResult<()> {
    for (index, column) in columns.iter().enumerate() {
        if columns[..index].iter().any(|other| other.name == column.name) {
            return Err(SqlError::new(SqlState::DuplicateColumn, format!("column \"{}\" specified more than once", column.name))
                .with_hint("Give the column another name with AS."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
