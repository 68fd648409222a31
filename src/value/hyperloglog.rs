//! HyperLogLog: how many different elements were added, from 16,384 registers of 6 bits, in the
//! layout of Redis' strings, so that servers can exchange them.
//!
//! ```text
//! 4  "HYLL"
//! 1  encoding: 0 dense, 1 sparse
//! 3  zero
//! 8  the count when it was last asked for, little-endian; the topmost bit is set if registers have
//!    changed since
//! .  dense: 12,288 bytes, registers one after another, least significant bits first
//!    sparse: runs of registers that are equal
//!       00nnnnnn            n + 1 registers are 0
//!       01nnnnnn nnnnnnnn   n + 1 registers are 0
//!       1vvvvvnn            n + 1 registers are v + 1
//! ```
//!
//! An element is hashed (MurmurHash64A); 14 bits choose the register, which keeps the most zeros
//! that have followed them, and one. The count is Ertl's estimate (Otmar Ertl, "New cardinality
//! estimation algorithms for HyperLogLog sketches", 2017, algorithm 6), which needs no corrections.
//!
//! A string of this form may come from anywhere: what does not add up is a [`Corrupted`], never a
//! panic.

use super::wide::{Work, wide};

const MAGIC: &[u8; 4] = b"HYLL";
const HEADER_BYTES: usize = 16;
const INDEX_BITS: u32 = 14;
/// Number of registers.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of the hash that are left to count zeros in.
const COUNTED_BITS: u32 = 64 - INDEX_BITS;
const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * REGISTER_BITS / 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Largest register of a sparse form.
const SPARSE_MAX: u8 = 32;
/// Registers of one run: of zeros in one byte and in two, and of another value.
const ZEROS_MAX: usize = 64;
const EQUALS_MAX: usize = 4;
/// Where the count is, and the byte that says whether it holds.
const COUNT_AT: usize = 8;
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;
/// Runs behind a changed one that are looked at for merging.
const MERGED_RUNS: usize = 5;

/// A string begins as one of these and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupted;

/// Whether a string begins as a HyperLogLog does and has a length that one can have.
pub fn is_one(bytes: &[u8]) -> bool {
    let is_long_enough = |encoding| match encoding {
        DENSE => bytes.len() == DENSE_BYTES,
        SPARSE => true,
        _ => false,
    };
    bytes.len() >= HEADER_BYTES && bytes.starts_with(MAGIC) && is_long_enough(bytes[4])
}

/// One without any element.
pub fn empty() -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..4].copy_from_slice(MAGIC);
    bytes[4] = SPARSE;
    push_run(&mut bytes, 0, REGISTERS);
    bytes
}

/// Whether it is in the dense form.
pub fn is_dense(bytes: &[u8]) -> bool {
    bytes[4] == DENSE
}

/// The hash of an element: MurmurHash64A by Austin Appleby, with the seed of Redis.
fn hash(element: &[u8]) -> u64 {
    const SEED: u64 = 0xadc8_3b19;
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = SEED ^ (element.len() as u64).wrapping_mul(M);
    let (words, rest) = element.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

/// The register that an element belongs to, and what it must be at least.
pub fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let rest = hash >> INDEX_BITS | 1 << COUNTED_BITS;
    (hash as usize % REGISTERS, rest.trailing_zeros() as u8 + 1)
}

/// A run of equal registers.
#[derive(Clone, Copy)]
struct Run {
    value: u8,
    len: usize,
    /// Bytes it takes.
    bytes: usize,
}

/// The run at an offset of a sparse form.
fn run_at(bytes: &[u8], at: usize) -> Option<Run> {
    let first = *bytes.get(at)?;
    let low = usize::from(first & 0x3f);
    Some(match first >> 6 {
        0 => Run {
            value: 0,
            len: low + 1,
            bytes: 1,
        },
        1 => Run {
            value: 0,
            len: (low << 8 | usize::from(*bytes.get(at + 1)?)) + 1,
            bytes: 2,
        },
        _ => Run {
            value: (first >> 2 & 0x1f) + 1,
            len: usize::from(first & 3) + 1,
            bytes: 1,
        },
    })
}

