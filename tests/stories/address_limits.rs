//! Whose socket it is, by address: a balancer says who connected to it, in a header of the PROXY
//! protocol or of HTTP, and each address has a bounded number of sockets.

use std::net::SocketAddr;
use std::time::Duration;

use rollcall::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error;

use crate::support::certificates::Certificates;
use crate::support::socket::{Socket, UPGRADE};
use crate::support::stores::story;
use crate::support::tls_client::connect;
use crate::support::wait::{PATIENCE, until};
use crate::support::world::World;

/// One socket per address, and the balancer is on this machine.
fn one_each(config: &mut Config) {
    config.sockets_per_ip = 1;
    config.trusted_proxies = vec![
        "127.0.0.0/8".parse().unwrap(),
        "10.0.0.0/8".parse().unwrap(),
    ];
}

fn behind_a_balancer(config: &mut Config) {
    config.sockets_per_ip = 1;
    config.proxy_protocol = true;
    config.admin_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
}

/// Connects with these headers; the socket, or the code and `Retry-After` of the refusal.
async fn comes(world: &World, headers: &[(&str, &str)]) -> Result<Socket, String> {
    match Socket::connect(world.addr, "/ws?user_id=u1", headers).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => {
            assert_eq!(answer.status(), 429, "{answer:?}");
            let after: u64 = answer.headers()["retry-after"]
                .to_str()
                .unwrap()
                .parse()
                .unwrap();
            assert!((15..=30).contains(&after), "{after}");
            Err(String::from_utf8(answer.into_body().unwrap()).unwrap())
        }
        Err(error) => panic!("{error}"),
    }
}

async fn is_refused(world: &World, headers: &[(&str, &str)]) {
    let problem = comes(world, headers)
        .await
        .err()
        .unwrap_or_else(|| panic!("{headers:?} was let in"));
    assert!(problem.contains("\"too_many_sockets\""), "{problem}");
}

#[test]
fn an_address_behind_a_trusted_proxy_has_so_many_sockets() {
    story(async {
        let world = World::on_memory(one_each).await;
        let first = comes(&world, &[("x-forwarded-for", "192.0.2.7")])
            .await
            .unwrap();
        // The same address, as the last that a trusted proxy added, in either header.
        for (header, same) in [
            ("x-forwarded-for", "1.1.1.1, 192.0.2.7, 10.1.1.1"),
            ("forwarded", "for=192.0.2.7;proto=https, for=10.1.1.1"),
        ] {
            is_refused(&world, &[(header, same)]).await;
        }
        let _other = comes(&world, &[("x-forwarded-for", "192.0.2.7, 192.0.2.8")])
            .await
            .unwrap();
        let refused = world.backend().get("/metrics").await.text;
        assert!(
            refused.contains("rollcall_upgrades_refused_total{why=\"too_many_sockets\"} 2"),
            "{refused}"
        );
        drop(first);
        until("the address has room again", PATIENCE, async || {
            comes(&world, &[("x-forwarded-for", "192.0.2.7")])
                .await
                .map(drop)
        })
        .await;
    });
}

fn v2(client: [u8; 4]) -> Vec<u8> {
    [
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice(),
        &client,
        &[127, 0, 0, 1, 18, 103, 1, 187],
    ]
    .concat()
}

/// Sends `start` in two pieces and then an upgrade; the status line of the answer, and the open
/// connection.
async fn proxied(world: &World, start: &[u8]) -> (String, TcpStream) {
    let mut tcp = TcpStream::connect(world.addr).await.unwrap();
    tcp.set_nodelay(true).unwrap();
    let (first, rest) = start.split_at(start.len() / 2);
    tcp.write_all(first).await.unwrap();
    tokio::task::yield_now().await;
    let _ = tcp.write_all(&[rest, UPGRADE.as_bytes()].concat()).await;
    let mut status = [0; 12];
    let read = tokio::time::timeout(PATIENCE, tcp.read_exact(&mut status))
        .await
        .expect("an answer or an end in time");
    let status = read
        .map(|_| String::from_utf8_lossy(&status).into_owned())
        .unwrap_or_default();
    (status, tcp)
}

