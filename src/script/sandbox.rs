//! The state of Lua that scripts run in: its libraries, its limits, what runs share, and the loan
//! of the host.
//!
//! The prelude makes the tables of names. Each thing that is read-only is a proxy, so a script
//! cannot reach what it stands for by any function it is given: not `rawset`, `rawget`, `next`,
//! `setmetatable`, `getmetatable`, `table.insert`, nor the metatable of strings. There is no
//! `debug`, `getfenv`, `setfenv`, `newproxy`, `require` or `print`.
//!
//! The host is lent through a variable of the thread (`HOST`), which is set for the time of a
//! run. A function made anew for each run (mlua's scopes) would need no variable, but a run
//! would make and drop two functions for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use scoped_tls_hkt::scoped_thread_local;

use super::exchange::Exchange;
use super::lib::cjson::Config;
use super::lib::{bit, cjson, cmsgpack, packing};
use super::native::{Outcome, PRELUDE_NAME, Refusal, number, place, plain, register, truncated};
use super::{
    Arguments, FunctionFlags, Host, INSTRUCTIONS_PER_PAUSE, Settings, Verdict, Words, redis_table,
};
use crate::resp::reply::Protocol;

/// The longest pattern, in bytes: the matcher calls itself for each item of it.
const PATTERN_BYTES_MAX: usize = 4_096;
/// Calls of gsub within calls of gsub: each takes 8 KiB of the stack.
const GSUB_DEPTH_MAX: usize = 32;
/// Coroutines that run each other: each may take as much of the stack as Lua allows a script.
const COROUTINE_DEPTH_MAX: usize = 8;
/// The longest text that `load` compiles, in bytes.
const SOURCE_BYTES_MAX: usize = 64 << 20;
/// How many values `unpack` gives, which are on Lua's stack.
const RESULTS_MAX: usize = 8_000;

scoped_thread_local! {
    /// The host of the script that this thread runs.
    pub(super) static mut HOST: for<'a> &'a mut dyn Host
}

/// What runs share, the functions of Rust among them.
pub(super) struct Shared {
    /// What `setresp` chose.
    pub(super) protocol: Cell<Protocol>,
    /// The settings of `cjson`, for this run.
    pub(super) cjson: Rc<Cell<Config>>,
    /// What the script was given, and how many words of it are keys.
    pub(super) given: RefCell<(Words, usize)>,
    /// The command that is being called.
    pub(super) exchange: RefCell<Exchange>,
    /// The functions of the library that is being loaded.
    pub(super) registered: RefCell<Option<Vec<WaitingFunction>>>,
    /// Why the script that runs is being ended.
    pub(super) killed: RefCell<Option<Killed>>,
    /// State of `math.random`: 48 bits.
    random: Cell<u64>,
}

/// A script's end, and where it was.
pub(super) struct Killed {
    pub(super) line: Vec<u8>,
    pub(super) place: Option<(String, usize)>,
}

/// A function that a library has registered while it is being loaded.
pub(super) struct WaitingFunction {
    pub(super) name: Vec<u8>,
    pub(super) callback: Function,
    pub(super) description: Option<Vec<u8>>,
    pub(super) flags: FunctionFlags,
}

/// The functions of the prelude that run scripts.
pub(super) struct Sandbox {
    pub(super) lua: Lua,
    pub(super) shared: Rc<Shared>,
    /// The functions of all scripts. Each value that Rust holds by itself takes one of the 8,000
    /// places on a stack of mlua's; these take one together.
    pub(super) functions: Table,
    pub(super) run_script: Function,
    pub(super) run_function: Function,
    pub(super) run_load: Function,
    pub(super) shape: Function,
}

impl Sandbox {
    pub(super) fn new(settings: &Settings) -> mlua::Result<Sandbox> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let shared = Rc::new(Shared {
            protocol: Cell::default(),
            cjson: Rc::default(),
            given: RefCell::default(),
            exchange: RefCell::default(),
            registered: RefCell::default(),
            killed: RefCell::default(),
            random: Cell::default(),
        });
        shared.seed(0);
        let native = native_table(&lua, &shared, settings)?;
        let prelude = lua
            .load(include_str!("prelude.lua"))
            .set_name(PRELUDE_NAME)
            .into_function()?;
        let made: Table = prelude.call((native, limits(&lua, settings)?))?;
        lua.set_globals(made.raw_get("globals")?)?;
        let sandbox = Sandbox {
            run_script: made.raw_get("run_script")?,
            run_function: made.raw_get("run_function")?,
            run_load: made.raw_get("run_load")?,
            shape: made.raw_get("shape")?,
            functions: made.raw_get("functions")?,
            lua,
            shared,
        };
        sandbox.lua.set_memory_limit(settings.memory_bytes_limit)?;
        install_hook(&sandbox.lua, &sandbox.shared, INSTRUCTIONS_PER_PAUSE)?;
        Ok(sandbox)
    }
}

/// Does something that allocates no more than what is there already, a request or a reply, without
/// the limit of memory. mlua then need not guard each of its steps against the lack of memory,
/// which takes longer than the steps; what the script allocates next meets the limit again.
pub(super) fn without_limit<R>(lua: &Lua, f: impl FnOnce() -> R) -> R {
    const OWN: &str = "the state has an allocator of mlua's";
    let limit = lua.set_memory_limit(0).expect(OWN);
    let made = f();
    lua.set_memory_limit(limit).expect(OWN);
    made
}

