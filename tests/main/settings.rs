//! Settings as people have them: transcripts of CONFIG, and the real binary with files of theirs.

use mayfly::config::{Config, MemorySize, Permission, find, rows};

use crate::process::{Server, mayfly, run_to_end, text_of};
use crate::sim::{Sim, TempDir};

/// A directory with a configuration file, and the file's path.
fn file_of(text: &[u8]) -> (TempDir, String) {
    let dir = TempDir::new();
    let path = dir.file("test.conf");
    std::fs::write(&path, text).expect("the disk is writable");
    let path = path.display().to_string();
    (dir, path)
}

/// Exit code and output of the binary with these arguments.
fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = run_to_end(args);
    (output.status.code(), text_of(&output))
}

/// A setting's value as CONFIG GET answers with it.
fn get(sim: &mut Sim, name: &str) -> Vec<u8> {
    let reply = sim.ask(&[b"CONFIG", b"GET", name.as_bytes()]);
    let head = format!("*2\r\n${}\r\n{name}\r\n$", name.len());
    let rest = reply.strip_prefix(head.as_bytes()).expect("one setting");
    let end = rest
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("a length");
    rest[end + 1..rest.len() - 2].to_vec()
}

#[test]
fn config_set_refused_values_that_config_get_gave() {
    let mut sim = Sim::with(Config::default(), 1);
    let mut all: Vec<Vec<u8>> = vec![b"CONFIG".to_vec(), b"SET".to_vec()];
    for row in rows() {
        let (name, value) = (row.name(), get(&mut sim, row.name()));
        let reply = sim.ask(&[b"CONFIG", b"SET", name.as_bytes(), &value]);
        assert_eq!(reply, b"+OK\r\n", "{name}");
        all.extend([name.as_bytes().to_vec(), value]);
    }
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    assert_eq!(sim.ask(&all), b"+OK\r\n");
    assert_eq!(sim.engine.config, Config::default());
}

#[test]
fn config_set_refused_a_password_that_is_not_utf8() {
    let mut sim = Sim::new();
    let password = b"\xff\xfe \"x";
    let set: [&[u8]; 4] = [b"CONFIG", b"SET", b"requirepass", password];
    assert_eq!(sim.ask(&set), b"+OK\r\n");
    assert_eq!(get(&mut sim, "requirepass"), password);
    sim.client = sim.connect();
    sim.expect("GET k", "-NOAUTH Authentication required.");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n".as_bytes();
    assert_eq!(sim.ask(&[b"AUTH", b"\xff\xfe"]), wrong);
    assert_eq!(sim.ask(&[b"AUTH", b"\xef\xbf\xbd\xef\xbf\xbd \"x"]), wrong);
    assert_eq!(sim.ask(&[b"AUTH", password]), b"+OK\r\n");
    sim.client = sim.connect();
    let reply = sim.ask(&[b"HELLO", b"2", b"AUTH", b"default", password]);
    assert!(
        reply.starts_with(b"*"),
        "{}",
        String::from_utf8_lossy(&reply)
    );
}

#[test]
fn settings_without_effect_are_shown_and_set_as_in_redis() {
    let mut sim = Sim::new();
    sim.script(
        r#"
        CONFIG SET repl-backlog-size 2mb slave-priority 7 => +OK
        CONFIG GET repl-backlog-size => *2 $17 repl-backlog-size $7 2097152
        CONFIG GET slave-priority => *2 $14 slave-priority $1 7
        CONFIG GET replica-priority => *2 $16 replica-priority $1 7
        CONFIG GET lua-time-limit => *2 $14 lua-time-limit $4 5000
        CONFIG SET io-threads 1 databases 16 => +OK
        "#,
    );
    let only = "an append-only file is not supported yet, the only value is no";
    for (name, value, why) in [
        ("io-threads", "4", "can't set immutable config"),
        ("databases", "17", "can't set immutable config"),
        ("dbfilename", "x", "can't set protected config"),
        ("activedefrag", "maybe", "argument must be 'yes' or 'no'"),
        ("appendonly", "yes", only),
        ("tls-port", "6380", "there is no TLS, the only value is 0"),
    ] {
        let head = "-ERR CONFIG SET failed (possibly related to argument";
        let request = format!("CONFIG SET {name} {value}");
        sim.expect(&request, &format!("{head} '{name}') - {why}"));
    }
}

