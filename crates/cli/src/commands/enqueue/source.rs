//! Where the jobs of an enqueue come from: copies of one, or the lines of a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use bytes::Bytes;
use model::{Invalid, JobId, Limits};
use rpc::{convert, wire};
use serde_json::value::RawValue;

use crate::exit::Failure;

/// Jobs, one after the other.
pub(super) enum Source {
    Copies { job: Box<wire::NewJob>, total: u64, given: u64 },
    Lines(Lines),
}

/// The lines of a file, each a job or a payload.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    name: String,
    number: u64,
    form: Form,
}

/// How a line becomes a job.
enum Form {
    /// A line is a payload of this job.
    Payload(Box<wire::NewJob>),
    /// A line says what differs from these fields.
    Job { defaults: Fields },
}

/// The fields of a job, each as it is written.
type Fields = BTreeMap<String, Box<RawValue>>;

impl Source {
    /// The same job several times.
    pub(super) fn copies(job: wire::NewJob, total: u64) -> Self {
        Source::Copies { job: Box::new(job), total, given: 0 }
    }

    /// The lines of a file, or of stdin for `-`.
    pub(super) fn open(path: &Path, raw: bool, template: wire::NewJob) -> anyhow::Result<Self> {
        let (reader, name): (Box<dyn BufRead>, _) = if path == Path::new("-") {
            (Box::new(BufReader::new(io::stdin())), "stdin".to_owned())
        } else {
            let name = path.display().to_string();
            let file =
                File::open(path).map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
            (Box::new(BufReader::new(file)), name)
        };
        let form = if raw { Form::Payload(Box::new(template)) } else { Form::from_template(&template)? };
        Ok(Source::Lines(Lines { reader, name, number: 0, form }))
    }

    /// How many there will be, if that is known.
    pub(super) fn total(&self) -> Option<u64> {
        match self {
            Source::Copies { total, .. } => Some(*total),
            Source::Lines(_) => None,
        }
    }

    /// The next job; `None` after the last.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<wire::NewJob>> {
        match self {
            Source::Copies { given, total, .. } if given == total => Ok(None),
            Source::Copies { job, given, .. } => {
                *given += 1;
                Ok(Some((**job).clone()))
            }
            Source::Lines(lines) => lines.next(),
        }
    }
}

impl Lines {
    fn next(&mut self) -> anyhow::Result<Option<wire::NewJob>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            self.number += 1;
            let read = self.reader.read_until(b'\n', &mut line);
            let read =
                read.map_err(|error| Failure::failed(format!("cannot read {}: {error}", self.name)))?;
            if read == 0 {
                return Ok(None);
            }
            let line = line.trim_ascii_end();
            if !line.is_empty() {
                let job = self.form.read(line);
                return job.map(Some).map_err(|why| {
                    Failure::usage(format!("{} line {}: {why}", self.name, self.number)).into()
                });
            }
        }
    }
}

impl Form {
    fn from_template(template: &wire::NewJob) -> anyhow::Result<Self> {
        // Raw values, so that no payload is changed by passing through here.
        let mut defaults: Fields = serde_json::from_str(&serde_json::to_string(template)?)?;
        // A line has at most one of these, and the flags of such a run have none.
        for name in ["payload", "payload_base64"] {
            defaults.insert(name.to_owned(), RawValue::NULL.to_owned());
        }
        Ok(Form::Job { defaults })
    }

    fn read(&self, line: &[u8]) -> Result<wire::NewJob, Invalid> {
        let defaults = match self {
            Form::Payload(job) => {
                let payload = Bytes::copy_from_slice(line);
                return Ok(wire::NewJob { payload, ..(**job).clone() });
            }
            Form::Job { defaults } => defaults,
        };
        let given: Fields = serde_json::from_slice(line).map_err(|error| {
            Invalid::new(format!("not a job as a JSON object ({error}); for payloads add --raw"))
        })?;
        // The wire format ignores what it does not know; in a file that is a misspelt key.
        if let Some(unknown) = given.keys().find(|key| !defaults.contains_key(*key)) {
            let known: Vec<&str> = defaults.keys().map(String::as_str).collect();
            return Err(Invalid::new(format!("unknown key {unknown:?}; the keys are {}", known.join(", "))));
        }
        let mut fields = defaults.clone();
        fields.extend(given);
        let job: wire::NewJob = serde_json::to_string(&fields)
            .and_then(|text| serde_json::from_str(&text))
            .map_err(|error| Invalid::new(error.to_string()))?;
        if job.queue.is_empty() {
            return Err(Invalid::new("names no queue; add the key \"queue\" or name one before --file"));
        }
        check(&job)?;
        Ok(job)
    }
}

