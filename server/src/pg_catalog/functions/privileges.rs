//! Functions about what roles may do: `has_table_privilege` and its like.
//!
//! Each takes the role first, by name or OID, or leaves it out for the session's own; then what it is about; last the
//! privileges, of which one is enough. What is asked for by an OID that nothing has gives NULL.

use super::lookup::class_oid;
use super::{Function, as_int, as_oid, as_text, lenient, strict, text_at};
use crate::pg_catalog::oids;
use crate::pg_catalog::relation::{Cell, Kind};
use crate::pg_catalog::relations::{class_named, schemas};
use crate::pg_catalog::snapshot::SystemSnapshot;
use crate::pg_catalog::types::split_name;
use thalweg_catalog::catalog::SYSTEM_SCHEMAS;
use thalweg_catalog::{CatalogObject, ObjectId, Privileges, RoleId, SqlError, SqlResult, SqlState, Subject};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("has_table_privilege", Kind::Bool, |s, args| on(s, args, 1, |asked, of| asked.table(of.first()))),
    strict("has_any_column_privilege", Kind::Bool, |s, args| on(s, args, 1, |asked, of| asked.any_column(of.first()))),
    strict("has_column_privilege", Kind::Bool, |s, args| on(s, args, 2, |asked, of| asked.column(of.first(), of.get(1)))),
    strict("has_schema_privilege", Kind::Bool, |s, args| on(s, args, 1, |asked, of| asked.schema(of.first()))),
    strict("has_database_privilege", Kind::Bool, |s, args| on(s, args, 1, |asked, of| asked.database(of.first()))),
    strict("has_function_privilege", Kind::Bool, |s, args| on(s, args, 1, |asked, of| asked.function(of.first()))),
    // There are no sequences.
    strict("has_sequence_privilege", Kind::Bool, |_, _| Ok(false.into())),
    // Everybody may use types and the one language.
    strict("has_type_privilege", Kind::Bool, |_, _| Ok(true.into())),
    strict("has_language_privilege", Kind::Bool, |_, _| Ok(true.into())),
    strict("has_foreign_data_wrapper_privilege", Kind::Bool, |s, _| Ok(s.security().is_superuser(s.role).into())),
    strict("has_server_privilege", Kind::Bool, |s, _| Ok(s.security().is_superuser(s.role).into())),
    strict("has_tablespace_privilege", Kind::Bool, |s, _| Ok(s.security().is_superuser(s.role).into())),
    strict("pg_has_role", Kind::Bool, has_role),
    strict("row_security_active", Kind::Bool, |s, args| {
        Ok(class_oid(s, args.first()).map(|oid| s.security().hides_rows(s.role, ObjectId(oid))).into())
    }),
    lenient("acldefault", Kind::Acl, acldefault),
];

/// What is asked: of whom, and which privileges, each with whether it is the right to grant it.
struct Asked<'a> {
    snapshot: &'a SystemSnapshot,
    role: RoleId,
    privileges: Vec<(Privileges, bool)>,
}

