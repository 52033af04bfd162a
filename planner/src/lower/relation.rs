//! A relation while a plan is lowered: an operator, and the columns computed over it that no `Map` has been made for yet.

use super::expressions::{
    Physical, as_column, carried_type, cast_to, count_columns, is_cheap, physical, replace_columns, same_expr, same_type,
    type_of, without_round_trips,
};
use super::graph::Graph;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, Operator as BinaryOperator};
use datafusion::physical_expr::expressions::BinaryExpr;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult};
use thalweg_plan::{Exchange, MapExpr, NodeId, Operator};

/// Rows of `node` for which `predicate` is true, with `columns` computed from them.
///
/// RELATION-1: the columns of the relation that a logical node was lowered to are those of the node's schema, in order
/// and type.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub(super) node: NodeId,
    pub(super) predicate: Option<Physical>,
    pub(super) columns: Vec<MapExpr>,
}

impl Relation {
    /// All columns of a node.
    pub(super) fn of(graph: &Graph, node: NodeId) -> Relation {
        let all: Vec<usize> = (0..graph.schema(node).fields().len()).collect();
        Relation::some_of(graph, node, &all)
    }

    /// Some columns of a node.
    pub(super) fn some_of(graph: &Graph, node: NodeId, columns: &[usize]) -> Relation {
        let schema = graph.schema(node);
        let columns = columns
            .iter()
            .map(|c| MapExpr { expr: super::expressions::column(schema, *c), name: schema.field(*c).name().clone() })
            .collect();
        Relation { node, predicate: None, columns }
    }

    /// Whether the relation is its node, unchanged.
    fn is_bare(&self, graph: &Graph) -> bool {
        self.predicate.is_none()
            && self.columns.len() == graph.schema(self.node).fields().len()
            && self.columns.iter().enumerate().all(|(place, c)| as_column(&c.expr) == Some(place))
    }

    /// The same relation with its columns standing in a node of their own. A relation without columns keeps its node, which
    /// has some: batches without columns would lose their length on the way.
    pub(super) fn sealed(self, graph: &mut Graph) -> SqlResult<Relation> {
        if self.is_bare(graph) || (self.columns.is_empty() && self.predicate.is_none()) {
            return Ok(self);
        }
        let hidden = self.columns.is_empty();
        let exprs = if hidden { Relation::some_of(graph, self.node, &[0]).columns } else { self.columns };
        let schema = schema_of(&exprs, graph.schema(self.node))?;
        let operator = Operator::Map { predicate: self.predicate, exprs };
        let node = graph.add(operator, vec![(self.node, Exchange::Local)], schema);
        Ok(if hidden { Relation::some_of(graph, node, &[]) } else { Relation::of(graph, node) })
    }

    /// Expressions over the logical columns `schema` of this relation, as ones over the node's columns.
    ///
    /// Where that would compute something costly more than once, the relation is sealed first. With `kept`, the
    /// relation's own columns stay beside the new ones and count too.
    pub(super) fn bind(
        self,
        graph: &mut Graph,
        exprs: &[&Expr],
        schema: &DFSchema,
        kept: bool,
    ) -> SqlResult<(Relation, Vec<Physical>)> {
        let bound = exprs.iter().map(|e| physical(e, schema, &graph.options)).collect::<SqlResult<Vec<_>>>()?;
        self.substitute(graph, bound, kept)
    }

    /// As [`Relation::bind`], for expressions that are physical already.
    pub(super) fn substitute(self, graph: &mut Graph, exprs: Vec<Physical>, kept: bool) -> SqlResult<(Relation, Vec<Physical>)> {
        let mut counts = BTreeMap::new();
        exprs.iter().for_each(|e| count_columns(e, &mut counts));
        let mut is_costly = false;
        for (index, count) in counts {
            let pending = self.columns.get(index).ok_or_else(|| {
                SqlError::internal(format!("RELATION-1: column {index} of {} columns is referred to", self.columns.len()))
            })?;
            is_costly |= count + usize::from(kept) > 1 && !is_cheap(&pending.expr);
        }
        let relation = if is_costly { self.sealed(graph)? } else { self };
        let columns = &relation.columns;
        let exprs = exprs
            .into_iter()
            .map(|e| replace_columns(e, &|index| Arc::clone(&columns[index].expr)))
            .map(|e| without_round_trips(e?, graph.schema(relation.node)))
            .collect::<SqlResult<Vec<_>>>()?;
        Ok((relation, exprs))
    }

