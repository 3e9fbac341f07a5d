//! What other services read in Redis: names, types and lifetimes of keys. No call may block the
//! server for long.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::event_kind::EventKind;
use rollcall::base::ids::{Epoch, Group, USERS_SLICES};
use rollcall::base::webhook_name::WebhookName;
use rollcall::store::redis::keys::Keys;
use rollcall::store::{
    About, Apply, BuryReply, CloseLive, CloseReason, CountLive, CountReply, Edge, Event, OpenLive,
    Peaks, QueueKind, SliceSize, WebhookQueue,
};

use crate::conformance::{
    Caller, arrived, end, fans, figures, finish_close, gateway, given_up, live, opened, opened_as,
    paged, passes, peaks, reads_new, redis, renewal, renewed, slice, streamers_slice, sweep, user,
    users, users_slice, wish,
};
use crate::redis_server::RedisServer;

const HOUR: i64 = 3_600;

fn ttl(server: &RedisServer, key: &str) -> i64 {
    server.cli(&["TTL", key]).parse().expect("a time to live")
}

/// A key expires after this time, in seconds, and was written just now.
fn expires_after(server: &RedisServer, key: &str, lifetime: i64) {
    let left = ttl(server, key);
    assert!((lifetime - 60..=lifetime).contains(&left), "{key}: {left}");
}

fn keys(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<String> = server
        .cli(&["KEYS", "*"])
        .lines()
        .map(str::to_owned)
        .collect();
    keys.retain(|key| !key.is_empty() && *key != Keys::default().canary());
    keys.sort();
    keys
}

#[tokio::test]
async fn a_slice_is_a_set_with_its_companions_beside_it() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    let size = a.are_no_fans(&users(1, 2)).await;
    let expected = [
        ("online-fans:42", 6 * HOUR),
        ("{online-fans:42}:fence", 30 * 24 * HOUR),
        ("{online-fans:42}:gateways", 6 * HOUR),
        ("{online-fans:42}:unique-fans", 30 * 24 * HOUR),
        ("{online-fans:42}:uniques", 30 * 24 * HOUR),
        ("{online-fans:42}:viewers", 6 * HOUR),
        ("{online-fans:42}:who", 6 * HOUR),
    ];
    assert_eq!(keys(&server), expected.map(|(key, _)| key));
    for (key, lifetime) in expected {
        expires_after(&server, key, lifetime);
    }
    let fence = || server.cli(&["GET", "{online-fans:42}:fence"]);
    let SliceSize {
        version,
        incarnation,
        ..
    } = size;
    assert_eq!(fence(), format!("open:1:{version}:{incarnation}:2-0:1:1:1"));
    let hash = |name: &str| {
        let all = server.cli(&["HGETALL", &format!("{{online-fans:42}}:{name}")]);
        let all: Vec<_> = all.lines().map(str::to_owned).collect();
        let mut pairs: Vec<_> = all.chunks(2).map(|pair| pair.join(" is ")).collect();
        pairs.sort();
        pairs
    };
    assert_eq!(hash("gateways"), ["a is 1:2"]);
    assert_eq!(hash("who"), ["u000000 is 1 1f", "u000001 is 1 1"]);
    assert_eq!(server.cli(&["SCARD", "online-fans:42"]), "1");
    assert_eq!(server.cli(&["SCARD", "{online-fans:42}:viewers"]), "2");
    Caller::new(&store, "b").says_some(&users(1, 2)).await;
    assert_eq!(hash("gateways"), ["a is 1:2", "b is 2:1+"]);
    assert_eq!(hash("who"), ["u000000 is 1 1f", "u000001 is 1 1 2f"]);
    a.says_bye().await;
    assert!(fence().ends_with(":2-0:2:1:2"), "{}", fence());
    assert_eq!(hash("gateways"), ["b is 2:1+"]);
}

#[tokio::test]
async fn the_claims_on_users_of_the_platform_say_where_they_are() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    let mut a = Caller {
        slice: users_slice(user(1).slice_index(USERS_SLICES)),
        ..Caller::new(&store, "a")
    };
    let key = format!("{{online-users_slice{}}}:who", a.slice.index);
    for (lives, value) in [(vec![], " 1="), (vec![live("7"), live("5")], " 1=7,5")] {
        let call = Apply {
            lives: vec![lives],
            ..a.next(a.entry, &users(1, 2), &[])
        };
        a.makes(&call).await;
        assert_eq!(server.cli(&["HGET", &key, user(1).as_str()]), value);
    }
}

