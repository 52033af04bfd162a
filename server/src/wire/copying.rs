//! COPY over a connection: rows out to the client, and in from it.

use super::connection::Connection;
use super::copy::{CopyFormat, CopyOptions, CopyReader, CopyWriter};
use super::guard::{End, Guard, Stop};
use super::message::{self, Frontend};
use super::rows::{Cursor, send_rows};
use super::session::{CopySink, ResultColumn, RowStream, Session};
use super::value::Format;
use super::value::write::RowWriter;
use thalweg_catalog::{Column, SqlError, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};

fn format_of(options: &CopyOptions) -> Format {
    if options.format == CopyFormat::Binary { Format::Binary } else { Format::Text }
}

impl<R, W, S> Connection<R, W, S>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    S: Session,
{
    /// Sends all rows; how many they were, without the header.
    pub(super) async fn copy_out(
        &mut self,
        columns: Vec<ResultColumn>,
        rows: RowStream,
        options: CopyOptions,
        guard: &Guard,
    ) -> Result<u64, Stop> {
        let format = format_of(&options);
        let width = columns.len();
        let mut copy = CopyWriter::new(options, &columns)?;
        message::put_copy_response(&mut self.writer.out, b'H', format, width);
        if let Some(header) = copy.header() {
            message::put_message(&mut self.writer.out, b'd', |out| out.extend_from_slice(&header));
        }
        let row_writer = RowWriter::new(columns, vec![format; width], self.session.output_settings());
        let mut cursor = Cursor::for_copy(row_writer, rows, copy);
        let sent = send_rows(&mut cursor, 0, guard, &mut self.reader, &mut self.writer).await?;
        for last in cursor.copy().map(CopyWriter::trailer).unwrap_or_default() {
            message::put_message(&mut self.writer.out, b'd', |out| out.extend_from_slice(&last));
        }
        message::put_bare(&mut self.writer.out, b'c');
        Ok(sent.rows)
    }

    /// Takes rows from the client; how many the sink took.
    pub(super) async fn copy_in(
        &mut self,
        columns: Vec<Column>,
        options: CopyOptions,
        relation: String,
        mut sink: Box<dyn CopySink>,
        guard: &Guard,
    ) -> Result<u64, Stop> {
        let format = format_of(&options);
        let width = columns.len();
        let mut copy = CopyReader::new(&columns, options, relation, self.session.output_settings())?;
        message::put_copy_response(&mut self.writer.out, b'G', format, width);
        guard.flush(&mut self.reader, &mut self.writer).await?;
        loop {
            let (kind, body) = guard.frame(&mut self.reader).await?;
            match Frontend::decode(kind, body)? {
                Frontend::CopyData(data) => {
                    copy.push(&data)?;
                    while let Some(batch) = copy.full_batch()? {
                        guard.run(&mut self.reader, sink.write(batch)).await?;
                    }
                }
                Frontend::CopyDone => {
                    copy.end()?;
                    while let Some(batch) = copy.last_batch()? {
                        guard.run(&mut self.reader, sink.write(batch)).await?;
                    }
                    return guard.run(&mut self.reader, sink.finish()).await;
                }
                Frontend::CopyFail(reason) => {
                    let message = format!("COPY from stdin failed: {reason}");
                    return Err(Stop::Error(SqlError::new(SqlState::QueryCanceled, message), Some(copy.place().into())));
                }
                // Clients that pipeline may have sent these on a guess.
                Frontend::Flush | Frontend::Sync => {}
                Frontend::Terminate => return Err(Stop::End(End::Closed)),
                _ => return Err(self.out_of_step(kind, &copy.place())),
            }
        }
    }
}
