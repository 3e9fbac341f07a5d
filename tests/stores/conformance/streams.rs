//! What media servers told of the streams of a live.

use rollcall::features::WholeStore;
use rollcall::features::media::store::OpenEpoch;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::Epoch;
use rollcall::base::media_event::{StreamNews, StreamSession};
use rollcall::base::media_server::MediaServerName;
use rollcall::features::media::store::{
    Heard, KnownStreams, Publishing, StreamPublisher, Streams, StreamsEnd, StreamsReply,
    WriteStreams,
};
use rollcall::store::{Happened, LiveRecord, OpenLive, OpenedBy};
use rollcall::store::{StreamChange, StreamStatus};

use super::{end, live, on_each, opened, opened_as, user, wish};

on_each!(
    a_state_is_written_only_by_a_caller_who_read_the_last_one,
    the_record_of_the_open_epoch_notes_the_stream_and_its_events,
    an_epoch_that_is_over_is_left_alone,
    a_state_outlives_its_record,
    a_stream_key_is_found_by_its_digest,
);

const NOW: u64 = 1_732_000_000_000;

fn publishes(session: &str) -> Heard {
    Heard::new(
        MediaServerName::parse("main").unwrap(),
        StreamSession::Unique(session.to_owned()),
        StreamNews::Publish,
    )
}

/// A request to write that a session publishes.
fn beginning(record: &LiveRecord, seen: u64) -> WriteStreams {
    let heard = publishes("a");
    WriteStreams {
        live: record.live.clone(),
        seen,
        streams: Streams::default().begin(&heard, record.epoch, NOW),
        epoch: record.epoch,
        must_be_open: true,
        change: Some((StreamChange::Started, heard.server)),
        message: Some("it has a stream".to_owned()),
    }
}

async fn written(store: &Arc<dyn WholeStore>, request: &WriteStreams) -> Option<LiveRecord> {
    match store.write_streams(request).await.unwrap() {
        StreamsReply::Written(record) => record.map(|record| *record),
        other => panic!("{other:?}"),
    }
}

async fn by_stream(store: &Arc<dyn WholeStore>) -> LiveRecord {
    let wish = OpenLive {
        by: OpenedBy::Media,
        ..wish("42")
    };
    opened_as(store, &wish).await
}

async fn a_state_is_written_only_by_a_caller_who_read_the_last_one(store: Arc<dyn WholeStore>) {
    let record = by_stream(&store).await;
    let nothing = store.load_streams(&record.live).await.unwrap();
    assert_eq!(nothing, KnownStreams::default());
    let first = beginning(&record, 0);
    written(&store, &first).await;
    let known = store.load_streams(&record.live).await.unwrap();
    assert_eq!(known.streams, first.streams);
    for seen in [0, known.version - 1, known.version + 1] {
        let late = WriteStreams {
            seen,
            streams: Streams::default(),
            ..first.clone()
        };
        let reply = store.write_streams(&late).await.unwrap();
        assert_eq!(reply, StreamsReply::Changed, "{seen}");
    }
    let next = WriteStreams {
        seen: known.version,
        ..first
    };
    written(&store, &next).await;
    let after = store.load_streams(&record.live).await.unwrap();
    assert!(after.version > known.version, "{after:?}");
}

async fn the_record_of_the_open_epoch_notes_the_stream_and_its_events(store: Arc<dyn WholeStore>) {
    let record = by_stream(&store).await;
    assert_eq!((record.opened_by, record.stream), (OpenedBy::Media, None));
    let first = beginning(&record, 0);
    let on = written(&store, &first).await.unwrap();
    let status = StreamStatus {
        is_on: true,
        since: NOW,
        beats: 0,
    };
    assert_eq!(on.stream, Some(status));
    assert_eq!(store.load_live(&record.live).await.unwrap().unwrap(), on);
    let server = MediaServerName::parse("main").unwrap();
    let told = Happened::Stream(StreamChange::Started, server);
    assert_eq!(on.events.pending.last().unwrap().what, told);

    let known = store.load_streams(&record.live).await.unwrap();
    let done = Heard {
        news: StreamNews::Done,
        ..publishes("a")
    };
    let rollcall::features::media::store::Step::Write(ended) =
        known.streams.hear(&done, OpenEpoch::of(&record), NOW + 1)
    else {
        panic!("it ends")
    };
    let StreamsEnd::Write(over) = ended.end(record.epoch, NOW + 2) else {
        panic!("nobody publishes")
    };
    let last = WriteStreams {
        seen: known.version,
        streams: over,
        change: None,
        message: None,
        ..first
    };
    let off = written(&store, &last).await.unwrap();
    assert_eq!(off.stream, None);
    assert_eq!(off.events, on.events, "no event was asked for");
}

async fn an_epoch_that_is_over_is_left_alone(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let request = beginning(&record, 0);
    let other = WriteStreams {
        epoch: Epoch(record.epoch.0 + 1),
        ..request.clone()
    };
    let reply = store.write_streams(&other).await.unwrap();
    assert_eq!(reply, StreamsReply::Over);
    store.begin_close(&end(&record)).await.unwrap();
    let reply = store.write_streams(&request).await.unwrap();
    assert_eq!(reply, StreamsReply::Over);
    let known = store.load_streams(&record.live).await.unwrap();
    assert_eq!(known.version, 0, "nothing was written");
    // The end of a session is remembered all the same.
    let late = WriteStreams {
        must_be_open: false,
        ..request
    };
    let closing = written(&store, &late).await.unwrap();
    assert_eq!(closing.stream, None);
    assert_ne!(store.load_streams(&record.live).await.unwrap().version, 0);
}

async fn a_state_outlives_its_record(store: Arc<dyn WholeStore>) {
    let request = WriteStreams {
        live: live("43"),
        seen: 0,
        streams: Streams::default().begin(&publishes("a"), Epoch(7), NOW),
        epoch: Epoch(7),
        must_be_open: false,
        change: None,
        message: None,
    };
    assert_eq!(written(&store, &request).await, None);
    let known = store.load_streams(&live("43")).await.unwrap();
    let record = opened(&store, "43").await;
    assert_eq!(store.load_streams(&record.live).await.unwrap(), known);
}

async fn a_stream_key_is_found_by_its_digest(store: Arc<dyn WholeStore>) {
    assert_eq!(store.find_publishing("d1").await.unwrap(), None);
    let with = |of: &str, publisher: Option<bool>| Publishing {
        live: live(of),
        publisher: publisher.map(|invisible| StreamPublisher {
            streamer: user(1),
            invisible,
        }),
    };
    let lifetime = Duration::from_secs(60);
    for (digest, noted) in [
        ("d1", with("42", None)),
        ("d2", with("43", Some(false))),
        ("d3", with("43", Some(true))),
        ("d1", with("44", None)),
    ] {
        store
            .note_publishing(digest, &noted, lifetime)
            .await
            .unwrap();
        let found = store.find_publishing(digest).await.unwrap();
        assert_eq!(found, Some(noted));
    }
}
