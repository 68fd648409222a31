//! Integers and doubles as text, by Redis' rules.
//!
//! An integer is only what printing it gives back, byte for byte: `-5`, but not `+5`, `05`, `-0` or
//! ` 5`. So a string that parses may be stored as a number without anyone seeing the difference.
//!
//! A double is read as C's `strtod` reads it, without white space around it: decimal, hexadecimal,
//! `inf`, `infinity`. It is refused if it is no number or if its size cannot be kept: too large
//! for a double, or not zero but nearest to zero. It is printed with the fewest digits that give it
//! back; see [`format_f64`] for where they go.

use memchr::memchr;

/// Reads an integer in its only accepted form.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let &[first, ref rest @ ..] = digits else {
        return None;
    };
    let first = first.wrapping_sub(b'0');
    if first > 9 || digits.len() > 19 {
        return None;
    }
    if first == 0 {
        return (text.len() == 1).then_some(0);
    }
    // Nineteen digits fit in 64 bits without a sign.
    let mut magnitude = first as u64;
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + digit as u64;
    }
    if magnitude <= i64::MAX as u64 {
        let value = magnitude as i64;
        return Some(if negative { -value } else { value });
    }
    (negative && magnitude == i64::MIN.unsigned_abs()).then_some(i64::MIN)
}

/// Whether [`parse_i64`] accepts the text.
pub fn is_canonical_i64(text: &[u8]) -> bool {
    parse_i64(text).is_some()
}

/// Writes an integer at the front of `out`; 20 bytes hold any.
#[inline]
pub fn format_i64(value: i64, out: &mut [u8; 20]) -> &[u8] {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(value).as_bytes();
    out[..text.len()].copy_from_slice(text);
    &out[..text.len()]
}

/// Reads a double. None if the text is no number, NaN, or out of range.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let value = parse_f64_saturating(text)?;
    let is_too_large = value.is_infinite() && !is_infinity(text);
    // Underflow: a digit before the exponent says that the number is not zero.
    let is_too_small = value == 0.0 && !is_zero(text);
    (!is_too_large && !is_too_small).then_some(value)
}

/// Reads a double as C does if nobody asks about its range: what is too large for a double is
/// infinity, and what is nearest to zero is zero. None if the text is no number, or NaN.
pub fn parse_f64_saturating(text: &[u8]) -> Option<f64> {
    if let Some(hex) = parse_hex(text) {
        return Some(hex.to_f64());
    }
    // The standard library knows the same words as C, and "nan", which is no number here.
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

/// Whether the text of a number is infinity by name and not by size.
pub(super) fn is_infinity(text: &[u8]) -> bool {
    let (_, word) = split_sign(text);
    word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity")
}

/// Whether the text of a number is that of zero.
pub fn is_zero(text: &[u8]) -> bool {
    if let Some(hex) = parse_hex(text) {
        return hex.mantissa == 0;
    }
    let digits = text
        .split(|byte| byte.eq_ignore_ascii_case(&b'e'))
        .next()
        .unwrap_or(text);
    !digits.iter().any(|byte| (b'1'..=b'9').contains(byte))
}

/// Takes an optional sign off the front; true if it is a minus.
pub(super) fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    }
}

/// An unrounded number: (`mantissa` + a little if `sticky`) · 2^`exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Binary {
    pub negative: bool,
    pub mantissa: u128,
    pub exponent: i64,
    /// Bits below the mantissa were dropped and not all zero.
    pub sticky: bool,
}

