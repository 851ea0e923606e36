//! The guardian's own process: a loop around the machine in [`lease::guardian`].
//!
//! | file | its concern |
//! |---|---|
//! | `setup` | become a guardian: session, namespace, subreaper, signals |
//! | `post` | the loop: what happened → the machine → what to do |
//! | `mouth` | packets from and to the worker |
//! | `families` | who belongs to whom, who is left |
//! | `children` | the kernel's list of our children |
//! | `spawn` | start a leader |
//! | `audited` | the birth of a leader, giving memory back, inherited descriptors; the one unsafe place |
//! | `leave` | tell a server |
//! | `waker` | wait for any of it |
//! | `complaint` | say what went wrong without being held up by it |

mod audited;
mod children;
mod complaint;
mod families;
mod leave;
mod mouth;
mod post;
mod setup;
mod spawn;
mod waker;

use std::process::exit;

use self::complaint::complain;

/// In the environment of a program that is to be a guardian. Jobs do not inherit it.
pub(crate) const MARKER: &str = "TENURE_GUARDIAN";

/// The first line of `main`: in a process that was started to be a guardian it does not return; in any other it does
/// nothing.
pub fn run_if_asked() {
    if std::env::var_os(MARKER).is_none() {
        return;
    }
    match setup::become_guardian() {
        Ok(post) => post.keep(),
        Err(why) => {
            complain(&why);
            exit(2);
        }
    }
}
