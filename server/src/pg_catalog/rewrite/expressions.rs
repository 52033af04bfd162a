//! Rewrites of single expressions, innermost first.

use super::build::{arguments, call, cast, empty_text_array, literal_text, not, null, number, text, value};
use super::{folded, parts, strip_schema};
use crate::pg_catalog::relation::Kind;
use crate::pg_catalog::relations::RELATIONS;
use crate::wire::value::parse::boolean;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, ArrayElemTypeDef, BinaryOperator, DataType, Expr, Function, Subscript, Value, ValueWithSpan,
};

use std::collections::HashSet;
use std::sync::LazyLock;
use thalweg_catalog::{CarriedType, array_text};

/// Columns of the types int2vector and oidvector, whose subscripts begin at 0.
const VECTORS: [&str; 9] =
    ["indkey", "indclass", "indcollation", "indoption", "i_indoption", "stxkeys", "tgattr", "prattrs", "proargtypes"];

/// Rewrites an expression whose parts are rewritten already.
pub fn rewrite(expr: &mut Expr) {
    let taken = std::mem::replace(expr, null());
    *expr = rewritten(taken);
}

fn rewritten(expr: Expr) -> Expr {
    match expr {
        Expr::Collate { expr, .. } => *expr,
        Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("current_schema") => {
            call("current_schema", vec![])
        }
        // A relation's alias is its name, without the schema.
        Expr::CompoundIdentifier(mut idents) => {
            while idents.len() > 2 && super::SCHEMAS.contains(&folded(&idents[idents.len() - 3]).as_str()) {
                idents.remove(idents.len() - 3);
            }
            Expr::CompoundIdentifier(idents)
        }
        Expr::BinaryOp { left, op, right } => {
            let right = if is_truth(&left) { truth_literal(*right) } else { *right };
            let (left, right) = comparable(*left, right);
            Expr::BinaryOp { left: Box::new(left), op: operator(op), right: Box::new(right) }
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } if !is_subquery(&right) => any(*left, *right),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } if !is_subquery(&right) => not(any(*left, *right)),
        Expr::Cast { expr, data_type, .. } => cast_to(*expr, data_type),
        Expr::Function(function) => rewritten_call(function),
        Expr::CompoundFieldAccess { root, access_chain } => field_access(*root, access_chain),
        Expr::Like { negated, any, expr, pattern, escape_char: Some(escape) } => {
            Expr::Like { negated, any, expr, pattern: with_escape(pattern, &escape), escape_char: None }
        }
        Expr::ILike { negated, any, expr, pattern, escape_char: Some(escape) } => {
            Expr::ILike { negated, any, expr, pattern: with_escape(pattern, &escape), escape_char: None }
        }
        other => other,
    }
}

/// Both sides of an operator as values of one type: names that were looked up are OIDs, and columns that show functions by name
/// are compared with 0 by what 0 is shown as.
fn comparable(left: Expr, right: Expr) -> (Expr, Expr) {
    let (left_call, right_call) = (reg_call(&left), reg_call(&right));
    match (left_call.as_deref(), right_call.as_deref()) {
        (None, Some("_regtype_in")) if is_type_name(&left) => (left, call("_regtype_out", vec![right])),
        (Some("_regtype_in"), None) if is_type_name(&right) => (call("_regtype_out", vec![left]), right),
        (Some(name), Some(other)) if name.ends_with("_out") && other.ends_with("_in") => (argument_of(left), right),
        (Some(name), Some(other)) if name.ends_with("_in") && other.ends_with("_out") => (left, argument_of(right)),
        _ if shows_function(&left) && is_zero(&right) => (left, text("-")),
        _ => (left, right),
    }
}

/// Whether an expression tells the type of another.
pub(super) fn is_type_name(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if parts(&function.name).pop().is_some_and(|name| name == "pg_typeof"))
}

/// The name of a look-up that a cast became.
fn reg_call(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    parts(&function.name).pop().filter(|name| name.starts_with("_reg"))
}

fn argument_of(expr: Expr) -> Expr {
    match &expr {
        Expr::Function(function) => arguments(function).and_then(|mut args| args.pop()).unwrap_or(expr),
        _ => expr,
    }
}

