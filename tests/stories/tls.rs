//! The public port over TLS: sockets and HTTP, a certificate that is replaced while sockets are
//! open, and clients that do not get through the handshake.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rollcall::config::Config;
use rollcall::gateway::{self, Gateway};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::support::backend::Backend;
use crate::support::certificates::Certificates;
use crate::support::stores::story;
use crate::support::tls_client::{TlsSocket, connect};
use crate::support::wait::{PATIENCE, SLACK, same, until};
use crate::support::world::timings;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(500);

/// A gateway with a certificate for its address; its metrics are on the internal port, which has
/// none.
async fn gateway(certificates: &Certificates) -> Gateway {
    let config = Config {
        tls_cert: Some(certificates.chain()),
        tls_key: Some(certificates.key()),
        admin_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        handshake_timeout: HANDSHAKE_TIMEOUT,
        ..timings()
    };
    gateway::start(config).await.unwrap()
}

fn admin(gateway: &Gateway) -> Backend {
    Backend::at(gateway.admin_addr().unwrap())
}

fn http(ca: &Path) -> reqwest::Client {
    let ca = reqwest::Certificate::from_pem(&std::fs::read(ca).unwrap()).unwrap();
    reqwest::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .tls_certs_only([ca])
        .build()
        .unwrap()
}

#[test]
fn sockets_and_requests_are_served_over_tls() {
    story(async {
        let certificates = Certificates::for_host("IP:127.0.0.1");
        let gateway = gateway(&certificates).await;
        let url = format!("https://{}/healthz", gateway.addr());
        let answer = http(&certificates.ca()).get(&url).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.version()),
            (200, reqwest::Version::HTTP_11)
        );
        assert!(
            answer.headers()["strict-transport-security"]
                .to_str()
                .unwrap()
                .starts_with("max-age=")
        );

        admin(&gateway).open("42", "s1").await;
        let mut viewer =
            TlsSocket::connect(gateway.addr(), &certificates.ca(), "/ws?user_id=u1").await;
        viewer.says(json!({"type": "join", "live_id": "42"})).await;
        assert_eq!(viewer.hears().await["type"], "joined");
        for _ in 0..3 {
            viewer.beats().await;
        }
        viewer
            .says(json!({"type": "nonsense", "padding": "x".repeat(3_000)}))
            .await;
        assert_eq!(viewer.hears().await["type"], "error");
        viewer.beats().await;
        assert_eq!(viewer.closes().await, Some(1000));
        gateway.stop().await;
    });
}

#[test]
fn both_versions_are_spoken_and_no_protocol_but_http_1() {
    story(async {
        let certificates = Certificates::for_host("IP:127.0.0.1");
        let gateway = gateway(&certificates).await;
        for version in [&TLS12, &TLS13] {
            let tcp = TcpStream::connect(gateway.addr()).await.unwrap();
            let stream = connect(tcp, &certificates.ca(), &[version], &["h2", "http/1.1"])
                .await
                .unwrap();
            let (_, session) = stream.get_ref();
            assert_eq!(session.protocol_version(), Some(version.version));
            assert_eq!(session.alpn_protocol(), Some(b"http/1.1".as_slice()));
        }
        let tcp = TcpStream::connect(gateway.addr()).await.unwrap();
        assert!(
            connect(tcp, &certificates.ca(), &[&TLS13], &["h2"])
                .await
                .is_err()
        );
        gateway.stop().await;
    });
}

