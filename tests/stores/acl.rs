//! The ACL rules that docs/redis.md gives to operators: gateways and audits under them can do
//! everything, and need all of them.

use rollcall::features::WholeStore;
use std::collections::BTreeSet;
use std::sync::Arc;

use rollcall::base::ids::{GatewayId, PostId};
use rollcall::base::secret::Secret;
use rollcall::config::{Config, SeenIds};
use rollcall::features::feeds::store::fanout_jobs::FanoutJob;
use rollcall::features::feeds::store::fanout_jobs::FanoutTask;
use rollcall::features::feeds::store::statuses::StatusId;
use rollcall::features::feeds::store::statuses::TimelineEntry;
use rollcall::store::Follows;
use rollcall::store::StoreError;
use serde_json::{Value, json};

use crate::command::rollcall;
use crate::conformance::{connect, connect_as, user};
use crate::program::Program;
use crate::redis_cluster::{RedisCluster, acl_rules};
use crate::redis_server::RedisServer;
use crate::{conformance, online};

/// Calls that the library, a server or these tests make by themselves: no part of the rule.
const BY_ITSELF: &[&str] = &[
    "acl|log",
    "acl|setuser",
    "auth",
    "client|id",
    "cluster|countkeysinslot",
    "cluster|keyslot",
    "config|resetstat",
    "flushall",
    "hello",
    "info",
    "keys",
    "ping",
    "pubsub|shardnumsub",
    "quit",
    "select",
];

/// A cluster on which cases run one after the other, for it takes seconds to form.
pub struct Cluster {
    pub nodes: Arc<RedisCluster>,
    prefix: &'static str,
    /// Patterns of keys in the rule that no key has had yet.
    idle: BTreeSet<String>,
}

impl Cluster {
    /// With a prefix, gateways may touch only keys and channels that begin so.
    async fn start(prefix: &'static str) -> Self {
        let cluster = RedisCluster::start(3, 0).await;
        cluster.allow_prefix(prefix);
        for node in &cluster.nodes {
            node.cli(&["CONFIG", "RESETSTAT"]);
        }
        Self {
            nodes: Arc::new(cluster),
            prefix,
            idle: with_mark('~', &acl_rules()[0]),
        }
    }

    /// Ends the last case, and begins the next with nothing in the cluster.
    pub async fn begins(&mut self, case: &str) -> Arc<dyn WholeStore> {
        self.end_case();
        eprintln!("on a cluster, prefix {:?}: {case}", self.prefix);
        self.nodes.flush();
        Arc::new(connect_as(&self.nodes.url(), self.prefix).await)
    }

    fn end_case(&mut self) {
        for node in &self.nodes.nodes {
            assert_eq!(refused(node), "");
            self.idle
                .retain(|pattern| node.cli(&["KEYS", pattern]).is_empty());
        }
    }

    fn used_commands(&self) -> BTreeSet<String> {
        self.nodes.nodes.iter().flat_map(used_commands).collect()
    }
}

/// The words of a rule with this mark, without it.
fn with_mark(mark: char, rule: &[String]) -> BTreeSet<String> {
    rule.iter()
        .filter_map(|word| word.strip_prefix(mark))
        .filter(|word| !BY_ITSELF.contains(word))
        .map(str::to_owned)
        .collect()
}

fn used_commands(server: &RedisServer) -> BTreeSet<String> {
    server
        .cli(&["INFO", "commandstats"])
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next())
        .filter(|command| !BY_ITSELF.contains(command))
        .map(str::to_owned)
        .collect()
}

/// What the server did not allow.
fn refused(server: &RedisServer) -> String {
    server.cli(&["ACL", "LOG"])
}

fn set(server: &RedisServer, rule: &[String]) {
    let words: Vec<&str> = rule.iter().map(String::as_str).collect();
    assert_eq!(server.cli(&words), "OK", "{rule:?}");
}

#[tokio::test]
async fn the_rule_allows_what_gateways_do_and_nothing_else() {
    let mut cluster = Cluster::start("").await;
    conformance::on_cluster(&mut cluster).await;
    online::on_cluster(&mut cluster).await;
    online::friends::on_cluster(&mut cluster).await;
    online::whereabouts::on_cluster(&mut cluster).await;
    leave_passing_keys(&mut cluster).await;
    cluster.end_case();

    let [of_gateways, of_a_cluster, _] = &acl_rules()[..] else {
        panic!("docs/redis.md has a rule for gateways, one for a cluster and one for audits")
    };
    let mut granted = with_mark('+', of_gateways);
    let used = cluster.used_commands();
    let idle: Vec<_> = granted.difference(&used).collect();
    assert!(idle.is_empty(), "granted and never used: {idle:?}");
    assert_eq!(cluster.idle, BTreeSet::from(["rollcall:changes:*".into()]));
    granted.extend(with_mark('+', of_a_cluster));
    let lacking: Vec<_> = used.difference(&granted).collect();
    assert!(lacking.is_empty(), "used and not granted: {lacking:?}");
}

/// Leaves keys that are gone at the end of every case.
async fn leave_passing_keys(cluster: &mut Cluster) {
    let store = cluster.begins("passing keys").await;
    store.fix_seen_ids(SeenIds::Text).await.unwrap();
    let entry = TimelineEntry {
        at: 7,
        id: StatusId::of_post(user(1), PostId::parse("p").unwrap()),
    };
    let task = FanoutTask::Add;
    store
        .enqueue_fanout(&FanoutJob { task, entry })
        .await
        .unwrap();
    let worker = GatewayId::random();
    store.take_fanouts(&worker, 1).await.unwrap();
}

