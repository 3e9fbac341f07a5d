//! `rollcall keys` counts what is in Redis, on one server and on a cluster, of its own installation
//! only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::command::rollcall;
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_sentinels::RedisSentinels;
use crate::support::redis_view::Redis;
use crate::support::stores::story;

/// What `rollcall keys` prints with this pattern and these options.
async fn keys(redis: &str, pattern: &str) -> String {
    let line = format!("keys --redis {redis} {pattern}");
    rollcall(&line).await.is(0).out
}

async fn counted(redis: &str, pattern: &str) -> Value {
    serde_json::from_str(&keys(redis, &format!("{pattern} --json")).await).unwrap()
}

/// How many keys there are of each kind.
fn kinds(census: &Value) -> BTreeMap<String, u64> {
    let kinds = census["kinds"].as_array().unwrap().iter();
    kinds
        .map(|row| {
            (
                row["kind"].as_str().unwrap().to_owned(),
                row["keys"].as_u64().unwrap(),
            )
        })
        .collect()
}

fn row<'a>(census: &'a Value, kind: &str) -> &'a Value {
    census["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["kind"] == kind)
        .unwrap_or_else(|| panic!("{census:#}"))
}

#[test]
fn keys_are_counted_by_kind_with_types_and_memory() {
    story(async {
        let redis = Redis::start().await;
        // More than SCAN returns at a time, and more than are measured.
        for n in 0..2_500 {
            redis.say(&format!("SADD online-fans:l{n} u1 u2")).await;
        }
        for n in 0..30 {
            redis
                .say(&format!("HSET {{online-fans:l{n}}}:gateways gw-a 1"))
                .await;
        }
        redis.ask(&["SET", "online-fans:mistyped", "x"]).await;
        redis.ask(&["SET", "strange key \u{1b}[2J", "x"]).await;
        let url = redis.url();
        let census = counted(&url, "*").await;
        assert_eq!(
            (&census["keys"], &census["masters"], &census["uncertain"]),
            (&2_532.into(), &1.into(), &false.into())
        );
        let fans = row(&census, "online-fans:*");
        assert_eq!(
            fans["types"],
            serde_json::json!({"set": 2_500, "string": 1}),
            "{fans}"
        );
        assert_eq!(fans["sampled"], 100, "{fans}");
        let one = redis
            .say("MEMORY USAGE online-fans:l7")
            .await
            .as_u64()
            .unwrap();
        let estimate = fans["bytes"].as_u64().unwrap();
        assert!(
            (one * 2_000..one * 3_000).contains(&estimate),
            "{estimate} for 2,501 keys of {one}"
        );
        assert_eq!(row(&census, "{online-fans:*}:gateways")["keys"], 30);
        assert_eq!(census["listed"].as_array().unwrap().len(), 10);

        let some = counted(&url, "online-fans:l1? --count 1000").await;
        let names: Vec<&str> = some["listed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key["key"].as_str().unwrap())
            .collect();
        let right: Vec<String> = (10..20).map(|n| format!("online-fans:l{n}")).collect();
        assert_eq!(names, right);
        assert_eq!(some["listed"][0]["type"], "set", "{some:#}");
        let text = keys(&url, "* --count 0").await;
        assert!(
            text.starts_with("2532 keys on 1 master, about ")
                && text.contains("set 2500, string 1"),
            "{text}"
        );
        assert!(
            !text.contains('\u{1b}') && !text.contains("online-fans:l1"),
            "{text}"
        );
        let none = keys(&url, "nothing*").await;
        assert!(none.starts_with("0 keys on 1 master"), "{none}");
        let stats = redis.ask(&["INFO", "commandstats"]).await.to_string();
        assert!(
            stats.contains("cmdstat_scan:") && !stats.contains("cmdstat_keys:"),
            "{stats}"
        );
    });
}

#[test]
fn all_masters_of_a_cluster_are_read_and_each_key_counts_once() {
    story(async {
        let cluster = RedisCluster::start(3, 1).await;
        let mut homes = BTreeSet::new();
        for n in 0..150 {
            let key = format!("app1:{{app1:online-fans:l{n}}}:fence");
            homes.insert(cluster.home(&key));
            assert_eq!(
                cluster.nodes[cluster.home(&key)].cli(&["SET", &key, "open:1:1"]),
                "OK"
            );
        }
        assert_eq!(homes.len(), 3, "the keys are spread over all masters");
        for other in ["online-fans:l1", "app1", "app2:{app2:online-fans:l1}:fence"] {
            cluster.nodes[cluster.home(other)].cli(&["SET", other, "x"]);
        }
        // Not as the user of the gateways, who may not read keys with a prefix.
        let url = format!("redis-cluster://{}", cluster.nodes[1].addr());
        let ours =
            async |pattern: &str| counted(&url, &format!("{pattern} --key-prefix app1:")).await;
        let census = ours("*").await;
        assert_eq!(
            (&census["keys"], &census["masters"]),
            (&150.into(), &3.into()),
            "{census:#}"
        );
        assert_eq!(
            kinds(&census),
            [("{online-fans:*}:fence".to_owned(), 150)].into()
        );
        assert!(
            census["bytes"]
                .as_u64()
                .is_some_and(|bytes| bytes > 150 * 40),
            "{census:#}"
        );
        assert_eq!(
            ours("{online-fans:l1}:*").await["listed"][0]["key"],
            "app1:{app1:online-fans:l1}:fence"
        );
        assert_eq!(ours("online-fans:*").await["keys"], 0);
        assert_eq!(counted(&url, "*").await["keys"], 153);
    });
}

#[test]
fn the_master_that_sentinels_name_is_read() {
    story(async {
        let sentinels = RedisSentinels::start().await;
        assert_eq!(
            sentinels.servers[0].cli_as("secret", &["ZADD", "lives", "1", "42"]),
            "1"
        );
        let census = counted(&sentinels.url(), "li*").await;
        assert_eq!(
            (&census["keys"], &census["masters"]),
            (&1.into(), &1.into()),
            "{census:#}"
        );
        assert_eq!(census["listed"][0]["type"], "zset", "{census:#}");
    });
}
