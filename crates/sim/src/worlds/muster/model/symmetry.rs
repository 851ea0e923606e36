//! Workers that nobody can tell apart: of all states that differ only in their names, one is visited.
//!
//! A consensus cannot be renamed from outside. But it came about by what happened to it, so the renamed one is had by letting
//! the same happen to the others ([`Minds::renamed`]).

use std::cmp::Ordering;

use super::code::{Id, Instance, Instances, SLOTS_MAX, has};
use super::mind::{Minds, Op};
use super::state::{Down, Shared, Slot, State};
use crate::explore::fingerprint;

/// Three things can be ordered in six ways.
pub(super) const ORDERS_MAX: usize = 6;

/// A renaming of slots.
pub(super) struct Order {
    pub(super) number: usize,
    slots: usize,
    /// Where each slot goes.
    to: [usize; SLOTS_MAX],
    /// Where each set of instances goes.
    sets: Vec<Instances>,
}

/// All orders of so many slots; the first changes nothing.
pub(super) fn orders(slots: usize, instances: usize) -> Vec<Order> {
    const ALL: [[usize; SLOTS_MAX]; ORDERS_MAX] =
        [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]];
    let fits = |to: &[usize; SLOTS_MAX]| (slots..SLOTS_MAX).all(|slot| to[slot] == slot);
    let named = |to: [usize; SLOTS_MAX], instance: usize| to[instance % slots] + instance / slots * slots;
    let table = |to| {
        (0..1u16 << instances).map(move |set| {
            let members = (0..instances).filter(|instance| has(set as Instances, *instance as u8));
            members.fold(0, |renamed, instance| renamed | 1 << named(to, instance))
        })
    };
    let orders = ALL.into_iter().filter(fits).enumerate();
    orders.map(|(number, to)| Order { number, slots, to, sets: table(to).collect() }).collect()
}

impl Order {
    fn instance(&self, instance: Instance) -> Instance {
        let number = usize::from(instance);
        (self.to[number % self.slots] + number / self.slots * self.slots) as Instance
    }

    fn id(&self, id: Id) -> Id {
        if id == Id::NONE || id == Id::UNSAID {
            id
        } else {
            id.with_members(self.sets[usize::from(id.members())])
        }
    }

    pub(super) fn op(&self, op: Op) -> Op {
        match op {
            Op::Join(who, id) => Op::Join(self.instance(who), self.id(id)),
            Op::Fetched(who) => Op::Fetched(self.instance(who)),
            Op::Echoed(who, id) => Op::Echoed(self.instance(who), self.id(id)),
            Op::Lost(who) => Op::Lost(self.instance(who)),
            Op::Healthy(who) => Op::Healthy(self.instance(who)),
            Op::Unwell(who) => Op::Unwell(self.instance(who)),
            Op::SafeWaitOver => Op::SafeWaitOver,
            Op::Update => Op::Update,
            Op::CloseQueue => Op::CloseQueue,
        }
    }

    fn slot(&self, slot: &Slot) -> Slot {
        let mut renamed = Slot { kept: self.id(slot.kept), said: self.id(slot.said), ..*slot };
        renamed.up.retain(|_| false);
        renamed.down.retain(|_| false);
        for mut heartbeat in slot.up.iter() {
            heartbeat.from = self.instance(heartbeat.from);
            heartbeat.id = self.id(heartbeat.id);
            renamed.up.push(heartbeat);
        }
        for said in slot.down.iter() {
            renamed.down.push(if let Down::Told(id) = said { Down::Told(self.id(id)) } else { said });
        }
        renamed
    }

    fn state(&self, state: &State, minds: &Minds) -> State {
        let mut renamed = state.clone();
        renamed.scheduler.mind = Shared(minds.renamed(&state.scheduler.mind.0, self));
        renamed.scheduler.on = state.scheduler.on.map(|on| on.map(|instance| self.instance(instance)));
        for (from, to) in self.to.iter().enumerate() {
            renamed.slots[*to] = self.slot(&state.slots[from]);
        }
        renamed
    }
}

