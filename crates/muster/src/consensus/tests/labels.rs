//! Labels against their meaning, told by brute force; and the history behind them.

use model::splitmix::SplitMix;

use super::*;
use crate::set::Version;

/// The sets themselves, and who said what.
#[derive(Default)]
struct Chronicle {
    sets: BTreeMap<u64, BTreeSet<u32>>,
    echoes: BTreeMap<u32, u64>,
    dead: BTreeSet<u32>,
}

impl Chronicle {
    fn note(&mut self, scene: &Scene) {
        let members = scene.consensus.members().map(|member| member.0).collect();
        self.sets.insert(scene.consensus.version().0, members);
        for member in scene.consensus.members() {
            if let Some(echoed) = scene.consensus.echo_of(member) {
                self.echoes.insert(member.0, echoed.0);
            }
        }
    }

    /// The oldest set that could ever agree and contains this worker: all of it lives, and nobody in it knows a later one.
    fn oldest_that_could_agree(&self, worker: u32) -> u64 {
        let could_agree = |version: u64, set: &BTreeSet<u32>| {
            set.contains(&worker)
                && set.is_disjoint(&self.dead)
                && set.iter().all(|member| self.echoes.get(member).is_none_or(|echoed| *echoed <= version))
        };
        let (version, _) = self
            .sets
            .iter()
            .find(|(version, set)| could_agree(**version, set))
            .expect("the present one could");
        *version
    }
}

/// Random joins, losses and beats; returns how many labels were compared, and how many were too high.
fn run(seed: u64, mutation: Option<Mutation>, with_losses: bool) -> (u32, u32) {
    let mut random = SplitMix::new(seed);
    let mut scene = Scene::settled(&[0], mutation);
    let mut chronicle = Chronicle::default();
    chronicle.note(&scene);
    let (mut next, mut compared, mut too_high) = (1, 0, 0);
    for _ in 0..60 {
        let known: Vec<u32> = scene.known.iter().copied().collect();
        match random.below(10) {
            0..2 => {
                scene.beat(next);
                next += 1;
            }
            2 if with_losses && known.len() > 1 => {
                let lost = *random.pick(&known).unwrap();
                scene.lose(lost);
                chronicle.dead.insert(lost);
            }
            3 => scene.consensus.update(),
            _ => random.pick(&known).into_iter().for_each(|worker| scene.beat(*worker)),
        }
        chronicle.note(&scene);
        for worker in scene.consensus.members() {
            if let Some(label) = scene.consensus.label_of(worker) {
                compared += 1;
                too_high += u32::from(label.0 > chronicle.oldest_that_could_agree(worker.0));
            }
        }
    }
    if !with_losses && mutation.is_none() {
        reaches_the_truth(&mut scene, &chronicle);
    }
    (compared, too_high)
}

/// Without losses, labels are exact after as many passes as it takes.
fn reaches_the_truth(scene: &mut Scene, chronicle: &Chronicle) {
    for _ in 0..scene.known.len() {
        scene.consensus.propagate();
    }
    for worker in scene.consensus.members() {
        if let Some(label) = scene.consensus.label_of(worker) {
            assert_eq!(label.0, chronicle.oldest_that_could_agree(worker.0), "{worker:?}");
        }
    }
}

#[test]
fn labels_never_exceed_what_could_agree() {
    for seed in 0..200 {
        for with_losses in [false, true] {
            let (compared, too_high) = run(seed, None, with_losses);
            assert!(compared > 0);
            assert_eq!(too_high, 0, "seed {seed}");
        }
    }
    for mutation in [Mutation::StrangersRaiseLabels, Mutation::TellingIsEnough] {
        let noticed = (0..50).filter(|seed| run(*seed, Some(mutation), true).1 > 0).count();
        assert!(noticed > 20, "{mutation:?} was noticed in {noticed} of 50");
    }
}

