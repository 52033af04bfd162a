//! Changes to a query's syntax tree before its names are looked up: what Postgres means where DataFusion would do otherwise.
//!
//! Types of users come first, by `user_types`. `empty` reads select lists without columns, `names` gives every output column the name that Postgres gives it, `windows` turns `TUMBLE` and `HOP` into subqueries,
//! `precedence` regroups what the parser grouped wrongly, `refused` stops on clauses that would be read and then ignored, and the visitor here does small replacements.

mod empty;
mod literals;
mod modifiers;
mod names;
mod parameters;
mod precedence;
mod refused;
mod series;
mod user_types;
mod windows;

use crate::errors::span_position;
use crate::functions::{carried, extract, system_type};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, Spanned, TableFactor, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;
use thalweg_catalog::{CarriedType, SqlError, SqlResult, SqlType};

pub(crate) use empty::with_marks;
pub(crate) use literals::{cast, text_of};
pub use modifiers::written_modifiers;
pub use names::{HIDDEN_SUFFIX, visible_name};
pub(crate) use parameters::written_parameter_types;
pub use parameters::{parameter_places, written_parameter_oids};
pub use user_types::{resolve_type, resolve_types};
pub use windows::interval_micros;

/// Digits behind the seconds' point that times have: microseconds.
const FRACTION_DIGITS_MAX: u64 = 6;

/// The query as DataFusion is to see it.
///
/// # Errors
/// `0A000` for clauses that are not there, `22023` for window arguments that make no windows.
pub fn rewrite_query(query: &mut Query) -> SqlResult<()> {
    match query.visit(&mut Rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// An expression that stands alone, such as a default, as DataFusion is to see it.
///
/// # Errors
/// As [`rewrite_query`].
pub fn rewrite_expr(expr: &mut Expr) -> SqlResult<()> {
    match expr.visit(&mut Rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        empty::take_marks(&mut query.body);
        if let ast::SetExpr::Values(values) = query.body.as_mut() {
            literals::narrow_values(values);
            literals::type_values(values);
        }
        refused::check_query(query)
            .and_then(|()| names::name_outputs(query))
            .map_or_else(|e| ControlFlow::Break(Box::new(e)), ControlFlow::Continue)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        series::name_column(factor);
        series::spread_parameters(factor);
        series::call_in_query(factor);
        refused::check_table_factor(factor)
            .and_then(|()| windows::rewrite(factor))
            .map_or_else(|e| ControlFlow::Break(Box::new(e)), ControlFlow::Continue)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        rewrite_one(expr).map_or_else(|e| ControlFlow::Break(Box::new(e)), ControlFlow::Continue)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        precedence::regroup(expr);
        ControlFlow::Continue(())
    }
}

/// The replacements that need no context.
fn rewrite_one(expr: &mut Expr) -> SqlResult<()> {
    match expr {
        Expr::Function(function) => {
            strip_pg_catalog(&mut function.name);
            if let Some(replacement) = replaced_call(function) {
                *expr = replacement;
            }
            Ok(())
        }
        Expr::Identifier(name) if names::is_called_bare(name) => {
            *expr = call(&name.value.to_lowercase(), vec![]);
            Ok(())
        }
        Expr::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, .. } => rewrite_cast(expr),
        Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _), .. }) => {
            if let Some(written_out) = literals::number(text)? {
                *expr = written_out;
            }
            Ok(())
        }
        Expr::TypedString(_) => rewrite_typed_string(expr),
        Expr::Value(ast::ValueWithSpan { value, .. }) => {
            if let Some(bits) = literals::bits(value) {
                *expr = as_type(literals::string(&bits), &SqlType::Carried(CarriedType::Bit(None)));
            }
            Ok(())
        }
        Expr::Interval(interval) => {
            if let Some(cast) = literals::clock_interval(interval) {
                *expr = cast;
            }
            Ok(())
        }
        Expr::AnyOp { compare_op: BinaryOperator::Eq, .. } | Expr::AllOp { compare_op: BinaryOperator::NotEq, .. } => {
            literals::rewrite_search(expr)
        }
        Expr::InSubquery { expr: row, .. } if matches!(row.as_ref(), Expr::Tuple(_)) => Err(refuse_row(row)),
        Expr::BinaryOp { left, op, right } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                && let Some(plain) = parts.last().and_then(|symbol| named_operator(symbol))
            {
                *op = plain;
            }
            if *op == BinaryOperator::PGExp {
                let args = [left, right].map(|side| std::mem::replace(&mut **side, null()));
                *expr = call("power", args.to_vec());
            }
            Ok(())
        }
        Expr::Collate { expr: inner, collation } => {
            check_collation(inner, collation)?;
            *expr = std::mem::replace(&mut **inner, null());
            rewrite_one(expr)
        }
        Expr::Extract { field, expr: time, .. } => {
            let field = literals::string(&field.to_string().to_lowercase());
            *expr = call(extract::NAME, vec![field, std::mem::replace(&mut **time, null())]);
            Ok(())
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            let timestamp = std::mem::replace(&mut **timestamp, null());
            let zone = std::mem::replace(&mut **time_zone, null());
            *expr = call("timezone", vec![zone, timestamp]);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Refuses other collations than that by bytes, which is how text compares here.
fn check_collation(inner: &Expr, collation: &ObjectName) -> SqlResult<()> {
    let name = collation.0.last().map(ToString::to_string).unwrap_or_default();
    if ["default", "\"default\"", "\"C\"", "\"POSIX\"", "\"ucs_basic\"", "ucs_basic"].contains(&name.as_str()) {
        return Ok(());
    }
    Err(SqlError::unsupported(format!("collation {name} is not supported"))
        .with_hint("Text is compared byte by byte, as with COLLATE \"C\".")
        .at(span_position(inner.span()).unwrap_or(1)))
}

/// A literal with its type in front, where DataFusion would read it otherwise than as a cast.
fn rewrite_typed_string(expr: &mut Expr) -> SqlResult<()> {
    let Expr::TypedString(ast::TypedString { data_type, value, .. }) = expr else { return Ok(()) };
    if let Some(digits) = fraction_digits(data_type) {
        *expr = rounded_text(value.clone(), data_type.clone(), digits);
    } else if matches!(data_type, ast::DataType::Bit(None)) {
        // Unlike in a cast it has as many bits as are written.
        *expr = as_type(Expr::Value(value.clone()), &SqlType::Carried(CarriedType::Bit(None)));
    } else if crate::types::is_carried_by_text(data_type) {
        *expr = literals::cast(Expr::Value(value.clone()), data_type.clone());
        return rewrite_cast(expr);
    }
    Ok(())
}

/// A cast to a type that DataFusion does not know, or reads otherwise.
fn rewrite_cast(expr: &mut Expr) -> SqlResult<()> {
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return Ok(()) };
    if let ast::DataType::Custom(name, _) = data_type {
        strip_pg_catalog(name);
    }
    let position = span_position(inner.span());
    if let Some(plain) = crate::types::unquoted(data_type) {
        *data_type = plain;
    }
    if matches!(data_type, ast::DataType::Interval { fields: Some(_), .. }) {
        crate::types::sql_type(data_type).map_err(|e| with_position(e, position))?;
    }
    if let Some((name, carried)) = system_type::carried(data_type) {
        if let Some(array) = literals::text_of(inner).and_then(|text| system_type::vector_text(text, data_type)) {
            **inner = literals::string(&array);
        }
        *data_type = carried;
        let cast = std::mem::replace(expr, null());
        let name = Expr::Value(ast::Value::SingleQuotedString(name).into());
        *expr = call(system_type::NAME, vec![cast, name]);
        return Ok(());
    }
    if let Some(digits) = fraction_digits(data_type) {
        let cast = std::mem::replace(expr, null());
        *expr = call("rounded_time", vec![cast, number(digits)]);
        return Ok(());
    }
    if let Some(sized) = literals::sized(inner, data_type) {
        *data_type = sized;
        return Ok(());
    }
    if let Some(array) = literals::array(inner, data_type).map_err(|e| with_position(e, position))? {
        *expr = array;
        return Ok(());
    }
    if let Some(replacement) = cast_to_carried_type(inner, data_type).map_err(|e| with_position(e, position))? {
        *expr = replacement;
    }
    Ok(())
}

