//! Secrets in files and on command lines: who may be able to read them, and what is said about those that others can.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::offline::{check, check_output, path, tenure};

/// Refused in words of its own, before anything is connected to.
const URL: &str = "postgresql://ann:hush@db/a?sslcert=x";
const WHY: &str = "sslcert is not supported";
/// Nothing listens on port 1.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Everything a command says, which ends by itself.
fn said(args: &[&str], environment: &[(&str, &str)]) -> String {
    let output = tenure(args).envs(environment.iter().copied()).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_command_reads_the_databases_url_from_a_file_that_only_its_owner_can_open() {
    let dir = tempfile::tempdir().unwrap();
    let (data, url, other) = (dir.path().join("data"), dir.path().join("url"), dir.path().join("other"));
    fs::create_dir(&data).unwrap();
    for (path, text) in [(&url, format!("{URL}\n")), (&other, "mysql://db".to_owned())] {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }
    let (url, other) = (path(&url), path(&other));
    let settings = data.join("tenure.toml");
    let data = path(&data);
    let (by_flag, own, shared) = (["--database-url-file", url], "TENURE_DATABASE_URL_FILE", "DATABASE_URL");
    let serve = &["serve", "--listen", "127.0.0.1:0"][..];
    for command in [serve, &["migrate"], &["doctor", "--server", NOWHERE]] {
        let args = [command, &["--data", data]].concat();
        let flagged = [&args[..], &by_flag].concat();
        for text in [
            said(&flagged, &[(own, other), ("TENURE_DATABASE_URL", "mysql://db"), (shared, "mysql://db")]),
            said(&args, &[(own, url), (shared, "mysql://db")]),
        ] {
            assert!(text.contains(WHY) && !text.contains("hush"), "{args:?}: {text}");
        }
        let both = said(&[&flagged[..], &["--database-url", URL]].concat(), &[]);
        assert!(both.contains("cannot be used with"), "{both}");
        let both = said(&args, &[(own, url), ("TENURE_DATABASE_URL", URL)]);
        assert!(both.contains("leave one of them out"), "{both}");
    }
    let bench = said(&[&["bench", "--store", "postgres", "--jobs", "1"][..], &by_flag].concat(), &[]);
    assert!(bench.contains(WHY), "{bench}");

    let args = [serve, &["--data", data]].concat();
    fs::write(&settings, format!("database-url-file = \"{url}\"")).unwrap();
    let text = said(&args, &[(shared, "mysql://db")]);
    assert!(text.contains(WHY), "the settings file: {text}");
    fs::write(&settings, format!("database-url-file = \"{url}\"\ndatabase-url = \"{URL}\"")).unwrap();
    let text = said(&args, &[]);
    assert!(text.contains("leave one of them out"), "{text}");
    fs::remove_file(&settings).unwrap();

    fs::set_permissions(url, Permissions::from_mode(0o640)).unwrap();
    for command in [serve, &["migrate"], &["doctor", "--server", NOWHERE]] {
        let text = said(&[command, &["--data", data], &by_flag].concat(), &[]);
        assert!(text.contains(&format!("chmod 600 {url}")) && !text.contains(WHY), "{text}");
    }
}

#[test]
fn a_password_on_the_command_line_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let data = path(dir.path());
    let warning = "can see the password in --database-url";
    let serve = &["serve", "--listen", "127.0.0.1:0"][..];
    for command in [serve, &["migrate"], &["doctor", "--server", NOWHERE]] {
        let args = [command, &["--data", data]].concat();
        let text = said(&[&args[..], &["--database-url", URL]].concat(), &[]);
        assert!(text.contains(warning) && text.contains("--database-url-file"), "{args:?}: {text}");
        let without = URL.replace(":hush", "");
        let text = said(&[&args[..], &["--database-url", &without]].concat(), &[]);
        assert!(text.contains(WHY) && !text.contains(warning), "{args:?}: {text}");
        let text = said(&args, &[("TENURE_DATABASE_URL", URL)]);
        assert!(text.contains(WHY) && !text.contains(warning), "{args:?}: {text}");
    }
}

