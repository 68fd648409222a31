//! The strata: every volatile key of one database, filed by deadline (drawing in `expiry`).
//!
//! An item is the top half of the hash of a key and nothing else; the entry holds the deadline and
//! a reference back. That half is all the table of keys places an entry by, so whoever draws an
//! item finds the entry with it, knowing it by its reference. Filing costs no comparison: the
//! bucket is the deadline shifted, the ring the first whose window reaches it. Whether a chunk is
//! ripe is not noted in it but follows from its bucket number, so a bucket of a million items
//! ripens by splicing one list.
//!
//! Rings have 2, not 1, of the next ring's buckets in their window: all of a coming bucket's items
//! fit the finer window from one bucket width before it begins, and there is that long to refile
//! them. Buckets of A are 8 ms wide because half of that is the median lag of an idle server (with
//! 16 ms: 10.6 ms; benches/peers.py, lag).
//!
//! Chunks of a bucket grow 8, 8, 16, 32, 64, 64, ..: with one step from 8 to 64 a bucket of 12
//! items would be one sixth full. Bytes per item and ns per operation: `benches/strata.rs`.
//!
//! A clock that goes back (`expire-clock wall`) makes some of what is filed too far off for its
//! ring, or ripe too early. Those chunks go to the review queue as a whole and are refiled from
//! there item by item, as everything from the beyond stratum is.
//!
//! Invariants, beside those of `expiry`: ring buckets are numbered `base .. base + slots`; ripe
//! chunks have numbers below their ring's base. In rings and beyond, chunks with an eighth of their
//! places free precede full ones. The ripe queue is in the order in which buckets ended.
//!
//! Not here: deadlines of items. Whoever removes or changes an item brings the one it was filed or
//! last changed with; a wrong one spoils the count of extended items, which `check` finds.

use rand::{Rng, RngExt};

use super::bitmap::Bitmap;
use super::chunks::{CHUNK_ITEMS_MAX, Chunk, Level, NONE, PAGE_CHUNKS, Pile, Slab};
use super::{Deadline, Term, is_due};
use crate::clock::UnixMillis;
use crate::heap::ShouldMove;

/// Places tried per item wanted in [`Strata::draw_all`]; even if chunks hold one item each, nearly
/// two in three succeed.
const TRIES_PER_DRAW: usize = 64;
/// Beyond is reviewed when it begins within this many buckets of ring C, half its window.
const REVIEW_AHEAD_BUCKETS: i64 = 2_048;
/// The number of a bucket that begins at the beginning of time: for chunks to review at once.
const LIMBO: i64 = i64::MIN >> Level::Beyond.shift();
/// Piles of a ring that are allocated together: as many as a word of its bitmap has bits.
const PAGE_PILES: usize = 64;
/// The rings of an index that has been empty this long are given back; not sooner, so that one key
/// set and deleted over and over does not pay for them each time.
const RINGS_KEPT_MS: i64 = 131_072;

/// Where an item is: 26 bits of chunk, 6 bits of place. `u32::MAX` is no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemRef(pub u32);

impl ItemRef {
    pub(super) fn new(chunk: u32, place: u32) -> ItemRef {
        ItemRef(chunk << 6 | place)
    }

    fn chunk(self) -> u32 {
        self.0 >> 6
    }

    fn bit(self) -> u64 {
        1 << (self.0 & 63)
    }
}

/// What the index knows of an item's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filing {
    /// The item is not due before.
    pub deadline: Deadline,
    /// The deadline moves on without the index being told: whoever draws the item will see.
    pub slides: bool,
}

impl From<Deadline> for Filing {
    fn from(deadline: Deadline) -> Filing {
        Filing {
            deadline,
            slides: false,
        }
    }
}

impl From<Term> for Filing {
    /// A key whose soft deadline is to be reported comes up then.
    fn from(term: Term) -> Filing {
        match term.soft_deadline() {
            Some(soft) if term.soft.is_some_and(|soft| !soft.is_told) => Filing {
                deadline: soft,
                slides: true,
            },
            _ => Filing {
                deadline: term.deadline,
                slides: term.sliding_ms.is_some(),
            },
        }
    }
}

impl Filing {
    /// Whether the item may not be due when a bucket it is filed in has ended: its deadline is
    /// later or slides. What has no end has nothing to be later than.
    #[inline]
    pub(super) fn is_extended(self, last: i64) -> bool {
        let slides = self.slides && last < i64::MAX;
        slides || !is_due(self.deadline, UnixMillis(last))
    }
}

/// What [`Strata::draw_coming`] drew from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming {
    /// Items of the nearest bucket that is to be refiled, drawn ones included.
    pub items: usize,
    /// Milliseconds until that bucket begins: until then all of them should be refiled.
    pub begins_in_ms: i64,
}

/// A coarse bucket that is, or will be, coming.
#[derive(Clone, Copy, Debug)]
pub struct Refile {
    /// When to refile some of it.
    pub at: UnixMillis,
    /// How many items it has.
    pub items: usize,
}

/// Items that are filed together.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// No deadline is before this millisecond.
    pub(super) start: i64,
    /// Deadlines after this one are those of extended items.
    pub(super) last: i64,
    pub(super) pile: Pile,
}

impl Bucket {
    /// No item has a deadline before this.
    pub fn start(&self) -> UnixMillis {
        UnixMillis(self.start)
    }

