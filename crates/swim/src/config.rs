//! How a cluster watches itself. All nodes must agree on this.

use std::time::Duration;

/// How often a node says good-bye: once for each tick of gossip.
pub(crate) const GOODBYES: u32 = 3;

/// Which algorithm, and its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Names the set of values.
    pub profile: Profile,
    /// How often a node probes another: one probe for each period. Everything else is measured by it.
    pub period: Duration,
    /// How long a direct probe may take before helpers are asked; well above the round trip, below the period.
    pub probe_timeout: Duration,
    /// How many helpers are asked to probe, each with a nack.
    pub helpers: usize,
    /// Whether a probe without an answer is repeated over a stream, beside the helpers.
    pub stream_ping: bool,
    /// How long a stream exchange may take.
    pub stream_timeout: Duration,
    /// How long a suspicion lasts.
    pub suspicion: Suspicion,
    /// Whether observers must agree; without, a suspicion that nobody contradicts in time is a verdict.
    pub opinions: Option<Opinions>,
    /// How far doubt in ourselves can stretch our interval and timeouts: at most by this many times more. 0: never.
    pub health_max: u32,
    /// Whether a suspect is told first of all, in the very ping that probes it.
    pub buddy: bool,
    /// How news spreads.
    pub gossip: Gossip,
    /// How views are compared.
    pub sync: Sync,
    /// How often one of the dead, or a seed, is contacted, so that two halves find each other again.
    pub reach_out_every: Duration,
    /// After how long the dead are forgotten.
    pub forget_dead_after: Duration,
    /// After how long those who left are forgotten; longer than any rumour lives.
    pub forget_left_after: Duration,
    /// How long a node that comes back from the dead should get no work.
    pub probation: Duration,
    /// How long a node is not believed that was taken for dead again and again.
    pub hold_down: Duration,
    /// How long a node is not believed that was taken for dead as unreliable, unless somebody vouches for it before.
    pub hold_down_max: Duration,
    /// How often whoever condemned a node that is not believed since asks whether it answers by now.
    pub review_every: Duration,
    /// How many suspicions a node may raise in a period (more wait); a quarter of the members at once: it suspects itself.
    pub accusations_per_period: u32,
    /// Most members; further ones are not taken in.
    pub members_max: usize,
    /// Largest datagram.
    pub datagram_bytes_max: usize,
    /// What only [`Profile::Classic`] uses.
    pub classic: ClassicTimes,
}

/// Names a set of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Period 1 s: machines of one site.
    Lan,
    /// Period 200 ms.
    Fast,
    /// Period 3 s: sites far apart.
    Wan,
    /// The five steps on a fixed tick, without rumours: every node finds out alone.
    Classic,
}

/// Times of the five steps, besides the tick (`period`) and the direct probe's (`probe_timeout`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicTimes {
    /// How long helpers may take.
    pub helper_timeout: Duration,
    /// How long a suspicion lasts.
    pub suspicion: Duration,
}

/// How long a suspicion lasts: between `min = alpha · max(1, log10 n) · period` and `beta · min`, shorter with each
/// independent confirmation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspicion {
    /// Scales the least time.
    pub alpha: f64,
    /// Scales the longest.
    pub beta: f64,
    /// How many confirmations bring it down to the least.
    pub confirmations: u32,
}

/// Second opinions: whom to ask, and how many must agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opinions {
    /// How many observers a node has, chosen by hash: all nodes choose the same.
    pub observers: usize,
    /// The share of all voters (the observers, and who asks them) that makes a suspicion (L), in hundredths.
    pub suspect_percent: u32,
    /// The share of all voters that makes a verdict (H), in hundredths; when time is over, of those who answered.
    pub condemn_percent: u32,
    /// How often an observer pings.
    pub pings: u32,
    /// How long from one of these pings to the next.
    pub ping_every: Duration,
    /// It is good if at least this many are answered.
    pub good_at: u32,
}

/// How news spreads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gossip {
    /// How often, while there is news.
    pub every: Duration,
    /// To how many.
    pub fanout: usize,
    /// An update is sent `retransmit · ⌈log10(n + 1)⌉` times.
    pub retransmit: u32,
}

/// How views are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sync {
    /// How often with somebody, whatever the digests say.
    pub every: Duration,
    /// How long a digest may differ from ours, with no news on the way, before views are compared.
    pub differs_for: Duration,
    /// Least time between two comparisons that we begin.
    pub pause: Duration,
}

impl Config {
    /// Machines of one site: period 1 s.
    pub fn lan() -> Self {
        Self::with_period(Profile::Lan, Duration::from_secs(1))
    }

    /// As [`lan`](Self::lan), five times as fast.
    pub fn fast() -> Self {
        Self::with_period(Profile::Fast, Duration::from_millis(200))
    }

    /// Sites far apart: period 3 s.
    pub fn wan() -> Self {
        Self::with_period(Profile::Wan, Duration::from_secs(3))
    }

    /// The five steps: tick 2 s, direct probe 5 s, three helpers 3 s, suspicion 10 s.
    pub fn classic() -> Self {
        Config {
            probe_timeout: Duration::from_secs(5),
            opinions: None,
            ..Self::with_period(Profile::Classic, Duration::from_secs(2))
        }
    }

    /// SWIM as the Lifeguard paper measured it: no local health, no opinions, α = 5, β = 1.
    pub fn plain_swim() -> Self {
        Config {
            suspicion: Suspicion { alpha: 5.0, beta: 1.0, confirmations: 0 },
            opinions: None,
            health_max: 0,
            buddy: false,
            ..Self::lan()
        }
    }

    /// Lifeguard with these α and β, and nothing else of ours.
    pub fn lifeguard(alpha: f64, beta: f64) -> Self {
        Config { suspicion: Suspicion { alpha, beta, confirmations: 3 }, opinions: None, ..Self::lan() }
    }

    /// How long a node says good-bye when it leaves.
    pub fn farewell_time(&self) -> Duration {
        self.gossip.every * GOODBYES
    }

    fn with_period(profile: Profile, period: Duration) -> Self {
        Config {
            profile,
            period,
            probe_timeout: period / 2,
            helpers: 3,
            stream_ping: true,
            stream_timeout: (period * 2).max(Duration::from_secs(1)),
            suspicion: Suspicion { alpha: 4.0, beta: 6.0, confirmations: 3 },
            opinions: Some(Opinions {
                observers: 10,
                suspect_percent: 30,
                condemn_percent: 70,
                // At 30 % loss each way half of the pings are answered, at 80 % one way a fifth: five of sixteen tells them
                // apart (4 % and 80 % are found bad).
                pings: 16,
                ping_every: period / 8,
                good_at: 5,
            }),
            health_max: 8,
            buddy: true,
            gossip: Gossip { every: period / 5, fanout: 3, retransmit: 4 },
            sync: Sync { every: Duration::from_secs(30), differs_for: period * 2, pause: period / 2 },
            reach_out_every: period * 5,
            forget_dead_after: Duration::from_secs(24 * 3600),
            forget_left_after: Duration::from_secs(10 * 60),
            probation: period * 5,
            hold_down: period * 60,
            hold_down_max: period * 240,
            review_every: period * 10,
            accusations_per_period: 8,
            members_max: 16_384,
            datagram_bytes_max: 1_400,
            classic: ClassicTimes {
                helper_timeout: Duration::from_secs(3),
                suspicion: Duration::from_secs(10),
            },
        }
    }
}
