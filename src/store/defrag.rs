//! Moving what lives out of sparse slabs, so that the allocator can give them back.
//!
//! A pass walks all tables once. Nothing but an entry's slot knows where the entry is, so moving it
//! is a copy of its bytes; a big value is moved piece by piece, but for the pieces that a snapshot
//! still reads. What a value says, its deadline and its stamp stay as they are, and nobody is told.
//!
//! Not here: when a pass is worth it and how fast it goes (`engine::defrag`), what is sparse
//! (`heap`).

use super::Keyspace;
use super::db::Db;
use super::entry_mut::EntryMut;
use super::table::Walk;
use crate::heap::Heap;
use crate::value::Value;

/// Buckets looked at in a step,
const BUCKETS_PER_STEP: usize = 64;
/// allocations looked at until it ends,
const LOOKED_AT_PER_STEP: usize = 128;
/// and bytes moved.
const BYTES_PER_STEP: usize = 64 * 1024;

/// What a pass has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Allocations that were moved.
    pub moved: u64,
    /// Allocations that were left where they were.
    pub left: u64,
    /// Keys of which something was moved.
    pub keys_moved: u64,
    /// Keys of which nothing was moved.
    pub keys_left: u64,
}

impl Moved {
    /// The sums of both.
    pub fn plus(self, other: Moved) -> Moved {
        Moved {
            moved: self.moved + other.moved,
            left: self.left + other.left,
            keys_moved: self.keys_moved + other.keys_moved,
            keys_left: self.keys_left + other.keys_left,
        }
    }
}

/// A big value in whose middle a step ended.
struct Unfinished {
    hash: u64,
    key: Box<[u8]>,
    /// The next piece.
    piece: usize,
}

/// A pass over everything, and how far it has come.
#[derive(Default)]
pub struct Pass {
    db: usize,
    walk: Walk,
    unfinished: Option<Unfinished>,
    /// After the table of a database: the next page of its indexes.
    page: usize,
    /// What it has done.
    pub done: Moved,
}

/// What a step may still do, and asks.
struct Mover<'a> {
    heap: &'a Heap,
    looked_at: usize,
    bytes: usize,
    done: Moved,
}

impl Mover<'_> {
    /// Whether the allocation at this address, of so many bytes, is to be moved now.
    fn should_move(&mut self, address: usize, bytes: usize) -> bool {
        let is_sparse = self.heap.is_sparse(address);
        self.looked_at += 1;
        if is_sparse {
            self.bytes += bytes;
            self.done.moved += 1;
        } else {
            self.done.left += 1;
        }
        is_sparse
    }

    /// Whether the step has done enough.
    fn is_spent(&self) -> bool {
        self.looked_at >= LOOKED_AT_PER_STEP || self.bytes >= BYTES_PER_STEP
    }

    /// Moves what the entry has; the next piece of its big value if the step ended before that was
    /// done.
    fn move_entry(&mut self, entry: &mut EntryMut<'_>) -> Option<usize> {
        let moved_before = self.done.moved;
        if self.should_move(entry.address(), entry.own_bytes()) {
            entry.relocate();
        }
        let unfinished = if entry.is_boxed() {
            self.move_value(entry, 0)
        } else {
            None
        };
        if self.done.moved > moved_before {
            self.done.keys_moved += 1;
        } else {
            self.done.keys_left += 1;
        }
        unfinished
    }

    /// Moves what both indexes have in the page of this number; false if neither has such a page.
    fn move_indexes(&mut self, db: &mut Db, page: usize) -> bool {
        let [keys, members] = [&mut db.index, &mut db.members].map(|index| {
            index.relocate(page, &mut |address, bytes| self.should_move(address, bytes))
        });
        keys || members
    }

    fn move_value(&mut self, entry: &mut EntryMut<'_>, mut piece: usize) -> Option<usize> {
        if piece == 0
            && let Some(address) = entry.box_address()
            && self.should_move(address, size_of::<Value>())
        {
            entry.relocate_box();
        }
        if !entry.is_big() {
            return None;
        }
        let value = entry.value_mut()?;
        while value.relocate(piece, &mut |address, bytes| {
            self.should_move(address, bytes)
        }) {
            piece += 1;
            if self.is_spent() {
                return Some(piece);
            }
        }
        None
    }
}

impl Keyspace {
    /// A step of a pass; false if that was the last one.
    pub fn defragment_step(&mut self, pass: &mut Pass, heap: &Heap) -> bool {
        // There may be fewer databases than when the pass began.
        let Some(db) = self.dbs.get_mut(pass.db) else {
            return false;
        };
        let mut mover = Mover {
            heap,
            looked_at: 0,
            bytes: 0,
            done: pass.done,
        };
        if let Some(last) = pass.unfinished.take() {
            let place = db.table.locate(last.hash, &last.key);
            let piece = place.and_then(|place| {
                let mut entry = db.table.at_mut(place);
                mover.move_value(&mut entry, last.piece)
            });
            pass.unfinished = piece.map(|piece| Unfinished { piece, ..last });
        } else if !pass.walk.is_done() {
            let mut unfinished = None;
            let table = &mut db.table;
            table.walk_mut(&mut pass.walk, BUCKETS_PER_STEP, |mut entry| {
                if let Some(piece) = mover.move_entry(&mut entry) {
                    unfinished = Some((Box::from(entry.key()), piece));
                }
                !mover.is_spent()
            });
            pass.unfinished = unfinished.map(|(key, piece)| Unfinished {
                hash: self.placement.hash(&key),
                key,
                piece,
            });
        } else if mover.move_indexes(db, pass.page) {
            pass.page += 1;
        } else {
            (pass.walk, pass.page) = (Walk::default(), 0);
            pass.db += 1;
        }
        pass.done = mover.done;
        pass.db < self.dbs.len()
    }
}