#[test]
fn four_workers_with_loss_and_a_newcomer() {
    let mut scene = Scene::settled(&[1, 2], None);
    let label = |scene: &Scene, worker| scene.consensus.label_of(Member(worker)).map(|label| label.0);
    let both = scene.consensus.version().0;
    assert_eq!((label(&scene, 1), label(&scene, 2)), (Some(both), Some(both)));

    scene.report(3);
    scene.report(4);
    let all = scene.consensus.version().0;
    assert_eq!((all, label(&scene, 3)), (both + 2, None), "one version each; told, not echoed");
    scene.beat(4);
    assert_eq!(label(&scene, 4), Some(all));
    scene.consensus.update();
    assert_eq!(label(&scene, 1), Some(both), "w4 is not in the set that w1 knows");

    scene.beat(2);
    scene.beat(2);
    scene.consensus.update();
    assert_eq!(label(&scene, 1), Some(all), "through w2, which is");
    assert_eq!(scene.run(4), Err(HeldBack::Limbo { by: Member(3) }));
    scene.lose(3);
    assert_eq!(scene.run(4), Ok(()));
    assert_eq!(scene.consensus.version().0, all + 1);
}

/// w1 knows {w1, w2}; w2 knows {w1, w2, w3}, and dies before a pass.
fn through_a_dead_worker() -> Scene {
    let mut scene = Scene::settled(&[1, 2], None);
    scene.report(3);
    scene.beat(3);
    scene.beat(2);
    scene.beat(2);
    scene.lose(2);
    scene
}

#[test]
fn labels_are_read_through_the_dead() {
    let mut scene = through_a_dead_worker();
    assert_eq!(scene.consensus.departed(), 1);
    let with_w3 = scene.consensus.label_of(Member(3)).unwrap();
    assert!(with_w3.is_newer_than(scene.consensus.label_of(Member(1)).unwrap()));
    assert!(matches!(scene.run(3), Err(HeldBack::Older { by: Member(1), .. })));
    scene.consensus.update();
    assert_eq!(scene.consensus.label_of(Member(1)), Some(with_w3));
    assert_eq!(scene.run(3), Ok(()));
}

#[test]
fn the_dead_are_forgotten_when_nobody_can_hold_a_set_with_them() {
    let mut scene = through_a_dead_worker();
    scene.consensus.update();
    assert_eq!(scene.consensus.departed(), 1, "w1's label points to a set with it");
    scene.settle();
    scene.consensus.update();
    assert_eq!(scene.consensus.departed(), 0);
    scene.report(4);
    scene.settle();
    assert!(scene.run(4).is_ok(), "and nobody misses them");
}

#[test]
fn constant_turnover_leaves_nothing_behind() {
    let mut scene = Scene::settled(&[0], None);
    for worker in 1..1_000 {
        scene.report(worker);
        scene.settle();
        if worker > 3 {
            scene.lose(worker - 3);
        }
        assert!(scene.consensus.departed() <= 4, "{} after {worker}", scene.consensus.departed());
    }
}

#[test]
fn versions_wrap_around() {
    let terms = Terms { first_version: Version(u64::MAX - 2), ..Terms::default() };
    let mut scene = Scene::new(None);
    scene.consensus = Consensus::new(scene.generation, terms);
    scene.report(1);
    scene.consensus.safe_wait_over();
    scene.consensus.update();
    scene.settle();
    let before = scene.consensus.label_of(Member(1)).unwrap();
    assert_eq!(before, Version(u64::MAX - 1));
    (2..6).for_each(|worker| scene.report(worker));
    assert_eq!(scene.consensus.version(), Version(2));
    assert!(matches!(scene.run(5), Err(HeldBack::Behind { .. })));
    scene.beat(5);
    assert!(matches!(scene.run(5), Err(HeldBack::Limbo { .. })));
    (2..5).for_each(|worker| scene.beat(worker));
    assert!(matches!(scene.run(5), Err(HeldBack::Older { by: Member(1), label, .. }) if label == before));
    scene.settle();
    assert_eq!(
        scene.consensus.label_of(Member(1)),
        Some(Version(2)),
        "forward, though the number is smaller"
    );
    assert_eq!(scene.run(5), Ok(()));
    let future = SetId { version: Version(3), ..scene.consensus.set() };
    assert!(!scene.consensus.echoed(Member(1), future), "a version that has not come is no word of ours");
}
