//! Erasures: a job is asked for once and remembers how far it got, and its steps remove everything
//! that names a user, and nothing else.

use rollcall::features::WholeStore;
use rollcall::features::attendance::store::Attended;
use std::sync::Arc;

use rollcall::base::event_kind::EventKind;
use rollcall::base::ids::{ErasureId, GatewayId, Group, ListName, Login, PostId, SliceId, UserId};
use rollcall::base::user_digest::UserDigest;
use rollcall::base::webhook_name::WebhookName;
use rollcall::features::erasure::store::ErasureProgress;
use rollcall::features::feeds::store::statuses::Post;
use rollcall::features::feeds::store::statuses::StatusId;
use rollcall::features::feeds::store::statuses::TimelineEntry;
use rollcall::features::feeds::store::timelines::Timeline;
use rollcall::features::media::store::Publishing;
use rollcall::features::media::store::StreamPublisher;
use rollcall::features::profiles::store::Visibility;
use rollcall::store::About;
use rollcall::store::AnswerName;
use rollcall::store::BuryReply;
use rollcall::store::CloseReply;
use rollcall::store::ERASED_ANSWER;
use rollcall::store::Edge;
use rollcall::store::ErasedSome;
use rollcall::store::Event;
use rollcall::store::Found;
use rollcall::store::LiveRecord;
use rollcall::store::LiveState;
use rollcall::store::OpenLive;
use rollcall::store::PersonalData;
use rollcall::store::QueueKind;
use rollcall::store::RecordStanding;
use rollcall::store::Terms;
use rollcall::store::WebhookQueue;

use super::{
    Caller, LONG, closing, end, finish, given_up, is_seen, live, on_each, opened_as, reads_new,
    removal, user, wish, wish_of,
};

on_each!(
    an_erasure_is_asked_for_once_and_its_report_stays,
    what_names_a_user_goes_and_what_names_others_stays,
    all_that_a_streamer_owned_goes_once_it_is_closed,
    who_is_online_is_found_and_left_to_the_gateways,
);

/// One pass over everything.
async fn pass(store: &Arc<dyn WholeStore>, user: &UserId) -> ErasedSome {
    let mut all = ErasedSome::default();
    let mut progress = ErasureProgress::default();
    loop {
        let step = store.erase_some(user, &progress.place).await.unwrap();
        progress.add(&step);
        all.open_lives.extend(step.open_lives);
        match step.next {
            Some(next) => progress.place = next,
            None => break,
        }
    }
    all.found = progress.found;
    all.is_dirty = progress.is_dirty;
    all
}

/// Passes until one finds nothing. Answers what the first one found.
async fn erased(store: &Arc<dyn WholeStore>, user: &UserId) -> Found {
    let first = pass(store, user).await;
    assert!(first.is_dirty && first.open_lives.is_empty(), "{first:?}");
    assert_eq!(pass(store, user).await, ErasedSome::default());
    first.found
}

async fn an_erasure_is_asked_for_once_and_its_report_stays(store: Arc<dyn WholeStore>) {
    let worker = GatewayId::random();
    let before = store.erasure_news(0).await.unwrap();
    assert!(before.running.is_empty() && before.ended.is_empty() && before.oldest.is_none());
    assert_eq!(store.take_erasure(&worker).await.unwrap(), None);
    assert_eq!(store.erasure(&ErasureId::random()).await.unwrap(), None);
    let id = store.ask_erasure(&user(1)).await.unwrap();
    assert_eq!(store.ask_erasure(&user(1)).await.unwrap(), id);
    let other = store.ask_erasure(&user(2)).await.unwrap();
    assert_ne!(id, other);
    let mut news = store.erasure_news(before.at - 1).await.unwrap();
    news.running.sort();
    assert_eq!(
        news.running,
        [(user(1), id.clone()), (user(2), other.clone())]
    );
    let report = store.erasure(&id).await.unwrap().unwrap();
    assert!(report.asked_at > 1_700_000_000_000 && report.ended.is_none());
    assert!(news.oldest >= Some(before.at) && news.oldest <= Some(news.at));

    let mut taken = store.take_erasure(&worker).await.unwrap().unwrap();
    let second = store.take_erasure(&worker).await.unwrap().unwrap();
    assert_ne!(taken.user, second.user);
    assert_eq!(store.take_erasure(&worker).await.unwrap(), None);
    if taken.user == user(2) {
        taken = second;
    }
    assert_eq!((&taken.id, &taken.progress), (&id, &Default::default()));
    taken.progress.found.insert(PersonalData::Lists, 3);
    taken.progress.place = "somewhere".to_owned();
    assert!(store.keep_erasure(&worker, &taken).await.unwrap());
    store.finish_erasure(&worker, &taken).await.unwrap();
    assert!(!store.keep_erasure(&worker, &taken).await.unwrap(), "over");
    let news = store.erasure_news(before.at - 1).await.unwrap();
    assert_eq!(news.running, [(user(2), other)]);
    let report = store.erasure(&id).await.unwrap().unwrap();
    let ended = report.ended.unwrap();
    assert!(ended.at >= report.asked_at);
    assert_eq!(ended.found, Found::from([(PersonalData::Lists, 3)]));
    // For a day it is known who was erased, without the name.
    assert_eq!(news.ended, [(UserDigest::of(&user(1)), ended.at)]);
    let later = store.erasure_news(ended.at).await.unwrap();
    assert!(later.ended.is_empty(), "{later:?}");
    assert_ne!(
        store.ask_erasure(&user(1)).await.unwrap(),
        id,
        "another one"
    );
}

