//! Owns a real MySQL for one test, which is Debian's MariaDB: its own port, its own empty
//! directory, one user with a password. It is gone when dropped. A machine without it fails the
//! test; it never skips it. Root's tests run it as the user `nobody`, as they do with PostgreSQL.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tempfile::TempDir;
use tokio::time::Instant;

use super::postgres::{is_root, own, own_copy};
use super::redis_server::free_port;

/// The password of the user `rollcall`.
const PASSWORD: &str = "hunter2:of@the/other";

const DEADLINE: Duration = Duration::from_secs(60);

/// A MySQL.
pub struct MySql {
    child: Child,
    port: u16,
    dir: TempDir,
}

impl MySql {
    /// Starts a server with nothing in it on a free port, and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with TLS, by this certificate and this key.
    pub async fn start_tls(chain: &Path, key: &Path) -> Self {
        Self::start_with(&[("ssl-cert", chain), ("ssl-key", key)]).await
    }

    async fn start_with(files: &[(&str, &Path)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory for MySQL");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("a file for MySQL")
        };
        write("password", PASSWORD);
        write(
            "init.sql",
            &format!(
                "CREATE DATABASE platform;\nCREATE USER rollcall@'%' IDENTIFIED BY '{PASSWORD}';\n\
                 GRANT ALL ON platform.* TO rollcall@'%';\n"
            ),
        );
        own(dir.path());
        let mut install = Command::new("mariadb-install-db");
        install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        install
            .arg(format!("--datadir={}", dir.path().join("data").display()))
            .args(user());
        // Two that run at a time would take each other's temporary tables.
        install.env("TMPDIR", dir.path());
        let made = install.current_dir("/").stdin(Stdio::null()).output();
        let made = made.unwrap_or_else(|why| {
            panic!("mariadb-install-db cannot be started ({why}): see ./tests/run")
        });
        let said = [made.stdout, made.stderr].concat();
        assert!(
            made.status.success(),
            "mariadb-install-db: {}",
            String::from_utf8_lossy(&said)
        );
        let port = free_port();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let mut server = Command::new("mariadbd");
        server.args([
            "--no-defaults",
            "--skip-log-bin",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0",
        ]);
        server
            .args(["--bind-address=127.0.0.1", &format!("--port={port}")])
            .args(user());
        for (setting, name) in [
            ("datadir", "data"),
            ("socket", "socket"),
            ("pid-file", "pid"),
            ("init-file", "init.sql"),
        ] {
            server.arg(format!("--{setting}={}", path(name)));
        }
        for (setting, file) in files {
            server.arg(format!(
                "--{setting}={}",
                own_copy(file, &dir.path().join(setting)).display()
            ));
        }
        let log = File::create(dir.path().join("log")).expect("a log for MySQL");
        server.env("TMPDIR", dir.path());
        let child = server
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = child.expect("mariadbd starts");
        let server = Self { child, port, dir };
        server.answers().await;
        server
    }

    async fn answers(&self) {
        let deadline = Instant::now() + DEADLINE;
        while let Err(why) = self.options().connect().await {
            let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(
                Instant::now() < deadline,
                "MySQL does not answer: {why}\n{}",
                log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The URL that a gateway is given, without the password.
    pub fn url(&self) -> String {
        format!(
            "mysql://rollcall@{}/platform",
            SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
        )
    }

    /// A file with the password.
    pub fn password_file(&self) -> PathBuf {
        self.dir.path().join("password")
    }

    /// Runs statements on a connection of their own.
    pub async fn run(&self, statements: &str) {
        let mut connection = self.options().connect().await.expect("MySQL answers");
        let done = connection
            .execute(sqlx::raw_sql(AssertSqlSafe(statements)))
            .await;
        done.unwrap_or_else(|why| panic!("{statements}: {why}"));
    }

    fn options(&self) -> MySqlConnectOptions {
        let options = MySqlConnectOptions::new().host("127.0.0.1").port(self.port);
        options
            .username("rollcall")
            .password(PASSWORD)
            .database("platform")
            .disable_statement_logging()
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Root starts the server, and the server becomes this user by itself.
fn user() -> Option<&'static str> {
    is_root().then_some("--user=nobody")
}
