//! The catalog: an immutable snapshot of all objects, and the transactions that lead from one to the next.

use crate::carried::CarriedType;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ids::ObjectId;
use crate::object::{CatalogObject, EnumLabel, ObjectDefinition};
use crate::security::{Security, SecurityChange, Subject};
use crate::suggest;
use crate::types::SqlType;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The SQL schema that unqualified names are created in.
pub const DEFAULT_SCHEMA: &str = "public";

/// The schemas that hold the system's own relations; nothing can be created in them.
pub const SYSTEM_SCHEMAS: [&str; 4] = ["pg_catalog", "information_schema", "thalweg", "thalweg_state"];

/// What the names of schemas of temporary tables begin with; behind it stands the session's process id.
pub const TEMPORARY_PREFIX: &str = "pg_temp_";

/// All objects at one moment. Cheap to clone, never changed in place: [`Catalog::apply`] gives the next one.
#[derive(Clone, Debug)]
pub struct Catalog {
    version: u64,
    next_id: ObjectId,
    /// Relations and types: as in Postgres, they share one space of names.
    objects: BTreeMap<ObjectId, Arc<CatalogObject>>,
    /// CATALOG-1: holds exactly the names of `objects`.
    names: BTreeMap<(String, String), ObjectId>,
    schemas: BTreeSet<String>,
    /// Settings made with `ALTER SYSTEM SET`, by name.
    settings: BTreeMap<String, String>,
    security: Arc<Security>,
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CatalogChange {
    /// A new object; its id is at least the catalog's next.
    Create(Box<CatalogObject>),
    /// Removes an object. Nothing may depend on it once the transaction is done.
    Drop(ObjectId),
    /// Gives an object another name in its schema.
    Rename {
        /// Which object.
        id: ObjectId,
        /// Its new name.
        name: String,
    },
    /// Gives a view, materialized view or sink another text of the same query, after something that it reads was renamed.
    Redefine {
        /// Which object.
        id: ObjectId,
        /// The query's text.
        query: String,
    },
    /// Sets or removes an object's comment.
    Comment {
        /// Which object.
        id: ObjectId,
        /// The text, none to remove it.
        comment: Option<String>,
    },
    /// Sets or removes the comment of a column.
    CommentColumn {
        /// Which object.
        id: ObjectId,
        /// The column's place.
        column: usize,
        /// The text, none to remove it.
        comment: Option<String>,
    },
    /// Gives an enum type, which nothing may use, these labels.
    SetLabels {
        /// Which type.
        id: ObjectId,
        /// All of its labels.
        labels: Vec<EnumLabel>,
    },
    /// A new schema.
    CreateSchema(String),
    /// Removes a schema that holds nothing.
    DropSchema(String),
    /// Sets a system-wide setting, or resets it.
    Setting {
        /// Its name.
        name: String,
        /// Its value, none to reset it.
        value: Option<String>,
    },
    /// Changes who may do what.
    Security(SecurityChange),
}

/// Changes that happen together or not at all: one record of the catalog log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CatalogTransaction {
    /// The version that the catalog has afterwards: one more than before.
    pub version: u64,
    /// The steps, in order.
    pub changes: Vec<CatalogChange>,
}

/// The whole catalog in storable form.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CatalogSnapshot {
    /// The catalog's version.
    pub version: u64,
    /// The next free id.
    pub next_id: ObjectId,
    /// All objects by id.
    pub objects: Vec<CatalogObject>,
    /// All schemas that users can create in.
    pub schemas: Vec<String>,
    /// System-wide settings.
    pub settings: BTreeMap<String, String>,
    /// Who may do what.
    #[serde(default)]
    pub security: Security,
}

impl Default for Catalog {
    fn default() -> Self {
        Catalog::new()
    }
}

impl Catalog {
    /// A catalog with the schema `public` and nothing in it, at version 0.
    pub fn new() -> Catalog {
        Catalog {
            version: 0,
            next_id: ObjectId::FIRST_USER,
            objects: BTreeMap::new(),
            names: BTreeMap::new(),
            schemas: BTreeSet::from([DEFAULT_SCHEMA.to_string()]),
            settings: BTreeMap::new(),
            security: Arc::default(),
        }
    }

