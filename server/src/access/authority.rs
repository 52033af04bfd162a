//! What a role may do, as of one moment of the catalog.

use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_catalog::catalog::SYSTEM_SCHEMAS;
use thalweg_catalog::object::ConnectorSpec;
use thalweg_catalog::security::{Predefined, Security};
use thalweg_catalog::{Catalog, CatalogObject, ObjectId, Privileges, RoleId, SqlError, SqlResult, SqlState, Subject};
use thalweg_planner::ReadRights;

/// A role, and the catalog that says what it may do.
#[derive(Clone)]
pub struct Authority {
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// The role.
    pub role: RoleId,
}

/// `42501`: a role lacks a privilege.
pub fn denied(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::InsufficientPrivilege, format!("permission denied for {kind} {name}"))
}

/// `42501`: a role is not the owner.
pub fn not_owner(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::InsufficientPrivilege, format!("must be owner of {kind} {name}"))
}

/// `42501`, with a text of its own.
pub fn refused(text: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::InsufficientPrivilege, text)
}

impl Authority {
    /// Of a role, as of now.
    pub fn new(catalog: Arc<Catalog>, role: RoleId) -> Authority {
        Authority { catalog, role }
    }

    /// Who may do what.
    pub fn security(&self) -> &Security {
        self.catalog.security()
    }

    /// Whether the role may do everything.
    pub fn is_superuser(&self) -> bool {
        self.security().is_superuser(self.role)
    }

    /// Whether the role may look up names in a schema.
    pub fn may_use_schema(&self, schema: &str) -> bool {
        SYSTEM_SCHEMAS.contains(&schema) || self.security().may(self.role, &Subject::Schema(schema.into()), Privileges::USAGE)
    }

    /// Refuses a schema in which the role may not look up names.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_schema(&self, schema: &str) -> SqlResult<()> {
        if self.may_use_schema(schema) { Ok(()) } else { Err(denied("schema", schema)) }
    }

    /// Refuses a schema in which the role may not create.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_create_in(&self, schema: &str) -> SqlResult<()> {
        let subject = Subject::Schema(schema.to_string());
        if self.security().may(self.role, &subject, Privileges::CREATE) { Ok(()) } else { Err(denied("schema", schema)) }
    }

    /// Refuses a relation on which the role has not all of these privileges as a whole.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_relation(&self, object: &CatalogObject, wanted: Privileges) -> SqlResult<()> {
        self.check_schema(&object.schema)?;
        match self.security().may(self.role, &Subject::Relation(object.id), wanted) {
            true => Ok(()),
            false => Err(denied(&object.kind().to_string(), &object.name)),
        }
    }

    /// Refuses columns of a relation on which the role has not a privilege, neither by themselves nor through the whole.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_columns(&self, object: &CatalogObject, columns: &BTreeSet<usize>, wanted: Privileges) -> SqlResult<()> {
        self.check_schema(&object.schema)?;
        let lacking = self.columns_without(self.role, object, wanted);
        match columns.iter().any(|column| lacking.contains(column)) || (columns.is_empty() && !lacking.is_empty()) {
            true => Err(denied(&object.kind().to_string(), &object.name)),
            false => Ok(()),
        }
    }

    /// The columns of a relation on which a role has not a privilege.
    pub fn columns_without(&self, role: RoleId, object: &CatalogObject, wanted: Privileges) -> Vec<usize> {
        let security = self.security();
        if security.may(role, &Subject::Relation(object.id), wanted) {
            return vec![];
        }
        let may = |place: &usize| {
            u32::try_from(*place).is_ok_and(|place| security.may(role, &Subject::Column(object.id, place), wanted))
        };
        (0..object.columns.len()).filter(|place| !may(place)).collect()
    }

    /// Refuses what only the owner of a relation or type may do.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_owner(&self, object: &CatalogObject) -> SqlResult<()> {
        if self.security().owns(self.role, &object.subject()) {
            return Ok(());
        }
        Err(not_owner(&object.kind().to_string(), &object.name))
    }

    /// Refuses to drop an object that neither the role owns nor its schema.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_drop(&self, object: &CatalogObject) -> SqlResult<()> {
        if self.security().owns(self.role, &Subject::Schema(object.schema.clone())) { Ok(()) } else { self.check_owner(object) }
    }

    /// Refuses a connector that would read or write the server's files for a role that may not.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_connector(&self, spec: &ConnectorSpec, writes: bool) -> SqlResult<()> {
        let touches_files = spec.connector == "file";
        let needed = if writes { Predefined::WriteServerFiles } else { Predefined::ReadServerFiles };
        if !touches_files || self.security().has_predefined(self.role, needed) {
            return Ok(());
        }
        let verb = if writes { "write" } else { "read" };
        Err(refused(format!("permission denied to {verb} files of the server"))
            .with_detail(format!("Only roles with privileges of the \"{}\" role may {verb} them.", needed.name())))
    }

    /// Refuses a function that the role may not call.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_function(&self, name: &str) -> SqlResult<()> {
        let security = self.security();
        if !security.restricts_functions() || security.may(self.role, &Subject::Function(name.to_string()), Privileges::EXECUTE) {
            return Ok(());
        }
        Err(denied("function", name))
    }

    /// What of an object may be read: by the role, or by the owner of the view in whose query it is named.
    ///
    /// # Errors
    /// `42501` if nothing of it may be, or if policies hide rows and `row_security` is off.
    pub fn read_rights(&self, object: &CatalogObject, view: Option<ObjectId>, row_security: bool) -> SqlResult<ReadRights> {
        let security = self.security();
        let reader = view.map_or(self.role, |view| security.owner(&Subject::Relation(view)));
        if security.is_superuser(reader) {
            return Ok(ReadRights::default());
        }
        if view.is_none() {
            self.check_schema(&object.schema)?;
        }
        let lacking = self.columns_without(reader, object, Privileges::SELECT);
        if lacking.len() == object.columns.len() && !security.may(reader, &Subject::Relation(object.id), Privileges::SELECT) {
            return Err(denied(&object.kind().to_string(), &object.name));
        }
        let rows = match security.hides_rows(reader, object.id) {
            true if !row_security => {
                let text = format!("query would be affected by row-level security policy for table \"{}\"", object.name);
                return Err(refused(text));
            }
            true => Some(self.seen_rows(reader, object.id)?),
            false => None,
        };
        Ok(ReadRights { denied: lacking, rows })
    }

    /// The condition on rows that a role sees: what any permissive policy lets through and all restrictive ones.
    fn seen_rows(&self, reader: RoleId, relation: ObjectId) -> SqlResult<thalweg_planner::ast::Expr> {
        let roles = self.security().memberships_of(reader, true);
        let applies = |role: &RoleId| *role == RoleId::PUBLIC || roles.contains(role);
        let policies: Vec<_> = self.security().policies(relation).filter(|p| p.roles.iter().any(applies)).collect();
        let all = |permissive: bool, word: &str| {
            let texts: Vec<String> =
                policies.iter().filter(|p| p.permissive == permissive).map(|p| format!("({})", p.using)).collect();
            texts.join(word)
        };
        let (through, held) = (all(true, " OR "), all(false, " AND "));
        let text = match (through.is_empty(), held.is_empty()) {
            (true, _) => "false".to_string(),
            (false, true) => through,
            (false, false) => format!("({through}) AND {held}"),
        };
        thalweg_planner::parse::parse_expr(&text)
    }
}
