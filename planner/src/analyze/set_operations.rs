//! `EXCEPT` and `INTERSECT`, with and without `ALL`, as groups of equal rows that are counted on both sides.
//!
//! DataFusion binds them as anti and semi joins, which give every copy of a row that has a partner, however few partners there
//! are, and which have the left's types. A group knows how many copies each side has, and a union gives its columns a type that
//! holds both.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result, UnnestOptions};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_nested::range::range_udf;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder, cast, col, lit, when};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The columns that count a group's rows on each side, and the list with an item for each copy that is given.
const LEFT: &str = "__left";
const RIGHT: &str = "__right";
const COPIES: &str = "__copies";

#[derive(Debug)]
pub(super) struct SetOperations;

impl AnalyzerRule for SetOperations {
    fn name(&self) -> &str {
        "set_operations"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }
}

fn rewrite(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        // No join that is written as one takes NULLs for equal.
        LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => match join.join_type {
            JoinType::LeftAnti => counted(&join, true).map(Transformed::yes),
            JoinType::LeftSemi => counted(&join, false).map(Transformed::yes),
            _ => Ok(Transformed::no(LogicalPlan::Join(join))),
        },
        node => Ok(Transformed::no(node)),
    }
}

fn counted(join: &Join, is_except: bool) -> Result<LogicalPlan> {
    // Without ALL the left is made distinct first. Of a row that the left has once, ALL gives as many copies.
    let (left, is_all) = match join.left.as_ref() {
        LogicalPlan::Distinct(Distinct::All(input)) => (input, false),
        _ => (&join.left, true),
    };
    let width = join.schema.fields().len();
    let names: Vec<String> = (0..width).map(|place| format!("__column_{place}")).collect();
    let both = side(left, &names, [Some(true), None])?.union(side(&join.right, &names, [None, Some(true)])?.build()?)?.build()?;

    let keys: Vec<Expr> = both.schema().columns().into_iter().take(width).map(Expr::Column).collect();
    let count = |side: &str| count_udaf().call(vec![col(side)]).alias(format!("{side}_count"));
    let (in_left, in_right) = (col(format!("{LEFT}_count")), col(format!("{RIGHT}_count")));
    let groups = LogicalPlanBuilder::from(both).aggregate(keys, [count(LEFT), count(RIGHT)])?;

    let rows = if is_all {
        let copies = if is_except {
            when(in_left.clone().gt(in_right.clone()), in_left - in_right).otherwise(lit(0i64))?
        } else {
            when(in_left.clone().lt(in_right.clone()), in_left).otherwise(in_right)?
        };
        let list = range_udf().call(vec![lit(0i64), copies, lit(1i64)]).alias(COPIES);
        let options = UnnestOptions::new().with_preserve_nulls(false);
        groups.project(names.iter().map(col).chain([list]))?.unnest_column_with_options(Column::from_name(COPIES), options)?
    } else {
        let is_in_right = if is_except { in_right.eq(lit(0i64)) } else { in_right.gt(lit(0i64)) };
        groups.filter(in_left.gt(lit(0i64)).and(is_in_right))?
    };
    let named = names.iter().zip(join.schema.iter());
    let outputs = named.map(|(name, (qualifier, field))| col(name).alias_qualified(qualifier.cloned(), field.name()));
    rows.project(outputs.collect::<Vec<_>>())?.build()
}

/// A side's rows, marked as the left's or the right's.
fn side(input: &Arc<LogicalPlan>, names: &[String], marks: [Option<bool>; 2]) -> Result<LogicalPlanBuilder> {
    let columns = input.schema().columns().into_iter().zip(names).map(|(column, name)| Expr::Column(column).alias(name));
    let marks = marks.into_iter().zip([LEFT, RIGHT]).map(|(mark, name)| match mark {
        Some(mark) => lit(mark).alias(name),
        None => cast(Expr::Literal(ScalarValue::Null, None), DataType::Boolean).alias(name),
    });
    LogicalPlanBuilder::from(Arc::clone(input)).project(columns.chain(marks).collect::<Vec<_>>())
}