    /// Only extended items have a deadline after this.
    pub fn last(&self) -> UnixMillis {
        UnixMillis(self.last)
    }

    /// Whether all its items are due at `now`.
    pub fn is_due(&self, now: UnixMillis) -> bool {
        self.pile.extended == 0 && self.last <= now.0
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.pile.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pile.len == 0
    }
}

#[derive(Debug)]
struct Ring {
    level: Level,
    slots: usize,
    /// The first bucket that has not ended: the window's start.
    base: i64,
    /// The piles of all slots, by pages, or none until first used. A page is there iff one of its
    /// piles is not empty.
    pages: Box<[Option<Box<Page>>]>,
    /// An empty page that is kept, so that one key set and deleted over and over finds it.
    spare: Option<Box<Page>>,
    /// Slots that are not empty: a word for each page.
    filled: Bitmap,
}

/// The piles of as many slots as a word of the bitmap has bits.
type Page = [Pile; PAGE_PILES];

impl Ring {
    fn new(level: Level, slots: usize, now: UnixMillis) -> Ring {
        Ring {
            level,
            slots,
            base: first_not_ended(level, now),
            pages: Box::default(),
            spare: None,
            filled: Bitmap::default(),
        }
    }

    #[inline]
    fn slot(&self, bucket: i64) -> usize {
        bucket as usize & (self.slots - 1)
    }

    fn release(&mut self) {
        self.pages = Box::default();
        self.spare = None;
        self.filled = Bitmap::default();
    }

    /// The pile of a bucket in the window.
    fn pile(&self, bucket: i64) -> &Pile {
        let slot = self.slot(bucket);
        let page = self.pages.get(slot / PAGE_PILES);
        match page.and_then(Option::as_deref) {
            Some(page) => &page[slot % PAGE_PILES],
            None => &Pile::EMPTY,
        }
    }

    /// Notes that something is about to be filed in a bucket of the window.
    #[inline]
    fn fill(&mut self, bucket: i64) {
        if self.pages.is_empty() {
            self.pages = (0..self.slots / PAGE_PILES).map(|_| None).collect();
            self.filled.grow(self.slots);
        }
        self.filled.set(self.slot(bucket));
    }

    /// The pile of a bucket that was filled, to be changed.
    #[inline]
    fn pile_mut(&mut self, bucket: i64) -> &mut Pile {
        let slot = self.slot(bucket);
        let page = self.pages[slot / PAGE_PILES].get_or_insert_with(|| {
            let spare = self.spare.take();
            spare.unwrap_or_else(|| Box::new([Pile::EMPTY; PAGE_PILES]))
        });
        &mut page[slot % PAGE_PILES]
    }

    /// The first bucket that is not empty, from `from` (not before the window) on.
    fn next_filled(&self, from: i64) -> Option<i64> {
        let end = self.base + self.slots as i64;
        if from >= end {
            return None;
        }
        let slot = self.slot(from);
        let found = self
            .filled
            .first_from(slot)
            .or_else(|| self.filled.first_from(0))?;
        let bucket = from + (found.wrapping_sub(slot) & (self.slots - 1)) as i64;
        // Past the end of the slots, what is found may lie before `from`.
        (bucket < end).then_some(bucket)
    }

    /// All buckets that are not empty, in order.
    fn filled_buckets(&self) -> impl Iterator<Item = i64> {
        let first = self.next_filled(self.base);
        std::iter::successors(first, |&bucket| self.next_filled(bucket + 1))
    }

    /// The same with their ends and lists.
    fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.filled_buckets().map(|bucket| Bucket {
            start: self.level.start(bucket),
            last: self.level.last(bucket),
            pile: *self.pile(bucket),
        })
    }

    /// Empties a bucket's slot and returns what was in it. Links stay as they are.
    fn take(&mut self, bucket: i64) -> Pile {
        let slot = self.slot(bucket);
        self.filled.clear(slot);
        let pile = std::mem::replace(self.pile_mut(bucket), Pile::EMPTY);
        if self.filled.is_word_empty(slot) {
            self.spare = self.pages[slot / PAGE_PILES].take();
        }
        pile
    }
}

/// The bucket whose last millisecond is not due at `now` while that of the one before it is.
fn first_not_ended(level: Level, now: UnixMillis) -> i64 {
    now.0.saturating_add(1) >> level.shift()
}

/// Where to file an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Destination {
    level: Level,
    bucket: i64,
}

/// All lists of chunks. Apart from the slab, so that both can be borrowed.
#[derive(Debug)]
struct Piles {
    /// A, B and C.
    rings: [Ring; 3],
    /// Ended buckets, oldest first.
    ripe: Pile,
    /// Deadlines that ring C did not reach. All its chunks have the bucket number
    /// `beyond_bucket`, where its window ended when the pile was begun.
    beyond: Pile,
    beyond_bucket: i64,
    /// Chunks of the beyond stratum that are to be refiled item by item; those that may hold due
    /// items first.
    review: Pile,
    /// Beyond chunks below this number are in `review`.
    review_base: i64,
}

impl Piles {
    fn new(now: UnixMillis) -> Piles {
        let rings = [
            Ring::new(Level::A, 8_192, now),
            Ring::new(Level::B, 4_096, now),
            Ring::new(Level::C, 4_096, now),
        ];
        let review_base = rings[2].base + REVIEW_AHEAD_BUCKETS;
        Piles {
            rings,
            ripe: Pile::EMPTY,
            beyond: Pile::EMPTY,
            beyond_bucket: 0,
            review: Pile::EMPTY,
            review_base,
        }
    }

