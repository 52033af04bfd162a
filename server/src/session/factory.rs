//! Makes the session of each connection.

use super::ClientSession;
use crate::database::Database;
use crate::wire::connections::Connections;
use crate::wire::session::{ConnectionInfo, SessionFactory};
use async_trait::async_trait;
use std::sync::Arc;
use thalweg_catalog::SqlResult;

/// Sessions on one database. Until there are roles, any user and database name is taken.
pub struct ClientSessions {
    /// The database.
    pub database: Arc<Database>,
    /// All connections, for `thalweg.sessions`.
    pub connections: Arc<Connections>,
}

#[async_trait]
impl SessionFactory for ClientSessions {
    type Session = ClientSession;

    async fn connect(&self, connection: ConnectionInfo) -> SqlResult<ClientSession> {
        ClientSession::new(Arc::clone(&self.database), Some(Arc::clone(&self.connections)), connection)
    }
}
