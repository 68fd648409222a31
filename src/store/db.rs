//! One database: its table of keys, the index of their deadlines and that of the hashes with
//! volatile fields, kept in step.
//!
//! Invariants: a volatile entry's back-reference names exactly one item of the index, which holds
//! the entry's placement hash; the index holds nothing else. The same is true of hashes with
//! volatile fields and the other index. While a snapshot is being taken, no
//! entry that it has not saved yet is changed or removed without having been handed to
//! [`Cut::keep`] first.
//!
//! Not here: who may see a key (`Live`).

use super::entry::{Expiry, Parts, Slot};
use super::entry_mut::{EntryMut, EntrySum};
use super::graveyard::Graveyard;
use super::leases::Fills;
use super::members::{self, Deadlines};
use super::preimages::Cut;
use super::table::{Place, Table};
use crate::clock::UnixMillis;
use crate::expiry::index::{Coming, Filing, ItemRef, Refile, Strata};
use crate::expiry::{Basis, Deadline, Term, is_due};

/// What happens to a deadline when a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// The key becomes persistent.
    Drop,
    /// The key keeps what it has.
    Keep,
    /// The key dies then.
    At(Term),
}

/// What an index files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filed {
    /// Volatile keys.
    Keys,
    /// Hashes with volatile fields.
    Members,
}

/// Coarse buckets begin at the same moment in all databases. Those with no more items than this are
/// refiled at once,
const REFILED_AT_ONCE_MAX: usize = 1024;
/// each some time after it could be, in ms, that is spread over half the time there is.
const REFILE_SPREAD_MS: u64 = 16_384;

/// When to refile a coarse bucket in the database of this number.
fn refile_time(refile: Refile, number: usize) -> UnixMillis {
    if refile.items > REFILED_AT_ONCE_MAX {
        return refile.at;
    }
    // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): close numbers come far
    // apart.
    let hash = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    refile.at.plus(((hash * REFILE_SPREAD_MS) >> 32) as i64)
}

/// Files a key by a term given in this era, anew if it had an expiry.
fn file(index: &mut Strata, era: bool, (hash, old): (u64, Option<Expiry>), term: Term) -> Expiry {
    let item = match old {
        Some(old) => index.change(old.item, old.filing(), term),
        None => index.insert(hash, Filing::from(term)),
    };
    Expiry {
        era,
        ..Expiry::new(term, item)
    }
}

/// One database.
pub struct Db {
    /// The keys.
    pub table: Table,
    /// Their deadlines.
    pub index: Strata,
    /// Hashes with volatile fields, by a deadline that no field's is before.
    pub members: Strata,
    /// Leases on keys that are not there.
    pub fills: Fills,
    /// The era of the wall clock in which deadlines are given now.
    pub era: bool,
    /// Whether some of the former era are still to be moved, in any database.
    pub is_shifting: bool,
    /// By how much deadlines of the former era that were given as moments are moved, in ms.
    pub shift_ms: i64,
    /// The number this database had when the running snapshot was cut; none if it began later.
    pub cut_number: Option<u16>,
}

impl Db {
    /// An empty database.
    pub fn new(table: Table, now: UnixMillis) -> Db {
        Db {
            table,
            index: Strata::new(now),
            members: Strata::new(now),
            fills: Fills::default(),
            era: false,
            is_shifting: false,
            shift_ms: 0,
            cut_number: None,
        }
    }

    /// Bytes of its table and of its indexes, without entries.
    pub fn allocated_bytes(&self) -> usize {
        let indexes = self.index.allocated_bytes() + self.members.allocated_bytes();
        self.table.allocated_bytes() + indexes
    }

    fn unfile(&mut self, slot: &Slot) {
        if let Some((filing, item)) = slot.filed() {
            self.index.remove(item, filing);
        }
        if let Some((deadline, item)) = members::filed(slot) {
            self.members.remove(item, deadline);
        }
    }

