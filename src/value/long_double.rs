//! The arithmetic of INCRBYFLOAT and HINCRBYFLOAT: decimal text plus decimal text, as an x87 does
//! it.
//!
//! Redis adds in C's `long double`, which on x86-64 has 64 bits of mantissa and 15 of exponent, and
//! prints 17 digits behind the point without trailing zeros. The extra bits are what makes 0.1 +
//! 0.2 come out as 0.3, so clients see the difference. Rust has no such type; the little of it that
//! is needed is done here with integers: reading, one addition, printing, each rounded once, half
//! to even. On every machine the result is that of Redis on x86-64.
//!
//! A finite number is mantissa · 2^exponent. The mantissa's top bit is set unless the exponent is
//! the smallest one (denormal numbers, zero).
//!
//! Numbers of up to 5,119 digits are read and printed through `Big`, a plain unsigned integer of
//! any size. Its operations are quadratic, which that limit makes harmless.

use std::cmp::Ordering;

use super::number::{Binary, is_infinity, parse_exponent, parse_hex, split_sign};

/// The longest text read, in bytes; the same as in Redis.
pub const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
const MANTISSA_BITS: u32 = 64;
/// The exponent of denormal numbers: the unit 2^-16445 is the smallest number.
const EXPONENT_MIN: i64 = -16_445;
/// The exponent of the largest numbers.
const EXPONENT_MAX: i64 = 16_383 - 63;
/// No finite number has more decimal digits before the point than this ..
const DECIMAL_MAX: i64 = 4_933;
/// .. and one that starts this many digits behind it is less than half the smallest.
const DECIMAL_MIN: i64 = -4_951;
/// Digits printed behind the point, before zeros at the end are dropped.
const FRACTION_DIGITS: usize = 17;
/// 10^17.
const FRACTION_SCALE: u128 = 100_000_000_000_000_000;

/// A number of 64 bits of precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongDouble(Kind);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Finite {
        negative: bool,
        mantissa: u64,
        exponent: i64,
    },
    /// An infinity of either sign; adding two of them gives the first, which nobody looks at.
    Infinite { negative: bool },
}

impl LongDouble {
    /// The largest number that is finite.
    pub const MAX: LongDouble = LongDouble(Kind::Finite {
        negative: false,
        mantissa: u64::MAX,
        exponent: EXPONENT_MAX,
    });

