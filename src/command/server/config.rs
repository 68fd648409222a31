//! Settings at run time.
//!
//! What a setting is called, how it is read and shown, and who may change it is the table of
//! `config`; here is what a change means for the running server. A change is made on a copy of the
//! settings, which is thrown away if a step fails, so that CONFIG SET changes all or nothing. What
//! concerns sockets and the log is put into effect by the shell, as the last step that can fail.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::table::reply_help;
use crate::command::table::row::Handler::{Container, Engine as OnEngine};
use crate::command::table::row::*;
use crate::engine::Engine;
use crate::engine::session::SessionKey;
use crate::resp::error::CommandError;
use crate::store::collection::Limits;
use crate::store::entry::Slot;
use crate::store::expiry_rules::Rules;
use crate::value::Kind;
use crate::value::glob;

use crate::config::{
    Config, NamedFile, PastEvent, SetError, UNKNOWN_SETTING, find, snapshot_note, without_effect,
};

/// The commands on settings.
pub const COMMANDS: &[Row] = &[Row {
    name: "config",
    arity: -2,
    flags: flag::LONG,
    categories: category::SLOW,
    keys: &[],
    group: Group::Server,
    since: "2.0.0",
    complexity: "That of the subcommand",
    summary: "Groups the commands on the server's settings.",
    args: &[],
    subcommands: CONFIG,
    handler: Container,
}];

/// Subcommands of CONFIG.
const CONFIG: &[Row] = &[
    Row {
        name: "get",
        arity: -3,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "2.0.0",
        complexity: "O(N) with N the number of parameters given",
        summary: "Returns the settings whose names match the patterns.",
        args: &[Arg::new("parameter", ArgKind::String).multiple()],
        subcommands: &[],
        handler: OnEngine(config_get),
    },
    Row {
        name: "set",
        arity: -4,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::LONG,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "2.0.0",
        complexity: "O(N) with N the number of parameters given",
        summary: "Changes settings while the server runs: all that are given, or none.",
        args: &[Arg::block("data", PARAMETER_VALUE).multiple()],
        subcommands: &[],
        handler: OnEngine(config_set),
    },
    Row {
        name: "resetstat",
        arity: 2,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Resets the counters that INFO reports.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(config_resetstat),
    },
    Row {
        name: "rewrite",
        arity: 2,
        flags: flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE,
        categories: category::ADMIN | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "2.8.0",
        complexity: "O(1)",
        summary: "Writes the current settings to the configuration file.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(config_rewrite),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW,
        keys: &[],
        group: Group::Server,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Lists the subcommands of CONFIG, each with a short description.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(config_help),
    },
];

/// A setting and its new value.
const PARAMETER_VALUE: &[Arg] = &[
    Arg::new("parameter", ArgKind::String),
    Arg::new("value", ArgKind::String),
];

/// Reads the files that an `include` line means. In the last part of the path `*`, `?` and `[...]`
/// stand for what they do in a shell: the files that fit are read by name, and it is no error if
/// there are none, so that a directory of fragments may be empty.
pub fn read_included(path: &str) -> io::Result<Vec<NamedFile>> {
    let (parent, pattern) = match path.rsplit_once('/') {
        Some((parent, pattern)) => (&path[..=parent.len()], pattern),
        None => ("", path),
    };
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![(path.to_owned(), fs::read(path)?)]);
    }
    let folder = if parent.is_empty() { "." } else { parent };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        // As in a shell, what is hidden must be asked for by its dot.
        let is_hidden = name.as_encoded_bytes().starts_with(b".") && !pattern.starts_with('.');
        let fits = glob::matches(pattern.as_bytes(), name.as_encoded_bytes(), false);
        if let (Some(name), true, false) = (name.to_str(), fits, is_hidden) {
            names.push(format!("{parent}{name}"));
        }
    }
    names.sort();
    names
        .into_iter()
        .map(|name| Ok((name.clone(), fs::read(name)?)))
        .collect()
}

