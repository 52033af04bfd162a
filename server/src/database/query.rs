//! Queries that are read once: planned over the session's relations, run by DataFusion at one epoch.

use super::moment::Moment;
use super::producer::Producer;
use super::scan::{KeptRelation, StatementRelations};
use super::source_scan::BoundedSource;
use super::{Database, engine_error, now_us};
use crate::access::authority::Authority;
use crate::access::relations::check_system;
use crate::pg_catalog::relations::security::empty_now;
use crate::system::SystemRelations;
use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::DefaultTableSource;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::scalar::ScalarValue;
use futures::stream::{BoxStream, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_catalog::{
    Catalog, CatalogObject, Column, Delta, Epoch, ObjectId, ObjectKind, Privileges, SqlError, SqlResult, SqlState, SqlType,
};
use thalweg_executor::Reading;
use thalweg_planner::ast::{self, Expr, Value};
use thalweg_planner::{LogicalPlanner, ReadRights, RelationSource, Scope, parameter_places, sql_error};

/// The rows of a query as they come.
pub type Rows = BoxStream<'static, SqlResult<RecordBatch>>;

/// Everything that a statement is run with.
pub struct Statement {
    /// The database.
    pub database: Arc<Database>,
    /// The catalog as of the statement's start.
    pub catalog: Arc<Catalog>,
    /// Plans with the session's settings and functions.
    pub planner: LogicalPlanner,
    /// The schemas that unqualified names are looked up in.
    pub search_path: Vec<String>,
    /// Relations of the system's own.
    pub system: Arc<SystemRelations>,
    /// The relations that the statement reads.
    pub relations: Arc<StatementRelations>,
    /// The epoch that the session must see.
    pub at_least: Epoch,
    /// Who asks.
    pub authority: Authority,
    /// Whether `row_security` is on: a query that policies would change is refused otherwise.
    pub row_security: bool,
    /// The moment that its transaction sees, if it sees one throughout.
    pub moment: Option<Arc<Moment>>,
}

/// How the table of a change is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// There is none, or it is read like any other relation.
    None,
    /// Column by column, to find out whether what a change reads of it may be read.
    Checked(ObjectId),
    /// As a whole, to carry a change out that was checked.
    Written(ObjectId),
    /// Whatever policies say, since all of it goes.
    Emptied(ObjectId),
}

impl Target {
    /// For the table of a change that was checked: an `INSERT` does not read it.
    pub fn of(statement: &thalweg_planner::Statement, table: &CatalogObject) -> Target {
        match statement {
            thalweg_planner::Statement::Insert(_) => Target::None,
            _ => Target::Written(table.id),
        }
    }
}

/// Gives a statement's relations to its plan.
pub struct ReadRelations<'a>(&'a Statement, Target);

impl RelationSource for ReadRelations<'_> {
    fn relation(&self, object: &Arc<CatalogObject>) -> SqlResult<Arc<dyn TableSource>> {
        let provider: Arc<dyn datafusion::catalog::TableProvider> = match object.kind() {
            ObjectKind::Table | ObjectKind::MaterializedView => {
                Arc::new(KeptRelation::new(Arc::clone(object), Arc::clone(&self.0.relations)))
            }
            ObjectKind::Source if self.0.moment.is_some() => {
                return Err(SqlError::unsupported("a transaction that sees one moment cannot read a source")
                    .with_detail(format!("Source \"{}\" is read anew each time, from outside.", object.name))
                    .with_hint("Read a materialized view of it, or use READ COMMITTED."));
            }
            ObjectKind::Source => {
                let object = self.0.database.vault().with_secrets(object, &self.0.catalog)?;
                Arc::new(BoundedSource::new(object)?)
            }
            ObjectKind::View | ObjectKind::Sink | ObjectKind::Type => {
                return Err(SqlError::new(
                    SqlState::WrongObjectType,
                    format!("cannot read {} \"{}\"", object.kind(), object.name),
                ));
            }
        };
        Ok(Arc::new(DefaultTableSource::new(provider)))
    }

    fn system_relation(&self, schema: &str, name: &str) -> SqlResult<Option<Arc<dyn TableSource>>> {
        check_system(&self.0.authority, schema, name)?;
        self.0.system.relation(schema, name)
    }

    fn rights(&self, object: &Arc<CatalogObject>, view: Option<ObjectId>) -> SqlResult<ReadRights> {
        let authority = &self.0.authority;
        match self.1 {
            Target::Checked(id) if id == object.id && view.is_none() => {
                Ok(ReadRights { denied: authority.columns_without(authority.role, object, Privileges::SELECT), rows: None })
            }
            Target::Emptied(id) if id == object.id && view.is_none() => Ok(ReadRights::default()),
            Target::Written(id) if id == object.id && view.is_none() => {
                // There are policies on reads only: rows that a policy would decide on can't be changed.
                let hidden = authority.security().hides_rows(authority.role, id);
                let nothing = || Expr::value(Value::Boolean(false));
                Ok(ReadRights { denied: vec![], rows: hidden.then(nothing) })
            }
            _ => authority.read_rights(object, view, self.0.row_security),
        }
    }

    fn check_function(&self, name: &str) -> SqlResult<()> {
        self.0.authority.check_function(name)
    }
}

impl Statement {
    /// A statement of a session.
    pub fn new(
        database: &Arc<Database>,
        state: SessionState,
        search_path: Vec<String>,
        system: Arc<SystemRelations>,
        written: BTreeMap<ObjectId, Vec<Delta>>,
        at_least: Epoch,
        (authority, row_security): (Authority, bool),
    ) -> Statement {
        Statement {
            database: Arc::clone(database),
            catalog: database.catalog(),
            planner: LogicalPlanner::with_state(state),
            search_path,
            system,
            relations: Arc::new(StatementRelations::new(written)),
            at_least,
            authority,
            row_security,
            moment: None,
        }
    }

