//! Listening sockets: addresses, backlog, permissions.
//!
//! There are two sets of them, each with settings of its own: for clients of the Redis protocol,
//! and for the page and metrics if that is wanted.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Socket, Type};

use crate::config::{Config, SetError};

/// A listening socket.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// Unix socket.
    Unix(UnixListener),
}

impl Listener {
    /// Where it listens, for the log.
    pub fn place(&self) -> String {
        match self {
            Listener::Tcp(tcp) => tcp
                .local_addr()
                .map_or_else(|error| error.to_string(), |address| address.to_string()),
            Listener::Unix(unix) => unix
                .local_addr()
                .ok()
                .and_then(|address| Some(address.as_pathname()?.display().to_string()))
                .unwrap_or_else(|| "a unix socket".to_owned()),
        }
    }
}

/// The settings that say where TCP sockets listen.
pub struct Door {
    bind: (&'static str, fn(&Config) -> &[String]),
    port: (&'static str, fn(&Config) -> u16),
    first_token: usize,
}

/// For clients of the Redis protocol.
pub const CLIENTS: Door = Door {
    bind: ("bind", |config| &config.bind),
    port: ("port", |config| config.port),
    first_token: FIRST_LISTENER,
};
/// For the page and metrics.
pub const METRICS: Door = Door {
    bind: ("metrics-bind", |config| &config.metrics_bind),
    port: ("metrics-port", |config| config.metrics_port),
    first_token: FIRST_METRICS_LISTENER,
};

impl Door {
    /// Whether its sockets have other addresses if these settings changed.
    pub fn is_moved(&self, changed: &[&str]) -> bool {
        changed.contains(&self.bind.0) || changed.contains(&self.port.0)
    }

    fn port(&self, config: &Config) -> u16 {
        (self.port.1)(config)
    }

    fn bind<'a>(&self, config: &'a Config) -> &'a [String] {
        (self.bind.1)(config)
    }
}

/// What is wrong when there is neither a port nor a unix socket.
const NOWHERE: &str = "configured to not listen anywhere: set port or unixsocket";
/// What is wrong when there is a port for metrics without an address.
const NO_METRICS_ADDRESS: &str = "metrics-port is set, but metrics-bind is empty";
/// Tokens from this on are those of listeners; below it are sessions' keys.
pub const FIRST_LISTENER: usize = usize::MAX - 256;
/// The same of listeners for metrics.
pub const FIRST_METRICS_LISTENER: usize = usize::MAX - 128;

/// The listening sockets, registered with the poll.
pub struct Listeners {
    open: Vec<Listener>,
    door: &'static Door,
    registry: Registry,
}

impl Listeners {
    /// Registers open sockets.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn new(
        open: Vec<Listener>,
        door: &'static Door,
        registry: &Registry,
    ) -> io::Result<Listeners> {
        let registry = registry.try_clone()?;
        let mut listeners = Listeners {
            open,
            door,
            registry,
        };
        listeners.register(0)?;
        Ok(listeners)
    }

    /// Registers those from number `first` on.
    fn register(&mut self, first: usize) -> io::Result<()> {
        for (at, listener) in self.open.iter_mut().enumerate().skip(first) {
            let token = Token(self.door.first_token + at);
            match listener {
                Listener::Tcp(tcp) => self.registry.register(tcp, token, Interest::READABLE)?,
                Listener::Unix(unix) => self.registry.register(unix, token, Interest::READABLE)?,
            }
        }
        Ok(())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.open.iter()
    }

    /// Listens where `config` says instead, or goes on as `before`.
    ///
    /// # Errors
    /// If an address cannot be had. Should the old ones be lost as well, that is logged, and the
    /// clients that are connected go on.
    pub fn reopen(&mut self, config: &Config, before: &Config) -> Result<(), SetError> {
        // Addresses that stay must be free before they can be bound again. The Unix socket, which
        // is the first, cannot change and is not touched.
        self.open
            .retain(|listener| matches!(listener, Listener::Unix(_)));
        let kept = self.open.len();
        let door = self.door;
        let result = match open_tcp(config, door) {
            Ok(opened) => {
                self.open.extend(opened);
                Ok(())
            }
            Err(error) => {
                log::warn!("Changing the listening sockets failed: {error}");
                match open_tcp(before, door) {
                    Ok(opened) => self.open.extend(opened),
                    Err(error) => log::error!("The old listening sockets are lost: {error}"),
                }
                Err(if door.port(config) == door.port(before) {
                    SetError::failed(door.bind.0, "Failed to bind to specified addresses.")
                } else {
                    let why = "Unable to listen on this port. Check server logs.";
                    SetError::failed(door.port.0, why)
                })
            }
        };
        if let Err(error) = self.register(kept) {
            log::error!("Registering the listening sockets: {error}");
        }
        result
    }
}

