//! Owns a master, a replica and three sentinels that look after them, for one test. All of it is
//! gone when dropped.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several test binaries share this file, none uses all of it"
)]

use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::redis_cluster::until;
use super::redis_server::{RedisServer, cli, free_port};

/// The name of the master.
pub const SERVICE: &str = "main";

/// A master under care.
pub struct RedisSentinels {
    /// Master and replica, as they began.
    pub servers: [RedisServer; 2],
    sentinels: Vec<Sentinel>,
}

struct Sentinel {
    child: Child,
    port: u16,
    _dir: TempDir,
}

impl RedisSentinels {
    /// Starts all of them, with a password for the servers and none for the sentinels.
    pub async fn start() -> Self {
        let options = [
            "--requirepass",
            "secret",
            "--masterauth",
            "secret",
            "--repl-diskless-sync-delay",
            "0",
        ];
        let servers = [
            RedisServer::start_with(&options).await,
            RedisServer::start_with(&options).await,
        ];
        let master = servers[0].port().to_string();
        let on_replica = |command: &[&str]| servers[1].cli_as("secret", command);
        assert_eq!(on_replica(&["REPLICAOF", "127.0.0.1", &master]), "OK");
        until("the replica is in step", || {
            on_replica(&["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        let sentinels = (0..3).map(|_| Sentinel::start(&master)).collect();
        let all = Self { servers, sentinels };
        for sentinel in &all.sentinels {
            let ready = || {
                let about = cli(sentinel.port, &[&["SENTINEL", "MASTER", SERVICE]]);
                let field = |name: &str| {
                    about
                        .lines()
                        .skip_while(|line| *line != name)
                        .nth(1)
                        .map(str::to_owned)
                };
                ["num-slaves", "num-other-sentinels"].map(field)
                    == [Some("1".to_owned()), Some("2".to_owned())]
            };
            until("the sentinels know each other", ready).await;
        }
        all
    }

    /// The URL that a gateway is given.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .sentinels
            .iter()
            .map(|s| format!("127.0.0.1:{}", s.port))
            .collect();
        format!("redis-sentinel://:secret@{}/{SERVICE}", hosts.join(","))
    }

    /// Freezes the first sentinel, which the URL names first.
    pub fn freeze_a_sentinel(&self) {
        let pid = self.sentinels[0].child.id().to_string();
        assert!(
            Command::new("sh")
                .args(["-c", &format!("kill -STOP {pid}")])
                .status()
                .expect("sh runs")
                .success()
        );
    }
}

impl Sentinel {
    fn start(master: &str) -> Self {
        let (dir, port) = (
            tempfile::tempdir().expect("a directory for a sentinel"),
            free_port(),
        );
        let config = dir.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {SERVICE} 127.0.0.1 {master} 2\n\
             sentinel auth-pass {SERVICE} secret\nsentinel down-after-milliseconds {SERVICE} 1000\n\
             sentinel failover-timeout {SERVICE} 5000\n"
        );
        std::fs::write(&config, text).expect("a sentinel's settings");
        let mut command = Command::new("redis-server");
        command
            .arg(&config)
            .arg("--sentinel")
            .current_dir(dir.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            child: command.spawn().expect("redis-server runs"),
            port,
            _dir: dir,
        }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