impl Binary {
    /// Rounds half to even to `bits` (at most 64) of precision, but to no unit below
    /// 2^`exponent_min`. Gives the mantissa, with its top bit set if the unit allows, and the
    /// exponent; (0, `exponent_min`) if nothing is left.
    pub fn round(self, bits: u32, exponent_min: i64) -> (u64, i64) {
        if self.mantissa == 0 {
            return (0, exponent_min);
        }
        let length = 128 - self.mantissa.leading_zeros() as i64;
        let mut exponent = (self.exponent + length - bits as i64).max(exponent_min);
        let shift = exponent - self.exponent;
        if shift <= 0 {
            // Exact: a sticky number comes with more bits than are kept.
            return ((self.mantissa << -shift) as u64, exponent);
        }
        if shift > 128 {
            return (0, exponent_min);
        }
        // In two steps, as a shift by 128 is not defined.
        let kept = (self.mantissa >> (shift - 1)) >> 1;
        let half = (self.mantissa >> (shift - 1)) & 1 == 1;
        let below = self.sticky || self.mantissa & ((1 << (shift - 1)) - 1) != 0;
        let mut kept = kept + (half && (below || kept & 1 == 1)) as u128;
        if kept >> bits != 0 {
            kept >>= 1;
            exponent += 1;
        }
        (kept as u64, exponent)
    }

    fn to_f64(self) -> f64 {
        let (mantissa, exponent) = self.round(53, -1074);
        // An unnormalized mantissa has the smallest exponent, whose field is that of zero.
        let field = match mantissa >> 52 {
            0 => 0,
            _ => (exponent + 1075) as u64,
        };
        let magnitude = if exponent > 1023 - 52 {
            f64::INFINITY
        } else {
            f64::from_bits(field << 52 | mantissa & ((1 << 52) - 1))
        };
        if self.negative { -magnitude } else { magnitude }
    }
}

/// Reads a hexadecimal number: `0x1.8`, `0x1p-3`; None if the text is none or malformed.
pub(super) fn parse_hex(text: &[u8]) -> Option<Binary> {
    let (negative, rest) = split_sign(text);
    let [b'0', b'x' | b'X', rest @ ..] = rest else {
        return None;
    };
    let (digits, power) = match rest
        .iter()
        .position(|byte| byte.eq_ignore_ascii_case(&b'p'))
    {
        Some(at) => (&rest[..at], parse_exponent(&rest[at + 1..])?),
        None => (rest, 0),
    };
    let point = memchr(b'.', digits).unwrap_or(digits.len());
    let mut number = Binary {
        negative,
        mantissa: 0,
        exponent: power,
        sticky: false,
    };
    let mut digits_seen = false;
    for (at, &byte) in digits.iter().enumerate() {
        if at == point {
            continue;
        }
        let digit = (byte as char).to_digit(16)?;
        digits_seen = true;
        // 120 bits are more than any precision asked for; the rest only matters as not zero.
        if number.mantissa >> 120 == 0 {
            number.mantissa = number.mantissa << 4 | digit as u128;
            number.exponent -= if at > point { 4 } else { 0 };
        } else {
            number.sticky |= digit != 0;
            number.exponent += if at < point { 4 } else { 0 };
        }
    }
    digits_seen.then_some(number)
}

/// Reads a decimal exponent with an optional sign. Sizes no number can have are clamped, far from
/// where adding to them overflows.
pub(super) fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() {
        return None;
    }
    let mut exponent: i64 = 0;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        exponent = (exponent * 10 + (byte - b'0') as i64).min(1 << 40);
    }
    Some(if negative { -exponent } else { exponent })
}

/// The text of a double.
#[derive(Clone, Copy, Debug)]
pub struct FloatText {
    bytes: [u8; FLOAT_TEXT_MAX],
    len: usize,
}

/// The longest text: sign, `0.000`, 17 digits; or sign, 17 digits, 7 zeros; and some room.
const FLOAT_TEXT_MAX: usize = 32;
/// Whole numbers up to here (half the range of an i64) are printed digit by digit.
const WHOLE_MAX: f64 = (1u64 << 62) as f64;

impl FloatText {
    /// The text, which is ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn push_zeros(&mut self, count: usize) {
        self.push(&b"0000000000"[..count]);
    }
}

