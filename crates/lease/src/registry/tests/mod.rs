//! The registry's tests: named cases that also run against every deliberate bug, and laws over random histories.

mod answers;
mod binding;
mod bounds;
mod checking;
mod desk;
mod ending;
mod exclusive;
mod grants;
mod late_words;
mod memoryless;
mod mutations;
mod owned;
mod peer;
mod properties;
mod restart;
mod speaking;
mod stopping;
mod succession;
mod synced;
mod take_over;
mod verification;
mod volatile;
mod world;

use super::Mutation;

/// The deliberate bug of a run; `None` for the real registry.
type Bug = Option<Mutation>;

/// A named case. It panics if the registry misbehaves.
type Case = (&'static str, fn(Bug));

/// Makes each function a test of the real registry, and lists it for the bugs.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(super) const CASES: &[super::Case] = &[$((stringify!($name), $name)),*];

        mod real {
            $(
                #[test]
                fn $name() {
                    super::$name(None);
                }
            )*
        }
    };
}
use cases;
