//! How servers fail: for long or for ever, one after the other, in good order, or cut off from the store alone.

use std::time::Duration;

use super::event::{Event, Heal};
use super::server::{RESIGN_MAX, ServerInput};
use super::setup::{DOWN_MAX, OWNED_FOR, PAUSE_MAX, SERVERS, TROUBLE_MAX, server_node};
use super::world::World;
use crate::faults::Phase;
use crate::net::Node;
use crate::time::Time;

/// The shortest that a server is gone which is lost.
const LOST_MIN: Duration = Duration::from_secs(60);
/// The longest that a server is gone which is lost, unless it never comes back.
const LOST_MAX: Duration = Duration::from_secs(600);
/// Longer than any world lasts.
const FOR_EVER: Duration = Duration::from_secs(86_400 * 365);

impl World<'_> {
    /// A server dies and does not come back for long, or ever.
    pub(super) fn lose_server(&mut self) {
        let node = self.chaos.server();
        let lasts = match self.chaos.rng.chance(0.4) {
            true => FOR_EVER,
            false => self.chaos.rng.span_of_any_size(LOST_MIN, LOST_MAX),
        };
        // Somebody must be left, or nothing is shown.
        let soon = self.outside.now + DOWN_MAX;
        let is_left = |(index, until): (usize, &Time)| index != usize::from(node.0) && *until <= soon;
        if self.chaos.down_until.iter().enumerate().any(is_left) {
            let is_dark = self.chaos.rng.chance(0.5);
            self.kill(node, lasts, is_dark);
        }
    }

    /// SIGTERM to a server, which somebody starts again after a while.
    pub(super) fn stop_server(&mut self, node: Node) {
        let down = self.chaos.lasting(5, DOWN_MAX);
        self.chaos.goes_down(node, self.outside.now + RESIGN_MAX + down);
        self.servers[usize::from(node.0)].deliver(&mut self.outside, ServerInput::Stop(down));
    }

    /// This server fails, in one way or another, and so many more after it.
    pub(super) fn fail_in_turn(&mut self, server: usize, times: u32) {
        let node = server_node(server);
        match self.chaos.rng.below(4) {
            0 => self.stop_server(node),
            1 => {
                let lasts = self.chaos.lasting(500, PAUSE_MAX);
                self.outside.tell(|| format!("node {} is stopped for {lasts:?}", node.0));
                self.pause(node, lasts);
            }
            dice => {
                let down = self.chaos.lasting(5, DOWN_MAX);
                self.kill(node, down, dice == 3);
            }
        }
        if times > 1 && self.outside.phase == Phase::Faults {
            let next = self.outside.now + self.chaos.lasting(200, OWNED_FOR * 2);
            let heal = Heal::InTurn((server + 1) % SERVERS, times - 1);
            self.outside.queue.push(next, Event::Heal(heal));
        }
    }

    /// A server cannot reach the store for a while; its workers reach it.
    pub(super) fn cut_from_the_store(&mut self) {
        let server = usize::from(self.chaos.server().0);
        let now = self.outside.now;
        let until = now + self.chaos.lasting(200, TROUBLE_MAX);
        let is_silent = self.chaos.rng.chance(0.5);
        self.outside.tell(|| format!("server {server} cannot reach the store until {until}"));
        self.outside.database.cut(server, until, is_silent);
        self.chaos.cut(server, now, until);
    }
}
