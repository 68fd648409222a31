//! What waits to be written to one client, in order.
//!
//! Everything small is appended to one vector, the tail. A large string is not copied but held by
//! reference, with the place in the stream of owned bytes where it belongs.
//!
//! ```text
//!  tail:    [ already written | $20000\r\n | \r\n+OK\r\n ... ]
//!             ^ tail_start    ^ tail_skip  ^
//!  shared:                                 (before: here, 20000 bytes), ...
//! ```
//!
//! Invariants: `shared` is ordered by `before`, and none lies in what is already written. A session
//! that drains its output allocates nothing in the steady state; one that never quite does so moves
//! each byte at most once on average.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// An empty tail with more room than this is given back.
pub const TAIL_KEPT_BYTES_MAX: usize = 64 * 1024;
/// How many pieces one `writev` is given.
pub const SLICES_MAX: usize = 64;
/// Written bytes at the front of the tail are removed when they are at least this many and at least
/// half of it.
const COMPACT_BYTES_MIN: usize = 16 * 1024;

/// Pending output.
#[derive(Debug, Default)]
pub struct Output {
    tail: Vec<u8>,
    /// How many owned bytes there were before the tail's first, since the beginning.
    tail_start: u64,
    /// How many bytes at the front of the tail are already written.
    tail_skip: usize,
    shared: VecDeque<Shared>,
    /// Bytes in `shared`.
    shared_len: usize,
    /// How many shared strings have been written since the beginning.
    shared_written: u64,
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
        self.tail.len() - self.tail_skip + self.shared_len
    }

    /// Whether everything has been written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a copy.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Makes room for a reply of `additional` bytes, so that its parts cause one growth at most.
    #[inline]
    pub fn reserve(&mut self, additional: usize) {
        self.tail.reserve(additional);
    }

    /// Appends by reference.
    pub fn push_shared(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
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
        let owned = self.owned_before_shared();
        match self.shared.front() {
            Some(shared) if owned == 0 => &shared.bytes,
            _ => &self.tail[self.tail_skip..self.tail_skip + owned],
        }
    }

    /// Appends the first pieces to write to `out`, at most [`SLICES_MAX`].
    pub fn slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>) {
        let first = out.len();
        let mut at = self.tail_skip;
        for shared in &self.shared {
            if out.len() - first >= SLICES_MAX - 1 {
                return;
            }
            let before = self.tail_offset(shared.before);
            if before > at {
                out.push(IoSlice::new(&self.tail[at..before]));
                at = before;
            }
            out.push(IoSlice::new(&shared.bytes));
        }
        if at < self.tail.len() && out.len() - first < SLICES_MAX {
            out.push(IoSlice::new(&self.tail[at..]));
        }
    }

    /// The first `n` pending bytes were written.
    pub fn advance(&mut self, mut n: usize) {
        assert!(n <= self.len(), "more was written than was pending");
        while n > 0 {
            let owned = self.owned_before_shared().min(n);
            self.tail_skip += owned;
            n -= owned;
            let Some(shared) = self.shared.front_mut().filter(|_| n > 0) else {
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
        self.tail.capacity() + self.shared.capacity() * size_of::<Shared>() + self.shared_len
    }

    /// The place where the next reply starts.
    pub fn mark(&self) -> Mark {
        Mark {
            owned: self.owned_end(),
            shared: self.shared_written + self.shared.len() as u64,
        }
    }

    /// Takes back what was appended after the mark, as far as it has not been written.
    pub fn truncate_to(&mut self, mark: Mark) {
        let len = mark.owned.saturating_sub(self.tail_start) as usize;
        self.tail.truncate(len.max(self.tail_skip));
        while self.shared_written + self.shared.len() as u64 > mark.shared
            && let Some(shared) = self.shared.pop_back()
        {
            self.shared_len -= shared.bytes.len();
        }
    }

    /// Drops everything pending.
    pub fn clear(&mut self) {
        self.tail_skip = self.tail.len();
        self.shared_written += self.shared.len() as u64;
        self.shared.clear();
        self.shared_len = 0;
        self.compact();
    }

    /// Everything pending as one vector, as if it had been written: for tests and simulation.
    pub fn take_all(&mut self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        while !self.is_empty() {
            let front = self.front();
            all.extend_from_slice(front);
            let n = front.len();
            self.advance(n);
        }
        all
    }

    fn owned_end(&self) -> u64 {
        self.tail_start + self.tail.len() as u64
    }

    fn tail_offset(&self, owned: u64) -> usize {
        (owned - self.tail_start) as usize
    }

    /// Owned bytes that come before the first shared string.
    fn owned_before_shared(&self) -> usize {
        let end = match self.shared.front() {
            Some(shared) => self.tail_offset(shared.before),
            None => self.tail.len(),
        };
        end - self.tail_skip
    }

    /// Removes written bytes from the tail: at no cost if that is all of it, otherwise when there
    /// are as many of them as must be moved.
    fn compact(&mut self) {
        if self.tail_skip == self.tail.len() {
            self.tail_start += self.tail_skip as u64;
            self.tail_skip = 0;
            self.tail.clear();
            if self.tail.capacity() > TAIL_KEPT_BYTES_MAX {
                self.tail = Vec::new();
            }
            if self.shared.is_empty() && self.shared.capacity() > SLICES_MAX {
                self.shared = VecDeque::new();
            }
        } else if self.tail_skip >= COMPACT_BYTES_MIN && self.tail_skip * 2 >= self.tail.len() {
            self.tail_start += self.tail_skip as u64;
            self.tail.drain(..self.tail_skip);
            self.tail_skip = 0;
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
        for seed in 0..300 {
            let mut state = seed;
            let (mut output, mut twin) = (Output::default(), Vec::new());
            let mut next = 0u8;
            for _ in 0..200 {
                let size = [3, 40, 30_000][draw(&mut state, 3) as usize];
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
        output.extend(&vec![b'x'; TAIL_KEPT_BYTES_MAX + 1]);
        output.advance(TAIL_KEPT_BYTES_MAX + 1);
        assert_eq!(output.capacity_bytes(), 0);
        output.push_shared(Bytes::from(vec![b'x'; 100_000]));
        assert!(output.capacity_bytes() >= 100_000);
        output.clear();
        assert!(output.capacity_bytes() < 1000);
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