/// Whether an expression is a column of `pg_type` that shows a function by its name.
fn shows_function(expr: &Expr) -> bool {
    const COLUMNS: [&str; 7] = ["typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze"];
    match expr {
        Expr::Identifier(ident) => COLUMNS.contains(&folded(ident).as_str()),
        Expr::CompoundIdentifier(idents) => idents.last().is_some_and(|ident| COLUMNS.contains(&folded(ident).as_str())),
        _ => false,
    }
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) if digits == "0")
}

/// Whether an expression is a column of truth values.
fn is_truth(expr: &Expr) -> bool {
    static COLUMNS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let columns = RELATIONS.iter().copied().flatten().flat_map(|relation| relation.columns());
        columns.filter(|column| column.kind == Kind::Bool).map(|column| column.name).collect()
    });
    match expr {
        Expr::Identifier(ident) => COLUMNS.contains(folded(ident).as_str()),
        Expr::CompoundIdentifier(idents) => idents.last().is_some_and(|ident| COLUMNS.contains(folded(ident).as_str())),
        _ => false,
    }
}

/// `'t'` and its like as the truth value that they stand for.
fn truth_literal(expr: Expr) -> Expr {
    match literal_text(&expr).map(boolean) {
        Some(Ok(truth)) => value(Value::Boolean(truth)),
        _ => expr,
    }
}

fn is_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) => true,
        Expr::Nested(inner) => is_subquery(inner),
        _ => false,
    }
}

fn with_escape(pattern: Box<Expr>, escape: &Value) -> Box<Expr> {
    match escape {
        Value::SingleQuotedString(escape) if escape == "\\" => pattern,
        Value::SingleQuotedString(escape) => Box::new(call("_like_pattern", vec![*pattern, text(escape.as_str())])),
        _ => pattern,
    }
}

/// `OPERATOR(pg_catalog.~)` as the operator itself.
fn operator(op: BinaryOperator) -> BinaryOperator {
    let BinaryOperator::PGCustomBinaryOperator(names) = &op else { return op };
    match names.last().map(String::as_str) {
        Some("~") => BinaryOperator::PGRegexMatch,
        Some("~*") => BinaryOperator::PGRegexIMatch,
        Some("!~") => BinaryOperator::PGRegexNotMatch,
        Some("!~*") => BinaryOperator::PGRegexNotIMatch,
        Some("~~") => BinaryOperator::PGLikeMatch,
        Some("!~~") => BinaryOperator::PGNotLikeMatch,
        Some("=") => BinaryOperator::Eq,
        Some("<>") => BinaryOperator::NotEq,
        Some("||") => BinaryOperator::StringConcat,
        _ => op,
    }
}

/// `left = ANY (right)` for an array.
fn any(left: Expr, right: Expr) -> Expr {
    match right {
        Expr::Nested(inner) => any(left, *inner),
        Expr::Array(Array { elem, .. }) if !elem.is_empty() => Expr::InList { expr: Box::new(left), list: elem, negated: false },
        right => {
            // A literal without a type is an array's text.
            let array = match literal_text(&right).map(array_text::elements) {
                Some(Ok(elements)) => array_of(elements),
                _ => right,
            };
            call("array_has", vec![array, left])
        }
    }
}

fn array_of(elements: Vec<Option<String>>) -> Expr {
    if elements.is_empty() {
        return empty_text_array();
    }
    Expr::Array(Array { elem: elements.into_iter().map(|element| element.map_or_else(null, text)).collect(), named: true })
}