#[tokio::test]
async fn after_a_close_only_the_fence_is_left_for_a_day() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    for name in ["a", "b", "c"] {
        Caller::new(&store, name).registers(&users(0, 2)).await;
    }
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(keys(&server), ["{online-fans:42}:fence"]);
    assert_eq!(
        server.cli(&["GET", "{online-fans:42}:fence"]),
        "closed:1:2-0:2:2"
    );
    expires_after(&server, "{online-fans:42}:fence", 24 * HOUR);
    Caller::new(&store, "a")
        .in_epoch(2)
        .registers(&users(0, 1))
        .await;
    assert!(ttl(&server, "{online-fans:42}:fence") > 24 * HOUR);
}

#[tokio::test]
async fn a_live_is_a_hash_on_a_list_and_its_record_stays_for_as_long_as_told() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    let wish = OpenLive {
        slices: 8,
        ..wish("42")
    };
    let record = opened_as(&store, &wish).await;
    assert_eq!(
        keys(&server),
        ["live:42", "lives", "{lives}:by_fans", "{lives}:by_viewers"]
    );
    let field = |name: &str| server.cli(&["HGET", "live:42", name]);
    let (epoch, opened_at) = (record.epoch.to_string(), record.opened_at.to_string());
    let expected = [
        ("state", "open"),
        ("streamer_id", "u000009"),
        ("epoch", epoch.as_str()),
        ("slices", "8"),
        ("opened_at", opened_at.as_str()),
        ("opened_by", "service"),
        ("peak_viewers", "0"),
        ("peak_fans", "0"),
        ("closed_at", ""),
        ("title", ""),
        ("counted_at", ""),
        ("info_version", ""),
    ];
    for (name, value) in expected {
        assert_eq!(field(name), value, "{name}");
    }
    assert_eq!(server.cli(&["ZSCORE", "lives", "42"]), opened_at);
    assert_eq!(ttl(&server, "live:42"), -1);
    let peaks = peaks(5, 2);
    let end = CloseLive {
        reason: CloseReason::StreamerTimeout,
        peaks,
        ..end(&record)
    };
    store.begin_close(&end).await.unwrap();
    assert_eq!(
        (field("state").as_str(), ttl(&server, "live:42")),
        ("closing", -1)
    );
    finish_close(
        &store,
        &live("42"),
        record.epoch,
        Duration::from_secs(100 * 3_600),
    )
    .await
    .unwrap();
    let now = ["state", "reason", "peak_viewers", "peak_fans"].map(field);
    assert_eq!(now, ["closed", "streamer_timeout", "5", "2"]);
    expires_after(&server, "live:42", 100 * HOUR);
    assert_eq!(keys(&server), ["live:42"]);
    let next = opened_as(&store, &wish).await;
    assert_eq!(
        (field("epoch"), ttl(&server, "live:42")),
        (next.epoch.to_string(), -1)
    );
}

