//! Faults of disk and process: the previous snapshot survives, and the server says what is wrong.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, Signal, getuid, prlimit};

use crate::process::{Server, run_to_end, text_of, wait_for};
use crate::sim::{Sim, TempDir};

/// Keys that make a snapshot of some 20 MB.
const POPULATE: &str = "DEBUG POPULATE 40000 key 500";

fn server(dir: &TempDir) -> Server {
    let debug = ["--enable-debug-command", "local"];
    let protected = ["--enable-protected-configs", "local"];
    Server::start_with(dir, &[debug, protected].concat())
}

fn snapshot(dir: &TempDir) -> Vec<u8> {
    std::fs::read(dir.file("dump.mayfly")).expect("a snapshot")
}

/// Starts a save and waits until it has ended.
#[track_caller]
fn background_save(server: &Server) {
    let reply = server.run("BGSAVE", 1);
    assert_eq!(reply, "+Background saving started\r\n");
    wait_for("the end of the save", || {
        (server.info("rdb_bgsave_in_progress") == "0").then_some(())
    });
}

/// A save is tried in both ways and fails, to no harm.
#[track_caller]
fn assert_saving_fails(dir: &TempDir, server: &Server, why: &str) {
    let before = snapshot(dir);
    let last_save = server.run("LASTSAVE", 1);
    assert_eq!(server.run("SET late v", 1), "+OK\r\n");
    let reply = server.run("SAVE", 1);
    assert!(
        reply.starts_with("-ERR saving the snapshot failed: "),
        "{reply}"
    );
    assert!(reply.contains(why), "{reply}");
    background_save(server);
    assert_eq!(server.info("rdb_last_bgsave_status"), "err");
    assert_eq!(server.run("LASTSAVE", 1), last_save);
    assert_ne!(server.info("rdb_changes_since_last_save"), "0");
    assert!(server.log().contains(why));
    assert!(snapshot(dir) == before, "the previous snapshot is there");
    assert_eq!(dir.temporary_files(), 0);
    // Asked to save at the end, it rather stays.
    let reply = server.run("SHUTDOWN SAVE", 1);
    assert_eq!(reply, "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    assert_eq!(server.run("GET late", 2), "$1\r\nv\r\n");
}

#[track_caller]
fn assert_saving_works(dir: &TempDir, server: &Server) {
    let before = snapshot(dir);
    background_save(server);
    assert_eq!(server.info("rdb_last_bgsave_status"), "ok");
    assert_eq!(server.info("rdb_changes_since_last_save"), "0");
    assert!(snapshot(dir) != before);
}

/// The binary as somebody who is bound by permissions.
fn unprivileged(dir: &TempDir) -> Command {
    // Nobody may have no access to where the binary was built.
    let binary = dir.file("mayfly");
    std::fs::copy(env!("CARGO_BIN_EXE_mayfly"), &binary).expect("a copy");
    let mut command = Command::new(binary);
    command.stdin(Stdio::null());
    if getuid().is_root() {
        command.uid(65_534);
    }
    command
}

fn permit(path: &Path, mode: u32) {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("permissions");
}

#[test]
fn a_directory_that_becomes_read_only_keeps_its_snapshot() {
    let dir = TempDir::new();
    permit(dir.path(), 0o777);
    let server = Server::launch(&dir, unprivileged(&dir));
    server.run("SET k v", 1);
    assert_eq!(server.run("SAVE", 1), "+OK\r\n");
    permit(dir.path(), 0o555);
    permit(&dir.file("dump.mayfly"), 0o644);
    assert_saving_fails(&dir, &server, "Permission denied");
    permit(dir.path(), 0o777);
    assert_saving_works(&dir, &server);
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_no_end() {
    // To the writer this is what a full disk is: some bytes go out and the rest does not.
    let dir = TempDir::new();
    let server = server(&dir);
    server.run("SET k v", 1);
    assert_eq!(server.run("SAVE", 1), "+OK\r\n");
    server.run(POPULATE, 1);
    let limit = |bytes| {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(server.pid()), Resource::Fsize, limit).expect("the limit of a child");
    };
    limit(Some(1_000_000));
    assert_saving_fails(&dir, &server, "File too large");
    limit(None);
    assert_saving_works(&dir, &server);
}

#[test]
fn a_directory_that_is_gone_is_named() {
    let dir = TempDir::new();
    let server = server(&dir);
    std::fs::create_dir(dir.file("data")).expect("a directory");
    server.run(&format!("CONFIG SET dir {}", dir.file("data").display()), 1);
    server.run("SAVE", 1);
    std::fs::rename(dir.file("data/dump.mayfly"), dir.file("dump.mayfly")).expect("a move");
    std::fs::remove_dir(dir.file("data")).expect("it is empty");
    assert_saving_fails(&dir, &server, "data/dump.mayfly.tmp");
    std::fs::create_dir(dir.file("data")).expect("a directory");
    background_save(&server);
    assert_eq!(server.info("rdb_last_bgsave_status"), "ok");
}

#[test]
fn a_kill_during_a_save_leaves_the_previous_snapshot() {
    let dir = TempDir::new();
    let mut killed = server(&dir);
    killed.run(POPULATE, 1);
    assert_eq!(killed.run("SAVE", 1), "+OK\r\n");
    let before = snapshot(&dir);
    // A save may be too fast to be hit; then it has done nothing but the same again.
    wait_for("a kill that hits the save", || {
        killed.run("SET late v", 1);
        let reply = killed.run("BGSAVE", 1);
        assert_eq!(reply, "+Background saving started\r\n");
        wait_for("its file", || {
            let is_over = killed.info("rdb_bgsave_in_progress") == "0";
            (is_over || dir.temporary_files() > 0).then_some(())
        });
        killed.signal(Signal::KILL);
        killed.wait();
        if dir.temporary_files() > 0 {
            return Some(());
        }
        std::fs::write(dir.file("dump.mayfly"), &before).expect("the disk is writable");
        killed = server(&dir);
        None
    });
    assert!(snapshot(&dir) == before);
    let server = server(&dir);
    assert_eq!(server.run("DBSIZE", 1), ":40000\r\n");
    assert_eq!(dir.temporary_files(), 0, "what was unfinished is swept out");
    assert!(server.log().contains("Removing the unfinished snapshot"));
    assert_saving_works(&dir, &server);
}

#[test]
fn a_damaged_snapshot_is_refused_by_chunk_and_offset_and_left_alone() {
    let dir = TempDir::new();
    let first = server(&dir);
    first.run(POPULATE, 1);
    first.run("SAVE", 1);
    drop(first);
    let path = dir.file("dump.mayfly");
    let whole = snapshot(&dir);
    let mut places = Vec::new();
    for (at, is_cut) in [(100_000, false), (10_000_000, false), (15_000_000, true)] {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        if is_cut {
            bytes.truncate(at);
        }
        std::fs::write(&path, &bytes).expect("the disk is writable");
        let socket = dir.file("other.sock").display().to_string();
        let dir_name = dir.path().display().to_string();
        let output = run_to_end(&["--port", "0", "--unixsocket", &socket, "--dir", &dir_name]);
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("left as it"), "{text}");
        let (_, place) = text.split_once("damaged: chunk ").expect("a chunk");
        let (chunk, rest) = place.split_once(" at offset ").expect("an offset");
        let (offset, _) = rest.split_once(':').expect("a reason");
        let number = |text: &str| text.parse::<usize>().expect("a number");
        places.push((number(chunk), number(offset), at));
        assert!(snapshot(&dir) == bytes, "it is left as it is");
        let output = run_to_end(&["check", &path.display().to_string()]);
        assert_eq!(output.status.code(), Some(1));
        let place = format!("chunk {chunk} at offset {offset}");
        assert!(text_of(&output).contains(&place));
    }
    // A chunk takes 256 KiB, and the one that is named holds the damage.
    for (chunk, offset, at) in places {
        assert!(offset <= at && at < offset + 270_000, "{offset} for {at}");
        assert!(chunk.abs_diff(at / 262_144) <= 2, "{chunk} for {at}");
    }
    std::fs::write(&path, &whole).expect("the disk is writable");
    assert_eq!(server(&dir).run("DBSIZE", 1), ":40000\r\n");
}

