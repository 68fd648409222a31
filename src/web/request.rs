//! Requests: bytes to a method and a path, or why they are refused.
//!
//! Only a head is read. It is parsed anew whenever another of its lines is complete, never in the
//! middle of one, so the same bytes give the same result wherever they are cut; as there are few
//! lines, that costs little. The limits hold before anything is believed.
//!
//! Browsers send the name that the user typed as `Host`. A page elsewhere can have a name of its
//! own resolve to this machine and then read what it serves as if it were that page's (DNS
//! rebinding): so only `localhost`, IP addresses and the names of the setting `metrics-hosts` are
//! answered.
//!
//! Not here: what is at a path (`web`), how long a head may take (`server::web`).

use std::net::{Ipv4Addr, Ipv6Addr};

use httparse::{Error, Status};

/// Bytes of a request's head.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Header lines of a request.
pub const HEADERS_MAX: usize = 64;

/// What is done with what is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It is sent.
    Get,
    /// What is said about it is sent, but not the thing itself.
    Head,
}

/// A request that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// Of what; without the query.
    pub path: String,
    /// Whether the client may send another one on this connection.
    pub keeps_alive: bool,
}

/// Why a request is not answered. After most of these nobody knows where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no request, or does not name one host.
    Malformed,
    /// The host is not one of ours.
    ForeignHost,
    /// The method is neither GET nor HEAD.
    Method,
    /// It has a body.
    Body,
    /// The head is too long, or has too many lines.
    TooLong,
    /// The version of HTTP is neither 1.0 nor 1.1.
    Version,
}

/// Reads the requests of one connection.
#[derive(Debug, Default)]
pub struct Parser {
    /// So many bytes of the buffer hold no head.
    seen: usize,
}

impl Parser {
    /// Takes the next request off the front of a buffer; none if its head is not complete.
    ///
    /// # Errors
    /// Why it is refused. What is in the buffer then is of no use.
    pub fn step(
        &mut self,
        buffer: &mut Vec<u8>,
        hosts: &[String],
    ) -> Result<Option<Request>, Refusal> {
        let limit = buffer.len().min(HEAD_BYTES_MAX);
        if let Some(end) = memchr::memrchr(b'\n', &buffer[self.seen..limit]) {
            self.seen += end + 1;
            if let Some((request, length)) = parse(&buffer[..self.seen], hosts)? {
                buffer.drain(..length);
                self.seen = 0;
                return Ok(Some(request));
            }
        }
        if limit == HEAD_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        Ok(None)
    }
}

/// What the header lines say.
#[derive(Default)]
struct Said<'a> {
    host: Option<&'a [u8]>,
    has_body: bool,
    closes: bool,
    keeps: bool,
}

fn parse(head: &[u8], hosts: &[String]) -> Result<Option<(Request, usize)>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(head) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(Error::TooManyHeaders) => return Err(Refusal::TooLong),
        Err(Error::Version) => return Err(Refusal::Version),
        Err(_) => return Err(Refusal::Malformed),
    };
    let said = read_headers(parsed.headers)?;
    let target = parsed.path.unwrap_or_default();
    let (authority, path) = split_target(target).ok_or(Refusal::Malformed)?;
    let host = said.host.ok_or(Refusal::Malformed)?;
    for name in [Some(host), authority.map(str::as_bytes)]
        .into_iter()
        .flatten()
    {
        if !is_ours(name, hosts) {
            return Err(Refusal::ForeignHost);
        }
    }
    let method = match parsed.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => return Err(Refusal::Method),
    };
    if said.has_body {
        return Err(Refusal::Body);
    }
    let is_newer = parsed.version == Some(1);
    let path = path.split('?').next().unwrap_or_default().to_owned();
    let keeps_alive = !said.closes && (is_newer || said.keeps);
    let request = Request {
        method,
        path,
        keeps_alive,
    };
    Ok(Some((request, length)))
}

fn read_headers<'a>(headers: &[httparse::Header<'a>]) -> Result<Said<'a>, Refusal> {
    let mut said = Said::default();
    for header in headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("host") {
            if header.value.is_empty() || said.host.replace(header.value).is_some() {
                return Err(Refusal::Malformed);
            }
        } else if is("transfer-encoding") {
            said.has_body = true;
        } else if is("content-length") {
            if header.value.is_empty() || !header.value.iter().all(u8::is_ascii_digit) {
                return Err(Refusal::Malformed);
            }
            said.has_body |= header.value.iter().any(|&digit| digit != b'0');
        } else if is("connection") {
            for token in header.value.split(|&byte| byte == b',') {
                let token = token.trim_ascii();
                said.closes |= token.eq_ignore_ascii_case(b"close");
                said.keeps |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    Ok(said)
}

/// Host and path of a request's target, which proxies send whole.
fn split_target(target: &str) -> Option<(Option<&str>, &str)> {
    if target.starts_with('/') {
        return Some((None, target));
    }
    let scheme = "http://";
    let whole = target
        .get(..scheme.len())
        .filter(|start| start.eq_ignore_ascii_case(scheme))
        .map(|_| &target[scheme.len()..])?;
    let end = whole.find(['/', '?']).unwrap_or(whole.len());
    let (authority, path) = whole.split_at(end);
    let path = if path.starts_with('/') { path } else { "/" };
    Some((Some(authority), path))
}

/// Whether a host, its port aside, is `localhost`, an IP address, or one of these names.
fn is_ours(host: &[u8], names: &[String]) -> bool {
    let Ok(host) = str::from_utf8(host) else {
        return false;
    };
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, port)| {
            let is_address = address.parse::<Ipv6Addr>().is_ok();
            is_address && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        });
    }
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    let is_known = |known: &str| name.eq_ignore_ascii_case(known);
    let is_address = name.parse::<Ipv4Addr>().is_ok();
    is_port(port) && (is_address || is_known("localhost") || names.iter().any(|own| is_known(own)))
}
