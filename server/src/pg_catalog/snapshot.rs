//! What the system relations and functions show: one moment of the catalog, and the session that asks.

use crate::access::authority::Authority;
use crate::access::gate::Gate;
use crate::wire::activity::Doing;
use crate::wire::connections::Connections;
use crate::wire::session::TlsInfo;
use chrono::{DateTime, Utc};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Documentation;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::security::Security;
use thalweg_catalog::{Catalog, Column, ObjectId, RoleId, SqlResult, Subject};

/// One moment of everything that system relations show. Made for one statement, so that all of its relations agree.
pub struct SystemSnapshot {
    /// All objects.
    pub catalog: Arc<Catalog>,
    /// As whom the session's statements run.
    pub user: String,
    /// Whose session it is.
    pub session_user: String,
    /// The role as which statements run.
    pub role: RoleId,
    /// The role that has connected, and by which name: until there are others, one role answers to every name.
    pub login: (RoleId, String),
    /// Who is let in; none outside a server.
    pub gate: Option<Arc<Gate>>,
    /// The session's database.
    pub database: String,
    /// The schemas that unqualified names are looked up in, in their order, without `pg_catalog`.
    pub search_path: Vec<String>,
    /// `pg_backend_pid()`.
    pub process_id: i32,
    /// The session's settings.
    pub settings: Arc<dyn Settings>,
    /// System relations that stand outside `pg_catalog` and `information_schema`, in an order that never changes.
    pub relations: Vec<SystemRelation>,
    /// The functions that can be called.
    pub functions: Arc<Vec<FunctionInfo>>,
    /// All connections.
    pub activity: Vec<Activity>,
    /// The session's prepared statements.
    pub prepared: Vec<PreparedInfo>,
    /// The session's cursors.
    pub cursors: Vec<CursorInfo>,
    /// What `pg_notify` is called with: channels and payloads, for the session to send.
    pub notified: Arc<Mutex<Vec<(String, String)>>>,
    /// Where other connections are cancelled and ended.
    pub connections: Option<Arc<Connections>>,
    /// Estimated rows and bytes of kept relations, by OID.
    pub sizes: BTreeMap<u32, RelationSize>,
}

impl SystemSnapshot {
    /// Who may do what.
    pub fn security(&self) -> &Security {
        self.catalog.security()
    }

    /// What the session may do.
    pub fn authority(&self) -> Authority {
        Authority::new(Arc::clone(&self.catalog), self.role)
    }

    /// The name of a role, which for who has connected is the one that was given.
    pub fn role_name(&self, role: RoleId) -> String {
        match &self.login {
            (login, name) if *login == role => name.clone(),
            _ => self.security().role_name(role),
        }
    }

    /// The role of this name.
    pub fn role_named(&self, name: &str) -> Option<RoleId> {
        let known = self.security().find_role(name).map(|role| role.id);
        known.or_else(|| (self.login.1 == name).then_some(self.login.0))
    }

    /// The name of the role that owns a relation.
    pub fn owner_of(&self, relation: ObjectId) -> String {
        self.role_name(self.security().owner(&Subject::Relation(relation)))
    }
}

/// A session's settings: what `SHOW`, `current_setting` and `set_config` work on.
pub trait Settings: Send + Sync {
    /// The value of a setting, none if there is no such setting.
    fn get(&self, name: &str) -> Option<String>;

    /// Changes a setting, for the transaction or the session; the value that it then has.
    ///
    /// # Errors
    /// `42704` for a setting that is not there, `22023` for a value that it can't have.
    fn set(&self, name: &str, value: &str, local: bool) -> SqlResult<String>;

    /// All settings, by name.
    fn all(&self) -> Vec<SettingInfo>;
}

/// A row of `pg_settings`.
#[derive(Clone, Debug, Default)]
pub struct SettingInfo {
    /// The setting's name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The unit that a bare number counts.
    pub unit: Option<String>,
    /// What it is for.
    pub description: String,
    /// `bool`, `integer`, `real`, `enum` or `string`.
    pub kind: &'static str,
    /// The value at the session's start.
    pub reset_value: String,
}

/// A system relation that is not of this module.
#[derive(Clone, Debug)]
pub struct SystemRelation {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// A function as `pg_proc` has it.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// Its name.
    pub name: String,
    /// `f` for a plain function, `a` for an aggregate, `w` for a window function.
    pub kind: char,
    /// The text of its arguments.
    pub arguments: String,
    /// The text of its result type.
    pub result: String,
    /// What it does.
    pub description: Option<String>,
}

impl FunctionInfo {
    /// All functions that can be called, by name. Costly: made once, not for each statement.
    pub fn of_state(state: &SessionState) -> Vec<FunctionInfo> {
        let info = |name: &str, kind: char, documentation: Option<&Documentation>| {
            let arguments = documentation.and_then(|text| text.arguments.as_ref());
            let names = arguments.map(|list| list.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "));
            FunctionInfo {
                name: name.to_string(),
                kind,
                arguments: names.unwrap_or_default(),
                result: String::new(),
                description: documentation.map(|text| text.description.trim().to_string()),
            }
        };
        let scalar = state.scalar_functions().iter().map(|(name, f)| info(name, 'f', f.documentation()));
        let aggregate = state.aggregate_functions().iter().map(|(name, f)| info(name, 'a', f.documentation()));
        let window = state.window_functions().iter().map(|(name, f)| info(name, 'w', f.documentation()));
        // What is both an aggregate and a window function is shown as the former; what begins with `_` is not for users.
        let all = window.chain(aggregate).chain(scalar).filter(|function| !function.name.starts_with('_'));
        let by_name: BTreeMap<String, FunctionInfo> = all.map(|function| (function.name.clone(), function)).collect();
        by_name.into_values().collect()
    }
}

/// A prepared statement as `pg_prepared_statements` has it.
#[derive(Clone, Debug)]
pub struct PreparedInfo {
    /// Its name.
    pub name: String,
    /// Its text.
    pub statement: String,
    /// The OIDs of its parameters' types.
    pub parameter_types: Vec<u32>,
    /// Whether `PREPARE` made it.
    pub from_sql: bool,
    /// When it was made.
    pub since: DateTime<Utc>,
}

/// A cursor as `pg_cursors` has it.
#[derive(Clone, Debug)]
pub struct CursorInfo {
    /// Its name.
    pub name: String,
    /// The text that declared it.
    pub statement: String,
    /// Whether it outlives its transaction.
    pub is_holdable: bool,
    /// Whether it can go back.
    pub is_scrollable: bool,
    /// When it was declared.
    pub created: DateTime<Utc>,
}

/// A connection as `pg_stat_activity` has it.
#[derive(Clone, Debug)]
pub struct Activity {
    /// `pg_backend_pid()` there.
    pub process_id: i32,
    /// Its user.
    pub user: String,
    /// Its database.
    pub database: String,
    /// What it calls itself.
    pub application: String,
    /// The client's address.
    pub client: Option<String>,
    /// How it is encrypted, if it is.
    pub tls: Option<TlsInfo>,
    /// When it connected.
    pub since: DateTime<Utc>,
    /// What it does, or did last.
    pub doing: Doing,
}

/// How large a kept relation is, about.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelationSize {
    /// Rows.
    pub rows: i64,
    /// Bytes.
    pub bytes: i64,
}
