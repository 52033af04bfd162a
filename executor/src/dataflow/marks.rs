//! Watermarks of an operator: taken from all senders of all ports, combined, saved, and passed on.

use super::context::NodeContext;
use super::packet::Mark;
use crate::error::OperatorError;
use crate::operator::{Watermark, Watermarks};
use std::collections::BTreeMap;
use thalweg_catalog::VNode;
use thalweg_plan::WatermarkMapping;
use thalweg_storage::state::CellTable;

/// The watermarks of the inputs: of each column, what its senders have said, combined; none until every sender has said something.
/// A watermark never falls, also over restarts. At a checkpoint every worker has the same ones.
pub struct MarkInputs {
    /// By port: the workers that send to it.
    senders: Vec<Vec<usize>>,
    /// By port and column: what each sender has said, in the order of `senders`.
    said: Vec<BTreeMap<usize, Vec<Option<Watermark>>>>,
    current: Vec<Watermarks>,
    saved: Option<CellTable>,
    changed: bool,
}

impl MarkInputs {
    /// With what was saved at the last checkpoint.
    pub fn new(context: &NodeContext, senders: Vec<Vec<usize>>) -> Result<MarkInputs, OperatorError> {
        let saved = context.state.cell_table("watermarks", VNode::EVERY_WORKER)?;
        let mut current = vec![Watermarks::new(); senders.len()];
        for (name, value) in saved.entries()? {
            let (Ok(name), Ok(value)) = (<[u8; 8]>::try_from(name), <[u8; 8]>::try_from(value)) else {
                return Err(OperatorError::Invariant("MARKS-1", "a saved watermark is not as it was written".into()));
            };
            let port = u32::from_le_bytes(name[..4].try_into().expect("four bytes")) as usize;
            let column = u32::from_le_bytes(name[4..].try_into().expect("four bytes")) as usize;
            let value = i64::from_le_bytes(value);
            if let Some(marks) = current.get_mut(port) {
                marks.insert(column, Watermark { value, idle: false });
            }
        }
        let said = vec![BTreeMap::new(); senders.len()];
        Ok(MarkInputs { said, senders, current, saved: Some(saved), changed: false })
    }

    /// For the operator of a job that has failed already.
    pub fn without_state(senders: Vec<Vec<usize>>) -> MarkInputs {
        let (said, current) = (vec![BTreeMap::new(); senders.len()], vec![Watermarks::new(); senders.len()]);
        MarkInputs { senders, said, current, saved: None, changed: false }
    }

    /// Takes what a sender says.
    pub fn receive(&mut self, port: usize, from: usize, marks: &[Mark]) {
        let senders = &self.senders[port];
        let Some(place) = senders.iter().position(|s| *s == from) else { return };
        for mark in marks {
            let said = self.said[port].entry(mark.column).or_insert_with(|| vec![None; senders.len()]);
            said[place] = Some(mark.watermark);
        }
    }

    /// Combines what was said.
    pub fn advance(&mut self) -> Vec<Watermarks> {
        for (current, said) in self.current.iter_mut().zip(&self.said) {
            for (column, said) in said {
                let Some(Watermark { value, idle }) = Watermark::combined(said.iter().copied()) else { continue };
                let now = current.entry(*column).or_insert(Watermark { value: i64::MIN, idle });
                self.changed |= value > now.value;
                *now = Watermark { value: value.max(now.value), idle };
            }
        }
        self.current.clone()
    }

    /// The combined watermarks by port.
    pub fn current(&self) -> &[Watermarks] {
        &self.current
    }

    /// Puts the watermarks where the next flush takes them from.
    pub fn save(&mut self) {
        let Some(saved) = self.saved.as_mut().filter(|_| self.changed) else { return };
        self.changed = false;
        for (port, marks) in self.current.iter().enumerate() {
            for (column, watermark) in marks {
                let mut name = [0u8; 8];
                name[..4].copy_from_slice(&(port as u32).to_le_bytes());
                name[4..].copy_from_slice(&(*column as u32).to_le_bytes());
                saved.put(&name, &watermark.value.to_le_bytes());
            }
        }
    }
}

/// The watermarks of the output.
pub struct MarkOutput {
    mappings: Vec<WatermarkMapping>,
    given: Watermarks,
}

impl MarkOutput {
    /// By these mappings.
    pub fn new(mappings: Vec<WatermarkMapping>) -> MarkOutput {
        MarkOutput { mappings, given: Watermarks::new() }
    }

    /// What is new, now that the inputs' watermarks are these.
    pub fn follow(&mut self, inputs: &[Watermarks]) -> Vec<Mark> {
        let mut parts: BTreeMap<usize, Vec<Option<Watermark>>> = BTreeMap::new();
        for mapping in &self.mappings {
            let watermark = inputs[mapping.port].get(&mapping.input).map(|watermark| mapped(mapping, watermark));
            parts.entry(mapping.output).or_default().push(watermark);
        }
        let mut marks = vec![];
        for (column, parts) in parts {
            let Some(mut watermark) = Watermark::combined(parts) else { continue };
            let given = self.given.get(&column);
            // One that was idle and goes on may be behind: it does not take back what was said without it.
            watermark.value = given.map_or(watermark.value, |given| given.value.max(watermark.value));
            if given != Some(&watermark) {
                self.given.insert(column, watermark);
                marks.push(Mark { column, watermark });
            }
        }
        marks
    }
}

/// The marks of a single-input node's output, straight from those of its input.
pub fn map_marks(mappings: &[WatermarkMapping], marks: &[Mark]) -> Vec<Mark> {
    marks
        .iter()
        .flat_map(|mark| {
            mappings
                .iter()
                .filter(|m| m.input == mark.column)
                .map(|m| Mark { column: m.output, watermark: mapped(m, &mark.watermark) })
        })
        .collect()
}

fn mapped(mapping: &WatermarkMapping, watermark: &Watermark) -> Watermark {
    Watermark { value: mapping.transform.apply(watermark.value), ..*watermark }
}
