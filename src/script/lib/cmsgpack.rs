//! `cmsgpack`: MessagePack.
//!
//! A number is packed as the shortest integer if it is one, else as a float of 32 bits if that is
//! exact, else of 64. A table is an array if its keys are 1 to n, else a map.

use mlua::{Lua, Table, Value};

use super::super::native::{
    OUTPUT_BYTES_MAX, Outcome, Refusal, exact_integer, number, number_of, pairs, register, string,
    too_large,
};

/// Tables nested deeper are packed as nil.
const PACK_DEPTH_MAX: usize = 16;
/// Deeper arrays and maps are not unpacked. Redis: its limit is that of Lua's stack, about 4,000.
const UNPACK_DEPTH_MAX: usize = 1_000;
/// How many values one call gives at most; they are on Lua's stack, which has 8,000 places.
const RESULTS_MAX: usize = 7_000;
const TOO_MANY: &str = "stack overflow (too many return values at once; \
    use unpack_one or unpack_limit instead.)";

/// The library's table.
pub(in super::super) fn open(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    register(lua, &table, "pack", pack)?;
    register(lua, &table, "unpack", |lua, args| {
        unpack(lua, args, 0, 0, false)
    })?;
    register(lua, &table, "unpack_one", |lua, args| {
        let offset = integer_or_zero(lua, args, 1)?;
        unpack(lua, args, 1, offset, true)
    })?;
    register(lua, &table, "unpack_limit", |lua, args| {
        string(lua, args, 0)?;
        let limit = number(lua, args, 1)? as i32;
        let offset = integer_or_zero(lua, args, 2)?;
        // Both zero ask for everything, as `unpack` does.
        unpack(lua, args, limit as i64, offset, limit != 0 || offset != 0)
    })?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    // Programs may print these; they name the format's first implementation for Lua.
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

fn integer_or_zero(lua: &Lua, args: &[Value], at: usize) -> Result<i64, Refusal> {
    match args.get(at) {
        None | Some(Value::Nil) => Ok(0),
        Some(_) => Ok(number(lua, args, at)? as i32 as i64),
    }
}

fn pack(lua: &Lua, args: &[Value]) -> Outcome {
    if args.is_empty() {
        return Err(Refusal::Argument(0, "MessagePack pack needs input.".into()));
    }
    let mut out = Vec::new();
    for value in args {
        pack_value(value, 0, &mut out)?;
    }
    Ok(vec![Value::String(lua.create_string(&out)?)])
}

fn pack_value(value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), Refusal> {
    // Small tables that hold each other can stand for endless bytes.
    if out.len() > OUTPUT_BYTES_MAX {
        return Err(too_large());
    }
    match value {
        Value::Boolean(yes) => out.push(if *yes { 0xc3 } else { 0xc2 }),
        Value::Integer(n) => pack_integer(*n, out),
        Value::Number(n) => match exact_integer(*n) {
            Some(n) => pack_integer(n, out),
            None => pack_float(*n, out),
        },
        Value::String(text) => {
            let text = text.as_bytes();
            match text.len() {
                len @ 0..32 => out.push(0xa0 | len as u8),
                len @ 32..0x100 => out.extend([0xd9, len as u8]),
                len => push_length(len, [0xda, 0xdb], out),
            }
            out.extend_from_slice(&text);
        }
        Value::Table(table) if depth < PACK_DEPTH_MAX => pack_table(table, depth, out)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn pack_integer(n: i64, out: &mut Vec<u8>) {
    match n {
        0..0x80 => out.push(n as u8),
        0x80..0x100 => out.extend([0xcc, n as u8]),
        0x100..0x1_0000 => push_number(0xcd, (n as u16).to_be_bytes(), out),
        0x1_0000..0x1_0000_0000 => push_number(0xce, (n as u32).to_be_bytes(), out),
        0x1_0000_0000.. => push_number(0xcf, n.to_be_bytes(), out),
        -32..0 => out.push(n as u8),
        -0x80..-32 => out.extend([0xd0, n as u8]),
        -0x8000..-0x80 => push_number(0xd1, (n as i16).to_be_bytes(), out),
        -0x8000_0000..-0x8000 => push_number(0xd2, (n as i32).to_be_bytes(), out),
        _ => push_number(0xd3, n.to_be_bytes(), out),
    }
}

fn pack_float(n: f64, out: &mut Vec<u8>) {
    if n as f32 as f64 == n {
        push_number(0xca, (n as f32).to_be_bytes(), out);
    } else {
        push_number(0xcb, n.to_be_bytes(), out);
    }
}

fn push_number<const N: usize>(marker: u8, bytes: [u8; N], out: &mut Vec<u8>) {
    out.push(marker);
    out.extend(bytes);
}

/// A length that no short form has, with the marker for 16 bits or for 32.
fn push_length(len: usize, markers: [u8; 2], out: &mut Vec<u8>) {
    if len < 0x1_0000 {
        push_number(markers[0], (len as u16).to_be_bytes(), out);
    } else {
        push_number(markers[1], (len as u32).to_be_bytes(), out);
    }
}

fn pack_table(table: &Table, depth: usize, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let (mut count, mut max) = (0_usize, 0_f64);
    let mut is_array = true;
    table.for_each(|key: Value, _: Value| {
        match number_of(&key).filter(|n| *n > 0.0 && n.trunc() == *n) {
            Some(n) => max = max.max(n),
            None => is_array = false,
        }
        count += 1;
        Ok(())
    })?;
    if is_array && max == count as f64 {
        match count {
            0..16 => out.push(0x90 | count as u8),
            _ => push_length(count, [0xdc, 0xdd], out),
        }
        for at in 1..=count {
            pack_value(&table.raw_get(at)?, depth + 1, out)?;
        }
        return Ok(());
    }
    match count {
        0..16 => out.push(0x80 | count as u8),
        _ => push_length(count, [0xde, 0xdf], out),
    }
    for pair in pairs(table) {
        let (key, value) = pair?;
        pack_value(&key, depth + 1, out)?;
        pack_value(&value, depth + 1, out)?;
    }
    Ok(())
}

/// Unpacks up to `limit` values from `offset` on, and gives the offset of what follows first (-1 at
/// the end); or, unless `is_partial`, all values and nothing else.
fn unpack(lua: &Lua, args: &[Value], limit: i64, offset: i64, is_partial: bool) -> Outcome {
    let text = string(lua, args, 0)?;
    let text = text.as_bytes();
    if offset < 0 || limit < 0 {
        // Redis: it names the length of the input here and calls that the limit.
        let len = text.len();
        return Err(Refusal::message(format!(
            "Invalid request to unpack with offset of {offset} and limit of {len}."
        )));
    }
    if offset as usize > text.len() {
        let len = text.len();
        return Err(Refusal::message(format!(
            "Start offset {offset} greater than input length {len}."
        )));
    }
    let mut input = Input {
        lua,
        bytes: &text,
        at: offset as usize,
    };
    let mut values = Vec::new();
    while input.at < text.len() && (!is_partial || (values.len() as i64) < limit) {
        if values.len() >= RESULTS_MAX {
            return Err(Refusal::message(TOO_MANY));
        }
        values.push(input.value(0)?);
    }
    if is_partial {
        let is_at_end = input.at == text.len();
        let next = if is_at_end { -1 } else { input.at as i64 };
        values.insert(0, Value::Integer(next));
    }
    Ok(values)
}

struct Input<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn take(&mut self, len: usize) -> Result<&[u8], Refusal> {
        let taken = self.bytes[self.at..].get(..len);
        let taken = taken.ok_or_else(|| Refusal::message("Missing bytes in input."))?;
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        Ok(self.take(N)?.try_into().expect("as many were taken"))
    }

    /// An unsigned number of 1, 2, 4 or 8 bytes.
    fn unsigned(&mut self, len: usize) -> Result<u64, Refusal> {
        let bytes = self.take(len)?;
        Ok(bytes
            .iter()
            .fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Refusal> {
        let marker = self.take(1)?[0];
        Ok(match marker {
            0x00..=0x7f => Value::Integer(i64::from(marker)),
            0xe0..=0xff => Value::Integer(i64::from(marker as i8)),
            0x80..=0x8f => self.map(usize::from(marker & 15), depth)?,
            0x90..=0x9f => self.sequence(usize::from(marker & 15), depth)?,
            0xa0..=0xbf => self.text(usize::from(marker & 31))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => Value::Number(f64::from(f32::from_be_bytes(self.array()?))),
            0xcb => Value::Number(f64::from_be_bytes(self.array()?)),
            // The largest unsigned numbers come out negative.
            0xcc..=0xcf => Value::Integer(self.unsigned(1 << (marker - 0xcc))? as i64),
            0xd0 => Value::Integer(i64::from(self.array::<1>()?[0] as i8)),
            0xd1 => Value::Integer(i64::from(i16::from_be_bytes(self.array()?))),
            0xd2 => Value::Integer(i64::from(i32::from_be_bytes(self.array()?))),
            0xd3 => Value::Integer(i64::from_be_bytes(self.array()?)),
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (marker - 0xd9))?;
                self.text(len as usize)?
            }
            0xdc | 0xdd => {
                let len = self.unsigned(2 << (marker - 0xdc))?;
                self.sequence(len as usize, depth)?
            }
            0xde | 0xdf => {
                let len = self.unsigned(2 << (marker - 0xde))?;
                self.map(len as usize, depth)?
            }
            _ => return Err(Refusal::message("Bad data format in input.")),
        })
    }

    fn text(&mut self, len: usize) -> Result<Value, Refusal> {
        let lua = self.lua;
        Ok(Value::String(lua.create_string(self.take(len)?)?))
    }

    fn sequence(&mut self, len: usize, depth: usize) -> Result<Value, Refusal> {
        check_depth(depth, "mp_decode_to_lua_array")?;
        let table = self.lua.create_table()?;
        for at in 1..=len {
            // Each value takes a byte at least, so an announced length ends with the input.
            let value = self.value(depth + 1)?;
            table.raw_set(at, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> Result<Value, Refusal> {
        check_depth(depth, "mp_decode_to_lua_hash")?;
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            match key {
                Value::Nil => return Err(Refusal::Bare(b"table index is nil".to_vec())),
                Value::Number(n) if n.is_nan() => {
                    return Err(Refusal::Bare(b"table index is NaN".to_vec()));
                }
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}

fn check_depth(depth: usize, what: &str) -> Result<(), Refusal> {
    if depth < UNPACK_DEPTH_MAX {
        return Ok(());
    }
    Err(Refusal::message(format!(
        "stack overflow (in function {what})"
    )))
}
