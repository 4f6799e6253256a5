//! HTTPS with a certificate and a key from PEM files. Unused unless configured.

use proctor_core::config::listen::Tls;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(super) struct Acceptor(TlsAcceptor);

impl Acceptor {
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        match timeout(HANDSHAKE_TIMEOUT, self.0.accept(stream)).await {
            Ok(accepted) => accepted,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Loads the files; the error is a text for people.
pub(super) fn load(files: &Tls) -> Result<Acceptor, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect)
        .map_err(|error| format!("cannot read the certificate {}: {error}", files.cert))?;
    if chain.is_empty() {
        return Err(format!("{} contains no certificate", files.cert));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| format!("cannot read the key {}: {error}", files.key))?;
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| format!("cannot use {} with {}: {error}", files.cert, files.key))?;
    Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
}
