//! The operator: takes an epoch's rows into the state, then gives the difference.

use super::accumulator::{Accumulator, Rows, add_weights, i64_at, rows_seen};
use super::difference::{AFTER, ChangedRows, Difference};
use super::epoch::Touched;
use super::layout::{LIVE, Layout};
use super::outcome::{Formula, Outcome, special_values};
use super::values::{GroupRows, Transitions, ValueSet};
use crate::error::OperatorError;
use crate::operator::{Dropped, EpochInput, Operator, Output, PIECE_ROWS, Progress};
use crate::operators::build::Context;
use crate::operators::horizon::{Horizon, TimeIndex, micros};
use crate::operators::rows::{Errors, batch_of, check_append, columns_of, describe_row, fields_of};
use arrow::array::{Array, ArrayRef, Int64Array, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{Field, SchemaRef};
use std::sync::Arc;
use thalweg_catalog::Delta;
use thalweg_catalog::hash::hash_columns;
use thalweg_plan::PlanNode;
use thalweg_storage::state::{GroupTable, RowCodec, Slot, TableSpec};

/// How many groups are compared and given at once: each gives two rows at most.
const PIECE_GROUPS: usize = PIECE_ROWS / 2;

/// A running `Aggregate`.
pub struct Aggregate {
    schema: SchemaRef,
    keys: Vec<usize>,
    key_fields: Vec<Field>,
    key_codec: RowCodec,
    /// The input never retracts.
    append: bool,
    layout: Layout,
    groups: GroupTable,
    sets: Vec<ValueSet>,
    expiry: Option<Expiry>,
    /// Groups are given when they are forgotten.
    on_close: bool,
    errors: Errors,
    touched: Touched,
    /// Slots of the delta at hand.
    slots: Vec<Slot>,
    /// How many of the touched groups have been given.
    given: usize,
    /// A global group's row must still be given, though it has no rows yet.
    starts: bool,
    watermark: Option<i64>,
}

/// How groups are forgotten by time.
struct Expiry {
    /// The place of the time in the key, and in the input.
    place: usize,
    column: usize,
    horizon: Horizon,
    index: TimeIndex,
}

impl Aggregate {
    /// The operator of an `Aggregate` node.
    ///
    /// # Errors
    /// `Plan` if the node is another or does not fit its input; `State` if state can't be opened.
    pub fn new(node: &PlanNode, input: &SchemaRef, append: bool, context: Context) -> Result<Aggregate, OperatorError> {
        let thalweg_plan::Operator::Aggregate { keys, calls, time_key, on_close } = &node.operator else {
            return Err(OperatorError::Plan("not an Aggregate".into()));
        };
        if *on_close && time_key.is_none() {
            return Err(OperatorError::Plan("an Aggregate without a time never gives what it gives on close".into()));
        }
        if node.schema.fields().len() != keys.len() + calls.len() {
            return Err(OperatorError::Plan("an Aggregate has its keys, then its aggregates".into()));
        }
        let key_fields = fields_of(input, keys)?;
        let layout = Layout::new(calls, input, append, keys.is_empty())?;
        let groups = context.state.group_table(TableSpec {
            name: "groups".into(),
            key: key_fields.clone(),
            sub: Vec::new(),
            sub_order: Vec::new(),
            value: layout.fields.clone(),
        })?;
        let sets = open_sets(&layout, &key_fields, input, &context)?;
        let expiry = time_key.map(|place| Expiry::open(place, keys, &context)).transpose()?;
        let extremes = layout.outcomes.iter().filter(|o| matches!(o.formula, Formula::Value { .. })).count();
        let mut aggregate = Aggregate {
            schema: Arc::clone(&node.schema),
            keys: keys.clone(),
            key_codec: RowCodec::new(&key_fields)?,
            key_fields,
            touched: Touched::new(layout.width, extremes),
            append,
            layout,
            groups,
            sets,
            expiry,
            on_close: *on_close,
            errors: context.errors,
            slots: Vec::new(),
            given: 0,
            // The empty key belongs to worker 0, however many there are: its hash is 0.
            starts: keys.is_empty() && context.worker.0 == 0,
            watermark: None,
        };
        aggregate.index_groups()?;
        Ok(aggregate)
    }

    /// Whether it must be called for the first epoch even without rows.
    pub fn starts(&self) -> bool {
        self.starts
    }

    /// Rebuilds the index by time.
    fn index_groups(&mut self) -> Result<(), OperatorError> {
        let Some(expiry) = &mut self.expiry else { return Ok(()) };
        let mut keys = Vec::new();
        self.groups.for_each(&mut |hash, key, _| {
            keys.push((hash, key.into()));
            Ok(())
        })?;
        expiry.index.insert_all(&keys, &self.key_codec, expiry.place)
    }

    fn take_in(&mut self, delta: &Delta) -> Result<(), OperatorError> {
        if self.append {
            check_append(delta)?;
        }
        let (batch, rows) = (delta.batch(), delta.num_rows());
        let key_columns = columns_of(batch, &self.keys);
        let hashes = hash_columns(&key_columns, rows)?;
        let keys = self.key_codec.encode(&key_columns, rows)?;
        let mut slots = std::mem::take(&mut self.slots);
        self.groups.slots(&hashes, &keys, &mut slots)?;
        self.touch(&slots, batch.columns())?;
        let weights = delta.weights().map(|w| w.values().as_ref());
        add_weights(&mut self.groups, LIVE, &Rows { slots: &slots, weights, keep: None });
        let groups = GroupRows { hashes: &hashes, keys: &keys };
        for place in 0..self.sets.len() {
            let set = &mut self.sets[place];
            let column = batch.column(set.shape.argument);
            let rows_of = |filter: &Option<usize>| rows_seen(batch.columns(), Some(set.shape.argument), *filter);
            let let_in = set.shape.filters.iter().map(rows_of).collect::<Result<Vec<_>, _>>()?;
            let filters = set.shape.filters.clone();
            let transitions = set.apply(&groups, column, &let_in, weights)?;
            for (filter, transitions) in filters.into_iter().zip(transitions) {
                self.take_in_transitions((place, filter), column, &slots, transitions)?;
            }
        }
        for accumulator in self.layout.accumulators.iter().filter(|a| a.set.is_none()) {
            let argument = accumulator.argument.map(|a| batch.column(a));
            let keep = rows_seen(batch.columns(), accumulator.argument, accumulator.filter)?;
            accumulator.add(&mut self.groups, argument, &Rows { slots: &slots, weights, keep })?;
        }
        self.slots = slots;
        Ok(())
    }

    /// Adds the values that came to be, and takes off those that ceased to be, for the aggregates of a set with this filter.
    fn take_in_transitions(
        &mut self,
        (set, filter): (usize, Option<usize>),
        column: &ArrayRef,
        slots: &[Slot],
        transitions: Transitions,
    ) -> Result<(), OperatorError> {
        if transitions.rows.is_empty() {
            return Ok(());
        }
        let slots: Vec<Slot> = transitions.rows.iter().map(|row| slots[*row as usize]).collect();
        let column = take(column, &UInt32Array::from(transitions.rows), None)?;
        let rows = Rows { slots: &slots, weights: Some(&transitions.weights), keep: None };
        let here = |a: &&Accumulator| a.set == Some(set) && a.filter == filter;
        for accumulator in self.layout.accumulators.iter().filter(here) {
            accumulator.add(&mut self.groups, Some(&column), &rows)?;
        }
        Ok(())
    }

    /// Notes what the groups were before the epoch.
    fn touch(&mut self, slots: &[Slot], columns: &[ArrayRef]) -> Result<(), OperatorError> {
        let times = match &self.expiry {
            Some(expiry) => Some(micros(&columns[expiry.column])?),
            None => None,
        };
        for (row, slot) in slots.iter().enumerate() {
            if !self.touched.touch(*slot) {
                continue;
            }
            let value = self.groups.value(*slot);
            let live = i64_at(value, LIVE) > 0;
            self.touched.note(*slot, value);
            if let Some(times) = &times {
                self.touched.times.push((!times.is_null(row)).then(|| times.value(row)));
            }
            if !self.on_close && !self.touched.old_extremes.is_empty() {
                let (hash, key) = (self.groups.hash(*slot), self.groups.key(*slot));
                let formulas = self.layout.outcomes.iter().filter_map(|o| o.value_set());
                for (place, (set, greatest)) in formulas.enumerate() {
                    let old = if live { self.sets[set].extreme(hash, key, greatest)? } else { None };
                    self.touched.old_extremes[place].push(old);
                }
            }
        }
        Ok(())
    }

    /// A global group is there without rows.
    fn touch_global(&mut self) -> Result<(), OperatorError> {
        let hashes = hash_columns(&[], 1)?;
        let keys = self.key_codec.encode(&[], 1)?;
        let mut slots = Vec::new();
        self.groups.slots(&hashes, &keys, &mut slots)?;
        self.touch(&slots, &[])
    }

    /// Brings the groups touched as number `from` up to `to` into order before they are shown.
    fn settle(&mut self, from: usize, to: usize) -> Result<(), OperatorError> {
        let mut unmatched = 0;
        for place in from..to {
            let slot = self.touched.slots[place];
            let live = i64_at(self.groups.value(slot), LIVE);
            if live < 0 {
                unmatched += live.unsigned_abs();
                self.groups.value_mut(slot).fill(0);
            }
            if live <= 0 {
                let (hash, key) = (self.groups.hash(slot), self.groups.key(slot));
                self.sets.iter_mut().try_for_each(|set| set.remove(hash, key))?;
            }
            if let Some(given) = self.layout.given
                && i64_at(self.groups.value(slot), given) == 0
            {
                self.groups.value_mut(slot)[given..given + 8].copy_from_slice(&1i64.to_le_bytes());
            }
            for outcome in &self.layout.outcomes {
                if let Formula::FloatSum { sum, count, .. } = outcome.formula {
                    let value = self.groups.value(slot);
                    // Without finite values the sum is exactly nothing, whatever rounding has left.
                    if i64_at(value, count) == special_values(value, sum) && value[sum..sum + 16].iter().any(|b| *b != 0) {
                        self.groups.value_mut(slot)[sum..sum + 16].fill(0);
                    }
                }
            }
        }
        self.count_unmatched(unmatched);
        Ok(())
    }

    fn count_unmatched(&self, rows: u64) {
        if rows > 0 {
            self.errors.borrow_mut().dropped(Dropped::Unmatched, rows);
        }
    }

    /// Gives the difference that the epoch made to some of the touched groups.
    fn give_touched(&mut self, from: usize, to: usize, output: &mut Output) -> Result<(), OperatorError> {
        let slots = self.touched.slots[from..to].to_vec();
        let after = self.extremes(&slots)?;
        let old: Vec<&[u8]> = (from..to).map(|place| self.touched.old(place)).collect();
        let before: Vec<&[Option<Vec<u8>>]> = self.touched.old_extremes.iter().map(|old| &old[from..to]).collect();
        self.give(&slots, &old, (&before, &after), output)
    }

    /// Gives groups that have not been given before.
    fn give_closed(&mut self, slots: &[Slot], output: &mut Output) -> Result<(), OperatorError> {
        let nothing = vec![0; self.layout.width];
        for slots in slots.chunks(PIECE_ROWS) {
            let after = self.extremes(slots)?;
            let no_values = vec![None; slots.len()];
            let (old, before) = (vec![nothing.as_slice(); slots.len()], vec![no_values.as_slice(); after.len()]);
            self.give(slots, &old, (&before, &after), output)?;
        }
        Ok(())
    }

    /// Gives the difference between what groups were and what they are. `extremes` are the results that come from sets, before and after.
    fn give(
        &self,
        slots: &[Slot],
        old: &[&[u8]],
        extremes: (&[&[Option<Vec<u8>>]], &[Vec<Option<Vec<u8>>>]),
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let new: Vec<&[u8]> = slots.iter().map(|slot| self.groups.value(*slot)).collect();
        let mut difference = Difference::between(old, &new, self.layout.given);
        let mut columns = Vec::with_capacity(self.layout.outcomes.len());
        let mut from_sets = extremes.0.iter().zip(extremes.1);
        for outcome in &self.layout.outcomes {
            if let Some((set, _)) = outcome.value_set() {
                let (before, after) = from_sets.next().ok_or_else(|| OperatorError::Plan("a set without a result".into()))?;
                difference.compare_encoded(before, after);
                columns.push(self.decoded(outcome, set, before, after)?);
            } else {
                let (Some(before), Some(after)) = (outcome.show(old)?, outcome.show(&new)?) else {
                    return Err(OperatorError::Plan("an aggregate without a result".into()));
                };
                difference.compare(&before, &after)?;
                columns.push([before.column, after.column]);
            }
        }
        let rows = difference.rows();
        if !rows.places.is_empty() {
            output.give(self.delta(slots, &rows, &columns)?);
        }
        self.report(slots, &difference)
    }

    /// For each result that comes from a set, the encoded value of each of these groups.
    fn extremes(&mut self, slots: &[Slot]) -> Result<Vec<Vec<Option<Vec<u8>>>>, OperatorError> {
        let mut all = Vec::new();
        for (set, greatest) in self.layout.outcomes.iter().filter_map(|o| o.value_set()) {
            let mut values = Vec::with_capacity(slots.len());
            for slot in slots {
                values.push(self.sets[set].extreme(self.groups.hash(*slot), self.groups.key(*slot), greatest)?);
            }
            all.push(values);
        }
        Ok(all)
    }

    /// The columns before and after of a result that comes from a set.
    fn decoded(
        &self,
        outcome: &Outcome,
        set: usize,
        before: &[Option<Vec<u8>>],
        after: &[Option<Vec<u8>>],
    ) -> Result<[ArrayRef; 2], OperatorError> {
        let column = |values: &[Option<Vec<u8>>]| -> Result<ArrayRef, OperatorError> {
            let decoded = self.sets[set].codec.decode(values.iter().flatten().map(Vec::as_slice))?;
            let mut next = 0;
            let places = UInt32Array::from_iter(values.iter().map(|value| {
                value.as_ref().map(|_| {
                    next += 1;
                    next - 1
                })
            }));
            outcome.typed(take(&decoded[0], &places, None)?)
        };
        Ok([column(before)?, column(after)?])
    }

    fn delta(&self, slots: &[Slot], rows: &ChangedRows, columns: &[[ArrayRef; 2]]) -> Result<Delta, OperatorError> {
        let keys = rows.places.iter().map(|(_, place)| self.groups.key(slots[*place]));
        let mut all = if self.keys.is_empty() { Vec::new() } else { self.key_codec.decode(keys)? };
        for [before, after] in columns {
            all.push(interleave(&[before.as_ref(), after.as_ref()], &rows.places)?);
        }
        let batch = batch_of(&self.schema, all, rows.places.len())?;
        if rows.places.iter().all(|(side, _)| *side == AFTER) {
            return Ok(Delta::inserts(batch));
        }
        let weights = rows.places.iter().map(|(side, _)| if *side == AFTER { 1 } else { -1 });
        Ok(Delta::weighted(batch, Int64Array::from_iter_values(weights)))
    }

    /// Reports groups whose row can't be shown, and takes back the reports of those that were so before.
    fn report(&self, slots: &[Slot], difference: &Difference) -> Result<(), OperatorError> {
        for (place, [before, after]) in difference.faults.iter().enumerate() {
            if before == after {
                continue;
            }
            let columns = self.key_codec.decode([self.groups.key(slots[place])])?;
            let shown = describe_row(&self.key_fields.iter().map(|f| Arc::new(f.clone())).collect::<Vec<_>>(), &columns, 0);
            for (reason, weight) in [(before, -1), (after, 1)] {
                if let Some(reason) = reason {
                    self.errors.borrow_mut().report(&shown, reason, weight);
                }
            }
        }
        Ok(())
    }

    /// Ends the epoch: groups without rows go, new ones are noted by time, old ones are forgotten.
    fn finish(&mut self) -> Result<(), OperatorError> {
        for (place, slot) in self.touched.slots.iter().enumerate() {
            let live = i64_at(self.groups.value(*slot), LIVE) > 0;
            if live {
                if let Some(expiry) = &mut self.expiry
                    && i64_at(self.touched.old(place), LIVE) <= 0
                    && let Some(time) = self.touched.times[place]
                {
                    expiry.index.insert(time, self.groups.hash(*slot), self.groups.key(*slot));
                }
            } else if self.layout.given.is_none() {
                self.groups.remove(*slot);
            }
        }
        self.touched.clear();
        self.given = 0;
        self.groups.end_batch();
        Ok(())
    }

    /// Forgets a piece of what is below the horizon, and gives it if it has not been given. Whether that was all.
    fn forget(&mut self, output: &mut Output) -> Result<bool, OperatorError> {
        let Some(expiry) = &mut self.expiry else { return Ok(true) };
        expiry.horizon.advance(self.watermark);
        let below = expiry.index.take_below(expiry.horizon.value(), PIECE_ROWS);
        if below.is_empty() {
            return Ok(true);
        }
        let columns = self.key_codec.decode(below.iter().map(|(_, key)| key.as_ref()))?;
        let keys = self.key_codec.encode(&columns, below.len())?;
        let hashes: Vec<u64> = below.iter().map(|(hash, _)| *hash).collect();
        let mut slots = std::mem::take(&mut self.slots);
        self.groups.slots(&hashes, &keys, &mut slots)?;
        if self.on_close {
            self.give_closed(&slots, output)?;
        }
        slots.iter().for_each(|slot| self.groups.remove(*slot));
        self.groups.end_batch();
        self.slots = slots;
        for (hash, key) in &below {
            self.sets.iter_mut().try_for_each(|set| set.remove(*hash, key))?;
        }
        Ok(false)
    }
}

impl Operator for Aggregate {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        let [deltas] =
            <[Vec<Delta>; 1]>::try_from(input.ports).map_err(|_| OperatorError::Plan("an Aggregate has one input".into()))?;
        if std::mem::take(&mut self.starts) {
            self.touch_global()?;
        }
        for mut delta in deltas {
            if let Some(expiry) = &self.expiry {
                let (kept, late) = expiry.horizon.on_time(delta, expiry.column)?;
                if late > 0 {
                    self.errors.borrow_mut().dropped(Dropped::Late, late);
                }
                delta = kept;
            }
            if !delta.is_empty() {
                self.take_in(&delta)?;
            }
        }
        for place in 0..self.sets.len() {
            let unmatched = self.sets[place].settle()?;
            self.count_unmatched(unmatched);
        }
        self.watermark =
            self.expiry.as_ref().and_then(|e| input.watermarks.first().and_then(|w| w.get(&e.column)).map(|w| w.value));
        Ok(())
    }

    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        while self.given < self.touched.slots.len() {
            let to = self.touched.slots.len().min(self.given + PIECE_GROUPS);
            self.settle(self.given, to)?;
            if !self.on_close {
                self.give_touched(self.given, to, output)?;
            }
            self.given = to;
            if output.is_full() {
                return Ok(Progress::More);
            }
        }
        if !self.touched.slots.is_empty() {
            self.finish()?;
        }
        Ok(if self.forget(output)? { Progress::Done } else { Progress::More })
    }
}

impl Expiry {
    fn open(place: usize, keys: &[usize], context: &Context) -> Result<Expiry, OperatorError> {
        let column = *keys.get(place).ok_or_else(|| OperatorError::Plan(format!("there is no key {place}")))?;
        Ok(Expiry { place, column, horizon: Horizon::open(&context.state)?, index: TimeIndex::default() })
    }
}

fn open_sets(layout: &Layout, keys: &[Field], input: &SchemaRef, context: &Context) -> Result<Vec<ValueSet>, OperatorError> {
    let mut sets = Vec::with_capacity(layout.sets.len());
    for (place, shape) in layout.sets.iter().enumerate() {
        let argument = input.field(shape.argument).clone();
        let distinct = layout.accumulators.iter().any(|a| a.set == Some(place));
        sets.push(ValueSet::open(shape.clone(), keys, argument, distinct, &context.state)?);
    }
    Ok(sets)
}
