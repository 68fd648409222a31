//! Listening sockets: addresses, backlog, permissions.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mio::net::{TcpListener, UnixListener};
use socket2::{Domain, Socket, Type};

use crate::config::Config;

/// A listening socket.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// Unix socket.
    Unix(UnixListener),
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
    if path.exists() {
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

/// Opens all sockets of the settings `bind`, `port` and `unixsocket`.
///
/// # Errors
/// Which address could not be used, and why.
pub fn open(config: &Config) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    if config.port != 0 {
        for text in &config.bind {
            let (ip, is_optional) = parse_address(text)?;
            let address = SocketAddr::new(ip, config.port);
            match listen_tcp(address, config.tcp_backlog as i32) {
                Ok(listener) => listeners.push(Listener::Tcp(listener)),
                Err(error) if is_optional && is_missing(&error) => {
                    log::debug!("not listening on {address}: {error}");
                }
                Err(error) => {
                    return Err(format!(
                        "could not create server TCP listening socket {address}: {error}"
                    ));
                }
            }
        }
    }
    if !config.unixsocket.is_empty() {
        let listener = listen_unix(&config.unixsocket, config.unixsocket_permissions)
            .map_err(|error| format!("opening Unix socket {}: {error}", config.unixsocket))?;
        listeners.push(Listener::Unix(listener));
    }
    if listeners.is_empty() {
        return Err("configured to not listen anywhere: set port or unixsocket".to_owned());
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
