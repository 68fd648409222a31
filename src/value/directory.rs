//! The directory of an extendible hash table (Fagin and others, ACM TODS 4, 1979): which segment a
//! hash belongs to, by its top bits.
//!
//! A directory of depth d has a place for each value of the top d bits; a segment of depth s <= d
//! is named by 2^(d-s) neighbouring places, its *span*. So a segment can be split or merged alone:
//! the directory is doubled when a segment that has one place needs two, and halved when none has
//! only one.
//!
//! Not here: what a segment is, and when it is split or merged (the tables of `store`, `segmented`
//! and `zset`).

use std::ops::Range;

use crate::heap::{ShouldMove, relocate_vec};
use crate::value::size_class;

/// Names of segments, with what else a look at them needs.
#[derive(Clone, Debug)]
pub struct Directory<T> {
    places: Vec<T>,
    depth: u32,
}

impl<T: Copy> Directory<T> {
    /// Of one segment.
    pub fn new(only: T) -> Directory<T> {
        Directory {
            places: vec![only],
            depth: 0,
        }
    }

    /// How many bits of a hash it looks at.
    #[inline(always)]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// All places.
    #[inline(always)]
    pub fn places(&self) -> &[T] {
        &self.places
    }

    /// The place of a hash.
    #[inline(always)]
    pub fn place(&self, hash: u64) -> usize {
        // Two shifts: a shift by 64 at depth 0 is not defined.
        ((hash >> 1) >> (63 - self.depth)) as usize
    }

    /// What stands there.
    #[inline(always)]
    pub fn get(&self, hash: u64) -> T {
        self.places[self.place(hash)]
    }

    /// The places of the segment of a hash, if that has this depth.
    #[inline]
    pub fn span(&self, hash: u64, depth: u32) -> Range<usize> {
        let len = 1 << (self.depth - depth);
        let first = self.place(hash) & !(len - 1);
        first..first + len
    }

    /// The same, to be changed.
    #[inline]
    pub fn span_mut(&mut self, hash: u64, depth: u32) -> &mut [T] {
        let span = self.span(hash, depth);
        &mut self.places[span]
    }

    /// Makes room for one bit more: each place becomes two.
    pub fn double(&mut self) {
        self.places = self.places.iter().flat_map(|&place| [place; 2]).collect();
        self.depth += 1;
    }

    /// The pairs of places that differ; if there are none, half of the places would do.
    pub fn pairs(&self, differ: impl Fn(&T, &T) -> bool) -> impl Iterator<Item = &[T]> {
        let pairs = self.places.chunks_exact(2);
        pairs.filter(move |pair| differ(&pair[0], &pair[1]))
    }

    /// Keeps one of each two places, which do not differ.
    pub fn halve(&mut self) {
        self.places = self.places.iter().copied().step_by(2).collect();
        self.depth -= 1;
    }

    /// Bytes of memory taken.
    pub fn allocated_bytes(&self) -> usize {
        size_class::of(self.places.capacity() * size_of::<T>())
    }

    /// Moves it if `should_move` says so.
    pub fn relocate(&mut self, should_move: ShouldMove<'_>) {
        relocate_vec(&mut self.places, should_move);
    }
}

/// The first hash whose top bits, so many, are these.
#[inline]
pub fn first_hash(bits: u64, depth: u32) -> u64 {
    (bits << 1) << (63 - depth)
}
