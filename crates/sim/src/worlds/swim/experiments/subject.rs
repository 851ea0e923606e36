//! What is put to the test, and how much of it. Every experiment takes any protocol, so that others can be measured by
//! the same rule.

use std::num::NonZeroUsize;
use std::time::Duration;

use swim::{Config, Suspicion};

use crate::run;
use crate::trace::Trace;
use crate::worlds::swim::machine::{Settings, SwimNode};
use crate::worlds::swim::protocol::{Protocol, Watch};
use crate::worlds::swim::world::{Setup, World};

/// A protocol with its settings.
pub struct Subject<P: Protocol> {
    /// Its name in tables.
    pub name: String,
    /// How often a node probes another.
    pub period: Duration,
    /// Its settings, for so many nodes.
    pub settings: Box<dyn Fn(u32) -> P::Settings + Send + Sync>,
}

/// How much of it.
#[derive(Clone, Debug)]
pub struct Amount {
    /// How many worlds.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// How many nodes, one row for each.
    pub nodes: Vec<u32>,
    /// Over how many threads.
    pub threads: Option<NonZeroUsize>,
}

/// Hears how many worlds are done, and of how many.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

impl<P: Protocol> Subject<P> {
    /// A world with it.
    pub fn world<W: Watch<P>>(&self, setup: Setup, watch: W) -> World<'static, P, W> {
        let settings = (self.settings)(setup.nodes);
        World::new(setup, settings, watch, Trace::silent())
    }
}

impl Subject<SwimNode> {
    /// Our machine with this configuration.
    pub fn swim(name: impl Into<String>, config: Config) -> Self {
        let period = config.period;
        let settings = Box::new(move |nodes| Settings::new(config.clone(), nodes, 0));
        Subject { name: name.into(), period, settings }
    }

    /// One of the named configurations, with another α and β if given.
    pub fn named(name: &str, alpha: Option<f64>, beta: Option<f64>) -> Option<Self> {
        let mut config = match name {
            "lan" => Config::lan(),
            "fast" => Config::fast(),
            "wan" => Config::wan(),
            "classic" => Config::classic(),
            "swim" => Config::plain_swim(),
            "lifeguard" => Config::lifeguard(5.0, 6.0),
            _ => return None,
        };
        let Suspicion { alpha: usual_alpha, beta: usual_beta, .. } = config.suspicion;
        config.suspicion.alpha = alpha.unwrap_or(usual_alpha);
        config.suspicion.beta = beta.unwrap_or(usual_beta);
        Some(Self::swim(name, config))
    }

    /// One that asks for second opinions, made to take as long as plain SWIM: its observers measure for longer.
    pub fn patient(name: &str) -> Option<Self> {
        let mut config = match name {
            "lan" => Config::lan(),
            "fast" => Config::fast(),
            "wan" => Config::wan(),
            _ => return None,
        };
        let opinions = config.opinions.as_mut()?;
        // As many more pings as fit into the time that plain SWIM waits longer.
        opinions.pings = PATIENT_PINGS;
        Some(Self::swim(format!("{name}, patient"), config))
    }
}

/// Eight to ten seconds of pings at a period of one second.
const PATIENT_PINGS: u32 = 40;

/// The names of [`Subject::named`].
pub const PROFILES: [&str; 6] = ["lan", "fast", "wan", "classic", "swim", "lifeguard"];

impl Amount {
    /// Runs all seeds for each of the numbers of nodes; the results by number of nodes, in the order of the seeds.
    pub fn run<R: Send>(
        &self,
        progress: &mut Progress<'_>,
        one: impl Fn(u32, u64) -> R + Sync,
    ) -> Vec<(u32, Vec<R>)> {
        let total = self.seeds * self.nodes.len() as u64;
        let mut done = 0;
        let mut all = Vec::new();
        for nodes in self.nodes.iter().copied() {
            let mut results = Vec::new();
            run::seeds(
                self.first_seed,
                self.seeds,
                self.threads,
                |seed| one(nodes, seed),
                |_, result| {
                    results.push(result);
                    done += 1;
                    progress(done, total);
                },
            );
            all.push((nodes, results));
        }
        all
    }
}
