//! Runs a command's steps one after the other: a header and the time for each, a summary at the end, and at the first
//! failure the command to repeat it by hand.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fmt};

/// A step went wrong; the text says how to repeat it.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The steps of one xtask command.
pub(crate) struct Steps {
    command: &'static str,
    root: &'static Path,
    begun: Instant,
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// No steps yet; they will run in `root`.
    pub(crate) fn new(command: &'static str, root: &'static Path) -> Self {
        Steps { command, root, begun: Instant::now(), done: Vec::new() }
    }

    /// Runs cargo with these arguments and environment.
    pub(crate) fn cargo(
        &mut self,
        step: &'static str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<(), Failed> {
        let by_hand = in_words(args, variables);
        self.step(step, &by_hand.clone(), |root| {
            let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let status =
                Command::new(cargo).args(args).envs(variables.iter().copied()).current_dir(root).status();
            match status {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(Failed(format!("{status}; to repeat: {by_hand}"))),
                Err(error) => Err(Failed(format!("failed to start cargo: {error}; to repeat: {by_hand}"))),
            }
        })
    }

    /// Runs one of our own commands as a step.
    pub(crate) fn own(
        &mut self,
        step: &'static str,
        check: fn(&Path) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let by_hand = format!("cargo xtask {step}");
        self.step(step, &by_hand.clone(), |root| {
            check(root).map_err(|failed| Failed(format!("{failed}; to repeat: {by_hand}")))
        })
    }

    /// Prints what was done and how long it took.
    pub(crate) fn summarise(self) {
        let steps: Vec<String> =
            self.done.iter().map(|(step, took)| format!("{step} {}", seconds(*took))).collect();
        println!(
            "\nxtask {}: passed in {} ({})",
            self.command,
            seconds(self.begun.elapsed()),
            steps.join(", ")
        );
    }

    fn step(
        &mut self,
        step: &'static str,
        by_hand: &str,
        run: impl FnOnce(&Path) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        println!("\n── {step}: {by_hand}");
        let begun = Instant::now();
        let outcome = run(self.root);
        let took = begun.elapsed();
        match outcome {
            Ok(()) => {
                println!("── {step} took {}", seconds(took));
                self.done.push((step, took));
                Ok(())
            }
            Err(why) => {
                let took = seconds(took);
                Err(Failed(format!("xtask {}: {step} FAILED after {took}: {why}", self.command)))
            }
        }
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

/// The command line as one would type it.
fn in_words(args: &[&str], variables: &[(&str, &str)]) -> String {
    let variables: String = variables.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    format!("{variables}cargo {}", args.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        Steps::new("test", Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    #[test]
    fn first_failure_says_how_to_repeat_it() {
        let failed =
            steps().cargo("nonsense", &["no-such-command"], &[("RUSTFLAGS", "-D warnings")]).unwrap_err();
        assert!(failed.0.starts_with("xtask test: nonsense FAILED after "), "{failed}");
        assert!(failed.0.ends_with("to repeat: RUSTFLAGS='-D warnings' cargo no-such-command"), "{failed}");
    }

    #[test]
    fn own_checks_are_steps_too() {
        let mut steps = steps();
        assert!(steps.own("tidy", |_| Ok(())).is_ok());
        let failed = steps.own("tidy", |_| Err(Failed("3 complaints".to_owned()))).unwrap_err();
        assert!(failed.0.ends_with("s: 3 complaints; to repeat: cargo xtask tidy"), "{failed}");
        assert_eq!(steps.done.len(), 1);
    }
}