    #[inline]
    fn place(&self, deadline: Deadline) -> Destination {
        let at = deadline.0.0;
        if self.ring_a().base > at >> Level::A.shift() {
            return Destination {
                level: Level::A,
                bucket: self.ring_a().base - 1,
            };
        }
        for ring in &self.rings {
            let bucket = at >> ring.level.shift();
            if bucket - ring.base < ring.slots as i64 {
                return Destination {
                    level: ring.level,
                    bucket,
                };
            }
        }
        let bucket = if self.beyond.head == NONE {
            self.beyond_end()
        } else {
            self.beyond_bucket
        };
        Destination {
            level: Level::Beyond,
            bucket,
        }
    }

    fn ring_a(&self) -> &Ring {
        &self.rings[0]
    }

    /// The bucket of C where its window ends and beyond begins.
    fn beyond_end(&self) -> i64 {
        self.rings[2].base + self.rings[2].slots as i64
    }

    #[inline]
    fn is_ripe(&self, level: Level, bucket: i64) -> bool {
        level != Level::Beyond && bucket < self.rings[level as usize].base
    }

    /// Whether chunks filed there are kept in the order of arrival rather than by room.
    #[inline]
    fn is_queue(&self, level: Level, bucket: i64) -> bool {
        match level {
            Level::Beyond => bucket < self.review_base,
            _ => bucket < self.rings[level as usize].base,
        }
    }

    /// The list of the chunks filed there.
    #[inline]
    fn pile(&mut self, level: Level, bucket: i64) -> &mut Pile {
        if level == Level::Beyond {
            return if bucket < self.review_base {
                &mut self.review
            } else {
                &mut self.beyond
            };
        }
        let ring = &mut self.rings[level as usize];
        if bucket < ring.base {
            return &mut self.ripe;
        }
        ring.pile_mut(bucket)
    }

    /// Piles of coarse buckets that have begun without having been refiled, with their start. That
    /// of the review queue is not known, and given as the end of time.
    fn begun(&self, slab: &Slab) -> [(Pile, i64); 3] {
        let [_, b, c] = &self.rings;
        let mut review = self.review;
        if review.head != NONE && slab.get(review.head).bucket > c.base {
            review = Pile::EMPTY;
        }
        [
            (*b.pile(b.base), b.level.start(b.base)),
            (*c.pile(c.base), c.level.start(c.base)),
            (review, i64::MAX),
        ]
    }

    /// Piles of coarse buckets that can be refiled and have not begun, nearest first.
    fn coming(&self, slab: &Slab) -> [(Pile, i64); 3] {
        let [_, b, c] = &self.rings;
        let (mut review, mut start) = (self.review, i64::MAX);
        if review.head != NONE {
            start = Level::Beyond.start(slab.get(review.head).bucket);
            if slab.get(review.head).bucket <= c.base {
                review = Pile::EMPTY;
            }
        }
        [
            (*b.pile(b.base + 1), b.level.start(b.base + 1)),
            (*c.pile(c.base + 1), c.level.start(c.base + 1)),
            (review, start),
        ]
    }
}

/// The index of one database's volatile keys.
#[derive(Debug)]
pub struct Strata {
    slab: Slab,
    piles: Piles,
    now: UnixMillis,
    len: usize,
    /// Of all items; 96 bits would do.
    deadline_sum: i128,
    /// When `advance` last saw an item.
    used_at: UnixMillis,
    /// Not before then is the coming bucket to be refiled further.
    refile_at: UnixMillis,
}

impl Strata {
    /// An empty index; allocates nothing.
    pub fn new(now: UnixMillis) -> Strata {
        Strata {
            slab: Slab::default(),
            piles: Piles::new(now),
            now,
            len: 0,
            deadline_sum: 0,
            used_at: now,
            refile_at: now,
        }
    }

    /// The number of items, which is that of the volatile keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sum of all deadlines, in ms.
    pub fn deadline_sum(&self) -> i128 {
        self.deadline_sum
    }

    /// The mean of all deadlines, for `avg_ttl`.
    pub fn mean_deadline(&self) -> Option<UnixMillis> {
        let len = i128::try_from(self.len).expect("a count of items fits");
        let mean = self.deadline_sum.checked_div(len)?;
        Some(UnixMillis(
            i64::try_from(mean).expect("a mean of 64-bit numbers fits"),
        ))
    }

    /// Files an item. One that is due, or will be within the bucket that ended last, goes to the
    /// ripe queue.
    #[inline]
    pub fn insert(&mut self, hash: u64, filing: impl Into<Filing>) -> ItemRef {
        let filing = filing.into();
        self.len += 1;
        self.deadline_sum += i128::from(filing.deadline.0.0);
        self.file(hash, filing)
    }

    /// Removes an item; `filing` is its current one.
    #[inline]
    pub fn remove(&mut self, item: ItemRef, filing: impl Into<Filing>) {
        let filing = filing.into();
        self.len -= 1;
        self.deadline_sum -= i128::from(filing.deadline.0.0);
        self.unfile(item, filing);
    }

