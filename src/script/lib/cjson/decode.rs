//! JSON to Lua values.
//!
//! Messages name what was expected, the token that was found and its place; so the text is read
//! token by token. A zero byte ends the text.

use mlua::{Lua, Value};

use super::super::super::native::Refusal;
use super::{Config, DEPTH_MAX};
use crate::value::number::parse_f64_saturating;

pub(super) fn decode(lua: &Lua, text: &[u8], config: &Config) -> Result<Value, Refusal> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(Refusal::message(
            "JSON parser does not support UTF-16 or UTF-32",
        ));
    }
    let mut decoder = Decoder {
        lua,
        text,
        at: 0,
        config,
        depth: 0,
    };
    let first = decoder.next();
    let value = decoder.value(first)?;
    let last = decoder.next();
    match last.kind {
        Kind::End => Ok(value),
        _ => Err(last.unexpected("the end")),
    }
}

struct Token {
    kind: Kind,
    /// Where it begins.
    at: usize,
}

enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn unexpected(&self, expected: &str) -> Refusal {
        let found = match self.kind {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::String(_) => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Error(what) => what,
        };
        let at = self.at + 1;
        Refusal::message(format!(
            "Expected {expected} but found {found} at character {at}"
        ))
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    config: &'a Config,
    depth: u32,
}