fn equals(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

/// Appends a run, of which there are none without registers.
fn push_run(out: &mut Vec<u8>, value: u8, len: usize) {
    match (value, len) {
        (_, 0) => {}
        (0, len) if len <= ZEROS_MAX => out.push((len - 1) as u8),
        (0, len) => out.extend((0x4000 | (len - 1) as u16).to_be_bytes()),
        (value, len) => out.push(equals(value, len)),
    }
}

/// The runs of a sparse form.
fn runs(bytes: &[u8]) -> impl Iterator<Item = Result<Run, Corrupted>> {
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let run = run_at(bytes, at);
        at = run.map_or(bytes.len(), |run| at + run.bytes);
        Some(run.ok_or(Corrupted))
    })
}

fn dense_register(bytes: &[u8], index: usize) -> u8 {
    let bit = index * REGISTER_BITS;
    let (at, shift) = (HEADER_BYTES + bit / 8, bit % 8);
    // Behind the last register there is nothing, of which nothing is needed.
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([bytes[at], next]) >> shift) as u8 & REGISTER_MAX
}

fn set_dense_register(bytes: &mut [u8], index: usize, value: u8) {
    let bit = index * REGISTER_BITS;
    let (at, shift) = (HEADER_BYTES + bit / 8, bit % 8);
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    let both = u16::from_le_bytes([bytes[at], next]);
    let both = both & !(u16::from(REGISTER_MAX) << shift) | u16::from(value) << shift;
    let [low, high] = both.to_le_bytes();
    bytes[at] = low;
    if let Some(byte) = bytes.get_mut(at + 1) {
        *byte = high;
    }
}

/// All registers.
///
/// # Errors
/// If a sparse form has more or fewer of them.
pub fn registers(bytes: &[u8]) -> Result<Box<[u8; REGISTERS]>, Corrupted> {
    let mut registers = Box::new([0; REGISTERS]);
    raise(&mut registers, bytes)?;
    Ok(registers)
}

/// Raises registers to those of a HyperLogLog where these are higher.
///
/// # Errors
/// If a sparse form has more or fewer of them.
pub fn raise(registers: &mut [u8; REGISTERS], bytes: &[u8]) -> Result<(), Corrupted> {
    if is_dense(bytes) {
        wide(Raise { registers, bytes });
        return Ok(());
    }
    let mut at = 0;
    for run in runs(bytes) {
        let Run { value, len, .. } = run?;
        let covered = registers.get_mut(at..at + len).ok_or(Corrupted)?;
        if value > 0 {
            covered
                .iter_mut()
                .for_each(|register| *register = value.max(*register));
        }
        at += len;
    }
    if at == REGISTERS {
        Ok(())
    } else {
        Err(Corrupted)
    }
}

/// Eight registers in 48 bits, as eight bytes: the halves, their halves and theirs move apart.
#[inline(always)]
fn unpack(packed: u64) -> u64 {
    let halves = packed & 0xff_ffff | (packed & 0xffff_ff00_0000) << 8;
    let quarters = halves & 0x0fff_0000_0fff | (halves & 0xff_f000_00ff_f000) << 4;
    quarters & 0x3f_003f_003f_003f | (quarters & 0x0fc0_0fc0_0fc0_0fc0) << 2
}

/// The reverse.
#[inline(always)]
fn pack(registers: u64) -> u64 {
    let quarters = registers & 0x3f_003f_003f_003f | registers >> 2 & 0x0fc0_0fc0_0fc0_0fc0;
    let halves = quarters & 0x0fff_0000_0fff | quarters >> 4 & 0xff_f000_00ff_f000;
    halves & 0xff_ffff | halves >> 8 & 0xffff_ff00_0000
}

