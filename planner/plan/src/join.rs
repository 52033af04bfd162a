//! Kinds of joins.

/// Which rows a join gives beside the pairs. Right semi and right anti joins are planned with their inputs swapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinType {
    /// Pairs alone.
    Inner,
    /// Also left rows without a partner, with NULLs for the right.
    Left,
    /// Also right rows without a partner, with NULLs for the left.
    Right,
    /// Both.
    Full,
    /// No pairs: left rows that have a partner, once.
    LeftSemi,
    /// No pairs: left rows that have none.
    LeftAnti,
}

impl JoinType {
    /// Its name in `EXPLAIN`.
    pub fn name(self) -> &'static str {
        match self {
            JoinType::Inner => "inner",
            JoinType::Left => "left",
            JoinType::Right => "right",
            JoinType::Full => "full",
            JoinType::LeftSemi => "left_semi",
            JoinType::LeftAnti => "left_anti",
        }
    }

    /// Whether left rows are given without a partner, or only then.
    pub fn keeps_left(self) -> bool {
        matches!(self, JoinType::Left | JoinType::Full | JoinType::LeftAnti)
    }

    /// Whether right rows are given without a partner.
    pub fn keeps_right(self) -> bool {
        matches!(self, JoinType::Right | JoinType::Full)
    }

    /// Whether the output has the left's columns alone.
    pub fn left_only(self) -> bool {
        matches!(self, JoinType::LeftSemi | JoinType::LeftAnti)
    }
}