    /// Reads what C's `strtold` reads, without white space around it; see [`super::number`]. None
    /// if that is no number, NaN, longer than [`TEXT_BYTES_MAX`], too large, or too near to zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        if is_infinity(text) {
            let (negative, _) = split_sign(text);
            return Some(LongDouble(Kind::Infinite { negative }));
        }
        let unrounded = parse_hex(text).or_else(|| parse_decimal(text))?;
        let rounded = LongDouble::round(unrounded);
        match rounded.0 {
            Kind::Infinite { .. } => None,
            Kind::Finite { mantissa: 0, .. } if unrounded.mantissa != 0 => None,
            Kind::Finite { .. } => Some(rounded),
        }
    }

    /// The sum, rounded half to even.
    #[expect(
        clippy::should_implement_trait,
        reason = "one operation, not an arithmetic type"
    )]
    pub fn add(self, other: LongDouble) -> LongDouble {
        let (
            Kind::Finite {
                negative,
                mantissa,
                exponent,
            },
            Kind::Finite {
                negative: negative_b,
                mantissa: mantissa_b,
                exponent: exponent_b,
            },
        ) = (self.0, other.0)
        else {
            return if self.is_finite() { other } else { self };
        };
        if (exponent_b, mantissa_b) > (exponent, mantissa) {
            return other.add(self);
        }
        // `self` is the larger one, as a larger exponent implies a set top bit. 62 bits below the
        // mantissas hold what the shift pushes out; what is pushed further out is `sticky`.
        let large = (mantissa as u128) << 62;
        let unshifted = (mantissa_b as u128) << 62;
        let distance = exponent - exponent_b;
        let small = if distance < 128 {
            unshifted >> distance
        } else {
            0
        };
        let sticky =
            distance >= 128 && mantissa_b != 0 || distance < 128 && small << distance != unshifted;
        let sum = if negative == negative_b {
            large + small
        } else {
            // Minus a little more than `small` is minus one more, plus a little.
            large - small - sticky as u128
        };
        LongDouble::round(Binary {
            negative,
            mantissa: sum,
            exponent: exponent - 62,
            sticky,
        })
    }

    /// Whether it is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        matches!(self.0, Kind::Finite { .. })
    }

    /// The same with the other sign.
    pub fn negated(mut self) -> LongDouble {
        match &mut self.0 {
            Kind::Finite { negative, .. } | Kind::Infinite { negative } => *negative = !*negative,
        }
        self
    }

    /// Which of two numbers is greater; zeros of both signs are equal.
    pub fn compare(self, other: LongDouble) -> Ordering {
        self.place().cmp(&other.place())
    }

    /// A sign and what orders numbers of that sign, larger for larger numbers.
    fn place(self) -> (i8, i64, i128) {
        let (negative, exponent, mantissa) = match self.0 {
            Kind::Finite { mantissa: 0, .. } => return (0, 0, 0),
            Kind::Finite {
                negative,
                mantissa,
                exponent,
            } => (negative, exponent, i128::from(mantissa)),
            Kind::Infinite { negative } => (negative, EXPONENT_MAX + 1, 0),
        };
        if negative {
            (-1, -exponent, -mantissa)
        } else {
            (1, exponent, mantissa)
        }
    }

    /// Prints it without an exponent: up to 17 digits behind the point, no zeros at the end, no
    /// minus in front of zero. At most 4,952 characters; `inf` for what is not finite.
    pub fn to_text(self) -> String {
        let Kind::Finite {
            negative,
            mantissa,
            exponent,
        } = self.0
        else {
            return String::from("inf");
        };
        let mut text = String::new();
        if negative {
            text.push('-');
        }
        if exponent >= 0 {
            let mut whole = Big::from(mantissa as u128);
            whole.shift_left(exponent as usize);
            whole.print(&mut text);
        } else {
            let scaled = shift_right_rounding(mantissa as u128 * FRACTION_SCALE, -exponent);
            let (whole, fraction) = (scaled / FRACTION_SCALE, scaled % FRACTION_SCALE);
            text.push_str(&format!("{whole}.{fraction:0FRACTION_DIGITS$}"));
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        if text == "-0" {
            String::from("0")
        } else {
            text
        }
    }

    fn round(unrounded: Binary) -> LongDouble {
        let (mantissa, exponent) = unrounded.round(MANTISSA_BITS, EXPONENT_MIN);
        if exponent > EXPONENT_MAX {
            let negative = unrounded.negative;
            return LongDouble(Kind::Infinite { negative });
        }
        LongDouble(Kind::Finite {
            negative: unrounded.negative,
            mantissa,
            exponent,
        })
    }
}

/// value / 2^shift, half to even. The value has at most 121 bits: 2^64 · 10^17.
fn shift_right_rounding(value: u128, shift: i64) -> u128 {
    if shift > 121 {
        return 0;
    }
    let (kept, below) = (value >> shift, value & ((1 << shift) - 1));
    let half = 1 << (shift - 1);
    kept + (below > half || below == half && kept & 1 == 1) as u128
}

