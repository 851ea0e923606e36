//! Under which conditions job processes run: how they are held together, what they see of the worker's environment, who they
//! are, and whether they may become someone else.

use std::ffi::{OsStr, OsString};

use model::Invalid;

use crate::isolation::Isolation;
use crate::user::User;

/// What every job process of one guardian has in common. The default is what `tenure worker` does without options.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// How job processes are held together.
    pub isolation: Isolation,
    /// Which of the worker's variables they get.
    pub environment: Environment,
    /// Who they run as; whoever the worker is when not given. Only root can choose.
    pub user: Option<User>,
    /// They may gain privileges by the programs they start, such as `sudo`. Otherwise the kernel ignores set-user-ID bits and
    /// file capabilities for them and everything they start (`no_new_privs`).
    pub new_privileges: bool,
}

/// Which variables a guardian, and so all its jobs, get besides those that describe a job.
///
/// Tenure's own settings (`TENURE_*`) and `DATABASE_URL` are left out: they are the worker's, and may be credentials. Other
/// secrets cannot be told from ordinary variables by their names, so they are passed on unless the environment is cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    is_cleared: bool,
    /// Asked for by name; the last of a name counts.
    extra: Vec<(OsString, OsString)>,
}

/// What a cleared environment keeps, besides locale settings (`LC_*`): who and where one is.
const KEPT: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"];
/// Tenure's own variables.
const OURS: &str = "TENURE_";

impl Environment {
    /// Keeps only what tells a program who and where it is: `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `LANG`, `LC_*`, `TZ` and
    /// `TMPDIR`. What is asked for by name comes in addition.
    pub fn clear(&mut self) {
        self.is_cleared = true;
    }

    /// Reads `NAME`, which passes on this process's variable, or `NAME=VALUE`, which sets one.
    pub fn add(&mut self, text: &str) -> Result<(), Invalid> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text, std::env::var_os(text)),
        };
        if name.is_empty() || text.contains('\0') {
            return Err(Invalid::new(format!("{text:?} names no variable; write NAME or NAME=VALUE")));
        }
        if name.starts_with(OURS) {
            return Err(Invalid::new(format!(
                "{name} cannot be given to jobs: TENURE_ variables are Tenure's own, and jobs get those that describe them"
            )));
        }
        let Some(value) = value else {
            return Err(Invalid::new(format!(
                "{name} is not in the worker's environment; set it there, or write {name}=VALUE"
            )));
        };
        self.extra.push((name.into(), value));
        Ok(())
    }

    /// What is passed on of these variables, and what was asked for.
    fn of(
        &self,
        own: impl Iterator<Item = (OsString, OsString)>,
        user: Option<&User>,
    ) -> Vec<(OsString, OsString)> {
        let mut all: Vec<_> = own.filter(|(name, _)| self.passes(name)).collect();
        let pairs = user.into_iter().flat_map(User::variables);
        for (name, value) in pairs.map(|(name, value)| (name.into(), value.into())).chain(self.extra.clone())
        {
            all.retain(|(known, _)| *known != name);
            all.push((name, value));
        }
        all
    }

    fn passes(&self, name: &OsStr) -> bool {
        let name = name.to_string_lossy();
        if self.is_cleared {
            KEPT.contains(&name.as_ref()) || name.starts_with("LC_")
        } else {
            !name.starts_with(OURS) && name != "DATABASE_URL"
        }
    }
}

impl Conditions {
    /// The default, with this isolation.
    pub fn isolated(isolation: Isolation) -> Conditions {
        Conditions { isolation, ..Conditions::default() }
    }

    /// The environment of the guardian, which is what its jobs inherit.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        self.environment.of(std::env::vars_os(), self.user.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(environment: &Environment, user: Option<&User>, expected: &[(&str, &str)]) {
        let own = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("HOME", "/root"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("DATABASE_URL", "postgres://u:p@h/d"),
            ("TENURE_DATABASE_URL", "postgres://u:p@h/d"),
            ("TENURE_TOKEN", "t"),
            ("TENURE_GUARDIAN", "1"),
        ];
        let own = own.into_iter().map(|(name, value)| (name.into(), value.into()));
        let expected: Vec<(OsString, OsString)> =
            expected.iter().map(|(name, value)| (name.into(), value.into())).collect();
        assert_eq!(environment.of(own, user), expected);
    }

    #[test]
    fn the_workers_own_settings_and_database_are_not_the_jobs() {
        let kept = [("PATH", "/bin"), ("LC_ALL", "C"), ("HOME", "/root")];
        let other = ("AWS_SECRET_ACCESS_KEY", "s");
        check(&Environment::default(), None, &[&kept[..], &[other]].concat());
        let mut cleared = Environment::default();
        cleared.clear();
        check(&cleared, None, &kept);
        cleared.add("DATABASE_URL=mine").unwrap();
        cleared.add("HOME=/srv").unwrap();
        cleared.add("EMPTY=").unwrap();
        cleared.add("EMPTY=a=b").unwrap();
        let asked = [("DATABASE_URL", "mine"), ("HOME", "/srv"), ("EMPTY", "a=b")];
        check(&cleared, None, &[&kept[..2], &asked].concat());
    }

    #[test]
    fn another_user_is_at_home_elsewhere() {
        let user = User::find_in("ann", "ann:x:7:8::/home/ann:/bin/sh", "").unwrap();
        let mut environment = Environment::default();
        environment.clear();
        let ann = [("HOME", "/home/ann"), ("USER", "ann"), ("LOGNAME", "ann")];
        check(&environment, Some(&user), &[&[("PATH", "/bin"), ("LC_ALL", "C")][..], &ann].concat());
    }

    #[test]
    fn a_variable_is_named_or_set_and_never_ours() {
        for (text, complaint) in [
            ("", "names no variable"),
            ("=x", "names no variable"),
            ("NO_SUCH_VARIABLE_HERE", "is not in the worker's environment"),
            ("TENURE_TOKEN", "TENURE_ variables are Tenure's own"),
            ("TENURE_SERVER=x", "TENURE_ variables are Tenure's own"),
        ] {
            let error = Environment::default().add(text).unwrap_err().0;
            assert!(error.contains(complaint), "{text:?}: {error}");
        }
        let mut environment = Environment::default();
        environment.add("PATH").unwrap();
        assert_eq!(environment.extra, [("PATH".into(), std::env::var_os("PATH").unwrap())]);
    }
}
