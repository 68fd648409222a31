//! What the server tells about its commands: COMMAND and the HELP of every container, all derived
//! from the rows.
//!
//! The shapes are those redis-cli reads for its hints and cluster clients for routing. Left out are
//! tips and history: nothing here needs them.

use crate::command::dispatch::args::{Args, QUOTED_LEN_MAX};
use crate::command::dispatch::caller::Caller;
use crate::command::table::keys::{KeyUse, keys_of};
use crate::command::table::row::{Handler, *};
use crate::command::table::{Entry, table};
use crate::engine::Engine;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::value::glob::Glob;

/// The commands that describe commands.
pub const COMMANDS: &[Row] = &[Row {
    name: "command",
    arity: -1,
    flags: flag::LOADING | flag::STALE | flag::LONG,
    categories: category::SLOW | category::CONNECTION,
    keys: &[],
    group: Group::Server,
    since: "2.8.13",
    complexity: "O(N) with N the number of commands",
    summary: "Returns a description of every command.",
    args: &[],
    subcommands: COMMAND,
    handler: Handler::Engine(command),
}];

/// Subcommands of COMMAND.
const COMMAND: &[Row] = &[
    Row {
        name: "count",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(1)",
        summary: "Returns how many commands the server has.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(command_count),
    },
    Row {
        name: "list",
        arity: -2,
        flags: flag::LOADING | flag::STALE | flag::LONG,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Server,
        since: "7.0.0",
        complexity: "O(N) with N the number of commands",
        summary: "Returns the names of all commands, or of those that match a filter.",
        args: &[Arg::one_of("filterby", LIST_FILTER)
            .token("FILTERBY")
            .optional()],
        subcommands: &[],
        handler: Handler::Engine(command_list),
    },
    Row {
        name: "info",
        arity: -2,
        flags: flag::LOADING | flag::STALE | flag::LONG,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(N) with N the number of commands asked for",
        summary: "Returns a description of the given commands, or of all.",
        args: &[Arg::new("command-name", ArgKind::String)
            .optional()
            .multiple()],
        subcommands: &[],
        handler: Handler::Engine(command_info),
    },
    Row {
        name: "docs",
        arity: -2,
        flags: flag::LOADING | flag::STALE | flag::LONG,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Server,
        since: "7.0.0",
        complexity: "O(N) with N the number of commands asked for",
        summary: "Returns the documentation of the given commands, or of all.",
        args: &[Arg::new("command-name", ArgKind::String)
            .optional()
            .multiple()],
        subcommands: &[],
        handler: Handler::Engine(command_docs),
    },
    Row {
        name: "getkeys",
        arity: -3,
        flags: flag::LOADING | flag::STALE | flag::LONG,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Server,
        since: "2.8.13",
        complexity: "O(N) with N the number of arguments",
        summary: "Returns the keys in a complete command line.",
        args: &[
            Arg::new("command", ArgKind::String),
            Arg::new("arg", ArgKind::String).optional().multiple(),
        ],
        subcommands: &[],
        handler: Handler::Engine(command_getkeys),
    },
    Row {
        name: "getkeysandflags",
        arity: -3,
        flags: flag::LOADING | flag::STALE | flag::LONG,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Server,
        since: "7.0.0",
        complexity: "O(N) with N the number of arguments",
        summary: "Returns the keys in a complete command line and how each is used.",
        args: &[
            Arg::new("command", ArgKind::String),
            Arg::new("arg", ArgKind::String).optional().multiple(),
        ],
        subcommands: &[],
        handler: Handler::Engine(command_getkeysandflags),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW | category::CONNECTION,
        keys: &[],
        group: Group::Server,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Lists the subcommands of COMMAND, each with a short description.",
        args: &[],
        subcommands: &[],
        handler: Handler::Engine(help),
    },
];

/// Filters of COMMAND LIST.
const LIST_FILTER: &[Arg] = &[
    Arg::new("module-name", ArgKind::String).token("MODULE"),
    Arg::new("category", ArgKind::String).token("ACLCAT"),
    Arg::new("pattern", ArgKind::Pattern).token("PATTERN"),
];

