//! What scripts and the server hand each other most, on Lua's own stack: KEYS and ARGV, and
//! `redis.call` and `redis.pcall`, which read a command's words where they lie and make its reply
//! there.
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
//! Through mlua's values, each of which takes a place on a stack of its own, this took longer: CPU
//! at pipeline 64 of `return 1` 0.53 us instead of 0.43, of one GET 1.20 instead of 0.80, of a
//! token bucket, which calls three commands, 3.77 instead of 2.70; and no command could have more
//! than 7,890 words (benches/peers.py, scripts).
//!
//! Where Lua has no memory it leaves by a jump to the innermost protected call, over the frames of
//! the functions below ([`answer`] and what it calls). So these own nothing: what has to be given
//! back is in [`Exchange`], or is made and dropped within [`ask`], which asks nothing of Lua that
//! may fail.

#![allow(unsafe_code, reason = "Lua's stack is reached by functions of C")]

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, Table};

use super::Words;
use super::native::push_number;
use super::sandbox::{HOST, Shared};
use crate::resp::output::Output;
use crate::value::number::{parse_f64_saturating, parse_i64};

/// Replies of commands are never nested deeper.
const DEPTH_MAX: usize = 128;
/// Places on the stack that a value needs, its tables included.
const PLACES: c_int = 8;

/// A command and its reply, in buffers that are used again.
#[derive(Default)]
pub(super) struct Exchange {
    words: Words,
    reply: Output,
    /// The reply, if it did not lie together.
    joined: Vec<u8>,
}

impl Exchange {
    /// Forgets both.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.reply.clear();
        self.joined = Vec::new();
    }

    fn reply(&self) -> &[u8] {
        if self.joined.is_empty() {
            self.reply.front()
        } else {
            &self.joined
        }
    }
}

/// Adds the functions to a table. `shared` must live as long as Lua does.
pub(super) fn add(lua: &Lua, functions: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    let all: [(&str, ffi::lua_CFunction); 3] = [("given", given), ("call", call), ("pcall", pcall)];
    for (name, function) in all {
        let place = Rc::as_ptr(shared).cast_mut().cast();
        let push = |state| {
            // SAFETY: mlua has made sure of three places on the stack. What is left there is what
            // it takes as the result.
            unsafe {
                ffi::lua_pushlightuserdata(state, place);
                ffi::lua_pushcclosure(state, function, 1);
            }
        };
        // SAFETY: see there.
        let function: Function = unsafe { lua.exec_raw((), push)? };
        functions.raw_set(name, function)?;
    }
    Ok(())
}

/// Leaves KEYS and ARGV on the stack.
unsafe extern "C-unwind" fn given(state: *mut lua_State) -> c_int {
    let stack = Stack(state);
    // SAFETY: Lua calls it as a closure that `add` has made. Nothing writes to what is given while
    // the script runs, and no frame from here on owns anything.
    unsafe {
        let (words, keys) = &*stack.shared().given.as_ptr();
        let (mut words, len) = (words.iter(), words.ranges().len());
        for len in [*keys, len - *keys] {
            stack.push_table(len, 0);
            for at in 1..=len {
                stack.push_bytes(words.next().unwrap_or_default());
                ffi::lua_rawseti(state, -2, at as i64);
            }
        }
    }
    2
}

unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls it as a closure that `add` has made.
    unsafe { answer(Stack(state), true) }
}

unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls it as a closure that `add` has made.
    unsafe { answer(Stack(state), false) }
}

/// Runs the command on the stack and leaves its value there; or an error, which is raised or is the
/// value.
///
/// SAFETY: called by Lua as a closure that `add` has made.
unsafe fn answer(stack: Stack, raises: bool) -> c_int {
    // SAFETY: the caller's promise.
    let shared = unsafe { stack.shared() };
    // A panic must not pass the frames of C that lie between here and the loop.
    let asked = catch_unwind(AssertUnwindSafe(|| ask(stack, shared)));
    let Ok(asked) = asked else {
        std::process::abort();
    };
    // SAFETY: nothing writes to it before the next command: Lua is only given values to hold, and
    // nothing of ours runs when it drops others.
    let reply = unsafe { &*shared.exchange.as_ptr() }.reply();
    // SAFETY: no frame from here on owns anything.
    unsafe {
        // The words make room: Lua lets a function have 8,000 values.
        ffi::lua_settop(stack.0, 0);
        let line = match asked {
            Err(line) => (line.as_bytes(), false),
            Ok(()) => match reply {
                [b'-', line @ .., b'\r', b'\n'] => (line, true),
                _ => {
                    let mut reader = Reader { stack, rest: reply };
                    match reader.value(0) {
                        Ok(()) => return 1,
                        Err(Malformed) => (MALFORMED.as_bytes(), false),
                    }
                }
            },
        };
        stack.push_error(line.0, line.1);
        if raises {
            ffi::lua_error(stack.0);
        }
        1
    }
}

