//! A million members: what a check looks at, and that nobody is missed.

use detect::Pinged;
use model::WorkerKey;

use crate::support::{Bench, NOBODY, key};

const MEMBERS: usize = 1_000_000;

#[test]
fn a_million_members_cost_only_what_is_due() {
    let bench = Bench::new(MEMBERS);
    let members: Vec<WorkerKey> = (0..MEMBERS).map(|number| key(&format!("worker-{number:07}"))).collect();
    let third = MEMBERS.div_ceil(3);
    // They come in three parts, one check interval apart.
    for part in members.chunks(third) {
        for member in part {
            assert_eq!(bench.detector.ping(member), Pinged::Registered);
        }
        assert_eq!(bench.detector.check_now().looked_at, 0, "nobody can be dead yet");
        bench.pass(5_000);
    }
    assert_eq!(bench.detector.count(), MEMBERS);

    // From here on everybody pings in turn but ten, who are silent from the beginning.
    let is_silent = |number: usize| number % (MEMBERS / 10) == 17;
    for round in 0..4 {
        for (number, member) in members.iter().enumerate().filter(|(number, _)| number / third == round % 3) {
            if !is_silent(number) {
                bench.detector.ping(member);
            }
        }
        bench.pass(1);
        // The part that pinged a whole timeout ago is due, whether or not it has pinged since.
        let looked_at = bench.detector.check_now().looked_at;
        assert!(looked_at <= third as u64, "check {round} looked at {looked_at}");
        bench.pass(4_999);
    }
    let silent: Vec<&str> =
        (0..MEMBERS).filter(|number| is_silent(*number)).map(|number| members[number].as_str()).collect();
    assert_eq!(bench.dead(), silent);
    assert_eq!(bench.detector.count(), MEMBERS - silent.len());
    bench.detector.check_now();
    assert_eq!(bench.dead(), NOBODY);
}
