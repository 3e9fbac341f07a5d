//! What messages of media servers mean, one after the other. `histories` has them in any order.

use crate::base::ids::{Epoch, LiveId};
use crate::base::media_event::{EndKnownBy, StreamNews, StreamSession};
use crate::base::media_server::{MediaServerName, SecondPublisher};
use crate::features::media::store::state::*;
use crate::features::media::store::{STRAY_STREAMS_TTL, WriteStreams};
use crate::store::StreamChange;

mod histories;

const NOW: u64 = 1_732_000_000_000;
const FIRST: Epoch = Epoch(3);

fn server(name: &str) -> MediaServerName {
    MediaServerName::parse(name).unwrap()
}

/// A message of the server `main` about a session whose id never comes again.
fn of(session: &str, news: StreamNews) -> Heard {
    let session = StreamSession::Unique(session.to_owned());
    Heard::new(server("main"), session, news)
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
    after_at(NOW, streams, heard)
}

#[track_caller]
fn after_at(now: u64, streams: &Streams, heard: &Heard) -> Streams {
    match streams.hear(heard, open(FIRST), now) {
        Step::Nothing => streams.clone(),
        Step::Write(next) => next,
        Step::Begin => streams.begin(heard, FIRST, now),
        other => panic!("{other:?}"),
    }
}

/// The state after messages, the second `at` after the begin.
#[track_caller]
fn after_each(messages: &[(u64, Heard)]) -> Streams {
    let mut streams = Streams::default();
    for (second, heard) in messages {
        streams = after_at(NOW + second * 1_000, &streams, heard);
    }
    streams
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
    // A gateway that refused a session ends it at the time of its beginning, which may be doubled.
    let refused = after(&streams, &of_reused("c", StreamNews::Done, Some(50)));
    assert!(!is_on(&after(&refused, &again)));
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
    let StreamsEnd::Write(over) = streams.end(FIRST, NOW) else {
        panic!("no session publishes")
    };
    assert_eq!(over.end(FIRST, NOW), StreamsEnd::Over);
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
    assert_eq!(quiet.silence(FIRST, u64::MAX, NOW), None);
    let beating = after(&quiet, &of("a", StreamNews::Alive));
    assert_eq!(beating.status(FIRST).unwrap().beats, 1);
    let silent = beating.silence(FIRST, 1, NOW + 1).unwrap();
    assert_eq!(
        silent.change_since(&beating, FIRST),
        Some(StreamChange::Lost)
    );
    assert_eq!(silent.status(FIRST).unwrap().since, NOW + 1);
    let heard_again = after(&silent, &of("a", StreamNews::Alive));
    assert!(is_on(&heard_again));
    // Another session without heartbeats keeps the live on air.
    let both = after(&beating, &of("b", StreamNews::Publish));
    assert!(is_on(&both.silence(FIRST, 1, NOW).unwrap()));
}

#[test]
fn each_session_falls_silent_by_itself() {
    let lost = after_all(&[
        of("lost", StreamNews::Publish),
        of("a", StreamNews::Publish),
    ]);
    // The first heartbeat shows that the server sends some, so the lost session owes one, too.
    let one = after(&lost, &of("a", StreamNews::Alive));
    let waits_for = one.status(FIRST).unwrap().beats;
    let more = after_all(&[
        of("lost", StreamNews::Publish),
        of("a", StreamNews::Publish),
    ]);
    let more = after(
        &after(&more, &of("a", StreamNews::Alive)),
        &of("a", StreamNews::Alive),
    );
    let status = more.status(FIRST).unwrap();
    assert_eq!(
        status.beats, waits_for,
        "the heartbeats of one are not those of another"
    );
    let silent = more.silence(FIRST, one.signs(), NOW).unwrap();
    assert!(is_on(&silent), "one goes on");
    assert!(!is_on(&after(&silent, &of("a", StreamNews::Done))));
    // A server elsewhere may send none.
    let elsewhere = Heard {
        server: server("eu"),
        ..of("b", StreamNews::Publish)
    };
    let both = after(&after(&one, &elsewhere), &of("a", StreamNews::Alive));
    let left = both.silence(FIRST, u64::MAX, NOW).unwrap();
    assert!(is_on(&left));
}

