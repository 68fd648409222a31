//! Replies: typed answers to bytes, and the only place that knows RESP2 from RESP3.
//!
//! RESP3 has types of its own for maps, sets, doubles, booleans, null and text. For a client of
//! RESP2 each of them becomes what such clients have always been given: arrays, bulk strings, 0 and
//! 1.
//!
//! An array, map, set or push is only announced here; the caller follows it with as many replies.

use bytes::Bytes;

use super::output::Output;
use crate::value::number::format_f64;

/// The reply to a command that has nothing to say.
pub const OK: &[u8] = b"+OK\r\n";
/// The reply to a command that waits for EXEC.
pub const QUEUED: &[u8] = b"+QUEUED\r\n";
/// The reply to PING.
pub const PONG: &[u8] = b"+PONG\r\n";
/// Strings of at least this many bytes are handed out by reference. Below it, a copy is cheaper
/// than another piece for `writev`; also the size from which values are kept in a buffer of their
/// own.
pub const SHARED_BYTES_MIN: usize = 16 * 1024;

/// The version of the protocol a client speaks; RESP2 until it says HELLO 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// Version 2.
    #[default]
    Resp2,
    /// Version 3.
    Resp3,
}

/// Writes replies to one client.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Output,
    protocol: Protocol,
}

impl<'a> Reply<'a> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Output, protocol: Protocol) -> Reply<'a> {
        Reply { out, protocol }
    }

    /// The version spoken.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// What is appended to: for marks, and for replies that are bytes already.
    #[inline]
    pub fn output(&mut self) -> &mut Output {
        self.out
    }

    /// `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend(OK);
    }

    /// A status of one line; line ends in it become spaces.
    pub fn simple(&mut self, text: &str) {
        self.one_line(b"+", text.as_bytes());
    }

    /// An error: its code word and text, `ERR syntax error`; line ends in it become spaces.
    pub fn error(&mut self, line: &[u8]) {
        // What a client sent may end it.
        let end = line.iter().rposition(|byte| !b"\r\n".contains(byte));
        self.one_line(b"-", &line[..end.map_or(0, |end| end + 1)]);
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.number_line(b':', value);
    }

    /// A string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 16);
        self.number_line(b'$', bytes.len() as i64);
        self.out.extend(bytes);
        self.out.extend(b"\r\n");
    }

    /// A string that need not be copied if it is long.
    pub fn bulk_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_BYTES_MIN {
            return self.bulk(bytes);
        }
        self.number_line(b'$', bytes.len() as i64);
        self.out.push_shared(bytes.clone());
        self.out.extend(b"\r\n");
    }

    /// An integer as a string.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Nothing, where a string or a number could be.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Nothing, where an array could be.
    pub fn null_array(&mut self) {
        self.out.extend(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// An array of two zeros.
    pub fn zeros(&mut self) {
        self.array(2);
        self.integer(0);
        self.integer(0);
    }

    /// An array; `len` replies follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.number_line(b'*', len as i64);
    }

    /// A map; `pairs` times a key and a value follow.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(2 * pairs),
            Protocol::Resp3 => self.number_line(b'%', pairs as i64),
        }
    }

    /// A set; `len` replies follow.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => self.number_line(b'~', len as i64),
        }
    }

    /// The start of an attribute of the reply that follows, of so many pairs; RESP3 alone has them.
    pub fn attribute(&mut self, pairs: usize) {
        self.number_line(b'|', pairs as i64);
    }

    /// A message outside the order of requests and replies; `len` replies follow.
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => self.number_line(b'>', len as i64),
        }
    }

    /// A double.
    pub fn double(&mut self, value: f64) {
        let text = format_f64(value);
        match self.protocol {
            Protocol::Resp2 => self.bulk(&text),
            Protocol::Resp3 => self.marked(b",", &text),
        }
    }

    /// A double of any precision, given as its digits.
    pub fn decimal(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.marked(b",", digits.as_bytes()),
        }
    }

    /// Yes or no.
    pub fn boolean(&mut self, value: bool) {
        self.out.extend(match (self.protocol, value) {
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
        });
    }

    /// Text meant for people, to be shown as it is.
    pub fn verbatim(&mut self, text: impl AsRef<[u8]>) {
        self.verbatim_of(*b"txt", text.as_ref());
    }

    /// Text in a format: `txt`, `mkd`.
    pub fn verbatim_of(&mut self, format: [u8; 3], text: &[u8]) {
        if self.protocol == Protocol::Resp2 {
            return self.bulk(text);
        }
        self.number_line(b'=', text.len() as i64 + 4);
        self.out.extend(&format);
        self.marked(b":", text);
    }

    /// An integer of any size, given as its digits.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.marked(b"(", digits),
        }
    }

    fn marked(&mut self, marker: &[u8], text: &[u8]) {
        self.out.extend(marker);
        self.out.extend(text);
        self.out.extend(b"\r\n");
    }

    /// A marker and text, whose line ends are replaced: what a client sent and an error quotes
    /// must not end the reply early.
    fn one_line(&mut self, marker: &[u8], text: &[u8]) {
        self.out.extend(marker);
        for (i, line) in text.split(|byte| matches!(byte, b'\r' | b'\n')).enumerate() {
            if i > 0 {
                self.out.extend(b" ");
            }
            self.out.extend(line);
        }
        self.out.extend(b"\r\n");
    }

    /// A marker, a number, a line end; in one append, as most replies contain one.
    #[inline]
    fn number_line(&mut self, marker: u8, number: i64) {
        if (0..10).contains(&number) {
            return self
                .out
                .extend(&[marker, b'0' + number as u8, b'\r', b'\n']);
        }
        // Most strings of a reply are so long; a copy of constant length needs no call.
        if (10..100).contains(&number) {
            let [tens, units] = [number as u8 / 10, number as u8 % 10];
            return self
                .out
                .extend(&[marker, b'0' + tens, b'0' + units, b'\r', b'\n']);
        }
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let mut line = [0; 24];
        line[0] = marker;
        line[1..=digits.len()].copy_from_slice(digits);
        line[digits.len() + 1] = b'\r';
        line[digits.len() + 2] = b'\n';
        self.out.extend(&line[..digits.len() + 3]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a closure writes, in RESP2 and in RESP3.
    fn both(write: impl Fn(&mut Reply)) -> (String, String) {
        let one = |protocol| {
            let mut out = Output::default();
            write(&mut Reply::new(&mut out, protocol));
            String::from_utf8(out.take_all()).expect("the tests write text")
        };
        (one(Protocol::Resp2), one(Protocol::Resp3))
    }

    #[test]
    fn each_type_in_both_versions() {
        type Case = (fn(&mut Reply), &'static str, &'static str);
        let cases: &[Case] = &[
            (|r| r.ok(), "+OK\r\n", "+OK\r\n"),
            (|r| r.simple("a\nb"), "+a b\r\n", "+a b\r\n"),
            (
                |r| r.error(b"ERR no\r\nway"),
                "-ERR no  way\r\n",
                "-ERR no  way\r\n",
            ),
            (|r| r.error(b"A x\n"), "-A x\r\n", "-A x\r\n"),
            (|r| r.integer(0), ":0\r\n", ":0\r\n"),
            (|r| r.integer(10), ":10\r\n", ":10\r\n"),
            (|r| r.integer(-1), ":-1\r\n", ":-1\r\n"),
            (
                |r| r.integer(i64::MIN),
                ":-9223372036854775808\r\n",
                ":-9223372036854775808\r\n",
            ),
            (|r| r.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (
                |r| r.bulk(b"0123456789"),
                "$10\r\n0123456789\r\n",
                "$10\r\n0123456789\r\n",
            ),
            (|r| r.bulk_integer(-12), "$3\r\n-12\r\n", "$3\r\n-12\r\n"),
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.array(0), "*0\r\n", "*0\r\n"),
            (|r| r.map(6), "*12\r\n", "%6\r\n"),
            (|r| r.set(2), "*2\r\n", "~2\r\n"),
            (|r| r.push(3), "*3\r\n", ">3\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (
                |r| r.double(f64::NEG_INFINITY),
                "$4\r\n-inf\r\n",
                ",-inf\r\n",
            ),
            (|r| r.double(1e21), "$5\r\n1e+21\r\n", ",1e+21\r\n"),
            (|r| r.decimal("-0.1"), "$4\r\n-0.1\r\n", ",-0.1\r\n"),
            (|r| r.boolean(true), ":1\r\n", "#t\r\n"),
            (|r| r.boolean(false), ":0\r\n", "#f\r\n"),
            (
                |r| r.verbatim("a\r\nb"),
                "$4\r\na\r\nb\r\n",
                "=8\r\ntxt:a\r\nb\r\n",
            ),
            (|r| r.big_number(b"-123"), "$4\r\n-123\r\n", "(-123\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(both(write), (resp2.to_string(), resp3.to_string()));
        }
    }

    #[test]
    fn only_long_strings_are_shared() {
        for (len, pieces) in [(SHARED_BYTES_MIN - 1, 1), (SHARED_BYTES_MIN, 3)] {
            let mut out = Output::default();
            let text = Bytes::from(vec![b'x'; len]);
            Reply::new(&mut out, Protocol::Resp2).bulk_shared(&text);
            let mut slices = Vec::new();
            out.slices(&mut slices);
            assert_eq!(slices.len(), pieces);
            drop(slices);
            let all = out.take_all();
            assert_eq!(
                all,
                [format!("${len}\r\n").as_bytes(), &text, b"\r\n"].concat()
            );
        }
    }
}
