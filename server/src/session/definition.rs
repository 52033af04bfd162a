//! Statements that change the catalog. Each runs in a task of its own, which a cancelled statement does not stop half-way.

use super::{ClientSession, write};
use crate::access::authority::{denied, not_owner, refused};
use crate::database::definition::{Created, described, rights_of_new};
use crate::wire::session::{Notice, Outcome, Severity};
use std::sync::Arc;
use thalweg_catalog::{Catalog, CatalogChange, CatalogObject, ObjectKind, Privileges, SqlError, SqlResult, SqlState, Subject};
use thalweg_planner::bind::{find_object, find_type};
use thalweg_planner::statement::{AddLabel, CommentTarget, DropObjects, DropSchemas, JobReference, Name, RoleName, Word};
use thalweg_planner::{ParsedStatement, Statement};

impl ClientSession {
    pub(super) async fn define(&mut self, parsed: &ParsedStatement) -> SqlResult<Outcome> {
        let mut statement = parsed.statement.clone();
        if let Statement::CreateTable(create) = &mut statement
            && create.temporary
        {
            self.place_temporary(&mut create.name).await?;
        }
        let (database, by, sql) = (Arc::clone(&self.database), self.by(), parsed.text.clone());
        let tag = statement.tag();
        let created = Self::apart(async move {
            match &statement {
                Statement::CreateSource(create) => database.create_source(create, &by, &sql).await,
                Statement::CreateTable(create) => database.create_table(create, &by, &sql).await,
                Statement::CreateView(create) => database.create_view(create, &by, &sql).await,
                Statement::CreateMaterializedView(create) => database.create_materialized_view(create, &by, &sql).await,
                Statement::CreateSink(create) => database.create_sink(create, &by, &sql).await,
                Statement::CreateType(create) => database.create_type(create, &by, &sql).await,
                _ => Err(SqlError::internal("not a CREATE")),
            }
        })
        .await?;
        Ok(self.created(created, tag))
    }

    pub(super) async fn add_label(&mut self, add: &AddLabel) -> SqlResult<Outcome> {
        let (database, by, add) = (Arc::clone(&self.database), self.by(), add.clone());
        if let Some(text) = Self::apart(async move { database.add_label(&add, &by).await }).await? {
            self.notice(Severity::Notice, SqlState::DuplicateObject, text);
        }
        Ok(Outcome::Tag("ALTER TYPE".into()))
    }

    fn created(&mut self, created: Created, tag: &str) -> Outcome {
        let state = if created.created { SqlState::SuccessfulCompletion } else { SqlState::DuplicateTable };
        created.notices.into_iter().for_each(|text| self.notice(Severity::Notice, state, text));
        Outcome::Tag(tag.to_string())
    }

    pub(super) async fn drop_objects(&mut self, drop: &DropObjects, tag: &str) -> SqlResult<Outcome> {
        let (database, by, drop) = (Arc::clone(&self.database), self.by(), drop.clone());
        let notices = Self::apart(async move { database.drop_objects(&drop, &by).await }).await?;
        self.note_all(notices);
        Ok(Outcome::Tag(tag.to_string()))
    }

