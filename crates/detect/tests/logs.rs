//! What the passive detector logs: a registration at info, later pings at debug. A program of its own, since what is
//! logged at all is settled once for the whole process.

use std::sync::{Arc, Mutex};

use clock::SystemClock;
use detect::{PassiveConfig, PassiveDetector};
use model::WorkerKey;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes down level, message and member of each event.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(Level, String)>>>);

impl Subscriber for Notes {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if matches!(field.name(), "message" | "member") {
                    self.0 = format!("{}{value:?} ", self.0);
                }
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let note = (*event.metadata().level(), text.0.trim().to_owned());
        self.0.lock().expect("unpoisoned").push(note);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn the_first_ping_is_news_and_later_ones_are_details() {
    let notes = Notes::default();
    tracing::subscriber::set_global_default(notes.clone()).expect("there is one test here");
    let (first, second) =
        (WorkerKey::new("w").expect("a good key"), WorkerKey::new("x").expect("a good key"));
    let detector =
        PassiveDetector::with_members_max(PassiveConfig::default(), 1, Arc::new(SystemClock), |_| {});
    for member in [&first, &first, &second, &first] {
        detector.ping(member);
    }
    let notes = notes.0.lock().expect("unpoisoned");
    assert_eq!(
        *notes,
        [
            (Level::INFO, "member registered w".to_owned()),
            (Level::DEBUG, "ping received w".to_owned()),
            (Level::DEBUG, "ping refused, there are too many members x".to_owned()),
            (Level::DEBUG, "ping received w".to_owned()),
        ]
    );
}