/// The state that stands for all that differ in the names of workers: its slots are sorted by what does not depend on names;
/// of several ways to do that, the one with the least fingerprint.
pub(super) fn least(state: State, orders: &[Order], minds: &Minds) -> State {
    let Some(first) = orders.first() else { return state };
    let marks: Vec<Mark> = (0..first.slots).map(|slot| mark(&state, slot, first.slots)).collect();
    let sorts = |order: &&Order| {
        let mut sorted = [0; SLOTS_MAX];
        (0..first.slots).for_each(|slot| sorted[order.to[slot]] = slot);
        sorted[..first.slots].is_sorted_by(|a, b| marks[*a].cmp(&marks[*b]) != Ordering::Greater)
    };
    let mut sorting = orders.iter().filter(sorts);
    let order = sorting.next().expect("some order sorts");
    let sorted = |order: &Order| if order.number == 0 { state.clone() } else { order.state(&state, minds) };
    let only = sorted(order);
    let Some(other) = sorting.next() else { return only };
    let ties = [only, sorted(other)].into_iter().chain(sorting.map(sorted));
    ties.min_by_key(fingerprint).expect("there are at least two")
}

/// What is seen of a slot without naming anybody.
type Mark = ([u8; 8], u32, [u16; 4]);

fn mark(state: &State, number: usize, slots: usize) -> Mark {
    let slot = &state.slots[number];
    let instance = slot.instance(number, slots);
    let scheduler = &state.scheduler;
    let mind = &scheduler.mind.0;
    let bits = [mind.known, mind.fetched, mind.latched, mind.permitted].map(|set| has(set, instance));
    let on = scheduler.on.map(|on| on == Some(instance));
    let bits = bits.into_iter().chain(on).chain([slot.holds]).fold(0, |all, bit| all << 1 | u32::from(bit));
    let flat = |id: Id| {
        u16::from(id.generation()) << 12 | u16::from(id.version()) << 4 | id.members().count_ones() as u16
    };
    let mut under_way = [0u16; 4];
    slot.up.iter().zip(&mut under_way[..2]).for_each(|(up, mark)| *mark = flat(up.id) + 1);
    slot.down.iter().zip(&mut under_way[2..]).for_each(|(down, mark)| {
        *mark = if let Down::Told(id) = down { flat(id) + 1 } else { u16::MAX };
    });
    let kept = flat(slot.kept).to_be_bytes();
    let said = flat(slot.said).to_be_bytes();
    let plain = [slot.before, slot.belongs, slot.runs, u8::from(has(slot.kept.members(), instance))];
    let [a, b, c, d] = plain;
    ([a, b, c, d, kept[0], kept[1], said[0], said[1]], bits, under_way)
}

#[cfg(test)]
mod tests {
    use super::super::{Bounds, World};
    use super::*;
    use crate::explore::Model;
    use crate::rng::Rng;

    #[test]
    fn whatever_the_workers_are_called_the_state_is_the_same() {
        let world = World::new(Bounds { workers: 3, restarts: 1, ends: 1, ..Bounds::default() }, true);
        let mut rng = Rng::stream(1, 0, "walk");
        let mut renamed = 0;
        for _ in 0..20 {
            let mut state = world.initial();
            for _ in 0..60 {
                let mut actions = Vec::new();
                world.actions(&state, &mut actions);
                let next: Vec<State> =
                    actions.iter().filter_map(|action| world.next(&state, action)).collect();
                state = rng.pick(&next).clone();
                let stands_for_it = fingerprint(&world.canonical(state.clone()));
                for order in &world.orders {
                    let other = order.state(&state, &world.minds);
                    renamed += u32::from(fingerprint(&other) != fingerprint(&state));
                    assert_eq!(fingerprint(&world.canonical(other)), stands_for_it);
                }
            }
        }
        assert!(renamed > 1_000, "{renamed} of them were other states");
    }
}