#[test]
fn writes_stop_after_a_failed_save_if_that_is_wanted() {
    let misconf = "MISCONF Errors writing the snapshot to disk; writes are refused because \
                   stop-writes-on-bgsave-error is on. See the log and INFO persistence.";
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    let (writer, reader) = (sim.connect(), sim.connect());
    sim.expect("set k v", "+OK");
    for (client, request) in [(writer, "set k w"), (reader, "get k")] {
        assert_eq!(sim.run_as(client, "multi"), "+OK");
        assert_eq!(sim.run_as(client, request), "+QUEUED");
    }
    sim.engine.config.dir = dir.file("missing").display().to_string();
    assert!(sim.run("save").starts_with("-ERR"));
    // The default.
    sim.expect("set k v", "+OK");
    sim.expect("config set stop-writes-on-bgsave-error yes", "+OK");
    for request in ["set k x", "del none", "expire k 10", "flushall", "ping"] {
        sim.expect(request, &format!("-{misconf}"));
    }
    sim.script("get k=>$1 v\nttl k=>:-1\npublish c x=>:0\nexists k=>:1\nmulti=>+OK");
    sim.expect("append k x", &format!("-{misconf}"));
    sim.expect(
        "exec",
        "-EXECABORT Transaction discarded because of previous errors.",
    );
    // What was queued before is refused as a whole, and reads are not.
    let aborted = format!("-EXECABORT Transaction discarded because of: {misconf}");
    assert_eq!(sim.run_as(writer, "exec"), aborted);
    assert_eq!(sim.run_as(writer, "exec"), "-ERR EXEC without MULTI");
    assert_eq!(sim.run_as(reader, "exec"), "*1 $1 v");
    // Without save points nobody expects the keys to be on disk.
    sim.script("config set save \"\"=>+OK\nset k x=>+OK\nconfig set save \"60 1\"=>+OK");
    sim.expect("set k y", &format!("-{misconf}"));
    sim.engine.config.dir = dir.path().display().to_string();
    sim.script("save=>+OK\nset k y=>+OK\nping=>+PONG");
}

