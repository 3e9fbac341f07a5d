//! Random histories of two media servers against a model of what is true, through several gateways
//! that read, decide and write in any order, and die in between.

use super::state::*;
use crate::base::ids::Epoch;
use crate::base::media_event::{StreamNews, StreamSession};
use crate::base::media_server::MediaServerName;

mod histories;

const NOW: u64 = 1_732_000_000_000;
const FIRST: Epoch = Epoch(3);

fn server(name: &str) -> MediaServerName {
    MediaServerName::parse(name).unwrap()
}

/// A message of the server `main` about a session whose id never comes again.
fn of(session: &str, news: StreamNews) -> Heard {
    Heard {
        server: server("main"),
        session: StreamSession::Unique(session.to_owned()),
        news,
        at: None,
    }
}

/// A message about an id that comes again, at a time of the server.
fn of_reused(session: &str, news: StreamNews, at: Option<u64>) -> Heard {
    Heard {
        session: StreamSession::Reused(session.to_owned()),
        at,
        ..of(session, news)
    }
}

fn open(epoch: Epoch) -> Option<OpenEpoch> {
    Some(OpenEpoch {
        epoch,
        by_stream: true,
    })
}

/// The state after a message in the first epoch, which a stream opens.
#[track_caller]
fn after(streams: &Streams, heard: &Heard) -> Streams {
    match streams.hear(heard, open(FIRST), NOW) {
        Step::Nothing => streams.clone(),
        Step::Write(next) => next,
        Step::Begin => streams.begin(heard, FIRST, NOW),
        other => panic!("{other:?}"),
    }
}

fn after_all(messages: &[Heard]) -> Streams {
    let mut streams = Streams::default();
    for heard in messages {
        streams = after(&streams, heard);
    }
    streams
}

fn is_on(streams: &Streams) -> bool {
    streams.status(FIRST).unwrap().is_on
}

#[test]
fn the_end_of_a_second_publisher_ends_nothing_of_the_first() {
    // As nginx does: it refuses the second publisher, and says that it ended.
    let streams = after_all(&[
        of_reused("17", StreamNews::Publish, None),
        of_reused("19", StreamNews::Publish, None),
        of_reused("19", StreamNews::Done, None),
    ]);
    assert!(is_on(&streams));
    let streams = after(&streams, &of_reused("17", StreamNews::Done, None));
    assert!(!is_on(&streams));
}

#[test]
fn a_connection_that_left_ends_its_own_session_only() {
    let streams = after_all(&[
        of("a", StreamNews::Publish),
        of("player", StreamNews::Left),
        of("b", StreamNews::Publish),
        of("b", StreamNews::Left),
    ]);
    assert!(is_on(&streams));
    assert!(!is_on(&after(&streams, &of("a", StreamNews::Left))));
}

#[test]
fn sessions_of_two_servers_with_the_same_id_are_two() {
    let elsewhere = |news| Heard {
        server: server("eu"),
        ..of_reused("1", news, None)
    };
    let streams = after_all(&[
        of_reused("1", StreamNews::Publish, None),
        elsewhere(StreamNews::Publish),
        elsewhere(StreamNews::Done),
    ]);
    assert!(is_on(&streams));
}

#[test]
fn a_session_that_ended_before_it_was_heard_to_begin_stays_ended() {
    let streams = after_all(&[of("a", StreamNews::Done), of("a", StreamNews::Publish)]);
    assert_eq!(streams.status(FIRST), None);
    let doubled = of("a", StreamNews::Alive);
    assert_eq!(streams.hear(&doubled, open(FIRST), NOW), Step::Nothing);
}

#[test]
fn of_an_id_that_comes_again_the_latest_message_holds() {
    // OvenMediaEngine may send the end of a connection after the next one began.
    let streams = after_all(&[
        of_reused("c", StreamNews::Publish, Some(30)),
        of_reused("c", StreamNews::Done, Some(20)),
    ]);
    assert!(is_on(&streams));
    let streams = after(&streams, &of_reused("c", StreamNews::Done, Some(40)));
    assert!(!is_on(&streams));
    let late = of_reused("c", StreamNews::Publish, Some(30));
    assert!(!is_on(&after(&streams, &late)));
    let again = of_reused("c", StreamNews::Publish, Some(50));
    assert!(is_on(&after(&streams, &again)));
}

#[test]
fn a_double_of_a_message_changes_nothing() {
    let beginning = of("a", StreamNews::Publish);
    let streams = after_all(std::slice::from_ref(&beginning));
    assert_eq!(streams.hear(&beginning, open(FIRST), NOW), Step::Nothing);
    let end = of("a", StreamNews::Done);
    let ended = after(&streams, &end);
    assert_eq!(ended.hear(&end, open(FIRST), NOW), Step::Nothing);
    assert_eq!(ended.hear(&beginning, open(FIRST), NOW), Step::Nothing);
    let request = of("b", StreamNews::Request);
    assert_eq!(ended.hear(&request, open(FIRST), NOW), Step::Nothing);
}

