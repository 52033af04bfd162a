//! The operator: matches an epoch's changes with the other side's rows, then gives what follows from numbers of partners.

use super::bound::Bound;
use super::candidates::{Candidates, Cursor, Residual};
use super::change::Change;
use super::expiry::Expiry;
use super::keys::check_keys;
use super::null_aware::{NullAware, Verdict};
use super::side::{LEFT, RIGHT, Side, SideShape};
use super::touched::{Touched, TouchedRow};
use crate::error::OperatorError;
use crate::operator::{Dropped, EpochInput, Operator, Output, PIECE_ROWS, Progress};
use crate::operators::build::Context;
use crate::operators::horizon::micros;
use crate::operators::rows::{Errors, batch_of, weighted};
use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, take};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use thalweg_catalog::Delta;
use thalweg_catalog::hash::hash_columns;
use thalweg_plan::{JoinType, PlanNode};
use thalweg_storage::state::Entry;

/// A running `Join`.
pub struct Join {
    schema: SchemaRef,
    inputs: [SchemaRef; 2],
    join_type: JoinType,
    null_equals_null: bool,
    residual: Option<Residual>,
    sides: [Side; 2],
    expiry: Option<Expiry>,
    bounds: [Option<Bound>; 2],
    null_aware: Option<NullAware>,
    errors: Errors,
    epoch: Option<EpochWork>,
    candidates: Candidates,
}

/// An epoch in work.
struct EpochWork {
    stage: Stage,
    changes: [Change; 2],
    touched: [Touched; 2],
    /// Before the epoch and after it.
    verdicts: [Verdict; 2],
    watermark: Option<i64>,
    /// The times below which rows of each side are to be forgotten.
    limits: [i64; 2],
    /// The watermarks that these follow from.
    marks: [Option<i64>; 2],
}

/// What is to be done next.
enum Stage {
    /// Match the left's changes with the right before the epoch.
    Left(Cursor),
    /// Match the right's changes with the left after the epoch.
    Right(Cursor),
    /// Give rows without a partner whose key has a NULL, from this one on of this side.
    Unmatchable(usize, usize),
    /// Give what follows from numbers of partners, from this touched row on of this side.
    ByPartners(usize, usize),
    /// Forget what is below the watermark.
    Forget,
}

impl Join {
    /// The operator of a `Join` node.
    ///
    /// # Errors
    /// `Plan` if the node is another or does not fit its inputs; `State` if state can't be opened.
    pub fn new(node: &PlanNode, inputs: &[SchemaRef], context: Context) -> Result<Join, OperatorError> {
        let thalweg_plan::Operator::Join { join_type, on, null_equals_null, residual, null_aware, time_key, bounds } =
            &node.operator
        else {
            return Err(OperatorError::Plan("not a Join".into()));
        };
        let join_type = *join_type;
        let [left, right] = [LEFT, RIGHT].map(|side| inputs[side].fields().len());
        if node.schema.fields().len() != if join_type.left_only() { left } else { left + right } {
            return Err(OperatorError::Plan("a Join gives the columns of its inputs".into()));
        }
        if *null_aware && (join_type != JoinType::LeftAnti || residual.is_some() || *null_equals_null) {
            return Err(OperatorError::Plan("only an anti join without a further condition can be null-aware".into()));
        }
        check_keys(on, inputs)?;
        let right_kept = match residual {
            _ if !join_type.left_only() => (0..right).collect(),
            Some(residual) => Residual::right_columns(residual, left),
            None => Vec::new(),
        };
        let residual = match residual {
            Some(expr) => Some(Residual::new(expr, inputs, &right_kept, std::rc::Rc::clone(&context.errors))?),
            None => None,
        };
        let left_shape = SideShape {
            name: "left",
            keys: on.iter().map(|pair| pair.0).collect(),
            kept: (0..left).collect(),
            degrees: join_type.keeps_left() || join_type.left_only(),
            on_one: *null_aware,
            first: bounds[LEFT].map(|bound| bound.column),
        };
        let right_shape = SideShape {
            name: "right",
            keys: on.iter().map(|pair| pair.1).collect(),
            kept: right_kept,
            degrees: join_type.keeps_right(),
            on_one: *null_aware,
            first: bounds[RIGHT].map(|bound| bound.column),
        };
        let sides = [Side::open(left_shape, &inputs[LEFT], &context)?, Side::open(right_shape, &inputs[RIGHT], &context)?];
        let expiry = match time_key {
            // What a row of the right says about all rows of the left can't be forgotten.
            _ if *null_aware => None,
            Some(place) => Some(Expiry::open(*place, on, &sides, &context)?),
            None => None,
        };
        let open = |side: usize| bounds[side].map(|rule| Bound::open(rule, side, &sides, &context)).transpose();
        let bounds = [open(LEFT)?, open(RIGHT)?];
        Ok(Join {
            schema: Arc::clone(&node.schema),
            inputs: [Arc::clone(&inputs[LEFT]), Arc::clone(&inputs[RIGHT])],
            join_type,
            null_equals_null: *null_equals_null,
            residual,
            sides,
            expiry,
            bounds,
            null_aware: if *null_aware { Some(NullAware::open(&context)?) } else { None },
            errors: context.errors,
            epoch: None,
            candidates: Candidates::default(),
        })
    }

