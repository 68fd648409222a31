//! Sorted sets: every command, option and error in both forms, as Redis 8.2.3 answers them.

use std::collections::BTreeSet;

use crate::sim::Sim;
use crate::transcripts::{events_of, notifying};

/// Long errors, by the names they have in scripts.
const ERRORS: [(&str, &str); 4] = [
    (
        "WRONG",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    ),
    (
        "LIMIT_NEEDS_BY",
        "{syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX}",
    ),
    (
        "NO_SCORES_BYLEX",
        "{syntax error, WITHSCORES not supported in combination with BYLEX}",
    ),
    (
        "NO_OPPOSITE",
        "{value is out of range, value must between -9223372036854775807 and \
         9223372036854775807}",
    ),
];

#[track_caller]
fn script(sim: &mut Sim, text: &str) {
    let mut text = text.to_owned();
    for (name, error) in ERRORS {
        text = text.replace(&format!("=> {name}"), &format!("=> {error}"));
    }
    sim.script(&text);
}

/// Servers whose sorted sets are small, and big.
fn both_forms() -> [Sim; 2] {
    let mut sims = [Sim::new(), Sim::new()];
    sims[1].expect("config set zset-max-listpack-entries 0", "+OK");
    for (sim, encoding) in sims.iter_mut().zip(["$8 listpack", "$8 skiplist"]) {
        sim.expect("zadd probe 1 a", ":1");
        sim.expect("object encoding probe", encoding);
        sim.expect("del probe", ":1");
    }
    sims
}

/// The bulk strings of a flat reply.
fn strings(reply: &str) -> Vec<String> {
    let words = reply.split(' ').skip(1);
    words.skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn members_are_given_scores() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd k 1 a 2 b 3 c => :3
        zadd k 1 a 5 b 4 d => :1
        zadd k ch 1 a 6 b 4 d 9 e => :2
        zcard k => :5
        zrange k 0 -1 withscores => *10 $1 a $1 1 $1 c $1 3 $1 d $1 4 $1 b $1 6 $1 e $1 9
        zadd k nx 9 a 9 f => :1
        zadd k nx ch 8 a => :0
        zadd k xx ch 2 a 2 none => :1
        zadd k xx 2 none => :0
        zadd none xx 1 a => :0
        exists none => :0
        zadd k gt 1 a => :0
        zadd k gt ch 3 a => :1
        zadd k gt ch 3 a => :0
        zadd k lt ch 4 a 1 g => :1
        zadd k lt ch 2 a => :1
        zadd k xx gt ch 7 a 1 h => :1
        zadd k xx lt ch 1 a 1 h => :1
        zadd k CH ch Nx 1 i => :1
        zadd k 1.5 nx => :1
        zadd k 1 a 2 a 3 a => :0
        zscore k a => $1 3
        zadd m inf a -inf b +Infinity c 1e20 d 0x10 e .5 f => :6
        zrange m 0 3 withscores => *8 $1 b $4 -inf $1 f $3 0.5 $1 e $2 16 $1 d $5 1e+20
        zrange m 4 -1 withscores => *4 $1 a $3 inf $1 c $3 inf
        zmscore m a b nope d => *4 $3 inf $4 -inf $-1 $5 1e+20
        zmscore none a b => *2 $-1 $-1
        zscore m nope => $-1
        zscore none a => $-1
        zcard none => :0
        zrem k nope => :0
        zrem none a => :0
        zrem k a a b nope => :2
        zrem k c d e f g i nx => :7
        exists k => :0
        type m => +zset
        "#,
        );
    }
}

#[test]
fn increments() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd k incr 1.5 a => $3 1.5
        zadd k incr 1.5 a => $1 3
        zadd k incr 0 a => $1 3
        zadd k nx incr 1 a => $-1
        zadd k nx incr 1 b => $1 1
        zadd k xx incr 1 c => $-1
        zadd none xx incr 1 c => $-1
        exists none => :0
        zadd k xx incr 1 b => $1 2
        zadd k gt incr -1 b => $-1
        zadd k gt incr 0 b => $-1
        zadd k gt incr 1 b => $1 3
        zadd k lt incr 1 b => $-1
        zadd k lt incr -1 b => $1 2
        zadd k lt incr 7 d => $1 7
        zincrby k -0.1 a => $3 2.9
        zincrby k 2 new => $1 2
        zincrby knew 5 a => $1 5
        zadd k inf i => :1
        zincrby k -inf i => {resulting score is not a number (NaN)}
        zadd k incr -inf i => {resulting score is not a number (NaN)}
        zadd k gt incr -inf i => {resulting score is not a number (NaN)}
        zincrby k inf i => $3 inf
        zscore k i => $3 inf
        zrange k 0 -1 withscores => *10 $1 b $1 2 $3 new $1 2 $1 a $3 2.9 $1 d $1 7 $1 i $3 inf
        "#,
        );
        sim.run("hello 3");
        script(
            &mut sim,
            r#"
        zadd k incr 1 a => ,3.9
        zadd k nx incr 1 a => _
        zincrby k 0.5 a => ,4.4
        zscore k a => ,4.4
        zscore k none => _
        zmscore k a none i => *3 ,4.4 _ ,inf
        "#,
        );
    }
}

#[test]
fn what_zadd_refuses() {
    let mut sim = Sim::new();
    script(
        &mut sim,
        r#"
    set str x => +OK
    zadd k 1 => {wrong number of arguments for 'zadd' command}
    zadd k nx 1 => {syntax error}
    zadd k 1 a 2 => {syntax error}
    zadd k nx xx => {syntax error}
    zadd k nx xx 1 a b => {syntax error}
    zadd k nx xx 1 a => {XX and NX options at the same time are not compatible}
    zadd k nx xx gt 1 a => {XX and NX options at the same time are not compatible}
    zadd k nx gt 1 a => {GT, LT, and/or NX options at the same time are not compatible}
    zadd k nx lt 1 a => {GT, LT, and/or NX options at the same time are not compatible}
    zadd k gt lt 1 a => {GT, LT, and/or NX options at the same time are not compatible}
    zadd k incr 1 a 2 b => {INCR option supports a single increment-element pair}
    zadd k incr nx xx 1 a 2 b => {XX and NX options at the same time are not compatible}
    zadd k incr gt lt 1 a 2 b => {GT, LT, and/or NX options at the same time are not compatible}
    zadd k incr x a 2 b => {INCR option supports a single increment-element pair}
    zadd k x a => {value is not a valid float}
    zadd k nan a => {value is not a valid float}
    zadd k "" a => {value is not a valid float}
    zadd k " 1" a => {value is not a valid float}
    zadd k "1 " a => {value is not a valid float}
    zadd k 1e400 a => {value is not a valid float}
    zadd k 1e-400 a => {value is not a valid float}
    zadd k 1 a x b => {value is not a valid float}
    zadd k incr x a => {value is not a valid float}
    zincrby k x a => {value is not a valid float}
    zincrby k nx a => {syntax error}
    zincrby k 1 => {wrong number of arguments for 'zincrby' command}
    zincrby k 1 a b => {wrong number of arguments for 'zincrby' command}
    exists k => :0
    zadd str 1 a => WRONG
    zadd str x a => {value is not a valid float}
    zadd str nx xx 1 a => {XX and NX options at the same time are not compatible}
    zadd str xx 1 a => WRONG
    zadd str xx incr 1 a => WRONG
    zincrby str x a => {value is not a valid float}
    zincrby str 1 a => WRONG
    zrem str a => WRONG
    zrem str => {wrong number of arguments for 'zrem' command}
    zscore str a => WRONG
    zscore str => {wrong number of arguments for 'zscore' command}
    zmscore str a => WRONG
    zmscore str => {wrong number of arguments for 'zmscore' command}
    zcard str => WRONG
    zcard str a => {wrong number of arguments for 'zcard' command}
    get str => $1 x
    "#,
    );
}

