//! DataFusion set up to mean what Postgres means.

use crate::analyze;
use crate::analyze::NoArithmetic;
use crate::first_rows::FirstRows;
use crate::functions;
use crate::logical::casts::NamedCasts;
use crate::logical::intervals::ScaledIntervals;
use crate::logical::json::JsonOperators;
use crate::logical::rules;
use crate::types::PostgresTypes;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;

/// What differs from session to session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionSettings {
    /// The session's time zone, by its IANA name or as an offset such as `+00:00`.
    pub time_zone: String,
    /// How many partitions a query is run in.
    pub target_partitions: usize,
    /// The most rows of a batch.
    pub batch_rows: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        SessionSettings { time_zone: "+00:00".to_string(), target_partitions: 2, batch_rows: 8192 }
    }
}

/// DataFusion's configuration for a session.
pub fn session_config(settings: &SessionSettings) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(settings.target_partitions.max(1))
        .with_batch_size(settings.batch_rows.max(1))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema("thalweg", thalweg_catalog::catalog::DEFAULT_SCHEMA);
    let options = config.options_mut();
    options.execution.time_zone = Some(settings.time_zone.clone());
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.enable_ident_normalization = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.collect_spans = true;
    options.sql_parser.dialect = datafusion::common::config::Dialect::PostgreSQL;
    // It takes from the right of `NOT IN` the NULLs that hide every row.
    options.optimizer.filter_null_join_keys = false;
    // The plan knows of more expressions that they are never NULL than the operators made of it do: `coalesce` over a `CASE`.
    options.execution.skip_physical_aggregate_schema_check = true;
    // It leaves NULL out of the first of distinct values.
    options.optimizer.enable_topk_aggregation = false;
    // Text is Utf8 in state, on the wire and in files; a view type in a plan would have to be cast back.
    options.optimizer.expand_views_at_output = false;
    options.execution.parquet.schema_force_view_types = false;
    config
}

/// DataFusion's state for a session: its functions and rules with ours. Cheap to clone, not so cheap to make.
pub fn session_state(settings: &SessionSettings, runtime: Arc<RuntimeEnv>) -> SessionState {
    let mut builder = SessionStateBuilder::new()
        .with_config(session_config(settings))
        .with_runtime_env(runtime)
        .with_default_features()
        .with_type_planner(Arc::new(PostgresTypes))
        .with_analyzer_rules(analyze::rules())
        .with_optimizer_rules(rules::batch())
        .with_physical_optimizer_rule(Arc::new(FirstRows));
    // Before DataFusion's own, which leaves nothing of an aggregate to plan.
    let planners: [Arc<dyn ExprPlanner>; 4] =
        [Arc::new(NamedCasts), Arc::new(NoArithmetic), Arc::new(ScaledIntervals), Arc::new(JsonOperators)];
    builder.expr_planners().get_or_insert_default().splice(0..0, planners);
    let mut state = builder.build();
    functions::register(&mut state);
    // What is computed row by row asks for the time zone too, not only what is computed when a query is planned.
    state.execution_props_mut().config_options = Some(Arc::clone(state.config_options()));
    state
}
