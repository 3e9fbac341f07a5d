//! `rollcall audit` finds every kind of fault and repairs those that are safe to repair; a busy
//! live has none. `rollcall explain` says who is counted and why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::command::rollcall;
use crate::support::guarded::{Guarded, KEY};
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_server::free_port;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, becomes, fits, until};
use crate::support::world::World;

/// The settings of the invented gateways in these stories.
const LEASE: &str = "--lease 60s --lease-refresh 400ms";

/// The times of the gateways of stories.
const TIMES: &str = "--lease 2500ms --lease-refresh 500ms";

/// Runs an audit with these options, which must exit with this code, and returns its document.
pub(super) async fn audit(redis: &str, code: i32, options: &str) -> Value {
    let line = format!("audit --json --log off --redis {redis} {options}");
    rollcall(line.trim_end()).await.is(code).json()
}

/// Audits gateways with the times of the stories, again and again, until nothing is wrong any more.
pub(super) async fn nothing_is_wrong(redis: &str, within: Duration) {
    let line = format!("audit --log off --redis {redis} {TIMES} --flush 50ms --check-every 3s");
    until("the audit finds nothing", within, async || {
        fits(rollcall(&line).await, |ran| ran.code == Some(0))
    })
    .await;
}

/// The kind and the live of each finding.
pub(super) fn found(report: &Value) -> BTreeSet<(String, String)> {
    let findings = report["findings"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings
        .map(|finding| (word(&finding["kind"]), word(&finding["live_id"])))
        .collect()
}

/// A Redis into which faults are put by hand. Gateway `gw-a` lives, `gw-dead` was buried long ago,
/// `gw-buried` just now, `gw-stuck` does not renew its lease, and `gw-lost` has none.
struct Planter {
    redis: Redis,
    now: u64,
}

impl Planter {
    async fn new() -> Self {
        let redis = Redis::start().await;
        let now = redis.ask(&["TIME"]).await[0]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 1_000;
        let world = Self { redis, now };
        let long_ago = now - 600_000;
        world
            .say(&format!(
                "HSET rollcall:leases gw-a 1:{now}:7: gw-stuck 1:{long_ago}:7:"
            ))
            .await;
        world
            .say(&format!(
                "HSET rollcall:leases gw-dead dead:{long_ago} gw-buried dead:{now}"
            ))
            .await;
        world
    }

    async fn say(&self, words: &str) {
        self.redis.ask(&words.split(' ').collect::<Vec<_>>()).await;
    }

    /// A record as a gateway writes it, and its entry on the list while it is open.
    async fn record(&self, live: &str, state: &str, epoch: u32) {
        let at = self.now - 600_000;
        self.say(&format!(
            "HSET live:{live} state {state} streamer_id s1 epoch {epoch} slices 1 opened_at {at} opened_by service \
             peak_viewers 0 peak_fans 0"
        ))
        .await;
        if state == "open" {
            self.say(&format!("ZADD lives {at} {live}")).await;
        } else {
            self.say(&format!("HSET live:{live} closed_at {at} reason requested"))
                .await;
        }
    }

    /// A slice of a live whose fans a gateway holds, as it should be.
    async fn held(&self, live: &str, epoch: u32, users: &str, gateway: &str) {
        let slice = format!("online-fans:{live}");
        let token = self.enter(&slice, gateway).await;
        for user in users.split(' ') {
            self.claim(&slice, user, "5", &format!("{token}f")).await;
        }
        self.say(&format!("SADD {{{slice}}}:viewers {users}")).await;
        self.say(&format!("SADD {slice} {users}")).await;
        self.fence(&slice, epoch).await;
    }

    /// A slice of the platform whose users a gateway holds, as it should be.
    async fn online(&self, slice: &str, users: &str, gateway: &str) {
        let token = self.enter(slice, gateway).await;
        for user in users.split(' ') {
            self.claim(slice, user, "", &format!("{token}=")).await;
        }
        self.say(&format!("HSET {{{slice}}}:gateways #{token} {gateway}"))
            .await;
        self.say(&format!("SADD {slice} {users}")).await;
        self.fence(slice, 1).await;
    }

    /// Makes the entry of a gateway, after its seventh call. Returns its token.
    async fn enter(&self, slice: &str, gateway: &str) -> u64 {
        let entries = format!("{{{slice}}}:gateways");
        let token = self.redis.ask(&["HLEN", &entries]).await.as_u64().unwrap() + 1;
        self.say(&format!("HSET {entries} {gateway} {token}:7"))
            .await;
        token
    }

    /// Adds a claim on a user.
    async fn claim(&self, slice: &str, user: &str, since: &str, claim: &str) {
        let who = format!("{{{slice}}}:who");
        let earlier = self.redis.ask(&["HGET", &who, user]).await;
        let claims = format!("{} {claim}", earlier.as_str().unwrap_or(since));
        self.redis.ask(&["HSET", &who, user, &claims]).await;
    }

    /// Writes the fence of a slice, with what there is to be counted.
    async fn fence(&self, slice: &str, epoch: u32) {
        let members = self.redis.ask(&["HLEN", &format!("{{{slice}}}:who")]).await;
        let fans = if slice.starts_with("online-fans:") {
            self.redis.ask(&["SCARD", slice]).await
        } else {
            json!(0)
        };
        let entries = self.redis.say(&format!("HLEN {{{slice}}}:gateways")).await;
        self.say(&format!(
            "SET {{{slice}}}:fence open:{epoch}:1:1:{members}-0:{fans}:{entries}:{entries}"
        ))
        .await;
    }

    /// An open live with two fans on a gateway.
    async fn open_on(&self, gateway: &str, live: &str) {
        self.record(live, "open", 2).await;
        self.held(live, 2, "u1 u2", gateway).await;
    }

    /// An open live without a fault.
    async fn open(&self, live: &str) {
        self.open_on("gw-a", live).await;
    }

    /// Every key of a live, with its content.
    async fn dump(&self, live: &str) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for key in self.redis.keys(&format!("*{live}*")).await {
            let what = match self.redis.ask(&["TYPE", &key]).await.as_str().unwrap() {
                "set" => self.redis.ask(&["SORT", &key, "ALPHA"]).await,
                "hash" => self.redis.ask(&["HGETALL", &key]).await,
                "zset" => {
                    self.redis
                        .say(&format!("ZRANGE {key} 0 -1 WITHSCORES"))
                        .await
                }
                _ => self.redis.ask(&["GET", &key]).await,
            };
            all.insert(key, what);
        }
        all
    }
}

