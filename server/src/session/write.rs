//! `INSERT`, `UPDATE`, `DELETE`, `COPY`.

use super::ClientSession;
use super::hold::hold_new;
use super::read::{from_object, result_columns};
use super::transaction::Transaction;
use crate::database::change::{self, Change, Kind};
use crate::database::locks::Holder;
use crate::database::moment;
use crate::database::pending::Pending;
use crate::database::query::{Statement as Running, Target};
use crate::wire::copy as wire_copy;
use crate::wire::session::{CopySink, Outcome, ResultColumn, RowTag, StatementDescription};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{CatalogObject, Column, Delta, Epoch, Privileges, SqlError, SqlResult, SqlState, SqlType};
use thalweg_planner::Statement;
use thalweg_planner::dml::{self, BoundChange, OnTaken};
use thalweg_planner::reads::read_by_change;
use thalweg_planner::statement::{Copy, CopyDirection, CopyFormat, CopyOptions, Name, Word};

fn bind_change(running: &Running, statement: &Statement, declared: &[Option<SqlType>], target: Target) -> SqlResult<BoundChange> {
    let relations = running.relation_source_of(target);
    let scope = running.scope(&relations);
    match statement {
        Statement::Insert(insert) => dml::bind_insert(&running.planner, insert, &scope, declared),
        Statement::Update(update) => dml::bind_update(&running.planner, update, &scope, declared),
        Statement::Delete(delete) => dml::bind_delete(&running.planner, delete, &scope, declared),
        _ => Err(SqlError::internal("not a change of data")),
    }
}

/// The table that a change is of, and the columns that it writes.
fn changed(running: &Running, statement: &Statement) -> SqlResult<(Arc<CatalogObject>, BTreeSet<usize>)> {
    let relations = running.relation_source();
    dml::changed(statement, &running.scope(&relations))
}

