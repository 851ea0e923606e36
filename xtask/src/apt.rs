//! Packages that the process tests need besides Rust, installed where that is ours to do: on Debian, as root.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

/// Installs the package; else the reason why not.
pub(crate) fn install(package: &str) -> Result<(), String> {
    // The owner of this very process, as std does not say who we are.
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        return Err("installing it needs root".to_owned());
    }
    if !Path::new("/etc/debian_version").exists() {
        return Err("this is not Debian".to_owned());
    }
    println!("{package} is missing; trying apt-get");
    for args in [&["update", "-qq"][..], &["install", "-y", "-qq", "--no-install-recommends", package]] {
        let status = Command::new("apt-get").args(args).env("DEBIAN_FRONTEND", "noninteractive").status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("`apt-get {}` failed", args.join(" ")));
        }
    }
    Ok(())
}