/// [`raise`] for the dense form.
struct Raise<'a> {
    registers: &'a mut [u8; REGISTERS],
    bytes: &'a [u8],
}

impl Work for Raise<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        raise_to_dense(self.registers, self.bytes);
    }
}

/// In groups that become vector code.
#[inline(always)]
fn raise_to_dense(registers: &mut [u8; REGISTERS], bytes: &[u8]) {
    const LANES: usize = 8;
    const PACKED_BYTES: usize = 6;
    // Six bytes are read as the upper ones of eight, as there is a header before the first.
    const BEFORE: usize = 2;
    let (groups, _) = registers.as_chunks_mut::<{ 8 * LANES }>();
    let first = HEADER_BYTES - BEFORE;
    for (nth, group) in groups.iter_mut().enumerate() {
        let at = first + nth * PACKED_BYTES * LANES;
        let part = bytes[at..].first_chunk::<{ BEFORE + PACKED_BYTES * LANES }>();
        let part = part.expect("a dense form is of one length");
        let mut words = [0u64; LANES];
        for (lane, word) in words.iter_mut().enumerate() {
            let bytes = part[lane * PACKED_BYTES..].first_chunk();
            *word = u64::from_le_bytes(*bytes.expect("there are eight bytes")) >> (8 * BEFORE);
        }
        let mut values = [0; 8 * LANES];
        let (unpacked, _) = values.as_chunks_mut::<8>();
        for (bytes, word) in unpacked.iter_mut().zip(words) {
            *bytes = unpack(word).to_le_bytes();
        }
        for (register, value) in group.iter_mut().zip(values) {
            *register = value.max(*register);
        }
    }
}

/// Makes it dense with these registers, whatever it held.
pub fn set_all(bytes: &mut Vec<u8>, registers: &[u8; REGISTERS]) {
    bytes.resize(DENSE_BYTES, 0);
    bytes[4] = DENSE;
    wide(Pack {
        bytes: &mut bytes[HEADER_BYTES..],
        registers,
    });
}

/// Writes registers in their dense form.
struct Pack<'a> {
    bytes: &'a mut [u8],
    registers: &'a [u8; REGISTERS],
}

impl Work for Pack<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let (packed, _) = self.bytes.as_chunks_mut::<6>();
        let (groups, _) = self.registers.as_chunks::<8>();
        for (packed, group) in packed.iter_mut().zip(groups) {
            let word = pack(u64::from_le_bytes(*group)).to_le_bytes();
            packed.copy_from_slice(&word[..6]);
        }
    }
}

/// Makes it dense, if it is not.
///
/// # Errors
/// If a sparse form has more or fewer registers than there are.
pub fn make_dense(bytes: &mut Vec<u8>) -> Result<(), Corrupted> {
    if is_dense(bytes) {
        return Ok(());
    }
    let registers = registers(bytes)?;
    set_all(bytes, &registers);
    Ok(())
}

/// Raises a register to a value; whether it was lower. A sparse form becomes dense if it must hold
/// what it cannot, or grows beyond so many bytes.
///
/// # Errors
/// If a sparse form has too few registers.
pub fn set(
    bytes: &mut Vec<u8>,
    (index, value): (usize, u8),
    sparse_bytes_max: usize,
) -> Result<bool, Corrupted> {
    if !is_dense(bytes) {
        if value <= SPARSE_MAX
            && let Some(is_changed) = set_sparse(bytes, index, value, sparse_bytes_max)?
        {
            return Ok(is_changed);
        }
        make_dense(bytes)?;
    }
    let is_lower = dense_register(bytes, index) < value;
    if is_lower {
        set_dense_register(bytes, index, value);
    }
    Ok(is_lower)
}

