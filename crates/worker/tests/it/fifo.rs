//! A FIFO that every process of a job holds open tells when the last one of them is gone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, mkfifoat};
use worker::ExecRunner;

use crate::support::patiently;

/// A FIFO in the temporary directory, removed at the end.
pub(crate) struct Fifo(PathBuf);

impl Fifo {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("tenure-exec-{:016x}", rand::random::<u64>()));
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a FIFO can be made");
        Fifo(path)
    }

    /// A script that has the FIFO open as descriptor 3, in all its processes.
    pub(crate) fn script(&self, script: &str) -> String {
        format!("exec 3>'{}'; {script}", self.0.display())
    }

    /// A runner for such a script.
    pub(crate) fn shell(&self, script: &str) -> ExecRunner {
        shell(&self.script(script))
    }

    /// Waits for the first line written to it.
    pub(crate) async fn first_line(&self) -> (String, BufReader<File>) {
        let path = self.0.clone();
        blocking("the first line", move || {
            let mut reader = BufReader::new(File::open(path).expect("the FIFO can be read"));
            let mut line = String::new();
            reader.read_line(&mut line).expect("the FIFO can be read");
            (line, reader)
        })
        .await
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Waits until no process has the FIFO open for writing any more.
pub(crate) async fn all_gone(mut reader: BufReader<File>) {
    blocking("the end of all processes", move || {
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).expect("the FIFO can be read");
    })
    .await;
}

/// A runner for this script.
pub(crate) fn shell(script: &str) -> ExecRunner {
    ExecRunner::new(vec!["sh".into(), "-c".into(), script.into()]).expect("there is a shell")
}

/// Runs this in a thread that a failing test leaves behind: a runtime would wait for it.
async fn blocking<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || drop(done.send(work())));
    patiently(what, result).await.expect("it does not panic")
}
