//! The value of a script to its reply: the way back of what `exchange` makes of a command's, by the
//! same tables (`shape` in the prelude tells them apart). Any other table is an array that ends
//! before its first nil.

use mlua::{Function, LuaString, Table, Value};

use super::native::{self, number_of, truncated};
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply};

/// A script's value that is nested deeper gets an error in its place. Redis: about 8,000, as many
/// as fit on Lua's stack; ours are on the process' stack.
const VALUE_DEPTH_MAX: usize = 1_000;
/// A script's reply is not longer, in bytes: small tables that hold each other can stand for
/// endless ones.
const REPLY_BYTES_MAX: usize = 512 << 20;

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