    /// Notes that an item's deadline changed. The reference changes only if the new deadline lies
    /// before the bucket the item is filed in; then it is refiled.
    #[inline]
    pub fn change(
        &mut self,
        item: ItemRef,
        old: impl Into<Filing>,
        new: impl Into<Filing>,
    ) -> ItemRef {
        let (old, new) = (old.into(), new.into());
        let (before, after) = (old.deadline.0.0, new.deadline.0.0);
        self.deadline_sum += i128::from(after) - i128::from(before);
        let chunk = self.slab.get_mut(item.chunk());
        let (level, bucket) = (chunk.level, chunk.bucket);
        if after < level.start(bucket) && !self.piles.is_ripe(level, bucket) {
            let hash = self.hash(item);
            self.unfile(item, old);
            return self.file(hash, new);
        }
        let last = level.last(bucket);
        match (old.is_extended(last), new.is_extended(last)) {
            (false, true) => {
                chunk.extended += 1;
                self.piles.pile(level, bucket).extended += 1;
            }
            (true, false) => {
                chunk.extended -= 1;
                self.piles.pile(level, bucket).extended -= 1;
            }
            _ => (),
        }
        item
    }

    /// Files an item at the bucket of its deadline, in the finest ring that reaches it: what to do
    /// with a drawn item that is not due.
    pub fn refile(&mut self, item: ItemRef, filing: impl Into<Filing>) -> ItemRef {
        let filing = filing.into();
        let place = self.piles.place(filing.deadline);
        let chunk = self.slab.get(item.chunk());
        let filed = Destination {
            level: chunk.level,
            bucket: chunk.bucket,
        };
        let is_ripe = self.piles.is_ripe(place.level, place.bucket);
        if place == filed || is_ripe && self.piles.is_ripe(filed.level, filed.bucket) {
            return item;
        }
        let hash = self.hash(item);
        self.unfile(item, filing);
        self.file(hash, filing)
    }

    fn file(&mut self, hash: u64, filing: Filing) -> ItemRef {
        let Destination { level, bucket } = self.piles.place(filing.deadline);
        if level != Level::Beyond {
            let ring = &mut self.piles.rings[level as usize];
            if bucket >= ring.base {
                ring.fill(bucket);
            }
        } else {
            self.piles.beyond_bucket = bucket;
        }
        let is_queue = self.piles.is_queue(level, bucket);
        let pile = self.piles.pile(level, bucket);
        let candidate = if is_queue { pile.tail } else { pile.head };
        let n = match candidate {
            NONE => None,
            // A queue holds chunks of several buckets.
            n => Some(self.slab.get(n))
                .filter(|c| c.vacant() != 0 && c.bucket == bucket && c.level == level)
                .map(|_| n),
        };
        let n = n.unwrap_or_else(|| {
            let n = self.slab.alloc(level, bucket, pile.next_capacity());
            if is_queue {
                self.slab.push_back(pile, n);
            } else {
                self.slab.push_front(pile, n);
            }
            n
        });
        pile.len += 1;
        let chunk = self.slab.get_mut(n);
        // Only one that slides can be filed so: its bucket is that of its deadline.
        let is_extended = filing.slides && filing.is_extended(chunk.last());
        pile.extended += u32::from(is_extended);
        chunk.extended += u8::from(is_extended);
        let place = chunk.vacant().trailing_zeros();
        chunk.occupied |= 1 << place;
        chunk.hashes[place as usize] = (hash >> 32) as u32;
        if chunk.vacant() == 0 && !is_queue && pile.tail != n {
            self.slab.unlink(pile, n);
            self.slab.push_back(pile, n);
        }
        ItemRef::new(n, place)
    }

    fn unfile(&mut self, item: ItemRef, filing: Filing) {
        let n = item.chunk();
        let chunk = self.slab.get_mut(n);
        assert!(
            chunk.occupied & item.bit() != 0,
            "the entry's reference is to an item"
        );
        chunk.occupied &= !item.bit();
        let has_room = chunk.vacant().count_ones() == chunk.room_min();
        let (level, bucket, occupied) = (chunk.level, chunk.bucket, chunk.occupied);
        let is_extended = filing.is_extended(chunk.last());
        chunk.extended -= u8::from(is_extended);
        let is_queue = self.piles.is_queue(level, bucket);
        let pile = self.piles.pile(level, bucket);
        pile.len -= 1;
        pile.extended -= u32::from(is_extended);
        if occupied == 0 {
            self.slab.unlink(pile, n);
            self.slab.release(n);
            if !is_queue && pile.head == NONE && level != Level::Beyond {
                self.piles.rings[level as usize].take(bucket);
            }
        } else if has_room && !is_queue && pile.head != n {
            // Room goes to the front, where filing looks for it.
            self.slab.unlink(pile, n);
            self.slab.push_front(pile, n);
        }
    }

    /// The hash of an item, without its low half.
    pub fn hash(&self, item: ItemRef) -> u64 {
        self.slab.get(item.chunk()).hash(item.0 & 63)
    }

    /// Whether this refers to an item.
    pub fn contains(&self, item: ItemRef) -> bool {
        self.slab
            .probe(item.chunk() as usize)
            .is_some_and(|c| c.occupied & item.bit() != 0)
    }
}