    fn dropped(&self, why: Dropped, rows: u64) {
        if rows > 0 {
            self.errors.borrow_mut().dropped(why, rows);
        }
    }

    /// The net change of one side.
    fn change(&mut self, side: usize, deltas: Vec<Delta>) -> Result<Change, OperatorError> {
        let mut on_time = Vec::with_capacity(deltas.len());
        for delta in deltas {
            match &self.expiry {
                None => on_time.push(delta),
                Some(expiry) => {
                    let (kept, late) = expiry.horizon.on_time(delta, expiry.columns[side])?;
                    self.dropped(Dropped::Late, late);
                    on_time.push(kept);
                }
            }
        }
        if let Some(bound) = &self.bounds[1 - side] {
            for delta in &mut on_time {
                let (kept, late) = bound
                    .horizon
                    .on_time(std::mem::replace(delta, Delta::empty(Arc::clone(&self.inputs[side]))), bound.other())?;
                self.dropped(Dropped::Late, late);
                *delta = kept;
            }
        }
        // A left row with a NULL key waits in a null-aware join for the right to become empty.
        let null_is_value = self.null_equals_null || (self.null_aware.is_some() && side == LEFT);
        let mut change = Change::new(&self.sides[side], &self.inputs[side], on_time, null_is_value)?;
        let unmatched = change.drop_unmatched(&mut self.sides[side])?;
        self.dropped(Dropped::Unmatched, unmatched);
        Ok(change)
    }

    /// Matches the next piece of one side's changes with the other side. Whether that was all.
    fn match_piece(&mut self, work: &mut EpochWork, side: usize, output: &mut Output) -> Result<bool, OperatorError> {
        let (Stage::Left(cursor) | Stage::Right(cursor)) = &mut work.stage else { return Ok(true) };
        let other = 1 - side;
        let ended = self.candidates.collect(&work.changes[side], &mut self.sides[other], cursor)?;
        if self.candidates.len() == 0 {
            return Ok(ended);
        }
        let weights = self.pair_weights(&work.changes[side])?;
        let mut columns = None;
        let mut fulfilled = None;
        if self.residual.is_some() || !self.join_type.left_only() {
            let [changed, there] = self.candidates.columns(&work.changes[side], &self.sides[other])?;
            let pair = if side == LEFT { [changed, there] } else { [there, changed] };
            columns = Some(pair);
        }
        if let (Some(residual), Some([left, right])) = (&self.residual, &columns) {
            // The right's changed rows have all their columns; the condition wants those that state keeps.
            let narrow = self.join_type.left_only() && side == RIGHT;
            let right: Vec<ArrayRef> =
                if narrow { self.sides[RIGHT].kept.iter().map(|c| Arc::clone(&right[*c])).collect() } else { right.clone() };
            fulfilled = Some(residual.judge(left.iter().cloned().chain(right).collect(), &weights)?);
        }
        self.count_partners(work, side, fulfilled.as_ref());
        if let (false, Some([left, right])) = (self.join_type.left_only(), columns) {
            output.give(self.pairs(left.into_iter().chain(right).collect(), weights, fulfilled)?);
        }
        Ok(ended)
    }

