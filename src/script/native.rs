//! Functions of Rust for scripts: their arguments, read by Lua's rules, and their errors.
//!
//! An error is a [`Refusal`]. It crosses Lua as a userdata of mlua's and is made a value that a
//! script may see by [`plain`].

use std::fmt;

use mlua::{Function, Lua, LuaString, Table, Value, Variadic};

use super::Words;
use super::decimal::format_g;
use crate::value::number::format_f64;

/// Bytes of a Lua chunk's name that are quoted.
const SOURCE_BYTES_QUOTED: usize = 60;
/// How far up the stack the script's line is looked for: shorter than any loop over a deep stack.
const STACK_LEVELS_MAX: usize = 64;
/// The name of the prelude's chunk, whose frames no error names.
pub(super) const PRELUDE_NAME: &str = "=[lua]";

/// No text that a library makes is longer, in bytes. It is made outside of Lua's memory and its
/// limit, and goes there when it is complete.
pub(super) const OUTPUT_BYTES_MAX: usize = 128 << 20;

/// What a function gives to the script.
pub(super) type Outcome = Result<Vec<Value>, Refusal>;

/// Why a function fails.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// A message to which the script's line is added.
    Message(Vec<u8>),
    /// An argument is wrong: its number, and how.
    Argument(usize, Vec<u8>),
    /// A message without a line.
    Bare(Vec<u8>),
    /// A table with this as `err`; its line is completed where it is caught.
    Reply {
        /// The error line.
        line: Vec<u8>,
        /// It is the reply of a command.
        is_of_command: bool,
    },
    /// Lua failed: out of memory.
    Lua(mlua::Error),
}

impl Refusal {
    pub(super) fn message(text: impl Into<Vec<u8>>) -> Refusal {
        Refusal::Message(text.into())
    }

    pub(super) fn reply(line: impl Into<Vec<u8>>) -> Refusal {
        Refusal::Reply {
            line: line.into(),
            is_of_command: false,
        }
    }
}

impl From<mlua::Error> for Refusal {
    fn from(error: mlua::Error) -> Refusal {
        Refusal::Lua(error)
    }
}

/// The error for a text of more than [`OUTPUT_BYTES_MAX`].
pub(super) fn too_large() -> Refusal {
    Refusal::Bare(b"not enough memory".to_vec())
}

/// What crosses Lua.
#[derive(Debug)]
struct Raised(Refusal);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Raised {}

/// Makes a function of Lua and puts it into a table.
pub(super) fn register(
    lua: &Lua,
    table: &Table,
    name: &'static str,
    f: impl Fn(&Lua, &[Value]) -> Outcome + 'static,
) -> mlua::Result<()> {
    table.raw_set(name, function(lua, name, f)?)
}

fn function(
    lua: &Lua,
    name: &'static str,
    f: impl Fn(&Lua, &[Value]) -> Outcome + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, args: Variadic<Value>| match f(lua, &args) {
        Ok(values) => Ok(Variadic::from(values)),
        Err(refusal) => Err(raised(lua, name, refusal)),
    })
}

/// The error that carries a refusal, completed by the place from which the running function was
/// called.
#[cold]
fn raised(lua: &Lua, name: &str, refusal: Refusal) -> mlua::Error {
    let refusal = match refusal {
        Refusal::Lua(error) => return error,
        Refusal::Argument(at, text) => {
            let before = format!("{}bad argument #{at} to '{name}' (", caller(lua));
            Refusal::Bare([before.as_bytes(), &text, b")"].concat())
        }
        Refusal::Message(text) => Refusal::Bare([caller(lua).as_bytes(), &text].concat()),
        other => other,
    };
    mlua::Error::external(Raised(refusal))
}

/// `user_script:1: ` if a function of Lua called the running one.
fn caller(lua: &Lua) -> String {
    let place = lua.inspect_stack(1, |debug| {
        let line = debug.current_line()?;
        Some((debug.source().short_src?.into_owned(), line))
    });
    match place.flatten() {
        Some((source, line)) => format!("{source}:{line}: "),
        None => String::new(),
    }
}