/// Plants a fault of every kind that Redis alone can show, each in a live of its own. Returns what
/// an audit must find.
async fn plant(world: &Planter) -> BTreeSet<(String, String)> {
    let mut wanted = BTreeSet::new();
    let mut expect = |kind: &str, live: &str| {
        wanted.insert((kind.to_owned(), live.to_owned()));
    };

    for (live, kind, line) in [
        (
            "ghost",
            "ghost_members",
            "SADD online-fans:ghost stray1 stray2",
        ),
        (
            "viewed",
            "ghost_members",
            "SADD {online-fans:viewed}:viewers stray",
        ),
        ("missing", "missing_members", "SREM online-fans:missing u2"),
        (
            "miscounted",
            "miscounted_slice",
            "SET {online-fans:miscounted}:fence open:2:1:1:9-0:2:1:1",
        ),
        (
            "fanned",
            "miscounted_slice",
            "SET {online-fans:fanned}:fence open:2:1:1:2-0:1:1:1",
        ),
        (
            "ahead",
            "fence_ahead",
            "SET {online-fans:ahead}:fence closed:2:0-0:0:0",
        ),
        (
            "resliced",
            "orphaned_slice",
            "SADD online-fans:resliced_slice5 u1",
        ),
        ("unlisted", "unlisted_live", "ZREM lives unlisted"),
        ("mistyped", "unreadable_key", "SET online-fans:mistyped x"),
    ] {
        world.open(live).await;
        world.say(line).await;
        expect(kind, live);
    }

    world.open("claimed").await;
    let slice = "online-fans:claimed";
    world.claim(slice, "u9", "5", "9f").await;
    world.say("SADD online-fans:claimed u9").await;
    world.say("SADD {online-fans:claimed}:viewers u9").await;
    world.fence(slice, 2).await;
    expect("ghost_members", "claimed");

    world.online("online-users_slice3", "u1", "gw-a").await;
    world.say("SADD online-users_slice3 stray").await;
    expect("ghost_members", "");
    world.online("online-users_slice4", "u2", "gw-dead").await;
    expect("unswept_gateway", "");

    let (now, old) = (world.now, world.now - 31 * 24 * 3_600_000);
    world
        .online("online-users_slice5", "twice once", "gw-a")
        .await;
    world
        .say(&format!(
            "ZADD last-seen:{{online-users_slice5}} {now} twice {now} gone"
        ))
        .await;
    expect("seen_and_online", "");
    world
        .say(&format!(
            "ZADD last-seen:{{online-users_slice6}} {} early {now} gone",
            now + 3_600_000
        ))
        .await;
    expect("seen_in_future", "");
    world
        .say(&format!(
            "ZADD last-seen:{{online-users_slice7}} {old} old {now} gone"
        ))
        .await;
    expect("not_forgotten", "");

    // Gateway gw-a has said that it holds more.
    for live in ["slow", "rebuilt"] {
        world.open(live).await;
        world
            .say(&format!("HSET {{online-fans:{live}}}:gateways gw-a 1:7+"))
            .await;
        expect("unfinished_rebuild", live);
    }
    world
        .say("SET {online-fans:rebuilt}:fence open:2:1:1:3-0:2:1:1:2:2:0:1")
        .await;

    expect("expired_lease", "");

    world.open_on("gw-dead", "unswept").await;
    expect("unswept_gateway", "unswept");

    world.open_on("gw-lost", "lost").await;
    expect("entry_without_lease", "lost");

    world.open_on("gw-dead", "unfenced").await;
    world.say("DEL {online-fans:unfenced}:fence").await;
    expect("slice_without_fence", "unfenced");
    expect("unswept_gateway", "unfenced");

    world.held("unrecorded", 1, "u1", "gw-a").await;
    expect("no_record", "unrecorded");

    world.held("absent", 1, "u1", "gw-dead").await;
    expect("orphaned_slice", "absent");

    world.record("closed", "closed", 2).await;
    world.held("closed", 2, "u1 u2 u3", "gw-a").await;
    expect("orphaned_slice", "closed");

    world.record("banned", "closed", 2).await;
    world.say("ZADD {live:banned}:bans 5 u1").await;
    world.say("ZADD {live:banned}:removals 1 u1").await;
    expect("orphaned_bans", "banned");

    world.record("older", "open", 2).await;
    world.held("older", 1, "u1", "gw-a").await;
    expect("orphaned_slice", "older");

    world.record("closing", "closing", 2).await;
    world.held("closing", 2, "u1", "gw-a").await;
    expect("unfinished_close", "closing");

    for live in ["counted", "ranked"] {
        world.open(live).await;
        world
            .say(&format!(
                "HSET live:{live} viewers 2 fans 2 counted_at {}",
                world.now - 60_000
            ))
            .await;
        world.say(&format!("ZADD {{lives}}:by_fans 2 {live}")).await;
    }
    world.say("HSET live:counted viewers 9").await;
    world
        .say("ZADD {lives}:by_viewers 9 counted 2 ranked")
        .await;
    expect("wrong_counts", "counted");
    world.say("ZADD {lives}:by_fans 5 ranked").await;
    expect("wrong_rank", "ranked");

    world.record("over", "closed", 2).await;
    world.say("ZADD lives 5 over").await;
    expect("listed_closed", "over");

    world.say("ZADD lives 5 nowhere").await;
    expect("listed_without_record", "nowhere");

    world.say("HSET live:garbled state perhaps").await;
    expect("unreadable_key", "garbled");
    wanted
}

