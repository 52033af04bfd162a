//! Calls of functions: which take values of the types that are carried by text, and what they make of literals beside them.

use super::{Scope, alike, carried_by, has_equality, is_castable, is_untyped, no_cast, no_operator, null, type_of, unsupported};
use crate::analyze::operators::at;
use crate::functions::{assign, carried, enums, error};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator};
use std::sync::Arc;
use thalweg_catalog::{CarriedType, SqlError, SqlState, SqlType};

/// Functions that take values of any type, besides those of an array and an element.
const TAKE_ANY: [&str; 9] =
    ["as_type", carried::AS_TEXT, "order_key", "money_number", enums::POSITION, "pg_typeof", "concat", "concat_ws", "struct"];

/// Functions that give one of their arguments.
const GIVE_ARGUMENT: [&str; 3] = ["coalesce", "nullif", "nvl"];

/// Aggregates and window functions that take values of any type.
const AGGREGATE_ANY: [&str; 8] = ["count", "array_agg", "first_value", "last_value", "nth_value", "lag", "lead", "single_value"];

impl Scope<'_> {
    pub(super) fn function(&self, mut call: ScalarFunction) -> Result<Transformed<Expr>> {
        let name = call.name().to_string();
        if name == assign::NAME {
            return self.type_function(call);
        }
        if enums::OF_TYPE.contains(&name.as_str()) {
            return self.of_enum(&call);
        }
        if GIVE_ARGUMENT.contains(&name.as_str()) {
            return match self.matched(&name.to_uppercase(), call.args.iter_mut().collect())? {
                Some(of) => {
                    if name == "nullif" {
                        has_equality(&of)?;
                    }
                    Ok(Transformed::yes(self.typed(Expr::ScalarFunction(call), &of)))
                }
                None => Ok(Transformed::no(Expr::ScalarFunction(call))),
            };
        }
        if name == "make_array" {
            let found = self.matched("ARRAY", call.args.iter_mut().collect())?;
            let list = Expr::ScalarFunction(call);
            return Ok(match found {
                // DataFusion forgets of what the array is.
                Some(of) => Transformed::yes(self.array_of(list, &of)),
                None => Transformed::no(list),
            });
        }
        if name.starts_with("array_") && call.args.len() == 2 {
            return self.array_function(call);
        }
        let takes_any = TAKE_ANY.contains(&name.as_str()) || name.starts_with('_');
        match call.args.iter().find_map(|arg| self.type_of(arg)).filter(|_| !takes_any) {
            Some(found) => Err(unsupported(&format!("function {name} on type {found}"))),
            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
        }
    }

    /// What a function of an enum type gives, whatever its argument's value is.
    fn of_enum(&self, call: &ScalarFunction) -> Result<Transformed<Expr>> {
        let found = call.args.first().and_then(|arg| self.type_of(arg));
        let Some(CarriedType::Enum(labels)) = &found else {
            let shown: Vec<String> = call.args.iter().map(|arg| self.shown(arg)).collect();
            let message = format!("function {}({}) does not exist", call.name(), shown.join(", "));
            return Err(error(SqlError::new(SqlState::UndefinedFunction, message)));
        };
        let text = |label: Option<&String>| ScalarValue::Utf8(label.cloned());
        let of = CarriedType::Enum(Arc::clone(labels));
        let literal = |value: ScalarValue| Expr::Literal(value, None);
        Ok(Transformed::yes(match call.name() {
            "enum_first" => self.typed(literal(text(labels.labels.first())), &of),
            "enum_last" => self.typed(literal(text(labels.labels.last())), &of),
            _ => {
                let all: Vec<ScalarValue> = labels.labels.iter().map(|label| text(Some(label))).collect();
                self.array_of(literal(ScalarValue::List(ScalarValue::new_list_nullable(&all, &DataType::Utf8))), &of)
            }
        }))
    }

    /// A function of an array and what may be an element of it, such as a search: both are made of one type.
    fn array_function(&self, mut call: ScalarFunction) -> Result<Transformed<Expr>> {
        let [array, value] = call.args.as_mut_slice() else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
        if self.item_of(array).is_none() && self.item_of(value).is_some() {
            std::mem::swap(array, value);
            let swapped = self.typed_element(array, value);
            std::mem::swap(array, value);
            return Ok(Transformed::new_transformed(Expr::ScalarFunction(call), swapped?));
        }
        let changed = self.typed_element(array, value)?;
        Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
    }

    fn typed_element(&self, array: &mut Expr, value: &mut Expr) -> Result<bool> {
        match (self.item_of(array), self.type_of(value).or_else(|| self.item_of(value))) {
            (None, None) => return Ok(false),
            (Some(item), Some(found)) if alike(&item, &found) => return Ok(false),
            (Some(item), None) if is_untyped(value) => {
                *value = self.typed(std::mem::replace(value, null()), &item.without_length());
                return Ok(true);
            }
            (None, Some(found)) => {
                if let Expr::ScalarFunction(list) = array
                    && self.are_items(list, &found)
                {
                    let items = std::mem::take(&mut list.args).into_iter();
                    list.args = items.map(|item| self.typed(item, &found.without_length())).collect();
                    return Ok(true);
                }
            }
            _ => {}
        }
        Err(no_operator(&self.shown(value), Operator::Eq, &self.shown(array), value))
    }

    /// A cast to an array of values of a type: of one of the same type, or of texts.
    pub(super) fn array_cast(&self, cast: Cast, of: &CarriedType) -> Result<Transformed<Expr>> {
        let Ok(from) = cast.expr.get_type(self.schema) else { return Ok(Transformed::no(Expr::Cast(cast))) };
        if from == cast.data_type {
            return Ok(Transformed::no(Expr::Cast(cast)));
        }
        let is_other = self.item_of(&cast.expr).is_some_and(|found| !alike(&found, of));
        if is_other || !matches!(from, DataType::List(_) | DataType::Null) {
            let message = format!("a cast of type {} to {of}[] is not supported", self.shown(&cast.expr));
            return Err(error(SqlError::unsupported(message).with_hint("Cast the elements, as in ARRAY[a::inet, b::inet].")));
        }
        Ok(Transformed::yes(self.array_of(*cast.expr, of)))
    }

    /// An array of texts as one of values.
    pub(super) fn array_of(&self, texts: Expr, of: &CarriedType) -> Expr {
        let texts = Expr::Cast(Cast::new(Box::new(texts), SqlType::Array(Box::new(SqlType::Text)).to_arrow()));
        self.typed_as(texts, &SqlType::Array(Box::new(SqlType::Carried(of.clone()))), of)
    }

    /// Whether a function makes an array of values of this type, and of what takes that type.
    fn are_items(&self, list: &ScalarFunction, of: &CarriedType) -> bool {
        let is_item = |item: &Expr| is_untyped(item) || self.type_of(item).is_some_and(|found| alike(&found, of));
        list.name() == "make_array" && list.args.iter().all(is_item)
    }

    /// The type of an array's elements.
    pub(super) fn item_of(&self, array: &Expr) -> Option<CarriedType> {
        match array.to_field(self.schema).ok()?.1.data_type() {
            DataType::List(item) => carried_by(item),
            _ => None,
        }
    }

    /// `as_type`: a cast or an assignment. What it is of is text, or has a cast in Postgres.
    fn type_function(&self, mut call: ScalarFunction) -> Result<Transformed<Expr>> {
        let target = match call.args.as_slice() {
            [_, Expr::Literal(ScalarValue::Utf8(Some(name)), _)] => SqlType::parse(name),
            _ => None,
        };
        let Some(SqlType::Carried(to)) = target else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
        let from = match &call.args[0] {
            Expr::Cast(cast) => cast.expr.get_type(self.schema).ok(),
            Expr::ScalarFunction(inner) if inner.name() == carried::AS_TEXT => {
                let from = inner.args.first().and_then(|value| self.type_of(value));
                if let Some(from) = from.filter(|from| !is_castable(from, &to)) {
                    return Err(error(at(no_cast(&from.to_string(), &to.to_string()), &call.args[0])));
                }
                None
            }
            _ => None,
        };
        let is_exact = |from: &DataType| from.is_integer() || matches!(from, DataType::Decimal128(..));
        let fits = |from: &DataType| {
            matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
                || to == CarriedType::Money && is_exact(from)
        };
        if let Some(from) = from.filter(|from| !fits(from)) {
            let from = SqlType::from_arrow(&from).map_or_else(|_| from.to_string(), |t| t.to_string());
            return Err(error(at(no_cast(&from, &to.to_string()), &call.args[0])));
        }
        let text = call.args.swap_remove(0);
        Ok(Transformed::yes(self.typed(text, &to)))
    }

    pub(super) fn aggregate(&self, mut call: AggregateFunction) -> Result<Transformed<Expr>> {
        if let Some(of) = extreme_of(&call, self.schema) {
            // Of the places; see `labelled`.
            let value = std::mem::replace(&mut call.params.args[0], null());
            call.params.args[0] = enums::position(value, &of);
            return Ok(Transformed::yes(Expr::AggregateFunction(call)));
        }
        self.check_aggregate(call.func.name(), &call.params.args, call.params.distinct)?;
        let changed = self.sort_keys(&mut call.params.order_by)?;
        Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed))
    }

    pub(super) fn window(&self, mut window: WindowFunction) -> Result<Transformed<Expr>> {
        let params = &mut window.params;
        self.check_aggregate(window.fun.name(), &params.args, params.distinct)?;
        params.partition_by.iter().try_for_each(|expr| self.check_equality(expr))?;
        let changed = self.sort_keys(&mut params.order_by)?;
        Ok(Transformed::new_transformed(Expr::WindowFunction(Box::new(window)), changed))
    }

    fn check_aggregate(&self, name: &str, args: &[Expr], distinct: bool) -> Result<()> {
        if matches!(name, "min" | "max") {
            args.iter().try_for_each(|arg| if self.type_of(arg).is_none() { self.check_order_within(arg) } else { Ok(()) })?;
        }
        match args.iter().find_map(|arg| self.type_of(arg)) {
            Some(found) if !AGGREGATE_ANY.contains(&name) => Err(unsupported(&format!("function {name} on type {found}"))),
            Some(found) if distinct => has_equality(&found),
            _ => Ok(()),
        }
    }
}

