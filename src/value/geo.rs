//! Places on the earth as scores of a sorted set, and which scores an area covers.
//!
//! A place is a *geohash*: longitude and latitude, each as a binary fraction of its range, with
//! their bits taken in turn. With 26 bits of each it is an integer of 52, which a score holds
//! exactly. Hashes that begin alike are in one cell of a grid, so an area is searched as the few
//! ranges of scores that are the cells which cover it: the one of its center and those around.
//!
//! Latitudes go to 85.05112878 degrees, as in Web Mercator (EPSG:3857). Distances are those on a
//! sphere (haversine).

use std::f64::consts::PI;

const LONGITUDE_MAX: f64 = 180.0;
const LATITUDE_MAX: f64 = 85.051_128_78;
/// In meters.
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// Half the circumference of the earth in Mercator's projection, in meters.
const MERCATOR_MAX: f64 = 20_037_726.37;
/// Bits of longitude and of latitude in a score.
const STEPS_MAX: u32 = 26;

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

/// A square of the grid whose sides are a `2 ^ steps`th of the ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    steps: u32,
}

const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;
const LONGITUDE_BITS: u64 = !LATITUDE_BITS;

/// Spreads 32 bits out to the even places of 64.
fn spread(bits: u32) -> u64 {
    let mut all = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, LATITUDE_BITS),
    ] {
        all = (all | all << shift) & mask;
    }
    all
}

/// The even places of 64 bits.
fn gather(bits: u64) -> u32 {
    let mut all = bits & LATITUDE_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        all = (all | all >> shift) & mask;
    }
    all as u32
}

/// The limits of a cell, in degrees.
struct Bounds {
    longitude: [f64; 2],
    latitude: [f64; 2],
}

impl Cell {
    fn of(place: Place, steps: u32, latitude_max: f64) -> Cell {
        let part = |degrees: f64, max: f64| {
            ((degrees + max) / (2.0 * max) * f64::from(1u32 << steps)) as u32
        };
        let latitude = spread(part(place.latitude, latitude_max));
        let longitude = spread(part(place.longitude, LONGITUDE_MAX));
        Cell {
            bits: latitude | longitude << 1,
            steps,
        }
    }

    fn bounds(self) -> Bounds {
        let cells = f64::from(1u32 << self.steps);
        let limits = |number: u32, max: f64| {
            let at = |number: f64| -max + number / cells * (2.0 * max);
            [at(f64::from(number)), at(f64::from(number) + 1.0)]
        };
        Bounds {
            longitude: limits(gather(self.bits >> 1), LONGITUDE_MAX),
            latitude: limits(gather(self.bits), LATITUDE_MAX),
        }
    }

    /// The neighbor so many cells to the east and to the north, around the earth.
    fn beside(self, east: i64, north: i64) -> Cell {
        let all = u64::MAX >> (64 - 2 * self.steps);
        let step = |bits: u64, mask: u64, by: i64| {
            let moved = match by {
                // The last meridian is a cell of its own, beyond those of the grid.
                0 => return bits,
                // The places between are filled, so that they hand on what is carried.
                1 => (bits | !mask & all).wrapping_add(1),
                _ => bits.wrapping_sub(1),
            };
            moved & mask & all
        };
        let longitude = step(self.bits & LONGITUDE_BITS, LONGITUDE_BITS, east);
        let latitude = step(self.bits & LATITUDE_BITS, LATITUDE_BITS, north);
        Cell {
            bits: longitude | latitude,
            ..self
        }
    }

    /// The scores of places in the cell: from the first on, before the second.
    fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        let of = |bits: u64| (bits << shift) as f64;
        (of(self.bits), of(self.bits + 1))
    }
}

impl Place {
    /// A place that can be hashed.
    pub fn new(longitude: f64, latitude: f64) -> Option<Place> {
        let is_possible = (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&latitude);
        is_possible.then_some(Place {
            longitude,
            latitude,
        })
    }

    /// The score that stands for it.
    pub fn score(self) -> f64 {
        Cell::of(self, STEPS_MAX, LATITUDE_MAX).bits as f64
    }

