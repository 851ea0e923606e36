//! What the binary does without a server: help, usage errors, files, exit codes.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Every command and subcommand.
const COMMANDS: [&[&str]; 36] = [
    &[],
    &["serve"],
    &["worker"],
    &["enqueue"],
    &["jobs"],
    &["jobs", "list"],
    &["jobs", "show"],
    &["jobs", "wait"],
    &["jobs", "tail"],
    &["jobs", "cancel"],
    &["jobs", "retry"],
    &["jobs", "stats"],
    &["queues"],
    &["queues", "list"],
    &["queues", "pause"],
    &["queues", "resume"],
    &["queues", "set"],
    &["nodes"],
    &["nodes", "list"],
    &["nodes", "show"],
    &["nodes", "watch"],
    &["nodes", "forget"],
    &["nodes", "leave"],
    &["nodes", "key"],
    &["muster"],
    &["muster", "status"],
    &["sim"],
    &["sim", "jobs"],
    &["sim", "swim"],
    &["sim", "muster"],
    &["sim", "replay"],
    &["migrate"],
    &["doctor"],
    &["completions"],
    &["version"],
    &["--json", "version"],
];

const SOME_ID: &str = "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f";
/// Nothing listens on port 1.
const NOWHERE: &str = "http://127.0.0.1:1";

pub(crate) fn tenure(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name == "DATABASE_URL" || name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command
}

fn run(args: &[&str]) -> Output {
    tenure(args).output().expect("the binary starts")
}

/// Runs and compares the exit code; answers stdout and stderr.
#[track_caller]
pub(crate) fn check(args: &[&str], code: i32) -> (String, String) {
    check_output(run(args), args, code)
}