/// Time.
impl Strata {
    /// Moves buckets that have ended to the ripe queue, whole: the cost is that of the buckets
    /// that ended and are not empty, however long ago. If the clock went back, what is ripe no
    /// longer, or too far off for its ring, is queued for refiling.
    ///
    /// To be called before drawing, with the time that drawn items are compared with.
    pub fn advance(&mut self, now: UnixMillis) {
        if now == self.now {
            return;
        }
        let went_back = now < self.now;
        self.now = now;
        if self.len > 0 {
            self.used_at = now;
        } else if now.since(self.used_at).abs() > RINGS_KEPT_MS {
            self.piles.rings.iter_mut().for_each(Ring::release);
            self.used_at = now;
        }
        if went_back {
            self.retreat();
        }
        let Piles { rings, ripe, .. } = &mut self.piles;
        for ring in rings {
            let base = first_not_ended(ring.level, now);
            while ring.base < base {
                match ring.next_filled(ring.base) {
                    Some(bucket) if bucket < base => {
                        ring.base = bucket;
                        let ended = ring.take(bucket);
                        self.slab.append(ripe, ended);
                    }
                    _ => ring.base = base,
                }
            }
        }
        self.piles.review_base = self.piles.rings[2].base + REVIEW_AHEAD_BUCKETS;
        if self.piles.beyond.head != NONE && self.piles.beyond_bucket < self.piles.review_base {
            let beyond = std::mem::replace(&mut self.piles.beyond, Pile::EMPTY);
            self.slab.append(&mut self.piles.review, beyond);
        }
    }

    /// Sets the rings' bases back to `now`.
    fn retreat(&mut self) {
        self.refile_at = self.now;
        let bases = [Level::A, Level::B, Level::C].map(|level| first_not_ended(level, self.now));
        for (i, base) in bases.into_iter().enumerate() {
            let end = base + self.piles.rings[i].slots as i64;
            let from = end.max(self.piles.rings[i].base);
            while let Some(bucket) = self.piles.rings[i].next_filled(from) {
                let pile = self.piles.rings[i].take(bucket);
                self.send_to_limbo(pile);
            }
        }
        let old = std::mem::replace(&mut self.piles.ripe, Pile::EMPTY);
        for (ring, base) in self.piles.rings.iter_mut().zip(bases) {
            ring.base = base;
        }
        self.sort_ripe(old);
        let review = std::mem::replace(&mut self.piles.review, Pile::EMPTY);
        self.send_to_limbo(review);
        if self.piles.beyond.head != NONE && self.piles.beyond_bucket > self.piles.beyond_end() {
            let pile = std::mem::replace(&mut self.piles.beyond, Pile::EMPTY);
            self.send_to_limbo(pile);
        }
    }

    /// Queues the chunks of the old ripe queue anew: some may be ripe no longer.
    fn sort_ripe(&mut self, old: Pile) {
        let mut next = old.head;
        while next != NONE {
            let n = next;
            let chunk = self.slab.get(n);
            next = chunk.next;
            let sums = Pile {
                head: n,
                tail: n,
                len: chunk.occupied.count_ones(),
                extended: u32::from(chunk.extended),
            };
            let still_ripe = self.piles.is_ripe(chunk.level, chunk.bucket);
            let chunk = self.slab.get_mut(n);
            (chunk.prev, chunk.next) = (NONE, NONE);
            if still_ripe {
                self.slab.append(&mut self.piles.ripe, sums);
            } else {
                self.send_to_limbo(sums);
            }
        }
    }

    /// Puts chunks at the front of the review queue as ones that began long ago. Only a clock that
    /// went back leads here, so this may touch each of them.
    fn send_to_limbo(&mut self, mut pile: Pile) {
        if pile.head == NONE {
            return;
        }
        let mut next = pile.head;
        while next != NONE {
            let chunk = self.slab.get_mut(next);
            (chunk.level, chunk.bucket, chunk.extended) = (Level::Beyond, LIMBO, 0);
            next = chunk.next;
        }
        pile.extended = 0;
        let rest = std::mem::replace(&mut self.piles.review, pile);
        self.slab.append(&mut self.piles.review, rest);
    }

    /// When to call `advance` and draw again: the end of the first bucket that is not empty, or
    /// when the next coarse bucket can be refiled; now, if something is to be done already. Of an
    /// empty index, when its rings can be given back; `None` if it has none.
    pub fn next_wakeup(&self) -> Option<UnixMillis> {
        let refile = self.next_refile().map(|refile| refile.at);
        let next = [self.next_ripe(), refile].into_iter().flatten().min()?;
        Some(next.max(self.now))
    }

    /// When something ripens, or did; of an empty index, when its rings can be given back.
    pub fn next_ripe(&self) -> Option<UnixMillis> {
        if self.len == 0 {
            let has_rings = self.piles.rings.iter().any(|ring| !ring.pages.is_empty());
            let at = UnixMillis(self.used_at.0.saturating_add(RINGS_KEPT_MS + 1));
            return has_rings.then_some(at);
        }
        if self.ripe_len() > 0 {
            return Some(self.now);
        }
        let a = self.piles.ring_a();
        let first = a.next_filled(a.base);
        first.map(|bucket| UnixMillis(a.level.last(bucket)))
    }

