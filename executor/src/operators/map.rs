//! Map: filter, then compute. `{ exprs(r): r in input, predicate(r) is true }`, each with its weight.
//!
//! Keeps no state. Whole batches are evaluated; columns are computed only for rows that the predicate keeps. A retraction is
//! computed like the insert, so it takes back what was given (expressions that can differ are refused by the planner).
//!
//! When a batch can't be evaluated, it is halved until the rows at fault stand alone. Each is reported with its weight, so that
//! the error goes when the row goes, and the others are given.

use super::build::Transform;
use super::rows::{Errors, as_condition, batch_of, describe_row, is_row_fault, reason, true_rows};
use crate::error::OperatorError;
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;
use thalweg_catalog::Delta;
use thalweg_plan::{MapExpr, Operator, PlanNode};

/// A running `Map`.
pub struct Map {
    schema: SchemaRef,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    columns: Vec<Computed>,
    errors: Errors,
}

enum Computed {
    /// A column of the input as it is.
    Input(usize),
    Expr(Arc<dyn PhysicalExpr>),
}

/// Why a batch could not be mapped.
enum Fault {
    /// At least one of its rows is at fault.
    Rows(DataFusionError),
    /// The plan is, or we are.
    Job(OperatorError),
}

impl From<DataFusionError> for Fault {
    fn from(error: DataFusionError) -> Fault {
        if is_row_fault(&error) { Fault::Rows(error) } else { Fault::Job(error.into()) }
    }
}

impl From<OperatorError> for Fault {
    fn from(error: OperatorError) -> Fault {
        Fault::Job(error)
    }
}

impl From<arrow::error::ArrowError> for Fault {
    fn from(error: arrow::error::ArrowError) -> Fault {
        Fault::Job(error.into())
    }
}

impl Map {
    /// The operator of a `Map` node.
    ///
    /// # Errors
    /// `Plan` if the node is another, or its expressions don't fit its schema or input.
    pub fn new(node: &PlanNode, input: &SchemaRef, errors: Errors) -> Result<Map, OperatorError> {
        let Operator::Map { predicate, exprs } = &node.operator else {
            return Err(OperatorError::Plan("not a Map".into()));
        };
        if exprs.len() != node.schema.fields().len() {
            return Err(OperatorError::Plan("a Map has an expression for each column".into()));
        }
        let columns = exprs.iter().map(|e| Computed::new(e, input)).collect::<Result<_, _>>()?;
        Ok(Map { schema: Arc::clone(&node.schema), predicate: predicate.clone(), columns, errors })
    }

    fn map(&self, delta: &Delta) -> Result<Delta, Fault> {
        let kept = self.keep(delta)?;
        let batch = kept.batch();
        let mut columns = Vec::with_capacity(self.columns.len());
        if batch.num_rows() > 0 {
            for (column, field) in self.columns.iter().zip(self.schema.fields()) {
                let array = column.evaluate(batch)?;
                columns.push(if array.data_type() == field.data_type() { array } else { cast(&array, field.data_type())? });
            }
            return Ok(kept.with_batch(batch_of(&self.schema, columns, batch.num_rows())?));
        }
        Ok(Delta::empty(Arc::clone(&self.schema)))
    }

    fn keep(&self, delta: &Delta) -> Result<Delta, Fault> {
        let Some(predicate) = &self.predicate else { return Ok(delta.clone()) };
        let condition = predicate.evaluate(delta.batch())?.into_array(delta.num_rows())?;
        let kept = true_rows(as_condition(&condition)?);
        match kept.count_set_bits() {
            0 => Ok(delta.slice(0, 0)),
            all if all == delta.num_rows() => Ok(delta.clone()),
            _ => Ok(delta.filter(&BooleanArray::new(kept, None))?),
        }
    }

    /// Maps a delta that has rows at fault, by halves.
    fn split(&self, delta: &Delta, error: &DataFusionError, given: &mut Vec<Delta>) -> Result<(), OperatorError> {
        let rows = delta.num_rows();
        if rows == 1 {
            let shown = describe_row(delta.schema().fields(), delta.batch().columns(), 0);
            self.errors.borrow_mut().report(&shown, &reason(error), delta.weight(0));
            return Ok(());
        }
        for half in [delta.slice(0, rows / 2), delta.slice(rows / 2, rows - rows / 2)] {
            match self.map(&half) {
                Ok(mapped) => given.push(mapped),
                Err(Fault::Rows(error)) => self.split(&half, &error, given)?,
                Err(Fault::Job(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Transform for Map {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn apply(&mut self, delta: Delta) -> Result<Vec<Delta>, OperatorError> {
        if delta.is_empty() {
            return Ok(Vec::new());
        }
        let mut given = Vec::new();
        match self.map(&delta) {
            Ok(mapped) => given.push(mapped),
            Err(Fault::Rows(error)) => {
                self.split(&delta, &error, &mut given)?;
                // One delta again: a few rows at fault must not leave the operators below with crumbs.
                given = vec![Delta::concat(&self.schema, &given)?];
            }
            Err(Fault::Job(error)) => return Err(error),
        }
        given.retain(|d| !d.is_empty());
        Ok(given)
    }
}

impl Computed {
    fn new(expr: &MapExpr, input: &SchemaRef) -> Result<Computed, OperatorError> {
        match expr.expr.as_any().downcast_ref::<Column>() {
            Some(column) if column.index() < input.fields().len() => Ok(Computed::Input(column.index())),
            Some(column) => Err(OperatorError::Plan(format!("there is no column {} in the input", column.index()))),
            None => Ok(Computed::Expr(Arc::clone(&expr.expr))),
        }
    }

    fn evaluate(&self, batch: &arrow::array::RecordBatch) -> Result<ArrayRef, DataFusionError> {
        match self {
            Computed::Input(column) => Ok(Arc::clone(batch.column(*column))),
            Computed::Expr(expr) => expr.evaluate(batch)?.into_array(batch.num_rows()),
        }
    }
}

#[cfg(test)]
mod tests;
