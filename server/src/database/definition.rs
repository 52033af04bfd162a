//! `CREATE`, `ALTER … RENAME`, `COMMENT`: changes of the catalog and of the jobs that run for it.

use super::connectors::{Connectors, check_outside};
use super::{Database, engine_error, now_ms, storage_error};
use crate::access::authority::Authority;
use crate::access::relations::CheckedRelations;
use std::sync::Arc;
use thalweg_catalog::catalog::{DEFAULT_SCHEMA, TEMPORARY_PREFIX};
use thalweg_catalog::{
    Catalog, CatalogChange, CatalogObject, Column, Epoch, ObjectDefinition, ObjectId, ObjectKind, RoleId, SecurityChange,
    SqlError, SqlResult, SqlState, Subject,
};
use thalweg_executor::JobSpec;
use thalweg_plan::StreamPlan;
use thalweg_planner::bind::{self, BindContext, BoundQueryObject};
use thalweg_planner::lineage::{ColumnLineage, lineage_columns};
use thalweg_planner::lower::{self, Context, Lowered, Root};
use thalweg_planner::statement::{CreateRelation, CreateSink, CreateTableAs, CreateView, Name};
use thalweg_planner::{Scope, StreamRelations, parse_query};

/// Who changes something, and where names are looked up.
#[derive(Clone)]
pub struct By {
    /// As whom.
    pub role: RoleId,
    /// The schemas of the session's path.
    pub search_path: Vec<String>,
}

/// The changes by which something new gets its owner, and what is granted on it from the start.
pub fn rights_of_new(catalog: &Catalog, subject: Subject, owner: RoleId, schema: Option<&str>) -> Vec<CatalogChange> {
    let acl = catalog.security().acl_for_new(&subject, owner, schema);
    let owned = (owner != RoleId::BOOTSTRAP).then(|| SecurityChange::Owner(subject.clone(), owner));
    let granted = acl.map(|acl| SecurityChange::Acl(subject, Some(acl)));
    owned.into_iter().chain(granted).map(CatalogChange::Security).collect()
}

/// A job ready to be run.
pub(super) struct Runnable {
    object: Arc<CatalogObject>,
    plan: Arc<StreamPlan>,
    lineage: Vec<ColumnLineage>,
    sources: Vec<Arc<CatalogObject>>,
}

impl Runnable {
    /// The job of an object that is in the catalog; none for one without a job.
    pub(super) fn of(database: &Database, object: &Arc<CatalogObject>, catalog: &Catalog) -> SqlResult<Option<Runnable>> {
        let wrong = |e: SqlError| SqlError {
            message: format!("could not plan {} \"{}\": {}", object.kind(), object.name, e.message),
            ..e
        };
        let lowered = match &object.definition {
            ObjectDefinition::Source { .. } | ObjectDefinition::View { .. } | ObjectDefinition::Enum { .. } => return Ok(None),
            ObjectDefinition::Table { .. } => {
                let plan = lower::lower_table(object).map_err(wrong)?;
                return Runnable::new(database, object, plan, vec![], catalog).map(Some);
            }
            ObjectDefinition::MaterializedView { query, .. } | ObjectDefinition::Sink { query, .. } => {
                let query = parse_query(query).map_err(wrong)?;
                let path = [object.schema.clone(), DEFAULT_SCHEMA.to_string()];
                let scope = Scope { catalog, relations: &StreamRelations, search_path: &path };
                let bound = database.planner.plan_query(&query, &scope, &[]).map_err(wrong)?;
                let plan = database.planner.optimize_stream(&bound.plan).map_err(wrong)?;
                let lowered = lower_object(database, object, &plan, catalog).map_err(wrong)?;
                (lowered, lineage_columns(&plan).map_err(wrong)?)
            }
        };
        Runnable::new(database, object, lowered.0.plan, lowered.1, catalog).map(Some)
    }

    fn new(
        database: &Database,
        object: &Arc<CatalogObject>,
        plan: StreamPlan,
        lineage: Vec<ColumnLineage>,
        catalog: &Catalog,
    ) -> SqlResult<Runnable> {
        let with_secrets = |object: &Arc<CatalogObject>| database.vault.with_secrets(object, catalog);
        let sources = plan.reads().into_iter().filter_map(|id| catalog.get(id)).map(with_secrets).collect::<SqlResult<_>>()?;
        Ok(Runnable { object: with_secrets(object)?, plan: Arc::new(plan), lineage, sources })
    }
}

