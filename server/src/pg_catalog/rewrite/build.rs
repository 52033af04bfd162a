//! Pieces of syntax that rewritten queries are put together from.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Query, Statement, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Span;

/// A value.
pub fn value(value: Value) -> Expr {
    Expr::Value(ValueWithSpan { value, span: Span::empty() })
}

/// A text literal.
pub fn text(text: impl Into<String>) -> Expr {
    value(Value::SingleQuotedString(text.into()))
}

/// A number.
pub fn number(number: i64) -> Expr {
    value(Value::Number(number.to_string(), false))
}

/// A truth value.
pub fn boolean(truth: bool) -> Expr {
    value(Value::Boolean(truth))
}

/// A NULL.
pub fn null() -> Expr {
    value(Value::Null)
}

/// A call of a function.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// An array of text without elements.
pub fn empty_text_array() -> Expr {
    call("array_remove", vec![call("make_array", vec![text("")]), text("")])
}

/// `NOT expr`.
pub fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: datafusion::sql::sqlparser::ast::UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(expr))) }
}

/// `left AND right`, each in parentheses.
pub fn and(left: Expr, right: Expr) -> Expr {
    let nested = |expr: Expr| Box::new(Expr::Nested(Box::new(expr)));
    Expr::BinaryOp { left: nested(left), op: BinaryOperator::And, right: nested(right) }
}

/// `CAST(expr AS data_type)`.
pub fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: datafusion::sql::sqlparser::ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

/// The plain arguments of a call, if all of them are plain.
pub fn arguments(function: &Function) -> Option<Vec<Expr>> {
    match &function.args {
        FunctionArguments::List(list) => list
            .args
            .iter()
            .map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            })
            .collect(),
        FunctionArguments::None => Some(vec![]),
        FunctionArguments::Subquery(_) => None,
    }
}

/// The text of a literal.
pub fn literal_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        Expr::Nested(inner) => literal_text(inner),
        _ => None,
    }
}

/// `SELECT 1`, to be filled with something else.
///
/// # Panics
/// Never: the text is a query.
pub fn select_nothing() -> Query {
    let statement = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT 1").ok().and_then(|mut parsed| parsed.pop());
    match statement {
        Some(Statement::Query(query)) => *query,
        _ => unreachable!("SELECT 1 is a query"),
    }
}