/// HELP of any container: a line of grammar and one of explanation for each subcommand.
///
/// # Errors
/// None.
pub fn help(_: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let Some(number) = table().find(args.get(0)) else {
        return Err(wrong_subcommand(args));
    };
    let container = table().entry(number).row;
    let mut lines = vec![format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        container.name.to_uppercase()
    )];
    if !matches!(container.handler, Handler::Container) {
        lines.push("(no subcommand)".to_owned());
        lines.push(format!("    {}", container.summary));
    }
    for row in container
        .subcommands
        .iter()
        .filter(|row| row.name != "help")
    {
        lines.push(format!("{}{}", row.name.to_uppercase(), synopsis(row.args)));
        lines.push(format!("    {}", row.summary));
    }
    lines.push("HELP".to_owned());
    lines.push("    Print this help.".to_owned());
    let mut reply = caller.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
    Ok(())
}

/// The grammar of arguments as people write it, each preceded by a space.
fn synopsis(args: &[Arg]) -> String {
    args.iter()
        .map(|arg| format!(" {}", synopsis_of(arg)))
        .collect()
}

fn synopsis_of(arg: &Arg) -> String {
    let shown = if arg.display.is_empty() {
        arg.name
    } else {
        arg.display
    };
    let members = || arg.args.iter().map(synopsis_of).collect::<Vec<_>>();
    let value = match arg.kind {
        ArgKind::PureToken => String::new(),
        ArgKind::OneOf => {
            let members = members().join("|");
            if arg.optional || !arg.token.is_empty() {
                members
            } else {
                format!("({members})")
            }
        }
        ArgKind::Block => members().join(" "),
        _ => format!("<{shown}>"),
    };
    let mut text = match (arg.token, value.as_str()) {
        ("", _) => value.clone(),
        (token, "") => token.to_owned(),
        (token, _) => format!("{token} {value}"),
    };
    if arg.multiple {
        let is_whole = arg.multiple_token || value.is_empty();
        let again = if is_whole { &text } else { &value };
        text = format!("{text} [{again} ...]");
    }
    if arg.optional {
        format!("[{text}]")
    } else {
        text
    }
}

/// The error for a subcommand that exists but was called with too many arguments.
pub fn wrong_subcommand(args: Args<'_>) -> CommandError {
    refer_to_help(
        "ERR unknown subcommand or wrong number of arguments for '",
        args,
    )
}

/// The error for a subcommand that does not exist.
pub fn unknown_subcommand(args: Args<'_>) -> CommandError {
    refer_to_help("ERR unknown subcommand '", args)
}

/// That a container has no such subcommand, or not with these arguments; its HELP knows more.
pub(super) fn refer_to_help(before: &str, args: Args<'_>) -> CommandError {
    let container = args.text(0).to_uppercase();
    let after = format!("'. Try {container} HELP.");
    CommandError::quoting(before, args.quoted(1, QUOTED_LEN_MAX), &after)
}

/// A set of the names of all bits that are set.
fn reply_names<T: Copy>(reply: &mut Reply<'_>, names: &[(T, &str)], is_set: impl Fn(T) -> bool) {
    let set = || names.iter().filter(|(bit, _)| is_set(*bit));
    reply.set(set().count());
    set().for_each(|(_, name)| reply.simple(name));
}

/// First key, last key and step, as clients that know no key specifications need them: all
/// specifications in one range.
fn key_range(row: &Row) -> (i64, i64, i64) {
    let last_of = |spec: &KeySpec| match spec.last {
        last if last < 0 => i64::from(last),
        last => i64::from(spec.first) + i64::from(last),
    };
    let mut ranges = row
        .keys
        .iter()
        .filter(|spec| spec.search == KeySearch::Range);
    let Some(first) = ranges.next() else {
        return (0, 0, 0);
    };
    let last = ranges.next_back().unwrap_or(first);
    (i64::from(first.first), last_of(last), i64::from(first.step))
}

fn reply_key_spec(reply: &mut Reply<'_>, spec: &KeySpec) {
    reply.map(3);
    reply.bulk(b"flags");
    reply_names(reply, key_flag::NAMES, |bit| spec.flags & bit != 0);
    let (first, last) = (i64::from(spec.first), i64::from(spec.last));
    let step = i64::from(spec.step);
    let (begin, kind, fields) = match spec.search {
        KeySearch::Range => (
            "index",
            "range",
            [("lastkey", last), ("keystep", step), ("limit", 0)],
        ),
        KeySearch::Counted => (
            "index",
            "keynum",
            [("keynumidx", 0), ("firstkey", 1), ("keystep", step)],
        ),
        KeySearch::BehindWord(_) => (
            "keyword",
            "range",
            [("lastkey", last), ("keystep", step), ("limit", 2)],
        ),
        KeySearch::Unknown => ("unknown", "unknown", [("", 0); 3]),
    };
    let is_known = spec.search != KeySearch::Unknown;
    if let KeySearch::BehindWord(word) = spec.search {
        reply.bulk(b"begin_search");
        reply.map(2);
        reply_pair(reply, "type", begin);
        reply.bulk(b"spec");
        reply.map(2);
        reply_pair(reply, "keyword", word);
        reply.bulk(b"startfrom");
        reply.integer(first);
    } else {
        reply_search(
            reply,
            "begin_search",
            begin,
            &[("index", first)][..usize::from(is_known)],
        );
    }
    reply_search(
        reply,
        "find_keys",
        kind,
        &fields[..3 * usize::from(is_known)],
    );
}

