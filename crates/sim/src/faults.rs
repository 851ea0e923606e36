//! The menu of what can go wrong, and how much of it one world gets.
//!
//! A world with every fault at once rarely gets anywhere, and one fault hides another. So each seed enables a random
//! part of the menu, each with a rate of its own (swarm testing). A run has two phases: faults, during which nothing
//! unsafe may ever happen; then calm, in which everything that was promised must happen within a bound.

use std::time::Duration;

use crate::rng::Rng;

/// Something that goes wrong. A world reads from it what applies to it, and picks the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A process dies and comes back after a while, without its memory.
    Crash,
    /// A machine goes dark: like a crash, but nobody is told.
    PowerLoss,
    /// Many processes of a kind restart together.
    MassRestart,
    /// A server dies and does not come back for long, or ever.
    ServerLost,
    /// Servers fail one after the other.
    InTurn,
    /// A server is asked to go, goes in good order, and comes back after a while.
    GracefulStop,
    /// A process is stopped for a fraction of a second, again and again.
    Stutter,
    /// A process is stopped, for up to several leases.
    Pause,
    /// A process has hardly any CPU for a while.
    SlowCpu,
    /// A connection breaks.
    Break,
    /// A node is cut off in one direction.
    BlockOneWay,
    /// A node is cut off in both directions.
    Block,
    /// A direction is cut and healed again and again.
    FlipFlop,
    /// A node's messages take long.
    DelaySpikes,
    /// The store does nothing for a while; what it was asked is done afterwards.
    StoreStall,
    /// The store takes long over some calls for a while, so that others overtake them.
    StoreSlow,
    /// The store refuses some calls for a while.
    StoreErrors,
    /// The store does some of what it is asked but the answer is lost, for a while.
    StoreLostAcks,
    /// The store takes many seconds over some calls for a while, before or after it has done them.
    StoreLate,
    /// The store cannot be reached by one of its users, whom all others can reach.
    StoreCut,
    /// The wall clock is stepped, by up to a day in either direction.
    WallStep,
}

impl Fault {
    /// The menu.
    pub const ALL: [Fault; 21] = [
        Fault::Crash,
        Fault::PowerLoss,
        Fault::MassRestart,
        Fault::ServerLost,
        Fault::InTurn,
        Fault::GracefulStop,
        Fault::Stutter,
        Fault::Pause,
        Fault::SlowCpu,
        Fault::Break,
        Fault::BlockOneWay,
        Fault::Block,
        Fault::FlipFlop,
        Fault::DelaySpikes,
        Fault::StoreStall,
        Fault::StoreSlow,
        Fault::StoreErrors,
        Fault::StoreLostAcks,
        Fault::StoreLate,
        Fault::StoreCut,
        Fault::WallStep,
    ];
}

/// Which faults a world gets, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    faults: Vec<(Fault, Duration)>,
}

impl Plan {
    /// Enables about half of the menu, each fault with a mean interval between these, short and long ones alike.
    pub fn draw(menu: &[Fault], rng: &mut Rng, often: Duration, seldom: Duration) -> Self {
        let chosen: Vec<Fault> = menu.iter().copied().filter(|_| rng.chance(0.5)).collect();
        let faults = chosen.into_iter().map(|fault| (fault, rng.span_of_any_size(often, seldom)));
        Plan { faults: faults.collect() }
    }

    /// All of these faults, each with this mean interval.
    pub fn of(faults: &[Fault], mean: Duration) -> Self {
        Plan { faults: faults.iter().map(|fault| (*fault, mean)).collect() }
    }

    /// The faults and their mean intervals.
    pub fn faults(&self) -> impl Iterator<Item = (Fault, Duration)> {
        self.faults.iter().copied()
    }
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Things go wrong; nothing unsafe may happen.
    Faults,
    /// Nothing goes wrong any more; what was promised must happen.
    Calm,
}

/// How long until a fault with this mean interval strikes again: anything up to twice that.
pub fn until_next(rng: &mut Rng, mean: Duration) -> Duration {
    rng.span(Duration::from_millis(1), mean * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_differ_and_every_fault_is_in_about_half_of_them() {
        let (often, seldom) = (Duration::from_secs(2), Duration::from_secs(60));
        let plans: Vec<Plan> = (0..400)
            .map(|seed| Plan::draw(&Fault::ALL, &mut Rng::stream(seed, 0, "plan"), often, seldom))
            .collect();
        for fault in Fault::ALL {
            let means: Vec<Duration> = plans
                .iter()
                .flat_map(Plan::faults)
                .filter(|(planned, _)| *planned == fault)
                .map(|(_, mean)| mean)
                .collect();
            assert!((150..250).contains(&means.len()), "{fault:?} is in {} of 400 plans", means.len());
            assert!(means.iter().all(|mean| (often..=seldom).contains(mean)));
            assert!(
                means.iter().any(|mean| *mean < often * 3) && means.iter().any(|mean| *mean > seldom / 2)
            );
        }
    }
}
