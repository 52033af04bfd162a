//! The whole of a lowering: a query under the root of a view or sink, and the plan of a table.

use super::expressions::{Physical, column};
use super::facts::{Facts, Known, Spread, closing_column};
use super::finish::{drop_unread_ranks, finish};
use super::graph::Graph;
use super::on_close;
use super::query::Lowering;
use super::relation::{Relation, schema_of};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use thalweg_catalog::column::{Column, schema_of as schema_of_columns};
use thalweg_catalog::object::{CatalogObject, Emit, ObjectDefinition, SinkMode};
use thalweg_catalog::{Catalog, ObjectId, SqlError, SqlResult, SqlState};
use thalweg_plan::{DeltaKind, Edge, Exchange, MapExpr, NodeId, Operator, StreamPlan};

/// What a plan is lowered against.
pub struct Context<'a> {
    /// The objects that the query reads.
    pub catalog: &'a Catalog,
    /// The plan of a table's or view's own job, where it is at hand: tells what changes its rows can see, and which of its
    /// columns carry a watermark. Without it a view's rows may change in any way and carry none.
    pub plans: &'a dyn Fn(ObjectId) -> Option<Arc<StreamPlan>>,
    /// What expressions are made with: those of the planner that made the query's plan.
    pub options: Arc<ConfigOptions>,
}

/// What stands at the top of the plan.
#[derive(Clone, PartialEq, Debug)]
pub enum Root {
    /// A materialized view.
    Materialize {
        /// The view.
        object: ObjectId,
        /// Its columns: as many as the query has.
        columns: Vec<Column>,
    },
    /// A sink.
    Sink {
        /// The sink.
        object: ObjectId,
        /// Its columns: as many as the query has.
        columns: Vec<Column>,
        /// In what shape rows are sent.
        mode: SinkMode,
        /// The columns of the target's key, for an upsert sink.
        key: Vec<usize>,
    },
}

impl Root {
    fn columns(&self) -> &[Column] {
        match self {
            Root::Materialize { columns, .. } | Root::Sink { columns, .. } => columns,
        }
    }
}

/// A streaming plan, and what the user should be told about it.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The plan.
    pub plan: StreamPlan,
    /// Notices that name state which can't be bounded, and how to bound it.
    pub notices: Vec<String>,
}

impl Lowered {
    /// The columns by which the rows of a materialized view are unique: what its catalog object keeps. Empty if not known.
    pub fn key(&self) -> Vec<usize> {
        match &self.plan.root().operator {
            Operator::Materialize { key, .. } | Operator::Sink { key, .. } => key.clone(),
            _ => vec![],
        }
    }
}

/// The streaming plan of an optimised query under a root.
///
/// # Errors
/// `0A000` for what no operator computes; `42P16` for an append-only sink of rows that can be taken back; `42P10` for
/// `EMIT ON WINDOW CLOSE` without a column that a watermark closes.
pub fn lower(plan: &LogicalPlan, root: &Root, context: &Context<'_>, emit: Emit) -> SqlResult<Lowered> {
    let mut lowering = Lowering::new(plan, context)?;
    let relation = lowering.lower(plan)?;
    let mut graph = lowering.graph;
    let declared = schema_of_columns(root.columns());
    let top = with_declared_columns(relation, &mut graph, &declared)?;
    drop_unread_ranks(&mut graph.nodes, top)?;
    let mut known = Known::default();
    known.extend(&mut graph.nodes, context)?;
    let top = match emit {
        Emit::Immediate => top,
        Emit::OnWindowClose => emit_on_close(top, &mut graph, &mut known, context)?,
    };
    add_root(root, top, declared, &mut graph, &mut known, context)?;
    Ok(Lowered { plan: finish(graph.nodes), notices: known.notices })
}

