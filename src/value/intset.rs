//! A small set of integers: sorted, each in as few bytes as the widest needs.
//!
//! ```text
//! [width: 2, 4 or 8] [value, little endian] [value] ...      ascending
//! ```
//!
//! Only integers in their canonical text ([`number::parse_i64`](super::number::parse_i64)) are
//! members of such a set, so that what is read back is what was added. The width grows with the
//! first value that needs it and never shrinks again.
//!
//! The functions trust what they read: it was written here, or has passed [`is_valid`].

use super::packed::Buffer;

/// A set of no integers.
pub const EMPTY: &[u8] = &[2];

/// Bytes before the first value.
const HEADER: usize = 1;

#[inline(always)]
fn width(intset: &[u8]) -> usize {
    intset[0].into()
}

/// The bytes a value needs.
fn width_of(value: i64) -> usize {
    if i16::try_from(value).is_ok() {
        2
    } else if i32::try_from(value).is_ok() {
        4
    } else {
        8
    }
}

#[inline(always)]
fn decode(value: &[u8]) -> i64 {
    match *value {
        [a, b] => i16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("a width is 2, 4 or 8"),
    }
}

/// Number of values.
#[inline]
pub fn len(intset: &[u8]) -> usize {
    (intset.len() - HEADER) / width(intset)
}

/// Whether there are none.
pub fn is_empty(intset: &[u8]) -> bool {
    intset.len() == HEADER
}

/// The value of this rank, counted from 0.
pub fn get(intset: &[u8], index: usize) -> Option<i64> {
    let width = width(intset);
    let at = HEADER + index.checked_mul(width)?;
    intset.get(at..at.checked_add(width)?).map(decode)
}

/// All values, ascending.
pub fn iter(intset: &[u8]) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + '_ {
    intset[HEADER..].chunks_exact(width(intset)).map(decode)
}

/// Whether a value is there.
pub fn contains(intset: &[u8], value: i64) -> bool {
    find(intset, value).is_ok()
}

/// The bytes there would be with one more value.
pub fn bytes_with(intset: &[u8], value: i64) -> usize {
    HEADER + (len(intset) + 1) * width(intset).max(width_of(value))
}

/// Adds a value; whether it is new.
pub fn insert<B: Buffer>(buffer: &mut B, value: i64) -> bool {
    let Err(rank) = find(buffer.bytes(), value) else {
        return false;
    };
    if width_of(value) > width(buffer.bytes()) {
        widen(buffer, width_of(value));
    }
    let width = width(buffer.bytes());
    buffer.splice(HEADER + rank * width, 0, &[&value.to_le_bytes()[..width]]);
    true
}

/// Removes a value; whether it was there.
pub fn remove<B: Buffer>(buffer: &mut B, value: i64) -> bool {
    let Ok(rank) = find(buffer.bytes(), value) else {
        return false;
    };
    let width = width(buffer.bytes());
    buffer.splice(HEADER + rank * width, width, &[]);
    true
}

/// Whether these bytes, whatever they are, are a set that this file could have written.
pub fn is_valid(intset: &[u8]) -> bool {
    let Some(&width) = intset.first() else {
        return false;
    };
    matches!(width, 2 | 4 | 8)
        && (intset.len() - HEADER).is_multiple_of(width.into())
        && iter(intset).is_sorted_by(|one, next| one < next)
}

/// The rank of a value, or the one it would have.
fn find(intset: &[u8], value: i64) -> Result<usize, usize> {
    let width = width(intset);
    let (mut low, mut high) = (0, len(intset));
    while low < high {
        let middle = (low + high) / 2;
        let at = HEADER + middle * width;
        match decode(&intset[at..at + width]).cmp(&value) {
            std::cmp::Ordering::Equal => return Ok(middle),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

fn widen<B: Buffer>(buffer: &mut B, width: usize) {
    let old = buffer.bytes();
    let mut wide = Vec::with_capacity(HEADER + len(old) * width);
    wide.push(width as u8);
    for value in iter(old) {
        wide.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    buffer.splice(0, buffer.bytes().len(), &[&wide]);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn behaves_like_a_sorted_set() {
        for seed in 0..60 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut intset = EMPTY.to_vec();
            let mut twin = BTreeSet::new();
            for step in 0..300 {
                // Narrow values first, so that every width is reached by widening.
                let bits = [10, 16, 17, 32, 33, 64][rng.random_range(0..=step / 50)];
                let value = rng.random::<i64>() >> (64 - bits);
                let bytes = bytes_with(&intset, value);
                if rng.random_ratio(2, 3) {
                    let is_new = insert(&mut intset, value);
                    assert_eq!(is_new, twin.insert(value), "seed {seed}");
                    assert!(!is_new || intset.len() == bytes, "seed {seed}");
                } else {
                    let some = twin.iter().next().copied().unwrap_or(value);
                    assert_eq!(remove(&mut intset, some), twin.remove(&some), "seed {seed}");
                    assert!(!contains(&intset, some), "seed {seed}");
                }
                assert_eq!(contains(&intset, value), twin.contains(&value));
                assert_eq!(
                    (len(&intset), is_empty(&intset)),
                    (twin.len(), twin.is_empty())
                );
                assert!(iter(&intset).eq(twin.iter().copied()), "seed {seed}");
                assert!(is_valid(&intset), "seed {seed}");
            }
            let rank = rng.random_range(0..twin.len());
            assert_eq!(get(&intset, rank), twin.iter().nth(rank).copied());
            assert_eq!(get(&intset, twin.len()), None);
            assert_eq!(get(&intset, usize::MAX), None);
        }
    }

    #[test]
    fn widths_change_at_their_limits() {
        let mut intset = EMPTY.to_vec();
        for (value, width) in [
            (i16::MAX.into(), 2),
            (i16::MIN.into(), 2),
            (i64::from(i16::MAX) + 1, 4),
            (i32::MIN.into(), 4),
            (i64::from(i32::MIN) - 1, 8),
            (i64::MAX, 8),
            (i64::MIN, 8),
        ] {
            assert!(insert(&mut intset, value));
            assert_eq!(intset[0], width);
        }
        assert_eq!(iter(&intset).next(), Some(i64::MIN));
        assert_eq!(iter(&intset).next_back(), Some(i64::MAX));
    }

    #[test]
    fn hostile_bytes_are_refused() {
        for bytes in [
            &b""[..],
            &[0],
            &[3],
            &[2, 1],
            &[2, 1, 0, 1, 0],
            &[2, 2, 0, 1, 0],
            &[4, 1, 0],
            &[8, 0, 0, 0, 0],
            &[16; 17],
        ] {
            assert!(!is_valid(bytes), "{bytes:?}");
        }
        assert!(is_valid(EMPTY) && is_valid(&[8]) && is_valid(&[2, 1, 0, 2, 0]));
    }
}
