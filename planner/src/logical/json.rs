//! `->`, `->>`, `#>`, `#>>`, and of `jsonb` also `@>`, `<@`, `?`, `?|` and `?&`, which DataFusion reads and has nothing for: calls of
//! functions from the start.

use crate::functions::json::{self, Part};
use crate::functions::json_tests::{self, Test};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;
use thalweg_catalog::json::canonical;
use thalweg_catalog::{SqlError, SqlState, SqlType, array_text};

#[derive(Debug)]
pub(crate) struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let (is_path, as_text) = match raw.op {
            BinaryOperator::Arrow => (false, false),
            BinaryOperator::LongArrow => (false, true),
            BinaryOperator::HashArrow => (true, false),
            BinaryOperator::HashLongArrow => (true, true),
            _ => return plan_test(raw, schema),
        };
        let RawBinaryExpr { op, left, right } = raw;
        let source = type_of(&left, schema);
        let wanted = if is_path { SqlType::Array(Box::new(SqlType::Text)) } else { SqlType::Text };
        let right = settled(right, &wanted)?;
        let key = type_of(&right, schema);
        let part = match &key {
            Some(SqlType::Array(item)) if is_path && is_text(item) => Some(Part::Path),
            Some(found) if !is_path && is_text(found) => Some(Part::Member),
            Some(SqlType::Int2 | SqlType::Int4 | SqlType::Int8) if !is_path => Some(Part::Element),
            _ => None,
        };
        let function = source.as_ref().filter(|s| matches!(s, SqlType::Json | SqlType::Jsonb)).zip(part);
        match function.and_then(|(source, part)| json::taking(part, source, as_text)) {
            Some(function) => Ok(PlannerResult::Planned(function.call(vec![left, right]))),
            None => Err(no_operator(&source, &op, &key)),
        }
    }
}

/// What is asked of a `jsonb` value. `@>` and `<@` are of arrays too.
fn plan_test(raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let test = match raw.op {
        BinaryOperator::AtArrow => Test::Contains,
        BinaryOperator::ArrowAt => Test::Contained,
        BinaryOperator::Question => Test::Key,
        BinaryOperator::QuestionPipe => Test::AnyKey,
        BinaryOperator::QuestionAnd => Test::AllKeys,
        _ => return Ok(PlannerResult::Original(raw)),
    };
    let is_value = |expr: &Expr| matches!(type_of(expr, schema), Some(SqlType::Jsonb | SqlType::Json));
    let of_values = matches!(test, Test::Contains | Test::Contained);
    if of_values && !is_value(&raw.left) && !is_value(&raw.right) {
        return Ok(PlannerResult::Original(raw));
    }
    let RawBinaryExpr { op, left, right } = raw;
    let wanted = match test {
        Test::Key => SqlType::Text,
        _ if of_values => SqlType::Jsonb,
        _ => SqlType::Array(Box::new(SqlType::Text)),
    };
    let left = settled(left, &SqlType::Jsonb)?;
    let right = settled(right, &wanted)?;
    let fits = |expr: &Expr, wanted: &SqlType| match type_of(expr, schema) {
        // A literal that was settled.
        _ if *wanted == SqlType::Jsonb && matches!(expr, Expr::Literal(ScalarValue::Utf8(_), _)) => true,
        Some(found) => found == *wanted || *wanted == SqlType::Text && is_text(&found),
        None => false,
    };
    if fits(&left, &SqlType::Jsonb) && fits(&right, &wanted) {
        return Ok(PlannerResult::Planned(json_tests::asking(test).call(vec![left, right])));
    }
    Err(no_operator(&type_of(&left, schema), &op, &type_of(&right, schema)))
}

fn is_text(sql_type: &SqlType) -> bool {
    matches!(sql_type, SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_))
}

/// The type of an expression; none if that is still open.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<SqlType> {
    let (_, field) = expr.to_field(schema).ok()?;
    if *field.data_type() == DataType::Null { None } else { SqlType::from_field(&field).ok() }
}

/// A side of an operator as the type that it has if nothing says another: a parameter, `NULL`, the text of an array or of a value.
fn settled(side: Expr, wanted: &SqlType) -> Result<Expr> {
    Ok(match side {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field: Field = wanted.to_field("", true);
            Expr::Placeholder(Placeholder { id, field: Some(Arc::new(field)) })
        }
        Expr::Literal(value, metadata) if value.is_null() => Expr::Literal(ScalarValue::try_from(&wanted.to_arrow())?, metadata),
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) if matches!(wanted, SqlType::Array(_)) => {
            let steps = array_text::elements(&text).map_err(|e| DataFusionError::External(Box::new(e)))?;
            let steps: Vec<ScalarValue> = steps.into_iter().map(ScalarValue::Utf8).collect();
            Expr::Literal(ScalarValue::List(ScalarValue::new_list_nullable(&steps, &DataType::Utf8)), metadata)
        }
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) if *wanted == SqlType::Jsonb => {
            let value = canonical(&text).map_err(|e| DataFusionError::External(Box::new(e)))?;
            Expr::Literal(ScalarValue::Utf8(Some(value)), metadata)
        }
        other => other,
    })
}

fn no_operator(left: &Option<SqlType>, op: &BinaryOperator, right: &Option<SqlType>) -> DataFusionError {
    let shown = |found: &Option<SqlType>| found.as_ref().map_or("unknown".to_string(), ToString::to_string);
    let message = format!("operator does not exist: {} {op} {}", shown(left), shown(right));
    let error = SqlError::new(SqlState::UndefinedFunction, message)
        .with_hint("It takes parts of a json or jsonb value; add a cast, as in value::jsonb -> 'key'.");
    DataFusionError::External(Box::new(error))
}