#[test]
fn counts_and_ranks() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd k 1 a 2 b 2 c 3 d 3.5 e => :5
        set str x => +OK
        zcount k 1 3 => :4
        zcount k (1 3 => :3
        zcount k 1 (3 => :3
        zcount k (1 (3 => :2
        zcount k -inf +inf => :5
        zcount k (2 (2 => :0
        zcount k 3 1 => :0
        zcount k 2 2 => :2
        zcount k "" 2 => :3
        zcount k ( 1 => :1
        zcount k 1e400 inf => :0
        zcount k -1e400 1e400 => :5
        zcount none 1 2 => :0
        zcount k a 2 => {min or max is not a float}
        zcount k 1 nan => {min or max is not a float}
        zcount k " 1" 2 => {min or max is not a float}
        zcount k "1 " 2 => {min or max is not a float}
        zcount k "( 1" 2 => {min or max is not a float}
        zcount k ((1 2 => {min or max is not a float}
        zcount k 0x1 2 => {min or max is not a float}
        zcount none a b => {min or max is not a float}
        zcount str a b => {min or max is not a float}
        zcount str 1 2 => WRONG
        zcount k 1 => {wrong number of arguments for 'zcount' command}
        zrank k a => :0
        zrank k d => :3
        zrank k none => $-1
        zrank none a => $-1
        zrevrank k a => :4
        zrevrank k e => :0
        zrevrank k none => $-1
        zrank k b withscore => *2 :1 $1 2
        zrevrank k e WithScore => *2 :0 $3 3.5
        zrank k none withscore => *-1
        zrank none a withscore => *-1
        zrank k a withscores => {syntax error}
        zrank none a foo => {syntax error}
        zrank str a foo => {syntax error}
        zrank str a => WRONG
        zrevrank str a withscore => WRONG
        zrank k a withscore x => {wrong number of arguments for 'zrank' command}
        zrevrank k a withscore x => {wrong number of arguments for 'zrevrank' command}
        zrank k => {wrong number of arguments for 'zrank' command}
        "#,
        );
        sim.run("hello 3");
        script(
            &mut sim,
            r#"
        zrank k b withscore => *2 :1 ,2
        zrank k none withscore => _
        zrank k none => _
        "#,
        );
        sim.run("hello 2");
        script(
            &mut sim,
            r#"
        zadd l 0 a 0 b 0 c 0 d => :4
        zlexcount l - + => :4
        zlexcount l [b + => :3
        zlexcount l (b [d => :2
        zlexcount l [b (d => :2
        zlexcount l [bb (cc => :1
        zlexcount l + - => :0
        zlexcount l [d [a => :0
        zlexcount l (b (b => :0
        zlexcount l [b [b => :1
        zlexcount l [ + => :4
        zlexcount none - + => :0
        zlexcount l b + => {min or max not valid string range item}
        zlexcount l - d => {min or max not valid string range item}
        zlexcount l "" + => {min or max not valid string range item}
        zlexcount none b + => {min or max not valid string range item}
        zlexcount str b + => {min or max not valid string range item}
        zlexcount str - + => WRONG
        "#,
        );
    }
}

#[test]
fn parts_by_rank() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd k 1 a 2 b 3 c 4 d 5 e => :5
        set str x => +OK
        zrange k 0 -1 => *5 $1 a $1 b $1 c $1 d $1 e
        zrange k 1 2 => *2 $1 b $1 c
        zrange k -2 -1 => *2 $1 d $1 e
        zrange k -100 100 => *5 $1 a $1 b $1 c $1 d $1 e
        zrange k 3 1 => *0
        zrange k 5 9 => *0
        zrange k 0 -6 => *0
        zrange k -9223372036854775808 9223372036854775807 => *5 $1 a $1 b $1 c $1 d $1 e
        zrange k 9223372036854775807 -9223372036854775808 => *0
        zrange k 0 -1 withscores => *10 $1 a $1 1 $1 b $1 2 $1 c $1 3 $1 d $1 4 $1 e $1 5
        zrange k 0 1 withscores withscores => *4 $1 a $1 1 $1 b $1 2
        zrange k 0 1 rev => *2 $1 e $1 d
        zrange k -2 -1 rev withscores => *4 $1 b $1 2 $1 a $1 1
        zrange k 0 0 withscores rev => *2 $1 e $1 5
        zrevrange k 0 1 => *2 $1 e $1 d
        zrevrange k 1 -2 withscores => *6 $1 d $1 4 $1 c $1 3 $1 b $1 2
        zrevrange k -1 -1 => *1 $1 a
        zrevrange k 4 9 => *1 $1 a
        zrange none 0 -1 => *0
        zrange k a 1 => {value is not an integer or out of range}
        zrange k 0 1.5 => {value is not an integer or out of range}
        zrange none a b => {value is not an integer or out of range}
        zrange k 0 99999999999999999999 => {value is not an integer or out of range}
        zrange k 0 1 foo => {syntax error}
        zrange k a b foo => {syntax error}
        zrange str 0 1 => WRONG
        zrange str a 1 => {value is not an integer or out of range}
        zrange str 0 1 foo => {syntax error}
        zrange k 0 => {wrong number of arguments for 'zrange' command}
        zrange k 0 1 rev rev => {syntax error}
        zrange k 0 1 limit 0 1 => LIMIT_NEEDS_BY
        zrange k 0 1 limit 1 -1 => *2 $1 a $1 b
        zrange k 0 1 limit 0 -5 => LIMIT_NEEDS_BY
        zrange k 0 1 limit 0 => {syntax error}
        zrange k 0 1 limit a 1 => {value is not an integer or out of range}
        zrange k 0 1 limit 0 b => {value is not an integer or out of range}
        zrevrange k 0 1 rev => {syntax error}
        zrevrange k 0 1 byscore => {syntax error}
        zrevrange k 0 1 bylex => {syntax error}
        zrevrange k 0 1 limit 0 1 => LIMIT_NEEDS_BY
        zrevrange str 0 1 => WRONG
        "#,
        );
        sim.run("hello 3");
        script(
            &mut sim,
            r#"
        zrange k 0 1 => *2 $1 a $1 b
        zrange k 0 1 withscores => *2 *2 $1 a ,1 *2 $1 b ,2
        zrange k 0 0 withscores rev => *1 *2 $1 e ,5
        zrevrange k 0 0 withscores => *1 *2 $1 e ,5
        zrange none 0 1 withscores => *0
        "#,
        );
    }
}

#[test]
fn parts_by_score() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd k 1 a 2 b 2 c 3 d inf e => :5
        set str x => +OK
        zrange k 1 2 byscore => *3 $1 a $1 b $1 c
        zrange k (1 (3 byscore withscores => *4 $1 b $1 2 $1 c $1 2
        zrange k -inf inf byscore limit 1 2 => *2 $1 b $1 c
        zrange k -inf inf byscore limit 3 -1 => *2 $1 d $1 e
        zrange k -inf inf byscore limit 4 -7 => *1 $1 e
        zrange k -inf inf byscore limit -1 2 => *0
        zrange k -inf inf byscore limit 5 2 => *0
        zrange k -inf inf byscore limit 0 0 => *0
        zrange k -inf inf limit 0 3 byscore limit 1 1 => *1 $1 b
        zrange k 3 1 byscore => *0
        zrange k 3 1 byscore rev => *4 $1 d $1 c $1 b $1 a
        zrange k +inf (2 byscore rev withscores => *4 $1 e $3 inf $1 d $1 3
        zrange k inf -inf rev byscore limit 1 2 => *2 $1 d $1 c
        zrange k 1 3 byscore rev => *0
        zrangebyscore k 1 2 => *3 $1 a $1 b $1 c
        zrangebyscore k (2 +inf withscores => *4 $1 d $1 3 $1 e $3 inf
        zrangebyscore k 0 9 limit 1 2 withscores => *4 $1 b $1 2 $1 c $1 2
        zrangebyscore k 0 9 withscores limit 1 1 => *2 $1 b $1 2
        zrangebyscore k 9 0 => *0
        zrevrangebyscore k 9 0 => *4 $1 d $1 c $1 b $1 a
        zrevrangebyscore k 3 (1 withscores => *6 $1 d $1 3 $1 c $1 2 $1 b $1 2
        zrevrangebyscore k 3 1 limit 1 2 => *2 $1 c $1 b
        zrevrangebyscore k 3 1 limit 0 1 limit 2 1 => *1 $1 b
        zrangebyscore none 1 2 => *0
        zrange k a 3 byscore => {min or max is not a float}
        zrange k 1 3 byscore limit => {syntax error}
        zrange k 1 3 byscore limit 1 => {syntax error}
        zrange k 1 3 byscore limit a 1 => {value is not an integer or out of range}
        zrange k 1 3 byscore limit 1 a => {value is not an integer or out of range}
        zrange k 1 3 byscore byscore => {syntax error}
        zrange k 1 3 byscore bylex => {syntax error}
        zrange k 1 3 byscore foo => {syntax error}
        zrangebyscore k a 3 => {min or max is not a float}
        zrangebyscore none 1 b => {min or max is not a float}
        zrangebyscore str a 3 => {min or max is not a float}
        zrangebyscore str 1 3 => WRONG
        zrangebyscore k a 3 limit => {syntax error}
        zrangebyscore k a 3 limit x y => {value is not an integer or out of range}
        zrangebyscore k 1 3 rev => {syntax error}
        zrangebyscore k 1 3 byscore => {syntax error}
        zrangebyscore k 1 3 bylex => {syntax error}
        zrevrangebyscore k 1 a => {min or max is not a float}
        zrevrangebyscore str 3 1 => WRONG
        "#,
        );
        sim.run("hello 3");
        script(
            &mut sim,
            r#"
        zrangebyscore k 1 2 withscores => *3 *2 $1 a ,1 *2 $1 b ,2 *2 $1 c ,2
        zrevrangebyscore k inf 3 withscores => *2 *2 $1 e ,inf *2 $1 d ,3
        zrange k 3 inf byscore withscores => *2 *2 $1 d ,3 *2 $1 e ,inf
        "#,
        );
    }
}

#[test]
fn parts_by_member() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd l 0 a 0 b 0 c 0 d 0 e => :5
        set str x => +OK
        zrange l - + bylex => *5 $1 a $1 b $1 c $1 d $1 e
        zrange l [b (d bylex => *2 $1 b $1 c
        zrange l (b [d bylex => *2 $1 c $1 d
        zrange l [d [b bylex => *0
        zrange l [d (b bylex rev => *2 $1 d $1 c
        zrange l + - bylex rev limit 1 2 => *2 $1 d $1 c
        zrange l - + bylex limit 1 -1 => *4 $1 b $1 c $1 d $1 e
        zrange l - + limit 4 9 bylex => *1 $1 e
        zrangebylex l - + => *5 $1 a $1 b $1 c $1 d $1 e
        zrangebylex l [bb [dd => *2 $1 c $1 d
        zrangebylex l - + limit 1 2 => *2 $1 b $1 c
        zrangebylex l + - => *0
        zrevrangebylex l + - => *5 $1 e $1 d $1 c $1 b $1 a
        zrevrangebylex l + [d => *2 $1 e $1 d
        zrevrangebylex l (d - limit 1 1 => *1 $1 b
        zrevrangebylex l - + => *0
        zrangebylex none - + => *0
        zrange l a + bylex => {min or max not valid string range item}
        zrange l - + bylex withscores => NO_SCORES_BYLEX
        zrange l a + bylex withscores => NO_SCORES_BYLEX
        zrange l - + bylex limit 0 => {syntax error}
        zrange l - + bylex byscore => {syntax error}
        zrange l - + bylex bylex => {syntax error}
        zrangebylex l - + withscores => NO_SCORES_BYLEX
        zrangebylex l a + => {min or max not valid string range item}
        zrangebylex l - c => {min or max not valid string range item}
        zrangebylex none a + => {min or max not valid string range item}
        zrangebylex str a + => {min or max not valid string range item}
        zrangebylex str - + => WRONG
        zrangebylex l - + rev => {syntax error}
        zrevrangebylex l a - => {min or max not valid string range item}
        zrevrangebylex str + - => WRONG
        "#,
        );
    }
}

#[test]
fn parts_are_stored() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd k 1 a 2 b 3 c 4 d => :4
        zadd l 0 a 0 b 0 c => :3
        set str x => +OK
        zrangestore d k 0 -1 => :4
        zrange d 0 -1 withscores => *8 $1 a $1 1 $1 b $1 2 $1 c $1 3 $1 d $1 4
        zrangestore d k 0 0 rev => :1
        zrange d 0 -1 withscores => *2 $1 d $1 4
        zrangestore d k 2 (4 byscore => :2
        zrange d 0 -1 withscores => *4 $1 b $1 2 $1 c $1 3
        zrangestore d k 4 1 byscore rev limit 1 2 => :2
        zrange d 0 -1 withscores => *4 $1 b $1 2 $1 c $1 3
        zrangestore d l [b + bylex => :2
        zrange d 0 -1 withscores => *4 $1 b $1 0 $1 c $1 0
        zrangestore d l 0 -1 withscores => {syntax error}
        zrangestore d k 0 1 limit 0 1 => LIMIT_NEEDS_BY
        zrangestore d k 0 1 foo => {syntax error}
        zrangestore d k a 1 => {value is not an integer or out of range}
        zrangestore d none a 1 => {value is not an integer or out of range}
        zrangestore d str a 1 => {value is not an integer or out of range}
        zrangestore d str 0 1 => WRONG
        zrangestore d k 0 => {wrong number of arguments for 'zrangestore' command}
        zcard d => :2
        zrangestore d k 5 9 => :0
        exists d => :0
        zrangestore none none2 0 1 => :0
        expire str 100 => :1
        zrangestore str k 1 2 => :2
        type str => +zset
        ttl str => :-1
        expire k 100 => :1
        zrangestore k k 1 2 => :2
        ttl k => :-1
        zrange k 0 -1 withscores => *4 $1 b $1 2 $1 c $1 3
        zrangestore str none 0 -1 => :0
        exists str => :0
        "#,
        );
    }
}

#[test]
fn parts_are_removed() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd k 1 a 2 b 3 c 4 d 5 e 6 f => :6
        set str x => +OK
        expire k 100 => :1
        zremrangebyrank k 0 1 => :2
        zremrangebyrank k -1 -1 => :1
        zremrangebyrank k 3 9 => :0
        zremrangebyrank k 2 1 => :0
        zrange k 0 -1 => *3 $1 c $1 d $1 e
        zremrangebyrank none 0 1 => :0
        zremrangebyrank k a 1 => {value is not an integer or out of range}
        zremrangebyrank none 0 b => {value is not an integer or out of range}
        zremrangebyrank str a 1 => {value is not an integer or out of range}
        zremrangebyrank str 0 1 => WRONG
        ttl k => :100
        zremrangebyrank k 0 -1 => :3
        exists k => :0
        zadd k 1 a 2 b 3 c 4 d 5 e => :5
        zremrangebyscore k (1 2 => :1
        zremrangebyscore k 9 10 => :0
        zremrangebyscore k 3 1 => :0
        zremrangebyscore k (4 inf => :1
        zrange k 0 -1 => *3 $1 a $1 c $1 d
        zremrangebyscore none 1 2 => :0
        zremrangebyscore k a 2 => {min or max is not a float}
        zremrangebyscore none 1 b => {min or max is not a float}
        zremrangebyscore str a 2 => {min or max is not a float}
        zremrangebyscore str 1 2 => WRONG
        zremrangebyscore k -inf inf => :3
        exists k => :0
        zadd l 0 a 0 b 0 c 0 d 0 e => :5
        zremrangebylex l [b (d => :2
        zremrangebylex l + - => :0
        zremrangebylex l [x [z => :0
        zrange l 0 -1 => *3 $1 a $1 d $1 e
        zremrangebylex none - + => :0
        zremrangebylex l a + => {min or max not valid string range item}
        zremrangebylex none - b => {min or max not valid string range item}
        zremrangebylex str a + => {min or max not valid string range item}
        zremrangebylex str - + => WRONG
        zremrangebylex l - + => :3
        exists l => :0
        ttl none => :-2
        "#,
        );
    }
}

#[test]
fn members_are_taken_off_the_ends() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd k 1 a 2 b 3 c 4 d 5 e 6 f 7 g => :7
        set str x => +OK
        expire k 100 => :1
        zpopmin k => *2 $1 a $1 1
        zpopmax k => *2 $1 g $1 7
        zpopmin k 0 => *0
        zpopmin k 2 => *4 $1 b $1 2 $1 c $1 3
        ttl k => :100
        zpopmax k 2 => *4 $1 f $1 6 $1 e $1 5
        zpopmax k 5 => *2 $1 d $1 4
        exists k => :0
        zpopmin none => *0
        zpopmin none 2 => *0
        zpopmax none 0 => *0
        zpopmin k -1 => {value is out of range, must be positive}
        zpopmin none a => {value is out of range, must be positive}
        zpopmin k 1 2 => {syntax error}
        zpopmin k 9223372036854775808 => {value is out of range, must be positive}
        zpopmin str => WRONG
        zpopmin str 0 => WRONG
        zpopmin str -1 => {value is out of range, must be positive}
        zpopmax str 2 => WRONG
        zpopmax str 1 2 => {syntax error}
        zadd k 1 a 2 b 3 c 4 d 5 e 6 f 7 g => :7
        zmpop 1 k min => *2 $1 k *1 *2 $1 a $1 1
        zmpop 2 none k max count 2 => *2 $1 k *2 *2 $1 g $1 7 *2 $1 f $1 6
        zmpop 2 none none2 min count 2 => *-1
        zmpop 1 k MAX Count 1 => *2 $1 k *1 *2 $1 e $1 5
        zmpop 2 k str min => *2 $1 k *1 *2 $1 b $1 2
        zmpop 2 str k min => WRONG
        zmpop 2 none str min => WRONG
        zmpop 0 k min => {numkeys should be greater than 0}
        zmpop a k min => {numkeys should be greater than 0}
        zmpop -1 k min => {numkeys should be greater than 0}
        zmpop 2 k min => {syntax error}
        zmpop 99999999999999999 k min => {syntax error}
        zmpop 1 k foo => {syntax error}
        zmpop 1 k min count => {syntax error}
        zmpop 1 k min foo => {syntax error}
        zmpop 1 k min foo 1 => {syntax error}
        zmpop 1 k min count 0 => {count should be greater than 0}
        zmpop 1 k min count a => {count should be greater than 0}
        zmpop 1 k min count 1 count 2 => {syntax error}
        zmpop 1 k min count 0 count 2 => {count should be greater than 0}
        zmpop 1 k min count 9223372036854775807 => *2 $1 k *2 *2 $1 c $1 3 *2 $1 d $1 4
        exists k => :0
        zadd k 1 a 2 b 3 c 4 d 5 e 6 f 7 g => :7
        "#,
        );
        sim.run("hello 3");
        script(
            &mut sim,
            r#"
        zpopmin k => *2 $1 a ,1
        zpopmin k 1 => *1 *2 $1 b ,2
        zpopmax k => *2 $1 g ,7
        zpopmax k 2 => *2 *2 $1 f ,6 *2 $1 e ,5
        zmpop 1 k min => *2 $1 k *1 *2 $1 c ,3
        zmpop 1 k max count 5 => *2 $1 k *1 *2 $1 d ,4
        zpopmin k => *0
        zpopmin k 1 => *0
        zmpop 1 k min => _
        "#,
        );
    }
}

#[test]
fn unions_intersections_differences() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd a 1 x 2 y 3 z => :3
        zadd b 10 x 20 y 40 w => :3
        sadd s x w q => :3
        sadd i 1 2 => :2
        set str x => +OK
        zunion 2 a b => *4 $1 z $1 x $1 y $1 w
        zunion 2 a b withscores => *8 $1 z $1 3 $1 x $2 11 $1 y $2 22 $1 w $2 40
        zunion 2 a b weights 1 2 withscores => *8 $1 z $1 3 $1 x $2 21 $1 y $2 42 $1 w $2 80
        zunion 2 a b weights 1 2 aggregate min => *4 $1 x $1 y $1 z $1 w
        zunion 2 a b aggregate max withscores => *8 $1 z $1 3 $1 x $2 10 $1 y $2 20 $1 w $2 40
        zunion 1 a withscores aggregate max weights 9 weights 2 => *6 $1 x $1 2 $1 y $1 4 $1 z $1 6
        zunion 3 a s b withscores => *10 $1 q $1 1 $1 z $1 3 $1 x $2 12 $1 y $2 22 $1 w $2 41
        zunion 2 s i withscores => *10 $1 1 $1 1 $1 2 $1 1 $1 q $1 1 $1 w $1 1 $1 x $1 1
        zunion 3 a none a withscores => *6 $1 x $1 2 $1 y $1 4 $1 z $1 6
        zunion 2 none none2 => *0
        zunion 2 a a weights inf -inf withscores => *6 $1 x $1 0 $1 y $1 0 $1 z $1 0
        zinter 2 a b => *2 $1 x $1 y
        zinter 2 a b withscores => *4 $1 x $2 11 $1 y $2 22
        zinter 2 a b weights 2 3 aggregate max withscores => *4 $1 x $2 30 $1 y $2 60
        zinter 3 a b s withscores => *2 $1 x $2 12
        zinter 2 a a withscores => *6 $1 x $1 2 $1 y $1 4 $1 z $1 6
        zinter 2 s s weights 2 3 withscores => *6 $1 q $1 5 $1 w $1 5 $1 x $1 5
        zinter 2 a none => *0
        zinter 1 a weights 0 withscores => *6 $1 x $1 0 $1 y $1 0 $1 z $1 0
        zdiff 2 a b => *1 $1 z
        zdiff 2 a b withscores => *2 $1 z $1 3
        zdiff 2 a s withscores => *4 $1 y $1 2 $1 z $1 3
        zdiff 2 s a withscores => *4 $1 q $1 1 $1 w $1 1
        zdiff 3 a none b withscores => *2 $1 z $1 3
        zdiff 1 a => *3 $1 x $1 y $1 z
        zdiff 2 none a => *0
        zdiff 2 a a => *0
        zintercard 2 a b => :2
        zintercard 2 a b limit 1 => :1
        zintercard 2 a b limit 0 => :2
        zintercard 2 a b limit 9 => :2
        zintercard 2 a b limit 1 limit 2 => :2
        zintercard 3 a b s => :1
        zintercard 2 a none => :0
        zintercard 1 s => :3
        zadd inf inf x => :1
        zadd ninf -inf x 3 y => :2
        zunion 2 inf ninf withscores => *4 $1 x $1 0 $1 y $1 3
        zinter 2 inf ninf withscores => *2 $1 x $1 0
        zunion 2 inf ninf weights 1 0 aggregate min withscores => *4 $1 x $1 0 $1 y $1 0
        zinter 2 inf ninf weights 1 0 aggregate min withscores => *2 $1 x $3 inf
        zinter 2 inf ninf weights 1 0 aggregate sum withscores => *2 $1 x $1 0
        "#,
        );
        sim.run("hello 3");
        script(
            &mut sim,
            r#"
        zunion 2 a b withscores => *4 *2 $1 z ,3 *2 $1 x ,11 *2 $1 y ,22 *2 $1 w ,40
        zinter 2 a b withscores => *2 *2 $1 x ,11 *2 $1 y ,22
        zdiff 2 a b withscores => *1 *2 $1 z ,3
        zunion 2 a b => *4 $1 z $1 x $1 y $1 w
        zunion 2 none none2 withscores => *0
        "#,
        );
    }
}

#[test]
fn what_combinations_refuse() {
    let mut sim = Sim::new();
    script(
        &mut sim,
        r#"
    zadd a 1 x => :1
    set str x => +OK
    zunion 0 a => {at least 1 input key is needed for 'zunion' command}
    zinter -1 a => {at least 1 input key is needed for 'zinter' command}
    zdiff 0 a => {at least 1 input key is needed for 'zdiff' command}
    zunionstore d 0 a => {at least 1 input key is needed for 'zunionstore' command}
    zinterstore d 0 a => {at least 1 input key is needed for 'zinterstore' command}
    zdiffstore d 0 a => {at least 1 input key is needed for 'zdiffstore' command}
    zintercard 0 a => {at least 1 input key is needed for 'zintercard' command}
    zunion x a => {value is not an integer or out of range}
    zintercard x a => {value is not an integer or out of range}
    zunionstore d x a => {value is not an integer or out of range}
    zunion 2 a => {syntax error}
    zunion 9223372036854775807 a => {syntax error}
    zintercard 2 a => {syntax error}
    zunionstore d 2 a => {syntax error}
    zunion 1 str => WRONG
    zunion 1 str foo => WRONG
    zunion 2 none str => WRONG
    zinter 2 none str => WRONG
    zdiff 2 none str => WRONG
    zintercard 2 none str foo => WRONG
    zunionstore d 1 str => WRONG
    zinterstore d 2 none str => WRONG
    zdiffstore d 2 none str => WRONG
    zunion 1 a foo => {syntax error}
    zunion 1 a weights => {syntax error}
    zunion 1 a weights x => {weight value is not a float}
    zunion 1 a weights nan => {weight value is not a float}
    zunion 2 a a weights 1 => {syntax error}
    zunion 1 a aggregate => {syntax error}
    zunion 1 a aggregate foo => {syntax error}
    zunion 1 a limit 1 => {syntax error}
    zunionstore d 1 a withscores => {syntax error}
    zinterstore d 1 a withscores => {syntax error}
    zdiffstore d 1 a withscores => {syntax error}
    zunionstore d 1 a weights x => {weight value is not a float}
    zdiff 1 a weights 1 => {syntax error}
    zdiff 1 a aggregate sum => {syntax error}
    zdiffstore d 1 a weights 1 => {syntax error}
    zintercard 1 a limit => {syntax error}
    zintercard 1 a limit -1 => {LIMIT can't be negative}
    zintercard 1 a limit x => {LIMIT can't be negative}
    zintercard 1 a limit -1 foo => {LIMIT can't be negative}
    zintercard 1 a withscores => {syntax error}
    zintercard 1 a weights 1 => {syntax error}
    zunion 1 => {wrong number of arguments for 'zunion' command}
    zunionstore d 1 => {wrong number of arguments for 'zunionstore' command}
    exists d => :0
    get str => $1 x
    "#,
    );
}

#[test]
fn combinations_are_stored() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            r#"
        zadd a 1 x 2 y 3 z => :3
        zadd b 10 x 20 y 40 w => :3
        sadd s x w q => :3
        set str x ex 100 => +OK
        zunionstore d 2 a b => :4
        zrange d 0 -1 withscores => *8 $1 z $1 3 $1 x $2 11 $1 y $2 22 $1 w $2 40
        zunionstore d 2 a b weights 2 3 aggregate max => :4
        zrange d 0 -1 withscores => *8 $1 z $1 6 $1 x $2 30 $1 y $2 60 $1 w $3 120
        zinterstore d 2 a s aggregate min => :1
        zrange d 0 -1 withscores => *2 $1 x $1 1
        zdiffstore d 2 a b => :1
        zrange d 0 -1 withscores => *2 $1 z $1 3
        expire d 100 => :1
        zunionstore d 1 a => :3
        ttl d => :-1
        zinterstore d 2 a none => :0
        exists d => :0
        zdiffstore d 2 a a => :0
        zunionstore str 2 a b => :4
        type str => +zset
        ttl str => :-1
        zinterstore str 2 none a => :0
        exists str => :0
        expire a 100 => :1
        zunionstore a 2 a b => :4
        ttl a => :-1
        zrange a 0 -1 withscores => *8 $1 z $1 3 $1 x $2 11 $1 y $2 22 $1 w $2 40
        zinterstore s 2 s a => :2
        type s => +zset
        zrange s 0 -1 withscores => *4 $1 x $2 12 $1 w $2 41
        "#,
        );
    }
}

#[test]
fn walks_of_small_sets() {
    let mut sim = Sim::new();
    script(
        &mut sim,
        r#"
    zadd k 1 a 2.5 b inf ac => :3
    set str x => +OK
    zscan k 0 => *2 $1 0 *6 $1 a $1 1 $1 b $3 2.5 $2 ac $3 inf
    zscan k 0 match a* => *2 $1 0 *4 $1 a $1 1 $2 ac $3 inf
    zscan k 0 count 1 => *2 $1 0 *6 $1 a $1 1 $1 b $3 2.5 $2 ac $3 inf
    zscan k 0 match b count 10 match a => *2 $1 0 *2 $1 a $1 1
    zscan k 17 => *2 $1 0 *6 $1 a $1 1 $1 b $3 2.5 $2 ac $3 inf
    zscan none 0 => *2 $1 0 *0
    zscan k x => {invalid cursor}
    zscan none x => {invalid cursor}
    zscan str x => {invalid cursor}
    zscan str 0 => WRONG
    zscan k 0 match => {syntax error}
    zscan k 0 count 0 => {syntax error}
    zscan k 0 count x => {value is not an integer or out of range}
    zscan k 0 type zset => {syntax error}
    zscan k 0 novalues => {NOVALUES option can only be used in HSCAN}
    zscan k 0 foo 1 => {syntax error}
    zscan none 0 foo 1 => *2 $1 0 *0
    zscan str 0 foo 1 => WRONG
    zscan k -1 => {invalid cursor}
    "#,
    );
    sim.run("hello 3");
    script(
        &mut sim,
        r#"
    zscan k 0 => *2 $1 0 *6 $1 a $1 1 $1 b $3 2.5 $2 ac $3 inf
    "#,
    );
}

#[test]
fn what_random_draws_refuse() {
    let mut sim = Sim::new();
    script(
        &mut sim,
        r#"
    zadd k 1 a => :1
    set str x => +OK
    zrandmember k => $1 a
    zrandmember k 0 => *0
    zrandmember k 5 withscores => *2 $1 a $1 1
    zrandmember k -3 => *3 $1 a $1 a $1 a
    zrandmember k -2 withscores => *4 $1 a $1 1 $1 a $1 1
    zrandmember none => $-1
    zrandmember none 3 => *0
    zrandmember none -3 withscores => *0
    zrandmember k x => {value is not an integer or out of range}
    zrandmember k 1 foo => {syntax error}
    zrandmember k 1 withscores x => {syntax error}
    zrandmember k x withscores => {value is not an integer or out of range}
    zrandmember none 1 foo => {syntax error}
    zrandmember str => WRONG
    zrandmember str 1 => WRONG
    zrandmember str x => {value is not an integer or out of range}
    zrandmember k -9223372036854775808 => NO_OPPOSITE
    zrandmember none -9223372036854775808 => NO_OPPOSITE
    zrandmember k -4611686018427387905 withscores => {value is out of range}
    zrandmember k 9223372036854775807 withscores => {value is out of range}
    zrandmember k 9223372036854775807 => *1 $1 a
    zrandmember k 99999999999999999999 => {value is not an integer or out of range}
    "#,
    );
    sim.run("hello 3");
    script(
        &mut sim,
        r#"
    zrandmember k 1 => *1 $1 a
    zrandmember k -2 withscores => *2 *2 $1 a ,1 *2 $1 a ,1
    zrandmember k 2 withscores => *1 *2 $1 a ,1
    zrandmember none => _
    zrandmember none 2 => *0
    "#,
    );
}

#[test]
fn when_a_set_becomes_big() {
    let mut sim = Sim::new();
    script(
        &mut sim,
        r#"
    config set zset-max-listpack-entries 3 zset-max-listpack-value 5 => +OK
    zadd a 1 a 1 b 1 c => :3
    object encoding a => $8 listpack
    zadd a 2 a 2 b => :0
    object encoding a => $8 listpack
    zadd a 1 d => :1
    object encoding a => $8 skiplist
    zrem a b c d => :3
    object encoding a => $8 skiplist
    zadd b 1 a 1 a 1 a 1 a => :1
    object encoding b => $8 skiplist
    zadd c 1 12345 => :1
    object encoding c => $8 listpack
    zadd c xx 1 123456 => :0
    object encoding c => $8 listpack
    zadd c 1 123456 => :1
    object encoding c => $8 skiplist
    zadd e 1 a => :1
    zadd e xx 1 x 1 y 1 z 1 w => :0
    object encoding e => $8 skiplist
    sadd s a b c => :3
    zunionstore d 1 s => :3
    object encoding d => $8 listpack
    sadd s f => :1
    zunionstore d 1 s => :4
    object encoding d => $8 skiplist
    zrangestore d d 0 2 => :3
    object encoding d => $8 listpack
    zrangestore d c 0 -1 => :2
    object encoding d => $8 skiplist
    zinterstore d 1 b => :1
    object encoding d => $8 listpack
    "#,
    );
}

#[test]
fn events_of_sorted_sets() {
    let mut sim = notifying();
    sim.expect("config set notify-keyspace-events KEAnoc", "+OK");
    for (request, events) in [
        ("zadd k 1 a 2 b 3 c", "new k, zadd k"),
        ("zadd k 1 a", ""),
        ("zadd k 2 a", "zadd k"),
        ("zadd k xx 5 none", ""),
        ("zadd k nx 5 a", ""),
        ("zadd k gt 1 a", ""),
        ("zadd k incr 1 a", "zincr k"),
        ("zadd k incr 0 a", ""),
        ("zadd k nx incr 0 a", ""),
        ("zincrby k 1 a", "zincr k"),
        ("zincrby k 0 a", ""),
        ("zincrby k 1 new", "zincr k"),
        ("zincrby k2 1 new", "new k2, zincr k2"),
        ("zadd k2 nx incr 3 newer", "zincr k2"),
        ("zrem k2 nope", ""),
        ("zrem k2 new", "zrem k2"),
        ("zrem k2 newer", "zrem k2, del k2"),
        ("zrem k2 newer", ""),
        ("zremrangebyrank k 0 0", "zremrangebyrank k"),
        ("zremrangebyrank k 9 9", ""),
        ("zremrangebyscore k 1e9 1e10", ""),
        ("zremrangebyscore k -inf (3", "zremrangebyscore k"),
        ("zremrangebyscore k -inf inf", "zremrangebyscore k, del k"),
        ("zadd k 0 a 0 b", "new k, zadd k"),
        ("zremrangebylex k [a [a", "zremrangebylex k"),
        ("zremrangebylex k [a [a", ""),
        ("zremrangebylex k - +", "zremrangebylex k, del k"),
        ("zadd k 1 a 2 b 3 c 4 d 5 e", "new k, zadd k"),
        ("zpopmin k", "zpopmin k"),
        ("zpopmax k 0", ""),
        ("zpopmax k", "zpopmax k"),
        ("zmpop 2 none k min", "zpopmin k"),
        ("zmpop 1 k max count 9", "zpopmax k, del k"),
        ("zpopmin k", ""),
        ("zadd k 1 a", "new k, zadd k"),
        ("zremrangebyrank k 0 -1", "zremrangebyrank k, del k"),
        ("zadd a 1 x 2 y", "new a, zadd a"),
        ("zadd b 1 x", "new b, zadd b"),
        ("zrangestore d a 0 -1", "new d, zrangestore d"),
        ("zrangestore d a 0 0", "overwritten d, zrangestore d"),
        ("zrangestore d a 5 9", "del d"),
        ("zrangestore d a 5 9", ""),
        ("zunionstore d 2 a b", "new d, zunionstore d"),
        ("zinterstore d 2 a b", "overwritten d, zinterstore d"),
        ("zdiffstore d 2 a b", "overwritten d, zdiffstore d"),
        ("zdiffstore d 1 none", "del d"),
        ("set d x", "new d, set d"),
        (
            "zunionstore d 1 a",
            "overwritten d, type_changed d, zunionstore d",
        ),
        ("zinterstore a 2 a b", "overwritten a, zinterstore a"),
        ("zinterstore a 2 a none", "del a"),
        ("zrandmember b", ""),
        ("zscan b 0", ""),
        ("zunion 1 b", ""),
    ] {
        events_of(&mut sim, &[request], events);
    }
}

/// Adds `members` members whose scores are their numbers modulo `scores`, ten at a time.
fn fill(sim: &mut Sim, key: &str, members: usize, scores: usize) {
    for first in (0..members).step_by(10) {
        let pairs = (first..members.min(first + 10)).map(|i| format!(" {} m{i:05}", i % scores));
        sim.run(&format!("zadd {key}{}", pairs.collect::<String>()));
    }
    sim.expect(&format!("zcard {key}"), &format!(":{members}"));
}

#[test]
fn a_walk_meets_every_member_once() {
    for count in [1, 10, 1000] {
        let mut sim = Sim::new();
        fill(&mut sim, "k", 1_000, 7);
        let (mut cursor, mut met) = ("0".to_owned(), BTreeSet::new());
        loop {
            let reply = sim.run(&format!("zscan k {cursor} count {count}"));
            // *2 $n cursor *m $n member $n score ..
            let words: Vec<&str> = reply.split(' ').collect();
            for pair in words[4..].chunks_exact(4) {
                let number: usize = pair[1][1..].parse().expect("a member");
                assert_eq!(pair[3], (number % 7).to_string());
                assert!(met.insert(number), "{number} was met twice");
            }
            cursor = words[2].to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(met.len(), 1_000, "count {count}");
    }
}

#[test]
fn random_draws() {
    for mut sim in both_forms() {
        fill(&mut sim, "k", 20, 3);
        let mut met = BTreeSet::new();
        for _ in 0..200 {
            met.extend(strings(&format!("*1 {}", sim.run("zrandmember k"))));
        }
        assert_eq!(met.len(), 20);
        for (count, drawn, different) in [(5, 5, 5), (20, 20, 20), (99, 20, 20), (-50, 50, 0)] {
            let reply = sim.run(&format!("zrandmember k {count}"));
            let members = strings(&reply);
            assert_eq!(members.len(), drawn, "{reply}");
            let set: BTreeSet<String> = members.into_iter().collect();
            assert!(set.len() >= different && set.is_subset(&met), "{reply}");
            let reply = sim.run(&format!("zrandmember k {count} WithScores"));
            let flat = strings(&reply);
            assert_eq!(flat.len(), 2 * drawn, "{reply}");
            for pair in flat.chunks_exact(2) {
                let number: usize = pair[0][1..].parse().expect("a member");
                assert_eq!(pair[1], (number % 3).to_string());
            }
        }
        // Redis: tries.
        sim.expect("zrandmember k -16777217", "-ERR value is out of range");
        sim.expect("zrandmember none -16777217", "*0");
    }
}

#[test]
fn a_big_set_is_cut_into_pieces() {
    let mut sim = Sim::new();
    fill(&mut sim, "k", 5_000, 5_000);
    script(
        &mut sim,
        "
        object encoding k => $8 skiplist
        expire k 100 => :1
        zremrangebyrank k 0 999 => :1000
        zremrangebyscore k (4899 inf => :100
        zrange k 0 0 withscores => *2 $6 m01000 $4 1000
        zrange k -1 -1 withscores => *2 $6 m04899 $4 4899
        zrank k m02000 => :1000
        zrevrank k m02000 => :2899
        zcount k (2000 3000 => :1000
        zrange k (2000 inf byscore limit 998 3 => *3 $6 m02999 $6 m03000 $6 m03001
        zrange k (2000 -inf byscore rev limit 998 2 => *2 $6 m01001 $6 m01000
        zrangestore d k 100 3099 => :3000
        zrange d 2999 2999 => *1 $6 m04099
        zinterstore i 2 k d weights 1 0 => :3000
        zrange i 0 0 withscores => *2 $6 m01100 $4 1100
        zintercard 2 k d => :3000
        zdiffstore i 2 k d => :900
        zrange i 99 100 => *2 $6 m01099 $6 m04100
        zunionstore i 2 i d => :3900
        zcard i => :3900
        zmpop 1 i max => *2 $1 i *1 *2 $6 m04899 $4 4899
        ttl k => :100
        zremrangebyrank k 0 -1 => :3900
        exists k => :0
        ",
    );
    let popped = sim.run("zpopmax i 9999");
    assert!(popped.starts_with("*7798 $6 m04898 $4 4898 $6 m04897 "));
    sim.expect("exists i", ":0");
}

#[test]
fn a_set_dies_at_its_millisecond() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            "
            zadd k 1 a 2 b => :2
            zadd other 5 a => :1
            pexpire k 100 => :1
            zadd k 3 c => :1
            zincrby k 1 a => $1 2
            zpopmin k => *2 $1 a $1 2
            +99
            pttl k => :1
            zunion 2 k other => *3 $1 b $1 c $1 a
            +1
            zcard k => :0
            zrange k 0 -1 => *0
            zunion 2 k other => *1 $1 a
            zinterstore d 2 k other => :0
            zpopmin k => *0
            zrem k b => :0
            zadd k xx 1 b => :0
            zadd k incr 7 b => $1 7
            ttl k => :-1
            pexpire k 5 => :1
            +5
            zunionstore k 1 other => :1
            ttl k => :-1
            pexpire k 5 => :1
            +5
            zmpop 2 k other min => *2 $5 other *1 *2 $1 a $1 5
            exists other => :0
            ",
        );
    }
}

#[test]
fn waiting_commands_that_need_not_wait() {
    for mut sim in both_forms() {
        script(
            &mut sim,
            "
            set str x => +OK
            bzpopmin k x => {timeout is not a float or out of range}
            bzpopmin k -1 => {timeout is negative}
            bzpopmin k 1e400 => {timeout is out of range}
            bzpopmin str x => {timeout is not a float or out of range}
            bzpopmin str 0 => WRONG
            bzpopmax k str 0 => WRONG
            bzpopmin k => {wrong number of arguments for 'bzpopmin' command}
            bzmpop x 1 k min => {timeout is not a float or out of range}
            bzmpop -1 1 k min => {timeout is negative}
            bzmpop x 0 k min => {numkeys should be greater than 0}
            bzmpop x 1 k foo => {syntax error}
            bzmpop 0 2 k min => {syntax error}
            bzmpop 0 1 k min count 0 => {count should be greater than 0}
            bzmpop 0 1 k min count 0 count 1 => {count should be greater than 0}
            bzmpop 0 1 k min count 1 count 1 => {syntax error}
            bzmpop 0 2 k str min => WRONG
            bzmpop 0 1 k => {wrong number of arguments for 'bzmpop' command}
            zadd k 1 a 2 b 3 c 4 d 5 e 6 f => :6
            bzpopmin k 0 => *3 $1 k $1 a $1 1
            bzpopmax none k str 0 => *3 $1 k $1 f $1 6
            bzmpop 0 1 k min => *2 $1 k *1 *2 $1 b $1 2
            bzmpop 0 2 none k max count 2 => *2 $1 k *2 *2 $1 e $1 5 *2 $1 d $1 4
            bzmpop 0 1 k min count 9 => *2 $1 k *1 *2 $1 c $1 3
            exists k => :0
            multi => +OK
            bzpopmin k 0 => +QUEUED
            bzmpop 0 1 k min => +QUEUED
            exec => *2 *-1 *-1
            ",
        );
        sim.run("hello 3");
        script(
            &mut sim,
            "
            zadd k 1.5 a 2 b => :2
            bzpopmin k 0 => *3 $1 k $1 a ,1.5
            bzmpop 0 1 k min => *2 $1 k *1 *2 $1 b ,2
            multi => +OK
            bzpopmax k 0 => +QUEUED
            exec => *1 _
            ",
        );
    }
}

/// Lets a client wait, runs requests of another one, and expects what the first is told.
#[track_caller]
fn expect_served(sim: &mut Sim, waiting: &str, requests: &[&str], served: &str) {
    let client = sim.connect();
    assert_eq!(sim.run_as(client, waiting), "", "{waiting}");
    for request in requests {
        sim.run(request);
    }
    assert_eq!(sim.received(client), served, "{waiting}, {requests:?}");
}

#[test]
fn waiting_clients_are_served() {
    for mut sim in both_forms() {
        sim.expect("zadd s 1 a 2 b", ":2");
        for (waiting, requests, served, left) in [
            (
                "bzpopmin k 0",
                &["zadd k 2 b 1 a"][..],
                "*3 $1 k $1 a $1 1",
                "*1 $1 b",
            ),
            (
                "bzpopmax k 0",
                &["zadd k 2 b 1 a"],
                "*3 $1 k $1 b $1 2",
                "*1 $1 a",
            ),
            (
                "bzpopmin k k 0",
                &["zincrby k 3 m"],
                "*3 $1 k $1 m $1 3",
                "*0",
            ),
            (
                "bzmpop 0 2 j k max count 2",
                &["zadd k 1 a 2 b 3 c"],
                "*2 $1 k *2 *2 $1 c $1 3 *2 $1 b $1 2",
                "*1 $1 a",
            ),
            (
                "bzpopmin j k 0",
                &["multi", "zadd k 1 a", "zadd j 5 z", "exec", "del j"],
                "*3 $1 j $1 z $1 5",
                "*1 $1 a",
            ),
            (
                "bzpopmin k 0",
                &["zunionstore k 1 s"],
                "*3 $1 k $1 a $1 1",
                "*1 $1 b",
            ),
            (
                "bzpopmin k 0",
                &["zrangestore k s 1 1"],
                "*3 $1 k $1 b $1 2",
                "*0",
            ),
            (
                "bzpopmin k 0",
                &["copy s k"],
                "*3 $1 k $1 a $1 1",
                "*1 $1 b",
            ),
            (
                "bzpopmin k 0",
                &["rpush k x", "del k", "sadd k x", "del k", "zadd k 1 a"],
                "*3 $1 k $1 a $1 1",
                "*0",
            ),
        ] {
            expect_served(&mut sim, waiting, requests, served);
            sim.expect("zrange k 0 -1", left);
            sim.run("del k j");
        }
    }
}

#[test]
fn waiting_clients_are_not_served_by_what_does_not_last() {
    let mut sim = Sim::new();
    for requests in [
        &["rpush k x"][..],
        &["sadd k x"],
        &["set k x"],
        &["multi", "zadd k 1 a", "zrem k a", "exec"],
        &["multi", "zadd k 1 a", "del k", "rpush k x", "exec"],
        &["zadd other 1 a"],
        &["zadd k xx 1 a"],
    ] {
        expect_served(&mut sim, "bzpopmin k 0", requests, "");
        sim.run("flushall");
    }
}

#[test]
fn waiting_clients_are_served_in_the_order_they_came() {
    let mut sim = Sim::new();
    let [a, b, c] = [sim.connect(), sim.connect(), sim.connect()];
    sim.run_as(a, "hello 3");
    sim.run_as(a, "bzpopmax k 0");
    sim.run_as(b, "bzmpop 0 1 k min count 2");
    sim.run_as(c, "bzpopmin k 0");
    sim.expect("zadd k 1 a 2 b 3.5 c", ":3");
    assert_eq!(sim.received(a), "*3 $1 k $1 c ,3.5");
    assert_eq!(
        sim.received(b),
        "*2 $1 k *2 *2 $1 a $1 1 *2 $1 b $1 2",
        "both that are left"
    );
    assert_eq!(sim.received(c), "");
    sim.expect("exists k", ":0");
    sim.expect("zadd k 7 x", ":1");
    assert_eq!(sim.received(c), "*3 $1 k $1 x $1 7");
}

#[test]
fn who_waits_gives_up_at_its_millisecond() {
    let mut sim = Sim::new();
    for (waiting, ms) in [
        ("bzpopmin k 0.1", 100),
        ("bzpopmax k j 2", 2_000),
        ("bzmpop 0.05 1 k min", 50),
    ] {
        let client = sim.connect();
        assert_eq!(sim.run_as(client, waiting), "");
        sim.advance(ms - 1);
        assert_eq!(sim.received(client), "", "{waiting}");
        sim.advance(1);
        assert_eq!(sim.received(client), "*-1", "{waiting}");
    }
    sim.expect("zadd k 1 a", ":1");
    sim.expect("zcard k", ":1");
}
