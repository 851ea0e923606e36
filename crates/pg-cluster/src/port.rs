//! A TCP port on the loopback interface that stays the cluster's own for as long as it exists, also while its server is down.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A reserved port.
///
/// Its socket is bound and never listens, so clients are refused while the server is down. The server can bind the same port
/// beside it, since both ask for `SO_REUSEADDR` and only one of them listens. Nobody else is given it meanwhile: neither a
/// program that asks for any free port, nor a client that tries to reach the very server that is down, which could otherwise
/// be connected with itself.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _reservation: OwnedFd,
}

impl Port {
    /// Reserves a free one.
    pub(crate) fn reserve() -> io::Result<Port> {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let number = SocketAddrV4::try_from(getsockname(&socket)?)?.port();
        Ok(Port { number, _reservation: socket })
    }

    pub(crate) const fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_refuses_clients_until_a_server_listens_and_again_afterwards() {
        let port = Port::reserve().expect("a free port");
        let address = (Ipv4Addr::LOCALHOST, port.number());
        let refused = || TcpStream::connect(address).expect_err("nobody listens").kind();
        assert_eq!(refused(), io::ErrorKind::ConnectionRefused);
        // The standard library's listener asks for `SO_REUSEADDR`, as PostgreSQL does.
        let server = TcpListener::bind(address).expect("the server may");
        TcpStream::connect(address).expect("somebody listens");
        drop(server);
        assert_eq!(refused(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_reserved_port_is_given_to_nobody_else() {
        let port = Port::reserve().expect("a free port");
        let stranger = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let taken = bind(stranger.expect("a socket"), &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port.number()));
        assert_eq!(taken, Err(rustix::io::Errno::ADDRINUSE));
    }
}