#[track_caller]
pub(crate) fn check_output(output: Output, args: &[&str], code: i32) -> (String, String) {
    let stdout = String::from_utf8(output.stdout).expect("stdout is text");
    let stderr = String::from_utf8(output.stderr).expect("stderr is text");
    assert_eq!(output.status.code(), Some(code), "{args:?}\nstdout: {stdout}\nstderr: {stderr}");
    (stdout, stderr)
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

#[test]
fn every_help_has_examples() {
    for command in COMMANDS {
        let (help, _) = check(&[command, &["--help"]].concat(), 0);
        assert!(help.contains("Examples:\n  "), "{command:?}: {help}");
        assert!(help.contains("Usage: tenure"), "{command:?}: {help}");
    }
}

#[test]
fn usage_errors_exit_2_and_say_what_is_wrong() {
    for (args, why) in [
        (&["frobnicate"][..], "unrecognized subcommand"),
        (&["serve", "--frobnicate"], "unexpected argument"),
        (&["serve", "--lease", "-5s"], "\"-5s\" is negative; write 500ms, 10s"),
        (&["serve", "--lease", "5"], "\"5\" has no unit"),
        (&["serve", "--store", "oracle"], "possible values: sqlite, memory, postgres, volatile"),
        (&["serve", "--database-url", ""], "a value is required for '--database-url <URL>'"),
        (&["migrate", "--database-url", ""], "a value is required for '--database-url <URL>'"),
        (&["doctor", "--database-url", ""], "a value is required for '--database-url <URL>'"),
        (&["serve", "--listen", "here"], "\"here\" is not an address to listen on, such as 127.0.0.1:7117"),
        (&["serve", "--lease", "1ms"], "lease of 1ms is out of range"),
        (&["serve", "--lease", "2h"], "too long for workers"),
        (&["serve", "--verify-after", "1ms"], "out of range"),
        (&["serve", "--registrations-per-second", "0"], "choose 1 or more"),
        (&["serve", "--max-payload", "999999999"], "does not fit in the largest batch"),
        (&["worker", "--queue", "a"], "<CMD>"),
        (&["worker", "--", "cat"], "--queue"),
        (&["worker", "--queue", "a b", "--", "cat"], "queue name must not contain ' '"),
        (&["worker", "--queue", "a", "--concurrency", "0", "--", "cat"], "--concurrency"),
        (&["worker", "--queue", "a", "--", "no-such-command"], "cannot find the command \"no-such-command\""),
        (&["worker", "--queue", "a", "--grace", "1s", "--", "cat"], "does not fit in the grace"),
        (&["worker", "--queue", "a", "--isolation", "jail", "--", "cat"], "choose auto, namespace or groups"),
        (
            &["worker", "--queue", "a", "--exclusive", "--lease", "10s", "--", "cat"],
            "lease of 10s is too short for exclusive queues",
        ),
        (&["queues", "set", "mail", "--exclusive=maybe"], "possible values: true, false"),
        (&["enqueue"], "QUEUE"),
        (&["enqueue", "a b"], "queue name must not contain ' '"),
        (&["enqueue", "q", "--delay", "-1s"], "is negative"),
        (&["enqueue", "q", "--delay", "1s", "--at", "1935999000000"], "cannot be used with"),
        (&["enqueue", "q", "--at", "tomorrow"], "is not a date; write 2031-05-04T09:30:00Z"),
        (&["enqueue", "q", "--retry", "linear"], "growth exponential, fixed or quadratic"),
        (&["enqueue", "q", "--max-attempts", "0"], "0 is not in 1..=1000"),
        (&["enqueue", "q", "--priority", "40000"], "40000"),
        (&["enqueue", "q", "--id", "7"], "is not a UUID"),
        (&["enqueue", "q", "{}", "--file", "f"], "cannot be used with"),
        (&["enqueue", "--file", "f", "--raw"], "QUEUE"),
        (&["enqueue", "q", "--server", "ftp://x"], "has the scheme ftp; use http://"),
        (&["jobs", "show", "7"], "is not a UUID"),
        (&["jobs", "list", "--state", "sleeping"], "possible values: scheduled, available"),
        (&["jobs", "retry"], "--queue"),
        (&["jobs", "retry", "--state", "completed"], "possible values: dead, cancelled"),
        (&["queues", "set", "mail"], "--heartbeat-timeout"),
        (&["queues", "set", "mail", "--heartbeat-timeout", "0s"], "heartbeat timeout of 0ns is out of range"),
        (&["completions", "tcsh"], "possible values"),
    ] {
        let (stdout, stderr) = check(args, 2);
        assert!(stderr.starts_with("error: ") && stderr.contains(why), "{args:?}: {stderr}");
        assert_eq!(stdout, "", "errors go to stderr");
    }
}

#[test]
fn an_unreachable_server_exits_3_with_the_way_out() {
    for args in [
        &["enqueue", "q", "{}"][..],
        &["enqueue", "q", "{}", "--wait"],
        &["jobs", "list"],
        &["jobs", "show", SOME_ID],
        &["jobs", "wait", SOME_ID],
        &["jobs", "tail"],
        &["jobs", "cancel", SOME_ID],
        &["jobs", "retry", SOME_ID],
        &["jobs", "stats", "--json"],
        &["queues", "list"],
        &["queues", "pause", "q"],
        &["muster", "status"],
        &["muster", "status", "--wait"],
        &["queues", "set", "q", "--heartbeat-timeout", "default"],
    ] {
        let args = [args, &["--server", NOWHERE]].concat();
        let (stdout, stderr) = check(&args, 3);
        let sentence = format!(
            "error: cannot reach the tenure server at {NOWHERE}; is it running? start it with `tenure serve`"
        );
        assert!(stderr.starts_with(&sentence), "{args:?}: {stderr}");
        assert_eq!(stdout, "");
    }
    let output = tenure(&["jobs", "list"]).env("TENURE_SERVER", NOWHERE).output().unwrap();
    let (_, stderr) = check_output(output, &["TENURE_SERVER"], 3);
    assert!(stderr.contains(NOWHERE), "{stderr}");
}

#[test]
fn an_open_network_is_refused_unless_it_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let data = path(dir.path());
    let (_, stderr) = check(&["serve", "--listen", "0.0.0.0:7117", "--data", data], 2);
    assert_eq!(
        stderr,
        "error: refusing to listen on 0.0.0.0:7117 without TLS and authentication; listen on 127.0.0.1, or pass \
         --insecure if this network is trusted\n"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was touched");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let data = path(dir.path());
    fs::write(dir.path().join("tenure.toml"), "listen = \"0.0.0.1:1\"").unwrap();
    let (_, stderr) = check(&["serve", "--data", data], 2);
    assert!(stderr.contains("0.0.0.1:1 without TLS"), "the file is read: {stderr}");
    let with_environment = |args: &[&str]| {
        let output =
            tenure(args).env("TENURE_LISTEN", "0.0.0.2:2").env("TENURE_DATA", data).output().unwrap();
        check_output(output, args, 2).1
    };
    assert!(with_environment(&["serve"]).contains("0.0.0.2:2 without TLS"));
    assert!(with_environment(&["serve", "--listen", "0.0.0.3:3"]).contains("0.0.0.3:3 without TLS"));
}

#[test]
fn every_command_looks_for_the_database_in_the_same_places() {
    let dir = tempfile::tempdir().unwrap();
    let data = path(dir.path());
    // Each is refused in words of its own, before anything is connected to.
    let flag = ("mysql://db", "it must begin with postgresql://");
    let own = ("postgresql://db/a?sslcert=x", "sslcert is not supported");
    let shared =
        ("postgresql://db/a?target_session_attrs=read-only", "target_session_attrs=read-only cannot be");
    let said = |args: &[&str], own: &str, shared: &str| {
        let mut command = tenure(args);
        let output = command.env("TENURE_DATABASE_URL", own).env("DATABASE_URL", shared).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["migrate"], &["doctor", "--server", NOWHERE]]
    {
        let args = [command, &["--data", data]].concat();
        let flagged = [&args[..], &["--database-url", flag.0]].concat();
        for (text, words) in [
            (said(&flagged, own.0, shared.0), flag.1),
            (said(&args, own.0, shared.0), own.1),
            (said(&args, "", shared.0), shared.1),
        ] {
            assert!(text.contains(words), "{args:?} should say {words:?}: {text}");
        }
    }
    let text = said(&["migrate", "--dry-run", "--data", data], "", "");
    assert!(text.contains(data), "empty variables name no database: {text}");
}

#[test]
fn a_server_that_waits_for_its_database_can_be_told_to_stop() {
    // Takes connections and never answers, as a database whose disk hangs.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgresql://tenure@{}/jobs", silent.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--data", path(dir.path()), "--database-url", &url];
    let mut server = tenure(&args);
    let server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let held = silent.accept().unwrap();
    let told_at = Instant::now();
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    let output = server.wait_with_output().unwrap();
    // It gives one attempt five seconds and all of them twenty.
    assert!(told_at.elapsed() < Duration::from_secs(4), "it went on waiting for {:?}", told_at.elapsed());
    drop(held);
    let (stdout, stderr) = check_output(output, &args, 1);
    assert!(stderr.contains("error: interrupted while the store was being opened"), "{stderr}");
    assert_eq!(stdout, "", "a server that does not serve announces nothing");
}

#[test]
fn a_misspelt_key_in_the_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    fs::write(&file, "# settings\nlaese = \"30s\"\n").unwrap();
    let (_, stderr) = check(&["serve", "--config", path(&file)], 2);
    assert!(
        stderr.starts_with(&format!("error: {} line 2: unknown key `laese`", file.display())),
        "{stderr}"
    );
    let (_, stderr) = check(&["serve", "--config", "/no/such/file"], 2);
    assert!(stderr.starts_with("error: cannot read the settings file /no/such/file"), "{stderr}");
}

