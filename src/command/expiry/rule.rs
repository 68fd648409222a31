//! EXPIRY RULE: what holds for the deadlines of keys that begin alike.
//!
//! The rules are the setting `expiry-rule`: the configuration file may have them, CONFIG REWRITE
//! writes them, and a snapshot keeps them. They are not data and leave no effects: what they do to
//! a key does.

use std::sync::Arc;

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::expiry::database;
use crate::command::server::introspect;
use crate::config::expiry_rules::ExpiryRule;
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

fn set(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let words: Vec<&[u8]> = args.from(3).collect();
    let refused = |why: String| CommandError::owned(format!("ERR {why}"));
    let rule = Arc::new(ExpiryRule::parse(&words).map_err(refused)?);
    let Engine {
        config, keyspace, ..
    } = engine;
    if rule.db.is_some_and(|db| db >= config.databases) {
        return Err(CommandError::DbIndexOutOfRange);
    }
    let old = config.expiry_rules.put(rule.clone()).map_err(refused)?;
    old.iter().for_each(|old| keyspace.rules.remove(old));
    keyspace.rules.insert(rule);
    // Rules change what is saved.
    keyspace.changes.count(1);
    caller.reply().ok();
    Ok(())
}

fn del(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let old = engine.config.expiry_rules.remove(args.get(3));
    if let Some(old) = &old {
        engine.keyspace.rules.remove(old);
        engine.keyspace.changes.count(1);
    }
    caller.reply().integer(old.is_some().into());
    Ok(())
}

fn list(engine: &mut Engine, caller: &mut Caller<'_>) -> Result<(), CommandError> {
    let mut reply = caller.reply();
    let rules = engine.config.expiry_rules.iter();
    reply.array(rules.len());
    for rule in rules {
        reply_rule(&mut reply, Some(rule));
    }
    Ok(())
}

fn get(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let rule = engine.config.expiry_rules.get(args.get(3));
    reply_rule(&mut caller.reply(), rule.map(|rule| &**rule));
    Ok(())
}

/// The rule that a key has, or would have.
fn test(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let db = match args.len() {
        4 => caller.db,
        _ if args.is(4, "db") => database(engine, args, 5)?,
        _ => return Err(CommandError::Syntax),
    };
    let rule = engine.keyspace.rules.of(db, args.get(3));
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