#[test]
fn a_balancer_that_speaks_the_proxy_protocol_names_the_client() {
    story(async {
        let world = World::on_memory(behind_a_balancer).await;
        let v1 = b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 443\r\n".as_slice();
        let (status, _first) = proxied(&world, v1).await;
        assert_eq!(status, "HTTP/1.1 101");
        for same in [
            v1,
            &v2([192, 0, 2, 7]),
            b"PROXY TCP6 ::ffff:192.0.2.7 ::1 4711 443\r\n",
        ] {
            assert_eq!(
                proxied(&world, same).await.0,
                "HTTP/1.1 429",
                "{}",
                String::from_utf8_lossy(same)
            );
        }
        let (status, _second) = proxied(&world, &v2([192, 0, 2, 8])).await;
        assert_eq!(status, "HTTP/1.1 101");
        // The balancer's own connections are of its own address, which is loopback here.
        let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".as_slice();
        for _ in 0..2 {
            for own in [local, b"PROXY UNKNOWN\r\n"] {
                assert_eq!(proxied(&world, own).await.0, "HTTP/1.1 101");
            }
        }
        // The internal port takes none.
        world.admin().get("/healthz").await.is(200);
    });
}

#[test]
fn a_connection_without_a_proxy_header_is_cut_and_counted() {
    story(async {
        let world = World::on_memory(|config| {
            behind_a_balancer(config);
            config.handshake_timeout = Duration::from_millis(500);
        })
        .await;
        let long = [b"PROXY TCP4 ".as_slice(), &[b'1'; 4_000]].concat();
        for start in [
            b"GET / HTTP/1.1\r\nx: ".as_slice(),
            b"PROXY TCP4 192.0.2.300 127.0.0.1 4711 443\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c",
            &long,
        ] {
            assert_eq!(
                proxied(&world, start).await.0,
                "",
                "{}",
                String::from_utf8_lossy(start)
            );
        }
        // One byte of a header, and no more.
        let mut silent = TcpStream::connect(world.addr).await.unwrap();
        silent.write_all(b"P").await.unwrap();
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut rest))
            .await
            .expect("cut in time");
        assert!(rest.is_empty());
        until("five are counted", PATIENCE, async || {
            let text = world.admin().get("/metrics").await.text;
            let line = "rollcall_connections_failed_total{why=\"proxy_header\"} 5";
            if text.contains(line) {
                Ok(())
            } else {
                Err("not five")
            }
        })
        .await;
    });
}

#[test]
fn the_proxy_header_comes_before_tls() {
    story(async {
        let certificates = Certificates::for_host("IP:127.0.0.1");
        let world = World::on_memory(|config| {
            behind_a_balancer(config);
            (config.tls_cert, config.tls_key) =
                (Some(certificates.chain()), Some(certificates.key()));
        })
        .await;
        let mut sockets = Vec::new();
        for expected in [101, 429] {
            let mut tcp = TcpStream::connect(world.addr).await.unwrap();
            tcp.write_all(&v2([192, 0, 2, 7])).await.unwrap();
            let tls = connect(
                tcp,
                &certificates.ca(),
                tokio_rustls::rustls::ALL_VERSIONS,
                &[],
            )
            .await
            .unwrap();
            let url = format!("wss://{}/ws?user_id=u1", world.addr);
            let status = match tokio_tungstenite::client_async(url, tls).await {
                Ok((socket, answer)) => {
                    sockets.push(socket);
                    answer.status()
                }
                Err(Error::Http(answer)) => answer.status(),
                Err(error) => panic!("{error}"),
            };
            assert_eq!(status, expected);
        }
    });
}

fn behind_a_small_port(config: &mut Config) {
    behind_a_balancer(config);
    config.sockets_per_ip = 0;
    config.max_handshakes = 64;
}

/// The start of a connection of this client, as a balancer tells it.
fn of(client: &str) -> String {
    format!("PROXY TCP4 {client} 127.0.0.1 4711 443\r\n")
}

const PROBE: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// How long an honest client waits.
const PROMPTLY: Duration = Duration::from_secs(2);

