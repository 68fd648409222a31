//! Loading libraries of functions: by FUNCTION LOAD and RESTORE, and from a snapshot.
//!
//! The first line of a library names it (`#!lua name=mylib`). Its code runs once, when it is
//! loaded, and can do nothing but register functions and log.

use std::collections::BTreeMap;

use super::scripts::{Library, Scripts};
use crate::config::split_line;
use crate::resp::error::CommandError;
use crate::resp::output::Output;
use crate::resp::reply::Protocol;
use crate::script::{
    Host, INSTRUCTIONS_PER_PAUSE, LoadError, LogLevel, Registered, Verdict, Words,
};

/// Instructions that the code of a library may take when it is loaded: about half a second, as in
/// Redis.
const LOAD_INSTRUCTIONS_MAX: u32 = 50_000_000;

/// The name of a library, from its first line.
fn name_of(code: &[u8]) -> Result<Vec<u8>, CommandError> {
    let text = CommandError::text;
    if !code.starts_with(b"#!") {
        return Err(text("ERR Missing library metadata"));
    }
    let end = memchr::memchr(b'\n', code).ok_or(text("ERR Invalid library metadata"))?;
    let words = split_line(&code[..end]).ok_or(text("ERR Invalid library metadata"))?;
    let (engine, words) = words.split_first().expect("the line begins with a word");
    let engine = &engine[2..];
    let mut name = None;
    for word in words {
        let Some(given) = strip_ascii_prefix(word, b"name=") else {
            return Err(CommandError::quoting(
                "ERR Invalid metadata value given: ",
                word,
                "",
            ));
        };
        if name.replace(given).is_some() {
            return Err(text(
                "ERR Invalid metadata value, name argument was given multiple times",
            ));
        }
    }
    let name = name.ok_or(text("ERR Library name was not given"))?;
    if !is_name(name) {
        return Err(text(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be \
             at least one character long",
        ));
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(CommandError::quoting("ERR Engine '", engine, "' not found"));
    }
    Ok(name.to_vec())
}

fn strip_ascii_prefix<'a>(word: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = word.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn is_name(name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_part)
}

/// The server as it appears to a library that is loaded.
struct LoadHost {
    pauses_left: u32,
}

impl Host for LoadHost {
    fn call(&mut self, _: &Words, _: Protocol, reply: &mut Output) {
        // What calls this is not there while a library is loaded.
        reply.extend(b"-ERR redis.call is not available\r\n");
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        level.write(text);
    }

    fn pause(&mut self) -> Verdict {
        let left = self.pauses_left.checked_sub(1);
        self.pauses_left = left.unwrap_or(0);
        match left {
            Some(_) => Verdict::Continue,
            None => Verdict::Kill(b"ERR FUNCTION LOAD timeout".to_vec()),
        }
    }

    fn is_allowed(&mut self, _: &Words) -> Option<bool> {
        Some(false)
    }

    fn set_replication(&mut self, _: u8) {}
}

impl Scripts {
    /// Adds a library, in the place of one of the same name if it may be; its name. If that fails
    /// all is as it was.
    ///
    /// # Errors
    /// What is wrong with its first line, its code or its names.
    pub fn load_library(&mut self, code: &[u8], replaces: bool) -> Result<Vec<u8>, CommandError> {
        let name = name_of(code)?;
        if !replaces && self.library(&name).is_some() {
            return Err(CommandError::quoting(
                "ERR Library '",
                &name,
                "' already exists",
            ));
        }
        let old = self.take_library(&name);
        let before = self.interpreter_bytes();
        let added = self.run_library(code).map(|functions| {
            let library = Library {
                code: code.to_vec(),
                functions,
                interpreter_bytes: self.interpreter_bytes().saturating_sub(before),
            };
            self.add_library(&name, library);
        });
        match (old, &added) {
            (Some(old), Ok(())) => self.unload(&old.functions),
            (Some(old), Err(_)) => self.add_library(&name, old),
            (None, _) => {}
        }
        added.map(|()| name)
    }

    /// Runs the code of a library; its functions, of names that no others have.
    fn run_library(&mut self, code: &[u8]) -> Result<Vec<Registered>, CommandError> {
        let mut host = LoadHost {
            pauses_left: LOAD_INSTRUCTIONS_MAX / INSTRUCTIONS_PER_PAUSE,
        };
        let functions = self.load(code, &mut host).map_err(|error| match error {
            LoadError::Compile(message) => {
                CommandError::quoting("ERR Error compiling function: ", &message, "")
            }
            LoadError::Run(line) => {
                CommandError::quoting("ERR Error registering functions: ", &line, "")
            }
        })?;
        let mut all = functions.iter();
        let taken = all.find(|function| self.function(&function.name).is_some());
        let refusal = match taken {
            Some(function) => {
                let name = &function.name;
                CommandError::quoting("ERR Function ", name, " already exists")
            }
            None if functions.is_empty() => CommandError::text("ERR No functions registered"),
            None => return Ok(functions),
        };
        self.unload(&functions);
        Err(refusal)
    }

    /// Puts the libraries of a snapshot into the place of all that are there. What cannot be
    /// loaded, as by a server that was built without scripts, is kept as it is for the next
    /// snapshot; how many that were.
    pub fn restore_libraries(&mut self, codes: Vec<Vec<u8>>) -> usize {
        let libraries = self.take_libraries();
        self.unload_all(libraries);
        for code in codes {
            if let Err(error) = self.load_library(&code, true) {
                let line = error.line();
                log::warn!(
                    "A library of functions in the snapshot cannot be loaded: {}",
                    String::from_utf8_lossy(&line)
                );
                self.unloadable.push(code);
            }
        }
        self.unloadable.len()
    }

    /// Ends libraries that were taken away.
    pub fn unload_all(&mut self, libraries: BTreeMap<Vec<u8>, Library>) {
        for library in libraries.into_values() {
            self.unload(&library.functions);
        }
    }
}