    /// The place that a score stands for: the middle of its cell.
    pub fn of_score(score: f64) -> Place {
        // Scores that ZADD has set may be no hash. Redis: C leaves open what its casts of them
        // yield; these are the values on x86-64.
        let bits = match score {
            _ if score < 0.0 => score as i64 as u64,
            _ if score >= 2f64.powi(64) => 0,
            _ => score as u64,
        };
        let bounds = Cell {
            bits,
            steps: STEPS_MAX,
        }
        .bounds();
        let middle = |[low, high]: [f64; 2], max: f64| ((low + high) / 2.0).clamp(-max, max);
        Place {
            longitude: middle(bounds.longitude, LONGITUDE_MAX),
            latitude: middle(bounds.latitude, LATITUDE_MAX),
        }
    }

    /// The geohash that others know, of 11 characters: its latitudes go to the poles. A 12th would
    /// say more than a score does.
    pub fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = Cell::of(self, STEPS_MAX, 90.0).bits;
        std::array::from_fn(|nth| {
            // The bits end before the last character.
            let shift = (2 * STEPS_MAX).checked_sub(5 * (nth as u32 + 1));
            let index = shift.map_or(0, |shift| bits >> shift & 31);
            ALPHABET[index as usize]
        })
    }

    /// How far another place is, in meters.
    pub fn distance(self, other: Place) -> f64 {
        let east = radians(other.longitude) - radians(self.longitude);
        let v = (east / 2.0).sin();
        if v == 0.0 {
            return self.distance_north(other);
        }
        let (here, there) = (radians(self.latitude), radians(other.latitude));
        let u = ((there - here) / 2.0).sin();
        let a = u * u + here.cos() * there.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }

    /// The same along a meridian.
    fn distance_north(self, other: Place) -> f64 {
        let (here, there) = (radians(self.latitude), radians(other.latitude));
        EARTH_RADIUS * (there - here).abs()
    }
}

/// Degrees to radians by the product with a constant, whose last bit shows in distances.
fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn to_degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

/// What lies around a center, in meters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Within a radius.
    Circle(f64),
    /// Within half the width to either side, and half the height.
    Box(f64, f64),
}

/// A shape around a center.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Its center.
    pub center: Place,
    /// Its shape.
    pub shape: Shape,
}

/// Which cells beside the center's are searched, in this order: east and north.
const AROUND: [(i64, i64); 9] = [
    (0, 0),
    (0, 1),
    (0, -1),
    (1, 0),
    (-1, 0),
    (1, 1),
    (-1, 1),
    (1, -1),
    (-1, -1),
];

impl Area {
    /// How far a place is from the center, if it is in the area.
    pub fn distance(&self, place: Place) -> Option<f64> {
        let Area { center, shape } = *self;
        match shape {
            Shape::Circle(radius) => {
                Some(center.distance(place)).filter(|&distance| distance <= radius)
            }
            Shape::Box(width, height) => {
                let level = Place {
                    latitude: place.latitude,
                    ..center
                };
                let is_inside = center.distance_north(place) <= height / 2.0
                    && place.distance(level) <= width / 2.0;
                is_inside.then(|| center.distance(place))
            }
        }
    }

