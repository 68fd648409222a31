//! One connection as bytes: what has come in, and the answers that go out, one at a time.
//!
//! A request that comes while another is being answered waits its turn in the buffer. When there is
//! no more room in it, no more is read, so its size is bounded.

use super::request::{HEAD_BYTES_MAX, Parser, Request};
use super::{Response, Site, refuse};
use crate::engine::Engine;

/// Bytes that are read at once, at most.
pub const READ_BYTES_MAX: usize = 8 * 1024;

/// What a client has sent and not been answered.
#[derive(Default)]
pub struct Visitor {
    input: Vec<u8>,
    parser: Parser,
    /// Waits for figures.
    pending: Option<Request>,
    /// Has got its last answer.
    is_over: bool,
}

impl Visitor {
    /// Whether more may be received.
    pub fn has_room(&self) -> bool {
        !self.is_over && self.pending.is_none() && self.input.len() < HEAD_BYTES_MAX
    }

    /// Takes bytes, at most [`READ_BYTES_MAX`] of them, that there is room for.
    pub fn receive(&mut self, bytes: &[u8]) {
        if !self.is_over {
            self.input.extend_from_slice(bytes);
        }
    }

    /// The answer to what was asked first; none if nothing whole was asked, or the figures for it
    /// are still to be taken.
    pub fn next_response(&mut self, site: &mut Site, engine: &Engine) -> Option<Response> {
        if self.is_over {
            return None;
        }
        if self.pending.is_none() {
            match self
                .parser
                .step(&mut self.input, &engine.config.metrics_hosts)
            {
                Ok(request) => self.pending = request,
                Err(refusal) => return Some(self.end(refuse(engine, refusal))),
            }
        }
        let response = site.answer(engine, self.pending.as_ref()?)?;
        self.pending = None;
        if response.closes {
            return Some(self.end(response));
        }
        Some(response)
    }

    fn end(&mut self, response: Response) -> Response {
        self.is_over = true;
        self.input = Vec::new();
        response
    }

    /// Whether a request waits for figures.
    pub fn is_waiting(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether a request has begun whose head is not complete.
    pub fn is_in_head(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether the last answer has been given.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Bytes that it holds.
    pub fn memory_bytes(&self) -> usize {
        let path = self
            .pending
            .as_ref()
            .map_or(0, |request| request.path.capacity());
        self.input.capacity() + path
    }
}
