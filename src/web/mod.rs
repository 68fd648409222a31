//! The page about this server, and its figures for programs: what is answered over HTTP.
//!
//! ```text
//! bytes ──> request::Parser ──> Site::answer ──> Response ──> bytes
//!                                   │
//!                 Survey ──> Figures ──> prometheus    /metrics
//!                 in slices     │  └───> json          /stats.json
//!                               │        page.html     /
//!                               └── kept for a second
//! ```
//!
//! Figures are taken when somebody asks and the last ones are older than a second, and than a
//! hundred times what it took to take them: so any number of viewers costs no more than one, and
//! that no more than a hundredth of the CPU. Taking them walks databases and clients, in slices
//! between requests of clients: an answer waits until that is done (`figures`).
//!
//! Invariants: nothing here changes the engine, which is borrowed and never lent; nothing here does
//! I/O but ask the system for memory and CPU time, as INFO does. No name of a key leaves unless
//! `metrics-show-keys` is on.
//!
//! Not here: sockets, and how long they may take (`server::web`).

pub mod figures;
pub mod prometheus;
pub mod request;

mod json;
pub mod visitor;

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use crate::engine::Engine;
use figures::{Figures, Survey};
use request::{Method, Refusal, Request};

/// Figures older than this are taken anew, in microseconds,
pub const FRESH_US: u64 = 1_000_000;
/// if they are older than so many times what they took.
const FRESH_TIMES: u64 = 100;

/// The page, in one file: without anything from elsewhere.
pub const PAGE: &str = include_str!("page.html");
/// The hash of its style, in base64: nothing else may style it or run in it.
pub const STYLE_SHA256: &str = "tLFhRpgd8kNBn0FHdksAmYVPHzBfbrhzC30tCRqX04c=";
/// The same of its script.
pub const SCRIPT_SHA256: &str = "tJR1ZbomjODfoPBd0O5cEjDHfP2R77NWiHn7mcORN1Y=";

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Page,
    Stats,
    Metrics,
}

/// An answer, or a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status line and headers.
    pub head: String,
    /// What follows them.
    pub body: Bytes,
    /// The connection ends with it.
    pub closes: bool,
}

/// Figures, with the texts that have been made of them.
struct Taken {
    figures: Figures,
    /// Until when they will do, in monotonic microseconds.
    until_us: u64,
    stats: Option<Bytes>,
    metrics: Option<Bytes>,
}

/// What is served.
#[derive(Default)]
pub struct Site {
    survey: Option<Survey>,
    /// Time that the survey has taken.
    survey_us: u64,
    taken: Option<Taken>,
}

impl Site {
    /// Answers a request; none if figures must be taken first. Then [`Site::step`] takes them, and
    /// the same request gets its answer.
    pub fn answer(&mut self, engine: &Engine, request: &Request) -> Option<Response> {
        let resource = match request.path.as_str() {
            "/" => Resource::Page,
            "/stats.json" => Resource::Stats,
            "/metrics" => Resource::Metrics,
            _ => return Some(plain(engine, "404 Not Found", request, "")),
        };
        let (kind, body) = match resource {
            Resource::Page => (
                "text/html; charset=utf-8",
                Bytes::from_static(PAGE.as_bytes()),
            ),
            Resource::Stats => ("application/json", self.text(engine, resource)?),
            Resource::Metrics => (
                "text/plain; version=0.0.4; charset=utf-8",
                self.text(engine, resource)?,
            ),
        };
        let policy = match resource {
            Resource::Page => format!(
                "content-security-policy: default-src 'none'; style-src 'sha256-{STYLE_SHA256}'; \
                 script-src 'sha256-{SCRIPT_SHA256}'; connect-src 'self'; img-src data:; \
                 base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
            ),
            _ => "content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n".into(),
        };
        Some(response(engine, "200 OK", request, kind, &policy, body))
    }

    /// Whether figures are being taken.
    pub fn is_busy(&self) -> bool {
        self.survey.is_some()
    }

