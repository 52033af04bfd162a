//! `TUMBLE` and `HOP` in `FROM`, as subqueries over deterministic functions.
//!
//! `TUMBLE(t, ts, size)` becomes `(SELECT *, tumble_start(ts, size) AS window_start, tumble_end(ts, size) AS window_end FROM t
//! WHERE ts IS NOT NULL)`, and `HOP(t, ts, slide, size)` the same with a row for each start that `hop_starts` lists. Sizes are
//! passed in microseconds. Flink's `TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), size))` is taken too.

use super::{call, ident, number, query, select, table_factor, wildcard};
use crate::errors::span_position;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Interval, ObjectName, ObjectNamePart,
    SelectItem, Spanned, TableAlias, TableFactor, UnaryOperator, Value,
};
use thalweg_catalog::{SqlError, SqlResult};

/// The most windows that one row may fall into.
const WINDOWS_PER_ROW_MAX: i64 = 10_000;

/// The kinds of windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowKind {
    /// Every row falls into one window.
    Tumble,
    /// Every row falls into `size / slide` windows.
    Hop,
}

impl WindowKind {
    fn of(name: &ObjectName) -> Option<WindowKind> {
        match name.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] if ident.value.eq_ignore_ascii_case("tumble") => Some(WindowKind::Tumble),
            [ObjectNamePart::Identifier(ident)] if ident.value.eq_ignore_ascii_case("hop") => Some(WindowKind::Hop),
            _ => None,
        }
    }

    fn usage(self) -> &'static str {
        match self {
            WindowKind::Tumble => "Write TUMBLE(relation, time column, INTERVAL 'size' [, INTERVAL 'offset']).",
            WindowKind::Hop => "Write HOP(relation, time column, INTERVAL 'slide', INTERVAL 'size' [, INTERVAL 'offset']).",
        }
    }

    fn name(self) -> &'static str {
        match self {
            WindowKind::Tumble => "TUMBLE",
            WindowKind::Hop => "HOP",
        }
    }
}

/// Replaces a window function in `FROM` by its subquery.
pub(super) fn rewrite(factor: &mut TableFactor) -> SqlResult<()> {
    let span = factor.span();
    let (kind, args, alias) = match factor {
        TableFactor::Table { name, args: Some(args), alias, .. } => match WindowKind::of(name) {
            Some(kind) => (kind, args.args.clone(), alias.clone()),
            None => return Ok(()),
        },
        TableFactor::TableFunction { expr: Expr::Function(function), alias } => match WindowKind::of(&function.name) {
            Some(kind) => (kind, function_args(function), alias.clone()),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    let position = span_position(span).unwrap_or(1);
    let call = WindowCall::read(kind, args, position)?;
    *factor = call.subquery(alias);
    Ok(())
}

fn function_args(function: &Function) -> Vec<FunctionArg> {
    match &function.args {
        FunctionArguments::List(list) => list.args.clone(),
        FunctionArguments::None | FunctionArguments::Subquery(_) => vec![],
    }
}

struct WindowCall {
    kind: WindowKind,
    relation: TableFactor,
    /// The relation's own last name, if it has one: what the result is called without an alias.
    relation_name: Option<Ident>,
    time: Expr,
    slide_us: i64,
    size_us: i64,
    offset_us: i64,
}

impl WindowCall {
    fn read(kind: WindowKind, args: Vec<FunctionArg>, position: usize) -> SqlResult<WindowCall> {
        let usage = |error: SqlError| error.with_hint(kind.usage()).at(position);
        let mut exprs = vec![];
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => exprs.push(expr),
                _ => return Err(usage(SqlError::syntax(format!("{} takes no such argument", kind.name())))),
            }
        }
        let intervals = if kind == WindowKind::Hop { 2 } else { 1 };
        if exprs.len() < 2 + intervals || exprs.len() > 3 + intervals {
            return Err(usage(SqlError::syntax(format!("{} with {} arguments", kind.name(), exprs.len()))));
        }
        let mut micros = vec![];
        for expr in exprs.drain(2..) {
            let at = span_position(expr.span()).unwrap_or(position);
            micros.push(interval_micros(&expr).map_err(|e| e.at(at))?);
        }
        let (slide_us, size_us) = if kind == WindowKind::Hop { (micros[0], micros[1]) } else { (micros[0], micros[0]) };
        let offset_us = micros.get(intervals).copied().unwrap_or(0);
        check(kind, slide_us, size_us).map_err(usage)?;
        let time = time_column(exprs.pop(), kind).map_err(usage)?;
        let (relation, relation_name) = relation(exprs.pop()).map_err(usage)?;
        // DataFusion's time zone of windows is UTC, so an offset is all that moves them.
        Ok(WindowCall { kind, relation, relation_name, time, slide_us, size_us, offset_us: offset_us.rem_euclid(slide_us) })
    }

    fn subquery(self, alias: Option<TableAlias>) -> TableFactor {
        let alias = alias.or(self.relation_name.clone().map(plain_alias));
        let present = Expr::IsNotNull(Box::new(self.time.clone()));
        let numbers = [number(self.size_us), number(self.offset_us)];
        let select = match self.kind {
            WindowKind::Tumble => {
                let function = |name| call(name, [vec![self.time.clone()], numbers.to_vec()].concat());
                let columns = vec![
                    wildcard(),
                    named(function("tumble_start"), "window_start"),
                    named(function("tumble_end"), "window_end"),
                ];
                select(columns, self.relation, Some(present))
            }
            WindowKind::Hop => {
                let starts = call("hop_starts", [vec![self.time, number(self.slide_us)], numbers.to_vec()].concat());
                let inner = vec![wildcard(), named(call("unnest", vec![starts]), "window_start")];
                let inner = select(inner, self.relation, Some(present));
                let end = Expr::BinaryOp {
                    left: Box::new(Expr::Identifier(ident("window_start"))),
                    op: BinaryOperator::Plus,
                    right: Box::new(interval(self.size_us)),
                };
                let name = self.relation_name.unwrap_or_else(|| ident("window"));
                select(vec![wildcard(), named(end, "window_end")], derived(inner, Some(plain_alias(name))), None)
            }
        };
        derived(select, alias)
    }
}

