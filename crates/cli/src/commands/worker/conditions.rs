//! What commands see of the worker's environment, who they run as, and what they may become.

use model::Invalid;
use worker::guardian::{Conditions, Environment, Isolation, User};

/// The options about it.
#[derive(Debug, clap::Args)]
pub(super) struct ConditionArgs {
    /// How commands are kept apart: namespace (a PID namespace of their own), groups, or auto (what is allowed)
    #[arg(long, value_name = "auto|namespace|groups", default_value = "auto")]
    isolation: Isolation,
    /// A variable for the commands: one of the worker's, or a new one; several may be given
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Give them of the worker's environment only PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_*, TZ, TMPDIR and --env
    #[arg(long)]
    env_clear: bool,
    /// Run the commands as this user, by name or number (only as root)
    #[arg(long, value_name = "USER[:GROUP]", value_parser = user)]
    user: Option<User>,
    /// Let commands gain privileges by what they start, such as sudo
    #[arg(long)]
    allow_new_privs: bool,
}

impl ConditionArgs {
    pub(super) fn conditions(self) -> Result<Conditions, Invalid> {
        let mut environment = Environment::default();
        if self.env_clear {
            environment.clear();
        }
        for variable in &self.env {
            environment.add(variable)?;
        }
        Ok(Conditions {
            isolation: self.isolation,
            environment,
            user: self.user,
            new_privileges: self.allow_new_privs,
        })
    }
}

fn user(text: &str) -> Result<User, String> {
    User::find(text).map_err(|invalid| invalid.0)
}
