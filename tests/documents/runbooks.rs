//! The commands that docs/operations.md tells operators to run: the program takes them as they
//! stand there, those that ask gateways bring a key, and those that run in a pod need nothing that
//! the image lacks.

use std::ffi::OsString;

use rollcall::config;

use super::read;

const GUIDE: &str = "docs/operations.md";

/// Another test runs all that this section says.
const RUN_ELSEWHERE: &str = "\n## Two gateways on one machine\n";

/// The commands besides `serve`.
const COMMANDS: &[&str] = &[
    "audit",
    "explain",
    "events",
    "lives",
    "keys",
    "check-config",
];

/// What the document writes for what an operator knows.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("--redis URL", "--redis redis://redis:6379"),
    ("--gateway URL", "--gateway http://10.0.0.1:9090"),
    (
        "$gateways",
        "--gateway http://10.0.0.1:9090 --gateway http://10.0.0.2:9090",
    ),
    ("FILE", "backend.key"),
    ("LIVE", "42"),
    ("USER", "u1"),
    // It is not here; ROLLCALL_REDIS is, as in a pod.
    ("--config /etc/rollcall/rollcall.toml", ""),
];

fn guide() -> String {
    let guide = read(GUIDE);
    let (before, rest) = guide.split_once(RUN_ELSEWHERE).unwrap();
    let after = rest.split_once("\n## ").unwrap().1;
    // A command goes on after a backslash, with one space.
    let text = format!("{before}\n## {after}");
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap().to_owned();
    lines.fold(first, |whole, next| format!("{whole}{}", next.trim_start()))
}

/// What stands in code: the lines of a block, or the words of a sentence's, which may go on in the
/// next line.
fn code(guide: &str) -> Vec<String> {
    let mut found = Vec::new();
    for span in guide.split('`').skip(1).step_by(2) {
        match span
            .strip_prefix("console\n")
            .or_else(|| span.strip_prefix("sh\n"))
        {
            Some(block) => found.extend(
                block
                    .lines()
                    .map(|line| line.trim_start_matches("$ ").to_owned()),
            ),
            None => found.push(span.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }
    found
}

/// The commands of the program, with options; a name alone is no command.
fn commands(guide: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in code(guide) {
        let command = line
            .split_once(" -- rollcall ")
            .map_or(line.as_str(), |(_, rest)| rest);
        let command = command.strip_prefix("rollcall ").unwrap_or(command);
        let command = command.split([';', '<', '>', '|']).next().unwrap().trim();
        let name = command.split(' ').next().unwrap();
        if COMMANDS.contains(&name) && command.contains(" --") {
            found.push(command.to_owned());
        }
    }
    assert!(found.len() > 8, "{found:?}");
    found
}

#[test]
fn the_program_takes_every_command_of_the_guide() {
    for command in commands(&guide()) {
        let mut line = command.clone();
        for (placeholder, value) in PLACEHOLDERS {
            line = line.replace(placeholder, value);
        }
        let words = line
            .split_whitespace()
            .map(|word| OsString::from(word.trim_matches('\'')));
        let args = [OsString::from("rollcall")].into_iter().chain(words);
        let env = [(
            OsString::from("ROLLCALL_REDIS"),
            OsString::from("redis://redis:6379"),
        )];
        if let Err(mistakes) = config::load(args, env) {
            panic!("rollcall {command}: {mistakes}");
        }
    }
}

#[test]
fn a_command_that_asks_gateways_brings_a_key() {
    for command in commands(&guide()) {
        let asks = ["--gateway", "$gateways"]
            .iter()
            .any(|words| command.contains(words));
        assert!(
            !asks || command.contains("--api-key-file "),
            "rollcall {command}: a gateway answers 401"
        );
    }
}

#[test]
fn what_runs_in_a_pod_is_in_the_image() {
    let guide = guide();
    let in_pods: Vec<String> = code(&guide)
        .into_iter()
        .filter(|line| line.starts_with("kubectl exec ") && line.contains(" -- "))
        .collect();
    assert!(in_pods.len() > 2, "{in_pods:?}");
    for line in in_pods {
        assert!(
            line.contains(" -- rollcall "),
            "the image has no other program: {line}"
        );
    }
}
