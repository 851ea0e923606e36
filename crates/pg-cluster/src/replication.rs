//! A second cluster that follows the first one, and may take its place.

use crate::cluster::{Cluster, USER, identifier, literal};
use crate::error::ClusterError;
use crate::options::line;
use crate::programs::run;

impl Cluster {
    /// Starts a standby of this cluster that calls itself `name`. Returns when it streams. It survives this cluster, looks for
    /// it again when it was away, and answers questions meanwhile.
    pub fn standby(&self, name: &str) -> Result<Cluster, ClusterError> {
        // Its roles are the primary's, and so are their passwords.
        let standby = Cluster::prepare(self.programs().clone(), self.password().to_owned())?;
        let primary = format!(
            "host={} port={} user={USER} application_name={}",
            conninfo_value(&self.home().display().to_string()),
            self.port(),
            conninfo_value(name)
        );
        let mut backup = self.programs().command("pg_basebackup", standby.home());
        backup.args(["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
        run(backup.args(["-d", &primary, "-D", "data"]))?;
        // What the primary waits for is no standby of its standby, who would wait for it in vain once it is promoted.
        standby.append("postgresql.auto.conf", &line("synchronous_standby_names", ""))?;
        standby.restart()?;
        self.wait_until(&has_standby(name, "state = 'streaming'"), &format!("streaming to standby {name}"))?;
        Ok(standby)
    }

    /// From now on a commit is answered when the standby of this name has it, too. Returns when that is so.
    pub fn make_synchronous(&self, name: &str) -> Result<(), ClusterError> {
        self.configure("synchronous_commit", "on")?;
        self.configure("synchronous_standby_names", &identifier(name))?;
        self.wait_until(&has_standby(name, "sync_state = 'sync'"), &format!("waiting for standby {name}"))
    }

    /// Makes a standby a primary. Returns when it accepts writes.
    pub fn promote(&self) -> Result<(), ClusterError> {
        self.pg_ctl(&["promote"])?;
        self.wait_until("SELECT NOT pg_is_in_recovery()", "the promotion")
    }
}

/// The question whether a standby of this name is in this condition.
fn has_standby(name: &str, condition: &str) -> String {
    let name = literal(name);
    format!("SELECT count(*) > 0 FROM pg_stat_replication WHERE application_name = {name} AND {condition}")
}

/// A value of a connection string, quoted.
fn conninfo_value(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}
