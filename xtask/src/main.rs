//! The project's own commands. `cargo xtask help` lists them.
//!
//! Plain std and plain cargo: whoever has a Rust toolchain can run everything. `test` is what every change must pass.

mod apt;
mod chromium;
mod dist;
mod fnv;
mod instructions;
mod postgres;
mod steps;
mod tidy;

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use steps::{Failed, Steps};

const HELP: &str = "\
cargo xtask COMMAND

  test [--no-lint] [-- FILTER]   what every change must pass: format, clippy, tidy, postgres, chromium, build, tests
                                 --no-lint leaves out format, clippy and tidy; FILTER chooses tests by name
  ci                             test, and the documentation without warnings
  tidy                           layers, module headers, forbidden words, file lengths, generated code
  soak                           the long forms: 10,000 simulated seeds (TENURE_SOAK_SEEDS), 20,000 clusters, the muster at random and in
                                 every way, then the process tests, over and over (TENURE_SOAK_ROUNDS, default 200), attacks by the
                                 hundred thousand, and five minutes of chaos among servers on one PostgreSQL (TENURE_SOAK_SECONDS,
                                 default 300). Simulations begin at new seeds each time, and print the first (TENURE_SOAK_FIRST_SEED)
  instructions                   CPU instructions of one heartbeat in the registry, counted by callgrind
  postgres                       finds PostgreSQL's server binaries for the process tests; installs them on Debian, as root
  chromium                       finds Chromium for the tests with hostile web pages; installs it on Debian, as root
  codegen                        writes crates/rpc/src/generated from the .proto file
  dist                           builds the release binary without the paths of this machine in it
  help                           this text
";

/// How often the process tests repeat themselves in a soak; ten times what they do by themselves.
const SOAK_ROUNDS_DEFAULT: &str = "200";
/// How long servers die and freeze at random in a soak.
const SOAK_SECONDS_DEFAULT: &str = "300";
/// Simulated seeds in a soak, of twenty minutes each.
const SOAK_SEEDS_DEFAULT: &str = "10000";
/// Simulated clusters in a soak.
const SOAK_MEMBER_SEEDS_DEFAULT: &str = "20000";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["test", options @ ..] => match TestOptions::parse(options) {
            Some(options) => test("test", &options).map(Steps::summarise),
            None => return usage(),
        },
        ["ci"] => ci(),
        ["tidy"] => tidy::check(root()),
        ["soak"] => soak(),
        ["instructions"] => count_instructions(),
        ["postgres"] => postgres::ensure(root()),
        ["chromium"] => chromium::ensure(root()),
        ["codegen"] => codegen(),
        ["dist"] => dist::run(root()),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => return usage(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("\n{failed}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct TestOptions {
    no_lint: bool,
    /// Handed to the test programs.
    filter: Vec<String>,
}

impl TestOptions {
    fn parse(args: &[&str]) -> Option<Self> {
        let mut options = TestOptions::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--no-lint" => options.no_lint = true,
                "--" => options.filter = args.by_ref().map(|arg| (*arg).to_owned()).collect(),
                _ => return None,
            }
        }
        Some(options)
    }
}

fn test(name: &'static str, options: &TestOptions) -> Result<Steps, Failed> {
    let mut steps = Steps::new(name, root());
    if !options.no_lint {
        steps.cargo("format", &["fmt", "--all", "--check"], &[])?;
        steps.cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
        steps.own("tidy", tidy::check)?;
    }
    steps.own("postgres", postgres::ensure)?;
    steps.own("chromium", chromium::ensure)?;
    // The process tests start the binary, which no test target builds. Built with the tests it shares what they depend on; by
    // itself it would have all of that again, with other features.
    steps.cargo("build", &["build", "--workspace", "--all-targets"], &[])?;
    let mut tests = vec!["test", "--workspace"];
    if !options.filter.is_empty() {
        tests.push("--");
        tests.extend(options.filter.iter().map(String::as_str));
    }
    steps.cargo("tests", &tests, &[])?;
    Ok(steps)
}