fn native_table(lua: &Lua, shared: &Rc<Shared>, settings: &Settings) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.raw_set("bit", bit::open(lua)?)?;
    native.raw_set("cjson", cjson::open(lua, &shared.cjson)?)?;
    native.raw_set("cmsgpack", cmsgpack::open(lua)?)?;
    native.raw_set("struct", packing::open(lua)?)?;
    register(lua, &native, "plain", |lua, args| {
        let err = args.first().cloned().unwrap_or(Value::Nil);
        Ok(vec![plain(lua, err)?])
    })?;
    register(lua, &native, "place", |lua, _| match place(lua) {
        Some((source, line, shown)) => Ok(vec![
            Value::String(lua.create_string(source)?),
            Value::Integer(line as i64),
            Value::String(lua.create_string(shown)?),
        ]),
        None => Ok(vec![]),
    })?;
    let ending = Rc::clone(shared);
    register(lua, &native, "is_ending", move |_, _| {
        Ok(vec![Value::Boolean(ending.killed.borrow().is_some())])
    })?;
    redis_table::add(lua, &native, shared, settings)?;
    Ok(native)
}

fn limits(lua: &Lua, settings: &Settings) -> mlua::Result<Table> {
    let limits = lua.create_table()?;
    for (name, limit) in [
        ("pattern_bytes", PATTERN_BYTES_MAX),
        ("gsub_depth", GSUB_DEPTH_MAX),
        ("coroutine_depth", COROUTINE_DEPTH_MAX),
        ("source_bytes", SOURCE_BYTES_MAX),
        ("results", RESULTS_MAX),
        ("memory_bytes", settings.memory_bytes_limit),
    ] {
        limits.raw_set(name, limit)?;
    }
    Ok(limits)
}

/// Has the host asked every so many instructions. A script that is being killed gets an error at
/// every instruction, so that it cannot catch them all.
pub(super) fn install_hook(lua: &Lua, shared: &Rc<Shared>, instructions: u32) -> mlua::Result<()> {
    let shared = Rc::clone(shared);
    let triggers = HookTriggers::new().every_nth_instruction(instructions);
    lua.set_global_hook(triggers, move |lua, debug| {
        if shared.killed.borrow().is_none() {
            // The prelude also runs while the sandbox is being made.
            let verdict = match HOST.is_set() {
                true => HOST.with(|host| host.pause()),
                false => Verdict::Continue,
            };
            let Verdict::Kill(line) = verdict else {
                return Ok(VmState::Continue);
            };
            let source = debug.source().source.map(|source| source.into_owned());
            let place = source.zip(debug.current_line());
            let place = place.filter(|(source, _)| source != PRELUDE_NAME);
            *shared.killed.borrow_mut() = Some(Killed { line, place });
        }
        if instructions > 1 {
            install_hook(lua, &shared, 1)?;
        }
        Err(mlua::Error::runtime("the script is being ended"))
    })
}

/// What [`Shared::random`] gives at most, and one more.
const RANDOM_END: u64 = 1 << 31;

impl Shared {
    /// Before each run: what the run before may have set.
    pub(super) fn begin_run(&self) {
        self.protocol.set(Protocol::Resp2);
        self.cjson.set(Config::default());
    }

    /// Takes what a script is given; false if it is too long.
    pub(super) fn give(&self, arguments: &Arguments<'_>) -> bool {
        let (words, keys) = &mut *self.given.borrow_mut();
        *keys = arguments.keys;
        words.clear();
        (0..arguments.len).all(|at| words.push((arguments.all)(at)))
    }

    /// Seeds `math.random` as `srand48` does.
    pub(super) fn seed(&self, seed: i32) {
        self.random.set(u64::from(seed as u32) << 16 | 0x330e);
    }

    /// The next number of the sequence of `lrand48`, below [`RANDOM_END`].
    fn next_random(&self) -> u64 {
        let next = self.random.get().wrapping_mul(0x5_deec_e66d) + 0xb;
        let next = next & 0xffff_ffff_ffff;
        self.random.set(next);
        next >> 17
    }

    /// `math.random`: a number from 0 to below 1, or an integer of a range.
    pub(super) fn random(&self, lua: &Lua, args: &[Value]) -> Outcome {
        let largest = (RANDOM_END - 1) as f64;
        let fraction = (self.next_random() % (RANDOM_END - 1)) as f64 / largest;
        let integer = |at: usize| -> Result<f64, Refusal> {
            Ok(f64::from(truncated(number(lua, args, at)?) as i32))
        };
        let (low, high, at) = match args.len() {
            0 => return Ok(vec![Value::Number(fraction)]),
            1 => (1.0, integer(0)?, 1),
            2 => (integer(0)?, integer(1)?, 2),
            _ => return Err(Refusal::message("wrong number of arguments")),
        };
        if low > high {
            return Err(Refusal::Argument(at, "interval is empty".into()));
        }
        let number = (fraction * (high - low + 1.0)).floor() + low;
        Ok(vec![Value::Number(number)])
    }
}
