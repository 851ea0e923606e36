//! Seats: a stable place that one instance at a time may sit in, and who gets it when two want it.
//!
//! On one machine the later start is the successor, whatever it finds. Another machine gets the seat only when nothing can be
//! running there any more, unless the operator prefers a quick replacement of whoever is not healthy. Who loses its seat is
//! renewed no more, but counts, with all it runs, until it is dead for certain.

use model::Seat;

use crate::health::Health;

/// What an instance says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The seat that it wants.
    pub seat: Option<Seat>,
    /// Its machine and port.
    pub host: String,
    /// When it started by its own wall clock, in microseconds.
    pub started_us: u64,
}

/// Who gets the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contest {
    /// The newcomer.
    Newcomer,
    /// The sitter, which is a later start on the same machine.
    LaterStart,
    /// The sitter, which is on another machine.
    OtherMachine,
}

/// Decides between an instance that is new and the one that sits there.
///
/// Two keys with one start are one process that gave up its earlier key, so the newcomer is the later one.
pub fn contest(
    newcomer: &About,
    sitter: &About,
    sitter_health: Health,
    allow_bump_unhealthy: bool,
) -> Contest {
    if newcomer.host == sitter.host {
        return if newcomer.started_us >= sitter.started_us {
            Contest::Newcomer
        } else {
            Contest::LaterStart
        };
    }
    match sitter_health {
        Health::MustDie => Contest::Newcomer,
        Health::New | Health::Unhealthy(_) if allow_bump_unhealthy => Contest::Newcomer,
        Health::New | Health::Unhealthy(_) | Health::Healthy => Contest::OtherMachine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Unhealthy;

    fn instance(host: &str, started_us: u64) -> About {
        About { seat: Some(Seat::new("s").unwrap()), host: host.into(), started_us }
    }

    const UNHEALTHY: Health = Health::Unhealthy(Unhealthy::Silent);

    #[test]
    fn on_one_machine_the_later_start_sits() {
        for health in [Health::New, UNHEALTHY, Health::Healthy, Health::MustDie] {
            for allow in [false, true] {
                let with =
                    |started_us| contest(&instance("a", started_us), &instance("a", 10), health, allow);
                assert_eq!(with(11), Contest::Newcomer);
                assert_eq!(with(10), Contest::Newcomer);
                assert_eq!(with(9), Contest::LaterStart);
            }
        }
    }

    #[test]
    fn another_machine_waits_for_the_sitters_death() {
        for started_us in [9, 11] {
            let with = |health, allow| contest(&instance("b", started_us), &instance("a", 10), health, allow);
            assert_eq!(with(Health::MustDie, false), Contest::Newcomer);
            assert_eq!(with(Health::New, false), Contest::OtherMachine);
            assert_eq!(with(UNHEALTHY, false), Contest::OtherMachine);
            assert_eq!(with(Health::Healthy, false), Contest::OtherMachine);
            assert_eq!(with(Health::New, true), Contest::Newcomer);
            assert_eq!(with(UNHEALTHY, true), Contest::Newcomer);
            assert_eq!(with(Health::Healthy, true), Contest::OtherMachine);
        }
    }
}
