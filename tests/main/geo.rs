//! Places in sorted sets.

use crate::sim::Sim;

fn sicily() -> Sim {
    let mut sim = Sim::new();
    sim.expect(
        "geoadd g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        ":2",
    );
    sim
}

#[test]
fn places_are_added_and_read() {
    let mut sim = sicily();
    sim.script(
        "zscore g Palermo         => $16 3479099956230698
        geodist g Palermo Catania    => $11 166274.1516
        geodist g Palermo Catania km => $8 166.2742
        geodist g Palermo x          => $-1
        geohash g Palermo x          => *2 $11 sqc8b49rny0 $-1
        geopos g Palermo x           => *2 *2 $18 13.361389338970184 $16 38.1155563954963 *-1
        geoadd g nx 1 1 Palermo      => :0
        geoadd g xx ch 1 1 Palermo 2 2 New => :1
        geoadd g nx xx 1 1 a         => {syntax error}
        geoadd g 1 1 a 2             => {syntax error}
        geoadd g 200 10 a            => {invalid longitude,latitude pair 200.000000,10.000000}
        geodist g Palermo Catania x  => {unsupported unit provided. please use M, KM, FT, MI}
        geopos nokey x               => *1 *-1",
    );
}

#[test]
fn what_is_near_is_found() {
    let mut sim = sicily();
    sim.script(
        "geosearch g fromlonlat 15 37 byradius 200 km asc => *2 $7 Catania $7 Palermo
        geosearch g fromlonlat 15 37 byradius 100 km     => *1 $7 Catania
        geosearch g fromlonlat 15 37 bybox 400 400 km desc count 1 withdist withhash => *1 *3 \
         $7 Palermo $8 190.4424 :3479099956230698
        geosearch g frommember Palermo byradius 0 m withcoord => *1 *2 $7 Palermo *2 \
         $18 13.361389338970184 $16 38.1155563954963
        geosearch g frommember nope byradius 1 km    => {could not decode requested zset member}
        geosearch nokey frommember nope byradius 1 km => *0
        geosearch g fromlonlat 15 37 byradius -1 km  => {radius cannot be negative}
        geosearch g fromlonlat 15 37 bybox 1 x km    => {need numeric height}
        geosearch g fromlonlat 15 37 byradius 1 km count 0 => {COUNT must be > 0}
        geosearch g fromlonlat 15 37 byradius 1 km any => {the ANY argument requires COUNT argument}
        geosearch g fromlonlat 15 37 byradius 1 km bybox 1 1 m => {syntax error}
        georadius_ro g 15 37 200 km store d          => {syntax error}
        georadiusbymember g Palermo 200 km asc       => *2 $7 Palermo $7 Catania",
    );
}

#[test]
fn options_of_a_search_are_checked_in_their_order() {
    let mut sim = sicily();
    sim.script(
        "geosearch g frommember nope byradius x km    => {could not decode requested zset member}
        geosearch g byradius x km frommember nope    => {need numeric radius}
        geosearch g frommember nope asc desc bogus   => {could not decode requested zset member}
        georadiusbymember g nope x km                => {could not decode requested zset member}
        georadiusbymember nokey a x km               => *0
        georadiusbymember nokey a x km count 0       => {COUNT must be > 0}
        georadiusbymember nokey a 1 km bogus         => {syntax error}
        GeoSearch g fromlonlat 1 1 asc desc asc      => {exactly one of BYRADIUS and BYBOX can be \
         specified for GeoSearch}
        GEOSEARCHSTORE d g byradius 1 m asc desc asc => {exactly one of FROMMEMBER or FROMLONLAT \
         can be specified for GEOSEARCHSTORE}",
    );
}

#[test]
fn scores_that_are_no_hash_lie_somewhere() {
    let mut sim = Sim::new();
    sim.script(
        "zadd g -1 a 1e19 b inf c 1e15 d -inf e => :5
        geopos g a c => *2 *2 $3 180 $11 85.05112878 *2 $19 -179.99999731779099 \
         $18 -85.05112751263943
        geopos g d e => *2 *2 $19 -31.012341678142548 $18 -32.19914967503108 *2 $3 180 \
         $18 -85.05112751263943",
    );
}

#[test]
fn what_is_near_is_stored() {
    let mut sim = sicily();
    sim.script(
        "geosearchstore d g fromlonlat 15 37 byradius 200 km storedist => :2
        zrange d 0 -1                => *2 $7 Catania $7 Palermo
        zscore d Catania             => $16 56.4412578701582
        georadius g 15 37 200 km store d => :2
        zscore d Catania             => $16 3479447370796909
        georadius g 15 37 200 km store d withdist => {STORE option in GEORADIUS is not compatible \
         with WITHDIST, WITHHASH and WITHCOORD options}
        geosearchstore d g fromlonlat 15 37 byradius 1 m => :0
        exists d                     => :0
        command getkeys georadius g 15 37 200 km store a storedist d => *2 $1 g $1 d",
    );
}