    /// When the next coarse bucket can be refiled, or refiled further.
    pub fn next_refile(&self) -> Option<Refile> {
        let Piles {
            rings: [_, b, c],
            review,
            beyond,
            ..
        } = &self.piles;
        // A bucket is coming when the base reaches the one before it, one millisecond before that
        // begins.
        let coming =
            |level: Level, bucket: i64| level.start(bucket.saturating_sub(1)).saturating_sub(1);
        let in_ring = |ring: &Ring| {
            let bucket = ring.next_filled(ring.base)?;
            Some((coming(ring.level, bucket), ring.pile(bucket).len))
        };
        let beyond = (beyond.head != NONE).then(|| {
            let bucket = self.piles.beyond_bucket - REVIEW_AHEAD_BUCKETS + 2;
            (coming(Level::Beyond, bucket), beyond.len)
        });
        let review = (review.head != NONE).then_some((i64::MIN, review.len));
        let next = [in_ring(b), in_ring(c), beyond, review];
        let (at, items) = next.into_iter().flatten().min()?;
        Some(Refile {
            at: UnixMillis(at).max(self.refile_at),
            items: items as usize,
        })
    }

    /// The coming bucket has been refiled for now, and is to be so again at `at` if it is not
    /// empty.
    pub fn refile_later(&mut self, at: UnixMillis) {
        self.refile_at = at;
    }
}

/// Drawing. Drawn items are not removed: the caller removes those that are due and refiles the
/// others.
impl Strata {
    /// Items that await deletion or refiling: of ended buckets, and of coarse ones that have begun
    /// without having been refiled in time.
    pub fn ripe_len(&self) -> usize {
        let begun: u32 = self
            .piles
            .begun(&self.slab)
            .iter()
            .map(|(pile, _)| pile.len)
            .sum();
        (self.piles.ripe.len + begun) as usize
    }

    /// How many of those are not known to be due: extended, or of a bucket that has only begun.
    /// `ripe_len` less this estimates the dead.
    pub fn ripe_extended(&self) -> usize {
        let begun: u32 = self
            .piles
            .begun(&self.slab)
            .iter()
            .map(|(pile, _)| pile.len)
            .sum();
        (self.piles.ripe.extended + begun) as usize
    }

    /// The end of the oldest bucket in the ripe queue, or the start of a coarse one that has begun,
    /// if earlier: how late deletion is. Items queued because the clock went back do not count.
    pub fn oldest_ripe(&self) -> Option<UnixMillis> {
        let ripe = Some(self.piles.ripe.head).filter(|&n| n != NONE);
        let ended = ripe.map(|n| self.slab.get(n).last());
        let begun = self.piles.begun(&self.slab);
        let begun = begun
            .iter()
            .filter(|(pile, start)| pile.len > 0 && *start != i64::MAX);
        begun
            .map(|(_, start)| *start)
            .chain(ended)
            .min()
            .map(UnixMillis)
    }

    /// Draws up to `k` distinct items from the ripe queue, oldest chunks first, at random within
    /// the last chunk. Half of them come from coarse buckets that have begun, if there are any:
    /// what is in those may be due and must be refiled to be found in time.
    pub fn draw_ripe(&self, rng: &mut impl Rng, k: usize, out: &mut Vec<(ItemRef, u64)>) {
        let limit = out.len() + k;
        let mut begun_left = if self.piles.ripe.head == NONE {
            k
        } else {
            k.div_ceil(2)
        };
        for (pile, _) in self.piles.begun(&self.slab) {
            let before = out.len();
            self.draw_pile(rng, pile.head, begun_left, out);
            begun_left -= out.len() - before;
        }
        self.draw_pile(rng, self.piles.ripe.head, limit - out.len(), out);
    }

    /// How many items may be due: all in ended buckets and all in the bucket in progress.
    pub fn due_len_max(&self) -> usize {
        let ring = self.piles.ring_a();
        self.ripe_len() + ring.pile(ring.base).len as usize
    }

    /// Draws up to `k` items from the bucket in progress, some of which may be due: for exact
    /// counts.
    pub fn draw_current(&self, k: usize, out: &mut Vec<(ItemRef, u64)>) {
        let ring = self.piles.ring_a();
        self.take_pile(ring.pile(ring.base).head, k, out);
    }

    /// Draws up to `k` items from coarse buckets that can be refiled before they begin, nearest
    /// first, and says how many there are and how long there is for them. `None` if there are none.
    pub fn draw_coming(&self, k: usize, out: &mut Vec<(ItemRef, u64)>) -> Option<Coming> {
        let limit = out.len() + k;
        let mut nearest = None;
        for (pile, start) in self.piles.coming(&self.slab) {
            if pile.head == NONE {
                continue;
            }
            self.take_pile(pile.head, limit - out.len(), out);
            let begins_in_ms = start.saturating_sub(self.now.0).max(0);
            nearest.get_or_insert(Coming {
                items: pile.len as usize,
                begins_in_ms,
            });
        }
        nearest
    }

    /// Draws up to `k` of the items that are filed first: ripe, else of the first bucket that is
    /// not empty. What `volatile-ttl` evicts.
    pub fn draw_soonest(&self, rng: &mut impl Rng, k: usize, out: &mut Vec<(ItemRef, u64)>) {
        let before = out.len();
        self.draw_ripe(rng, k, out);
        let rings = self.piles.rings.iter();
        let firsts = rings.map(|ring| match ring.next_filled(ring.base) {
            Some(bucket) => ring.pile(bucket).head,
            None => NONE,
        });
        for head in firsts.chain([self.piles.review.head, self.piles.beyond.head]) {
            if out.len() == before {
                self.draw_pile(rng, head, k, out);
            }
        }
    }

