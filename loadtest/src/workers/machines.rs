//! The coordinator's side of a crowd on several machines: a port at which the machines join, each
//! with one worker.
//!
//! A client that connects has a moment for one short line that says what it is. The coordinator tells
//! another program, another version or garbage why it may not join, and forgets it. No secret goes
//! over the connection: a plan names no file, and each machine has the secret of the tokens, and the
//! authorities to trust for TLS, in files of its own.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::codec::LinesCodec;

use super::lines::{self, LONGEST_LINE};
use super::share::{Assignment, Ends};

/// What a joiner says first, and where it must be alike. The number changes when the messages do.
const PROGRAM: &str = "rollcall loadtest 1";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const LONGEST_HELLO: usize = 512;
pub(super) const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// Maximum connections that have not said what they are yet. The rest wait in the kernel.
const MOST_KNOCKING: usize = 32;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    program: String,
    version: String,
}

impl Hello {
    pub(super) fn own() -> Self {
        Self {
            program: PROGRAM.to_owned(),
            version: VERSION.to_owned(),
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let theirs = (&*self.program, &*self.version);
        ensure!(
            theirs == (PROGRAM, VERSION),
            "this is {PROGRAM:?} of version {VERSION}, the other is not"
        );
        Ok(())
    }
}

/// The coordinator's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Welcome {
    Wait,
    Refused(String),
}

/// A machine that has joined, and waits for its share.
pub(crate) struct JoinedMachine {
    pub(crate) address: SocketAddr,
    read: lines::LineReader<OwnedReadHalf>,
    write: lines::Write<OwnedWriteHalf>,
}

/// Waits at this port until so many machines have joined.
pub(crate) async fn gather(
    at: SocketAddr,
    count: usize,
    within: Duration,
) -> anyhow::Result<Vec<JoinedMachine>> {
    let listener = TcpListener::bind(at)
        .await
        .with_context(|| format!("--coordinator {at}"))?;
    eprintln!("waiting for {count} machines on {}", listener.local_addr()?);
    let deadline = Instant::now() + within;
    let mut machines = Vec::new();
    let mut knocking = JoinSet::new();
    while machines.len() < count {
        let next = async {
            tokio::select! {
                accepted = listener.accept(), if knocking.len() < MOST_KNOCKING => Some(accepted),
                Some(known) = knocking.join_next(), if !knocking.is_empty() => {
                    match known {
                        Ok(Ok(machine)) => machines.push(machine),
                        Ok(Err(error)) => eprintln!("loadtest: somebody may not join: {error:#}"),
                        Err(error) => eprintln!("loadtest: somebody may not join: {error}"),
                    }
                    None
                }
            }
        };
        match timeout_at(deadline, next).await {
            Ok(Some(Ok((stream, address)))) => drop(knocking.spawn(greet(stream, address))),
            // Such as too many open files: those who wait may be the cause, and have a deadline.
            Ok(Some(Err(error))) => {
                eprintln!("loadtest: a connection: {error}");
                sleep(Duration::from_millis(100)).await;
            }
            Ok(None) => {}
            Err(_) => bail!(
                "{} of {count} machines joined within {within:?}",
                machines.len()
            ),
        }
    }
    Ok(machines)
}

/// Lets somebody say what it is.
async fn greet(stream: TcpStream, address: SocketAddr) -> anyhow::Result<JoinedMachine> {
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let mut read = lines::reader(read, LONGEST_HELLO);
    let mut write = lines::writer(write);
    let hello = async {
        lines::hear::<_, Hello>(&mut read)
            .await?
            .context("it hung up")?
            .check()
    };
    let hello = timeout(HELLO_WITHIN, hello)
        .await
        .context("it did not say what it is")
        .and_then(|hello| hello);
    let welcome = match &hello {
        Ok(()) => Welcome::Wait,
        Err(error) => Welcome::Refused(format!("{error:#}")),
    };
    timeout(HELLO_WITHIN, lines::say(&mut write, &welcome))
        .await
        .with_context(|| address.to_string())??;
    hello.with_context(|| address.to_string())?;
    *read.decoder_mut() = LinesCodec::new_with_max_length(LONGEST_LINE);
    Ok(JoinedMachine {
        address,
        read,
        write,
    })
}

impl JoinedMachine {
    /// Gives the machine its share, and begins.
    pub(super) fn begin(self, mut assignment: Assignment, ends: Ends) {
        assignment.plan.target.entry = assignment.plan.target.entry.without_files();
        tokio::spawn(lines::command(assignment, ends.commands, self.write));
        tokio::spawn(lines::listen(self.read, ends.events));
    }
}