impl std::ops::Deref for FloatText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Prints a double as Redis 8 does (measured on 8.2.3). With d digits, the last of which counts
/// 10^k, and a decimal exponent e = |k + d - 1|:
///
/// - whole numbers up to 2^62 as integers, so `-0` is `0`;
/// - k >= 0 and e < d + 7: digits and k zeros, `12345678901234567000`;
/// - k < 0 and (k > -7 or e < 4): a decimal fraction, `0.00012`;
/// - the rest with an exponent, `1e+20`, `1.2345678901234e+4`.
///
/// Redis: its digits are now and then not the shortest (1.25e22 is 12499999999999999000000).
pub fn format_f64(value: f64) -> FloatText {
    let mut text = FloatText {
        bytes: [0; FLOAT_TEXT_MAX],
        len: 0,
    };
    if !value.is_finite() {
        text.push(match value {
            v if v.is_nan() => b"nan",
            v if v > 0.0 => b"inf",
            _ => b"-inf",
        });
    } else if value.abs() <= WHOLE_MAX && value.trunc() == value {
        text.push(itoa::Buffer::new().format(value as i64).as_bytes());
    } else {
        lay_out(value, &mut text);
    }
    text
}

fn lay_out(value: f64, text: &mut FloatText) {
    let mut digits = [0; 24];
    let (len, k) = shortest_digits(value.abs(), &mut digits);
    let digits = &digits[..len];
    let exponent = k + len as i32 - 1;
    if value < 0.0 {
        text.push(b"-");
    }
    if k >= 0 && exponent < len as i32 + 7 {
        text.push(digits);
        text.push_zeros(k as usize);
    } else if k < 0 && (k > -7 || exponent.abs() < 4) {
        if exponent < 0 {
            text.push(b"0.");
            text.push_zeros((-1 - exponent) as usize);
            text.push(digits);
        } else {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            text.push(whole);
            text.push(b".");
            text.push(fraction);
        }
    } else {
        text.push(&digits[..1]);
        if len > 1 {
            text.push(b".");
            text.push(&digits[1..]);
        }
        text.push(if exponent < 0 { b"e-" } else { b"e+" });
        text.push(itoa::Buffer::new().format(exponent.abs()).as_bytes());
    }
}

