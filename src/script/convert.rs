//! Replies of commands to Lua values, and the value of a script to its reply.
//!
//! | reply | Lua value |
//! |---|---|
//! | integer | number |
//! | bulk string | string |
//! | status, error | `{ok=...}`, `{err=...}` |
//! | array | array |
//! | null of RESP2; null of RESP3 | false; nil |
//! | map, set, double, big number, verbatim string of RESP3 | `{map={}}`, `{set={}}`, ... |
//! | boolean of RESP3 | boolean |
//!
//! The way back knows the same tables (`shape` in the prelude tells them apart) and takes any other
//! table as an array that ends before its first nil.

use mlua::{Function, Lua, LuaString, Table, Value};

use super::native::{self, Refusal, number_of, truncated};
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply};
use crate::value::number::parse_f64_saturating;

/// Replies of commands are never nested deeper.
const COMMAND_DEPTH_MAX: usize = 128;
/// A script's value that is nested deeper gets an error in its place. Redis: about 8,000, as many
/// as fit on Lua's stack; ours are on the process' stack.
const VALUE_DEPTH_MAX: usize = 1_000;
/// A script's reply is not longer, in bytes: small tables that hold each other can stand for
/// endless ones.
const REPLY_BYTES_MAX: usize = 512 << 20;

/// The names in tables that stand for replies; made once, as scripts get thousands.
pub(super) struct Names {
    ok: LuaString,
    double: LuaString,
    map: LuaString,
    set: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
    format: LuaString,
    string: LuaString,
}

impl Names {
    pub(super) fn new(lua: &Lua) -> mlua::Result<Names> {
        Ok(Names {
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
            format: lua.create_string("format")?,
            string: lua.create_string("string")?,
        })
    }
}

/// What a command answered.
pub(super) enum Answer {
    Value(Value),
    /// An error line.
    Error(Vec<u8>),
}

/// Makes a Lua value of one reply.
pub(super) fn to_lua(lua: &Lua, names: &Names, reply: &mut Output) -> Result<Answer, Refusal> {
    let is_whole = reply.front().len() == reply.len();
    let joined = (!is_whole).then(|| reply.take_all());
    let bytes = joined.as_deref().unwrap_or_else(|| reply.front());
    if let [b'-', line @ .., b'\r', b'\n'] = bytes {
        return Ok(Answer::Error(line.to_vec()));
    }
    let mut reader = Reader {
        lua,
        names,
        rest: bytes,
    };
    Ok(Answer::Value(reader.value(0)?))
}

struct Reader<'a> {
    lua: &'a Lua,
    names: &'a Names,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Refusal> {
        let (marker, line) = self.line()?;
        if depth > COMMAND_DEPTH_MAX {
            return Err(malformed());
        }
        Ok(match marker {
            b':' => Value::Integer(integer(line)?),
            b'$' => match integer(line)? {
                -1 => Value::Boolean(false),
                len => Value::String(self.lua.create_string(self.bulk(len)?)?),
            },
            b'+' => self.wrapped(&self.names.ok, line)?,
            b'-' => Value::Table(native::error_table(self.lua, line, false)?),
            b'*' | b'>' => match integer(line)? {
                -1 => Value::Boolean(false),
                len => self.array(len, depth)?,
            },
            b'%' => self.map(integer(line)?, depth)?,
            b'~' => self.set(integer(line)?, depth)?,
            b'_' => Value::Nil,
            b'#' => Value::Boolean(line == b"t"),
            b',' => {
                let table = self.lua.create_table()?;
                table.raw_set(&self.names.double, double(line))?;
                Value::Table(table)
            }
            b'(' => self.wrapped(&self.names.big_number, line)?,
            b'=' => {
                let len = integer(line)?;
                self.verbatim(len)?
            }
            b'|' => {
                // Attributes are about the reply that follows, which is all that scripts get.
                for _ in 0..2 * integer(line)? {
                    self.value(depth + 1)?;
                }
                self.value(depth + 1)?
            }
            _ => return Err(malformed()),
        })
    }

    /// The marker and the text of the next line.
    fn line(&mut self) -> Result<(u8, &'a [u8]), Refusal> {
        let end = memchr::memchr(b'\r', self.rest).ok_or_else(malformed)?;
        let (&marker, line) = self.rest[..end].split_first().ok_or_else(malformed)?;
        self.rest = self.rest.get(end + 2..).ok_or_else(malformed)?;
        Ok((marker, line))
    }

    fn bulk(&mut self, len: i64) -> Result<&'a [u8], Refusal> {
        let len = usize::try_from(len).map_err(|_| malformed())?;
        let bytes = self.rest.get(..len).ok_or_else(malformed)?;
        self.rest = self.rest.get(len + 2..).ok_or_else(malformed)?;
        Ok(bytes)
    }

    fn wrapped(&self, name: &LuaString, text: &[u8]) -> Result<Value, Refusal> {
        let table = self.lua.create_table()?;
        table.raw_set(name, self.lua.create_string(text)?)?;
        Ok(Value::Table(table))
    }

    fn array(&mut self, len: i64, depth: usize) -> Result<Value, Refusal> {
        // An element takes three bytes at least, so an announced length is one that is there.
        let room = (len.max(0) as usize).min(self.rest.len() / 3);
        let table = self.lua.create_table_with_capacity(room, 0)?;
        for at in 1..=len {
            let value = self.value(depth + 1)?;
            table.raw_set(at, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: i64, depth: usize) -> Result<Value, Refusal> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            set_unless_nil(&table, key, value)?;
        }
        self.named(&self.names.map, table)
    }

    fn set(&mut self, len: i64, depth: usize) -> Result<Value, Refusal> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let member = self.value(depth + 1)?;
            set_unless_nil(&table, member, Value::Boolean(true))?;
        }
        self.named(&self.names.set, table)
    }

    fn named(&self, name: &LuaString, inner: Table) -> Result<Value, Refusal> {
        let table = self.lua.create_table()?;
        table.raw_set(name, inner)?;
        Ok(Value::Table(table))
    }

    fn verbatim(&mut self, len: i64) -> Result<Value, Refusal> {
        let (format, text) = self.bulk(len)?.split_at_checked(4).ok_or_else(malformed)?;
        let inner = self.lua.create_table()?;
        inner.raw_set(&self.names.format, self.lua.create_string(&format[..3])?)?;
        inner.raw_set(&self.names.string, self.lua.create_string(text)?)?;
        self.named(&self.names.verbatim_string, inner)
    }
}