/// The source and line of the innermost function of a script, and the source as messages have it.
pub(super) fn place(lua: &Lua) -> Option<(String, usize, String)> {
    for level in 1..STACK_LEVELS_MAX {
        let found = lua.inspect_stack(level, |debug| {
            let line = debug.current_line()?;
            let source = debug.source().source?;
            (source != PRELUDE_NAME).then(|| {
                let short: String = source.chars().take(SOURCE_BYTES_QUOTED).collect();
                let shown = debug.source().short_src.map(|source| source.into_owned());
                (short, line, shown.unwrap_or_default())
            })
        })?;
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The value that a script sees of an error.
pub(super) fn plain(lua: &Lua, err: Value) -> mlua::Result<Value> {
    let Value::Error(error) = err else {
        return Ok(err);
    };
    if let Some(Raised(refusal)) = error.downcast_ref::<Raised>() {
        return match refusal {
            Refusal::Bare(text) | Refusal::Message(text) => {
                Ok(Value::String(lua.create_string(text)?))
            }
            Refusal::Reply {
                line,
                is_of_command,
            } => Ok(Value::Table(error_table(lua, line, *is_of_command)?)),
            Refusal::Argument(_, text) => Ok(Value::String(lua.create_string(text)?)),
            Refusal::Lua(_) => unreachable!("it is raised as itself"),
        };
    }
    Ok(Value::String(lua.create_string(describe(&error))?))
}

/// The table that stands for an error.
pub(super) fn error_table(lua: &Lua, line: &[u8], is_of_command: bool) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(line)?)?;
    if is_of_command {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(table)
}

/// One line about an error of mlua's own.
pub(super) fn describe(error: &mlua::Error) -> String {
    match error {
        mlua::Error::MemoryError(_) => "not enough memory".into(),
        mlua::Error::CallbackError { cause, .. } => describe(cause),
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => {
            message.lines().next().unwrap_or_default().into()
        }
        other => other.to_string().lines().next().unwrap_or_default().into(),
    }
}

/// The name of a value's type, as messages have it; "no value" if there is none.
pub(super) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::Nil) => "nil",
        Some(Value::Boolean(_)) => "boolean",
        Some(Value::Integer(_) | Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Table(_)) => "table",
        Some(Value::Function(_)) => "function",
        Some(Value::Thread(_)) => "thread",
        Some(_) => "userdata",
    }
}

/// The pairs of a table, without metamethods, one at a time: each value that is held takes one of
/// the 8,000 places on a stack of mlua's. Between two of them no protected call is open, of which
/// Lua allows 200 within each other.
pub(super) fn pairs(table: &Table) -> mlua::table::TablePairs<'_, Value, Value> {
    table.pairs()
}

/// How many pairs a table has.
pub(super) fn pairs_len(table: &Table) -> mlua::Result<usize> {
    let mut len = 0;
    table.for_each(|_: Value, _: Value| {
        len += 1;
        Ok(())
    })?;
    Ok(len)
}

/// A value that is a number, not one that can be made a number.
pub(super) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Number(n) => Some(*n),
        _ => None,
    }
}

/// An integer that a number is exactly.
pub(super) fn exact_integer(n: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let fits = (-LIMIT..LIMIT).contains(&n) && n.trunc() == n;
    fits.then_some(n as i64)
}

/// What C makes of a double where it wants an integer: without its fraction, and the smallest one
/// if none fits.
pub(super) fn truncated(n: f64) -> i64 {
    exact_integer(n.trunc()).unwrap_or(i64::MIN)
}

/// The argument of an index (from 0) as a number; strings that are numbers are.
pub(super) fn number(lua: &Lua, args: &[Value], at: usize) -> Result<f64, Refusal> {
    let value = args.get(at);
    if let Some(n) = value.and_then(number_of) {
        return Ok(n);
    }
    if let Some(text @ Value::String(_)) = value
        && let Some(n) = lua.coerce_number(text.clone())?
    {
        return Ok(n);
    }
    let got = type_name(value);
    Err(Refusal::Argument(
        at + 1,
        format!("number expected, got {got}").into(),
    ))
}

/// The argument of an index (from 0) as a string; numbers are printed.
pub(super) fn string(lua: &Lua, args: &[Value], at: usize) -> Result<LuaString, Refusal> {
    let value = args.get(at);
    if let Some(Value::String(text)) = value {
        return Ok(text.clone());
    }
    if let Some(n) = value.and_then(number_of) {
        return Ok(lua.create_string(format_g(n, 14))?);
    }
    let got = type_name(value);
    Err(Refusal::Argument(
        at + 1,
        format!("string expected, got {got}").into(),
    ))
}

/// Adds a number to a command, as the text that Redis makes of it; false if it has no room.
pub(super) fn push_number(words: &mut Words, n: f64) -> bool {
    match exact_integer(n) {
        Some(n) => words.push(itoa::Buffer::new().format(n).as_bytes()),
        None if n.is_nan() && n.is_sign_negative() => words.push(b"-nan"),
        None => words.push(&format_f64(n)),
    }
}