/// The streaming plan that keeps a table's rows.
///
/// # Errors
/// `42809` for an object that is no table.
pub fn lower_table(object: &CatalogObject) -> SqlResult<StreamPlan> {
    let ObjectDefinition::Table { primary_key, connector, watermark } = &object.definition else {
        return Err(SqlError::new(SqlState::WrongObjectType, format!("\"{}\" is not a table", object.name)));
    };
    let schema = object.arrow_schema();
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let mut graph = Graph::new(Arc::default());
    let input = match connector {
        Some(_) => Operator::Source { object: object.id, columns: all.clone() },
        None => Operator::TableInput { object: object.id },
    };
    let mut top = graph.add(input, vec![], Arc::clone(&schema));
    if let Some(spec) = watermark {
        top = graph.add(Operator::WatermarkFilter { spec: spec.clone() }, vec![(top, Exchange::Local)], Arc::clone(&schema));
    }
    let exchange = Exchange::Hash(if primary_key.is_empty() { all } else { primary_key.clone() });
    graph.add(
        Operator::Materialize { object: object.id, key: primary_key.clone(), replaces: true },
        vec![(top, exchange)],
        schema,
    );
    let context = Context { catalog: &Catalog::new(), plans: &|_| None, options: Arc::default() };
    let mut known = Known::default();
    known.extend(&mut graph.nodes, &context)?;
    let mut plan = finish(graph.nodes);
    if let Some(root) = plan.nodes.last_mut()
        && !primary_key.is_empty()
    {
        // A row replaces the one of its key that is there, whatever the input brings.
        root.kind = DeltaKind::Retract;
    }
    Ok(plan)
}

/// The query's rows in the declared names and types.
fn with_declared_columns(relation: Relation, graph: &mut Graph, declared: &SchemaRef) -> SqlResult<NodeId> {
    if relation.columns.len() != declared.fields().len() {
        return Err(SqlError::internal(format!(
            "the query has {} columns where {} are declared",
            relation.columns.len(),
            declared.fields().len()
        )));
    }
    if declared.fields().is_empty() {
        return Err(SqlError::unsupported("a query without columns can't be kept up to date"));
    }
    let types: Vec<DataType> = declared.fields().iter().map(|f| f.data_type().clone()).collect();
    let mut relation = relation.cast_columns(graph, &types)?;
    if relation.is_exactly(graph, declared) {
        return Ok(relation.node);
    }
    for (column, field) in relation.columns.iter_mut().zip(declared.fields()) {
        column.name.clone_from(field.name());
    }
    add_map(graph, relation.node, relation.predicate, relation.columns)
}

fn add_map(graph: &mut Graph, input: NodeId, predicate: Option<Physical>, exprs: Vec<MapExpr>) -> SqlResult<NodeId> {
    let schema = schema_of(&exprs, graph.schema(input))?;
    let inputs = vec![Edge { from: input, exchange: Exchange::Local }];
    Ok(graph.push(Operator::Map { predicate, exprs }, inputs, schema))
}

/// Holds the rows of `top` back until they are final.
fn emit_on_close(top: NodeId, graph: &mut Graph, known: &mut Known, context: &Context<'_>) -> SqlResult<NodeId> {
    if let Some(column) = closing_column(&known.facts[top.0], graph.schema(top)) {
        if wait_below(graph, known, context, (top, column))? {
            return Ok(top);
        }
        let node = add_emit_on_close(graph, top, column, &known.facts[top.0]);
        known.extend(&mut graph.nodes, context)?;
        return Ok(node);
    }
    // The query does not show a window, but may group by one: then its end is carried along up to here, unseen.
    let Operator::Map { predicate, exprs } = graph.nodes[top.0].operator.clone() else {
        return Err(no_closing_column());
    };
    let below = graph.nodes[top.0].inputs[0].from;
    let hidden = closing_column(&known.facts[below.0], graph.schema(below)).ok_or_else(no_closing_column)?;
    if wait_below(graph, known, context, (below, hidden))? {
        return Ok(top);
    }
    let shown = exprs.len();
    let mut with_hidden = exprs;
    with_hidden
        .push(MapExpr { expr: column(graph.schema(below), hidden), name: graph.schema(below).field(hidden).name().clone() });
    let wide = add_map(graph, below, predicate, with_hidden)?;
    known.extend(&mut graph.nodes, context)?;
    let closed = add_emit_on_close(graph, wide, shown, &known.facts[wide.0]);
    let narrow = (0..shown).collect::<Vec<_>>();
    let columns = Relation::some_of(graph, closed, &narrow).columns;
    let node = add_map(graph, closed, None, columns)?;
    known.extend(&mut graph.nodes, context)?;
    Ok(node)
}

/// Lets groupings below `top` wait until they close. Whether all its rows are final then.
fn wait_below(graph: &mut Graph, known: &mut Known, context: &Context<'_>, (top, column): (NodeId, usize)) -> SqlResult<bool> {
    if on_close::take_down(&mut graph.nodes, &known.facts, top, column) {
        *known = Known::default();
        known.extend(&mut graph.nodes, context)?;
    }
    Ok(on_close::is_final(&graph.nodes, top))
}

