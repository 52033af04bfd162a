//! SQL cursors.

use super::ClientSession;
use crate::database::query::Rows;
use crate::pg_catalog::snapshot::CursorInfo;
use crate::wire::session::{Outcome, ResultColumn, RowTag};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::scalar::ScalarValue;
use futures::{FutureExt, StreamExt};
use std::time::SystemTime;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use thalweg_planner::statement::{CursorBody, Declare, FetchDirection};

/// An open cursor. Rows that were passed are kept only if it can go back.
pub struct Cursor {
    /// The text that declared it.
    statement: String,
    created: SystemTime,
    columns: Vec<ResultColumn>,
    rows: Rows,
    /// Rows that have come: all of them if `scroll`, else those not given yet.
    buffer: Vec<RecordBatch>,
    /// How many rows `buffer` has.
    buffered: usize,
    /// The place of the next row in the buffer: the row before it is the current one.
    position: usize,
    /// Whether it stands behind the last row, so that none is current.
    past_end: bool,
    scroll: bool,
    hold: bool,
    /// Whether the transaction that it was declared in goes on: even if held, it is gone if that is rolled back.
    new: bool,
    ended: bool,
    /// Whether rows never end: then a fetch waits for the first one only.
    endless: bool,
}

impl Cursor {
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

    /// Brings rows in until the buffer has `wanted` of them, or there are no more (for now, if they never end).
    async fn fill(&mut self, wanted: usize) -> SqlResult<()> {
        while self.buffered < wanted && !self.ended {
            let next = if self.endless && self.buffered > self.position {
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
                    self.buffered += batch.num_rows();
                    self.buffer.push(batch);
                }
                None => self.ended = true,
            }
        }
        Ok(())
    }

    /// Rows `from..to` of the buffer.
    fn slice(&self, from: usize, to: usize) -> SqlResult<Vec<RecordBatch>> {
        let mut start = 0;
        let mut taken = vec![];
        for batch in &self.buffer {
            let end = start + batch.num_rows();
            let (first, last) = (from.max(start), to.min(end));
            if first < last {
                taken.push(batch.slice(first - start, last - first));
            }
            start = end;
        }
        Ok(taken)
    }

    /// Forgets rows that were given, if the cursor can't go back.
    fn forget(&mut self) {
        if self.scroll {
            return;
        }
        while let Some(first) = self.buffer.first() {
            let rows = first.num_rows();
            if rows > self.position {
                break;
            }
            self.buffer.remove(0);
            self.buffered -= rows;
            self.position -= rows;
        }
    }

    async fn forward(&mut self, count: usize) -> SqlResult<Vec<RecordBatch>> {
        self.fill(self.position.saturating_add(count)).await?;
        let wanted = self.position.saturating_add(count);
        let to = wanted.min(self.buffered);
        let rows = self.slice(self.position, to)?;
        self.past_end = to < wanted;
        self.position = to;
        self.forget();
        Ok(rows)
    }

    /// The row at a place from 1, which becomes the current one.
    async fn absolute(&mut self, place: i64) -> SqlResult<Vec<RecordBatch>> {
        self.must_scroll()?;
        let place = match usize::try_from(place) {
            Ok(place) => place,
            Err(_) => {
                self.fill(usize::MAX).await?;
                self.buffered.saturating_add_signed(place as isize).saturating_add(1)
            }
        };
        self.fill(place).await?;
        self.position = place.min(self.buffered);
        self.past_end = place > self.buffered;
        if place == 0 || place > self.buffered { Ok(vec![]) } else { self.slice(place - 1, place) }
    }

    async fn backward(&mut self, count: usize) -> SqlResult<Vec<RecordBatch>> {
        self.must_scroll()?;
        // The current row is the one before `position`; going back gives those before it, nearest first.
        let current = if self.past_end { self.position } else { self.position.saturating_sub(1) };
        let from = current.saturating_sub(count);
        let mut rows = vec![];
        for place in (from..current).rev() {
            rows.extend(self.slice(place, place + 1)?);
        }
        self.position = if count > current { 0 } else { from + 1 };
        self.past_end = false;
        Ok(rows)
    }

    fn must_scroll(&self) -> SqlResult<()> {
        if self.scroll {
            return Ok(());
        }
        Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, "cursor can only scan forward")
            .with_hint("Declare it with SCROLL option to enable backward scan."))
    }
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
        let cursor = Cursor {
            statement: text.to_string(),
            created: SystemTime::now(),
            columns,
            rows,
            buffer: vec![],
            buffered: 0,
            position: 0,
            past_end: false,
            scroll: declare.scroll == Some(true),
            hold: declare.hold,
            new: self.transaction.is_some(),
            ended: false,
            endless,
        };
        self.cursors.insert(declare.name.value.clone(), cursor);
        Ok(Outcome::Tag("DECLARE CURSOR".into()))
    }

    pub(super) async fn fetch(&mut self, direction: FetchDirection, name: &str, move_only: bool) -> SqlResult<Outcome> {
        let missing = || SqlError::new(SqlState::InvalidCursorName, format!("cursor \"{name}\" does not exist"));
        let cursor = self.cursors.get_mut(name).ok_or_else(missing)?;
        let batches = match direction {
            FetchDirection::Forward(count) if count > 0 => cursor.forward(count as usize).await?,
            FetchDirection::Forward(0) | FetchDirection::Relative(0) => {
                let current = if cursor.past_end { cursor.position } else { cursor.position.saturating_sub(1) };
                cursor.slice(current, cursor.position)?
            }
            FetchDirection::Forward(count) => cursor.backward(count.unsigned_abs() as usize).await?,
            FetchDirection::ForwardAll => cursor.forward(usize::MAX).await?,
            FetchDirection::BackwardAll => cursor.backward(usize::MAX).await?,
            FetchDirection::Absolute(place) => cursor.absolute(place).await?,
            FetchDirection::Relative(by) => {
                let place = i64::try_from(cursor.position).unwrap_or(i64::MAX).saturating_add(by);
                if by > 0 && !cursor.scroll {
                    cursor.forward(by as usize - 1).await?;
                    cursor.forward(1).await?
                } else {
                    cursor.absolute(place).await?
                }
            }
        };
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if move_only {
            return Ok(Outcome::Tag(format!("MOVE {count}")));
        }
        let columns = cursor.columns.clone();
        let rows = match batches.first() {
            None => futures::stream::empty().boxed(),
            Some(first) => {
                let all = concat_batches(&first.schema(), &batches).map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
                futures::stream::once(async move { Ok(all) }).boxed()
            }
        };
        Ok(Outcome::Rows { columns, rows, tag: RowTag::Counted("FETCH") })
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

    /// At the end of a transaction only held cursors stay, and of those that it declared only if it was committed.
    pub(super) fn end_cursors(&mut self, committed: bool) {
        self.cursors.retain(|_, cursor| cursor.hold && (committed || !cursor.new));
        self.cursors.values_mut().for_each(|cursor| cursor.new = false);
    }
}
