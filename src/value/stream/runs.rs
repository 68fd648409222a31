//! A map in the order of its keys, made of bounded runs, which a snapshot shares.
//!
//! A run is a sorted array of up to [`RUN_MAX`] keys with their values. Whoever changes a shared
//! run
//! copies it first. Keys that come in order fill their runs; what comes between others divides a
//! full run in halves.

use std::collections::VecDeque;
use std::rc::Rc;

/// Keys of a run: a search looks at a few cache lines, and a copy takes a microsecond.
const RUN_MAX: usize = 128;

/// Some keys in order, with their values.
pub type Run<K, V> = Vec<(K, V)>;

/// A map in the order of its keys.
#[derive(Clone, Debug)]
pub struct Runs<K, V> {
    runs: VecDeque<Rc<Run<K, V>>>,
    len: usize,
}

impl<K, V> Default for Runs<K, V> {
    fn default() -> Runs<K, V> {
        Runs {
            runs: VecDeque::new(),
            len: 0,
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
            let found = &mut Rc::make_mut(&mut self.runs[run])[at].1;
            return Some(std::mem::replace(found, value));
        }
        self.len += 1;
        if run == self.runs.len() {
            // It comes behind all others.
            match self.runs.back_mut().filter(|last| last.len() < RUN_MAX) {
                Some(last) => Rc::make_mut(last).push((key, value)),
                None => self.runs.push_back(Rc::new(vec![(key, value)])),
            }
            return None;
        }
        if self.runs[run].len() >= RUN_MAX {
            let half = Rc::make_mut(&mut self.runs[run]).split_off(RUN_MAX / 2);
            self.runs.insert(run + 1, Rc::new(half));
            if at > RUN_MAX / 2 {
                (run, at) = (run + 1, at - RUN_MAX / 2);
            }
        }
        Rc::make_mut(&mut self.runs[run]).insert(at, (key, value));
        None
    }

    /// Removes a key; its value.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let (at_run, at, is_there) = self.place(key);
        if !is_there {
            return None;
        }
        self.len -= 1;
        let run = Rc::make_mut(&mut self.runs[at_run]);
        let (_, value) = run.remove(at);
        if run.is_empty() {
            self.runs.remove(at_run);
        } else if run.len() * 4 < RUN_MAX {
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
            Rc::make_mut(&mut self.runs[at]).extend(next.iter().cloned());
            self.runs.remove(at + 1);
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
            Some(run) => self.len -= run.len(),
            None => return false,
        }
        true
    }

    /// Bytes of memory behind it.
    pub fn allocated_bytes(&self) -> usize {
        let runs = self.runs.iter().map(|run| run.capacity());
        let pairs = runs.sum::<usize>() * size_of::<(K, V)>();
        pairs + self.runs.capacity() * size_of::<Rc<Run<K, V>>>() + self.runs.len() * 40
    }

    /// Asserts that the keys are in order and counted.
    pub fn check(&self) {
        let keys = self.runs.iter().flat_map(|run| run.iter());
        assert!(keys.clone().is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(keys.count(), self.len);
        assert!(
            self.runs
                .iter()
                .all(|run| (1..=RUN_MAX).contains(&run.len()))
        );
    }
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