fn ci() -> Result<(), Failed> {
    let mut steps = test("ci", &TestOptions::default())?;
    steps.cargo("documentation", &["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    steps.summarise();
    Ok(())
}

fn soak() -> Result<(), Failed> {
    println!(
        "The long forms live here: what `test` does once, `soak` does over and over, on an optimised build."
    );
    let rounds = env::var("TENURE_SOAK_ROUNDS").unwrap_or_else(|_| SOAK_ROUNDS_DEFAULT.to_owned());
    let seeds = env::var("TENURE_SOAK_SEEDS").unwrap_or_else(|_| SOAK_SEEDS_DEFAULT.to_owned());
    // New worlds each time, which can be told again.
    let first_seed = env::var("TENURE_SOAK_FIRST_SEED").unwrap_or_else(|_| new_seed());
    println!("soak: TENURE_SOAK_FIRST_SEED={first_seed}");
    let mut steps = Steps::new("soak", root());
    // Looked for first, since the simulation takes long.
    steps.own("postgres", postgres::ensure)?;
    steps.own("chromium", chromium::ensure)?;
    let first = ["--first-seed", first_seed.as_str()];
    let world = ["run", "--release", "-p", "cli", "--", "sim", "jobs", "--seeds", &seeds];
    let world = [&world[..], &first].concat();
    steps.cargo("simulation", &world, &[])?;
    let members =
        env::var("TENURE_SOAK_MEMBER_SEEDS").unwrap_or_else(|_| SOAK_MEMBER_SEEDS_DEFAULT.to_owned());
    let world =
        ["run", "--release", "-p", "cli", "--", "sim", "swim", "--experiment", "laws", "--seeds", &members];
    let world = [&world[..], &first].concat();
    steps.cargo("membership", &world, &[])?;
    for (name, world) in [
        ("muster", &["--seeds", &seeds, "--first-seed", &first_seed][..]),
        ("muster of 10,000", &["--seeds", "20", "--workers", "10000", "--first-seed", &first_seed]),
        ("muster, all of 2x2", &["--model", "2x2"]),
        ("muster, much of 3x1", &["--model", "3x1", "--states", "50000000"]),
    ] {
        let run = ["run", "--release", "-p", "cli", "--", "sim", "muster"];
        steps.cargo(name, &[&run[..], world].concat(), &[])?;
    }
    let processes = ["test", "--release", "-p", "cli", "--test", "it"];
    steps.cargo("processes", &processes, &[("TENURE_SOAK_ROUNDS", &rounds)])?;
    let attacks = ["test", "--release", "-p", "cli", "--test", "it", "attacks", "--", "--nocapture"];
    steps.cargo("attacks", &attacks, &[("TENURE_SOAK_ATTACKS", "1")])?;
    let seconds = env::var("TENURE_SOAK_SECONDS").unwrap_or_else(|_| SOAK_SECONDS_DEFAULT.to_owned());
    let servers = ["test", "--release", "-p", "cli", "--test", "on_postgres", "--", "--nocapture"];
    let lengths = [("TENURE_SOAK_SECONDS", seconds.as_str()), ("TENURE_SOAK_STALL", "60")];
    steps.cargo("servers", &servers, &lengths)?;
    steps.summarise();
    Ok(())
}

/// Seeds that no soak before began with, with room for this one.
fn new_seed() -> String {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since_1970.as_secs() * 1_000).to_string()
}

fn count_instructions() -> Result<(), Failed> {
    let mut steps = Steps::new("instructions", root());
    steps.cargo("build", &["build", "--release", "-p", "cli"], &[])?;
    steps.own("instructions", instructions::measure)?;
    steps.summarise();
    Ok(())
}

fn codegen() -> Result<(), Failed> {
    let mut steps = Steps::new("codegen", root());
    steps.cargo("codegen", &["run", "--quiet", "--manifest-path", "tools/codegen/Cargo.toml"], &[])
}

fn usage() -> ExitCode {
    eprint!("{HELP}");
    ExitCode::from(2)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_options_are_few_and_the_rest_is_the_filter() {
        let parse = |text: &str| TestOptions::parse(&text.split_whitespace().collect::<Vec<_>>());
        let options = |no_lint, filter: &[&str]| {
            Some(TestOptions { no_lint, filter: filter.iter().map(|word| (*word).to_owned()).collect() })
        };
        assert_eq!(parse(""), options(false, &[]));
        assert_eq!(parse("--no-lint -- lease --exact"), options(true, &["lease", "--exact"]));
        assert_eq!(parse("-- --no-lint"), options(false, &["--no-lint"]));
        assert_eq!(parse("lease"), None);
    }
}
