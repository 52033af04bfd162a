//! What a statement is about: relations, schemas and so on, as they are called in messages.

use super::Asked;
use std::sync::Arc;
use thalweg_catalog::catalog::SYSTEM_SCHEMAS;
use thalweg_catalog::security::{DefaultFor, Dependent};
use thalweg_catalog::{CatalogObject, ObjectId, SqlError, SqlResult, SqlState, Subject};
use thalweg_planner::bind::find_object;
use thalweg_planner::statement::{GrantTarget, Name, Word};

/// Something that privileges are held on.
pub(super) struct Target {
    pub subject: Subject,
    /// What it is, in words.
    pub kind: String,
    /// What it is called.
    pub name: String,
    /// The object, if it is a relation or type.
    pub object: Option<Arc<CatalogObject>>,
}

impl Target {
    pub(super) fn relation(object: &Arc<CatalogObject>) -> Target {
        Target {
            subject: object.subject(),
            kind: object.kind().to_string(),
            name: object.name.clone(),
            object: Some(Arc::clone(object)),
        }
    }

    fn named(subject: Subject, kind: &str, name: &str) -> Target {
        Target { subject, kind: kind.into(), name: name.into(), object: None }
    }
}

impl Asked<'_> {
    pub(super) fn object(&self, name: &Name) -> SqlResult<&Arc<CatalogObject>> {
        let object = find_object(name, self.catalog, &self.doer.search_path)?;
        self.authority().check_schema(&object.schema).map_err(|e| e.at(name.position))?;
        Ok(object)
    }

    pub(super) fn schema(&self, word: &Word) -> SqlResult<Target> {
        // Everybody may use the system's schemas, and nobody create in them.
        if SYSTEM_SCHEMAS.contains(&word.value.as_str()) {
            let text = format!("privileges on the system schema \"{}\" cannot be changed", word.value);
            return Err(SqlError::unsupported(text).at(word.position));
        }
        if !self.catalog.has_schema(&word.value) {
            let text = format!("schema \"{}\" does not exist", word.value);
            return Err(SqlError::new(SqlState::InvalidSchemaName, text).at(word.position));
        }
        Ok(Target::named(Subject::Schema(word.value.clone()), "schema", &word.value))
    }

    pub(super) fn secret_target(&self, word: &Word) -> SqlResult<Target> {
        if self.security().secret(&word.value).is_none() {
            let text = format!("secret \"{}\" does not exist", word.value);
            return Err(SqlError::new(SqlState::UndefinedObject, text).at(word.position));
        }
        Ok(Target::named(Subject::Secret(word.value.clone()), "secret", &word.value))
    }

    fn database_target(&self, word: &Word) -> SqlResult<Target> {
        // Whatever a client calls the one database by is its name for that client.
        if word.value != self.doer.database {
            let text = format!("database \"{}\" does not exist", word.value);
            return Err(SqlError::new(SqlState::InvalidCatalogName, text).at(word.position));
        }
        Ok(Target::named(Subject::Database, "database", &word.value))
    }

    fn function_target(&self, word: &Word) -> SqlResult<Target> {
        if !crate::pg_catalog::functions::exists(self.database.planner(), &word.value) {
            let text = format!("could not find a function named \"{}\"", word.value);
            return Err(SqlError::new(SqlState::UndefinedFunction, text).at(word.position));
        }
        Ok(Target::named(Subject::Function(word.value.clone()), "function", &word.value))
    }

    /// Everything that a `GRANT` or `REVOKE` is about.
    pub(super) fn targets(&self, target: &GrantTarget) -> SqlResult<Vec<Target>> {
        match target {
            GrantTarget::Relations(names) => names.iter().map(|name| self.object(name).map(Target::relation)).collect(),
            GrantTarget::AllRelations(schemas) => {
                let mut found = vec![];
                for word in schemas {
                    self.schema(word)?;
                    found.extend(self.catalog.objects().filter(|object| object.schema == word.value).map(Target::relation));
                }
                Ok(found)
            }
            GrantTarget::Schemas(words) => words.iter().map(|word| self.schema(word)).collect(),
            GrantTarget::Functions(words) => words.iter().map(|word| self.function_target(word)).collect(),
            GrantTarget::Databases(words) => words.iter().map(|word| self.database_target(word)).collect(),
            GrantTarget::Secrets(words) => words.iter().map(|word| self.secret_target(word)).collect(),
            GrantTarget::Future { .. } => Err(SqlError::internal("what is created later is no target yet")),
        }
    }

    fn described(&self, subject: &Subject) -> String {
        let relation = |id: &ObjectId| match self.catalog.entry(*id) {
            Some(object) if self.doer.search_path.contains(&object.schema) => format!("{} {}", object.kind(), object.name),
            Some(object) => format!("{} {}.{}", object.kind(), object.schema, object.name),
            None => format!("relation {id}"),
        };
        match subject {
            Subject::Relation(id) | Subject::Type(id) => relation(id),
            Subject::Column(id, place) => {
                let column = self.catalog.get(*id).and_then(|object| object.columns.get(*place as usize));
                format!("column {} of {}", column.map_or("?", |column| &column.name), relation(id))
            }
            Subject::Schema(name) => format!("schema {name}"),
            Subject::Function(name) => format!("function {name}"),
            Subject::Database => format!("database {}", self.doer.database),
            Subject::Secret(name) => format!("secret {name}"),
        }
    }

    /// A line of what keeps a role from being dropped.
    pub(super) fn described_dependent(&self, dependent: &Dependent) -> String {
        match dependent {
            Dependent::Owned(subject) => format!("owner of {}", self.described(subject)),
            Dependent::Granted(subject) => format!("privileges for {}", self.described(subject)),
            Dependent::Default(DefaultFor { role, schema, schemas }) => {
                let what = if *schemas { "schemas" } else { "relations" };
                let place = schema.as_ref().map(|schema| format!(" in schema {schema}")).unwrap_or_default();
                format!(
                    "privileges for default privileges on new {what} belonging to role {}{place}",
                    self.security().role_name(*role)
                )
            }
            Dependent::Policy(relation, name) => {
                format!("target of policy {name} on {}", self.described(&Subject::Relation(*relation)))
            }
        }
    }
}
