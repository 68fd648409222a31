//! What is near: GEOSEARCH and GEOSEARCHSTORE, and the GEORADIUS commands before them.

use std::cmp::Ordering;

use super::{READING, UNIT, WRITING, place, place_of, reply_distance, reply_place, unit};
use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::command::zset::combine::{Records, store};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::geo::{Area, Place, Shape};
use crate::value::number::parse_f64;
use crate::value::zset::{Direction, Interval, ScoreBound, ZsetRef};

const RADIUS: &[Arg] = &[
    Arg::new("radius", ArgKind::Double),
    Arg::one_of("unit", UNIT),
];
const CIRCLE: Arg = Arg::block(
    "circle",
    &[
        Arg::new("radius", ArgKind::Double).token("BYRADIUS"),
        Arg::one_of("unit", UNIT),
    ],
);
const BOX: Arg = Arg::block(
    "box",
    &[
        Arg::new("width", ArgKind::Double).token("BYBOX"),
        Arg::new("height", ArgKind::Double),
        Arg::one_of("unit", UNIT),
    ],
);
const FROM: Arg = Arg::one_of(
    "from",
    &[
        Arg::new("member", ArgKind::String).token("FROMMEMBER"),
        Arg::block(
            "fromlonlat",
            &[
                Arg::new("longitude", ArgKind::Double),
                Arg::new("latitude", ArgKind::Double),
            ],
        )
        .token("FROMLONLAT"),
    ],
);
const BY: Arg = Arg::one_of("by", &[CIRCLE, BOX]);
const ORDER: Arg = Arg::one_of(
    "order",
    &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")],
)
.optional();
const COUNT: Arg = Arg::block(
    "count-block",
    &[
        Arg::new("count", ArgKind::Integer).token("COUNT"),
        Arg::word("any", "ANY").optional(),
    ],
)
.optional();
const WITH: [Arg; 3] = [
    Arg::word("withcoord", "WITHCOORD").optional(),
    Arg::word("withdist", "WITHDIST").optional(),
    Arg::word("withhash", "WITHHASH").optional(),
];
const STORE: Arg = Arg::one_of(
    "store",
    &[
        Arg::key("storekey").key_spec(1).token("STORE"),
        Arg::key("storedistkey").key_spec(2).token("STOREDIST"),
    ],
)
.optional();
const LONGITUDE: Arg = Arg::new("longitude", ArgKind::Double);
const LATITUDE: Arg = Arg::new("latitude", ArgKind::Double);
const MEMBER: Arg = Arg::new("member", ArgKind::String);
const COMPLEXITY: &str =
    "O(N+log(M)) with N the number of places in the cells around and M that of all";

const SOURCE: KeySpec = KeySpec::at(1, key_flag::RO | key_flag::ACCESS);
const STORE_KEY: KeySpec = KeySpec::unknown(key_flag::OW | key_flag::UPDATE);

const RADIUS_ARGS: &[Arg] = &[
    Arg::key("key"),
    LONGITUDE,
    LATITUDE,
    RADIUS[0],
    RADIUS[1],
    WITH[0],
    WITH[1],
    WITH[2],
    COUNT,
    ORDER,
    STORE,
];
const RADIUS_RO_ARGS: &[Arg] = &[
    Arg::key("key"),
    LONGITUDE,
    LATITUDE,
    RADIUS[0],
    RADIUS[1],
    WITH[0],
    WITH[1],
    WITH[2],
    COUNT,
    ORDER,
];
const MEMBER_ARGS: &[Arg] = &[
    Arg::key("key"),
    MEMBER,
    RADIUS[0],
    RADIUS[1],
    WITH[0],
    WITH[1],
    WITH[2],
    COUNT,
    ORDER,
    STORE,
];
const MEMBER_RO_ARGS: &[Arg] = &[
    Arg::key("key"),
    MEMBER,
    RADIUS[0],
    RADIUS[1],
    WITH[0],
    WITH[1],
    WITH[2],
    COUNT,
    ORDER,
];

