//! Kinds of joins, and when a join may forget a row.

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

/// When a join may forget a row of one side: once `column` + `shift_us` is below the watermark of the other side's column `other`,
/// because the join's condition has `other <= column + shift`, which no row that is to come there fulfils. A row with NULL in
/// `column` is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinBound {
    /// A time of this side's rows.
    pub column: usize,
    /// A column of the other side that carries a watermark.
    pub other: usize,
    /// Microseconds.
    pub shift_us: i64,
    /// This side's rows can be taken back, until the watermark that their own `column` carries has passed them: so long each is kept.
    pub own: bool,
}
