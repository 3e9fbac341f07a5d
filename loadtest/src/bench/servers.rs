//! The processes of the bench: redis-server, gateways, the bare and the naive server, each on a
//! free port of its own. Whatever was started ends when it is dropped, and nothing else does.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use fred::clients::Client;
use fred::interfaces::{ClientLike, SortedSetsInterface};
use fred::types::config::Config;
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::Method;
use rollcall::base::secret::Secret;
use rollcall::store::redis::RedisStore;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::generator::order::{live, streamer, user};
use crate::api::http_client;
use crate::entry::token;
use crate::proc_stats::{ProcStats, cpu_seconds};
use crate::redis_stats::{CommandCounts, InlineClient};
use crate::target::Target;

/// Under valgrind everything takes longer.
const START: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 32;
const FOLLOWERS_PER_CALL: usize = 1_000;
const TOLD_WITHIN: Duration = Duration::from_secs(300);

/// A process that listens.
pub(crate) struct Server {
    child: Child,
    pub(crate) pid: u32,
    pub(crate) addr: SocketAddr,
}

impl Server {
    /// Starts a program that prints `listening on http://ADDR` when it is ready.
    pub(crate) async fn start(program: &Path, args: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| program.display().to_string())?;
        let output = child.stdout.take().context("a server without output")?;
        let mut lines = BufReader::new(output).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await? {
                if let Some((_, addr)) = line.split_once("listening on http://") {
                    return Ok(addr.trim().parse::<SocketAddr>()?);
                }
            }
            bail!("{} ended before it was ready", program.display())
        };
        let addr = tokio::time::timeout(START, ready)
            .await
            .context("a server that does not get ready")??;
        // Read on, or a server that prints more would wait for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let pid = child.id().context("a server that has ended")?;
        Ok(Self { child, pid, addr })
    }

    /// CPU seconds since it began.
    pub(crate) fn cpu(&self) -> anyhow::Result<f64> {
        cpu_seconds(self.pid).context("the process of a server")
    }

    /// Resident bytes.
    pub(crate) fn rss(&self) -> anyhow::Result<f64> {
        let stats = ProcStats::read(self.pid).context("the process of a server")?;
        Ok(stats.rss_bytes as f64)
    }

    pub(crate) async fn end(mut self) {
        // It may have ended by itself; gone is gone.
        let _ = self.child.kill().await;
    }
}

/// The version of redis-server.
pub(crate) async fn redis_version() -> String {
    let said = Command::new("redis-server").arg("--version").output().await;
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    let version = said.split_whitespace().find_map(|it| it.strip_prefix("v="));
    version.unwrap_or("absent").to_owned()
}

/// What a Redis had done at one moment.
pub(crate) struct RedisReading {
    cpu: f64,
    /// Inner ones of scripts among them.
    commands: CommandCounts,
    at: Instant,
}

/// What it did in a while.
pub(crate) struct RedisWork {
    pub(crate) seconds: f64,
    /// CPU seconds.
    pub(crate) cpu: f64,
    pub(crate) commands: f64,
}

/// A redis-server with nothing in it.
pub(crate) struct Redis {
    pub(crate) server: Server,
    pub(crate) client: Client,
}

