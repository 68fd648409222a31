//! Tests of the table and of the three sources.

use std::io;

use super::rewrite::REWRITE_MARKER;
use super::source::{MISTAKES_SHOWN_MAX, quote};
use super::*;

/// File, environment, arguments, and what should come of them.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    &'static str,
);

fn no_files(path: &str) -> io::Result<Vec<NamedFile>> {
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no {path}"),
    ))
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| word.to_string()).collect()
}

fn load(file: &str, env: &[(&str, &str)], args: &[&str]) -> Result<Config, String> {
    let env = env.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    parse(
        Some(("m.conf", file.as_bytes())),
        env,
        &words(args),
        &mut no_files,
    )
    .map(|(config, _)| config)
    .map_err(|error| error.to_string())
}

fn rewritten(config: &Config, old: &str, files: ReadInclude<'_>) -> String {
    String::from_utf8(config.rewrite(old.as_bytes(), files)).expect("text")
}

fn shown(config: &Config, name: &str) -> String {
    String::from_utf8(find(name).expect("a known name").value(config)).expect("text")
}

fn set(config: &mut Config, pairs: &[(&str, &str)]) -> Result<Vec<&'static str>, String> {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(k, v)| (k.to_string(), v.as_bytes().to_vec()))
        .collect();
    config.set(&pairs, false).map_err(|error| error.to_string())
}