/// Whether there is something to listen on: what can be told without looking at the machine.
///
/// # Errors
/// What is wrong with the addresses, or that there is none.
pub fn check(config: &Config) -> Result<(), String> {
    if config.metrics_port != 0 {
        if config.metrics_bind.is_empty() {
            return Err(NO_METRICS_ADDRESS.to_owned());
        }
        let mut addresses = config.metrics_bind.iter();
        addresses.try_for_each(|text| parse_address(text).map(drop))?;
    }
    let has_tcp = config.port != 0 && !config.bind.is_empty();
    if !has_tcp {
        return match config.unixsocket.is_empty() {
            true => Err(NOWHERE.to_owned()),
            false => Ok(()),
        };
    }
    config
        .bind
        .iter()
        .try_for_each(|text| parse_address(text).map(drop))
}

/// An address of the setting `bind`: `*` and `::*` stand for all; a dash before it says that the
/// machine need not have it.
fn parse_address(text: &str) -> Result<(IpAddr, bool), String> {
    let (name, is_optional) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let address = match name {
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "::*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => name
            .parse()
            .map_err(|_| format!("'{name}' is no IP address"))?,
    };
    Ok((address, is_optional))
}

fn listen_tcp(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let domain = if address.is_ipv4() {
        Domain::IPV4
    } else {
        Domain::IPV6
    };
    let socket = Socket::new(domain, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn listen_unix(path: &str, permissions: u32) -> io::Result<UnixListener> {
    let path = Path::new(path);
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            let text = "there is something else of this name, which is left as it is";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        // A socket left by a server that is gone; one in use refuses to be replaced.
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    if permissions != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(permissions))?;
    }
    Ok(listener)
}

/// Device and inode of a unix socket, which tell it from another of the same name; none if there is
/// no socket.
pub fn socket_id(path: &str) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    let is_socket = metadata.file_type().is_socket();
    is_socket.then(|| (metadata.dev(), metadata.ino()))
}

/// Opens all sockets of the settings `bind`, `port` and `unixsocket`.
///
/// # Errors
/// Which address could not be used, and why.
pub fn open(config: &Config) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    if !config.unixsocket.is_empty() {
        let listener = listen_unix(&config.unixsocket, config.unixsocket_permissions)
            .map_err(|error| format!("opening Unix socket {}: {error}", config.unixsocket))?;
        listeners.push(Listener::Unix(listener));
    }
    listeners.extend(open_tcp(config, &CLIENTS)?);
    if listeners.is_empty() {
        return Err(NOWHERE.to_owned());
    }
    Ok(listeners)
}

/// Opens the sockets of the page and metrics, if they are wanted.
///
/// # Errors
/// Which address could not be used, and why.
pub fn open_metrics(config: &Config) -> Result<Vec<Listener>, String> {
    let listeners = open_tcp(config, &METRICS)?;
    if listeners.is_empty() && config.metrics_port != 0 {
        return Err(NO_METRICS_ADDRESS.to_owned());
    }
    Ok(listeners)
}

/// Opens the TCP sockets that the settings of a door ask for.
fn open_tcp(config: &Config, door: &Door) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    let port = door.port(config);
    if port == 0 {
        return Ok(listeners);
    }
    for text in door.bind(config) {
        let (ip, is_optional) = parse_address(text)?;
        let address = SocketAddr::new(ip, port);
        match listen_tcp(address, config.tcp_backlog as i32) {
            Ok(listener) => listeners.push(Listener::Tcp(listener)),
            Err(error) if is_optional && is_missing(&error) => {
                log::debug!("not listening on {address}: {error}");
            }
            Err(error) => {
                let hint = match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        format!("; another one can be chosen with --{}", door.port.0)
                    }
                    _ => String::new(),
                };
                return Err(format!(
                    "could not create server TCP listening socket {address}: {error}{hint}"
                ));
            }
        }
    }
    Ok(listeners)
}

/// The machine does not have this address or this family.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
    ) || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}
