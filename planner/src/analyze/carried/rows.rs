//! Rows that stand above or below each other, in `VALUES` and in a union: what is carried by text must be so in all of them.

use super::{Scope, alike, carried_by};
use crate::analyze::operators::with_typed_literals;
use crate::functions::error;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, Values};
use thalweg_catalog::{CarriedType, SqlError, SqlState, SqlType};

/// A union with literals in quotes as values of the types that stand beside them.
pub(super) fn typed_union(union: Union, zone: &str) -> Result<Union> {
    let of = |place: usize| union.inputs.iter().find_map(|input| carried_by(input.schema().field(place)));
    let wanted: Vec<Option<CarriedType>> = (0..union.schema.fields().len()).map(of).collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(union);
    }
    let schema = DFSchema::empty();
    let scope = Scope { schema: &schema, zone };
    with_typed_literals(union, &wanted, |literal, of| scope.typed(literal, &of.without_length()))
}

/// The rows of `VALUES` with arrays of texts as arrays of the values that stand above or below them.
pub(super) fn typed_arrays(values: Values, zone: &str) -> Result<LogicalPlan> {
    let schema = DFSchema::empty();
    let scope = Scope { schema: &schema, zone };
    let of = |place: usize| values.values.iter().find_map(|row| scope.item_of(&row[place]));
    let wanted: Vec<Option<CarriedType>> = (0..values.schema.fields().len()).map(of).collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(LogicalPlan::Values(values));
    }
    let typed = |cell: Expr, wanted: &Option<CarriedType>| match wanted {
        Some(of) if scope.item_of(&cell).is_none() => scope.array_of(cell, of),
        _ => cell,
    };
    let rows = values.values.into_iter().map(|row| row.into_iter().zip(&wanted).map(|(cell, of)| typed(cell, of)).collect());
    LogicalPlanBuilder::values(rows.collect())?.build()
}

pub(super) fn check_union(union: &Union) -> Result<()> {
    for place in 0..union.schema.fields().len() {
        let fields = union.inputs.iter().map(|input| input.schema().field(place)).filter(|f| *f.data_type() != DataType::Null);
        let types: Vec<Option<CarriedType>> = fields.clone().map(|field| carried_by(field)).collect();
        let Some(first) = types.iter().flatten().next() else { continue };
        if !types.iter().all(|other| other.as_ref().is_some_and(|other| alike(other, first))) {
            let name = |f: &Field| SqlType::from_field(f).map_or_else(|_| f.data_type().to_string(), |t| t.to_string());
            let names: Vec<String> = fields.map(|field| name(field)).collect();
            let message = format!("UNION types {} cannot be matched", names.join(" and "));
            return Err(error(SqlError::new(SqlState::DatatypeMismatch, message).with_hint("Cast one of them.")));
        }
    }
    Ok(())
}
