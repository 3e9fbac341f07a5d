//! Counts the instructions of a heartbeat, a join and an idle socket, and the heap bytes of a
//! socket.
//!
//! The gateway runs under valgrind, where other work on the machine does not show: a figure that
//! changes has a cause in the code. Instructions are those of all threads outside the kernel, less
//! those of the idle process in the same time. Bytes are what the program asked the allocator for;
//! valgrind sees only the heap of the system's allocator.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::json;
use tokio::process::Command;

use super::figures::{RunFigures, Who};
use super::generator::Generator;
use super::generator::order::{Crowd, Enter, Order};
use super::servers::{BenchGateway, Programs, Redis, Server};
use crate::report::RunReport;

const LIVES: usize = 10;
const BEAT_S: f64 = 1.0;
/// A program under valgrind takes about fifty times as long.
const PER_SECOND: f64 = 100.0;
/// Fan checks, flushes and counts that follow a join or a leave are done within this time.
const SETTLED: Duration = Duration::from_secs(3);

/// `loadtest profile`
#[derive(Debug, Clone, Args)]
pub(crate) struct ProfileArgs {
    /// Weigh the heap instead of counting instructions
    #[arg(long)]
    heap: bool,
    /// Sockets
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u16).range(20..=2_000), value_name = "N")]
    sockets: u16,
    /// How long each phase is counted, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=60), value_name = "S")]
    seconds: u8,
    /// Where valgrind's own files stay, for callgrind_annotate and ms_print [default: they are
    /// removed]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The gateway [default: `rollcall` beside this program]
    #[arg(long, value_name = "FILE")]
    gateway_bin: Option<PathBuf>,
}

/// Runs `loadtest profile`.
pub(crate) fn main(args: &ProfileArgs) -> ExitCode {
    crate::report::end(run(args), false, false)
}

async fn run(args: &ProfileArgs) -> anyhow::Result<RunReport> {
    let programs = Programs::find(args.gateway_bin.as_deref())?;
    let scratch = tempfile::tempdir()?;
    let dir = args.keep.as_deref().unwrap_or(scratch.path());
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    // Without this check, both servers would seem to use no heap.
    ensure!(
        !(args.heap && cfg!(feature = "jemalloc")),
        "valgrind does not see the heap of jemalloc: build both programs with --no-default-features"
    );
    let mut figures = RunFigures::default();
    for who in [Who::Rollcall, Who::Bare] {
        if args.heap {
            let bytes = weigh(&programs, who, dir, args.sockets.into()).await?;
            ensure!(
                who != Who::Rollcall || bytes > 0.0,
                "no heap was seen: was the gateway built with --no-default-features, too?"
            );
            let measure = "per socket (rollcall: joined)";
            figures.note("bytes on the heap", who, measure, bytes);
        } else {
            count(&programs, who, dir, args, &mut figures).await?;
        }
    }
    RunReport::of(&json!({ "counted": figures }))
}

/// A server under one of valgrind's tools, and its Redis.
struct ProfiledServer {
    server: Server,
    /// A field, so that Redis ends after the gateway.
    _redis: Redis,
}

impl ProfiledServer {
    async fn start(
        programs: &Programs,
        who: Who,
        sockets: usize,
        tool: &[String],
    ) -> anyhow::Result<Self> {
        let redis = Redis::start().await?;
        redis.follow(sockets, LIVES).await?;
        let url = redis.url();
        let tool = tool.iter().map(String::as_str);
        let (program, own) = match who {
            Who::Rollcall => (
                &programs.gateway,
                [&BenchGateway::args(&url)[..], &["--track-online", "off"]].concat(),
            ),
            other => (&programs.this, vec![other.as_str()]),
        };
        let program = program
            .to_str()
            .context("the path of the program is not UTF-8")?;
        let args: Vec<&str> = tool.chain([program]).chain(own).collect();
        let server = Server::start(Path::new("valgrind"), &args)
            .await
            .context("valgrind: is it installed?")?;
        if who != Who::Rollcall {
            return Ok(Self {
                server,
                _redis: redis,
            });
        }
        let gateway = BenchGateway::of(server)?;
        gateway.open(LIVES, None).await?;
        Ok(Self {
            server: gateway.server,
            _redis: redis,
        })
    }

    fn crowd(&self, count: usize, enter: Enter) -> Order {
        Order::Connect(Crowd {
            lives: LIVES,
            per_second: Some(PER_SECOND),
            in_flight: 1,
            ..Crowd::new(self.server.addr, count, enter)
        })
    }

    /// Instructions since the last call.
    async fn instructions(&self, files: &Path) -> anyhow::Result<f64> {
        let pid = self.server.pid.to_string();
        ask("callgrind_control", &["--dump", &pid]).await?;
        number_in(&newest_part(files)?, "summary: ")
    }

    /// Bytes on the heap now; the file says which code asked for them.
    async fn heap(&self, file: &Path) -> anyhow::Result<f64> {
        let pid = format!("--pid={}", self.server.pid);
        let file = std::path::absolute(file)?;
        let file = file.to_str().context("a path that is not UTF-8")?;
        ask("vgdb", &[&pid, "detailed_snapshot", file]).await?;
        number_in(
            &std::fs::read_to_string(file).context("the snapshot")?,
            "mem_heap_B=",
        )
    }
}

