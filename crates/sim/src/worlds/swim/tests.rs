//! The world itself, with a protocol so small that everything it does can be foreseen.

use std::time::Duration;

use model::Instant;

use super::change::{Change, Epoch, Memory, Told};
use super::network::Delay;
use super::protocol::{Belief, Input, Node, Output, Protocol, Start, Watch};
use super::world::{Setup, World};
use crate::time::Time;
use crate::trace::Trace;

const SECOND: Duration = Duration::from_secs(1);

/// Node 0 says "tick" to node 1 every second, and asks it over a stream once when told so by its settings.
struct Ticker {
    node: Node,
    next: Option<Instant>,
    outputs: Vec<Output<&'static str>>,
}

#[derive(Clone, Copy)]
struct Asks(bool);

impl Protocol for Ticker {
    type Settings = Asks;
    type Message = &'static str;

    fn start(asks: &Asks, start: Start<'_>) -> Self {
        let outputs =
            if start.node == 0 && asks.0 { vec![Output::Request(7, 1, "well?")] } else { Vec::new() };
        Ticker { node: start.node, next: (start.node == 0).then(|| start.now + SECOND), outputs }
    }

    fn handle(&mut self, _: Instant, input: Input<&'static str>) {
        if let Input::Request(ticket, ..) = input {
            self.outputs.push(Output::Respond(ticket, "well"));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.next
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.next = Some(now + SECOND);
        self.outputs.push(Output::Send(1 - self.node, "tick"));
    }

    fn poll_output(&mut self) -> Option<Output<&'static str>> {
        self.outputs.pop()
    }

    fn belief(&self, _: Node) -> Belief {
        Belief::Present
    }

    fn present(&self) -> usize {
        2
    }

    fn wire_bytes(message: &&'static str) -> usize {
        message.len()
    }

    fn stream_timeout(_: &Asks) -> Duration {
        5 * SECOND
    }
}

/// When what was handled, in milliseconds.
#[derive(Default)]
struct Log(Vec<(u64, Node, String)>);

impl Watch<Ticker> for Log {
    fn input(&mut self, now: Time, node: Node, _: &Ticker, input: &Input<&'static str>) {
        let what = match input {
            Input::Datagram(_, text) => (*text).to_owned(),
            Input::Request(_, _, text) => (*text).to_owned(),
            Input::Response(_, answer) => format!("{answer:?}"),
            Input::Leave => "leave".to_owned(),
            Input::Told(told, _) => format!("{told:?}"),
        };
        self.0.push((now.as_nanos() / 1_000_000, node, what));
    }
}

/// Two nodes for ten seconds, with packets that take exactly 10 ms.
fn log(asks: bool, changes: &[(u64, Change)]) -> Vec<(u64, Node, String)> {
    let delay = Duration::from_millis(10);
    let setup = Setup { delay: Delay { min: delay, max: delay }, ..Setup::formed(1, 2) };
    let mut world: World<'_, Ticker, Log> = World::new(setup, Asks(asks), Log::default(), Trace::silent());
    for (at, change) in changes {
        world.schedule(Time::from_millis(*at), change.clone());
    }
    world.run_for(10 * SECOND);
    world.watch.0
}

fn ticks(changes: &[(u64, Change)]) -> Vec<u64> {
    log(false, changes)
        .into_iter()
        .filter(|(_, node, what)| (*node, what.as_str()) == (1, "tick"))
        .map(|(at, ..)| at)
        .collect()
}

#[test]
fn datagrams_take_their_time() {
    assert_eq!(ticks(&[])[..3], [1_010, 2_010, 3_010]);
}

#[test]
fn a_stopped_receiver_handles_what_came_when_it_goes_on() {
    let pause = Change::Pause(1, Duration::from_millis(3_000));
    assert_eq!(ticks(&[(500, pause)])[..4], [3_500, 3_500, 3_500, 4_010]);
}

#[test]
fn a_stopped_sender_has_no_timers() {
    let pause = Change::Pause(0, Duration::from_millis(3_000));
    assert_eq!(ticks(&[(500, pause)])[..3], [3_510, 4_510, 5_510]);
}

