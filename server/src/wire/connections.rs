//! All connections of a server: who is there, and the way to cancel or end what they do.

use super::activity::Activity;
use super::session::TlsInfo;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::SystemTime;
use tokio::sync::Notify;

/// The connections of a server, by process id.
#[derive(Default)]
pub struct Connections {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last_id: i32,
    entries: BTreeMap<i32, Arc<Registered>>,
    /// Who listens to a channel.
    listeners: BTreeMap<String, BTreeSet<i32>>,
}

/// A connection as others see it.
pub struct Registered {
    /// `pg_backend_pid()`.
    pub process_id: i32,
    /// What a cancel request has to know.
    pub secret: i32,
    /// The client's address.
    pub peer: Option<SocketAddr>,
    /// When it connected.
    pub since: SystemTime,
    /// Who it says it is, once it has said so: user, database, application.
    pub identity: Mutex<(String, String, String)>,
    /// How it is encrypted, if it is.
    pub tls: Mutex<Option<TlsInfo>>,
    /// What it does.
    pub activity: Activity,
    /// How it is interrupted.
    pub signal: Signal,
    /// What it was notified of and has not told its client yet.
    pub mailbox: Mailbox,
}

/// What `NOTIFY` sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// The process id of who sends it.
    pub sender: i32,
    /// The channel.
    pub channel: String,
    /// The text that comes with it.
    pub payload: String,
}

/// Notifications on their way to a client.
#[derive(Default)]
pub struct Mailbox {
    waiting: Mutex<Vec<Notification>>,
    notify: Notify,
}

impl Mailbox {
    fn put(&self, notification: Notification) {
        self.waiting.lock().push(notification);
        self.notify.notify_waiters();
    }

    /// Everything that has come, oldest first.
    pub fn take(&self) -> Vec<Notification> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Waits until there is something.
    pub async fn arrived(&self) {
        loop {
            // Made before the look: what comes between look and wait wakes it.
            let woken = self.notify.notified();
            if !self.waiting.lock().is_empty() {
                return;
            }
            woken.await;
        }
    }
}

/// What a connection is asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// Stop the running statement.
    Cancel,
    /// End the connection.
    Terminate,
}

const NONE: u8 = 0;
const CANCEL: u8 = 1;
const TERMINATE: u8 = 2;

/// An interrupt that may be waited for. Terminate is never taken back.
#[derive(Default)]
pub struct Signal {
    raised: AtomicU8,
    notify: Notify,
}

impl Signal {
    /// Asks for an interrupt.
    pub fn raise(&self, interrupt: Interrupt) {
        let value = match interrupt {
            Interrupt::Cancel => CANCEL,
            Interrupt::Terminate => TERMINATE,
        };
        self.raised.fetch_max(value, Ordering::AcqRel);
        self.notify.notify_waiters();
    }

    /// Forgets a cancel: it was carried out, or came when nothing ran.
    pub fn clear_cancel(&self) {
        // Failing means that nothing was raised, or more than a cancel: both stay.
        let _ = self.raised.compare_exchange(CANCEL, NONE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The interrupt that is asked for.
    pub fn get(&self) -> Option<Interrupt> {
        match self.raised.load(Ordering::Acquire) {
            CANCEL => Some(Interrupt::Cancel),
            TERMINATE => Some(Interrupt::Terminate),
            _ => None,
        }
    }

    /// Waits for an interrupt.
    pub async fn raised(&self) -> Interrupt {
        loop {
            // Made before the look: a raise between look and wait wakes it.
            let woken = self.notify.notified();
            if let Some(interrupt) = self.get() {
                return interrupt;
            }
            woken.await;
        }
    }

    /// Waits until the connection is to end; cancels don't matter.
    pub async fn terminated(&self) {
        loop {
            let woken = self.notify.notified();
            if self.get() == Some(Interrupt::Terminate) {
                return;
            }
            woken.await;
        }
    }
}

impl Connections {
    /// No connections.
    pub fn new() -> Arc<Connections> {
        Arc::new(Connections::default())
    }

    /// Adds a connection under a new id with a new secret.
    pub fn register(self: &Arc<Self>, peer: Option<SocketAddr>) -> Registration {
        let mut inner = self.inner.lock();
        loop {
            // Ids start again after 2³¹ connections and then may still be in use.
            inner.last_id = inner.last_id.checked_add(1).unwrap_or(1);
            if !inner.entries.contains_key(&inner.last_id) {
                break;
            }
        }
        let entry = Arc::new(Registered {
            process_id: inner.last_id,
            secret: rand::random(),
            peer,
            since: SystemTime::now(),
            identity: Mutex::default(),
            tls: Mutex::default(),
            activity: Activity::default(),
            signal: Signal::default(),
            mailbox: Mailbox::default(),
        });
        inner.entries.insert(entry.process_id, Arc::clone(&entry));
        Registration { connections: Arc::clone(self), entry }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.inner.lock().entries.len()
    }

    /// How many there are of a user.
    pub fn count_of(&self, user: &str) -> usize {
        self.inner.lock().entries.values().filter(|entry| entry.identity.lock().0 == user).count()
    }

    /// All connections, oldest first.
    pub fn list(&self) -> Vec<Arc<Registered>> {
        self.inner.lock().entries.values().cloned().collect()
    }

    /// The connection hears of a channel from now on.
    pub fn listen(&self, process_id: i32, channel: &str) {
        self.inner.lock().listeners.entry(channel.to_string()).or_default().insert(process_id);
    }

    /// The connection hears no more of a channel, or of any.
    pub fn unlisten(&self, process_id: i32, channel: Option<&str>) {
        let mut inner = self.inner.lock();
        for (name, listeners) in &mut inner.listeners {
            if channel.is_none_or(|channel| channel == name) {
                listeners.remove(&process_id);
            }
        }
        inner.listeners.retain(|_, listeners| !listeners.is_empty());
    }

    /// The channels that a connection hears of, sorted.
    pub fn listened(&self, process_id: i32) -> Vec<String> {
        let inner = self.inner.lock();
        inner.listeners.iter().filter(|(_, who)| who.contains(&process_id)).map(|(name, _)| name.clone()).collect()
    }

    /// Tells everybody who listens.
    pub fn notify(&self, notification: &Notification) {
        let inner = self.inner.lock();
        for process_id in inner.listeners.get(&notification.channel).into_iter().flatten() {
            if let Some(entry) = inner.entries.get(process_id) {
                entry.mailbox.put(notification.clone());
            }
        }
    }

    /// What a cancel request asks for; nothing if the secret is wrong.
    pub fn cancel_with_secret(&self, process_id: i32, secret: i32) {
        let entry = self.inner.lock().entries.get(&process_id).cloned();
        if let Some(entry) = entry.filter(|entry| entry.secret == secret) {
            entry.signal.raise(Interrupt::Cancel);
        }
    }

    /// Interrupts a connection: `pg_cancel_backend`, `pg_terminate_backend`. Whether there is one of this id.
    pub fn interrupt(&self, process_id: i32, interrupt: Interrupt) -> bool {
        let entry = self.inner.lock().entries.get(&process_id).cloned();
        entry.map(|entry| entry.signal.raise(interrupt)).is_some()
    }
}

/// Takes a connection out of the list when it ends.
pub struct Registration {
    connections: Arc<Connections>,
    /// The connection.
    pub entry: Arc<Registered>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.unlisten(self.entry.process_id, None);
        self.connections.inner.lock().entries.remove(&self.entry.process_id);
    }
}
