//! The ACL rules that docs/redis.md gives to operators: gateways and audits under them can do
//! everything, and need all of them.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::event_kind::EventKind;
use rollcall::base::ids::{
    Epoch, GatewayId, Group, ListName, LiveId, Login, OnlineSet, PostId, SliceId, USERS_SLICES,
    UserId,
};
use rollcall::base::key_prefix::KeyPrefix;
use rollcall::base::media_event::{StreamNews, StreamSession};
use rollcall::base::media_server::MediaServerName;
use rollcall::base::metrics::Metrics;
use rollcall::base::secret::Secret;
use rollcall::base::session_key::{KEY_BYTES, SessionKey};
use rollcall::base::webhook_name::WebhookName;
use rollcall::config::{AttendanceForm, Config, SeenIds};
use rollcall::store::redis::{Access, RedisStore};
use rollcall::store::{
    About, AnswerName, Answers, Apply, ApplyReply, Arrived, Attendance, AttendanceQuestion,
    Attending, Burial, BuryReply, Bus, BusEvent, ChangeLive, ChangeReply, Channel, CheckLive,
    Checks, CloseLive, CloseReason, CloseReply, CountLive, CountReply, Counts, DeadEvent,
    Deliveries, Delivery, Edge, EndedSession, Entries, Entry, EntryId, Erasures, Event, EventAges,
    Events, ExpectedSlice, FanoutJobs, FanoutTask, Figures, FinishClose, FinishedChanges, Followed,
    Follows, Heard, History, Job, LastSeen, LeaseReply, LeaseStore, LiftBan, ListedLive,
    LiveChange, LiveRecord, LiveStore, MAX_EVENTS, MAX_TIMELINE, Moderation, NotedCounts,
    OnlineUsers, OpenLive, OpenReply, OpenedBy, Over, Pass, Peaks, Post, Profiles, PutInList,
    QueueKind, Rank, ReadEvents, ReadFrom, RemoveReply, RemoveUser, RenewLease, SenderTurn,
    SessionEnds, Sessions, SharedSecrets, SliceSize, Slices, Span, Standing, StatusId, Statuses,
    StreamChange, StreamStore, Streams, StreamsReply, Summary, Terms, Timeline, Timelines, Uniques,
    UserLists, WebhookQueue, WriteStreams, find_attendees,
};
use tokio::time::Instant;

use super::{read, root};
use crate::program::Program;
use crate::redis_server::RedisServer;
use crate::socket::Socket;
use crate::wait::{PATIENCE, until};

