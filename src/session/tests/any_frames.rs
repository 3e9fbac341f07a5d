//! Random sequences of frames: whatever a client sends, its session does not panic, and the store
//! holds nothing but what this client may have there. Time stands still but where a sequence waits.

use crate::features::WholeStore;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config as Cases, TestRunner};
use serde_json::{Value, json};
use tokio::io::{copy, sink, split};
use tokio_util::task::TaskTracker;

use super::*;
use crate::base::address_prefix::AddressPrefix;
use crate::base::clock::Clock;
use crate::base::identity::Identity;
use crate::base::ids::UserId;
use crate::config::Config;
use crate::gateway::wiring::{self, FromOutside};
use crate::store::memory::MemoryStore;

const CASES: u32 = 64;

#[derive(Debug, Clone)]
enum Step {
    /// These bytes arrive at once.
    Send(Bytes),
    Wait(Duration),
}

/// The user ids of the clients: a viewer, a streamer, and the streamer who owns live `42`.
const CLIENTS: [(&str, Role); 3] = [
    ("u1", Role::Viewer),
    ("s2", Role::Streamer),
    ("s1", Role::Streamer),
];

/// Lives that a streamer may open, but for `42`.
const OWN: [&str; 2] = ["7", "other_1"];

/// A frame of a client. Its mask is zeros, so that a sequence that fails can be read.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = match payload.len() {
        short @ 0..126 => vec![0x80 | short as u8],
        long => [&[0x80 | 126], &(long as u16).to_be_bytes()[..]].concat(),
    };
    [&[first], &length[..], &[0; 4], payload].concat()
}

/// A value, or nothing.
fn field(values: Vec<Value>) -> impl Strategy<Value = Option<Value>> {
    prop::option::weighted(0.9, select(values))
}

