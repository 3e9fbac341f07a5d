//! The order of each live, whatever fails; the waits; the bounds.

use std::collections::HashSet;

use proptest::prelude::*;

use crate::base::clock::moment;
use crate::base::event_kind::EventKind;
use crate::base::ids::LiveId;
use crate::features::webhooks::backlog::*;

fn live(name: &str) -> About {
    About::Live(LiveId::parse(name).unwrap())
}

fn event(name: &str, number: u64) -> (EntryId, Event) {
    let (entry, about, kind) = (EntryId(number, 0), live(name), EventKind::LiveOpened);
    (
        entry,
        Event {
            id: number.to_string(),
            kind,
            about,
            data: "{}".to_owned(),
        },
    )
}

fn backlog(events: &[(&str, u64)]) -> Backlog {
    let mut backlog = Backlog::default();
    for (name, number) in events {
        let (entry, event) = event(name, *number);
        backlog.push(entry, event);
    }
    backlog
}

/// What can be sent now, all at once.
fn sendable(backlog: &mut Backlog, now: Moment) -> Vec<u64> {
    std::iter::from_fn(|| backlog.next(now).map(|(entry, _)| entry.0)).collect()
}

#[test]
fn one_event_of_a_live_is_sent_at_a_time() {
    let mut backlog = backlog(&[("a", 1), ("a", 2), ("b", 3), ("a", 4)]);
    assert_eq!(sendable(&mut backlog, moment(0)), [1, 3]);
    assert_eq!(backlog.next_at(), None);
    backlog.arrived(&live("b"), EntryId(3, 0));
    assert!(sendable(&mut backlog, moment(0)).is_empty());
    backlog.arrived(&live("a"), EntryId(1, 0));
    assert_eq!(
        (
            backlog.next_at(),
            sendable(&mut backlog, moment(0)),
            backlog.oldest()
        ),
        (Some(moment(0)), vec![2], Some(EntryId(2, 0)))
    );
}

#[test]
fn a_live_of_which_the_receiver_wants_no_event_is_left_alone() {
    for (wanted, wait) in [(0, 500), (400, 500), (5_000, 5_000)] {
        let mut backlog = backlog(&[("a", 1), ("b", 2)]);
        assert_eq!(sendable(&mut backlog, moment(0)), [1, 2]);
        backlog.failed(&live("a"), moment(0), 1.0);
        backlog.leave_alone(&live("a"), moment(0), wanted);
        // Another live's event arrived meanwhile: it waits for nothing.
        backlog.leave_alone(&live("b"), moment(0), wanted);
        backlog.arrived(&live("b"), EntryId(2, 0));
        assert_eq!(backlog.next_at(), Some(moment(wait)), "{wanted}");
        assert!(sendable(&mut backlog, moment(wait - 1)).is_empty());
        assert_eq!(sendable(&mut backlog, moment(wait)), [1]);
    }
}

#[test]
fn a_live_of_which_the_receiver_wants_no_event_rests_although_its_oldest_is_given_up() {
    for (wanted, wait) in [(0, 0), (5_000, 5_000)] {
        let mut backlog = backlog(&[("a", 1), ("a", 2), ("a", 3)]);
        assert_eq!(sendable(&mut backlog, moment(0)), [1]);
        backlog.failed(&live("a"), moment(0), 1.0);
        backlog.leave_alone(&live("a"), moment(0), wanted);
        backlog.gave_up(&live("a"), EntryId(1, 0));
        assert_eq!(backlog.next_at(), Some(moment(wait)), "{wanted}");
        assert_eq!(sendable(&mut backlog, moment(wait)), [2]);
        backlog.arrived(&live("a"), EntryId(2, 0));
        assert_eq!(
            sendable(&mut backlog, moment(wait)),
            [3],
            "it rests no more"
        );
    }
}

#[test]
fn a_live_whose_event_fails_waits_longer_each_time_and_alone() {
    let mut backlog = backlog(&[("a", 1), ("a", 2), ("b", 3), ("b", 4)]);
    assert_eq!(sendable(&mut backlog, moment(0)), [1, 3]);
    let mut now = 0;
    for (failures, wait) in [(1, 500), (2, 1_000), (3, 2_000), (4, 4_000)] {
        assert_eq!(backlog.failed(&live("a"), moment(now), 1.0), failures);
        assert_eq!(backlog.next_at(), Some(moment(now + wait)));
        assert!(sendable(&mut backlog, moment(now + wait - 1)).is_empty());
        now += wait;
        assert_eq!(sendable(&mut backlog, moment(now)), [1]);
    }
    for _ in 0..40 {
        backlog.failed(&live("a"), moment(now), 0.0);
        assert!(backlog.next_at().unwrap() <= moment(now + BACKOFF.longest / 2));
        now += BACKOFF.longest;
        assert_eq!(sendable(&mut backlog, moment(now)), [1]);
    }
    backlog.arrived(&live("b"), EntryId(3, 0));
    assert_eq!(
        sendable(&mut backlog, moment(now)),
        [4],
        "another live goes on"
    );
    backlog.arrived(&live("a"), EntryId(1, 0));
    assert_eq!(sendable(&mut backlog, moment(now)), [2]);
    assert_eq!(
        backlog.failed(&live("a"), moment(now), 0.0),
        1,
        "each event has its own failures"
    );
}

