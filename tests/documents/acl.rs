//! The ACL rule that docs/redis.md gives to operators: a gateway under it can do everything, and needs all of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rollcall::config::Secret;
use rollcall::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use rollcall::metrics::Metrics;
use rollcall::store::redis::RedisStore;
use rollcall::store::{
    Apply, Channel, CheckSlice, CloseLive, CloseReason, Edge, Entry, Followed, Follows, Found, Heard, HeldSlice,
    Leases, ListedLive, Lives, Moderation, OpenLive, OpenReply, OpenedBy, Peaks, RemoveReply, RemoveUser, Renewal,
    Renewals, SayViewers, Slices, Strays, Survey, Surveys, TouchLive, Viewers, Wire,
};

use super::{between, read};
use crate::redis_server::RedisServer;

/// Calls that a library or a server makes or allows by itself: no part of the rule.
const BY_ITSELF: &[&str] = &[
    "acl|setuser",
    "auth",
    "client|id",
    "config|resetstat",
    "info",
    "ping",
    "pubsub|shardnumsub",
    "select",
    "quit",
    "hello",
];

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

/// Everything that a store can be asked, so that each command of each script is run once.
async fn everything(store: &RedisStore, redis: &RedisServer) {
    let live = LiveId::parse("42").unwrap();
    let wish = OpenLive { live: live.clone(), streamer: user("s1"), slices: 2, by: OpenedBy::Streamer };
    let OpenReply::Opened(record) = store.open_live(&wish).await.unwrap() else { panic!("opened") };
    store.open_live(&wish).await.unwrap();
    store.load_live(&live).await.unwrap();
    let touch = TouchLive {
        record: rollcall::store::LiveRecord { peaks: Peaks { viewers: 5, fans: 5 }, ..record.clone() },
        streamer_heard: true,
        relist: true,
    };
    store.touch_live(&touch).await.unwrap();
    redis.cli(&["DEL", "live:42"]);
    store.touch_live(&touch).await.unwrap();
    store.streamer_silent(&live).await.unwrap();
    for after in ["41", "42"] {
        let after = ListedLive { live: LiveId::parse(after).unwrap(), opened_at: record.opened_at };
        store.lives_page(Some(&after), 10).await.unwrap();
    }

    let slice = SliceId { live: live.clone(), index: 1, of: 2 };
    let (one, other) = (GatewayId::random(), GatewayId::random());
    let fans = [user("u1"), user("u2")];
    let lease = Duration::from_secs(15);
    let call = |gateway: &GatewayId, number, entry, joins: &[UserId], leaves: &[UserId]| Apply {
        slice: slice.clone(),
        epoch: record.epoch,
        gateway: gateway.clone(),
        number,
        entry,
        joins: joins.to_vec(),
        leaves: leaves.to_vec(),
        lease,
    };
    store.apply(&call(&one, 1, Entry::Register, &fans, &[])).await.unwrap();
    store.apply(&call(&other, 1, Entry::Register, &fans, &[])).await.unwrap();
    store.apply(&call(&one, 2, Entry::Keep, &[], &[])).await.unwrap();
    store.apply(&call(&one, 3, Entry::Keep, &[], &fans)).await.unwrap();
    store.apply(&call(&one, 4, Entry::Release, &[], &[])).await.unwrap();
    store.view_slice(&slice, lease).await.unwrap();
    store.fence(&slice).await.unwrap();
    store.held_page(&slice, &other, 0).await.unwrap();
    store.fans_page(&slice, 0).await.unwrap();
    let check = CheckSlice { slice: slice.clone(), holder: Some(other.clone()), cursor: 0, strays: Strays::Drop };
    store.check_slice(&check).await.unwrap();
    assert!(store.is_fan_online(&slice, &fans[0]).await.unwrap());
    store.sweep(&slice, &other, Duration::ZERO).await.unwrap();
    assert!(!store.is_fan_online(&slice, &fans[0]).await.unwrap());

    let say = |number| SayViewers {
        live: live.clone(),
        epoch: record.epoch,
        gateway: one.clone(),
        viewers: 2,
        number,
        keep: lease,
    };
    store.say_viewers(&say(1)).await.unwrap();
    store.view_viewers(&live, record.epoch, lease).await.unwrap();
    let renewal = |fans| Renewal {
        live: live.clone(),
        epoch: record.epoch,
        removals: 0,
        streamer_heard: true,
        relist: Some(record.opened_at),
        glance: false,
        slices: vec![HeldSlice { slice: slice.clone(), fans, number: 5 }],
        viewers: 2,
        word: 1,
    };
    assert_eq!(store.renew(&one, &[renewal(0)]).await, [Found::Still]);
    store.apply(&call(&one, 5, Entry::Register, &fans, &[])).await.unwrap();
    assert_eq!(store.renew(&one, &[renewal(2)]).await, [Found::Still]);
    // What stands under an own lease is read with it.
    store.renew_own_lease(&one, lease, 0).await.unwrap().unwrap();
    assert_eq!(store.renew(&one, &[Renewal { glance: true, ..renewal(2) }]).await, [Found::Still]);
    store.view_slice(&slice, lease).await.unwrap();
    store.view_viewers(&live, record.epoch, lease).await.unwrap();
    assert_eq!(store.sweep(&slice, &one, lease).await.unwrap().released, 0);
    let survey = Survey { lease, streamer: lease };
    let small = OpenLive { live: LiveId::parse("43").unwrap(), slices: 1, ..wish.clone() };
    store.open_live(&small).await.unwrap();
    assert_eq!(store.survey(&[live.clone(), small.live], survey).await.unwrap(), [true, false]);
    store.forget_viewers(&live, &one, 1).await.unwrap();
    store.close_viewers(&live, record.epoch).await.unwrap();

    let mut removal = RemoveUser { live: live.clone(), epoch: record.epoch, user: user("u1"), ban: Some(lease) };
    assert!(matches!(store.remove_user(&removal).await.unwrap(), RemoveReply::Done { .. }));
    store.lift_ban(&live, record.epoch, &removal.user).await.unwrap();
    store.restore_bans(&live, record.epoch, &[(user("u2"), lease)]).await.unwrap();
    assert_eq!(store.removals_since(&live, record.epoch, 0).await.unwrap().unwrap().changes.len(), 2);
    assert_eq!(store.bans_page(&live, None, 10).await.unwrap().len(), 1);
    removal.ban = Some(Duration::from_millis(1));
    store.remove_user(&removal).await.unwrap();

    let mut hearing = store.hear();
    store.listen(&live);
    while hearing.next().await != Some(Heard::Ready(Channel::Live(live.clone()))) {}
    store.tell(&Channel::Live(live.clone()), "word".to_owned()).await.unwrap();
    store.tell(&Channel::Gateways, "word".to_owned()).await.unwrap();
    store.unlisten(&live);
    let let_go = async {
        while redis.cli(&["PUBSUB", "SHARDNUMSUB", "rollcall:{42}"]) != "rollcall:{42}\n0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(8), let_go).await.expect("the channel is let go of");

    for fan in &fans {
        assert!(store.follow(fan, &user("s1")).await.unwrap());
    }
    assert_eq!(store.follows(&user("s1"), &fans).await.unwrap(), [true, true]);
    assert_eq!(store.follower_count(&user("s1")).await.unwrap(), 2);
    let first = store.follow_page(&user("s1"), Edge::Followers, None, 1).await.unwrap();
    for last in [first[0].clone(), Followed { user: user("gone"), at: first[0].at }] {
        store.follow_page(&user("s1"), Edge::Followers, Some(&last), 10).await.unwrap();
    }
    assert!(store.unfollow(&fans[0], &user("s1")).await.unwrap());

    store.take_sweeper_turn(&one, lease).await.unwrap();
    let close =
        CloseLive { live: live.clone(), epoch: Epoch(1), reason: CloseReason::Requested, peaks: Peaks::default() };
    store.begin_close(&close).await.unwrap();
    store.close_slice(&slice, record.epoch).await.unwrap();
    store.finish_close(&live, Epoch(1)).await.unwrap();
    redis.cli(&["ZADD", "lives", "1", "42"]);
    store.delist(&live).await.unwrap();
    assert!(matches!(store.open_live(&wish).await, Ok(OpenReply::Opened(_))));
}

#[tokio::test]
async fn the_rule_allows_what_a_gateway_does_and_nothing_else() {
    let redis = RedisServer::start().await;
    let text = read("docs/redis.md");
    let rule = between(&text, "```acl", "```").expect("docs/redis.md has a block of acl");
    let words: Vec<&str> =
        rule.split_whitespace().map(|word| if word == ">PASSWORD" { ">secret" } else { word }).collect();
    assert_eq!(redis.cli(&words), "OK", "{rule}");
    redis.cli(&["CONFIG", "RESETSTAT"]);

    let url = Secret::new(format!("redis://rollcall:secret@{}", redis.addr()));
    let store = RedisStore::connect(&url, Arc::new(Metrics::default())).await.unwrap();
    everything(&store, &redis).await;
    drop(store);

    let refused = redis.cli(&["ACL", "LOG"]);
    assert!(refused.is_empty(), "refused: {refused}");
    let stats = redis.cli(&["INFO", "commandstats"]);
    let used: BTreeSet<&str> = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next())
        .filter(|command| !BY_ITSELF.contains(command))
        .collect();
    let granted: BTreeSet<&str> =
        words.iter().filter_map(|word| word.strip_prefix('+')).filter(|command| !BY_ITSELF.contains(command)).collect();
    let idle: Vec<_> = granted.difference(&used).collect();
    assert!(idle.is_empty(), "granted and never used: {idle:?}; used: {used:?}");
}