async fn posts(store: &Arc<dyn WholeStore>, author: &UserId) -> TimelineEntry {
    let entry = TimelineEntry {
        at: 1_000,
        id: StatusId::of_post(author.clone(), PostId::parse("p1").unwrap()),
    };
    let post = Post {
        at: entry.at,
        text: "soup".to_owned(),
        data: None,
    };
    store.put_post(&entry.id, &post).await.unwrap();
    entry
}

/// An event of user `n` that one webhook did not accept, and another is sent again.
async fn is_kept_for_webhooks(store: &Arc<dyn WholeStore>, record: &LiveRecord, n: usize) {
    let sender = GatewayId::random();
    let queue = WebhookQueue {
        webhook: WebhookName::parse("crm").unwrap(),
        kind: QueueKind::Stream,
    };
    let event = Event {
        id: Event::id(&record.live, record.epoch, EventKind::UserRemoved, n),
        kind: EventKind::UserRemoved,
        about: About::Live(record.live.clone()),
        data: format!(r#"{{"user_id":"{}"}}"#, user(n)),
    };
    let events = std::slice::from_ref(&event);
    store.append_events(events, 100).await.unwrap();
    let default = WebhookName::default();
    store.replay_events(&default, events, 100).await.unwrap();
    let events = reads_new(store, &queue, &sender).await;
    let dead = given_up(event);
    let entry = events.last().unwrap().entry;
    let buried = store.bury_event(&queue, &sender, entry, &dead, 100).await;
    assert_eq!(buried.unwrap(), BuryReply::Buried);
    store.end_sending(&queue, &sender).await.unwrap();
}

/// A live that user `n` hosts.
fn hosted_by(n: usize) -> OpenLive {
    OpenLive {
        terms: Terms {
            hosts: vec![user(n)],
            ..Terms::default()
        },
        ..wish_of(&format!("hosted-{n}"), user(5))
    }
}

/// Users 1 and 2, of whom the same is known, in a live of user 9.
async fn two_users(store: &Arc<dyn WholeStore>) -> LiveRecord {
    let list = ListName::parse("cooks").unwrap();
    let wish = OpenLive {
        terms: Terms {
            attendance: true,
            ..Terms::default()
        },
        ..wish("42")
    };
    let record = opened_as(store, &wish).await;
    let of = record.live_epoch();
    store
        .begin_attendance(&of, &Attended::of(&record))
        .await
        .unwrap();
    let mut gateway = Caller::new(store, "g1")
        .in_slice(SliceId::of_live(live("42"), 1, 1))
        .in_epoch(record.epoch.0);
    gateway.registers(&[]).await;
    for n in [1, 2] {
        let one = user(n);
        let login = Login::parse(&format!("Ann{n}")).unwrap();
        store.put_profile(&one, &login, "Ann").await.unwrap();
        let hide = store.set_visibility(&one, Visibility::Hidden);
        hide.await.unwrap();
        store.follow(&one, &user(3)).await.unwrap();
        store.follow(&user(3), &one).await.unwrap();
        let post = posts(store, &one).await;
        for timeline in [
            Timeline::Profile(one.clone()),
            Timeline::Home(user(3)),
            Timeline::Feed(one.clone()),
        ] {
            store
                .add_entries(&timeline, std::slice::from_ref(&post))
                .await
                .unwrap();
        }
        store.put_in_list(&one, &list, &user(3)).await.unwrap();
        store.put_in_list(&user(3), &list, &one).await.unwrap();
        is_seen(store, &one, 5).await;
        store
            .note_attendance(&of, std::slice::from_ref(&one))
            .await
            .unwrap();
        // Twice there, and gone.
        for at in [100, 300] {
            let users = [one.clone()];
            gateway.changes_at(at, &users, &[]).await;
            gateway.changes_at(at + 100, &[], &users).await;
        }
        let ban = removal(record.epoch, n, Some(LONG));
        store.remove_user(&ban).await.unwrap();
        let other = opened_as(store, &hosted_by(n)).await;
        assert_eq!(other.terms.hosts, std::slice::from_ref(&one));
        is_kept_for_webhooks(store, &record, n).await;
        let name = AnswerName::of_digest(&[n as u8; 16]);
        let answer = format!(r#"{{"body":"{{\"user_id\":\"{one}\"}}"}}"#);
        store
            .keep_answer(&name, "claim", &answer, LONG)
            .await
            .unwrap();
    }
    record
}

async fn what_names_a_user_goes_and_what_names_others_stays(store: Arc<dyn WholeStore>) {
    let record = two_users(&store).await;
    let found = erased(&store, &user(1)).await;
    for (kind, count) in [
        (PersonalData::Profiles, 1),
        (PersonalData::Logins, 1),
        (PersonalData::Following, 1),
        (PersonalData::Followers, 1),
        (PersonalData::Announcements, 1),
        (PersonalData::TimelineEntries, 3),
        (PersonalData::Sessions, 2),
        (PersonalData::Lists, 1),
        (PersonalData::ListPlaces, 1),
        (PersonalData::HostPlaces, 1),
        (PersonalData::LastSeen, 1),
        (PersonalData::Attendance, 1),
        (PersonalData::Bans, 2),
        (PersonalData::Answers, 1),
        (PersonalData::WebhookEvents, 2),
    ] {
        assert_eq!(found.get(&kind), Some(&count), "{kind:?} in {found:?}");
    }
    let name = AnswerName::of_digest(&[1; 16]);
    let kept = store.claim_answer(&name, "claim", LONG).await.unwrap();
    assert_eq!(kept.as_deref(), Some(ERASED_ANSWER));
    // All else is as if there had never been a user 1.
    let of = record.live_epoch();
    let both = [user(1), user(2)];
    let lists = ListName::parse("cooks").unwrap();
    let there = [false, true];
    for (one, there) in both.iter().zip(there) {
        let count = u64::from(there);
        assert_eq!(store.profile(one).await.unwrap().is_some(), there);
        for edge in [Edge::Following, Edge::Followers] {
            assert_eq!(store.follow_count(one, edge).await.unwrap(), count);
        }
        assert_eq!(store.count_posts(one).await.unwrap(), count);
        let own = store.list_members(one, &lists).await.unwrap();
        assert_eq!(own.len() as u64, count);
        let feed = Timeline::Feed(one.clone());
        assert_eq!(store.timeline_len(&feed).await.unwrap(), count);
    }
    assert_eq!(store.are_hidden(&both).await.unwrap(), there);
    assert_eq!(
        store.follows(&user(3), &both).await.unwrap(),
        there,
        "the other end"
    );
    let members = store.list_members(&user(3), &lists).await.unwrap();
    assert_eq!(members, both[1..]);
    let home = Timeline::Home(user(3));
    assert_eq!(store.timeline_len(&home).await.unwrap(), 1);
    assert_eq!(store.have_attended(&of, &both).await.unwrap(), there);
    let latest = store.latest_sessions(&of, 1, &both).await.unwrap();
    assert_eq!(
        latest.iter().map(Option::is_some).collect::<Vec<_>>(),
        there
    );
    let seen = store.presence_of(&both).await.unwrap();
    let seen: Vec<bool> = seen.iter().map(|it| it.last_seen.is_some()).collect();
    assert_eq!(seen, there);
    let bans = store.bans_page(&live("42"), None, 10).await.unwrap();
    assert_eq!(bans.len(), 1);
    assert_eq!(
        store
            .dead_events(&WebhookName::parse("crm").unwrap(), None, 10)
            .await
            .unwrap()
            .len(),
        1
    );
    let again = Login::parse("ann1").unwrap();
    store.put_profile(&user(4), &again, "Bob").await.unwrap();
    assert!(
        store.profile(&user(4)).await.unwrap().is_some(),
        "its login"
    );
    // And the other user can be erased as well.
    assert_eq!(erased(&store, &user(2)).await, found);
}

/// What is noted of a session that may publish.
fn granted(to: &str, streamer: &UserId) -> Publishing {
    Publishing {
        live: live(to),
        publisher: Some(StreamPublisher {
            streamer: streamer.clone(),
            invisible: false,
        }),
    }
}

async fn all_that_a_streamer_owned_goes_once_it_is_closed(store: Arc<dyn WholeStore>) {
    let record = two_users(&store).await;
    let streamer = record.streamer.clone();
    let other = opened_as(&store, &wish_of("43", user(8))).await;
    store
        .note_publishing("one", &record.live.clone().into(), LONG)
        .await
        .unwrap();
    store
        .note_publishing("two", &other.live.clone().into(), LONG)
        .await
        .unwrap();
    store
        .note_publishing("soon", &live("44").into(), LONG)
        .await
        .unwrap();
    for (digest, publisher) in [("granted", &streamer), ("to another", &user(8))] {
        let granted = granted("44", publisher);
        let noted = store.note_publishing(digest, &granted, LONG).await;
        noted.unwrap();
    }
    let open = pass(&store, &streamer).await;
    assert!(open.is_dirty && open.open_lives == [live("42")], "{open:?}");
    assert!(store.load_live(&live("42")).await.unwrap().is_some());

    let closing = closing(&store, &record).await;
    let summary = closing.summary().unwrap();
    store.add_past_live(&summary, LONG).await.unwrap();
    finish(&store, &record).await;
    let first = pass(&store, &streamer).await;
    assert_eq!(first.found.get(&PersonalData::Lives), Some(&1), "{first:?}");
    assert_eq!(
        first.found.get(&PersonalData::PastLives),
        Some(&1),
        "{first:?}"
    );
    // A step may have found the attendance after the record, or before.
    pass(&store, &streamer).await;
    assert_eq!(pass(&store, &streamer).await, ErasedSome::default());
    assert_eq!(store.load_live(&live("42")).await.unwrap(), None);
    let past = store.past_lives(&streamer, None, 10).await.unwrap();
    assert!(past.is_empty(), "{past:?}");
    let of = record.live_epoch();
    assert_eq!(store.attended(&of).await.unwrap(), None);
    assert_eq!(
        store.have_attended(&of, &[user(1)]).await.unwrap(),
        [false],
        "who came to the streamer's live is forgotten, too"
    );
    for digest in ["one", "granted"] {
        assert_eq!(store.find_publishing(digest).await.unwrap(), None);
    }
    let another = store.find_publishing("to another").await.unwrap();
    assert_eq!(another, Some(granted("44", &user(8))));
    // A gateway that heard of nothing does not open it again.
    let RecordStanding::Over(over) = store.keep_live(&record, "").await.unwrap() else {
        panic!("it is over")
    };
    assert_eq!((over.epoch, over.state), (record.epoch, LiveState::Closed));
    assert!(over.closure.unwrap().at >= record.opened_at);
    assert_eq!(store.load_live(&live("42")).await.unwrap(), None);
    let close = store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(close, CloseReply::Absent);
    // Another may have a live of that name.
    let next = wish_of("42", user(8));
    let next = opened_as(&store, &next).await;
    assert!(next.epoch > record.epoch);
    let RecordStanding::Open { .. } = store.keep_live(&next, "").await.unwrap() else {
        panic!("it is open")
    };
    assert_eq!(pass(&store, &streamer).await, ErasedSome::default());
    // A stream that is about to begin has no record yet.
    let soon = store.find_publishing("soon").await.unwrap();
    assert_eq!(soon, Some(live("44").into()));
    // The lives of others stay.
    assert_eq!(
        store.find_publishing("two").await.unwrap(),
        Some(live("43").into())
    );
    assert!(store.load_live(&live("43")).await.unwrap().is_some());
}

async fn who_is_online_is_found_and_left_to_the_gateways(store: Arc<dyn WholeStore>) {
    let record = opened_as(&store, &wish("42")).await;
    let mut gateway = Caller::new(&store, "g1").in_epoch(record.epoch.0);
    let one = [user(1)];
    gateway.registers(&one).await;
    let step = pass(&store, &user(1)).await;
    assert!(step.is_dirty && step.found.is_empty(), "{step:?}");
    let there = super::members(&store, &gateway.slice, Group::All).await;
    assert_eq!(there, one);
    gateway.leaves(&one).await;
    assert_eq!(pass(&store, &user(1)).await, ErasedSome::default());
}
