//! `_denied(column)`: stands for a column that may not be read.
//!
//! A query over a relation of which some columns may be read gets the others through this. What it does not name is pruned by
//! the optimiser; where a call is left, the query is refused. Evaluating one is an error too, so that nothing can slip through.

use super::error;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// A call that stands for a column of a relation, `kind` and `relation` being what the user is told.
pub(crate) fn denied(column: Expr, kind: &str, relation: &str) -> Expr {
    let function = Denied { kind: kind.into(), relation: relation.into(), signature: Signature::any(1, Volatility::Immutable) };
    ScalarUDF::from(function).call(vec![column])
}

/// Refuses a plan in which a column is left that may not be read.
///
/// # Errors
/// `42501`.
pub(crate) fn check(plan: &LogicalPlan) -> SqlResult<()> {
    let mut refusal = None;
    let looked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarFunction(call) = part
                    && let Some(denied) = call.func.inner().as_any().downcast_ref::<Denied>()
                {
                    refusal = Some(denied.refusal());
                    return Ok(TreeNodeRecursion::Stop);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    looked.map_err(|e| crate::sql_error(&e))?;
    refusal.map_or(Ok(()), Err)
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Denied {
    kind: String,
    relation: String,
    signature: Signature,
}

impl Denied {
    fn refusal(&self) -> SqlError {
        SqlError::new(SqlState::InsufficientPrivilege, format!("permission denied for {} {}", self.kind, self.relation))
    }
}

impl ScalarUDFImpl for Denied {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "_denied"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [value] => Ok(value.clone()),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(error(self.refusal()))
    }
}
