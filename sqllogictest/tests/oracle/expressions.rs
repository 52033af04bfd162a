//! Random scalar expressions of a type, over the columns that are in scope.

use crate::types::{Type, one_of};
use rand::Rng;
use rand::rngs::StdRng;

/// Columns by the name under which an expression can use them.
pub type Scope = Vec<(String, Type)>;

/// A type, most likely of a column.
pub fn some_type(scope: &Scope, random: &mut StdRng) -> Type {
    if random.random_bool(0.1) { one_of(random, &Type::ALL) } else { scope[random.random_range(0..scope.len())].1 }
}

/// A column of this type, or a value if there is none.
fn leaf(ty: Type, scope: &Scope, random: &mut StdRng) -> String {
    let fitting: Vec<&str> = scope.iter().filter(|(_, t)| *t == ty).map(|(name, _)| name.as_str()).collect();
    if fitting.is_empty() || random.random_bool(0.15) { ty.literal(random) } else { one_of(random, &fitting).to_string() }
}

/// An expression of this type, so many functions deep at the most. None that fails for a row: what fails is in no view.
pub fn scalar(ty: Type, scope: &Scope, depth: usize, random: &mut StdRng) -> String {
    if depth == 0 || random.random_bool(0.35) {
        return leaf(ty, scope, random);
    }
    let mut of = |ty: Type| scalar(ty, scope, depth - 1, random);
    let (a, b) = (of(ty), of(ty));
    match random.random_range(0..6) {
        0 => return format!("coalesce({a}, {b})"),
        1 => return format!("nullif({a}, {b})"),
        2 => return format!("CASE WHEN {} THEN {a} ELSE {b} END", predicate(scope, depth - 1, random)),
        _ => {}
    }
    specific(ty, a, b, scope, depth - 1, random)
}

/// What only this type has, of two expressions of it.
fn specific(ty: Type, a: String, b: String, scope: &Scope, depth: usize, random: &mut StdRng) -> String {
    let mut of = |ty: Type| scalar(ty, scope, depth, random);
    let (text, int, date, timestamp, number) =
        (of(Type::Text), of(Type::Int), of(Type::Date), of(Type::Timestamp), of(Type::Numeric));
    let forms: Vec<String> = match ty {
        Type::SmallInt => vec![format!("abs({a})"), format!("-({a})"), format!("({a} % 3::smallint)")],
        Type::Int => vec![
            format!("({a} + {b})"),
            format!("({a} - {b})"),
            format!("({a} % 3)"),
            format!("length({text})"),
            format!("({date} - DATE '2024-01-01')"),
        ],
        Type::BigInt => vec![format!("({a} - {b})"), format!("({a} / 2)"), format!("({int})::bigint"), format!("abs({a})")],
        Type::Numeric => vec![
            format!("({a} + {b})::numeric(12, 2)"),
            format!("round({a}, 1)::numeric(12, 2)"),
            format!("({int})::numeric(12, 2)"),
            format!("extract(day FROM {timestamp})::numeric(12, 2)"),
        ],
        Type::Double => {
            vec![format!("({a} + {b})"), format!("({a} * 2)"), format!("({int})::double precision"), format!("floor({a})")]
        }
        Type::Text => vec![
            format!("({a} || {b})"),
            format!("upper({a})"),
            format!("lower({a})"),
            format!("({int})::text"),
            format!("({number})::text"),
            format!("substring({a} FROM 1 FOR 1)"),
            format!("replace({a}, 'a', 'zz')"),
            format!("trim({a})"),
            format!("left({a}, 2)"),
        ],
        Type::Boolean => return format!("({})", predicate(scope, depth, random)),
        Type::Date => vec![format!("({a} + 1)"), format!("({timestamp})::date"), format!("greatest({a}, {b})")],
        Type::Timestamp => vec![
            format!("({a} + INTERVAL '1 hour')"),
            format!("date_trunc('day', {a})"),
            format!("({date})::timestamp"),
            format!("least({a}, {b})"),
        ],
        Type::TimestampTz => vec![format!("({a} - INTERVAL '90 minutes')"), format!("date_trunc('hour', {a})")],
        Type::Bytea => vec![a],
    };
    forms[random.random_range(0..forms.len())].clone()
}

/// A condition.
pub fn predicate(scope: &Scope, depth: usize, random: &mut StdRng) -> String {
    if depth > 0 && random.random_bool(0.3) {
        let (a, b) = (predicate(scope, depth - 1, random), predicate(scope, depth - 1, random));
        return match random.random_range(0..3) {
            0 => format!("({a} AND {b})"),
            1 => format!("({a} OR {b})"),
            _ => format!("NOT ({a})"),
        };
    }
    let ty = some_type(scope, random);
    let (a, b) = (scalar(ty, scope, depth.min(1), random), scalar(ty, scope, depth.min(1), random));
    match random.random_range(0..9) {
        0 => format!("{a} IS {}NULL", one_of(random, &["", "NOT "])),
        1 => format!("{a} IS {}DISTINCT FROM {b}", one_of(random, &["", "NOT "])),
        2 => format!("{a} {}IN ({b}, {})", one_of(random, &["", "NOT "]), ty.literal(random)),
        3 => format!("{a} BETWEEN {b} AND {}", ty.literal(random)),
        4 => format!("{} {}LIKE '%a%'", scalar(Type::Text, scope, 1, random), one_of(random, &["", "NOT "])),
        5 => leaf(Type::Boolean, scope, random),
        _ => format!("{a} {} {b}", one_of(random, &["=", "<>", "<", "<=", ">", ">="])),
    }
}
