//! What waits to be written to one client, in order.
//!
//! Everything small is appended to vectors of our own: to the tail, which is sealed when it is full
//! and followed by a new one, so that nothing is copied however much a slow reader is owed. A large
//! string is not copied at all but held by reference, with the place in the stream of owned bytes
//! where it belongs.
//!
//! ```text
//!  sealed:  [ already written | ... ] [ ... ]    tail: [ $20000\r\n | \r\n+OK\r\n ]
//!           ^ start           ^ + skip                          ^
//!  shared:                                              (before: here, 20000 bytes), ...
//! ```
//!
//! There may be a limit. Whoever writes replies need not look at it: what exceeds it, and all that
//! was pending, is dropped, and [`Output::is_over_limit`] says so. A reply of many pieces can
//! exceed the limit by the piece that is being filled.
//!
//! Invariants: `shared` is ordered by `before`, and none lies in what is already written; a sealed
//! vector is never empty. A session that drains its output allocates nothing in the steady state;
//! one that never quite does so moves each byte at most once on average.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// An owned vector is sealed when it would become longer than this, in bytes; an empty tail with
/// more room is given back.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;
/// How many pieces one `writev` is given.
pub const SLICES_MAX: usize = 64;
/// Written bytes at the front of the tail are removed when they are at least this many and at least
/// half of it.
const COMPACT_BYTES_MIN: usize = 16 * 1024;

/// Pending output.
#[derive(Debug)]
pub struct Output {
    /// Full vectors of owned bytes, in front of the tail.
    sealed: VecDeque<Vec<u8>>,
    /// Bytes in `sealed`.
    sealed_len: usize,
    tail: Vec<u8>,
    /// How many owned bytes there were before the first in `sealed` and `tail`, since the
    /// beginning.
    start: u64,
    /// How many bytes of the first owned vector are already written.
    skip: usize,
    shared: VecDeque<Shared>,
    /// Bytes in `shared`.
    shared_len: usize,
    /// How many shared strings have been written since the beginning.
    shared_written: u64,
    /// How many bytes may be pending.
    limit: usize,
    /// More were, and have been dropped.
    has_dropped: bool,
    /// What follows this place will be taken back, so it does not count.
    withheld: Option<Mark>,
}

impl Default for Output {
    fn default() -> Output {
        Output {
            sealed: VecDeque::new(),
            sealed_len: 0,
            tail: Vec::new(),
            start: 0,
            skip: 0,
            shared: VecDeque::new(),
            shared_len: 0,
            shared_written: 0,
            limit: usize::MAX,
            has_dropped: false,
            withheld: None,
        }
    }
}

/// A string held by reference.
#[derive(Debug)]
struct Shared {
    /// How many owned bytes come before it, since the beginning.
    before: u64,
    bytes: Bytes,
}

/// A place in an [`Output`] to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    owned: u64,
    shared: u64,
}

