//! `PREPARE`, `EXECUTE` and `DEALLOCATE`.

use super::ClientSession;
use crate::wire::session::{Outcome, Prepared, Session};
use std::sync::Arc;
use std::time::SystemTime;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use thalweg_planner::{ParsedStatement, Statement};

impl ClientSession {
    pub(super) async fn prepare(&mut self, parsed: &ParsedStatement) -> SqlResult<Outcome> {
        let Statement::Prepare { name, types, statement, text } = &parsed.statement else {
            return Err(SqlError::internal("not a PREPARE"));
        };
        if self.prepared.get(&name.value).is_some() {
            return Err(SqlError::new(
                SqlState::DuplicatePreparedStatement,
                format!("prepared statement \"{}\" already exists", name.value),
            ));
        }
        let inner = ParsedStatement { statement: (**statement).clone(), text: text.clone(), offset: 0 };
        let (catalog, path) = (self.database.catalog(), self.search_path());
        let oid = |written| Ok(thalweg_planner::types::sql_type_in(written, &catalog, &path)?.oid());
        let oids = types.iter().map(oid).collect::<SqlResult<Vec<u32>>>()?;
        let description = self.describe_statement(&inner, &oids)?;
        let kept = Prepared {
            statement: Some(Arc::new(inner)),
            description,
            sql: parsed.text.clone(),
            from_sql: true,
            meaning: self.meaning(),
            since: SystemTime::now(),
        };
        self.prepared.insert(name.value.clone(), kept);
        Ok(Outcome::Tag("PREPARE".into()))
    }

    pub(super) fn deallocate(&mut self, name: Option<&str>) -> SqlResult<Outcome> {
        match name {
            None => {
                self.prepared.clear();
                Ok(Outcome::Tag("DEALLOCATE ALL".into()))
            }
            Some(name) if self.prepared.remove(name) => Ok(Outcome::Tag("DEALLOCATE".into())),
            Some(name) => {
                Err(SqlError::new(SqlState::InvalidSqlStatementName, format!("prepared statement \"{name}\" does not exist")))
            }
        }
    }

    pub(super) async fn run_prepared(&mut self, name: &str, values: &[thalweg_planner::ast::Expr]) -> SqlResult<Outcome> {
        let prepared = self.prepared_for(name, values)?;
        let Some(statement) = &prepared.statement else { return Ok(Outcome::Empty) };
        let meaning = self.meaning();
        if prepared.meaning != meaning {
            let description = self.describe_statement(statement, &prepared.description.params)?;
            self.prepared.insert(name, prepared.described_anew(description, meaning)?);
        }
        let params = self.constants(values, &prepared.description.params).await?;
        self.param_types = self.declared_types(&prepared.description.params);
        Box::pin(self.dispatch(statement, params, &prepared.description.params)).await
    }

    /// The prepared statement of this name, if it has as many parameters as there are values.
    pub(super) fn prepared_for(
        &self,
        name: &str,
        values: &[thalweg_planner::ast::Expr],
    ) -> SqlResult<Arc<Prepared<ParsedStatement>>> {
        let missing =
            || SqlError::new(SqlState::InvalidSqlStatementName, format!("prepared statement \"{name}\" does not exist"));
        let prepared = Arc::clone(self.prepared.get(name).ok_or_else(missing)?);
        if values.len() != prepared.description.params.len() {
            return Err(SqlError::syntax(format!("wrong number of parameters for prepared statement \"{name}\""))
                .with_detail(format!("Expected {} parameters but got {}.", prepared.description.params.len(), values.len())));
        }
        Ok(prepared)
    }
}