/// The kinds of findings that an audit leaves to gateways or to people.
const NOT_FIXED: &[&str] = &[
    "unfinished_rebuild",
    "wrong_rank",
    "listed_closed",
    "listed_without_record",
    "not_forgotten",
    "expired_lease",
    "entry_without_lease",
    "fence_ahead",
    "no_record",
    "unreadable_key",
];

#[test]
fn ids_that_no_url_can_carry_are_reported() {
    story(async {
        let world = Planter::new().await;
        world.record("..", "open", 7).await;
        world.say("SADD online-fans:42 u1 . ..").await;
        world.say("ZADD following:. 1 s1").await;
        let report = audit(&world.redis.url(), 1, LEASE).await;
        let findings = report["findings"].as_array().unwrap();
        let of_dots = || {
            findings
                .iter()
                .filter(|finding| finding["kind"] == "unusable_id")
        };
        let keys: BTreeSet<&str> = of_dots()
            .map(|finding| finding["key"].as_str().unwrap())
            .collect();
        assert_eq!(
            keys,
            BTreeSet::from(["following:.", "lives", "live:..", "online-fans:42"]),
            "{report:#}"
        );
        assert!(
            of_dots().any(|finding| finding["members"] == 2 && finding["live_id"] == "42"),
            "{report:#}"
        );
    });
}