const SOURCE_ONLY: &[KeySpec] = &[SOURCE];
const SOURCE_AND_STORE_6: &[KeySpec] = &[SOURCE, STORE_KEY.found_by(stored_at_6)];
const SOURCE_AND_STORE_5: &[KeySpec] = &[SOURCE, STORE_KEY.found_by(stored_at_5)];

const fn radius_row(name: &'static str, args: &'static [Arg], search: Search) -> Row {
    let is_by_member = matches!(search.from, From::Member);
    Row {
        name,
        arity: if is_by_member { -5 } else { -6 },
        flags: match search.target {
            Target::Reply => flag::READONLY | flag::LONG,
            _ => flag::WRITE | flag::DENYOOM | flag::MOVABLEKEYS | flag::LONG,
        },
        categories: match search.target {
            Target::Reply => READING,
            _ => WRITING,
        },
        keys: match (search.target, is_by_member) {
            (Target::Reply, _) => SOURCE_ONLY,
            (_, false) => SOURCE_AND_STORE_6,
            (_, true) => SOURCE_AND_STORE_5,
        },
        group: Group::Geo,
        since: match search.target {
            Target::Reply => "3.2.10",
            _ => "3.2.0",
        },
        complexity: COMPLEXITY,
        summary: "Finds places within a distance.",
        args,
        subcommands: &[],
        handler: Data(search.handler),
    }
}

/// The commands that look around.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "geosearch",
        arity: -7,
        flags: flag::READONLY | flag::LONG,
        categories: READING,
        keys: &[SOURCE],
        group: Group::Geo,
        since: "6.2.0",
        complexity: COMPLEXITY,
        summary: "Finds places in a circle or a box.",
        args: &[
            Arg::key("key"),
            FROM,
            BY,
            ORDER,
            COUNT,
            WITH[0],
            WITH[1],
            WITH[2],
        ],
        subcommands: &[],
        handler: Data(geosearch),
    },
    Row {
        name: "geosearchstore",
        arity: -8,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: WRITING,
        keys: &[
            KeySpec::at(1, key_flag::OW | key_flag::UPDATE),
            KeySpec::at(2, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::Geo,
        since: "6.2.0",
        complexity: COMPLEXITY,
        summary: "Finds places in a circle or a box and stores them in a sorted set.",
        args: &[
            Arg::key("destination"),
            Arg::key("source").key_spec(1),
            FROM,
            BY,
            ORDER,
            COUNT,
            Arg::word("storedist", "STOREDIST").optional(),
        ],
        subcommands: &[],
        handler: Data(geosearchstore),
    },
    radius_row(
        "georadius",
        RADIUS_ARGS,
        Search {
            from: From::Place,
            target: Target::Option,
            handler: georadius,
        },
    ),
    radius_row(
        "georadius_ro",
        RADIUS_RO_ARGS,
        Search {
            from: From::Place,
            target: Target::Reply,
            handler: georadius_ro,
        },
    ),
    radius_row(
        "georadiusbymember",
        MEMBER_ARGS,
        Search {
            from: From::Member,
            target: Target::Option,
            handler: georadiusbymember,
        },
    ),
    radius_row(
        "georadiusbymember_ro",
        MEMBER_RO_ARGS,
        Search {
            from: From::Member,
            target: Target::Reply,
            handler: georadiusbymember_ro,
        },
    ),
];

/// How a command of the GEORADIUS family says where the center is.
#[derive(Clone, Copy)]
enum From {
    Place,
    Member,
}

/// What becomes of what was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// It is answered.
    Reply,
    /// It is answered, unless an option says where to store it.
    Option,
    /// It is stored.
    Store,
}

#[derive(Clone, Copy)]
struct Search {
    from: From,
    target: Target,
    handler: crate::command::table::row::DataHandler,
}