/// The fewest digits of a positive, finite number, without zeros at either end; and the power of
/// ten the last of them counts.
fn shortest_digits(value: f64, out: &mut [u8; 24]) -> (usize, i32) {
    let mut buffer = zmij::Buffer::new();
    let printed = buffer.format_finite(value).as_bytes();
    let mut k = 0;
    let mut len = 0;
    let mut point_seen = false;
    for (at, &byte) in printed.iter().enumerate() {
        match byte {
            b'.' => point_seen = true,
            b'e' => {
                let exponent = parse_exponent(&printed[at + 1..]);
                k += exponent.expect("the exponent of a printed double is a number") as i32;
                break;
            }
            digit => {
                k -= point_seen as i32;
                if len > 0 || digit != b'0' {
                    out[len] = digit;
                    len += 1;
                }
            }
        }
    }
    while len > 1 && out[len - 1] == b'0' {
        len -= 1;
        k += 1;
    }
    (len, k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_only_what_they_print() {
        for text in [
            "0",
            "1",
            "-1",
            "9",
            "10",
            "999",
            "9223372036854775807",
            "-9223372036854775808",
        ] {
            let value = parse_i64(text.as_bytes()).expect(text);
            assert_eq!(format_i64(value, &mut [0; 20]), text.as_bytes());
            assert!(is_canonical_i64(text.as_bytes()));
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "00",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "1\0",
            "a",
            "-a",
            "1a",
            "/",
            ":",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
            "-99999999999999999999",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_double_of_any_size_is_read_if_nobody_asks_about_its_range() {
        for (text, value) in [
            ("1e400", f64::INFINITY),
            ("-1e400", f64::NEG_INFINITY),
            ("1e-400", 0.0),
            ("0x1p1024", f64::INFINITY),
            ("-0x1p99999999999", f64::NEG_INFINITY),
            ("0x1p-1075", 0.0),
        ] {
            assert_eq!(parse_f64_saturating(text.as_bytes()), Some(value), "{text}");
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
        for text in ["", "nan", "1x", "0x", "0x1p"] {
            assert_eq!(parse_f64_saturating(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn integers_agree_with_the_standard_library() {
        let mut state = 7u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let value = (state as i64) >> (state % 64);
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
    }

    /// Measured on Redis 8.2.3.
    #[test]
    fn doubles_print_as_in_redis() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (3.0, "3"),
            (1.5, "1.5"),
            (-1.5, "-1.5"),
            (1e15, "1000000000000000"),
            (1e18, "1000000000000000000"),
            (4.5e18, "4500000000000000000"),
            (4611686018427387904.0, "4611686018427387904"),
            (-4611686018427387904.0, "-4611686018427387904"),
            (4.61168647959599e18, "4611686479595990000"),
            (5e18, "5e+18"),
            (9007199254740993e3, "9007199254740993000"),
            (-9223372036854775808.0, "-9223372036854776000"),
            (12345678901234567890.0, "12345678901234567000"),
            (123456789012345680.0, "123456789012345680"),
            (1234567890123456789012.0, "1234567890123456800000"),
            (1e19, "1e+19"),
            (1e20, "1e+20"),
            (1.5e21, "1.5e+21"),
            (-1e25, "-1e+25"),
            (1.1e100, "1.1e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (0.1, "0.1"),
            (0.00001, "0.00001"),
            (0.000001, "0.000001"),
            (1e-7, "1e-7"),
            (1.1e-5, "0.000011"),
            (1.1e-6, "1.1e-6"),
            (-1e-10, "-1e-10"),
            (0.00012345678901, "1.2345678901e-4"),
            (0.00123456789012, "0.00123456789012"),
            (0.30000000000000004, "0.30000000000000004"),
            (1234.5678901234, "1234.5678901234"),
            (12345.678901234, "1.2345678901234e+4"),
            (31415.9265358979, "3.14159265358979e+4"),
            (1700000000.123456, "1700000000.123456"),
            (1700000000.1234567, "1.7000000001234567e+9"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            let printed = format_f64(value);
            assert_eq!(std::str::from_utf8(&printed), Ok(text));
            if !value.is_nan() {
                assert_eq!(parse_f64(text.as_bytes()), Some(value));
            }
        }
    }

    #[test]
    fn any_double_survives_its_text() {
        let mut state = 11u64;
        for _ in 0..50_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let value = f64::from_bits(state ^ state >> 29);
            if value.is_finite() {
                assert_eq!(parse_f64(&format_f64(value)), Some(value));
            }
        }
    }

    /// Measured on Redis 8.2.3 with ZADD.
    #[test]
    fn doubles_parse_as_in_redis() {
        let long = format!("1.{}", "0".repeat(6000));
        for (text, value) in [
            ("1", 1.0),
            ("+1", 1.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1E5", 1e5),
            ("00012", 12.0),
            ("1e00005", 1e5),
            ("4e-324", 5e-324),
            ("0e99999999999", 0.0),
            ("-inf", f64::NEG_INFINITY),
            ("+infinity", f64::INFINITY),
            ("INFINITY", f64::INFINITY),
            ("0x10", 16.0),
            ("0X1P-3", 0.125),
            ("-0x1.8p1", -3.0),
            ("0x.8", 0.5),
            ("0x1.fffffffffffff8p0", 2.0),
            ("0x1.fffffffffffff7fffp0", 1.9999999999999998),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080000001p0", 1.0000000000000002),
            (
                "0x1.00000000000008000000000000000000000000000000001p0",
                1.0000000000000002,
            ),
            ("0x1p-1074", 5e-324),
            ("0x1.8p-1075", 5e-324),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x0p99999999999", 0.0),
            (long.as_str(), 1.0),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text:.40}");
        }
        for text in [
            "",
            " 1",
            "1 ",
            "\t1",
            "1\n",
            "1\0",
            "nan",
            "-NaN",
            "nan(1)",
            "0x",
            "0x1p",
            "0x.",
            "0xg",
            "0x1.2.3",
            "1e",
            "1e+",
            ".",
            "1e400",
            "-1e400",
            "1e-400",
            "1_0",
            "1,0",
            "1d",
            "in",
            "infi",
            "0x1p-1075",
            "0x1p1024",
            "0x1p-99999999999",
            "--1",
            "+-1",
            "1e99999999999999999999",
            "é",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
        }
    }
}
