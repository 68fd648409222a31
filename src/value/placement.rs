//! The hash that says where a key, or a member of a collection, lies: keyed, so that nobody can
//! choose keys that collide, and warped, so that the segments it fills are not all full at once.
//! And what the tables inside those segments (hashbrown's) are given of it, and hold.

use rand::Rng;
use siphasher::sip::SipHasher13;

/// A keyed hash; seeded once, at start.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    keys: (u64, u64),
}

impl Placement {
    /// A hash with a random key.
    pub fn new(rng: &mut impl Rng) -> Placement {
        Placement {
            keys: (rng.next_u64(), rng.next_u64()),
        }
    }

    /// The placement hash of a key: SipHash-1-3 with its top half warped.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        placement(SipHasher13::new_with_keys(self.keys.0, self.keys.1).hash(key))
    }
}

/// A hash worked out before it is needed, for the string at one address.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    address: usize,
    len: usize,
    hash: u64,
}

impl Ahead {
    /// Nothing was worked out.
    pub const NONE: Ahead = Ahead {
        address: 0,
        len: 0,
        hash: 0,
    };

    /// Keeps the hash of a string, which must neither move nor change for as long.
    #[inline]
    pub fn new(string: &[u8], hash: u64) -> Ahead {
        Ahead {
            address: string.as_ptr().addr(),
            len: string.len(),
            hash,
        }
    }

    /// The hash of a string if this is the one.
    #[inline]
    pub fn of(self, string: &[u8]) -> Option<u64> {
        let is_it = string.as_ptr().addr() == self.address && string.len() == self.len;
        is_it.then_some(self.hash)
    }
}

/// Warps the top 32 bits x of a hash to x + 0.34 x (1 - x), x as a fraction: monotone, and an
/// approximation of log2(1 + x), so that densities differ by two from end to end.
#[inline(always)]
fn placement(hash: u64) -> u64 {
    let x = hash >> 32;
    let bump = (x * ((1 << 32) - x)) >> 32;
    let warped = (x + ((bump * 1460) >> 12)).min(u32::MAX.into());
    warped << 32 | hash & 0xffff_ffff
}

/// What the hash tables of [`segment`](super::segment) are given of a placement hash: the low half
/// twice. hashbrown takes its 7-bit tag from the top and the start of its probe from the bottom of
/// it, so that neither comes from the bits that choose the segment.
#[inline(always)]
pub fn inner(hash: u64) -> u64 {
    hash << 32 | hash & 0xffff_ffff
}

/// The top half of a placement hash, for tables that keep no more of it.
#[inline(always)]
pub fn top_half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// What such tables are given: the start of the probe, at the bottom, comes from the lowest bits of
/// the top half, far from those that choose the segment, and the 7-bit tag from all of them.
#[inline(always)]
pub fn spread(top_half: u32) -> u64 {
    u64::from(top_half).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Entries a table of this many buckets holds: hashbrown's 7/8.
pub const fn room(buckets: usize) -> usize {
    if buckets < 8 {
        buckets.saturating_sub(1)
    } else {
        buckets / 8 * 7
    }
}