    /// The relation with other columns, computed from its own.
    pub(super) fn project(self, graph: &mut Graph, exprs: &[Expr], schema: &DFSchema) -> SqlResult<Relation> {
        let names: Vec<String> = exprs.iter().map(name_of).collect();
        let (relation, bound) = self.bind(graph, &exprs.iter().collect::<Vec<_>>(), schema, false)?;
        let columns = bound.into_iter().zip(names).map(|(expr, name)| MapExpr { expr, name }).collect();
        Ok(Relation { columns, ..relation })
    }

    /// The relation's rows for which all of `conditions` are true.
    pub(super) fn filter(self, graph: &mut Graph, conditions: &[&Expr], schema: &DFSchema) -> SqlResult<Relation> {
        let (relation, bound) = self.bind(graph, conditions, schema, true)?;
        let predicate = relation.predicate.clone().into_iter().chain(bound).reduce(and);
        Ok(Relation { predicate, ..relation })
    }

    /// The relation with further columns for those of the expressions that it does not have yet, and the place of each.
    pub(super) fn append(self, graph: &mut Graph, exprs: &[&Expr], schema: &DFSchema) -> SqlResult<(Relation, Vec<usize>)> {
        let names: Vec<String> = exprs.iter().map(|e| name_of(e)).collect();
        let (mut relation, bound) = self.bind(graph, exprs, schema, true)?;
        let mut places = vec![];
        for (expr, name) in bound.into_iter().zip(names) {
            places.push(relation.place_of(expr, name));
        }
        Ok((relation, places))
    }

    /// The place of a column with this value over the node's columns, added if there is none.
    pub(super) fn place_of(&mut self, expr: Physical, name: String) -> usize {
        match self.columns.iter().position(|c| same_expr(&c.expr, &expr)) {
            Some(place) => place,
            None => {
                self.columns.push(MapExpr { expr, name });
                self.columns.len() - 1
            }
        }
    }

    /// The relation with the types of a logical schema: operators give the types that state and wire know, which are not
    /// always those that the optimiser has bound the expressions above to.
    pub(super) fn conform(self, graph: &Graph, schema: &DFSchema) -> SqlResult<Relation> {
        if self.columns.len() != schema.fields().len() {
            return Err(SqlError::internal(format!(
                "RELATION-1: {} columns were lowered where the plan has {}",
                self.columns.len(),
                schema.fields().len()
            )));
        }
        let types: Vec<DataType> = schema.fields().iter().map(|f| f.data_type().clone()).collect();
        self.cast_columns(graph, &types)
    }

    /// The relation with its columns cast to these types.
    pub(super) fn cast_columns(mut self, graph: &Graph, types: &[DataType]) -> SqlResult<Relation> {
        let input = graph.schema(self.node);
        for (column, to) in self.columns.iter_mut().zip(types) {
            column.expr = without_round_trips(cast_to(Arc::clone(&column.expr), input, to)?, input)?;
        }
        Ok(self)
    }

    /// The relation with every column in a type that state and wire know.
    pub(super) fn carried(self, graph: &Graph) -> SqlResult<Relation> {
        let types = self.types(graph)?.iter().map(carried_type).collect::<SqlResult<Vec<_>>>()?;
        self.cast_columns(graph, &types)
    }

    /// The types of the columns.
    pub(super) fn types(&self, graph: &Graph) -> SqlResult<Vec<DataType>> {
        self.columns.iter().map(|c| type_of(&c.expr, graph.schema(self.node))).collect()
    }

    /// Whether the columns have these names and types, and stand in the node as they are.
    pub(super) fn is_exactly(&self, graph: &Graph, schema: &Schema) -> bool {
        self.is_bare(graph)
            && graph
                .schema(self.node)
                .fields()
                .iter()
                .zip(schema.fields())
                .all(|(have, want)| have.name() == want.name() && same_type(have.data_type(), want.data_type()))
    }
}

/// The name of the column that an expression makes.
pub(super) fn name_of(expr: &Expr) -> String {
    let name = expr.qualified_name().1;
    // What is to be unnested has its whole call in its name; the function's name is enough to tell.
    match name.strip_prefix("__unnest_placeholder(").and_then(|rest| rest.split('(').next()) {
        Some(function) => function.to_string(),
        None => name,
    }
}

/// Both conditions.
pub(super) fn and(left: Physical, right: Physical) -> Physical {
    Arc::new(BinaryExpr::new(left, BinaryOperator::And, right))
}

/// The schema of a `Map` with these columns.
pub(super) fn schema_of(exprs: &[MapExpr], input: &Schema) -> SqlResult<SchemaRef> {
    let fields = exprs.iter().map(|e| Ok(Field::new(&e.name, type_of(&e.expr, input)?, true))).collect::<SqlResult<Vec<_>>>()?;
    Ok(Arc::new(Schema::new(fields)))
}
