//! `tenure sim replay`: one seed again, told event by event.

use anyhow::bail;
use clap::{Args as ClapArgs, ValueEnum};
use sim::law::Failure;
use sim::{jobs, muster, swim};

use crate::exit::Exit;
use crate::output::Output;

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// Which world
    #[arg(long, value_name = "WORLD", value_enum, default_value_t = Which::Jobs)]
    world: Which,
    /// Which seed
    #[arg(long, value_name = "S")]
    seed: u64,
    /// Virtual minutes of faults in the world of jobs, before the calm in which everything must end
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: u64,
    /// Periods of faults in the world of membership, before the calm in which all views must agree
    #[arg(long, value_name = "N", default_value_t = swim::Options::default().periods)]
    periods: u32,
    /// Workers in the largest worlds of muster
    #[arg(long, value_name = "N", default_value_t = muster::Options::default().workers_max)]
    workers: u32,
    /// Virtual seconds of faults in the world of muster, before the calm in which everything must end
    #[arg(long, value_name = "N", default_value_t = muster::Options::default().seconds)]
    seconds: u64,
    /// Put a deliberate bug into a machine, to see a law notice it; the names are those of the world
    #[arg(long, value_name = "NAME")]
    mutation: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Jobs, worker leases and rescue
    Jobs,
    /// Who is in the cluster
    Swim,
    /// Schedulers that keep no record
    Muster,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let mut told = Ok(());
    let mut line = |line: String| {
        if told.is_ok() {
            told = if output.is_json() { output.json(&line) } else { output.line(line) };
        }
    };
    let (failures, hash) = match args.world {
        Which::Jobs => {
            let mutation = known(args.mutation.as_deref(), jobs::Mutation::from_word)?;
            let options = jobs::Options { minutes: args.minutes, mutation, ..jobs::Options::default() };
            let report = jobs::replay(args.seed, &options, &mut line);
            (report.failures, report.trace_hash)
        }
        Which::Swim => {
            let mutation = known(args.mutation.as_deref(), swim::Mutation::from_word)?;
            let options = swim::Options { periods: args.periods, mutation, ..swim::Options::default() };
            let report = swim::replay(args.seed, &options, &mut line);
            (report.failures, report.trace_hash)
        }
        Which::Muster => {
            let mutation = known(args.mutation.as_deref(), muster::Mutation::from_word)?;
            let (workers_max, seconds) = (args.workers, args.seconds);
            let options = muster::Options { workers_max, seconds, mutation, ..muster::Options::default() };
            let report = muster::replay(args.seed, &options, &mut line);
            (report.failures, report.trace_hash)
        }
    };
    told?;
    for Failure { violation, .. } in &failures {
        output.note(format_args!("a law is broken: {violation}"));
    }
    output.note(format_args!("seed {}, trace {hash:016x}", args.seed));
    Ok(if failures.is_empty() { Exit::Done } else { Exit::Failed })
}

fn known<M>(word: Option<&str>, from_word: fn(&str) -> Option<M>) -> anyhow::Result<Option<M>> {
    let Some(word) = word else { return Ok(None) };
    match from_word(word) {
        None => bail!(crate::exit::Failure::usage(format!("this world has no mutation {word:?}"))),
        mutation => Ok(mutation),
    }
}