/// Reads `12.5e-3` to at least 65 bits of precision.
fn parse_decimal(text: &[u8]) -> Option<Binary> {
    let (negative, rest) = split_sign(text);
    let (number, power) = match rest
        .iter()
        .position(|byte| byte.eq_ignore_ascii_case(&b'e'))
    {
        Some(at) => (&rest[..at], parse_exponent(&rest[at + 1..])?),
        None => (rest, 0),
    };
    let point = number.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&number[..at], &number[at + 1..]),
        None => (number, &b""[..]),
    };
    let digits = || whole.iter().chain(fraction);
    if digits().next().is_none() || !digits().all(u8::is_ascii_digit) {
        return None;
    }
    let leading_zeros = digits().take_while(|&&digit| digit == b'0').count();
    let len = whole.len() + fraction.len() - leading_zeros;
    let power = power - fraction.len() as i64;
    let zero = Binary {
        negative,
        mantissa: 0,
        exponent: 0,
        sticky: false,
    };
    if len == 0 {
        return Some(zero);
    }
    // Refuse what is out of range before computing with its power of ten.
    let before_point = len as i64 + power;
    if !(DECIMAL_MIN..=DECIMAL_MAX).contains(&before_point) {
        return None;
    }
    let mut magnitude = Big::from_digits(digits().skip(leading_zeros).copied());
    let (mantissa, exponent, sticky) = if power >= 0 {
        magnitude.multiply_by_power_of_ten(power as usize);
        magnitude.leading_bits()
    } else {
        let mut divisor = Big::from(1);
        divisor.multiply_by_power_of_ten(-power as usize);
        magnitude.divide(divisor)
    };
    Some(Binary {
        mantissa,
        exponent,
        sticky,
        ..zero
    })
}

/// An unsigned integer of any size: 32-bit limbs, least significant first, no zero limb on top.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Big(Vec<u32>);

/// 10^9, the largest power of ten in a limb.
const LIMB_SCALE: u32 = 1_000_000_000;
const LIMB_DIGITS: usize = 9;

impl Big {
    fn from(mut value: u128) -> Big {
        let mut limbs = Vec::new();
        while value > 0 {
            limbs.push(value as u32);
            value >>= 32;
        }
        Big(limbs)
    }

