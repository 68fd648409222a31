//! A map in the order of its keys, made of bounded runs, which a snapshot shares.
//!
//! A run is a sorted array of up to [`RUN_MAX`] keys with their values. Whoever changes a shared
//! run
//! copies it first. Keys that come in order fill their runs; what comes between others divides a
//! full run in halves.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::value::size_class;

/// Keys of a run: a search looks at a few cache lines, and a copy takes a microsecond.
const RUN_MAX: usize = 128;

/// Some keys in order, with their values.
pub type Run<K, V> = Vec<(K, V)>;

/// A map in the order of its keys.
#[derive(Clone, Debug)]
pub struct Runs<K, V> {
    runs: VecDeque<Rc<Run<K, V>>>,
    len: usize,
    /// Bytes of all runs.
    run_bytes: usize,
}

impl<K, V> Default for Runs<K, V> {
    fn default() -> Runs<K, V> {
        Runs {
            runs: VecDeque::new(),
            len: 0,
            run_bytes: 0,
        }
    }
}

impl<K: Ord + Copy, V: Clone> Runs<K, V> {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The run a key is in or belongs into, and where there; whether it is there.
    fn place(&self, key: K) -> (usize, usize, bool) {
        let run = self
            .runs
            .partition_point(|run| run.last().is_some_and(|(last, _)| *last < key));
        match self.runs.get(run) {
            Some(found) => match found.binary_search_by(|(other, _)| other.cmp(&key)) {
                Ok(at) => (run, at, true),
                Err(at) => (run, at, false),
            },
            None => (run, 0, false),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: K) -> Option<&V> {
        let (run, at, is_there) = self.place(key);
        is_there.then(|| &self.runs[run][at].1)
    }

    /// Sets the value of a key; the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (mut run, mut at, is_there) = self.place(key);
        if is_there {
            let old = self.change(run, |run| std::mem::replace(&mut run[at].1, value));
            return Some(old);
        }
        self.len += 1;
        if run == self.runs.len() {
            // It comes behind all others.
            if self.runs.back().is_some_and(|last| last.len() < RUN_MAX) {
                self.change(run - 1, |last| last.push((key, value)));
            } else {
                self.add(run, vec![(key, value)]);
            }
            return None;
        }
        if self.runs[run].len() >= RUN_MAX {
            let half = self.change(run, |run| run.split_off(RUN_MAX / 2));
            self.add(run + 1, half);
            if at > RUN_MAX / 2 {
                (run, at) = (run + 1, at - RUN_MAX / 2);
            }
        }
        self.change(run, |run| run.insert(at, (key, value)));
        None
    }

    /// Changes a run, or a copy of its own if others have it too, and the sum of bytes.
    fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut Run<K, V>) -> R) -> R {
        // Before a copy is made: that may be smaller than the original.
        let before = run_bytes(&self.runs[at]);
        let run = Rc::make_mut(&mut self.runs[at]);
        let result = change(run);
        self.run_bytes = self.run_bytes + run_bytes(run) - before;
        result
    }

    fn add(&mut self, at: usize, run: Run<K, V>) {
        self.run_bytes += run_bytes(&run);
        self.runs.insert(at, Rc::new(run));
    }

    fn take(&mut self, at: usize) {
        if let Some(run) = self.runs.remove(at) {
            self.run_bytes -= run_bytes(&run);
        }
    }

    /// Removes a key; its value.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let (at_run, at, is_there) = self.place(key);
        if !is_there {
            return None;
        }
        self.len -= 1;
        let (_, value) = self.change(at_run, |run| run.remove(at));
        let left = self.runs[at_run].len();
        if left == 0 {
            self.take(at_run);
        } else if left * 4 < RUN_MAX {
            self.join(at_run);
        }
        Some(value)
    }

    /// Puts a small run together with the next if that leaves room.
    fn join(&mut self, at: usize) {
        let Some(next) = self.runs.get(at + 1) else {
            return;
        };
        if self.runs[at].len() + next.len() <= RUN_MAX / 2 {
            let next = next.clone();
            self.change(at, |run| run.extend(next.iter().cloned()));
            self.take(at + 1);
        }
    }

    /// The keys from one on, in order, with their values.
    pub fn iter_from(&self, key: K) -> impl Iterator<Item = (K, &V)> + Clone {
        let (run, at, _) = self.place(key);
        let all = self.runs.range(run.min(self.runs.len())..);
        let pairs = all.flat_map(|run| run.iter());
        pairs.skip(at).map(|(key, value)| (*key, value))
    }

    /// The first key.
    pub fn first(&self) -> Option<K> {
        self.runs.front()?.first().map(|(key, _)| *key)
    }

    /// The last key.
    pub fn last(&self) -> Option<K> {
        self.runs.back()?.last().map(|(key, _)| *key)
    }

    /// The runs as they are now.
    pub fn freeze(&self) -> impl Iterator<Item = Rc<Run<K, V>>> {
        self.runs.iter().cloned()
    }

    /// Frees one run; false if there was none left.
    pub fn dismantle(&mut self) -> bool {
        match self.runs.pop_back() {
            Some(run) => {
                self.len -= run.len();
                self.run_bytes -= run_bytes(&run);
            }
            None => return false,
        }
        true
    }

    /// Bytes of memory behind it.
    pub fn allocated_bytes(&self) -> usize {
        self.run_bytes + size_class::of(self.runs.capacity() * size_of::<Rc<Run<K, V>>>())
    }

    /// Asserts that the keys are in order and counted.
    pub fn check(&self) {
        let keys = self.runs.iter().flat_map(|run| run.iter());
        assert!(keys.clone().is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(keys.count(), self.len);
        let bytes = self.runs.iter().map(|run| run_bytes(run));
        assert_eq!(bytes.sum::<usize>(), self.run_bytes);
        assert!(
            self.runs
                .iter()
                .all(|run| (1..=RUN_MAX).contains(&run.len()))
        );
    }
}

/// Bytes of memory a run takes, behind an `Rc`.
fn run_bytes<K, V>(run: &Run<K, V>) -> usize {
    let counts = 2 * size_of::<usize>();
    size_class::of(counts + size_of::<Run<K, V>>())
        + size_class::of(run.capacity() * size_of::<(K, V)>())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn random_edits_agree_with_a_map() {
        for seed in 0..10 {
            println!("seed {seed}");
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut runs, mut twin) = (Runs::default(), BTreeMap::new());
            for step in 0..6_000u32 {
                let key = match rng.random_range(0..3) {
                    0 => 10_000 + step,
                    _ => rng.random_range(0..3_000),
                };
                let is_growing = step / 1_500 % 2 == 0;
                if rng.random_bool(if is_growing { 0.8 } else { 0.1 }) {
                    assert_eq!(runs.insert(key, step), twin.insert(key, step));
                } else {
                    let key = twin.range(key..).next().map_or(key, |(key, _)| *key);
                    assert_eq!(runs.remove(key), twin.remove(&key));
                }
                assert_eq!(runs.get(key), twin.get(&key));
                if step % 97 == 0 {
                    runs.check();
                    let ours = runs.iter_from(key).map(|(key, value)| (key, *value));
                    let theirs = twin.range(key..).map(|(key, value)| (*key, *value));
                    assert!(ours.eq(theirs));
                    assert_eq!(runs.first(), twin.keys().next().copied());
                    assert_eq!(runs.last(), twin.keys().next_back().copied());
                }
            }
            while runs.dismantle() {}
            assert_eq!(runs.len(), 0);
        }
    }
}
