//! Ids of sessions that are over, on gateways that know it and on gateways that never heard of it.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::base::address_prefix::AddressPrefix;
use crate::base::clock::moment;
use crate::base::session_key::ENDS_KEPT;
use crate::base::user_digest::UserDigest;
use crate::config::Config;
use crate::gateway::wiring::FromOutside;
use crate::presence::erasing::ErasureNews;
use crate::presence::erasing::Missed;
use crate::session::close_codes::Close;
use crate::store::{Moderation, RemoveReply, RemoveUser, SessionEnds};
use crate::testing::{self, FaultyStore};

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    Leaves,
    LeavesByDatagram,
    IsRemoved,
    IsRemovedWhileSilent,
    IsCrowdedOut,
    Switches,
}

use Ending::{IsCrowdedOut, IsRemoved, IsRemovedWhileSilent, Leaves, LeavesByDatagram, Switches};

/// The sessions of a gateway that has just started, with the tasks that tell ends and hear of them.
async fn gateway(
    store: &Arc<FaultyStore>,
    secret: &Arc<PresenceSecret>,
) -> Arc<SocketlessSessions> {
    let config = Config {
        track_online: false,
        ..Config::default()
    };
    let verifiers = FromOutside {
        presence_secret: secret.clone(),
        ..FromOutside::default()
    };
    let parts = testing::parts_with(&config, verifiers, store.clone());
    let stop = CancellationToken::new();
    let presences = parts.app.presences.clone();
    tokio::spawn(parts.session_ends.run(stop.clone()));
    tokio::spawn(parts.subscriber.run(stop.clone()));
    tokio::spawn(presences.clone().run(stop));
    let no_erasure = ErasureNews {
        at: 1,
        ..ErasureNews::default()
    };
    let erasing = &parts.app.core.erasing;
    erasing.hear(no_erasure, Missed::default(), moment(1), moment(1));
    presences
}

fn newcomer() -> Newcomer {
    Newcomer {
        identity: testing::viewer("u1"),
        claims: None,
        permit: None,
    }
}

fn wish(live: &str) -> JoinRequest {
    JoinRequest::plain(LiveId::parse(live).unwrap())
}

fn viewers(at: &SocketlessSessions, live: &str) -> u64 {
    match at.context.core.rooms.get(&LiveId::parse(live).unwrap()) {
        Some(room) => room.figures.own_viewers().viewers,
        None => 0,
    }
}

