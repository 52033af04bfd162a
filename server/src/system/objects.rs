//! System relations about objects and the process: lineage, settings, sessions, events.

use super::build::{Cell, batch, time_ms};
use super::running::name_of;
use crate::database::Database;
use crate::session::settings::SessionSettings;
use crate::wire::connections::Connections;
use arrow::array::RecordBatch;
use thalweg_catalog::SqlType::{Int8, Text, TimestampTz};
use thalweg_catalog::{Catalog, SqlResult, SqlType};

/// The columns of `thalweg.lineage`.
pub const LINEAGE: [(&str, SqlType); 6] =
    [("object", Text), ("object_id", Int8), ("object_kind", Text), ("reads", Text), ("reads_id", Int8), ("reads_kind", Text)];

/// The columns of `thalweg.lineage_columns`.
pub const LINEAGE_COLUMNS: [(&str, SqlType); 5] =
    [("object", Text), ("column", Text), ("reads", Text), ("reads_column", Text), ("kind", Text)];

/// The columns of `thalweg.settings`.
pub const SETTINGS: [(&str, SqlType); 4] = [("name", Text), ("value", Text), ("scope", Text), ("description", Text)];

/// The columns of `thalweg.sessions`.
pub const SESSIONS: [(&str, SqlType); 2] = [("process_id", Int8), ("client_address", Text)];

/// The columns of `thalweg.events`.
pub const EVENTS: [(&str, SqlType); 5] =
    [("at", TimestampTz), ("kind", Text), ("object", Text), ("object_id", Int8), ("message", Text)];

pub fn lineage(catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = LINEAGE;
    let mut rows = vec![];
    for object in catalog.objects() {
        for read in object.depends_on.iter().filter_map(|id| catalog.get(*id)) {
            rows.push(vec![
                object.name.clone().into(),
                object.id.0.into(),
                object.kind().to_string().into(),
                read.name.clone().into(),
                read.id.0.into(),
                read.kind().to_string().into(),
            ]);
        }
    }
    batch(&columns, rows)
}

pub fn lineage_columns(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = LINEAGE_COLUMNS;
    let mut rows = vec![];
    for object in catalog.objects() {
        for edge in database.lineage(object.id).iter().flat_map(|edges| edges.iter()) {
            let Some(read) = catalog.get(edge.object) else { continue };
            let name = |columns: &[thalweg_catalog::Column], place: usize| Cell::from(columns.get(place).map(|c| c.name.clone()));
            rows.push(vec![
                object.name.clone().into(),
                name(&object.columns, edge.output),
                read.name.clone().into(),
                name(&read.columns, edge.column),
                edge.kind.name().into(),
            ]);
        }
    }
    batch(&columns, rows)
}

pub fn settings(database: &Database, session: &SessionSettings) -> SqlResult<RecordBatch> {
    let columns = SETTINGS;
    let process = database.settings().shown().into_iter();
    let mut rows: Vec<Vec<Cell>> =
        process.map(|(name, value, what)| vec![name.into(), value.into(), "process".into(), what.into()]).collect();
    rows.extend(
        session.all().into_iter().map(|(name, value, what)| vec![name.into(), value.into(), "session".into(), what.into()]),
    );
    batch(&columns, rows)
}

pub fn sessions(connections: Option<&Connections>) -> SqlResult<RecordBatch> {
    let columns = SESSIONS;
    let list = connections.map(Connections::list).unwrap_or_default();
    let rows = list.iter().map(|c| vec![Cell::Number(i64::from(c.process_id)), c.peer.map(|p| p.to_string()).into()]);
    batch(&columns, rows.collect())
}

pub fn events(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = EVENTS;
    let rows = database.events().into_iter().map(|event| {
        vec![
            time_ms(event.at_ms),
            event.kind.into(),
            event.object.map(|id| name_of(catalog, id)).into(),
            event.object.map(|id| id.0).into(),
            event.message.into(),
        ]
    });
    batch(&columns, rows.collect())
}