/// Brings the engine in line with all settings: once, at start.
pub fn apply_all(engine: &mut Engine) {
    engine.keyspace.rules = Rules::new(&engine.config.expiry_rules);
    apply(engine);
}

/// The same but for the rules of expiry, of which there may be many.
fn apply(engine: &mut Engine) {
    engine.listen_to_changes();
    let effort = engine.config.active_expire_effort;
    engine.jobs.pacer.set_effort(effort as u8);
    engine.keyspace.string_bytes_max = engine.config.bulk_bytes_max as usize;
    engine.keyspace.sparse_bytes_max = engine.config.hll_sparse_bytes_max as usize;
    engine.keyspace.limits = Limits::new(&engine.config);
    engine.set_memory_limit();
    engine.set_client_limit();
    let (factor, minutes) = (
        engine.config.lfu_log_factor,
        engine.config.lfu_decay_minutes,
    );
    let policy = engine.config.maxmemory_policy;
    engine.keyspace.eviction.configure(policy, factor, minutes);
    let stream = engine.config.expired_event_stream.clone();
    // What has died before goes where it should have gone.
    engine.tell_all_deaths();
    engine.keyspace.deaths.set_target(stream);
    engine.keyspace.past_is_expired = engine.config.expire_past_event == PastEvent::Expired;
}

fn config_get(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let patterns: Vec<&[u8]> = args.from(2).collect();
    let found = engine.config.get(&patterns, &|pattern, name| {
        glob::matches(pattern, name, true)
    });
    let mut reply = caller.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
    Ok(())
}

fn config_set(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    if args.len() % 2 == 1 {
        return Err(CommandError::Syntax);
    }
    let is_local = engine.sessions[caller.session].is_local();
    let before = engine.config.clone();
    let result = set(&mut engine.config, args, is_local).and_then(|names| {
        check_stream(engine)?;
        check_memory(engine)?;
        let Engine {
            config,
            reconfigure,
            ..
        } = engine;
        reconfigure(config, &before, &names)?;
        without_effect(&names)
            .iter()
            .for_each(|warning| log::warn!("{warning}"));
        Ok(())
    });
    if let Err(error) = result {
        engine.config = before;
        return Err(match error {
            SetError::Unknown(name) => unknown_setting(args, &name),
            SetError::Failed(..) => CommandError::owned(error.to_string()),
        });
    }
    if engine.config.expiry_rules != before.expiry_rules {
        engine.keyspace.rules = Rules::new(&engine.config.expiry_rules);
    }
    apply(engine);
    if engine.config.requirepass.is_empty() {
        // A client that was asked for the former password could otherwise never authenticate.
        // Authenticated clients stay so when a password is set or changed.
        let sessions = engine.sessions.iter_mut();
        sessions.for_each(|(_, session)| session.is_authenticated = true);
    }
    let clients: Vec<SessionKey> = engine.sessions.iter().map(|(key, _)| key).collect();
    clients.into_iter().for_each(|key| engine.limit_output(key));
    caller.reply().ok();
    Ok(())
}

/// Whether what expires can be written where the settings want it.
fn check_stream(engine: &mut Engine) -> Result<(), SetError> {
    let Some(stream) = &engine.config.expired_event_stream else {
        return Ok(());
    };
    let live = engine.keyspace.live(0, &engine.reading);
    match live.peek(&stream.key).map(Slot::kind) {
        None | Some(Kind::Stream) => Ok(()),
        Some(_) => Err(SetError::failed(
            "expired-event-stream",
            "the key holds something else than a stream",
        )),
    }
}

/// Whether it is known what a share of the memory is a share of.
fn check_memory(engine: &Engine) -> Result<(), SetError> {
    match engine.config.maxmemory.is_share() && engine.identity.memory_bytes == 0 {
        false => Ok(()),
        true => Err(SetError::failed(
            "maxmemory",
            "it is not known how much memory this machine has",
        )),
    }
}

