//! What servers that share a memory store tell each other.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use crate::port::News;

/// Most news that wait for one who does not listen; at that many they are replaced by [`News::Missed`].
const WAITING_MAX: usize = 1024;

/// Where everyone who takes part has an inbox.
#[derive(Default)]
struct Board {
    last: u64,
    inboxes: BTreeMap<u64, Inbox>,
}

#[derive(Default)]
struct Inbox {
    waiting: VecDeque<News>,
    listener: Option<Waker>,
}

/// One who takes part, until it is dropped.
pub(super) struct Listener {
    board: Arc<Mutex<Board>>,
    number: u64,
}

impl Listener {
    /// The first.
    pub(super) fn alone() -> Self {
        Listener::at(Arc::default())
    }

    /// Another one.
    pub(super) fn beside(&self) -> Self {
        Listener::at(self.board.clone())
    }

    fn at(board: Arc<Mutex<Board>>) -> Self {
        let mut locked = lock(&board);
        locked.last += 1;
        let number = locked.last;
        locked.inboxes.insert(number, Inbox::default());
        drop(locked);
        Listener { board, number }
    }

    /// Tells all others, and itself only if a mutation wants it.
    pub(super) fn tell(&self, news: &News, itself: bool) {
        let mut listeners = Vec::new();
        for (number, inbox) in &mut lock(&self.board).inboxes {
            if *number != self.number || itself {
                inbox.put(news.clone());
                listeners.extend(inbox.listener.take());
            }
        }
        // Not under the lock: whoever is woken may listen again at once.
        listeners.into_iter().for_each(Waker::wake);
    }

    /// The next news; they leave the inbox only when the future is ready.
    pub(super) async fn next(&self) -> News {
        poll_fn(|context| {
            let mut board = lock(&self.board);
            let inbox = board.inboxes.get_mut(&self.number).expect("it is there until its listener goes");
            match inbox.waiting.pop_front() {
                Some(news) => Poll::Ready(news),
                None => {
                    inbox.listener = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        lock(&self.board).inboxes.remove(&self.number);
    }
}

impl Inbox {
    fn put(&mut self, news: News) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(news);
        } else {
            self.waiting.clear();
            self.waiting.push_back(News::Missed);
        }
    }
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().expect("nothing panics while it has the lock")
}