    /// Where the statement's relations come from.
    pub fn relation_source(&self) -> ReadRelations<'_> {
        ReadRelations(self, Target::None)
    }

    /// Where the relations of a change come from.
    pub fn relation_source_of(&self, target: Target) -> ReadRelations<'_> {
        ReadRelations(self, target)
    }

    /// Refuses a change that reads what may not be read of its table. `parameters` are the types of the change's own.
    ///
    /// # Errors
    /// `42501`, and what else is wrong with it.
    pub fn check_reads(&self, query: &ast::Query, table: ObjectId, parameters: &[SqlType]) -> SqlResult<()> {
        let relations = self.relation_source_of(Target::Checked(table));
        let declared: Vec<Option<SqlType>> = parameters.iter().cloned().map(Some).collect();
        let (bound, _) = self.planner.plan_with_parameters(query, &self.scope(&relations), &declared)?;
        self.planner.optimize_batch(&bound.plan, now_us()).map(drop)
    }

    /// What names are looked up in.
    pub fn scope<'a>(&'a self, relations: &'a ReadRelations<'a>) -> Scope<'a> {
        Scope { catalog: &self.catalog, relations, search_path: &self.search_path }
    }

    /// A query's plan, before any rule, and the types of its parameters.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn plan(&self, query: &ast::Query, declared: &[Option<SqlType>]) -> SqlResult<(LogicalPlan, Vec<SqlType>)> {
        let relations = self.relation_source();
        let mut query = query.clone();
        thalweg_planner::resolve_types(&mut query, &self.catalog, &self.search_path)?;
        let rewritten = &for_system(&query, &self.catalog);
        let declared = with_dropped(declared, &parameter_places(&query), &parameter_places(rewritten));
        let (bound, types) = self.planner.plan_with_parameters(rewritten, &self.scope(&relations), &declared)?;
        Ok((bound.plan, types))
    }

    /// The columns that a plan gives.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn describe(&self, plan: &LogicalPlan) -> SqlResult<Vec<Column>> {
        self.planner.describe(plan)
    }

    /// Relations at one epoch.
    ///
    /// # Errors
    /// If a relation's job has failed.
    pub async fn read(&self, relations: &[ObjectId]) -> SqlResult<Reading> {
        match &self.moment {
            Some(moment) => moment.read(&self.database, relations, self.at_least).await,
            None => {
                let reading = self.database.engine().read(relations, self.at_least).await;
                reading.map_err(|e| engine_error(&e, &self.catalog))
            }
        }
    }

    /// Runs a plan with these parameters. All relations are read at one epoch.
    ///
    /// # Errors
    /// What is wrong with it, or with a relation that it reads.
    pub async fn run(&self, plan: LogicalPlan, parameters: &[ScalarValue]) -> SqlResult<Rows> {
        let plan = thalweg_planner::logical::substitute_parameters(plan, parameters)?;
        let plan = self.planner.optimize_batch(&plan, now_us())?;
        let reading = self.read(&self.relations.wanted()).await?;
        self.relations.set_reading(reading);
        let state = self.planner.state();
        let physical = state.query_planner().create_physical_plan(&plan, state).await.map_err(|e| run_error(&e))?;
        let physical = yielding(physical).map_err(|e| run_error(&e))?;
        Ok(Producer::start(physical, state.task_ctx())?.boxed())
    }
}

/// The plan with operators that give way to others after some batches. DataFusion's sources do, but one row of a source can be
/// billions of a join: without this a cancel would not be heard, and other connections would wait.
fn yielding(plan: Arc<dyn ExecutionPlan>) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    let amplifies = |node: &Arc<dyn ExecutionPlan>| node.children().len() > 1 || node.name() == "UnnestExec";
    let wrapped = plan.transform_up(|node| {
        let is_amplifying = amplifies(&node);
        Ok(if is_amplifying { Transformed::yes(Arc::new(CooperativeExec::new(node)) as _) } else { Transformed::no(node) })
    })?;
    Ok(wrapped.data)
}

/// The declared types; a parameter that was left out when the query was made plannable may be anything.
fn with_dropped(declared: &[Option<SqlType>], all: &BTreeSet<usize>, kept: &BTreeSet<usize>) -> Vec<Option<SqlType>> {
    let mut declared = declared.to_vec();
    for place in all.difference(kept) {
        declared.resize(declared.len().max(place + 1), None);
        declared[*place].get_or_insert(SqlType::Text);
    }
    declared
}

/// The query, made plannable if it reads the system's own relations: clients ask them in ways of their own.
fn for_system(query: &ast::Query, catalog: &Catalog) -> ast::Query {
    let mut statement = ast::Statement::Query(Box::new(query.clone()));
    crate::pg_catalog::rewrite(&mut statement, &empty_now(catalog));
    match statement {
        ast::Statement::Query(query) => *query,
        _ => query.clone(),
    }
}

/// What a user is told of a query that failed while running.
pub fn run_error(error: &DataFusionError) -> SqlError {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(next) = cause {
        if let Some(storage) = next.downcast_ref::<thalweg_storage::StorageError>() {
            return super::storage_error(storage);
        }
        if let Some(connector) = next.downcast_ref::<thalweg_connectors::ConnectorError>() {
            return SqlError::new(SqlState::ConnectionException, connector.message.clone());
        }
        if let Some(sql) = next.downcast_ref::<SqlError>() {
            return sql.clone();
        }
        cause = next.source();
    }
    sql_error(error)
}
