//! `EXPLAIN`.

use super::ClientSession;
use super::show::{rows_of, text_batch, text_columns};
use crate::access::relations::CheckedRelations;
use crate::database::connectors::Connectors;
use crate::wire::session::{Outcome, ResultColumn};
use thalweg_catalog::object::Emit;
use thalweg_catalog::{SqlError, SqlResult, SqlType};
use thalweg_planner::bind::{self, BindContext};
use thalweg_planner::logical::{output_columns, substitute_parameters};
use thalweg_planner::lower::{Context, Root, lower};
use thalweg_planner::statement::{Explain, ExplainStage};
use thalweg_planner::{Scope, Statement, ast, explain as print};

/// The name that a query has in its own plan, as no object has it yet.
const UNNAMED: &str = "query";

impl ClientSession {
    pub(super) async fn explain(&mut self, explain: &Explain) -> SqlResult<Outcome> {
        if explain.analyze {
            return Err(SqlError::unsupported("EXPLAIN ANALYZE is not supported")
                .with_hint("See thalweg.operators for what each operator of a running job does."));
        }
        let mut lines = match explain.statement.as_ref() {
            Statement::Execute { name, values } => self.explain_prepared(&name.value, values).await?,
            statement => self.explain_lines(statement, &explain.text)?,
        };
        if explain.json {
            return in_json(&lines, explain.stage);
        }
        match explain.stage {
            None => {}
            Some(ExplainStage::Logical) => lines = section(&lines, "Logical plan"),
            Some(ExplainStage::Physical) => lines = section(&lines, "Streaming plan"),
            Some(ExplainStage::Raw) => {
                return Err(SqlError::unsupported("EXPLAIN (RAW) is not supported").with_hint("LOGICAL and PHYSICAL are."));
            }
        }
        let rows = lines.into_iter().map(|line| vec![line]).collect();
        Ok(rows_of(text_columns(&["QUERY PLAN"]), text_batch(&["QUERY PLAN"], rows)?, "EXPLAIN"))
    }

    /// The plan by which a prepared query is read with these parameters.
    async fn explain_prepared(&mut self, name: &str, values: &[ast::Expr]) -> SqlResult<Vec<String>> {
        let prepared = self.prepared_for(name, values)?;
        let statement = prepared.statement.as_ref().map(|parsed| &parsed.statement);
        let Some(Statement::Query(query)) = statement else {
            let tag = statement.map_or("", Statement::tag);
            return Err(SqlError::unsupported(format!("EXPLAIN {tag} is not supported")));
        };
        let params = self.constants(values, &prepared.description.params).await?;
        let running = self.running();
        let (plan, _) = running.plan(query, &self.declared_types(&prepared.description.params))?;
        let plan = substitute_parameters(plan, &params)?;
        Ok(print::explain_read(&running.planner.optimize_batch(&plan, crate::database::now_us())?))
    }

    fn explain_lines(&mut self, statement: &Statement, text: &str) -> SqlResult<Vec<String>> {
        let (authority, path) = (self.authority(), self.search_path());
        let catalog = std::sync::Arc::clone(&authority.catalog);
        let (relations, connectors) =
            (CheckedRelations(&authority), Connectors { vault: self.database.vault(), authority: &authority });
        let context = BindContext {
            planner: self.database.planner(),
            catalog: &catalog,
            relations: &relations,
            search_path: &path,
            connectors: &connectors,
            sql: text,
            now_ms: crate::database::now_ms(),
        };
        let plans = |id| self.database.plan(id);
        let lowering = Context {
            catalog: &catalog,
            plans: &plans,
            options: std::sync::Arc::clone(context.planner.state().config_options()),
        };
        let id = catalog.next_id();
        let bound = match statement {
            Statement::CreateMaterializedView(create) => bind::bind_create_materialized_view(create, &context)?,
            Statement::CreateSink(create) => bind::bind_create_sink(create, &context)?,
            Statement::Query(query) => {
                let scope = Scope { catalog: &catalog, relations: &relations, search_path: &path };
                let streamed = context.planner.plan_query(query, &scope, &[]).and_then(|bound| {
                    let plan = context.planner.optimize_stream(&bound.plan)?;
                    let root = Root::Materialize { object: id, columns: output_columns(plan.schema())? };
                    let lowered = lower(&plan, &root, &lowering, Emit::Immediate)?;
                    Ok(print::explain(&plan, &lowered, &catalog, UNNAMED))
                });
                // What can't be kept up to date can still be read.
                return match streamed {
                    Ok(lines) => Ok(lines),
                    Err(_) => {
                        let running = self.running();
                        let (plan, _) = running.plan(query, &[])?;
                        let plan = running.planner.optimize_batch(&plan, crate::database::now_us())?;
                        Ok(print::explain_read(&plan))
                    }
                };
            }
            other => return Err(SqlError::unsupported(format!("EXPLAIN {} is not supported", other.tag()))),
        };
        let bound = bound.ok_or_else(|| SqlError::internal("the name is taken"))?;
        let (root, emit) = match &bound.object.definition {
            thalweg_catalog::ObjectDefinition::Sink { emit, mode, key, .. } => {
                let columns = bound.object.columns.clone();
                (Root::Sink { object: id, columns, mode: *mode, key: key.clone() }, *emit)
            }
            thalweg_catalog::ObjectDefinition::MaterializedView { emit, .. } => {
                (Root::Materialize { object: id, columns: bound.object.columns.clone() }, *emit)
            }
            _ => return Err(SqlError::internal("only views and sinks are explained")),
        };
        let lowered = lower(&bound.plan, &root, &lowering, emit)?;
        Ok(print::explain(&bound.plan, &lowered, &catalog, &bound.object.name))
    }
}

/// The stages by their headings, each as its lines.
fn in_json(lines: &[String], stage: Option<ExplainStage>) -> SqlResult<Outcome> {
    let wanted = |heading: &str| match stage {
        None => true,
        Some(ExplainStage::Physical) => heading == "Streaming plan",
        Some(_) => heading == "Logical plan",
    };
    let headings = ["Logical plan", "Streaming plan"].into_iter().filter(|h| wanted(h) && lines.iter().any(|line| line == h));
    let stages: serde_json::Map<_, _> = headings.map(|heading| (heading.to_string(), section(lines, heading).into())).collect();
    let text = serde_json::Value::from(vec![serde_json::Value::Object(stages)]).to_string();
    let column = ResultColumn::new("QUERY PLAN", SqlType::Json);
    Ok(rows_of(vec![column], text_batch(&["QUERY PLAN"], vec![vec![text]])?, "EXPLAIN"))
}

/// The lines under a heading.
fn section(lines: &[String], heading: &str) -> Vec<String> {
    let start = lines.iter().position(|line| line == heading).map_or(0, |place| place + 1);
    lines[start..].iter().take_while(|line| line.starts_with(' ')).map(|line| line.trim_start_matches("  ").to_string()).collect()
}