/// Sends a request on a new connection of this client; the status of the answer and its head, or
/// nothing if the connection ended.
async fn asks(world: &World, client: &str, request: &str) -> String {
    let mut tcp = TcpStream::connect(world.addr).await.unwrap();
    let _ = tcp
        .write_all(format!("{}{request}", of(client)).as_bytes())
        .await;
    let mut head = Vec::new();
    let reads = async {
        while !head.ends_with(b"\r\n\r\n") {
            match tcp.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
    };
    tokio::time::timeout(PROMPTLY, reads)
        .await
        .unwrap_or_else(|_| panic!("{client} gets no answer to {request:?}"));
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

/// Holds a connection of the attacker again and again, and sends on it what `act` says, until it
/// ends.
async fn attacks(address: SocketAddr, start: String, act: &'static str) {
    loop {
        let Ok(mut tcp) = TcpStream::connect(address).await else {
            continue;
        };
        let mut answer = [0; 2_048];
        let _ = tcp.write_all(start.as_bytes()).await;
        while tcp.write_all(act.as_bytes()).await.is_ok() {
            let read =
                tokio::time::timeout(Duration::from_millis(300), tcp.read(&mut answer)).await;
            if matches!(read, Ok(Ok(0) | Err(_))) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // An attacker reconnects, but not in a loop that takes the machine.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn one_address_that_holds_every_slot_keeps_nobody_out() {
    story(async {
        let world = World::on_memory(behind_a_small_port).await;
        let half_a_body = "PUT /v1/lives/42 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                           content-length: 5000\r\n\r\n";
        for (what, first, act) in [
            (
                "requests for nothing",
                "",
                "GET /x HTTP/1.1\r\nhost: localhost\r\n\r\n",
            ),
            ("probes", "", PROBE),
            (
                "refused upgrades",
                "",
                "GET /ws HTTP/1.1\r\nhost: localhost\r\n\r\n",
            ),
            ("half a head", "GET / HTTP/1.1\r\nx: ", "x"),
            ("a slow body", half_a_body, "x"),
        ] {
            let mut attackers = tokio::task::JoinSet::new();
            for _ in 0..100 {
                attackers.spawn(attacks(
                    world.addr,
                    format!("{}{first}", of("192.0.2.7")),
                    act,
                ));
            }
            for number in 0..8 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let client = format!("192.0.2.{}", 10 + number);
                let probe = asks(&world, &client, PROBE).await;
                assert!(probe.starts_with("http/1.1 200"), "{what}: {probe:?}");
                let upgrade = asks(&world, &client, UPGRADE).await;
                assert!(upgrade.starts_with("http/1.1 101"), "{what}: {upgrade:?}");
            }
            attackers.shutdown().await;
        }
    });
}

#[test]
fn every_answer_costs_its_address_a_request_and_a_refusal_its_connection() {
    story(async {
        let limited = |config: &mut Config| {
            behind_a_small_port(config);
            config.http_rate = 5;
        };
        for (path, status) in [("/nothing", 404), ("/ws", 426), ("/healthz", 200)] {
            let world = World::on_memory(limited).await;
            let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            let mut answers = Vec::new();
            for _ in 0..15 {
                answers.push(asks(&world, "192.0.2.7", &request).await);
            }
            assert!(
                answers[0].starts_with(&format!("http/1.1 {status} ")),
                "{answers:?}"
            );
            let closes = |head: &str| {
                head.lines()
                    .any(|line| line.starts_with("connection:") && line.contains("close"))
            };
            assert_eq!(closes(&answers[0]), status != 200, "{answers:?}");
            // A probe is answered all the same. On a busy machine the address may have earned another
            // request meanwhile, here and below.
            let over = if status == 200 { 200 } else { 429 };
            let is_over = |head: &String| head.starts_with(&format!("http/1.1 {over} "));
            let ended = answers.iter().any(|head| is_over(head) && closes(head));
            assert!(ended, "{answers:?}");
            let page = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
            let mut is_limited = false;
            for _ in 0..5 {
                is_limited = is_limited
                    || asks(&world, "192.0.2.7", page)
                        .await
                        .starts_with("http/1.1 429");
                asks(&world, "192.0.2.7", &request).await;
                asks(&world, "192.0.2.7", &request).await;
            }
            assert!(is_limited, "{path} cost the address nothing");
            assert!(
                asks(&world, "192.0.2.8", page)
                    .await
                    .starts_with("http/1.1 200"),
                "{path}"
            );
        }
    });
}