#[test]
fn a_taken_port_is_said_in_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let (_, stderr) = check(&["serve", "--listen", &address, "--data", path(dir.path())], 1);
    let sentence =
        format!("error: cannot listen on {address}: another program uses this port; stop it, or choose");
    assert!(stderr.contains(&sentence), "{stderr}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the store was not touched");
}

#[test]
fn a_data_directory_that_cannot_be_used_is_said_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let (stdout, stderr) = check(&["serve", "--listen", "127.0.0.1:0", "--data", path(&file)], 1);
    assert!(stderr.contains("error: cannot write to"), "{stderr}");
    assert_eq!(stdout, "", "a server that does not serve announces nothing");

    fs::write(dir.path().join("tenure.db"), "this is not a database at all".repeat(100)).unwrap();
    let (_, stderr) = check(&["serve", "--listen", "127.0.0.1:0", "--data", path(dir.path())], 1);
    assert!(stderr.contains("is not a tenure database; move it away or choose another --data"), "{stderr}");
}

#[test]
fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, _) = check(&["completions", shell], 0);
        assert!(script.contains("tenure") && script.contains("enqueue"), "{shell}");
    }
}

#[test]
fn versions_are_for_people_and_programs() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(check(&["version"], 0).0, format!("tenure {version}\n"));
    assert_eq!(check(&["--version"], 0).0, format!("tenure {version}\n"));
    let (stdout, _) = check(&["version", "--json"], 0);
    let object: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(object["version"], version);
}