/// The streaming plan of a materialized view's or sink's optimised query.
fn lower_object(
    database: &Database,
    object: &CatalogObject,
    plan: &datafusion::logical_expr::LogicalPlan,
    catalog: &Catalog,
) -> SqlResult<Lowered> {
    let (root, emit) = match &object.definition {
        ObjectDefinition::MaterializedView { emit, .. } => {
            (Root::Materialize { object: object.id, columns: object.columns.clone() }, *emit)
        }
        ObjectDefinition::Sink { emit, mode, key, .. } => {
            let columns = object.columns.clone();
            (Root::Sink { object: object.id, columns, mode: *mode, key: key.clone() }, *emit)
        }
        _ => return Err(SqlError::internal("only materialized views and sinks have queries to run")),
    };
    let plans = |id: ObjectId| database.plan(id);
    lower::lower(
        plan,
        &root,
        &Context { catalog, plans: &plans, options: Arc::clone(database.planner.state().config_options()) },
        emit,
    )
}

/// What came of a `CREATE`.
pub struct Created {
    /// Whether there is something new: not with `IF NOT EXISTS` where the name was taken.
    pub created: bool,
    /// What the user should know.
    pub notices: Vec<String>,
}

impl Created {
    fn nothing(name: &Name) -> Created {
        Created { created: false, notices: vec![format!("relation \"{}\" already exists, skipping", name.name)] }
    }
}

impl Database {
    /// Binds a `CREATE` with what its creator may read, and the secrets that its options name.
    pub(super) fn bound<T>(&self, by: &By, sql: &str, bind: impl FnOnce(&BindContext<'_>) -> SqlResult<T>) -> SqlResult<T> {
        let authority = Authority::new(self.catalog(), by.role);
        let connectors = Connectors { vault: &self.vault, authority: &authority };
        bind(&BindContext {
            planner: &self.planner,
            catalog: &authority.catalog,
            relations: &CheckedRelations(&authority),
            search_path: &by.search_path,
            connectors: &connectors,
            sql,
            now_ms: now_ms(),
        })
    }

    /// Looks whether what a new source or table is to read is there, if its creator may have it.
    async fn check_outside(&self, object: CatalogObject, by: &By) -> SqlResult<()> {
        let authority = Authority::new(self.catalog(), by.role);
        authority.check_create_in(&object.schema)?;
        check_outside(&*self.vault.with_secrets(&Arc::new(object), &authority.catalog)?).await
    }

    /// Creates a source.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn create_source(&self, create: &CreateRelation, by: &By, sql: &str) -> SqlResult<Created> {
        // Before others have to wait: the outside takes its time.
        if let Some(object) = self.bound(by, sql, |context| bind::bind_create_source(create, context))? {
            self.check_outside(object, by).await?;
        }
        let mut log = self.ddl.lock().await;
        let bound = self.bound(by, sql, |context| bind::bind_create_source(create, context))?;
        let Some(object) = bound else { return Ok(Created::nothing(&create.name)) };
        self.add(&mut log, object, by, None, vec![]).await
    }