    fn pair_weights(&self, change: &Change) -> Result<Vec<i64>, OperatorError> {
        let pairs = self.candidates.changed.iter().zip(&self.candidates.entries);
        pairs
            .map(|(at, entry)| {
                let weight = change.weights[*at as usize].checked_mul(entry.count);
                weight.ok_or_else(|| OperatorError::Invariant("JOIN-1", "a pair has more copies than can be counted".into()))
            })
            .collect()
    }

    /// Notes what the pairs of a piece mean for the numbers of partners.
    fn count_partners(&self, work: &mut EpochWork, side: usize, fulfilled: Option<&BooleanBuffer>) {
        let other = 1 - side;
        let (own, others) = (self.sides[side].degrees, self.sides[other].degrees);
        if !own && !others {
            return;
        }
        let change = &mut work.changes[side];
        for (pair, at) in self.candidates.changed.iter().enumerate() {
            if fulfilled.is_some_and(|f| !f.value(pair)) {
                continue;
            }
            let (at, entry) = (*at as usize, self.candidates.entries[pair]);
            if own {
                change.degrees[at] += entry.count;
            }
            if others {
                let (hash, key, _) = change.at(at);
                let weight = change.weights[at];
                work.touched[other].touch(hash, key, self.candidates.row(pair), entry).after.extra += weight;
            }
        }
    }

    fn pairs(&self, columns: Vec<ArrayRef>, weights: Vec<i64>, fulfilled: Option<BooleanBuffer>) -> Result<Delta, OperatorError> {
        let Some(fulfilled) = fulfilled.filter(|f| f.count_set_bits() < f.len()) else {
            return Ok(weighted(batch_of(&self.schema, columns, weights.len())?, weights));
        };
        let weights: Vec<i64> = fulfilled.set_indices().map(|pair| weights[pair]).collect();
        let keep = BooleanArray::new(fulfilled, None);
        let columns = columns.iter().map(|c| filter(c, &keep)).collect::<Result<_, _>>()?;
        Ok(weighted(batch_of(&self.schema, columns, weights.len())?, weights))
    }

    /// Brings one side's changes into its state.
    fn apply(&mut self, work: &mut EpochWork, side: usize) -> Result<(), OperatorError> {
        let change = &work.changes[side];
        let times = match &self.expiry {
            Some(expiry) => Some(micros(change.batch.column(expiry.columns[side]))?),
            None => None,
        };
        let bound_times = match &self.bounds[side] {
            Some(bound) => Some(micros(change.batch.column(bound.column()))?),
            None => None,
        };
        let null_keys = self.null_aware.is_some() && side == LEFT;
        for at in 0..change.rows.len() {
            let (hash, key, row) = change.at(at);
            let (before, after) = self.sides[side].add(hash, key, row, change.weights[at])?;
            if self.sides[side].degrees {
                let touched = work.touched[side].touch(hash, key, row, before);
                touched.after = Entry { count: after.count, extra: change.degrees[at] };
                if null_keys {
                    let place = change.rows[at] as usize;
                    touched.null_key = self.sides[side].keys.iter().any(|k| change.batch.column(*k).is_null(place));
                }
            }
            if let (Some(expiry), Some(times)) = (&mut self.expiry, &times) {
                let place = change.rows[at] as usize;
                if !times.is_null(place) {
                    expiry.index.insert(times.value(place), hash, key);
                }
            }
            if let (Some(bound), Some(times)) = (&mut self.bounds[side], &bound_times) {
                let place = change.rows[at] as usize;
                if !times.is_null(place) {
                    bound.index.note(times.value(place), hash, key);
                }
            }
        }
        Ok(())
    }

    /// Gives the next rows that match nothing because of a NULL in their key.
    fn give_unmatchable(&self, work: &EpochWork, side: usize, from: usize, output: &mut Output) -> Result<usize, OperatorError> {
        let change = &work.changes[side];
        let given = if side == LEFT { self.join_type.keeps_left() } else { self.join_type.keeps_right() };
        let to = change.unmatchable.len().min(from + PIECE_ROWS);
        if !given || from == to {
            return Ok(change.unmatchable.len());
        }
        let piece = &change.unmatchable[from..to];
        let rows = UInt32Array::from_iter_values(piece.iter().map(|(row, _)| *row));
        let columns = change.batch.columns().iter().map(|c| take(c, &rows, None)).collect::<Result<_, _>>()?;
        output.give(self.padded(side, columns, piece.iter().map(|(_, weight)| *weight).collect())?);
        Ok(to)
    }