#[test]
fn the_doctor_finds_an_empty_directory_well() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (stdout, _) = check(&["doctor", "--data", path(&data)], 0);
    for text in ["data directory", "does not exist yet", "free space", "sqlite", "wall clock", "open files"] {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
    assert!(!data.exists(), "looking creates nothing");

    let (stdout, _) = check(&["doctor", "--json", "--data", path(&data)], 0);
    for line in stdout.lines() {
        let finding: Value = serde_json::from_str(line).unwrap();
        assert!(finding["check"].is_string() && finding["status"] != "fail", "{line}");
    }
}

#[test]
fn the_doctor_reports_trouble_with_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::write(&data, "").unwrap();
    let (stdout, _) = check(&["doctor", "--data", path(&data)], 1);
    assert!(stdout.contains("FAIL") && stdout.contains("is not a directory"), "{stdout}");

    let (stdout, _) = check(&["doctor", "--data", path(dir.path()), "--server", NOWHERE], 1);
    assert!(stdout.contains("cannot be reached"), "{stdout}");
}

#[test]
fn a_dry_migration_prints_its_steps_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (stdout, stderr) = check(&["migrate", "--dry-run", "--data", path(&data)], 0);
    assert!(stdout.starts_with("-- 1 ") && stdout.contains("CREATE TABLE"), "{stdout}");
    assert!(stderr.contains("nothing was changed"), "{stderr}");
    assert!(!data.exists());

    let (stdout, _) = check(&["migrate", "--data", path(&data)], 0);
    assert!(stdout.contains("1 jobs: done"), "{stdout}");
    let (stdout, _) = check(&["migrate", "--data", path(&data)], 0);
    assert!(stdout.contains("is up to date"), "{stdout}");
    let (stdout, _) = check(&["migrate", "--json", "--data", path(&data)], 0);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["steps"], Value::Array(Vec::new()));
}

#[test]
fn a_bad_line_is_found_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.jsonl");
    fs::write(&file, "{\"queue\":\"a\"}\n{\"queue\":\"a\",\"pay\":1}\n").unwrap();
    let (_, stderr) = check(&["enqueue", "--file", path(&file), "--server", NOWHERE], 2);
    let sentence = format!("error: {} line 2: unknown key \"pay\"", file.display());
    assert!(stderr.contains(&sentence), "{stderr}");
    let (_, stderr) = check(&["enqueue", "--file", "/no/such/file"], 2);
    assert!(stderr.starts_with("error: cannot read /no/such/file"), "{stderr}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child =
        tenure(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The script is larger than a pipe holds, so the writer notices.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let (_, stderr) = check_output(output, &["completions", "bash"], 0);
    assert_eq!(stderr, "");
}

#[test]
fn stdin_can_be_the_file() {
    let args = ["enqueue", "--file", "-", "--server", NOWHERE];
    let mut child =
        tenure(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"queue\":\"a\"}\nnonsense\n").unwrap();
    let (_, stderr) = check_output(child.wait_with_output().unwrap(), &args, 2);
    assert!(stderr.contains("stdin line 2: not a job as a JSON object"), "{stderr}");
}
