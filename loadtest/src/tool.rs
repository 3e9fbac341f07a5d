//! The flags that the tools share which start gateways of their own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::bench::servers::Programs;
use crate::report::{self, RunReport};

/// What the tools share that start a gateway of their own.
#[derive(Debug, Clone, Args)]
pub(crate) struct ToolArgs {
    /// One JSON document on standard output instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with 1 if anything was not as it was promised
    #[arg(long)]
    pub(crate) check: bool,
    /// The gateway [default: `rollcall` beside this program]
    #[arg(long, value_name = "FILE")]
    gateway_bin: Option<PathBuf>,
}

impl ToolArgs {
    pub(crate) fn programs(&self) -> anyhow::Result<Programs> {
        Programs::find(self.gateway_bin.as_deref())
    }

    /// Runs a tool to its end.
    pub(crate) fn end(&self, run: impl Future<Output = anyhow::Result<RunReport>>) -> ExitCode {
        report::end(run, self.json, self.check)
    }
}
