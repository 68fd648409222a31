//! On whose behalf a command runs, and where its reply goes.
//!
//! Whoever runs commands has a place of its own for their replies and lends it: the requests of a
//! client are answered into the client's output, which is taken out of its session meanwhile. What
//! comes from elsewhere in that time, such as a message the client publishes to itself, collects in
//! the session and follows the reply.

use super::Outside;
use crate::engine::Engine;
use crate::engine::session::{Session, SessionKey};
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply};
use crate::store::Live;

/// The caller of a command.
pub struct Caller<'a> {
    /// The client.
    pub session: SessionKey,
    /// The database its commands work on. SELECT changes it; the client keeps what it is after its
    /// request.
    pub db: usize,
    /// How replies are written.
    pub protocol: Protocol,
    /// Whether the command may wait for something, and its reply come later. One that is part of
    /// something greater, such as a transaction, may not, and time stands still for it.
    pub may_wait: bool,
    /// The command says that it took long, so that the time is read anew.
    pub took_long: bool,
    /// Where they go.
    pub sink: &'a mut Output,
    /// Where it is called from.
    pub outside: &'a mut dyn Outside,
}

impl<'a> Caller<'a> {
    /// A client whose replies go to `sink`.
    #[inline]
    pub fn new(
        key: SessionKey,
        session: &Session,
        sink: &'a mut Output,
        outside: &'a mut dyn Outside,
    ) -> Caller<'a> {
        Caller {
            session: key,
            db: session.db,
            protocol: session.protocol,
            may_wait: true,
            took_long: false,
            sink,
            outside,
        }
    }

    /// The database, as the caller sees it now.
    #[inline]
    pub fn live<'e>(&self, engine: &'e mut Engine) -> Live<'e> {
        let mut live = engine.keyspace.live(self.db, &engine.reading);
        live.is_touching = !engine.sessions[self.session].is_no_touch;
        live.is_for_script = engine.scripts.is_lent();
        live
    }

    /// Writes the reply.
    #[inline]
    pub fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.sink, self.protocol)
    }
}
