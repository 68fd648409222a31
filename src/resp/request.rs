//! Requests: a parser that can stop after any byte and go on when more have come.
//!
//! Almost every request is a short array of short bulk strings that is there as a whole. For those
//! a length line is read digit by digit from a window of six bytes; whatever does not fit (more
//! than three digits, signs, the end of the buffer) takes the careful path, which finds the end of
//! the line first. Both leave the same state, so they may alternate within one request.
//!
//! A large argument of which only a part has come is better received apart, in an allocation of its
//! own that can become a value as it is: [`Parser::large_wanted`] says so, and once the caller has
//! all of it, [`Parser::give_large`] puts it in its place among the arguments.
//!
//! As in Redis, the second byte of a line end and both bytes behind a bulk string are not looked
//! at.

use std::fmt;
use std::mem;

use bytes::Bytes;
use memchr::memchr;

use crate::value::number::parse_i64;

/// An inline request or a length line may be this long, as in Redis; without its line end.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// The largest number of arguments a request may announce. Redis 7 and older have the same limit;
/// Redis 8 takes 2^31 - 1.
pub const ARGS_MAX: i64 = 1024 * 1024;
/// How many arguments a client may send before it has authenticated.
pub const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
/// How long an argument may be before the client has authenticated.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: i64 = 16 * 1024;
/// An argument of at least this many bytes that does not come in one piece is received apart.
pub const LARGE_BYTES_MIN: usize = 32 * 1024;
/// Room for this many ranges is kept between requests that arrive in pieces; 8 KiB.
const PENDING_KEPT_MAX: usize = 1024;

/// The bytes that arguments are ranges of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// What was received, as it came.
    pub buffer: &'a [u8],
    /// Large arguments, which were received apart.
    pub large: &'a [Bytes],
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(buffer: &'a [u8]) -> Source<'a> {
        Source { buffer, large: &[] }
    }
}

/// Where an argument lies: in the caller's buffer, or in which of the large arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ArgRange {
    /// Offset of its first byte, or `ArgRange::LARGE`.
    pub start: u32,
    /// Its length in bytes; of a large argument its number.
    pub len: u32,
}

impl ArgRange {
    /// Marks a large argument. No offset is so large: a line end follows each argument.
    const LARGE: u32 = u32::MAX;

    /// The large argument of this number.
    pub fn large(number: usize) -> ArgRange {
        ArgRange {
            start: ArgRange::LARGE,
            len: number as u32,
        }
    }

    /// The number of a large argument; none for one in the buffer.
    #[inline(always)]
    pub fn number(self) -> Option<usize> {
        (self.start == ArgRange::LARGE).then_some(self.len as usize)
    }

    /// The argument's bytes, given what it was parsed from.
    #[inline(always)]
    pub fn of<'a>(self, source: Source<'a>) -> &'a [u8] {
        match self.number() {
            Some(number) => &source.large[number],
            None => &source.buffer[self.start as usize..self.start as usize + self.len as usize],
        }
    }
}

/// What the parser accepts from this client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest argument in bytes: the setting `proto-max-bulk-len`.
    pub bulk_bytes_max: u64,
    /// Whether the client has authenticated (or need not).
    pub authenticated: bool,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed; nothing was added to the arguments.
    Incomplete,
    /// A blank line or an empty array was consumed, which is no request.
    Empty,
    /// A request: its `argc` ranges (at least one) are the last of the arguments.
    Request {
        /// The number of ranges appended.
        argc: usize,
    },
}

