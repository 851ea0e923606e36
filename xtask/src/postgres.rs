//! PostgreSQL's server binaries, which the process tests start a private cluster with. Found, or installed where that is ours to
//! do: on Debian, as root. Elsewhere it is for the person in front of it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::apt;
use crate::steps::Failed;

/// Where Debian keeps them, one folder per version, so that none of them is on the path.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";
/// What the tests start.
const NEEDED: [&str; 4] = ["initdb", "pg_ctl", "postgres", "psql"];

/// Sees to it that they are there.
pub(crate) fn ensure(_root: &Path) -> Result<(), Failed> {
    let search = || find(&env::var_os("PATH").unwrap_or_default(), Path::new(DEBIAN_VERSIONS));
    if search().is_none() {
        apt::install("postgresql").map_err(|why| refusal(&why))?;
    }
    let found = search().ok_or_else(|| refusal("apt-get installed something else"))?;
    println!("PostgreSQL's server binaries are in {}", found.display());
    Ok(())
}

/// The first folder on the path that has them all, else the one of the newest version.
fn find(path: &OsStr, versions: &Path) -> Option<PathBuf> {
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

fn refusal(why: &str) -> Failed {
    Failed(format!(
        "the process tests need PostgreSQL's server binaries ({}) on the path or in {DEBIAN_VERSIONS}/*/bin, and {why}; \
         install PostgreSQL by hand",
        NEEDED.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own with these files, removed when dropped.
    struct Files(PathBuf);

    impl Files {
        fn new(name: &str, files: &[&str]) -> Self {
            let root = env::temp_dir().join(format!("tenure-postgres-{}-{name}", std::process::id()));
            for file in files {
                let file = root.join(file);
                fs::create_dir_all(file.parent().expect("it lies in a folder")).expect("it can be made");
                fs::write(file, "").expect("it can be written");
            }
            Files(root)
        }

        fn find(&self) -> Option<PathBuf> {
            let path = env::join_paths([self.0.join("sbin"), self.0.join("usr")]).expect("plain names");
            Some(
                find(&path, &self.0.join("versions"))?.strip_prefix(&self.0).expect("in the tree").to_owned(),
            )
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            // Nothing depends on it being gone.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_newest_complete_version_is_found() {
        let all = |folder: &str| NEEDED.map(|name| format!("{folder}/{name}"));
        let mut files: Vec<String> = [all("versions/9.6/bin"), all("versions/15/bin")].concat();
        // A client alone, a folder that is no version, and a client on the path.
        files.extend(["versions/17/bin/psql", "versions/common/bin/initdb", "usr/psql"].map(str::to_owned));
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        assert_eq!(Files::new("newest", &files).find(), Some("versions/15/bin".into()));
    }

    #[test]
    fn a_complete_folder_on_the_path_comes_first_and_none_is_none() {
        let on_path = ["usr/initdb", "usr/pg_ctl", "usr/postgres", "usr/psql", "versions/15/bin/initdb"];
        let on_path = Files::new("path", &on_path);
        assert_eq!(on_path.find(), Some("usr".into()));
        assert_eq!(Files::new("none", &["versions/15/bin/initdb"]).find(), None);
    }

    #[test]
    fn a_refusal_says_what_is_missing_and_why() {
        let refused = refusal("this is not Debian").0;
        for part in
            ["initdb, pg_ctl, postgres, psql", "/usr/lib/postgresql/*/bin", "this is not Debian", "by hand"]
        {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