fn stored_at_5(args: Args<'_>, start: usize) -> Option<usize> {
    stored_at(args, start, 5)
}

fn stored_at_6(args: Args<'_>, start: usize) -> Option<usize> {
    stored_at(args, start, 6)
}

/// Where the key is that the result goes to, by the last option that names one.
fn stored_at(args: Args<'_>, start: usize, first: usize) -> Option<usize> {
    let places = (start + first - 1)..args.len().saturating_sub(1);
    let mut places = places.rev();
    places
        .find(|&at| args.is(at, "store") || args.is(at, "storedist"))
        .map(|at| at + 1)
}

/// The place of a member from which a search begins; anywhere if there is no sorted set.
fn center_of(zset: Option<ZsetRef<'_>>, member: &[u8]) -> Result<Place, CommandError> {
    let anywhere = Place {
        longitude: 0.0,
        latitude: 0.0,
    };
    let place = match zset {
        None => Some(anywhere),
        found => place_of(found, member),
    };
    place.ok_or(CommandError::text(
        "ERR could not decode requested zset member",
    ))
}

/// Everything that options say.
#[derive(Default)]
struct Options<'a> {
    center: Option<Place>,
    /// Width and height, or a radius, and how many meters their unit is.
    shape: Option<(Shape, f64)>,
    has_distance: bool,
    has_hash: bool,
    has_place: bool,
    order: Option<Ordering>,
    /// At most so many; 0 is all.
    count: usize,
    /// Any of them, and not the nearest.
    is_any: bool,
    destination: Option<&'a [u8]>,
    stores_distance: bool,
}

fn length(args: Args<'_>, at: usize, name: &str) -> Result<f64, CommandError> {
    let number = parse_f64(args.get(at));
    number.ok_or_else(|| CommandError::owned(format!("ERR need numeric {name}")))
}

fn circle(args: Args<'_>, at: usize) -> Result<(Shape, f64), CommandError> {
    let radius = length(args, at, "radius")?;
    if radius < 0.0 {
        return Err(CommandError::text("ERR radius cannot be negative"));
    }
    let unit = unit(args, at + 1)?;
    Ok((Shape::Circle(radius * unit), unit))
}

fn rectangle(args: Args<'_>, at: usize) -> Result<(Shape, f64), CommandError> {
    let (width, height) = (length(args, at, "width")?, length(args, at + 1, "height")?);
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::text("ERR height or width cannot be negative"));
    }
    let unit = unit(args, at + 2)?;
    Ok((Shape::Box(width * unit, height * unit), unit))
}