    pub(super) async fn drop_schemas(&mut self, drop: &DropSchemas) -> SqlResult<Outcome> {
        let catalog = self.database.catalog();
        for word in &drop.names {
            if !catalog.has_schema(&word.value) {
                if drop.if_exists {
                    self.note_all(vec![format!("schema \"{}\" does not exist, skipping", word.value)]);
                    continue;
                }
                return Err(SqlError::new(SqlState::InvalidSchemaName, format!("schema \"{}\" does not exist", word.value))
                    .at(word.position));
            }
            let authority = self.authority();
            if !authority.security().owns(authority.role, &Subject::Schema(word.value.clone())) {
                return Err(not_owner("schema", &word.value));
            }
            if drop.cascade {
                // The last first, so that nothing is dropped before what reads it.
                let inside: Vec<_> = catalog.entries().filter(|o| o.schema == word.value).cloned().collect();
                for object in inside.iter().rev() {
                    let name = Name { schema: Some(object.schema.clone()), name: object.name.clone(), position: word.position };
                    let one = DropObjects { kind: object.kind(), names: vec![name], if_exists: true, cascade: true };
                    let (database, by) = (Arc::clone(&self.database), self.by());
                    Self::apart(async move { database.drop_objects(&one, &by).await }).await?;
                }
                self.note_cascade(&inside);
            }
            let (database, name) = (Arc::clone(&self.database), word.value.clone());
            Self::apart(async move { database.change_catalog(vec![CatalogChange::DropSchema(name)]).await }).await?;
        }
        Ok(Outcome::Tag("DROP SCHEMA".into()))
    }

    /// Says what went with a schema.
    fn note_cascade(&mut self, gone: &[Arc<CatalogObject>]) {
        let path = self.search_path();
        let lines: Vec<String> = gone.iter().map(|o| format!("drop cascades to {}", described(o, &path))).collect();
        match lines.as_slice() {
            [] => {}
            [one] => self.notice(Severity::Notice, SqlState::SuccessfulCompletion, one.as_str()),
            more => {
                let text = format!("drop cascades to {} other objects", more.len());
                let message = SqlError::new(SqlState::SuccessfulCompletion, text).with_detail(more.join("\n"));
                self.notices.push(Notice { severity: Severity::Notice, message });
            }
        }
    }

    pub(super) async fn create_schema(
        &mut self,
        name: &Word,
        if_not_exists: bool,
        owner: Option<&RoleName>,
    ) -> SqlResult<Outcome> {
        if name.value.starts_with("pg_") {
            return Err(SqlError::new(SqlState::ReservedName, format!("unacceptable schema name \"{}\"", name.value))
                .with_detail("The prefix \"pg_\" is reserved for system schemas.")
                .at(name.position));
        }
        let (authority, doer) = (self.authority(), self.doer());
        let security = authority.security();
        if !security.may(authority.role, &Subject::Database, Privileges::CREATE) {
            return Err(denied("database", &self.info.database));
        }
        let owner = match owner {
            None | Some(RoleName::Current | RoleName::Public) => authority.role,
            Some(RoleName::Session) => doer.session,
            Some(RoleName::Named(word)) => security.resolve_role(&word.value).map_err(|e| e.at(word.position))?.id,
        };
        if !security.is_member(authority.role, owner) {
            return Err(refused(format!("must be member of role \"{}\"", security.role_name(owner))));
        }
        if authority.catalog.has_schema(&name.value) && if_not_exists {
            let text = format!("schema \"{}\" already exists, skipping", name.value);
            self.notice(Severity::Notice, SqlState::DuplicateSchema, text);
            return Ok(Outcome::Tag("CREATE SCHEMA".into()));
        }
        let (database, schema) = (Arc::clone(&self.database), name.value.clone());
        let made = Self::apart(async move {
            let make = |catalog: &Arc<Catalog>| {
                let rights = rights_of_new(catalog, Subject::Schema(schema.clone()), owner, None);
                Ok(([CatalogChange::CreateSchema(schema)].into_iter().chain(rights).collect(), ()))
            };
            database.change_catalog_with(make).await
        });
        made.await.map_err(|e| e.at(name.position))?;
        Ok(Outcome::Tag("CREATE SCHEMA".into()))
    }

    /// Waits until a materialized view has everything that was written by now.
    pub(super) async fn refresh(&mut self, name: &Name) -> SqlResult<Outcome> {
        let catalog = self.database.catalog();
        let object = find_object(name, &catalog, &self.search_path())?;
        if object.kind() != ObjectKind::MaterializedView {
            let message = format!("\"{}\" is not a materialized view", object.name);
            return Err(SqlError::new(SqlState::WrongObjectType, message));
        }
        self.authority().check_owner(object)?;
        self.seen = self.seen.max(self.database.flush().await?);
        Ok(Outcome::Tag("REFRESH MATERIALIZED VIEW".into()))
    }

