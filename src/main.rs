//! The binary: arguments, configuration, signals, run, exit code.
//!
//! `mayfly [/path/to/mayfly.conf] [--name value ...]` serves; `mayfly check FILE` verifies a
//! snapshot and tells what is in it.

mod allocator;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use mayfly::clock::{Clock, Source, SystemClock};
use mayfly::command::server::config::read_included;
use mayfly::config::{self, Config, ExpireClock};
use mayfly::engine::{Engine, memory};
use mayfly::server::{Server, listener, logging, machine, max_clients};
use mayfly::snapshot::loader;
use mayfly::snapshot::storage::{Disk, Storage};
use rand::TryRng;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook_mio::v1_0::Signals;

/// Signals that ask the server to stop, or to see to its log.
const SIGNALS_HEARD: [i32; 5] = [SIGTERM, SIGINT, SIGQUIT, SIGXCPU, SIGHUP];
/// Signals that would end the process, unsaved, though they ask nothing of it. A file that may grow
/// no further (SIGXFSZ) fails the snapshot instead.
const SIGNALS_IGNORED: [i32; 7] = [
    SIGALRM, SIGIO, SIGPROF, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXFSZ,
];

const USAGE: &str = "\
Usage: mayfly [/path/to/mayfly.conf] [--name value | --name=value ...]
       mayfly - (configuration from standard input)
       mayfly --check-config [FILE] [--name value ...]   reads the settings and starts nothing
       mayfly --print-config [FILE] [--name value ...]   prints them as an annotated file
       mayfly check FILE                                 verifies a snapshot
       mayfly version | --version | -v
       mayfly help | --help | -h

Every setting of the configuration file can be given as --name value, or as the environment
variable MAYFLY_NAME; the command line wins, then the environment, then the file. The words check,
help and version are no files; write ./help for a file of that name.
Examples:
       mayfly --port 7777 --save ''
       mayfly /etc/mayfly.conf --loglevel verbose
       mayfly --print-config > mayfly.conf
";

fn main() -> ExitCode {
    let (code, text) = match run() {
        Ok(text) => (ExitCode::SUCCESS, text),
        Err(message) => {
            // Nothing is left to be done if even this cannot be said.
            let _ = writeln!(std::io::stderr(), "mayfly: {message}");
            if logging::is_to_file() {
                log::error!("Fatal: {message}");
            }
            return ExitCode::FAILURE;
        }
    };
    match say(&text) {
        // Who reads only the first lines has what he wants.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => code,
    }
}

/// Does what the arguments ask for; what is to be printed. Serving does not return but for errors.
fn run() -> Result<String, String> {
    let args = std::env::args_os().skip(1).map(|arg| {
        arg.into_string()
            .map_err(|arg| format!("the argument '{}' is not UTF-8", arg.display()))
    });
    let args = args.collect::<Result<Vec<String>, String>>()?;
    match args.first().map(String::as_str) {
        Some("--version" | "-v" | "version") => {
            let version = env!("CARGO_PKG_VERSION");
            return Ok(format!("Mayfly server v={version} bits=64\n"));
        }
        Some("--help" | "-h" | "help") => return Ok(format!("{USAGE}{}", config::help())),
        Some("check") => {
            return match &args[1..] {
                [path] => check(path).map_err(|error| format!("{path}: {error}")),
                _ => Err(format!("check takes one file\n{USAGE}")),
            };
        }
        _ => {}
    }
    if let Some(args) = without("--check-config", &args) {
        return check_config(&args);
    }
    if let Some(args) = without("--print-config", &args) {
        return read_config(&args).map(|(config, ..)| config::annotated(&config));
    }
    serve(&args).map(|never| match never {})
}

/// The other arguments, if `flag` is among them. No value can be mistaken for it, as none starts
/// with two dashes.
fn without(flag: &str, args: &[String]) -> Option<Vec<String>> {
    let is_other = |arg: &&String| *arg != flag;
    let others: Vec<String> = args.iter().filter(is_other).cloned().collect();
    (others.len() < args.len()).then_some(others)
}

/// Reads the settings as a start would, and tells what it would warn about.
fn check_config(args: &[String]) -> Result<String, String> {
    let (config, warnings, _) = read_config(args)?;
    listener::check(&config)?;
    let warnings = warnings
        .iter()
        .map(|warning| format!("warning: {warning}\n"));
    Ok(warnings
        .chain(["the configuration is valid\n".to_owned()])
        .collect())
}

