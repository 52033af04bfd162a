//! A few named values: source positions, watermarks, sink logs.

/// Bytes by name, all in memory, written at flushes.
pub struct CellTable {}

impl CellTable {
    /// The value of this name.
    pub fn get(&self, _name: &[u8]) -> Option<Vec<u8>> {
        todo!()
    }

    /// Sets a value.
    pub fn put(&mut self, _name: &[u8], _value: &[u8]) {
        todo!()
    }

    /// Removes a value.
    pub fn remove(&mut self, _name: &[u8]) {
        todo!()
    }

    /// All names and values, by name. After a rescale it can hold values of several former workers, whose names then must not
    /// clash.
    pub fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        todo!()
    }
}
