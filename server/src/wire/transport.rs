//! The two directions of a connection: frames that come in, bytes that go out in large pieces.

use super::message::{MESSAGE_BYTES_MAX, protocol_violation};
use bytes::{Buf, Bytes, BytesMut};
use std::io;
use thalweg_catalog::SqlError;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How much is read ahead, in bytes, while a statement runs.
const READ_AHEAD_MAX: usize = 1 << 20;

/// The longest message, in bytes, that proves a password: nobody is known yet who sends it.
const PASSWORD_BYTES_MAX: usize = 65_535;

/// How much is gathered, in bytes, before it is written.
pub const WRITE_PIECE: usize = 64 << 10;

/// Why nothing more can be read.
#[derive(Debug)]
pub enum ReadError {
    /// The client has gone.
    Closed,
    /// The client sends what no frame begins with; it is told so before the connection is closed.
    Lost(SqlError),
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> Self {
        // Whatever the reason: there is nobody left to tell it to.
        ReadError::Closed
    }
}

/// Frames as they come in.
pub struct FrameReader<R> {
    stream: R,
    buffer: BytesMut,
    ended: bool,
}

impl<R: AsyncRead + Unpin + Send> FrameReader<R> {
    /// A reader of this stream.
    pub fn new(stream: R) -> FrameReader<R> {
        FrameReader::after(BytesMut::with_capacity(8 << 10), stream)
    }

    /// A reader of what was read of this stream already, and then of the stream.
    pub fn after(buffer: BytesMut, stream: R) -> FrameReader<R> {
        FrameReader { stream, buffer, ended: false }
    }

    /// The body of the next message, which must hold what a client proves its password with.
    ///
    /// # Errors
    /// If the client leaves, or sends anything else.
    pub async fn password(&mut self) -> Result<Bytes, ReadError> {
        let head = self.peek(5).await?;
        let length = usize::try_from(i32::from_be_bytes([head[1], head[2], head[3], head[4]])).unwrap_or(0);
        if head[0] != b'p' {
            let text = format!("expected SASL response, got message type {}", head[0]);
            return Err(ReadError::Lost(protocol_violation(text)));
        }
        if !(4..=PASSWORD_BYTES_MAX).contains(&length) {
            return Err(ReadError::Lost(protocol_violation("invalid message length")));
        }
        Ok(self.bytes(1 + length).await?.slice(5..))
    }

    /// Reads more into the buffer. Memory grows with what has come, not with what a length says will come.
    async fn fill(&mut self) -> Result<(), ReadError> {
        if self.ended || self.stream.read_buf(&mut self.buffer).await? == 0 {
            self.ended = true;
            return Err(ReadError::Closed);
        }
        Ok(())
    }

    /// The next `count` bytes. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If the client leaves before.
    pub async fn bytes(&mut self, count: usize) -> Result<Bytes, ReadError> {
        while self.buffer.len() < count {
            self.fill().await?;
        }
        Ok(self.buffer.split_to(count).freeze())
    }

    /// The next `count` bytes, left in place.
    ///
    /// # Errors
    /// If the client leaves before.
    pub async fn peek(&mut self, count: usize) -> Result<&[u8], ReadError> {
        while self.buffer.len() < count {
            self.fill().await?;
        }
        Ok(&self.buffer[..count])
    }

    /// The type and the body of the next message. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If the client leaves, or sends a length that no message has.
    pub async fn frame(&mut self) -> Result<(u8, Bytes), ReadError> {
        let head = self.peek(5).await?;
        let kind = head[0];
        let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        if !super::message::Frontend::is_known(kind) {
            return Err(ReadError::Lost(protocol_violation(format!("invalid frontend message type {kind}"))));
        }
        let length = usize::try_from(length).unwrap_or(0);
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(ReadError::Lost(protocol_violation("invalid message length")));
        }
        while self.buffer.len() < 1 + length {
            self.fill().await?;
        }
        self.buffer.advance(5);
        Ok((kind, self.buffer.split_to(length - 4).freeze()))
    }

    /// Returns when the client has gone, while something else is waited for. What the client sends meanwhile is kept.
    pub async fn gone(&mut self) {
        loop {
            if self.buffer.len() >= READ_AHEAD_MAX {
                // The client sends ahead of what is answered; it is read on when its turn comes.
                std::future::pending::<()>().await;
            }
            if self.fill().await.is_err() {
                return;
            }
        }
    }
}

/// Messages on their way out.
pub struct MessageWriter<W> {
    stream: W,
    /// What is yet to be written.
    pub out: BytesMut,
}

impl<W: AsyncWrite + Unpin + Send> MessageWriter<W> {
    /// A writer to this stream.
    pub fn new(stream: W) -> MessageWriter<W> {
        MessageWriter { stream, out: BytesMut::with_capacity(8 << 10) }
    }

    /// Whether enough is gathered for a write.
    pub fn is_full(&self) -> bool {
        self.out.len() >= WRITE_PIECE
    }

    /// Writes all that is gathered. If the future is dropped, what is not written yet stays gathered, so that another
    /// message can follow and the stream keeps its frames.
    ///
    /// # Errors
    /// If the client has gone.
    pub async fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            if self.stream.write_buf(&mut self.out).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.stream.flush().await?;
        // A result with huge values must not leave its memory behind.
        if self.out.capacity() > 4 * WRITE_PIECE {
            self.out = BytesMut::with_capacity(8 << 10);
        }
        Ok(())
    }

    /// Closes the direction, so that the client sees the end after the last message.
    pub async fn close(&mut self) {
        // The connection ends anyway; a client that has gone first is no fault.
        let _ = self.flush().await;
        let _ = self.stream.shutdown().await;
    }
}
