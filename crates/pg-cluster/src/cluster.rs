//! The cluster itself: started, asked, stopped, killed, frozen, and started again.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::ClusterError;
use crate::home::Home;
use crate::options::Options;
use crate::port::Port;
use crate::processes::Postmaster;
use crate::programs::{Programs, run};

/// The superuser of every cluster.
pub const USER: &str = "tenure";
/// How long something that comes by itself, such as a standby's first message, may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much of the server's log an error shows.
const LOG_LINES_MAX: usize = 30;

/// A private PostgreSQL. Dropping it kills it and removes its directory.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    home: Home,
    port: Port,
    /// Of [`USER`].
    password: String,
}

impl Cluster {
    /// Starts one that suits tests. Returns when it accepts connections.
    pub fn start() -> Result<Cluster, ClusterError> {
        Options::default().start()
    }

    /// The one cluster of all tests that run in this process at this time; the last one to drop it ends it. Since others
    /// use it, too, it must be neither killed nor frozen nor configured.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn shared() -> Arc<Cluster> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        // A test that failed to start one leaves none behind.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Cluster::start().unwrap_or_else(|error| panic!("{error}")));
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    pub(crate) fn start_with(options: &Options) -> Result<Cluster, ClusterError> {
        let cluster = Cluster::prepare(Programs::find()?, new_password()?)?;
        let password = cluster.home.secret("password", &cluster.password)?;
        let mut initdb = cluster.programs.command("initdb", cluster.home());
        initdb.args(["--no-sync", "--encoding=UTF8", "--locale=C", "-U", USER]);
        // Every user of this machine can reach the port. The socket lies in a directory that only we and the server may enter.
        initdb.args(["--auth-host=scram-sha-256", "--auth-local=trust", "--pwfile"]).arg(password.path());
        run(initdb.arg("-D").arg(cluster.home.data()))?;
        if options.tls {
            cluster.certify()?;
        }
        cluster.append("postgresql.conf", &options.lines())?;
        cluster.restart()?;
        Ok(cluster)
    }

    /// One with a place and a port, and nothing in it yet.
    pub(crate) fn prepare(programs: Programs, password: String) -> Result<Cluster, ClusterError> {
        let home = Home::new(&programs)?;
        let port = Port::reserve().map_err(ClusterError::system("reserve a port on 127.0.0.1"))?;
        Ok(Cluster { programs, home, port, password })
    }

