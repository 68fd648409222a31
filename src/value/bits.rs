//! Strings as arrays of bits: bit 0 is the most significant one of the first byte. What is behind a
//! string's end is zero.
//!
//! The loops work on words of 64 bits in slices of known length, which the compiler makes vector
//! code of, as wide as the processor has it (`wide`).

use super::wide::{Work, wide};

/// Bytes of all operands that [`combine`] works on at a time: they fit the first cache.
const BLOCK_BYTES: usize = 4096;

/// Bytes that [`find`] looks at together.
const SKIPPED_BYTES: usize = 128;

/// The bit at an index.
pub fn get(bytes: &[u8], at: u64) -> bool {
    let byte = usize::try_from(at / 8)
        .ok()
        .and_then(|byte| bytes.get(byte));
    byte.is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

/// Sets the bit at an index, which must be in the string.
pub fn set(bytes: &mut [u8], at: u64, bit: bool) {
    let mask = 1 << (7 - at % 8);
    let byte = &mut bytes[(at / 8) as usize];
    *byte = if bit { *byte | mask } else { *byte & !mask };
}

/// Words whose bits are added up side by side: some vectors of any width.
const LANES: usize = 64;

/// Words side by side.
type Lanes = [[u8; 8]; LANES];

/// The word of bytes in the order of the machine, which says nothing of where a bit is.
#[inline(always)]
fn word(bytes: &[u8; 8]) -> u64 {
    u64::from_ne_bytes(*bytes)
}

#[inline(always)]
fn ones(words: &[[u8; 8]]) -> u64 {
    let ones = words.iter().map(|bytes| word(bytes).count_ones());
    ones.map(u64::from).sum()
}

/// Adds three bits at each place: the upper and the lower bit of the sums.
#[inline(always)]
fn add(a: u64, b: u64, c: u64) -> (u64, u64) {
    let half = a ^ b;
    (a & b | half & c, half ^ c)
}

/// Adds up four words to ones and twos: the fours, and what is left.
#[inline(always)]
fn add_four(words: [u64; 4], one: u64, two: u64) -> (u64, u64, u64) {
    let (a, one) = add(one, words[0], words[1]);
    let (b, one) = add(one, words[2], words[3]);
    let (four, two) = add(two, a, b);
    (four, two, one)
}

/// How many bits are one.
pub fn count(bytes: &[u8]) -> u64 {
    wide(Count(bytes))
}

struct Count<'a>(&'a [u8]);

/// Sixteen times the lanes are added up bit by bit, in binary digits that lie in words of their
/// own, before bits are counted at all (Harley and Seal's method, in Warren's "Hacker's Delight",
/// 5-1).
impl Work for Count<'_> {
    type Result = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let (words, rest) = self.0.as_chunks::<8>();
        let (lanes, last) = words.as_chunks::<LANES>();
        let (blocks, last_lanes) = lanes.as_chunks::<16>();
        let mut digits = [[0; LANES]; 4];
        let mut sixteens = [0; LANES];
        for block in blocks {
            add_block(block, &mut digits, &mut sixteens);
        }
        let mut sum = 16 * sixteens.iter().sum::<u64>();
        for (digit, lanes) in digits.iter().enumerate() {
            let ones = lanes.iter().map(|lane: &u64| u64::from(lane.count_ones()));
            sum += ones.sum::<u64>() << digit;
        }
        let in_rest: u64 = rest.iter().map(|byte| u64::from(byte.count_ones())).sum();
        sum + ones(last_lanes.as_flattened()) + ones(last) + in_rest
    }
}

/// Adds a block to the digits of each lane, and counts what is carried out of them.
#[inline(always)]
fn add_block(block: &[Lanes; 16], digits: &mut [[u64; LANES]; 4], sixteens: &mut [u64; LANES]) {
    let [ones, twos, fours, eights] = digits;
    for lane in 0..LANES {
        let (one, two) = (ones[lane], twos[lane]);
        let four_from = |first: usize, one, two| {
            let mut words = [0; 4];
            for (nth, words) in words.iter_mut().enumerate() {
                *words = word(&block[first + nth][lane]);
            }
            add_four(words, one, two)
        };
        let (a, two, one) = four_from(0, one, two);
        let (b, two, one) = four_from(4, one, two);
        let (e, four) = add(fours[lane], a, b);
        let (c, two, one) = four_from(8, one, two);
        let (d, two, one) = four_from(12, one, two);
        let (f, four) = add(four, c, d);
        let (sixteen, eight) = add(eights[lane], e, f);
        (ones[lane], twos[lane], fours[lane], eights[lane]) = (one, two, four, eight);
        sixteens[lane] += u64::from(sixteen.count_ones());
    }
}

