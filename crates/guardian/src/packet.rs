//! One packet with its descriptors, over a Unix socket that keeps packets apart (SEQPACKET).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Descriptors per packet: those of a job's standard streams.
pub(crate) const DESCRIPTORS_MAX: usize = 3;

/// Two ends of a line; neither survives an exec by accident.
pub(crate) fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one packet, or says `WouldBlock`; never waits.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors for one packet"));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes one packet, its descriptors appended; how many bytes of the buffer it fills. Zero is the end of the line. Never
/// waits: `WouldBlock` when there is none. One that does not fit is `InvalidData`, and gone. Descriptors are missing when
/// this process has too many.
pub(crate) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet was too large"));
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn packets_stay_apart_and_bring_their_descriptors() {
        let (near, far) = line().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send(&near, b"first", &[writer.as_fd()]).unwrap();
        send(&near, b"second", &[]).unwrap();
        drop(writer);

        let (mut buffer, mut descriptors) = ([0; 64], Vec::new());
        let length = receive(&far, &mut buffer, &mut descriptors).unwrap();
        assert_eq!(&buffer[..length], b"first");
        File::from(descriptors.pop().unwrap()).write_all(b"through").unwrap();
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");

        let length = receive(&far, &mut buffer, &mut descriptors).unwrap();
        assert_eq!((&buffer[..length], descriptors.len()), (&b"second"[..], 0));
        let empty = receive(&far, &mut buffer, &mut descriptors).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        drop(near);
        assert_eq!(receive(&far, &mut buffer, &mut descriptors).unwrap(), 0);
    }

    #[test]
    fn a_packet_that_does_not_fit_is_refused_whole() {
        let (near, far) = line().unwrap();
        send(&near, &[1; 65], &[]).unwrap();
        send(&near, &[2; 64], &[]).unwrap();
        let (mut buffer, mut descriptors) = ([0; 64], Vec::new());
        let refused = receive(&far, &mut buffer, &mut descriptors).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert_eq!(receive(&far, &mut buffer, &mut descriptors).unwrap(), 64);
    }
}
