//! Somebody on the way who passes everything on, and keeps a copy of each datagram.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use gossip_udp::Sockets;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Stands before one node: what is sent to its address goes on to `home`, and what comes from there to `peer`.
pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    /// Datagrams to `home`, in their order.
    recorded: Arc<Mutex<Vec<Vec<u8>>>>,
    running: JoinHandle<()>,
}

impl Relay {
    pub(crate) fn start(sockets: Sockets, home: SocketAddr, peer: SocketAddr) -> Self {
        let addr = sockets.local_addr().expect("bound");
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let copies = Arc::clone(&recorded);
        let running = tokio::spawn(async move {
            let mut bytes = vec![0; 65_536];
            loop {
                tokio::select! {
                    received = sockets.udp.recv_from(&mut bytes) => {
                        let Ok((length, from)) = received else { continue };
                        let to = if from == home { peer } else { home };
                        if to == home {
                            copies.lock().expect("not poisoned").push(bytes[..length].to_vec());
                        }
                        // Datagrams may be lost, here as anywhere.
                        let _ = sockets.udp.send_to(&bytes[..length], to).await;
                    }
                    accepted = sockets.tcp.accept() => {
                        let Ok((mut here, _)) = accepted else { continue };
                        tokio::spawn(async move {
                            let mut there = TcpStream::connect(home).await?;
                            copy_bidirectional(&mut here, &mut there).await
                        });
                    }
                }
            }
        });
        Relay { addr, recorded, running }
    }

    pub(crate) fn recorded(&self) -> Vec<Vec<u8>> {
        self.recorded.lock().expect("not poisoned").clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.running.abort();
    }
}