fn reply_search(reply: &mut Reply<'_>, name: &str, kind: &str, fields: &[(&str, i64)]) {
    reply.bulk(name.as_bytes());
    reply.map(2);
    reply_pair(reply, "type", kind);
    reply.bulk(b"spec");
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.integer(*value);
    }
}

/// The ten elements of COMMAND INFO.
fn reply_info(reply: &mut Reply<'_>, number: u16) {
    let entry = table().entry(number);
    let row = entry.row;
    let (first, last, step) = key_range(row);
    reply.array(10);
    reply.bulk(entry.full_name().as_bytes());
    reply.integer(row.arity.into());
    reply_names(reply, flag::NAMES, |bit| row.flags & bit != 0);
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    reply_names(reply, category::NAMES, |bit| row.categories & bit != 0);
    reply.set(0);
    reply.set(row.keys.len());
    row.keys.iter().for_each(|spec| reply_key_spec(reply, spec));
    if row.subcommands.is_empty() {
        return reply.set(0);
    }
    reply.array(row.subcommands.len());
    for subcommand in table().subcommands(number) {
        reply_info(reply, subcommand);
    }
}

fn reply_pair(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

fn reply_argument(reply: &mut Reply<'_>, arg: &Arg) {
    let has_members = matches!(arg.kind, ArgKind::OneOf | ArgKind::Block);
    let display = match arg.display {
        "" if has_members => "",
        "" => arg.name,
        display => display,
    };
    let pairs = [
        ("display_text", display),
        ("token", arg.token),
        ("since", arg.since),
        ("deprecated_since", arg.deprecated_since),
    ];
    let flags = [
        (arg.optional, "optional"),
        (arg.multiple, "multiple"),
        (arg.multiple_token, "multiple_token"),
    ];
    let has_flags = flags.iter().any(|(is_set, _)| *is_set);
    let count = 2
        + pairs.iter().filter(|(_, value)| !value.is_empty()).count()
        + usize::from(arg.key_spec.is_some())
        + usize::from(has_flags)
        + usize::from(has_members);
    reply.map(count);
    reply_pair(reply, "name", arg.name);
    reply_pair(reply, "type", arg.kind.name());
    for (name, value) in pairs {
        if !value.is_empty() {
            reply_pair(reply, name, value);
        }
        if let Some(spec) = arg.key_spec.filter(|_| name == "display_text") {
            reply.bulk(b"key_spec_index");
            reply.integer(spec.into());
        }
    }
    if has_flags {
        reply.bulk(b"flags");
        reply.set(flags.iter().filter(|(is_set, _)| *is_set).count());
        for (_, name) in flags.iter().filter(|(is_set, _)| *is_set) {
            reply.simple(name);
        }
    }
    if has_members {
        reply.bulk(b"arguments");
        reply_arguments(reply, arg.args);
    }
}

fn reply_arguments(reply: &mut Reply<'_>, args: &[Arg]) {
    reply.array(args.len());
    args.iter().for_each(|arg| reply_argument(reply, arg));
}

/// A name and its map of COMMAND DOCS.
fn reply_docs(reply: &mut Reply<'_>, number: u16) {
    let entry = table().entry(number);
    let row = entry.row;
    let pairs = [
        ("summary", row.summary),
        ("since", row.since),
        ("group", row.group.name()),
        ("complexity", row.complexity),
    ];
    reply.bulk(entry.full_name().as_bytes());
    let has_arguments = !row.args.is_empty();
    let has_subcommands = !row.subcommands.is_empty();
    let count = pairs.iter().filter(|(_, value)| !value.is_empty()).count();
    reply.map(count + usize::from(has_arguments) + usize::from(has_subcommands));
    for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
        reply_pair(reply, name, value);
    }
    if has_arguments {
        reply.bulk(b"arguments");
        reply_arguments(reply, row.args);
    }
    if has_subcommands {
        reply.bulk(b"subcommands");
        reply.map(row.subcommands.len());
        for subcommand in table().subcommands(number) {
            reply_docs(reply, subcommand);
        }
    }
}