/// The client broke the protocol; it gets this text as an error and is disconnected. The buffer
/// and the parser cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of arguments is not a number or too large.
    InvalidMultibulkLength,
    /// Too many arguments for a client that has not authenticated.
    UnauthenticatedMultibulkLength,
    /// The length of an argument is not a number, negative or too large.
    InvalidBulkLength,
    /// Too long an argument for a client that has not authenticated.
    UnauthenticatedBulkLength,
    /// This byte stands where an argument should start.
    ExpectedBulk(u8),
    /// An inline request without an end.
    InlineTooBig,
    /// A number of arguments without an end.
    MultibulkCountTooBig,
    /// A length of an argument without an end.
    BulkCountTooBig,
    /// A quote in an inline request that is not closed, or closed in the middle of a word.
    UnbalancedQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::InlineTooBig => "too big inline request",
            ProtocolError::MultibulkCountTooBig => "too big mbulk count string",
            ProtocolError::BulkCountTooBig => "too big bulk count string",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            // Redis: sends the byte as it came; a byte over 127 becomes a character of two here.
            ProtocolError::ExpectedBulk(byte) => {
                return write!(f, "expected '$', got '{}'", char::from(*byte));
            }
        })
    }
}

impl std::error::Error for ProtocolError {}

/// The state of one session's input. All offsets count from the front of the session's buffer; see
/// [`Parser::consumed`]. Only the first 4 GiB of the buffer are used.
#[derive(Debug, Default)]
pub struct Parser {
    /// Everything before this offset has been parsed.
    position: usize,
    /// The unfinished line at `position` has no end before this offset.
    scanned: usize,
    /// How many arguments of the request in progress are still to come; 0 between requests.
    args_left: u32,
    /// The length of the argument at `position`, if its length line has been parsed.
    bulk_len: Option<usize>,
    /// The argument at `position` that was received apart; only its line end is in the buffer.
    given: Option<ArgRange>,
    /// The arguments so far of a request that did not come in one piece.
    pending: Vec<ArgRange>,
}

impl Parser {
    /// Continues at [`Parser::position`]. A complete request is appended to `args`; an unfinished
    /// one leaves nothing there, its arguments so far stay in the parser. Quoted words of an
    /// inline request are unquoted in place, which is the only change to `buf`.
    ///
    /// # Errors
    /// The client broke the protocol or a limit. `args` is as before.
    #[inline]
    pub fn step(
        &mut self,
        buf: &mut [u8],
        limits: &Limits,
        args: &mut Vec<ArgRange>,
    ) -> Result<Step, ProtocolError> {
        let usable = buf.len().min(u32::MAX as usize);
        let buf = &mut buf[..usable];
        if self.args_left > 0 && !self.pending.is_empty() {
            return self.resume(buf, limits, args);
        }
        if self.args_left == 0 {
            match buf.get(self.position) {
                None => return Ok(Step::Incomplete),
                Some(b'*') => {}
                Some(_) => return self.inline(buf, args),
            }
            match self.multibulk_count(buf, limits)? {
                None => return Ok(Step::Incomplete),
                Some(0) => return Ok(Step::Empty),
                Some(count) => self.args_left = count,
            }
        }
        let first = args.len();
        match self.bulks(buf, limits, args) {
            Ok(true) => Ok(Step::Request {
                argc: args.len() - first,
            }),
            Ok(false) => {
                self.pending.extend(args.drain(first..));
                Ok(Step::Incomplete)
            }
            Err(error) => {
                args.truncate(first);
                Err(error)
            }
        }
    }

    /// The offset behind the last byte parsed: after [`Step::Request`], just behind the request.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The first offset the parser still needs: the caller may remove what is before it, unless it
    /// has yet to execute requests there.
    #[inline]
    pub fn needed_from(&self) -> usize {
        let first = self.pending.iter().find(|arg| arg.number().is_none());
        first.map_or(self.position, |arg| arg.start as usize)
    }

    /// After [`Step::Incomplete`] at [`Parser::position`] within a large argument: its length in
    /// bytes, at most the limit on arguments, and not yet backed by anything received. The caller
    /// may remove what it has of it from the buffer and collect it elsewhere.
    pub fn large_wanted(&self) -> Option<usize> {
        self.bulk_len
            .filter(|&len| len >= LARGE_BYTES_MIN && self.given.is_none())
    }

    /// The caller has received the large argument at the position apart, and keeps it under this
    /// number; what follows it will stand at the position.
    pub fn give_large(&mut self, number: usize) {
        self.given = Some(ArgRange::large(number));
        self.bulk_len = Some(0);
    }

    /// Memory for the arguments so far of an unfinished request, in bytes.
    pub fn pending_bytes(&self) -> usize {
        self.pending.capacity() * size_of::<ArgRange>()
    }