impl Decoder<'_> {
    fn value(&mut self, token: Token) -> Result<Value, Refusal> {
        Ok(match token.kind {
            Kind::String(text) => Value::String(self.lua.create_string(text)?),
            Kind::Number(n) => Value::Number(n),
            Kind::Boolean(yes) => Value::Boolean(yes),
            Kind::Null => Value::NULL,
            Kind::ObjectBegin => self.object()?,
            Kind::ArrayBegin => self.array()?,
            _ => return Err(token.unexpected("value")),
        })
    }

    fn descend(&mut self) -> Result<(), Refusal> {
        self.depth += 1;
        let depth = self.depth;
        if depth <= self.config.decode_depth_max.min(DEPTH_MAX) {
            return Ok(());
        }
        let at = self.at;
        Err(Refusal::message(format!(
            "Found too many nested data structures ({depth}) at character {at}"
        )))
    }

    fn object(&mut self) -> Result<Value, Refusal> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if !matches!(token.kind, Kind::ObjectEnd) {
            loop {
                let Kind::String(key) = token.kind else {
                    return Err(token.unexpected("object key string"));
                };
                let colon = self.next();
                if !matches!(colon.kind, Kind::Colon) {
                    return Err(colon.unexpected("colon"));
                }
                let first = self.next();
                let value = self.value(first)?;
                table.raw_set(self.lua.create_string(key)?, value)?;
                let after = self.next();
                match after.kind {
                    Kind::ObjectEnd => break,
                    Kind::Comma => token = self.next(),
                    _ => return Err(after.unexpected("comma or object end")),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Result<Value, Refusal> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if !matches!(token.kind, Kind::ArrayEnd) {
            for at in 1.. {
                let value = self.value(token)?;
                table.raw_set(at, value)?;
                let after = self.next();
                match after.kind {
                    Kind::ArrayEnd => break,
                    Kind::Comma => token = self.next(),
                    _ => return Err(after.unexpected("comma or array end")),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn next(&mut self) -> Token {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
        let at = self.at;
        let mark = match self.peek() {
            None | Some(0) => Some(Kind::End),
            Some(b'{') => Some(Kind::ObjectBegin),
            Some(b'}') => Some(Kind::ObjectEnd),
            Some(b'[') => Some(Kind::ArrayBegin),
            Some(b']') => Some(Kind::ArrayEnd),
            Some(b':') => Some(Kind::Colon),
            Some(b',') => Some(Kind::Comma),
            Some(_) => None,
        };
        if let Some(kind) = mark {
            self.at += usize::from(!matches!(kind, Kind::End));
            return Token { kind, at };
        }
        if self.peek() == Some(b'"') {
            return match self.string() {
                Ok(text) => Token {
                    kind: Kind::String(text),
                    at,
                },
                // The place is that of what is wrong, not of the string.
                Err(what) => Token {
                    kind: Kind::Error(what),
                    at: self.at,
                },
            };
        }
        let kind = self.word();
        Token { kind, at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn word(&mut self) -> Kind {
        let rest = &self.text[self.at..];
        for (word, kind) in [
            (&b"true"[..], Kind::Boolean(true)),
            (b"false", Kind::Boolean(false)),
            (b"null", Kind::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return kind;
            }
        }
        let is_lenient = self.config.decode_invalid_numbers;
        let is_number = rest[0] == b'-' || rest[0].is_ascii_digit();
        if is_number && !is_lenient && is_invalid_number(rest) {
            return Kind::Error("invalid number");
        }
        if !(is_number || is_lenient && is_invalid_number(rest)) {
            return Kind::Error("invalid token");
        }
        match number_prefix(rest) {
            Some((n, len)) => {
                self.at += len;
                Kind::Number(n)
            }
            None => Kind::Error("invalid number"),
        }
    }

    /// Reads a string; on an error, `at` is the place of what is wrong.
    fn string(&mut self) -> Result<Vec<u8>, &'static str> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.peek() {
                None | Some(0) => return Err("unexpected end of string"),
                Some(b'"') => break,
                Some(b'\\') => self.escape(&mut text)?,
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(text)
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        let plain = match self.text.get(self.at + 1) {
            Some(b'b') => b'\x08',
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'f') => b'\x0c',
            Some(b'r') => b'\r',
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'u') => {
                let (code, len) = self.unicode(self.at).ok_or("invalid unicode escape code")?;
                let mut utf8 = [0; 4];
                text.extend(code.encode_utf8(&mut utf8).as_bytes());
                self.at += len;
                return Ok(());
            }
            _ => return Err("invalid escape code"),
        };
        text.push(plain);
        self.at += 2;
        Ok(())
    }

    /// The character of an escape `\uXXXX`, or of a pair of them, and the length of these.
    fn unicode(&self, at: usize) -> Option<(char, usize)> {
        let high = self.hex(at)?;
        if let Some(code) = char::from_u32(high) {
            return Some((code, 6));
        }
        if high >= 0xdc00 {
            return None;
        }
        let low = self.hex(at + 6)?.checked_sub(0xdc00)?;
        if low >= 0x400 {
            return None;
        }
        let code = char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + low)?;
        Some((code, 12))
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let escape = self.text.get(at..at + 6)?;
        let digits = escape.strip_prefix(b"\\u")?;
        let digit = |all, byte: &u8| Some(all << 4 | char::from(*byte).to_digit(16)?);
        digits.iter().try_fold(0, digit)
    }
}

/// Whether a number is one that JSON does not know: with a plus, leading zeros, hexadecimal,
/// infinity, nan.
fn is_invalid_number(text: &[u8]) -> bool {
    if text[0] == b'+' {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text {
        [b'0', next, ..] => next.is_ascii_digit() || next.eq_ignore_ascii_case(&b'x'),
        _ => starts_with_word(text, b"inf") || starts_with_word(text, b"nan"),
    }
}

fn starts_with_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The number at the front of a text as C's `strtod` reads it, and its length.
fn number_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let sign_len = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let rest = &text[sign_len..];
    if starts_with_word(rest, b"nan") {
        let sign = if text[0] == b'-' { -1.0 } else { 1.0 };
        let note = nan_note_len(&rest[3..]);
        return Some((f64::NAN.copysign(sign), sign_len + 3 + note));
    }
    let len = if starts_with_word(rest, b"infinity") {
        8
    } else if starts_with_word(rest, b"inf") {
        3
    } else {
        let hex = starts_with_word(rest, b"0x").then(|| digits_len(&rest[2..], 16, b'p'));
        match hex.flatten() {
            Some(len) => 2 + len,
            None => digits_len(rest, 10, b'e')?,
        }
    };
    let all = sign_len + len;
    Some((parse_f64_saturating(&text[..all])?, all))
}

/// The length of `(...)` after nan, which may hold letters, digits and `_`.
fn nan_note_len(text: &[u8]) -> usize {
    let Some(inner) = text.strip_prefix(b"(") else {
        return 0;
    };
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let len = inner.iter().take_while(|byte| is_word(byte)).count();
    if inner.get(len) == Some(&b')') {
        len + 2
    } else {
        0
    }
}

/// The length of digits with a point and an exponent, if there is at least one digit.
fn digits_len(text: &[u8], radix: u32, exponent: u8) -> Option<usize> {
    let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
    let whole = text.iter().take_while(|byte| is_digit(byte)).count();
    let mut len = whole;
    let mut digits = whole;
    if text.get(len) == Some(&b'.') {
        let fraction = text[len + 1..].iter().take_while(|byte| is_digit(byte));
        let fraction = fraction.count();
        digits += fraction;
        len += 1 + fraction;
    }
    if digits == 0 {
        return None;
    }
    if text
        .get(len)
        .is_some_and(|byte| byte.eq_ignore_ascii_case(&exponent))
    {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let digits = text[len + 1 + sign..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits > 0 {
            len += 1 + sign + digits;
        }
    }
    Some(len)
}
