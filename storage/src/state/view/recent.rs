//! The keys of a view that have changed since a flush, and what they have become: the writer's own index into the layers.

use super::layer::{Change, Layer};
use crate::state::slot_index::SlotIndex;
use std::sync::Arc;

/// Where the newest version of a key is.
#[derive(Clone, Copy)]
pub(super) struct Touched {
    pub(super) hash: u64,
    layer: u32,
    row: u32,
}

/// The layers of a generation, with the newest version of each key by key.
#[derive(Default)]
pub(super) struct Recent {
    pub(super) layers: Vec<Arc<Layer>>,
    index: SlotIndex,
    touched: Vec<Touched>,
}

impl Recent {
    /// The place of a key among the touched ones.
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.index.find(hash, |slot| {
            let touched = &self.touched[slot as usize];
            touched.hash == hash && self.layers[touched.layer as usize].bare_key(touched.row as usize) == key
        })
    }

    /// The value of a touched key; none if it is gone.
    pub(super) fn value(&self, place: u32) -> Option<&[u8]> {
        let touched = &self.touched[place as usize];
        match self.layers[touched.layer as usize].change(touched.row as usize) {
            Change::Row(value) => value,
            Change::Count(_) => None,
        }
    }

    /// Notes that the newest version of a key is a row of the layer about to be added. `place` is where `find` has found it.
    pub(super) fn touch(&mut self, place: Option<u32>, hash: u64, row: u32) {
        let now = Touched { hash, layer: self.layers.len() as u32, row };
        match place {
            Some(place) => self.touched[place as usize] = now,
            None => {
                let slot = self.touched.len() as u32;
                self.touched.push(now);
                self.index.insert(hash, slot, |slot| self.touched[slot as usize].hash);
            }
        }
    }

    /// Hash, key and value of every touched key.
    pub(super) fn versions(&self) -> impl Iterator<Item = (u64, &[u8], Option<&[u8]>)> {
        self.touched.iter().enumerate().map(|(place, touched)| {
            let key = self.layers[touched.layer as usize].bare_key(touched.row as usize);
            (touched.hash, key, self.value(place as u32))
        })
    }

    /// The memory of the index, without the layers.
    pub(super) fn index_bytes(&self) -> usize {
        self.index.memory_bytes() + self.touched.capacity() * size_of::<Touched>()
    }
}