    /// The limits of the area, roughly.
    fn bounds(&self) -> Bounds {
        let Place {
            longitude,
            latitude,
        } = self.center;
        let (width, height) = match self.shape {
            Shape::Circle(radius) => (radius, radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let north = to_degrees(height / EARTH_RADIUS);
        // Degrees of longitude are the shorter the nearer a pole is.
        let nearer = if latitude < 0.0 {
            latitude - north
        } else {
            latitude + north
        };
        let east = to_degrees(width / EARTH_RADIUS / radians(nearer).cos());
        Bounds {
            longitude: [longitude - east, longitude + east],
            latitude: [latitude - north, latitude + north],
        }
    }

    /// The size of cells of which nine cover the area.
    fn steps(&self) -> u32 {
        let mut radius = match self.shape {
            Shape::Circle(radius) => radius,
            Shape::Box(width, height) => (width * width + height * height).sqrt() / 2.0,
        };
        if radius == 0.0 {
            return STEPS_MAX;
        }
        let mut steps = 1;
        while radius < MERCATOR_MAX {
            radius *= 2.0;
            steps += 1;
        }
        let latitude = self.center.latitude.abs();
        steps -= 2 + i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        steps.clamp(1, STEPS_MAX as i32) as u32
    }

    /// The ranges of scores that cover the area, from the first of each on and before the second.
    pub fn scores(&self) -> Vec<(f64, f64)> {
        let wanted = self.bounds();
        let mut center = Cell::of(self.center, self.steps(), LATITUDE_MAX);
        let is_covered = |center: Cell| {
            let [north, south] = [1, -1].map(|north| center.beside(0, north).bounds().latitude);
            let [east, west] = [1, -1].map(|east| center.beside(east, 0).bounds().longitude);
            north[1] >= wanted.latitude[1]
                && south[0] <= wanted.latitude[0]
                && east[1] >= wanted.longitude[1]
                && west[0] <= wanted.longitude[0]
        };
        if center.steps > 1 && !is_covered(center) {
            center = Cell::of(self.center, center.steps - 1, LATITUDE_MAX);
        }
        let own = center.bounds();
        let mut cells: Vec<Cell> = Vec::with_capacity(AROUND.len());
        for (east, north) in AROUND {
            let is_useless = center.steps >= 2
                && (north < 0 && own.latitude[0] < wanted.latitude[0]
                    || north > 0 && own.latitude[1] > wanted.latitude[1]
                    || east < 0 && own.longitude[0] < wanted.longitude[0]
                    || east > 0 && own.longitude[1] > wanted.longitude[1]);
            let cell = center.beside(east, north);
            // Around the earth one cell may be beside another on both sides.
            if !is_useless && cells.last() != Some(&cell) {
                cells.push(cell);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn anywhere(rng: &mut SmallRng) -> Place {
        let place = Place::new(
            rng.random_range(-LONGITUDE_MAX..=LONGITUDE_MAX),
            rng.random_range(-LATITUDE_MAX..=LATITUDE_MAX),
        );
        place.expect("it is in range")
    }

    #[test]
    fn a_score_says_where_a_place_is() {
        let mut rng = SmallRng::seed_from_u64(1);
        for _ in 0..10_000 {
            let place = anywhere(&mut rng);
            let found = Place::of_score(place.score());
            assert!(place.distance(found) < 0.6, "{place:?} {found:?}");
            assert_eq!(found.score(), place.score());
        }
        let palermo = Place::new(13.361_389, 38.115_556).expect("it is in range");
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(&palermo.geohash()[..9], b"sqc8b49rn");
    }

    #[test]
    fn cells_have_neighbors_all_around() {
        let mut rng = SmallRng::seed_from_u64(2);
        for _ in 0..2_000 {
            let cell = Cell::of(
                anywhere(&mut rng),
                rng.random_range(1..=STEPS_MAX),
                LATITUDE_MAX,
            );
            for (east, north) in AROUND {
                let there = cell.beside(east, north);
                assert_eq!(there.beside(-east, -north), cell);
                let cells = 1i64 << cell.steps;
                let at = |bits: u64| i64::from(gather(bits));
                let moved = |bits: u64, by: i64| (at(bits) + by).rem_euclid(cells);
                assert_eq!(at(there.bits >> 1), moved(cell.bits >> 1, east));
                assert_eq!(at(there.bits), moved(cell.bits, north));
            }
        }
    }

    /// Near the poles and the meridian of 180 degrees a search may miss what is beyond them, as in
    /// Redis.
    #[test]
    fn the_ranges_cover_the_area() {
        let mut rng = SmallRng::seed_from_u64(3);
        for _ in 0..300 {
            let center = Place::new(
                rng.random_range(-150.0..150.0),
                rng.random_range(-60.0..60.0),
            );
            let center = center.expect("it is in range");
            let size = 10f64.powf(rng.random_range(0.0..5.9));
            let shape = match rng.random() {
                true => Shape::Circle(size),
                false => Shape::Box(size, size * rng.random_range(0.1..2.0)),
            };
            let area = Area { center, shape };
            let ranges = area.scores();
            let degrees = size / 60_000.0;
            for _ in 0..300 {
                let place = Place::new(
                    center.longitude + rng.random_range(-degrees..=degrees).clamp(-25.0, 25.0),
                    center.latitude + rng.random_range(-degrees..=degrees).clamp(-20.0, 20.0),
                );
                let place = Place::of_score(place.expect("it is in range").score());
                let score = place.score();
                let is_covered = ranges.iter().any(|&(min, max)| (min..max).contains(&score));
                assert!(
                    is_covered || area.distance(place).is_none(),
                    "{area:?} {place:?}"
                );
            }
        }
    }
}
