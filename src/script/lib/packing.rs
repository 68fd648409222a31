//! `struct`: numbers and strings as bytes, by a format.
//!
//! A format is a row of options: `<` and `>` choose the order of bytes, `!n` the alignment, and
//! each of the others reads or writes one value (`x` a byte of padding). `cn` is a string of n
//! bytes; with n = 0, the whole string, or as long as the value before it says.

use mlua::{Lua, Table, Value};

use super::super::native::{
    OUTPUT_BYTES_MAX, Outcome, Refusal, number, number_of, register, string, too_large, truncated,
};

/// The widest integer, in bytes.
const INTEGER_SIZE_MAX: usize = 32;
/// The alignment of `!` without a number.
const ALIGNMENT: usize = 8;
/// How many values one call gives at most; they are on Lua's stack, which has 8,000 places.
const RESULTS_MAX: usize = 7_000;

/// The library's table.
pub(in super::super) fn open(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    register(lua, &table, "pack", pack)?;
    register(lua, &table, "unpack", unpack)?;
    register(lua, &table, "size", size)?;
    Ok(table)
}

/// Reads options off a format.
struct Format<'a> {
    text: &'a [u8],
    at: usize,
    is_big_endian: bool,
    alignment: usize,
}

/// An option with its size in bytes, 0 if that is not fixed.
struct Item {
    option: u8,
    size: usize,
}

impl<'a> Format<'a> {
    /// The format in a string, which ends at a zero byte.
    fn new(text: &'a [u8]) -> Format<'a> {
        let end = memchr::memchr(0, text).unwrap_or(text.len());
        Format {
            text: &text[..end],
            at: 0,
            is_big_endian: false,
            alignment: 1,
        }
    }

    /// The next option that is no setting. Before each setting, `check` is made.
    fn next(&mut self, check: impl Fn() -> Result<(), Refusal>) -> Result<Option<Item>, Refusal> {
        while let Some(&option) = self.text.get(self.at) {
            self.at += 1;
            if matches!(option, b'<' | b'>' | b' ' | b'!') {
                check()?;
            }
            let size = match option {
                b'<' | b'>' => {
                    self.is_big_endian = option == b'>';
                    continue;
                }
                b' ' => continue,
                b'!' => {
                    let alignment = self.count(ALIGNMENT)?;
                    if !alignment.is_power_of_two() {
                        return Err(Refusal::message(format!(
                            "alignment {alignment} is not a power of 2"
                        )));
                    }
                    self.alignment = alignment;
                    continue;
                }
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'f' => 4,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'c' => self.count(1)?,
                b'i' | b'I' => {
                    let size = self.count(4)?;
                    if size > INTEGER_SIZE_MAX {
                        return Err(Refusal::message(format!(
                            "integral size {size} is larger than limit of {INTEGER_SIZE_MAX}"
                        )));
                    }
                    size
                }
                _ => 0,
            };
            return Ok(Some(Item { option, size }));
        }
        Ok(None)
    }

    /// The number after an option.
    fn count(&mut self, default: usize) -> Result<usize, Refusal> {
        let rest = &self.text[self.at..];
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 {
            return Ok(default);
        }
        self.at += len;
        let overflow = || Refusal::message("integral size overflow");
        let text = std::str::from_utf8(&rest[..len]).expect("digits are text");
        let count: i32 = text.parse().map_err(|_| overflow())?;
        Ok(count as usize)
    }

    /// How many bytes are skipped before an item so that it is aligned.
    fn padding(&self, at: usize, item: &Item) -> usize {
        if item.size == 0 || item.option == b'c' {
            return 0;
        }
        let to = item.size.min(self.alignment);
        // A size that is no power of two aligns as this masking does, which programs rely on.
        (to.wrapping_sub(at & (to - 1))) & (to - 1)
    }
}

fn invalid(option: u8) -> Refusal {
    Refusal::Argument(
        1,
        [b"invalid format option '", &[option][..], b"'"].concat(),
    )
}

fn size(lua: &Lua, args: &[Value]) -> Outcome {
    let text = string(lua, args, 0)?;
    let text = text.as_bytes();
    let mut format = Format::new(&text);
    let mut total = 0;
    while let Some(item) = format.next(|| Ok(()))? {
        if !item.option.is_ascii_alphanumeric() {
            return Err(invalid(item.option));
        }
        let what = match item.option {
            b's' => Some("s"),
            b'c' if item.size == 0 => Some("c0"),
            _ => None,
        };
        if let Some(what) = what {
            let text = format!("option '{what}' has no fixed size");
            return Err(Refusal::Argument(1, text.into()));
        }
        total += format.padding(total, &item) + item.size;
    }
    Ok(vec![Value::Integer(total as i64)])
}

fn pack(lua: &Lua, args: &[Value]) -> Outcome {
    let text = string(lua, args, 0)?;
    let text = text.as_bytes();
    let mut format = Format::new(&text);
    let mut out = Vec::new();
    let mut arg = 1;
    while let Some(item) = format.next(|| Ok(()))? {
        out.resize(out.len() + format.padding(out.len(), &item), 0);
        pack_item(lua, args, &mut arg, &format, &item, &mut out)?;
        if out.len() > OUTPUT_BYTES_MAX {
            return Err(too_large());
        }
    }
    Ok(vec![Value::String(lua.create_string(out)?)])
}

fn pack_item(
    lua: &Lua,
    args: &[Value],
    arg: &mut usize,
    format: &Format,
    item: &Item,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let at = *arg;
    *arg += usize::from(item.option != b'x');
    // The library's stack holds a nil after the arguments.
    let padded;
    let args = if at == args.len() && item.option != b'x' {
        padded = [args, &[Value::Nil]].concat();
        &padded
    } else {
        args
    };
    match item.option {
        b'x' => out.push(0),
        b's' | b'c' => {
            let text = string(lua, args, at)?;
            let text = text.as_bytes();
            let len = if item.size == 0 {
                text.len()
            } else {
                item.size
            };
            let Some(taken) = text.get(..len) else {
                return Err(Refusal::Argument(at + 1 + 1, "string too short".into()));
            };
            out.extend_from_slice(taken);
            if item.option == b's' {
                out.push(0);
            }
        }
        b'f' => {
            let bytes = (number(lua, args, at)? as f32).to_le_bytes();
            push_ordered(&bytes, format.is_big_endian, out);
        }
        b'd' => {
            let bytes = number(lua, args, at)?.to_le_bytes();
            push_ordered(&bytes, format.is_big_endian, out);
        }
        b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
            let mut bytes = [0; INTEGER_SIZE_MAX];
            bytes[..8].copy_from_slice(&integer_bits(number(lua, args, at)?).to_le_bytes());
            push_ordered(&bytes[..item.size], format.is_big_endian, out);
        }
        other => return Err(invalid(other)),
    }
    Ok(())
}