impl Redis {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let child = Command::new("redis-server")
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("redis-server cannot be started: install Redis 7")?;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let server = Server {
            pid: child.id().context("redis-server has ended")?,
            child,
            addr,
        };
        let began = Instant::now();
        loop {
            let client =
                Builder::from_config(Config::from_url(&format!("redis://{addr}"))?).build()?;
            if client.init().await.is_ok() {
                return Ok(Self { server, client });
            }
            ensure!(
                began.elapsed() < START,
                "redis-server does not answer on {addr}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.server.addr)
    }

    /// The gateways' own store, for rows that call it.
    pub(crate) async fn store(&self) -> anyhow::Result<RedisStore> {
        Ok(RedisStore::connect(&Secret::new(self.url()), Arc::default()).await?)
    }

    /// Sends a command that the client has no call for.
    pub(crate) async fn ask(&self, name: &'static str, words: &[&str]) -> anyhow::Result<Value> {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        Ok(self.client.custom(command, words.to_vec()).await?)
    }

    /// Bytes that it uses.
    pub(crate) async fn used_memory(&self) -> anyhow::Result<f64> {
        let said = InlineClient::connect(&Target::plain(self.server.addr))
            .await?
            .ask("INFO memory")
            .await?;
        let used = said
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
        used.context("INFO memory says no used_memory")
    }

    pub(crate) async fn read(&self) -> anyhow::Result<RedisReading> {
        Ok(RedisReading {
            commands: CommandCounts::read(&Target::plain(self.server.addr)).await?,
            cpu: self.server.cpu()?,
            at: Instant::now(),
        })
    }

    /// Its work since a reading.
    pub(crate) async fn since(&self, before: &RedisReading) -> anyhow::Result<RedisWork> {
        let seconds = before.at.elapsed().as_secs_f64();
        let cpu = self.server.cpu()? - before.cpu;
        let commands = CommandCounts::read(&Target::plain(self.server.addr)).await?;
        Ok(RedisWork {
            seconds,
            cpu,
            commands: commands.total_since(&before.commands),
        })
    }

    /// Cores that it takes now, over so long: with nothing to do, what it takes for itself.
    pub(crate) async fn idle(&self, span: Duration) -> anyhow::Result<f64> {
        let cpu = self.server.cpu()?;
        let began = Instant::now();
        tokio::time::sleep(span).await;
        Ok((self.server.cpu()? - cpu) / began.elapsed().as_secs_f64())
    }

    /// Waits until every follower was told of the lives that have opened.
    pub(crate) async fn followers_told(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.ask("XLEN", &["rollcall:fanout"]).await?.as_u64() > Some(0) {
            ensure!(
                began.elapsed() < TOLD_WITHIN,
                "followers are still being told after {TOLD_WITHIN:?}"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Users 0 to `count` follow the streamers of the lives they watch, written as a platform
    /// would.
    pub(crate) async fn follow(&self, count: usize, lives: usize) -> anyhow::Result<()> {
        let calls = (0..lives.min(count)).flat_map(|number| {
            let fans: Vec<usize> = (number..count).step_by(lives).collect();
            let chunks: Vec<Vec<usize>> = fans
                .chunks(FOLLOWERS_PER_CALL)
                .map(<[usize]>::to_vec)
                .collect();
            chunks.into_iter().map(move |fans| (number, fans))
        });
        let client = &self.client;
        let writes = calls.map(|(number, fans)| async move {
            let members: Vec<(f64, String)> =
                fans.into_iter().map(|fan| (1.0, user(fan))).collect();
            client
                .zadd::<(), _, _>(
                    format!("followers:{}", streamer(number)),
                    None,
                    None,
                    false,
                    false,
                    members,
                )
                .await
        });
        stream::iter(writes)
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) gateway: PathBuf,
    pub(crate) this: PathBuf,
}

impl Programs {
    /// The gateway is built beside this program unless it is named.
    pub(crate) fn find(gateway: Option<&Path>) -> anyhow::Result<Self> {
        let this = std::env::current_exe().context("this program's own path")?;
        let gateway = gateway.map_or_else(|| this.with_file_name("rollcall"), Path::to_path_buf);
        ensure!(
            gateway.is_file(),
            "{} is not there: build it with the same profile (cargo build --release -p rollcall), or name it with \
             --gateway-bin",
            gateway.display()
        );
        Ok(Self { gateway, this })
    }

    pub(crate) async fn gateway(&self, redis: &Redis) -> anyhow::Result<BenchGateway> {
        self.gateway_with(redis, None, &[]).await
    }

    /// A gateway with more flags, which wants tokens if there is a secret that signs them.
    pub(crate) async fn gateway_with(
        &self,
        redis: &Redis,
        secret: Option<&Path>,
        flags: &[&str],
    ) -> anyhow::Result<BenchGateway> {
        let url = redis.url();
        let mut flags = flags.to_vec();
        flags.extend(BenchGateway::args(&url));
        // What it costs is a row of its own.
        if !flags.contains(&"--track-online") {
            flags.extend(["--track-online", "off"]);
        }
        let Some(secret) = secret else {
            return BenchGateway::of(Server::start(&self.gateway, &flags).await?);
        };
        let file = secret
            .to_str()
            .context("the path of the secret is not UTF-8")?;
        flags.extend([
            "--auth",
            "jwt",
            "--jwt-hs256-secret-file",
            file,
            "--http-rate",
            "0",
        ]);
        BenchGateway::of(Server::start(&self.gateway, &flags).await?)?.with_tokens_of(secret)
    }

    pub(crate) async fn bare(&self) -> anyhow::Result<Server> {
        Server::start(&self.this, &["bare"]).await
    }

    pub(crate) async fn bare_datagrams(&self) -> anyhow::Result<Server> {
        Server::start(&self.this, &["bare-datagrams"]).await
    }

    pub(crate) async fn naive(&self, redis: &Redis) -> anyhow::Result<Server> {
        Server::start(
            &self.this,
            &["naive", "--redis", &redis.server.addr.to_string()],
        )
        .await
    }
}

/// A gateway and its HTTP API.
pub(crate) struct BenchGateway {
    pub(crate) server: Server,
    pub(crate) http: reqwest::Client,
    /// Of a service, if the gateway wants one.
    token: Option<String>,
}

impl BenchGateway {
    /// How a gateway of the bench is started.
    pub(crate) fn args(redis: &str) -> [&str; 8] {
        // The bound on handshakes guards a gateway against a crowd that comes back at once; here
        // the crowd is the question.
        [
            "--listen",
            "127.0.0.1:0",
            "--log",
            "warn",
            "--handshake-rate",
            "0",
            "--redis",
            redis,
        ]
    }

    /// A gateway that runs.
    pub(crate) fn of(server: Server) -> anyhow::Result<Self> {
        let http = http_client(Duration::from_secs(60))?;
        Ok(Self {
            server,
            http,
            token: None,
        })
    }

    /// The same gateway, called with a service's token that is signed with this secret.
    pub(crate) fn with_tokens_of(self, secret: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            token: Some(token(secret, "bench", "service")?),
            ..self
        })
    }

    /// Opens lives 0 to `lives`.
    pub(crate) async fn open(&self, lives: usize, slices: Option<u32>) -> anyhow::Result<()> {
        let opens = (0..lives).map(|number| async move {
            let mut body = json!({ "streamer_id": streamer(number) });
            if let Some(slices) = slices {
                body["slices"] = slices.into();
            }
            self.call(
                Method::PUT,
                &format!("/v1/lives/{}", live(number)),
                Some(body),
            )
            .await
            .map(drop)
        });
        stream::iter(opens)
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> anyhow::Result<String> {
        let mut request = self
            .http
            .request(method.clone(), format!("http://{}{path}", self.server.addr));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("{method} {path}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        ensure!(status.is_success(), "{method} {path}: {status}: {text}");
        Ok(text)
    }

    /// One of its counters or gauges, as `/metrics` has it; labels are part of the name.
    pub(crate) async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let text = self.call(Method::GET, "/metrics", None).await?;
        metric_in(&text, name).with_context(|| format!("no {name} in /metrics"))
    }
}

pub(crate) fn metric_in(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .split(' ')
            .next()?
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# HELP rollcall_store_calls Commands.\nrollcall_store_calls_total 41\nrollcall_store 7\n# EOF\n";
        assert_eq!(metric_in(text, "rollcall_store_calls_total"), Some(41.0));
        assert_eq!(metric_in(text, "rollcall_store"), Some(7.0));
        assert_eq!(metric_in(text, "rollcall_store_calls"), None);
    }
}
