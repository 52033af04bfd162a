//! Newtypes for ids and times, so that no bare integer crosses a crate boundary.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The lasting id of a catalog object, which is also its Postgres OID. User objects start at [`ObjectId::FIRST_USER`];
/// an id is never given out twice, so a re-created object of the same name inherits nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// The first id that Postgres gives to user objects.
    pub const FIRST_USER: ObjectId = ObjectId(16384);
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The stamp of a row on entering: milliseconds since 1970, strictly increasing. An epoch is complete when no more
/// rows can carry it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Complete through this epoch means that the input has ended.
    pub const END: Epoch = Epoch(u64::MAX);

    /// The epoch after this one; `END` stays `END`.
    pub fn next(self) -> Epoch {
        Epoch(self.0.saturating_add(1))
    }

    /// The epoch before this one; zero stays zero.
    pub fn previous(self) -> Epoch {
        Epoch(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many virtual nodes the key space is cut into. Routing, state and rescaling all use the same cut.
pub const VNODES: u16 = 1024;

/// One of the [`VNODES`] shares of the key space: the first part of every stored key, and what decides the worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct VNode(pub u16);

impl VNode {
    /// No share, but the owner of what every worker keeps for itself and all keep alike: a job's watermarks.
    pub const EVERY_WORKER: VNode = VNode(u16::MAX);

    /// The share that a key with this hash belongs to.
    #[inline]
    pub fn of_hash(hash: u64) -> VNode {
        // The top bits: hash tables use the low ones, and a worker's table must not see only a slice of those.
        VNode((hash >> 54) as u16)
    }

    /// The worker, of `workers` in all, that owns this share.
    #[inline]
    pub fn worker(self, workers: usize) -> WorkerIndex {
        debug_assert!(self.0 < VNODES, "VNODE-1: what every worker keeps is no one worker's");
        WorkerIndex(self.0 as usize * workers / VNODES as usize)
    }

    /// Whether a worker, of `workers` in all, keeps what is stored under this.
    #[inline]
    pub fn is_kept_by(self, worker: usize, workers: usize) -> bool {
        self == VNode::EVERY_WORKER || self.worker(workers).0 == worker
    }
}

const _: () = assert!(VNODES as u32 == 1 << 10, "VNode::of_hash takes the top 10 bits");

/// The place of a worker among all workers, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct WorkerIndex(pub usize);
