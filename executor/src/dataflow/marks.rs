//! Watermarks of an operator: taken from all senders of all ports, combined, saved, and passed on.

use super::context::NodeContext;
use super::packet::Mark;
use crate::error::OperatorError;
use crate::operator::Watermarks;
use std::collections::BTreeMap;
use thalweg_plan::WatermarkMapping;
use thalweg_storage::state::CellTable;

/// What one sender has said of one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Nothing,
    Idle,
    Value(i64),
}

/// The watermarks of the inputs. A column's watermark is the least of what all its senders have said, idle ones apart; there
/// is none until every sender has said something. It never falls, also over restarts.
pub struct MarkInputs {
    /// By port: the workers that send to it.
    senders: Vec<Vec<usize>>,
    /// By port and column: what each sender has said, in the order of `senders`.
    said: Vec<BTreeMap<usize, Vec<Said>>>,
    current: Vec<Watermarks>,
    saved: Option<CellTable>,
    changed: bool,
}

impl MarkInputs {
    /// With what was saved at the last checkpoint.
    pub fn new(context: &NodeContext, senders: Vec<Vec<usize>>) -> Result<MarkInputs, OperatorError> {
        let saved = context.state.cell_table("watermarks", context.worker().own_vnode())?;
        let mut current = vec![Watermarks::new(); senders.len()];
        for (name, value) in saved.entries()? {
            let (Ok(name), Ok(value)) = (<[u8; 8]>::try_from(name), <[u8; 8]>::try_from(value)) else {
                return Err(OperatorError::Invariant("MARKS-1", "a saved watermark is not as it was written".into()));
            };
            let port = u32::from_le_bytes(name[..4].try_into().expect("four bytes")) as usize;
            let column = u32::from_le_bytes(name[4..].try_into().expect("four bytes")) as usize;
            let value = i64::from_le_bytes(value);
            if let Some(marks) = current.get_mut(port) {
                // From several workers after a rescale: what held for all holds.
                marks.entry(column).and_modify(|v| *v = value.min(*v)).or_insert(value);
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
            let said = self.said[port].entry(mark.column).or_insert_with(|| vec![Said::Nothing; senders.len()]);
            said[place] = mark.value.map_or(Said::Idle, Said::Value);
        }
    }

    /// Combines what was said.
    pub fn advance(&mut self) -> Vec<Watermarks> {
        for (current, said) in self.current.iter_mut().zip(&self.said) {
            for (column, said) in said {
                if said.contains(&Said::Nothing) {
                    continue;
                }
                let least = said.iter().filter_map(|s| if let Said::Value(v) = s { Some(*v) } else { None }).min();
                let Some(least) = least else { continue };
                let before = current.get(column).copied();
                if before.is_none_or(|v| v < least) {
                    current.insert(*column, least);
                    self.changed = true;
                }
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
            for (column, value) in marks {
                let mut name = [0u8; 8];
                name[..4].copy_from_slice(&(port as u32).to_le_bytes());
                name[4..].copy_from_slice(&(*column as u32).to_le_bytes());
                saved.put(&name, &value.to_le_bytes());
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

    /// What has risen, now that the inputs' watermarks are these.
    pub fn follow(&mut self, inputs: &[Watermarks]) -> Vec<Mark> {
        let mut least: BTreeMap<usize, Option<i64>> = BTreeMap::new();
        for mapping in &self.mappings {
            let value = inputs[mapping.port].get(&mapping.input).map(|v| mapping.transform.apply(*v));
            least.entry(mapping.output).and_modify(|l| *l = l.zip(value).map(|(a, b)| a.min(b))).or_insert(value);
        }
        let mut marks = vec![];
        for (column, value) in least {
            if let Some(value) = value
                && self.given.get(&column).is_none_or(|given| *given < value)
            {
                self.given.insert(column, value);
                marks.push(Mark { column, value: Some(value) });
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
                .map(|m| Mark { column: m.output, value: mark.value.map(|v| m.transform.apply(v)) })
        })
        .collect()
}