/// Takes the role and the privileges out of the arguments, of which `width` say what it is about.
fn on(
    snapshot: &SystemSnapshot,
    args: &[Cell],
    width: usize,
    has: impl Fn(&Asked<'_>, &[Cell]) -> SqlResult<Option<bool>>,
) -> SqlResult<Cell> {
    let Some((privileges, rest)) = args.split_last() else { return Err(wrong_arguments()) };
    let (role, of) = match rest.len().checked_sub(width) {
        Some(0) => (snapshot.role, rest),
        Some(1) => (role_of(snapshot, &rest[0])?, &rest[1..]),
        _ => return Err(wrong_arguments()),
    };
    let text = as_text(privileges).unwrap_or_default();
    let privileges = text.split(',').map(privilege).collect::<SqlResult<_>>()?;
    has(&Asked { snapshot, role, privileges }, of).map(Cell::from)
}

fn wrong_arguments() -> SqlError {
    SqlError::new(SqlState::UndefinedFunction, "the function is not there for these arguments")
}

fn privilege(text: &str) -> SqlResult<(Privileges, bool)> {
    let upper = text.trim().to_uppercase();
    let (word, grantable) = match upper.strip_suffix("WITH GRANT OPTION") {
        Some(word) => (word.trim(), true),
        None => (upper.as_str(), false),
    };
    let known = Privileges::of_word(word).map(|privilege| (privilege, grantable));
    known.ok_or_else(|| SqlError::invalid_parameter(format!("unrecognized privilege type: \"{}\"", text.trim())))
}

fn role_of(snapshot: &SystemSnapshot, cell: &Cell) -> SqlResult<RoleId> {
    let name = match cell {
        Cell::Int(_) => return Ok(RoleId(as_oid(Some(cell)).unwrap_or(0))),
        other => as_text(other).unwrap_or_default(),
    };
    if name == "public" {
        return Ok(RoleId::PUBLIC);
    }
    let missing = || SqlError::new(SqlState::UndefinedObject, format!("role \"{name}\" does not exist"));
    snapshot.role_named(&name).ok_or_else(missing)
}

impl Asked<'_> {
    /// Whether one of the privileges is held.
    fn holds(&self, subject: &Subject) -> bool {
        let security = self.snapshot.security();
        let (held, grantable) = (security.privileges(self.role, subject), security.grantable(self.role, subject));
        self.privileges.iter().any(|(wanted, grant)| if *grant { grantable.contains(*wanted) } else { held.contains(*wanted) })
    }

    fn relation(&self, cell: Option<&Cell>) -> SqlResult<Option<u32>> {
        if let Some(Cell::Text(name)) = cell
            && name.parse::<u32>().is_err()
        {
            let (schema, relation) = split_name(name);
            let found = class_named(self.snapshot, schema.as_deref(), &relation);
            let missing = || SqlError::new(SqlState::UndefinedTable, format!("relation \"{name}\" does not exist"));
            return found.ok_or_else(missing).map(Some);
        }
        Ok(class_oid(self.snapshot, cell))
    }

    /// What is true of a relation of the system: everybody may read it.
    fn of_system(&self) -> bool {
        let reads = self.privileges.iter().any(|(wanted, grant)| *wanted == Privileges::SELECT && !grant);
        reads || self.snapshot.security().is_superuser(self.role)
    }

    fn object(&self, oid: u32) -> Option<&CatalogObject> {
        self.snapshot.catalog.get(ObjectId(oid)).map(|object| &**object)
    }

    fn table(&self, cell: Option<&Cell>) -> SqlResult<Option<bool>> {
        let Some(oid) = self.relation(cell)? else { return Ok(None) };
        Ok(Some(match self.object(oid) {
            Some(object) => self.holds(&Subject::Relation(object.id)),
            None => self.of_system(),
        }))
    }

    fn columns<'a>(&self, object: &'a CatalogObject) -> impl Iterator<Item = (&'a str, Subject)> {
        let numbered = (0u32..).zip(&object.columns);
        numbered.map(|(place, column)| (column.name.as_str(), Subject::Column(object.id, place)))
    }

    fn any_column(&self, cell: Option<&Cell>) -> SqlResult<Option<bool>> {
        let Some(oid) = self.relation(cell)? else { return Ok(None) };
        Ok(Some(match self.object(oid) {
            Some(object) => {
                self.holds(&Subject::Relation(object.id)) || self.columns(object).any(|(_, column)| self.holds(&column))
            }
            None => self.of_system(),
        }))
    }

    fn column(&self, table: Option<&Cell>, column: Option<&Cell>) -> SqlResult<Option<bool>> {
        let Some(oid) = self.relation(table)? else { return Ok(None) };
        let Some(object) = self.object(oid) else { return Ok(Some(self.of_system())) };
        let found = match (as_int(column), column.and_then(as_text)) {
            (Some(number), _) => usize::try_from(number - 1).ok().and_then(|place| self.columns(object).nth(place)),
            (None, Some(name)) => {
                let found = self.columns(object).find(|(known, _)| *known == name);
                let text = format!("column \"{name}\" of relation \"{}\" does not exist", object.name);
                Some(found.ok_or_else(|| SqlError::new(SqlState::UndefinedColumn, text))?)
            }
            (None, None) => None,
        };
        Ok(found.map(|(_, column)| self.holds(&Subject::Relation(object.id)) || self.holds(&column)))
    }

    fn schema(&self, cell: Option<&Cell>) -> SqlResult<Option<bool>> {
        let name = match (as_oid(cell), cell.and_then(as_text)) {
            (Some(oid), _) => schemas(self.snapshot).into_iter().find(|(known, _)| *known == oid).map(|(_, name)| name),
            (None, Some(name)) => {
                let known = schemas(self.snapshot).into_iter().any(|(_, schema)| schema == name);
                let missing = || SqlError::new(SqlState::InvalidSchemaName, format!("schema \"{name}\" does not exist"));
                Some(known.then(|| name.clone()).ok_or_else(missing)?)
            }
            (None, None) => None,
        };
        let Some(name) = name else { return Ok(None) };
        if SYSTEM_SCHEMAS.contains(&name.as_str()) {
            let uses = self.privileges.iter().any(|(wanted, grant)| *wanted == Privileges::USAGE && !grant);
            return Ok(Some(uses || self.snapshot.security().is_superuser(self.role)));
        }
        Ok(Some(self.holds(&Subject::Schema(name))))
    }

    fn database(&self, cell: Option<&Cell>) -> SqlResult<Option<bool>> {
        let known = match (as_oid(cell), cell.and_then(as_text)) {
            (Some(oid), _) if oid != oids::DATABASE => return Ok(None),
            (None, Some(name)) => name == self.snapshot.database,
            _ => true,
        };
        if !known {
            let name = cell.and_then(as_text).unwrap_or_default();
            return Err(SqlError::new(SqlState::InvalidCatalogName, format!("database \"{name}\" does not exist")));
        }
        Ok(Some(self.holds(&Subject::Database)))
    }

    fn function(&self, cell: Option<&Cell>) -> SqlResult<Option<bool>> {
        let name = match (as_oid(cell), cell.and_then(as_text)) {
            (Some(oid), _) => {
                let mut functions = self.snapshot.functions.iter();
                functions.find(|function| oids::function(&function.name) == oid).map(|function| function.name.clone())
            }
            // Privileges are held on all functions of a name, whatever their arguments.
            (None, Some(text)) => Some(split_name(text.split('(').next().unwrap_or_default()).1),
            (None, None) => None,
        };
        Ok(name.map(|name| self.holds(&Subject::Function(name))))
    }
}

