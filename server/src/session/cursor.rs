//! SQL cursors.

use super::ClientSession;
use crate::database::query::Rows;
use crate::database::storage_error;
use crate::pg_catalog::snapshot::CursorInfo;
use crate::wire::session::{Outcome, PortalAction, PortalUse, ResultColumn, RowTag};
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion::scalar::ScalarValue;
use futures::{FutureExt, StreamExt, TryStreamExt};
use std::sync::Arc;
use std::time::SystemTime;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use thalweg_planner::Statement;
use thalweg_planner::statement::{CursorBody, Declare, DiscardTarget, FetchDirection};
use thalweg_storage::StorageResult;
use thalweg_storage::spill::SpilledRows;
use tokio::sync::Mutex;

/// Rows that a cursor brings at once, when it is asked for many.
const CHUNK_ROWS: usize = 8192;

/// The memory for rows that a cursor may go back to; more of them are in a file.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// An open cursor, as its session knows it.
pub struct OpenCursor {
    /// The text that declared it.
    statement: String,
    created: SystemTime,
    /// Whether it can go back.
    scroll: bool,
    columns: Vec<ResultColumn>,
    hold: bool,
    /// Whether the transaction that it was declared in goes on: even if held, it is gone if that is rolled back.
    new: bool,
    /// Rows that are fetched are read from it as they are sent.
    cursor: Arc<Mutex<Cursor>>,
}

impl OpenCursor {
    /// The columns of its rows.
    pub fn columns(&self) -> &[ResultColumn] {
        &self.columns
    }

    /// Itself as a row of `pg_cursors`.
    pub fn info(&self, name: &str) -> CursorInfo {
        CursorInfo {
            name: name.to_string(),
            statement: self.statement.clone(),
            is_holdable: self.hold,
            is_scrollable: self.scroll,
            created: self.created.into(),
        }
    }
}

/// A cursor. Rows that were passed are kept only if it can go back.
struct Cursor {
    rows: Rows,
    /// Rows that have come: all of them if `scroll`, else those not given yet.
    kept: Arc<parking_lot::Mutex<SpilledRows>>,
    /// The place of the next row: the row before it is the current one.
    position: usize,
    /// Whether it stands behind the last row, so that none is current.
    past_end: bool,
    scroll: bool,
    ended: bool,
    /// Whether rows never end: then a fetch waits for the first one only.
    endless: bool,
}

impl Cursor {
    fn come(&self) -> usize {
        self.kept.lock().rows()
    }