impl<'a> Options<'a> {
    /// Reads the options from `i` on. Those of the GEORADIUS family have their center and shape
    /// already.
    fn parse(
        mut self,
        args: Args<'a>,
        mut i: usize,
        target: Target,
        zset: Option<ZsetRef<'_>>,
    ) -> Result<Options<'a>, CommandError> {
        let is_radius = self.shape.is_some();
        while i < args.len() {
            i += match self.take_common(args, i)? {
                0 if is_radius => self.take_store(args, i, target),
                0 => self.take_search(args, i, target, zset)?,
                taken => taken,
            };
            if i > args.len() {
                return Err(CommandError::Syntax);
            }
        }
        Ok(self)
    }

    /// An option that all have: how many arguments it takes, 0 if it is none.
    fn take_common(&mut self, args: Args<'a>, i: usize) -> Result<usize, CommandError> {
        match args.get(i).to_ascii_lowercase().as_slice() {
            b"withdist" => self.has_distance = true,
            b"withhash" => self.has_hash = true,
            b"withcoord" => self.has_place = true,
            b"any" => self.is_any = true,
            b"asc" => self.order = Some(Ordering::Less),
            b"desc" => self.order = Some(Ordering::Greater),
            b"count" if i + 1 < args.len() => {
                let count = args.integer(i + 1)?;
                self.count = usize::try_from(count)
                    .ok()
                    .filter(|&count| count > 0)
                    .ok_or(CommandError::text("ERR COUNT must be > 0"))?;
                return Ok(2);
            }
            _ => return Ok(0),
        }
        Ok(1)
    }

    /// An option of GEORADIUS.
    fn take_store(&mut self, args: Args<'a>, i: usize, target: Target) -> usize {
        let (is_store, is_distance) = (args.is(i, "store"), args.is(i, "storedist"));
        if target != Target::Option || !(is_store || is_distance) || i + 1 >= args.len() {
            return NO_OPTION;
        }
        self.destination = Some(args.get(i + 1));
        self.stores_distance = is_distance;
        2
    }

    /// An option of GEOSEARCH.
    fn take_search(
        &mut self,
        args: Args<'a>,
        i: usize,
        target: Target,
        zset: Option<ZsetRef<'_>>,
    ) -> Result<usize, CommandError> {
        let left = args.len() - i - 1;
        let (is_placed, is_shaped) = (self.center.is_some(), self.shape.is_some());
        Ok(match args.get(i).to_ascii_lowercase().as_slice() {
            b"frommember" if left >= 1 && !is_placed => {
                self.center = Some(center_of(zset, args.get(i + 1))?);
                2
            }
            b"fromlonlat" if left >= 2 && !is_placed => {
                self.center = Some(place(args, i + 1)?);
                3
            }
            b"byradius" if left >= 2 && !is_shaped => {
                self.shape = Some(circle(args, i + 1)?);
                3
            }
            b"bybox" if left >= 3 && !is_shaped => {
                self.shape = Some(rectangle(args, i + 1)?);
                4
            }
            b"storedist" if target == Target::Store => {
                self.stores_distance = true;
                1
            }
            _ => NO_OPTION,
        })
    }
}

/// Leads behind the last argument.
const NO_OPTION: usize = usize::MAX / 2;

/// A place that was found.
struct Found<'a> {
    member: &'a [u8],
    score: f64,
    /// In the unit that was asked for.
    distance: f64,
}

/// The places in an area, in the order of the cells that cover it; at most so many unless `limit`
/// is 0.
fn found_in<'a>(zset: ZsetRef<'a>, area: &Area, unit: f64, limit: usize) -> Vec<Found<'a>> {
    let mut all = Vec::new();
    for (min, max) in area.scores() {
        let bound = |score, is_exclusive| ScoreBound {
            score,
            is_exclusive,
        };
        let ranks = zset.ranks(&Interval::Scores {
            min: bound(min, false),
            max: bound(max, true),
        });
        let records = zset
            .iter(ranks.start, Direction::Ascending)
            .take(ranks.len());
        for (member, score) in records {
            if let Some(meters) = area.distance(Place::of_score(score)) {
                all.push(Found {
                    member,
                    score,
                    distance: meters / unit,
                });
                if all.len() == limit {
                    return all;
                }
            }
        }
    }
    all
}

fn search(
    live: &mut Live<'_>,
    key: &[u8],
    options: &Options<'_>,
    event: Event,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let Options { count, is_any, .. } = *options;
    let zset = live.zset(key)?;
    let order = match options.order {
        None if count > 0 && !is_any => Some(Ordering::Less),
        order => order,
    };
    let mut records = Records::default();
    if let Some(zset) = zset {
        let center = options.center.expect("it was looked for");
        let (shape, unit) = options.shape.expect("it was looked for");
        let limit = if is_any { count } else { 0 };
        let mut found = found_in(zset, &Area { center, shape }, unit, limit);
        if let Some(order) = order {
            found.sort_by(|one, other| {
                let nearer = one.distance.total_cmp(&other.distance);
                if order == Ordering::Less {
                    nearer
                } else {
                    nearer.reverse()
                }
            });
        }
        found.truncate(if count > 0 { count } else { usize::MAX });
        if options.destination.is_none() {
            reply_found(reply, options, &found);
            return Ok(());
        }
        for found in found {
            let is_distance = options.stores_distance;
            let score = if is_distance {
                found.distance
            } else {
                found.score
            };
            records.push(found.member, score);
        }
    }
    match options.destination {
        Some(destination) => store(live, destination, &records, event, reply),
        None => {
            reply.array(0);
            Ok(())
        }
    }
}

