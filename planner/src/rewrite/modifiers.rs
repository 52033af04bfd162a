//! Sizes of types that casts of the select list write out: `numeric(10, 2)`, `timestamp(3)`. Clients are told of them; computed values
//! have other sizes inside, or all digits.

use datafusion::sql::sqlparser::ast::{
    self, ArrayElemTypeDef, CastKind, DataType, ExactNumberInfo, Expr, Query, SelectItem, SetExpr,
};

/// The most digits that a time has behind its seconds.
const TIME_DIGITS_MAX: u64 = 6;

/// What says that an interval has all fields.
const INTERVAL_FIELDS_ALL: i32 = 0x7FFF;

/// The type modifier, as Postgres counts it, of each output that is a cast which writes one. Outputs behind a wildcard are left out, as
/// their places are not known here.
pub fn written_modifiers(query: &Query) -> Vec<Option<i32>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return vec![] };
    let outputs = select.projection.iter().map_while(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    outputs.map(of_expr).collect()
}

fn of_expr(expr: &Expr) -> Option<i32> {
    match expr {
        Expr::Nested(inner) => of_expr(inner),
        Expr::Cast { data_type, kind: CastKind::Cast | CastKind::DoubleColon, .. } => of_type(data_type),
        // Unlike a cast to it, `bit '101'` has as many bits as are written.
        Expr::TypedString(ast::TypedString { data_type: DataType::Bit(None), .. }) => None,
        Expr::TypedString(ast::TypedString { data_type, .. }) => of_type(data_type),
        _ => None,
    }
}

fn of_type(data_type: &DataType) -> Option<i32> {
    match data_type {
        DataType::Numeric(size) | DataType::Decimal(size) | DataType::Dec(size) => {
            let (precision, scale) = match size {
                ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
                ExactNumberInfo::Precision(precision) => (*precision, 0),
                ExactNumberInfo::None => return None,
            };
            let (precision, scale) = (i32::from(u8::try_from(precision).ok()?), i32::from(u8::try_from(scale).ok()?));
            Some((precision << 16 | scale) + 4)
        }
        DataType::Timestamp(digits, _) | DataType::Time(digits, _) => i32::try_from((*digits)?.min(TIME_DIGITS_MAX)).ok(),
        DataType::Interval { fields: None, precision } => {
            let digits = i32::try_from((*precision)?.min(TIME_DIGITS_MAX)).ok()?;
            Some(INTERVAL_FIELDS_ALL << 16 | digits)
        }
        DataType::Bit(length) => i32::try_from(length.unwrap_or(1)).ok(),
        DataType::BitVarying(limit) | DataType::VarBit(limit) => i32::try_from((*limit)?).ok(),
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => of_type(item),
        _ => None,
    }
}
