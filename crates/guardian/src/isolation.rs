//! How well job processes are held together: what is asked for, what is there, and what that does not cover.

use std::fmt;
use std::str::FromStr;

/// How job processes are to be held together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// A PID namespace where that is allowed, else process groups.
    #[default]
    Auto,
    /// A PID namespace; no guardian where that is not allowed.
    Namespace,
    /// Process groups, in the worker's own namespace.
    Groups,
}

impl FromStr for Isolation {
    type Err = UnknownIsolation;

    fn from_str(text: &str) -> Result<Self, UnknownIsolation> {
        match text {
            "auto" => Ok(Isolation::Auto),
            "namespace" => Ok(Isolation::Namespace),
            "groups" => Ok(Isolation::Groups),
            _ => Err(UnknownIsolation(text.to_owned())),
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::Auto => "auto",
            Isolation::Namespace => "namespace",
            Isolation::Groups => "groups",
        })
    }
}

/// A word that names no isolation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no isolation; choose auto, namespace or groups")]
pub struct UnknownIsolation(String);

/// What really holds job processes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The guardian is the init of a PID namespace: when it ends, the kernel ends everything in it.
    pub namespace: bool,
    /// Each exclusive family has a cgroup of its own, which nobody leaves by accident and which is killed at one blow.
    pub cgroups: bool,
}

impl Protection {
    /// What this does not cover, in words, for a warning at the start of a worker.
    pub fn limits(self) -> Vec<&'static str> {
        let mut limits = Vec::new();
        if !self.namespace {
            limits.push("processes that outlive a SIGKILL of both worker and guardian");
        }
        if !self.namespace && !self.cgroups {
            limits.push(
                "processes that leave their job's group, session and environment while the guardian is being killed",
            );
        }
        if !self.cgroups {
            limits.push("processes that detach themselves again and again, faster than they can be found");
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolations_are_read_as_they_are_written() {
        for isolation in [Isolation::Auto, Isolation::Namespace, Isolation::Groups] {
            assert_eq!(isolation.to_string().parse(), Ok(isolation));
        }
        let refused = "none".parse::<Isolation>().unwrap_err();
        assert_eq!(refused.to_string(), r#""none" is no isolation; choose auto, namespace or groups"#);
    }

    #[test]
    fn less_protection_has_more_limits() {
        let all = Protection { namespace: true, cgroups: true };
        assert_eq!(all.limits(), Vec::<&str>::new());
        let none = Protection { namespace: false, cgroups: false };
        assert_eq!(none.limits().len(), 3, "{:?}", none.limits());
        assert!(none.limits()[0].contains("SIGKILL of both"));
    }
}
