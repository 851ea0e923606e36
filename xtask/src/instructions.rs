//! Counts the instructions of one heartbeat in the registry, by callgrind: the same on every machine, whatever else it does.

use std::path::Path;
use std::process::Command;

use crate::steps::Failed;

/// Workers in the registry while it is measured.
const WORKERS: u32 = 1_000;
/// The difference between these two runs is the cost of the renewals, without that of the start.
const RENEWALS: [u64; 2] = [20_000, 120_000];
/// Jobs that each worker has bound, in turn.
const BOUND: [u32; 2] = [0, 100];
/// More than this for one renewal is too much.
const INSTRUCTIONS_MAX: f64 = 1_000.0;
/// How much more a renewal may cost with many bound jobs than with none.
const GROWTH_MAX: f64 = 1.1;

/// Measures the release build of the binary, which must be there.
pub(crate) fn measure(root: &Path) -> Result<(), Failed> {
    install_valgrind()?;
    let mut costs = Vec::new();
    for bound in BOUND {
        let each = per_turn(root, bound, &[])?;
        let making = per_turn(root, bound, &["--baseline"])?;
        println!(
            "{bound:>4} bound jobs: {:.0} instructions per renewal, {making:.0} to make the heartbeat",
            each - making
        );
        costs.push(each - making);
    }
    let growth = costs[1] / costs[0];
    println!("with {} bound jobs {growth:.3} times as many as with {}", BOUND[1], BOUND[0]);
    if costs.iter().any(|each| *each > INSTRUCTIONS_MAX) || growth > GROWTH_MAX {
        return Err(Failed(format!(
            "a renewal may take {INSTRUCTIONS_MAX} instructions and {GROWTH_MAX} times as many with bound jobs"
        )));
    }
    Ok(())
}

fn per_turn(root: &Path, bound: u32, more: &[&str]) -> Result<f64, Failed> {
    let [few, many] = RENEWALS;
    let difference = count(root, bound, many, more)? - count(root, bound, few, more)?;
    Ok(difference / (many - few) as f64)
}

/// All instructions of one run.
fn count(root: &Path, bound: u32, renewals: u64, more: &[&str]) -> Result<f64, Failed> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(target.join("release/tenure"))
        .args(["bench", "renewals", "--json"])
        .args(["--workers", &WORKERS.to_string(), "--bound", &bound.to_string()])
        .args(["--renewals", &renewals.to_string()])
        .args(more)
        .output()
        .map_err(|error| Failed(format!("failed to start valgrind: {error}")))?;
    let talk = String::from_utf8_lossy(&output.stderr);
    collected(&talk).ok_or_else(|| Failed(format!("valgrind did not count anything:\n{talk}")))
}

/// The number in valgrind's last words, such as `==7== Collected : 12345`.
fn collected(talk: &str) -> Option<f64> {
    talk.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

fn install_valgrind() -> Result<(), Failed> {
    if Command::new("valgrind").arg("--version").output().is_ok() {
        return Ok(());
    }
    println!("valgrind is not installed; trying apt-get");
    let installed = Command::new("apt-get").args(["install", "-y", "-qq", "valgrind"]).status();
    match installed {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failed("valgrind is needed and could not be installed; install it by hand".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_valgrind_says() {
        let talk = "==7== Callgrind\n==7== \n==7== Events    : Ir\n==7== Collected : 12345\n";
        assert_eq!(collected(talk), Some(12_345.0));
        assert_eq!(collected("no such tool"), None);
    }
}