#[test]
fn a_server_that_listens_nowhere_or_in_no_directory_says_so() {
    for (args, text) in [
        (["--port", "0"], "not listen anywhere"),
        (["--dir", "/missing/directory"], "/missing/directory"),
    ] {
        let output = run_to_end(&args);
        assert_eq!(output.status.code(), Some(1));
        assert!(text_of(&output).contains(text), "{}", text_of(&output));
    }
}

/// A server with save points and 40,000 keys, whose snapshot is larger than [`SHORT`].
fn saving_by_itself(dir: &TempDir) -> Server {
    let server = server(dir);
    server.run(POPULATE, 1);
    server.run("CONFIG SET save \"3600 1\"", 1);
    server
}

/// Room for the log, in bytes, and not for the snapshot.
const SHORT: Option<u64> = Some(1_000_000);

fn limit_files(server: &Server, bytes: Option<u64>) {
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(server.pid()), Resource::Fsize, limit).expect("the limit of a child");
}

fn refusals(server: &Server) -> usize {
    server.log().matches("can't exit").count()
}

#[test]
fn a_refused_sigterm_is_forgotten_when_saving_works_again() {
    let dir = TempDir::new();
    let mut server = saving_by_itself(&dir);
    server.run("SET a 1", 1);
    limit_files(&server, SHORT);
    for nth in 1..=2 {
        server.signal(Signal::TERM);
        wait_for("the refusal", || (refusals(&server) == nth).then_some(()));
        assert_eq!(server.run("GET a", 2), "$1\r\n1\r\n");
    }
    limit_files(&server, None);
    server.run("SET b 2", 1);
    assert_eq!(server.run("SAVE", 1), "+OK\r\n");
    server.run("SET c 3", 1);
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let server = Server::start(&dir);
    assert_eq!(server.run("DBSIZE", 1), ":40003\r\n");
}