#[test]
fn a_server_says_once_that_its_database_is_not_proved_to_be_itself() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--data", path(dir.path())];
    let mut command = tenure(&args);
    // No name of this kind exists anywhere.
    command.env("TENURE_DATABASE_URL", "postgresql://ann:hush@db.invalid/jobs?sslmode=require");
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap());
    let mut first = String::new();
    log.read_line(&mut first).unwrap();
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    server.wait().unwrap();
    let warning = "nothing proves that the database";
    assert!(first.contains(warning) && first.contains("db.invalid:5432"), "{first}{rest}");
    assert!(first.contains("sslmode=verify-full") && !rest.contains(warning), "{first}{rest}");
    assert!(!first.contains("hush") && !rest.contains("hush"), "{first}{rest}");
}

#[test]
fn a_key_is_written_for_its_owner_alone_and_never_over_another() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cluster.key");
    let args = ["nodes", "key", "--out", path(&file)];
    let (stdout, _) = check(&args, 0);
    assert_eq!(stdout, "", "it is shown to nobody");
    let key = fs::read_to_string(&file).unwrap();
    assert!(key.len() == 65 && key.ends_with('\n'), "{key:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let (_, stderr) = check(&args, 1);
    assert!(stderr.contains("is there already"), "{stderr}");
    assert_eq!(fs::read_to_string(&file).unwrap(), key);
    let other = dir.path().join("other.key");
    let (stdout, _) = check(&["nodes", "key", "--out", path(&other), "--json"], 0);
    assert!(stdout.contains("other.key") && !stdout.contains(key.trim()), "{stdout}");
}

#[test]
fn a_key_file_that_others_can_open_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("cluster.key"));
    check(&["nodes", "key", "--out", path(&file)], 0);
    let args = ["--data", path(&data), "--node-id", "1", "--cluster-key-file", path(&file)];
    let serve = [&["serve", "--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0"], &args[..]].concat();
    let doctor = [&["doctor", "--server", NOWHERE, "--json"], &args[..]].concat();
    let fine = said(&doctor, &[]);
    assert!(fine.contains("1 in use"), "{fine}");
    // Who reads it says something else, and does not serve.
    fs::write(&file, "no key").unwrap();
    let chmod = format!("chmod 600 {}", file.display());
    for mode in [0o640, 0o604, 0o660] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let (_, stderr) = check_output(tenure(&serve).output().unwrap(), &serve, 2);
        assert!(stderr.contains(&chmod), "{mode:o}: {stderr}");
        assert!(said(&doctor, &[]).contains(&chmod), "{mode:o}");
    }
}

#[test]
fn whatever_a_server_writes_is_its_own_users_alone() {
    let dir = tempfile::tempdir().unwrap();
    // As a volume or a service manager makes it.
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o777)).unwrap();
    fs::write(data.join("tenure.toml"), "name = \"ours\"").unwrap();
    fs::set_permissions(data.join("tenure.toml"), Permissions::from_mode(0o644)).unwrap();
    let data = path(&data);
    let mut command = Command::new("sh");
    command.env_clear().args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tenure")]);
    command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--data", data]);
    command.args(["--node-id", "1", "--gossip-listen", "127.0.0.1:0"]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let mut modes: Vec<(String, u32)> = fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), entry.metadata().unwrap().permissions().mode() & 0o777))
        .map(|(name, mode)| (name.into_string().unwrap(), mode))
        .collect();
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    server.wait().unwrap();
    modes.retain(|(name, _)| name != "tenure.toml");
    assert!(modes.iter().any(|(name, _)| name == "node-epoch"), "{modes:?}");
    assert!(modes.iter().all(|(_, mode)| mode & 0o077 == 0), "{modes:?}");
}