/// The same in a sparse form; none if there is no room.
fn set_sparse(
    bytes: &mut Vec<u8>,
    index: usize,
    value: u8,
    bytes_max: usize,
) -> Result<Option<bool>, Corrupted> {
    let (mut at, mut first, mut before) = (HEADER_BYTES, 0, None);
    let run = loop {
        let run = run_at(bytes, at).ok_or(Corrupted)?;
        if index < first + run.len {
            break run;
        }
        before = Some(at);
        at += run.bytes;
        first += run.len;
    };
    if run.value >= value {
        return Ok(Some(false));
    }
    if run.len == 1 && run.bytes == 1 {
        bytes[at] = equals(value, 1);
    } else {
        let mut split = Vec::with_capacity(5);
        push_run(&mut split, run.value, index - first);
        push_run(&mut split, value, 1);
        push_run(&mut split, run.value, first + run.len - 1 - index);
        let longer = split.len().saturating_sub(run.bytes);
        if longer > 0 && bytes.len() + longer > bytes_max {
            return Ok(None);
        }
        bytes.splice(at..at + run.bytes, split);
    }
    merge_runs(bytes, before.unwrap_or(HEADER_BYTES));
    Ok(Some(true))
}

/// Joins equal runs from an offset on, as far as the change there may have made some.
fn merge_runs(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..MERGED_RUNS {
        let Some(run) = run_at(bytes, at) else { return };
        let next = run_at(bytes, at + run.bytes);
        if let Some(next) = next
            && run.value > 0
            && next.value == run.value
            && run.len + next.len <= EQUALS_MAX
        {
            bytes[at] = equals(run.value, run.len + next.len);
            bytes.remove(at + 1);
        } else {
            at += run.bytes;
        }
    }
}

/// What a register is at least.
///
/// # Errors
/// If a sparse form has too few registers.
pub fn holds(bytes: &[u8], (index, value): (usize, u8)) -> Result<bool, Corrupted> {
    if is_dense(bytes) {
        return Ok(dense_register(bytes, index) >= value);
    }
    let mut first = 0;
    for run in runs(bytes) {
        let run = run?;
        first += run.len;
        if index < first {
            return Ok(run.value >= value);
        }
    }
    Err(Corrupted)
}

/// Marks the count as no longer right.
pub fn spoil_count(bytes: &mut [u8]) {
    bytes[STALE_AT] |= STALE;
}

/// The count, if it was noted and holds.
pub fn noted_count(bytes: &[u8]) -> Option<u64> {
    let noted = bytes[COUNT_AT..].first_chunk().copied();
    let noted = u64::from_le_bytes(noted.unwrap_or_default());
    (bytes[STALE_AT] & STALE == 0).then_some(noted)
}

