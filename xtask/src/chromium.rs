//! Chromium, with which the process tests open hostile web pages. Found, or installed as [`apt`] does it.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::apt;
use crate::steps::Failed;

/// The names it goes by; the tests look for the same.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Sees to it that it is there.
pub(crate) fn ensure(_root: &Path) -> Result<(), Failed> {
    let search = || find(&env::var_os("PATH").unwrap_or_default());
    if search().is_none() {
        apt::install("chromium").map_err(|why| refusal(&why))?;
    }
    let found = search().ok_or_else(|| refusal("apt-get installed something else"))?;
    println!("Chromium is {}", found.display());
    Ok(())
}

fn find(path: &OsStr) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(path).collect();
    let files = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

fn refusal(why: &str) -> Failed {
    Failed(format!(
        "the process tests need Chromium ({}) on the path, and {why}; install it by hand",
        NAMES.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_missing_and_why() {
        assert_eq!(find(OsStr::new("/nowhere")), None);
        let refused = refusal("this is not Debian").0;
        for part in ["chromium, chromium-browser", "this is not Debian", "by hand"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
