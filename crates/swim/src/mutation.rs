//! Deliberate bugs. The tests are only worth their name if they notice each of them.

/// A deliberate bug. Only tests and the simulator switch one on, with [`Machine::broken`](crate::Machine::broken).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutation {
    /// Evidence of a death does not raise the incarnation that is stored.
    IncarnationNotMonotone,
    /// A suspicion's time runs on after it was contradicted, and then condemns.
    SuspicionTimerIgnoresRefutation,
    /// A node that is told it is suspected or dead says nothing.
    NeverRefutes,
    /// Who left may come back in the same epoch.
    LeftForgotten,
    /// The dead still count in the digest, so nobody sees that a view lacks a verdict.
    DigestSkipsDeath,
    /// Datagrams take all the news there is.
    UnboundedPiggyback,
    /// The first failed probe condemns.
    OpinionsIgnored,
    /// Who hears nobody condemns all the same.
    DeafCondemns,
    /// An earlier start of a node replaces a later one.
    EpochIgnored,
    /// News is spread for ever.
    GossipForever,
    /// The dead are preferred as leaders too.
    LeaderIgnoresDeaths,
    /// Once in a cluster, neither known addresses nor the dead are ever contacted again.
    ForgetsSeeds,
    /// Who was unreliable, or died again and again, is believed at once.
    HoldDownSkipped,
    /// Waking from a long sleep, a node takes it that the others were silent.
    SleepCondemns,
    /// Who condemned a node vouches for it without asking anybody.
    VouchesUnseen,
    /// Each piece of news is sent to everybody at once.
    FloodsNews,
    /// That the event loop was late raises no doubt in ourselves.
    LagIgnored,
    /// What a member tells of itself later, and where it is then, is not taken in.
    InfoKept,
    /// That another is ahead in the control log is not told.
    MarkIgnored,
    /// A node that was expelled, or superseded by a later start, goes on.
    StaysExpelled,
    /// Who knows that its own links are bad measures as if they were not.
    BadLinksIgnored,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 21] = {
        use Mutation::*;
        [
            IncarnationNotMonotone,
            SuspicionTimerIgnoresRefutation,
            NeverRefutes,
            LeftForgotten,
            DigestSkipsDeath,
            UnboundedPiggyback,
            OpinionsIgnored,
            DeafCondemns,
            EpochIgnored,
            GossipForever,
            LeaderIgnoresDeaths,
            ForgetsSeeds,
            HoldDownSkipped,
            SleepCondemns,
            VouchesUnseen,
            FloodsNews,
            LagIgnored,
            InfoKept,
            MarkIgnored,
            StaysExpelled,
            BadLinksIgnored,
        ]
    };

    /// Its name on a command line.
    pub const fn word(self) -> &'static str {
        match self {
            Mutation::IncarnationNotMonotone => "incarnation_not_monotone",
            Mutation::SuspicionTimerIgnoresRefutation => "suspicion_timer_ignores_refutation",
            Mutation::NeverRefutes => "never_refutes",
            Mutation::LeftForgotten => "left_forgotten",
            Mutation::DigestSkipsDeath => "digest_skips_death",
            Mutation::UnboundedPiggyback => "unbounded_piggyback",
            Mutation::OpinionsIgnored => "opinions_ignored",
            Mutation::DeafCondemns => "deaf_condemns",
            Mutation::EpochIgnored => "epoch_ignored",
            Mutation::GossipForever => "gossip_forever",
            Mutation::LeaderIgnoresDeaths => "leader_ignores_deaths",
            Mutation::ForgetsSeeds => "forgets_seeds",
            Mutation::HoldDownSkipped => "hold_down_skipped",
            Mutation::SleepCondemns => "sleep_condemns",
            Mutation::VouchesUnseen => "vouches_unseen",
            Mutation::FloodsNews => "floods_news",
            Mutation::LagIgnored => "lag_ignored",
            Mutation::InfoKept => "info_kept",
            Mutation::MarkIgnored => "mark_ignored",
            Mutation::StaysExpelled => "stays_expelled",
            Mutation::BadLinksIgnored => "bad_links_ignored",
        }
    }
}