#[test]
fn a_session_whose_live_somebody_closed_does_not_open_it_again() {
    let streams = after_all(&[of("a", StreamNews::Publish)]);
    for news in [StreamNews::Publish, StreamNews::Alive] {
        assert_eq!(streams.hear(&of("a", news), None, NOW), Step::Nothing);
    }
    let next = of("b", StreamNews::Publish);
    assert_eq!(streams.hear(&next, None, NOW), Step::Begin);
    let streams = streams.begin(&next, Epoch(4), NOW);
    let late = of("a", StreamNews::Publish);
    assert_eq!(streams.hear(&late, open(Epoch(4)), NOW), Step::Nothing);
}

#[test]
fn a_live_that_is_being_closed_is_closed_before_a_publisher_opens_the_next() {
    let streams = after_all(&[of("a", StreamNews::Publish), of("a", StreamNews::Done)]);
    let End::Write(over) = streams.end(FIRST, NOW) else {
        panic!("no session publishes")
    };
    assert_eq!(over.end(FIRST, NOW), End::Over);
    assert_eq!(over.status(FIRST), None);
    let next = of("b", StreamNews::Publish);
    assert_eq!(over.hear(&next, open(FIRST), NOW), Step::CloseFirst);
    assert_eq!(over.hear(&next, None, NOW), Step::Begin);
    // A live that a back end opened is not closed, so a stream may come back to it.
    let by_service = OpenEpoch {
        epoch: FIRST,
        by_stream: false,
    };
    assert_eq!(over.hear(&next, Some(by_service), NOW), Step::Begin);
    assert!(is_on(&over.begin(&next, FIRST, NOW)));
}

#[test]
fn only_a_session_with_heartbeats_falls_silent_and_it_may_come_back() {
    let quiet = after_all(&[of("a", StreamNews::Publish)]);
    assert_eq!(quiet.silence(FIRST, NOW), None);
    let beating = after(&quiet, &of("a", StreamNews::Alive));
    assert_eq!(beating.status(FIRST).unwrap().beats, 1);
    let silent = beating.silence(FIRST, NOW + 1).unwrap();
    assert_eq!(
        silent.change_since(&beating, FIRST),
        Some(StreamChange::Lost)
    );
    assert_eq!(silent.status(FIRST).unwrap().since, NOW + 1);
    let heard_again = after(&silent, &of("a", StreamNews::Alive));
    assert!(is_on(&heard_again));
    // Another session without heartbeats keeps the live on air.
    let both = after(&beating, &of("b", StreamNews::Publish));
    assert!(is_on(&both.silence(FIRST, NOW).unwrap()));
}

#[test]
fn a_live_whose_gateway_died_before_it_wrote_has_no_stream() {
    let End::Write(over) = Streams::default().end(FIRST, NOW) else {
        panic!("no session publishes")
    };
    assert_eq!(
        over.hear(&of("a", StreamNews::Publish), open(FIRST), NOW),
        Step::CloseFirst
    );
}

#[test]
fn changes_are_told_once() {
    let before = Streams::default();
    let on = before.begin(&of("a", StreamNews::Publish), FIRST, NOW);
    assert_eq!(on.change_since(&before, FIRST), Some(StreamChange::Started));
    let second = on.begin(&of("b", StreamNews::Publish), FIRST, NOW + 5);
    assert_eq!(second.change_since(&on, FIRST), None);
    assert_eq!(second.status(FIRST).unwrap().since, NOW);
    assert_eq!(second.last_server(), Some(&server("main")));
    let one_left = after(&second, &of("a", StreamNews::Done));
    assert_eq!(one_left.change_since(&second, FIRST), None);
    let lost = after(&one_left, &of("b", StreamNews::Done));
    assert_eq!(
        lost.change_since(&one_left, FIRST),
        Some(StreamChange::Lost)
    );
    let End::Write(over) = lost.end(FIRST, NOW + 9) else {
        panic!("no session publishes")
    };
    assert_eq!(over.change_since(&lost, FIRST), Some(StreamChange::Ended));
}

#[test]
fn publishers_and_memories_are_bounded() {
    let mut streams = Streams::default();
    for n in 0..MAX_PUBLISHERS {
        streams = after(&streams, &of(&n.to_string(), StreamNews::Publish));
    }
    let more = of("more", StreamNews::Publish);
    assert_eq!(streams.hear(&more, open(FIRST), NOW), Step::Full);
    for n in 0..1_000 {
        streams = after(&streams, &of(&format!("e{n}"), StreamNews::Done));
    }
    assert!(is_on(&streams));
    for n in 0..MAX_PUBLISHERS {
        streams = after(&streams, &of(&n.to_string(), StreamNews::Done));
    }
    assert!(!is_on(&streams));
    let text = serde_json::to_string(&streams).unwrap();
    assert!(text.len() < 10_000, "{} bytes", text.len());
    assert_eq!(serde_json::from_str::<Streams>(&text).unwrap(), streams);
}