#[test]
fn defaults_are_shown_as_documented_and_read_back() {
    let expected = [
        ("bind", "127.0.0.1 -::1"),
        ("port", "6379"),
        ("unixsocketperm", "0"),
        ("client-query-buffer-limit", "1073741824"),
        ("proto-max-bulk-len", "536870912"),
        ("save", "3600 1 300 100 60 10000"),
        ("snapshot-backlog-limit", "12582912"),
        ("stop-writes-on-bgsave-error", "no"),
        ("notify-keyspace-events", ""),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("appendonly", "no"),
        ("io-threads", "1"),
        ("repl-backlog-size", "1048576"),
        ("slowlog-max-len", "128"),
        (
            "client-output-buffer-limit",
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
    ];
    for (name, value) in expected {
        assert_eq!(shown(&Config::default(), name), value, "{name}");
    }
    for row in rows() {
        let name = row.name();
        let mut config = Config::default();
        row.set(&mut config, &[row.default_value()]).expect(name);
        assert_eq!(config, Config::default(), "{name}");
        let names = rows()
            .map(Row::name)
            .chain(OLD_NAMES.iter().map(|(old, _)| *old));
        assert_eq!(names.filter(|other| *other == name).count(), 1, "{name}");
    }
    for setting in SETTINGS {
        assert!(help().contains(setting.help) && setting.help.ends_with('.'));
    }
    for (title, first) in help::GROUPS {
        assert!(
            SETTINGS.iter().any(|setting| setting.name == *first),
            "{title}"
        );
        assert!(help().contains(title));
    }
}

#[test]
fn values_are_accepted_and_shown_as_redis_does() {
    let table = [
        ("hz", "0", "1"),
        ("hz", "501", "500"),
        ("protected-mode", "NO", "no"),
        ("client-query-buffer-limit", "1MB", "1048576"),
        ("client-query-buffer-limit", "1500000b", "1500000"),
        ("proto-max-bulk-len", "2m", "2000000"),
        ("loglevel", "DEBUG", "debug"),
        ("save", "+5 07", "5 7"),
        ("save", "60 10 60 10", "60 10 60 10"),
        ("save", "1 0", "1 0"),
        ("save", "", ""),
        ("bind", "* -::*", "* -::*"),
        ("bind", "", ""),
        ("notify-keyspace-events", "KEA", "AKE"),
        ("notify-keyspace-events", "KEAmnoc", "AKEm"),
        ("notify-keyspace-events", "cKonEm", "nocKEm"),
        ("notify-keyspace-events", "Elgx$", "g$lxE"),
        ("notify-keyspace-events", "tdxe", "xetd"),
        ("notify-keyspace-events", "g$lshzxetd", "A"),
        ("notify-keyspace-events", "g$lshzxetE", "g$lshzxetE"),
        ("appendonly", "NO", "no"),
        ("maxmemory", "0mb", "0"),
        ("maxmemory", "0%", "0"),
        ("maxmemory", "050%", "50%"),
        ("maxmemory", "100%", "100%"),
        ("maxmemory-clients", "1%", "1%"),
        ("maxmemory-clients", "12mb", "12582912"),
        (
            "client-output-buffer-limit",
            "REPLICA 1kb 2k +3 pubsub 1gb 1g 5",
            "normal 0 0 0 slave 1024 2000 3 pubsub 1073741824 1000000000 5",
        ),
    ];
    for (name, value, expected) in table {
        let mut config = Config::default();
        set(&mut config, &[(name, value)]).expect(name);
        assert_eq!(shown(&config, name), expected, "{name} {value}");
    }
}

#[test]
fn config_set_refuses_in_the_words_of_redis() {
    let not_integer = "argument couldn't be parsed into an integer";
    let not_memory = "argument must be a memory value";
    let not_memory_or_share = "argument must be a memory or percent value";
    let above_all = "percentage argument must be less or equal to 100";
    let is_immutable = "can't set immutable config";
    let is_protected = "can't set protected config";
    let event_class = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
    let one_mb = "argument must be between 1048576 and 9223372036854775807 inclusive";
    let limits = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    let levels = "argument(s) must be one of the following: \
                  debug, verbose, notice, warning, nothing";
    let limit_count = "Wrong number of arguments in buffer limit configuration.";
    let table = [
        ("port", "x", not_integer),
        (
            "port",
            "70000",
            "argument must be between 0 and 65535 inclusive",
        ),
        ("timeout", "010", not_integer),
        ("timeout", "+1", not_integer),
        ("timeout", "-0", not_integer),
        ("timeout", "", not_integer),
        (
            "timeout",
            "-1",
            "argument must be between 0 and 2147483647 inclusive",
        ),
        (
            "hz",
            "-1",
            "argument must be between 0 and 2147483647 inclusive",
        ),
        (
            "maxclients",
            "0",
            "argument must be between 1 and 4294967295 inclusive",
        ),
        (
            "active-expire-effort",
            "11",
            "argument must be between 1 and 10 inclusive",
        ),
        ("dynamic-hz", "maybe", "argument must be 'yes' or 'no'"),
        ("client-query-buffer-limit", "1.5mb", not_memory),
        ("client-query-buffer-limit", "-1", not_memory),
        ("client-query-buffer-limit", "1", one_mb),
        (
            "proto-max-bulk-len",
            "99999999999999999999999999999999999999999gb",
            "argument must be between 1048576 and 536870912 inclusive",
        ),
        ("maxmemory", "101%", above_all),
        ("maxmemory", "99999999999%", above_all),
        ("maxmemory", "-1%", not_memory_or_share),
        ("maxmemory", "5.5%", not_memory_or_share),
        ("maxmemory", "%", not_memory_or_share),
        ("maxmemory", "50%%", not_memory_or_share),
        ("maxmemory", "-1", not_memory_or_share),
        ("maxmemory-clients", "101%", above_all),
        ("maxmemory-clients", "1e3", not_memory_or_share),
        ("maxmemory", "", not_memory_or_share),
        ("save", "3600", "Invalid save parameters"),
        ("save", "0 1", "Invalid save parameters"),
        ("save", "1 -1", "Invalid save parameters"),
        ("save", " 60 10", "Invalid save parameters"),
        ("notify-keyspace-events", "Kq", event_class),
        ("client-output-buffer-limit", "normal 1 2", limit_count),
        ("client-output-buffer-limit", "normal 1% 2 3", limits),
        ("client-output-buffer-limit", "normal 1 2 -3", limits),
        (
            "client-output-buffer-limit",
            "normal 1 2 3 master 1 2 3",
            "Invalid client class specified in buffer limit configuration.",
        ),
        ("loglevel", "foo", levels),
        ("databases", "3", is_immutable),
        ("enable-debug-command", "yes", is_immutable),
        ("expire-clock", "wall", is_immutable),
        ("dbfilename", "a", is_protected),
        ("dir", "/tmp", is_protected),
        (
            "bind",
            &["::1"; 17].join(" "),
            "Too many bind addresses specified.",
        ),
        ("bind", "  ::1", "Failed to bind to specified addresses."),
    ];
    for (name, value, why) in table {
        let mut config = Config::default();
        let error = set(&mut config, &[("tcp-keepalive", "7"), (name, value)]);
        let head = format!("ERR CONFIG SET failed (possibly related to argument '{name}')");
        assert_eq!(error, Err(format!("{head} - {why}")), "{name} {value}");
        assert_eq!(config, Config::default(), "{name}: all or nothing");
    }
}

#[test]
fn config_set_checks_names_before_values() {
    let mut config = Config::default();
    let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'Foo'";
    assert_eq!(
        set(&mut config, &[("port", "x"), ("Foo", "1")]),
        Err(unknown.into())
    );
    let twice = set(&mut config, &[("timeout", "1"), ("TIMEOUT", "2")]).unwrap_err();
    assert!(
        twice.ends_with("argument 'TIMEOUT') - duplicate parameter"),
        "{twice}"
    );
    let fixed = set(&mut config, &[("appendonly", "yes")]).unwrap_err();
    assert!(fixed.contains("not supported yet"));
    assert!(set(&mut config, &[("maxmemory-policy", "x")]).is_err());
    assert!(
        load("enable-protected-configs local", &[], &[]).is_ok_and(|mut config| {
            let pair = [("dbfilename".to_string(), b"a/b".to_vec())];
            let remote = config.set(&pair, false).unwrap_err().to_string();
            let local = config.set(&pair, true).unwrap_err().to_string();
            remote.ends_with("can't set protected config")
                && local.ends_with("dbfilename can't be a path, just a filename")
        })
    );
    let changed = set(&mut config, &[("hz", "10"), ("Port", "7"), ("save", "1 1")]);
    assert_eq!(changed, Ok(vec!["port", "save"]));
    let hidden = [("notify-keyspace-events", "An")];
    assert_eq!(
        set(&mut config, &[("notify-keyspace-events", "A")]).map(|c| c.len()),
        Ok(1)
    );
    assert_eq!(
        set(&mut config, &hidden).map(|changed| changed.len()),
        Ok(1)
    );
}

#[test]
fn later_sources_win_and_save_points_add_up_within_one() {
    let file = "# c\n\n \t TIMEOUT\t1\r\nport 1\nhz 1\nsave 1 2\nsave 3 4 5 6\n";
    let env = [("MAYFLY_PORT", "2"), ("MAYFLY_HZ", "2"), ("HOME", "x")];
    let config = load(file, &env, &["x.conf", "--hz", "3"]).expect("it is well formed");
    assert_eq!((config.timeout_seconds, config.port, config.hz), (1, 2, 3));
    assert_eq!(shown(&config, "save"), "1 2 3 4 5 6");
    let table: [Case; 8] = [
        ("save 1 2\nsave \"\"\nsave 3 4", &[], &[], "3 4"),
        ("save \"\"", &[], &[], ""),
        ("save \"1 2\"", &[], &[], "1 2"),
        ("save 1 2", &[("MAYFLY_SAVE", "5 6")], &[], "5 6"),
        ("save 1 2", &[("MAYFLY_SAVE", "")], &[], ""),
        (
            "save 1 2",
            &[],
            &["--save", "5", "6", "--save", "7 8"],
            "5 6 7 8",
        ),
        ("save 1 2", &[], &["--save", "--port", "7000"], ""),
        ("save 1 2", &[], &["--save", ""], ""),
    ];
    for (file, env, args, expected) in table {
        assert_eq!(
            shown(&load(file, env, args).expect("it is well formed"), "save"),
            expected,
            "{file} {args:?}"
        );
    }
    let args = [
        "--bind",
        "127.0.0.1",
        "-::1",
        "--requirepass",
        "a b",
        "--port 7000",
    ];
    let config = load("", &[], &args).expect("it is well formed");
    assert_eq!(
        (config.bind.len(), config.port, &*config.requirepass),
        (2, 7000, b"a b".as_slice())
    );
    let config =
        load("client-output-buffer-limit normal 1 2 3\n", &[], &[]).expect("it is well formed");
    assert!(shown(&config, "client-output-buffer-limit").starts_with("normal 1 2 3 slave 2684"));
    assert_eq!(
        load("unixsocketperm 0777", &[], &[])
            .expect("it is well formed")
            .unixsocket_permissions,
        0o777
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    let table: [Case; 15] = [
        (
            "\nport 70000",
            &[],
            &[],
            "m.conf:2: port: argument must be between 0 and 65535 \
          inclusive, got '70000' (expected 0 to 65535)",
        ),
        (
            "foo 1",
            &[],
            &[],
            "m.conf:1: unknown setting 'foo', expected one listed by --help",
        ),
        (
            "daemonise no",
            &[],
            &[],
            "m.conf:1: unknown setting 'daemonise', did you mean 'daemonize'?",
        ),
        ("dir \"x", &[], &[], "m.conf:1: unbalanced quotes"),
        (
            "timeout 5 # five",
            &[],
            &[],
            "m.conf:1: timeout: wrong number of arguments, got",
        ),
        (
            "timeout",
            &[],
            &[],
            "m.conf:1: timeout: wrong number of arguments, got ''",
        ),
        (
            "requirepass se cret",
            &[],
            &[],
            "m.conf:1: requirepass: wrong number of arguments (ex",
        ),
        (
            "unixsocketperm 789",
            &[],
            &[],
            "m.conf:1: unixsocketperm: argument couldn't be parsed as",
        ),
        (
            "unixsocketperm 1000",
            &[],
            &[],
            "m.conf:1: unixsocketperm: argument must be between 0 and 777",
        ),
        (
            "include x",
            &[],
            &[],
            "m.conf:1: include: can't read 'x': no x",
        ),
        (
            "dbfilename ..",
            &[],
            &[],
            "m.conf:1: dbfilename: dbfilename can't be a path",
        ),
        (
            "appendonly yes",
            &[],
            &[],
            "m.conf:1: appendonly: an append-only file is not supported",
        ),
        (
            "",
            &[("MAYFLY_PORT", "x")],
            &[],
            "MAYFLY_PORT: argument couldn't be parsed into an",
        ),
        (
            "",
            &[],
            &["--foo", "1"],
            "command line: unknown setting 'foo'",
        ),
        (
            "",
            &[],
            &["-p", "1"],
            "argument '-p': expected --name and its value",
        ),
    ];
    for (file, env, args, expected) in table {
        let error = load(file, env, args).unwrap_err();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
    let env = [("MAYFLY_FOO".to_string(), "1".to_string())].into_iter();
    let (_, warnings) = parse(None, env, &[], &mut no_files).expect("it is well formed");
    assert_eq!(warnings, ["MAYFLY_FOO: names no setting and is ignored"]);
}

#[test]
fn included_files_are_read_in_place_and_only_so_deep() {
    let mut files = |path: &str| match path {
        "a" => Ok(vec![("a".into(), "timeout 9\nport 2\n".into())]),
        "bad" => Ok(vec![("bad".into(), "\nhz x".into())]),
        "loop" => Ok(vec![("loop".into(), "include loop\n".into())]),
        "two" => Ok(vec![
            ("1".into(), "hz 20".into()),
            ("2".into(), "timeout 8\nhz x".into()),
        ]),
        _ => no_files(path),
    };
    let mut read = |text: &str| {
        parse(
            Some(("m", text.as_bytes())),
            [].into_iter(),
            &[],
            &mut files,
        )
    };
    let (config, _) = read("timeout 1\ninclude a\nport 3").expect("it is well formed");
    assert_eq!((config.timeout_seconds, config.port), (9, 3));
    assert!(
        read("include bad")
            .unwrap_err()
            .to_string()
            .starts_with("bad:2: hz: ")
    );
    let error = read("include two").unwrap_err().to_string();
    assert!(error.starts_with("2:2: hz: "), "{error}");
    let many = "include a\n".repeat(INCLUDES_MAX + 1);
    let error = read(&many).unwrap_err().to_string();
    assert_eq!(error, "m:257: include: expected at most 256 files in all");
    let error = read("include loop").unwrap_err();
    assert_eq!(
        error.to_string(),
        "loop:1: include: expected at most 16 levels"
    );
}

#[test]
fn lines_are_split_as_redis_splits_them() {
    let table: [(&str, Option<&[&str]>); 11] = [
        ("", Some(&[])),
        (" a\t b\r\n", Some(&["a", "b"])),
        (r#"a "b c" 'd e'"#, Some(&["a", "b c", "d e"])),
        (r#""" ''"#, Some(&["", ""])),
        (r#""a\x41\n\"\q\xZ""#, Some(&["aA\n\"qxZ"])),
        (r"'a\'b\n'", Some(&["a'b\\n"])),
        (r#"a"b c""#, Some(&["ab c"])),
        (r#"a"b"c"#, None),
        (r#"a "b"#, None),
        (r#""b\"#, None),
        ("'a\\'", None),
    ];
    for (line, expected) in table {
        let expected = expected.map(|e| e.iter().map(|w| w.as_bytes().to_vec()).collect());
        assert_eq!(split_line(line.as_bytes()), expected, "{line}");
    }
    for value in ["a", "", "a b", "\"\\'\n\r\t\u{7}é#", "é"] {
        let back = split_line(quote(value.as_bytes()).as_bytes()).expect("it is well formed");
        assert_eq!(back, [value.as_bytes()]);
    }
    let args = words(&["-", "--port", "1"]);
    assert_eq!(split_file_argument(&args), (Some("-"), &args[1..]));
    assert_eq!(split_file_argument(&args[1..]), (None, &args[1..]));
}

#[test]
fn config_get_takes_names_and_patterns_in_any_case() {
    let prefix = |pattern: &[u8], name: &[u8]| name.starts_with(&pattern[..pattern.len() - 1]);
    let config = Config::default();
    let get = |patterns: &[&[u8]]| -> Vec<String> {
        config
            .get(patterns, &prefix)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    assert_eq!(
        get(&[b"TIMEOUT", b"timeout", b"nope", b"\xff"]),
        ["TIMEOUT"]
    );
    assert_eq!(
        get(&[b"TC*", b"tcp-backlog", b"Hz"]),
        ["tcp-backlog", "tcp-keepalive", "tcp-keepalive-probes", "Hz"]
    );
    assert_eq!(get(&[b"*"]).len(), rows().count() + OLD_NAMES.len());
}

#[test]
fn rewrite_changes_only_what_no_longer_holds() {
    let old = "# head\nport 1\n\ntimeout 5\nsave 1 2\n# mid\nsave 3 4\nhz  10\n\
               client-query-buffer-limit 10mb\nfrobnicate 1\ntimeout 6";
    let mut config = load(&old.replace("frobnicate 1", ""), &[], &[]).expect("it is well formed");
    assert_eq!(rewritten(&config, old, &mut no_files), format!("{old}\n"));
    let pairs = [
        ("save", "8 8 9 9"),
        ("timeout", "7"),
        ("notify-keyspace-events", "AKn"),
    ];
    set(&mut config, &pairs).expect("it is well formed");
    set(&mut config, &[("requirepass", "x y\"\n")]).expect("it is well formed");
    let new = rewritten(&config, old, &mut no_files);
    let expected = "# head\nport 1\n\ntimeout 7\nsave 8 8\nsave 9 9\n# mid\nhz  10\n\
                    client-query-buffer-limit 10mb\nfrobnicate 1\n\n# Added by CONFIG REWRITE\n\
                    requirepass \"x y\\\"\\n\"\nnotify-keyspace-events AnK\n";
    assert_eq!(new, expected);
    assert_eq!(rewritten(&config, &new, &mut no_files), new);
    assert_eq!(load(&new.replace("frobnicate 1", ""), &[], &[]), Ok(config));
}

#[test]
fn rewrite_holds_against_included_files_and_broken_lines() {
    let mut files = |_: &str| {
        Ok(vec![(
            "a".into(),
            b"timeout 9\nhz 20\nsave 9 9\nbind ::1\n".to_vec(),
        )])
    };
    let old = "timeout 1\ninclude a\nsave 1 1\ndir \"x\nport x\n";
    let mut config = Config::default();
    for save in ["", "7 7 8 8"] {
        set(
            &mut config,
            &[("save", save), ("timeout", "3"), ("bind", "")],
        )
        .expect("it is well formed");
        let new = rewritten(&config, old, &mut files);
        let read = parse(Some(("m", new.as_bytes())), [].into_iter(), &[], &mut files);
        assert_eq!(read.map(|(read, _)| read), Ok(config.clone()), "{new}");
        assert_eq!(rewritten(&config, &new, &mut files), new);
    }
    let everything = Config {
        bind: vec!["*".into()],
        unixsocket: "/run/my sock".into(),
        unixsocket_permissions: 0o770,
        output_limits: [OutputLimit {
            hard_bytes: 3,
            soft_bytes: 2,
            soft_seconds: 1,
        }; 3],
        save: vec![],
        expire_clock: ExpireClock::Wall,
        load_keeps_expired: true,
        debug_command: Permission::Local,
        ..Config::default()
    };
    let new = rewritten(&everything, "", &mut no_files);
    assert!(new.starts_with(REWRITE_MARKER));
    assert_eq!(load(&new, &[], &[]), Ok(everything));
}

fn warnings(file: &str, env: &[(&str, &str)], args: &[&str]) -> Vec<String> {
    let env = env.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    let file = Some(("m.conf", file.as_bytes()));
    let (_, warnings) = parse(file, env, &words(args), &mut no_files).expect("it is well formed");
    warnings
}

#[test]
fn config_set_takes_back_what_config_get_gave() {
    let custom = "requirepass \"\\xff\\xfe x\"\nexpire-clock wall\ndatabases 3\nio-threads 4\n\
                  notify-keyspace-events KEA\nsave \"\"\nmaxmemory-clients 5%\nunixsocket /a\n";
    for file in ["", custom] {
        let mut config = load(file, &[], &[]).expect("it is well formed");
        let before = config.clone();
        let names = OLD_NAMES
            .iter()
            .filter_map(|(old, _)| Some((*old, find(old)?)));
        for (name, row) in rows().map(|row| (row.name(), row)).chain(names) {
            let pair = [(name.to_string(), row.value(&config))];
            assert_eq!(config.set(&pair, false), Ok(vec![]), "{name}");
        }
        let all: Vec<_> = rows()
            .map(|row| (row.name().to_string(), row.value(&config)))
            .collect();
        assert_eq!(config.set(&all, false), Ok(vec![]));
        assert_eq!(config, before);
        let new = config.rewrite(file.as_bytes(), &mut no_files);
        assert_eq!(new, file.as_bytes(), "nothing to change");
        let new = config.rewrite(b"", &mut no_files);
        let (read, _) = parse(Some(("m", &new)), [].into_iter(), &[], &mut no_files).expect("fine");
        assert_eq!(read, before);
    }
}

#[test]
fn every_old_name_leads_to_a_setting() {
    for (old, new) in OLD_NAMES {
        assert_eq!(find(old).map(Row::name), Some(*new), "{old}");
        assert_eq!(find(&old.to_uppercase()).map(Row::name), Some(*new));
    }
}

#[test]
fn settings_without_effect_are_kept_and_warned_of_once_per_reason() {
    let file = "io-threads 4\nIO-threads-do-reads yes\nslave-priority 7\nrepl-timeout 60\nhz 10\n";
    assert_eq!(
        warnings(file, &[], &["--io-threads", "8"]),
        [
            "io-threads, io-threads-do-reads have no effect: Mayfly serves all clients on one \
             thread",
            "repl-timeout, replica-priority have no effect: there is no replication",
        ]
    );
    assert!(
        warnings(
            "port 1\ntls-port 0\ncluster-enabled no\nreplicaof \"\"",
            &[],
            &[]
        )
        .is_empty()
    );
    let mut config = load(file, &[], &[]).expect("it is well formed");
    assert_eq!(shown(&config, "slave-priority"), "7");
    let changed = set(&mut config, &[("io-threads", "4"), ("repl-timeout", "9")]);
    assert_eq!(changed, Ok(vec!["repl-timeout"]));
    let new = rewritten(&config, file, &mut no_files);
    assert_eq!(new, file.replace("timeout 60", "timeout 9"));
    let wrong = [
        (
            "repl-timeout",
            "0",
            "argument must be between 1 and 2147483647 inclusive",
        ),
        ("activedefrag", "1", "argument must be 'yes' or 'no'"),
        (
            "appendfsync",
            "x",
            "argument(s) must be one of the following: everysec, always, no",
        ),
        (
            "stream-node-max-bytes",
            "1q",
            "argument must be a memory value",
        ),
        (
            "slowlog-max-len",
            "-1",
            "argument must be greater or equal to 0",
        ),
    ];
    for (name, value, why) in wrong {
        let error = set(&mut config, &[(name, value)]).unwrap_err();
        assert!(error.ends_with(why), "{error}");
    }
}

#[test]
fn what_would_promise_more_than_there_is_is_refused() {
    let table = [
        (
            "appendonly yes",
            "appendonly: an append-only file is not supported yet",
        ),
        (
            "cluster-enabled yes",
            "cluster-enabled: there is no cluster mode, the only value is no",
        ),
        (
            "replicaof 10.0.0.1 6379",
            "replicaof: there is no replication, the only value is \"\"",
        ),
        (
            "slaveof 10.0.0.1 6379",
            "replicaof: there is no replication, the only value is \"\"",
        ),
        (
            "tls-port 6380",
            "tls-port: there is no TLS, the only value is 0",
        ),
        (
            "aclfile users.acl",
            "aclfile: there are no access rules yet, the only value is \"\"",
        ),
        (
            "shutdown-on-sigterm nosave",
            "shutdown-on-sigterm: SIGINT and SIGTERM save if",
        ),
        ("loadmodule x.so", "loadmodule: modules cannot be loaded"),
        (
            "rename-command FLUSHALL \"\"",
            "rename-command: commands cannot be renamed",
        ),
        (
            "user joe on >x ~* +@all",
            "user: there are no users but 'default' yet",
        ),
        (
            "user default on #ab ~* +@all",
            "user: there are no users but 'default' yet",
        ),
        (
            "user default on nopass ~a +@all",
            "user: there are no users but 'default' yet",
        ),
    ];
    for (line, expected) in table {
        let error = load(line, &[], &[]).unwrap_err();
        assert!(
            error.starts_with(&format!("m.conf:1: {expected}")),
            "{error}"
        );
    }
    load(
        "user default on nopass sanitize-payload ~* &* +@all",
        &[],
        &[],
    )
    .expect("says nothing new");
}

#[test]
fn all_mistakes_are_told_at_once() {
    let file = "prot 1\nhz x\nfrobnicate 1\ndir \"x\nloadmodule x\nport 7\n";
    let error = load(file, &[("MAYFLY_TIMEOUT", "x")], &["--maxclient", "5"]).unwrap_err();
    let expected = [
        "7 mistakes in the configuration:",
        "  m.conf:1: unknown setting 'prot', did you mean 'port'?",
        "  m.conf:2: hz: argument couldn't be parsed",
        "  m.conf:3: unknown setting 'frobnicate', expected one listed by --help",
        "  m.conf:4: unbalanced quotes",
        "  m.conf:5: loadmodule: modules cannot be loaded",
        "  MAYFLY_TIMEOUT: argument couldn't be parsed",
        "  command line: unknown setting 'maxclient', did you mean 'maxclients'?",
    ];
    assert_eq!(error.lines().count(), expected.len(), "{error}");
    for (line, expected) in error.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
    let error = load(&"a b\n".repeat(MISTAKES_SHOWN_MAX + 7), &[], &[]).unwrap_err();
    assert_eq!(error.lines().count(), MISTAKES_SHOWN_MAX + 2);
    assert!(error.ends_with("\n  and 7 more"), "{error}");
}

#[test]
fn unknown_settings_are_only_warned_of_where_that_is_asked_for() {
    let file = "prot 1\nport 7";
    let expected = ["m.conf:1: unknown setting 'prot', did you mean 'port'?"];
    let warn = "MAYFLY_UNKNOWN_SETTINGS";
    assert_eq!(
        warnings(&format!("{file}\nunknown-settings warn"), &[], &[]),
        expected
    );
    assert_eq!(warnings(file, &[(warn, "warn")], &[]), expected);
    assert_eq!(warnings(file, &[], &["--unknown-settings=warn"]), expected);
    load(file, &[(warn, "warn")], &["--unknown-settings", "refuse"]).unwrap_err();
    let error = load(&format!("{file}\nhz x"), &[(warn, "warn")], &[]).unwrap_err();
    assert!(error.starts_with("m.conf:3: hz: "), "{error}");
}

#[test]
fn variables_of_a_service_named_mayfly_are_not_settings() {
    let env = [
        ("MAYFLY_PORT", "tcp://10.0.0.1:6379"),
        ("MAYFLY_SERVICE_HOST", "10.0.0.1"),
        ("MAYFLY_SERVICE_PORT", "6379"),
        ("MAYFLY_SERVICE_PORT_REDIS", "6379"),
        ("MAYFLY_PORT_6379_TCP", "tcp://10.0.0.1:6379"),
        ("MAYFLY_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ("MAYFLY_PORT_6379_TCP_PORT", "6379"),
        ("MAYFLY_PORT_6379_TCP_PROTO", "tcp"),
        ("MAYFLY_HZ", "20"),
    ];
    let config = load("port 7", &env, &[]).expect("it is well formed");
    assert_eq!((config.port, config.hz), (7, 20));
    let warnings = warnings("", &env, &[]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let names = env[..8].iter().all(|(name, _)| warnings[0].contains(name));
    assert!(
        names && warnings[0].ends_with("for a service named mayfly"),
        "{warnings:?}"
    );
    let config = load("", &[("MAYFLY_PORT", "8")], &[]).expect("it is well formed");
    assert_eq!(config.port, 8);
}

#[test]
fn a_value_may_follow_an_equals_sign() {
    let args = [
        "--port=7",
        "--save=",
        "--requirepass=a=b c",
        "--bind=::1 -::2",
        "--hz",
        "20",
    ];
    let config = load("", &[], &args).expect("it is well formed");
    assert_eq!(
        (config.port, config.save.len(), config.bind.len(), config.hz),
        (7, 0, 2, 20)
    );
    assert_eq!(config.requirepass, b"a=b c");
    let error = load("", &[], &["--port=7", "8"]).unwrap_err();
    assert_eq!(error, "argument '8': expected --name and its value");
}

#[test]
fn a_snapshot_is_never_called_like_an_rdb_file() {
    let config = load("dbfilename dump.rdb", &[], &[]).expect("it is well formed");
    assert_eq!(config.dbfilename, "dump.mayfly");
    let text = "dbfilename: the snapshot is called dump.mayfly, not dump.rdb, because Mayfly does \
                not read or write RDB files";
    assert_eq!(warnings("dbfilename dump.rdb", &[], &[]), [text]);
    assert_eq!(
        warnings("", &[("MAYFLY_DBFILENAME", "dump.rdb")], &[]),
        [text]
    );
    assert_eq!(warnings("dbfilename x.mayfly", &[], &[]), [""; 0]);
    for (given, used) in [
        ("a.RDB", "a.mayfly"),
        (".rdb", ".mayfly"),
        ("rdb", "rdb"),
        ("é", "é"),
    ] {
        let config = load("", &[], &["--dbfilename", given]).expect("it is well formed");
        assert_eq!(config.dbfilename, used);
    }
    assert_eq!(
        rewritten(&config, "dbfilename dump.rdb\n", &mut no_files),
        "dbfilename dump.rdb\n"
    );
}

#[test]
fn the_annotated_file_reads_back() {
    let text = annotated(&Config::default());
    assert_eq!(load(&text, &[], &[]), Ok(Config::default()));
    assert!(
        text.lines()
            .all(|line| line.is_empty() || line.starts_with('#')),
        "{text}"
    );
    // With the comment signs of its settings taken away it says the same.
    let shown = |line: &str| {
        let name = line
            .strip_prefix("# ")
            .and_then(|line| line.split(' ').next());
        SETTINGS.iter().any(|setting| Some(setting.name) == name)
    };
    let lines = text
        .lines()
        .filter(|line| shown(line))
        .map(|line| format!("{}\n", &line[2..]));
    let bare: String = lines.collect();
    assert!(bare.lines().count() >= SETTINGS.len(), "{bare}");
    assert_eq!(load(&bare, &[], &[]), Ok(Config::default()));
    let file =
        "port 7\nsave 1 2\nsave 3 4\nrequirepass \"\\xff \"\nio-threads 3\nexpire-clock wall\n";
    let config = load(file, &[], &[]).expect("it is well formed");
    let text = annotated(&config);
    assert_eq!(load(&text, &[], &[]), Ok(config));
}

#[test]
fn a_file_need_not_be_utf8_where_no_text_is_asked_for() {
    let read = |text: &[u8]| parse(Some(("m", text)), [].into_iter(), &[], &mut no_files);
    let (config, _) = read(b"# caf\xe9\nrequirepass a\xff\nport 7\n").expect("it is well formed");
    assert_eq!(
        (config.port, &*config.requirepass),
        (7, b"a\xff".as_slice())
    );
    let error = read(b"dir \xff").unwrap_err().to_string();
    assert!(
        error.starts_with("m:1: dir: argument must be UTF-8"),
        "{error}"
    );
    let error = read(b"masterauth a b").unwrap_err().to_string();
    assert_eq!(
        error,
        "m:1: masterauth: wrong number of arguments (expected TEXT)"
    );
}