/// The enum type of which an aggregate gives the least or the greatest label.
fn extreme_of(call: &AggregateFunction, schema: &DFSchema) -> Option<CarriedType> {
    match call.params.args.as_slice() {
        [value] if matches!(call.func.name(), "min" | "max") => {
            type_of(value, schema).filter(|of| matches!(of, CarriedType::Enum(_)))
        }
        _ => None,
    }
}

/// The enum types of the aggregates of a node that give a least or greatest label; none for its other aggregates.
pub(super) fn extremes(node: &LogicalPlan, schema: &DFSchema) -> Vec<Option<CarriedType>> {
    let LogicalPlan::Aggregate(aggregate) = node else { return vec![] };
    let of = |expr: &Expr| match expr.clone().unalias() {
        Expr::AggregateFunction(call) => extreme_of(&call, schema),
        _ => None,
    };
    aggregate.aggr_expr.iter().map(of).collect()
}

/// An aggregation whose least and greatest labels are places yet, with the labels in their stead.
pub(super) fn labelled(node: LogicalPlan, extremes: &[Option<CarriedType>]) -> Result<LogicalPlan> {
    let keys = node.schema().fields().len() - extremes.len();
    let output = |(place, (qualifier, field)): (usize, (Option<&TableReference>, &FieldRef))| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match place.checked_sub(keys).and_then(|place| extremes[place].as_ref()) {
            Some(of) => enums::label(column, of).alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    };
    let outputs: Vec<Expr> = node.schema().iter().enumerate().map(output).collect();
    LogicalPlanBuilder::from(node).project(outputs)?.build()
}