fn check(kind: WindowKind, slide_us: i64, size_us: i64) -> SqlResult<()> {
    if size_us <= 0 {
        return Err(SqlError::invalid_parameter(format!("the size of a {} window must be positive", kind.name())));
    }
    if slide_us <= 0 {
        return Err(SqlError::invalid_parameter("the slide of a HOP window must be positive"));
    }
    if slide_us > size_us {
        return Err(SqlError::invalid_parameter("the slide of a HOP window must not be greater than its size"));
    }
    if size_us / slide_us > WINDOWS_PER_ROW_MAX {
        return Err(SqlError::invalid_parameter("too many HOP windows overlap")
            .with_detail(format!("A row would fall into {} windows; the most is {WINDOWS_PER_ROW_MAX}.", size_us / slide_us)));
    }
    Ok(())
}

/// The column's name, bare or as Flink's `DESCRIPTOR(column)`.
fn time_column(expr: Option<Expr>, kind: WindowKind) -> SqlResult<Expr> {
    match expr {
        Some(Expr::Function(function)) if function.name.to_string().eq_ignore_ascii_case("descriptor") => {
            match function_args(&function).pop() {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => time_column(Some(expr), kind),
                _ => Err(SqlError::syntax("DESCRIPTOR takes one column")),
            }
        }
        Some(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => Ok(expr),
        _ => Err(SqlError::syntax(format!("the second argument of {} must be a column", kind.name()))),
    }
}

fn relation(expr: Option<Expr>) -> SqlResult<(TableFactor, Option<Ident>)> {
    let parts = match expr {
        Some(Expr::Identifier(ident)) => vec![ident],
        Some(Expr::CompoundIdentifier(parts)) => parts,
        Some(Expr::Subquery(subquery)) => {
            let alias = Some(plain_alias(ident("window")));
            return Ok((TableFactor::Derived { lateral: false, subquery, alias, sample: None }, None));
        }
        _ => return Err(SqlError::syntax("the first argument of a window function must be a relation")),
    };
    let last = parts.last().cloned();
    let name = ObjectName(parts.into_iter().map(ObjectNamePart::Identifier).collect());
    Ok((table_factor(name), last))
}

fn plain_alias(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: vec![] }
}

fn named(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: ident(name) }
}

fn derived(select: datafusion::sql::sqlparser::ast::Select, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery: Box::new(query(select)), alias, sample: None }
}

fn interval(micros: i64) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(Expr::Value(Value::SingleQuotedString(format!("{micros} microseconds")).into())),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

/// The length of an interval that is written out, in microseconds; a day has 24 hours.
///
/// # Errors
/// `22023` for anything but a literal interval, or one with months in it.
pub fn interval_micros(expr: &Expr) -> SqlResult<i64> {
    let text = match expr {
        Expr::Nested(inner) => return interval_micros(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => return interval_micros(expr).map(|micros| -micros),
        Expr::Interval(interval) => {
            let value = literal_text(&interval.value)?;
            match &interval.leading_field {
                Some(field) if value.trim().parse::<f64>().is_ok() => format!("{value} {field}"),
                _ => value,
            }
        }
        Expr::Cast { expr, data_type: datafusion::sql::sqlparser::ast::DataType::Interval { .. }, .. } => literal_text(expr)?,
        Expr::Value(value) if matches!(value.value, Value::Number(..)) => {
            return Err(SqlError::invalid_parameter("expected an interval, not a number")
                .with_hint("Write it like INTERVAL '10 seconds'."));
        }
        other => literal_text(other)?,
    };
    let parsed = arrow::compute::kernels::cast_utils::parse_interval_month_day_nano(&text).map_err(|_| {
        SqlError::invalid_parameter(format!("\"{text}\" is no interval")).with_hint("Write it like INTERVAL '10 seconds'.")
    })?;
    if parsed.months != 0 {
        return Err(SqlError::invalid_parameter("an interval with months or years has no fixed length")
            .with_hint("Use days, hours, minutes or seconds."));
    }
    if parsed.nanoseconds % 1_000 != 0 {
        return Err(SqlError::invalid_parameter("an interval must be a whole number of microseconds"));
    }
    i64::from(parsed.days)
        .checked_mul(86_400_000_000)
        .and_then(|days| days.checked_add(parsed.nanoseconds / 1_000))
        .ok_or_else(|| SqlError::invalid_parameter("the interval is too long"))
}

fn literal_text(expr: &Expr) -> SqlResult<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Ok(text.clone()),
            Value::Number(text, _) => Ok(text.clone()),
            _ => Err(SqlError::invalid_parameter("expected an interval that is written out")),
        },
        _ => Err(SqlError::invalid_parameter("expected an interval that is written out")
            .with_hint("Write it like INTERVAL '10 seconds'.")),
    }
}
