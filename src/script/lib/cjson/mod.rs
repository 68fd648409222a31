//! `cjson`: JSON, with the library's own settings and leniences.

mod decode;
mod encode;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::super::native::{Refusal, number, register, string, truncated};

/// Nesting is never deeper than this, whatever the settings say: the stack of the process.
const DEPTH_MAX: u32 = 1_500;

/// What the functions named `encode_...` and `decode_...` set.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Config {
    encode_depth_max: u32,
    decode_depth_max: u32,
    precision: u32,
    sparse: Sparse,
    /// One of [`INVALID_NUMBERS`].
    encode_invalid_numbers: usize,
    decode_invalid_numbers: bool,
    keep_buffer: bool,
}

/// When a table with holes is no array: if its largest index is above `safe` and above `ratio`
/// times its number of elements (never, if that is 0).
#[derive(Clone, Copy, Debug)]
struct Sparse {
    /// It is an object then, instead of an error.
    convert: bool,
    ratio: u32,
    safe: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            encode_depth_max: 1_000,
            decode_depth_max: 1_000,
            precision: 14,
            sparse: Sparse {
                convert: false,
                ratio: 2,
                safe: 10,
            },
            encode_invalid_numbers: 0,
            decode_invalid_numbers: true,
            keep_buffer: true,
        }
    }
}

const OFF_ON: [&str; 2] = ["off", "on"];
/// What becomes of infinity and what is no number: an error, its name, null.
const INVALID_NUMBERS: [&str; 3] = ["off", "on", "null"];

/// The library's table. Its settings last for a run; `config` is their place.
pub(in super::super) fn open(lua: &Lua, config: &Rc<Cell<Config>>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    register_codecs(lua, &table, config)?;
    register_depths(lua, &table, config)?;
    register_number_settings(lua, &table, config)?;
    register(lua, &table, "new", |lua, _| {
        Ok(vec![Value::Table(open(lua, &Rc::default())?)])
    })?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn register_codecs(lua: &Lua, table: &Table, config: &Rc<Cell<Config>>) -> mlua::Result<()> {
    let place = Rc::clone(config);
    register(lua, table, "encode", move |lua, args| {
        let [value] = args else {
            return Err(Refusal::Argument(1, "expected 1 argument".into()));
        };
        let text = encode::encode(value, &place.get())?;
        Ok(vec![Value::String(lua.create_string(text)?)])
    })?;
    let place = Rc::clone(config);
    register(lua, table, "decode", move |lua, args| {
        if args.len() != 1 {
            return Err(Refusal::Argument(1, "expected 1 argument".into()));
        }
        let text = string(lua, args, 0)?;
        let value = decode::decode(lua, &text.as_bytes(), &place.get())?;
        Ok(vec![value])
    })
}

fn register_depths(lua: &Lua, table: &Table, config: &Rc<Cell<Config>>) -> mlua::Result<()> {
    type Field = fn(&mut Config) -> &mut u32;
    let settings: [(&'static str, Field, u32); 3] = [
        (
            "encode_max_depth",
            |config| &mut config.encode_depth_max,
            i32::MAX as u32,
        ),
        (
            "decode_max_depth",
            |config| &mut config.decode_depth_max,
            i32::MAX as u32,
        ),
        (
            "encode_number_precision",
            |config| &mut config.precision,
            14,
        ),
    ];
    for (name, field, max) in settings {
        let place = Rc::clone(config);
        register(lua, table, name, move |lua, args| {
            check_count(args, 1)?;
            let mut config = place.get();
            if let Some(value) = integer_setting(lua, args, 0, 1, max)? {
                *field(&mut config) = value;
            }
            place.set(config);
            Ok(vec![Value::Integer(i64::from(*field(&mut config)))])
        })?;
    }
    let place = Rc::clone(config);
    register(lua, table, "encode_sparse_array", move |lua, args| {
        check_count(args, 3)?;
        let mut config = place.get();
        let sparse = &mut config.sparse;
        if let Some(choice) = choice(lua, args, &OFF_ON)? {
            sparse.convert = choice == 1;
        }
        let max = i32::MAX as u32;
        sparse.ratio = integer_setting(lua, args, 1, 0, max)?.unwrap_or(sparse.ratio);
        sparse.safe = integer_setting(lua, args, 2, 0, max)?.unwrap_or(sparse.safe);
        place.set(config);
        let Sparse {
            convert,
            ratio,
            safe,
        } = config.sparse;
        Ok(vec![
            Value::Boolean(convert),
            Value::Integer(i64::from(ratio)),
            Value::Integer(i64::from(safe)),
        ])
    })
}

fn register_number_settings(
    lua: &Lua,
    table: &Table,
    config: &Rc<Cell<Config>>,
) -> mlua::Result<()> {
    let place = Rc::clone(config);
    register(lua, table, "encode_invalid_numbers", move |lua, args| {
        check_count(args, 1)?;
        let mut config = place.get();
        if let Some(choice) = choice(lua, args, &INVALID_NUMBERS)? {
            config.encode_invalid_numbers = choice;
        }
        place.set(config);
        Ok(vec![match config.encode_invalid_numbers {
            2 => Value::String(lua.create_string(INVALID_NUMBERS[2])?),
            on => Value::Boolean(on == 1),
        }])
    })?;
    type Field = fn(&mut Config) -> &mut bool;
    // Whether a buffer is kept between calls cannot be seen, so the setting is only remembered.
    let settings: [(&'static str, Field); 2] = [
        ("decode_invalid_numbers", |config| {
            &mut config.decode_invalid_numbers
        }),
        ("encode_keep_buffer", |config| &mut config.keep_buffer),
    ];
    for (name, field) in settings {
        let place = Rc::clone(config);
        register(lua, table, name, move |lua, args| {
            check_count(args, 1)?;
            let mut config = place.get();
            if let Some(choice) = choice(lua, args, &OFF_ON)? {
                *field(&mut config) = choice == 1;
            }
            place.set(config);
            Ok(vec![Value::Boolean(*field(&mut config))])
        })?;
    }
    Ok(())
}

fn check_count(args: &[Value], max: usize) -> Result<(), Refusal> {
    if args.len() <= max {
        return Ok(());
    }
    Err(Refusal::Argument(
        max + 1,
        "found too many arguments".into(),
    ))
}

/// The argument of an index (from 0) as an integer within limits; None if it is nil.
fn integer_setting(
    lua: &Lua,
    args: &[Value],
    at: usize,
    min: u32,
    max: u32,
) -> Result<Option<u32>, Refusal> {
    if let None | Some(Value::Nil) = args.get(at) {
        return Ok(None);
    }
    let value = truncated(number(lua, args, at)?);
    if value < i64::from(min) || value > i64::from(max) {
        // The library names the first argument, whichever it is.
        let text = format!("expected integer between {min} and {max}");
        return Err(Refusal::Argument(1, text.into()));
    }
    Ok(Some(value as u32))
}

/// The first argument as one of some words, or a boolean for the first two; None if it is nil.
fn choice(lua: &Lua, args: &[Value], words: &[&str]) -> Result<Option<usize>, Refusal> {
    match args.first() {
        None | Some(Value::Nil) => return Ok(None),
        Some(Value::Boolean(on)) => return Ok(Some(usize::from(*on))),
        Some(_) => {}
    }
    let word = string(lua, args, 0)?;
    let word = word.as_bytes();
    let found = words.iter().position(|known| known.as_bytes() == &word[..]);
    if found.is_none() {
        let word = String::from_utf8_lossy(&word);
        let text = format!("invalid option '{word}'");
        return Err(Refusal::Argument(1, text.into()));
    }
    Ok(found)
}