/// A gateway without a lease may still hold its fans, so an audit takes nothing from it.
#[test]
fn only_a_gateway_that_was_buried_is_swept() {
    story(async {
        let world = Planter::new().await;
        world.held("adrift", 1, "u1", "gw-lost").await;
        world.open_on("gw-lost", "lost").await;
        world.open_on("gw-buried", "buried").await;
        world.open_on("gw-stuck", "stuck").await;
        let lives = ["adrift", "lost", "buried", "stuck"];
        let mut before = Vec::new();
        for live in lives {
            before.push(world.dump(live).await);
        }
        let report = audit(&world.redis.url(), 1, &format!("{LEASE} --fix")).await;
        let wanted = [
            ("expired_lease", ""),
            ("entry_without_lease", "lost"),
            ("orphaned_slice", "adrift"),
        ];
        assert_eq!(
            found(&report),
            wanted
                .map(|(kind, live)| (kind.to_owned(), live.to_owned()))
                .into(),
            "{report:#}"
        );
        for (live, before) in lives.iter().zip(before) {
            assert_eq!(world.dump(live).await, before, "{live}");
        }
    });
}

#[test]
fn every_kind_of_fault_is_found_and_put_right_where_that_is_safe() {
    story(async {
        let world = Planter::new().await;
        world.open("healthy").await;
        // This gateway has a room, and nobody in it.
        world.enter("online-fans:healthy", "gw-idle").await;
        world.fence("online-fans:healthy", 2).await;
        world
            .say(&format!("HSET rollcall:leases gw-idle 1:{}:9:", world.now))
            .await;
        // This gateway was buried a moment ago, and a gateway is about to sweep it.
        world.open_on("gw-buried", "fresh").await;
        // The fence and the record of a closed live stay for long, so they are no finding.
        world.record("past", "closed", 2).await;
        world
            .say("SET {online-fans:past}:fence closed:2:0-0:0:0")
            .await;
        let healthy = [world.dump("healthy").await, world.dump("fresh").await];
        let wanted = plant(&world).await;
        let url = world.redis.url();

        let before = world.redis.keys("*").await;
        let report = audit(&url, 1, LEASE).await;
        assert_eq!(found(&report), wanted, "{report:#}");
        let when = |kind: &str| {
            let mut findings = report["findings"].as_array().unwrap().iter();
            findings.find(|finding| finding["kind"] == kind).unwrap()["gateways_repair_it"].clone()
        };
        assert_eq!(when("missing_members"), "within --check-every and 15 s");
        assert_eq!(when("unswept_gateway"), Value::Null);
        let mut findings = report["findings"].as_array().unwrap().iter();
        let ghosts = findings
            .find(|f| f["kind"] == "ghost_members" && f["live_id"] == "ghost")
            .unwrap();
        assert_eq!(
            (&ghosts["members"], &ghosts["severity"]),
            (&2.into(), &"error".into()),
            "{ghosts}"
        );
        assert_eq!(
            (&ghosts["key"], &ghosts["slice"]),
            (&"online-fans:ghost".into(), &1.into()),
            "{ghosts}"
        );
        let row = |name: &str, id: &str, rows: &str| {
            report[rows]
                .as_array()
                .unwrap()
                .iter()
                .find(|row| row[name] == id)
                .unwrap()
                .clone()
        };
        assert_eq!(
            row("live_id", "healthy", "lives")["gateways"],
            1,
            "who has an entry may hold nothing"
        );
        for (gateway, lease) in [
            ("gw-idle", "living".into()),
            ("gw-dead", "dead".into()),
            ("gw-lost", Value::Null),
        ] {
            assert_eq!(
                row("gateway_id", gateway, "gateways")["lease"],
                lease,
                "{gateway}"
            );
        }
        assert_eq!(world.redis.keys("*").await, before, "an audit only looks");

        let report = audit(&url, 1, &format!("{LEASE} --fix")).await;
        let left: BTreeSet<_> = wanted
            .iter()
            .filter(|(kind, _)| NOT_FIXED.contains(&kind.as_str()))
            .cloned()
            .collect();
        assert_eq!(found(&report), left, "{report:#}");
        let fixed = report["fixed"].as_array().unwrap();
        assert!(
            fixed
                .iter()
                .all(|one| one["done"].as_str().is_some_and(|done| !done.is_empty())),
            "{fixed:?}"
        );
        assert_eq!(found(&audit(&url, 1, LEASE).await), left, "it stays so");

        let after = [world.dump("healthy").await, world.dump("fresh").await];
        assert_eq!(after, healthy, "who is well is left alone");
        assert_eq!(
            world.redis.fans("ghost").await,
            ["u1", "u2"].map(str::to_owned).into()
        );
        for live in ["viewed", "claimed", "missing"] {
            let users = ["u1", "u2"].map(str::to_owned).into();
            assert_eq!(world.redis.viewers(live).await, users, "{live}");
            assert_eq!(world.redis.fans(live).await, users, "{live}");
        }
        assert_eq!(
            world.redis.online_users().await,
            ["u1", "twice", "once"].map(str::to_owned).into()
        );
        let seen = async |slice: u32| {
            world
                .redis
                .say(&format!(
                    "ZRANGE last-seen:{{online-users_slice{slice}}} 0 -1"
                ))
                .await
        };
        let users = [seen(5).await, seen(6).await, seen(7).await];
        let wanted = [
            serde_json::json!(["gone"]),
            serde_json::json!(["gone", "early"]),
            serde_json::json!(["old", "gone"]),
        ];
        assert_eq!(users, wanted);
        assert!(world.redis.last_seen("early").await.unwrap() < world.now + 1_800_000);
        let swept = world
            .redis
            .say("ZSCORE last-seen:{online-users_slice4} u2")
            .await;
        let swept = swept
            .as_str()
            .and_then(|at| at.parse::<u64>().ok())
            .expect("the dead gateway's user was seen");
        assert!(
            swept.abs_diff(world.now - 600_000) < 60_000,
            "{swept}: when the dead gateway was there last"
        );
        let fences = [
            ("closed", "2"),
            ("older", "1"),
            ("closing", "2"),
            ("absent", "1"),
        ];
        for (live, epoch) in fences {
            let keys = world.redis.keys(&format!("*online-fans:{live}*")).await;
            let key = format!("{{online-fans:{live}}}:fence");
            assert_eq!(keys, [key.clone()].into(), "only the fence is left");
            let text = world.redis.ask(&["GET", &key]).await;
            assert!(
                text.as_str()
                    .unwrap()
                    .starts_with(&format!("closed:{epoch}:")),
                "{live}: {text}"
            );
        }
        assert_eq!(
            world.redis.keys("*banned*").await,
            ["live:banned".to_owned()].into()
        );
        assert_eq!(
            world.redis.live_field("closing", "state").await.as_deref(),
            Some("closed")
        );
        let listed = world.redis.say("ZRANGE lives 0 -1").await.to_string();
        assert!(
            listed.contains("\"unlisted\"") && listed.contains("\"ghost\""),
            "{listed}"
        );
    });
}

