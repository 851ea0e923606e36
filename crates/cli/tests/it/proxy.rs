//! A network between a worker and its server that can be cut in either direction: what is sent into a cut is neither
//! delivered nor refused.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A way through to a server.
pub(crate) struct Proxy {
    /// Where to connect instead.
    pub(crate) url: String,
    cut: Arc<watch::Sender<Cut>>,
}

/// What does not get through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) to_server: bool,
    pub(crate) to_worker: bool,
}

impl Proxy {
    /// Opens a way to the server at this address.
    pub(crate) async fn to(server: &str) -> Proxy {
        let target: SocketAddr = server.trim_start_matches("http://").parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let cut = Arc::new(watch::Sender::new(Cut::default()));
        let cuts = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((worker, _)) = listener.accept().await {
                // A connection that comes through a cut is accepted by the network and answered by nobody.
                let Ok(server) = TcpStream::connect(target).await else { continue };
                let ((from_worker, to_worker), (from_server, to_server)) =
                    (worker.into_split(), server.into_split());
                tokio::spawn(carry(from_worker, to_server, cuts.subscribe(), |cut| cut.to_server));
                tokio::spawn(carry(from_server, to_worker, cuts.subscribe(), |cut| cut.to_worker));
            }
        });
        Proxy { url, cut }
    }

    /// Cuts, or mends, from now on.
    pub(crate) fn cut(&self, cut: Cut) {
        self.cut.send_replace(cut);
    }
}

/// Carries bytes one way; while that is cut, they wait.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut cuts: watch::Receiver<Cut>,
    is_cut: impl Fn(&Cut) -> bool + Send,
) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if cuts.wait_for(|cut| !is_cut(cut)).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