    /// Creates a table and runs its job.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn create_table(&self, create: &CreateRelation, by: &By, sql: &str) -> SqlResult<Created> {
        // Before others have to wait: the outside takes its time.
        if let Some(object) = self.bound(by, sql, |context| bind::bind_create_table(create, context))? {
            self.check_outside(object, by).await?;
        }
        let mut log = self.ddl.lock().await;
        let bound = self.bound(by, sql, |context| bind::bind_create_table(create, context))?;
        let Some(object) = bound else { return Ok(Created::nothing(&create.name)) };
        let plan = lower::lower_table(&object)?;
        self.add(&mut log, object, by, Some((plan, vec![])), vec![]).await
    }

    /// Creates a table for the rows of a query that gives these columns, and runs its job. Its rows are yet to be written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn create_table_as(
        &self,
        create: &CreateTableAs,
        columns: Vec<Column>,
        by: &By,
        sql: &str,
    ) -> SqlResult<(Created, Option<Arc<CatalogObject>>)> {
        let mut log = self.ddl.lock().await;
        let bound = self.bound(by, sql, |context| bind::bind_create_table_as(create, columns, context))?;
        let Some(object) = bound else { return Ok((Created::nothing(&create.name), None)) };
        let (id, plan) = (object.id, lower::lower_table(&object)?);
        let created = self.add(&mut log, object, by, Some((plan, vec![])), vec![]).await?;
        Ok((created, self.catalog().get(id).cloned()))
    }

    /// Creates a view.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn create_view(&self, create: &CreateView, by: &By, sql: &str) -> SqlResult<Created> {
        let mut log = self.ddl.lock().await;
        let bound = self.bound(by, sql, |context| bind::bind_create_view(create, context))?;
        let Some(object) = bound else { return Ok(Created::nothing(&create.name)) };
        self.add(&mut log, object, by, None, vec![]).await
    }

    /// Creates a materialized view and runs its job.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn create_materialized_view(&self, create: &CreateView, by: &By, sql: &str) -> SqlResult<Created> {
        let mut log = self.ddl.lock().await;
        let bound = self.bound(by, sql, |context| bind::bind_create_materialized_view(create, context))?;
        let Some(bound) = bound else { return Ok(Created::nothing(&create.name)) };
        self.add_query_object(&mut log, bound, by).await
    }

    /// Creates a sink and runs its job.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn create_sink(&self, create: &CreateSink, by: &By, sql: &str) -> SqlResult<Created> {
        let mut log = self.ddl.lock().await;
        let bound = self.bound(by, sql, |context| bind::bind_create_sink(create, context))?;
        let Some(bound) = bound else { return Ok(Created::nothing(&create.name)) };
        self.add_query_object(&mut log, bound, by).await
    }

    async fn add_query_object(
        &self,
        log: &mut thalweg_storage::CatalogLog,
        bound: BoundQueryObject,
        by: &By,
    ) -> SqlResult<Created> {
        let BoundQueryObject { mut object, plan } = bound;
        let lowered = lower_object(self, &object, &plan, &self.catalog())?;
        if let ObjectDefinition::MaterializedView { key, .. } = &mut object.definition {
            *key = lowered.key();
        }
        let lineage = lineage_columns(&plan)?;
        self.add(log, object, by, Some((lowered.plan, lineage)), lowered.notices).await
    }

    /// Puts an object into the catalog and runs its job, if it has one. If the job can't be run, the object goes again.
    pub(super) async fn add(
        &self,
        log: &mut thalweg_storage::CatalogLog,
        object: CatalogObject,
        by: &By,
        plan: Option<(StreamPlan, Vec<ColumnLineage>)>,
        notices: Vec<String>,
    ) -> SqlResult<Created> {
        let (id, kind, name, subject) = (object.id, object.kind(), object.name.clone(), object.subject());
        let catalog = self.catalog();
        let mut read = object.depends_on.iter().filter_map(|on| catalog.get(*on));
        if let Some(temporary) = read.find(|on| on.schema.starts_with(TEMPORARY_PREFIX)) {
            return Err(SqlError::unsupported(format!(
                "a {kind} over the temporary table \"{}\" is not supported",
                temporary.name
            ))
            .with_hint("Use a table that lasts."));
        }
        Authority::new(Arc::clone(&catalog), by.role).check_create_in(&object.schema)?;
        let mut changes = rights_of_new(&catalog, subject, by.role, Some(&object.schema));
        changes.insert(0, CatalogChange::Create(Box::new(object)));
        self.commit(log, changes).await?;
        if let Some((plan, lineage)) = plan {
            let catalog = self.catalog();
            let object = catalog.get(id).ok_or_else(|| SqlError::internal("a created object is not there"))?;
            let started = match Runnable::new(self, object, plan, lineage, &catalog) {
                Ok(runnable) => self.run(runnable).await,
                Err(error) => Err(error),
            };
            if let Err(error) = started {
                self.engine.drop_jobs(&[id]).await;
                self.commit(log, vec![CatalogChange::Drop(id)]).await?;
                return Err(error);
            }
        }
        self.note("create", Some(id), format!("{kind} \"{name}\" created"));
        Ok(Created { created: true, notices })
    }

    /// Runs a job.
    pub(super) async fn run(&self, runnable: Runnable) -> SqlResult<()> {
        let Runnable { object, plan, lineage, sources } = runnable;
        let id = object.id;
        self.plans.write().insert(id, Arc::clone(&plan));
        self.lineage.write().insert(id, Arc::new(lineage));
        let memory_bytes = match object.kind() {
            ObjectKind::MaterializedView => bind::job_memory_bytes(&object.sql)?,
            _ => None,
        };
        let fingerprint = lower::fingerprint(&plan);
        let spec = JobSpec { object, plan, fingerprint, sources, memory_bytes };
        self.engine.create_job(spec).await.map_err(|e| engine_error(&e, &self.catalog()))
    }

    /// Makes changes of the catalog durable, and then visible.
    pub(super) async fn commit(&self, log: &mut thalweg_storage::CatalogLog, changes: Vec<CatalogChange>) -> SqlResult<()> {
        let catalog = self.catalog();
        // Checked first, so that what the user did wrong is told as that.
        catalog.apply(&thalweg_catalog::CatalogTransaction { version: catalog.version() + 1, changes: changes.clone() })?;
        let next = log.commit(&catalog, changes).await.map_err(|e| storage_error(&e))?;
        self.engine.set_catalog_version(next.version());
        *self.catalog.write() = Arc::new(next);
        Ok(())
    }

    /// Changes the catalog in a way that no job notices, by what it is once nobody else changes it.
    ///
    /// # Errors
    /// Those of `make`, and what is wrong with the changes.
    pub async fn change_catalog_with<T>(
        &self,
        make: impl FnOnce(&Arc<Catalog>) -> SqlResult<(Vec<CatalogChange>, T)>,
    ) -> SqlResult<T> {
        let mut log = self.ddl.lock().await;
        let (changes, result) = make(&self.catalog())?;
        if !changes.is_empty() {
            self.commit(&mut log, changes).await?;
        }
        Ok(result)
    }

    /// Changes the catalog in a way that no job notices.
    ///
    /// # Errors
    /// What is wrong with the changes.
    pub async fn change_catalog(&self, changes: Vec<CatalogChange>) -> SqlResult<()> {
        let mut log = self.ddl.lock().await;
        self.commit(&mut log, changes).await
    }

    /// Gives an object another name.
    ///
    /// # Errors
    /// `42P01`, `42809`, `42P07`; `2BP01` where queries name it, since their text would no longer be true.
    pub async fn rename(&self, kind: ObjectKind, name: &Name, to: &str, if_exists: bool, by: &By) -> SqlResult<Vec<String>> {
        let mut log = self.ddl.lock().await;
        let catalog = self.catalog();
        let object = match bind::find_object(name, &catalog, &by.search_path) {
            Ok(object) => object,
            Err(error) if if_exists && error.state == SqlState::UndefinedTable => {
                return Ok(vec![format!("{kind} \"{}\" does not exist, skipping", name.name)]);
            }
            Err(error) => return Err(error),
        };
        // As in Postgres, ALTER TABLE renames views too.
        let is_view = matches!(object.kind(), ObjectKind::View | ObjectKind::MaterializedView);
        if object.kind() != kind && !(kind == ObjectKind::Table && is_view) {
            return Err(wrong_kind(object, kind).at(name.position));
        }
        let authority = Authority::new(Arc::clone(&catalog), by.role);
        authority.check_owner(object)?;
        authority.check_create_in(&object.schema)?;
        let mut changes = vec![CatalogChange::Rename { id: object.id, name: to.to_string() }];
        for dependent in catalog.dependents(object.id) {
            let query = match &dependent.definition {
                ObjectDefinition::View { query }
                | ObjectDefinition::MaterializedView { query, .. }
                | ObjectDefinition::Sink { query, .. } => query,
                _ => continue,
            };
            if let Some(renamed) = bind::renamed_query(query, object, to)? {
                changes.push(CatalogChange::Redefine { id: dependent.id, query: renamed });
            }
        }
        self.commit(&mut log, changes).await?;
        self.note("rename", Some(object.id), format!("{kind} \"{}\" renamed to \"{to}\"", object.name));
        Ok(vec![])
    }

    /// Makes everything that was written visible in every view that can show it.
    ///
    /// # Errors
    /// If a job has failed.
    pub async fn flush(&self) -> SqlResult<Epoch> {
        let epoch = self.engine.clock().open();
        for job in self.engine.jobs() {
            if job.is_stopped() {
                continue;
            }
            self.engine.clock().demand();
            job.wait_until(|job| job.is_stopped() || (job.since().is_some() && job.completed() >= epoch)).await;
        }
        Ok(epoch)
    }
}

/// An object's kind and name, with its schema where that is not in the search path.
pub fn described(object: &CatalogObject, search_path: &[String]) -> String {
    if search_path.contains(&object.schema) {
        return format!("{} {}", object.kind(), object.name);
    }
    format!("{} {}.{}", object.kind(), object.schema, object.name)
}

pub(super) fn wrong_kind(object: &CatalogObject, wanted: ObjectKind) -> SqlError {
    SqlError::new(SqlState::WrongObjectType, format!("\"{}\" is not a {wanted}", object.name)).with_hint(format!(
        "Use DROP {} to remove a {}.",
        object.kind().to_string().to_uppercase(),
        object.kind()
    ))
}
