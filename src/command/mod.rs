//! What commands do: the way that every call takes, and a module or folder for each family.
//!
//! ```text
//! table      what is known of commands: rows, and which keys they use how
//! dispatch   the only way to a handler: look-ahead, admission, the call, whoever waits
//! string, bitmap, hyperloglog, hash, list, set, zset, geo, key, expiry,
//! connection, transaction, pubsub, script, server            the families
//! ```
//!
//! A family exports the rows of its commands, each written beside its handler. A handler of kind
//! [`Handler::Data`](table::row::Handler) sees one database at one instant
//! ([`Live`](crate::store::Live)) and nothing else; one of kind `Handler::Engine` sees the whole
//! engine, for commands about sessions, settings, or several databases.
//!
//! Not here: parsing of bytes (`resp`), keys and deadlines (`store`), sockets (`server`).

pub mod table;

pub mod dispatch;

pub mod string;

pub mod bitmap;

pub mod hyperloglog;

pub mod member;

pub mod hash;

pub mod set;

pub mod zset;

pub mod geo;

pub mod list;

pub mod stream;

pub mod key;

pub mod expiry;

pub mod connection;

pub mod transaction;

pub mod pubsub;

#[cfg(feature = "scripting")]
pub mod script;

pub mod server;

use crate::resp::reply::Reply;
use crate::value::StringRef;
use table::row::Row;

/// Families in the order of the documentation.
pub const FAMILIES: &[&[Row]] = &[
    string::COMMANDS,
    hash::COMMANDS,
    hash::expire::COMMANDS,
    set::COMMANDS,
    member::COMMANDS,
    member::keydb_dragonfly::COMMANDS,
    string::increx::COMMANDS,
    string::compare::COMMANDS,
    string::soft::COMMANDS,
    bitmap::COMMANDS,
    bitmap::operate::COMMANDS,
    bitmap::field::COMMANDS,
    hyperloglog::COMMANDS,
    zset::COMMANDS,
    zset::range::COMMANDS,
    zset::pop::COMMANDS,
    zset::combine::COMMANDS,
    geo::COMMANDS,
    geo::search::COMMANDS,
    list::COMMANDS,
    stream::COMMANDS,
    stream::add::COMMANDS,
    stream::delete::COMMANDS,
    stream::range::COMMANDS,
    stream::read::COMMANDS,
    stream::group::COMMANDS,
    stream::pending::COMMANDS,
    stream::info::COMMANDS,
    key::COMMANDS,
    key::sort::COMMANDS,
    key::expire::COMMANDS,
    expiry::COMMANDS,
    connection::COMMANDS,
    connection::client::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    #[cfg(feature = "scripting")]
    script::COMMANDS,
    #[cfg(feature = "scripting")]
    script::function::COMMANDS,
    server::introspect::COMMANDS,
    server::config::COMMANDS,
    server::info::COMMANDS,
    server::COMMANDS,
    server::snapshot::COMMANDS,
    server::debug::COMMANDS,
];

/// Answers a string or, if there is none, null; a long one is shared.
fn reply_string(reply: &mut Reply<'_>, value: Option<StringRef<'_>>) {
    match value {
        Some(StringRef::Short(bytes)) => reply.bulk(bytes),
        Some(StringRef::Long(bytes)) => reply.bulk_shared(bytes),
        None => reply.null(),
    }
}
