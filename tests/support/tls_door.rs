//! Owns a door that speaks TLS before a server that does not.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::certificates::Certificates;

/// A door before this server; answers its address.
pub async fn tls_before(server: SocketAddr, certificates: &Certificates) -> SocketAddr {
    let (cert, key) = (certificates.chain(), certificates.key());
    let chain = CertificateDer::pem_file_iter(cert)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let config = ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
        .unwrap();
    let (acceptor, door) = (
        TlsAcceptor::from(Arc::new(config)),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    );
    let addr = door.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = door.accept().await {
            let Ok(mut secure) = acceptor.accept(stream).await else {
                continue;
            };
            let mut plain = TcpStream::connect(server).await.unwrap();
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut secure, &mut plain).await },
            );
        }
    });
    addr
}
