//! Logical nodes, one by one. What needs more than a few lines stands in a file of its own.

use super::expressions::{cast_to, from_datafusion, physical};
use super::graph::Graph;
use super::relation::Relation;
use super::root::Context;
use super::scan::{Needed, needed_columns};
use super::top_n::RankBound;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan, RecursiveQuery, Union, Unnest, Values};
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult};
use thalweg_plan::{Exchange, Operator};

/// A plan that is being lowered.
pub(super) struct Lowering {
    pub(super) graph: Graph,
    pub(super) needed: Needed,
}

impl Lowering {
    /// The start: no nodes, and what the plan's scans will read.
    pub(super) fn new(plan: &LogicalPlan, context: &Context<'_>) -> SqlResult<Lowering> {
        Ok(Lowering { graph: Graph::new(Arc::clone(&context.options)), needed: needed_columns(plan)? })
    }

    /// The relation that a logical node stands for.
    pub(super) fn lower(&mut self, plan: &LogicalPlan) -> SqlResult<Relation> {
        Ok(self.lower_bounded(plan, &[])?.0)
    }

    /// As [`Lowering::lower`], where the caller keeps only rows within `bounds`. Gives also which of the bounds the relation
    /// keeps already, by their ids.
    pub(super) fn lower_bounded(&mut self, plan: &LogicalPlan, bounds: &[RankBound]) -> SqlResult<(Relation, Vec<usize>)> {
        let (relation, kept) = match plan {
            LogicalPlan::Projection(node) => {
                let inner = RankBound::through_projection(bounds, &node.expr, node.input.schema());
                let (input, kept) = self.lower_bounded(&node.input, &inner)?;
                (input.project(&mut self.graph, &node.expr, node.input.schema())?, kept)
            }
            LogicalPlan::SubqueryAlias(node) => self.lower_bounded(&node.input, bounds)?,
            LogicalPlan::Filter(node) => self.filter(node, bounds)?,
            LogicalPlan::Window(node) => self.window(node, bounds)?,
            // An order without a limit changes nothing: views and streams have none.
            LogicalPlan::Sort(node) if node.fetch.is_none() => self.lower_bounded(&node.input, bounds)?,
            LogicalPlan::Repartition(node) => self.lower_bounded(&node.input, bounds)?,
            _ => (self.lower_node(plan)?, vec![]),
        };
        Ok((relation.conform(&self.graph, plan.schema())?, kept))
    }

