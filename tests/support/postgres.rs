//! Owns a real PostgreSQL for one test: its own port, its own empty directory, one user with a
//! password. It can be stopped, started again with what it had, and is gone when dropped. A machine
//! without PostgreSQL fails the test; it never skips it. The server refuses to run as root, so
//! root's tests run it as the user `nobody`.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several programs share this file, none uses all of it"
)]

use std::fs::{File, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tempfile::TempDir;
use tokio::time::Instant;

/// The password of the user `rollcall`.
pub const PASSWORD: &str = "hunter2:of@the/database";

/// The table that the usual statement reads.
pub const FOLLOWS: &str = "CREATE TABLE follows (streamer_id text, user_id text, is_follow int, \
                           PRIMARY KEY (streamer_id, user_id))";

const DEADLINE: Duration = Duration::from_secs(60);

/// Debian's `nobody` and `nogroup`.
const NOBODY: u32 = 65_534;

/// A PostgreSQL.
pub struct Postgres {
    child: Option<Child>,
    port: u16,
    dir: TempDir,
    more: Vec<String>,
}

impl Postgres {
    /// Starts a server with nothing in it on a free port, and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with TLS, by this certificate and this key.
    pub async fn start_tls(chain: &Path, key: &Path) -> Self {
        Self::start_with(&[("ssl_cert_file", chain), ("ssl_key_file", key)]).await
    }

    async fn start_with(files: &[(&str, &Path)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory for PostgreSQL");
        let password = dir.path().join("password");
        std::fs::write(&password, PASSWORD).expect("a file for the password");
        own(dir.path());
        own(&password);
        let mut initdb = program("initdb");
        initdb
            .arg("-D")
            .arg(dir.path().join("data"))
            .arg(format!("--pwfile={}", password.display()));
        initdb.args([
            "-U",
            "rollcall",
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        let made = initdb.current_dir("/").stdin(Stdio::null()).output();
        let made = made.unwrap_or_else(|why| {
            panic!("initdb cannot be started ({why}): ./tests/run installs it")
        });
        assert!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let mut more = if files.is_empty() {
            Vec::new()
        } else {
            vec!["-c".to_owned(), "ssl=on".to_owned()]
        };
        for (setting, file) in files {
            let own_file = own_copy(file, &dir.path().join(setting));
            more.extend(["-c".to_owned(), format!("{setting}={}", own_file.display())]);
        }
        let mut server = Self {
            child: None,
            port: free_port(),
            dir,
            more,
        };
        server.go_on().await;
        server
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The URL that a gateway is given, without the password.
    pub fn url(&self) -> String {
        format!("postgres://rollcall@{}/postgres", self.addr())
    }

    /// A file with the password.
    pub fn password_file(&self) -> PathBuf {
        self.dir.path().join("password")
    }

    /// Ends it at once, and every connection to it.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let kill = format!("kill -QUIT {}", child.id());
        let _ = Command::new("sh").args(["-c", &kill]).status();
        // The server kills processes of its own that do not end within five seconds.
        let _ = child.wait();
    }

    /// Starts it again with what it had. Somebody may have taken the port meanwhile, so it is
    /// started until it stays.
    pub async fn go_on(&mut self) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let has_ended =
                |child: &mut Child| child.try_wait().expect("the state of PostgreSQL").is_some();
            if self.child.as_mut().is_none_or(has_ended) {
                self.child = Some(self.spawn());
            }
            let Err(why) = self.options().connect().await else {
                return;
            };
            let log = || std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(
                Instant::now() < deadline,
                "PostgreSQL does not answer: {why}\n{}",
                log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn spawn(&self) -> Child {
        let log = File::create(self.dir.path().join("log")).expect("a log for PostgreSQL");
        let mut server = program("postgres");
        server
            .arg("-D")
            .arg(self.dir.path().join("data"))
            .args(["-p", &self.port.to_string()]);
        server.args([
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "unix_socket_directories=",
            "-c",
            "fsync=off",
        ]);
        server.args(&self.more);
        let server = server
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        server.expect("postgres starts")
    }

    /// Runs statements on a connection of their own.
    pub async fn run(&self, statements: &str) {
        let mut connection = self.options().connect().await.expect("PostgreSQL answers");
        let done = connection
            .execute(sqlx::raw_sql(AssertSqlSafe(statements)))
            .await;
        done.unwrap_or_else(|why| panic!("{statements}: {why}"));
    }

    /// Makes users follow a streamer.
    pub async fn follow(&self, streamer: &str, users: &[&str]) {
        let rows: Vec<_> = users
            .iter()
            .map(|user| format!("('{streamer}', '{user}', 1)"))
            .collect();
        let clash = "ON CONFLICT (streamer_id, user_id) DO UPDATE SET is_follow = 1";
        self.run(&format!(
            "INSERT INTO follows VALUES {} {clash}",
            rows.join(",")
        ))
        .await;
    }

    /// How to connect as the tests do.
    pub fn options(&self) -> PgConnectOptions {
        let options = PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.port);
        options
            .username("rollcall")
            .password(PASSWORD)
            .database("postgres")
            .disable_statement_logging()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A program of PostgreSQL, which Debian keeps in a folder of its version.
fn program(name: &str) -> Command {
    let folders = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<PathBuf> = folders
        .map(|folder| folder.path().join("bin").join(name))
        .collect();
    found.retain(|path| path.exists());
    found.sort();
    let mut command = Command::new(found.pop().unwrap_or_else(|| PathBuf::from(name)));
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Hands a file or folder to the user who runs the server.
pub fn own(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))
            .expect("a folder for the server");
    }
}

/// A copy of a file that belongs to the user who runs the server, and that nobody else may read.
pub fn own_copy(file: &Path, copy: &Path) -> PathBuf {
    std::fs::copy(file, copy).expect("a copy for the server");
    std::fs::set_permissions(copy, Permissions::from_mode(0o600)).expect("a file for the server");
    own(copy);
    copy.to_owned()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn free_port() -> u16 {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    probe.local_addr().expect("a bound port").port()
}
