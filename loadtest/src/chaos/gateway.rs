//! One gateway process of a run: started on a port that it keeps, killed, frozen, or asked to end.
//! It is signalled by its own process id only, and ends with the run.

use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const STARTS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(crate) struct GatewayConfig {
    pub(crate) program: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) redis: String,
    pub(crate) flags: Vec<String>,
    pub(crate) log: PathBuf,
}

pub(crate) struct GatewayProcess {
    config: GatewayConfig,
    child: Option<Child>,
    frozen: bool,
}

impl GatewayProcess {
    pub(crate) fn new(config: GatewayConfig) -> Self {
        Self {
            config,
            child: None,
            frozen: false,
        }
    }

    /// Starts it and waits for the line that says that it listens.
    pub(crate) async fn start(&mut self) -> anyhow::Result<()> {
        let GatewayConfig {
            program,
            address,
            redis,
            flags,
            log,
        } = &self.config;
        let log: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .context("a gateway's log")?;
        let mut command = Command::new(program);
        // Nothing of the caller's own settings.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ROLLCALL_")) {
            command.env_remove(name);
        }
        command
            .args([
                "--listen",
                &address.to_string(),
                "--redis",
                redis,
                "--wait-for-store",
                "20s",
            ])
            .args(flags);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let out = child.stdout.take().context("a gateway's standard output")?;
        let mut lines = BufReader::new(out).lines();
        let listens = timeout(STARTS_WITHIN, lines.next_line()).await;
        match listens.context("a gateway does not listen in time")? {
            Ok(Some(line)) if line.starts_with("listening on ") => {}
            other => {
                bail!("a gateway said {other:?} instead of where it listens; its log says why")
            }
        }
        (self.child, self.frozen) = (Some(child), false);
        Ok(())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// kill -9, waited for.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// SIGSTOP.
    pub(crate) fn freeze(&mut self) -> anyhow::Result<()> {
        self.frozen = true;
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub(crate) fn thaw(&mut self) -> anyhow::Result<()> {
        self.frozen = false;
        self.signal(Signal::CONT)
    }

    /// SIGTERM; it is waited for, at most so long.
    pub(crate) async fn drain(&mut self, within: Duration) -> anyhow::Result<()> {
        self.signal(Signal::TERM)?;
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let status = timeout(within, child.wait())
            .await
            .context("a gateway that was asked to end does not")??;
        if status.code() != Some(0) {
            bail!("a gateway that was asked to end answered {status}");
        }
        Ok(())
    }

    /// Whether it ended by itself.
    pub(crate) fn has_died(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(status.to_string())
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self
            .child
            .as_ref()
            .and_then(Child::id)
            .context("the gateway does not run")?;
        let pid = i32::try_from(id)
            .ok()
            .and_then(Pid::from_raw)
            .context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        // A stopped process is killed all the same; the child's own drop does that.
        if self.frozen {
            let _ = self.signal(Signal::CONT);
        }
    }
}
