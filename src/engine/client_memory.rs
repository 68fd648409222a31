//! The limit on what all clients take together: `maxmemory-clients`, and who goes.
//!
//! As long as there is a limit, each client is counted whenever its memory may have changed: when
//! it has sent something, after each of its commands, when a message was put into its output, when
//! output was written. Counting costs the same however many clients there are: a sum, and the
//! client's place among those of about its size. If the sum is above the limit, the largest clients
//! are closed until it is not: before the next command runs, and in every turn of the loop.
//!
//! ```text
//! sizes     ... 4,096  4,608  5,120 ...  7,680  8,192  9,216 ...    eight steps for each power
//! clients         3,9    12               5             1,7         the last list that has any
//!                                                                   has the largest ones
//! ```
//!
//! Clients that asked not to be closed (CLIENT NO-EVICT) are not counted. Without a limit nobody
//! is, and nothing of this costs more than a comparison.
//!
//! Invariant: a session has [`Session::counted`] iff it is in the list of that size, at that place;
//! the sum is that of all of them.
//!
//! Not here: what one client may take alone (`client_limits`), and what of memory is counted
//! ([`Session::memory_bytes`]).
//!
//! [`Session::counted`]: super::session::Session::counted
//! [`Session::memory_bytes`]: super::session::Session::memory_bytes

use super::Engine;
use super::session::{Closing, SessionKey};

/// Less than this is no limit that leaves room for a request and its reply. The same as in Redis.
const LIMIT_BYTES_MIN: u64 = 128 * 1024;
/// Lists from one power of two to the next: within a list sizes differ by an eighth at most.
const STEPS_BITS: u32 = 3;

/// What all clients take that are counted.
#[derive(Debug, Default)]
pub struct ClientMemory {
    /// The limit; 0 for none.
    limit_bytes: usize,
    sum_bytes: usize,
    /// Clients by about their size, in ascending order.
    by_size: Vec<Vec<SessionKey>>,
}

/// How a client was counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    bytes: usize,
    /// Its place in the list of its size.
    place: usize,
}

/// The list for clients of so many bytes.
fn list_of(bytes: usize) -> usize {
    let bytes = bytes.max(1 << STEPS_BITS);
    let power = bytes.ilog2() - STEPS_BITS;
    // The leading bits behind the first say how far it is to the next power.
    let step = (bytes >> power) & ((1 << STEPS_BITS) - 1);
    ((power as usize) << STEPS_BITS) | step
}

impl ClientMemory {
    /// Bytes that all clients take that are counted.
    pub fn sum_bytes(&self) -> usize {
        self.sum_bytes
    }

    /// Adds a client to the list of its size; its place there.
    fn add(&mut self, key: SessionKey, bytes: usize) -> usize {
        let list = list_of(bytes);
        if self.by_size.len() <= list {
            self.by_size.resize_with(list + 1, Vec::new);
        }
        self.sum_bytes += bytes;
        self.by_size[list].push(key);
        self.by_size[list].len() - 1
    }

    /// Takes a client out; the one that has its place now.
    fn remove(&mut self, counted: Counted) -> Option<SessionKey> {
        self.sum_bytes -= counted.bytes;
        let list = &mut self.by_size[list_of(counted.bytes)];
        list.swap_remove(counted.place);
        list.get(counted.place).copied()
    }

    /// One of the largest clients.
    fn largest(&self) -> Option<SessionKey> {
        self.by_size
            .iter()
            .rev()
            .find_map(|list| list.last().copied())
    }
}

impl Engine {
    /// Takes over the setting.
    pub fn set_client_limit(&mut self) {
        let whole = self.memory_limit_bytes();
        let bytes = match self.config.clients_memory.bytes_of(whole) {
            0 => 0,
            bytes => bytes.max(LIMIT_BYTES_MIN),
        };
        self.client_memory.limit_bytes = bytes as usize;
        let keys: Vec<SessionKey> = self.sessions.iter().map(|(key, _)| key).collect();
        for key in keys {
            match bytes {
                0 => self.uncount_client(key),
                _ => self.count_client(key),
            }
        }
    }

    /// Whether there is a limit.
    #[inline(always)]
    pub fn has_client_limit(&self) -> bool {
        self.client_memory.limit_bytes > 0
    }

    /// Counts what a client takes now.
    #[inline]
    pub fn count_client(&mut self, key: SessionKey) {
        if self.has_client_limit() {
            self.count_client_now(key);
        }
    }

    fn count_client_now(&mut self, key: SessionKey) {
        let session = &mut self.sessions[key];
        if session.is_no_evict || session.closing == Closing::Now {
            return;
        }
        let bytes = session.memory_bytes();
        if let Some(counted) = &mut session.counted
            && list_of(counted.bytes) == list_of(bytes)
        {
            let memory = &mut self.client_memory;
            memory.sum_bytes = memory.sum_bytes - counted.bytes + bytes;
            counted.bytes = bytes;
            return;
        }
        self.uncount_client(key);
        let place = self.client_memory.add(key, bytes);
        self.sessions[key].counted = Some(Counted { bytes, place });
    }

    /// Counts a client no more.
    pub fn uncount_client(&mut self, key: SessionKey) {
        let Some(counted) = self.sessions[key].counted.take() else {
            return;
        };
        if let Some(moved) = self.client_memory.remove(counted) {
            let moved = self.sessions[moved].counted.as_mut();
            moved.expect("it is in a list").place = counted.place;
        }
    }

    /// Closes the largest clients as long as all together take too much.
    #[inline]
    pub fn evict_clients(&mut self) {
        let memory = &self.client_memory;
        if memory.limit_bytes > 0 && memory.sum_bytes > memory.limit_bytes {
            self.evict_largest_clients();
        }
    }

    #[cold]
    fn evict_largest_clients(&mut self) {
        while self.client_memory.sum_bytes > self.client_memory.limit_bytes
            && let Some(key) = self.client_memory.largest()
        {
            let session = &self.sessions[key];
            log::info!(
                "Closing client id={} addr={} name={}: it takes {} bytes, the most, and all \
                 clients together take more than maxmemory-clients",
                session.id,
                session.peer,
                String::from_utf8_lossy(&session.name),
                session.memory_bytes()
            );
            self.metrics.clients_evicted += 1;
            self.close(key, Closing::Now);
        }
    }

    /// Asserts that clients are counted as they are: in a test, between turns.
    pub fn check_client_memory(&self) {
        let mut sum = 0;
        for (key, session) in &self.sessions {
            let is_counted =
                self.has_client_limit() && !session.is_no_evict && session.closing != Closing::Now;
            assert_eq!(session.counted.is_some(), is_counted);
            if let Some(counted) = session.counted {
                assert_eq!(counted.bytes, session.memory_bytes(), "client {key}");
                let list = &self.client_memory.by_size[list_of(counted.bytes)];
                assert_eq!(list[counted.place], key);
                sum += counted.bytes;
            }
        }
        assert_eq!(sum, self.client_memory.sum_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_in_the_order_of_sizes_and_narrow() {
        let mut last = list_of(0);
        let (mut least, mut size) = (8, 9);
        while size < 1 << 30 {
            let list = list_of(size);
            assert!(list == last || list == last + 1, "{size}");
            if list > last {
                (last, least) = (list, size);
            }
            assert!(size - least <= least / 8, "{size}");
            size += size / 64 + 1;
        }
        assert_eq!(list_of(4096) + 8, list_of(8192));
    }
}