/// What a cast leads to.
enum Target {
    /// A type that DataFusion knows.
    Plain(DataType),
    /// One of the `reg…` types, by the name that its functions carry.
    Reg(&'static str),
}

fn target(data_type: &DataType) -> Target {
    let array = |item: DataType| DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(item), None));
    let name = match data_type {
        DataType::Regclass => return Target::Reg("regclass"),
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => {
            return match target(item) {
                Target::Plain(item) => Target::Plain(array(item)),
                Target::Reg(_) => Target::Plain(array(DataType::Int(None))),
            };
        }
        DataType::Custom(name, _) if thalweg_planner::types::spelled(name).is_some() => return Target::Plain(data_type.clone()),
        DataType::Custom(name, _) => parts(name).pop().unwrap_or_default(),
        // As wide as the text is: a length that was meant to be cut to plays no part here.
        DataType::JSON | DataType::JSONB | DataType::Char(None) | DataType::Character(None) => "text".to_string(),
        other => return Target::Plain(other.clone()),
    };
    Target::Plain(match name.as_str() {
        "regclass" => return Target::Reg("regclass"),
        "regtype" => return Target::Reg("regtype"),
        "regproc" | "regprocedure" => return Target::Reg("regproc"),
        "regnamespace" => return Target::Reg("regnamespace"),
        "regrole" => return Target::Reg("regrole"),
        "oid" | "xid" | "cid" | "int4" | "cardinal_number" | "integer" => DataType::Int(None),
        "int2" | "smallint" => DataType::SmallInt(None),
        "int8" | "bigint" => DataType::BigInt(None),
        "bool" | "boolean" => DataType::Boolean,
        "float4" => DataType::Real,
        "float8" => DataType::DoublePrecision,
        "int2vector" => array(DataType::SmallInt(None)),
        "oidvector" => array(DataType::Int(None)),
        "anyarray" => array(DataType::Text),
        "timestamptz" => DataType::Timestamp(None, datafusion::sql::sqlparser::ast::TimezoneInfo::WithTimeZone),
        "timestamp" => DataType::Timestamp(None, datafusion::sql::sqlparser::ast::TimezoneInfo::None),
        "date" => DataType::Date,
        "numeric" => DataType::Numeric(datafusion::sql::sqlparser::ast::ExactNumberInfo::None),
        name if CarriedType::parse(name, &[]).is_some() => data_type.clone(),
        // name, "char", cstring, sql_identifier, character_data, yes_or_no, …: all carried as text.
        _ => DataType::Text,
    })
}

fn cast_to(expr: Expr, data_type: DataType) -> Expr {
    match target(&data_type) {
        // It gives a name already, as text.
        Target::Reg("regtype") if is_type_name(&expr) => expr,
        Target::Plain(DataType::Int(_) | DataType::BigInt(_)) if is_type_name(&expr) => call("_regtype_in", vec![expr]),
        Target::Reg("regproc") => match literal_text(&expr) {
            // Columns that hold functions show them by name.
            Some(name) => call("_regproc_name", vec![text(name)]),
            None if is_text(&expr) => expr,
            None => call("_regproc_out", vec![expr]),
        },
        Target::Reg(name) if is_text(&expr) => call(&format!("_{name}_in"), vec![expr]),
        Target::Reg(name) => call(&format!("_{name}_out"), vec![expr]),
        Target::Plain(data_type) => cast_to_plain(expr, data_type),
    }
}

fn cast_to_plain(expr: Expr, data_type: DataType) -> Expr {
    let reg = match &expr {
        Expr::Function(function) => {
            let name = parts(&function.name).pop().unwrap_or_default();
            name.strip_prefix("_reg").map(|rest| format!("_reg{rest}"))
        }
        _ => None,
    };
    match (&data_type, reg) {
        // A name that was looked up is shown as a name again.
        (DataType::Text | DataType::Varchar(_), Some(name)) if name.ends_with("_in") => {
            call(&name.replace("_in", "_out"), vec![expr])
        }
        // An OID that was to be shown as a name stays an OID.
        (DataType::Int(_) | DataType::BigInt(_), Some(name)) if name.ends_with("_out") => match expr {
            Expr::Function(function) => arguments(&function).and_then(|mut args| args.pop()).unwrap_or_else(null),
            other => other,
        },
        (DataType::Int(_) | DataType::BigInt(_), Some(name)) if name == "_regproc_name" => match expr {
            Expr::Function(function) => call("_regproc_in", arguments(&function).unwrap_or_default()),
            other => other,
        },
        (DataType::Int(_), Some(_)) => expr,
        (DataType::Array(_), _) => match literal_text(&expr).map(array_text::elements) {
            Some(Ok(elements)) => array_of(elements),
            _ => cast(expr, data_type),
        },
        _ => cast(expr, data_type),
    }
}