    /// One of the two indexes.
    pub fn index_of(&self, what: Filed) -> &Strata {
        match what {
            Filed::Keys => &self.index,
            Filed::Members => &self.members,
        }
    }

    /// The same to be changed.
    pub fn index_of_mut(&mut self, what: Filed) -> &mut Strata {
        match what {
            Filed::Keys => &mut self.index,
            Filed::Members => &mut self.members,
        }
    }

    /// Adds a key that is not there.
    pub fn insert(&mut self, hash: u64, parts: Parts<'_>, term: Option<Term>) {
        let expiry = term.map(|term| file(&mut self.index, self.era, (hash, None), term));
        self.table
            .insert(hash, Slot::new(hash, Parts { expiry, ..parts }));
    }

    /// Adds an entry made elsewhere under its own deadlines; its back-references are renewed.
    pub fn insert_slot(&mut self, hash: u64, mut slot: Slot) {
        if let Some(expiry) = slot.expiry() {
            let mut new = Expiry {
                slid_ms: 0,
                ..expiry
            };
            if new.basis == Basis::Absolute && new.era != self.era {
                // Where it goes deadlines may have been moved already.
                new.deadline = Deadline(new.deadline.0.plus(self.shift_ms));
            }
            new.era = self.era;
            new.item = self.index.insert(hash, new.filing());
            slot.set_expiry(Some(new));
        }
        if let Some((mut deadline, _)) = members::filed(&slot) {
            let mut sum = EntrySum {
                bytes: slot.allocated_bytes(),
                lent: None,
            };
            let mut entry = EntryMut::outside(&mut slot, &mut sum);
            if self.is_shifting {
                members::shift(&mut entry, self.era, self.shift_ms);
                let soonest = members::deadlines_of(&entry).and_then(Deadlines::soonest);
                deadline = soonest.unwrap_or(deadline);
            }
            let item = self.members.insert(hash, deadline);
            members::set_filed(&mut entry, Some((deadline, item)));
        }
        self.table.insert(hash, slot);
    }

    /// Overwrites the value of a key that was just found.
    pub fn overwrite(
        &mut self,
        cut: &mut Cut,
        graveyard: &mut Graveyard,
        (hash, place): (u64, Place),
        parts: Parts<'_>,
        ttl: Ttl,
    ) {
        let mut slot = self.table.at_mut(place);
        if let Some((deadline, item)) = members::filed(&slot) {
            self.members.remove(item, deadline);
        }
        let expiry = match (slot.expiry(), ttl) {
            (old, Ttl::Keep) => old.map(Expiry::without_lease),
            (None, Ttl::Drop) => None,
            (Some(old), Ttl::Drop) => {
                self.index.remove(old.item, old.filing());
                None
            }
            (old, Ttl::At(term)) => Some(file(&mut self.index, self.era, (hash, old), term)),
        };
        let parts = Parts { expiry, ..parts };
        if cut.wants(&slot)
            && let Some(number) = self.cut_number
        {
            let old = slot.exchange(Slot::new(hash, parts));
            cut.keep(number, old);
        } else {
            let old = slot.replace(parts);
            old.into_iter()
                .for_each(|value| graveyard.bury_value(value));
        }
    }

    /// Slides both indexes to `now`: what has ended becomes ripe.
    pub fn advance(&mut self, now: UnixMillis) {
        self.index.advance(now);
        self.members.advance(now);
    }

    /// When expiry has something to do here; none if never. `number` is the database's.
    pub fn next_wakeup(&self, number: usize) -> Option<UnixMillis> {
        let wakeups = [&self.index, &self.members].map(|index| {
            let refile = index
                .next_refile()
                .map(|refile| refile_time(refile, number));
            index.next_ripe().into_iter().chain(refile).min()
        });
        wakeups.into_iter().flatten().min()
    }

    /// The coming bucket of an index, if it is time to refile some of it.
    pub fn coming(&self, what: Filed, number: usize, now: UnixMillis) -> Option<Coming> {
        let index = self.index_of(what);
        let refile = index.next_refile()?;
        if refile_time(refile, number) > now {
            return None;
        }
        index.draw_coming(0, &mut Vec::new())
    }