fn reply_found(reply: &mut Reply<'_>, options: &Options<'_>, found: &[Found<'_>]) {
    let extras = [options.has_distance, options.has_hash, options.has_place];
    let extras = extras.into_iter().filter(|&is_wanted| is_wanted).count();
    reply.array(found.len());
    for found in found {
        if extras > 0 {
            reply.array(1 + extras);
        }
        reply.bulk(found.member);
        if options.has_distance {
            reply_distance(reply, found.distance);
        }
        if options.has_hash {
            reply.integer(found.score as i64);
        }
        if options.has_place {
            reply_place(reply, Place::of_score(found.score));
        }
    }
}

/// Checks what all commands have in common, and searches.
fn finish(
    live: &mut Live<'_>,
    key: &[u8],
    options: &Options<'_>,
    (name, option): (&str, &str),
    event: Event,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let has_extras = options.has_distance || options.has_hash || options.has_place;
    if options.destination.is_some() && has_extras {
        return Err(CommandError::owned(format!(
            "ERR {option} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
        )));
    }
    let exactly = |what: &str| {
        CommandError::owned(format!(
            "ERR exactly one of {what} can be specified for {name}"
        ))
    };
    if options.center.is_none() {
        return Err(exactly("FROMMEMBER or FROMLONLAT"));
    }
    if options.shape.is_none() {
        return Err(exactly("BYRADIUS and BYBOX"));
    }
    if options.is_any && options.count == 0 {
        return Err(CommandError::text(
            "ERR the ANY argument requires COUNT argument",
        ));
    }
    search(live, key, options, event, reply)
}

fn geosearch(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let options = Options::default().parse(args, 2, Target::Reply, live.zset(key)?)?;
    let name = String::from_utf8_lossy(args.get(0));
    let texts = (&*name, "GEOSEARCH");
    finish(live, key, &options, texts, Event::GEOSEARCHSTORE, reply)
}

fn geosearchstore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let key = args.get(2);
    let options = Options {
        destination: Some(args.get(1)),
        ..Options::default()
    };
    let options = options.parse(args, 3, Target::Store, live.zset(key)?)?;
    let name = String::from_utf8_lossy(args.get(0));
    let texts = (&*name, "GEOSEARCHSTORE");
    finish(live, key, &options, texts, Event::GEOSEARCHSTORE, reply)
}

/// A command of the GEORADIUS family.
fn by_radius(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    from: From,
    target: Target,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let zset = live.zset(key)?;
    let (center, at) = match from {
        From::Place => (place(args, 2)?, 4),
        From::Member => (center_of(zset, args.get(2))?, 3),
    };
    let shape = match (from, zset) {
        // Around a member of what is not there, a radius is not looked at.
        (From::Member, None) => (Shape::Circle(0.0), 1.0),
        _ => circle(args, at)?,
    };
    let options = Options {
        center: Some(center),
        shape: Some(shape),
        ..Options::default()
    };
    let options = options.parse(args, at + 2, target, zset)?;
    let texts = ("georadius", "STORE option in GEORADIUS");
    finish(live, key, &options, texts, Event::GEORADIUSSTORE, reply)
}

fn georadius(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    by_radius(live, args, reply, From::Place, Target::Option)
}

fn georadius_ro(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    by_radius(live, args, reply, From::Place, Target::Reply)
}

fn georadiusbymember(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    by_radius(live, args, reply, From::Member, Target::Option)
}

fn georadiusbymember_ro(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    by_radius(live, args, reply, From::Member, Target::Reply)
}
