//! `SUBSCRIBE`: the rows of a relation, then every change of it as it happens.
//!
//! A row has the epoch, how many times the row is added (or, below 0, taken away), and the relation's columns. With `PROGRESS` rows
//! without values say how far time has come.

use super::ClientSession;
use crate::database::engine_error;
use crate::database::query::Rows;
use crate::wire::session::{Outcome, ResultColumn, RowTag};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use futures::{SinkExt, StreamExt};
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, Column, Epoch, Privileges, SqlError, SqlResult, SqlState, SqlType};
use thalweg_executor::subscribe::{Subscription, Update};
use thalweg_planner::bind::find_object;
use thalweg_planner::statement::{Subscribe, SubscribeInput};

impl ClientSession {
    fn subscribed(&self, subscribe: &Subscribe) -> SqlResult<Arc<CatalogObject>> {
        let SubscribeInput::Relation(name) = &subscribe.input else {
            return Err(SqlError::unsupported("SUBSCRIBE to a query is not supported")
                .with_hint("Create a materialized view of the query and subscribe to that."));
        };
        let catalog = self.database.catalog();
        let object = find_object(name, &catalog, &self.search_path())?;
        let authority = self.authority();
        authority.check_relation(object, Privileges::SELECT)?;
        if authority.security().hides_rows(authority.role, object.id) {
            let text = format!("cannot subscribe to table \"{}\", of which policies hide rows", object.name);
            return Err(SqlError::unsupported(text).with_hint("Read it with SELECT.").at(name.position));
        }
        if object.is_kept() {
            return Ok(Arc::clone(object));
        }
        Err(SqlError::new(SqlState::WrongObjectType, format!("cannot subscribe to {} \"{}\"", object.kind(), object.name))
            .with_hint("Subscribe to a table or a materialized view.")
            .at(name.position))
    }

    pub(super) fn subscribe_columns(&self, subscribe: &Subscribe) -> SqlResult<Vec<ResultColumn>> {
        Ok(super::read::result_columns(&columns_of(&*self.subscribed(subscribe)?, subscribe.progress)))
    }

    /// Follows a relation; the columns, and rows without end.
    pub(super) async fn follow(&mut self, subscribe: &Subscribe) -> SqlResult<(Vec<ResultColumn>, Rows)> {
        let object = self.subscribed(subscribe)?;
        let columns = columns_of(&object, subscribe.progress);
        let schema = thalweg_catalog::schema_of(&columns);
        let engine = self.database.engine().clone();
        let subscription =
            engine.subscribe(object.id, subscribe.snapshot).await.map_err(|e| engine_error(&e, &self.database.catalog()))?;
        let (sender, receiver) = futures::channel::mpsc::channel(4);
        let shape = Shape { schema, progress: subscribe.progress, width: object.columns.len(), relation: object };
        tokio::spawn(send_updates(subscription, shape, sender));
        Ok((super::read::result_columns(&columns), receiver.boxed()))
    }

    pub(super) async fn subscribe(&mut self, subscribe: &Subscribe) -> SqlResult<Outcome> {
        let (columns, rows) = self.follow(subscribe).await?;
        Ok(Outcome::Rows { columns, rows, tag: RowTag::Counted("SUBSCRIBE") })
    }
}

fn columns_of(object: &CatalogObject, progress: bool) -> Vec<Column> {
    let mut columns = vec![Column { nullable: false, ..Column::new("thalweg_epoch", SqlType::Int8) }];
    if progress {
        columns.push(Column::new("thalweg_progressed", SqlType::Boolean));
    }
    columns.push(Column::new("thalweg_diff", SqlType::Int8));
    columns.extend(object.columns.iter().map(|c| Column { nullable: true, ..c.clone() }));
    columns
}

struct Shape {
    schema: SchemaRef,
    progress: bool,
    width: usize,
    relation: Arc<CatalogObject>,
}

impl Shape {
    fn rows(&self, epoch: Epoch, batch: &RecordBatch, weights: Option<&Int64Array>) -> SqlResult<RecordBatch> {
        let count = batch.num_rows();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![epoch_number(epoch); count]))];
        if self.progress {
            columns.push(Arc::new(BooleanArray::from(vec![false; count])));
        }
        columns.push(Arc::new(weights.cloned().unwrap_or_else(|| Int64Array::from(vec![1; count]))));
        columns.extend(batch.columns().iter().cloned());
        self.batch(columns)
    }

    fn progressed(&self, epoch: Epoch) -> SqlResult<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![epoch_number(epoch)])),
            Arc::new(BooleanArray::from(vec![true])),
            new_null_array(&arrow::datatypes::DataType::Int64, 1),
        ];
        columns.extend(self.schema.fields().iter().skip(3).map(|field| new_null_array(field.data_type(), 1)));
        self.batch(columns)
    }

    fn batch(&self, columns: Vec<ArrayRef>) -> SqlResult<RecordBatch> {
        let fields: Vec<_> = self
            .schema
            .fields()
            .iter()
            .zip(&columns)
            .map(|(f, c)| f.as_ref().clone().with_data_type(c.data_type().clone()))
            .collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|e| thalweg_planner::errors::arrow_error(&e))
    }
}

fn epoch_number(epoch: Epoch) -> i64 {
    i64::try_from(epoch.0).unwrap_or(i64::MAX)
}

/// Sends updates until the relation ends, is dropped, or nobody listens.
async fn send_updates(
    mut subscription: Subscription,
    shape: Shape,
    mut sender: futures::channel::mpsc::Sender<SqlResult<RecordBatch>>,
) {
    loop {
        let update = tokio::select! {
            update = subscription.next() => update,
            () = closed(&sender) => return,
        };
        let batches = match update {
            Ok(Some(update)) => batches_of(update, &shape).await,
            Ok(None) => return,
            Err(error) => {
                let text = format!("the subscription to \"{}\" has ended: {error}", shape.relation.name);
                // Nobody may be listening any more, and then nobody need know.
                let _ = sender.send(Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, text))).await;
                return;
            }
        };
        match batches {
            Ok(batches) => {
                for batch in batches {
                    if sender.send(Ok(batch)).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        }
    }
}

/// Returns once the other end has gone; looked at now and then, since the channel does not tell by itself.
async fn closed(sender: &futures::channel::mpsc::Sender<SqlResult<RecordBatch>>) {
    let mut every = tokio::time::interval(std::time::Duration::from_millis(500));
    while !sender.is_closed() {
        every.tick().await;
    }
}

async fn batches_of(update: Update, shape: &Shape) -> SqlResult<Vec<RecordBatch>> {
    match update {
        Update::Progress(epoch) if shape.progress => Ok(vec![shape.progressed(epoch)?]),
        Update::Progress(_) => Ok(vec![]),
        Update::Changes(epoch, deltas) => deltas.iter().map(|d| shape.rows(epoch, d.batch(), d.weights())).collect(),
        Update::Snapshot(reading) => {
            let epoch = reading.epoch;
            let every: Vec<usize> = (0..shape.width).collect();
            // Reading blocks on disk.
            let read = tokio::task::spawn_blocking(move || {
                let scan = |hold: &thalweg_storage::state::ViewHold| hold.scan(&every).collect::<Result<Vec<_>, _>>();
                reading.relations.values().flatten().map(scan).collect::<Result<Vec<_>, _>>()
            });
            let batches = read.await.map_err(|e| SqlError::internal(format!("reading panicked: {e}")))?;
            let batches = batches.map_err(|e| crate::database::storage_error(&e))?;
            batches.iter().flatten().map(|batch| shape.rows(epoch, batch, None)).collect()
        }
    }
}