    /// Hands an entry that is about to be changed in place to the running snapshot, if it has not
    /// been saved yet.
    pub fn preserve(cut: &mut Cut, number: Option<u16>, slot: &Slot) {
        if cut.wants(slot) {
            if let Some(number) = number {
                cut.keep(number, slot.frozen());
            }
            slot.set_epoch(cut.epoch);
        }
    }

    /// Gives a key that was just found another deadline, or none.
    pub fn set_term(&mut self, cut: &mut Cut, (hash, place): (u64, Place), term: Option<Term>) {
        let mut slot = self.table.at_mut(place);
        Db::preserve(cut, self.cut_number, &slot);
        match (slot.expiry(), term) {
            (None, None) => {}
            (Some(old), None) => {
                self.index.remove(old.item, old.filing());
                slot.set_expiry(None);
            }
            (old, Some(term)) => {
                let expiry = file(&mut self.index, self.era, (hash, old), term);
                slot.set_expiry(Some(expiry));
            }
        }
    }

    /// Removes the entry found by its hash and a test; true if there was one. `seen` gets a last
    /// look at it. Without a cut nothing is kept for the snapshot: a due entry is not saved.
    pub fn remove_by(
        &mut self,
        cut: Option<&mut Cut>,
        graveyard: &mut Graveyard,
        hash: u64,
        is_it: impl Fn(&Slot) -> bool,
        seen: impl FnOnce(&Slot),
    ) -> bool {
        let Some(slot) = self.table.remove_by(hash, is_it) else {
            return false;
        };
        self.unfile(&slot);
        seen(&slot);
        if let Some(cut) = cut
            && cut.wants(&slot)
            && let Some(number) = self.cut_number
        {
            cut.keep(number, slot);
        } else {
            graveyard.bury_entry(slot);
        }
        true
    }

    /// Takes the entry out that is found by its hash and a test and is due: nothing is kept for the
    /// snapshot.
    pub fn take_dead(&mut self, hash: u64, is_it: impl Fn(&Slot) -> bool) -> Option<Slot> {
        let slot = self.table.remove_by(hash, is_it)?;
        self.unfile(&slot);
        Some(slot)
    }

    /// Takes a key out, entry and all; what the snapshot needs is copied for it.
    pub fn take(&mut self, cut: &mut Cut, hash: u64, key: &[u8]) -> Option<Slot> {
        let slot = self.table.remove(hash, key)?;
        Db::preserve(cut, self.cut_number, &slot);
        self.unfile(&slot);
        Some(slot)
    }

    /// Refiles a drawn item under its entry's deadline. A key whose soft deadline has come is
    /// handed to `stale`, once.
    pub fn refile(
        &mut self,
        what: Filed,
        (item, hash): (ItemRef, u64),
        now: UnixMillis,
        stale: impl FnOnce(&[u8]),
    ) {
        match what {
            Filed::Keys => self.refile_key(hash, item, now, stale),
            Filed::Members => self.file_members(hash, item),
        }
    }

    /// Files a collection anew by the soonest deadline of its members, or no more if it has no
    /// volatile ones.
    pub fn file_members(&mut self, hash: u64, item: ItemRef) {
        let is_it = |slot: &Slot| members::is_filed_at(slot, item);
        let Some(mut slot) = self.table.find_by_mut(hash, is_it) else {
            return;
        };
        let Some(deadlines) = members::deadlines_of(&slot) else {
            return;
        };
        let Some((old, _)) = deadlines.filed() else {
            return;
        };
        let filed = match deadlines.soonest() {
            Some(soonest) => {
                let item = self.members.change(item, old, soonest);
                Some((soonest, self.members.refile(item, soonest)))
            }
            None => {
                self.members.remove(item, old);
                None
            }
        };
        members::set_filed(&mut slot, filed);
    }