#[test]
fn a_redis_conf_did_not_start() {
    let text = "# caf\u{e9}\nbind 127.0.0.1 -::1\nprotected-mode yes\ndaemonize yes\n\
                supervised auto\n\
                dbfilename dump.rdb\nio-threads 4\nio-threads-do-reads yes\nreplica-priority 100\n\
                slave-read-only yes\noom-score-adj-values 0 200 800\nactivedefrag no\n\
                latency-tracking-info-percentiles 50 99 99.9\nlua-time-limit 5000\n\
                user default on nopass sanitize-payload ~* &* +@all\n";
    let (dir, path) = file_of(text.as_bytes());
    let mut command = mayfly();
    command.arg(&path);
    let server = Server::launch(&dir, command);
    assert_eq!(server.run("CONFIG SET repl-timeout 99", 1), "+OK\r\n");
    assert_eq!(server.run("CONFIG REWRITE", 1), "+OK\r\n");
    let log = server.log();
    for warning in [
        "io-threads, io-threads-do-reads have no effect: Mayfly serves all clients on one thread",
        "daemonize has no effect: Mayfly stays in the foreground",
        "replica-priority, replica-read-only have no effect: there is no replication",
        "the snapshot is called dump.mayfly, not dump.rdb",
        "repl-timeout has no effect: there is no replication",
    ] {
        assert_eq!(log.matches(warning).count(), 1, "{warning}: {log}");
    }
    let new = std::fs::read_to_string(&path).expect("the rewritten file");
    assert!(
        new.starts_with(text) && new.contains("\nrepl-timeout 99\n"),
        "{new}"
    );
    let (code, text) = run(&["--check-config", &path]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn rewriting_lost_a_password_of_any_bytes() {
    let (dir, path) = file_of(b"# head\n");
    let mut command = mayfly();
    command.arg(&path);
    let server = Server::launch(&dir, command);
    let both = "CONFIG SET requirepass \"\\xff x\"\r\nCONFIG REWRITE";
    assert_eq!(server.run(both, 2), "+OK\r\n+OK\r\n");
    let new = std::fs::read_to_string(&path).expect("the rewritten file");
    assert!(new.contains("requirepass \"\\xff x\"\n"), "{new}");
    let (code, text) = run(&["--print-config", &path]);
    assert!(
        code == Some(0) && text.contains("\nrequirepass \"\\xff x\"\n"),
        "{text}"
    );
}

#[test]
fn check_config_starts_nothing_and_tells_all_mistakes() {
    let (_dir, path) = file_of(b"prot 1\nport 6379\nhz x\nloadmodule m.so\n");
    let path = std::fs::canonicalize(&path)
        .expect("a path")
        .display()
        .to_string();
    let (code, text) = run(&["--check-config", &path, "--io-threads", "2"]);
    assert_eq!(code, Some(1), "{text}");
    for expected in [
        "warning: io-threads has no effect: Mayfly serves all clients on one thread",
        "3 mistakes in the configuration:",
        &format!("{path}:1: unknown setting 'prot', did you mean 'port'?"),
        &format!("{path}:3: hz: argument couldn't be parsed into an integer, got 'x'"),
        &format!("{path}:4: loadmodule: modules cannot be loaded"),
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let (_dir, path) = file_of(b"port 6379\nprot 1\n");
    let (code, text) = run(&[&path, "--check-config", "--unknown-settings=warn"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains(":2: unknown setting 'prot'") && text.ends_with("is valid\n"),
        "{text}"
    );
    let (code, text) = run(&["--check-config", "/does/not/exist"]);
    assert!(
        code == Some(1) && text.contains("can't open config file"),
        "{text}"
    );
}

#[test]
fn print_config_is_a_file_that_gives_the_same() {
    let (code, text) = run(&[
        "--print-config",
        "--port=7",
        "--save",
        "",
        "--io-threads",
        "3",
    ]);
    assert_eq!(code, Some(0), "{text}");
    let (_dir, path) = file_of(text.as_bytes());
    let (code, again) = run(&["--print-config", &path]);
    assert_eq!((code, &again), (Some(0), &text));
    for line in ["port 7", "save \"\"", "io-threads 3", "# hz 10"] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
}

#[test]
fn help_was_read_as_a_file() {
    for word in ["help", "--help", "-h"] {
        let (code, text) = run(&[word]);
        assert!(
            code == Some(0) && text.contains("\nExpiry:\n"),
            "{word}: {text}"
        );
        assert!(
            text.contains("--expire-clock monotonic|wall (Mayfly's own)"),
            "{text}"
        );
        assert!(!text.contains("--repl-timeout"), "{text}");
    }
    for word in ["version", "--version", "-v"] {
        let (code, text) = run(&[word]);
        assert!(
            code == Some(0) && text.starts_with("Mayfly server v="),
            "{word}: {text}"
        );
    }
}

#[test]
fn a_kubernetes_service_named_mayfly_stopped_the_start() {
    let dir = TempDir::new();
    let mut command = mayfly();
    command.env("MAYFLY_PORT", "tcp://10.0.0.1:6379");
    command.env("MAYFLY_SERVICE_PORT", "6379");
    let server = Server::launch(&dir, command);
    let log = server.log();
    let warning = "MAYFLY_PORT, MAYFLY_SERVICE_PORT: ignored, as set by the platform";
    assert_eq!(log.matches(warning).count(), 1, "{log}");
}

#[test]
fn included_files_may_be_given_by_a_pattern() {
    let (dir, path) = file_of(b"");
    let folder = dir.path().display();
    let text = format!("include {folder}/*.part\ninclude {folder}/*.none\n");
    std::fs::write(&path, text).expect("the disk is writable");
    for (name, text) in [
        ("2.part", "hz 30\n"),
        ("1.part", "hz 20\ntimeout 5\n"),
        (".part", "x"),
    ] {
        std::fs::write(dir.file(name), text).expect("the disk is writable");
    }
    let (code, text) = run(&["--print-config", &path]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("\nhz 30\n") && text.contains("\ntimeout 5\n"),
        "{text}"
    );
    std::fs::write(dir.file("1.part"), "hz x\n").expect("the disk is writable");
    let (code, text) = run(&["--check-config", &path]);
    assert!(
        code == Some(1) && text.contains("/1.part:1: hz: "),
        "{text}"
    );
    assert!(
        find("include").is_none(),
        "it is a directive, not a setting"
    );
}

#[test]
fn what_the_start_would_refuse_is_not_called_valid() {
    for (args, error) in [
        (["--port", "0"], "configured to not listen anywhere"),
        (
            ["--bind", "nohost.invalid"],
            "'nohost.invalid' is no IP address",
        ),
    ] {
        let (code, text) = run(&["--check-config", args[0], args[1]]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(error), "{text}");
    }
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_name() {
    let (_dir, path) = file_of("\u{feff}port 7000\n".as_bytes());
    let (code, text) = run(&["--check-config", &path]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text, "the configuration is valid\n");
}

/// What may be a limit of a setting: the words and numbers that it names, and usual ones.
fn candidates(values: &str) -> Vec<String> {
    let usual =
        "0 1 -1 -5 1mb 512mb 2147483647 4294967295 9223372036854775807 18446744073709551615";
    let own = values.split([' ', ',', '|']).chain(usual.split(' '));
    own.map(str::to_owned).collect()
}

#[test]
fn with_every_setting_at_its_limits_data_survives_a_save() {
    let not_about_data = ["dir", "requirepass", "dbfilename", "bind"];
    let (mut tried, mut names) = (0, 0);
    for row in rows().filter(|row| !not_about_data.contains(&row.name())) {
        let before = tried;
        for value in candidates(&row.values()) {
            let dir = TempDir::new();
            let mut config = Config {
                dir: dir.path().display().to_string(),
                ..Config::default()
            };
            if row.set(&mut config, &[value.clone().into_bytes()]).is_err() {
                continue;
            }
            if config.maxmemory == MemorySize::Bytes(1) {
                // A limit that leaves no room for any data.
                continue;
            }
            tried += 1;
            let what = format!("{} {value}", row.name());
            let digest = |sim: &mut Sim| {
                sim.engine.config.debug_command = Permission::Yes;
                sim.run("debug digest")
            };
            let mut sim = Sim::with(config.clone(), 1);
            sim.run("set s v px 100000");
            sim.run(&format!("append long {}", "x".repeat(50_000)));
            for n in 0..40 {
                sim.run(&format!("rpush l item:{n}"));
                sim.run(&format!("sadd set {n} member:{n}"));
                sim.run(&format!("zadd z {n} member:{n}"));
                sim.run(&format!("hset h field:{n} {}", "v".repeat(n)));
            }
            sim.run("hpexpire h 100000 fields 2 field:1 field:2");
            sim.jobs();
            assert_eq!(sim.run("save"), "+OK", "{what}");
            let mut other = Sim::with(config, 2);
            other
                .engine
                .load_now()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(other.run("dbsize"), ":6", "{what}");
            assert_eq!(digest(&mut other), digest(&mut sim), "{what}");
            for time in ["pexpiretime s", "hpexpiretime h fields 1 field:1"] {
                assert_eq!(other.run(time), sim.run(time), "{what}");
            }
            other.engine.keyspace.check();
        }
        names += usize::from(tried > before);
    }
    assert!(
        names > 150 && tried > 400,
        "{names} settings, {tried} values"
    );
}
