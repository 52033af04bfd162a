//! What a statement's system relations and functions show: the catalog and the session at the statement's start.

use super::ClientSession;
use super::privileges::Identity;
use super::settings::SessionSettings;
use crate::pg_catalog::SystemSnapshot;
use crate::pg_catalog::snapshot::{Activity, FunctionInfo, PreparedInfo, SettingInfo, Settings, SystemRelation};
use crate::system;
use crate::wire::session::Prepared;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::{Catalog, SqlResult};
use thalweg_planner::ParsedStatement;

/// Settings as `current_setting` and `set_config` see them while a statement runs. What is set shows at once, and reaches the
/// session when the statement is over.
pub struct StatementSettings {
    settings: Mutex<SessionSettings>,
    identity: Identity,
    catalog: Arc<Catalog>,
    changes: Arc<Mutex<Vec<SettingChange>>>,
}

/// A call of `set_config`.
#[derive(Clone, Debug)]
pub struct SettingChange {
    /// The setting.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether it lasts until the end of the transaction only.
    pub local: bool,
}

impl StatementSettings {
    /// The settings of a session; changes are collected in `changes`.
    pub fn new(
        settings: SessionSettings,
        (identity, catalog): (Identity, Arc<Catalog>),
        changes: Arc<Mutex<Vec<SettingChange>>>,
    ) -> StatementSettings {
        StatementSettings { settings: Mutex::new(settings), identity, catalog, changes }
    }
}

impl Settings for StatementSettings {
    fn get(&self, name: &str) -> Option<String> {
        self.settings.lock().get(name).ok()
    }

    fn set(&self, name: &str, value: &str, local: bool) -> SqlResult<String> {
        let mut settings = self.settings.lock();
        self.identity.check(&settings, &self.catalog, &SessionSettings::spelling(name), value)?;
        settings.set(name, Some(value))?;
        self.changes.lock().push(SettingChange { name: name.to_string(), value: value.to_string(), local });
        settings.get(name)
    }

    fn all(&self) -> Vec<SettingInfo> {
        let info = |(name, value, description): (String, String, String)| SettingInfo {
            name,
            reset_value: value.clone(),
            value,
            unit: None,
            description,
            kind: "string",
        };
        self.settings.lock().all().into_iter().map(info).collect()
    }
}

fn prepared_info((name, prepared): (&str, &Arc<Prepared<ParsedStatement>>)) -> PreparedInfo {
    PreparedInfo {
        name: name.to_string(),
        statement: prepared.sql.clone(),
        parameter_types: prepared.description.params.clone(),
        from_sql: prepared.from_sql,
        since: prepared.since.into(),
    }
}

impl ClientSession {
    /// The system as of now.
    pub(super) fn system_snapshot(&self, catalog: &Arc<Catalog>, functions: Arc<Vec<FunctionInfo>>) -> Arc<SystemSnapshot> {
        let settings = {
            let who = (self.identity(), Arc::clone(catalog));
            StatementSettings::new(self.settings.clone(), who, Arc::clone(&self.set_config))
        };
        let activity = self.connections.iter().flat_map(|c| c.list()).map(|connection| {
            let (user, database, application) = connection.identity.lock().clone();
            Activity {
                process_id: connection.process_id,
                user,
                database,
                application,
                client: connection.peer.map(|p| p.ip().to_string()),
                tls: connection.tls.lock().clone(),
                since: DateTime::<Utc>::from(connection.since),
                doing: connection.activity.get(),
            }
        });
        let relations = system::RELATIONS.iter().map(|(name, _)| SystemRelation {
            schema: "thalweg".into(),
            name: (*name).to_string(),
            columns: system::columns(name),
        });
        Arc::new(SystemSnapshot {
            catalog: Arc::clone(catalog),
            user: self.user_name(),
            session_user: self.settings.get("session_authorization").unwrap_or_default(),
            role: self.current_role(catalog),
            login: (self.login, self.info.user.clone()),
            gate: Some(Arc::clone(self.database.gate())),
            database: self.info.database.clone(),
            search_path: self.search_path(),
            process_id: self.info.process_id,
            settings: Arc::new(settings),
            relations: relations.collect(),
            functions,
            activity: activity.collect(),
            prepared: self.prepared.iter().map(prepared_info).collect(),
            cursors: self.cursors.iter().map(|(name, cursor)| cursor.info(name)).collect(),
            notified: Arc::clone(&self.notified),
            connections: self.connections.clone(),
            sizes: BTreeMap::new(),
        })
    }

    /// Takes over what `set_config` set in the last statement, and what `pg_notify` is to send.
    pub(super) fn take_set_config(&mut self) {
        let notified = std::mem::take(&mut *self.notified.lock());
        for (channel, payload) in notified {
            self.notify_at_commit(channel, payload);
        }
        let changes = std::mem::take(&mut *self.set_config.lock());
        for change in changes {
            if change.local && !self.in_block() {
                continue;
            }
            // It was checked when it was called.
            let _ = self.settings.set(&change.name, Some(&change.value));
            if change.local
                && let Some(transaction) = &mut self.transaction
            {
                transaction.local.push(change.name);
            }
        }
    }
}