#[test]
fn what_is_held_is_bounded_all_in_all_and_of_a_live() {
    let mut of_one = Backlog::default();
    let mut number = 0;
    while of_one.room() > 0 {
        number += 1;
        let (entry, event) = event("a", number);
        of_one.push(entry, event);
    }
    assert_eq!(number as usize, MOST_OF_A_SUBJECT);
    let made_of = |backlog: &Backlog, now| {
        backlog
            .most_held_back(now)
            .map(|held_back| (held_back.entry.0, held_back.failures))
    };
    assert_eq!(
        made_of(&of_one, moment(HOPELESS_AFTER)),
        None,
        "its oldest event has not failed"
    );
    of_one.next(moment(0));
    of_one.failed(&live("a"), moment(0), 0.0);
    assert_eq!(
        made_of(&of_one, moment(HOPELESS_AFTER - 1)),
        None,
        "it may arrive with the next attempt"
    );
    assert_eq!(made_of(&of_one, moment(HOPELESS_AFTER)), Some((1, 1)));
    of_one.gave_up(&live("a"), EntryId(1, 0));
    assert_eq!(of_one.room(), MAX_EVENTS);
    assert_eq!(
        sendable(&mut of_one, moment(HOPELESS_AFTER)),
        [2],
        "the event that was given up waits no more"
    );
    assert_eq!(
        made_of(&of_one, moment(HOPELESS_AFTER)),
        None,
        "the next one is tried first"
    );
    of_one.failed(&live("a"), moment(HOPELESS_AFTER), 0.0);
    assert_eq!(
        made_of(&of_one, moment(HOPELESS_AFTER)),
        Some((2, 1)),
        "the live is as hopeless as it was"
    );
    assert_eq!(sendable(&mut of_one, moment(HOPELESS_AFTER * 2)), [2]);
    of_one.arrived(&live("a"), EntryId(2, 0));
    assert_eq!(sendable(&mut of_one, moment(HOPELESS_AFTER * 2)), [3]);
    of_one.failed(&live("a"), moment(HOPELESS_AFTER * 2), 0.0);
    assert_eq!(
        made_of(&of_one, moment(HOPELESS_AFTER * 2)),
        None,
        "one of its events arrived"
    );

    let mut of_many = Backlog::default();
    for number in 0..MOST_HELD as u64 {
        let (entry, event) = event(&format!("l{number}"), number);
        of_many.push(entry, event);
    }
    assert_eq!(of_many.room(), 0);
}

#[test]
fn an_outcome_of_an_event_that_is_not_the_oldest_changes_nothing() {
    let mut backlog = backlog(&[("a", 1), ("a", 2)]);
    backlog.arrived(&live("a"), EntryId(2, 0));
    backlog.arrived(&live("b"), EntryId(1, 0));
    assert_eq!(
        backlog.failed(&live("a"), moment(0), 0.0),
        0,
        "nothing of it is being sent"
    );
    assert_eq!(sendable(&mut backlog, moment(0)), [1]);
}

proptest! {
    /// Whatever fails and in whichever order answers come, each event is done with once, in the
    /// order of its live.
    #[test]
    fn each_live_keeps_its_order(
        lives in prop::collection::vec(0_usize..5, 1..60),
        fails in prop::collection::vec(any::<bool>(), 1..200),
    ) {
        let names = ["a", "b", "c", "d", "e"];
        let events: Vec<_> = lives.iter().zip(1..).map(|(live, number)| (names[*live], number)).collect();
        let mut backlog = backlog(&events);
        let (mut now, mut sending, mut done) = (moment(0), Vec::new(), Vec::new());
        let mut fails = fails.into_iter();
        while done.len() < events.len() {
            while let Some((entry, event)) = backlog.next(now) {
                prop_assert!(sending.iter().all(|(_, of): &(EntryId, About)| *of != event.about));
                sending.push((entry, event.about));
            }
            match sending.pop() {
                None => now = backlog.next_at().unwrap(),
                Some((_, of)) if fails.next() == Some(true) => drop(backlog.failed(&of, now, 0.5)),
                Some((entry, of)) => {
                    backlog.arrived(&of, entry);
                    done.push((of, entry));
                }
            }
        }
        let entries: HashSet<_> = done.iter().map(|(_, entry)| *entry).collect();
        prop_assert_eq!(entries.len(), events.len());
        for name in names {
            let of_live: Vec<_> = done.iter().filter(|(of, _)| *of == live(name)).map(|(_, entry)| *entry).collect();
            prop_assert!(of_live.is_sorted());
        }
        prop_assert_eq!((backlog.held, backlog.bytes, backlog.next_at()), (0, 0, None));
    }
}