/// Such a key lasts no longer than a call.
#[tokio::test]
async fn a_change_of_several_keys_needs_the_key_in_which_it_is_noted() {
    let redis = RedisServer::start().await;
    let mut rule = acl_rules().swap_remove(0);
    rule.retain(|word| word != "~rollcall:changes:*");
    set(&redis, &rule);
    let store = connect(&format!("redis://rollcall:secret@{}", redis.addr())).await;
    let refused = store.follow(&user(1), &user(2)).await;
    assert!(
        matches!(refused, Err(StoreError::Refused(_))),
        "{refused:?}"
    );
}

/// The document says that with a prefix the rule needs two patterns in place of all others.
#[tokio::test]
async fn with_a_prefix_the_rule_needs_one_pattern_of_keys_and_one_of_channels() {
    let document = include_str!("../../docs/redis.md");
    assert!(document.contains("write `~app1:* &app1:*` in place of every other"));
    let mut cluster = Cluster::start("app1:").await;
    conformance::on_cluster(&mut cluster).await;
    cluster.end_case();
}

/// Also those that a script runs so seldom that no case does.
#[test]
fn the_rule_has_every_command_that_a_script_names() {
    let rules = acl_rules();
    let granted: BTreeSet<String> = rules.iter().flat_map(|rule| with_mark('+', rule)).collect();
    let mut named = 0;
    let folders = ["src/store/redis/scripts", "src/store/redis/scripts/prelude"];
    let entries = folders.map(|folder| std::fs::read_dir(folder).unwrap());
    for entry in entries.into_iter().flatten() {
        let file = entry.unwrap().path();
        if file.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for rest in text.split("call('").skip(1) {
            let command = rest.split('\'').next().unwrap().to_lowercase();
            named += 1;
            // The subcommands of some are granted one by one.
            let is_granted = granted
                .iter()
                .any(|word| word.split('|').next() == Some(&*command));
            assert!(is_granted, "{} runs {command}", file.display());
        }
    }
    assert!(named > 100, "only {named} commands in the scripts");
}

/// The kinds of keys that `rollcall keys` counts.
async fn kinds_of_keys(pattern: &str, url: &str) -> Vec<Value> {
    let census = rollcall(&format!("keys {pattern} --json --redis {url}")).await;
    census.json()["kinds"].as_array().unwrap().clone()
}

#[tokio::test]
async fn audits_and_counts_of_keys_need_their_own_rule_too() {
    let redis = RedisServer::start().await;
    let rules = acl_rules();
    set(&redis, &rules[0]);
    let url = format!("redis://rollcall:secret@{}", redis.addr());
    let config = Config {
        redis: Some(Secret::new(url.as_str())),
        ..Config::default()
    };
    let gateway = Program::start(&config).await;
    let address = format!("http://{}", gateway.addr);
    let live = json!({"streamer_id": "s1", "attendance": true});
    for (path, body) in [
        ("/v1/lives/42", live),
        ("/v1/users/u1/following/s1", json!({})),
    ] {
        let put = reqwest::Client::new().put(format!("{address}{path}"));
        let answer = put.json(&body).send().await.unwrap();
        answer.error_for_status().unwrap();
    }
    assert_eq!(refused(&redis), "");

    set(&redis, &rules[2]);
    let audit = format!("audit --users --redis {url} --gateway {address}");
    rollcall(&audit).await.is(0);
    for kind in kinds_of_keys("*", &url).await {
        let is_known = kind["types"]["?"].is_null() && kind["bytes"].is_u64();
        assert!(is_known, "{kind}");
    }
    assert_eq!(refused(&redis), "");
    let used = used_commands(&redis);
    let granted = with_mark('+', &rules[2]);
    let idle: Vec<_> = granted.difference(&used).collect();
    assert!(idle.is_empty(), "granted and never used: {idle:?}");

    // Without the right, memory is not known, and a key of others has no type.
    let narrower = ["ACL", "SETUSER", "rollcall", "-memory"].map(str::to_owned);
    set(&redis, &narrower);
    redis.cli(&["SET", "of-another-program", "x"]);
    let others = &kinds_of_keys("of*", &url).await[0];
    assert_eq!(others["types"]["?"], 1, "{others}");
    assert!(others["bytes"].is_null(), "{others}");
}

/// A gateway does not start with such a rule, for the same reason.
#[tokio::test]
async fn a_check_of_the_settings_names_whatever_the_rule_lacks() {
    let redis = RedisServer::start().await;
    let url = format!("redis://rollcall:secret@{}", redis.addr());
    let check = format!("check-config --connect --json --log off --redis {url}");
    let rule = acl_rules().swap_remove(0);
    set(&redis, &rule);
    rollcall(&check).await.is(0);
    assert_eq!(refused(&redis), "");
    for missing in &rule {
        let named = match missing.split_at(1) {
            ("+", command) if BY_ITSELF.contains(&command) => continue,
            ("+", command) => command.split('|').next().unwrap().to_uppercase(),
            ("~", pattern) => format!("the key {}", pattern.split('*').next().unwrap()),
            ("&", _) => "channel".to_owned(),
            _ => continue,
        };
        let mut without = rule.clone();
        without.retain(|word| word != missing);
        set(&redis, &without);
        eprintln!("without {missing}");
        let said = rollcall(&check).await.is(69).out;
        let is_told = said.contains("NOPERM") || said.contains("can't run this command");
        let names_it = said.contains(&named);
        assert!(names_it && is_told, "without {missing}: {said}");
    }
}
