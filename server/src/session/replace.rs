//! `INSERT … ON CONFLICT DO UPDATE`.

use super::ClientSession;
use super::hold::hold_new;
use crate::database::change::{self, Change};
use crate::database::locks::Holder;
use crate::database::query::Statement as Running;
use crate::database::replace;
use arrow::array::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, Epoch, SqlResult};
use thalweg_planner::dml;
use thalweg_planner::logical::substitute_parameters;

impl ClientSession {
    /// What new rows, whose keys are held, make of a table where `update` says what becomes of rows that have their keys.
    pub(super) async fn replacing(
        &mut self,
        running: &Running,
        (update, params): (LogicalPlan, &[ScalarValue]),
        table: &Arc<CatalogObject>,
        rows: &RecordBatch,
        (holder, settled): (&Holder, Epoch),
    ) -> SqlResult<Change> {
        let pending = self.pending(table);
        let update = substitute_parameters(update, params)?;
        let exprs = dml::replacing_exprs(&running.planner, &update, crate::database::now_us())?;
        let reading = change::read_since(running, table.id, settled).await?;
        let taken = replace::find_taken(table, rows, &pending, &reading)?;
        if running.moment.is_some() && taken.old.num_rows() > 0 {
            let seen = running.read(&[table.id]).await?;
            change::check_unchanged(table, &taken.old, &pending, &seen)?;
        }
        let replaced = replace::replace(table, rows, taken, &exprs)?;
        // A row may have been given another key.
        let settled = settled.max(hold_new(holder, table, &replaced.new, self.settings.lock_timeout()).await?);
        let reading = change::read_since(running, table.id, settled).await?;
        change::change_between(table, Some(replaced.old), Some(replaced.new), &pending, Some(&reading))
    }
}
