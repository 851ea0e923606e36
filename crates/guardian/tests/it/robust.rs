//! What a guardian puts up with, and what it costs.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clock::SystemClock;
use model::Clock;
use rustix::event::PollFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open};

use crate::support::{PROGRAM, Process, attached, end, guardians, shell, wait_for};

#[tokio::test]
async fn signals_to_the_whole_group_do_not_end_it() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let process = Process::new(guardian.pid());
        for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1] {
            process.signal(signal);
        }
        let mut family = guardian.launch(shell("after", "kill -TERM $$")).await.expect("a family");
        assert_eq!(end(&mut family).await.signal, Some(15), "jobs do not inherit its deafness, in {mode}");
    }
}

#[tokio::test]
async fn it_stays_small() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        for _ in 0..50 {
            let mut family = guardian.launch(shell("small", "exit 0")).await.expect("a family");
            end(&mut family).await;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", guardian.pid())).expect("it lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
        let kilobytes: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        assert!(kilobytes < 5 << 10, "{kilobytes} kB in {mode}");
    }
}

fn send(line: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(descriptors.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    sendmsg(line, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty()).expect("the line");
}

fn receive(line: &OwnedFd) -> Vec<u8> {
    wait_for(line, PollFlags::IN);
    let mut buffer = vec![0; 1 << 16];
    let mut nothing = RecvAncillaryBuffer::default();
    let received = recvmsg(line, &mut [IoSliceMut::new(&mut buffer)], &mut nothing, RecvFlags::empty());
    buffer.truncate(received.expect("the line").bytes);
    buffer
}

/// A guardian whose line is in our own hands.
struct Raw {
    child: Child,
    line: OwnedFd,
}

impl Raw {
    fn start() -> Raw {
        let (line, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a line");
        let mut command = Command::new(PROGRAM);
        command.env("TENURE_GUARDIAN", "1").stdin(theirs).stderr(Stdio::null());
        let raw = Raw { child: command.spawn().expect("a guardian"), line };
        drop(command);
        send(&raw.line, &[0, 0, 0, 0], &[me().as_fd()]);
        assert_eq!(receive(&raw.line).first(), Some(&0), "ready");
        raw
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn me() -> OwnedFd {
    pidfd_open(getpid(), PidfdFlags::empty()).expect("a descriptor")
}

fn number(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

fn text(text: &str) -> Vec<u8> {
    [&number(text.len() as u64), text.as_bytes()].concat()
}

/// A launch of this program with one argument and no variables.
fn launch(family: u64, exclusive: bool, program: &str, arg: &str) -> Vec<u8> {
    let head = [&[2][..], &number(family), &[u8::from(exclusive)]].concat();
    [head, text(program), number(1).into(), text(arg), number(0).into()].concat()
}

#[test]
fn garbage_on_the_line_does_not_hurt() {
    let Raw { line, .. } = &Raw::start();
    for garbage in [&[0xff; 16][..], &[2], &[2; 100], &[17, 17], &vec![7; 150 << 10]] {
        send(line, garbage, &[me().as_fd(), me().as_fd()]);
    }
    send(line, &launch(1, false, "true", ""), &[me().as_fd()]);
    let failed = receive(line);
    assert_eq!((failed[0], &failed[1..9]), (3, &number(1)[..]), "it lacks its streams: {failed:?}");
    let null = fs::File::options().read(true).write(true).open("/dev/null").expect("/dev/null");
    send(line, &launch(2, false, "true", ""), &[null.as_fd(), null.as_fd(), null.as_fd()]);
    let mut events = Vec::new();
    while events.len() < 17 + 27 {
        events.extend(receive(line));
    }
    assert_eq!((events[0], &events[1..9]), (2, &number(2)[..]), "it runs: {events:?}");
    let ended = [&[5][..], &number(2), &[1, 0, 0, 0, 0], &[0; 5]].concat();
    assert_eq!(events[17..17 + 19], ended, "it ended with code 0");
    let gone_at = u64::from_le_bytes(events[17 + 19..].try_into().expect("a time of eight bytes"));
    assert!(gone_at <= SystemClock.monotonic().as_nanos(), "not in the future");
}

#[test]
fn a_closed_line_proves_nothing() {
    let mut raw = Raw::start();
    // Much more than the kernel needs, however busy the machine is.
    let (kill_wait, safety) = (Duration::from_millis(100), Duration::from_secs(3));
    let nanos = |span: Duration| number(span.as_nanos() as u64);
    send(&raw.line, &[&[10][..], &nanos(kill_wait), &nanos(safety)].concat(), &[]);
    send(&raw.line, &[&[11][..], &text("w"), &number(1)].concat(), &[]);
    let hold_until = SystemClock.monotonic() + Duration::from_millis(4_500);
    send(&raw.line, &[&[12][..], &number(hold_until.as_nanos())].concat(), &[]);
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    send(&raw.line, &launch(1, true, "sleep", "1000"), &[writer.as_fd(), writer.as_fd(), writer.as_fd()]);
    drop(writer);
    assert_eq!(receive(&raw.line)[0], 2, "it runs");
    raw.line =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a line").0;
    // Its worker lives, so it has what is left of its lease.
    wait_for(&reader, PollFlags::HUP);
    let ended_at = SystemClock.monotonic();
    assert!(ended_at >= hold_until - kill_wait - safety, "it was taken for dead");
    assert!(ended_at < hold_until, "it was forgotten");
}

#[test]
fn a_program_without_a_line_is_no_guardian() {
    let output =
        Command::new(PROGRAM).env("TENURE_GUARDIAN", "1").stdin(Stdio::null()).output().expect("a program");
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(words, "guardian: standard input is no line to a worker\n");
}