#[test]
fn the_end_of_a_session_shows_which_others_were_over_before() {
    use SecondPublisher::{EndsAloud, EndsSilently, Joins};
    let told = |second, at, session, news| {
        let heard = Heard {
            second_publisher: second,
            ..of(session, news)
        };
        (at, heard)
    };
    let (publish, done, left) = (StreamNews::Publish, StreamNews::Done, StreamNews::Left);
    for (second, messages, is_on_after) in [
        // A killed server says no end of "a". The next session ends, and it was let in.
        (
            EndsAloud,
            [(0, "a", publish), (60, "b", publish), (90, "b", done)],
            false,
        ),
        (
            EndsSilently,
            [(0, "a", publish), (60, "b", publish), (90, "b", done)],
            false,
        ),
        // A second publisher is refused at once; or is let in, and ends as a player does.
        (
            EndsAloud,
            [(0, "a", publish), (60, "b", publish), (61, "b", done)],
            true,
        ),
        (
            EndsAloud,
            [(0, "a", publish), (60, "b", publish), (90, "b", left)],
            true,
        ),
        // The server said no more of a second publisher that it refused.
        (
            EndsSilently,
            [(0, "a", publish), (60, "b", publish), (90, "a", done)],
            false,
        ),
        (
            EndsAloud,
            [(0, "a", publish), (60, "b", publish), (90, "a", done)],
            true,
        ),
        // The publisher comes back in the moment in which the end is heard.
        (
            EndsSilently,
            [(0, "a", publish), (89, "b", publish), (90, "a", done)],
            true,
        ),
        // Several publish at a time.
        (
            Joins,
            [(0, "a", publish), (60, "b", publish), (90, "b", done)],
            true,
        ),
        (
            Joins,
            [(0, "a", publish), (60, "b", publish), (90, "a", done)],
            true,
        ),
    ] {
        let messages = messages.map(|(at, session, news)| told(second, at, session, news));
        assert_eq!(is_on(&after_each(&messages)), is_on_after, "{messages:?}");
    }
    // Of another server of the same name nothing is known, nor of one that would fall silent.
    let elsewhere = Heard {
        instance: "b:1935".to_owned(),
        ..of("b", publish)
    };
    let done_elsewhere = Heard {
        news: done,
        ..elsewhere.clone()
    };
    let messages = [(0, of("a", publish)), (60, elsewhere), (90, done_elsewhere)];
    assert!(is_on(&after_each(&messages)));
}

#[test]
fn doubles_that_a_server_refused_do_not_end_the_session_on_air() {
    let asked = |session: &str, news| Heard {
        end_known_by: EndKnownBy::Asking,
        second_publisher: SecondPublisher::EndsSilently,
        ..of(session, news)
    };
    let mut streams = after_all(&[asked("real", StreamNews::Publish)]);
    for n in 0..=MAX_PUBLISHERS {
        streams = after(&streams, &asked(&n.to_string(), StreamNews::Publish));
    }
    let seen = after(&streams, &asked("real", StreamNews::Alive));
    let silent = seen.silence(FIRST, seen.signs() - 1, NOW).unwrap();
    assert!(is_on(&silent), "the answer names it");
    assert!(!is_on(&after(&silent, &asked("real", StreamNews::Done))));
}

#[test]
fn a_server_that_names_streams_only_speaks_of_whoever_publishes() {
    let any = |news| Heard {
        session: StreamSession::Any,
        end_known_by: EndKnownBy::Asking,
        ..of("", news)
    };
    let on = after_all(&[of("a", StreamNews::Publish), any(StreamNews::Alive)]);
    let lost = after(&on, &any(StreamNews::Unnamed));
    assert!(!is_on(&lost));
    let found = after(&lost, &any(StreamNews::Alive));
    assert!(is_on(&found));
    assert!(
        !is_on(&after(&found, &of("a", StreamNews::Done))),
        "it was that one"
    );
    let unheard_of = after_all(&[any(StreamNews::Alive)]);
    assert!(is_on(&unheard_of));
    assert!(!is_on(&after(&unheard_of, &any(StreamNews::Unnamed))));
}

#[test]
fn all_sessions_of_a_room_end_with_it() {
    let room = Heard {
        session: StreamSession::Any,
        ..of("", StreamNews::AllDone)
    };
    let two = after_all(&[of("a", StreamNews::Publish), of("b", StreamNews::Publish)]);
    assert!(!is_on(&after(&two, &room)));
    assert_eq!(Streams::default().hear(&room, None, NOW), Step::Nothing);
}