    /// Draws up to `k` items from all alike, with repetition: each attempt picks one of all places
    /// at random and keeps it if it is taken. The number of attempts is limited, so fewer may come.
    pub fn draw_all(&self, rng: &mut impl Rng, k: usize, out: &mut Vec<(ItemRef, u64)>) {
        if self.len == 0 {
            return;
        }
        let limit = out.len() + k;
        let places = self.places();
        for _ in 0..k * TRIES_PER_DRAW {
            if out.len() == limit {
                return;
            }
            let item = ItemRef(rng.random_range(0..places) as u32);
            if self.contains(item) {
                out.push((item, self.hash(item)));
            }
        }
    }

    fn draw_pile(&self, rng: &mut impl Rng, head: u32, k: usize, out: &mut Vec<(ItemRef, u64)>) {
        let mut left = k;
        let mut next = head;
        while next != NONE && left > 0 {
            let chunk = self.slab.get(next);
            let mut wanted = chunk.occupied;
            if wanted.count_ones() as usize > left {
                wanted = thin_out(rng, wanted, left);
            }
            push_items(next, chunk, wanted, out);
            left -= wanted.count_ones() as usize;
            next = chunk.next;
        }
    }

    fn take_pile(&self, head: u32, k: usize, out: &mut Vec<(ItemRef, u64)>) {
        let limit = out.len() + k;
        let mut next = head;
        while next != NONE && out.len() < limit {
            let chunk = self.slab.get(next);
            push_items(next, chunk, chunk.occupied, out);
            next = chunk.next;
        }
        out.truncate(limit);
    }
}

/// `count` of the bits of `set`, at random; `count` is less than it has.
pub(super) fn thin_out(rng: &mut impl Rng, set: u64, count: usize) -> u64 {
    let mut chosen = 0u64;
    while (chosen.count_ones() as usize) < count {
        // Ten places from one random number.
        let mut random = rng.next_u64();
        for _ in 0..10 {
            if chosen.count_ones() as usize == count {
                break;
            }
            chosen |= set & 1 << (random & 63);
            random >>= 6;
        }
    }
    chosen
}

fn push_items(n: u32, chunk: &Chunk, mut places: u64, out: &mut Vec<(ItemRef, u64)>) {
    while places != 0 {
        let place = places.trailing_zeros();
        places &= places - 1;
        out.push((ItemRef::new(n, place), chunk.hash(place)));
    }
}

