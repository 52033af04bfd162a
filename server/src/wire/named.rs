//! `FETCH`, `MOVE` and `CLOSE` in SQL of portals that Bind has named: cursors are the session's, portals the connection's.

use super::connection::Connection;
use super::extended::no_portal;
use super::guard::{Guard, Stop};
use super::portal::PortalState;
use super::rows::Cursor;
use super::session::{Outcome, PortalAction, PortalUse, ResultColumn, RowTag, Session};
use super::value::write::RowWriter;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use thalweg_catalog::{SqlError, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};

impl<R, W, S> Connection<R, W, S>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    S: Session,
{
    /// Executes a statement, in the session unless it is about a portal.
    pub(super) async fn outcome(
        &mut self,
        statement: &S::Statement,
        params: Vec<ScalarValue>,
        param_oids: &[u32],
        guard: &Guard,
    ) -> Result<Outcome, Stop> {
        if let Some(used) = self.portal_use(statement) {
            return self.use_portal(used, guard).await;
        }
        let outcome = guard.run(&mut self.reader, self.session.execute(statement, params, param_oids)).await?;
        if self.session.closes_portals(statement) {
            self.portals.clear();
        }
        Ok(outcome)
    }

    fn portal_use(&self, statement: &S::Statement) -> Option<PortalUse> {
        self.session.portal_use(statement).filter(|used| self.portals.get(&used.name).is_some())
    }

    /// The columns of a portal, if the statement fetches from one.
    pub(super) fn portal_columns(&self, statement: &S::Statement) -> Option<Vec<ResultColumn>> {
        let used = self.portal_use(statement).filter(|used| matches!(used.action, PortalAction::Fetch(_)))?;
        self.portals.get(&used.name)?.prepared.description.columns.clone()
    }

    async fn use_portal(&mut self, used: PortalUse, guard: &Guard) -> Result<Outcome, Stop> {
        let PortalUse { name, action } = used;
        let (count, shows) = match action {
            PortalAction::Fetch(count) => (count, true),
            PortalAction::Move(count) => (count, false),
            PortalAction::Back => {
                return Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, "cursor can only scan forward")
                    .with_hint("Declare it with SCROLL option to enable backward scan.")
                    .into());
            }
            PortalAction::Close => {
                self.portals.close(&name);
                return Ok(Outcome::Tag("CLOSE CURSOR".into()));
            }
        };
        let mut portal = self.portals.take(&name).ok_or_else(|| no_portal(&name))?;
        let mut lent = futures::stream::empty().boxed();
        let mut columns = portal.prepared.description.columns.clone().unwrap_or_default();
        portal.state = match std::mem::replace(&mut portal.state, PortalState::Finished) {
            PortalState::Bound(params) => {
                let Some(statement) = &portal.prepared.statement else { return Err(cannot_run(&name).into()) };
                let oids = &portal.prepared.description.params;
                let outcome = guard.run(&mut self.reader, self.session.execute(statement, params, oids)).await?;
                let Outcome::Rows { columns: found, rows, tag } = outcome else { return Err(cannot_run(&name).into()) };
                columns.clone_from(&found);
                let writer = RowWriter::new(found, portal.formats.clone(), self.session.output_settings());
                let mut cursor = Box::new(Cursor::new(writer, rows, tag));
                lent = cursor.lend(count).await;
                PortalState::Open(cursor)
            }
            PortalState::Open(mut cursor) => {
                lent = cursor.lend(count).await;
                columns = cursor.columns().to_vec();
                PortalState::Open(cursor)
            }
            PortalState::Exhausted(tag) => PortalState::Exhausted(tag),
            PortalState::Finished => return Err(cannot_run(&name).into()),
        };
        self.portals.put(name, portal);
        if shows {
            return Ok(Outcome::Rows { columns, rows: lent, tag: RowTag::Counted("FETCH") });
        }
        let passing = async {
            let mut passed = 0;
            while let Some(batch) = lent.next().await {
                passed += batch?.num_rows();
            }
            Ok::<_, SqlError>(passed)
        };
        let passed = guard.run(&mut self.reader, passing).await?;
        Ok(Outcome::Tag(format!("MOVE {passed}")))
    }
}

/// What is told of a portal that has nothing to give, or has given it.
pub(super) fn cannot_run(name: &str) -> SqlError {
    SqlError::new(SqlState::ObjectNotInPrerequisiteState, format!("portal \"{name}\" cannot be run"))
}