    fn lower_node(&mut self, plan: &LogicalPlan) -> SqlResult<Relation> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::Aggregate(node) => self.aggregate(node),
            LogicalPlan::Distinct(node) => self.distinct(node),
            LogicalPlan::Join(node) => self.join(node),
            LogicalPlan::Union(node) => self.union(node),
            LogicalPlan::Unnest(node) => self.unnest(node),
            LogicalPlan::Values(node) => self.values(node),
            LogicalPlan::EmptyRelation(node) => self.empty(node),
            LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => self.limit(plan),
            LogicalPlan::RecursiveQuery(node) => Err(refuse_recursion(node)),
            LogicalPlan::Subquery(_) => Err(unsupported("this subquery").with_hint("Write it as a join.")),
            LogicalPlan::Extension(node) => Err(unsupported(&format!("{} of this query", node.node.name()))),
            LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_) => Err(unsupported("a statement that is no query")),
            LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Repartition(_) => Err(SqlError::internal("a node that bounds pass through is lowered without them")),
        }
    }

    fn union(&mut self, union: &Union) -> SqlResult<Relation> {
        let mut inputs = vec![];
        for input in &union.inputs {
            let relation = self.lower(input)?.conform(&self.graph, &union.schema)?.carried(&self.graph)?;
            let relation = relation.sealed(&mut self.graph)?;
            inputs.push((relation.node, Exchange::Local));
        }
        let Some((first, _)) = inputs.first() else {
            return Err(SqlError::internal("a union has no inputs"));
        };
        let types: Vec<DataType> = self.graph.schema(*first).fields().iter().map(|f| f.data_type().clone()).collect();
        let names = union.schema.fields().iter().map(|f| f.name().clone()).chain(std::iter::repeat(String::from("row")));
        let fields: Vec<Field> = types.into_iter().zip(names).map(|(t, name)| Field::new(name, t, true)).collect();
        let visible: Vec<usize> = (0..union.schema.fields().len()).collect();
        let node = self.graph.add(Operator::Union, inputs, Arc::new(Schema::new(fields)));
        Ok(Relation::some_of(&self.graph, node, &visible))
    }

    fn unnest(&mut self, unnest: &Unnest) -> SqlResult<Relation> {
        let (column, list) = match unnest.list_type_columns.as_slice() {
            [only] if unnest.struct_type_columns.is_empty() => only,
            _ => {
                return Err(unsupported("unnesting of records or of several lists at once")
                    .with_hint("Unnest one list in each subquery."));
            }
        };
        if list.depth != 1 || unnest.options.preserve_nulls {
            return Err(unsupported("unnesting of nested lists").with_hint("Unnest one level in each subquery."));
        }
        let input = self.lower(&unnest.input)?.sealed(&mut self.graph)?;
        let schema = self.graph.schema(input.node);
        let item = match schema.field(*column).data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item.data_type().clone(),
            other => return Err(SqlError::internal(format!("values of type {other} are unnested"))),
        };
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(place, f)| if place == *column { Field::new(f.name(), item.clone(), true) } else { f.as_ref().clone() })
            .collect();
        let inputs = vec![(input.node, Exchange::Local)];
        let node = self.graph.add(Operator::Unnest { column: *column }, inputs, Arc::new(Schema::new(fields)));
        Ok(Relation::some_of(&self.graph, node, &unnest.dependency_indices))
    }

    fn values(&mut self, values: &Values) -> SqlResult<Relation> {
        let one_row = one_row()?;
        let empty = DFSchema::empty();
        let mut columns: Vec<ArrayRef> = vec![];
        let mut fields = vec![];
        for (place, field) in values.schema.fields().iter().enumerate() {
            let carried = super::carried_type(field.data_type())?;
            let mut cells = vec![];
            for row in &values.values {
                let expr = cast_to(physical(&row[place], &empty, &self.graph.options)?, &one_row.schema(), &carried)?;
                let value = expr.evaluate(&one_row).and_then(|v| v.into_array(1)).map_err(from_datafusion)?;
                cells.push(value);
            }
            let cells: Vec<_> = cells.iter().map(|c| c.as_ref()).collect();
            columns.push(concat(&cells).map_err(|e| SqlError::internal(e.to_string()))?);
            fields.push(Field::new(field.name(), carried, true));
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|e| SqlError::internal(e.to_string()))?;
        let node = self.graph.add(Operator::Values { batch }, vec![], schema);
        Ok(Relation::of(&self.graph, node))
    }

    fn empty(&mut self, empty: &EmptyRelation) -> SqlResult<Relation> {
        let mut fields = vec![];
        for field in empty.schema.fields() {
            fields.push(Field::new(field.name(), super::carried_type(field.data_type())?, true));
        }
        let visible: Vec<usize> = (0..fields.len()).collect();
        let batch = if empty.produce_one_row || fields.is_empty() {
            // A batch without columns would lose its length on the way, so the row has a column that nobody sees.
            fields = vec![Field::new("row", DataType::Int64, true)];
            let rows = Int64Array::from(vec![0; usize::from(empty.produce_one_row)]);
            RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), vec![Arc::new(rows)])
                .map_err(|e| SqlError::internal(e.to_string()))?
        } else {
            RecordBatch::new_empty(Arc::new(Schema::new(fields.clone())))
        };
        let node = self.graph.add(Operator::Values { batch }, vec![], Arc::new(Schema::new(fields)));
        Ok(Relation::some_of(&self.graph, node, &visible))
    }
}

/// A batch of one row without columns, to evaluate constants over.
fn one_row() -> SqlResult<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).map_err(|e| SqlError::internal(e.to_string()))
}

/// What a user is told about `WITH RECURSIVE`.
pub(super) fn refuse_recursion(query: &RecursiveQuery) -> SqlError {
    unsupported(&format!("recursive query \"{}\"", query.name)).with_hint("Read it with SELECT over views that hold its parts.")
}

/// What a user is told about something that no operator computes.
pub(super) fn unsupported(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} can't be kept up to date"))
}
