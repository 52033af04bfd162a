//! `SHOW` and `DESCRIBE`.

use super::ClientSession;
use super::settings::SessionSettings;
use crate::wire::session::{Outcome, ResultColumn, RowTag};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use futures::StreamExt;
use std::sync::Arc;
use thalweg_catalog::{Column, ObjectKind, SqlError, SqlResult, SqlState, SqlType};
use thalweg_planner::bind::find_object;
use thalweg_planner::statement::{Name, Show};

const OBJECT_COLUMNS: [&str; 2] = ["schema", "name"];
const JOB_COLUMNS: [&str; 5] = ["id", "name", "kind", "state", "reason"];
const DESCRIPTION_COLUMNS: [&str; 4] = ["name", "type", "nullable", "key"];

/// The columns of `DESCRIBE`.
pub fn description_columns() -> Vec<ResultColumn> {
    text_columns(&DESCRIPTION_COLUMNS)
}

impl ClientSession {
    pub(super) fn show_columns(&self, show: &Show) -> Vec<ResultColumn> {
        match show {
            Show::Objects { .. } => text_columns(&OBJECT_COLUMNS),
            Show::Jobs => text_columns(&JOB_COLUMNS),
            Show::Schemas | Show::Databases => text_columns(&["name"]),
            Show::Columns(_) => description_columns(),
            Show::Create(..) => text_columns(&["name", "create_sql"]),
            Show::AllSettings => text_columns(&["name", "setting", "description"]),
            Show::Setting(name) => text_columns(&[&SessionSettings::spelling(name)]),
        }
    }

    pub(super) fn show(&mut self, show: &Show) -> SqlResult<Outcome> {
        let catalog = self.database.catalog();
        let (names, rows): (Vec<&str>, Vec<Vec<String>>) = match show {
            Show::Objects { kind, schema, like } => {
                let wanted = |o: &thalweg_catalog::CatalogObject| {
                    o.kind() == *kind
                        && schema.as_ref().is_none_or(|s| *s == o.schema)
                        && like.as_ref().is_none_or(|p| like_matches(p, &o.name))
                };
                let mut rows: Vec<_> =
                    catalog.objects().filter(|o| wanted(o)).map(|o| vec![o.schema.clone(), o.name.clone()]).collect();
                rows.sort();
                (OBJECT_COLUMNS.to_vec(), rows)
            }
            Show::Jobs => {
                let row = |job: std::sync::Arc<thalweg_executor::job::JobShared>| {
                    let object = catalog.get(job.id)?;
                    let state = job.state();
                    let reason = state.reason().unwrap_or_default().to_string();
                    Some(vec![job.id.to_string(), object.name.clone(), object.kind().to_string(), state.name().into(), reason])
                };
                (JOB_COLUMNS.to_vec(), self.database.engine().jobs().into_iter().filter_map(row).collect())
            }
            Show::Schemas => {
                let system = thalweg_catalog::catalog::SYSTEM_SCHEMAS.iter().copied();
                let mut all: Vec<_> = catalog.schemas().chain(system).map(|s| vec![s.to_string()]).collect();
                all.sort();
                (vec!["name"], all)
            }
            Show::Databases => (vec!["name"], vec![vec![self.info.database.clone()]]),
            Show::Columns(name) => return self.describe_relation(name),
            Show::Create(kind, name) => {
                let object = find_object(name, &catalog, &self.search_path())?;
                if object.kind() != *kind {
                    return Err(wrong_kind(&object.name, *kind).at(name.position));
                }
                (vec!["name", "create_sql"], vec![vec![format!("{}.{}", object.schema, object.name), object.sql.clone()]])
            }
            Show::AllSettings => {
                let rows = self.settings.all().into_iter().map(|(n, v, d)| vec![n, v, d]).collect();
                (vec!["name", "setting", "description"], rows)
            }
            Show::Setting(name) => {
                let value = self.settings.get(name)?;
                let spelling = SessionSettings::spelling(name);
                return Ok(rows_of(self.show_columns(show), text_batch(&[&spelling], vec![vec![value]])?, "SHOW"));
            }
        };
        Ok(rows_of(self.show_columns(show), text_batch(&names, rows)?, "SHOW"))
    }

    pub(super) fn describe_relation(&mut self, name: &Name) -> SqlResult<Outcome> {
        let catalog = self.database.catalog();
        let object = find_object(name, &catalog, &self.search_path())?;
        let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_string();
        let row = |(place, column): (usize, &thalweg_catalog::Column)| {
            vec![column.name.clone(), column.sql_type.to_string(), yes_no(column.nullable), yes_no(object.key().contains(&place))]
        };
        let rows = object.columns.iter().enumerate().map(row).collect();
        Ok(rows_of(description_columns(), text_batch(&DESCRIPTION_COLUMNS, rows)?, "DESCRIBE"))
    }
}

fn wrong_kind(name: &str, kind: ObjectKind) -> SqlError {
    SqlError::new(SqlState::WrongObjectType, format!("\"{name}\" is not a {kind}"))
}

/// Whether a name is like a pattern with `%` and `_`.
fn like_matches(pattern: &str, name: &str) -> bool {
    let mut expression = String::from("^");
    for c in pattern.chars() {
        match c {
            '%' => expression.push_str(".*"),
            '_' => expression.push('.'),
            other => expression.push_str(&regex::escape(&other.to_string())),
        }
    }
    expression.push('$');
    regex::Regex::new(&expression).is_ok_and(|r| r.is_match(name))
}

/// A result of one batch.
pub(super) fn rows_of(columns: Vec<ResultColumn>, batch: RecordBatch, tag: &str) -> Outcome {
    let rows = futures::stream::once(async move { Ok(batch) }).boxed();
    Outcome::Rows { columns, rows, tag: RowTag::Fixed(tag.to_string()) }
}

/// Columns of text.
pub(super) fn text_columns(names: &[&str]) -> Vec<ResultColumn> {
    names.iter().map(|name| ResultColumn::new(*name, SqlType::Text)).collect()
}

/// A batch of text columns.
pub(super) fn text_batch(names: &[&str], rows: Vec<Vec<String>>) -> SqlResult<RecordBatch> {
    let columns: Vec<Column> = names.iter().map(|name| Column::new(*name, SqlType::Text)).collect();
    let schema = thalweg_catalog::schema_of(&columns);
    let arrays = (0..names.len())
        .map(|place| {
            let values = rows.iter().map(|row| row.get(place).cloned());
            Arc::new(StringArray::from_iter(values)) as ArrayRef
        })
        .collect();
    RecordBatch::try_new(schema, arrays).map_err(|e| thalweg_planner::errors::arrow_error(&e))
}
