//! Portals: statements with their parameters, run in one Execute or in several.

use super::rows::Cursor;
use super::session::{Prepared, RowTag};
use super::value::Format;
use datafusion::scalar::ScalarValue;
use std::collections::HashMap;
use std::sync::Arc;

/// A bound statement.
pub struct Portal<S> {
    /// The statement.
    pub prepared: Arc<Prepared<S>>,
    /// The format of each result column.
    pub formats: Vec<Format>,
    /// How far it was run.
    pub state: PortalState,
}

/// How far a portal was run.
pub enum PortalState {
    /// Not at all; the parameters.
    Bound(Vec<ScalarValue>),
    /// Some rows were read.
    Open(Box<Cursor>),
    /// All rows were read.
    Exhausted(RowTag),
    /// It had no rows, and can't be run again.
    Finished,
}

/// The portals of a connection by name.
pub struct Portals<S> {
    portals: HashMap<String, Portal<S>>,
}

impl<S> Default for Portals<S> {
    fn default() -> Self {
        Portals { portals: HashMap::new() }
    }
}

impl<S> Portals<S> {
    /// The portal of this name.
    pub fn get(&self, name: &str) -> Option<&Portal<S>> {
        self.portals.get(name)
    }

    /// Takes a portal out, to put it back when it was run without error.
    pub fn take(&mut self, name: &str) -> Option<Portal<S>> {
        self.portals.remove(name)
    }

    /// Keeps a portal under a name, in place of one that has it.
    pub fn put(&mut self, name: String, portal: Portal<S>) {
        self.portals.insert(name, portal);
    }

    /// Drops a portal, if there is one of this name.
    pub fn close(&mut self, name: &str) {
        self.portals.remove(name);
    }

    /// Drops all portals.
    pub fn clear(&mut self) {
        self.portals.clear();
    }
}