/// How many bits are one from the first to the last index, both of which are in the string.
pub fn count_between(bytes: &[u8], first: u64, last: u64) -> u64 {
    let whole = &bytes[(first / 8) as usize..=(last / 8) as usize];
    let before = whole[0] & !(0xff >> (first % 8));
    let behind = whole[whole.len() - 1] & (0x7f >> (last % 8));
    count(whole) - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

/// The first index from `first` to `last`, both of which are in the string, with this bit.
pub fn find(bytes: &[u8], bit: bool, first: u64, last: u64) -> Option<u64> {
    // Looks for a one.
    let flip = if bit { 0 } else { 0xff };
    let (from, to) = ((first / 8) as usize, (last / 8) as usize);
    let at_first = (bytes[from] ^ flip) & (0xff >> (first % 8));
    let at = if at_first != 0 {
        from as u64 * 8 + u64::from(at_first.leading_zeros())
    } else {
        let rest = bytes.get(from + 1..=to)?;
        let (blocks, _) = rest.as_chunks::<SKIPPED_BYTES>();
        let skipped = wide(Skip(blocks, flip)) * SKIPPED_BYTES;
        let others = rest[skipped..].iter();
        let byte = skipped + others.clone().take_while(|&&byte| byte == flip).count();
        let found = rest.get(byte)? ^ flip;
        (from + 1 + byte) as u64 * 8 + u64::from(found.leading_zeros())
    };
    (at <= last).then_some(at)
}

/// Counts blocks up to one that has another byte.
struct Skip<'a>(&'a [[u8; SKIPPED_BYTES]], u8);

impl Work for Skip<'_> {
    type Result = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let same = u64::from_ne_bytes([self.1; 8]);
        let is_same = |block: &&[u8; SKIPPED_BYTES]| {
            let words = block.as_chunks::<8>().0.iter();
            words.fold(0, |others, bytes| others | word(bytes) ^ same) == 0
        };
        self.0.iter().take_while(is_same).count()
    }
}

/// How strings are combined, bit by bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One in all.
    And,
    /// One in any.
    Or,
    /// One in an odd number of them.
    Xor,
    /// Not one in the only one.
    Not,
    /// One in the first and in none of the others.
    Diff,
    /// One in any of the others and not in the first.
    Diff1,
    /// One in the first and in any of the others.
    AndOr,
    /// One in exactly one.
    One,
}

/// The combination of strings, as long as the longest of them.
pub fn combine(operation: Operation, sources: &[&[u8]]) -> Vec<u8> {
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = Vec::with_capacity(len);
    while result.len() < len {
        let from = result.len();
        let end = len.min(from + BLOCK_BYTES);
        let parts: Vec<&[u8]> = sources
            .iter()
            .map(|source| &source[from.min(source.len())..end.min(source.len())])
            .collect();
        wide(Combine {
            operation,
            result: &mut result,
            end,
            sources: &parts,
        });
    }
    result
}

/// Appends the combination of two strings by `op`, as far as the shorter goes.
#[inline(always)]
fn push_both(result: &mut Vec<u8>, one: &[u8], other: &[u8], op: impl Fn(u8, u8) -> u8) {
    result.extend(one.iter().zip(other).map(|(&a, &b)| op(a, b)));
}

/// Applies `op` to each byte and the same one of a source, which may be shorter.
#[inline(always)]
fn apply(block: &mut [u8], source: &[u8], op: impl Fn(u8, u8) -> u8) {
    let both = block.iter_mut().zip(source);
    both.for_each(|(byte, other)| *byte = op(*byte, *other));
}

/// Appends a block that is one in any of some strings (or, if `op` is so, in an odd number).
#[inline(always)]
fn push_any(result: &mut Vec<u8>, end: usize, sources: &[&[u8]], op: impl Fn(u8, u8) -> u8 + Copy) {
    let from = result.len();
    let (first, second, others) = match sources {
        [] => (b"".as_slice(), b"".as_slice(), sources),
        [only] => (*only, b"".as_slice(), &sources[1..]),
        [first, second, others @ ..] => (*first, *second, others),
    };
    push_both(result, first, second, op);
    let both = result.len() - from;
    // One of the two has no more, and zeros change nothing.
    result.extend_from_slice(&first[both..]);
    result.extend_from_slice(second.get(result.len() - from..).unwrap_or_default());
    result.resize(end, 0);
    let block = &mut result[from..];
    others.iter().for_each(|source| apply(block, source, op));
}

/// Appends the combination of parts of strings to the result, up to the length `end`.
struct Combine<'a> {
    operation: Operation,
    result: &'a mut Vec<u8>,
    end: usize,
    sources: &'a [&'a [u8]],
}

impl Work for Combine<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        combine_block(self);
    }
}

