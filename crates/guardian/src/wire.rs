//! What worker and guardian say to each other, as bytes. Both are the same program, so there is one version and no
//! compatibility; what cannot be read is `None` and ignored.

use std::time::Duration;

use lease::clock_rule::Stopping;
use lease::guardian::{FamilyId, Order};
use model::{Instant, Nonce, WorkerKey};

use crate::user::Credentials;

/// The largest packet. A launch that takes more is refused: the kernel would not take it in one piece either.
pub const PACKET_BYTES_MAX: usize = 128 << 10;

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The first packet; it brings a descriptor of the worker's process.
    Hello {
        /// You are the init of a PID namespace of your own.
        namespace: bool,
        /// Jobs may gain privileges by the programs they start.
        new_privileges: bool,
        /// Who jobs run as, if not as you.
        credentials: Option<Credentials>,
    },
    /// Where to take leave, separated by commas.
    Servers(String),
    /// An order that is complete in itself.
    Order(Order),
    /// A family to start; the packet brings its standard streams.
    Launch { family: FamilyId, exclusive: bool, command: CommandLine },
}

/// A program to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// Besides what is inherited.
    pub(crate) env: Vec<(String, String)>,
}

/// What a guardian says. Several fit one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first one.
    Ready {
        /// The directory of its cgroups, if it has one.
        cgroup: Option<String>,
    },
    /// The first and last one: why not.
    Unfit(String),
    /// It runs; its leader's number as the guardian sees it.
    Launched { family: FamilyId, leader: u32 },
    /// It could not be started, for this error of the operating system.
    Failed { family: FamilyId, errno: i32 },
    /// It was not started: too late.
    Refused(FamilyId),
    /// Nobody of it was left at this time.
    Ended { family: FamilyId, code: Option<i32>, signal: Option<i32>, gone_at: Instant },
}

impl Said {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Said::Hello { namespace, new_privileges, credentials } => {
                out.u8(0).u8(u8::from(*namespace)).u8(u8::from(*new_privileges));
                out.credentials(credentials.as_ref())
            }
            Said::Servers(servers) => out.u8(1).text(servers),
            Said::Launch { family, exclusive, command } => {
                out.u8(2).u64(family.0).u8(u8::from(*exclusive)).text(&command.program);
                out.u64(command.args.len() as u64);
                for arg in &command.args {
                    out.text(arg);
                }
                out.u64(command.env.len() as u64);
                for (name, value) in &command.env {
                    out.text(name).text(value);
                }
                &mut out
            }
            Said::Order(order) => out.order(order),
        };
        out.0
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Said> {
        let mut input = Reader(bytes);
        let said = match input.u8()? {
            0 => Said::Hello {
                namespace: input.bool()?,
                new_privileges: input.bool()?,
                credentials: input.credentials()?,
            },
            1 => Said::Servers(input.text()?),
            2 => {
                let (family, exclusive) = (FamilyId(input.u64()?), input.bool()?);
                let program = input.text()?;
                // Counts are not trusted: each element takes room in the packet, so reading ends with it.
                let args = (0..input.u64()?).map(|_| input.text()).collect::<Option<_>>()?;
                let env = (0..input.u64()?).map(|_| Some((input.text()?, input.text()?)));
                let command = CommandLine { program, args, env: env.collect::<Option<_>>()? };
                Said::Launch { family, exclusive, command }
            }
            kind => Said::Order(input.order(kind)?),
        };
        input.0.is_empty().then_some(said)
    }
}

