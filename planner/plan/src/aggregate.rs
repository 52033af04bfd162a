//! Aggregates.

use arrow::datatypes::DataType;

/// One aggregate of an `Aggregate` node.
#[derive(Clone, PartialEq, Debug)]
pub struct AggregateCall {
    /// What is computed.
    pub function: AggregateFunction,
    /// The input's column; none only for `COUNT(*)`.
    pub argument: Option<usize>,
    /// Whether equal values count once.
    pub distinct: bool,
    /// A boolean column of the input: only rows where it is true count.
    pub filter: Option<usize>,
    /// The type of the result. The argument has been cast to what the function needs: see [`AggregateFunction`].
    pub output: DataType,
    /// The name of the result's column.
    pub name: String,
}

/// What an aggregate computes. NULL arguments don't count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateFunction {
    /// How many; bigint. 0 for none.
    Count,
    /// Their sum: of Int64 in Int64, of Decimal128 in Decimal128 of the same scale, of Float64 in Float64. NULL for none.
    /// Too large a sum is a row error of the group.
    Sum,
    /// Their mean: of Decimal128(p, s) in Decimal128 with the output's scale, truncated; of Float64 in Float64. NULL for none.
    Avg,
    /// The least. NULL for none. NaN is above all numbers.
    Min,
    /// The greatest. NULL for none.
    Max,
    /// Whether all are true. NULL for none.
    BoolAnd,
    /// Whether any is true. NULL for none.
    BoolOr,
}

impl AggregateFunction {
    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Avg => "avg",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::BoolAnd => "bool_and",
            AggregateFunction::BoolOr => "bool_or",
        }
    }
}
