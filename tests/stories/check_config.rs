//! `rollcall check-config` tells every mistake at once, where it was made, and what is in force,
//! without a secret; it asks nobody unless it is told to.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::certificates::Certificates;
use crate::support::command::{Ran, run_under};
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_sentinels::RedisSentinels;
use crate::support::redis_server::{RedisServer, free_port};
use crate::support::redis_view::Redis;

/// A folder with files of settings and keys.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// Runs this command line with a setting in the environment.
fn run(line: &str) -> Ran {
    run_under(line, &[("ROLLCALL_FLUSH", "100ms")])
}

/// The verdict on these settings, which must end with this code and shows no secret.
fn check(code: i32, settings: &str) -> Value {
    let ran = run(&format!("check-config --json --log off {settings}")).is(code);
    assert!(!ran.out.contains("hunter2"), "{ran:?}");
    ran.json()
}

fn setting<'a>(verdict: &'a Value, name: &str) -> (&'a Value, &'a Value) {
    let all = verdict["settings"].as_array().unwrap();
    let one = all.iter().find(|setting| setting["name"] == name).unwrap();
    (&one["value"], &one["origin"])
}

#[test]
fn what_is_in_force_is_shown_with_its_origin_and_without_secrets() {
    let folder = Folder::new();
    let text = "heartbeat = '4s'\n\n# The Redis.\nredis = 'redis://who:hunter2@127.0.0.1:7001/2'\nflush = '90ms'\n";
    let file = folder.file("rollcall.toml", text);
    let verdict = check(0, &format!("--config {file} --lease 20s"));
    assert_eq!(
        (&verdict["mistakes"], &verdict["unreachable"]),
        (&json!([]), &Value::Null)
    );
    for (name, value, origin) in [
        ("heartbeat", json!("4s"), format!("file {file}, line 1")),
        (
            "redis",
            json!("redis://…@127.0.0.1:7001/2"),
            format!("file {file}, line 4"),
        ),
        ("flush", json!("100ms"), "env ROLLCALL_FLUSH".to_owned()),
        ("lease", json!("20s"), "flag --lease".to_owned()),
        ("timeout", json!("15s"), "default".to_owned()),
        ("tls-cert", Value::Null, "default".to_owned()),
        ("config", json!(file), "flag --config".to_owned()),
    ] {
        assert_eq!(setting(&verdict, name), (&value, &json!(origin)), "{name}");
    }
    let text = run(&format!("check-config --config {file}")).out;
    assert!(
        text.ends_with("nothing is wrong; nobody was asked (--connect asks)\n"),
        "{text}"
    );
    let line = text
        .lines()
        .find(|line| line.starts_with("heartbeat "))
        .unwrap();
    assert_eq!(
        line.split_whitespace().take(2).collect::<Vec<_>>(),
        ["heartbeat", "4s"],
        "{text}"
    );
}

