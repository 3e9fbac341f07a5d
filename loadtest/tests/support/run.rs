//! Runs the program, and reads what it printed.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::gateway;

/// What a run of the program came to.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
    pub(crate) errors: String,
}

impl Ran {
    /// The document on standard output.
    pub(crate) fn report(&self) -> Value {
        let errors = &self.errors;
        serde_json::from_str(&self.said).unwrap_or_else(|error| panic!("{error}: {errors}"))
    }

    /// The document of a run that must have ended well.
    pub(crate) fn passed(&self) -> Value {
        let report = self.report();
        assert_eq!(self.code, Some(0), "{report:#}\n{}", self.errors);
        assert_eq!(report["failures"], serde_json::json!([]), "{report:#}");
        report
    }
}

/// The program with these words as its arguments.
pub(crate) fn command(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    command
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs it to its end.
pub(crate) async fn run(words: &str) -> Ran {
    run_with_files(words, &[]).await
}

/// Runs it to its end, with gateways of the program in the source.
pub(crate) async fn run_gateways(words: &str) -> Ran {
    run_with_files(words, &[("--gateway-bin", &gateway::gateway())]).await
}

/// Runs it to its end, with flags that name files.
pub(crate) async fn run_with_files(words: &str, files: &[(&str, &Path)]) -> Ran {
    let mut command = command(words);
    for (flag, file) in files {
        command.arg(flag).arg(file);
    }
    let output = command.output().await.expect("the program runs");
    Ran {
        code: output.status.code(),
        said: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
