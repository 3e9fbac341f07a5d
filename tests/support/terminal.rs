//! Owns a terminal: a person runs the program there and reads.

use std::process::Command;

use serde_json::Value;

const PYTHON: &str = "/usr/bin/python3";

/// Runs the program at a terminal, does these steps of `terminal.py` there, and answers its exit
/// `code` and what was `shown`.
pub async fn at_a_terminal(args: &[&str], env: &[(&str, &str)], steps: Value) -> Value {
    let mut command = Command::new(PYTHON);
    command
        .args([
            "tests/support/terminal.py",
            &steps.to_string(),
            env!("CARGO_BIN_EXE_rollcall"),
        ])
        .args(args);
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color");
    command.envs(env.iter().copied());
    let out = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).unwrap()
}
