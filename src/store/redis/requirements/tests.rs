//! What a server says of itself, and that the trial leaves out no command.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

/// Commands that lead to subcommands, which rules allow one by one.
const CONTAINERS: [&str; 2] = ["XGROUP", "XINFO"];

/// What the program calls outside scripts and a trial does by itself, or only audits, or only to
/// find masters.
const NOT_IN_SCRIPTS: &[&str] = &[
    "ASKING",
    "CLUSTER",
    "EVAL",
    "EVALSHA",
    "INFO",
    "MEMORY",
    "SCAN",
    "SENTINEL",
    "SSUBSCRIBE",
    "SUNSUBSCRIBE",
    "TTL",
    "TYPE",
    "ZSCAN",
];

/// The words in quotes that follow: one, or two of a container.
fn command_at(text: &str, quote: char) -> Option<String> {
    let (command, rest) = text.split_once(quote)?;
    if command.is_empty() || !command.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    if !CONTAINERS.contains(&command) {
        return Some(command.to_owned());
    }
    let subcommand = rest.split(quote).nth(1).unwrap_or_default();
    Some(format!("{command} {subcommand}"))
}

/// The commands that a text calls behind one of these beginnings.
fn commands(text: &str, beginnings: &[&str], quote: char) -> BTreeSet<String> {
    let calls = beginnings
        .iter()
        .flat_map(|beginning| text.split(beginning).skip(1));
    calls.filter_map(|call| command_at(call, quote)).collect()
}

/// The names and texts of the files with this ending below a folder.
fn files_below(folder: &Path, ending: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path, ending));
        } else if path.extension().is_some_and(|found| found == ending) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    files
}

fn folder(name: &str, ending: &str) -> Vec<(String, String)> {
    files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(name), ending)
}

fn tried() -> BTreeSet<String> {
    commands(scripts::TRY_COMMANDS.text(), &["try('"], '\'')
}

#[test]
fn a_trial_calls_every_command_that_any_script_calls() {
    let mut called = BTreeSet::new();
    for (name, text) in folder("src/store/redis/scripts", "lua") {
        called.extend(commands(&text, &["redis.call('", "redis.pcall('"], '\''));
        let all = text.matches("redis.call(").count() + text.matches("redis.pcall(").count();
        let named = text.matches("redis.call('").count() + text.matches("redis.pcall('").count();
        assert!(
            all == named || name == "try_commands.lua",
            "{name} calls a command that it does not name"
        );
    }
    assert!(called.len() > 40, "{called:?}");
    let left_out: Vec<_> = called.difference(&tried()).cloned().collect();
    assert_eq!(left_out, Vec::<String>::new());
}

#[test]
fn a_trial_calls_every_command_that_the_program_calls_by_itself() {
    let mut called = BTreeSet::new();
    for (name, text) in folder("src/store/redis", "rs") {
        if name == "tests.rs" {
            continue;
        }
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for call in text.split("(\"").skip(1) {
            let Some(command) = command_at(call, '"') else {
                continue;
            };
            let is_command = command.len() > 2 && call[command.len()..].starts_with("\", ");
            if is_command && !NOT_IN_SCRIPTS.contains(&command.as_str()) {
                called.insert(command);
            }
        }
    }
    assert!(called.len() > 20, "{called:?}");
    let left_out: Vec<_> = called.difference(&tried()).cloned().collect();
    assert_eq!(left_out, Vec::<String>::new());
}

#[test]
fn what_servers_say_of_themselves_is_read() {
    let redis = "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n# Memory\r\n\
                 maxmemory_policy:allkeys-lru\r\n# Replication\r\nrole:master\r\n";
    let info = ServerInfo::read(redis);
    assert_eq!(
        (info.numbers(), info.mode),
        (Some((6, 2)), Some(ServerMode::Single))
    );
    assert_eq!(
        (info.role.as_deref(), info.policy.as_deref()),
        (Some("master"), Some("allkeys-lru"))
    );
    let valkey = "redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.0\nserver_mode:cluster\nrole:slave\n";
    let info = ServerInfo::read(valkey);
    assert_eq!(
        (info.numbers(), info.mode),
        (Some((7, 2)), Some(ServerMode::Cluster))
    );
    assert_eq!((info.role.as_deref(), info.policy), (Some("slave"), None));
    assert_eq!(ServerInfo::read("redis_version:new\n").numbers(), None);
    assert_eq!(
        ServerInfo::read("redis_mode:sentinel").mode,
        Some(ServerMode::Sentinel)
    );
}

#[test]
fn a_server_of_another_kind_is_told_with_the_scheme_that_fits() {
    let host = Host::new("10.0.0.1", 6379);
    let told = |url: &str, is: ServerMode| {
        let address = Address::parse(url).unwrap();
        let expected = ServerMode::of_hosts(&address.layout);
        wrong_scheme(&host, &address, expected, Some(is)).map(|why| why.to_string())
    };
    let at = |said: &str| Some(format!("Redis at 10.0.0.1:6379: {said}"));
    assert_eq!(told("redis://a", ServerMode::Single), None);
    assert_eq!(
        told("redis://a", ServerMode::Cluster),
        at("this is a cluster: use redis-cluster://")
    );
    assert_eq!(
        told("redis://a", ServerMode::Sentinel),
        at("this is a sentinel: use redis-sentinel://")
    );
    assert_eq!(
        told("rediss-cluster://a", ServerMode::Single),
        at("this is a single server: use rediss://")
    );
    assert_eq!(
        told("redis-sentinel://a", ServerMode::Single),
        at("this is a single server: use redis://")
    );
    assert_eq!(told("redis-sentinel://a", ServerMode::Sentinel), None);
}