#[test]
fn every_mistake_is_told_at_once_with_its_place_also_those_in_files() {
    let folder = Folder::new();
    let certificates = Certificates::for_host("IP:127.0.0.1");
    let secret = folder.file("secret", "hunter2");
    let keys = folder.file(
        "keys",
        "backend read hunter2\n# fine\nother readd hunter2\n",
    );
    let hook = folder.file("hook", "hunter2\n");
    let file = folder.file(
        "rollcall.toml",
        &format!(
            "auth = 'jwt'\nheartbeat = 5\njwt-hs256-secret-file = '{secret}'\njwt-public-key = '/nowhere/key'\n\
             api-keys = '{keys}'\ntls-cert = '{}'\ntls-key = '{secret}'\nwebhook-url = 'https://example.org/hunter2'\n\
             webhook-secret-file = '{hook}'\nredis = 'rediss://:hunter2@127.0.0.1'\nredis-ca = '{secret}'\n\
             fan-source = 'http'\nfan-url = 'https://example.org'\nfan-secret-file = '/nowhere/fans'\n\
             hertbeat = '5s'\n",
            certificates.chain().display()
        ),
    );
    let settings = format!("--config {file} --lease 1s --lease-refresh 1s --drian 5s");
    let verdict = check(64, &settings);
    let mistakes = verdict["mistakes"].as_array().unwrap().iter();
    let mistakes: Vec<&str> = mistakes.map(|one| one.as_str().unwrap()).collect();
    let all = [
        "--drian (flag): no such flag; did you mean --drain?".to_owned(),
        format!("hertbeat (file {file}, line 15): no such setting; did you mean heartbeat?"),
        format!("heartbeat (file {file}, line 2) is \"5\": has no unit"),
        "lease-refresh (flag --lease-refresh) is \"1s\": lease-refresh must be 200ms or less"
            .to_owned(),
        "jwt-hs256-secret-file: the secret is shorter than".to_owned(),
        "jwt-public-key: the file cannot be read".to_owned(),
        "api-keys: line 1: ".to_owned(),
        "; line 3: ".to_owned(),
        format!("tls-key: {secret} has no private key"),
        "redis: Redis cannot be trusted".to_owned(),
        "webhook-secret-file".to_owned(),
        "fan-secret-file: /nowhere/fans".to_owned(),
    ];
    for words in &all {
        assert!(
            mistakes.iter().any(|mistake| mistake.contains(words)),
            "{words:?} is not in {mistakes:#?}"
        );
    }
    assert_eq!(mistakes.len(), all.len() - 1, "{mistakes:#?}");
    assert_eq!(setting(&verdict, "heartbeat").0, "(wrong)");
    // `serve` refuses the same settings; it tells of the files one after the other.
    let said = run(&format!("serve {settings}")).is(64).err;
    assert!(
        said.contains(&all[1]) && !said.contains("hunter2"),
        "{said}"
    );
    let text = run(&format!("check-config {settings}")).is(64).out;
    assert!(
        text.ends_with(
            "
11 things wrong
"
        ),
        "{text}"
    );
}

/// What `serve` would not start with is a mistake in the settings, as `check-config` says.
#[test]
fn a_file_that_cannot_be_used_ends_each_command_with_64() {
    let folder = Folder::new();
    let text = folder.file("text", "no certificate");
    let ca = format!(
        "--redis rediss://127.0.0.1:{} --redis-ca {text}",
        free_port()
    );
    let fans =
        "--fan-source http --fan-url https://example.org --fan-secret-file /nowhere".to_owned();
    for settings in [&fans, &ca] {
        for command in ["serve", "check-config"] {
            run(&format!("{command} {settings} --listen 127.0.0.1:0")).is(64);
        }
    }
    run(&format!("keys * {ca}")).is(64);
}

#[tokio::test]
async fn redis_is_asked_only_where_that_is_wanted() {
    let (folder, redis) = (Folder::new(), Redis::start().await);
    let nobody = format!("--redis redis://:hunter2@127.0.0.1:{}", free_port());
    assert_eq!(check(0, &nobody)["unreachable"], Value::Null);
    let begins = |list: &Value, words: &str| {
        let first = list[0].as_str().unwrap();
        assert!(first.starts_with(words), "{list:#}");
    };
    let away = check(69, &format!("{nobody} --connect"));
    begins(&away["unreachable"], "redis: Redis cannot be reached");
    let asked = check(0, &format!("--redis {} --connect", redis.url()));
    assert_eq!(
        (&asked["presence_secret"], &asked["unreachable"]),
        (&json!("one that the gateways share in Redis"), &json!([]))
    );
    let keys = redis.ask(&["DBSIZE"]).await;
    assert_eq!(keys, 0, "nothing is left of what was tried out");
    let secret = folder.file("secret", &"s".repeat(32));
    let keys = format!("http://127.0.0.1:{}/hunter2", free_port());
    let away = check(
        69,
        &format!("--auth jwt --jwt-hs256-secret-file {secret} --jwt-jwks {keys} --connect"),
    );
    begins(&away["unreachable"], "jwt-jwks: ");
    let warning = away["warnings"][0].as_str().unwrap();
    assert!(warning.contains("jwt-jwks is a URL of http"), "{away:#}");
}