/// Figures, freeing, checking.
impl Strata {
    /// All buckets that are not empty, each ring's in order.
    pub(super) fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let rings = self.piles.rings.iter();
        self.queues().chain(rings.flat_map(Ring::buckets))
    }

    /// The ripe queue, the review queue and beyond. The queues hold chunks of several buckets and
    /// are given as one each, of which only the end is known.
    fn queues(&self) -> impl Iterator<Item = Bucket> {
        let beyond = Level::Beyond.start(self.piles.beyond_bucket);
        let queues = [
            (i64::MIN, self.now.0, self.piles.ripe),
            (i64::MIN, i64::MAX, self.piles.review),
            (beyond, i64::MAX, self.piles.beyond),
        ];
        let queues = queues.into_iter();
        let queues = queues.map(|(start, last, pile)| Bucket { start, last, pile });
        queues.filter(|bucket| !bucket.is_empty())
    }

    /// All buckets that are not empty, in the order of their starts.
    pub fn soonest(&self) -> impl Iterator<Item = Bucket> {
        let mut queues = self.queues().peekable();
        let mut rings: [_; 3] = std::array::from_fn(|i| self.piles.rings[i].buckets().peekable());
        std::iter::from_fn(move || {
            let start_of = |bucket: &Bucket| bucket.start;
            let starts = rings.each_mut().map(|ring| ring.peek().map(start_of));
            let queued = queues.peek().map(start_of);
            let first = starts.into_iter().chain([queued]).flatten().min()?;
            if queued == Some(first) {
                return queues.next();
            }
            let ring = starts.iter().position(|&start| start == Some(first))?;
            rings[ring].next()
        })
    }

    /// Draws up to `k` items of a bucket, in no order.
    pub fn draw_of(&self, bucket: &Bucket, k: usize, out: &mut Vec<(ItemRef, u64)>) {
        self.take_pile(bucket.pile.head, k, out);
    }

    /// The bucket that a chunk was filed in, with the chunk alone in it.
    pub(super) fn bucket_of(&self, n: u32) -> Bucket {
        let chunk = self.slab.get(n);
        let is_queue = self.piles.is_queue(chunk.level, chunk.bucket);
        let start = chunk.level.start(chunk.bucket);
        Bucket {
            start: if is_queue { i64::MIN } else { start },
            last: chunk.last(),
            pile: Pile {
                head: n,
                tail: n,
                len: chunk.occupied.count_ones(),
                extended: chunk.extended.into(),
            },
        }
    }

    pub(super) fn chunk(&self, n: u32) -> &Chunk {
        self.slab.get(n)
    }

    /// Numbers of items are below this.
    pub(super) fn places(&self) -> usize {
        self.slab.bound() * CHUNK_ITEMS_MAX
    }

    /// Empties the index at once; what was in it is handed back to be freed in steps.
    pub fn clear(&mut self) -> Remains {
        let old = std::mem::replace(self, Strata::new(self.now));
        Remains(old.slab)
    }

    /// Moves what `should_move` says of the chunks of the page with this number; false if there is
    /// no such page. What is filed stays where it is filed.
    pub fn relocate(&mut self, page: usize, should_move: ShouldMove<'_>) -> bool {
        self.slab.relocate(page, should_move)
    }

    /// Bytes this index has allocated.
    pub fn allocated_bytes(&self) -> usize {
        let rings = self.piles.rings.iter();
        let rings: usize = rings
            .map(|ring| {
                let pages = ring.pages.iter().flatten().chain(&ring.spare).count();
                let table = size_of_val(&*ring.pages);
                table + pages * size_of::<Page>() + ring.filled.allocated_bytes()
            })
            .sum();
        rings + self.slab.allocated_bytes()
    }

    /// Asserts that one entry and the index agree: for the tests of whoever keeps the deadlines.
    /// Returns whether the item is counted as extended.
    pub fn check_item(&self, item: ItemRef, hash: u64, filing: impl Into<Filing>) -> bool {
        let filing = filing.into();
        let deadline = filing.deadline;
        assert!(self.contains(item), "the entry's reference is to an item");
        assert_eq!(self.hash(item) >> 32, hash >> 32);
        let chunk = self.slab.get(item.chunk());
        let is_extended = filing.is_extended(chunk.last());
        if self.piles.is_ripe(chunk.level, chunk.bucket) {
            assert!(
                is_extended || is_due(deadline, self.now),
                "ripe means due or extended"
            );
        } else {
            assert!(
                chunk.level.start(chunk.bucket) <= deadline.0.0,
                "filed too late"
            );
        }
        is_extended
    }

    /// Asserts that lists, sums, bitmaps and slab agree. Touches every chunk. Returns the number
    /// of items counted as extended, to be compared with those `check_item` finds.
    pub fn check(&self) -> usize {
        self.slab.check();
        let mut total = Pile::EMPTY;
        let mut chunks = 0;
        let mut add = |pile: &Pile, is_queue: bool, belongs: &dyn Fn(&Chunk) -> bool| {
            chunks += self.check_pile(pile, is_queue, belongs);
            total.len += pile.len;
            total.extended += pile.extended;
        };
        for ring in &self.piles.rings {
            let pages = ring.pages.iter().enumerate();
            let pages = pages.filter_map(|(i, page)| Some((i * PAGE_PILES, page.as_ref()?)));
            let piles = pages.flat_map(|(first, page)| (first..).zip(page.iter()));
            for (slot, pile) in piles {
                // Most are empty: a closer look at each would take longer than a fuzzed input.
                if !ring.filled.contains(slot) && *pile == Pile::EMPTY {
                    assert!(!ring.filled.is_word_empty(slot), "a page without piles");
                    continue;
                }
                let window = ring.base..ring.base + ring.slots as i64;
                add(pile, false, &|c| {
                    c.level == ring.level
                        && ring.slot(c.bucket) == slot
                        && window.contains(&c.bucket)
                });
                assert_eq!(ring.filled.contains(slot), pile.head != NONE);
            }
            assert_eq!(ring.base, first_not_ended(ring.level, self.now));
        }
        let Piles {
            ripe,
            beyond,
            beyond_bucket,
            review,
            review_base,
            ..
        } = &self.piles;
        add(ripe, true, &|c| self.piles.is_ripe(c.level, c.bucket));
        add(beyond, false, &|c| {
            (c.level, c.bucket) == (Level::Beyond, *beyond_bucket) && c.bucket >= *review_base
        });
        add(review, true, &|c| {
            c.level == Level::Beyond && c.bucket < *review_base
        });
        assert_eq!(chunks, self.slab.used(), "no chunk is outside the lists");
        assert_eq!(total.len as usize, self.len);
        total.extended as usize
    }

    fn check_pile(&self, pile: &Pile, is_queue: bool, belongs: &dyn Fn(&Chunk) -> bool) -> usize {
        let (mut prev, mut next) = (NONE, pile.head);
        let (mut chunks, mut len, mut extended, mut seen_full) = (0, 0, 0, false);
        while next != NONE {
            let chunk = self.slab.get(next);
            assert!(
                belongs(chunk),
                "chunk {next} is in the wrong list: {chunk:?}"
            );
            assert_eq!(chunk.prev, prev);
            let count = chunk.occupied.count_ones();
            assert!(count > 0 && u32::from(chunk.extended) <= count);
            let room = chunk.vacant().count_ones();
            let is_reused = is_queue || room < chunk.room_min() || !seen_full;
            assert!(is_reused, "room behind a full chunk");
            seen_full |= room == 0;
            (chunks, len, extended) = (
                chunks + 1,
                len + count,
                extended + u32::from(chunk.extended),
            );
            (prev, next) = (next, chunk.next);
        }
        assert_eq!((pile.tail, pile.len, pile.extended), (prev, len, extended));
        chunks
    }
}

/// What is left of an index that was cleared. Dropping it frees all at once.
#[derive(Debug)]
#[must_use]
pub struct Remains(Slab);

impl Remains {
    /// Chunks that one step frees at most.
    pub const STEP_CHUNKS: usize = PAGE_CHUNKS;

    /// Frees a part; false when nothing is left.
    pub fn free_step(&mut self) -> bool {
        self.0.drop_page()
    }

    /// Bytes it has allocated.
    pub fn allocated_bytes(&self) -> usize {
        self.0.allocated_bytes()
    }
}