/// Calls that a library or a server makes or allows by itself: no part of the rule.
const BY_ITSELF: &[&str] = &[
    "acl|log",
    "acl|setuser",
    "auth",
    "client|id",
    "config|resetstat",
    "flushall",
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

/// The words of each rule in the document, in its order: for gateways, for a cluster, for audits.
fn rules() -> Vec<Vec<String>> {
    let text = read("docs/redis.md");
    let blocks = text
        .split("```acl")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let word = |word: &str| {
        if word == ">PASSWORD" {
            ">secret".to_owned()
        } else {
            word.to_owned()
        }
    };
    let rules: Vec<Vec<String>> = blocks
        .map(|block| block.split_whitespace().map(word).collect())
        .collect();
    assert_eq!(
        rules.len(),
        3,
        "docs/redis.md has a rule for gateways, one for a cluster and one for audits"
    );
    rules
}

fn set(redis: &RedisServer, rule: &[String]) {
    let words: Vec<&str> = rule.iter().map(String::as_str).collect();
    assert_eq!(redis.cli(&words), "OK", "{rule:?}");
}

/// What the server did not allow.
fn refused(redis: &RedisServer) -> String {
    redis.cli(&["ACL", "LOG"])
}

fn commands(rule: &[String]) -> BTreeSet<&str> {
    rule.iter()
        .filter_map(|word| word.strip_prefix('+'))
        .filter(|command| !BY_ITSELF.contains(command))
        .collect()
}

async fn under_the_rule(redis: &RedisServer, prefix: KeyPrefix) -> RedisStore {
    let url = Secret::new(format!("redis://rollcall:secret@{}", redis.addr()));
    RedisStore::open(
        Access {
            url,
            prefix,
            ca: None,
        },
        Arc::new(Metrics::default()),
    )
    .await
    .unwrap()
}

/// Everything that a store can be asked, so that each command of each script is run once.
async fn everything(store: &RedisStore, redis: &RedisServer, prefix: &str) {
    let record = lives(store, redis, prefix).await;
    slices(store, &record, OnlineSet::Live(record.live.clone())).await;
    slices(store, &record, OnlineSet::Users).await;
    slices(store, &record, OnlineSet::Streamers).await;
    store
        .note_seen(&[(user("u1"), 1)], Duration::ZERO)
        .await
        .unwrap();
    gateways(store).await;
    moderation(store, &record).await;
    words(store, (redis, prefix), &record.live).await;
    follows(store).await;
    users(store).await;
    events(store, &record).await;
    feeds(store, redis, prefix).await;
    attendance(redis, &KeyPrefix::parse(prefix).unwrap(), &record).await;
    close(store, (redis, prefix), &record).await;
    erasure(store, redis, prefix).await;
}

/// The erasure of the streamer, of whom something is in keys of most kinds by now, and of a fan.
async fn erasure(store: &RedisStore, redis: &RedisServer, prefix: &str) {
    let live = format!("{prefix}live:43");
    redis.cli(&["HSET", &live, "state", "closed"]);
    let worker = GatewayId::random();
    for user in [user("s1"), user("u1")] {
        let id = store.ask_erasure(&user).await.unwrap();
        let news = store.erasure_news(0).await.unwrap();
        assert_eq!(news.running, [(user.clone(), id.clone())]);
        let mut taken = store.take_erasure(&worker).await.unwrap().unwrap();
        assert!(store.keep_erasure(&worker, &taken).await.unwrap());
        let mut place = String::new();
        loop {
            let step = store.erase_some(&user, &place).await.unwrap();
            taken.progress.add(&step);
            match step.next {
                Some(next) => place = next,
                None => break,
            }
        }
        store.finish_erasure(&worker, &taken).await.unwrap();
        assert!(store.erasure(&id).await.unwrap().unwrap().ended.is_some());
    }
    assert_eq!(redis.cli(&["EXISTS", &live]), "0");
}

fn wish() -> OpenLive {
    let (live, streamer) = (LiveId::parse("42").unwrap(), user("s1"));
    let (title, streamer_timeout) = (Some("of two".to_owned()), Some(Duration::from_secs(60)));
    let terms = Terms {
        title,
        streamer_timeout,
        attendance: true,
        invisible: false,
    };
    let (by, message) = (OpenedBy::Streamer, "word".to_owned());
    OpenLive {
        live,
        streamer,
        slices: 2,
        by,
        terms,
        message,
    }
}

async fn streams(store: &RedisStore, record: &LiveRecord) {
    let heard = Heard::new(
        MediaServerName::parse("main").unwrap(),
        StreamSession::Unique("a".to_owned()),
        StreamNews::Publish,
    );
    let request = WriteStreams {
        live: record.live.clone(),
        seen: 0,
        streams: Streams::default().begin(&heard, record.epoch, 1),
        epoch: record.epoch,
        must_be_open: true,
        change: Some((StreamChange::Started, heard.server)),
        message: Some("word".to_owned()),
    };
    let written = store.write_streams(&request).await.unwrap();
    assert!(matches!(written, StreamsReply::Written(Some(_))));
    assert!(store.load_streams(&record.live).await.unwrap().version > 0);
    let lifetime = Duration::from_secs(60);
    let noted = store
        .note_publishing("0", &record.live.clone().into(), lifetime)
        .await;
    noted.unwrap();
    store.find_publishing("0").await.unwrap();
}

async fn lives(store: &RedisStore, redis: &RedisServer, prefix: &str) -> LiveRecord {
    let OpenReply::Opened(record) = store.open_live(&wish()).await.unwrap() else {
        panic!("opened")
    };
    store
        .open_live(&OpenLive {
            live: LiveId::parse("43").unwrap(),
            slices: 1,
            ..wish()
        })
        .await
        .unwrap();
    store.load_live(&record.live).await.unwrap();
    let told = LiveRecord {
        peaks: Peaks {
            viewers: 5,
            fans: 5,
        },
        ..record.clone()
    };
    assert_eq!(
        store.keep_live(&told, "word").await.unwrap(),
        Standing::Open {
            removals: 0,
            version: 0
        }
    );
    let change = ChangeLive {
        live: record.live.clone(),
        epoch: record.epoch,
        change: LiveChange {
            info: Some(Some("{}".into())),
            title: Some(Some("of three".to_owned())),
            streamer_timeout: Some(None),
        },
        message: "word".to_owned(),
    };
    assert!(matches!(
        store.change_live(&change).await.unwrap(),
        ChangeReply::Changed(_)
    ));
    streams(store, &record).await;
    let (figures, peaks) = (
        Figures {
            viewers: 1,
            fans: 1,
        },
        Peaks {
            viewers: 6,
            fans: 5,
        },
    );
    let arrived = Arrived {
        joins: 1,
        leaves: 0,
    };
    let count = CountLive {
        live: record.live.clone(),
        epoch: record.epoch,
        figures,
        peaks,
        arrived,
    };
    assert_eq!(store.count_live(&count).await.unwrap(), CountReply::Counted);
    // The point of the record goes into the history, and then one that the clock's going back makes
    // older.
    for (at, joins) in [("20000", 2), ("10000", 3)] {
        redis.cli(&["HSET", &format!("{prefix}live:42"), "counted_at", at]);
        let more = CountLive {
            arrived: Arrived { joins, leaves: 0 },
            ..count.clone()
        };
        assert_eq!(store.count_live(&more).await.unwrap(), CountReply::Counted);
    }
    assert!(
        !store
            .history(&record.live_epoch(), 0, u64::MAX)
            .await
            .unwrap()
            .is_empty()
    );
    store
        .rank_lives(&[(record.live.clone(), figures)])
        .await
        .unwrap();
    assert_eq!(
        store
            .ranked_figures(std::slice::from_ref(&record.live))
            .await
            .unwrap(),
        [Some(figures)]
    );
    store.top_lives(Rank::Viewers, None, 10).await.unwrap();
    redis.cli(&["DEL", &format!("{prefix}live:42")]);
    assert_eq!(
        store.keep_live(&told, "word").await.unwrap(),
        Standing::Rewritten
    );
    store
        .list_live(&record.live, record.opened_at)
        .await
        .unwrap();
    for after in ["41", "42"] {
        let after = ListedLive {
            live: LiveId::parse(after).unwrap(),
            opened_at: record.opened_at,
        };
        store.lives_page(Some(&after), 10).await.unwrap();
    }
    record
}

async fn slices(store: &RedisStore, record: &LiveRecord, set: OnlineSet) {
    let slice = SliceId {
        set,
        index: 1,
        of: 2,
    };
    let (one, other) = (GatewayId::random(), GatewayId::random());
    let fans = [user("u1"), user("u2")];
    let lives = [record.live.clone()];
    let has_fans = slice.set.groups().contains(&Group::Fans);
    let call = |gateway: &GatewayId, number, follows, joins: &[UserId], leaves: &[UserId]| Apply {
        slice: slice.clone(),
        epoch: record.epoch,
        gateway: gateway.clone(),
        number,
        follows,
        known: SliceSize::default(),
        more: false,
        bye: false,
        uniques: slice.set.live().is_some(),
        joins: joins.to_vec(),
        fans: Vec::new(),
        since: if slice.set.live().is_some() {
            vec![1; joins.len()]
        } else {
            Vec::new()
        },
        lives: if slice.set == OnlineSet::Users {
            vec![lives.to_vec(); joins.len()]
        } else {
            Vec::new()
        },
        left: slice.set.live().map(|_| vec![1; leaves.len()]),
        leaves: leaves.to_vec(),
    };
    let join_as_fans = |gateway: &GatewayId| {
        let call = call(gateway, 1, None, &fans, &[]);
        if has_fans {
            Apply {
                joins: Vec::new(),
                fans: fans.to_vec(),
                ..call
            }
        } else {
            call
        }
    };
    for call in [
        join_as_fans(&one),
        join_as_fans(&other),
        // They are no fans any more, by this gateway.
        call(&one, 2, Some(1), &fans, &[]),
        call(&one, 3, Some(2), &[], &fans),
        call(&one, 4, Some(3), &[], &[]),
    ] {
        assert!(
            matches!(store.apply(&call).await.unwrap(), ApplyReply::Done(_)),
            "{call:?}"
        );
    }
    for entries in [Entries::Own, Entries::All] {
        store
            .look(std::slice::from_ref(&slice), &one, entries)
            .await
            .remove(0)
            .unwrap();
    }
    store.claims_page(&slice, 0).await.unwrap();
    for group in slice.set.groups() {
        store.members_page(&slice, *group, 0).await.unwrap();
        assert!(store.is_member(&slice, *group, &fans[0]).await.unwrap());
        assert_eq!(
            store.are_members(&slice, *group, &fans).await.unwrap(),
            [true; 2]
        );
    }
    store.since_of(&slice, &fans).await.unwrap();
    let expected = ExpectedSlice {
        slice: slice.clone(),
        epoch: record.epoch,
        entry: Some(4),
        size: SliceSize {
            card: 2,
            fans: if has_fans { 2 } else { 0 },
            ..SliceSize::default()
        },
    };
    let live = CheckLive {
        live: record.live.clone(),
        epoch: record.epoch,
        listed: true,
        removals: 0,
        version: 0,
        counted: Some(Figures::default()),
        slices: vec![expected],
    };
    for checked in store.check(&one, &[live]).await {
        checked.complete.unwrap();
    }
    let mut pass = Pass {
        slice: slice.clone(),
        epoch: record.epoch,
        known: SliceSize::default(),
        wrong: None,
        dead: vec![(other, 0)],
        from: None,
        only_claims: false,
    };
    while let Some(next) = store.pass(&pass).await.unwrap().unwrap().next {
        pass.from = Some(next);
    }
    assert!(!store.is_member(&slice, Group::All, &fans[0]).await.unwrap());
    store.close_slice(&slice, record.epoch).await.unwrap();
}

/// What a gateway says of itself: that it lives.
async fn gateways(store: &RedisStore) {
    let (one, gone) = (GatewayId::random(), GatewayId::random());
    let first = RenewLease {
        gateway: one.clone(),
        held: None,
        number: 1,
        unheard: BTreeSet::new(),
        burials: Vec::new(),
    };
    assert_eq!(store.echo(&one, 1), BTreeSet::new());
    let LeaseReply::Renewed(leases) = store.renew_lease(&first).await.unwrap() else {
        panic!("renewed")
    };
    let burials = vec![Burial {
        gateway: gone.clone(),
        count: None,
    }];
    store
        .renew_lease(&RenewLease {
            held: Some(leases.own),
            number: 2,
            burials,
            ..first
        })
        .await
        .unwrap();

    assert!(
        store
            .take_walk_turn(&one, Duration::from_secs(4), &HashSet::new())
            .await
            .unwrap()
    );
    store.end_lease(&one).await.unwrap();
}

async fn moderation(store: &RedisStore, record: &LiveRecord) {
    let (live, epoch, ban) = (record.live.clone(), record.epoch, Duration::from_secs(15));
    let message = || "word".to_owned();
    let mut removal = RemoveUser {
        live: live.clone(),
        epoch,
        user: user("u1"),
        ban: Some(ban),
        by: None,
        is_told: true,
        message: message(),
    };
    assert!(matches!(
        store.remove_user(&removal).await.unwrap(),
        RemoveReply::Done { .. }
    ));
    let lifting = LiftBan {
        live: live.clone(),
        epoch,
        user: user("u1"),
        by: None,
        is_told: true,
        message: message(),
    };
    store.lift_ban(&lifting).await.unwrap();
    store
        .restore_bans(&live, epoch, &[(user("u2"), ban)])
        .await
        .unwrap();
    assert_eq!(
        store
            .removals_since(&live, epoch, 0)
            .await
            .unwrap()
            .unwrap()
            .changes
            .len(),
        2
    );
    assert_eq!(store.bans_page(&live, None, 10).await.unwrap().len(), 1);
    removal.ban = Some(Duration::from_millis(1));
    store.remove_user(&removal).await.unwrap();
}

async fn words(store: &RedisStore, (redis, prefix): (&RedisServer, &str), live: &LiveId) {
    let mut hearing = store.events();
    store.subscribe(live);
    while hearing.next().await != Some(BusEvent::Ready(Channel::Live(live.clone()))) {}
    store
        .publish(&Channel::Live(live.clone()), "word".to_owned())
        .await
        .unwrap();
    store
        .publish(&Channel::Gateways, "word".to_owned())
        .await
        .unwrap();
    store.hear_moves(live);
    while hearing.next().await != Some(BusEvent::Ready(Channel::Moves(live.clone()))) {}
    assert_eq!(
        store
            .publish(&Channel::Moves(live.clone()), "word".to_owned())
            .await
            .unwrap(),
        1
    );
    store.ignore_moves(live);
    store.unsubscribe(live);
    let channel = format!("{prefix}rollcall:{{{prefix}live:42}}");
    until("the channel is let go of", PATIENCE, || async {
        let heard = redis.cli(&["PUBSUB", "SHARDNUMSUB", &channel]);
        if heard == format!("{channel}\n0") {
            Ok(())
        } else {
            Err(heard)
        }
    })
    .await;
}

async fn follows(store: &RedisStore) {
    let fans = [user("u1"), user("u2")];
    for fan in &fans {
        assert!(store.follow(fan, &user("s1")).await.unwrap());
    }
    assert_eq!(
        store.follows(&user("s1"), &fans).await.unwrap(),
        [true, true]
    );
    assert_eq!(
        store.are_following(&[(user("u1"), user("s1"))]).await,
        [Ok(true)]
    );
    assert_eq!(store.follower_count(&user("s1")).await.unwrap(), 2);
    for login in ["Ann", "ann", "bob"] {
        let put = store
            .put_profile(&user("u1"), &Login::parse(login).unwrap(), "Ann")
            .await
            .unwrap();
        assert_eq!(
            store
                .profile(&user("u1"))
                .await
                .unwrap()
                .unwrap()
                .login
                .as_str(),
            login,
            "{put:?}"
        );
    }
    assert_eq!(
        store.finish_changes().await,
        (FinishedChanges::default(), Ok(()))
    );
    let first = store
        .follow_page(&user("s1"), Edge::Followers, None, 1)
        .await
        .unwrap();
    for last in [
        first[0].clone(),
        Followed {
            user: user("gone"),
            at: first[0].at,
        },
    ] {
        store
            .follow_page(&user("s1"), Edge::Followers, Some(&last), 10)
            .await
            .unwrap();
    }
    assert!(store.unfollow(&fans[0], &user("s1")).await.unwrap());
}

/// Events: written, sent, given up and replayed.
async fn events(store: &RedisStore, record: &LiveRecord) {
    let (live, kind) = (record.live.clone(), EventKind::LiveOpened);
    let told = |number: usize| Event {
        id: Event::id(&live, record.epoch, kind, number),
        kind,
        about: About::Live(live.clone()),
        data: "{}".to_owned(),
    };
    let event = told(1);
    store
        .append_events(&[event.clone(), told(2)], 100)
        .await
        .unwrap();
    store
        .settle_events(&[(live.clone(), vec![1])])
        .await
        .unwrap();
    let noted = store.note_counts(&live, record.epoch).await.unwrap();
    assert!(
        matches!(noted, NotedCounts::Noted(_) | NotedCounts::Same),
        "{noted:?}"
    );
    let gateway = GatewayId::random();
    let (turn, from) = (Duration::from_secs(6), ReadFrom::New);
    let queue = WebhookQueue {
        webhook: WebhookName::default(),
        kind: QueueKind::Stream,
    };
    let webhook = &queue.webhook;
    let request = ReadEvents {
        queue: queue.clone(),
        gateway: gateway.clone(),
        turn,
        begin: 0,
        from,
        count: 10,
    };
    let SenderTurn::Mine { events, .. } = store.read_events(&request).await.unwrap() else {
        panic!("its turn")
    };
    store
        .acknowledge_events(&queue, &[events[0].entry])
        .await
        .unwrap();
    let dead = DeadEvent {
        event,
        why: "it answered 500".to_owned(),
        attempts: 3,
    };
    let buried = store.bury_event(&queue, &gateway, events[1].entry, &dead, 100);
    assert_eq!(buried.await.unwrap(), BuryReply::Buried);
    let listed = store.dead_events(webhook, None, 10).await.unwrap();
    assert!(store.replay_dead(webhook, listed[0].0).await.unwrap());
    // The cap trims what nobody has read.
    for call in 1..=4 {
        let events: Vec<Event> = (0..MAX_EVENTS)
            .map(|n| told(call * MAX_EVENTS + n))
            .collect();
        store.append_events(&events, 100).await.unwrap();
    }
    let SenderTurn::Mine { lost, .. } = store.read_events(&request).await.unwrap() else {
        panic!("its turn")
    };
    assert!(lost > 0);
    let ages = EventAges {
        events: Duration::ZERO,
        audit: Duration::ZERO,
    };
    store.drop_old_events(&ages).await.unwrap();
    store.end_sending(&queue, &gateway).await.unwrap();
    let event = listed[0].1.event.clone();
    store.replay_events(webhook, &[event], 100).await.unwrap();
    store
        .events_after(EntryId::default(), u64::MAX)
        .await
        .unwrap();
    let delivery = Delivery {
        event_id: "42:1:live.opened:1".to_owned(),
        event_type: "live.opened".to_owned(),
        at: 1,
        attempt: 1,
        latency_ms: 5,
        status: Some(500),
        failure: Some("it answered 500".to_owned()),
    };
    store.note_deliveries(webhook, &[delivery]).await.unwrap();
    assert_eq!(store.deliveries(webhook, None, 10).await.unwrap().len(), 1);
    let status = store.webhook_status(webhook).await.unwrap();
    assert!(status.failed.is_some());
}

/// Users of the platform: when they were seen, where they are.
async fn users(store: &RedisStore) {
    let one = user("u1");
    let slice = one.slice_index(USERS_SLICES);
    store.fix_seen_ids(SeenIds::Text).await.unwrap();
    store
        .note_seen(&[(one.clone(), 5)], Duration::ZERO)
        .await
        .unwrap();
    let known = store.presence_of(std::slice::from_ref(&one)).await.unwrap();
    let words = store
        .whereabouts_of(std::slice::from_ref(&one))
        .await
        .unwrap();
    assert_eq!((known[0].last_seen, words[0].len()), (Some(5), 0));
    // Two were seen in another slice, until a sweep of the users online.
    assert_eq!(store.count_online(Span::ALL).await.unwrap().seen, 3);
    assert_eq!(
        store.seen_page(Span::ALL, None, 10).await.unwrap().0.len(),
        3
    );
    assert_eq!(store.forget_seen(slice, 6).await.unwrap(), 1);
}

/// Attendance and sessions of one live, in both forms.
async fn attendance(redis: &RedisServer, prefix: &KeyPrefix, record: &LiveRecord) {
    for form in [AttendanceForm::Set, AttendanceForm::Bitmap] {
        let store = under_the_rule(redis, prefix.clone()).await;
        store.fix_attendance_form(form).await.unwrap();
        let (of, attended, one) = (record.live_epoch(), record.attended(), user("7"));
        store.begin_attendance(&of, &attended).await.unwrap();
        assert!(
            store
                .note_attendance(&of, std::slice::from_ref(&one))
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            store
                .have_attended(&of, std::slice::from_ref(&one))
                .await
                .unwrap(),
            [true]
        );
        let lives = [
            (of.clone(), attended.clone()),
            (of.clone(), attended.clone()),
        ];
        for which in [Attending::All, Attending::Any, Attending::Not] {
            let within = Some(Span::ALL).filter(|_| which == Attending::Any);
            let question = AttendanceQuestion {
                which,
                lives: lives.to_vec(),
                within,
            };
            find_attendees(&store, &question, None, 10).await.unwrap();
        }
        assert_eq!(
            store
                .attended_lives(&attended.streamer, 0, 9)
                .await
                .unwrap(),
            std::slice::from_ref(&of)
        );
        store
            .count_sessions(&of, attended.slices, Span::ALL)
            .await
            .unwrap();
        store
            .sessions_page(&of, attended.slices, Span::ALL, None, 10)
            .await
            .unwrap();
        store.renew_attendance(&of, &attended, 5).await.unwrap();
        assert_eq!(
            store.attendance_due(5, 9).await.unwrap(),
            std::slice::from_ref(&of)
        );
        store.end_attendance(&of, 5).await.unwrap();
        assert_eq!(
            store.attended(&of).await.unwrap().unwrap().closed_at,
            Some(5)
        );
        store.forget_attendance(&of, Some(&attended)).await.unwrap();
    }
}

/// Statuses, timelines, lists, and the jobs for followers.
async fn feeds(store: &RedisStore, redis: &RedisServer, prefix: &str) {
    let (author, worker) = (user("s1"), GatewayId::random());
    let status = |post: &str| StatusId::of_post(author.clone(), PostId::parse(post).unwrap());
    let (entry, timeline) = (
        Entry {
            at: 7,
            id: status("a"),
        },
        Timeline::Home(user("u1")),
    );
    let post = Post {
        at: 7,
        text: "hi".to_owned(),
        data: None,
    };
    store.put_post(&entry.id, &post).await.unwrap();
    assert_eq!(
        store
            .posts(std::slice::from_ref(&entry.id))
            .await
            .pop()
            .unwrap()
            .unwrap(),
        Some(post)
    );
    store
        .add_to_timelines(&entry, std::slice::from_ref(&timeline), Instant::now())
        .await
        .unwrap();
    let crowd: Vec<Entry> = (0..MAX_TIMELINE)
        .map(|n| Entry {
            at: 8,
            id: status(&format!("post{n}")),
        })
        .collect();
    store.add_entries(&timeline, &crowd).await.unwrap();
    assert_eq!(
        store.timeline_len(&timeline).await.unwrap(),
        MAX_TIMELINE as u64
    );
    assert_eq!(
        store
            .are_on_timelines(&[(timeline.clone(), entry.id.clone())])
            .await,
        [Ok(false)]
    );
    let page = store
        .read_timelines(&[(timeline.clone(), Some(crowd[9].clone()))], 10)
        .await
        .pop()
        .unwrap()
        .unwrap();
    store
        .remove_entries(&timeline, &[page[0].id.clone()])
        .await
        .unwrap();
    let list = ListName::parse("cooks").unwrap();
    assert_eq!(
        store
            .put_in_list(&author, &list, &user("u2"))
            .await
            .unwrap(),
        PutInList::Added
    );
    assert_eq!(
        store.list_members(&author, &list).await.unwrap(),
        [user("u2")]
    );
    assert!(
        store
            .take_out_of_list(&author, &list, &user("u2"))
            .await
            .unwrap()
    );
    let day = Duration::from_secs(86_400);
    let name = AnswerName::of_digest(&[7; 16]);
    assert_eq!(store.claim_answer(&name, "claim", day).await.unwrap(), None);
    store
        .keep_answer(&name, "claim", "answer", day)
        .await
        .unwrap();
    assert_eq!(
        store
            .claim_answer(&name, "again", day)
            .await
            .unwrap()
            .as_deref(),
        Some("answer")
    );
    let end = EndedSession::for_good(SessionKey::from_bytes([0; KEY_BYTES]), Over::Left);
    store.end_sessions(&[end], "word").await.unwrap();
    let ended = store.ended_sessions(&[end.key]).await;
    assert_eq!(ended.unwrap(), [end]);
    let secret = ["secret".to_owned()];
    assert_eq!(store.share_secrets(&secret).await.unwrap(), secret);
    let job = Job {
        task: FanoutTask::Add,
        entry: entry.clone(),
    };
    store.enqueue_fanout(&job).await.unwrap();
    let taken = store
        .take_fanouts(&worker, 10)
        .await
        .unwrap()
        .jobs
        .pop()
        .unwrap();
    assert_eq!(taken.job, job);
    assert!(store.keep_fanout(&worker, &taken).await.unwrap());
    assert!(store.is_being_added(&entry.id).await.unwrap());
    store.finish_fanout(&worker, &taken).await.unwrap();
    store.set_pulled(&author, Some(7)).await.unwrap();
    assert_eq!(store.pulled_since(&author).await.unwrap(), Some(7));
    assert_eq!(store.pulled_authors().await.unwrap(), [(author.clone(), 7)]);
    store.set_pulled(&author, None).await.unwrap();
    assert!(store.drop_post(&entry.id).await.unwrap());
    assert_eq!(
        redis.cli(&[
            "HLEN",
            &format!("{prefix}{{{prefix}rollcall:fanout}}:progress")
        ]),
        "0"
    );
}

async fn close(store: &RedisStore, (redis, prefix): (&RedisServer, &str), record: &LiveRecord) {
    let close = CloseLive {
        live: record.live.clone(),
        epoch: record.epoch,
        reason: CloseReason::Requested,
        peaks: Peaks::default(),
        uniques: true,
        message: "word".to_owned(),
    };
    let CloseReply::Closing(closing) = store.begin_close(&close).await.unwrap() else {
        panic!("closing")
    };
    let summary = closing.summary().unwrap();
    // The second time, the first is too old.
    store
        .add_past_live(
            &Summary {
                closed_at: 1,
                epoch: Epoch(1),
                ..summary.clone()
            },
            Duration::ZERO,
        )
        .await
        .unwrap();
    store
        .add_past_live(&summary, Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(
        store.past_lives(&record.streamer, None, 10).await.unwrap(),
        std::slice::from_ref(&summary)
    );
    assert_eq!(
        store
            .past_live(&record.streamer, &record.live_epoch())
            .await
            .unwrap(),
        Some(summary)
    );
    let (live, epoch, arrived) = (record.live.clone(), record.epoch, Arrived::default());
    let finish = FinishClose {
        live,
        epoch,
        arrived,
        uniques: Some(Uniques::default()),
        keep: Duration::from_secs(60),
    };
    store.finish_close(&finish).await.unwrap();
    redis.cli(&["ZADD", &format!("{prefix}lives"), "1", "42"]);
    store.delist(&record.live).await.unwrap();
    assert!(matches!(
        store.open_live(&wish()).await,
        Ok(OpenReply::Opened(_))
    ));
}

#[tokio::test]
async fn the_rule_allows_what_a_gateway_does_and_nothing_else() {
    let redis = RedisServer::start().await;
    let rule = &rules()[0];
    set(&redis, rule);
    redis.cli(&["CONFIG", "RESETSTAT"]);
    let store = under_the_rule(&redis, KeyPrefix::default()).await;
    everything(&store, &redis, "").await;
    drop(store);

    assert_eq!(refused(&redis), "");
    let stats = redis.cli(&["INFO", "commandstats"]);
    let used: BTreeSet<&str> = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next())
        .filter(|command| !BY_ITSELF.contains(command))
        .collect();
    let granted = commands(rule);
    let idle: Vec<_> = granted.difference(&used).collect();
    assert!(
        idle.is_empty(),
        "granted and never used: {idle:?}; used: {used:?}"
    );
}

/// The document says that with a prefix the rule needs two patterns in place of all those.
#[tokio::test]
async fn with_a_prefix_the_rule_needs_one_pattern_of_keys_and_one_of_channels() {
    let patterns = ["~app1:*", "&app1:*"];
    assert!(read("docs/redis.md").contains(&format!("`{}`", patterns.join(" "))));
    let redis = RedisServer::start().await;
    let mut rule = rules().swap_remove(0);
    rule.retain(|word| !word.starts_with(['~', '&']));
    rule.extend(patterns.map(str::to_owned));
    set(&redis, &rule);
    let prefix = KeyPrefix::parse("app1:").unwrap();
    everything(&under_the_rule(&redis, prefix).await, &redis, "app1:").await;
    assert_eq!(refused(&redis), "");
    let keys = redis.cli(&["KEYS", "*"]);
    assert!(
        !keys.is_empty() && keys.lines().all(|key| key.starts_with("app1:")),
        "{keys}"
    );
}

#[tokio::test]
async fn whatever_the_rule_lacks_is_noticed() {
    let redis = Arc::new(RedisServer::start().await);
    let rule = rules().swap_remove(0);
    let needed = |word: &&String| {
        word.starts_with(['+', '~', '&'])
            && !word
                .strip_prefix('+')
                .is_some_and(|word| BY_ITSELF.contains(&word))
    };
    for missing in rule.iter().filter(needed) {
        redis.cli(&["FLUSHALL"]);
        redis.cli(&["ACL", "LOG", "RESET"]);
        let without: Vec<String> = rule
            .iter()
            .filter(|word| *word != missing)
            .cloned()
            .collect();
        set(&redis, &without);
        let at = redis.clone();
        let run = tokio::spawn(async move {
            everything(&under_the_rule(&at, KeyPrefix::default()).await, &at, "").await
        });
        // The log names the command, the key or the channel that was refused.
        let named = missing[1..].split('*').next().unwrap_or_default();
        let is_named = |line: &str| {
            if missing.starts_with('+') {
                line == named
            } else {
                line.starts_with(named)
            }
        };
        until(
            &format!("a rule without {missing} is too little"),
            PATIENCE,
            || async {
                let refused = refused(&redis);
                if refused.lines().any(is_named) {
                    Ok(())
                } else {
                    Err(format!("refused: {refused:?}"))
                }
            },
        )
        .await;
        run.abort();
        let _ = run.await;
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn the_rule_has_every_command_that_the_store_names() {
    let rules = rules();
    let granted: BTreeSet<&str> = rules
        .iter()
        .flat_map(|rule| rule.iter())
        .filter_map(|w| w.strip_prefix('+'))
        .collect();
    let mut lacking = BTreeSet::new();
    let mut named = 0;
    for file in files_below(&root().join("src/store/redis")) {
        let text = std::fs::read_to_string(file).unwrap();
        for (before, after) in [("call('", "'"), ("(\"", "\", "), ("Share::Own, \"", "\", ")] {
            for rest in text.split(before).skip(1) {
                let command: String = rest.chars().take_while(char::is_ascii_uppercase).collect();
                let is_command = command.len() > 2 && rest[command.len()..].starts_with(after);
                // Their subcommands are granted, one by one.
                if !is_command
                    || ["CLUSTER", "MEMORY", "SENTINEL", "XGROUP", "XINFO"]
                        .contains(&command.as_str())
                {
                    continue;
                }
                named += 1;
                if !granted.contains(command.to_lowercase().as_str()) {
                    lacking.insert(command);
                }
            }
        }
    }
    assert!(
        named > 100,
        "commands are named otherwise than this looks for: {named}"
    );
    assert!(
        lacking.is_empty(),
        "no rule of docs/redis.md has {lacking:?}"
    );
}

/// Three gateways and an audit as an operator has them: one gateway is killed, another drained, and
/// the third sweeps.
#[tokio::test]
async fn a_crash_a_sweep_a_drain_and_an_audit_need_nothing_more() {
    let redis = RedisServer::start().await;
    let rules = rules();
    set(&redis, &rules[0]);
    let url = format!("redis://rollcall:secret@{}", redis.addr());
    let config = Config {
        redis: Some(Secret::new(url.as_str())),
        lease: Duration::from_millis(2_000),
        lease_refresh: Duration::from_millis(300),
        flush: Duration::from_millis(50),
        drain: Duration::from_secs(1),
        ..Config::default()
    };
    let mut crashes = Program::start(&config).await;
    let mut drains = Program::start(&config).await;
    let stays = Program::start(&config).await;

    let client = reqwest::Client::new();
    let put = |path: String, body: serde_json::Value| {
        let request = client
            .put(format!("http://{}{path}", stays.addr))
            .json(&body);
        async move { request.send().await.unwrap().error_for_status().unwrap() }
    };
    put(
        "/v1/lives/42".to_owned(),
        serde_json::json!({"streamer_id": "s1", "slices": 2, "attendance": true}),
    )
    .await;
    let mut sockets = Vec::new();
    for (gateway, fan) in [(&crashes, "u1"), (&drains, "u2"), (&stays, "u3")] {
        put(
            format!("/v1/users/{fan}/following/s1"),
            serde_json::json!({}),
        )
        .await;
        let path = format!("/ws?user_id={fan}&live_id=42");
        sockets.push(Socket::connect(gateway.addr, &path, &[]).await.unwrap());
        let path = "/ws?user_id=s1&role=streamer&watch=42";
        sockets.push(Socket::connect(gateway.addr, path, &[]).await.unwrap());
    }
    let fans = |wanted: usize| {
        let redis = &redis;
        until(
            "the fans of the gateways that live are online",
            PATIENCE,
            move || async move {
                let slices = ["online-fans:42_slice1", "online-fans:42_slice2"];
                let seen = slices
                    .map(|slice| redis.cli(&["SCARD", slice]).parse::<usize>().unwrap())
                    .iter()
                    .sum::<usize>();
                if seen == wanted { Ok(()) } else { Err(seen) }
            },
        )
    };
    fans(3).await;
    crashes.kill();
    fans(2).await;
    drains.terminate();
    assert!(drains.exit(PATIENCE * 2).await.success());
    fans(1).await;
    let living = || {
        redis
            .cli(&["HGETALL", "rollcall:leases"])
            .lines()
            .filter(|word| word.starts_with("gw-"))
            .count()
    };
    assert_eq!(living(), 3, "two buried, one living");
    assert_eq!(refused(&redis), "");

    set(&redis, &rules[2]);
    let audit = [
        "audit",
        "--users",
        "--log",
        "warn",
        "--lease",
        "2s",
        "--lease-refresh",
        "300ms",
        "--redis",
        &url,
    ];
    let gateway = format!("http://{}", stays.addr);
    let audit: Vec<String> = audit
        .iter()
        .chain(&["--gateway", &gateway])
        .map(|&word| word.to_owned())
        .collect();
    let run = move || {
        Command::new(env!("CARGO_BIN_EXE_rollcall"))
            .args(audit)
            .output()
            .unwrap()
    };
    let out = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(refused(&redis), "");
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let keys = ["keys", "*", "--json", "--redis", &url].map(str::to_owned);
    let run = move || {
        Command::new(env!("CARGO_BIN_EXE_rollcall"))
            .args(keys)
            .output()
            .unwrap()
    };
    let out = tokio::task::spawn_blocking(run).await.unwrap();
    let census: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(refused(&redis), "");
    for row in census["kinds"].as_array().unwrap() {
        assert!(
            row["types"]["?"].is_null() && row["bytes"].is_u64(),
            "{row}"
        );
    }
    // Without the right, memory is not known, and a key of others has no type.
    set(
        &redis,
        &["ACL", "SETUSER", "rollcall", "-memory"].map(str::to_owned),
    );
    assert_eq!(redis.cli(&["SET", "of-another-program", "x"]), "OK");
    let keys = ["keys", "of*", "--json", "--redis", &url].map(str::to_owned);
    let run = move || {
        Command::new(env!("CARGO_BIN_EXE_rollcall"))
            .args(keys)
            .output()
            .unwrap()
    };
    let out = tokio::task::spawn_blocking(run).await.unwrap();
    let census: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let row = &census["kinds"][0];
    assert_eq!(
        (&row["types"]["?"], &row["bytes"]),
        (&1.into(), &serde_json::Value::Null),
        "{census}"
    );
    // The sizes of keys are what an audit passes over where it may not ask.
    let stats = redis.cli(&["INFO", "commandstats"]);
    let unused: Vec<&str> = commands(&rules[2])
        .into_iter()
        .filter(|command| !stats.contains(&format!("cmdstat_{command}:")))
        .collect();
    assert!(
        unused.is_empty(),
        "granted to audits and never used: {unused:?}"
    );
    drop(sockets);
}

/// A gateway does not start with such a rule, for the same reason.
#[tokio::test]
async fn a_check_of_the_settings_names_whatever_the_rule_lacks() {
    let redis = RedisServer::start().await;
    let url = format!("redis://rollcall:secret@{}", redis.addr());
    let check = || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_rollcall"));
        let out = program
            .args([
                "check-config",
                "--connect",
                "--json",
                "--log",
                "off",
                "--redis",
                &url,
            ])
            .output();
        let out = out.unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let rule = rules().swap_remove(0);
    set(&redis, &rule);
    let (code, said) = check();
    assert_eq!((code, refused(&redis).as_str()), (Some(0), ""), "{said}");
    let needed = |word: &&String| {
        word.starts_with(['+', '~', '&'])
            && !word
                .strip_prefix('+')
                .is_some_and(|word| BY_ITSELF.contains(&word))
    };
    for missing in rule.iter().filter(needed) {
        let without: Vec<String> = rule
            .iter()
            .filter(|word| *word != missing)
            .cloned()
            .collect();
        set(&redis, &without);
        let (code, said) = check();
        let named = match missing.split_at(1) {
            ("+", command) => command.split('|').next().unwrap().to_uppercase(),
            ("~", pattern) => format!("the key {}", pattern.split('*').next().unwrap()),
            _ => "channel".to_owned(),
        };
        assert_eq!(code, Some(69), "without {missing}: {said}");
        let is_told = said.contains("NOPERM") || said.contains("can't run this command");
        assert!(
            said.contains(&named) && is_told,
            "without {missing}: {said}"
        );
    }
}