/// Finds what a server would refuse, while the number of the line is still known. Only the server knows how large a
/// payload may be.
fn check(job: &wire::NewJob) -> Result<(), Invalid> {
    let limits = Limits { payload_bytes_max: usize::MAX, ..Limits::default() };
    convert::new_job(job.clone(), || JobId::from_bytes([0; 16]))?.check(&limits)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The queues and payloads of all jobs, or the first error.
    fn read_all(text: &str, raw: bool) -> Result<Vec<(String, String)>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let template = wire::NewJob { queue: "from-flag".into(), priority: 3, ..Default::default() };
        let mut source = Source::open(file.path(), raw, template).unwrap();
        let mut jobs = Vec::new();
        while let Some(job) = source.next().map_err(|error| error.to_string())? {
            assert_eq!(job.priority, 3, "flags apply where a line is silent");
            jobs.push((job.queue, String::from_utf8(job.payload.to_vec()).unwrap()));
        }
        Ok(jobs)
    }

    fn pair(queue: &str, payload: &str) -> (String, String) {
        (queue.to_owned(), payload.to_owned())
    }

    #[test]
    fn lines_are_jobs_and_blank_ones_are_passed_over() {
        let text = "{\"queue\":\"a\",\"payload\":{\"n\":1}}\n\n  \n{\"payload\":\"text\"}";
        assert_eq!(read_all(text, false), Ok(vec![pair("a", "{\"n\":1}"), pair("from-flag", "\"text\"")]));
    }

    #[test]
    fn a_payload_is_what_the_line_says() {
        let text = "{\"payload\":{\"base64\":\"MTIz\"}}\n{\"payload_base64\":\"MTIz\"}\n\
                    {\"payload\":\"text\",\"content_type\":\"text/plain\"}";
        let payloads = ["{\"base64\":\"MTIz\"}", "123", "text"].map(|payload| pair("from-flag", payload));
        assert_eq!(read_all(text, false), Ok(payloads.to_vec()));
    }

    #[test]
    fn raw_lines_are_payloads() {
        let text = "{\"queue\":\"a\"}\r\nhello\n";
        assert_eq!(
            read_all(text, true),
            Ok(vec![pair("from-flag", "{\"queue\":\"a\"}"), pair("from-flag", "hello")])
        );
    }

    #[test]
    fn a_bad_line_is_named_by_number() {
        for (text, why) in [
            ("{}\n\nhello\n", "line 3: not a job"),
            ("{\"que\":\"a\"}", "line 1: unknown key \"que\"; the keys are content_type"),
            ("{\"queue\":7}", "line 1: invalid type"),
            ("{\"queue\":\"\"}", "line 1: names no queue"),
            ("[1]", "line 1: not a job"),
            ("{\"queue\":\"a b\"}", "line 1: queue name must not contain ' '"),
            ("{\"payload\":1e999}", "line 1: payload has a number beyond 1.8e308"),
            ("{\"payload\":1,\"payload_base64\":\"\"}", "line 1: give either payload or payload_base64"),
            ("{\"delay_ms\":-1}", "line 1: delay_ms is -1; it must not be negative"),
        ] {
            let error = read_all(text, false).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn copies_end() {
        let mut source = Source::copies(wire::NewJob::default(), 2);
        assert_eq!(source.total(), Some(2));
        assert!(source.next().unwrap().is_some() && source.next().unwrap().is_some());
        assert!(source.next().unwrap().is_none());
    }
}