    /// Gives back memory that holds nothing.
    pub fn shrink(&mut self) {
        self.pending.shrink_to_fit();
    }

    /// How many large arguments the unfinished request has: the last that were given.
    pub fn large_needed(&self) -> usize {
        let pending = self.pending.iter().chain(&self.given);
        pending.filter(|arg| arg.number().is_some()).count()
    }

    /// The caller removed `n` bytes, at most [`Parser::needed_from`], from the front of the buffer,
    /// and all large arguments but those that are needed.
    pub fn consumed(&mut self, n: usize) {
        assert!(
            n <= self.needed_from(),
            "bytes of an unfinished request were removed"
        );
        self.position -= n;
        self.scanned = self.scanned.saturating_sub(n);
        let mut number = 0;
        for arg in self.pending.iter_mut().chain(&mut self.given) {
            if arg.number().is_some() {
                *arg = ArgRange::large(number);
                number += 1;
            } else {
                arg.start -= n as u32;
            }
        }
    }

    /// Goes on with a request some of whose arguments are in `pending`. They move to `args` once,
    /// at the end, so a request of many arguments in many pieces costs no more than linear time.
    #[cold]
    fn resume(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        args: &mut Vec<ArgRange>,
    ) -> Result<Step, ProtocolError> {
        let mut pending = mem::take(&mut self.pending);
        let complete = self.bulks(buf, limits, &mut pending)?;
        let argc = pending.len();
        if complete {
            args.append(&mut pending);
        }
        if !complete || pending.capacity() <= PENDING_KEPT_MAX {
            self.pending = pending;
        }
        Ok(if complete {
            Step::Request { argc }
        } else {
            Step::Incomplete
        })
    }

    /// Parses arguments until the request is complete (true) or the buffer ends (false).
    #[inline]
    fn bulks(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        args: &mut Vec<ArgRange>,
    ) -> Result<bool, ProtocolError> {
        loop {
            if self.bulk_len.is_none() {
                self.short_bulks(buf, limits.bulk_bytes_max, args);
            }
            if self.args_left == 0 {
                return Ok(true);
            }
            let len = match self.bulk_len {
                Some(len) => len,
                None => match self.bulk_length(buf, limits)? {
                    Some(len) => len,
                    None => return Ok(false),
                },
            };
            let end = self.position + len + 2;
            if end > buf.len() {
                if end > u32::MAX as usize {
                    return Err(ProtocolError::InvalidBulkLength);
                }
                self.bulk_len = Some(len);
                return Ok(false);
            }
            args.push(self.given.take().unwrap_or(ArgRange {
                start: self.position as u32,
                len: len as u32,
            }));
            self.position = end;
            self.bulk_len = None;
            self.args_left -= 1;
        }
    }

    /// Parses arguments as long as they are short and complete. Its state is in local variables:
    /// this is the loop nearly all arguments come from.
    #[inline]
    fn short_bulks(&mut self, buf: &[u8], bulk_bytes_max: u64, args: &mut Vec<ArgRange>) {
        let (mut at, mut left) = (self.position, self.args_left);
        while left > 0 {
            let Some((len, start)) = short_length_line(buf, at, b'$') else {
                break;
            };
            let end = start + len as usize + 2;
            if end > buf.len() || len as u64 > bulk_bytes_max {
                break;
            }
            args.push(ArgRange {
                start: start as u32,
                len,
            });
            at = end;
            left -= 1;
        }
        self.position = at;
        self.args_left = left;
    }