/// Runs one of the tools that come with valgrind.
async fn ask(tool: &str, args: &[&str]) -> anyhow::Result<()> {
    let asked = Command::new(tool).args(args).output().await;
    let asked = asked.with_context(|| format!("{tool}: is valgrind installed?"))?;
    ensure!(
        asked.status.success(),
        "{tool}: {}",
        String::from_utf8_lossy(&asked.stderr)
    );
    Ok(())
}

async fn count(
    programs: &Programs,
    who: Who,
    dir: &Path,
    args: &ProfileArgs,
    figures: &mut RunFigures,
) -> anyhow::Result<()> {
    let sockets = usize::from(args.sockets);
    let seconds = f64::from(args.seconds);
    let files = dir.join(format!("callgrind.{}", who.as_str()));
    let tool = [
        "-q".to_owned(),
        "--tool=callgrind".to_owned(),
        format!("--callgrind-out-file={}", files.display()),
    ];
    let profiled = ProfiledServer::start(programs, who, sockets, &tool).await?;
    let mut generator = Generator::start()?;
    let span = Duration::from_secs_f64(seconds);
    tokio::time::sleep(SETTLED).await;
    profiled.instructions(&files).await?;

    tokio::time::sleep(span).await;
    let nobody = profiled.instructions(&files).await? / seconds;
    let mut note = |measure, value| figures.note("instructions", who, measure, value);
    let each =
        |instructions: f64, seconds: f64, things: f64| (instructions - nobody * seconds) / things;
    note("a second, with nobody there", nobody);

    let enter = profiled.crowd(sockets, Enter::Upgraded);
    let entered = generator.carry_out(&enter).await?.seconds;
    let spent = profiled.instructions(&files).await?;
    note(
        "per connection, handshake and welcome",
        each(spent, entered, sockets as f64),
    );

    if who == Who::Rollcall {
        let join = Order::Join {
            per_second: PER_SECOND,
        };
        let joined = generator.carry_out(&join).await?.seconds;
        tokio::time::sleep(SETTLED).await;
        let spent = profiled.instructions(&files).await?;
        note(
            "per join, fan check and flush included",
            each(spent, joined + SETTLED.as_secs_f64(), sockets as f64),
        );
    }

    let rested = generator.carry_out(&Order::Rest { seconds }).await?.seconds;
    let spent = profiled.instructions(&files).await?;
    note(
        "a second per idle socket",
        each(spent, rested, sockets as f64) / rested,
    );

    // A round without counting comes first, because the server pings sockets that have rested.
    generator.carry_out(&Order::pace(BEAT_S, BEAT_S)).await?;
    profiled.instructions(&files).await?;
    let beats = generator.carry_out(&Order::pace(BEAT_S, seconds)).await?;
    let spent = profiled.instructions(&files).await?;
    note(
        "per heartbeat and its answer",
        each(spent, beats.seconds, beats.answered as f64),
    );
    profiled.server.end().await;
    Ok(())
}

/// Bytes on the heap per socket.
async fn weigh(programs: &Programs, who: Who, dir: &Path, sockets: usize) -> anyhow::Result<f64> {
    let file = |when: &str| dir.join(format!("massif.{}.{when}", who.as_str()));
    let tool = [
        "-q".to_owned(),
        "--tool=massif".to_owned(),
        format!("--massif-out-file={}", file("end").display()),
    ];
    let profiled = ProfiledServer::start(programs, who, sockets, &tool).await?;
    let mut generator = Generator::start()?;
    tokio::time::sleep(SETTLED).await;
    let before = profiled.heap(&file("before")).await?;
    generator
        .carry_out(&profiled.crowd(sockets, Enter::of(who)))
        .await?;
    tokio::time::sleep(SETTLED).await;
    let after = profiled.heap(&file("after")).await?;
    profiled.server.end().await;
    Ok((after - before) / sockets as f64)
}

/// Callgrind numbers its files in the order in which it writes them.
fn newest_part(files: &Path) -> anyhow::Result<String> {
    let newest = (1_u32..)
        .map(|number| PathBuf::from(format!("{}.{number}", files.display())))
        .take_while(|part| part.is_file())
        .last()
        .context("callgrind wrote no part")?;
    std::fs::read_to_string(&newest).with_context(|| newest.display().to_string())
}

/// The number in the line that begins so.
fn number_in(text: &str, label: &str) -> anyhow::Result<f64> {
    let number = text.lines().find_map(|line| line.strip_prefix(label));
    let number = number.with_context(|| format!("no {label:?} in a file of valgrind"))?;
    Ok(number.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_valgrind_wrote_is_read() {
        let part = "# callgrind format\nevents: Ir\nsummary: 20334505\n\nfn=(1) main\n";
        assert_eq!(number_in(part, "summary: ").unwrap(), 20_334_505.0);
        assert!(number_in("events: Ir\n", "summary: ").is_err());
    }

    #[test]
    fn the_newest_part_is_the_one_with_the_highest_number() {
        let dir = tempfile::tempdir().unwrap();
        let files = dir.path().join("out");
        assert!(newest_part(&files).is_err());
        for number in 1..=10 {
            std::fs::write(
                dir.path().join(format!("out.{number}")),
                format!("summary: {number}\n"),
            )
            .unwrap();
        }
        assert_eq!(
            number_in(&newest_part(&files).unwrap(), "summary: ").unwrap(),
            10.0
        );
    }
}