/// Whether an expression is text for sure: then a `reg…` type reads it as a name.
fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_text(inner),
        Expr::Value(ValueWithSpan { value, .. }) => matches!(value, Value::SingleQuotedString(_) | Value::Placeholder(_)),
        Expr::Cast { data_type, .. } => {
            matches!(data_type, DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_))
        }
        Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => true,
        Expr::Function(function) => {
            let name = parts(&function.name).pop().unwrap_or_default();
            matches!(name.as_str(), "pg_get_serial_sequence" | "format" | "quote_ident" | "concat" | "coalesce")
        }
        _ => false,
    }
}

fn rewritten_call(mut function: Function) -> Expr {
    let names = parts(&function.name);
    if names.len() > 1 && super::SCHEMAS.contains(&names[0].as_str()) {
        strip_schema(&mut function.name);
    }
    let name = names.last().map(String::as_str).unwrap_or_default();
    let Some(args) = arguments(&function).filter(|_| function.over.is_none()) else { return Expr::Function(function) };
    match (name, args.len()) {
        ("_pg_expandarray", 1) => call("unnest", vec![call("_expandarray", args)]),
        ("generate_subscripts", 2..) => {
            let first = if is_vector(&args[0]) { 0 } else { 1 };
            let mut args = args;
            args.truncate(2);
            args.push(number(first));
            call("unnest", vec![call("_subscripts", args)])
        }
        ("generate_series", 2..) => call("unnest", vec![call("generate_series", args)]),
        // The other argument tells that it is an array; a NULL one has no elements either.
        ("coalesce", 2) if literal_text(&args[1]) == Some("{}") => args.into_iter().next().unwrap_or_else(null),
        ("current_user" | "session_user" | "current_role" | "user" | "current_catalog", 0) => call(name, vec![]),
        _ => Expr::Function(function),
    }
}

fn is_vector(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(ident) => VECTORS.contains(&folded(ident).as_str()),
        Expr::CompoundIdentifier(idents) => idents.last().is_some_and(|ident| VECTORS.contains(&folded(ident).as_str())),
        Expr::Nested(inner) => is_vector(inner),
        Expr::Cast { expr, .. } => is_vector(expr),
        _ => false,
    }
}

/// `(call).field`, `(alias.record).field`, `array[i]`.
fn field_access(root: Expr, chain: Vec<AccessExpr>) -> Expr {
    let mut result = root;
    let mut rest = chain.into_iter().peekable();
    while let Some(access) = rest.next() {
        result = match access {
            // The parser takes the column in `alias.column[i]` for a field.
            AccessExpr::Dot(Expr::Identifier(field)) => match result {
                Expr::Identifier(alias) => rewritten(Expr::CompoundIdentifier(vec![alias, field])),
                Expr::CompoundIdentifier(mut idents) => {
                    idents.push(field);
                    rewritten(Expr::CompoundIdentifier(idents))
                }
                other => dot(other, &folded(&field)),
            },
            AccessExpr::Subscript(Subscript::Index { index }) => {
                let index = if is_vector(&result) {
                    Expr::BinaryOp { left: Box::new(index), op: BinaryOperator::Plus, right: Box::new(number(1)) }
                } else {
                    index
                };
                call("array_element", vec![result, index])
            }
            other => {
                let chain = std::iter::once(other).chain(rest).collect();
                return Expr::CompoundFieldAccess { root: Box::new(result), access_chain: chain };
            }
        };
    }
    result
}

fn dot(root: Expr, field: &str) -> Expr {
    match root {
        Expr::Nested(inner) => dot(*inner, field),
        // The fields of `_pg_expandarray` are lists of their own.
        Expr::Function(function) => {
            let spread = arguments(&function).and_then(|mut args| args.pop());
            match spread {
                Some(Expr::Function(inner)) if parts(&inner.name).last().is_some_and(|name| name == "_expandarray") => {
                    let array = arguments(&inner).and_then(|mut args| args.pop()).unwrap_or_else(null);
                    match field {
                        "n" => call("unnest", vec![call("_subscripts", vec![array, number(1), number(1)])]),
                        _ => call("unnest", vec![array]),
                    }
                }
                _ => call("get_field", vec![Expr::Function(function), text(field)]),
            }
        }
        other => call("get_field", vec![other, text(field)]),
    }
}
