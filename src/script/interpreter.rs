//! The interpreter: one state of Lua 5.1, made when the first script comes, and the scripts it
//! holds.

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, Value};
use slab::Slab;

use super::convert::{self, Style};
use super::native::describe;
use super::sandbox::{HOST, Sandbox, install_hook, without_limit};
use super::{
    Arguments, Failure, Host, INSTRUCTIONS_PER_PAUSE, Interpreter, LoadError, Registered, ScriptId,
    Settings,
};
use crate::resp::output::Output;

/// Garbage is collected at once after a run that left more than this part of the limit in use, as
/// Lua does not collect when memory runs out.
const FULL_SHARE: usize = 2;
/// The name that errors give to a script.
const SCRIPT_NAME: &str = "@user_script";
/// The name that errors give to a library.
const LIBRARY_NAME: &str = "@user_function";

/// Lua 5.1.
pub(super) struct Lua51 {
    settings: Settings,
    sandbox: Option<Sandbox>,
    /// What is known of each script. Its function is in [`Sandbox::functions`], at the number of
    /// its place here and one more.
    scripts: Slab<Script>,
}

/// Whether a script was given to EVAL or is a function of a library: they see different globals,
/// and get their arguments as the globals KEYS and ARGV or as parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Script,
    Function,
}

struct Script {
    /// What errors call it: a digest, or the name of a function.
    name: Vec<u8>,
    kind: Kind,
}

impl Lua51 {
    pub(super) fn new(settings: Settings) -> Lua51 {
        Lua51 {
            settings,
            sandbox: None,
            scripts: Slab::new(),
        }
    }

    fn sandbox(&mut self) -> Result<&Sandbox, Vec<u8>> {
        if self.sandbox.is_none() {
            let made = Sandbox::new(&self.settings);
            self.sandbox = Some(made.map_err(|error| describe(&error).into_bytes())?);
        }
        Ok(self.sandbox.as_ref().expect("it is there or was made"))
    }

    fn insert(&mut self, script: Script, function: &Function) -> Result<ScriptId, Vec<u8>> {
        let place = self.scripts.vacant_entry();
        let id = place.key();
        let sandbox = self.sandbox.as_ref();
        let sandbox = sandbox.expect("the function is of the sandbox");
        let hold = || sandbox.functions.raw_set(id + 1, function);
        without_limit(&sandbox.lua, hold).map_err(|error| describe(&error).into_bytes())?;
        place.insert(script);
        Ok(ScriptId(id))
    }

    /// After each run: an interpreter that the next one finds as this one did.
    fn end_run(&self) {
        let sandbox = self.sandbox.as_ref().expect("a script was run in it");
        sandbox.shared.exchange.borrow_mut().clear();
        sandbox.shared.given.borrow_mut().0.clear();
        if sandbox.shared.killed.borrow_mut().take().is_some() {
            let reset = install_hook(&sandbox.lua, &sandbox.shared, INSTRUCTIONS_PER_PAUSE);
            reset.expect("a hook is installed without memory of Lua's");
        }
        if sandbox.lua.used_memory() > self.settings.memory_bytes_limit / FULL_SHARE {
            // The first ends the cycle that has begun, the second collects what it has missed. No
            // script has a finalizer, so nothing can fail.
            for _ in 0..2 {
                sandbox.lua.gc_collect().expect("nothing is run by it");
            }
        }
    }
}

impl Interpreter for Lua51 {
    fn compile(&mut self, name: &[u8], body: &[u8]) -> Result<ScriptId, Vec<u8>> {
        let function = compile(&self.sandbox()?.lua, SCRIPT_NAME, body)?;
        let script = Script {
            name: name.to_vec(),
            kind: Kind::Script,
        };
        self.insert(script, &function)
    }

    fn load(&mut self, body: &[u8], host: &mut dyn Host) -> Result<Vec<Registered>, LoadError> {
        let sandbox = self.sandbox().map_err(LoadError::Run)?;
        let function = compile(&sandbox.lua, LIBRARY_NAME, body).map_err(LoadError::Compile)?;
        sandbox.shared.begin_run();
        *sandbox.shared.registered.borrow_mut() = Some(Vec::new());
        let run = &sandbox.run_load;
        let result = HOST.set(host, || run.call::<(bool, Value)>(&function));
        let waiting = sandbox.shared.registered.borrow_mut().take();
        let failed = error_of(sandbox, result, None);
        self.end_run();
        if let Some(failure) = failed.err() {
            return Err(LoadError::Run(failure.line));
        }
        let waiting = waiting.expect("it was put there above");
        let mut registered: Vec<Registered> = Vec::new();
        for waiting in waiting {
            let script = Script {
                name: waiting.name.clone(),
                kind: Kind::Function,
            };
            match self.insert(script, &waiting.callback) {
                Ok(id) => registered.push(Registered {
                    name: waiting.name,
                    id,
                    description: waiting.description,
                    flags: waiting.flags,
                }),
                Err(message) => {
                    registered.iter().for_each(|known| self.forget(known.id));
                    return Err(LoadError::Run([b"ERR ", &message[..]].concat()));
                }
            }
        }
        Ok(registered)
    }

