//! Events: what records note, the stream with its one sender at a time, and what was given up.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::event_kind::EventKind;
use rollcall::base::ids::{Epoch, GatewayId};
use rollcall::base::webhook_name::WebhookName;
use rollcall::features::webhooks::store::DELIVERIES_KEPT;
use rollcall::features::webhooks::store::Delivery;
use rollcall::store::About;
use rollcall::store::Arrived;
use rollcall::store::BuryReply;
use rollcall::store::CountLive;
use rollcall::store::CountReply;
use rollcall::store::DeadEvent;
use rollcall::store::EntryId;
use rollcall::store::Event;
use rollcall::store::EventAges;
use rollcall::store::Figures;
use rollcall::store::Happened;
use rollcall::store::LiveRecord;
use rollcall::store::MAX_EVENTS;
use rollcall::store::NotedCounts;
use rollcall::store::Peaks;
use rollcall::store::PendingEvent;
use rollcall::store::QueueKind;
use rollcall::store::ReadEvents;
use rollcall::store::ReadFrom;
use rollcall::store::RemoveReply;
use rollcall::store::RemoveUser;
use rollcall::store::SenderTurn;
use rollcall::store::WebhookQueue;

use super::{
    LONG, counting, end, figures, finish, gateway, given_up, live, loaded, on_each, opened_untold,
    reads_new, removal, user, wish,
};

on_each!(
    a_record_notes_its_events_in_order_until_they_are_settled,
    a_closed_record_has_no_events_left,
    counts_are_noted_on_change_and_not_more_often_than_allowed,
    the_next_sender_first_reads_what_the_last_one_left,
    only_the_sender_gives_events_up_and_they_can_be_replayed,
    what_was_erased_is_not_given_up,
    webhooks_know_nothing_of_each_other,
    a_span_of_the_stream_is_read_and_sent_again_to_one_webhook,
    the_last_attempts_of_a_webhook_are_listed_newest_first,
    the_cap_trims_and_what_nobody_read_is_told,
    an_event_that_several_append_is_in_the_stream_once,
    old_events_go_and_what_nobody_read_is_told,
    a_record_notes_no_more_than_it_can_hold,
);

async fn pending(store: &Arc<dyn WholeStore>, name: &str) -> Vec<PendingEvent> {
    loaded(store, name).await.events.pending
}

fn whats(pending: &[PendingEvent]) -> Vec<Happened> {
    assert!(
        pending.windows(2).all(|two| two[0].number < two[1].number),
        "{pending:?}"
    );
    pending.iter().map(|event| event.what.clone()).collect()
}

/// Removes a user; whether an event tells it.
async fn remove(
    store: &Arc<dyn WholeStore>,
    record: &LiveRecord,
    n: usize,
    ban: Option<Duration>,
) -> bool {
    let wish = removal(record.epoch, n, ban);
    match store.remove_user(&wish).await.unwrap() {
        RemoveReply::Done { .. } => true,
        RemoveReply::Crowded => {
            let untold = RemoveUser {
                is_told: false,
                ..wish
            };
            let reply = store.remove_user(&untold).await.unwrap();
            assert!(matches!(reply, RemoveReply::Done { .. }), "{reply:?}");
            false
        }
        other => panic!("not removed: {other:?}"),
    }
}

async fn a_record_notes_its_events_in_order_until_they_are_settled(store: Arc<dyn WholeStore>) {
    let record = opened_untold(&store, &wish("42")).await;
    assert_eq!(whats(&record.events.pending), [Happened::Opened]);
    assert!(record.events.pending[0].number >= record.opened_at);
    remove(&store, &record, 1, None).await;
    remove(&store, &record, 2, Some(LONG)).await;
    let noted = pending(&store, "42").await;
    let whats = whats(&noted);
    assert_eq!(whats[..2], [Happened::Opened, Happened::Removed(user(1))]);
    assert!(
        matches!(&whats[2], Happened::Banned(who, until) if *who == user(2) && *until > record.opened_at)
    );
    store
        .settle_events(&[(live("42"), vec![noted[0].number, noted[2].number])])
        .await
        .unwrap();
    assert_eq!(pending(&store, "42").await, noted[1..2]);
    // Late, twice, or for a live that is gone.
    store
        .settle_events(&[(live("42"), vec![noted[0].number]), (live("43"), vec![1])])
        .await
        .unwrap();
    remove(&store, &record, 1, None).await;
    let after = pending(&store, "42").await;
    assert!(
        after[1].number > noted[2].number,
        "no number is used again: {after:?}"
    );
}