/// The verdict on this Redis, which is asked.
fn connects(code: i32, redis: &str) -> Value {
    check(code, &format!("--redis {redis} --connect"))
}

/// A check and a start must end with this code, and each must say all these words.
fn refuses(redis: &str, code: i32, words: &[&str]) {
    let verdict = connects(code, redis);
    let list = if code == 64 {
        &verdict["mistakes"]
    } else {
        &verdict["unreachable"]
    };
    let said = run(&format!("--listen 127.0.0.1:0 --redis {redis}"))
        .is(code)
        .err;
    for word in words {
        assert!(
            list.to_string().contains(word),
            "{word:?} is not in {verdict:#}"
        );
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
}

#[tokio::test]
async fn a_redis_under_other_names_is_refused_with_the_names_and_its_own_words() {
    let in_scripts = [
        "TIME",
        "UNLINK",
        "XADD",
        "PFADD",
        "DUMP",
        "SMISMEMBER",
        "ZADD",
        "HSET",
        "SPUBLISH",
    ];
    let renaming = async |commands: &[&str]| {
        let renamed = |command: &&str| format!("--rename-command {command} MY{command}");
        let options: Vec<String> = commands.iter().map(renamed).collect();
        let options = options.join(" ");
        RedisServer::start_with(&options.split(' ').collect::<Vec<_>>()).await
    };
    let server = renaming(&in_scripts).await;
    let words: Vec<String> = in_scripts
        .iter()
        .map(|command| format!("{command}: ERR Unknown Redis command called from script"))
        .collect();
    refuses(
        &server.url(),
        69,
        &words.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    for command in ["EVAL", "EVALSHA", "SSUBSCRIBE"] {
        let server = renaming(&[command]).await;
        refuses(&server.url(), 69, &[command, "ERR unknown command"]);
        let left = server.cli(&["KEYS", "*"]);
        assert!(left.lines().all(|key| key == "rollcall:canary"), "{left}");
    }
}

#[tokio::test]
async fn what_a_user_may_not_do_is_named() {
    let server = RedisServer::start().await;
    let rule = |more: &[&str]| {
        let rule = [
            "ACL", "SETUSER", "rollcall", "reset", "on", ">secret", "~*", "&*", "+@all",
        ];
        assert_eq!(server.cli(&[&rule[..], more].concat()), "OK");
    };
    let url = format!("redis://rollcall:secret@{}", server.addr());
    let check = |code| connects(code, &url);
    rule(&[]);
    assert_eq!(check(0)["unreachable"], json!([]));
    rule(&["-xautoclaim", "-getbit"]);
    refuses(
        &url,
        69,
        &["XAUTOCLAIM: ", "GETBIT: ", "can't run this command"],
    );
    rule(&["-ssubscribe"]);
    refuses(&url, 69, &["SSUBSCRIBE: NOPERM"]);
    rule(&["resetchannels", "&other:*"]);
    refuses(&url, 69, &["NOPERM", "channel"]);
    rule(&["resetkeys", "~rollcall:*", "~live:*", "~lives"]);
    refuses(
        &url,
        69,
        &[
            "the key followers:0: NOPERM",
            "the key online-fans:0: NOPERM",
        ],
    );
}

#[tokio::test]
async fn a_replica_is_refused_and_a_full_master_is_told() {
    let redis = Redis::start().await;
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let full = connects(69, &redis.url());
    assert!(
        full["unreachable"]
            .to_string()
            .contains("refuses calls now: OOM command not allowed"),
        "{full:#}"
    );
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]).await;
    refuses(&redis.url(), 69, &["is a read-only replica"]);
}

#[tokio::test]
async fn a_policy_that_drops_keys_is_a_warning() {
    let redis = Redis::start().await;
    redis.say("CONFIG SET maxmemory-policy allkeys-lru").await;
    let verdict = connects(0, &redis.url());
    assert!(
        verdict["warnings"]
            .to_string()
            .contains("maxmemory-policy allkeys-lru"),
        "{verdict:#}"
    );
    redis.say("CONFIG SET maxmemory-policy noeviction").await;
    let verdict = connects(0, &redis.url());
    assert!(
        !verdict["warnings"].to_string().contains("maxmemory-policy"),
        "{verdict:#}"
    );
}