#[test]
fn a_blocked_sender_has_timers_and_says_it_all_at_the_end() {
    let block = Change::BlockIo(0, Duration::from_millis(3_000));
    assert_eq!(ticks(&[(500, block)])[..4], [3_510, 3_510, 3_510, 4_010]);
}

#[test]
fn a_crashed_receiver_hears_nothing_and_a_started_one_does() {
    let changes = [(1_500, Change::Crash(1)), (3_500, Change::Start(1, Memory::Lost))];
    assert_eq!(ticks(&changes)[..3], [1_010, 4_010, 5_010]);
}

#[test]
fn a_slow_receiver_is_late() {
    let changes = [(0, Change::SlowCpu(1, Duration::from_millis(50))), (0, Change::Duplicates(1.0))];
    assert_eq!(ticks(&changes)[..4], [1_010, 1_060, 2_010, 2_060]);
}

#[test]
fn nobody_is_at_an_address_that_was_left() {
    assert_eq!(ticks(&[(1_500, Change::Move(1, Memory::Lost))]), [1_010]);
}

#[test]
fn a_clock_that_jumps_ahead_brings_what_was_due_meanwhile() {
    let jump = Change::Jump(0, Duration::from_millis(3_000));
    assert_eq!(ticks(&[(500, jump)])[..3], [510, 1_510, 2_510]);
}

#[test]
fn a_twin_takes_a_place_and_another_s_name() {
    // Whoever bears the name of node 0 ticks, in whatever place, and sends to node 1; which is its own place here.
    let twin = Change::Twin(1, 0, Epoch::Same);
    assert_eq!(ticks(&[(500, twin)])[..4], [1_010, 1_510, 2_010, 2_510]);
}

#[test]
fn what_a_node_is_told_waits_for_nothing_but_its_process() {
    let told = |changes: &[(u64, Change)]| -> Vec<(u64, Node)> {
        let heard = log(false, changes).into_iter().filter(|(.., what)| what.contains("Lagged"));
        heard.map(|(at, node, _)| (at, node)).collect()
    };
    let lag = |at| (at, Change::Tell(1, Told::Lagged(SECOND)));
    assert_eq!(told(&[lag(700)]), [(700, 1)]);
    assert_eq!(told(&[(500, Change::Pause(1, SECOND)), lag(700)]), [(1_500, 1)]);
    assert_eq!(told(&[(500, Change::Crash(1)), lag(700)]), []);
}

fn answer(changes: &[(u64, Change)]) -> Option<(u64, String)> {
    let log = log(true, changes);
    log.into_iter().find(|(_, node, what)| *node == 0 && what != "tick").map(|(at, _, what)| (at, what))
}

#[test]
fn a_stream_takes_two_round_trips() {
    assert_eq!(answer(&[]), Some((40, "Some(\"well\")".to_owned())));
}

#[test]
fn a_dead_process_refuses_and_a_cut_machine_is_silent() {
    // This one dies when it has been connected to.
    assert_eq!(answer(&[(0, Change::Crash(1))]), Some((40, "None".to_owned())));
    let dead_before = [(0, Change::Crash(1)), (2_000, Change::Start(0, Memory::Lost))];
    let refused = log(true, &dead_before).pop();
    assert_eq!(refused, Some((2_020, 0, "None".to_owned())));
    assert_eq!(answer(&[(0, Change::Ingress(1, 1.0))]), Some((5_000, "None".to_owned())));
}

#[test]
fn a_connection_is_tried_again_after_one_and_three_seconds() {
    let changes = [(0, Change::Cut(0, 1)), (2_000, Change::Mend(0, 1))];
    assert_eq!(answer(&changes), Some((3_040, "Some(\"well\")".to_owned())));
}

#[test]
fn data_is_sent_again_after_two_and_four_tenths() {
    // Connected after 20 ms; the request is lost at 20, 220 and 620 ms.
    let changes = [(15, Change::Cut(0, 1)), (700, Change::Mend(0, 1))];
    assert_eq!(answer(&changes), Some((1_440, "Some(\"well\")".to_owned())));
}

#[test]
fn a_stopped_process_is_connected_to_and_answers_later() {
    assert_eq!(answer(&[(0, Change::Pause(1, SECOND))]), Some((1_010, "Some(\"well\")".to_owned())));
}