#[inline(always)]
fn combine_block(work: Combine<'_>) {
    let Combine {
        operation,
        result,
        end,
        sources,
    } = work;
    let Some((first, others)) = sources.split_first() else {
        return;
    };
    let from = result.len();
    let or = |a, b| a | b;
    match operation {
        Operation::And => {
            push_both(result, first, others.first().unwrap_or(first), |a, b| a & b);
            result.resize(end, 0);
            let block = &mut result[from..];
            for source in others.iter().skip(1) {
                apply(block, source, |a, b| a & b);
                block[source.len()..].fill(0);
            }
        }
        Operation::Or => push_any(result, end, sources, or),
        Operation::Xor => push_any(result, end, sources, |a, b| a ^ b),
        Operation::Not => {
            result.extend(first.iter().map(|byte| !byte));
            result.resize(end, 0xff);
        }
        Operation::Diff => {
            push_any(result, end, others, or);
            apply(&mut result[from..], first, |a, b| !a & b);
            result[from + first.len()..].fill(0);
        }
        Operation::Diff1 => {
            push_any(result, end, others, or);
            apply(&mut result[from..], first, |a, b| a & !b);
        }
        Operation::AndOr => {
            push_any(result, end, others, or);
            apply(&mut result[from..], first, |a, b| a & b);
            result[from + first.len()..].fill(0);
        }
        Operation::One => {
            result.resize(end, 0);
            let block = &mut result[from..];
            let mut twice = [0; BLOCK_BYTES];
            for source in sources {
                let seen = twice.iter_mut().zip(&*block).zip(*source);
                seen.for_each(|((twice, once), byte)| *twice |= once & byte);
                apply(block, source, or);
            }
            apply(block, &twice, |a, b| a & !b);
        }
    }
}

/// An integer of some bits in a string, most significant bit first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Whether its first bit is its sign.
    pub is_signed: bool,
    /// Its bits: 1 to 64 if it has a sign, to 63 if not.
    pub bits: u32,
}

/// What becomes of a number that does not fit a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// It loses its upper bits.
    Wrap,
    /// It becomes the largest or smallest that fits.
    Saturate,
    /// Nothing is written.
    Fail,
}

impl Field {
    fn least(self) -> i128 {
        if self.is_signed {
            -(1 << (self.bits - 1))
        } else {
            0
        }
    }

    fn most(self) -> i128 {
        (1 << (self.bits - u32::from(self.is_signed))) - 1
    }