impl Ending {
    async fn happens(self, at: &SocketlessSessions, store: &FaultyStore, id: &SessionClaims) {
        let session = at.find(&id.key).unwrap();
        match self {
            Leaves => at.leave(id.key, id.number),
            LeavesByDatagram => at.leave(id.key, EVERY_ID),
            IsRemoved => at.finish(&session, SessionEnd::Closed(Close::Removed)),
            IsCrowdedOut => at.finish(&session, SessionEnd::Closed(Close::TooManySockets)),
            Switches => {
                at.switch(&session, &wish("43")).await.unwrap();
            }
            IsRemovedWhileSilent => {
                at.finish(&session, SessionEnd::Closed(Close::HeartbeatTimeout));
                let removal = RemoveUser {
                    live: id.live.clone(),
                    epoch: id.epoch,
                    user: id.bearer.user.clone(),
                    ban: None,
                    by: None,
                    is_told: false,
                    message: String::new(),
                };
                let reply = store.remove_user(&removal).await.unwrap();
                let RemoveReply::Done { number, .. } = reply else {
                    panic!("{reply:?}");
                };
                at.context
                    .core
                    .rooms
                    .get(&id.live)
                    .unwrap()
                    .seats
                    .bans
                    .advance(number);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_id_is_good_again_on_any_gateway_however_late_and_however_young() {
    assert!(ENDS_KEPT >= ID_LIFE + 2 * crate::auth::claims::LEEWAY);
    for ending in [
        Leaves,
        LeavesByDatagram,
        IsRemoved,
        IsRemovedWhileSilent,
        IsCrowdedOut,
        Switches,
    ] {
        for late in [1, 130, ID_LIFE.as_secs() + 30] {
            let store = Arc::new(FaultyStore::new());
            let secret = Arc::default();
            let [first, beside] = [
                gateway(&store, &secret).await,
                gateway(&store, &secret).await,
            ];
            testing::open_live(&first.context, "42").await;
            testing::open_live(&first.context, "43").await;
            let begun = first.begin(newcomer(), &wish("42")).await.unwrap();
            let id = begun.claims;
            ending.happens(&first, &store, &id).await;
            sleep(Duration::from_secs(late)).await;
            let young = gateway(&store, &secret).await;
            for (which, at) in [("first", &first), ("beside", &beside), ("young", &young)] {
                let denied = at
                    .find_or_resume(id.clone(), None, AddressPrefix::default())
                    .await
                    .err();
                assert!(
                    matches!(denied, Some(Denied::Over(_))),
                    "{ending:?}, {late} s later, {which}: {denied:?}"
                );
                assert!(at.find_as_of(&id).is_none(), "{ending:?} {which}");
                assert_eq!(viewers(at, "42"), 0, "{ending:?} {which}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_lets_no_session_go_on_and_is_told_what_ended_when_it_is_back() {
    let store = Arc::new(FaultyStore::new());
    let secret = Arc::default();
    let [first, other] = [
        gateway(&store, &secret).await,
        gateway(&store, &secret).await,
    ];
    testing::open_live(&first.context, "42").await;
    let id = first.begin(newcomer(), &wish("42")).await.unwrap();
    let id = id.claims;
    other.context.lives.find(&id.live).await.unwrap();
    store.breaks();
    first.leave(id.key, id.number);
    let denied = other
        .find_or_resume(id.clone(), None, AddressPrefix::default())
        .await
        .err();
    assert!(
        matches!(&denied, Some(Denied::Refused(why)) if why.code == ErrorCode::StoreUnavailable),
        "{denied:?}"
    );
    assert_eq!(viewers(&other, "42"), 0);
    sleep(Duration::from_secs(60)).await;
    store.heals();
    sleep(Duration::from_secs(2)).await;
    let ended = EndedSession {
        key: id.key,
        below: id.number + 1,
        why: Over::Left,
    };
    assert_eq!(store.ended_sessions(&[id.key]).await.unwrap(), [ended]);
    let young = gateway(&store, &secret).await;
    for at in [&first, &other, &young] {
        let denied = at
            .find_or_resume(id.clone(), None, AddressPrefix::default())
            .await
            .err();
        assert!(
            matches!(denied, Some(Denied::Over(Over::Left))),
            "{denied:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_switches_at_the_same_time_one_wins() {
    let store = Arc::new(FaultyStore::new());
    let secret = Arc::default();
    let [one, other] = [
        gateway(&store, &secret).await,
        gateway(&store, &secret).await,
    ];
    for live in ["42", "43", "44"] {
        testing::open_live(&one.context, live).await;
    }
    let id = one.begin(newcomer(), &wish("42")).await.unwrap();
    let id = id.claims;
    let here = one.find(&id.key).unwrap();
    let there = other
        .find_or_resume(id.clone(), None, AddressPrefix::default())
        .await
        .unwrap();
    one.switch(&here, &wish("43")).await.unwrap();
    other.switch(&there, &wish("44")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let is_drawn = here.number() == there.number();
    let left = viewers(&one, "43") + viewers(&other, "44");
    assert!(is_drawn || left == 1, "{left} are left");
    assert_eq!((viewers(&one, "42"), viewers(&other, "42")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_beat_brings_another_id_if_the_store_says_that_the_session_goes_on() {
    let store = Arc::new(FaultyStore::new());
    let secret = Arc::default();
    let [first, other] = [
        gateway(&store, &secret).await,
        gateway(&store, &secret).await,
    ];
    testing::open_live(&first.context, "42").await;
    let begun = first.begin(newcomer(), &wish("42")).await.unwrap();
    let fresh = begun.claims;
    let session = first.find(&fresh.key).unwrap();
    assert!(first.renew(&session, &fresh).await.unwrap().is_none());
    let aged = SessionClaims {
        good_until: fresh.good_until - millis(ID_LIFE) / 2 - 1,
        ..fresh
    };
    store.breaks();
    assert!(first.renew(&session, &aged).await.unwrap().is_none());
    store.heals();
    let renewed = first.renew(&session, &aged).await.unwrap().unwrap();
    assert!(renewed.claims.good_until > aged.good_until);
    let read = first.read(&renewed.id).unwrap();
    assert!(
        other
            .find_or_resume(read, None, AddressPrefix::default())
            .await
            .is_ok()
    );
    // It ended, and the message did not arrive.
    let ended = EndedSession::for_good(aged.key, Over::Removed);
    store.end_sessions(&[ended], "").await.unwrap();
    let over = first.renew(&session, &aged).await.err();
    assert!(
        matches!(over, Some(Denied::Over(Over::Removed))),
        "{over:?}"
    );
    assert!(!session.is_open());
    // A gateway that may have missed a message asks about all its sessions.
    let stop = CancellationToken::new();
    tokio::spawn(other.clone().ask_for_missed_ends(stop));
    other.ended.note_missed();
    sleep(Duration::from_secs(1)).await;
    assert!(other.find(&aged.key).is_none());
}

#[tokio::test]
async fn a_session_does_not_outlive_an_erasure_of_its_user_that_ended_long_ago() {
    let app = testing::app();
    let presences = &app.presences;
    let room = testing::open_live(&presences.context, "42").await;
    let user = testing::viewer("u1");
    let digest = UserDigest::of(&user.user);
    let newcomer = Newcomer {
        identity: user,
        claims: None,
        permit: None,
    };
    let wish = JoinRequest::plain(room.record.live.clone());
    let before = presences.begin(newcomer, &wish).await.unwrap().claims;
    // Another gateway, which has never heard of the session, hears of the erasure.
    let other = testing::app().presences.clone();
    testing::open_live(&other.context, "42").await;
    let news = ErasureNews {
        at: before.began + 60_000,
        ended: vec![(digest, before.began + 30_000)],
        ..ErasureNews::default()
    };
    other
        .context
        .core
        .erasing
        .hear(news, Missed::default(), moment(1), moment(2));
    let denied = other
        .find_or_resume(before.clone(), None, AddressPrefix::default())
        .await;
    assert!(matches!(denied, Err(Denied::Over(Over::Removed))));
    let after = SessionClaims {
        began: before.began + 40_000,
        ..before
    };
    let denied = other
        .find_or_resume(after, None, AddressPrefix::default())
        .await
        .err();
    assert!(!matches!(denied, Some(Denied::Over(_))), "{denied:?}");
}

#[tokio::test]
async fn a_removal_from_a_former_live_ends_no_id_from_after_the_switch() {
    let app = testing::app();
    let presences = &app.presences;
    let room = testing::open_live(&presences.context, "42").await;
    let newcomer = Newcomer {
        identity: testing::viewer("u1"),
        claims: None,
        permit: None,
    };
    let wish = JoinRequest::plain(room.record.live.clone());
    let before = presences.begin(newcomer, &wish).await.unwrap().claims;
    let session = presences.find(&before.key).unwrap();
    presences.finish(&session, SessionEnd::Closed(Close::Removed));
    assert!(!session.is_open());
    assert_eq!(presences.over(&before), Some(Over::Removed));
    let after = SessionClaims {
        number: before.number + 1,
        ..before
    };
    assert_eq!(presences.over(&after), None);
}
