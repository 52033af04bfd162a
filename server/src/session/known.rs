//! Queries with parameters that the session has seen: what they were described as, and whether they are point lookups. Clients send
//! the same few over and over, by name or again as text.

use super::lookup::{self, PointLookup};
use super::{ClientSession, read};
use crate::database::engine_error;
use crate::wire::session::{Outcome, RowTag, StatementDescription};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_catalog::{RoleId, SqlError, SqlResult};
use thalweg_planner::ast;

/// How many queries are remembered: a client that sends ever new ones gains nothing by it.
const KNOWN_MAX: usize = 256;

/// What was found out about queries, by their text.
#[derive(Default)]
pub struct KnownQueries {
    /// What that depended on.
    surroundings: Option<Surroundings>,
    queries: HashMap<String, Known>,
}

/// What a query's meaning depends on beside its text.
#[derive(PartialEq)]
struct Surroundings {
    catalog_version: u64,
    search_path: Vec<String>,
    planning: thalweg_planner::SessionSettings,
    /// As whom it runs: who may not read all of a relation reads another plan.
    role: RoleId,
    row_security: Option<String>,
}

struct Known {
    /// The types of parameters that the client gave.
    given: Vec<u32>,
    description: StatementDescription,
    lookup: Option<Arc<PointLookup>>,
}

impl ClientSession {
    /// What is known as things are now.
    fn known(&mut self) -> &mut HashMap<String, Known> {
        let now = Surroundings {
            catalog_version: self.database.catalog().version(),
            search_path: self.search_path(),
            planning: self.settings.planning(),
            role: self.authority().role,
            row_security: self.settings.get("row_security").ok(),
        };
        if self.known.surroundings.as_ref() != Some(&now) || self.known.queries.len() > KNOWN_MAX {
            self.known = KnownQueries { surroundings: Some(now), queries: HashMap::new() };
        }
        &mut self.known.queries
    }

    /// A query's parameters and columns.
    pub(super) fn describe_query(&mut self, query: &ast::Query, text: &str, given: &[u32]) -> SqlResult<StatementDescription> {
        if let Some(known) = self.known().get(text).filter(|known| known.given == given) {
            return Ok(known.description.clone());
        }
        let running = self.running();
        let (plan, types) = running.plan(query, &self.declared_types(given))?;
        let columns = self.with_origins(read::plan_columns(&running.describe(&plan)?, &plan), query, &plan);
        let oids = thalweg_planner::written_parameter_oids(query);
        // A type that the client gave is the parameter's, whatever it is carried as.
        let type_of = |(place, carried): (usize, &thalweg_catalog::SqlType)| match given.get(place) {
            Some(oid) if !matches!(oid, 0 | 705) => *oid,
            _ => oids.get(&place).copied().unwrap_or_else(|| carried.oid()),
        };
        let params: Vec<u32> = types.iter().enumerate().map(type_of).collect();
        let lookup = PointLookup::of(&plan, &columns).map(Arc::new);
        let description = StatementDescription { params, columns: Some(columns) };
        if !description.params.is_empty() {
            let known = Known { given: given.to_vec(), description: description.clone(), lookup };
            self.known().insert(text.to_string(), known);
        }
        Ok(description)
    }

    /// Runs a query that is known to be a point lookup; none if it is not, or has to be run as any other.
    pub(super) async fn look_up(&mut self, text: &str, params: &[ScalarValue], described: &[u32]) -> SqlResult<Option<Outcome>> {
        if params.is_empty() {
            return Ok(None);
        }
        let known = self.known().get(text).filter(|known| known.description.params == described);
        let Some(lookup) = known.and_then(|known| known.lookup.clone()) else { return Ok(None) };
        let Some(key) = lookup.key(params) else { return Ok(None) };
        if self.transaction.as_ref().is_some_and(|t| t.has_written(lookup.relation)) {
            return Ok(None);
        }
        let reading = match self.moment() {
            Some(moment) => moment.read(&self.database, &[lookup.relation], self.seen).await?,
            None => {
                let reading = self.database.engine().read(&[lookup.relation], self.seen).await;
                reading.map_err(|e| engine_error(&e, &self.database.catalog()))?
            }
        };
        let results = lookup.results.clone();
        // Reading may wait for a disk.
        let read = tokio::task::spawn_blocking(move || {
            let holds = reading.relations.get(&lookup.relation).map_or(&[][..], Vec::as_slice);
            lookup::read(holds, &key, &lookup.columns)
        });
        let batch = read.await.map_err(|e| SqlError::internal(format!("a lookup panicked: {e}")))?;
        let batch = batch.map_err(|e| crate::database::storage_error(&e))?;
        let rows = futures::stream::iter(batch.map(Ok)).boxed();
        Ok(Some(Outcome::Rows { columns: results, rows, tag: RowTag::Counted("SELECT") }))
    }
}