#[test]
fn a_certificate_is_replaced_while_sockets_stay() {
    story(async {
        let (first, second) = (
            Certificates::for_host("IP:127.0.0.1"),
            Certificates::for_host("IP:127.0.0.1"),
        );
        let gateway = gateway(&first).await;
        let connects = async |ca: &Certificates| {
            let tcp = TcpStream::connect(gateway.addr()).await.unwrap();
            connect(tcp, &ca.ca(), &[&TLS13], &[]).await.is_ok()
        };
        let mut early = TlsSocket::connect(gateway.addr(), &first.ca(), "/ws?user_id=u1").await;
        assert!(connects(&first).await && !connects(&second).await);

        for (from, to) in [(second.chain(), first.chain()), (second.key(), first.key())] {
            std::fs::copy(from, to).unwrap();
        }
        gateway.reload().await;
        assert!(!connects(&first).await && connects(&second).await);
        early.beats().await;

        // A key that does not fit, or no key at all, changes nothing.
        let third = Certificates::for_host("IP:127.0.0.1");
        for bad in [
            std::fs::read(third.key()).unwrap(),
            b"nothing".to_vec(),
            Vec::new(),
        ] {
            std::fs::write(first.key(), bad).unwrap();
            gateway.reload().await;
            assert!(connects(&second).await);
        }
        early.beats().await;
        gateway.stop().await;
    });
}

#[test]
fn a_new_certificate_is_noticed_without_a_signal() {
    story(async {
        let (first, second) = (
            Certificates::for_host("IP:127.0.0.1"),
            Certificates::for_host("IP:127.0.0.1"),
        );
        let gateway = gateway(&first).await;
        for (from, to) in [(second.chain(), first.chain()), (second.key(), first.key())] {
            std::fs::copy(from, to).unwrap();
        }
        until("the new certificate is shown", PATIENCE, async || {
            let tcp = TcpStream::connect(gateway.addr()).await.unwrap();
            same(
                connect(tcp, &second.ca(), &[&TLS13], &[]).await.is_ok(),
                true,
            )
        })
        .await;
        gateway.stop().await;
    });
}

#[test]
fn a_certificate_that_cannot_be_used_ends_the_program_with_64_and_the_setting_s_name() {
    let (good, other) = (
        Certificates::for_host("IP:127.0.0.1"),
        Certificates::for_host("IP:127.0.0.1"),
    );
    let absent = good.chain().with_file_name("absent.pem");
    for (chain, key, named) in [
        (&absent, &good.key(), "tls-cert"),
        (&good.key(), &good.key(), "tls-cert"),
        (&good.chain(), &absent, "tls-key"),
        (&good.chain(), &good.chain(), "tls-key"),
        (&good.chain(), &other.key(), "tls-key"),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_rollcall"));
        program
            .args(["--listen", "127.0.0.1:0", "--tls-cert"])
            .arg(chain)
            .arg("--tls-key")
            .arg(key);
        let out = program.output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(64), "{said}");
        assert!(
            said.contains(&format!("{named}: ")) && !said.contains("PRIVATE"),
            "{said}"
        );
    }
}

#[test]
fn a_client_that_does_not_get_through_the_handshake_is_cut_and_counted() {
    story(async {
        let certificates = Certificates::for_host("IP:127.0.0.1");
        let gateway = gateway(&certificates).await;
        // One speaks no TLS, one says nothing, one stops in the middle of its first record.
        for said in [
            b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".as_slice(),
            b"",
            b"\x16\x03\x01\x02\x00\x01",
        ] {
            let begun = tokio::time::Instant::now();
            let mut tcp = TcpStream::connect(gateway.addr()).await.unwrap();
            tcp.write_all(said).await.unwrap();
            let mut rest = Vec::new();
            let _ = tokio::time::timeout(PATIENCE, tcp.read_to_end(&mut rest))
                .await
                .expect("cut in time");
            assert!(
                begun.elapsed() < HANDSHAKE_TIMEOUT + SLACK,
                "{:?}",
                begun.elapsed()
            );
            assert!(
                !rest.starts_with(b"HTTP"),
                "{}",
                String::from_utf8_lossy(&rest)
            );
        }
        until("three are counted", PATIENCE, async || {
            let text = admin(&gateway).get("/metrics").await.text;
            let line = "rollcall_connections_failed_total{why=\"tls_handshake\"} 3";
            if text.contains(line) {
                Ok(())
            } else {
                Err("not three")
            }
        })
        .await;
        gateway.stop().await;
    });
}
