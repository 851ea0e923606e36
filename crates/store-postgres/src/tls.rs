//! TLS as `sslmode` and `sslrootcert` ask for it, by rustls.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;

use crate::error::OpenError;
use crate::url::TlsMode;

/// Where PostgreSQL's own clients look for root certificates when the URL names none, below the home directory.
const ROOT_CERTIFICATES_DEFAULT: &str = ".postgresql/root.crt";
/// The word for those of the system, and where systems keep them.
pub(crate) const SYSTEM: &str = "system";
const SYSTEM_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Makes TLS connections; for each host again.
#[derive(Clone)]
pub(crate) struct MakeTls {
    config: Arc<ClientConfig>,
}

impl MakeTls {
    /// Reads the certificates, if the mode needs any.
    pub(crate) fn new(mode: TlsMode, roots: Option<&Path>) -> Result<Self, OpenError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = match mode {
            TlsMode::Disable | TlsMode::Prefer | TlsMode::Require => Trust::Anyone,
            TlsMode::VerifyCa => Trust::signed(roots, &provider, false)?,
            TlsMode::VerifyFull => Trust::signed(roots, &provider, true)?,
        };
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| OpenError::Url(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { trust, provider }))
            .with_no_client_auth();
        Ok(MakeTls { config: Arc::new(config) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for MakeTls {
    type Stream = TlsStream<S>;
    type TlsConnect = Tls;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Tls> {
        // Without a host there is no TLS: it is a Unix socket, whose server offers none.
        let host = if host.is_empty() { "localhost" } else { host };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Tls { connector: TlsConnector::from(self.config.clone()), name })
    }
}

/// Makes one TLS connection.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Tls {
    type Stream = TlsStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TlsStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let handshake = self.connector.connect(self.name, stream);
        Box::pin(async move { Ok(TlsStream(handshake.await?)) })
    }
}

/// A connection inside TLS.
pub(crate) struct TlsStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for TlsStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Which servers we talk to.
#[derive(Debug)]
enum Trust {
    /// Whoever answers: this keeps out listeners, not impostors.
    Anyone,
    /// Who has a certificate signed by one of these, for the host's name if that matters.
    Signed { by: Vec<CertificateDer<'static>>, verifier: Arc<WebPkiServerVerifier>, for_the_host: bool },
}

impl Trust {
    fn signed(
        file: Option<&Path>,
        provider: &Arc<CryptoProvider>,
        for_the_host: bool,
    ) -> Result<Self, OpenError> {
        let file = match file {
            Some(word) if word == Path::new(SYSTEM) => system_file()?,
            Some(file) => file.to_owned(),
            None => default_file()?,
        };
        let refused = |what: String| OpenError::Url(format!("sslrootcert {}: {what}", file.display()));
        let read = CertificateDer::pem_file_iter(&file).and_then(Iterator::collect);
        let by: Vec<CertificateDer<'static>> = read.map_err(|error| refused(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(by.iter().cloned());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| refused(error.to_string()))?;
        Ok(Trust::Signed { by, verifier, for_the_host })
    }
}

fn default_file() -> Result<PathBuf, OpenError> {
    let file = std::env::home_dir().map(|home| home.join(ROOT_CERTIFICATES_DEFAULT));
    file.filter(|file| file.exists()).ok_or_else(|| {
        OpenError::Url(format!(
            "sslmode wants the server's certificate verified; give sslrootcert=FILE, or put it in ~/{ROOT_CERTIFICATES_DEFAULT}"
        ))
    })
}

fn system_file() -> Result<PathBuf, OpenError> {
    let file = SYSTEM_FILES.iter().map(PathBuf::from).find(|file| file.exists());
    file.ok_or_else(|| {
        OpenError::Url("this system has no root certificates; give sslrootcert=FILE".to_owned())
    })
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Trust::Signed { by, verifier, for_the_host } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        // A server often signs its certificate itself, as an authority would; then it is that very one we were told to trust.
        if by.contains(certificate) {
            if *for_the_host {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, host)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match verifier.verify_server_cert(certificate, intermediates, host, ocsp, now) {
            // The name is looked at last, so everything else about the certificate is in order.
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
                if !for_the_host =>
            {
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
