//! Owns a client that speaks TLS and trusts one authority.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::wait::PATIENCE;

/// A TLS connection to the gateway.
pub async fn connect(
    tcp: TcpStream,
    ca: &Path,
    versions: &[&'static SupportedProtocolVersion],
    alpn: &[&str],
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(ca).unwrap())
        .unwrap();
    let mut config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::IpAddress(tcp.peer_addr()?.ip().into());
    TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await
}

/// A viewer's socket over TLS.
pub struct TlsSocket(WebSocketStream<TlsStream<TcpStream>>);

impl TlsSocket {
    /// Connects and reads the welcome.
    pub async fn connect(addr: SocketAddr, ca: &Path, path: &str) -> Self {
        let tcp = TcpStream::connect(addr).await.unwrap();
        let stream = connect(tcp, ca, tokio_rustls::rustls::ALL_VERSIONS, &[])
            .await
            .unwrap();
        let (socket, _) = tokio_tungstenite::client_async(format!("wss://{addr}{path}"), stream)
            .await
            .unwrap();
        let mut socket = Self(socket);
        assert_eq!(socket.hears().await["type"], "welcome");
        socket
    }

    /// The next message.
    pub async fn hears(&mut self) -> Value {
        loop {
            let frame = tokio::time::timeout(PATIENCE, self.0.next())
                .await
                .expect("a message in time");
            match frame.expect("an open socket").unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Says a message.
    pub async fn says(&mut self, message: Value) {
        self.0
            .send(Message::text(message.to_string()))
            .await
            .unwrap();
    }

    /// Sends a heartbeat, which is answered.
    pub async fn beats(&mut self) {
        self.says(json!({"type": "heartbeat"})).await;
        assert_eq!(self.hears().await["type"], "heartbeat_ack");
    }

    /// Says goodbye; the code with which the gateway answers.
    pub async fn closes(mut self) -> Option<u16> {
        let goodbye = CloseFrame {
            code: CloseCode::Normal,
            reason: Default::default(),
        };
        self.0.close(Some(goodbye)).await.unwrap();
        loop {
            match tokio::time::timeout(PATIENCE, self.0.next())
                .await
                .expect("an end in time")
            {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code.into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}