#[test]
fn a_busy_live_has_no_findings() {
    story(async {
        let one = World::on_redis(|config| config.message_rate = 0).await;
        let other = one.another_gateway().await;
        one.backend().open_sliced("42", "s1", 4).await;
        one.crowd_follows("u", 20).await;
        one.crowd_follows("restless", 6).await;
        let _crowd = one.crowd("u", 20, "42").await;
        // The same users are on both gateways, so the slice has them once.
        let _elsewhere = other.crowd("u", 8, "42").await;
        other.card_becomes("42", 20, PATIENCE).await;
        let churn = async |world: &World, n: usize| {
            let mut restless = world.viewer(&format!("restless{n}")).await;
            loop {
                restless.join("42").await;
                tokio::time::sleep(Duration::from_millis(90 + n as u64 * 7)).await;
                restless.leave().await;
            }
        };
        let look = async {
            let gateways = [&one, &other].map(|world| format!("http://{}", world.addr));
            let [first, second] = &gateways;
            let more = format!("{TIMES} --gateway {first} --gateway {second}");
            for _ in 0..3 {
                let report = audit(&one.redis().url(), 0, &more).await;
                let rows = report["gateways"].as_array().unwrap();
                assert_eq!(rows.len(), 2, "{report:#}");
                for row in rows {
                    assert_eq!(row["asked"], true, "{row}");
                    assert!(row["compared"].as_u64().unwrap() >= 1, "{row}");
                }
                let live = &report["lives"][0];
                assert_eq!(
                    (&live["live_id"], &live["slices"], &live["gateways"]),
                    (&"42".into(), &4.into(), &2.into())
                );
                assert!(live["fans"].as_u64().unwrap() >= 20, "{live}");
                assert_eq!(
                    report["biggest_by_members"].as_array().unwrap().len(),
                    10,
                    "{report:#}"
                );
            }
        };
        tokio::select! {
            () = look => {}
            () = churn(&one, 0) => {}
            () = churn(&one, 1) => {}
            () = churn(&other, 2) => {}
            () = churn(&other, 3) => {}
        }
    });
}

