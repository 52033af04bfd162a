//! Orders.

/// One column of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortKey {
    /// The column.
    pub column: usize,
    /// Greatest first.
    pub descending: bool,
    /// NULL before everything else.
    pub nulls_first: bool,
}