async fn a_closed_record_has_no_events_left(store: Arc<dyn WholeStore>) {
    let record = opened_untold(&store, &wish("42")).await;
    store.begin_close(&end(&record)).await.unwrap();
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(
        whats(&pending(&store, "42").await),
        [Happened::Opened, Happened::Closed],
        "closed once"
    );
    let closed = finish(&store, &record).await.unwrap();
    assert_eq!(closed.events, Default::default());
    let next = opened_untold(&store, &wish("42")).await;
    assert_eq!(whats(&next.events.pending), [Happened::Opened]);
    let last = store.keep_live(&next, "").await.unwrap();
    assert!(matches!(last, rollcall::store::RecordStanding::Open { .. }));
}

async fn counts_are_noted_on_change_and_not_more_often_than_allowed(store: Arc<dyn WholeStore>) {
    let record = opened_untold(&store, &wish("42")).await;
    let note = async || store.note_counts(&record.live, record.epoch).await.unwrap();
    let figures = figures(3, 1);
    assert_eq!(note().await, NotedCounts::Same);
    let (peaks, arrived) = (Peaks::default(), Arrived::default());
    let count = counting(&record, figures, peaks, arrived);
    store.count_live(&count).await.unwrap();
    let NotedCounts::Noted(noted) = note().await else {
        panic!("not noted")
    };
    assert_eq!(
        whats(&noted.events.pending),
        [Happened::Opened, Happened::Counts(figures)]
    );
    assert_eq!(noted.events.told.map(|told| told.figures), Some(figures));
    assert_eq!(note().await, NotedCounts::Same);
    let nobody = CountLive {
        figures: Figures::default(),
        ..count
    };
    let deadline = tokio::time::Instant::now() + rollcall::store::COUNT_EVERY * 2;
    while store.count_live(&nobody).await.unwrap() != CountReply::Counted {
        assert!(
            tokio::time::Instant::now() < deadline,
            "the figures are never written"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let early = note().await;
    assert!(
        matches!(early, NotedCounts::Early(left) if !left.is_zero() && left < Duration::from_secs(6)),
        "{early:?}"
    );
    let other = store
        .note_counts(&record.live, Epoch(record.epoch.0 + 1))
        .await
        .unwrap();
    assert_eq!(other, NotedCounts::Over);
    assert_eq!(
        store.note_counts(&live("43"), record.epoch).await.unwrap(),
        NotedCounts::Over
    );
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(note().await, NotedCounts::Over);
}

fn event(n: usize) -> Event {
    let (id, data) = (format!("42:1:live.counts:{n}"), format!("{{\"n\":{n}}}"));
    Event {
        id,
        kind: EventKind::LiveCounts,
        about: About::Live(live("42")),
        data,
    }
}

async fn append(store: &Arc<dyn WholeStore>, from: usize, to: usize, kept: u64) {
    let events: Vec<Event> = (from..to).map(event).collect();
    for some in events.chunks(MAX_EVENTS) {
        store.append_events(some, kept).await.unwrap();
    }
}

/// The events of the stream, for the webhook of this name.
fn stream_for(webhook: &str) -> WebhookQueue {
    WebhookQueue {
        webhook: WebhookName::parse(webhook).unwrap(),
        kind: QueueKind::Stream,
    }
}

/// The events of the stream, for the webhook of the settings.
fn queue() -> WebhookQueue {
    stream_for("default")
}

async fn look(
    store: &Arc<dyn WholeStore>,
    who: &GatewayId,
    from: ReadFrom,
    count: usize,
) -> SenderTurn {
    look_at(store, &queue(), who, from, count).await
}

async fn look_at(
    store: &Arc<dyn WholeStore>,
    queue: &WebhookQueue,
    who: &GatewayId,
    from: ReadFrom,
    count: usize,
) -> SenderTurn {
    let request = ReadEvents {
        queue: queue.clone(),
        gateway: who.clone(),
        turn: LONG,
        begin: 0,
        from,
        count,
    };
    store.read_events(&request).await.unwrap()
}

/// The entries and the ids of what the sender reads, how many wait, and how many were lost.
async fn read(
    store: &Arc<dyn WholeStore>,
    who: &GatewayId,
    from: ReadFrom,
    count: usize,
) -> (Vec<EntryId>, Vec<String>, u64, u64) {
    let SenderTurn::Mine {
        events,
        waiting,
        lost,
    } = look(store, who, from, count).await
    else {
        panic!("not its turn")
    };
    let entries: Vec<_> = events.iter().map(|read| read.entry).collect();
    assert!(entries.is_sorted());
    let ids = events
        .into_iter()
        .filter_map(|read| Some(read.event?.id))
        .collect();
    (entries, ids, waiting, lost)
}

fn ids(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|n| event(n).id).collect()
}

const BEGINNING: ReadFrom = ReadFrom::Unacknowledged(EntryId(0, 0));

async fn the_next_sender_first_reads_what_the_last_one_left(store: Arc<dyn WholeStore>) {
    let (one, other) = (gateway("one"), gateway("other"));
    assert_eq!(
        read(&store, &one, ReadFrom::New, 10).await,
        (vec![], vec![], 0, 0)
    );
    append(&store, 0, 5, 1_000).await;
    let (first, got, waiting, _) = read(&store, &one, ReadFrom::New, 3).await;
    assert_eq!((got, waiting), (ids(0, 3), 5));
    assert_eq!(
        look(&store, &other, ReadFrom::New, 3).await,
        SenderTurn::Other
    );
    store.end_sending(&queue(), &other).await.unwrap();
    assert_eq!(look(&store, &other, BEGINNING, 0).await, SenderTurn::Other);
    store
        .acknowledge_events(&queue(), &first[1..2])
        .await
        .unwrap();
    let (rest, got, waiting, _) = read(&store, &one, ReadFrom::New, 10).await;
    assert_eq!((got, waiting), (ids(3, 5), 4));

    store.end_sending(&queue(), &one).await.unwrap();
    let (_, got, waiting, lost) = read(&store, &other, BEGINNING, 2).await;
    assert_eq!((got, waiting, lost), (vec![event(0).id, event(2).id], 4, 0));
    assert_eq!(
        look(&store, &one, ReadFrom::New, 3).await,
        SenderTurn::Other
    );
    let (_, got, ..) = read(&store, &other, ReadFrom::Unacknowledged(first[2]), 10).await;
    assert_eq!(got, ids(3, 5));
    assert_eq!(
        read(&store, &other, ReadFrom::New, 10).await.1,
        Vec::<String>::new()
    );
    // The former sender learns late that its events arrived.
    store.acknowledge_events(&queue(), &first).await.unwrap();
    store.acknowledge_events(&queue(), &rest).await.unwrap();
    assert_eq!(
        read(&store, &other, BEGINNING, 10).await,
        (vec![], vec![], 0, 0)
    );
    append(&store, 5, 6, 1_000).await;
    assert_eq!(
        read(&store, &other, ReadFrom::New, 0).await,
        (vec![], vec![], 1, 0),
        "it only keeps the turn"
    );
    assert_eq!(read(&store, &other, ReadFrom::New, 10).await.1, ids(5, 6));
}

async fn only_the_sender_gives_events_up_and_they_can_be_replayed(store: Arc<dyn WholeStore>) {
    let (one, other) = (gateway("one"), gateway("other"));
    append(&store, 0, 3, 1_000).await;
    let (entries, ..) = read(&store, &one, ReadFrom::New, 10).await;
    let dead = |n| given_up(event(n));
    let dead_events = async |after| {
        let listed = store.dead_events(&queue().webhook, after, 10).await;
        listed.unwrap()
    };
    let bury = async |who: &GatewayId, n: usize| {
        let queue = queue();
        let dead = dead(n);
        let buried = store.bury_event(&queue, who, entries[n], &dead, 10);
        buried.await.unwrap()
    };
    assert_eq!(bury(&other, 0).await, BuryReply::NotTheSender);
    assert_eq!(dead_events(None).await, []);
    for n in 0..entries.len() {
        assert_eq!(bury(&one, n).await, BuryReply::Buried);
    }
    assert_eq!(
        read(&store, &one, BEGINNING, 10).await,
        (vec![], vec![], 0, 0),
        "they wait no more"
    );
    // The answer of a call was lost, and the sender makes it again.
    assert_eq!(bury(&one, 2).await, BuryReply::Buried);
    let listed = dead_events(None).await;
    let events: Vec<DeadEvent> = listed.iter().map(|(_, dead)| dead.clone()).collect();
    assert_eq!(events, [dead(0), dead(1), dead(2)]);
    let (default, first) = (queue().webhook, Some(listed[0].0));
    let page = store.dead_events(&default, first, 1).await.unwrap();
    assert_eq!(page, listed[1..2]);

    for is_first in [true, false] {
        let replayed = store.replay_dead(&default, listed[1].0).await;
        assert_eq!(replayed.unwrap(), is_first);
    }
    let left = [listed[0].clone(), listed[2].clone()];
    assert_eq!(dead_events(None).await, left);
    assert_eq!(
        read(&store, &one, ReadFrom::New, 10).await.1,
        Vec::<String>::new(),
        "other consumers of the stream do not see it again"
    );
    let again = WebhookQueue {
        kind: QueueKind::Replay,
        ..queue()
    };
    // Each queue has a turn of its own.
    let events = reads_new(&store, &again, &other).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].event, Some(event(1)));
    let status = store.webhook_status(&again.webhook).await.unwrap();
    assert_eq!((status.waiting, status.dead), (1, 2));
    store
        .acknowledge_events(&again, &[events[0].entry])
        .await
        .unwrap();
    let status = store.webhook_status(&again.webhook).await.unwrap();
    assert_eq!(status.waiting, 0);
}

