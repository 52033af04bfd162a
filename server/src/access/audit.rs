//! What is kept of who came in and what they changed: a bounded list in memory, for `thalweg.audit`, and lines of the log
//! under the target `thalweg::audit`.

use crate::database::now_ms;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// How many entries are kept in memory.
const ENTRIES_MAX: usize = 10_000;

/// How long a statement's text may be, in characters, before the rest of it is left out.
const TEXT_MAX: usize = 2_000;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuditKind {
    /// Somebody was let in, or not.
    Login,
    /// A connection ended.
    Logout,
    /// A statement changed the catalog, or was refused.
    Ddl,
}

impl AuditKind {
    /// Its name in the log and the table.
    pub fn name(self) -> &'static str {
        match self {
            AuditKind::Login => "login",
            AuditKind::Logout => "logout",
            AuditKind::Ddl => "ddl",
        }
    }
}

/// An entry.
#[derive(Clone, Debug)]
pub struct AuditEntry {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    pub kind: AuditKind,
    /// Who connected.
    pub session_user: String,
    /// As whom it was done.
    pub user: String,
    /// The connection's process id.
    pub process_id: i32,
    /// The client's address.
    pub client: Option<String>,
    /// `00000`, or the SQLSTATE of the refusal.
    pub state: &'static str,
    /// The statement without passwords and secrets, or how the user was let in.
    pub detail: String,
}

/// The list.
#[derive(Default)]
pub struct AuditLog {
    entries: Mutex<VecDeque<AuditEntry>>,
}

impl AuditLog {
    /// Adds an entry as of now; the oldest goes when there are too many.
    pub fn add(&self, mut entry: AuditEntry) {
        entry.at_ms = now_ms();
        if let Some((end, _)) = entry.detail.char_indices().nth(TEXT_MAX) {
            entry.detail.truncate(end);
            entry.detail.push('…');
        }
        tracing::info!(
            target: "thalweg::audit",
            kind = entry.kind.name(),
            session_user = entry.session_user,
            user = entry.user,
            process_id = entry.process_id,
            client = entry.client.as_deref().unwrap_or("-"),
            state = entry.state,
            detail = entry.detail,
        );
        let mut entries = self.entries.lock();
        if entries.len() == ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> Vec<AuditEntry> {
        self.entries.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_its_texts_are_bounded() {
        let log = AuditLog::default();
        for id in 0..=ENTRIES_MAX {
            log.add(AuditEntry {
                at_ms: 0,
                kind: AuditKind::Ddl,
                session_user: "ada".into(),
                user: "ada".into(),
                process_id: i32::try_from(id).unwrap(),
                client: None,
                state: "00000",
                detail: "ü".repeat(TEXT_MAX + 1),
            });
        }
        let entries = log.entries();
        assert_eq!((entries.len(), entries[0].process_id), (ENTRIES_MAX, 1));
        assert_eq!(entries[0].detail.chars().count(), TEXT_MAX + 1);
    }
}