    /// Goes on taking figures, a little; false if there is no more to do.
    pub fn step(&mut self, engine: &Engine) -> bool {
        let Some(survey) = &mut self.survey else {
            return false;
        };
        if survey.step(engine) {
            return true;
        }
        let survey = self.survey.take().expect("it was there a moment ago");
        let fresh_us = FRESH_US.max(self.survey_us * FRESH_TIMES);
        self.taken = Some(Taken {
            figures: survey.finish(engine),
            until_us: engine.reading.monotonic_us + fresh_us,
            stats: None,
            metrics: None,
        });
        false
    }

    /// Counts time that steps have taken.
    pub fn spent(&mut self, us: u64) {
        self.survey_us += us;
    }

    /// Nobody is there: nothing need be taken, and what is not fresh is forgotten. What is fresh
    /// stays, so that whoever asks on a new connection each time has nothing taken more often.
    pub fn rest(&mut self, now_us: u64) {
        self.survey = None;
        self.taken.take_if(|taken| now_us >= taken.until_us);
    }

    /// Bytes that it holds.
    pub fn memory_bytes(&self) -> usize {
        let taken = self.taken.iter();
        let texts = taken.flat_map(|taken| [&taken.stats, &taken.metrics]);
        texts.flatten().map(Bytes::len).sum()
    }

    fn text(&mut self, engine: &Engine, resource: Resource) -> Option<Bytes> {
        if self.survey.is_some() {
            return None;
        }
        let now_us = engine.reading.monotonic_us;
        let shows_keys = engine.config.metrics_show_keys;
        let is_fresh = |taken: &&mut Taken| {
            now_us < taken.until_us && taken.figures.next_keys.is_some() == shows_keys
        };
        let Some(taken) = self.taken.as_mut().filter(is_fresh) else {
            self.survey = Some(Survey::new(engine));
            self.survey_us = 0;
            return None;
        };
        let figures = &taken.figures;
        let text = match resource {
            Resource::Metrics => taken
                .metrics
                .get_or_insert_with(|| prometheus::text(figures).into()),
            _ => taken
                .stats
                .get_or_insert_with(|| json::text(figures).into()),
        };
        Some(text.clone())
    }
}

/// The answer to a request that is refused.
pub fn refuse(engine: &Engine, refusal: Refusal) -> Response {
    let (status, header) = match refusal {
        Refusal::Malformed => ("400 Bad Request", ""),
        Refusal::ForeignHost => ("421 Misdirected Request", ""),
        Refusal::Method => ("405 Method Not Allowed", "allow: GET, HEAD\r\n"),
        Refusal::Body => ("413 Content Too Large", ""),
        Refusal::TooLong => ("431 Request Header Fields Too Large", ""),
        Refusal::Version => ("505 HTTP Version Not Supported", ""),
    };
    let request = Request {
        method: Method::Get,
        path: String::new(),
        keeps_alive: false,
    };
    plain(engine, status, &request, header)
}

/// An answer whose body says no more than its status.
fn plain(engine: &Engine, status: &str, request: &Request, header: &str) -> Response {
    let body = Bytes::from(format!("{status}\n"));
    let kind = "text/plain; charset=utf-8";
    response(engine, status, request, kind, header, body)
}

fn response(
    engine: &Engine,
    status: &str,
    request: &Request,
    kind: &str,
    headers: &str,
    body: Bytes,
) -> Response {
    let wall_us = u64::try_from(engine.reading.wall_us).unwrap_or(0);
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_micros(wall_us));
    let closes = !request.keeps_alive;
    let connection = if closes { "close" } else { "keep-alive" };
    let head = format!(
        "HTTP/1.1 {status}\r\ndate: {date}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
         connection: {connection}\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n\
         referrer-policy: no-referrer\r\ncross-origin-resource-policy: same-origin\r\n\
         {headers}\r\n",
        body.len()
    );
    let body = match request.method {
        Method::Get => body,
        Method::Head => Bytes::new(),
    };
    Response { head, body, closes }
}
