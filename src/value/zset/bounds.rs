//! The two ends of a part of a sorted set, and how they are written: `(1.5`, `-inf`, `[abc`, `+`.

use crate::value::number::parse_f64_saturating;

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score at the end; not NaN.
    pub score: f64,
    /// Whether that score itself is outside.
    pub is_exclusive: bool,
}

impl ScoreBound {
    /// Reads `1.5` or `(1.5`, as Redis 8 does: everything from a zero byte on is ignored, no number
    /// at all is zero, and a number of any size will do, but only a decimal one.
    pub fn parse(text: &[u8]) -> Option<ScoreBound> {
        let (is_exclusive, number) = match text {
            [b'(', number @ ..] => (true, number),
            number => (false, number),
        };
        let number = number.split(|&byte| byte == 0).next().unwrap_or_default();
        let is_hex = number.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'));
        let score = match number {
            [] => 0.0,
            _ if is_hex => return None,
            _ => parse_f64_saturating(number)?,
        };
        Some(ScoreBound {
            score,
            is_exclusive,
        })
    }
}

/// One end of a range of members, in a set where all scores are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// `-`: before every member.
    Least,
    /// `+`: after every member.
    Greatest,
    /// `[member`.
    Inclusive(&'a [u8]),
    /// `(member`: that member itself is outside.
    Exclusive(&'a [u8]),
}

impl LexBound<'_> {
    /// Reads `-`, `+`, `[member` or `(member`; as in Redis, a zero byte ends the first two.
    pub fn parse(text: &[u8]) -> Option<LexBound<'_>> {
        match text {
            [b'-'] | [b'-', 0, ..] => Some(LexBound::Least),
            [b'+'] | [b'+', 0, ..] => Some(LexBound::Greatest),
            [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
            [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
            _ => None,
        }
    }

    /// Whether a member is before all that this lower bound allows.
    pub(super) fn starts_after(&self, member: &[u8]) -> bool {
        match self {
            LexBound::Least => false,
            LexBound::Greatest => true,
            LexBound::Inclusive(least) => member < *least,
            LexBound::Exclusive(least) => member <= *least,
        }
    }

    /// Whether this upper bound allows a member.
    pub(super) fn ends_after(&self, member: &[u8]) -> bool {
        match self {
            LexBound::Least => false,
            LexBound::Greatest => true,
            LexBound::Inclusive(greatest) => member <= *greatest,
            LexBound::Exclusive(greatest) => member < *greatest,
        }
    }
}

/// A part of a sorted set, from its least member to its greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Interval<'a> {
    /// By score.
    Scores { min: ScoreBound, max: ScoreBound },
    /// By member, in a set where all scores are equal; in another it is some part.
    Members {
        min: LexBound<'a>,
        max: LexBound<'a>,
    },
}

impl Interval<'_> {
    /// Whether a record is before the first of the interval.
    pub(super) fn starts_after(&self, member: &[u8], score: f64) -> bool {
        match self {
            Interval::Scores { min, .. } if min.is_exclusive => score <= min.score,
            Interval::Scores { min, .. } => score < min.score,
            Interval::Members { min, .. } => min.starts_after(member),
        }
    }

    /// Whether a record is in the interval or before it.
    pub(super) fn ends_after(&self, member: &[u8], score: f64) -> bool {
        match self {
            Interval::Scores { max, .. } if max.is_exclusive => score < max.score,
            Interval::Scores { max, .. } => score <= max.score,
            Interval::Members { max, .. } => max.ends_after(member),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_bounds_are_read_as_redis_8_reads_them() {
        let read = |text: &str| {
            let bound = ScoreBound::parse(text.as_bytes())?;
            Some((bound.score, bound.is_exclusive))
        };
        for (text, score) in [
            ("", 0.0),
            ("1\0abc", 1.0),
            ("\0", 0.0),
            ("1e400", f64::INFINITY),
            ("-1e400", f64::NEG_INFINITY),
            ("1e-400", 0.0),
            ("inf", f64::INFINITY),
            ("+inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("1.", 1.0),
            (".5", 0.5),
            ("+1", 1.0),
            ("-0", 0.0),
        ] {
            assert_eq!(read(text), Some((score, false)), "{text:?}");
            assert_eq!(read(&format!("({text}")), Some((score, true)), "({text:?}");
        }
        for text in [
            "1 ", " 1", "\t1", " (1", "nan", "0x", "0x1", "0X1p1", "0x1p", "1e", ".", "+", "-",
            "--1", "[1", "((1", "1_0", "1d", "+ 1", "infx", " ", "1e5 ",
        ] {
            assert_eq!(read(text), None, "{text:?}");
            assert_eq!(read(&format!("({text}")), None, "({text:?}");
        }
        assert_eq!(ScoreBound::parse(b"\x851"), None);
    }

    #[test]
    fn lex_bounds_need_their_bracket() {
        use LexBound::{Exclusive, Greatest, Inclusive, Least};
        for (text, bound) in [
            (&b"-"[..], Least),
            (b"+", Greatest),
            (b"+\0x", Greatest),
            (b"-\0", Least),
            (b"(", Exclusive(b"")),
            (b"[", Inclusive(b"")),
            (b"[b\0", Inclusive(b"b\0")),
            (b"((b", Exclusive(b"(b")),
        ] {
            assert_eq!(LexBound::parse(text), Some(bound), "{text:?}");
        }
        for text in [&b""[..], b"b", b"--", b"+x", b" [b"] {
            assert_eq!(LexBound::parse(text), None, "{text:?}");
        }
    }
}