/// Notes the count.
pub fn note_count(bytes: &mut [u8], count: u64) {
    bytes[COUNT_AT..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
}

/// An estimate of how many different elements registers have seen.
pub fn estimate(registers: &[u8; REGISTERS]) -> u64 {
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    // Equal registers often follow each other. With one histogram each of them would wait for the
    // one before.
    let mut histograms = [[0u32; REGISTER_MAX as usize + 1]; 8];
    let (groups, _) = registers.as_chunks::<8>();
    for group in groups {
        for (histogram, value) in histograms.iter_mut().zip(group) {
            histogram[usize::from(value & REGISTER_MAX)] += 1;
        }
    }
    let m = REGISTERS as f64;
    let count = |value: usize| {
        let counts = histograms.iter().map(|histogram| histogram[value]);
        f64::from(counts.sum::<u32>())
    };
    let top = COUNTED_BITS as usize;
    let mut z = m * tau((m - count(top + 1)) / m);
    for value in (1..=top).rev() {
        z = (z + count(value)) * 0.5;
    }
    z += m * sigma(count(0) / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// The runs of a sparse form in words: `z:` and `Z:` zeros in one byte and in two,
/// `v:value,length`.
///
/// # Errors
/// If it ends within a run.
pub fn decode(bytes: &[u8]) -> Result<String, Corrupted> {
    let words: Result<Vec<String>, Corrupted> = runs(bytes)
        .map(|run| {
            run.map(|run| match (run.value, run.bytes) {
                (0, 1) => format!("z:{}", run.len),
                (0, _) => format!("Z:{}", run.len),
                (value, _) => format!("v:{value},{}", run.len),
            })
        })
        .collect();
    Ok(words?.join(" "))
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn both_forms_hold_the_same_registers() {
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..60 {
            let mut naive = [0u8; REGISTERS];
            let (mut sparse, mut dense) = (empty(), empty());
            make_dense(&mut dense).expect("it is whole");
            for _ in 0..rng.random_range(0..800) {
                let indices = if rng.random() { 40 } else { REGISTERS };
                let index = rng.random_range(0..indices);
                let value = rng.random_range(1..=SPARSE_MAX);
                let is_lower = naive[index] < value;
                assert_eq!(holds(&sparse, (index, value)), Ok(!is_lower));
                assert_eq!(
                    set(&mut sparse, (index, value), usize::MAX / 2),
                    Ok(is_lower)
                );
                assert_eq!(set(&mut dense, (index, value), 0), Ok(is_lower));
                naive[index] = naive[index].max(value);
            }
            assert!(!is_dense(&sparse) && is_one(&sparse) && is_one(&dense));
            assert_eq!(registers(&sparse).as_deref(), Ok(&naive));
            assert_eq!(registers(&dense).as_deref(), Ok(&naive));
            make_dense(&mut sparse).expect("it is whole");
            assert_eq!(sparse, dense);
        }
    }

    #[test]
    fn the_count_is_near_the_truth() {
        for elements in [0u32, 1, 10, 1_000, 30_000, 200_000] {
            let mut bytes = empty();
            for element in 0..elements {
                let place = place(element.to_string().as_bytes());
                set(&mut bytes, place, 3_000).expect("it is whole");
            }
            let count = estimate(&registers(&bytes).expect("it is whole")) as f64;
            let error = (count - f64::from(elements)).abs();
            assert!(
                error <= 0.03 * f64::from(elements),
                "{count} for {elements}"
            );
        }
    }

    #[test]
    fn a_sparse_form_becomes_dense_when_it_must() {
        let mut bytes = empty();
        assert_eq!(set(&mut bytes, (5, SPARSE_MAX + 1), 3_000), Ok(true));
        assert!(is_dense(&bytes));
        let mut bytes = empty();
        assert_eq!(set(&mut bytes, (5, 1), 0), Ok(true));
        assert!(is_dense(&bytes));
        assert_eq!(holds(&bytes, (5, 1)), Ok(true));
        assert_eq!(set(&mut bytes, (REGISTERS - 1, REGISTER_MAX), 0), Ok(true));
        assert_eq!(
            registers(&bytes).expect("it is whole")[REGISTERS - 1],
            REGISTER_MAX
        );
    }

    #[test]
    fn what_does_not_add_up_is_corrupted() {
        let mut rng = SmallRng::seed_from_u64(2);
        let header = &empty()[..HEADER_BYTES];
        for runs in [b"".as_slice(), b"\x00", b"\x7f", b"\x7f\xff\x00", b"\xff"] {
            let bytes = [header, runs].concat();
            assert!(is_one(&bytes));
            assert_eq!(registers(&bytes).map(drop), Err(Corrupted), "{runs:?}");
        }
        for _ in 0..2_000 {
            let runs: Vec<u8> = (0..rng.random_range(0..40)).map(|_| rng.random()).collect();
            let mut bytes = [header, &runs].concat();
            let place = (rng.random_range(0..REGISTERS), rng.random_range(1..=51));
            let _ = holds(&bytes, place);
            let _ = decode(&bytes);
            let _ = set(&mut bytes, place, 3_000);
            let _ = registers(&bytes);
            let _ = make_dense(&mut bytes);
        }
        let mut short = [header, &[0; DENSE_BYTES - HEADER_BYTES - 1]].concat();
        short[4] = DENSE;
        assert!(!is_one(b"HYLL") && !is_one(&short));
    }
}
