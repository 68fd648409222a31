//! Chunks of items, the slab they live in and the lists they form.
//!
//! A chunk holds up to 64 hashes of one bucket and a bitmap of which places are taken; removing an
//! item clears a bit and moves nothing, so that the entry's reference stays good. Headers are
//! apart from the hashes: removing and extending touch only the header.
//!
//! The slab numbers the chunks. It is made of pages of 256 headers, so that it grows without
//! copying what is there; an empty page is given back, and the lowest page with room is used
//! first, so that pages at the end become empty.
//!
//! Invariants: a chunk is in exactly one list or in its page's free list. The sums of a list are
//! those of its chunks; its caller keeps them, but for [`Slab::append`].

use super::bitmap::Bitmap;
use crate::heap::{ShouldMove, relocate_slice, relocate_vec};

/// No chunk.
pub(super) const NONE: u32 = u32::MAX;
/// Places in a chunk at most: the bits of its bitmap.
pub(super) const CHUNK_ITEMS_MAX: usize = 64;
/// Places in a chunk at least: a bucket's first.
const CHUNK_ITEMS_MIN: usize = 8;
/// Headers in a page: 12 KiB, a size class of the allocator.
pub(super) const PAGE_CHUNKS: usize = 256;
/// A reference is 26 bits of chunk and 6 of place; the last chunk number is not used, so that
/// `u32::MAX` is no item's reference.
const CHUNKS_MAX: usize = (1 << 26) - 1;

/// Which ring or list a chunk was filed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    A,
    B,
    C,
    Beyond,
}

impl Level {
    /// A bucket is 2 to this power of milliseconds wide. Beyond counts its one start in C's.
    pub(super) const fn shift(self) -> u32 {
        match self {
            Level::A => 3,
            Level::B => 15,
            Level::C | Level::Beyond => 26,
        }
    }

    /// The first millisecond of a bucket.
    pub(super) fn start(self, bucket: i64) -> i64 {
        bucket << self.shift()
    }

    /// The last millisecond of a bucket: when it has come, everything that was filed there for its
    /// deadline is due.
    pub(super) fn last(self, bucket: i64) -> i64 {
        match self {
            Level::Beyond => i64::MAX,
            _ => self.start(bucket) | ((1 << self.shift()) - 1),
        }
    }
}

/// A header.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Which places are taken.
    pub(super) occupied: u64,
    /// The top halves.
    pub(super) hashes: Box<[u32]>,
    /// Where it was filed: time divided by the width of the level's buckets.
    pub(super) bucket: i64,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) level: Level,
    /// How many items have a deadline after the bucket's last millisecond.
    pub(super) extended: u8,
}

/// Memory per item rests on it.
const _: () = assert!(size_of::<Chunk>() == 48);

impl Chunk {
    /// Which places are free.
    #[inline]
    pub(super) fn vacant(&self) -> u64 {
        !self.occupied & (u64::MAX >> (CHUNK_ITEMS_MAX - self.hashes.len()))
    }

    /// The hash of the item at a place, without its low half.
    #[inline]
    pub(super) fn hash(&self, place: u32) -> u64 {
        u64::from(self.hashes[place as usize]) << 32
    }

    /// How many places must be free for a chunk to be worth filing in again, when it is not the
    /// one being filled: an eighth. With one, under churn every removal would take a full chunk to
    /// the front of its list and every insertion would fill it and take it back.
    #[inline]
    pub(super) fn room_min(&self) -> u32 {
        self.hashes.len() as u32 / 8
    }

    #[inline]
    pub(super) fn last(&self) -> i64 {
        self.level.last(self.bucket)
    }
}

/// A doubly linked list of chunks, with its sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pile {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) len: u32,
    pub(super) extended: u32,
}

impl Pile {
    pub(super) const EMPTY: Pile = Pile {
        head: NONE,
        tail: NONE,
        len: 0,
        extended: 0,
    };

    /// The capacity of the next chunk: as many as there are, so that a bucket is at least about
    /// half full whatever its size.
    pub(super) fn next_capacity(&self) -> usize {
        (self.len as usize)
            .clamp(CHUNK_ITEMS_MIN, CHUNK_ITEMS_MAX)
            .next_power_of_two()
    }
}

#[derive(Debug)]
struct Page {
    chunks: Vec<Chunk>,
    /// The first free chunk among `chunks`, linked by `next`.
    free: u32,
    used: usize,
}

/// All chunks of one index.
#[derive(Debug, Default)]
pub(super) struct Slab {
    pages: Vec<Page>,
    /// Pages with room.
    open: Bitmap,
    /// Places in all chunks.
    places: usize,
}

impl Slab {
    #[inline]
    pub(super) fn get(&self, n: u32) -> &Chunk {
        &self.pages[n as usize / PAGE_CHUNKS].chunks[n as usize % PAGE_CHUNKS]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, n: u32) -> &mut Chunk {
        &mut self.pages[n as usize / PAGE_CHUNKS].chunks[n as usize % PAGE_CHUNKS]
    }

    /// The chunk of this number, if there is one; it may be a free one, which has no items.
    pub(super) fn probe(&self, n: usize) -> Option<&Chunk> {
        self.pages.get(n / PAGE_CHUNKS)?.chunks.get(n % PAGE_CHUNKS)
    }

    /// Chunk numbers are below this.
    pub(super) fn bound(&self) -> usize {
        self.pages.len() * PAGE_CHUNKS
    }