#[tokio::test]
async fn the_newest_point_of_a_history_is_in_the_record_until_its_time_is_over() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    let record = opened(&store, "42").await;
    let (of, history) = (
        record.live_epoch(),
        format!("{{live:42}}:history@{}", record.epoch),
    );
    let count = async |n: u64| {
        let (figures, arrived) = (figures(n, 0), arrived(n, 0));
        let (live, peaks) = (live("42"), Peaks::default());
        store
            .count_live(&CountLive {
                live,
                epoch: record.epoch,
                figures,
                peaks,
                arrived,
            })
            .await
            .unwrap()
    };
    let counted_at = || {
        server
            .cli(&["HGET", "live:42", "counted_at"])
            .parse::<u64>()
    };
    let points = async |from, to| {
        let points = store.history(&of, from, to).await.unwrap();
        points
            .iter()
            .map(|point| (point.at, point.figures.viewers, point.arrived.joins))
            .collect::<Vec<_>>()
    };
    let now = || counted_at().unwrap() / 10_000 * 10_000;
    assert_eq!(count(1).await, CountReply::Counted);
    assert_eq!(server.cli(&["EXISTS", &history]), "0");
    assert_eq!(points(0, u64::MAX).await, [(now(), 1, 1)]);
    assert_eq!(
        (
            points(0, now() - 1).await,
            points(now() + 1, u64::MAX).await
        ),
        (vec![], vec![])
    );

    let set_clock = |at: &str| server.cli(&["HSET", "live:42", "counted_at", at]);
    set_clock("20001");
    assert_eq!(count(2).await, CountReply::Counted);
    assert_eq!(server.cli(&["XLEN", &history]), "1");
    expires_after(&server, &history, 720 * HOUR);
    assert_eq!(points(0, u64::MAX).await, [(20_000, 1, 1), (now(), 2, 2)]);
    // The clock went back: the newest point goes on.
    set_clock("10001");
    assert_eq!(count(3).await, CountReply::Counted);
    assert_eq!(points(0, u64::MAX).await, [(20_000, 2, 2), (now(), 3, 3)]);
    assert_eq!(points(20_000, 20_000).await, [(20_000, 2, 2)]);

    let last = now();
    store.begin_close(&end(&record)).await.unwrap();
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(
        (server.cli(&["XLEN", &history]), counted_at().is_err()),
        ("2".to_owned(), true)
    );
    assert_eq!(count(4).await, CountReply::NotOpen);
    assert_eq!(points(0, u64::MAX).await, [(20_000, 2, 2), (last, 3, 3)]);
    finish_close(&store, &live("42"), record.epoch, Duration::from_secs(100))
        .await
        .unwrap();
    assert!((1..=100).contains(&ttl(&server, &history)));
}

#[tokio::test]
async fn what_gateways_say_of_themselves_expires() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    let slice = streamers_slice(7);
    Caller::new(&store, "a")
        .in_slice(slice)
        .registers(&[user(9)])
        .await;
    let renewal = renewal("a", None, 1);
    let leases = renewed(&store, &renewal).await;
    store.end_lease(&gateway("b")).await.unwrap();
    let of_streamers = [
        "{online-streamers_slice7}:gateways",
        "{online-streamers_slice7}:who",
    ];
    let fence = "{online-streamers_slice7}:fence";
    assert_eq!(
        keys(&server),
        [
            "online-streamers_slice7",
            "rollcall:leases",
            fence,
            of_streamers[0],
            of_streamers[1]
        ]
    );
    assert_eq!(
        server.cli(&["SMEMBERS", "online-streamers_slice7"]),
        "u000009"
    );
    let born = leases.own.born;
    assert_eq!(
        server.cli(&["HGET", "rollcall:leases", "a"]),
        format!("{born}:{born}:1:")
    );
    assert!(
        server
            .cli(&["HGET", "rollcall:leases", "b"])
            .starts_with("dead:")
    );
    let lifetimes = [
        ("online-streamers_slice7", 6),
        (of_streamers[0], 6),
        (of_streamers[1], 6),
        (fence, 720),
        ("rollcall:leases", 48),
    ];
    for (key, hours) in lifetimes {
        expires_after(&server, key, hours * HOUR);
    }
}

/// The platform may write the follow graph itself, with its own scores and its own idea of an id.
#[tokio::test]
async fn a_follow_graph_of_the_platforms_own_is_read() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    for (score, fan) in [
        ("1", "u000001"),
        ("1", "u000002"),
        ("2.5", "u000003"),
        ("-7", "u000004"),
        ("2.5", "not an id"),
    ] {
        server.cli(&["ZADD", "followers:u000009", score, fan]);
    }
    assert_eq!(store.follower_count(&user(9)).await.unwrap(), 5);
    assert_eq!(
        store.follows(&user(9), &users(0, 3)).await.unwrap(),
        [false, true, true]
    );
    let paged =
        paged(async |last| store.follow_page(&user(9), Edge::Followers, last, 1).await).await;
    let seen: Vec<_> = paged.iter().map(|entry| entry.user.clone()).collect();
    assert_eq!(seen, [user(3), user(2), user(1), user(4)]);
    // Half an edge is made whole by following again, and goes away whole.
    assert!(!store.follow(&user(1), &user(9)).await.unwrap());
    assert_eq!(server.cli(&["ZCARD", "following:u000001"]), "1");
    assert!(store.unfollow(&user(1), &user(9)).await.unwrap());
    assert_eq!(server.cli(&["EXISTS", "following:u000001"]), "0");
}

