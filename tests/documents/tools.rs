//! Programs of others that check what Rollcall ships. `./tests/run` installs them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::root;

/// Programs of Python packages: `./tests/run` keeps them here.
pub(super) fn of_python(name: &str) -> Command {
    let program = root().join("target/checkers/bin").join(name);
    assert!(
        program.exists(),
        "{} is missing: ./tests/run installs it",
        program.display()
    );
    Command::new(program)
}

/// Runs a program in the root of the project, with this as its input; it must succeed. Returns all
/// that it said.
pub(super) fn succeeds(command: &mut Command, input: &str) -> String {
    let output = run(command, input);
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The same; returns its output alone, without its remarks.
pub(super) fn prints(command: &mut Command, input: &str) -> String {
    String::from_utf8(run(command, input).stdout).unwrap()
}

fn run(command: &mut Command, input: &str) -> Output {
    command
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|why| panic!("{command:?}: {why}: ./tests/run installs it"));
    // A program that ends early does not read all of it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        said.concat()
    );
    output
}