fn message() -> impl Strategy<Value = String> {
    let kinds = [
        "join",
        "leave",
        "watch",
        "unwatch",
        "open",
        "close",
        "heartbeat",
        "refresh",
        "dance",
    ];
    let long = "9".repeat(65);
    let lives = [
        vec![json!("42"); 6],
        OWN.map(|live| json!(live)).to_vec(),
        vec![
            json!("42_slice1"),
            json!("{42}:x"),
            json!("4 2"),
            json!(""),
            json!(long),
            json!(42),
            Value::Null,
        ],
    ];
    let streamers = ["s1", "s2", "u1", "s:2", "{s1}", ""]
        .map(|id| json!(id))
        .to_vec();
    let slices = vec![
        json!(1),
        json!(2),
        json!(0),
        json!(257),
        json!(-1),
        json!("2"),
        Value::Null,
    ];
    let fields = (
        field(lives.concat()),
        prop::option::weighted(0.2, select(streamers)),
        prop::option::weighted(0.3, select(slices)),
        prop::option::weighted(0.3, select(vec![json!("a"), json!(1), json!({})])),
    );
    (select(kinds.to_vec()), fields).prop_map(|(kind, (live, streamer, slices, id))| {
        let mut message = json!({ "type": kind, "token": "t" });
        for (name, value) in [
            ("live_id", live),
            ("streamer_id", streamer),
            ("slices", slices),
            ("id", id),
        ] {
            if let Some(value) = value {
                message[name] = value;
            }
        }
        message.to_string()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let any_bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    // A message in pieces, with a control frame between them.
    let pieces =
        (message(), 0..40_usize, select(vec![0x89, 0x8a])).prop_map(|(text, cut, control)| {
            let (head, tail) = text.as_bytes().split_at(cut.min(text.len()));
            [
                frame(0x01, head),
                frame(control, b"between"),
                frame(0x00, b""),
                frame(0x80, tail),
            ]
            .concat()
        });
    let sends = prop_oneof![
        60 => message().prop_map(|text| frame(0x81, text.as_bytes())),
        10 => pieces,
        6 => (select(vec![0x89, 0x8a]), any_bytes(126)).prop_map(|(first, payload)| frame(first, &payload)),
        4 => "\\PC{0,40}".prop_map(|text| frame(0x81, text.as_bytes())),
        2 => any_bytes(40).prop_map(|payload| frame(0x82, &payload)),
        // These end the session, or most of them.
        1 => any_bytes(8).prop_map(|payload| frame(0x88, &payload)),
        1 => (any::<u8>(), any_bytes(200)).prop_map(|(first, payload)| frame(first, &payload)),
        1 => any_bytes(40),
        1 => Just(frame(0x81, &[b' '; 5_000])),
    ];
    prop_oneof![
        8 => sends.prop_map(|bytes| Step::Send(bytes.into())),
        2 => (0..1_500_u64).prop_map(|wait| Step::Wait(Duration::from_millis(wait))),
    ]
}

/// A gateway on a memory store, with the tasks that write there, and the live `42` of `s1` with a
/// fan in it.
struct World {
    store: Arc<MemoryStore>,
    context: Arc<SessionContext>,
    tasks: TaskTracker,
    stop: CancellationToken,
    fan: tokio::task::JoinHandle<()>,
}

impl World {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new(Clock::start()));
        let shared: Arc<dyn WholeStore> = store.clone();
        let parts = wiring::wire(
            &Config::default(),
            FromOutside::default(),
            &shared,
            &Arc::default(),
            &TaskTracker::new(),
        )
        .unwrap();
        let context = parts.app.sessions.clone();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(parts.lease.run(stop.clone()));
        tasks.spawn(context.reaper.clone().run(stop.clone()));
        let owner = UserId::parse("s1").unwrap();
        for user in ["fan", "u1", "s1", "s2"] {
            shared
                .follow(&UserId::parse(user).unwrap(), &owner)
                .await
                .unwrap();
        }
        testing::open_live(&context, "42").await;
        let (mut client, _) = connect(&context, "fan", 1 << 16).await;
        client
            .send(Message::text(r#"{"type":"join","live_id":"42"}"#))
            .await
            .unwrap();
        // Reading answers the Pings.
        let fan = tokio::spawn(async move { while let Some(Ok(_)) = client.next().await {} });
        tasks.spawn(parts.flusher.run(stop.clone()));
        Self {
            store,
            context,
            tasks,
            stop,
            fan,
        }
    }

    /// The fans of `42`, if it is still the live that was opened first.
    fn fans(&self, of_live: &LiveRecord) -> Option<BTreeSet<UserId>> {
        let (record, fans) = self.store.contents().remove(&of_live.live)?;
        record
            .is_some_and(|now| now.state == LiveState::Open && now.epoch == of_live.epoch)
            .then_some(fans)
    }
}

/// Lets the flusher do what is to be done.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

async fn holds(who: (&str, Role), steps: Vec<Step>) {
    let world = World::new().await;
    settle().await;
    let identity = Identity {
        user: UserId::parse(who.0).unwrap(),
        role: who.1,
        counted: true,
        network: AddressPrefix::default(),
    };
    let before = world.store.contents();
    let opened = before[&LiveId::parse("42").unwrap()].0.clone().unwrap();
    let owns = opened.streamer == identity.user;
    assert_eq!(world.fans(&opened).unwrap().len(), 1, "the fan has joined");

    let (ours, theirs) = duplex(1 << 12);
    let handshake = Handshake {
        identity: identity.clone(),
        ..handshake("u1")
    };
    let session = tokio::spawn(run(world.context.clone(), theirs, Vec::new(), handshake));
    let (mut reads, mut writes) = split(ours);
    let reader = tokio::spawn(async move { copy(&mut reads, &mut sink()).await });
    for step in steps {
        match step {
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Send(bytes) if writes.write_all(&bytes).await.is_err() => break,
            Step::Send(_) => {}
        }
    }
    settle().await;
    only_what_it_may_have(&identity, &opened, &world.store.contents());
    if let Some(fans) = world.fans(&opened) {
        let viewers = world
            .context
            .core
            .rooms
            .get(&opened.live)
            .unwrap()
            .figures()
            .viewers;
        assert_eq!(fans.len() as u64, viewers, "everybody here is a fan");
    }

    reader.abort();
    let _ = reader.await;
    drop(writes);
    let ended = tokio::time::timeout(world.context.core.config.timeout * 3, session).await;
    ended
        .expect("a session whose client is gone ends")
        .expect("a session does not panic");
    settle().await;
    only_what_it_may_have(&identity, &opened, &world.store.contents());
    let left = world.fans(&opened);
    assert!(owns || left.is_some(), "only its streamer can close 42");
    assert!(
        left.is_none_or(|fans| fans.len() == 1 && !fans.contains(&identity.user)),
        "the client left, the fan stays"
    );

    world.fan.abort();
    tokio::time::sleep(world.context.core.config.timeout * 3).await;
    assert!(
        world
            .store
            .contents()
            .values()
            .all(|(_, fans)| fans.is_empty()),
        "everybody left"
    );
    world.stop.cancel();
    world.tasks.close();
    world.tasks.wait().await;
}

/// In `42` nobody but the fan and this client; besides, only what a streamer opened.
fn only_what_it_may_have(
    identity: &Identity,
    opened: &LiveRecord,
    contents: &BTreeMap<LiveId, (Option<LiveRecord>, BTreeSet<UserId>)>,
) {
    let fan = UserId::parse("fan").unwrap();
    for (live, (record, users)) in contents {
        let record = record
            .as_ref()
            .unwrap_or_else(|| panic!("{live:?} has slices and no record"));
        let is_first = *live == opened.live;
        assert!(
            users
                .iter()
                .all(|user| *user == identity.user || is_first && *user == fan),
            "{users:?} in {live:?}"
        );
        if is_first && identity.user != opened.streamer {
            assert_eq!(
                (record.state, record.epoch, &record.streamer),
                (LiveState::Open, opened.epoch, &opened.streamer)
            );
        } else {
            let may_open = is_first || OWN.contains(&live.as_str());
            assert!(
                may_open && identity.role == Role::Streamer && record.streamer == identity.user,
                "{record:?}"
            );
        }
    }
}

#[test]
fn no_frames_make_a_session_panic_or_write_outside_its_lives() {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let cases = Cases {
        cases: asked.unwrap_or(CASES),
        failure_persistence: None,
        ..Cases::default()
    };
    let sequences = (
        select(CLIENTS.to_vec()),
        prop::collection::vec(step(), 1..40),
    );
    let held = TestRunner::new(cases).run(&sequences, |(who, steps)| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(holds(who, steps));
        Ok(())
    });
    if let Err(why) = held {
        panic!("{why}");
    }
}