    /// Grows by one with every transaction.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The id for the next object. Ids are never given out twice.
    pub fn next_id(&self) -> ObjectId {
        self.next_id
    }

    /// The relation of this id.
    pub fn get(&self, id: ObjectId) -> Option<&Arc<CatalogObject>> {
        self.entry(id).filter(|object| object.is_relation())
    }

    /// The relation or type of this id.
    pub fn entry(&self, id: ObjectId) -> Option<&Arc<CatalogObject>> {
        self.objects.get(&id)
    }

    /// The relation of this name.
    pub fn find(&self, schema: &str, name: &str) -> Option<&Arc<CatalogObject>> {
        self.find_entry(schema, name).filter(|object| object.is_relation())
    }

    /// The type of this name.
    pub fn find_type(&self, schema: &str, name: &str) -> Option<&Arc<CatalogObject>> {
        self.find_entry(schema, name).filter(|object| !object.is_relation())
    }

    fn find_entry(&self, schema: &str, name: &str) -> Option<&Arc<CatalogObject>> {
        let id = self.names.get(&(schema.to_string(), name.to_string()))?;
        self.objects.get(id)
    }

    /// The relation of this name, or the error that a user is told.
    ///
    /// # Errors
    /// `42P01` with the nearest name as a hint.
    pub fn resolve(&self, schema: &str, name: &str) -> SqlResult<&Arc<CatalogObject>> {
        self.find(schema, name).ok_or_else(|| {
            let shown = if schema == DEFAULT_SCHEMA { name.to_string() } else { format!("{schema}.{name}") };
            let error = SqlError::new(SqlState::UndefinedTable, format!("relation \"{shown}\" does not exist"));
            let names = self.objects().filter(|o| o.schema == schema).map(|o| o.name.as_str());
            match suggest::nearest(name, names) {
                Some(near) => error.with_hint(format!("Did you mean \"{near}\"?")),
                None => error,
            }
        })
    }

