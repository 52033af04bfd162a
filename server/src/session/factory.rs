//! Makes the session of each connection.

use super::ClientSession;
use crate::access::audit::{AuditEntry, AuditKind};
use crate::access::login;
use crate::database::Database;
use crate::wire::connections::Connections;
use crate::wire::session::{Admission, ConnectionInfo, SessionFactory};
use async_trait::async_trait;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult};

/// Sessions on one database, for those whom the rules and their roles let in. Any name of the database is taken.
pub struct ClientSessions {
    /// The database.
    pub database: Arc<Database>,
    /// All connections.
    pub connections: Arc<Connections>,
}

impl ClientSessions {
    fn audit(&self, connection: &ConnectionInfo, state: &'static str, detail: String) {
        self.database.audit().add(AuditEntry {
            at_ms: 0,
            kind: AuditKind::Login,
            session_user: connection.user.clone(),
            user: connection.user.clone(),
            process_id: connection.process_id,
            client: connection.peer.map(|peer| peer.to_string()),
            state,
            detail,
        });
    }
}

#[async_trait]
impl SessionFactory for ClientSessions {
    type Session = ClientSession;

    fn admit(&self, connection: &ConnectionInfo) -> SqlResult<Admission> {
        login::admission(self.database.gate(), &self.database.catalog(), connection)
    }

    fn refused(&self, connection: &ConnectionInfo, error: &SqlError) {
        self.audit(connection, error.state.code(), error.message.clone());
    }

    async fn connect(&self, connection: ConnectionInfo) -> SqlResult<ClientSession> {
        let catalog = self.database.catalog();
        let role = login::session_role(&catalog, &connection, self.connections.count_of(&connection.user))?;
        let how = if connection.proven { "proved" } else { "trusted" };
        let channel = connection.tls.as_ref().map_or("in the clear", |tls| tls.version.as_str());
        let detail = format!("{how}, {channel}, database {}", connection.database);
        let session =
            ClientSession::new(Arc::clone(&self.database), Some(Arc::clone(&self.connections)), connection.clone(), role)?;
        self.audit(&connection, "00000", detail);
        Ok(session)
    }
}