    /// Does something with the rows that are kept, away from the threads that serve connections if it may wait for a disk.
    async fn with_kept<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut SpilledRows) -> StorageResult<T> + Send + 'static,
    ) -> SqlResult<T> {
        let kept = Arc::clone(&self.kept);
        let done = if kept.lock().may_block() {
            let task = tokio::task::spawn_blocking(move || work(&mut kept.lock()));
            task.await.map_err(|e| SqlError::internal(format!("a cursor panicked: {e}")))?
        } else {
            work(&mut kept.lock())
        };
        done.map_err(|e| storage_error(&e))
    }

    /// Brings rows in until so many have come, or there are no more (for now, if they never end).
    async fn fill(&mut self, wanted: usize) -> SqlResult<()> {
        while self.come() < wanted && !self.ended {
            let next = if self.endless && self.come() > self.position {
                match self.rows.next().now_or_never() {
                    Some(next) => next,
                    None => return Ok(()),
                }
            } else {
                self.rows.next().await
            };
            match next {
                Some(batch) => {
                    let batch = batch?;
                    self.with_kept(|kept| kept.push(batch)).await?;
                }
                None => self.ended = true,
            }
        }
        Ok(())
    }

    async fn slice(&mut self, from: usize, to: usize) -> SqlResult<Vec<RecordBatch>> {
        self.with_kept(move |kept| kept.slice(from, to)).await
    }

    async fn forward(&mut self, count: usize) -> SqlResult<Vec<RecordBatch>> {
        let wanted = self.position.saturating_add(count);
        self.fill(wanted).await?;
        let to = wanted.min(self.come());
        let rows = self.slice(self.position, to).await?;
        self.past_end = to < wanted;
        self.position = to;
        if !self.scroll {
            let forget = move |kept: &mut SpilledRows| {
                kept.forget(to);
                Ok(())
            };
            self.with_kept(forget).await?;
        }
        Ok(rows)
    }

    /// The row at a place from 1, which becomes the current one.
    async fn absolute(&mut self, place: i64) -> SqlResult<Vec<RecordBatch>> {
        self.must_scroll()?;
        let place = match usize::try_from(place) {
            Ok(place) => place,
            Err(_) => {
                self.fill(usize::MAX).await?;
                self.come().saturating_add_signed(place as isize).saturating_add(1)
            }
        };
        self.fill(place).await?;
        self.position = place.min(self.come());
        self.past_end = place > self.come();
        if place == 0 || self.past_end { Ok(vec![]) } else { self.slice(place - 1, place).await }
    }

    async fn backward(&mut self, count: usize) -> SqlResult<Vec<RecordBatch>> {
        self.must_scroll()?;
        // The current row is the one before `position`; going back gives those before it, nearest first.
        let current = if self.past_end { self.position } else { self.position.saturating_sub(1) };
        let from = current.saturating_sub(count);
        let rows = self.slice(from, current).await?.iter().rev().map(reversed).collect::<SqlResult<_>>()?;
        self.position = if count > current { 0 } else { from + 1 };
        self.past_end = false;
        Ok(rows)
    }

    /// The next rows of a fetch in this direction, of which `left` are to come, and how many then are.
    async fn chunk(&mut self, back: bool, left: usize) -> SqlResult<(Vec<RecordBatch>, usize)> {
        let count = left.min(CHUNK_ROWS);
        let rows = if back { self.backward(count).await? } else { self.forward(count).await? };
        let got: usize = rows.iter().map(RecordBatch::num_rows).sum();
        // Of rows without end a fetch takes what is there.
        let left = if got < count || self.endless { 0 } else { left - got };
        Ok((rows, left))
    }

    /// The rows of a fetch that is not of one run of rows.
    async fn single(&mut self, direction: FetchDirection) -> SqlResult<Vec<RecordBatch>> {
        match direction {
            FetchDirection::Absolute(place) => self.absolute(place).await,
            FetchDirection::Relative(by) if by > 0 && !self.scroll => {
                let mut left = by as usize - 1;
                while left > 0 && !self.past_end {
                    let passed = left.min(CHUNK_ROWS);
                    self.forward(passed).await?;
                    left -= passed;
                }
                self.forward(1).await
            }
            FetchDirection::Relative(by) if by != 0 => {
                let place = i64::try_from(self.position).unwrap_or(i64::MAX).saturating_add(by);
                self.absolute(place).await
            }
            _ => {
                let current = if self.past_end { self.position } else { self.position.saturating_sub(1) };
                self.slice(current, self.position).await
            }
        }
    }

    fn must_scroll(&self) -> SqlResult<()> {
        if self.scroll {
            return Ok(());
        }
        Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, "cursor can only scan forward")
            .with_hint("Declare it with SCROLL option to enable backward scan."))
    }
}

/// The same rows from the last to the first.
fn reversed(batch: &RecordBatch) -> SqlResult<RecordBatch> {
    let places = UInt32Array::from_iter_values((0..batch.num_rows() as u32).rev());
    take_record_batch(batch, &places).map_err(|e| thalweg_planner::errors::arrow_error(&e))
}

/// What is left of a fetch, brought as it is read.
fn rest(cursor: Arc<Mutex<Cursor>>, back: bool, left: usize) -> Rows {
    let next = move |left: usize| {
        let cursor = Arc::clone(&cursor);
        async move {
            if left == 0 {
                return Ok(None);
            }
            let (rows, left) = cursor.lock().await.chunk(back, left).await?;
            Ok(Some((futures::stream::iter(rows.into_iter().map(Ok::<_, SqlError>)), left)))
        }
    };
    futures::stream::try_unfold(left, next).try_flatten().boxed()
}

