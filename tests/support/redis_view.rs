//! Owns a story's Redis: the server that gateways share, and the look into it that another service would take, by key
//! and over a connection of its own, past the program.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::redis_server::{RedisServer, faketime};
use super::wait::PATIENCE;

/// A redis-server of this story's own; gone with the last clone.
#[derive(Clone)]
pub struct Redis {
    addr: SocketAddr,
    server: Arc<Mutex<RedisServer>>,
}

type Connection = BufReader<TcpStream>;

impl Redis {
    /// Starts a server, empty.
    pub async fn start() -> Self {
        let server = RedisServer::start().await;
        Self { addr: server.addr(), server: Arc::new(Mutex::new(server)) }
    }

    /// Starts a server, empty, whose wall clock can be set.
    pub async fn start_with_clock() -> Self {
        let library = faketime().expect("libfaketime, which ./tests/run installs");
        let server = RedisServer::start_with_clock(library).await;
        Self { addr: server.addr(), server: Arc::new(Mutex::new(server)) }
    }

    /// Sets its wall clock so many seconds ahead of the machine's.
    pub async fn set_clock(&self, ahead: i64) {
        self.server.lock().await.set_clock(ahead).await;
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL that a gateway is given.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Ends it at once.
    pub async fn kill(&self) {
        self.server.lock().await.kill();
    }

    /// Starts it again with nothing in it.
    pub async fn restart_empty(&self) {
        self.server.lock().await.restart_empty().await;
    }

    /// Stops it in its tracks: connections stay, nothing is answered.
    pub async fn freeze(&self) {
        self.server.lock().await.freeze();
    }

    /// Lets it go on.
    pub async fn thaw(&self) {
        self.server.lock().await.thaw();
    }

    /// One command; an error of the server or of the connection is `Err`.
    pub async fn try_ask(&self, words: &[&str]) -> Result<Value, String> {
        let talk = async {
            let mut connection = BufReader::new(TcpStream::connect(self.addr).await?);
            connection.write_all(&command(words)).await?;
            reply(&mut connection).await
        };
        match tokio::time::timeout(PATIENCE, talk).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    /// One command that must work.
    pub async fn ask(&self, words: &[&str]) -> Value {
        self.try_ask(words).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The keys that match a pattern, sorted.
    pub async fn keys(&self, pattern: &str) -> BTreeSet<String> {
        strings(&self.ask(&["KEYS", pattern]).await)
    }

    /// Who is in a live, fans or not: the union of the slices of its viewers.
    pub async fn viewers(&self, live: &str) -> BTreeSet<String> {
        let mut viewers = BTreeSet::new();
        for slice in self.slices(live).await {
            let slice = slice.replacen("online-fans:", "online-viewers:", 1);
            viewers.extend(strings(&self.ask(&["SMEMBERS", &slice]).await));
        }
        viewers
    }

    /// Who is online on the platform: the union of its slices.
    pub async fn online_users(&self) -> BTreeSet<String> {
        let mut users = BTreeSet::new();
        for slice in self.keys("online-users_slice*").await {
            users.extend(strings(&self.ask(&["SMEMBERS", &slice]).await));
        }
        users
    }

    /// When a user was seen last, in Unix milliseconds; `None` if Redis does not know.
    pub async fn last_seen(&self, user: &str) -> Option<u64> {
        for key in self.keys("last-seen:*").await {
            if let Some(at) = self.ask(&["ZSCORE", &key, user]).await.as_str() {
                return Some(at.parse::<f64>().unwrap() as u64);
            }
        }
        None
    }

    /// The names of the sets over which a live's fans are spread, as the contract gives them.
    pub async fn slices(&self, live: &str) -> Vec<String> {
        let slices = self.try_ask(&["HGET", &format!("live:{live}"), "slices"]).await.unwrap_or_default();
        match slices.as_str().and_then(|n| n.parse::<u32>().ok()) {
            Some(n) if n > 1 => (1..=n).map(|k| format!("online-fans:{live}_slice{k}")).collect(),
            _ => vec![format!("online-fans:{live}")],
        }
    }

    /// Who is online: the union of the slices.
    pub async fn fans(&self, live: &str) -> BTreeSet<String> {
        let mut fans = BTreeSet::new();
        for slice in self.slices(live).await {
            fans.extend(strings(&self.ask(&["SMEMBERS", &slice]).await));
        }
        fans
    }

    /// The sum of SCARD over the slices.
    pub async fn card(&self, live: &str) -> u64 {
        let mut sum = 0;
        for slice in self.slices(live).await {
            sum += self.ask(&["SCARD", &slice]).await.as_u64().unwrap();
        }
        sum
    }

    /// The keys, and the fields of hashes, in which a gateway is named; its burial aside.
    pub async fn names_of(&self, gateway: &str) -> Vec<String> {
        let mut named = Vec::new();
        for key in self.keys("*").await {
            let is_hash = self.ask(&["TYPE", &key]).await == "hash";
            let fields = if is_hash { self.ask(&["HKEYS", &key]).await } else { Value::Null };
            let is_field = fields.as_array().is_some_and(|fields| fields.iter().any(|field| field == gateway));
            if key.contains(gateway) || (is_field && key != "rollcall:leases") {
                named.push(key);
            }
        }
        named
    }

    /// One field of `live:<live_id>`.
    pub async fn live_field(&self, live: &str, field: &str) -> Option<String> {
        self.ask(&["HGET", &format!("live:{live}"), field]).await.as_str().map(str::to_owned)
    }
}

fn strings(list: &Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Reads one reply: integers become numbers, strings strings, a missing value null, lists lists.
async fn reply(from: &mut Connection) -> std::io::Result<Result<Value, String>> {
    let mut line = String::new();
    if from.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let (kind, rest) = line.trim_end().split_at(1);
    let length = || rest.parse::<i64>().unwrap();
    Ok(match kind {
        "+" => Ok(rest.into()),
        "-" => Err(rest.to_owned()),
        ":" => Ok(length().into()),
        "$" if length() < 0 => Ok(Value::Null),
        "$" => {
            let mut bytes = vec![0; length() as usize + 2];
            from.read_exact(&mut bytes).await?;
            bytes.truncate(bytes.len() - 2);
            Ok(String::from_utf8_lossy(&bytes).into_owned().into())
        }
        "*" => {
            let mut items = Vec::new();
            for _ in 0..length().max(0) {
                match Box::pin(reply(from)).await? {
                    Ok(item) => items.push(item),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(items.into())
        }
        other => Err(format!("a reply of type {other:?}")),
    })
}