impl Output {
    /// Bytes pending, shared ones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.sealed_len + self.tail.len() - self.skip + self.shared_len
    }

    /// Whether everything has been written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets how many bytes may be pending.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether more is pending than may be, or was, and has been dropped.
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        self.has_dropped || self.len() > self.limit
    }

    /// Whether so much was to be written that all of it has been dropped.
    #[inline]
    pub fn has_dropped(&self) -> bool {
        self.has_dropped
    }

    /// What is appended from here on will be taken back by [`Output::truncate_to`], after which
    /// this is called again with none.
    pub fn withhold(&mut self, from: Option<Mark>) {
        self.withheld = from;
    }

    /// False if more is pending than may be.
    fn keep_limit(&mut self) -> bool {
        if self.is_over_limit() {
            match self.withheld {
                Some(mark) if !self.has_dropped => self.truncate_to(mark),
                _ => self.drop_all(),
            }
        }
        !self.has_dropped
    }

    /// Drops what is pending, and what comes, as more than the limit was to be written.
    #[cold]
    pub fn drop_all(&mut self) {
        self.clear();
        self.has_dropped = true;
    }

    /// Appends a copy.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.tail.capacity() - self.tail.len() < bytes.len() && !self.make_room(bytes.len()) {
            return;
        }
        self.tail.extend_from_slice(bytes);
    }

    /// Makes room for a reply of `additional` bytes, so that its parts cause few growths.
    #[inline]
    pub fn reserve(&mut self, additional: usize) {
        if self.tail.capacity() - self.tail.len() < additional {
            self.make_room(additional.min(PIECE_BYTES_MAX));
        }
    }

    /// Seals the tail if it would become too long, and makes room in it for `additional` bytes;
    /// false if they are more than may be pending.
    #[cold]
    fn make_room(&mut self, additional: usize) -> bool {
        if !self.keep_limit() {
            return false;
        }
        let needed = self.tail.len() + additional;
        if needed <= PIECE_BYTES_MAX {
            let room = needed.max(self.tail.capacity() * 2).min(PIECE_BYTES_MAX);
            self.tail.reserve_exact(room - self.tail.len());
            return true;
        }
        let room = additional.max(PIECE_BYTES_MAX);
        let full = std::mem::replace(&mut self.tail, Vec::with_capacity(room));
        if !full.is_empty() {
            self.sealed_len += full.len();
            self.sealed.push_back(full);
        }
        true
    }

    /// Appends by reference.
    pub fn push_shared(&mut self, bytes: Bytes) {
        if bytes.is_empty() || !self.keep_limit() {
            return;
        }
        self.shared_len += bytes.len();
        self.shared.push_back(Shared {
            before: self.owned_end(),
            bytes,
        });
    }

    /// The first bytes to write, as far as they lie together; empty only if nothing is pending.
    pub fn front(&self) -> &[u8] {
        let owned = self.owned_at_front();
        match self.shared.front() {
            Some(shared) if owned == 0 => &shared.bytes,
            _ => &self.first()[self.skip..self.skip + owned],
        }
    }

    /// Appends the first pieces to write to `out`, at most [`SLICES_MAX`].
    pub fn slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>) {
        let room = out.len() + SLICES_MAX;
        let mut shared = self.shared.iter().peekable();
        let mut vector_start = self.start;
        let mut skip = self.skip;
        for vector in self.sealed.iter().chain([&self.tail]) {
            let end = vector_start + vector.len() as u64;
            while let Some(next) = shared.next_if(|shared| shared.before <= end) {
                let before = (next.before - vector_start) as usize;
                if before > skip {
                    out.push(IoSlice::new(&vector[skip..before]));
                    skip = before;
                }
                if out.len() >= room {
                    return;
                }
                out.push(IoSlice::new(&next.bytes));
                if out.len() >= room {
                    return;
                }
            }
            if vector.len() > skip {
                out.push(IoSlice::new(&vector[skip..]));
                if out.len() >= room {
                    return;
                }
            }
            vector_start = end;
            skip = 0;
        }
    }

    /// The first `n` pending bytes were written.
    pub fn advance(&mut self, mut n: usize) {
        assert!(n <= self.len(), "more was written than was pending");
        while n > 0 {
            let owned = self.owned_at_front().min(n);
            if owned > 0 {
                n -= owned;
                self.skip_owned(owned);
                continue;
            }
            let Some(shared) = self.shared.front_mut() else {
                break;
            };
            let written = shared.bytes.len().min(n);
            shared.bytes.advance(written);
            self.shared_len -= written;
            n -= written;
            if shared.bytes.is_empty() {
                self.shared.pop_front();
                self.shared_written += 1;
            }
        }
        self.compact();
    }

    /// Memory held for pending output, shared strings included.
    pub fn capacity_bytes(&self) -> usize {
        self.sealed_len
            + self.sealed.capacity() * size_of::<Vec<u8>>()
            + self.tail.capacity()
            + self.shared.capacity() * size_of::<Shared>()
            + self.shared_len
    }

    /// Memory of the vector that is being filled.
    pub fn tail_capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// The place where the next reply starts.
    pub fn mark(&self) -> Mark {
        Mark {
            owned: self.owned_end(),
            shared: self.shared_written + self.shared.len() as u64,
        }
    }

    /// Bytes appended by copy after the mark.
    #[inline]
    pub fn len_since(&self, mark: Mark) -> u64 {
        self.owned_end() - mark.owned
    }

    /// What was appended by copy after the mark, as far as it is in one piece.
    pub fn since(&self, mark: Mark) -> &[u8] {
        let tail_start = self.start + self.sealed_len as u64;
        let from = mark.owned.saturating_sub(tail_start) as usize;
        self.tail.get(from..).unwrap_or_default()
    }

    /// Takes back what was appended after the mark, as far as it has not been written.
    pub fn truncate_to(&mut self, mark: Mark) {
        while self.start + self.sealed_len as u64 > mark.owned
            && let Some(vector) = self.sealed.pop_back()
        {
            self.sealed_len -= vector.len();
            self.tail = vector;
        }
        let tail_start = self.start + self.sealed_len as u64;
        let len = mark.owned.saturating_sub(tail_start) as usize;
        let written = if self.sealed.is_empty() { self.skip } else { 0 };
        self.tail.truncate(len.max(written));
        while self.shared_written + self.shared.len() as u64 > mark.shared
            && let Some(shared) = self.shared.pop_back()
        {
            self.shared_len -= shared.bytes.len();
        }
    }

    /// Drops everything pending.
    pub fn clear(&mut self) {
        self.start += self.sealed_len as u64;
        self.sealed = VecDeque::new();
        self.sealed_len = 0;
        self.skip = self.tail.len();
        self.shared_written += self.shared.len() as u64;
        self.shared.clear();
        self.shared_len = 0;
        self.compact();
    }

    /// Gives back memory that holds nothing.
    pub fn shrink(&mut self) {
        self.sealed.shrink_to_fit();
        self.tail.shrink_to_fit();
        self.shared.shrink_to_fit();
    }

    /// Everything pending as one vector, as if it had been written.
    pub fn take_all(&mut self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        self.move_to(&mut all);
        all
    }

    /// Appends everything pending to a vector, as if it had been written.
    pub fn move_to(&mut self, all: &mut Vec<u8>) {
        while !self.is_empty() {
            let front = self.front();
            all.extend_from_slice(front);
            let n = front.len();
            self.advance(n);
        }
    }

    fn owned_end(&self) -> u64 {
        self.start + (self.sealed_len + self.tail.len()) as u64
    }

    /// The first vector of owned bytes.
    fn first(&self) -> &Vec<u8> {
        self.sealed.front().unwrap_or(&self.tail)
    }

    /// Owned bytes of the first vector that come before the first shared string.
    fn owned_at_front(&self) -> usize {
        let left = self.first().len() - self.skip;
        match self.shared.front() {
            Some(shared) => left.min((shared.before - self.start) as usize - self.skip),
            None => left,
        }
    }

    /// `n` owned bytes of the first vector were written.
    fn skip_owned(&mut self, n: usize) {
        self.skip += n;
        if let Some(vector) = self.sealed.front()
            && self.skip == vector.len()
        {
            self.start += self.skip as u64;
            self.sealed_len -= self.skip;
            self.skip = 0;
            self.sealed.pop_front();
        }
    }

    /// Removes written bytes from the tail: at no cost if that is all of it, otherwise when there
    /// are as many of them as must be moved.
    fn compact(&mut self) {
        if !self.sealed.is_empty() {
            return;
        }
        if self.skip == self.tail.len() {
            self.start += self.skip as u64;
            self.skip = 0;
            self.tail.clear();
            if self.tail.capacity() > PIECE_BYTES_MAX {
                self.tail = Vec::new();
            }
            if self.shared.is_empty() && self.shared.capacity() > SLICES_MAX {
                self.shared = VecDeque::new();
            }
            if self.sealed.capacity() > SLICES_MAX {
                self.sealed = VecDeque::new();
            }
        } else if self.skip >= COMPACT_BYTES_MIN && self.skip * 2 >= self.tail.len() {
            self.start += self.skip as u64;
            self.tail.drain(..self.skip);
            self.skip = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws from a small generator; tests of random steps name the seed.
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (*state >> 33) % below
    }

    #[test]
    fn random_steps_agree_with_a_plain_vector() {
        for seed in 0..120 {
            let mut state = seed;
            let (mut output, mut twin) = (Output::default(), Vec::new());
            let mut next = 0u8;
            for _ in 0..200 {
                let size = [3, 40, 30_000, 70_000][draw(&mut state, 4) as usize];
                let bytes: Vec<u8> = (0..draw(&mut state, size))
                    .map(|_| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .collect();
                match draw(&mut state, 8) {
                    0..3 => {
                        output.extend(&bytes);
                        twin.extend_from_slice(&bytes);
                    }
                    3..5 => {
                        output.push_shared(Bytes::copy_from_slice(&bytes));
                        twin.extend_from_slice(&bytes);
                    }
                    5 => {
                        let mark = output.mark();
                        output.extend(&bytes);
                        output.push_shared(Bytes::copy_from_slice(&bytes));
                        output.extend(b"x");
                        output.truncate_to(mark);
                    }
                    6 => {
                        let n = draw(&mut state, twin.len() as u64 + 1) as usize;
                        output.advance(n);
                        twin.drain(..n);
                    }
                    _ => {
                        let mut slices = Vec::new();
                        output.slices(&mut slices);
                        assert!(slices.len() <= SLICES_MAX);
                        let joined: Vec<u8> =
                            slices.iter().flat_map(|slice| slice.to_vec()).collect();
                        assert_eq!(joined, twin[..joined.len()], "seed {seed}");
                        assert!(joined.len() == twin.len() || slices.len() >= SLICES_MAX - 1);
                        assert!(slices.iter().all(|slice| !slice.is_empty()));
                    }
                }
                assert_eq!(output.len(), twin.len(), "seed {seed}");
                assert!(twin.starts_with(output.front()), "seed {seed}");
                assert_eq!(output.front().is_empty(), twin.is_empty(), "seed {seed}");
            }
            assert_eq!(output.take_all(), twin, "seed {seed}");
            assert!(output.is_empty());
        }
    }

    #[test]
    fn a_mark_holds_while_earlier_bytes_are_written() {
        let mut output = Output::default();
        output.extend(b"first");
        output.push_shared(Bytes::from_static(b"shared"));
        let mark = output.mark();
        output.extend(b"second");
        output.advance(11);
        output.push_shared(Bytes::from_static(b"more"));
        output.truncate_to(mark);
        assert!(output.is_empty());
        output.extend(b"abc");
        output.advance(1);
        output.truncate_to(mark);
        assert!(output.is_empty());
        assert_eq!(output.front(), b"");
    }

    #[test]
    fn room_is_kept_for_small_output_and_given_back_after_large() {
        let mut output = Output::default();
        output.extend(&[b'x'; 1000]);
        let capacity = output.capacity_bytes();
        output.advance(1000);
        assert_eq!(output.capacity_bytes(), capacity);
        output.extend(&vec![b'x'; PIECE_BYTES_MAX + 1]);
        output.advance(PIECE_BYTES_MAX + 1);
        assert_eq!(output.capacity_bytes(), 0);
        output.push_shared(Bytes::from(vec![b'x'; 100_000]));
        assert!(output.capacity_bytes() >= 100_000);
        output.clear();
        assert!(output.capacity_bytes() < 1000);
    }

    #[test]
    fn what_a_slow_reader_is_owed_is_kept_in_pieces() {
        let mut output = Output::default();
        for _ in 0..100_000 {
            output.extend(&[b'x'; 100]);
        }
        assert_eq!(output.len(), 10_000_000);
        assert!(output.capacity_bytes() < 10_000_000 + 2 * PIECE_BYTES_MAX);
        assert!(output.front().len() <= PIECE_BYTES_MAX);
        output.advance(9_999_999);
        assert!(output.capacity_bytes() < 2 * PIECE_BYTES_MAX);
    }

    #[test]
    fn written_bytes_do_not_pile_up_in_a_tail_that_is_never_empty() {
        let mut output = Output::default();
        for _ in 0..1000 {
            output.extend(&[b'x'; 1000]);
            let n = output.len() - 1;
            output.advance(n);
        }
        assert!(output.capacity_bytes() < 4 * COMPACT_BYTES_MIN);
    }
}
