//! Places: members of sorted sets whose scores say where they are. What is near is found in
//! [`search`].

pub mod search;

use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::command::zset::{AddOptions, put_all};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::value::geo::Place;
use crate::value::number::parse_f64;
use crate::value::zset::ZsetRef;

const UNIT: &[Arg] = &[
    Arg::word("m", "M"),
    Arg::word("km", "KM"),
    Arg::word("ft", "FT"),
    Arg::word("mi", "MI"),
];

const READING: u32 = category::READ | category::GEO | category::SLOW;
const WRITING: u32 = category::WRITE | category::GEO | category::SLOW;

/// The commands on places one by one.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "geoadd",
        arity: -5,
        flags: flag::WRITE | flag::DENYOOM,
        categories: WRITING,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(log(N)) for each place, with N the number of places",
        summary: "Adds places to a sorted set, or moves them.",
        args: &[
            Arg::key("key"),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
                .optional()
                .since("6.2.0"),
            Arg::word("change", "CH").optional().since("6.2.0"),
            Arg::block(
                "data",
                &[
                    Arg::new("longitude", ArgKind::Double),
                    Arg::new("latitude", ArgKind::Double),
                    Arg::new("member", ArgKind::String),
                ],
            )
            .multiple(),
        ],
        subcommands: &[],
        handler: Data(geoadd),
    },
    Row {
        name: "geodist",
        arity: -4,
        flags: flag::READONLY,
        categories: READING,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(1)",
        summary: "Returns how far two places are from each other.",
        args: &[
            Arg::key("key"),
            Arg::new("member1", ArgKind::String),
            Arg::new("member2", ArgKind::String),
            Arg::one_of("unit", UNIT).optional(),
        ],
        subcommands: &[],
        handler: Data(geodist),
    },
    Row {
        name: "geohash",
        arity: -2,
        flags: flag::READONLY,
        categories: READING,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(1) for each member",
        summary: "Returns the geohashes of places.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String).optional().multiple(),
        ],
        subcommands: &[],
        handler: Data(geohash),
    },
    Row {
        name: "geopos",
        arity: -2,
        flags: flag::READONLY,
        categories: READING,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Geo,
        since: "3.2.0",
        complexity: "O(1) for each member",
        summary: "Returns the longitudes and latitudes of places.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String).optional().multiple(),
        ],
        subcommands: &[],
        handler: Data(geopos),
    },
];

/// The place that arguments from `at` on name.
fn place(args: Args<'_>, at: usize) -> Result<Place, CommandError> {
    let degrees = |at: usize| parse_f64(args.get(at)).ok_or(CommandError::NotAFloat);
    let (longitude, latitude) = (degrees(at)?, degrees(at + 1)?);
    Place::new(longitude, latitude).ok_or_else(|| {
        CommandError::owned(format!(
            "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        ))
    })
}

/// How many meters the unit at argument `at` is.
fn unit(args: Args<'_>, at: usize) -> Result<f64, CommandError> {
    match args.get(at).to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(CommandError::text(
            "ERR unsupported unit provided. please use M, KM, FT, MI",
        )),
    }
}

/// Answers a distance, to a tenth of a thousandth.
fn reply_distance(reply: &mut Reply<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

fn reply_place(reply: &mut Reply<'_>, place: Place) {
    reply.array(2);
    reply.double(place.longitude);
    reply.double(place.latitude);
}

fn place_of(zset: Option<ZsetRef<'_>>, member: &[u8]) -> Option<Place> {
    zset?.score(member).map(Place::of_score)
}

fn geoadd(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (mut options, mut first) = (AddOptions::default(), 2);
    while first < args.len() {
        match args.get(first).to_ascii_lowercase().as_slice() {
            b"nx" => options.if_absent = true,
            b"xx" => options.if_present = true,
            b"ch" => options.counts_changes = true,
            _ => break,
        }
        first += 1;
    }
    let is_contradiction = options.if_absent && options.if_present;
    if !(args.len() - first).is_multiple_of(3) || is_contradiction {
        return Err(CommandError::Syntax);
    }
    let triples = (first..args.len()).step_by(3);
    let records: Result<Vec<(&[u8], f64)>, CommandError> = triples
        .map(|at| Ok((args.get(at + 2), place(args, at)?.score())))
        .collect();
    put_all(live, args.get(1), &options, &records?, reply)
}

fn geodist(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let unit = match args.len() {
        4 => 1.0,
        5 => unit(args, 4)?,
        _ => return Err(CommandError::Syntax),
    };
    let zset = live.zset(args.get(1))?;
    let places = place_of(zset, args.get(2)).zip(place_of(zset, args.get(3)));
    match places {
        Some((one, other)) => reply_distance(reply, one.distance(other) / unit),
        None => reply.null(),
    }
    Ok(())
}

fn geohash(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let zset = live.zset(args.get(1))?;
    reply.array(args.len() - 2);
    for member in args.from(2) {
        match place_of(zset, member) {
            Some(place) => reply.bulk(&place.geohash()),
            None => reply.null(),
        }
    }
    Ok(())
}

fn geopos(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let zset = live.zset(args.get(1))?;
    reply.array(args.len() - 2);
    for member in args.from(2) {
        match place_of(zset, member) {
            Some(place) => reply_place(reply, place),
            None => reply.null_array(),
        }
    }
    Ok(())
}