impl Event {
    /// Appends it.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let mut out = Writer(std::mem::take(bytes));
        match self {
            Event::Ready { cgroup } => out.u8(0).text(cgroup.as_deref().unwrap_or_default()),
            Event::Unfit(why) => out.u8(1).text(why),
            Event::Launched { family, leader } => out.u8(2).u64(family.0).u64(u64::from(*leader)),
            Event::Failed { family, errno } => out.u8(3).u64(family.0).i32(*errno),
            Event::Refused(family) => out.u8(4).u64(family.0),
            Event::Ended { family, code, signal, gone_at } => {
                out.u8(5).u64(family.0).maybe(*code).maybe(*signal).u64(gone_at.as_nanos())
            }
        };
        *bytes = out.0;
    }

    /// Takes the first one off these bytes.
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Event> {
        let mut input = Reader(bytes);
        let event = match input.u8()? {
            0 => Event::Ready { cgroup: Some(input.text()?).filter(|path| !path.is_empty()) },
            1 => Event::Unfit(input.text()?),
            2 => {
                Event::Launched { family: FamilyId(input.u64()?), leader: u32::try_from(input.u64()?).ok()? }
            }
            3 => Event::Failed { family: FamilyId(input.u64()?), errno: input.i32()? },
            4 => Event::Refused(FamilyId(input.u64()?)),
            5 => Event::Ended {
                family: FamilyId(input.u64()?),
                code: input.maybe()?,
                signal: input.maybe()?,
                gone_at: Instant::from_nanos(input.u64()?),
            },
            _ => return None,
        };
        *bytes = input.0;
        Some(event)
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn i32(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn maybe(&mut self, value: Option<i32>) -> &mut Self {
        self.u8(u8::from(value.is_some())).i32(value.unwrap_or_default())
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.u64(text.len() as u64);
        self.0.extend(text.as_bytes());
        self
    }

    fn span(&mut self, span: Duration) -> &mut Self {
        self.u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }

    fn credentials(&mut self, credentials: Option<&Credentials>) -> &mut Self {
        self.u8(u8::from(credentials.is_some()));
        if let Some(Credentials { uid, gid, groups }) = credentials {
            self.u32(*uid).u32(*gid).u64(groups.len() as u64);
            for group in groups {
                self.u32(*group);
            }
        }
        self
    }

    fn order(&mut self, order: &Order) -> &mut Self {
        match order {
            Order::Terms(stopping) => self.u8(10).span(stopping.kill_wait).span(stopping.safety),
            Order::Key { key, nonce } => self.u8(11).text(key.as_str()).u64(nonce.get()),
            Order::Hold { until } => self.u8(12).u64(until.as_nanos()),
            Order::Launch { family, exclusive } => self.u8(13).u64(family.0).u8(u8::from(*exclusive)),
            Order::Terminate { family } => self.u8(14).u64(family.0),
            Order::Kill { family } => self.u8(15).u64(family.0),
            Order::Inside { exclusive } => self.u8(16).u8(u8::from(*exclusive)),
            Order::Bye => self.u8(17),
            Order::Lease { until } => self.u8(18).u64(until.as_nanos()),
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn maybe(&mut self) -> Option<Option<i32>> {
        let (is_some, value) = (self.bool()?, self.i32()?);
        Some(is_some.then_some(value))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.u64()?).ok()?;
        String::from_utf8(self.bytes(length)?.to_vec()).ok()
    }

    fn span(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_nanos)
    }

    fn credentials(&mut self) -> Option<Option<Credentials>> {
        if !self.bool()? {
            return Some(None);
        }
        let (uid, gid) = (self.u32()?, self.u32()?);
        let groups = (0..self.u64()?).map(|_| self.u32()).collect::<Option<_>>()?;
        Some(Some(Credentials { uid, gid, groups }))
    }

    fn family(&mut self) -> Option<FamilyId> {
        self.u64().map(FamilyId)
    }

    fn order(&mut self, kind: u8) -> Option<Order> {
        Some(match kind {
            10 => Order::Terms(Stopping { kill_wait: self.span()?, safety: self.span()? }),
            11 => Order::Key { key: WorkerKey::new(&self.text()?).ok()?, nonce: Nonce::new(self.u64()?) },
            12 => Order::Hold { until: Instant::from_nanos(self.u64()?) },
            // 13 is a launch without a command: nothing could be started.
            14 => Order::Terminate { family: self.family()? },
            15 => Order::Kill { family: self.family()? },
            16 => Order::Inside { exclusive: self.bool()? },
            17 => Order::Bye,
            18 => Order::Lease { until: Instant::from_nanos(self.u64()?) },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything_said() -> Vec<Said> {
        let family = FamilyId(7);
        let orders = [
            Order::Terms(Stopping::DEFAULT),
            Order::Key { key: WorkerKey::new("w-1").unwrap(), nonce: Nonce::new(9) },
            Order::Hold { until: Instant::from_millis(5) },
            Order::Lease { until: Instant::from_millis(6) },
            Order::Terminate { family },
            Order::Kill { family },
            Order::Inside { exclusive: true },
            Order::Bye,
        ];
        let command = CommandLine {
            program: "sh".into(),
            args: vec!["-c".into(), String::new()],
            env: vec![("A".into(), "b=c".into())],
        };
        let credentials = Credentials { uid: 1, gid: 2, groups: vec![3, 4] };
        let mut all = vec![
            Said::Hello { namespace: true, new_privileges: false, credentials: None },
            Said::Hello { namespace: false, new_privileges: true, credentials: Some(credentials) },
            Said::Servers("http://a:1,b:2".into()),
            Said::Launch { family, exclusive: true, command },
        ];
        all.extend(orders.map(Said::Order));
        all
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        for said in everything_said() {
            assert_eq!(Said::read(&said.to_bytes()), Some(said));
        }
    }

    #[test]
    fn events_share_a_packet() {
        let family = FamilyId(3);
        let events = [
            Event::Ready { cgroup: Some("/x".into()) },
            Event::Ready { cgroup: None },
            Event::Unfit("no".into()),
            Event::Launched { family, leader: 4 },
            Event::Failed { family, errno: 2 },
            Event::Refused(family),
            Event::Ended { family, code: Some(0), signal: None, gone_at: Instant::from_nanos(5) },
            Event::Ended { family, code: None, signal: Some(9), gone_at: Instant::from_nanos(u64::MAX) },
        ];
        let mut bytes = Vec::new();
        events.iter().for_each(|event| event.write(&mut bytes));
        let mut rest = &bytes[..];
        let read: Vec<Event> = std::iter::from_fn(|| Event::take(&mut rest)).collect();
        assert_eq!((read, rest), (events.to_vec(), &[][..]));
    }

    #[test]
    fn half_a_packet_and_too_much_of_it_mean_nothing() {
        for said in everything_said() {
            let mut bytes = said.to_bytes();
            for length in 0..bytes.len() {
                assert_eq!(Said::read(&bytes[..length]), None, "{said:?} cut to {length}");
            }
            bytes.push(0);
            assert_eq!(Said::read(&bytes), None, "{said:?}");
        }
        let endless = [&[2][..], &[0; 8], &[0], &[0; 8], &[0xff; 8]].concat();
        assert_eq!(Said::read(&endless), None, "a launch with 2^64 arguments");
    }
}
