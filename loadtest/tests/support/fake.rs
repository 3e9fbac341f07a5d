//! A gateway that keeps its counts in memory and speaks just enough of the protocol: lives and
//! follows over HTTP, welcome, join, heartbeat and watch over WebSocket. A [`Fault`] makes it
//! misbehave in one known way.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

/// One way in which the fake misbehaves.
#[allow(
    dead_code,
    reason = "each program that includes this file uses its own"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Every n-th heartbeat gets no answer.
    DropAcks(u64),
    /// The n-th heartbeat closes its socket with 4008.
    CloseSocket(u64),
    /// Dashboards see one viewer too many.
    MiscountViewers,
    /// From the n-th upgrade on, every other one gets a 503 with `Retry-After: 1`.
    CrowdedFrom(u64),
    /// Every upgrade gets a 503.
    RefuseUpgrades,
}

#[derive(Default)]
struct Live {
    streamer_id: String,
    fans: AtomicI64,
    counts: watch::Sender<[i64; 2]>,
}

struct Gateway {
    fault: Fault,
    heartbeats: AtomicU64,
    upgrades: AtomicU64,
    lives: Mutex<HashMap<String, Arc<Live>>>,
    follows: Mutex<HashSet<(String, String)>>,
    http_calls: AtomicU64,
}

pub(crate) struct FakeGateway {
    pub(crate) address: SocketAddr,
    gateway: Arc<Gateway>,
}

#[allow(
    dead_code,
    reason = "each program that includes this file uses its own"
)]
impl FakeGateway {
    pub(crate) async fn start(listen: &str, fault: Fault) -> Self {
        let listener = TcpListener::bind(listen).await.expect("a listening socket");
        let address = listener.local_addr().expect("its address");
        let gateway = Arc::new(Gateway {
            fault,
            heartbeats: AtomicU64::default(),
            upgrades: AtomicU64::default(),
            lives: Mutex::default(),
            follows: Mutex::default(),
            http_calls: AtomicU64::default(),
        });
        let serving = gateway.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(serving.clone(), stream));
            }
        });
        Self { address, gateway }
    }

    /// How many sockets were asked for.
    pub(crate) fn upgrades(&self) -> u64 {
        self.gateway.upgrades.load(Ordering::Relaxed)
    }

    pub(crate) fn http_calls(&self) -> u64 {
        self.gateway.http_calls.load(Ordering::Relaxed)
    }

    pub(crate) fn open_lives(&self) -> usize {
        lock(&self.gateway.lives).len()
    }

    pub(crate) fn follows(&self) -> usize {
        lock(&self.gateway.follows).len()
    }
}

async fn serve(gateway: Arc<Gateway>, mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut head = [0; 2048];
    let Ok(length) = stream.peek(&mut head).await else {
        return;
    };
    if !head[..length].starts_with(b"GET /ws") {
        return serve_http(&gateway, stream).await;
    }
    if gateway.fault == Fault::RefuseUpgrades {
        let _ = stream.read(&mut head).await;
        let _ = stream
            .write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            .await;
        return;
    }
    let number = gateway.upgrades.fetch_add(1, Ordering::Relaxed) + 1;
    if let Fault::CrowdedFrom(first) = gateway.fault
        && number >= first
        && number.is_multiple_of(2)
    {
        let _ = stream.read(&mut head).await;
        let answer =
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(answer).await;
        return;
    }
    let mut query = String::new();
    let config = WebSocketConfig::default()
        .read_buffer_size(512)
        .write_buffer_size(0);
    #[allow(clippy::result_large_err, reason = "the handshake's own callback type")]
    let keep_query = |request: &Request, response: Response| {
        query = request.uri().query().unwrap_or_default().to_owned();
        Ok(response)
    };
    let Ok(socket) = accept_hdr_async_with_config(stream, keep_query, Some(config)).await else {
        return;
    };
    session(&gateway, socket, &query).await;
}

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    live_id: Option<&'a str>,
    id: Option<u64>,
}

async fn session(gateway: &Gateway, mut socket: WebSocketStream<TcpStream>, query: &str) {
    let param = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let user_id = param("user_id").unwrap_or("nobody").to_owned();
    let welcome = format!(
        r#"{{"type":"welcome","user_id":"{user_id}","gateway_id":"fake","heartbeat_ms":5000,"timeout_ms":15000}}"#
    );
    let mut membership = None;
    if socket.send(Message::text(welcome)).await.is_ok() {
        converse(
            gateway,
            &mut socket,
            (&user_id, param("live_id")),
            &mut membership,
        )
        .await;
    }
    if let Some((_, live, fan)) = membership {
        live.change(-1, fan);
    }
}

/// The live that a viewer joined, and whether the viewer is a fan.
type Membership = Option<(String, Arc<Live>, bool)>;

async fn converse(
    gateway: &Gateway,
    socket: &mut WebSocketStream<TcpStream>,
    (user_id, live_id): (&str, Option<&str>),
    membership: &mut Membership,
) {
    if let Some(live_id) = live_id {
        let answer = gateway.join(user_id, live_id, membership);
        if socket.send(Message::text(answer)).await.is_err() {
            return;
        }
    }
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        let asked: Asked<'_> = serde_json::from_str(&text).expect("a request");
        let answer = match (asked.kind, asked.live_id) {
            ("heartbeat", _) => match gateway.heartbeat(asked.id.unwrap_or_default(), membership) {
                Ok(Some(ack)) => ack,
                Ok(None) => continue,
                Err(close) => return drop(socket.close(Some(close)).await),
            },
            ("join", Some(live_id)) => gateway.join(user_id, live_id, membership),
            ("watch", Some(live_id)) => return gateway.watch(socket, live_id).await,
            _ => r#"{"type":"error","code":"unknown_type","message":""}"#.to_owned(),
        };
        if socket.send(Message::text(answer)).await.is_err() {
            return;
        }
    }
}

