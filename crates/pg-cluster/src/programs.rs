//! PostgreSQL's own programs: where they are, whom they run as, what they say when they fail.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::error::ClusterError;

/// What a cluster cannot do without. A standby also needs `pg_basebackup`, which comes with the client.
const NEEDED: [&str; 4] = ["initdb", "pg_ctl", "postgres", "psql"];
/// Where Debian keeps them, one folder per version, so that none of them is on the path.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";

/// An installed PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
    user: Option<ServerUser>,
}

/// Whom the server runs as when we are root, as whom it refuses to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerUser {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Programs {
    /// Finds them on the path, or in the newest version where Debian keeps them.
    pub(crate) fn find() -> Result<Programs, ClusterError> {
        let missing = || ClusterError::BinariesMissing { needed: NEEDED.join(", ") };
        let path = env::var_os("PATH").unwrap_or_default();
        let folder = find_folder(&path, Path::new(DEBIAN_VERSIONS)).ok_or_else(missing)?;
        let mut user = None;
        if rustix::process::geteuid().is_root() {
            let users =
                fs::read_to_string("/etc/passwd").map_err(ClusterError::system("read /etc/passwd"))?;
            user = Some(choose_user(&users).ok_or(ClusterError::NoServerUser)?);
        }
        Ok(Programs { folder, user })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// `None` when we are somebody who may run the server.
    pub(crate) const fn user(&self) -> Option<ServerUser> {
        self.user
    }

    /// One of them, to be run in this directory by a user who may.
    pub(crate) fn command(&self, program: &str, directory: &Path) -> Command {
        self.foreign_command(self.folder.join(program), directory)
    }

    /// A program that is not PostgreSQL's, run like one.
    pub(crate) fn foreign_command(&self, program: impl AsRef<OsStr>, directory: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(directory).stdin(Stdio::null()).env("LC_ALL", "C");
        // What points our user's own clients elsewhere.
        for (name, _) in env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        if let Some(ServerUser { user, group }) = self.user {
            command.uid(user).gid(group);
        }
        command
    }
}

/// Runs a command to its end. Answers what it wrote.
pub(crate) fn run(command: &mut Command) -> Result<String, ClusterError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(ClusterError::system(format!("run {program}")))?;
    let written = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(written.trim_end_matches('\n').to_owned());
    }
    let said = format!("{written}{}", String::from_utf8_lossy(&output.stderr)).trim().to_owned();
    Err(ClusterError::Failed { program, status: output.status, said })
}

/// The first folder on the path that has them all, else the one of the newest version.
fn find_folder(path: &OsStr, versions: &Path) -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| NEEDED.iter().all(|name| folder.join(name).is_file());
    let version = |entry: fs::DirEntry| {
        let number: u32 = entry.file_name().to_str()?.split('.').next()?.parse().ok()?;
        Some((number, entry.path().join("bin")))
    };
    env::split_paths(path).find(has_all).or_else(|| {
        let installed = fs::read_dir(versions).ok()?.flatten().filter_map(version);
        installed.filter(|(_, folder)| has_all(folder)).max().map(|(_, folder)| folder)
    })
}

/// From a list in the form of `/etc/passwd`.
fn choose_user(users: &str) -> Option<ServerUser> {
    let find = |name| {
        let mut fields =
            users.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(name))?;
        // name:password:user:group:…
        Some(ServerUser { user: fields.nth(2)?.parse().ok()?, group: fields.next()?.parse().ok()? })
    };
    find("postgres").or_else(|| find("nobody"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_first_and_else_in_the_newest_version() {
        let root = tempfile::tempdir().expect("a directory");
        let place = |folder: &str| {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).expect("a new folder");
            NEEDED.iter().for_each(|name| fs::write(folder.join(name), "").expect("a new file"));
            folder
        };
        let versions = root.path().join("versions");
        assert_eq!(find_folder(OsStr::new("/nowhere"), &versions), None);
        place("versions/9.6/bin");
        let newest = place("versions/17/bin");
        // A client alone, as distributions put it on the path.
        fs::create_dir(root.path().join("usr")).expect("a new folder");
        fs::write(root.path().join("usr/psql"), "").expect("a new file");
        let path = env::join_paths([root.path().join("usr"), root.path().join("local")]).expect("a path");
        assert_eq!(find_folder(&path, &versions), Some(newest));
        let local = place("local");
        assert_eq!(find_folder(&path, &versions), Some(local));
    }

    #[test]
    fn root_hands_the_server_to_postgres_or_to_nobody() {
        let (root, nobody) =
            ("root:x:0:0:root:/root:/bin/bash\n", "nobody:x:65534:65533:nobody:/:/usr/sbin/nologin\n");
        let postgres = "postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(choose_user(root), None);
        assert_eq!(choose_user(&[root, nobody].concat()), Some(ServerUser { user: 65534, group: 65533 }));
        assert_eq!(
            choose_user(&[root, nobody, postgres].concat()),
            Some(ServerUser { user: 101, group: 104 })
        );
    }
}