#[test]
fn a_gateway_that_holds_other_users_than_it_reports_is_found() {
    story(async {
        // Checks are so rare that an audit comes first.
        let world = World::on_redis(|config| config.check_every = Duration::from_secs(600)).await;
        let stranger = world.another_gateway().await;
        world.open("42").await;
        world.follow(&["u0", "u1"]).await;
        let _crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0", "u1"]).await;
        let _elsewhere = stranger.viewer_in("u1", "42").await;
        let who = "{online-fans:42}:who";
        until("both hold somebody", PATIENCE, async || {
            let entries = world.redis().say("HLEN {online-fans:42}:gateways").await;
            (entries == 2).then_some(()).ok_or(entries)
        })
        .await;

        let url = format!("http://{}", world.addr);
        let nobody = format!("http://127.0.0.1:{}", free_port());
        let more = format!("--lease-refresh 500ms --gateway {url} --gateway {nobody}");
        until("the drift is found", PATIENCE * 3, async || {
            world.redis().ask(&["HDEL", who, "u0"]).await;
            let report = audit(&world.redis().url(), 1, &more).await;
            let drift = ("gateway_drift".to_owned(), "42".to_owned());
            assert!(
                found(&report).contains(&("gateway_unreachable".to_owned(), String::new())),
                "{report:#}"
            );
            let rows = report["gateways"].as_array().unwrap();
            let asked = |asked: bool| rows.iter().filter(|row| row["asked"] == asked).count();
            assert_eq!(
                (asked(true), asked(false)),
                (1, 1),
                "who was not asked is shown, and no finding: {report:#}"
            );
            fits(report, |report| found(report).contains(&drift))
        })
        .await;
    });
}

#[test]
fn faults_on_any_master_of_a_cluster_are_found_and_put_right() {
    story(async {
        let cluster = RedisCluster::start(3, 0).await;
        let world = World::at(&cluster.url()).await;
        let opened = world.backend().open_sliced("42", "s1", 8).await;
        let fence = format!("open:{}:1:1:0-0:0:0:0", opened["epoch"]);
        assert_eq!(audit(&cluster.url(), 0, TIMES).await["masters"], 3);
        // From here on, nothing but the audit repairs anything.
        world.stop().await;
        let mut homes = BTreeSet::new();
        for k in 1..=8 {
            let slice = format!("online-fans:42_slice{k}");
            let home = cluster.home(&slice);
            homes.insert(home);
            let key = format!("{{{slice}}}:fence");
            cluster.nodes[home].cli(&["SET", &key, &fence]);
            cluster.nodes[home].cli(&["SADD", &slice, "stray"]);
        }
        assert_eq!(homes.len(), 3, "the slices are spread over all masters");
        let orphan = "online-fans:gone";
        cluster.nodes[cluster.home(orphan)].cli(&["SADD", orphan, "u1"]);

        let report = audit(&cluster.url(), 1, TIMES).await;
        let kinds: BTreeSet<_> = found(&report).into_iter().map(|(kind, _)| kind).collect();
        assert!(
            kinds.contains("ghost_members") && kinds.contains("orphaned_slice"),
            "{report:#}"
        );
        let report = audit(&cluster.url(), 0, &format!("{TIMES} --fix")).await;
        assert!(report["fixed"].as_array().unwrap().len() >= 9, "{report:#}");
        assert_eq!(
            found(&audit(&cluster.url(), 0, TIMES).await),
            BTreeSet::new()
        );
    });
}