/// Prints. Unlike print!, an output that is full or closed is no reason to panic.
fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Verifies a snapshot and tells what is in it.
fn check(path: &str) -> Result<String, loader::LoadError> {
    let reading = SystemClock::new(Source::Wall).read();
    let (file, size) = Disk.open(Path::new(path))?;
    let file = std::io::BufReader::new(file);
    let summary = loader::check(file, size, reading.wall_us / 1000)?;
    let [major, minor, patch] = summary.header.server;
    let mut text = format!(
        "{path}: whole, {} bytes, {} chunks\n  written by Mayfly {major}.{minor}.{patch}\n  \
         shows the instant {} (Unix ms)\n",
        summary.size, summary.chunks, summary.header.cut_unix_ms
    );
    for (db, keys, volatile, due) in summary.databases {
        text +=
            &format!("  db{db}: {keys} keys, {volatile} with a deadline, {due} of them due now\n");
    }
    if summary.libraries > 0 {
        text += &format!("  {} libraries of functions\n", summary.libraries);
    }
    if summary.rules > 0 {
        text += &format!("  {} rules of expiry\n", summary.rules);
    }
    Ok(text)
}

/// The environment variables that are settings.
fn settings_in(
    env: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, String> {
    let is_ours = |key: &OsString| {
        let prefix = config::ENV_PREFIX.as_bytes();
        key.as_encoded_bytes().starts_with(prefix)
    };
    env.filter(|(key, _)| is_ours(key))
        .map(|(key, value)| {
            let name = key.display().to_string();
            let pair = key
                .into_string()
                .and_then(|key| Ok((key, value.into_string()?)));
            pair.map_err(|_| format!("the environment variable {name} is not UTF-8"))
        })
        .collect()
}

fn read_config(args: &[String]) -> Result<(Config, Vec<String>, String), String> {
    let (file, _) = config::split_file_argument(args);
    let mut name = String::new();
    let mut text = Vec::new();
    if let Some(path) = file {
        if path == "-" {
            std::io::stdin()
                .read_to_end(&mut text)
                .map_err(|error| format!("reading the configuration from stdin: {error}"))?;
            "stdin".clone_into(&mut name);
        } else {
            text = std::fs::read(path)
                .map_err(|error| format!("can't open config file '{path}': {error}"))?;
            let absolute = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
            name = absolute.display().to_string();
        }
    }
    let source = file.map(|_| (name.as_str(), text.as_slice()));
    let env = settings_in(std::env::vars_os())?;
    let (config, warnings) = config::parse(source, env.into_iter(), args, &mut read_included)
        .map_err(|errors| {
            for warning in &errors.warnings {
                let _ = writeln!(std::io::stderr(), "mayfly: warning: {warning}");
            }
            errors.to_string()
        })?;
    let is_rewritable = file.is_some_and(|path| path != "-");
    Ok((
        config,
        warnings,
        if is_rewritable { name } else { String::new() },
    ))
}

/// Makes room for as many descriptors as clients are allowed, or allows fewer clients.
fn fit_clients(config: &mut Config) {
    if let Err(most) = max_clients::make_room(config) {
        log::warn!(
            "The limit on open files allows {most} clients only, maxclients was {}",
            config.clients_max
        );
        config.clients_max = most;
    }
}

fn serve(args: &[String]) -> Result<std::convert::Infallible, String> {
    let (mut config, warnings, config_file) = read_config(args)?;
    logging::start(&config.logfile, logging::level(config.loglevel))
        .map_err(|error| format!("can't open the log file '{}': {error}", config.logfile))?;
    warnings.iter().for_each(|warning| log::warn!("{warning}"));
    let dir = std::fs::canonicalize(&config.dir)
        .map_err(|error| format!("can't use the directory '{}' (dir): {error}", config.dir))?;
    config.dir = dir.display().to_string();
    fit_clients(&mut config);
    let source = match config.expire_clock {
        ExpireClock::Monotonic => Source::Monotonic,
        ExpireClock::Wall => Source::Wall,
    };
    let mut clock = SystemClock::new(source);
    let mut seed = rand::rngs::SysRng;
    let seed = seed
        .try_next_u64()
        .map_err(|error| format!("no random seed: {error}"))?;
    let listeners = listener::open(&config)?;
    let metrics = listener::open_metrics(&config)?;
    let reading = clock.read();
    let mut engine = Engine::new(config, reading, seed);
    engine.identity.pid = std::process::id();
    engine.identity.config_file = config_file;
    engine.identity.started_us = reading.monotonic_us;
    engine.identity.executable = std::env::current_exe()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let system = rustix::system::uname();
    engine.identity.os = format!(
        "{} {} {}",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy(),
        system.machine().to_string_lossy()
    );
    engine.identity.memory_bytes = machine::memory_bytes();
    mayfly::command::server::config::apply_all(&mut engine);
    if engine.config.maxmemory.is_share() {
        let (limit, of) = (engine.memory_limit_bytes(), engine.identity.memory_bytes);
        let share = engine.config.maxmemory;
        log::info!("maxmemory {share} is {limit} bytes, of {of} that this process may use");
    }
    let signals = take_signals().map_err(|error| format!("signals: {error}"))?;
    banner(&engine.config);
    for fault in memory::build_faults() {
        log::warn!("This is not the server that was measured: {fault}");
    }
    engine.begin_load().map_err(|error| {
        format!(
            "the snapshot {} cannot be loaded: {error}. It was left as it is. `mayfly check FILE` \
             examines it.",
            engine.snapshot_path().display()
        )
    })?;
    let pidfile = engine.config.pidfile.clone();
    write_pidfile(&pidfile);
    let unixsocket = engine.config.unixsocket.clone();
    let socket_id = listener::socket_id(&unixsocket);
    let mut server = Server::new(engine, &mut clock, listeners, metrics, signals)
        .map_err(|error| format!("starting the event loop: {error}"))?;
    let code = server.run().map_err(|error| format!("polling: {error}"))?;
    // What is left behind would only be replaced at the next start; another's is left alone.
    if pid_in(&pidfile) == Some(std::process::id()) {
        let _ = std::fs::remove_file(pidfile);
    }
    if socket_id.is_some() && socket_id == listener::socket_id(&unixsocket) {
        let _ = std::fs::remove_file(unixsocket);
    }
    // Freeing millions of entries one by one would only delay the exit, with the port still open.
    std::process::exit(code)
}

/// The signals that the server acts on; those that could only end it are caught and forgotten.
fn take_signals() -> std::io::Result<Signals> {
    for signal in SIGNALS_IGNORED {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    Signals::new(SIGNALS_HEARD)
}

/// The process id in a file, if there is one and nothing else.
fn pid_in(path: &str) -> Option<u32> {
    // A device or a pipe might never end.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let text = std::fs::read_to_string(path).ok().filter(|_| is_file)?;
    text.trim().parse().ok()
}

/// Redis: replaces whatever file has the name.
fn write_pidfile(path: &str) {
    if path.is_empty() {
        return;
    }
    let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if length > 0 && pid_in(path).is_none() {
        log::warn!("{path} is no PID file and is left as it is");
    } else if let Err(error) = std::fs::write(path, format!("{}\n", std::process::id())) {
        log::warn!("Failed to write PID file {path}: {error}");
    }
}

fn banner(config: &Config) {
    let version = env!("CARGO_PKG_VERSION");
    let place = if config.port == 0 {
        config.unixsocket.clone()
    } else {
        // A dash says that the address may be missing on this machine.
        let hosts = config.bind.iter().map(|host| host.trim_start_matches('-'));
        format!(
            "{}, port {}",
            hosts.collect::<Vec<_>>().join(" and "),
            config.port
        )
    };
    let log = match config.logfile.as_str() {
        "" => String::new(),
        file => format!("\n               Log: {file}"),
    };
    // Nobody may be there to see it.
    let _ = say(&format!(
        "
   .  ' .      Mayfly {version} (64 bit)
    \\  |  /
  '-- (o) --'  Listening on {place}
    /  |  \\     PID: {}
   '   |   '
       '        A server for keys that expire.{log}
\n",
        std::process::id()
    ));
    log::warn!(
        "Mayfly version={version}, bits=64, pid={}, just started",
        std::process::id()
    );
}