/// Runs the command; or the error line that says why it is none.
fn ask(stack: Stack, shared: &Shared) -> Result<(), &'static str> {
    let exchange = &mut *shared.exchange.borrow_mut();
    exchange.clear();
    let count = stack.len();
    if count == 0 {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    for at in 1..=count {
        let has_room = match stack.argument(at) {
            Some(Argument::String(text)) => exchange.words.push(text),
            Some(Argument::Number(n)) => push_number(&mut exchange.words, n),
            None => return Err("ERR Lua redis lib command arguments must be strings or integers"),
        };
        if !has_room {
            return Err("ERR not enough memory");
        }
    }
    let Exchange {
        words,
        reply,
        joined,
    } = exchange;
    HOST.with(|host| host.call(words, shared.protocol.get(), reply));
    if reply.front().len() != reply.len() {
        *joined = reply.take_all();
    }
    Ok(())
}

/// The stack of the function of Lua that runs.
#[derive(Clone, Copy)]
struct Stack(*mut lua_State);

/// A word of a command.
enum Argument<'a> {
    String(&'a [u8]),
    Number(f64),
}

impl Stack {
    /// What all functions share.
    ///
    /// SAFETY: the running function is a closure that `add` has made.
    unsafe fn shared<'a>(self) -> &'a Shared {
        // SAFETY: `add` has put it there, and the sandbox holds it as long as Lua.
        unsafe {
            let place = ffi::lua_touserdata(self.0, ffi::lua_upvalueindex(1));
            &*place.cast::<Shared>().cast_const()
        }
    }

    fn len(self) -> c_int {
        // SAFETY: the state runs this function.
        unsafe { ffi::lua_gettop(self.0) }
    }

    /// The value at `at`, from 1, if it is a string or a number. It stays where it is until the
    /// running function returns; nothing is taken off before.
    fn argument<'a>(self, at: c_int) -> Option<Argument<'a>> {
        // SAFETY: the state runs this function. A string's bytes do not move while it is on the
        // stack, and nothing is made of a string that is one already, nor of a number.
        unsafe {
            match ffi::lua_type(self.0, at) {
                ffi::LUA_TSTRING => {
                    let mut len = 0;
                    let start = ffi::lua_tolstring(self.0, at, &raw mut len);
                    let bytes = std::slice::from_raw_parts(start.cast::<u8>(), len);
                    Some(Argument::String(bytes))
                }
                ffi::LUA_TNUMBER => Some(Argument::Number(ffi::lua_tonumber(self.0, at))),
                _ => None,
            }
        }
    }

    /// SAFETY: for this and the functions below: no frame between the caller and Lua owns anything,
    /// and there is room on the stack.
    unsafe fn push_bytes(self, bytes: &[u8]) {
        // SAFETY: the caller's promise; Lua copies the bytes.
        unsafe {
            ffi::lua_pushlstring_(self.0, bytes.as_ptr().cast::<c_char>(), bytes.len());
        }
    }

    unsafe fn push_table(self, array: usize, named: usize) {
        let limit = |len: usize| c_int::try_from(len).unwrap_or(c_int::MAX);
        // SAFETY: the caller's promise.
        unsafe { ffi::lua_createtable(self.0, limit(array), limit(named)) };
    }

    /// The table that stands for an error. What a command has answered has been counted.
    unsafe fn push_error(self, line: &[u8], is_of_command: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            self.push_table(0, 1 + usize::from(is_of_command));
            self.push_bytes(b"err");
            self.push_bytes(line);
            ffi::lua_rawset(self.0, -3);
            if is_of_command {
                self.push_bytes(b"ignore_error_stats_update");
                ffi::lua_pushboolean(self.0, 1);
                ffi::lua_rawset(self.0, -3);
            }
        }
    }
}

/// The host's mistake, which must not end the server.
const MALFORMED: &str = "ERR a command's reply could not be read";

/// A reply that is none.
struct Malformed;

