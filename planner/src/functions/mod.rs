//! Functions that Postgres has and DataFusion has not, or has with another meaning. All are deterministic.

pub(crate) mod arithmetic;
pub mod assign;
pub(crate) mod carried;
pub(crate) mod denied;
pub(crate) mod enums;
pub(crate) mod extract;
mod formatting;
mod guarded;
pub(crate) mod interval;
pub(crate) mod json;
pub(crate) mod json_tests;
mod now;
mod pattern;
pub(crate) mod read_time;
mod rounded_time;
mod series;
pub(crate) mod single;
mod sum;
pub(crate) mod system_type;
pub(crate) mod text;
pub(crate) mod time_zone;
pub(crate) mod truncated;
pub(crate) mod window;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::functions::{math, string};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use std::sync::Arc;
use thalweg_catalog::SqlError;

pub(crate) use window::WINDOW_TIME_TYPE;
pub use window::{WindowExpr, WindowFunction, window_expr};

/// Adds the functions to a session's, in place of DataFusion's of the same names.
pub(crate) fn register(state: &mut SessionState) {
    let scalars: Vec<ScalarUDF> = [
        window::functions(),
        guarded::functions(),
        series::functions(),
        assign::functions(),
        carried::functions(),
        enums::functions(),
        arithmetic::functions(),
        text::functions(),
        time_zone::functions(),
        truncated::functions(),
        extract::functions(),
        formatting::functions(),
        now::functions(),
        pattern::functions(),
        interval::functions(),
        json::functions(),
        json_tests::functions(),
        read_time::functions(),
        rounded_time::functions(),
        single::functions(),
        system_type::functions(),
    ]
    .concat();
    for function in scalars {
        // Functions can be added to any session state; the result is the one that was there before.
        let _ = state.register_udf(Arc::new(function));
    }
    for (function, alias) in [(math::signum(), "sign"), (string::uuid(), "gen_random_uuid")] {
        let _ = state.register_udf(Arc::new(function.as_ref().clone().with_aliases([alias])));
    }
    let _ = state.register_udaf(Arc::new(sum::function()));
    let every: AggregateUDF = datafusion::functions_aggregate::bool_and_or::bool_and_udaf().as_ref().clone();
    let _ = state.register_udaf(Arc::new(every.with_aliases(["every"])));
}

/// An error of ours inside one of DataFusion's.
pub(crate) fn error(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Whether an argument is text, or could be.
pub(crate) fn is_text(data_type: &arrow::datatypes::DataType) -> bool {
    use arrow::datatypes::DataType::{LargeUtf8, Null, Utf8, Utf8View};
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Null)
}

/// The error of a function that was called with something it has no meaning for.
pub(crate) fn wrong_types<T>(name: &str, types: &[arrow::datatypes::DataType]) -> Result<T> {
    let shown: Vec<String> =
        types.iter().map(|t| thalweg_catalog::SqlType::from_arrow(t).map_or_else(|_| t.to_string(), |t| t.to_string())).collect();
    Err(error(
        SqlError::new(
            thalweg_catalog::SqlState::UndefinedFunction,
            format!("function {name}({}) does not exist", shown.join(", ")),
        )
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts."),
    ))
}

#[cfg(test)]
mod tests;
