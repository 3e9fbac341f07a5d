//! Runs the product's own audit, `rollcall audit`, over Redis and every gateway that runs. The
//! command knows nothing of the crowd: an operator would see the same findings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::findings::{Broken, Promise};

/// The command checks each suspect twice; the sets here are small.
const DONE_WITHIN: Duration = Duration::from_secs(30);
/// The command's exit code when it found something.
const FOUND: i32 = 1;

pub(crate) struct AuditCommand {
    pub(crate) program: PathBuf,
    pub(crate) redis: String,
    /// The gateways' settings.
    pub(crate) flags: Vec<String>,
}

#[derive(Deserialize)]
struct AuditReport {
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    kind: String,
    live_id: Option<String>,
    key: Option<String>,
    gateway_id: Option<String>,
    detail: String,
}

impl AuditCommand {
    /// What the command finds; its own failure is a finding, too.
    pub(crate) async fn differences(&self, gateways: &[SocketAddr]) -> Vec<Broken> {
        match self.ask(gateways).await {
            Ok(report) => report.findings.into_iter().map(broken).collect(),
            Err(why) => vec![Broken::new(
                Promise::Drift,
                format!("rollcall audit failed: {why:#}"),
            )],
        }
    }

    async fn ask(&self, gateways: &[SocketAddr]) -> anyhow::Result<AuditReport> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ROLLCALL_")) {
            command.env_remove(name);
        }
        command
            .args(["audit", "--json", "--log", "error", "--redis", &self.redis])
            .args(&self.flags);
        for gateway in gateways {
            command.args(["--gateway", &format!("http://{gateway}")]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let out = timeout(DONE_WITHIN, command.output())
            .await
            .context("it does not end")??;
        if !matches!(out.status.code(), Some(0 | FOUND)) {
            bail!(
                "{}: {}",
                out.status,
                String::from_utf8_lossy(&out.stderr).trim()
            );
        }
        serde_json::from_slice(&out.stdout).context("its report")
    }
}

fn broken(finding: Finding) -> Broken {
    let Finding {
        kind,
        live_id,
        key,
        gateway_id,
        detail,
    } = finding;
    let place = [key, gateway_id]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" of ");
    let broken = Broken::new(
        Promise::Drift,
        format!("rollcall audit finds {kind}, {place}: {detail}"),
    );
    match live_id {
        Some(live) => broken.live(live),
        None => broken,
    }
}