/// Scripts that do the most work there is, on a slice of 100,000: none may hold the server up.
#[tokio::test]
async fn no_call_on_a_big_slice_holds_the_server_up() {
    const LIMIT_US: &str = "50000";
    let server = RedisServer::start_with(&["--slowlog-log-slower-than", LIMIT_US]).await;
    let store = redis(&server).await;
    let everybody = users(0, 100_000);
    let mut callers: Vec<Caller> = ["a", "b", "c"].map(|name| Caller::new(&store, name)).into();
    for caller in &mut callers {
        caller.registers(&[]).await;
    }
    for (n, batch) in everybody.chunks(1_000).enumerate() {
        callers[n % 2].joins(batch).await;
        // Half of them on a second gateway too, so that leaves and sweeps have somebody to ask.
        callers[2].joins(&batch[..500]).await;
    }
    callers[0].leaves(&everybody[..1_000]).await;
    let swept = sweep(&store, &slice(), 1, &[("b", 0)]).await;
    assert_eq!(swept.released, 50_000);
    let before = swept.size.card as usize;
    assert_eq!(fans(&store, &slice()).await.len(), before);
    let passed = passes(&store, callers[0].pass()).await.unwrap();
    assert!(passed.size == swept.size && passed.pages >= 300);

    let pings = tokio::spawn(slowest_ping(Arc::clone(&store)));
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert!(!callers[0].looks().await.has_keys);
    let slowest = pings.await.unwrap();
    assert!(
        slowest.as_millis() < 500,
        "a parallel call took {slowest:?}"
    );
    assert_eq!(
        server.cli(&["SLOWLOG", "GET", "10"]),
        "",
        "calls of more than {LIMIT_US} µs"
    );
}

/// A call as small as a PING, over and over beside a close.
async fn slowest_ping(store: Arc<dyn WholeStore>) -> std::time::Duration {
    let mut slowest = std::time::Duration::ZERO;
    for _ in 0..200 {
        let asked = tokio::time::Instant::now();
        store
            .is_member(&slice(), Group::Fans, &user(1))
            .await
            .unwrap();
        slowest = slowest.max(asked.elapsed());
    }
    slowest
}

#[tokio::test]
async fn events_that_a_webhook_did_not_take_or_is_sent_again_go_after_a_month() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    let month = 30 * 24 * HOUR;
    let queue = WebhookQueue {
        webhook: WebhookName::parse("crm").unwrap(),
        kind: QueueKind::Replay,
    };
    let replay = "{rollcall:events}:replay:crm";
    let dead = "{rollcall:events}:dead:crm";
    let one = gateway("one");
    reads_new(&store, &queue, &one).await;
    let exists = server.cli(&["EXISTS", replay]);
    assert_eq!(exists, "0", "a look makes no key that never expires");
    for key in [replay, dead] {
        server.cli(&["XADD", key, "1000-0", "id", "of long ago"]);
    }
    let event = Event {
        id: "42:1:live.opened:1".to_owned(),
        kind: EventKind::LiveOpened,
        about: About::Live(live("42")),
        data: "{}".to_owned(),
    };
    let events = std::slice::from_ref(&event);
    let webhook = &queue.webhook;
    store.replay_events(webhook, events, 100).await.unwrap();
    let events = reads_new(&store, &queue, &one).await;
    let given_up = given_up(event);
    let buried = store.bury_event(&queue, &one, events[0].entry, &given_up, 100);
    assert_eq!(buried.await.unwrap(), BuryReply::Buried);
    for key in [replay, dead] {
        assert_eq!(server.cli(&["XLEN", key]), "1", "{key}");
        expires_after(&server, key, month);
    }
    let listed = store.dead_events(webhook, None, 10).await.unwrap();
    server.cli(&["PERSIST", replay]);
    assert!(store.replay_dead(webhook, listed[0].0).await.unwrap());
    expires_after(&server, replay, month);
}