/// The 64 bits of a number: of its integer, which may be unsigned.
fn integer_bits(n: f64) -> u64 {
    const SIGNED_END: f64 = 9_223_372_036_854_775_808.0;
    if n < SIGNED_END || n.is_nan() {
        return truncated(n) as u64;
    }
    // What C's conversion to unsigned gives on x86-64: beyond 2^64 there are no bits left.
    let above = n - SIGNED_END;
    (truncated(above) as u64) ^ (1 << 63)
}

fn push_ordered(little_endian: &[u8], is_big_endian: bool, out: &mut Vec<u8>) {
    if is_big_endian {
        out.extend(little_endian.iter().rev());
    } else {
        out.extend(little_endian);
    }
}

fn unpack(lua: &Lua, args: &[Value]) -> Outcome {
    let text = string(lua, args, 0)?;
    let text = text.as_bytes();
    let data = string(lua, args, 1)?;
    let data = data.as_bytes();
    let start = match args.get(2) {
        None | Some(Value::Nil) => 1,
        Some(_) => truncated(number(lua, args, 2)?),
    };
    if start == 0 {
        return Err(Refusal::Argument(3, "offset must be 1 or greater".into()));
    }
    let mut format = Format::new(&text);
    // A negative offset is far behind the end, as it is taken without its sign.
    let mut at = usize::try_from(start - 1).unwrap_or(usize::MAX / 2);
    let mut values: Vec<Value> = Vec::new();
    let in_data = |at: usize| {
        if at > data.len() {
            Err(too_short())
        } else {
            Ok(())
        }
    };
    while let Some(item) = format.next(|| in_data(at))? {
        if values.len() >= RESULTS_MAX {
            return Err(Refusal::message("stack overflow (too many results)"));
        }
        at += format.padding(at, &item);
        in_data(at)?;
        let rest = &data[at..];
        if item.size > rest.len() {
            return Err(too_short());
        }
        at += unpack_item(lua, &format, &item, rest, &mut values)?;
    }
    // With an empty format, the offset may be any number.
    values.push(Value::Integer((at as i64).wrapping_add(1)));
    Ok(values)
}

fn too_short() -> Refusal {
    Refusal::Argument(2, "data string too short".into())
}

/// Reads one item from the front of `rest`, which has as many bytes; tells how many it took.
fn unpack_item(
    lua: &Lua,
    format: &Format,
    item: &Item,
    rest: &[u8],
    values: &mut Vec<Value>,
) -> Result<usize, Refusal> {
    let bytes = &rest[..item.size];
    let value = match item.option {
        b'x' => return Ok(1),
        b's' => {
            let end = memchr::memchr(0, rest);
            let end = end.ok_or_else(|| Refusal::message("unfinished string in data"))?;
            values.push(Value::String(lua.create_string(&rest[..end])?));
            return Ok(end + 1);
        }
        b'c' => {
            let len = if item.size == 0 {
                let before = values.last().and_then(number_of);
                let before =
                    before.ok_or_else(|| Refusal::message("format 'c0' needs a previous size"))?;
                values.pop();
                integer_bits(before) as usize
            } else {
                item.size
            };
            let text = rest.get(..len).ok_or_else(too_short)?;
            values.push(Value::String(lua.create_string(text)?));
            return Ok(len);
        }
        b'f' => {
            let bits = unsigned(bytes, format.is_big_endian) as u32;
            Value::Number(f64::from(f32::from_bits(bits)))
        }
        b'd' => Value::Number(f64::from_bits(unsigned(bytes, format.is_big_endian))),
        b'B' | b'H' | b'L' | b'T' | b'I' => {
            Value::Number(unsigned(bytes, format.is_big_endian) as f64)
        }
        b'b' | b'h' | b'l' | b'i' => {
            let bits = unsigned(bytes, format.is_big_endian);
            // The sign of a shorter integer is carried upwards.
            let shift = 64_u32.saturating_sub(8 * item.size as u32) & 63;
            Value::Number(((bits << shift) as i64 >> shift) as f64)
        }
        other => return Err(invalid(other)),
    };
    values.push(value);
    Ok(item.size)
}

/// The lowest 64 bits of an integer of any size.
fn unsigned(bytes: &[u8], is_big_endian: bool) -> u64 {
    let mut all = 0;
    for at in 0..bytes.len() {
        let at = if is_big_endian {
            at
        } else {
            bytes.len() - 1 - at
        };
        all = all << 8 | u64::from(bytes[at]);
    }
    all
}
