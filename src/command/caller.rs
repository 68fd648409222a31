//! On whose behalf a command runs, and where its reply goes.
//!
//! Whoever runs commands has a place of its own for their replies and lends it: the requests of a
//! client are answered into the client's output, which is taken out of its session meanwhile. What
//! comes from elsewhere in that time, such as a message the client publishes to itself, collects in
//! the session and follows the reply.

use crate::engine::session::{Session, SessionKey};
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply};

/// The caller of a command.
pub struct Caller<'a> {
    /// The client.
    pub session: SessionKey,
    /// How replies are written.
    pub protocol: Protocol,
    /// The command is part of a transaction: it may not wait, and time stands still.
    pub is_in_exec: bool,
    /// Where they go.
    pub sink: &'a mut Output,
}

impl<'a> Caller<'a> {
    /// A client whose replies go to `sink`.
    #[inline]
    pub fn new(key: SessionKey, session: &Session, sink: &'a mut Output) -> Caller<'a> {
        Caller {
            session: key,
            protocol: session.protocol,
            is_in_exec: false,
            sink,
        }
    }

    /// Writes the reply.
    #[inline]
    pub fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.sink, self.protocol)
    }
}