/// Makes values of a reply. It owns nothing.
struct Reader<'a> {
    stack: Stack,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Leaves the next value on the stack.
    ///
    /// SAFETY: for this and the functions below: no frame between the caller and Lua owns anything.
    unsafe fn value(&mut self, depth: usize) -> Result<(), Malformed> {
        let (marker, line) = self.line()?;
        let state = self.stack.0;
        if depth > DEPTH_MAX {
            return Err(Malformed);
        }
        // SAFETY: the caller's promise. There is room for what a value needs, less what it holds,
        // which makes room for itself.
        unsafe {
            ffi::luaL_checkstack(state, PLACES, c"too deep".as_ptr());
            match marker {
                b':' => ffi::lua_pushnumber(state, integer(line)? as f64),
                b'$' => match integer(line)? {
                    -1 => ffi::lua_pushboolean(state, 0),
                    len => self.stack.push_bytes(self.bulk(len)?),
                },
                b'+' => self.wrapped(b"ok", line),
                b'-' => self.stack.push_error(line, false),
                b'*' | b'>' => match integer(line)? {
                    -1 => ffi::lua_pushboolean(state, 0),
                    len => self.array(len, depth)?,
                },
                b'%' => self.map(integer(line)?, depth)?,
                b'~' => self.set(integer(line)?, depth)?,
                b'_' => ffi::lua_pushnil(state),
                b'#' => ffi::lua_pushboolean(state, c_int::from(line == b"t")),
                b',' => {
                    self.stack.push_table(0, 1);
                    self.stack.push_bytes(b"double");
                    ffi::lua_pushnumber(state, parse_f64_saturating(line).unwrap_or(f64::NAN));
                    ffi::lua_rawset(state, -3);
                }
                b'(' => self.wrapped(b"big_number", line),
                b'=' => self.verbatim(integer(line)?)?,
                b'|' => {
                    // Attributes are about the reply that follows, which is all that scripts get.
                    for _ in 0..2 * integer(line)? {
                        self.value(depth + 1)?;
                        ffi::lua_pop(state, 1);
                    }
                    self.value(depth + 1)?;
                }
                _ => return Err(Malformed),
            }
        }
        Ok(())
    }

    /// The marker and the text of the next line.
    fn line(&mut self) -> Result<(u8, &'a [u8]), Malformed> {
        let end = memchr::memchr(b'\r', self.rest).ok_or(Malformed)?;
        let (&marker, line) = self.rest[..end].split_first().ok_or(Malformed)?;
        self.rest = self.rest.get(end + 2..).ok_or(Malformed)?;
        Ok((marker, line))
    }

    fn bulk(&mut self, len: i64) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(len).map_err(|_| Malformed)?;
        let bytes = self.rest.get(..len).ok_or(Malformed)?;
        self.rest = self.rest.get(len + 2..).ok_or(Malformed)?;
        Ok(bytes)
    }

    unsafe fn wrapped(&self, name: &[u8], text: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe {
            self.stack.push_table(0, 1);
            self.stack.push_bytes(name);
            self.stack.push_bytes(text);
            ffi::lua_rawset(self.stack.0, -3);
        }
    }

    unsafe fn array(&mut self, len: i64, depth: usize) -> Result<(), Malformed> {
        // An element takes three bytes at least, so an announced length is one that is there.
        let room = (len.max(0) as usize).min(self.rest.len() / 3);
        // SAFETY: the caller's promise.
        unsafe {
            self.stack.push_table(room, 0);
            for at in 1..=len {
                self.value(depth + 1)?;
                ffi::lua_rawseti(self.stack.0, -2, at);
            }
        }
        Ok(())
    }

    unsafe fn map(&mut self, len: i64, depth: usize) -> Result<(), Malformed> {
        // SAFETY: the caller's promise.
        unsafe {
            self.stack.push_table(0, 1);
            self.stack.push_bytes(b"map");
            self.stack.push_table(0, 0);
            for _ in 0..len {
                self.value(depth + 1)?;
                self.value(depth + 1)?;
                self.set_unless_nil();
            }
            ffi::lua_rawset(self.stack.0, -3);
        }
        Ok(())
    }

    unsafe fn set(&mut self, len: i64, depth: usize) -> Result<(), Malformed> {
        // SAFETY: the caller's promise.
        unsafe {
            self.stack.push_table(0, 1);
            self.stack.push_bytes(b"set");
            self.stack.push_table(0, 0);
            for _ in 0..len {
                self.value(depth + 1)?;
                ffi::lua_pushboolean(self.stack.0, 1);
                self.set_unless_nil();
            }
            ffi::lua_rawset(self.stack.0, -3);
        }
        Ok(())
    }

    /// Sets the last value at the last but one, of the table before them; nothing at nil.
    unsafe fn set_unless_nil(&self) {
        let state = self.stack.0;
        // SAFETY: the caller's promise, and that there are three.
        unsafe {
            match ffi::lua_isnil(state, -2) {
                0 => ffi::lua_rawset(state, -3),
                _ => ffi::lua_pop(state, 2),
            }
        }
    }

    unsafe fn verbatim(&mut self, len: i64) -> Result<(), Malformed> {
        let (format, text) = self.bulk(len)?.split_at_checked(4).ok_or(Malformed)?;
        // SAFETY: the caller's promise.
        unsafe {
            self.stack.push_table(0, 1);
            self.stack.push_bytes(b"verbatim_string");
            self.stack.push_table(0, 2);
            for (name, held) in [(&b"format"[..], &format[..3]), (b"string", text)] {
                self.stack.push_bytes(name);
                self.stack.push_bytes(held);
                ffi::lua_rawset(self.stack.0, -3);
            }
            ffi::lua_rawset(self.stack.0, -3);
        }
        Ok(())
    }
}

fn integer(line: &[u8]) -> Result<i64, Malformed> {
    parse_i64(line).ok_or(Malformed)
}