    /// Consumes the line `*n`; an array of nothing and the null array (any negative count) are 0.
    #[inline]
    fn multibulk_count(
        &mut self,
        buf: &[u8],
        limits: &Limits,
    ) -> Result<Option<u32>, ProtocolError> {
        let (count, next) = match short_length_line(buf, self.position, b'*') {
            Some((count, next)) => (count as i64, next),
            None => {
                let Some(line) = self.line(buf, ProtocolError::MultibulkCountTooBig)? else {
                    return Ok(None);
                };
                let count = parse_i64(&line[1..]).ok_or(ProtocolError::InvalidMultibulkLength)?;
                (count, self.position + line.len() + 2)
            }
        };
        if count > ARGS_MAX {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.position = next;
        Ok(Some(count.max(0) as u32))
    }

    /// Consumes the line `$n` in front of an argument.
    fn bulk_length(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let (len, next) = match short_length_line(buf, self.position, b'$') {
            Some((len, next)) => (len as i64, next),
            None => {
                let Some(line) = self.line(buf, ProtocolError::BulkCountTooBig)? else {
                    return Ok(None);
                };
                // An empty line has its `\r` here.
                let marker = buf[self.position];
                if marker != b'$' {
                    return Err(ProtocolError::ExpectedBulk(marker));
                }
                let len = parse_i64(&line[1..]).ok_or(ProtocolError::InvalidBulkLength)?;
                (len, self.position + line.len() + 2)
            }
        };
        if len < 0 || len as u64 > limits.bulk_bytes_max {
            return Err(ProtocolError::InvalidBulkLength);
        }
        if len > UNAUTHENTICATED_BULK_BYTES_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        self.position = next;
        Ok(Some(len as usize))
    }

    /// The line at the position up to its `\r`, once that and the byte behind it are there. The
    /// position stays.
    ///
    /// Redis: a zero byte hides the `\r` behind it, so such a line never ends; here it is a
    /// length that is no number.
    #[cold]
    fn line<'b>(
        &mut self,
        buf: &'b [u8],
        too_big: ProtocolError,
    ) -> Result<Option<&'b [u8]>, ProtocolError> {
        let Some(len) = self.find(buf, b'\r', too_big)? else {
            return Ok(None);
        };
        let complete = self.position + len + 2 <= buf.len();
        Ok(complete.then(|| &buf[self.position..self.position + len]))
    }

    /// How many bytes from the position on precede `end`, searching only what is new.
    ///
    /// Redis: checks the limit only when a read brought no line end, so how long a line may be
    /// depends on how it was cut; here the limit is exact.
    fn find(
        &mut self,
        buf: &[u8],
        end: u8,
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let rest = &buf[self.position..];
        let searched = self.scanned.saturating_sub(self.position);
        let upto = rest.len().min(LINE_BYTES_MAX + 1);
        match memchr(end, &rest[searched..upto]) {
            Some(at) => {
                self.scanned = self.position + searched + at;
                Ok(Some(searched + at))
            }
            None if upto > LINE_BYTES_MAX => Err(too_big),
            None => {
                self.scanned = self.position + upto;
                Ok(None)
            }
        }
    }

    /// Parses a line of words.
    #[cold]
    fn inline(&mut self, buf: &mut [u8], args: &mut Vec<ArgRange>) -> Result<Step, ProtocolError> {
        let Some(len) = self.find(buf, b'\n', ProtocolError::InlineTooBig)? else {
            return Ok(Step::Incomplete);
        };
        let start = self.position;
        let line = &mut buf[start..start + len];
        let line = match line {
            [line @ .., b'\r'] => line,
            line => line,
        };
        let first = args.len();
        if let Err(error) = split_words(line, start, args) {
            args.truncate(first);
            return Err(error);
        }
        self.position = start + len + 1;
        let argc = args.len() - first;
        Ok(if argc == 0 {
            Step::Empty
        } else {
            Step::Request { argc }
        })
    }
}

/// Reads a length line of one to three digits at `at`: its number and the offset behind it. None
/// means that the careful path has to look. Six bytes are there whenever the argument behind the
/// shortest line is (`$0\r\n\r\n`).
#[inline(always)]
fn short_length_line(buf: &[u8], at: usize, marker: u8) -> Option<(u32, usize)> {
    let window = buf.get(at..)?.first_chunk::<6>()?;
    let units = window[1].wrapping_sub(b'0') as u32;
    if window[0] != marker || units > 9 {
        return None;
    }
    if window[2] == b'\r' {
        return Some((units, at + 4));
    }
    let tens = window[2].wrapping_sub(b'0') as u32;
    // A number of several digits does not start with zero.
    if units == 0 || tens > 9 {
        return None;
    }
    let number = units * 10 + tens;
    if window[3] == b'\r' {
        return Some((number, at + 5));
    }
    let hundreds = window[3].wrapping_sub(b'0') as u32;
    if hundreds > 9 || window[4] != b'\r' {
        return None;
    }
    Some((number * 10 + hundreds, at + 6))
}