    /// Files a key anew by its deadline. If its soft deadline has come, it is handed to `stale`
    /// first, once.
    fn refile_key(&mut self, hash: u64, item: ItemRef, now: UnixMillis, stale: impl FnOnce(&[u8])) {
        let Some(mut slot) = self
            .table
            .find_by_mut(hash, |slot| slot.item() == Some(item))
        else {
            return;
        };
        let Some(expiry) = slot.expiry() else {
            return;
        };
        let mut term = expiry.term();
        let has_come = term.soft_deadline().is_some_and(|soft| is_due(soft, now));
        if let Some(soft) = term.soft.as_mut().filter(|soft| has_come && !soft.is_told) {
            soft.is_told = true;
            stale(slot.key());
        }
        self.index.change(item, expiry.filing(), term);
        let item = self.index.refile(item, term);
        slot.set_expiry(Some(Expiry {
            item,
            slid_ms: 0,
            soft: term.soft,
            ..expiry
        }));
    }

    /// Moves the deadline of a key that was given as a moment before the wall clock was set.
    pub fn shift(&mut self, (item, hash): (ItemRef, u64)) {
        let is_it = |slot: &Slot| slot.item() == Some(item);
        let Some(mut slot) = self.table.find_by_mut(hash, is_it) else {
            return;
        };
        let Some(old) = slot.expiry() else {
            return;
        };
        let mut new = Expiry {
            deadline: Deadline(old.deadline.0.plus(self.shift_ms)),
            slid_ms: 0,
            era: self.era,
            ..old
        };
        new.item = self.index.change(item, old.filing(), new.filing());
        slot.set_expiry(Some(new));
    }

    /// Moves the deadlines of members of a collection that were given as moments before the wall
    /// clock was set, all at once: some 5 ms for a million.
    pub fn shift_members(&mut self, (item, hash): (ItemRef, u64)) {
        let is_it = |slot: &Slot| members::is_filed_at(slot, item);
        if let Some(mut slot) = self.table.find_by_mut(hash, is_it) {
            members::shift(&mut slot, self.era, self.shift_ms);
        }
        self.file_members(hash, item);
    }

    /// Checks that index and table agree; for tests.
    ///
    /// # Panics
    /// If they do not.
    pub fn check(&self) {
        self.table.check();
        self.index.check();
        self.members.check();
        let (mut dated, mut dated_sum) = (0, 0i128);
        let mut volatile = 0;
        let mut sum = 0i128;
        let mut walk = super::table::Walk::default();
        while !walk.is_done() {
            self.table.walk(&mut walk, usize::MAX / 2, |slot| {
                if let Some((filing, item)) = slot.filed() {
                    volatile += 1;
                    sum += i128::from(filing.deadline.0.0);
                    assert!(
                        self.index.contains(item),
                        "an entry names an item that is not there"
                    );
                    assert_eq!(super::entry::tag(self.index.hash(item)), slot.tag());
                }
                assert_eq!(members::filed(slot).is_some(), has_volatile_members(slot));
                if let Some((deadline, item)) = members::filed(slot) {
                    dated += 1;
                    dated_sum += i128::from(deadline.0.0);
                    assert!(
                        self.members.contains(item),
                        "a collection names an item that is not there"
                    );
                    assert_eq!(super::entry::tag(self.members.hash(item)), slot.tag());
                }
                true
            });
        }
        assert_eq!(volatile, self.index.len(), "index and table disagree");
        assert_eq!(sum, self.index.deadline_sum());
        assert_eq!(
            dated,
            self.members.len(),
            "index of collections and table disagree"
        );
        assert_eq!(dated_sum, self.members.deadline_sum());
    }
}

/// Whether a collection has volatile members, none of which dies before it is looked at; for tests.
fn has_volatile_members(slot: &Slot) -> bool {
    let soonest = members::deadlines_of(slot).and_then(Deadlines::survey);
    let filed = members::filed(slot).map(|(deadline, _)| deadline);
    assert!(soonest >= filed, "a collection is filed too late");
    soonest.is_some()
}