    /// Gives the next rows whose being with or without a partner has changed. The number of the first that is left.
    fn give_by_partners(
        &mut self,
        work: &EpochWork,
        side: usize,
        from: usize,
        output: &mut Output,
    ) -> Result<usize, OperatorError> {
        let touched = &work.touched[side];
        let (mut rows, mut weights) = (Vec::new(), Vec::new());
        let mut at = from;
        while at < touched.rows.len() && rows.len() < PIECE_ROWS {
            let row = &touched.rows[at];
            at += 1;
            let weight = self.shown(work, 1, row) - self.shown(work, 0, row);
            if weight != 0 {
                rows.push(touched.row(row));
                weights.push(weight);
            }
            let stored = if row.before.count == 0 { 0 } else { row.before.extra };
            if row.after.count != 0 && row.after.extra != stored {
                self.sides[side].set_degree(row.hash, touched.key(row), touched.row(row), row.after.extra)?;
            }
        }
        if !rows.is_empty() {
            let columns = self.sides[side].decode(rows)?;
            output.give(self.padded(side, columns, weights)?);
        }
        Ok(at)
    }

    /// How many copies of a row are given for itself, not in pairs: before the epoch (0) or after it (1).
    fn shown(&self, work: &EpochWork, when: usize, row: &TouchedRow) -> i64 {
        let entry = if when == 0 { row.before } else { row.after };
        let given = match (work.verdicts[when], self.join_type) {
            (Verdict::All, _) => true,
            (Verdict::None, _) => false,
            (Verdict::ByRow, JoinType::LeftSemi) => entry.extra > 0,
            (Verdict::ByRow, _) => entry.extra == 0 && !row.null_key,
        };
        if given { entry.count } else { 0 }
    }

    /// Rows of one side, with NULLs for the other if the output has its columns.
    fn padded(&self, side: usize, columns: Vec<ArrayRef>, weights: Vec<i64>) -> Result<Delta, OperatorError> {
        let rows = weights.len();
        let nulls = || self.inputs[1 - side].fields().iter().map(|f| new_null_array(f.data_type(), rows));
        let columns: Vec<ArrayRef> = match (self.join_type.left_only(), side) {
            (true, _) => columns,
            (false, LEFT) => columns.into_iter().chain(nulls()).collect(),
            (false, _) => nulls().chain(columns).collect(),
        };
        Ok(weighted(batch_of(&self.schema, columns, rows)?, weights))
    }

    /// Touches every left row: what the right as a whole says about them has changed.
    fn touch_all_left(&mut self, work: &mut EpochWork) -> Result<(), OperatorError> {
        let side = &mut self.sides[LEFT];
        let all = side.all_on_one()?;
        if all.is_empty() {
            return Ok(());
        }
        let columns = side.decode_on_one(all.iter().map(|(stored, _)| stored.as_slice()))?;
        let key_columns: Vec<ArrayRef> = side.keys.iter().map(|k| Arc::clone(&columns[*k])).collect();
        let keys = side.key_codec.encode(&key_columns, all.len())?;
        let hashes = hash_columns(&key_columns, all.len())?;
        for (at, (stored, entry)) in all.iter().enumerate() {
            let (key, row) = stored.split_at(keys.row(at).len());
            let null_key = key_columns.iter().any(|c| c.is_null(at));
            work.touched[LEFT].touch(hashes[at], key, row, *entry).null_key = null_key;
        }
        Ok(())
    }

    /// Forgets a piece of what is below the horizon. Whether that was all.
    fn forget(&mut self, watermark: Option<i64>) -> Result<bool, OperatorError> {
        let Some(expiry) = &mut self.expiry else { return Ok(true) };
        expiry.horizon.advance(watermark);
        let below = expiry.index.take_below(expiry.horizon.value(), PIECE_ROWS);
        for (hash, key) in &below {
            for side in &mut self.sides {
                side.remove_key(*hash, key)?;
            }
        }
        Ok(below.is_empty())
    }