/// The error for a name that no setting has, quoted as the client sent it.
fn unknown_setting(args: Args<'_>, name: &str) -> CommandError {
    let sent = (2..args.len()).step_by(2).find(|&i| args.text(i) == name);
    let sent = sent.map_or(name.as_bytes(), |i| args.quoted(i, usize::MAX));
    CommandError::quoting(UNKNOWN_SETTING, sent, "'")
}

/// Sets what the arguments say and gives the names of what has changed; on an error `config` may be
/// left with a part of it.
fn set(config: &mut Config, args: Args<'_>, is_local: bool) -> Result<Vec<&'static str>, SetError> {
    let pairs = (2..args.len()).step_by(2);
    let pairs: Vec<_> = pairs
        .map(|i| (args.text(i), args.get(i + 1).to_vec()))
        .collect();
    let old_dir = config.dir.clone();
    let changed = config.set(&pairs, is_local)?;
    if changed.contains(&"dir") {
        config.dir = directory(&old_dir, &config.dir)
            .map_err(|error| SetError::failed("dir", reason(&error)))?;
    }
    for (name, value) in pairs {
        let name = find(&name).map_or("", |row| row.name());
        let note = snapshot_note(name, &[value], config);
        note.iter().for_each(|note| log::warn!("{note}"));
    }
    Ok(changed)
}

/// The absolute path of a directory that is there and can be entered. A relative one counts from
/// the directory that was set before, as if the server had changed to it.
fn directory(old: &str, new: &str) -> io::Result<String> {
    if new.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let path = Path::new(old).join(new);
    // Looking for its "." tells a directory from a file, and whether it may be entered.
    fs::metadata(path.join("."))?;
    let path = fs::canonicalize(path)?;
    let path = path.into_os_string().into_string();
    path.map_err(|_| io::Error::other("the path is not UTF-8"))
}

/// What the operating system calls an error, without the number that std adds.
fn reason(error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory".to_owned(),
        _ => error.to_string(),
    };
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Sets counters of what happened to zero. Figures that say how things are now, and the peak of
/// memory, stay.
fn config_resetstat(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _args: Args<'_>,
) -> Result<(), CommandError> {
    engine.metrics.reset();
    engine.keyspace.reset_stats();
    engine.jobs.reset_stats();
    caller.reply().ok();
    Ok(())
}

fn config_rewrite(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _args: Args<'_>,
) -> Result<(), CommandError> {
    let file = engine.identity.config_file.clone();
    if file.is_empty() {
        return Err(CommandError::text(
            "ERR The server is running without a config file",
        ));
    }
    if let Err(error) = rewrite(&engine.config, Path::new(&file)) {
        log::warn!("CONFIG REWRITE failed: {file}: {error}");
        let text = format!("ERR Rewriting config file: {}", reason(&error));
        return Err(CommandError::owned(text));
    }
    log::info!("CONFIG REWRITE executed with success.");
    caller.reply().ok();
    Ok(())
}

/// Replaces a configuration file so that a crash leaves either the old one or the new one.
fn rewrite(config: &Config, file: &Path) -> io::Result<()> {
    // Through links: the file behind them is replaced, not the link.
    let file = match fs::canonicalize(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        other => other?,
    };
    let old = match fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    let text = config.rewrite(&old, &mut read_included);
    let mut temporary = file.clone().into_os_string();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let result = write_and_rename(&text, &temporary, &file);
    if result.is_err() {
        // It may not even have been made; the error that matters is the first one.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write_and_rename(text: &[u8], temporary: &Path, file: &Path) -> io::Result<()> {
    let mut out = File::create(temporary)?;
    if let Ok(old) = fs::metadata(file) {
        // It may hold a password: nobody may read the new file who could not read the old one.
        out.set_permissions(old.permissions())?;
    }
    out.write_all(text)?;
    out.sync_all()?;
    fs::rename(temporary, file)?;
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn config_help(
    _: &mut Engine,
    caller: &mut Caller<'_>,
    _args: Args<'_>,
) -> Result<(), CommandError> {
    reply_help(&mut caller.reply(), "config");
    Ok(())
}