fn with_position(error: SqlError, position: Option<usize>) -> SqlError {
    match position {
        Some(position) if error.position.is_none() => error.at(position),
        _ => error,
    }
}

/// Functions of Postgres that DataFusion has under another name or as an operator.
fn replaced_call(function: &ast::Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let name = crate::parse_fold(name).value;
    match name.as_str() {
        "transaction_timestamp" | "statement_timestamp" | "clock_timestamp" => Some(call("now", vec![])),
        "localtimestamp" => Some(Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(call("now", vec![])),
            data_type: ast::DataType::Timestamp(None, ast::TimezoneInfo::None),
            array: false,
            format: None,
        }),
        "generate_series" => series::spread(function),
        "unnest" => series::spread_within(function),
        "mod" => {
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            let [left, right] = list.args.as_slice() else { return None };
            let side = |arg: &ast::FunctionArg| match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                    Some(Box::new(Expr::Nested(Box::new(expr.clone()))))
                }
                _ => None,
            };
            Some(Expr::BinaryOp { left: side(left)?, op: BinaryOperator::Modulo, right: side(right)? })
        }
        _ => None,
    }
}

/// `TIMESTAMP(2) '…'` and its like.
fn rounded_text(text: ast::ValueWithSpan, data_type: ast::DataType, digits: i64) -> Expr {
    let text = Box::new(Expr::Value(text));
    let cast = Expr::Cast { kind: ast::CastKind::Cast, expr: text, data_type, array: false, format: None };
    call("rounded_time", vec![cast, number(digits)])
}