async fn what_was_erased_is_not_given_up(store: Arc<dyn WholeStore>) {
    let one = gateway("one");
    let replays = WebhookQueue {
        kind: QueueKind::Replay,
        ..queue()
    };
    let of_user = Event {
        data: format!(r#"{{"user_id":"{}"}}"#, user(1)),
        ..event(0)
    };
    let sent_again = [of_user.clone(), event(1)];
    store
        .replay_events(&replays.webhook, &sent_again, 1_000)
        .await
        .unwrap();
    let events = reads_new(&store, &replays, &one).await;
    let mut place = String::new();
    while let Some(next) = store.erase_some(&user(1), &place).await.unwrap().next {
        place = next;
    }
    for (n, right) in [(0, BuryReply::Gone), (1, BuryReply::Buried)] {
        let dead = given_up(sent_again[n].clone());
        let buried = store.bury_event(&replays, &one, events[n].entry, &dead, 10);
        assert_eq!(buried.await.unwrap(), right);
    }
    let status = store.webhook_status(&replays.webhook).await.unwrap();
    assert_eq!((status.waiting, status.dead), (0, 1));
    let listed = store.dead_events(&replays.webhook, None, 10).await.unwrap();
    assert_eq!(listed[0].1.event, event(1));
}

async fn webhooks_know_nothing_of_each_other(store: Arc<dyn WholeStore>) {
    let (one, other) = (gateway("one"), gateway("other"));
    let (first, second) = (stream_for("first"), stream_for("second"));
    let ids_in = |turn: SenderTurn| {
        let SenderTurn::Mine { events, .. } = turn else {
            panic!("not its turn")
        };
        let ids: Vec<String> = events
            .iter()
            .filter_map(|read| Some(read.event.as_ref()?.id.clone()))
            .collect();
        (events, ids)
    };
    append(&store, 0, 3, 1_000).await;
    let (of_first, got) = ids_in(look_at(&store, &first, &one, ReadFrom::New, 10).await);
    assert_eq!(got, ids(0, 3));
    // Another gateway may be the sender of another webhook.
    let (of_second, got) = ids_in(look_at(&store, &second, &other, ReadFrom::New, 10).await);
    assert_eq!(got, ids(0, 3));
    assert_eq!(
        look_at(&store, &first, &other, ReadFrom::New, 10).await,
        SenderTurn::Other
    );
    store
        .acknowledge_events(
            &first,
            &of_first.iter().map(|read| read.entry).collect::<Vec<_>>(),
        )
        .await
        .unwrap();
    let dead = DeadEvent {
        event: event(0),
        why: "it answered 500".to_owned(),
        attempts: 3,
    };
    let buried = store.bury_event(&second, &other, of_second[0].entry, &dead, 10);
    assert_eq!(buried.await.unwrap(), BuryReply::Buried);
    let first_status = store.webhook_status(&first.webhook).await.unwrap();
    assert_eq!((first_status.waiting, first_status.dead), (0, 0));
    let second_status = store.webhook_status(&second.webhook).await.unwrap();
    assert_eq!((second_status.waiting, second_status.dead), (2, 1));
    assert_eq!(
        store.dead_events(&first.webhook, None, 10).await.unwrap(),
        []
    );
}

async fn a_span_of_the_stream_is_read_and_sent_again_to_one_webhook(store: Arc<dyn WholeStore>) {
    let one = gateway("one");
    append(&store, 0, 150, 1_000).await;
    let page = store
        .events_after(EntryId::default(), u64::MAX)
        .await
        .unwrap();
    assert_eq!(page.len(), MAX_EVENTS);
    let last = page.last().unwrap().entry;
    let rest = store.events_after(last, u64::MAX).await.unwrap();
    assert_eq!(rest.len(), 50);
    assert_eq!(rest[0].event, Some(event(100)));
    let before_all = store.events_after(EntryId::default(), 1).await.unwrap();
    assert_eq!(before_all, []);
    let webhook = stream_for("crm").webhook;
    store
        .replay_events(&webhook, &[event(7), event(8)], 1_000)
        .await
        .unwrap();
    for (name, right) in [("crm", ids(7, 9)), ("other", Vec::new())] {
        let queue = WebhookQueue {
            kind: QueueKind::Replay,
            ..stream_for(name)
        };
        let SenderTurn::Mine { events, .. } =
            look_at(&store, &queue, &one, ReadFrom::New, 10).await
        else {
            panic!("not its turn")
        };
        let got: Vec<String> = events
            .into_iter()
            .filter_map(|read| Some(read.event?.id))
            .collect();
        assert_eq!(got, right, "{name}");
    }
    let stream = store.events_after(last, u64::MAX).await.unwrap();
    assert_eq!(stream.len(), 50, "the stream is as it was");
}

async fn the_last_attempts_of_a_webhook_are_listed_newest_first(store: Arc<dyn WholeStore>) {
    let webhook = stream_for("crm").webhook;
    assert_eq!(store.deliveries(&webhook, None, 10).await.unwrap(), []);
    let attempt = |n: u32, failure: Option<&str>| Delivery {
        event_id: format!("42:1:live.opened:{n}"),
        event_type: "live.opened".to_owned(),
        at: u64::from(n),
        attempt: 1,
        latency_ms: 5,
        status: Some(204),
        failure: failure.map(str::to_owned),
    };
    let some = [
        attempt(1, Some("it answered 500")),
        attempt(2, None),
        attempt(3, None),
    ];
    store.note_deliveries(&webhook, &some).await.unwrap();
    let first = store.deliveries(&webhook, None, 2).await.unwrap();
    let listed: Vec<&Delivery> = first.iter().map(|(_, delivery)| delivery).collect();
    assert_eq!(listed, [&some[2], &some[1]]);
    let rest = store
        .deliveries(&webhook, Some(first[1].0), 10)
        .await
        .unwrap();
    assert_eq!(rest[0].1, some[0]);
    let status = store.webhook_status(&webhook).await.unwrap();
    assert_eq!(status.delivered_at, Some(3));
    assert_eq!(status.failed, Some((1, "it answered 500".to_owned())));
    for begin in 0..11 {
        let many: Vec<Delivery> = (0..100).map(|n| attempt(begin * 100 + n, None)).collect();
        store.note_deliveries(&webhook, &many).await.unwrap();
    }
    let kept = store.deliveries(&webhook, None, 2_000).await.unwrap();
    assert_eq!(kept.len() as u64, DELIVERIES_KEPT);
    assert_eq!(kept[0].1.at, 1_099);
    let status = store.webhook_status(&webhook).await.unwrap();
    assert_eq!(status.delivered_at, Some(1_099));
    assert_eq!(status.failed, Some((1, "it answered 500".to_owned())));
    let others = store
        .deliveries(&stream_for("other").webhook, None, 10)
        .await
        .unwrap();
    assert_eq!(others, []);
}

async fn the_cap_trims_and_what_nobody_read_is_told(store: Arc<dyn WholeStore>) {
    let one = gateway("one");
    append(&store, 0, 10, 100).await;
    let (first, got, ..) = read(&store, &one, ReadFrom::New, 10).await;
    assert_eq!(got, ids(0, 10));
    append(&store, 10, 1_000, 100).await;
    let (_, got, waiting, lost) = read(&store, &one, ReadFrom::New, 100).await;
    assert!((700..=890).contains(&lost), "{lost}");
    let next = 10 + lost as usize;
    assert_eq!(
        (got, waiting),
        (ids(next, next + 100), (1_000 - next + 10) as u64)
    );
    // Those that were read and not acknowledged are named, and have nothing left.
    let (entries, got, ..) = read(&store, &one, BEGINNING, 10).await;
    assert_eq!((entries, got), (first, vec![]));
    let mut rest = 0;
    loop {
        let (_, got, _, lost) = read(&store, &one, ReadFrom::New, 100).await;
        assert_eq!(lost, 0, "it is told once");
        if got.is_empty() {
            break;
        }
        rest += got.len();
    }
    assert_eq!(next + 100 + rest, 1_000);
}

async fn an_event_that_several_append_is_in_the_stream_once(store: Arc<dyn WholeStore>) {
    let one = gateway("one");
    for [from, to] in [[0, 3], [0, 5], [2, 4], [4, 6]] {
        append(&store, from, to, 100).await;
    }
    let (_, got, waiting, _) = read(&store, &one, ReadFrom::New, 100).await;
    assert_eq!((got, waiting), (ids(0, 6), 6));
    // A webhook is sent an event again as often as somebody asks for it.
    let webhook = queue().webhook;
    for _ in 0..2 {
        store
            .replay_events(&webhook, &[event(0)], 100)
            .await
            .unwrap();
    }
    let replays = WebhookQueue {
        webhook,
        kind: QueueKind::Replay,
    };
    let SenderTurn::Mine { waiting, .. } = look_at(&store, &replays, &one, ReadFrom::New, 10).await
    else {
        panic!("another sends")
    };
    assert_eq!(waiting, 2);
}

async fn old_events_go_and_what_nobody_read_is_told(store: Arc<dyn WholeStore>) {
    let one = gateway("one");
    append(&store, 0, 3, 100).await;
    let (_, got, ..) = read(&store, &one, ReadFrom::New, 2).await;
    assert_eq!(got, ids(0, 2));
    let ages = |events| EventAges {
        events,
        audit: Duration::ZERO,
    };
    store.drop_old_events(&ages(LONG)).await.unwrap();
    let all = async || {
        store
            .events_after(EntryId::default(), u64::MAX)
            .await
            .unwrap()
    };
    assert_eq!(all().await.len(), 3);
    let deadline = tokio::time::Instant::now() + LONG;
    while !all().await.is_empty() {
        assert!(tokio::time::Instant::now() < deadline);
        store.drop_old_events(&ages(Duration::ZERO)).await.unwrap();
    }
    append(&store, 3, 4, 100).await;
    let (_, got, _, lost) = read(&store, &one, ReadFrom::New, 10).await;
    assert_eq!((got, lost), (ids(3, 4), 1));
}

async fn a_record_notes_no_more_than_it_can_hold(store: Arc<dyn WholeStore>) {
    let record = opened_untold(&store, &wish("42")).await;
    let mut told = 0;
    while remove(&store, &record, told, None).await {
        told += 1;
        assert!(told <= rollcall::store::MAX_RECORD_FIELDS);
    }
    let noted = pending(&store, "42").await;
    assert_eq!((noted.len(), told > 200), (told + 1, true));

    // Counts are not told now, so they are told when there is a place again.
    let figures = figures(3, 1);
    let (peaks, arrived) = (Peaks::default(), Arrived::default());
    let count = counting(&record, figures, peaks, arrived);
    store.count_live(&count).await.unwrap();
    let note = async || store.note_counts(&record.live, record.epoch).await.unwrap();
    assert_eq!(
        note().await,
        NotedCounts::Early(rollcall::store::COUNTS_EVENT_EVERY)
    );
    let numbers = noted.iter().take(10).map(|event| event.number).collect();
    store.settle_events(&[(live("42"), numbers)]).await.unwrap();
    assert!(matches!(note().await, NotedCounts::Noted(_)));

    while remove(&store, &record, 1, None).await {}
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(
        pending(&store, "42")
            .await
            .last()
            .map(|event| event.what.clone()),
        Some(Happened::Closed)
    );
}
