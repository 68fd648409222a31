//! A set of small numbers that finds its next member in a few steps: a bit per number, and above
//! 64 of those a bit that says whether any of them is set.
//!
//! Invariant: a summary bit is set iff its word is not zero.

/// A two-level bitmap. A set larger than 64 x 64 only means that the summary has several words.
#[derive(Debug, Default)]
pub(super) struct Bitmap {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl Bitmap {
    /// Makes room for the numbers below `len`; never shrinks.
    pub(super) fn grow(&mut self, len: usize) {
        let words = len.div_ceil(64);
        if words > self.words.len() {
            self.words.resize(words, 0);
            self.summary.resize(words.div_ceil(64), 0);
        }
    }

    #[inline]
    pub(super) fn set(&mut self, n: usize) {
        self.words[n / 64] |= 1 << (n % 64);
        self.summary[n / 4096] |= 1 << (n / 64 % 64);
    }

    #[inline]
    pub(super) fn clear(&mut self, n: usize) {
        self.words[n / 64] &= !(1 << (n % 64));
        if self.words[n / 64] == 0 {
            self.summary[n / 4096] &= !(1 << (n / 64 % 64));
        }
    }

    /// Whether none of the 64 numbers is a member that share a word with this one.
    #[inline]
    pub(super) fn is_word_empty(&self, n: usize) -> bool {
        self.words[n / 64] == 0
    }

    #[inline]
    pub(super) fn contains(&self, n: usize) -> bool {
        self.words
            .get(n / 64)
            .is_some_and(|word| word >> (n % 64) & 1 == 1)
    }

    /// The smallest member that is `from` or more.
    pub(super) fn first_from(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let rest = self.words.get(word)? & (u64::MAX << (from % 64));
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let next = word + 1;
        let mut above = u64::MAX << (next % 64);
        for (i, summary) in self.summary.iter().enumerate().skip(next / 64) {
            let found = summary & above;
            if found != 0 {
                let word = i * 64 + found.trailing_zeros() as usize;
                return Some(word * 64 + self.words[word].trailing_zeros() as usize);
            }
            above = u64::MAX;
        }
        None
    }

    pub(super) fn allocated_bytes(&self) -> usize {
        (self.words.capacity() + self.summary.capacity()) * size_of::<u64>()
    }
}