#[test]
fn a_silent_session_goes_on_in_its_live_and_begins_anew_in_the_next() {
    let alive = of("a", StreamNews::Alive);
    let beating = after_all(&[of("a", StreamNews::Publish), alive.clone()]);
    let silent = beating.silence(FIRST, 1, NOW).unwrap();
    let step = silent.hear(&alive, open(FIRST), NOW);
    assert!(
        matches!(step, Step::Write(_)),
        "nobody asks who it is: {step:?}"
    );
    // Somebody else may publish to the next live.
    let next = silent.begin(&of("b", StreamNews::Publish), Epoch(4), NOW);
    assert_eq!(next.hear(&alive, open(Epoch(4)), NOW), Step::Begin);
    let StreamsEnd::Write(over) = silent.end(FIRST, NOW) else {
        panic!("no session publishes")
    };
    assert_eq!(over.hear(&alive, open(FIRST), NOW), Step::CloseFirst);
}

#[test]
fn a_session_that_its_server_names_no_longer_is_silent_until_it_is_named_again() {
    let on = after_all(&[of("a", StreamNews::Publish)]);
    let unnamed = of("a", StreamNews::Unnamed);
    let lost = after(&on, &unnamed);
    assert!(!is_on(&lost));
    assert_eq!(lost.hear(&unnamed, open(FIRST), NOW), Step::Nothing);
    assert!(is_on(&after(&lost, &of("a", StreamNews::Alive))));
    let ended = after(&lost, &of("a", StreamNews::Done));
    assert!(!is_on(&after(&ended, &of("a", StreamNews::Alive))));
    let stranger = of("z", StreamNews::Unnamed);
    assert_eq!(on.hear(&stranger, open(FIRST), NOW), Step::Nothing);
}

#[test]
fn a_session_that_owes_signs_falls_silent_though_it_never_gave_one() {
    for end_known_by in [EndKnownBy::Asking, EndKnownBy::Heartbeats] {
        let asked = Heard {
            end_known_by,
            ..of("a", StreamNews::Publish)
        };
        let on = after_all(&[asked]);
        let last = on.status(FIRST).unwrap().beats;
        assert!(last > 0);
        assert!(!is_on(&on.silence(FIRST, last, NOW).unwrap()));
    }
}

#[test]
fn each_heartbeat_shows_though_another_session_ended() {
    let both = after_all(&[
        of("a", StreamNews::Publish),
        of("a", StreamNews::Alive),
        of("b", StreamNews::Publish),
        of("b", StreamNews::Alive),
    ]);
    let seen = both.status(FIRST).unwrap().beats;
    let handed_over = after(
        &after(&both, &of("b", StreamNews::Alive)),
        &of("a", StreamNews::Done),
    );
    assert!(handed_over.status(FIRST).unwrap().beats > seen);
}

#[test]
fn an_end_that_nobody_heard_to_begin_is_soon_forgotten_and_a_stream_on_air_is_not() {
    let request = |streams| WriteStreams {
        live: LiveId::parse("42").unwrap(),
        seen: 0,
        streams,
        epoch: FIRST,
        must_be_open: false,
        change: None,
        message: None,
    };
    let stray = after_all(&[of("a", StreamNews::Done)]);
    assert_eq!(request(stray).lifetime(), STRAY_STREAMS_TTL);
    let on = after_all(&[of("a", StreamNews::Publish)]);
    assert!(request(on).lifetime() > std::time::Duration::from_secs(365 * 24 * 3600));
}

#[test]
fn a_live_whose_gateway_died_before_it_wrote_has_no_stream() {
    let StreamsEnd::Write(over) = Streams::default().end(FIRST, NOW) else {
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
    let StreamsEnd::Write(over) = lost.end(FIRST, NOW + 9) else {
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
    // The next one silences the oldest, which a server left behind that was killed.
    streams = after(&streams, &of("more", StreamNews::Publish));
    let oldest = of("0", StreamNews::Unnamed);
    assert_eq!(streams.hear(&oldest, open(FIRST), NOW), Step::Nothing);
    for n in 0..1_000 {
        streams = after(&streams, &of(&format!("e{n}"), StreamNews::Done));
    }
    assert!(is_on(&streams));
    for n in 1..MAX_PUBLISHERS {
        streams = after(&streams, &of(&n.to_string(), StreamNews::Done));
    }
    assert!(is_on(&streams));
    streams = after(&streams, &of("more", StreamNews::Done));
    assert!(!is_on(&streams));
    let text = serde_json::to_string(&streams).unwrap();
    assert!(text.len() < 15_000, "{} bytes", text.len());
    assert_eq!(serde_json::from_str::<Streams>(&text).unwrap(), streams);
}
