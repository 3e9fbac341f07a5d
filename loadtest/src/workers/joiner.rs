//! The whole of a machine that joins: it gets its share from the coordinator, obeys, and prints
//! what it counted itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::lines::{self, LONGEST_LINE};
use super::machines::{HELLO_WITHIN, Hello, Welcome};
use super::share::runtime;
use crate::args::{ArgError, enough_files};
use crate::plan::CrowdPlan;
use crate::tally::Tally;

/// A machine that has joined may wait so long for the others.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// `loadtest join`
#[derive(Debug, Clone, Args)]
pub(crate) struct JoinArgs {
    /// Where `loadtest crowd --coordinator` listens; it has the settings
    #[arg(value_name = "ADDR:PORT")]
    coordinator: SocketAddr,
    /// The gateway's own file of this name, for a gateway that wants tokens: no secret comes from
    /// the coordinator
    #[arg(long, value_name = "FILE")]
    jwt_hs256_secret_file: Option<PathBuf>,
    /// A PEM file of the authorities that vouch for a gateway at wss://
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

fn run(args: &JoinArgs) -> anyhow::Result<Tally> {
    runtime()?.block_on(join(args))
}

/// Runs `loadtest join`.
pub(crate) fn join_main(args: &JoinArgs) -> ExitCode {
    match run(args) {
        Ok(tally) => {
            let Tally {
                joined,
                failed,
                lost,
                left,
                sent,
                acked,
                ..
            } = tally;
            println!(
                "joined {joined} failed {failed} lost {lost} left {left} sent {sent} acked {acked}"
            );
            ExitCode::SUCCESS
        }
        Err(error) => ArgError::exit(&error),
    }
}

async fn join(args: &JoinArgs) -> anyhow::Result<Tally> {
    let coordinator = args.coordinator;
    let stream = timeout(HELLO_WITHIN, TcpStream::connect(coordinator)).await;
    let stream = stream
        .map_err(anyhow::Error::from)
        .and_then(|stream| Ok(stream?));
    let stream = stream.with_context(|| format!("the coordinator at {coordinator}"))?;
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let mut read = lines::reader(read, LONGEST_LINE);
    let mut write = lines::writer(write);
    lines::say(&mut write, &Hello::own()).await?;
    let welcome = timeout(HELLO_WITHIN, lines::hear(&mut read))
        .await
        .context("the coordinator does not answer")??;
    match welcome.context("the coordinator hung up")? {
        Welcome::Wait => {}
        Welcome::Refused(why) => bail!("the coordinator refused: {}", lines::legible(&why)),
    }
    let assignment = timeout(PATIENCE, lines::hear(&mut read))
        .await
        .context("the coordinator does not begin")??;
    let assignment = assignment.context("the coordinator ended before it began")?;
    lines::obey(assignment, (read, write), |plan| with_own(plan, args)).await
}

/// The plan with this machine's own files; refused if they are missing, or if the load would leave
/// the machine.
fn with_own(mut plan: CrowdPlan, args: &JoinArgs) -> anyhow::Result<CrowdPlan> {
    let address = plan.target.address;
    ensure!(
        address.ip().is_loopback(),
        "{address} is not a loopback address: load is for this machine only"
    );
    let wants_token = plan.target.entry.wants_token;
    let secret = args.jwt_hs256_secret_file.clone();
    ensure!(
        !wants_token || secret.is_some(),
        "the gateway wants tokens: give --jwt-hs256-secret-file"
    );
    (plan.target.entry.ca, plan.target.entry.secret) =
        (args.ca.clone(), secret.filter(|_| wants_token));
    plan.target.entry.check()?;
    enough_files(&plan)?;
    Ok(plan)
}