fn refuse_row(row: &Expr) -> SqlError {
    SqlError::unsupported("IN of a row and a subquery is not supported")
        .with_hint("Use EXISTS with a condition for each column.")
        .at(span_position(row.span()).unwrap_or(1))
}

/// The digits behind the seconds' point that a type of times keeps, if they are fewer than all. The type keeps all then.
fn fraction_digits(data_type: &mut ast::DataType) -> Option<i64> {
    use ast::DataType as T;
    let digits = match data_type {
        T::Time(_, zone) if crate::types::is_zoned(zone) => return None,
        T::Timestamp(digits, _) | T::Time(digits, _) | T::Interval { precision: digits, .. } => digits,
        _ => return None,
    };
    digits.take().filter(|digits| *digits < FRACTION_DIGITS_MAX).and_then(|digits| i64::try_from(digits).ok())
}

/// A cast to a type that is carried by text: to text, then checked and marked as the type. An explicit cast to
/// a type of a length cuts what is too long, and fills up bits that are too few.
fn cast_to_carried_type(inner: &mut Expr, data_type: &ast::DataType) -> SqlResult<Option<Expr>> {
    if !crate::types::is_carried_by_text(data_type) {
        return Ok(None);
    }
    let sql_type = crate::types::sql_type(data_type)?;
    let text = literals::cast(std::mem::replace(inner, null()), ast::DataType::Text);
    let bits = |of: CarriedType, text: Expr| {
        let name = literals::string(&of.to_string());
        call(carried::AS_TEXT, vec![as_type(text, &SqlType::Carried(of)), name])
    };
    let text = match sql_type {
        SqlType::Varchar(Some(limit)) | SqlType::Char(limit) => call("left", vec![text, number(i64::from(limit))]),
        SqlType::Carried(CarriedType::Bit(Some(length))) => {
            call("rpad", vec![bits(CarriedType::Bit(None), text), number(i64::from(length)), literals::string("0")])
        }
        SqlType::Carried(CarriedType::VarBit(Some(limit))) => {
            call("left", vec![bits(CarriedType::VarBit(None), text), number(i64::from(limit))])
        }
        _ => text,
    };
    Ok(Some(as_type(text, &sql_type)))
}

/// `as_type(value, 'type')`.
fn as_type(value: Expr, sql_type: &SqlType) -> Expr {
    call("as_type", vec![value, literals::string(&sql_type.spelled())])
}

fn strip_pg_catalog(name: &mut ObjectName) {
    let is_prefixed = name.0.len() == 2
        && matches!(&name.0[0], ObjectNamePart::Identifier(ident) if ident.value.eq_ignore_ascii_case("pg_catalog"));
    if is_prefixed {
        name.0.remove(0);
    }
}

fn named_operator(symbol: &str) -> Option<BinaryOperator> {
    Some(match symbol {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "||" => BinaryOperator::StringConcat,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

/// `NULL`.
pub(crate) fn null() -> Expr {
    Expr::Value(ast::Value::Null.into())
}

/// A whole number.
pub(crate) fn number(value: i64) -> Expr {
    Expr::Value(ast::Value::Number(value.to_string(), false).into())
}

/// A quoted name.
pub(crate) fn ident(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// `name(args)`.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|a| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(a))).collect();
    Expr::Function(ast::Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// A table by its name.
pub(crate) fn table_factor(name: ObjectName) -> TableFactor {
    TableFactor::Table {
        name,
        alias: None,
        args: None,
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    }
}

/// `*`.
pub(crate) fn wildcard() -> SelectItem {
    SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())
}

/// `SELECT projection FROM from WHERE selection`.
pub(crate) fn select(projection: Vec<SelectItem>, from: TableFactor, selection: Option<Expr>) -> ast::Select {
    ast::Select { from: vec![ast::TableWithJoins { relation: from, joins: vec![] }], selection, ..select_values(projection) }
}

/// `SELECT projection`.
pub(crate) fn select_values(projection: Vec<SelectItem>) -> ast::Select {
    ast::Select {
        select_token: AttachedToken::empty(),
        optimizer_hint: None,
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from: vec![],
        lateral_views: vec![],
        prewhere: None,
        selection: None,
        connect_by: vec![],
        group_by: ast::GroupByExpr::Expressions(vec![], vec![]),
        cluster_by: vec![],
        distribute_by: vec![],
        sort_by: vec![],
        having: None,
        named_window: vec![],
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: ast::SelectFlavor::Standard,
    }
}

/// A query that is one `SELECT`.
pub(crate) fn query(select: ast::Select) -> Query {
    Query {
        with: None,
        body: Box::new(ast::SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}

#[cfg(test)]
mod tests;