fn set_unless_nil(table: &Table, key: Value, value: Value) -> mlua::Result<()> {
    match key {
        Value::Nil => Ok(()),
        key => table.raw_set(key, value),
    }
}

fn integer(line: &[u8]) -> Result<i64, Refusal> {
    crate::value::number::parse_i64(line).ok_or_else(malformed)
}

/// A double as replies have it, `nan` included.
fn double(line: &[u8]) -> f64 {
    parse_f64_saturating(line).unwrap_or(f64::NAN)
}

/// A reply that is none: the host's mistake, which must not end the server.
fn malformed() -> Refusal {
    Refusal::reply("ERR a command's reply could not be read")
}

/// What a value's reply depends on.
pub(super) struct Style<'a> {
    /// What the script chose by `setresp`; the client's protocol is the sink's.
    pub(super) protocol: Protocol,
    /// Tells what a table stands for: the function `shape` of the prelude.
    pub(super) shape: &'a Function,
}

/// Writes a value as a reply. On an error, part of it may have been written.
pub(super) fn to_reply(
    value: &Value,
    style: &Style<'_>,
    out: &mut Output,
    protocol: Protocol,
) -> mlua::Result<()> {
    let mut writer = Writer {
        style,
        start: out.len(),
        reply: Reply::new(out, protocol),
    };
    writer.value(value, 0)
}

struct Writer<'a> {
    style: &'a Style<'a>,
    start: usize,
    reply: Reply<'a>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        let out = self.reply.output();
        if out.is_over_limit() {
            // All of it has been dropped, and what follows would be.
            return Ok(());
        }
        if out.len().saturating_sub(self.start) > REPLY_BYTES_MAX {
            return Err(mlua::Error::MemoryError("the reply is too long".into()));
        }
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Boolean(yes) if self.style.protocol == Protocol::Resp3 => {
                self.reply.boolean(*yes)
            }
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(table) => return self.table(table, depth),
            other => match number_of(other) {
                Some(n) => self.reply.integer(truncated(n)),
                None => self.reply.null(),
            },
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if depth >= VALUE_DEPTH_MAX {
            self.reply.error(b"ERR reached lua stack limit");
            return Ok(());
        }
        let (shape, held, format): (u8, Value, Option<LuaString>) = self.style.shape.call(table)?;
        match (shape, &held) {
            (1, Value::String(line)) => self.reply.error(&line.as_bytes()),
            (2, Value::String(text)) => self.status(&text.as_bytes()),
            (3, number) => match number_of(number).unwrap_or(f64::NAN) {
                // Whose zero has a sign, unlike that of commands.
                n if n == 0.0 && n.is_sign_negative() => self.reply.decimal("-0"),
                n => self.reply.double(n),
            },
            (4, Value::Table(map)) => return self.map(map, depth),
            (5, Value::Table(set)) => return self.set(set, depth),
            (6, Value::String(digits)) => self.big_number(&digits.as_bytes()),
            (7, Value::String(text)) => {
                let format = format.map(|format| format.as_bytes().to_vec());
                self.verbatim(&format.unwrap_or_default(), &text.as_bytes());
            }
            _ => return self.array(table, depth),
        }
        Ok(())
    }

    fn status(&mut self, text: &[u8]) {
        let out = self.reply.output();
        out.extend(b"+");
        let line: Vec<u8> = text.iter().map(|byte| without_line_end(*byte)).collect();
        out.extend(&line);
        out.extend(b"\r\n");
    }

    /// Digits, if the script has said the truth.
    fn big_number(&mut self, text: &[u8]) {
        let line: Vec<u8> = text.iter().map(|byte| without_line_end(*byte)).collect();
        self.reply.big_number(&line);
    }

    /// Text with a format of three letters, filled up by spaces if it has fewer.
    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        let mut three = *b"   ";
        for (to, from) in three.iter_mut().zip(format) {
            *to = without_line_end(*from);
        }
        self.reply.verbatim_of(three, text);
    }

    fn map(&mut self, map: &Table, depth: usize) -> mlua::Result<()> {
        self.reply.map(native::pairs_len(map)?);
        for pair in native::pairs(map) {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }

    fn set(&mut self, set: &Table, depth: usize) -> mlua::Result<()> {
        self.reply.set(native::pairs_len(set)?);
        for pair in native::pairs(set) {
            let (member, _) = pair?;
            self.value(&member, depth + 1)?;
        }
        Ok(())
    }

    fn array(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let mut len = 0;
        table.for_each_value(|_: Value| {
            len += 1;
            Ok(())
        })?;
        self.reply.array(len);
        // A walk of mlua's would count against Lua's limit of nested calls at each level.
        for at in 1..=len {
            self.value(&table.raw_get(at)?, depth + 1)?;
        }
        Ok(())
    }
}

fn without_line_end(byte: u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') {
        b' '
    } else {
        byte
    }
}