impl ClientSession {
    pub(super) async fn declare(&mut self, declare: &Declare, params: &[ScalarValue], text: &str) -> SqlResult<Outcome> {
        if !self.in_block() && !declare.hold && !self.together {
            return Err(SqlError::new(SqlState::NoActiveSqlTransaction, "DECLARE CURSOR can only be used in transaction blocks"));
        }
        if self.cursors.contains_key(&declare.name.value) {
            return Err(SqlError::new(SqlState::DuplicateCursor, format!("cursor \"{}\" already exists", declare.name.value))
                .at(declare.name.position));
        }
        let (columns, rows, endless) = match &declare.body {
            CursorBody::Query(query) => {
                let (columns, rows) = self.rows(&query.query, params).await?;
                (columns, rows, false)
            }
            CursorBody::Subscribe(subscribe) => {
                let (columns, rows) = self.follow(subscribe).await?;
                (columns, rows, true)
            }
        };
        let kept = SpilledRows::new(&self.database.settings().data_dir, KEPT_BYTES_MAX);
        let cursor = Cursor {
            rows,
            kept: Arc::new(parking_lot::Mutex::new(kept)),
            position: 0,
            past_end: false,
            scroll: declare.scroll == Some(true),
            ended: false,
            endless,
        };
        let new = self.transaction.is_some();
        let open = OpenCursor {
            statement: text.to_string(),
            created: SystemTime::now(),
            scroll: declare.scroll == Some(true),
            columns,
            hold: declare.hold,
            new,
            cursor: Arc::new(Mutex::new(cursor)),
        };
        self.cursors.insert(declare.name.value.clone(), open);
        Ok(Outcome::Tag("DECLARE CURSOR".into()))
    }

    pub(super) async fn fetch(&mut self, direction: FetchDirection, name: &str, move_only: bool) -> SqlResult<Outcome> {
        let missing = || SqlError::new(SqlState::InvalidCursorName, format!("cursor \"{name}\" does not exist"));
        let open = self.cursors.get(name).ok_or_else(missing)?;
        let (columns, shared) = (open.columns.clone(), Arc::clone(&open.cursor));
        let mut cursor = shared.lock().await;
        let (back, count) = match direction {
            FetchDirection::Forward(count) if count != 0 => (count < 0, Ok(count.unsigned_abs() as usize)),
            FetchDirection::ForwardAll => (false, Ok(usize::MAX)),
            FetchDirection::BackwardAll => (true, Ok(usize::MAX)),
            other => (false, Err(other)),
        };
        // What is wrong is found out with the first rows, before any is sent.
        let (first, left) = match count {
            Ok(count) => cursor.chunk(back, count).await?,
            Err(single) => (cursor.single(single).await?, 0),
        };
        drop(cursor);
        let first = futures::stream::iter(first.into_iter().map(Ok));
        let mut rows = first.chain(rest(shared, back, left)).boxed();
        if !move_only {
            return Ok(Outcome::Rows { columns, rows, tag: RowTag::Counted("FETCH") });
        }
        let mut passed = 0;
        while let Some(batch) = rows.next().await {
            passed += batch?.num_rows();
        }
        Ok(Outcome::Tag(format!("MOVE {passed}")))
    }

    pub(super) fn close(&mut self, name: Option<&str>) -> SqlResult<Outcome> {
        match name {
            None => {
                self.cursors.clear();
                Ok(Outcome::Tag("CLOSE CURSOR ALL".into()))
            }
            Some(name) if self.cursors.remove(name).is_some() => Ok(Outcome::Tag("CLOSE CURSOR".into())),
            Some(name) => Err(SqlError::new(SqlState::InvalidCursorName, format!("cursor \"{name}\" does not exist"))),
        }
    }

    /// What a statement does with a cursor that the session does not have.
    pub(super) fn use_of_portal(&self, statement: &Statement) -> Option<PortalUse> {
        let (name, action) = match statement {
            Statement::Fetch { direction, cursor, move_only } => {
                let some = if *move_only { PortalAction::Move } else { PortalAction::Fetch };
                let action = match direction {
                    FetchDirection::Forward(count) if *count > 0 => some(*count as usize),
                    FetchDirection::ForwardAll => some(usize::MAX),
                    _ => PortalAction::Back,
                };
                (&cursor.value, action)
            }
            Statement::Close(Some(name)) => (&name.value, PortalAction::Close),
            _ => return None,
        };
        let is_ours = self.cursors.contains_key(name) || self.check_allowed(statement).is_err();
        (!is_ours).then(|| PortalUse { name: name.clone(), action })
    }

    /// At the end of a transaction only held cursors stay, and of those that it declared only if it was committed.
    pub(super) fn end_cursors(&mut self, committed: bool) {
        self.cursors.retain(|_, cursor| cursor.hold && (committed || !cursor.new));
        self.cursors.values_mut().for_each(|cursor| cursor.new = false);
    }
}

/// Whether a statement closes all portals too.
pub(super) fn closes_all(statement: &Statement) -> bool {
    matches!(statement, Statement::Close(None) | Statement::Discard(DiscardTarget::All))
}
