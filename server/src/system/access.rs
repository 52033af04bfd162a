//! System relations about who came in, what they changed, and secrets without their values.

use super::build::{batch, time_ms};
use crate::access::vault::secrets_of;
use crate::database::Database;
use crate::pg_catalog::SystemSnapshot;
use arrow::array::RecordBatch;
use thalweg_catalog::SqlType::{Int8, Text, TimestampTz};
use thalweg_catalog::{Catalog, SqlResult, SqlType, Subject};

/// The columns of `thalweg.audit`.
pub const AUDIT: [(&str, SqlType); 8] = [
    ("at", TimestampTz),
    ("kind", Text),
    ("session_user", Text),
    ("role", Text),
    ("process_id", Int8),
    ("client_address", Text),
    ("sqlstate", Text),
    ("detail", Text),
];

/// The columns of `thalweg.secrets`.
pub const SECRETS: [(&str, SqlType); 4] = [("name", Text), ("owner", Text), ("created_at", TimestampTz), ("used_by", Text)];

pub fn audit(database: &Database) -> SqlResult<RecordBatch> {
    let columns = AUDIT;
    let rows = database.audit().entries().into_iter().map(|entry| {
        vec![
            time_ms(entry.at_ms),
            entry.kind.name().into(),
            entry.session_user.into(),
            entry.user.into(),
            i64::from(entry.process_id).into(),
            entry.client.into(),
            entry.state.into(),
            entry.detail.into(),
        ]
    });
    batch(&columns, rows.collect())
}

pub fn secrets(catalog: &Catalog, snapshot: &SystemSnapshot) -> SqlResult<RecordBatch> {
    let columns = SECRETS;
    let rows = catalog.security().secrets().iter().map(|(name, secret)| {
        let uses = |spec: &&thalweg_catalog::ConnectorSpec| secrets_of(spec).any(|used| used == name);
        let used: Vec<&str> =
            catalog.objects().filter(|o| o.connector().as_ref().is_some_and(uses)).map(|o| o.name.as_str()).collect();
        let owner = catalog.security().owner(&Subject::Secret(name.clone()));
        vec![name.as_str().into(), snapshot.role_name(owner).into(), time_ms(secret.created_ms), used.join(", ").into()]
    });
    batch(&columns, rows.collect())
}
