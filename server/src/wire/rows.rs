//! Results on their way to the client: rows are written as they come, and flushed when no more are there at once.

use super::copy::CopyWriter;
use super::guard::{Guard, Stop};
use super::message::close_message;
use super::session::{ResultColumn, RowStream, RowTag};
use super::transport::{FrameReader, MessageWriter};
use super::value::write::{BatchWriter, RowWriter};
use arrow::array::RecordBatch;
use bytes::{BufMut, BytesMut};
use futures::{FutureExt, StreamExt};
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

/// The longest row that is sent, in bytes; Postgres has the same.
const ROW_BYTES_MAX: usize = (1 << 30) - 1;

/// A result that is being read.
pub struct Cursor {
    writer: RowWriter,
    rows: RowStream,
    tag: RowTag,
    /// The batch being sent and the next row of it.
    batch: Option<(BatchWriter, usize, RecordBatch)>,
    /// Where `rows` come from, once some of them were lent.
    lent: Option<Arc<Mutex<Lent>>>,
    /// How rows are framed: none for DataRow, else for CopyData.
    copy: Option<CopyWriter>,
}

/// A result that is read in two ways: by Execute, and by `FETCH` of the portal.
struct Lent {
    rows: RowStream,
    /// The rest of a batch.
    left: Option<RecordBatch>,
}

impl Lent {
    async fn next(&mut self, most: usize) -> SqlResult<Option<RecordBatch>> {
        let batch = match self.left.take() {
            Some(left) => left,
            None => match self.rows.next().await.transpose()? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        if batch.num_rows() <= most {
            return Ok(Some(batch));
        }
        self.left = Some(batch.slice(most, batch.num_rows() - most));
        Ok(Some(batch.slice(0, most)))
    }
}

/// So many rows of what is lent.
fn lent_rows(lent: Arc<Mutex<Lent>>, count: usize) -> RowStream {
    let next = move |count: usize| {
        let lent = Arc::clone(&lent);
        async move {
            if count == 0 {
                return Ok(None);
            }
            let batch = lent.lock().await.next(count).await?;
            Ok(batch.map(|batch| (batch.clone(), count - batch.num_rows())))
        }
    };
    futures::stream::try_unfold(count, next).boxed()
}

/// How far a call of [`send_rows`] has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Rows sent by this call.
    pub rows: u64,
    /// Whether there are no more.
    pub ended: bool,
}

impl Cursor {
    /// A result of which nothing was sent.
    pub fn new(writer: RowWriter, rows: RowStream, tag: RowTag) -> Cursor {
        Cursor { writer, rows, tag, batch: None, lent: None, copy: None }
    }

    /// A result that is sent as data of COPY.
    pub fn for_copy(writer: RowWriter, rows: RowStream, copy: CopyWriter) -> Cursor {
        Cursor { writer, rows, tag: RowTag::Counted("COPY"), batch: None, lent: None, copy: Some(copy) }
    }

    /// The tag after so many rows.
    pub fn tag(&self) -> &RowTag {
        &self.tag
    }

    /// Its columns.
    pub fn columns(&self) -> &[ResultColumn] {
        self.writer.columns()
    }

    /// The next so many rows, to be read by somebody else; what is sent after that follows them.
    pub async fn lend(&mut self, count: usize) -> RowStream {
        let left = self.batch.take().map(|(_, next, batch)| batch.slice(next, batch.num_rows() - next));
        let lent = match &self.lent {
            Some(lent) => Arc::clone(lent),
            None => {
                let rows = std::mem::replace(&mut self.rows, futures::stream::empty().boxed());
                let lent = Arc::new(Mutex::new(Lent { rows, left: None }));
                self.rows = lent_rows(Arc::clone(&lent), usize::MAX);
                Arc::clone(self.lent.insert(lent))
            }
        };
        if left.is_some() {
            lent.lock().await.left = left;
        }
        lent_rows(lent, count)
    }

    /// What frames rows as COPY data, if something does.
    pub fn copy(&mut self) -> Option<&mut CopyWriter> {
        self.copy.as_mut()
    }
}

/// Sends rows until `rows_max` are sent (0: any number) or there are no more.
///
/// # Errors
/// The result's, or what stopped it. What is already sent stays whole messages.
pub async fn send_rows<R, W>(
    cursor: &mut Cursor,
    rows_max: u64,
    guard: &Guard,
    reader: &mut FrameReader<R>,
    writer: &mut MessageWriter<W>,
) -> Result<Sent, Stop>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let mut sent = 0;
    // A client that copies goes on as soon as it hears that data will come, which may be long before there is any.
    let mut unflushed = cursor.copy.is_some();
    loop {
        if let Some((batch, next, _)) = &mut cursor.batch {
            while *next < batch.rows() && (rows_max == 0 || sent < rows_max) {
                match &mut cursor.copy {
                    None => put_data_row(&mut writer.out, batch, *next)?,
                    Some(copy) => put_copy_row(&mut writer.out, copy, batch, *next)?,
                }
                *next += 1;
                sent += 1;
                unflushed = true;
                if writer.is_full() {
                    guard.flush(reader, writer).await?;
                    unflushed = false;
                }
            }
            if *next < batch.rows() {
                return Ok(Sent { rows: sent, ended: false });
            }
            cursor.batch = None;
        }
        if rows_max > 0 && sent == rows_max {
            return Ok(Sent { rows: sent, ended: false });
        }
        guard.check()?;
        let batch = match cursor.rows.next().now_or_never() {
            Some(batch) => batch,
            None => {
                if unflushed {
                    guard.flush(reader, writer).await?;
                    unflushed = false;
                }
                let rows = &mut cursor.rows;
                guard.run(reader, async { rows.next().await.transpose() }).await?.map(Ok)
            }
        };
        match batch {
            Some(batch) => {
                let batch = batch?;
                cursor.batch = Some((cursor.writer.batch(&batch)?, 0, batch));
            }
            None => return Ok(Sent { rows: sent, ended: true }),
        }
    }
}

/// Appends a DataRow; nothing of it if a value can't be written.
fn put_data_row(out: &mut BytesMut, batch: &BatchWriter, row: usize) -> SqlResult<()> {
    framed(out, b'D', |out| {
        out.put_u16(batch.width() as u16);
        batch.write_row(row, out)
    })
}

fn put_copy_row(out: &mut BytesMut, copy: &mut CopyWriter, batch: &BatchWriter, row: usize) -> SqlResult<()> {
    framed(out, b'd', |out| copy.write_row(batch, row, out))
}

fn framed(out: &mut BytesMut, kind: u8, fill: impl FnOnce(&mut BytesMut) -> SqlResult<()>) -> SqlResult<()> {
    let start = out.len();
    out.put_u8(kind);
    out.put_i32(0);
    let mut filled = fill(out);
    if filled.is_ok() && out.len() - start > ROW_BYTES_MAX {
        filled = Err(SqlError::new(SqlState::ProgramLimitExceeded, "a row is too large to be sent"));
    }
    match filled {
        Ok(()) => close_message(out, start + 1),
        Err(_) => out.truncate(start),
    }
    filled
}
