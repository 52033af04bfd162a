//! Looks up names for DataFusion: relations in the catalog, functions and types in the session.

use super::{BoundQuery, LogicalPlanner, Scope, places};
use crate::errors::sql_error;
use crate::functions::denied;
use crate::relation::{InlinedView, ReadRights, object_of};
use crate::{parse, reads, rewrite};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource, WindowUDF};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use thalweg_catalog::catalog::{DEFAULT_SCHEMA, SYSTEM_SCHEMAS};
use thalweg_catalog::{CatalogObject, ObjectDefinition, ObjectId, SqlError, SqlResult, SqlState, SqlType};

/// How deep views may stand on views.
const VIEW_DEPTH_MAX: usize = 32;

/// Looks up the names of one query.
pub(super) struct Binder<'a> {
    planner: &'a LogicalPlanner,
    scope: &'a Scope<'a>,
    view_depth: usize,
    /// The view whose query this is.
    view: Option<ObjectId>,
    /// The relations whose row policies this stands in.
    policies: Vec<ObjectId>,
    /// What was found, by the bare name if it was one: a common table expression of the same name may hide it.
    found: RefCell<Vec<(ObjectId, Option<String>)>>,
}

impl<'a> Binder<'a> {
    pub(super) fn new(planner: &'a LogicalPlanner, scope: &'a Scope<'a>) -> Binder<'a> {
        Binder { planner, scope, view_depth: 0, view: None, policies: vec![], found: RefCell::default() }
    }

    /// The plan of a query that has been rewritten.
    pub(super) fn bind(&self, query: ast::Query, parameters: &[SqlType]) -> SqlResult<BoundQuery> {
        let hiding = cte_names(&query);
        let fields: Vec<FieldRef> = parameters.iter().map(|t| Arc::new(t.to_field("", true))).collect();
        let mut context = PlannerContext::new().with_prepare_param_data_types(fields);
        let plan = SqlToRel::new(self)
            .sql_statement_to_plan_with_context(ast::Statement::Query(Box::new(query)), &mut context)
            .map_err(|e| sql_error(&e))?;
        let depends_on = self.depends_on(&plan, &hiding)?;
        Ok(BoundQuery { plan, depends_on })
    }

    /// An expression over these columns.
    pub(super) fn bind_expr(&self, expr: ast::Expr, schema: &DFSchema) -> SqlResult<Expr> {
        SqlToRel::new(self).sql_to_expr(expr, schema, &mut PlannerContext::new()).map_err(|e| sql_error(&e))
    }

    /// Refuses a part of a statement, as it was written, that calls a function which may not be called, or not there.
    pub(super) fn check_functions<V: ast::Visit>(&self, part: &V) -> SqlResult<()> {
        places::check(part, &self.planner.state)?;
        reads::called_functions(part).iter().try_for_each(|name| self.scope.relations.check_function(name))
    }

    fn depends_on(&self, plan: &LogicalPlan, hiding: &BTreeSet<String>) -> SqlResult<Vec<ObjectId>> {
        let mut scanned = BTreeSet::new();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(object) = object_of(scan.source.as_ref())
            {
                scanned.insert(object.id);
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(|e| sql_error(&e))?;
        let found = self.found.borrow();
        let ids: BTreeSet<ObjectId> = found
            .iter()
            .filter(|(id, bare)| bare.as_ref().is_none_or(|name| !hiding.contains(name)) || scanned.contains(id))
            .map(|(id, _)| *id)
            .collect();
        Ok(ids.into_iter().collect())
    }

    fn resolve(&self, name: &TableReference) -> SqlResult<Arc<dyn TableSource>> {
        let table = name.table();
        if let Some(schema) = name.schema() {
            if is_system(schema) {
                let found = self.scope.relations.system_relation(schema, table)?;
                return found.ok_or_else(|| self.no_relation(&format!("{schema}.{table}"), Some(schema)));
            }
            let object = self.scope.catalog.resolve(schema, table)?;
            return self.source(object, None);
        }
        // As in Postgres, its own catalog comes first unless the path says otherwise.
        let in_path = self.scope.search_path.iter().any(|schema| schema == "pg_catalog");
        if !in_path && let Some(found) = self.scope.relations.system_relation("pg_catalog", table)? {
            return Ok(found);
        }
        for schema in self.scope.search_path {
            if is_system(schema) {
                if let Some(found) = self.scope.relations.system_relation(schema, table)? {
                    return Ok(found);
                }
            } else if let Some(object) = self.scope.catalog.find(schema, table) {
                return self.source(object, Some(table.to_string()));
            }
        }
        let schema = self.scope.search_path.iter().find(|schema| !is_system(schema)).map_or(DEFAULT_SCHEMA, String::as_str);
        match self.scope.catalog.resolve(schema, table) {
            Ok(object) => self.source(object, Some(table.to_string())),
            // It was looked for without a schema.
            Err(error) => Err(SqlError { message: format!("relation \"{table}\" does not exist"), ..error }),
        }
    }

    fn no_relation(&self, shown: &str, schema: Option<&str>) -> SqlError {
        let error = SqlError::new(SqlState::UndefinedTable, format!("relation \"{shown}\" does not exist"));
        match schema {
            Some(_) => error.with_detail("System relations can be read in queries but not in views."),
            None => error,
        }
    }

    fn source(&self, object: &Arc<CatalogObject>, bare: Option<String>) -> SqlResult<Arc<dyn TableSource>> {
        if self.view_depth == 0 {
            self.found.borrow_mut().push((object.id, bare));
        }
        let rights = self.scope.relations.rights(object, self.view)?;
        let source = match &object.definition {
            ObjectDefinition::View { query } => self.view(object, query)?,
            ObjectDefinition::Sink { .. } => {
                return Err(SqlError::new(SqlState::WrongObjectType, format!("cannot read from sink \"{}\"", object.name))
                    .with_hint("Read from the relation that the sink sends."));
            }
            ObjectDefinition::Enum { .. } => return Err(SqlError::internal("a type is no relation")),
            ObjectDefinition::Source { .. } | ObjectDefinition::Table { .. } | ObjectDefinition::MaterializedView { .. } => {
                self.scope.relations.relation(object)?
            }
        };
        if rights.is_everything() { Ok(source) } else { self.restricted(object, source, rights) }
    }

    /// A relation without the rows and columns that may not be read.
    fn restricted(
        &self,
        object: &CatalogObject,
        source: Arc<dyn TableSource>,
        rights: ReadRights,
    ) -> SqlResult<Arc<dyn TableSource>> {
        let made = |result: Result<LogicalPlanBuilder>| result.map_err(|e| sql_error(&e));
        let mut builder = made(LogicalPlanBuilder::scan(TableReference::bare(object.name.as_str()), source, None))?;
        if let Some(condition) = rights.rows {
            let condition = self.policy(object, condition, builder.schema())?;
            // The limit is none, but nothing is pushed down through it: what a query computes of rows, and the errors of that,
            // must not tell of rows that it does not see.
            builder = made(builder.filter(condition).and_then(|b| b.limit(0, Some(i64::MAX as usize))))?;
        }
        let columns = builder.schema().columns();
        let shown = columns.into_iter().zip(&object.columns).enumerate().map(|(place, (column, known))| {
            let column = Expr::Column(column);
            match rights.denied.contains(&place) {
                true => denied::denied(column, &object.kind().to_string(), &object.name).alias(&known.name),
                false => column,
            }
        });
        let shown: Vec<Expr> = shown.collect();
        let plan = made(builder.project(shown))?.build().map_err(|e| sql_error(&e))?;
        Ok(Arc::new(InlinedView::new(plan)))
    }

    /// The condition of a relation's row policies.
    fn policy(&self, object: &CatalogObject, mut condition: ast::Expr, schema: &DFSchema) -> SqlResult<Expr> {
        if self.policies.contains(&object.id) {
            let text = format!("infinite recursion detected in policy for relation \"{}\"", object.name);
            return Err(SqlError::new(SqlState::InvalidObjectDefinition, text));
        }
        let path = [object.schema.clone(), DEFAULT_SCHEMA.to_string()];
        rewrite::resolve_types(&mut condition, self.scope.catalog, &path)?;
        rewrite::rewrite_expr(&mut condition)?;
        let scope = Scope { search_path: &path, ..*self.scope };
        let policies = self.policies.iter().copied().chain([object.id]).collect();
        let inner = Binder {
            planner: self.planner,
            scope: &scope,
            view_depth: self.view_depth + 1,
            view: self.view,
            policies,
            found: RefCell::default(),
        };
        let bound = inner.bind_expr(condition, schema);
        bound.map_err(|error| SqlError { position: None, ..error })
    }

    /// A view's query in its place, its columns named as the view's.
    fn view(&self, object: &CatalogObject, text: &str) -> SqlResult<Arc<dyn TableSource>> {
        if self.view_depth >= VIEW_DEPTH_MAX {
            return Err(SqlError::new(
                SqlState::StatementTooComplex,
                format!("view \"{}\" stands on too many views", object.name),
            ));
        }
        let mut query = parse::parse_query(text)?;
        self.check_functions(&query)?;
        // Names in a view mean what they meant when it was created, whatever the session's path is.
        let path = [object.schema.clone(), DEFAULT_SCHEMA.to_string()];
        rewrite::resolve_types(&mut *query, self.scope.catalog, &path)?;
        rewrite::rewrite_query(&mut query)?;
        let scope = Scope { search_path: &path, ..*self.scope };
        let (planner, policies) = (self.planner, self.policies.clone());
        let view_depth = self.view_depth + 1;
        let binder = Binder { planner, scope: &scope, view_depth, view: Some(object.id), policies, found: RefCell::default() };
        let plan = binder.bind(*query, &[]).map_err(|mut error| {
            // A place in the view's text is none in the statement's.
            error.position = None;
            error
        })?;
        let columns = plan.plan.schema().columns();
        if columns.len() != object.columns.len() {
            return Err(SqlError::internal(format!("view \"{}\" no longer has the columns it had", object.name)));
        }
        let named = columns.into_iter().zip(&object.columns).map(|(column, known)| Expr::Column(column).alias(&known.name));
        let plan = LogicalPlanBuilder::from(plan.plan).project(named).and_then(|b| b.build()).map_err(|e| sql_error(&e))?;
        Ok(Arc::new(InlinedView::new(plan)))
    }
}

fn is_system(schema: &str) -> bool {
    SYSTEM_SCHEMAS.contains(&schema)
}

/// The names of all common table expressions in a query.
fn cte_names(query: &ast::Query) -> BTreeSet<String> {
    struct Collect(BTreeSet<String>);
    impl ast::Visitor for Collect {
        type Break = ();
        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            if let Some(with) = &query.with {
                self.0.extend(with.cte_tables.iter().map(|cte| crate::parse_fold(&cte.alias.name).value));
            }
            ControlFlow::Continue(())
        }
    }
    let mut collect = Collect(BTreeSet::new());
    let _ = ast::Visit::visit(query, &mut collect);
    collect.0
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl ContextProvider for Binder<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        self.resolve(&name).map_err(external)
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let name = name.to_ascii_lowercase();
        let Some(function) = self.planner.state.table_functions().get(&name) else {
            return Err(external(SqlError::new(SqlState::UndefinedFunction, format!("function {name} does not exist"))));
        };
        let context = SimplifyContext::default().with_config_options(Arc::clone(self.planner.state.config_options()));
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| simplifier.coerce(arg, &schema).and_then(|arg| simplifier.simplify(arg)))
            .collect::<Result<Vec<_>>>()?;
        Ok(provider_as_source(function.create_table_provider(&args)?))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.planner.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.planner.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(crate::types::PostgresTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.planner.state.scalar_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.planner.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.planner.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.planner.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.planner.state.scalar_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.planner.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.planner.state.window_functions().keys().cloned().collect()
    }
}