#[test]
fn a_second_interrupt_after_a_refusal_ends_the_server_unsaved() {
    let dir = TempDir::new();
    let mut server = saving_by_itself(&dir);
    server.run("SET a 1", 1);
    limit_files(&server, SHORT);
    server.signal(Signal::INT);
    wait_for("the refusal", || (refusals(&server) == 1).then_some(()));
    // What a supervisor sends does not count.
    server.signal(Signal::TERM);
    wait_for("the refusal", || (refusals(&server) == 2).then_some(()));
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(1));
    // An interrupt that was refused is forgotten after a good save.
    let server = saving_by_itself(&dir);
    server.run("SET a 1", 1);
    limit_files(&server, SHORT);
    server.signal(Signal::INT);
    wait_for("the refusal", || (refusals(&server) == 1).then_some(()));
    limit_files(&server, None);
    assert_eq!(server.run("SAVE", 1), "+OK\r\n");
    server.run("SET b 1", 1);
    limit_files(&server, SHORT);
    server.signal(Signal::INT);
    wait_for("the refusal", || (refusals(&server) == 2).then_some(()));
    assert_eq!(server.run("DBSIZE", 1), ":40002\r\n");
}

#[test]
fn several_signals_to_stop_are_one() {
    let dir = TempDir::new();
    let mut server = saving_by_itself(&dir);
    for signal in [Signal::TERM, Signal::INT, Signal::TERM, Signal::INT] {
        // It may have ended by then.
        let _ = rustix::process::kill_process(server.pid(), signal);
    }
    assert_eq!(server.wait().code(), Some(0));
    let server = Server::start(&dir);
    assert_eq!(server.run("DBSIZE", 1), ":40000\r\n");
}

#[test]
fn signals_that_ask_nothing_do_not_end_the_server() {
    let dir = TempDir::new();
    let mut server = saving_by_itself(&dir);
    server.run("SET a 1", 1);
    for signal in [
        Signal::HUP,
        Signal::ALARM,
        Signal::USR1,
        Signal::USR2,
        Signal::VTALARM,
        Signal::PROF,
        Signal::IO,
        Signal::XFSZ,
        Signal::PIPE,
    ] {
        server.signal(signal);
        assert_eq!(server.run("GET a", 2), "$1\r\n1\r\n", "{signal:?}");
    }
    for signal in [Signal::QUIT, Signal::XCPU] {
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(0), "{signal:?}");
        server = saving_by_itself(&dir);
        assert_eq!(server.run("DBSIZE", 1), ":40001\r\n", "{signal:?}");
    }
}

#[test]
fn a_forced_shutdown_ends_the_server_whatever_the_disk_says() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.engine.config.dir = dir.file("missing").display().to_string();
    let refusal = "-ERR Errors trying to SHUTDOWN. Check logs.";
    sim.script("set k v=>+OK");
    for request in ["shutdown", "shutdown save", "shutdown now"] {
        sim.expect(request, refusal);
        assert_eq!(sim.engine.exit, None, "{request}");
    }
    for request in [
        "shutdown force",
        "shutdown save now force",
        "shutdown nosave",
    ] {
        sim.engine.exit = None;
        let client = sim.connect();
        assert_eq!(sim.run_as(client, request), "", "{request}");
        assert_eq!(sim.engine.exit, Some(0), "{request}");
    }
}

#[test]
fn only_a_snapshot_is_replaced_by_a_snapshot() {
    let dir = TempDir::new();
    let path = dir.file("dump.mayfly");
    for (bytes, why) in [
        (&b"REDIS0011\xfa\tredis-ver\x057.2.4"[..], "an RDB file"),
        (&b"VALKEY080\xfa\tvalkey-ver\x059.1.2"[..], "an RDB file"),
        (&b"port 6379\n"[..], "no snapshot of Mayfly"),
    ] {
        let mut sim = Sim::saving_in(&dir, 1);
        sim.expect("set k v", "+OK");
        std::fs::write(&path, bytes).expect("the disk is writable");
        let reply = sim.run("save");
        assert!(reply.contains(why), "{reply}");
        sim.expect("bgsave", "+Background saving started");
        while sim.engine.jobs.persistence.is_saving() {
            sim.jobs();
        }
        assert!(
            sim.run("info persistence")
                .contains("rdb_last_bgsave_status:err")
        );
        assert_eq!(std::fs::read(&path).expect("the file"), bytes);
        assert_eq!(dir.temporary_files(), 0);
    }
    // An empty file holds nothing that could be lost.
    std::fs::write(&path, "").expect("the disk is writable");
    Sim::saving_in(&dir, 1).script("set k v=>+OK\nsave=>+OK");
    assert!(snapshot(&dir).len() > 50);
}

