//! How many clients there may be, `maxclients`: whom the server turns away, and room for as many
//! descriptors.

use super::web::CONNECTIONS_MAX;
use crate::config::{BIND_ADDRESSES_MAX, Config};
use crate::engine::session::is_local;
use crate::engine::{Engine, Origin};

/// Descriptors the server needs beside those of its clients.
const DESCRIPTORS_RESERVED: u64 = 32;
/// More of them if there is a port for metrics.
const DESCRIPTORS_OF_METRICS: u64 = (CONNECTIONS_MAX + BIND_ADDRESSES_MAX) as u64;

/// Why a client is turned away: there are as many as `maxclients` allows, or it is a stranger to a
/// server without a password.
pub fn refusal(engine: &Engine, origin: &Origin) -> Option<&'static str> {
    let config = &engine.config;
    if engine.sessions.len() >= config.clients_max as usize {
        return Some("-ERR max number of clients reached\r\n");
    }
    let is_open = config.is_protected && config.requirepass.is_empty();
    (is_open && !is_local(&origin.peer, origin.is_unix)).then_some(
        "-DENIED Mayfly is running in protected mode because protected mode is enabled and no \
         password is set for the default user. In this mode connections are only accepted from \
         the loopback interface. Set a password with requirepass, or set protected-mode to no if \
         this address is safe from everybody else.\r\n",
    )
}

/// Makes room for the descriptors of as many clients as are allowed.
///
/// # Errors
/// If the system does not allow that: how many clients it allows.
pub fn make_room(config: &Config) -> Result<(), u32> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let reserved = match config.metrics_port {
        0 => DESCRIPTORS_RESERVED,
        _ => DESCRIPTORS_RESERVED + DESCRIPTORS_OF_METRICS,
    };
    let wanted = u64::from(config.clients_max) + reserved;
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return Ok(());
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    limit.current = Some(wanted.min(most));
    let is_set = setrlimit(Resource::Nofile, limit).is_ok();
    let granted = if is_set { wanted.min(most) } else { current };
    if granted >= wanted {
        return Ok(());
    }
    Err(granted.saturating_sub(reserved).max(1) as u32)
}
