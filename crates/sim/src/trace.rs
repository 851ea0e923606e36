//! What happened, as a number and as text.
//!
//! Every event goes into a rolling hash, so two runs of one seed can be compared by a single number. Text is made only
//! for a run that somebody looks at: since a seed always tells the same story, a run that failed is simply told again.

use std::collections::VecDeque;

use crate::time::Time;

/// A rolling hash of words (FNV-1a, a word at a time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash(u64);

impl Hash {
    /// One more word.
    pub fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        // FNV works on bytes; with whole words the upper bits would never come down again.
        self.0 ^= self.0 >> 32;
    }

    /// The hash of all words so far.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl Default for Hash {
    fn default() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

/// The record of one run.
pub struct Trace<'a> {
    hash: Hash,
    events: u64,
    told: Option<&'a mut dyn FnMut(String)>,
}

impl<'a> Trace<'a> {
    /// A record that is only a number.
    pub fn silent() -> Self {
        Trace { hash: Hash::default(), events: 0, told: None }
    }

    /// A record that is told line by line as well.
    pub fn told(line: &'a mut dyn FnMut(String)) -> Self {
        Trace { told: Some(line), ..Trace::silent() }
    }

    /// An event happened; `words` say which one.
    pub fn event(&mut self, now: Time, words: &[u64]) {
        self.events += 1;
        self.hash.add(now.as_nanos());
        words.iter().for_each(|word| self.hash.add(*word));
    }

    /// More about the present event. The text is made only if somebody listens.
    pub fn tell(&mut self, now: Time, text: impl FnOnce() -> String) {
        if let Some(line) = &mut self.told {
            line(format!("{now:>14}  {}", text()));
        }
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The hash of them all.
    pub fn hash(&self) -> u64 {
        self.hash.get()
    }
}

/// The last lines of something long.
#[derive(Clone, Debug)]
pub struct Tail {
    lines: VecDeque<String>,
    lines_max: usize,
}

impl Tail {
    /// Keeps this many lines; older ones are dropped.
    pub fn new(lines_max: usize) -> Self {
        Tail { lines: VecDeque::new(), lines_max }
    }

    /// One more line.
    pub fn push(&mut self, line: String) {
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// What was kept, oldest first.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_its_place_and_its_time_count() {
        let hash = |events: &[(u64, &[u64])]| {
            let mut trace = Trace::silent();
            events.iter().for_each(|(at, words)| trace.event(Time::from_nanos(*at), words));
            trace.hash()
        };
        let one = hash(&[(1, &[2, 3])]);
        assert_eq!(one, hash(&[(1, &[2, 3])]));
        for other in
            [hash(&[(1, &[3, 2])]), hash(&[(2, &[2, 3])]), hash(&[(1, &[2])]), hash(&[(1, &[2, 3 << 60])])]
        {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn text_is_made_for_listeners_only_and_changes_nothing() {
        let mut silent = Trace::silent();
        silent.event(Time::ZERO, &[1]);
        silent.tell(Time::ZERO, || unreachable!("nobody listens"));
        let mut tail = Tail::new(2);
        let mut line = |line| tail.push(line);
        let mut told = Trace::told(&mut line);
        told.event(Time::ZERO, &[1]);
        for word in ["a", "b", "c"] {
            told.tell(Time::from_millis(1_500), || word.to_owned());
        }
        assert_eq!(told.hash(), silent.hash());
        assert_eq!(tail.into_lines(), ["      1.500000  b", "      1.500000  c"]);
    }
}
