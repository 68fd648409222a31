//! What one client may make the server keep: what it sends, transactions included, and what it is
//! owed. How many clients there may be is `server::max_clients`' business.

use super::Engine;
use super::session::{Closing, SessionKey};

/// A client that has not authenticated may leave this much unread, in bytes, whatever the limits
/// of its class: otherwise strangers could fill the memory with errors.
const STRANGER_OUTPUT_BYTES_MAX: u64 = 1024;
/// What a client is sent in one turn may be so much more than its limit, in bytes, if it takes it
/// at once. Redis: the first 16 KiB of replies are not counted.
const TURN_OUTPUT_BYTES_FREE: u64 = 16 * 1024;

impl Engine {
    /// Closes a client that has sent more than may wait: requests, and commands queued by MULTI.
    /// False if so.
    pub(super) fn check_input_limit(&mut self, key: SessionKey) -> bool {
        let session = &self.sessions[key];
        let held = session.input.held_bytes();
        self.metrics.input_buffer_max = self.metrics.input_buffer_max.max(held);
        let limit = self.config.query_buffer_bytes_limit as usize;
        if held + session.multi.queued_bytes <= limit {
            return true;
        }
        self.metrics.query_buffer_disconnections += 1;
        self.close(key, Closing::Now);
        false
    }

    /// Puts the hard limit of a client's class into effect for what is written to it in one turn.
    /// It changes with the settings, with subscriptions and with authentication.
    pub fn limit_output(&mut self, key: SessionKey) {
        let session = &mut self.sessions[key];
        let mut bytes = match self.config.output_limits[session.output_class()].hard_bytes {
            0 => u64::MAX,
            bytes => bytes,
        };
        if !session.is_authenticated {
            bytes = bytes.min(STRANGER_OUTPUT_BYTES_MAX);
        }
        let bytes = bytes.saturating_add(TURN_OUTPUT_BYTES_FREE);
        session.output.set_limit(bytes as usize);
    }

    /// Closes a client that is owed more than its class may be: over the hard limit at once, over
    /// the soft one when that has lasted.
    pub fn check_output_limit(&mut self, key: SessionKey) {
        let now_ms = self.reading.monotonic_us / 1000;
        let session = &mut self.sessions[key];
        // Closed already, for this or something else: it is counted once.
        if session.closing == Closing::Now {
            return;
        }
        let limit = &self.config.output_limits[session.output_class()];
        let held = session.output.len() as u64;
        self.metrics.output_buffer_max = self.metrics.output_buffer_max.max(held as usize);
        let hard_bytes = (session.output.limit() as u64).saturating_sub(TURN_OUTPUT_BYTES_FREE);
        let is_over_hard = session.output.has_dropped() || held > hard_bytes;
        let is_over_soft = limit.soft_bytes > 0 && held > limit.soft_bytes;
        if is_over_soft {
            let since = *session.over_soft_since_ms.get_or_insert(now_ms);
            if !is_over_hard && now_ms - since < u64::from(limit.soft_seconds) * 1000 {
                return;
            }
        } else {
            session.over_soft_since_ms = None;
            if !is_over_hard {
                return;
            }
        }
        self.metrics.output_buffer_disconnections += 1;
        self.close(key, Closing::Now);
    }
}