    fn from_digits(digits: impl Iterator<Item = u8>) -> Big {
        let mut big = Big(Vec::new());
        let (mut chunk, mut scale) = (0, 1);
        for digit in digits {
            chunk = chunk * 10 + (digit - b'0') as u32;
            scale *= 10;
            if scale == LIMB_SCALE {
                big.multiply_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
        }
        big.multiply_add(scale, chunk);
        big
    }

    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = addend as u64;
        for limb in &mut self.0 {
            carry += *limb as u64 * factor as u64;
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn multiply_by_power_of_ten(&mut self, power: usize) {
        for _ in 0..power / LIMB_DIGITS {
            self.multiply_add(LIMB_SCALE, 0);
        }
        self.multiply_add(10u32.pow((power % LIMB_DIGITS) as u32), 0);
    }

    fn bits(&self) -> usize {
        match self.0.last() {
            Some(top) => self.0.len() * 32 - top.leading_zeros() as usize,
            None => 0,
        }
    }

    fn shift_left(&mut self, bits: usize) {
        self.multiply_add(1 << (bits % 32), 0);
        self.0.splice(0..0, std::iter::repeat_n(0, bits / 32));
    }

    fn compare(&self, other: &Big) -> Ordering {
        let by_len = self.0.len().cmp(&other.0.len());
        by_len.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Subtracts what is not larger.
    fn subtract(&mut self, other: &Big) {
        let mut borrow = false;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let subtrahend = other.0.get(at).copied().unwrap_or(0);
            let (difference, borrowed) = limb.overflowing_sub(subtrahend);
            let (difference, borrowed_again) = difference.overflowing_sub(borrow as u32);
            *limb = difference;
            borrow = borrowed || borrowed_again;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// The topmost 97 bits or more as (mantissa, exponent, whether others are set).
    fn leading_bits(&self) -> (u128, i64, bool) {
        let below = self.0.len().saturating_sub(4);
        let mantissa = self.0[below..]
            .iter()
            .rev()
            .fold(0, |sum, &limb| sum << 32 | limb as u128);
        (
            mantissa,
            below as i64 * 32,
            self.0[..below].iter().any(|&limb| limb != 0),
        )
    }

    /// The quotient's topmost 67 bits or one less, like [`Big::leading_bits`]; bit by bit, after
    /// both numbers were shifted to the same length.
    fn divide(mut self, mut divisor: Big) -> (u128, i64, bool) {
        const QUOTIENT_BITS: i64 = 67;
        let shift = divisor.bits() as i64 - self.bits() as i64;
        if shift > 0 {
            self.shift_left(shift as usize);
        } else {
            divisor.shift_left(-shift as usize);
        }
        let mut quotient = 0;
        for _ in 0..QUOTIENT_BITS {
            quotient <<= 1;
            if self.compare(&divisor).is_ge() {
                self.subtract(&divisor);
                quotient |= 1;
            }
            self.multiply_add(2, 0);
        }
        (quotient, 1 - QUOTIENT_BITS - shift, !self.0.is_empty())
    }

    /// Appends the decimal digits.
    fn print(mut self, text: &mut String) {
        let mut chunks = Vec::new();
        while !self.0.is_empty() {
            let mut remainder = 0;
            for limb in self.0.iter_mut().rev() {
                let value = remainder << 32 | *limb as u64;
                *limb = (value / LIMB_SCALE as u64) as u32;
                remainder = value % LIMB_SCALE as u64;
            }
            chunks.push(remainder);
            while self.0.last() == Some(&0) {
                self.0.pop();
            }
        }
        let top = chunks.pop().unwrap_or(0);
        text.push_str(&top.to_string());
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:0LIMB_DIGITS$}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Refusal {
        NotAFloat,
        NotFinite,
    }
    const NOT_A_FLOAT: Refusal = Refusal::NotAFloat;
    const NOT_FINITE: Refusal = Refusal::NotFinite;

    /// INCRBYFLOAT.
    fn sum(a: &str, b: &str) -> Result<String, Refusal> {
        let a = LongDouble::parse(a.as_bytes()).ok_or(NOT_A_FLOAT)?;
        let b = LongDouble::parse(b.as_bytes()).ok_or(NOT_A_FLOAT)?;
        let sum = a.add(b);
        assert_eq!(sum.to_text(), b.add(a).to_text());
        if sum.is_finite() {
            Ok(sum.to_text())
        } else {
            Err(NOT_FINITE)
        }
    }

    /// Measured on Redis 8.2.3, x86-64.
    #[test]
    fn sums_are_those_of_redis() {
        let cases: &[(&str, &str, Result<&str, Refusal>)] = &[
            ("0.1", "0.2", Ok("0.3")),
            ("3e-10", "0", Ok("0.0000000003")),
            ("10.5", "0.1", Ok("10.6")),
            ("5.0e3", "2.0e2", Ok("5200")),
            ("1.5", "-1.5", Ok("0")),
            ("-0", "0", Ok("0")),
            ("-1e-400", "0", Ok("0")),
            ("0", "-0.000000000000000001", Ok("0")),
            ("1", "5e-18", Ok("1")),
            ("1", "-5e-18", Ok("1")),
            ("0.000000000000000005", "0", Ok("0")),
            ("0.000000000000000015", "0", Ok("0.00000000000000002")),
            ("0.5", "2.5e-17", Ok("0.50000000000000002")),
            ("1e17", "0.1", Ok("100000000000000000.1015625")),
            ("9223372036854775807", "1", Ok("9223372036854775808")),
            ("18446744073709551615", "1", Ok("18446744073709551616")),
            ("18446744073709551616", "1", Ok("18446744073709551616")),
            ("18446744073709551616", "3", Ok("18446744073709551620")),
            ("36893488147419103232", "2", Ok("36893488147419103232")),
            ("36893488147419103232", "6", Ok("36893488147419103240")),
            ("9007199254740993", "0", Ok("9007199254740993")),
            ("1e20", "-1e20", Ok("0")),
            ("1e20", "0.001", Ok("100000000000000000000")),
            (
                "123456789.123456789",
                "987654321.987654321",
                Ok("1111111111.11111110995989293"),
            ),
            ("3.14159265358979323846", "0", Ok("3.14159265358979324")),
            ("0x10", "0x1p-4", Ok("16.0625")),
            ("-0X1.8P+1", "0", Ok("-3")),
            ("0x1.fffffffffffffffep0", "0x1p-64", Ok("2")),
            ("0x1.ffffffffffffffffp0", "0", Ok("2")),
            (".5", "5.", Ok("5.5")),
            ("+1", "00012", Ok("13")),
            ("1E2", "1e-2", Ok("100.01")),
            ("1e-4950", "0", Ok("0")),
            ("3.7e-4951", "0", Ok("0")),
            ("1.9e-4951", "0", Ok("0")),
            ("1e25", "1", Ok("10000000000000000000000000")),
            (
                "1234567890123456789012345",
                "0",
                Ok("1234567890123456788955136"),
            ),
            ("0.30000000000000004", "0", Ok("0.30000000000000004")),
            ("1.1", "2.2", Ok("3.3")),
            ("-2.675", "0.005", Ok("-2.67")),
            ("1e-17", "1e-18", Ok("0.00000000000000001")),
            (
                "1700000000.123456",
                "0.000001",
                Ok("1700000000.12345700000878423"),
            ),
            ("1e4932", "1e4932", Err(NOT_FINITE)),
            ("inf", "1", Err(NOT_FINITE)),
            ("-inf", "inf", Err(NOT_FINITE)),
            ("infinity", "0", Err(NOT_FINITE)),
            ("1.1e4932", "-1.2e4932", Err(NOT_A_FLOAT)),
            ("nan", "0", Err(NOT_A_FLOAT)),
            ("", "1", Err(NOT_A_FLOAT)),
            (" 1", "1", Err(NOT_A_FLOAT)),
            ("1 ", "1", Err(NOT_A_FLOAT)),
            ("abc", "1", Err(NOT_A_FLOAT)),
            ("1e", "1", Err(NOT_A_FLOAT)),
            ("0x", "1", Err(NOT_A_FLOAT)),
            (".", "1", Err(NOT_A_FLOAT)),
            ("1e5000", "0", Err(NOT_A_FLOAT)),
            ("1.8e-4951", "0", Err(NOT_A_FLOAT)),
            ("0x1p-16446", "0", Err(NOT_A_FLOAT)),
            ("0x1p16384", "0", Err(NOT_A_FLOAT)),
            ("1\0", "0", Err(NOT_A_FLOAT)),
            ("1_0", "0", Err(NOT_A_FLOAT)),
        ];
        for (a, b, expected) in cases {
            assert_eq!(sum(a, b).as_deref(), expected.as_deref(), "{a:?} + {b:?}");
        }
    }

    /// Measured on Redis 8.2.3, x86-64.
    #[test]
    fn large_numbers_print_all_their_digits() {
        let cases = [
            (
                "1.7e308",
                309,
                "170000000000000000003136778025",
                "915517562011679309777401282560",
            ),
            (
                "1.189731495357231765e4932",
                4933,
                "118973149535723176502126385303",
                "444156604419552086811989770240",
            ),
        ];
        for (text, len, start, end) in cases {
            let printed = sum(text, "0").expect(text);
            assert_eq!(printed.len(), len);
            assert!(printed.starts_with(start) && printed.ends_with(end));
        }
    }

    #[test]
    fn the_length_of_the_text_is_limited() {
        let text = format!("1.{}", "0".repeat(TEXT_BYTES_MAX - 2));
        assert_eq!(sum(&text, "0").as_deref(), Ok("1"));
        assert_eq!(sum(&format!("{text}0"), "0"), Err(NOT_A_FLOAT));
        assert_eq!(sum(&"9".repeat(TEXT_BYTES_MAX), "0"), Err(NOT_A_FLOAT));
        // 5,000 zeros behind the point and an exponent that takes them back.
        let shifted = format!("0.{}1e5001", "0".repeat(5_000));
        assert_eq!(sum(&shifted, "0").as_deref(), Ok("1"));
    }

    /// Whole numbers of up to 64 bits have no rounding, so integers tell the right sum.
    #[test]
    fn whole_numbers_add_exactly() {
        let mut state = 3u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state as i64 >> (1 + state % 61)) as i128
        };
        for _ in 0..5_000 {
            let (a, b) = (draw(), draw());
            assert_eq!(sum(&a.to_string(), &b.to_string()), Ok((a + b).to_string()));
        }
    }
}
