//! DataFusion's and Arrow's errors, and what becomes of them.

use super::*;
use thalweg_catalog::SqlResult;

fn shown(error: DataFusionError) -> String {
    let error = sql_error(&error);
    format!("{} {}", error.state.code(), error.message)
}

fn plan(message: &str) -> DataFusionError {
    DataFusionError::Plan(message.to_string())
}

fn arrow(error: ArrowError) -> DataFusionError {
    DataFusionError::ArrowError(Box::new(error), None)
}

#[test]
fn errors_get_the_state_that_postgres_would_send() {
    for (error, expected) in [
        (arrow(ArrowError::DivideByZero), "22012 division by zero"),
        (arrow(ArrowError::ArithmeticOverflow("Overflow happened on: 1 + 2".into())), "22003 value out of range"),
        (
            arrow(ArrowError::CastError("Cannot cast string 'x' to value of Int32 type".into())),
            "22P02 invalid input syntax for type integer: \"x\"",
        ),
        (
            arrow(ArrowError::ParseError("Error parsing timestamp from 'x': error parsing date".into())),
            "22007 invalid input syntax for type timestamp: \"x\"",
        ),
        (arrow(ArrowError::CastError("Can't cast value 300 to type Int8".into())), "22003 value out of range"),
        (arrow(ArrowError::CastError("Can't cast value 70000 to type Int16".into())), "22003 smallint out of range"),
        (
            arrow(ArrowError::InvalidArgumentError(
                "1234.50 is too large to store in a Decimal128 of precision 5. Max is 999.99".into(),
            )),
            "22003 numeric field overflow",
        ),
        (plan("Invalid function 'lowr'.\nDid you mean 'lower'?"), "42883 function lowr does not exist"),
        (plan("Cannot coerce arithmetic expression Utf8 + Int64 to valid types"), "42883 operator does not exist: text + bigint"),
        (plan("\"n.id\" must appear in the GROUP BY clause"), "42803 \"n.id\" must appear in the GROUP BY clause"),
        (DataFusionError::NotImplemented("Unsupported thing.".into()), "0A000 unsupported thing"),
        (DataFusionError::ResourcesExhausted("Failed to allocate".into()), "53200 out of memory"),
        (DataFusionError::Internal("it broke\nplease report".into()), "XX000 it broke"),
        (DataFusionError::Execution("Divide by zero error".into()), "22012 division by zero"),
        (
            DataFusionError::External(Box::new(SqlError::new(SqlState::UndefinedTable, "relation \"x\" does not exist"))),
            "42P01 relation \"x\" does not exist",
        ),
    ] {
        assert_eq!(shown(error), expected);
    }
}

#[test]
fn wrapped_errors_are_found() {
    let inner = || arrow(ArrowError::DivideByZero);
    let own = || SqlError::new(SqlState::NumericValueOutOfRange, "integer out of range");
    assert_eq!(shown(inner().context("while folding")), "22012 division by zero");
    assert_eq!(shown(DataFusionError::Shared(std::sync::Arc::new(inner()))), "22012 division by zero");
    assert_eq!(shown(DataFusionError::Collection(vec![inner(), plan("x")])), "22012 division by zero");
    assert_eq!(shown(DataFusionError::External(Box::new(ArrowError::DivideByZero))), "22012 division by zero");
    assert_eq!(shown(arrow(ArrowError::ExternalError(Box::new(own())))), "22003 integer out of range");
}

#[test]
fn hidden_parts_of_names_are_not_shown() {
    let error = sql_error(&plan("Column id\u{1}12 is odd."));
    assert_eq!(error.message, "column id is odd");
}

#[test]
fn an_error_that_names_its_own_hint_keeps_it() {
    let result: SqlResult<()> = Err(sql_error(&plan("Invalid function 'lowr'.\nDid you mean 'lower'?")));
    assert_eq!(result.map_err(|e| e.hint), Err(Some("Did you mean \"lower\"?".to_string())));
}