    fn run(
        &mut self,
        id: ScriptId,
        arguments: Arguments<'_>,
        host: &mut dyn Host,
        reply: &mut Output,
    ) -> Result<(), Failure> {
        let sandbox = self.sandbox.as_ref();
        let sandbox = sandbox.expect("a script is compiled in the sandbox");
        let script = &self.scripts[id.0];
        let result = run(sandbox, (id, script), arguments, host, reply);
        self.end_run();
        result
    }

    fn forget(&mut self, id: ScriptId) {
        self.scripts.remove(id.0);
        let sandbox = self.sandbox.as_ref();
        let sandbox = sandbox.expect("it was compiled in the sandbox");
        let remove = || sandbox.functions.raw_set(id.0 + 1, Value::Nil);
        let removed = without_limit(&sandbox.lua, remove);
        removed.expect("a place that is there is written without memory");
    }

    fn memory_bytes(&self) -> usize {
        self.sandbox
            .as_ref()
            .map_or(0, |sandbox| sandbox.lua.used_memory())
    }

    fn collect_step(&mut self) -> bool {
        match &self.sandbox {
            Some(sandbox) => sandbox.lua.gc_step().expect("nothing is run by it"),
            None => true,
        }
    }
}

/// Compiles a text. A first line that begins with `#!` is the server's business.
fn compile(lua: &Lua, name: &str, body: &[u8]) -> Result<Function, Vec<u8>> {
    let first_end = memchr::memchr(b'\n', body).unwrap_or(body.len());
    let body = if body.starts_with(b"#!") {
        &body[first_end..]
    } else {
        body
    };
    // Lua's parser does not hold the chunk's name, which is this string.
    let held = lua
        .create_string(name)
        .map_err(|error| describe(&error).into_bytes())?;
    let chunk = lua.load(body).set_name(name).set_mode(ChunkMode::Text);
    let function = chunk.into_function();
    drop(held);
    function.map_err(|error| describe(&error).into_bytes())
}

fn run(
    sandbox: &Sandbox,
    (id, script): (ScriptId, &Script),
    arguments: Arguments<'_>,
    host: &mut dyn Host,
    reply: &mut Output,
) -> Result<(), Failure> {
    sandbox.shared.begin_run();
    let runner = match script.kind {
        Kind::Script => &sandbox.run_script,
        Kind::Function => &sandbox.run_function,
    };
    let result = if sandbox.shared.give(&arguments) {
        HOST.set(host, || runner.call::<(bool, Value)>(id.0 + 1))
    } else {
        Err(mlua::Error::MemoryError("too many arguments".into()))
    };
    let value = error_of(sandbox, result, Some(&script.name))?;
    let style = Style {
        protocol: sandbox.shared.protocol.get(),
        shape: &sandbox.shape,
    };
    let mark = reply.mark();
    let written = without_limit(&sandbox.lua, || {
        convert::to_reply(&value, &style, reply, arguments.protocol)
    });
    written.map_err(|error| {
        reply.truncate_to(mark);
        let line = format!("ERR {}", describe(&error));
        failure(line.as_bytes(), None, Some(&script.name), false)
    })
}

/// The value of a run, or why there is none. A `name` is what the error names besides the place.
fn error_of(
    sandbox: &Sandbox,
    result: mlua::Result<(bool, Value)>,
    name: Option<&[u8]>,
) -> Result<Value, Failure> {
    if let Some(killed) = &*sandbox.shared.killed.borrow() {
        let place = killed.place.as_ref();
        let place = place.map(|(source, line)| (source.as_bytes(), *line as i64));
        return Err(failure(&killed.line, place, name, false));
    }
    let err = match result {
        Ok((true, value)) => return Ok(value),
        Ok((false, err)) => err,
        Err(error) => {
            let line = format!("ERR {}", describe(&error));
            return Err(failure(line.as_bytes(), None, name, false));
        }
    };
    let table = match &err {
        Value::Table(table) => table,
        other => {
            // Out of memory: Lua hands this to no handler.
            let text = match other {
                Value::String(text) => text.as_bytes().to_vec(),
                Value::Error(error) => describe(error).into_bytes(),
                _ => b"unknown error".to_vec(),
            };
            return Err(failure(&[b"ERR ", &text[..]].concat(), None, name, false));
        }
    };
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let line = match field("err") {
        Value::String(line) => line.as_bytes().to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    let (source, at) = (field("source"), field("line"));
    let source = match &source {
        Value::String(source) => Some(source.as_bytes()),
        _ => None,
    };
    let place = source.as_ref().map(|source| &source[..]).zip(at.as_i64());
    let is_of_command = field("ignore_error_stats_update") == Value::Boolean(true);
    Err(failure(&line, place, name, is_of_command))
}

/// The error line of a script: what went wrong, in which script, where.
fn failure(
    line: &[u8],
    place: Option<(&[u8], i64)>,
    name: Option<&[u8]>,
    is_of_command: bool,
) -> Failure {
    let mut text = line.to_vec();
    if let Some(name) = name {
        text.extend(b" script: ");
        text.extend(name);
        if let Some((source, at)) = place {
            text.extend(b", on ");
            text.extend(source);
            text.extend(format!(":{at}").as_bytes());
        }
        text.push(b'.');
    }
    Failure {
        line: text,
        is_of_command,
    }
}