/// Rows wait with the owner of a key, so that they can move with it when workers come or go. They go by what they are
/// spread by already, which moves none, else by their time.
fn add_emit_on_close(graph: &mut Graph, input: NodeId, column: usize, facts: &Facts) -> NodeId {
    let exchange = match &facts.spread {
        Spread::ByHash(columns) => Exchange::Hash(columns.clone()),
        Spread::OnOne => Exchange::Single,
        Spread::Anywhere => Exchange::Hash(vec![column]),
    };
    let schema = Arc::clone(graph.schema(input));
    graph.push(Operator::EmitOnClose { column }, vec![Edge { from: input, exchange }], schema)
}

fn no_closing_column() -> SqlError {
    SqlError::new(SqlState::InvalidColumnReference, "EMIT ON WINDOW CLOSE needs a column that a watermark closes")
        .with_detail("No column of the query carries a watermark.")
        .with_hint(
            "Declare WATERMARK FOR on the source, and group by window_start and window_end of TUMBLE or HOP, or select the column with the watermark.",
        )
}

/// Of rows with one key of an upsert sink only the first, where rows can go: the next one then shows, and nobody takes the key
/// for gone. Rows that never go replace each other as they come.
fn one_for_each_key(
    top: NodeId,
    key: &[usize],
    graph: &mut Graph,
    known: &mut Known,
    context: &Context<'_>,
) -> SqlResult<NodeId> {
    let facts = &known.facts[top.0];
    if facts.is_decided_by(|column| key.contains(&column)) || facts.kind == DeltaKind::Append {
        return Ok(top);
    }
    let first = Operator::TopN { partition: key.to_vec(), order: vec![], offset: 0, limit: Some(1), with_rank: false };
    let inputs = vec![Edge { from: top, exchange: Exchange::Hash(key.to_vec()) }];
    let schema = Arc::clone(graph.schema(top));
    let node = graph.push(first, inputs, schema);
    known.extend(&mut graph.nodes, context)?;
    Ok(node)
}

fn add_root(
    root: &Root,
    top: NodeId,
    declared: SchemaRef,
    graph: &mut Graph,
    known: &mut Known,
    context: &Context<'_>,
) -> SqlResult<()> {
    let top = match root {
        Root::Sink { mode: SinkMode::Upsert, key, .. } if !key.is_empty() => one_for_each_key(top, key, graph, known, context)?,
        _ => top,
    };
    let facts = &known.facts[top.0];
    let (operator, exchange) = match root {
        Root::Materialize { object, .. } => {
            let key = materialized_key(facts);
            // A multiset's readers go by all columns in order.
            let by = if key.is_empty() { (0..declared.fields().len()).collect() } else { key.clone() };
            (Operator::Materialize { object: *object, key, replaces: false }, Exchange::Hash(by))
        }
        Root::Sink { object, mode, key, .. } => {
            if *mode == SinkMode::AppendOnly && facts.kind == DeltaKind::Retract {
                return Err(SqlError::new(
                    SqlState::InvalidTableDefinition,
                    "an append-only sink can't take rows back, and this query's rows can change",
                )
                .with_hint("Use type = 'upsert' with primary_key, type = 'changelog', or EMIT ON WINDOW CLOSE over a window."));
            }
            if *mode == SinkMode::Upsert && key.is_empty() {
                return Err(
                    SqlError::invalid_parameter("an upsert sink needs a primary key").with_hint("Add primary_key = '…' to WITH.")
                );
            }
            let exchange = if *mode == SinkMode::Upsert { Exchange::Hash(key.clone()) } else { Exchange::Local };
            (Operator::Sink { object: *object, mode: *mode, key: key.clone() }, exchange)
        }
    };
    graph.push(operator, vec![Edge { from: top, exchange }], declared);
    known.extend(&mut graph.nodes, context)
}

/// The key of a view, in the order in which its rows are spread already if that is one.
fn materialized_key(facts: &Facts) -> Vec<usize> {
    let key = facts.key.clone().unwrap_or_default();
    match &facts.spread {
        Spread::ByHash(by) if by.len() == key.len() && by.iter().all(|c| key.contains(c)) => by.clone(),
        _ => key,
    }
}
