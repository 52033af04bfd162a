//! What the planner asks of connectors, answered by the connectors' registry.

use crate::access::authority::{Authority, denied};
use crate::access::vault::{Vault, secrets_of};
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_catalog::object::{ConnectorSpec, SinkMode};
use thalweg_catalog::{CatalogObject, Column, Privileges, SqlError, SqlResult, SqlState, Subject};
use thalweg_connectors::SourceContext;
use thalweg_connectors::registry;
use thalweg_planner::bind::ConnectorInfo;

/// The connectors that this program has, for what a role creates.
pub struct Connectors<'a> {
    /// Where the secrets are that options name.
    pub vault: &'a Vault,
    /// Who creates.
    pub authority: &'a Authority,
}

impl Connectors<'_> {
    /// The connector with the values of secrets, if its creator may use them and it.
    fn allowed(&self, spec: &ConnectorSpec, writes: bool) -> SqlResult<ConnectorSpec> {
        self.authority.check_connector(spec, writes)?;
        for name in secrets_of(spec) {
            let subject = Subject::Secret(name.to_string());
            let security = self.authority.security();
            if security.secret(name).is_some() && !security.may(self.authority.role, &subject, Privileges::USAGE) {
                return Err(denied("secret", name));
            }
        }
        self.vault.resolve(spec, &self.authority.catalog)
    }
}

impl ConnectorInfo for Connectors<'_> {
    fn default_columns(&self, connector: &str, options: &BTreeMap<String, String>) -> SqlResult<Option<Vec<Column>>> {
        let spec = ConnectorSpec {
            connector: connector.to_string(),
            options: options.clone(),
            encode: None,
            encode_options: BTreeMap::new(),
            includes: vec![],
        };
        registry::default_columns(connector, &self.allowed(&spec, false)?.options)
    }

    fn check_source(&self, spec: &ConnectorSpec, columns: &[Column]) -> SqlResult<()> {
        registry::source(&self.allowed(spec, false)?, columns).map(drop)
    }

    fn check_sink(&self, spec: &ConnectorSpec, columns: &[Column], mode: SinkMode, key: &[usize]) -> SqlResult<()> {
        registry::sink(&self.allowed(spec, true)?, columns, mode, key, "new sink").map(drop)
    }
}

/// How long the outside may take to answer when a source is declared.
const CHECK_MAX: Duration = Duration::from_secs(15);

/// Looks whether what a new source or table is to read is there.
///
/// # Errors
/// What is missing; `08006` if there is no answer in time.
pub async fn check_outside(object: &CatalogObject) -> SqlResult<()> {
    let Some(spec) = object.connector() else { return Ok(()) };
    let context = SourceContext {
        name: object.name.clone(),
        job: object.id.to_string(),
        columns: object.columns.clone(),
        projection: (0..object.columns.len()).collect(),
        time: None,
        runtime: tokio::runtime::Handle::current(),
    };
    let source = registry::source(spec, &object.columns)?;
    tokio::time::timeout(CHECK_MAX, source.check(context)).await.unwrap_or_else(|_| {
        let text = format!("what \"{}\" is to read did not answer within {} seconds", object.name, CHECK_MAX.as_secs());
        Err(SqlError::new(SqlState::ConnectionFailure, text).with_hint("Try again once it can be reached."))
    })
}