    /// Forgets a piece of the rows that meet no partner any more. Whether that was all.
    fn forget_bounded(&mut self, work: &EpochWork) -> Result<bool, OperatorError> {
        let mut is_all = true;
        for side in [LEFT, RIGHT] {
            let Some(bound) = &mut self.bounds[side] else { continue };
            bound.horizon.advance(work.marks[side]);
            let keys = bound.index.take_below(work.limits[side], PIECE_ROWS);
            for (place, time) in self.sides[side].forget_below(&keys, work.limits[side])? {
                let (hash, key) = &keys[place];
                bound.index.note(time, *hash, key);
            }
            is_all &= keys.is_empty();
        }
        Ok(is_all)
    }

    /// Does the next bit of an epoch's work.
    fn advance(&mut self, work: &mut EpochWork, output: &mut Output) -> Result<Advance, OperatorError> {
        match work.stage {
            Stage::Left(_) => {
                if !self.match_piece(work, LEFT, output)? {
                    return Ok(Advance::Yield);
                }
                self.apply(work, LEFT)?;
                work.stage = Stage::Right(Cursor::default());
            }
            Stage::Right(_) => {
                if !self.match_piece(work, RIGHT, output)? {
                    return Ok(Advance::Yield);
                }
                self.apply(work, RIGHT)?;
                if work.verdicts[0] != work.verdicts[1] {
                    self.touch_all_left(work)?;
                }
                work.stage = Stage::Unmatchable(LEFT, 0);
            }
            Stage::Unmatchable(side, from) => {
                let to = self.give_unmatchable(work, side, from, output)?;
                work.stage = match (to < work.changes[side].unmatchable.len(), side) {
                    (true, _) => Stage::Unmatchable(side, to),
                    (false, LEFT) => Stage::Unmatchable(RIGHT, 0),
                    (false, _) => Stage::ByPartners(LEFT, 0),
                };
            }
            Stage::ByPartners(side, from) => {
                let to = self.give_by_partners(work, side, from, output)?;
                work.stage = match (to < work.touched[side].rows.len(), side) {
                    (true, _) => Stage::ByPartners(side, to),
                    (false, LEFT) => Stage::ByPartners(RIGHT, 0),
                    (false, _) => Stage::Forget,
                };
            }
            Stage::Forget => {
                let is_all = self.forget(work.watermark)? & self.forget_bounded(work)?;
                return Ok(if is_all { Advance::Done } else { Advance::Yield });
            }
        }
        Ok(Advance::Next)
    }
}

/// How an epoch's work goes on.
enum Advance {
    Next,
    Yield,
    Done,
}

impl Operator for Join {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        let watermark = self.expiry.as_ref().and_then(|e| e.watermark(&input));
        let limit = |side: usize| self.bounds[side].as_ref().map_or((i64::MIN, None), |bound| bound.limit(&input));
        let [left_limit, right_limit] = [LEFT, RIGHT].map(limit);
        let [left, right] =
            <[Vec<Delta>; 2]>::try_from(input.ports).map_err(|_| OperatorError::Plan("a Join has two inputs".into()))?;
        let changes = [self.change(LEFT, left)?, self.change(RIGHT, right)?];
        let verdicts = match &mut self.null_aware {
            None => [Verdict::ByRow; 2],
            Some(null_aware) => [null_aware.verdict(), null_aware.take_in(&changes[RIGHT])],
        };
        self.epoch = Some(EpochWork {
            stage: Stage::Left(Cursor::default()),
            changes,
            touched: [Touched::default(), Touched::default()],
            verdicts,
            watermark,
            limits: [left_limit.0, right_limit.0],
            marks: [left_limit.1, right_limit.1],
        });
        Ok(())
    }

    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        let Some(mut work) = self.epoch.take() else { return Ok(Progress::Done) };
        loop {
            match self.advance(&mut work, output)? {
                Advance::Done => return Ok(Progress::Done),
                Advance::Next if !output.is_full() => {}
                Advance::Next | Advance::Yield => break,
            }
        }
        self.epoch = Some(work);
        Ok(Progress::More)
    }
}