#[test]
fn explain_says_who_is_counted_and_why() {
    story(async {
        let world = World::on_redis(|_| ()).await;
        world.open("42").await;
        world.follow(&["u0"]).await;
        let mut crowd = world.crowd("u", 2, "42").await;
        world.acks_become(&mut crowd[1], Some(false), 2, 1).await;
        let (redis, gateway) = (world.redis().url(), format!("http://{}", world.addr));
        let id = world.backend().get("/healthz").await.body["gateway_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let explain = async |words: &str| {
            let line = format!("explain {words} --redis {redis} --gateway {gateway} --log off");
            rollcall(&line).await.is(0).out
        };
        let holds = format!("{id} holds 2, 1 of them fans, lease renewed 0.");
        let counted = explain("42 u0").await;
        for words in [
            "is open, epoch 1",
            "u0 is counted as a fan, in slice 1: held by",
            &id,
            "u0 follows s1",
            "1 sockets",
            &holds,
        ] {
            assert!(counted.contains(words), "{words:?} is not in\n{counted}");
        }
        let viewer = explain("42 u1").await;
        for words in [
            "u1 is counted as a viewer, in slice 1, and not as a fan",
            "u1 does not follow s1",
            "no fan by its last fan check",
        ] {
            assert!(viewer.contains(words), "{words:?} is not in\n{viewer}");
        }
        let told: Value = serde_json::from_str(&explain("42 u0 --json").await).unwrap();
        assert_eq!(told["user"]["viewer"], true, "{told:#}");
        assert_eq!(told["user"]["counted"], true, "{told:#}");
        assert_eq!(
            told["slices"][0]["gateways"][0]["holds_user"], true,
            "{told:#}"
        );
        assert_eq!(
            told["user"]["gateways"][0]["knows"]["sockets"], 1,
            "{told:#}"
        );
        assert!(told["user"]["ban_ends_at"].is_null(), "{told:#}");
        world.backend().ban("42", "u0", 600).await;
        world.fans_become("42", &[]).await;
        assert!(
            explain("42 u0")
                .await
                .contains("u0 was removed, and may not join until 20")
        );
        assert!(
            explain("nowhere")
                .await
                .contains("no record of live nowhere")
        );
        world.backend().close("42").await;
        assert!(
            explain("42 u0")
                .await
                .contains("u0 is not counted: the live is closed")
        );
    });
}

#[test]
fn explain_says_which_of_the_holders_live() {
    story(async {
        let world = Planter::new().await;
        world.open("42").await;
        for gateway in ["gw-dead", "gw-stuck", "gw-lost"] {
            world.held("42", 2, "u1", gateway).await;
        }
        let line = format!(
            "explain 42 u1 --log off --redis {} {LEASE}",
            world.redis.url()
        );
        let text = rollcall(&line).await.is(0).said();
        for (gateway, members, words) in [
            ("gw-a", 2, ""),
            ("gw-dead", 1, ": it is to be swept"),
            ("gw-stuck", 1, ": it is to be buried"),
            (
                "gw-lost",
                1,
                "no lease: it is to be buried unless it renews one",
            ),
        ] {
            let head = format!("  {gateway} holds {members}, ");
            let line = text
                .lines()
                .find(|line| line.starts_with(&head))
                .unwrap_or_else(|| panic!("{gateway}: {text}"));
            assert!(line.ends_with(&format!("{words}, call 7")), "{line}");
            assert!(text.contains(&format!("{gateway} (")), "{text}");
        }
        assert!(text.contains("gw-dead (buried 60"), "{text}");
    });
}