    /// Where a database is reached over TCP.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://{}@127.0.0.1:{}/{database}", self.login(), self.port())
    }

    /// The superuser and its password, as a URL has them.
    pub fn login(&self) -> String {
        format!("{USER}:{}", self.password)
    }

    /// The superuser's password: without it, nobody is let in over TCP.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Where a database is reached by the Unix socket in [`home`](Self::home). Only the user of the server and root can, and
    /// they need no password.
    pub fn socket_url(&self, database: &str) -> String {
        // A slash would end the host.
        let host = self.home().display().to_string().replace('%', "%25").replace('/', "%2F");
        format!("postgresql://{USER}@{host}:{}/{database}", self.port())
    }

    /// The TCP port on 127.0.0.1, the same for as long as the cluster exists.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where PostgreSQL's programs are.
    pub fn binaries(&self) -> &Path {
        self.programs.folder()
    }

    /// Its directory: the Unix socket, the server's log in `server.log`, everything else in `data`.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Creates a database. Answers its [`url`](Self::url), into which the name goes as it is.
    pub fn create_database(&self, name: &str) -> Result<String, ClusterError> {
        self.psql("postgres", &format!("CREATE DATABASE {}", identifier(name)))?;
        Ok(self.url(name))
    }

    /// Creates a database of a name that this process uses only once. Answers its [`url`](Self::url).
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn fresh_database(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("fresh_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.create_database(&name).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs statements, each in a transaction of its own, up to the first that fails. Answers the rows, one per line, with `|`
    /// between their columns.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, ClusterError> {
        let script = || -> std::io::Result<File> {
            let mut script = tempfile::tempfile()?;
            script.write_all(sql.as_bytes())?;
            script.rewind()?;
            Ok(script)
        };
        let mut psql = self.programs.command("psql", self.home());
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", database, "-h"])
            .arg(self.home());
        psql.args(["-p", &self.port().to_string()]);
        run(psql.stdin(script().map_err(ClusterError::system("write the statements down"))?))
    }

    /// Sets a parameter for good and has the server read it. Sessions that begin afterwards have it, sessions that are open follow
    /// with their next statement; some parameters wait for a [`restart`](Self::restart).
    pub fn configure(&self, name: &str, value: &str) -> Result<(), ClusterError> {
        let before = self.psql("postgres", "SELECT pg_conf_load_time()")?;
        let set = format!("ALTER SYSTEM SET {name} = {}; SELECT pg_reload_conf()", literal(value));
        self.psql("postgres", &set)?;
        // New sessions are born with what the postmaster has read.
        self.wait_until(
            &format!("SELECT pg_conf_load_time() <> {}", literal(&before)),
            &format!("reading {name} = {value}"),
        )
    }

    /// Kills the postmaster and its children at once, as a crash of the machine does, but for what was written and not synced.
    /// Returns when they are gone. Does nothing if it is not running.
    pub fn kill(&self) {
        if let Some(postmaster) = self.postmaster() {
            postmaster.kill();
        }
        // The server would take these for those of a living one where nobody buries the dead: a process whose parent never asks
        // for its exit code keeps its id.
        let socket = format!(".s.PGSQL.{}", self.port());
        for name in ["data/postmaster.pid", &socket, &format!("{socket}.lock")] {
            let _ = fs::remove_file(self.home().join(name));
        }
    }

    /// Stops it in order: sessions are ended, everything is written. Does nothing if it is not running. A frozen one must be
    /// thawed first.
    ///
    /// # Panics
    /// If it does not stop.
    pub fn stop(&self) {
        if self.postmaster().is_some() {
            self.pg_ctl(&["stop", "-m", "fast"]).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Starts it on the same port again, after [`kill`](Self::kill) or [`stop`](Self::stop). Returns when it accepts connections.
    pub fn restart(&self) -> Result<(), ClusterError> {
        let (home, port) = (self.home().display(), self.port());
        self.pg_ctl(&[
            "start",
            "-l",
            &self.home.log().display().to_string(),
            "-o",
            &format!("-k '{home}' -p {port} -c listen_addresses=127.0.0.1"),
        ])
    }

    /// Stops the postmaster and its children in their tracks. Clients still connect, since the kernel does that, and wait.
    ///
    /// # Panics
    /// If it is not running.
    pub fn freeze(&self) {
        self.postmaster().expect("a running server").freeze();
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// If it is not running.
    pub fn thaw(&self) {
        self.postmaster().expect("a running server").thaw();
    }

    /// Runs `pg_ctl` until what it does is done.
    pub(crate) fn pg_ctl(&self, args: &[&str]) -> Result<(), ClusterError> {
        let mut command = self.programs.command("pg_ctl", self.home());
        let done = run(command.args(args).args(["-w", "-s", "-D"]).arg(self.home.data()));
        done.map(drop).map_err(|error| match error {
            ClusterError::Failed { program, status, said } => {
                ClusterError::Failed { program, status, said: format!("{said}\n{}", self.log_end()) }
            }
            other => other,
        })
    }

    /// Asks until the answer is yes.
    pub(crate) fn wait_until(&self, question: &str, what: &str) -> Result<(), ClusterError> {
        let begun = Instant::now();
        while self.psql("postgres", question)? != "t" {
            if begun.elapsed() > PATIENCE {
                let (what, seconds) = (what.to_owned(), PATIENCE.as_secs());
                return Err(ClusterError::TooLate { what, seconds, log: self.log_end() });
            }
        }
        Ok(())
    }

    /// Adds text to a file of the data directory.
    pub(crate) fn append(&self, file: &str, text: &str) -> Result<(), ClusterError> {
        let path = self.home.data().join(file);
        let written =
            File::options().append(true).open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(ClusterError::system(format!("write to {}", path.display())))
    }

    pub(crate) const fn programs(&self) -> &Programs {
        &self.programs
    }

    fn postmaster(&self) -> Option<Postmaster> {
        Postmaster::of(&self.home.data())
    }

    /// Makes a key and the certificate that it signs itself, where the server looks for them.
    fn certify(&self) -> Result<(), ClusterError> {
        let mut openssl = self.programs.foreign_command("openssl", &self.home.data());
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-noenc",
            "-days",
            "7",
        ]);
        openssl.args(["-keyout", "server.key", "-out", "server.crt", "-subj", "/CN=localhost"]);
        run(openssl.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])).map(drop)
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(self.home.log()).unwrap_or_default();
        let skipped = log.lines().count().saturating_sub(LOG_LINES_MAX);
        log.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One that nobody guesses.
fn new_password() -> Result<String, ClusterError> {
    let mut bytes = [0; 16];
    let drawn = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    drawn.map_err(ClusterError::system("draw a password"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A name, quoted.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text, quoted.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