#[tokio::test]
async fn the_scheme_of_the_url_must_fit_the_servers() {
    let single = RedisServer::start().await;
    refuses(
        &format!("redis-cluster://{}", single.addr()),
        64,
        &["this is a single server: use redis://"],
    );
    refuses(
        &format!("redis-sentinel://{}", single.addr()),
        64,
        &["this is a single server: use redis://"],
    );
    let cluster = RedisCluster::start(3, 0).await;
    let node = cluster.nodes[2].addr();
    for database in ["", "/1"] {
        let url = format!("redis://rollcall:secret@{node}{database}");
        refuses(&url, 64, &["this is a cluster: use redis-cluster://"]);
    }
    let sentinels = RedisSentinels::start().await;
    let sentinel = sentinels.url();
    let host = sentinel
        .rsplit(['@', '/'])
        .find(|part| part.contains(':'))
        .unwrap()
        .split(',')
        .next()
        .unwrap();
    refuses(
        &format!("redis://{host}"),
        64,
        &["this is a sentinel: use redis-sentinel://"],
    );
}

#[tokio::test]
async fn every_master_of_a_cluster_is_tried_out() {
    let cluster = RedisCluster::start(3, 0).await;
    let check = |code| connects(code, &cluster.url());
    assert_eq!(check(0)["unreachable"], json!([]));
    for node in &cluster.nodes {
        assert_eq!(node.cli(&["KEYS", "*trial*"]), "");
    }
    cluster.nodes[2].cli(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let host = cluster.nodes[2].addr().to_string();
    let verdict = check(0);
    assert!(
        verdict["warnings"]
            .to_string()
            .contains(&format!("Redis at {host} has the maxmemory-policy")),
        "{verdict:#}"
    );
    cluster.nodes[2].cli(&[
        "ACL",
        "SETUSER",
        "rollcall",
        "-zadd",
        "-spublish",
        "-asking",
    ]);
    let refused = format!("Redis at {host} refuses what a gateway needs");
    refuses(
        &cluster.url(),
        69,
        &[&refused, "ZADD: ", "SPUBLISH: ", "ASKING: "],
    );
}

#[test]
fn a_secret_that_every_user_may_read_is_warned_of_by_the_check_and_at_the_start() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    let secret = folder.file("secret", &"s".repeat(32));
    let file = folder.file("rollcall.toml", "redis = 'redis://:hunter2@127.0.0.1:1'\n");
    let settings = format!("--auth jwt --jwt-hs256-secret-file {secret} --config {file}");
    let warnings = |mode| {
        for name in [&secret, &file] {
            set_permissions(name, Permissions::from_mode(mode)).unwrap();
        }
        check(0, &settings)["warnings"].as_array().unwrap().clone()
    };
    assert_eq!(warnings(0o640), Vec::<Value>::new());
    let told = warnings(0o644);
    assert_eq!(told.len(), 2, "{told:?}");
    for (setting, path) in [("jwt-hs256-secret-file: ", &secret), ("config: ", &file)] {
        let about = |told: &&Value| {
            told.as_str().unwrap().starts_with(setting) && told.to_string().contains(path.as_str())
        };
        assert!(told.iter().any(|told| about(&told)), "{setting} {told:?}");
    }
    // There is no Redis.
    let said = run(&format!("serve {settings} --listen 127.0.0.1:0"))
        .is(69)
        .err;
    assert!(
        said.contains("WARN") && said.contains(&secret) && !said.contains("hunter2"),
        "{said}"
    );
}

#[test]
fn the_example_in_the_repository_has_no_mistake_but_its_files() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy/rollcall.toml")
        .display()
        .to_string();
    let verdict = check(64, &format!("--config {example}"));
    let mistakes = verdict["mistakes"].as_array().unwrap();
    assert!(
        !mistakes.is_empty()
            && mistakes
                .iter()
                .all(|one| one.to_string().contains("cannot be read")),
        "{mistakes:?}"
    );
}