    /// All relations in order of their ids, so that what a relation reads comes before it.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<CatalogObject>> {
        self.objects.values().filter(|object| object.is_relation())
    }

    /// All types in order of their ids.
    pub fn types(&self) -> impl Iterator<Item = &Arc<CatalogObject>> {
        self.objects.values().filter(|object| !object.is_relation())
    }

    /// The type of a user that has this OID, or whose arrays have it.
    pub fn type_of_oid(&self, oid: u32) -> Option<SqlType> {
        let of = self.types().filter_map(|object| object.enum_type()).find(|of| of.id.0 == oid || of.array.0 == oid)?;
        let is_array = of.array.0 == oid;
        let one = SqlType::Carried(CarriedType::Enum(Arc::new(of)));
        Some(if is_array { SqlType::Array(Box::new(one)) } else { one })
    }

    /// All relations and types in order of their ids, so that what one of them uses comes before it.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<CatalogObject>> {
        self.objects.values()
    }

    /// All schemas that users can create in, sorted.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.schemas.iter().map(String::as_str)
    }

    /// Whether users can create in a schema of this name.
    pub fn has_schema(&self, name: &str) -> bool {
        self.schemas.contains(name)
    }

    /// System-wide settings, sorted by name.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// Who may do what.
    pub fn security(&self) -> &Security {
        &self.security
    }

    /// The relations that read or use this one directly, in order of their ids.
    pub fn dependents(&self, id: ObjectId) -> Vec<&Arc<CatalogObject>> {
        self.objects.values().filter(|o| o.depends_on.contains(&id)).collect()
    }

    /// All relations that read or use this one, directly or through others, the last-created first: the order to drop them in.
    pub fn dependents_deep(&self, id: ObjectId) -> Vec<Arc<CatalogObject>> {
        let mut found = BTreeSet::from([id]);
        // Ids grow along dependencies, so one pass in their order sees every chain.
        for object in self.objects.values() {
            if object.depends_on.iter().any(|d| found.contains(d)) {
                found.insert(object.id);
            }
        }
        found.remove(&id);
        found.iter().rev().map(|id| Arc::clone(&self.objects[id])).collect()
    }

    /// The catalog after a transaction.
    ///
    /// # Errors
    /// What the user is told: a name that is taken (`42P07`, `42710`), an object that is gone (`42P01`), dependents that would be
    /// left behind (`2BP01`). The catalog itself is unchanged.
    pub fn apply(&self, transaction: &CatalogTransaction) -> SqlResult<Catalog> {
        if transaction.version != self.version + 1 {
            return Err(SqlError::new(SqlState::SerializationFailure, "the catalog was changed at the same time")
                .with_hint("Try the statement again."));
        }
        let mut next = self.clone();
        next.version = transaction.version;
        for change in &transaction.changes {
            next.apply_change(change)?;
        }
        for object in next.objects.values() {
            if let Some(gone) = object.depends_on.iter().find(|d| !next.objects.contains_key(d)) {
                let name = self.objects.get(gone).map_or_else(|| gone.to_string(), |o| o.name.clone());
                return Err(SqlError::new(
                    SqlState::DependentObjectsStillExist,
                    format!("cannot drop \"{name}\" because other objects depend on it"),
                )
                .with_detail(format!("{} \"{}\" depends on it.", object.kind(), object.name))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
        }
        Ok(next)
    }

    fn apply_change(&mut self, change: &CatalogChange) -> SqlResult<()> {
        match change {
            CatalogChange::Create(object) => {
                if !self.has_schema(&object.schema) {
                    return Err(no_schema(&object.schema));
                }
                self.claim_name(&object.schema, &object.name, object)?;
                if object.id < self.next_id {
                    return Err(SqlError::internal(format!("object id {} was given out before", object.id)));
                }
                self.next_id = ObjectId(object.last_id().0 + 1);
                self.objects.insert(object.id, Arc::new((**object).clone()));
            }
            CatalogChange::Drop(id) => {
                let object = self.objects.remove(id).ok_or_else(|| gone(*id))?;
                self.names.remove(&(object.schema.clone(), object.name.clone()));
                Arc::make_mut(&mut self.security).forget(&object.subject());
            }
            CatalogChange::Rename { id, name } => {
                let old = Arc::clone(self.objects.get(id).ok_or_else(|| gone(*id))?);
                self.claim_name(&old.schema, name, &old)?;
                self.names.remove(&(old.schema.clone(), old.name.clone()));
                self.objects.insert(*id, Arc::new(CatalogObject { name: name.clone(), ..(*old).clone() }));
            }
            CatalogChange::Redefine { id, query } => {
                let mut object = (**self.objects.get(id).ok_or_else(|| gone(*id))?).clone();
                match &mut object.definition {
                    ObjectDefinition::View { query: text }
                    | ObjectDefinition::MaterializedView { query: text, .. }
                    | ObjectDefinition::Sink { query: text, .. } => text.clone_from(query),
                    _ => return Err(SqlError::internal(format!("object {id} has no query"))),
                }
                self.objects.insert(*id, Arc::new(object));
            }
            CatalogChange::Comment { id, comment } => {
                let old = Arc::clone(self.objects.get(id).ok_or_else(|| gone(*id))?);
                self.objects.insert(*id, Arc::new(CatalogObject { comment: comment.clone(), ..(*old).clone() }));
            }
            CatalogChange::CommentColumn { id, column, comment } => self.comment_column(*id, *column, comment.as_ref())?,
            CatalogChange::SetLabels { id, labels } => self.set_labels(*id, labels)?,
            CatalogChange::CreateSchema(name) => {
                if SYSTEM_SCHEMAS.contains(&name.as_str()) || !self.schemas.insert(name.clone()) {
                    return Err(SqlError::new(SqlState::DuplicateSchema, format!("schema \"{name}\" already exists")));
                }
            }
            CatalogChange::DropSchema(name) => self.drop_schema(name)?,
            CatalogChange::Setting { name, value: Some(value) } => {
                self.settings.insert(name.clone(), value.clone());
            }
            CatalogChange::Setting { name, value: None } => {
                self.settings.remove(name);
            }
            CatalogChange::Security(change) => {
                Arc::make_mut(&mut self.security).apply(change)?;
                if let Some(id) = change.given_id() {
                    // Roles, policies and secrets have OIDs too, and none is given out twice.
                    self.next_id = self.next_id.max(ObjectId(id.0 + 1));
                }
            }
        }
        Ok(())
    }

    fn drop_schema(&mut self, name: &str) -> SqlResult<()> {
        let inside = self.objects.values().filter(|o| o.schema == *name);
        let lines: Vec<String> = inside.map(|o| format!("{} {name}.{} depends on schema {name}", o.kind(), o.name)).collect();
        if !lines.is_empty() {
            return Err(SqlError::new(
                SqlState::DependentObjectsStillExist,
                format!("cannot drop schema {name} because other objects depend on it"),
            )
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        if !self.schemas.remove(name) {
            return Err(no_schema(name));
        }
        Arc::make_mut(&mut self.security).forget(&Subject::Schema(name.to_string()));
        Ok(())
    }

    fn comment_column(&mut self, id: ObjectId, column: usize, comment: Option<&String>) -> SqlResult<()> {
        let mut object = (**self.objects.get(&id).ok_or_else(|| gone(id))?).clone();
        match comment {
            Some(text) => object.column_comments.insert(column, text.clone()),
            None => object.column_comments.remove(&column),
        };
        self.objects.insert(id, Arc::new(object));
        Ok(())
    }

    /// Columns, states and plans hold the type's labels with them: none of them may be left with others.
    fn set_labels(&mut self, id: ObjectId, wanted: &[EnumLabel]) -> SqlResult<()> {
        let mut object = (**self.objects.get(&id).ok_or_else(|| gone(id))?).clone();
        if let Some(user) = self.dependents(id).first() {
            let message = format!("labels cannot be added to type \"{}\" while something uses it", object.name);
            return Err(SqlError::unsupported(message)
                .with_detail(format!("{} \"{}\" uses it.", user.kind(), user.name))
                .with_hint("Create another type, or drop what uses this one first."));
        }
        let ObjectDefinition::Enum { labels, .. } = &mut object.definition else {
            return Err(SqlError::internal(format!("object {id} has no labels")));
        };
        labels.clear();
        labels.extend_from_slice(wanted);
        self.next_id = self.next_id.max(ObjectId(object.last_id().0 + 1));
        self.objects.insert(id, Arc::new(object));
        Ok(())
    }

    fn claim_name(&mut self, schema: &str, name: &str, object: &CatalogObject) -> SqlResult<()> {
        if let Some(taken) = self.find_entry(schema, name) {
            return Err(name_taken(name, object.is_relation() && taken.is_relation()));
        }
        self.names.insert((schema.to_string(), name.to_string()), object.id);
        Ok(())
    }

    /// The catalog in storable form.
    pub fn snapshot(&self) -> CatalogSnapshot {
        CatalogSnapshot {
            version: self.version,
            next_id: self.next_id,
            objects: self.objects.values().map(|o| (**o).clone()).collect(),
            schemas: self.schemas.iter().cloned().collect(),
            settings: self.settings.clone(),
            security: (*self.security).clone(),
        }
    }

    /// The catalog that a snapshot holds.
    pub fn from_snapshot(snapshot: CatalogSnapshot) -> Catalog {
        let objects: BTreeMap<_, _> = snapshot.objects.into_iter().map(|o| (o.id, Arc::new(o))).collect();
        Catalog {
            version: snapshot.version,
            next_id: snapshot.next_id,
            names: objects.values().map(|o| ((o.schema.clone(), o.name.clone()), o.id)).collect(),
            objects,
            schemas: snapshot.schemas.into_iter().collect(),
            settings: snapshot.settings,
            security: Arc::new(snapshot.security),
        }
    }
}

fn no_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::InvalidSchemaName, format!("schema \"{name}\" does not exist"))
}

/// `42P07`, or `42710` where one of the two is a type: relations have types of their names in Postgres.
pub fn name_taken(name: &str, are_relations: bool) -> SqlError {
    if are_relations {
        return SqlError::new(SqlState::DuplicateTable, format!("relation \"{name}\" already exists"));
    }
    SqlError::new(SqlState::DuplicateObject, format!("type \"{name}\" already exists"))
        .with_detail("Relations and types of a schema share one space of names.")
}

fn gone(id: ObjectId) -> SqlError {
    SqlError::new(SqlState::UndefinedTable, format!("relation {id} does not exist"))
}

#[cfg(test)]
mod tests;
