//! Owns the program as a command that is run to its end. Its command line is a text, as one types it;
//! the words are divided by single blanks.

use std::process::{Command, Stdio};

use serde_json::Value;

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    /// The exit code.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Ran {
    /// Ended with this exit code.
    pub fn is(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// All that it said.
    pub fn said(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// The document that it printed.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

/// Runs this command line, as in `audit --redis redis://127.0.0.1`.
pub fn run(line: &str) -> Ran {
    run_under(line, &[])
}

/// The same with more in the environment.
pub fn run_under(line: &str, env: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollcall"));
    command.args(line.split(' ').filter(|_| !line.is_empty()));
    let run = command.envs(env.iter().copied()).stdin(Stdio::null());
    let ended = run.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran {
        code: ended.status.code(),
        out: text(ended.stdout),
        err: text(ended.stderr),
    }
}

/// Runs this command line while the story goes on.
pub async fn rollcall(line: &str) -> Ran {
    let line = line.to_owned();
    tokio::task::spawn_blocking(move || run(&line))
        .await
        .unwrap()
}
