//! `LISTEN`, `UNLISTEN`, `NOTIFY`: all take effect when the transaction commits, and not at all when it is rolled back.

use super::ClientSession;
use crate::wire::connections::Notification;
use crate::wire::session::Outcome;
use thalweg_catalog::{SqlError, SqlResult};

/// The longest payload in bytes, as in Postgres.
const PAYLOAD_BYTES_MAX: usize = 7999;

/// What a statement asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// `LISTEN`.
    Listen(String),
    /// `UNLISTEN`; none for all channels.
    Unlisten(Option<String>),
    /// `NOTIFY`.
    Notify(Notification),
}

impl ClientSession {
    pub(super) fn notify(&mut self, channel: &str, payload: &str, tag: &str) -> SqlResult<Outcome> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(SqlError::invalid_parameter("payload string too long"));
        }
        self.check_connected(tag)?;
        self.notify_at_commit(channel.to_string(), payload.to_string());
        Ok(Outcome::Tag(tag.into()))
    }

    pub(super) fn listen(&mut self, deed: Deed, tag: &str) -> SqlResult<Outcome> {
        self.check_connected(tag)?;
        self.at_commit(deed);
        Ok(Outcome::Tag(tag.into()))
    }

    pub(super) fn notify_at_commit(&mut self, channel: String, payload: String) {
        self.at_commit(Deed::Notify(Notification { sender: self.info.process_id, channel, payload }));
    }

    fn check_connected(&self, tag: &str) -> SqlResult<()> {
        match self.connections {
            Some(_) => Ok(()),
            None => Err(SqlError::unsupported(format!("{tag} needs a connection to a server"))),
        }
    }

    /// Does it when the transaction commits: at once where there is none.
    fn at_commit(&mut self, deed: Deed) {
        match &mut self.transaction {
            Some(transaction) => transaction.add_deed(deed),
            None => self.carry_out(vec![deed]),
        }
    }

    pub(super) fn carry_out(&self, deeds: Vec<Deed>) {
        let Some(connections) = &self.connections else { return };
        for deed in deeds {
            match deed {
                Deed::Listen(channel) => connections.listen(self.info.process_id, &channel),
                Deed::Unlisten(channel) => connections.unlisten(self.info.process_id, channel.as_deref()),
                Deed::Notify(notification) => connections.notify(&notification),
            }
        }
    }
}
