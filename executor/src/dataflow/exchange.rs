//! How packets find their worker.

use super::packet::Packet;
use arrow::array::UInt32Array;
use thalweg_catalog::hash::hash_columns;
use thalweg_catalog::{Delta, VNode};
use thalweg_plan::Exchange;
use timely::communication::Push;
use timely::dataflow::channels::Message;
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::progress::Stamp;

/// Sends rows as `exchange` says, and watermarks to every worker. Not used with one worker.
pub struct PacketDistributor {
    exchange: Exchange,
    workers: usize,
    own: usize,
    /// The rows that go to each worker; kept between calls for their memory.
    rows: Vec<Vec<u32>>,
}

impl PacketDistributor {
    /// From worker `own` to so many workers.
    pub fn new(exchange: Exchange, workers: usize, own: usize) -> PacketDistributor {
        PacketDistributor { exchange, workers, own, rows: vec![vec![]; workers] }
    }

    fn by_hash(&mut self, delta: Delta, columns: &[usize]) -> Vec<(usize, Packet)> {
        let keys: Vec<_> = columns.iter().map(|c| delta.batch().column(*c).clone()).collect();
        let hashes = hash_columns(&keys, delta.num_rows()).expect("the planner exchanges only by columns that can be hashed");
        self.rows.iter_mut().for_each(Vec::clear);
        for (row, hash) in hashes.iter().enumerate() {
            self.rows[VNode::of_hash(*hash).worker(self.workers).0].push(row as u32);
        }
        let total = delta.num_rows();
        let share = |(worker, rows): (usize, &Vec<u32>)| match rows.len() {
            0 => None,
            n if n == total => Some((worker, Packet::Rows(delta.clone()))),
            _ => {
                let taken = delta.take(&UInt32Array::from(rows.clone())).expect("places below the number of rows");
                Some((worker, Packet::Rows(taken)))
            }
        };
        self.rows.iter().enumerate().filter_map(share).collect()
    }
}

impl Distributor<Packet> for PacketDistributor {
    fn partition<T: Clone, P: Push<Message<T, Packet>>>(&mut self, container: &mut Packet, stamp: &Stamp<T>, pushers: &mut [P]) {
        let sends = match std::mem::take(container) {
            Packet::Empty => vec![],
            Packet::Rows(delta) => match self.exchange.clone() {
                Exchange::Hash(columns) => self.by_hash(delta, &columns),
                Exchange::Single => vec![(VNode::of_hash(0).worker(self.workers).0, Packet::Rows(delta))],
                Exchange::Local => vec![(self.own, Packet::Rows(delta))],
                Exchange::Broadcast => unreachable!("rows that go to all come here as such"),
            },
            Packet::RowsToAll { delta, .. } => {
                (0..self.workers).map(|worker| (worker, Packet::RowsToAll { delta: delta.clone(), copies: 1 })).collect()
            }
            Packet::Marks { from, marks, .. } => {
                (0..self.workers).map(|worker| (worker, Packet::Marks { from, marks: marks.clone(), copies: 1 })).collect()
            }
        };
        for (worker, mut packet) in sends {
            Message::push_at(&mut packet, stamp.clone(), &mut pushers[worker]);
        }
    }

    fn flush<T: Clone, P: Push<Message<T, Packet>>>(&mut self, _stamp: &Stamp<T>, _pushers: &mut [P]) {}
}
