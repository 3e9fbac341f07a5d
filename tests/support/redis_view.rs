//! Owns a story's Redis: the server that gateways share, and the look into it that another service
//! would take, by key and over a connection of its own, past the program.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;

use super::redis_server::{RedisServer, faketime, resp};
use super::wait::PATIENCE;

/// A redis-server of this story's own; gone with the last clone.
#[derive(Clone)]
pub struct Redis {
    addr: SocketAddr,
    server: Arc<Mutex<RedisServer>>,
}

impl Redis {
    /// Starts a server, empty.
    pub async fn start() -> Self {
        Self::of(RedisServer::start().await)
    }

    fn of(server: RedisServer) -> Self {
        Self {
            addr: server.addr(),
            server: Arc::new(Mutex::new(server)),
        }
    }

    /// Starts a server, empty, whose wall clock can be set.
    pub async fn start_with_clock() -> Self {
        let library = faketime().expect("libfaketime, which ./tests/run installs");
        Self::of(RedisServer::start_with_clock(library).await)
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

    /// Writes what it holds to a file.
    pub async fn save_snapshot(&self) {
        self.server.lock().await.save_snapshot();
    }

    /// Kills it, if it still runs, and starts it again with what it held at the last snapshot.
    pub async fn restart_from_snapshot(&self) {
        self.server.lock().await.restart_from_snapshot().await;
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
        let addr = self.addr;
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let talk = move || {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            resp::ask(addr, &[&words], PATIENCE)
        };
        tokio::task::spawn_blocking(talk).await.expect("no panic")
    }

    /// A command of another program, as [`super::foreign`] makes them, which must work; what it
    /// did.
    pub async fn meddle(&self, command: &[String]) -> String {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        resp::lines(&self.ask(&words).await)
    }

    /// The members of a set, or the fields of a hash; nobody if the key is absent or of another
    /// type.
    pub async fn members_of(&self, key: &str) -> BTreeSet<String> {
        let read = match self.ask(&["TYPE", key]).await.as_str() {
            Some("set") => "SMEMBERS",
            Some("hash") => "HKEYS",
            _ => return BTreeSet::new(),
        };
        // The key may have got another type in between.
        self.try_ask(&[read, key])
            .await
            .map(|list| strings(&list))
            .unwrap_or_default()
    }

    /// One command that must work.
    pub async fn ask(&self, words: &[&str]) -> Value {
        self.try_ask(words)
            .await
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The same as one types it, with single blanks between the words.
    pub async fn say(&self, line: &str) -> Value {
        self.ask(&line.split(' ').collect::<Vec<_>>()).await
    }

    /// The keys that match a pattern, sorted.
    pub async fn keys(&self, pattern: &str) -> BTreeSet<String> {
        strings(&self.ask(&["KEYS", pattern]).await)
    }

    /// The union of these sets.
    async fn members_of_all(&self, keys: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        let mut members = BTreeSet::new();
        for key in keys {
            members.extend(strings(&self.ask(&["SMEMBERS", &key]).await));
        }
        members
    }

    /// Who is in a live, fans or not: the union of the slices of its viewers.
    pub async fn viewers(&self, live: &str) -> BTreeSet<String> {
        let slices = self.slices(live).await.into_iter();
        self.members_of_all(slices.map(|slice| format!("{{{slice}}}:viewers")))
            .await
    }

    /// Who is online on the platform: the union of its slices.
    pub async fn online_users(&self) -> BTreeSet<String> {
        self.members_of_all(self.keys("online-users_slice*").await)
            .await
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
        let slices = self
            .try_ask(&["HGET", &format!("live:{live}"), "slices"])
            .await
            .unwrap_or_default();
        match slices.as_str().and_then(|n| n.parse::<u32>().ok()) {
            Some(n) if n > 1 => (1..=n)
                .map(|k| format!("online-fans:{live}_slice{k}"))
                .collect(),
            _ => vec![format!("online-fans:{live}")],
        }
    }

    /// Who is online: the union of the slices.
    pub async fn fans(&self, live: &str) -> BTreeSet<String> {
        self.members_of_all(self.slices(live).await).await
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
            let fields = if is_hash {
                self.ask(&["HKEYS", &key]).await
            } else {
                Value::Null
            };
            let is_field = fields
                .as_array()
                .is_some_and(|fields| fields.iter().any(|field| field == gateway));
            if key.contains(gateway) || (is_field && key != "rollcall:leases") {
                named.push(key);
            }
        }
        named
    }

    /// The keys that name somebody, or whose contents do. Reads everything, whatever its type.
    pub async fn keys_that_name(&self, id: &str) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let page = self.ask(&["SCAN", &cursor, "COUNT", "100"]).await;
            for key in strings(&page[1]) {
                let kind = self.ask(&["TYPE", &key]).await;
                let read = match kind.as_str().unwrap() {
                    "string" => vec!["GET", &key],
                    "hash" => vec!["HGETALL", &key],
                    "set" => vec!["SMEMBERS", &key],
                    "zset" => vec!["ZRANGE", &key, "0", "-1"],
                    "stream" => vec!["XRANGE", &key, "-", "+"],
                    "none" => continue,
                    other => panic!("{key} is a {other}"),
                };
                // What is no text, such as a counter of different users, has no ids.
                let contents = self.try_ask(&read).await.unwrap_or_default().to_string();
                if key.contains(id) || contents.contains(id) {
                    named.insert(key);
                }
            }
            cursor = page[0].as_str().unwrap().to_owned();
            if cursor == "0" {
                return named;
            }
        }
    }

    /// One field of `live:<live_id>`.
    pub async fn live_field(&self, live: &str, field: &str) -> Option<String> {
        self.ask(&["HGET", &format!("live:{live}"), field])
            .await
            .as_str()
            .map(str::to_owned)
    }
}

fn strings(list: &Value) -> BTreeSet<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}
