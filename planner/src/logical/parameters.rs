//! `$1`, `$2`, …: their types, and their values put in.

use crate::errors::sql_error;
use arrow::datatypes::DataType;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion::scalar::ScalarValue;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType};

/// The most parameters that the protocol can carry.
const PARAMETERS_MAX: usize = 65_535;

/// The types of a bound plan's parameters, by number: as declared, else as the plan uses them, else text.
///
/// # Errors
/// `42P02` for a parameter without a usable number, `42P18` for one that is counted but not used.
pub fn parameter_types(plan: &LogicalPlan, declared: &[Option<SqlType>]) -> SqlResult<Vec<SqlType>> {
    let found = plan.get_parameter_fields().map_err(|e| sql_error(&e))?;
    let searched = searched_arrays(plan).map_err(|e| sql_error(&e))?;
    let mut types: Vec<Option<SqlType>> = declared.to_vec();
    let mut used = vec![false; types.len()];
    for (name, field) in found {
        let index = parameter_index(&name)?;
        if types.len() <= index {
            types.resize(index + 1, None);
            used.resize(index + 1, false);
        }
        used[index] = true;
        if types[index].is_none() {
            let by_field = field.filter(|f| *f.data_type() != DataType::Null).and_then(|f| inferred_type(&f));
            types[index] = searched.get(&name).cloned().or(by_field);
        }
    }
    match types.iter().zip(&used).position(|(found, used)| found.is_none() && !used) {
        Some(unknown) => Err(SqlError::new(
            SqlState::IndeterminateDatatype,
            format!("could not determine data type of parameter ${}", unknown + 1),
        )),
        None => Ok(types.into_iter().map(|t| t.unwrap_or(SqlType::Text)).collect()),
    }
}

/// The types of parameters that values are looked for in, `x = ANY ($1)`: arrays of the value's type.
fn searched_arrays(plan: &LogicalPlan) -> datafusion::common::Result<HashMap<String, SqlType>> {
    let mut found = HashMap::new();
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarFunction(call) = part
                    && call.name() == "array_has"
                    && let [Expr::Placeholder(array), value] = call.args.as_slice()
                    && let Ok((_, field)) = value.to_field(&schema)
                    && let Ok(item) = SqlType::from_field(&field)
                {
                    found.insert(array.id.clone(), SqlType::Array(Box::new(item)));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

fn inferred_type(field: &arrow::datatypes::Field) -> Option<SqlType> {
    match field.data_type() {
        DataType::UInt64 => Some(SqlType::Int8),
        // A digit count that follows from one literal would refuse other values.
        DataType::Decimal128(..) => Some(SqlType::Numeric(None)),
        _ => SqlType::from_field(field).ok(),
    }
}

/// The place, from 0, of a parameter written `$n`.
fn parameter_index(name: &str) -> SqlResult<usize> {
    name.strip_prefix('$')
        .and_then(|digits| digits.parse::<usize>().ok())
        .filter(|number| (1..=PARAMETERS_MAX).contains(number))
        .map(|number| number - 1)
        .ok_or_else(|| SqlError::new(SqlState::UndefinedParameter, format!("there is no parameter {name}")))
}

/// The plan with values in place of parameters, each of the parameter's type.
///
/// # Errors
/// `42P02` for a parameter that has no value.
pub fn substitute_parameters(plan: LogicalPlan, values: &[ScalarValue]) -> SqlResult<LogicalPlan> {
    let mut missing = None;
    let replaced = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let is_limit = matches!(node, LogicalPlan::Limit(_));
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| replace(expr, values, is_limit, &mut missing))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        node.map_data(|node| node.recompute_schema())
    });
    match (missing, replaced) {
        (Some(error), _) => Err(error),
        (None, Ok(replaced)) => Ok(replaced.data),
        (None, Err(error)) => Err(sql_error(&error)),
    }
}

/// A cast of a parameter that would take from it what the written type says nothing of: a number's decimal places, the dimensions
/// of an array. As one that keeps them; none for any other.
fn kept_whole(cast: &Cast) -> Option<Cast> {
    let Expr::Cast(value) = cast.expr.as_ref() else { return None };
    let Expr::Literal(..) = value.expr.as_ref() else { return None };
    if let (DataType::Decimal128(..), true) = (&value.data_type, cast.data_type == SqlType::Numeric(None).to_arrow()) {
        return Some(value.clone());
    }
    let (DataType::List(wanted), DataType::List(found)) = (&cast.data_type, &value.data_type) else { return None };
    let mut target = cast.data_type.clone();
    let mut inner = found.data_type();
    while let DataType::List(deeper) = inner {
        target = DataType::List(Arc::new(wanted.as_ref().clone().with_data_type(target)));
        inner = deeper.data_type();
    }
    let is_flat = !matches!(wanted.data_type(), DataType::List(_));
    (is_flat && target != cast.data_type).then(|| Cast::new(cast.expr.clone(), target))
}

fn replace(
    expr: Expr,
    values: &[ScalarValue],
    is_limit: bool,
    missing: &mut Option<SqlError>,
) -> datafusion::common::Result<Transformed<Expr>> {
    if let Expr::Cast(cast) = &expr {
        return Ok(kept_whole(cast).map_or_else(|| Transformed::no(expr), |cast| Transformed::yes(Expr::Cast(cast))));
    }
    let Expr::Placeholder(placeholder) = &expr else { return Ok(Transformed::no(expr)) };
    let value = match parameter_index(&placeholder.id) {
        Ok(index) => values.get(index),
        Err(_) => None,
    };
    let Some(value) = value else {
        let error = SqlError::new(SqlState::UndefinedParameter, format!("there is no parameter {}", placeholder.id));
        missing.get_or_insert(error);
        return Ok(Transformed::no(expr));
    };
    // What the value's own type does not tell, of itself and of its elements.
    let known = placeholder.field.as_deref().map(|field| field.data_type());
    let data_type = match known.filter(|known| known.equals_datatype(&value.data_type())) {
        Some(known) => known.clone(),
        None => value.data_type(),
    };
    let metadata = placeholder.field.as_deref().map(FieldMetadata::from).filter(|metadata| !metadata.is_empty());
    let literal = Expr::Literal(value.clone(), metadata);
    // A limit must be a literal; elsewhere the cast keeps the parameter's type where literals are narrowed.
    Ok(Transformed::yes(if is_limit { literal } else { Expr::Cast(Cast::new(Box::new(literal), data_type)) }))
}