    pub(super) async fn rename(&mut self, statement: &Statement) -> SqlResult<Outcome> {
        let Statement::Rename { kind, if_exists, name, to } = statement else {
            return Err(SqlError::internal("not a RENAME"));
        };
        let (database, by) = (Arc::clone(&self.database), self.by());
        let (kind, if_exists, name, to) = (*kind, *if_exists, name.clone(), to.value.clone());
        let notices = Self::apart(async move { database.rename(kind, &name, &to, if_exists, &by).await }).await?;
        self.note_all(notices);
        Ok(Outcome::Tag(statement.tag().into()))
    }

    pub(super) async fn comment(&mut self, target: &CommentTarget, comment: Option<String>) -> SqlResult<Outcome> {
        let change = self.comment_change(target, comment)?;
        let database = Arc::clone(&self.database);
        Self::apart(async move { database.change_catalog(vec![change]).await }).await?;
        Ok(Outcome::Tag("COMMENT".into()))
    }

    fn comment_change(&self, target: &CommentTarget, comment: Option<String>) -> SqlResult<CatalogChange> {
        let catalog = self.database.catalog();
        let find = |kind: &ObjectKind, name: &Name| -> SqlResult<Arc<CatalogObject>> {
            let object = match kind {
                ObjectKind::Type => find_type(name, &catalog, &self.search_path())?,
                _ => find_object(name, &catalog, &self.search_path())?,
            };
            if object.kind() != *kind {
                let message = format!("\"{}\" is not a {kind}", object.name);
                return Err(SqlError::new(SqlState::WrongObjectType, message).at(name.position));
            }
            self.authority().check_owner(object)?;
            Ok(Arc::clone(object))
        };
        Ok(match target {
            CommentTarget::Object(kind, name) => CatalogChange::Comment { id: find(kind, name)?.id, comment },
            CommentTarget::Column(name, column) => {
                let object = find_object(name, &catalog, &self.search_path())?;
                self.authority().check_owner(object)?;
                let column = write::place_of(object, column)?;
                CatalogChange::CommentColumn { id: object.id, column, comment }
            }
            CommentTarget::Schema(_) => {
                return Err(
                    SqlError::unsupported("comments on schemas are not supported").with_hint("Comment on relations and columns.")
                );
            }
        })
    }

    pub(super) async fn cancel_job(&mut self, job: &JobReference) -> SqlResult<Outcome> {
        let catalog = self.database.catalog();
        let object = match job {
            JobReference::Name(name) => find_object(name, &catalog, &self.search_path())?,
            JobReference::Id(id) => catalog
                .get(thalweg_catalog::ObjectId(*id))
                .ok_or_else(|| SqlError::new(SqlState::UndefinedObject, format!("there is no job {id}")))?,
        };
        if !object.is_job() || object.kind() == ObjectKind::Table {
            return Err(SqlError::new(
                SqlState::WrongObjectType,
                format!("{} \"{}\" has no job to cancel", object.kind(), object.name),
            ));
        }
        let name = Name { schema: Some(object.schema.clone()), name: object.name.clone(), position: 1 };
        let drop = DropObjects { kind: object.kind(), names: vec![name], if_exists: false, cascade: false };
        self.drop_objects(&drop, "CANCEL JOB").await
    }

    /// Runs a change of the catalog in a task of its own, which a cancelled statement does not stop half-way.
    pub(super) async fn apart<T: Send + 'static>(work: impl Future<Output = SqlResult<T>> + Send + 'static) -> SqlResult<T> {
        tokio::spawn(work).await.map_err(|e| SqlError::internal(format!("a statement panicked: {e}")))?
    }
}
