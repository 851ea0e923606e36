//! A closer look after a death.

use std::time::Duration;

use super::hand::Hand;
use super::world::node;
use crate::{Config, Message, Status};

const STEPS_PER_SECOND: u32 = 20;

/// How many members are pinged in each of six seconds. All of them answer.
fn pings_by_second(hand: &mut Hand) -> [usize; 6] {
    std::array::from_fn(|_| {
        let mut pings = 0;
        for _ in 0..STEPS_PER_SECOND {
            hand.pass(Duration::from_secs(1) / STEPS_PER_SECOND);
            for packet in std::mem::take(&mut hand.sent) {
                // A known address is contacted too, and so are the dead.
                if let Message::Ping { number } = packet.message
                    && packet.to.epoch.0 == 1
                    && packet.to.id.0 != 2
                {
                    pings += 1;
                    hand.hear(packet.to, Message::Ack { number }, Vec::new());
                }
            }
            hand.hear(node(1, 1), Message::Gossip, Vec::new());
        }
        pings
    })
}

#[test]
fn after_a_death_more_members_are_pinged_for_a_few_periods() {
    // The algorithm, what is heard of node 2, and the least and the most pings in the first two of six seconds, and in the
    // last two.
    let table = [
        ("a death", Config::lan(), Some(Status::Dead), (7, 9), (2, 2)),
        ("a judgement", Config::lan(), Some(Status::Unreliable), (7, 9), (2, 2)),
        ("nobody died", Config::lan(), None, (2, 2), (2, 2)),
        ("only suspected", Config::lan(), Some(Status::Suspect), (2, 2), (2, 2)),
        ("one left", Config::lan(), Some(Status::Left), (2, 2), (2, 2)),
        ("plain, a death", Config::plain_swim(), Some(Status::Dead), (2, 2), (2, 2)),
    ];
    for (name, config, said, early, late) in table {
        let mut hand = Hand::new(config, 30);
        if let Some(status) = said {
            hand.rumour(2, 1, 0, status);
        }
        hand.sent.clear();
        let pings = pings_by_second(&mut hand);
        let (first, last) = (pings[0] + pings[1], pings[4] + pings[5]);
        assert!((early.0..=early.1).contains(&first), "{name}: {pings:?}");
        assert!((late.0..=late.1).contains(&last), "{name}: {pings:?}");
    }
}