/// The command of a full name, `get` or `client|id`.
fn find(name: &[u8]) -> Option<u16> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let command = table().find(parts.next()?)?;
    match parts.next() {
        None => Some(command),
        Some(subcommand) => table().find_subcommand(command, subcommand),
    }
}

fn command(_: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    let mut reply = caller.reply();
    reply.array(table().commands().len());
    table()
        .commands()
        .for_each(|number| reply_info(&mut reply, number));
    Ok(())
}

fn command_count(_: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    caller.reply().integer(table().commands().len() as i64);
    Ok(())
}

fn command_info(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    if args.len() == 2 {
        return command(engine, caller, args);
    }
    let mut reply = caller.reply();
    reply.array(args.len() - 2);
    for name in args.from(2) {
        match find(name) {
            Some(number) => reply_info(&mut reply, number),
            None => reply.null(),
        }
    }
    Ok(())
}

fn command_docs(
    _: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let numbers: Vec<u16> = if args.len() == 2 {
        table().commands().collect()
    } else {
        args.from(2).filter_map(find).collect()
    };
    let mut reply = caller.reply();
    reply.map(numbers.len());
    numbers
        .iter()
        .for_each(|&number| reply_docs(&mut reply, number));
    Ok(())
}

/// Which commands COMMAND LIST names, subcommands included.
enum Filter<'a> {
    None,
    Module,
    Category(u32),
    Pattern(Glob<'a>),
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Filter<'a>, CommandError> {
        if args.len() != 5 || !args.is(2, "filterby") {
            return Err(CommandError::Syntax);
        }
        let value = args.get(4);
        match args.get(3).to_ascii_lowercase().as_slice() {
            // There are no modules.
            b"module" => Ok(Filter::Module),
            b"aclcat" => {
                let is_named = |(_, name): &&(u32, &str)| {
                    name.strip_prefix('@')
                        .is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(value))
                };
                let found = category::NAMES.iter().find(is_named);
                Ok(Filter::Category(found.map_or(0, |(bit, _)| *bit)))
            }
            b"pattern" => Ok(Filter::Pattern(Glob::new(value, true))),
            _ => Err(CommandError::Syntax),
        }
    }

    fn fits(&self, entry: &Entry) -> bool {
        match self {
            Filter::None => true,
            Filter::Module => false,
            Filter::Category(bit) => entry.row.categories & bit != 0,
            Filter::Pattern(pattern) => pattern.matches(entry.full_name().as_bytes()),
        }
    }
}

fn command_list(
    _: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let filter = match args.len() {
        2 => Filter::None,
        _ => Filter::parse(args)?,
    };
    let numbers: Vec<u16> = table()
        .commands()
        .flat_map(|number| std::iter::once(number).chain(table().subcommands(number)))
        .filter(|&number| filter.fits(table().entry(number)))
        .collect();
    let mut reply = caller.reply();
    reply.array(numbers.len());
    for number in numbers {
        reply.bulk(table().entry(number).full_name().as_bytes());
    }
    Ok(())
}

/// The keys of a command line that begins at argument 2.
fn named_keys(args: Args<'_>) -> Result<Vec<KeyUse>, CommandError> {
    let invalid = || CommandError::text("ERR Invalid command specified");
    let mut number = table().find(args.get(2)).ok_or_else(invalid)?;
    let has_subcommands = !table().entry(number).row.subcommands.is_empty();
    if let Some(subcommand) = args.at(3).filter(|_| has_subcommands) {
        number = table()
            .find_subcommand(number, subcommand)
            .ok_or_else(invalid)?;
    }
    keys_of(table().entry(number).row, args, 2)
}

fn command_getkeys(
    _: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let keys = named_keys(args)?;
    let mut reply = caller.reply();
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(args.get(key.at)));
    Ok(())
}

fn command_getkeysandflags(
    _: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let keys = named_keys(args)?;
    let mut reply = caller.reply();
    reply.array(keys.len());
    for KeyUse { at, flags } in keys {
        reply.array(2);
        reply.bulk(args.get(at));
        reply_names(&mut reply, key_flag::NAMES, |bit| flags & bit != 0);
    }
    Ok(())
}