#[test]
fn what_is_no_socket_is_not_removed_for_one() {
    let dir = TempDir::new();
    let path = dir.file("important.txt");
    std::fs::write(&path, "important").expect("the disk is writable");
    let name = path.display().to_string();
    let dir_name = dir.path().display().to_string();
    let output = run_to_end(&["--port", "0", "--unixsocket", &name, "--dir", &dir_name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text_of(&output).contains("something else of this name"));
    assert_eq!(std::fs::read(&path).expect("the file"), b"important");
}

#[test]
fn what_is_no_pid_file_is_neither_replaced_nor_removed() {
    let dir = TempDir::new();
    let path = dir.file("important.txt");
    std::fs::write(&path, "important").expect("the disk is writable");
    let name = path.display().to_string();
    let mut other = Server::start_with(&dir, &["--pidfile", &name]);
    assert!(other.log().contains("is no PID file"));
    other.signal(Signal::TERM);
    assert_eq!(other.wait().code(), Some(0));
    assert_eq!(std::fs::read(&path).expect("the file"), b"important");
    // One that a server before has left is replaced, and one's own is removed.
    std::fs::write(&path, "4194305\n").expect("the disk is writable");
    let mut other = Server::start_with(&dir, &["--pidfile", &name]);
    let pid = format!("{}\n", other.pid().as_raw_nonzero());
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), pid);
    other.signal(Signal::TERM);
    assert_eq!(other.wait().code(), Some(0));
    assert!(!path.exists());
    assert!(!other.socket.exists());
}

#[test]
fn a_start_says_what_will_go_wrong_later() {
    let dir = TempDir::new();
    std::fs::write(dir.file("dump.rdb"), "REDIS0011 and more than that").expect("writable");
    let server = Server::start(&dir);
    let log = server.log();
    assert!(
        log.contains("dump.rdb is an RDB file of Redis or Valkey"),
        "{log}"
    );
    assert!(!log.contains("Snapshots cannot be saved"), "{log}");
    assert_eq!(server.run("SAVE", 1), "+OK\r\n");
    drop(server);
    // With a snapshot of its own beside it there is nothing to say.
    let log = Server::start(&dir).log();
    assert!(!log.contains("RDB"), "{log}");
    let dir = TempDir::new();
    permit(dir.path(), 0o777);
    std::fs::create_dir(dir.file("data")).expect("a directory");
    permit(&dir.file("data"), 0o555);
    let mut command = unprivileged(&dir);
    command.args(["--dbfilename", "dump.mayfly"]);
    let server = Server::launch_in(&dir, &dir.file("data"), command);
    let log = server.log();
    assert!(log.contains("Snapshots cannot be saved"), "{log}");
    permit(&dir.file("data"), 0o755);
}

#[test]
fn ready_is_logged_when_it_is_true_and_fatal_lines_are_logged() {
    let dir = TempDir::new();
    let first = server(&dir);
    assert_eq!(
        first.log().matches("Ready to accept connections").count(),
        1
    );
    first.run(POPULATE, 1);
    first.run("SAVE", 1);
    drop(first);
    let log = server(&dir).log();
    let place = |text| {
        log.find(text)
            .unwrap_or_else(|| panic!("no {text} in {log}"))
    };
    assert!(place("DB loaded from disk") < place("Ready to accept connections"));
    let mut bytes = snapshot(&dir);
    bytes[5_000_000] ^= 1;
    std::fs::write(dir.file("dump.mayfly"), &bytes).expect("the disk is writable");
    let socket = dir.file("other.sock").display().to_string();
    let dir_name = dir.path().display().to_string();
    let logfile = dir.file("logfile").display().to_string();
    let args = ["--port", "0", "--unixsocket", &socket, "--dir", &dir_name];
    let output = run_to_end(&[&args[..], &["--logfile", &logfile]].concat());
    assert_eq!(output.status.code(), Some(1));
    let log = std::fs::read_to_string(&logfile).expect("a log");
    assert!(log.contains("is damaged: chunk"), "{log}");
    assert!(!log.contains("Ready to accept"), "{log}");
    // Not even a header: found before the loop begins.
    std::fs::write(dir.file("dump.mayfly"), [0; 100]).expect("the disk is writable");
    let output = run_to_end(&[&args[..], &["--logfile", &logfile]].concat());
    assert_eq!(output.status.code(), Some(1));
    let log = std::fs::read_to_string(&logfile).expect("a log");
    assert!(log.contains("Fatal: the snapshot"), "{log}");
    assert!(!log.contains("Ready to accept"), "{log}");
}