/// Splits a line into words and appends their ranges, shifted by `offset`. A word may contain parts
/// in quotes: double quotes with escapes, single quotes in which only `\'` is one. A closing quote
/// ends its word and must be followed by white space. An unquoted word is never longer than its
/// source, so it is written over it.
fn split_words(
    line: &mut [u8],
    offset: usize,
    args: &mut Vec<ArgRange>,
) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        while at < line.len() && is_space(line[at]) {
            at += 1;
        }
        if at == line.len() {
            return Ok(());
        }
        let start = at;
        let mut end = at;
        while let Some(&byte) = line.get(at) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => break,
                b'"' | b'\'' => {
                    (at, end) = unquote(line, at, end)?;
                    break;
                }
                _ => {
                    line[end] = byte;
                    at += 1;
                    end += 1;
                }
            }
        }
        args.push(ArgRange {
            start: (offset + start) as u32,
            len: (end - start) as u32,
        });
    }
}

/// Copies the quoted part that starts with the quote at `at` to `end`; gives the offset behind the
/// closing quote and the end of the copy.
fn unquote(
    line: &mut [u8],
    mut at: usize,
    mut end: usize,
) -> Result<(usize, usize), ProtocolError> {
    let quote = line[at];
    at += 1;
    loop {
        let (byte, taken) = match line[at..] {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b, ..] if b == quote => break,
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', b'x', high, low, ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex_digit(high) << 4 | hex_digit(low), 4)
            }
            [b'\\', b, ..] if quote == b'"' => (escaped(b), 2),
            [b, ..] => (b, 1),
        };
        line[end] = byte;
        end += 1;
        at += taken;
    }
    at += 1;
    match line.get(at) {
        Some(&b) if !is_space(b) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok((at, end)),
    }
}