    /// A chunk without items, in no list.
    pub(super) fn alloc(&mut self, level: Level, bucket: i64, capacity: usize) -> u32 {
        let page_no = self.open.first_from(0).unwrap_or_else(|| self.add_page());
        let page = &mut self.pages[page_no];
        let chunk = Chunk {
            occupied: 0,
            hashes: vec![0; capacity].into_boxed_slice(),
            bucket,
            prev: NONE,
            next: NONE,
            level,
            extended: 0,
        };
        self.places += capacity;
        let offset = if page.free != NONE {
            let offset = page.free as usize;
            page.free = page.chunks[offset].next;
            page.chunks[offset] = chunk;
            offset
        } else {
            // The first page grows, so that an index of a few keys is small.
            if page_no > 0 && page.chunks.capacity() == 0 {
                page.chunks.reserve_exact(PAGE_CHUNKS);
            }
            page.chunks.push(chunk);
            page.chunks.len() - 1
        };
        page.used += 1;
        if page.used == PAGE_CHUNKS {
            self.open.clear(page_no);
        }
        (page_no * PAGE_CHUNKS + offset) as u32
    }

    fn add_page(&mut self) -> usize {
        let page_no = self.pages.len();
        assert!(
            (page_no + 1) * PAGE_CHUNKS <= CHUNKS_MAX,
            "over four billion volatile keys"
        );
        self.pages.push(Page {
            chunks: Vec::new(),
            free: NONE,
            used: 0,
        });
        self.open.grow(page_no + 1);
        self.open.set(page_no);
        page_no
    }

    /// Frees a chunk that is in no list.
    pub(super) fn release(&mut self, n: u32) {
        let page_no = n as usize / PAGE_CHUNKS;
        let offset = n as usize % PAGE_CHUNKS;
        let page = &mut self.pages[page_no];
        let chunk = &mut page.chunks[offset];
        self.places -= chunk.hashes.len();
        chunk.hashes = Box::default();
        chunk.occupied = 0;
        chunk.next = page.free;
        page.free = offset as u32;
        page.used -= 1;
        self.open.set(page_no);
        if page.used == 0 {
            page.chunks = Vec::new();
            page.free = NONE;
            self.drop_last_pages();
        }
    }

    fn drop_last_pages(&mut self) {
        while self.pages.last().is_some_and(|page| page.used == 0) {
            self.pages.pop();
            self.open.clear(self.pages.len());
        }
        if self.pages.is_empty() {
            *self = Slab::default();
        }
    }

    /// Moves what `should_move` says of the chunks of the page with this number; false if there is
    /// no such.
    pub(super) fn relocate(&mut self, page: usize, should_move: ShouldMove<'_>) -> bool {
        let Some(page) = self.pages.get_mut(page) else {
            return false;
        };
        relocate_vec(&mut page.chunks, should_move);
        for chunk in &mut page.chunks {
            relocate_slice(&mut chunk.hashes, should_move);
        }
        true
    }

    /// Frees one page with all its chunks, whatever lists they are in: for an index that is
    /// abandoned. False if nothing is left.
    pub(super) fn drop_page(&mut self) -> bool {
        self.pages.pop();
        !self.pages.is_empty()
    }

    pub(super) fn push_front(&mut self, pile: &mut Pile, n: u32) {
        let chunk = self.get_mut(n);
        chunk.prev = NONE;
        chunk.next = pile.head;
        match pile.head {
            NONE => pile.tail = n,
            head => self.get_mut(head).prev = n,
        }
        pile.head = n;
    }

    pub(super) fn push_back(&mut self, pile: &mut Pile, n: u32) {
        let chunk = self.get_mut(n);
        chunk.next = NONE;
        chunk.prev = pile.tail;
        match pile.tail {
            NONE => pile.head = n,
            tail => self.get_mut(tail).next = n,
        }
        pile.tail = n;
    }

    pub(super) fn unlink(&mut self, pile: &mut Pile, n: u32) {
        let Chunk { prev, next, .. } = *self.get(n);
        match prev {
            NONE => pile.head = next,
            prev => self.get_mut(prev).next = next,
        }
        match next {
            NONE => pile.tail = prev,
            next => self.get_mut(next).prev = prev,
        }
    }

    /// Moves all chunks of `from`, and its sums, to the end of `into`.
    pub(super) fn append(&mut self, into: &mut Pile, from: Pile) {
        if from.head == NONE {
            return;
        }
        match into.tail {
            NONE => into.head = from.head,
            tail => {
                self.get_mut(tail).next = from.head;
                self.get_mut(from.head).prev = tail;
            }
        }
        into.tail = from.tail;
        into.len += from.len;
        into.extended += from.extended;
    }

    /// Bytes of headers, hashes and bookkeeping.
    pub(super) fn allocated_bytes(&self) -> usize {
        let headers: usize = self
            .pages
            .iter()
            .map(|page| page.chunks.capacity() * size_of::<Chunk>())
            .sum();
        headers
            + self.pages.capacity() * size_of::<Page>()
            + self.places * size_of::<u32>()
            + self.open.allocated_bytes()
    }

    /// Chunks in use.
    pub(super) fn used(&self) -> usize {
        self.pages.iter().map(|page| page.used).sum()
    }

    /// Asserts that free chunks, bitmaps and counts of all pages agree.
    pub(super) fn check(&self) {
        let mut places = 0;
        for (page_no, page) in self.pages.iter().enumerate() {
            assert_eq!(self.open.contains(page_no), page.used < PAGE_CHUNKS);
            let mut free = 0;
            let mut next = page.free;
            while next != NONE {
                free += 1;
                let chunk = &page.chunks[next as usize];
                assert!(chunk.occupied == 0 && chunk.hashes.is_empty());
                next = chunk.next;
            }
            assert_eq!(free + page.used, page.chunks.len());
            places += page
                .chunks
                .iter()
                .map(|chunk| chunk.hashes.len())
                .sum::<usize>();
        }
        assert_eq!(places, self.places);
        assert!(self.pages.last().is_none_or(|page| page.used > 0));
    }
}