#[test]
fn flushed_keys_do_not_come_back() {
    let dir = TempDir::new();
    let keys_in_file = || {
        let mut other = Sim::saving_in(&dir, 2);
        other.engine.load_now().expect("a snapshot");
        other.run("dbsize")
    };
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script("set k v=>+OK\nsave=>+OK\nflushall async=>+OK");
    assert_eq!(keys_in_file(), ":0");
    assert!(
        sim.run("info persistence")
            .contains("rdb_changes_since_last_save:0 ")
    );
    // A running save would bring them back when it ends.
    sim.script("set k v=>+OK\nbgsave=>+Background saving started\nmulti=>+OK");
    sim.script("flushall=>+QUEUED\nset l v=>+QUEUED\nexec=>*2 +OK +OK");
    assert!(!sim.engine.jobs.persistence.is_saving());
    assert_eq!(keys_in_file(), ":0");
    // One database is not all, and without save points nothing is saved by itself.
    sim.script("save=>+OK\nflushdb=>+OK");
    assert_eq!(keys_in_file(), ":1");
    sim.engine.config.save.clear();
    sim.expect("flushall", "+OK");
    assert_eq!(keys_in_file(), ":1");
    // A disk that is full is no reason to refuse.
    sim.expect("config set save \"60 1\"", "+OK");
    sim.engine.config.dir = dir.file("missing").display().to_string();
    sim.script("set k v=>+OK\nflushall=>+OK\ndbsize=>:0");
}

#[test]
fn the_first_edit_of_a_long_string_does_not_copy_it() {
    let mut sim = Sim::new();
    let value = vec![b'v'; 3_000_000];
    assert_eq!(sim.ask(&[b"set", b"k", &value]), b"+OK\r\n");
    let place = |sim: &mut Sim| {
        let live = sim.engine.keyspace.live(0, &sim.engine.reading);
        let string = live.string(b"k").expect("a string").expect("a value");
        string.as_bytes().as_ptr()
    };
    let before = place(&mut sim);
    sim.expect("setrange k 1000000 x", ":3000000");
    assert_eq!(place(&mut sim), before);
    sim.expect("append k yz", ":3000002");
    sim.expect("getrange k 2999999 -1", "$3 vyz");
    sim.expect("getrange k 999999 1000001", "$3 vxv");
    // It has room for a while, but not for as much again.
    let place_after = place(&mut sim);
    sim.expect(&format!("append k {}", "z".repeat(50_000)), ":3050002");
    assert_eq!(place(&mut sim), place_after);
    let usage = sim.run("memory usage k");
    let usage: usize = usage[1..].parse().expect("a number");
    assert!(usage < 3_700_000, "{usage}");
}

#[test]
fn a_snapshot_that_does_not_fit_the_settings_is_not_called_damaged() {
    let dir = TempDir::new();
    let first = server(&dir);
    first.run("SELECT 12\r\nSET k v\r\nSAVE", 3);
    drop(first);
    let socket = dir.file("other.sock").display().to_string();
    let dir_name = dir.path().display().to_string();
    let logfile = dir.file("logfile").display().to_string();
    let args = ["--port", "0", "--unixsocket", &socket, "--dir", &dir_name];
    let args = [&args[..], &["--logfile", &logfile, "--databases", "4"]].concat();
    let log = || std::fs::read_to_string(&logfile).expect("a log");
    assert_eq!(run_to_end(&args).status.code(), Some(1));
    let wanted = "it has keys in database 12, so the setting `databases` must be 13 or more";
    assert!(log().contains(wanted), "{}", log());
    assert!(!log().contains("damaged"), "{}", log());
    // An empty file is none, but not by itself a reason to start without data.
    std::fs::write(dir.file("dump.mayfly"), b"").expect("the disk is writable");
    let output = run_to_end(&args);
    assert_eq!(output.status.code(), Some(1));
    let text = log() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("the file is empty; without it the server starts with no keys"),
        "{text}"
    );
}