/// The rows of `RETURNING`.
fn returned(
    running: &Running,
    plan: &LogicalPlan,
    table: &CatalogObject,
    rows: &RecordBatch,
) -> SqlResult<(Vec<ResultColumn>, RecordBatch)> {
    let returning = dml::returning_exprs(&running.planner, plan, table, crate::database::now_us())?;
    let arrays: Vec<ArrayRef> = returning
        .exprs
        .iter()
        .map(|expr| {
            expr.evaluate(rows).and_then(|value| value.into_array(rows.num_rows())).map_err(|e| thalweg_planner::sql_error(&e))
        })
        .collect::<SqlResult<_>>()?;
    let fields: Vec<_> = returning
        .columns
        .iter()
        .zip(&arrays)
        .map(|(c, a)| arrow::datatypes::Field::new(&c.name, a.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
    Ok((from_object(result_columns(&returning.columns), table), batch))
}

impl ClientSession {
    pub(super) fn describe_change(
        &mut self,
        statement: &Statement,
        declared: &[Option<SqlType>],
    ) -> SqlResult<StatementDescription> {
        let running = self.running();
        let (table, _) = changed(&running, statement)?;
        let bound = bind_change(&running, statement, declared, Target::of(statement, &table))?;
        let columns = match &bound.returning {
            None => None,
            Some(plan) => Some(from_object(result_columns(&running.describe(plan)?), &bound.table)),
        };
        Ok(StatementDescription { params: bound.parameters.iter().map(SqlType::oid).collect(), columns })
    }

    pub(super) async fn change(&mut self, statement: &Statement, params: &[ScalarValue]) -> SqlResult<Outcome> {
        let running = self.running();
        let (table, columns) = changed(&running, statement)?;
        self.check_change(statement, &table, &columns)?;
        let target = Target::of(statement, &table);
        let restricted = !running.authority.columns_without(running.authority.role, &table, Privileges::SELECT).is_empty();
        for query in read_by_change(statement).iter().filter(|_| restricted) {
            let bound = bind_change(&running, statement, &self.declared(params), target)?;
            running.check_reads(query, table.id, &bound.parameters)?;
        }
        self.change_of(statement, params, target, &table, &columns).await
    }

    /// Carries out a change of these columns that may be made.
    async fn change_of(
        &mut self,
        statement: &Statement,
        params: &[ScalarValue],
        target: Target,
        table: &Arc<CatalogObject>,
        columns: &BTreeSet<usize>,
    ) -> SqlResult<Outcome> {
        let kind = match statement {
            Statement::Insert(_) => Kind::Insert,
            Statement::Update(_) => Kind::Update,
            _ => Kind::Delete,
        };
        let mut running = self.running();
        let bound = bind_change(&running, statement, &self.declared(params), target)?;
        let holder = self.holder();
        // What is read is locked before.
        let mut settled = Epoch::default();
        if running.relations.wanted().contains(&table.id) && (kind != Kind::Insert || !table.key().is_empty()) {
            settled = self.hold_read(&holder, table, &bound.plan, params, (&kind, columns)).await?;
            running.at_least = settled.max(running.at_least);
            self.seen = self.seen.max(settled);
        }
        let rows = running.run(bound.plan, params).await?;
        let mut rows = change::collect(rows, &change_schema(table, &kind)).await?;
        // New rows are locked when they are known: those of other keys may be added meanwhile.
        if kind == Kind::Insert {
            settled = settled.max(hold_new(&holder, table, &rows, self.settings.lock_timeout()).await?);
        }
        let may_be_taken = !table.key().is_empty() && rows.num_rows() > 0;
        if matches!(bound.on_taken, OnTaken::Skip) && may_be_taken {
            let reading = change::read_since(&running, table.id, settled).await?;
            rows = change::free_rows(table, &rows, &self.pending(table), &reading)?;
        }
        let change = match bound.on_taken {
            OnTaken::Update(update) if may_be_taken => {
                self.replacing(&running, (update, params), table, &rows, (holder.as_ref(), settled)).await?
            }
            _ => {
                self.check_unchanged(&running, (&kind, settled), table, &rows).await?;
                self.checked(&running, (&kind, settled), table, &rows).await?
            }
        };
        let answer = match &bound.returning {
            None => None,
            Some(plan) => Some(returned(&running, plan, table, &change.returned)?),
        };
        let count = change.rows;
        self.write_change(table, change.delta, holder).await?;
        let verb = match kind {
            Kind::Insert => "INSERT 0",
            Kind::Update => "UPDATE",
            Kind::Delete => "DELETE",
        };
        Ok(match answer {
            None => Outcome::Tag(format!("{verb} {count}")),
            Some((columns, batch)) => {
                let rows = futures::stream::once(async move { Ok(batch) }).boxed();
                Outcome::Rows { columns, rows, tag: RowTag::Counted(verb) }
            }
        })
    }

    /// Deletes all rows of some tables, all or none.
    pub(super) async fn truncate(&mut self, names: &[Name]) -> SqlResult<Outcome> {
        if self.transaction.is_none() {
            self.transaction = Some(Transaction::new(false, &self.settings));
        }
        for name in names {
            let placed = |error: SqlError| error.at(name.position);
            let schema = name.schema.as_ref().map(|schema| format!("{}.", quoted(schema))).unwrap_or_default();
            let delete = thalweg_planner::parse(&format!("DELETE FROM {schema}{}", quoted(&name.name)))?;
            for parsed in &delete {
                let (table, columns) = changed(&self.running(), &parsed.statement).map_err(placed)?;
                self.authority().check_relation(&table, Privileges::TRUNCATE).map_err(placed)?;
                let target = Target::Emptied(table.id);
                self.change_of(&parsed.statement, &[], target, &table, &columns).await.map_err(placed)?;
            }
        }
        Ok(Outcome::Tag("TRUNCATE TABLE".into()))
    }

    /// Refuses to change rows that others have changed since the moment that the transaction sees.
    async fn check_unchanged(
        &self,
        running: &Running,
        (kind, settled): (&Kind, Epoch),
        table: &Arc<CatalogObject>,
        rows: &RecordBatch,
    ) -> SqlResult<()> {
        let Some(seen) = running.moment.as_ref().and_then(|moment| moment.epoch()) else { return Ok(()) };
        if *kind == Kind::Insert || rows.num_rows() == 0 {
            return Ok(());
        }
        if table.key().is_empty() {
            let changed = self.database.written(table.id) > seen;
            return if changed { Err(moment::conflict("concurrent update")) } else { Ok(()) };
        }
        let reading = change::read_since(running, table.id, settled).await?;
        change::check_unchanged(table, rows, &self.pending(table), &reading)
    }

    /// What the transaction has written to a table.
    pub(super) fn pending(&self, table: &Arc<CatalogObject>) -> Pending {
        self.transaction.as_ref().map_or_else(|| Pending::new(table), |transaction| transaction.pending(table))
    }

    async fn checked(
        &mut self,
        running: &Running,
        (kind, settled): (&Kind, Epoch),
        table: &Arc<CatalogObject>,
        rows: &RecordBatch,
    ) -> SqlResult<Change> {
        let pending = self.pending(table);
        let reading = match kind {
            Kind::Delete => None,
            _ if table.key().is_empty() || rows.num_rows() == 0 => None,
            _ => Some(change::read_since(running, table.id, settled).await?),
        };
        change::change_of(kind, table, rows, &pending, reading.as_ref())
    }

    pub(super) async fn write_change(&mut self, table: &Arc<CatalogObject>, delta: Delta, holder: Arc<Holder>) -> SqlResult<()> {
        match &mut self.transaction {
            Some(transaction) => transaction.add(table, delta)?,
            None if delta.is_empty() => {}
            None => {
                let epoch = self.database.write(vec![(table.id, delta)], holder, None).await?;
                self.seen = self.seen.max(epoch);
            }
        }
        Ok(())
    }

    /// Takes over what copies have written since the last statement.
    ///
    /// # Errors
    /// Those of adding to the transaction, which has failed then.
    pub(super) fn take_copied(&mut self) -> SqlResult<()> {
        let copied = std::mem::take(&mut *self.copied.lock());
        for copied in copied {
            match (copied, &mut self.transaction) {
                (Copied::Written(epoch), _) => self.seen = self.seen.max(epoch),
                (Copied::Pending(table, delta), Some(transaction)) if !transaction.failed => {
                    transaction.add(&table, delta).inspect_err(|_| transaction.fail())?;
                }
                // The transaction has been rolled back meanwhile, and the rows with it.
                (Copied::Pending(..), _) => {}
            }
        }
        Ok(())
    }

    pub(super) async fn copy(&mut self, copy: &Copy, params: &[ScalarValue]) -> SqlResult<Outcome> {
        let options = copy_options(&copy.options)?;
        match &copy.direction {
            CopyDirection::ToFromRelation { name, columns } => {
                let list = if columns.is_empty() {
                    "*".to_string()
                } else {
                    columns.iter().map(|c| quoted(&c.value)).collect::<Vec<_>>().join(", ")
                };
                let relation = match &name.schema {
                    Some(schema) => format!("{}.{}", quoted(schema), quoted(&name.name)),
                    None => quoted(&name.name),
                };
                let query = thalweg_planner::parse_query(&format!("SELECT {list} FROM {relation}"))?;
                let (columns, rows) = self.rows(&query, &[]).await?;
                Ok(Outcome::CopyOut { columns, rows, options })
            }
            CopyDirection::ToFromQuery(query) => {
                let (columns, rows) = self.rows(&query.query, params).await?;
                Ok(Outcome::CopyOut { columns, rows, options })
            }
            CopyDirection::ToFromStatement(statement) => match self.change(statement, params).await? {
                Outcome::Rows { columns, rows, .. } => Ok(Outcome::CopyOut { columns, rows, options }),
                _ => Err(SqlError::unsupported("COPY query must have a RETURNING clause")),
            },
            CopyDirection::ToFromSubscribe(subscribe) => {
                let (columns, rows) = self.follow(subscribe).await?;
                Ok(Outcome::CopyOut { columns, rows, options })
            }
            CopyDirection::From { name, columns } => self.copy_in(name, columns, options).await,
        }
    }

    async fn copy_in(&mut self, name: &Name, columns: &[Word], options: wire_copy::CopyOptions) -> SqlResult<Outcome> {
        let running = self.running();
        let relations = running.relation_source();
        let table = dml::writable(name, &running.scope(&relations))?;
        let places = if columns.is_empty() {
            (0..table.columns.len()).collect()
        } else {
            columns.iter().map(|word| place_of(&table, word)).collect::<SqlResult<Vec<usize>>>()?
        };
        self.check_copy(&table, &places)?;
        let holder = self.holder();
        let given: Vec<Column> = places.iter().map(|p| Column { nullable: true, ..table.columns[*p].clone() }).collect();
        let pending = self.pending(&table);
        let defaults = self.defaults(&table, &places).await?;
        let database = Arc::clone(&self.database);
        let sink = TableCopy {
            running: self.running(),
            database,
            table: Arc::clone(&table),
            places,
            defaults,
            pending,
            batches: vec![],
            holder,
            lock_timeout: self.settings.lock_timeout(),
            in_transaction: self.transaction.is_some(),
            copied: Arc::clone(&self.copied),
        };
        Ok(Outcome::CopyIn { columns: given, options, relation: table.name.clone(), sink: Box::new(sink) })
    }

    fn check_copy(&self, table: &CatalogObject, places: &[usize]) -> SqlResult<()> {
        self.authority().check_columns(table, &places.iter().copied().collect(), Privileges::INSERT)?;
        match self.check_insert_policy(table) {
            Ok(()) => Ok(()),
            Err(_) => Err(SqlError::unsupported("COPY FROM not supported with row-level security")
                .with_hint("Use INSERT statements instead.")),
        }
    }

    /// The default values of the columns that are not given.
    async fn defaults(&mut self, table: &CatalogObject, given: &[usize]) -> SqlResult<Vec<Option<ScalarValue>>> {
        let mut defaults = vec![];
        for (place, column) in table.columns.iter().enumerate() {
            let value = match &column.default {
                Some(text) if !given.contains(&place) => {
                    // The text of an array, and of what is carried by text, has that type only where it is cast.
                    let value = match &column.sql_type {
                        SqlType::Array(_) | SqlType::Carried(_) => {
                            format!("CAST({text} AS {})", thalweg_planner::types::written(&column.sql_type))
                        }
                        _ => text.clone(),
                    };
                    let query = thalweg_planner::parse_query(&format!("SELECT {value}"))?;
                    let (_, mut rows) = self.rows(&query, &[]).await?;
                    let first = rows.next().await.ok_or_else(|| SqlError::internal("a default has no value"))??;
                    let value = ScalarValue::try_from_array(first.column(0), 0).map_err(|e| thalweg_planner::sql_error(&e))?;
                    Some(value.cast_to(&column.sql_type.to_arrow()).map_err(|e| thalweg_planner::sql_error(&e))?)
                }
                _ => None,
            };
            defaults.push(value);
        }
        Ok(defaults)
    }
}

/// The columns that a statement's rows have.
fn change_schema(table: &CatalogObject, kind: &Kind) -> SchemaRef {
    let one = change::unchecked_schema(table);
    match kind {
        Kind::Insert | Kind::Delete => one,
        Kind::Update => {
            let fields: Vec<_> = one.fields().iter().chain(one.fields()).cloned().collect();
            Arc::new(Schema::new(fields))
        }
    }
}

pub(super) fn place_of(table: &CatalogObject, word: &Word) -> SqlResult<usize> {
    table.columns.iter().position(|c| c.name == word.value).ok_or_else(|| {
        SqlError::new(
            SqlState::UndefinedColumn,
            format!("column \"{}\" of relation \"{}\" does not exist", word.value, table.name),
        )
        .at(word.position)
    })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn copy_options(options: &CopyOptions) -> SqlResult<wire_copy::CopyOptions> {
    let one = |what: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) if text.len() == 1 => Ok(Some(text.as_bytes()[0])),
        Some(_) => Err(SqlError::unsupported(format!("COPY {what} must be a single one-byte character"))),
    };
    let format = match options.format {
        CopyFormat::Text => wire_copy::CopyFormat::Text,
        CopyFormat::Csv => wire_copy::CopyFormat::Csv,
        CopyFormat::Binary => wire_copy::CopyFormat::Binary,
    };
    let mut chosen = wire_copy::CopyOptions::of_format(format);
    chosen.header = options.header;
    chosen.delimiter = one("delimiter", &options.delimiter)?.unwrap_or(chosen.delimiter);
    chosen.null = options.null.clone().unwrap_or(chosen.null);
    chosen.quote = one("quote", &options.quote)?.unwrap_or(chosen.quote);
    // In CSV the escape is the quote unless something else is asked for.
    chosen.escape = one("escape", &options.escape)?.unwrap_or(chosen.quote);
    chosen.force_quote = match &options.force_quote {
        Some(columns) if columns.is_empty() => wire_copy::ForcedColumns::All,
        columns => wire_copy::ForcedColumns::Named(columns.clone().unwrap_or_default()),
    };
    chosen.force_not_null = options.force_not_null.clone();
    chosen.force_null = options.force_null.clone();
    Ok(chosen)
}

/// Rows of a `COPY … FROM STDIN`, written together at its end.
struct TableCopy {
    running: Running,
    database: Arc<crate::database::Database>,
    table: Arc<CatalogObject>,
    places: Vec<usize>,
    defaults: Vec<Option<ScalarValue>>,
    pending: Pending,
    batches: Vec<RecordBatch>,
    holder: Arc<Holder>,
    lock_timeout: Duration,
    /// Whether the rows are written with the transaction that the copy is in.
    in_transaction: bool,
    copied: Arc<Mutex<Vec<Copied>>>,
}

/// What a copy leaves for its session.
pub enum Copied {
    /// It was written at this epoch.
    Written(Epoch),
    /// It is to be written with the session's transaction.
    Pending(Arc<CatalogObject>, Delta),
}

#[async_trait]
impl CopySink for TableCopy {
    async fn write(&mut self, batch: RecordBatch) -> SqlResult<()> {
        let schema = change::unchecked_schema(&self.table);
        let mut columns: Vec<ArrayRef> = vec![];
        for (place, field) in schema.fields().iter().enumerate() {
            columns.push(match (self.places.iter().position(|p| *p == place), &self.defaults[place]) {
                (Some(given), _) => Arc::clone(batch.column(given)),
                (None, Some(value)) => value.to_array_of_size(batch.num_rows()).map_err(|e| thalweg_planner::sql_error(&e))?,
                (None, None) => new_null_array(field.data_type(), batch.num_rows()),
            });
        }
        let batch = RecordBatch::try_new(schema, columns).map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
        self.batches.push(batch);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> SqlResult<u64> {
        let rows = concat_batches(&change::unchecked_schema(&self.table), &self.batches)
            .map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
        let settled = hold_new(&self.holder, &self.table, &rows, self.lock_timeout).await?;
        let reading = match self.table.key().is_empty() || rows.num_rows() == 0 {
            true => None,
            false => Some(change::read_since(&self.running, self.table.id, settled).await?),
        };
        let change = change::change_of(&Kind::Insert, &self.table, &rows, &self.pending, reading.as_ref())?;
        let count = change.rows;
        if self.in_transaction {
            self.copied.lock().push(Copied::Pending(Arc::clone(&self.table), change.delta));
        } else if count > 0 {
            let epoch = self.database.write(vec![(self.table.id, change.delta)], self.holder, None).await?;
            self.copied.lock().push(Copied::Written(epoch));
        }
        Ok(count)
    }
}