    /// A number in the range of the field; none if it does not fit and that is a failure.
    pub fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = (self.least(), self.most());
        let fitting = match overflow {
            _ if (least..=most).contains(&number) => number,
            Overflow::Fail => return None,
            Overflow::Saturate => number.clamp(least, most),
            Overflow::Wrap => (number - least).rem_euclid(most - least + 1) + least,
        };
        Some(fitting as i64)
    }

    /// The bytes that hold bits of the field at an index, and how many bits are behind it in them.
    fn span(self, at: u64) -> (std::ops::Range<usize>, u32) {
        let end = at + u64::from(self.bits);
        let bytes = (at / 8) as usize..end.div_ceil(8) as usize;
        (bytes, (8 - end % 8) as u32 % 8)
    }

    /// Bytes that a string must have to hold the field at an index.
    pub fn end(self, at: u64) -> usize {
        self.span(at).0.end
    }

    fn mask(self) -> u128 {
        (1 << self.bits) - 1
    }

    /// The number at an index, which may be behind the end of the string.
    pub fn read(self, bytes: &[u8], at: u64) -> i64 {
        let (span, behind) = self.span(at);
        let gathered = span.fold(0u128, |all, byte| {
            all << 8 | u128::from(bytes.get(byte).copied().unwrap_or(0))
        });
        let number = (gathered >> behind & self.mask()) as i128;
        let is_negative = number > self.most();
        (number - if is_negative { 1 << self.bits } else { 0 }) as i64
    }

    /// Writes a number that fits at an index in the string.
    pub fn write(self, bytes: &mut [u8], at: u64, number: i64) {
        let (span, behind) = self.span(at);
        let mask = self.mask() << behind;
        let mut gathered = (number as u128) << behind & mask;
        let mut mask = mask;
        for byte in bytes[span].iter_mut().rev() {
            *byte = *byte & !(mask as u8) | gathered as u8;
            (gathered, mask) = (gathered >> 8, mask >> 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Strings of all kinds of lengths, some of few different bytes.
    fn string(rng: &mut SmallRng, len_max: usize) -> Vec<u8> {
        let len = rng.random_range(0..=len_max);
        let kind: u8 = rng.random_range(0..4);
        (0..len)
            .map(|_| match kind {
                0 => 0,
                1 => 0xff,
                2 if rng.random_bool(0.98) => 0,
                _ => rng.random(),
            })
            .collect()
    }

    #[test]
    fn bits_are_counted_and_found_as_one_by_one() {
        let mut rng = SmallRng::seed_from_u64(1);
        for round in 0..3_000 {
            // Some have blocks whose bits are added up.
            let len_max = if round % 64 == 0 { 40_000 } else { 1_500 };
            let bytes = string(&mut rng, len_max);
            let bits = bytes.len() as u64 * 8;
            let naive = (0..bits).filter(|&at| get(&bytes, at)).count() as u64;
            assert_eq!(count(&bytes), naive);
            assert_eq!(Count(&bytes).run(), naive);
            assert!(!get(&bytes, bits) && !get(&bytes, u64::MAX));
            if bits == 0 {
                continue;
            }
            let first = rng.random_range(0..bits);
            let last = rng.random_range(first..bits);
            let ones = (first..=last).filter(|&at| get(&bytes, at)).count();
            assert_eq!(count_between(&bytes, first, last), ones as u64);
            for bit in [false, true] {
                let naive = (first..=last).find(|&at| get(&bytes, at) == bit);
                assert_eq!(find(&bytes, bit, first, last), naive);
            }
        }
    }

    #[test]
    fn strings_are_combined_as_bit_by_bit() {
        use Operation::{And, AndOr, Diff, Diff1, Not, One, Or, Xor};
        let mut rng = SmallRng::seed_from_u64(2);
        for round in 0..400 {
            let sources: Vec<Vec<u8>> = (0..rng.random_range(2..6))
                .map(|_| string(&mut rng, if round % 20 == 0 { 9_000 } else { 60 }))
                .collect();
            let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            let len = slices.iter().map(|source| source.len()).max().unwrap_or(0);
            for operation in [And, Or, Xor, Not, Diff, Diff1, AndOr, One] {
                let slices = if operation == Not {
                    &slices[..1]
                } else {
                    &slices[..]
                };
                let result = combine(operation, slices);
                let len = if operation == Not {
                    slices[0].len()
                } else {
                    len
                };
                assert_eq!(result.len(), len);
                for at in 0..len as u64 * 8 {
                    let ones = slices.iter().filter(|source| get(source, at)).count();
                    let first = get(slices[0], at);
                    let in_others = ones > usize::from(first);
                    let expected = match operation {
                        And => ones == slices.len(),
                        Or => ones > 0,
                        Xor => ones % 2 == 1,
                        Not => ones == 0,
                        Diff => first && !in_others,
                        Diff1 => !first && in_others,
                        AndOr => first && in_others,
                        One => ones == 1,
                    };
                    assert_eq!(get(&result, at), expected, "{operation:?} {at}");
                }
            }
        }
    }

    #[test]
    fn fields_keep_their_numbers_and_touch_no_other_bit() {
        let mut rng = SmallRng::seed_from_u64(3);
        for _ in 0..20_000 {
            let is_signed = rng.random();
            let bits = rng.random_range(1..=if is_signed { 64 } else { 63 });
            let field = Field { is_signed, bits };
            let at = rng.random_range(0..200);
            let before: Vec<u8> = (0..field.end(at) + 2).map(|_| rng.random()).collect();
            let number = field.fit(i128::from(rng.random::<i64>()), Overflow::Wrap);
            let number = number.expect("it wraps");
            let mut after = before.clone();
            field.write(&mut after, at, number);
            assert_eq!(field.read(&after, at), number);
            let inside = at..at + u64::from(bits);
            let others = (0..before.len() as u64 * 8).filter(|at| !inside.contains(at));
            others.for_each(|at| assert_eq!(get(&before, at), get(&after, at)));
        }
        let field = Field {
            is_signed: false,
            bits: 63,
        };
        assert_eq!((field.read(b"", 5), field.read(b"\xff", 4)), (0, 15 << 59));
    }

    #[test]
    fn what_does_not_fit_wraps_saturates_or_fails() {
        let fit =
            |is_signed, bits, number, overflow| Field { is_signed, bits }.fit(number, overflow);
        for (is_signed, bits, number, wrapped, saturated) in [
            (false, 8, 256, 0, 255),
            (false, 8, -1, 255, 0),
            (true, 8, 128, -128, 127),
            (true, 8, -129, 127, -128),
            (true, 1, 1, -1, 0),
            (false, 1, 2, 0, 1),
            (true, 64, 1 << 63, i64::MIN, i64::MAX),
            (false, 63, 1 << 63, 0, i64::MAX),
        ] {
            assert_eq!(fit(is_signed, bits, number, Overflow::Wrap), Some(wrapped));
            assert_eq!(
                fit(is_signed, bits, number, Overflow::Saturate),
                Some(saturated)
            );
            assert_eq!(fit(is_signed, bits, number, Overflow::Fail), None);
        }
        assert_eq!(
            fit(true, 64, i128::from(i64::MIN), Overflow::Fail),
            Some(i64::MIN)
        );
    }
}