/// `pg_has_role([user,] role, 'MEMBER' | 'USAGE' [WITH ADMIN OPTION])`.
fn has_role(snapshot: &SystemSnapshot, args: &[Cell]) -> SqlResult<Cell> {
    let (member, role, how) = match args {
        [role, how] => (snapshot.role, role, how),
        [member, role, how] => (role_of(snapshot, member)?, role, how),
        _ => return Err(wrong_arguments()),
    };
    let role = role_of(snapshot, role)?;
    let security = snapshot.security();
    let text = as_text(how).unwrap_or_default();
    let mut held = false;
    for one in text.split(',') {
        held |= match one.trim().to_uppercase().as_str() {
            "USAGE" => security.has_privileges_of(member, role),
            "MEMBER" => security.is_member(member, role),
            "USAGE WITH ADMIN OPTION" | "USAGE WITH GRANT OPTION" | "MEMBER WITH ADMIN OPTION" | "MEMBER WITH GRANT OPTION" => {
                security.is_admin(member, role)
            }
            other => return Err(SqlError::invalid_parameter(format!("unrecognized privilege type: \"{other}\""))),
        };
    }
    Ok(held.into())
}

/// `acldefault(kind, owner)`: the access list of something on which nothing was granted or revoked.
fn acldefault(snapshot: &SystemSnapshot, args: &[Cell]) -> SqlResult<Cell> {
    let Some(owner) = as_oid(args.get(1)).map(RoleId) else { return Ok(Cell::Null) };
    let subject = match text_at(args, 0).as_deref() {
        Some("r") => Subject::Relation(ObjectId(0)),
        Some("c") => Subject::Column(ObjectId(0), 0),
        Some("n") => Subject::Schema(String::new()),
        Some("f") => Subject::Function(String::new()),
        Some("d") => Subject::Database,
        Some(other) => {
            return Err(SqlError::invalid_parameter(format!("unrecognized object type abbreviation: {other}")));
        }
        None => return Ok(Cell::Null),
    };
    Ok(crate::pg_catalog::relations::security::acl_text(snapshot, &subject.default_acl(owner)).into())
}
