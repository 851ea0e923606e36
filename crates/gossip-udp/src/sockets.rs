//! The two sockets of a node: datagrams and streams on one address.

use std::io;
use std::net::SocketAddr;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use tokio::net::{TcpListener, UdpSocket};

/// How much the kernel may hold for us while we do something else: about 5,000 small datagrams.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// How often another port is tried when the kernel chose one that is free for streams only.
const PORT_TRIES_MAX: u32 = 32;

/// Where a node listens.
#[derive(Debug)]
pub struct Sockets {
    /// For datagrams.
    pub udp: UdpSocket,
    /// For streams.
    pub tcp: TcpListener,
}

impl Sockets {
    /// Listens on this address for both. With port 0 the kernel chooses a port that is free for both.
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        let mut tries = 0;
        loop {
            let tcp = TcpListener::bind(addr).await?;
            match UdpSocket::bind(tcp.local_addr()?).await {
                Ok(udp) => {
                    enlarge(&udp);
                    return Ok(Sockets { udp, tcp });
                }
                Err(error) if addr.port() != 0 || tries == PORT_TRIES_MAX => return Err(error),
                Err(_) => tries += 1,
            }
        }
    }

    /// The address of both.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }
}

/// More room needs a privilege that most processes lack; then as much as everybody may have, which is no error.
fn enlarge(udp: &UdpSocket) {
    let enlarged = set_socket_recv_buffer_size_force(udp, RECEIVE_BUFFER_BYTES)
        .or_else(|_| set_socket_recv_buffer_size(udp, RECEIVE_BUFFER_BYTES));
    if let Err(error) = enlarged {
        tracing::debug!(%error, "receive buffer not enlarged");
    }
}
