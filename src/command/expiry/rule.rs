//! EXPIRY RULE: what holds for the deadlines of keys that begin alike.
//!
//! The rules are the setting `expiry-rule`: the configuration file may have them, CONFIG REWRITE
//! writes them, and a snapshot keeps them. They are not data and leave no effects: what they do to
//! a key does.

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::expiry::database;
use crate::command::server::introspect;
use crate::config::rules::{ExpiryRule, check, check_databases};
use crate::engine::Engine;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;

/// EXPIRY RULE SET|DEL|LIST|GET|TEST.
pub fn rule(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    match args.get(2).to_ascii_lowercase().as_slice() {
        b"set" if args.len() > 3 => set(engine, caller, args),
        b"del" if args.len() == 4 => del(engine, caller, args),
        b"list" if args.len() == 3 => list(engine, caller),
        b"get" if args.len() == 4 => get(engine, caller, args),
        b"test" if matches!(args.len(), 4 | 6) => test(engine, caller, args),
        _ => Err(introspect::wrong_subcommand(args)),
    }
}

/// Puts other rules into effect. They change what is saved, and count as a change.
fn put(engine: &mut Engine, rules: Vec<ExpiryRule>) -> Result<(), CommandError> {
    check(&rules).map_err(|why| CommandError::owned(format!("ERR {why}")))?;
    let before = std::mem::replace(&mut engine.config.expiry_rules, rules);
    if check_databases(&engine.config).is_err() {
        engine.config.expiry_rules = before;
        return Err(CommandError::DbIndexOutOfRange);
    }
    engine.keyspace.set_rules(&engine.config.expiry_rules);
    engine.keyspace.changes.count(1);
    Ok(())
}

fn set(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let words: Vec<&[u8]> = args.from(3).collect();
    let rule = ExpiryRule::parse(&words);
    let rule = rule.map_err(|why| CommandError::owned(format!("ERR {why}")))?;
    let mut rules = engine.config.expiry_rules.clone();
    match rules.iter_mut().find(|other| other.name == rule.name) {
        Some(other) => *other = rule,
        None => rules.push(rule),
    }
    put(engine, rules)?;
    caller.reply().ok();
    Ok(())
}

fn del(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let mut rules = engine.config.expiry_rules.clone();
    rules.retain(|rule| rule.name != args.get(3));
    let has_gone = rules.len() < engine.config.expiry_rules.len();
    if has_gone {
        put(engine, rules)?;
    }
    caller.reply().integer(has_gone.into());
    Ok(())
}

fn list(engine: &mut Engine, caller: &mut Caller<'_>) -> Result<(), CommandError> {
    let mut reply = caller.reply();
    reply.array(engine.config.expiry_rules.len());
    for rule in &engine.config.expiry_rules {
        reply_rule(&mut reply, Some(rule));
    }
    Ok(())
}

fn get(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let mut rules = engine.config.expiry_rules.iter();
    let rule = rules.find(|rule| rule.name == args.get(3));
    reply_rule(&mut caller.reply(), rule);
    Ok(())
}

/// The rule that a key has, or would have.
fn test(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let db = match args.len() {
        4 => caller.db,
        _ if args.is(4, "db") => database(engine, args, 5)?,
        _ => return Err(CommandError::Syntax),
    };
    let rule = engine.keyspace.rules().of(db, args.get(3));
    reply_rule(&mut caller.reply(), rule);
    Ok(())
}

/// A rule as a map of what it says, null for what it does not.
fn reply_rule(reply: &mut Reply<'_>, rule: Option<&ExpiryRule>) {
    let Some(rule) = rule else {
        return reply.null();
    };
    let numbers = [
        ("db", rule.db.map(u64::from)),
        ("default_ms", rule.default_ms),
        ("min_ms", rule.min_ms),
        ("max_ms", rule.max_ms),
        ("jitter_percent", Some(rule.jitter_percent.into())),
    ];
    reply.map(numbers.len() + 3);
    reply.bulk(b"name");
    reply.bulk(&rule.name);
    reply.bulk(b"prefix");
    reply.bulk(&rule.prefix);
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        match number {
            Some(number) => reply.integer(number as i64),
            None => reply.null(),
        }
    }
    reply.bulk(b"sliding");
    reply.boolean(rule.slides);
}