#[test]
fn the_users_of_another_program_are_compared_with_those_of_every_open_live() {
    story(async {
        let world = World::on_redis(|_| {}).await;
        let redis = world.redis();
        for live in ["41", "42", "43", "44"] {
            world.open(live).await;
        }
        world.backend().close("44").await;
        let _viewers = [
            world.viewer_in("u1", "42").await,
            world.viewer_in("u2", "42").await,
        ];
        let _fan = world.viewer_in("u3", "43").await;
        for (live, viewers) in [("42", 2), ("43", 1)] {
            becomes("the viewers are in the store", viewers, async || {
                redis.viewers(live).await.len()
            })
            .await;
        }
        redis.ask(&["SADD", "mine:42:now", "u1", "gone"]).await;
        redis.ask(&["ZADD", "mine:43:now", "1", "u3"]).await;

        let against = "--against mine:{live_id}:now";
        let report = audit(&redis.url(), 1, against).await;
        let nobody = json!({"users": 0, "examples": []});
        let is_one = |user| json!({"users": 1, "examples": [user]});
        let row = |live: &str, both, only_key: &Value, only_rollcall: &Value| {
            json!({
                "live_id": live, "key": format!("mine:{live}:now"), "both": both, "only_key": only_key,
                "only_rollcall": only_rollcall, "unreadable": null,
            })
        };
        let lives = json!([
            row("41", 0, &nobody, &nobody),
            row("42", 1, &is_one("gone"), &is_one("u2")),
            row("43", 1, &nobody, &nobody),
        ]);
        assert_eq!(report["lives"], lives);

        redis.ask(&["SREM", "mine:42:now", "gone"]).await;
        redis.ask(&["SADD", "mine:42:now", "u2"]).await;
        // Neither names a live.
        redis.ask(&["SADD", "mine:a b:now", "u1"]).await;
        redis.ask(&["SADD", "mine:77:now:old", "u1"]).await;
        let report = audit(&redis.url(), 0, against).await;
        assert_eq!(report["lives"][1]["both"], 2);
        assert_eq!(report["not_open"], json!({"lives": 0, "examples": []}));
        let fans = format!("{against} --fans");
        let report = audit(&redis.url(), 1, &fans).await;
        assert_eq!(
            report["lives"][1]["only_key"]["users"], 2,
            "nobody follows the streamer"
        );
        redis.ask(&["SET", "mine:41:now", "u1"]).await;
        let report = audit(&redis.url(), 1, against).await;
        let why = report["lives"][0]["unreadable"].as_str().unwrap();
        assert!(why.contains("is a string"), "{why}");
    });
}

#[test]
fn a_comparison_finds_lives_that_only_the_other_program_has() {
    story(async {
        let world = World::on_redis(|_| {}).await;
        let redis = world.redis();
        for live in ["42", "44"] {
            world.open(live).await;
        }
        world.backend().close("44").await;
        for key in ["mine*:44", "mine*:77", "mineral:78"] {
            redis.ask(&["SADD", key, "u1"]).await;
        }
        let against = "--against mine*:{live_id}";
        let report = audit(&redis.url(), 1, against).await;
        let not_open = json!({"lives": 2, "examples": ["44", "77"]});
        assert_eq!(report["not_open"], not_open);
        redis.ask(&["DEL", "mine*:44", "mine*:77"]).await;
        audit(&redis.url(), 0, against).await;

        // Who looks where nothing is has learned nothing.
        let elsewhere = format!("{against} --key-prefix other:");
        let report = audit(&redis.url(), 1, &elsewhere).await;
        assert_eq!(report["lives"], json!([]));
    });
}

#[test]
fn a_live_that_closes_during_the_comparison_does_not_differ() {
    story(async {
        let world = World::on_redis(|_| {}).await;
        let redis = world.redis();
        for live in ["42", "43"] {
            world.open(live).await;
        }
        redis.ask(&["SADD", "mine:43", "gone"]).await;
        let against = "--against mine:{live_id}";
        let closes = async {
            // Between the two looks.
            tokio::time::sleep(Duration::from_millis(500)).await;
            world.backend().close("43").await;
        };
        let url = redis.url();
        let report = tokio::join!(audit(&url, 1, against), closes).0;
        let lives = report["lives"].as_array().unwrap();
        assert_eq!(lives.len(), 1, "{report}");
        assert_eq!(lives[0]["live_id"], "42", "{report}");
    });
}

#[test]
fn a_gateway_that_wants_a_key_is_asked_with_one_and_over_tls() {
    story(async {
        let guarded = Guarded::start().await;
        let redis = guarded.world.redis().url();
        let Guarded {
            plain, secure, ca, ..
        } = &guarded;
        let key = guarded.key(KEY);
        for (gateway, answers) in [
            (format!("{plain} {key}"), true),
            (format!("{secure} {ca} {key}"), true),
            (plain.clone(), false),
            // The system does not know the authority.
            (format!("{secure} {key}"), false),
        ] {
            let report = audit(&redis, i32::from(!answers), &gateway).await;
            let unreachable = ("gateway_unreachable".to_owned(), String::new());
            assert_eq!(
                found(&report).contains(&unreachable),
                !answers,
                "{gateway}: {report:#}"
            );
            assert!(!report.to_string().contains(KEY), "{report:#}");
        }
    });
}