/// What a letter behind a backslash means.
fn escaped(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_digit(digit: u8) -> u8 {
    (digit as char)
        .to_digit(16)
        .expect("only called with hex digits") as u8
}

/// White space as C has it, with the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 0x09..=0x0d)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Limits = Limits {
        bulk_bytes_max: 512 << 20,
        authenticated: true,
    };

    /// What came out of some input: requests as their arguments, then an error or nothing.
    type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

    /// Feeds the pieces one after the other, removing what the parser has done with whenever it
    /// asks for more.
    fn parse(pieces: &[&[u8]], limits: &Limits) -> Outcome {
        let (mut parser, mut buf, mut args) = (Parser::default(), Vec::new(), Vec::new());
        let mut requests = Vec::new();
        for piece in pieces {
            buf.extend_from_slice(piece);
            loop {
                args.clear();
                match parser.step(&mut buf, limits, &mut args) {
                    Ok(Step::Incomplete) => break,
                    Ok(Step::Empty) => assert!(args.is_empty()),
                    Ok(Step::Request { argc }) => {
                        assert_eq!(argc, args.len());
                        assert_eq!(parser.needed_from(), parser.position());
                        requests.push(
                            args.iter()
                                .map(|arg| arg.of(buf[..].into()).to_vec())
                                .collect(),
                        );
                    }
                    Err(error) => {
                        assert!(args.is_empty());
                        return (requests, Some(error));
                    }
                }
            }
            assert!(args.is_empty());
            let done = parser.needed_from();
            buf.drain(..done);
            parser.consumed(done);
        }
        (requests, None)
    }

    /// Whole, cut at every place, and byte by byte.
    fn parse_all_ways(input: &[u8], limits: &Limits) -> Outcome {
        let whole = parse(&[input], limits);
        for at in 0..=input.len() {
            let (left, right) = input.split_at(at);
            assert_eq!(parse(&[left, right], limits), whole, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(parse(&bytes, limits), whole, "byte by byte");
        whole
    }

    fn words(list: &[&str]) -> Vec<Vec<u8>> {
        list.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn requests() {
        let long = "v".repeat(1234);
        let many = format!("*12\r\n{}", "$1\r\na\r\n".repeat(12));
        let with_long = format!("*2\r\n$100\r\n{}\r\n$1234\r\n{long}\r\n", &long[..100]);
        let cases: &[(&str, &[&[&str]])] = &[
            ("", &[]),
            ("*1\r\n$4\r\nPING\r\n", &[&["PING"]]),
            (
                "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n*1\r\n$0\r\n\r\n",
                &[&["SET", "k", "0123456789"], &[""]],
            ),
            (&with_long, &[&[&long[..100], &long]]),
            (&many, &[&["a"; 12]]),
            // What is no request.
            (
                "*0\r\n*-1\r\n*-100\r\n\r\n\n   \r\n*1\r\n$1\r\na\r\n",
                &[&["a"]],
            ),
            // Only the `\r` of a line end matters, and nothing behind an argument.
            ("*1\rX$4\rYPINGzz*1\r\n$1\r\nb\r\n", &[&["PING"], &["b"]]),
            (
                "*1\r\n$6\r\n*1\r\n$4\r\n*1\r\n$1\r\nb\r\n",
                &[&["*1\r\n$4"], &["b"]],
            ),
        ];
        for (input, requests) in cases {
            let requests = requests.iter().map(|request| words(request)).collect();
            assert_eq!(
                parse_all_ways(input.as_bytes(), &OPEN),
                (requests, None),
                "{input:.60?}"
            );
        }
    }

    /// Measured on Redis 8.2.3.
    #[test]
    fn inline_requests() {
        let cases: &[(&[u8], &[&[u8]])] = &[
            (b"PING\r\n", &[b"PING"]),
            (b"PING\n", &[b"PING"]),
            (b" \x0b\x0c\t set  k\tv \n", &[b"set", b"k", b"v"]),
            (b"ping \"a b\"\r\n", &[b"ping", b"a b"]),
            (b"ping 'a\\'b\\n'\n", &[b"ping", b"a'b\\n"]),
            (
                b"ping \"\\x41\\n\\q\\\"\\\\\\xZZ\\a\\b\\t\\r\"\n",
                &[b"ping", b"A\nq\"\\xZZ\x07\x08\t\r"],
            ),
            (
                b"ping \"\\X41\" \"\\x4\" \\x41\n",
                &[b"ping", b"X41", b"x4", b"\\x41"],
            ),
            (b"ping \"\\xfF\\x00\"\n", &[b"ping", b"\xff\0"]),
            (b"ping fo\"o b\" c''\n", &[b"ping", b"foo b", b"c"]),
            (b"\"\" ''\n", &[b"", b""]),
            (b"echo \x0bx\x0c\n", &[b"echo", b"x\x0c"]),
            (b"ping \"a\"\x0bb\n", &[b"ping", b"a", b"b"]),
            (b"ping a\rb \"c\rd\"\r\r\n", &[b"ping", b"a", b"b", b"c\rd"]),
            (b"$4\r\n", &[b"$4"]),
            (b"a\0b\n", &[b"a\0b"]),
        ];
        for (input, args) in cases {
            let request = args.iter().map(|arg| arg.to_vec()).collect();
            let text = input.escape_ascii();
            assert_eq!(
                parse_all_ways(input, &OPEN),
                (vec![request], None),
                "{text}"
            );
        }
        for input in [
            "\"a\"b",
            "\"",
            "'x",
            "\"\\\"",
            "\"x\\",
            "'a'\"b\"",
            "a \"b\"\u{a0}",
        ] {
            let input = format!("ping {input}\n");
            let error = Some(ProtocolError::UnbalancedQuotes);
            assert_eq!(
                parse_all_ways(input.as_bytes(), &OPEN),
                (vec![], error),
                "{input:?}"
            );
        }
    }

    /// Measured on Redis 8.2.3.
    #[test]
    fn protocol_errors() {
        use ProtocolError as E;
        let cases: &[(&str, E)] = &[
            ("*1048577\r\n", E::InvalidMultibulkLength),
            ("*x\r\n", E::InvalidMultibulkLength),
            ("*01\r\n$4\r\nPING\r\n", E::InvalidMultibulkLength),
            ("*+1\r\n$4\r\nPING\r\n", E::InvalidMultibulkLength),
            ("*-0\r\n", E::InvalidMultibulkLength),
            ("*\r\n$4\r\nPING\r\n", E::InvalidMultibulkLength),
            ("*1 \r\n$4\r\nPING\r\n", E::InvalidMultibulkLength),
            ("*1\n$4\r\nPING\r\n", E::InvalidMultibulkLength),
            ("*1\0\r\n", E::InvalidMultibulkLength),
            ("*1:\r\n$4\r\nPING\r\n", E::InvalidMultibulkLength),
            ("*1\r\nX\r\n", E::ExpectedBulk(b'X')),
            ("*1\r\n\r\nPING\r\n", E::ExpectedBulk(b'\r')),
            ("*2\r\n$1\r\na\r\n*1\r\nb\r\n", E::ExpectedBulk(b'*')),
            ("*1\r\n$-1\r\n", E::InvalidBulkLength),
            ("*1\r\n$536870913\r\n", E::InvalidBulkLength),
            ("*1\r\n$99999999999999999999\r\n", E::InvalidBulkLength),
            ("*1\r\n$04\r\nPING\r\n", E::InvalidBulkLength),
            ("*1\r\n$\r\nPING\r\n", E::InvalidBulkLength),
        ];
        for (input, error) in cases {
            let outcome = parse_all_ways(input.as_bytes(), &OPEN);
            assert_eq!(outcome, (vec![], Some(*error)), "{input:?}");
        }
        for input in [
            "*1048576\r\n",
            "*1048575\r\n$3\r\n",
            "*1\r\n$536870912\r\n",
            "*1\r\nX",
        ] {
            assert_eq!(
                parse_all_ways(input.as_bytes(), &OPEN),
                (vec![], None),
                "{input:?}"
            );
        }
    }

    #[test]
    fn limits_before_authentication() {
        let closed = Limits {
            authenticated: false,
            ..OPEN
        };
        let cases = [
            ("*10\r\n", None),
            (
                "*11\r\n",
                Some(ProtocolError::UnauthenticatedMultibulkLength),
            ),
            (
                "*11\r\n$1\r\na",
                Some(ProtocolError::UnauthenticatedMultibulkLength),
            ),
            ("*1\r\n$16384\r\n", None),
            (
                "*1\r\n$16385\r\n",
                Some(ProtocolError::UnauthenticatedBulkLength),
            ),
        ];
        for (input, error) in cases {
            assert_eq!(
                parse_all_ways(input.as_bytes(), &closed),
                (vec![], error),
                "{input:?}"
            );
        }
        let small = Limits {
            bulk_bytes_max: 5,
            ..OPEN
        };
        let (requests, error) = parse_all_ways(b"*2\r\n$5\r\nabcde\r\n$6\r\nabcdef\r\n", &small);
        assert_eq!(
            (requests.len(), error),
            (0, Some(ProtocolError::InvalidBulkLength))
        );
    }

    /// A line may have 64 KiB, however it is cut.
    #[test]
    fn lines_are_limited() {
        use ProtocolError as E;
        let cases = [
            ("", "a", E::InlineTooBig, "\n"),
            ("*", "1", E::MultibulkCountTooBig, "\r\n"),
            ("*1\r\n$", "1", E::BulkCountTooBig, "\r\n"),
        ];
        for (start, fill, too_big, end) in cases {
            let line_start = start.rfind('\n').map_or(0, |at| at + 1);
            let fits = LINE_BYTES_MAX - (start.len() - line_start);
            for (len, refused) in [(fits, false), (fits + 1, true)] {
                let line = format!("{start}{}", fill.repeat(len));
                let ended = format!("{line}{end}");
                for pieces in [
                    vec![&line[..]],
                    vec![&ended],
                    vec![&line[..100], &ended[100..]],
                ] {
                    let pieces: Vec<&[u8]> = pieces.iter().map(|text| text.as_bytes()).collect();
                    let (_, error) = parse(&pieces, &OPEN);
                    assert_eq!(error == Some(too_big), refused, "{start:?} {len}");
                }
            }
        }
    }

    #[test]
    fn error_texts() {
        assert_eq!(
            ProtocolError::ExpectedBulk(b'*').to_string(),
            "Protocol error: expected '$', got '*'"
        );
        assert_eq!(
            ProtocolError::InvalidBulkLength.to_string(),
            "Protocol error: invalid bulk length"
        );
    }

    #[test]
    fn a_large_argument_can_be_received_apart() {
        let (mut parser, mut args) = (Parser::default(), Vec::new());
        let mut buf = b"*4\r\n$1\r\nA\r\n$40000\r\nxyz".to_vec();
        let incomplete = Ok(Step::Incomplete);
        assert_eq!(parser.step(&mut buf, &OPEN, &mut args), incomplete);
        assert_eq!(parser.large_wanted(), Some(40_000));
        assert_eq!(&buf[parser.position()..], b"xyz");
        buf.truncate(parser.position());
        parser.give_large(7);
        assert_eq!((parser.large_wanted(), parser.large_needed()), (None, 1));
        parser.consumed(8);
        buf.drain(..8);
        assert_eq!(parser.step(&mut buf, &OPEN, &mut args), incomplete);
        buf.extend_from_slice(b"\r\n$32768\r\n");
        assert_eq!(parser.step(&mut buf, &OPEN, &mut args), incomplete);
        assert_eq!(parser.large_wanted(), Some(LARGE_BYTES_MIN));
        parser.give_large(1);
        assert_eq!(parser.large_needed(), 2);
        buf.extend_from_slice(b"\r\n$1\r\nB\r\n");
        let request = Ok(Step::Request { argc: 4 });
        assert_eq!(parser.step(&mut buf, &OPEN, &mut args), request);
        let numbers: Vec<Option<usize>> = args.iter().map(|arg| arg.number()).collect();
        assert_eq!(numbers, [None, Some(0), Some(1), None]);
        assert_eq!(args[3].of(buf[..].into()), b"B");
        assert_eq!((parser.position(), parser.large_needed()), (buf.len(), 0));
    }

    #[test]
    fn an_argument_that_is_not_large_is_not_wanted_apart() {
        let (mut parser, mut args) = (Parser::default(), Vec::new());
        let mut buf = b"*1\r\n$32767\r\n".to_vec();
        let step = parser.step(&mut buf, &OPEN, &mut args);
        assert_eq!((step, parser.large_wanted()), (Ok(Step::Incomplete), None));
    }

    #[test]
    fn ranges_of_several_requests_pile_up_in_order() {
        let (mut parser, mut args) = (Parser::default(), Vec::new());
        let mut buf = b"*1\r\n$1\r\na\r\n*2\r\n$1\r\nb\r\n$1\r\nc\r\nd e\n*1\r\n$1\r\n".to_vec();
        for argc in [1, 2, 2] {
            assert_eq!(
                parser.step(&mut buf, &OPEN, &mut args),
                Ok(Step::Request { argc })
            );
        }
        assert_eq!(
            parser.step(&mut buf, &OPEN, &mut args),
            Ok(Step::Incomplete)
        );
        let all: Vec<u8> = args
            .iter()
            .flat_map(|arg| arg.of(buf[..].into()).to_vec())
            .collect();
        assert_eq!(all, b"abcde");
    }

    /// Random bytes made of what the protocol is made of: no panic, and the same however cut.
    #[test]
    fn random_input_is_parsed_the_same_however_cut() {
        let alphabet = b"**$$112\r\n\r\n\r\n0-a \"'\\x";
        let mut state = 5u64;
        for _ in 0..3_000 {
            let mut input = Vec::new();
            for _ in 0..30 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                input.push(alphabet[(state >> 33) as usize % alphabet.len()]);
            }
            parse_all_ways(&input, &OPEN);
        }
    }
}