impl Live {
    fn change(&self, by: i64, fan: bool) {
        self.fans
            .fetch_add(if fan { by } else { 0 }, Ordering::Relaxed);
        self.counts.send_modify(|[viewers, fans]| {
            *viewers += by;
            *fans += if fan { by } else { 0 };
        });
    }
}

fn json_fields([viewers, fans]: [i64; 2]) -> String {
    format!(r#""viewers":{viewers},"fans":{fans},"guests":0"#)
}

impl Gateway {
    fn live(&self, live_id: &str) -> Option<Arc<Live>> {
        lock(&self.lives).get(live_id).cloned()
    }

    fn join(&self, user_id: &str, live_id: &str, membership: &mut Membership) -> String {
        let Some(live) = self.live(live_id) else {
            return r#"{"type":"error","code":"live_not_open","message":""}"#.to_owned();
        };
        let fan = lock(&self.follows).contains(&(user_id.to_owned(), live.streamer_id.clone()));
        live.change(1, fan);
        let counts = json_fields(*live.counts.borrow());
        let streamer_id = &live.streamer_id;
        let joined = format!(
            r#"{{"type":"joined","live_id":"{live_id}","streamer_id":"{streamer_id}",{counts}}}"#
        );
        *membership = Some((live_id.to_owned(), live, fan));
        joined
    }

    /// Returns the ack, nothing if the fault drops it, or the close frame that ends the socket.
    fn heartbeat(&self, id: u64, membership: &Membership) -> Result<Option<String>, CloseFrame> {
        let number = self.heartbeats.fetch_add(1, Ordering::Relaxed) + 1;
        match self.fault {
            Fault::DropAcks(every) if number.is_multiple_of(every) => return Ok(None),
            Fault::CloseSocket(nth) if number == nth => {
                return Err(CloseFrame {
                    code: 4008.into(),
                    reason: "".into(),
                });
            }
            _ => {}
        }
        let Some((live_id, live, fan)) = membership else {
            return Ok(Some(
                r#"{"type":"error","code":"not_joined","message":""}"#.to_owned(),
            ));
        };
        let counts = json_fields(*live.counts.borrow());
        Ok(Some(format!(
            r#"{{"type":"heartbeat_ack","id":{id},"live_id":"{live_id}","fan":{fan},{counts},"heartbeat_ms":5000}}"#
        )))
    }

    async fn watch(&self, socket: &mut WebSocketStream<TcpStream>, live_id: &str) {
        let Some(live) = self.live(live_id) else {
            return;
        };
        let mut counts = live.counts.subscribe();
        let extra = i64::from(self.fault == Fault::MiscountViewers);
        loop {
            let [viewers, fans] = *counts.borrow_and_update();
            let fields = json_fields([viewers + extra, fans]);
            let text = format!(
                r#"{{"type":"counts","live_id":"{live_id}","epoch":1,"seq":1,{fields},"quality":"exact"}}"#
            );
            if socket.send(Message::text(text)).await.is_err() {
                return;
            }
            tokio::select! {
                changed = counts.changed() => if changed.is_err() { return },
                frame = socket.next() => if frame.is_none_or(|frame| frame.is_err()) { return },
            }
        }
    }

    fn http(&self, method: &str, path: &str, body: &str) -> &'static str {
        self.http_calls.fetch_add(1, Ordering::Relaxed);
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match (method, &parts[..]) {
            ("PUT", ["v1", "lives", live_id]) => {
                let body: serde_json::Value = serde_json::from_str(body).expect("a JSON body");
                let streamer_id = body["streamer_id"].as_str().expect("a streamer").to_owned();
                let live = || {
                    Arc::new(Live {
                        streamer_id,
                        ..Live::default()
                    })
                };
                lock(&self.lives)
                    .entry((*live_id).to_owned())
                    .or_insert_with(live);
            }
            ("DELETE", ["v1", "lives", live_id]) => {
                if lock(&self.lives).remove(*live_id).is_none() {
                    return "404 Not Found";
                }
            }
            ("PUT", ["v1", "users", user, "following", streamer]) => {
                lock(&self.follows).insert(((*user).to_owned(), (*streamer).to_owned()));
            }
            ("DELETE", ["v1", "users", user, "following", streamer]) => {
                lock(&self.follows).remove(&((*user).to_owned(), (*streamer).to_owned()));
            }
            _ => return "404 Not Found",
        }
        "200 OK"
    }
}

/// Answers the requests of one connection one after the other.
async fn serve_http(gateway: &Gateway, stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    while let Some((request, body)) = read_request(&mut stream).await {
        let mut words = request.split(' ');
        let method = words.next().unwrap_or_default();
        let path = words.next().unwrap_or_default();
        let status = gateway.http(method, path, &body);
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The first line of a request, and its body; `None` at the end.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut request = String::new();
    stream.read_line(&mut request).await.ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((request, String::from_utf8(body).expect("text")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under the lock")
}
