//! What chaos expects of the gateways, held against made-up answers.

use super::*;

fn place(socket: u64, gateway: usize) -> SocketAt {
    SocketAt {
        socket,
        gateway,
        start: 1,
    }
}

fn rules() -> Rules {
    let long_ago = Instant::now().checked_sub(s(3_600));
    Rules {
        timing: Timing::NORMAL,
        troubles: vec![None; 3],
        freezes: vec![Vec::new(); 3],
        runs_since: vec![long_ago; 3],
        last_renewals: vec![None; 3],
    }
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn miss(overdue: Option<Duration>) -> UserVerdict {
    UserVerdict {
        wrong: Some(Wrong::Miss),
        overdue,
    }
}

fn ghost(overdue: Option<Duration>) -> UserVerdict {
    UserVerdict {
        wrong: Some(Wrong::Ghost),
        overdue,
    }
}

#[test]
fn who_joined_must_be_there_after_a_flush_and_who_asked_may() {
    let (t, rules) = (Instant::now(), rules());
    let mut expectation = Expectation::default();
    expectation.joining(place(1, 0));
    assert_eq!(expectation.judge(t + s(60), false, &rules), RIGHT);
    assert_eq!(expectation.judge(t + s(60), true, &rules), RIGHT);
    expectation.joined(place(1, 0), t);
    assert_eq!(expectation.judge(t + s(1), false, &rules), RIGHT);
    assert_eq!(expectation.judge(t + s(3), false, &rules), miss(Some(s(2))));
    assert_eq!(expectation.judge(t + s(3), true, &rules), RIGHT);
}

#[test]
fn who_left_is_out_after_a_flush_and_who_vanished_after_the_timeout() {
    let (t, rules) = (Instant::now(), rules());
    for (how, allowed) in [
        (How::Left, s(1)),
        (How::Vanished, s(16)),
        (How::Closed, s(0)),
    ] {
        let mut expectation = Expectation::default();
        expectation.joined(place(1, 0), t);
        expectation.ended(place(1, 0), t, how);
        assert_eq!(expectation.judge(t + s(60), false, &rules), RIGHT);
        assert_eq!(
            expectation.judge(t + allowed, true, &rules),
            RIGHT,
            "{how:?}"
        );
        assert_eq!(
            expectation.judge(t + allowed + s(2), true, &rules),
            ghost(Some(s(2))),
            "{how:?}"
        );
    }
}

#[test]
fn a_second_device_keeps_its_user_there() {
    let (t, rules) = (Instant::now(), rules());
    let mut expectation = Expectation::default();
    expectation.joined(place(1, 0), t);
    expectation.joined(place(2, 1), t + s(5));
    expectation.ended(place(1, 0), t + s(9), How::Left);
    assert_eq!(expectation.judge(t + s(20), true, &rules), RIGHT);
    assert_eq!(
        expectation.judge(t + s(20), false, &rules),
        miss(Some(s(14)))
    );
    assert_eq!(expectation.gateways(), [1]);
    expectation.ended(place(2, 1), t + s(21), How::Left);
    assert_eq!(
        expectation.judge(t + s(23), true, &rules),
        ghost(Some(s(1)))
    );
}

#[test]
fn users_of_a_killed_gateway_are_wrong_at_once_and_a_broken_promise_after_the_lease() {
    let (t, rules) = (Instant::now(), rules());
    let mut expectation = Expectation::default();
    expectation.joined(place(1, 0), t);
    expectation.gateway_ended((0, 1), t + s(10), How::Killed, &rules);
    assert_eq!(expectation.judge(t + s(12), true, &rules), ghost(None));
    assert_eq!(
        expectation.judge(t + s(30), true, &rules),
        ghost(Some(s(3)))
    );
}

#[test]
fn a_leave_that_the_killed_gateway_had_not_flushed_waits_for_the_lease() {
    let (t, rules) = (Instant::now(), rules());
    let mut expectation = Expectation::default();
    expectation.joined(place(1, 0), t);
    expectation.ended(place(1, 0), t + s(10), How::Left);
    let mut flushed = expectation.clone();
    expectation.gateway_ended((0, 1), t + s(10), How::Killed, &rules);
    assert_eq!(expectation.judge(t + s(20), true, &rules).overdue, None);
    flushed.gateway_ended((0, 1), t + s(14), How::Killed, &rules);
    assert_eq!(flushed.judge(t + s(20), true, &rules), ghost(Some(s(9))));
}

#[test]
fn while_a_gateway_is_in_trouble_its_users_are_wrong_but_nothing_is_broken() {
    let (t, mut rules) = (Instant::now(), rules());
    let mut expectation = Expectation::default();
    expectation.joined(place(1, 0), t);
    rules.troubles[0] = Some(Trouble {
        since: t + s(5),
        until: None,
        cut_off: true,
        frozen: false,
        may_lose: false,
    });
    assert_eq!(expectation.judge(t + s(30), false, &rules), miss(None));
    rules.troubles[0] = Some(Trouble {
        since: t + s(5),
        until: Some(t + s(40)),
        cut_off: true,
        frozen: false,
        may_lose: false,
    });
    assert_eq!(expectation.judge(t + s(45), false, &rules), miss(None));
    assert_eq!(
        expectation.judge(t + s(47), false, &rules),
        miss(Some(s(1)))
    );
    // Another gateway, which is well, holds the user too.
    expectation.joined(place(2, 1), t + s(10));
    assert_eq!(
        expectation.judge(t + s(13), false, &rules),
        miss(Some(s(2)))
    );
}

#[test]
fn a_gateway_that_stood_still_notices_silence_when_it_goes_on() {
    let (t, mut rules) = (Instant::now(), rules());
    let mut expectation = Expectation::default();
    expectation.joined(place(1, 0), t);
    expectation.ended(place(1, 0), t + s(10), How::Vanished);
    rules.freezes[0].push(Freeze {
        since: t + s(5),
        until: t + s(30),
    });
    // What happens to it later changes nothing.
    rules.troubles[0] = Some(Trouble {
        since: t + s(31),
        until: Some(t + s(32)),
        cut_off: true,
        frozen: false,
        may_lose: false,
    });
    assert_eq!(expectation.judge(t + s(46), true, &rules), RIGHT);
    assert_eq!(
        expectation.judge(t + s(47), true, &rules),
        ghost(Some(s(1)))
    );
    assert_eq!(expectation.out_by(&rules), Some(t + s(46)));
    // It stands still again before it has noticed.
    rules.freezes[0].push(Freeze {
        since: t + s(45),
        until: t + s(50),
    });
    assert_eq!(expectation.out_by(&rules), Some(t + s(66)));
}

#[test]
fn after_a_close_nobody_may_be_there_whatever_the_trouble() {
    let (t, mut rules) = (Instant::now(), rules());
    let mut expectation = Expectation::default();
    expectation.joined(place(1, 0), t);
    rules.troubles[0] = Some(Trouble {
        since: t,
        until: None,
        cut_off: true,
        frozen: true,
        may_lose: false,
    });
    expectation.closed(t + s(3));
    assert_eq!(expectation.judge(t + s(4), true, &rules), ghost(Some(s(1))));
    assert!(!expectation.is_held());
}

#[test]
fn a_stranger_in_the_set_is_a_ghost() {
    let verdict = Expectation::default().judge(Instant::now(), true, &rules());
    assert_eq!(verdict, ghost(Some(Duration::MAX)));
}

#[test]
fn what_was_asked_before_a_close_may_come_true_after_it() {
    let (t, rules) = (Instant::now(), rules());
    let mut asking = Expectation::default();
    asking.joining(place(1, 0));
    asking.closed(t);
    assert_eq!(asking.judge(t + s(60), true, &rules), RIGHT);
    asking.ended(place(1, 0), t, How::Unanswered);
    asking.closed(t + s(1));
    assert_eq!(asking.judge(t + s(16), true, &rules), RIGHT);
    assert_eq!(asking.judge(t + s(17), true, &rules), ghost(Some(s(1))));
    let mut leaving = Expectation::default();
    leaving.joined(place(1, 0), t);
    leaving.leaving(place(1, 0));
    leaving.closed(t);
    assert_eq!(leaving.judge(t + s(1), true, &rules), ghost(Some(s(1))));
}

#[test]
fn who_still_counts_elsewhere_need_not_be_swept() {
    let (t, rules) = (Instant::now(), rules());
    let mut expectation = Expectation::default();
    expectation.joined(place(1, 0), t);
    assert!(expectation.only_on(0, t + s(1), &rules));
    expectation.joined(place(2, 1), t);
    assert!(!expectation.only_on(0, t + s(1), &rules));
    expectation.ended(place(2, 1), t, How::Vanished);
    assert!(!expectation.only_on(0, t + s(15), &rules));
    assert!(expectation.only_on(0, t + s(17), &rules));
}

#[test]
fn who_sends_beats_must_be_there_and_who_falls_silent_is_out_a_timeout_later() {
    let rules = rules();
    let t = Instant::now();
    let mut expectation = Expectation::default();
    for (sent, gateway) in [(0, 0), (5, 1), (10, 1)] {
        let beat = Beat {
            sent: t + s(sent),
            answered: t + s(sent),
        };
        expectation.beaten(place(gateway as u64, gateway), beat, true);
    }
    expectation.lapse(t + s(16), &rules.timing);
    assert_eq!(expectation.gateways(), [1], "the first one heard no more");
    assert_eq!(
        expectation.judge(t + s(16), false, &rules),
        miss(Some(s(10)))
    );
    expectation.lapse(t + s(25), &rules.timing);
    assert!(!expectation.is_held());
    assert_eq!(expectation.judge(t + s(26), true, &rules), RIGHT);
    assert_eq!(
        expectation.judge(t + s(27), true, &rules),
        ghost(Some(s(1)))
    );
}

#[test]
fn a_doubted_session_may_be_there_and_need_not_until_its_next_beat() {
    let rules = rules();
    let t = Instant::now();
    let beat = |seconds| Beat {
        sent: t + s(seconds),
        answered: t + s(seconds),
    };
    let mut expectation = Expectation::default();
    expectation.beaten(place(1, 0), beat(0), true);
    expectation.doubt(|place| place.gateway == 0);
    for in_set in [false, true] {
        assert_eq!(expectation.judge(t + s(4), in_set, &rules), RIGHT);
    }
    expectation.beaten(place(1, 0), beat(5), true);
    assert_eq!(expectation.judge(t + s(8), false, &rules), miss(Some(s(2))));
}

#[test]
fn a_beat_without_an_answer_may_bring_the_user_back() {
    let rules = rules();
    let t = Instant::now();
    let mut expectation = Expectation::default();
    expectation.unanswered(place(1, 0), t);
    for in_set in [false, true] {
        assert_eq!(expectation.judge(t + s(16), in_set, &rules), RIGHT);
    }
    assert_eq!(
        expectation.judge(t + s(17), true, &rules),
        ghost(Some(s(1)))
    );
}

#[test]
fn a_guest_who_becomes_a_user_is_counted_all_the_time_and_is_in_the_set_after_a_flush() {
    let (t, rules) = (Instant::now(), rules());
    let (mut guest, mut user) = (Expectation::default(), Expectation::default());
    guest.joined(place(1, 0), t);
    user.signing_in(place(1, 0), guest.held_since(place(1, 0)));
    guest.leaving(place(1, 0));
    let is_counted =
        |user: &Expectation, of| user.is_surely_counted(t + s(5), s(4), Some(of), &rules);
    assert!(is_counted(&user, 0) && !is_counted(&user, 1));
    guest.ended(place(1, 0), t + s(4), How::SignedIn);
    user.joined(place(1, 0), t + s(4));
    assert!(is_counted(&user, 0) && !user.is_surely_there(t + s(5), s(4), &rules));
    assert!(guest.is_possibly_there(t + s(5), Duration::ZERO, &rules));
    let guest_counts = |user: &Expectation| {
        guest.is_possibly_counted(Some(user), t + s(5), Duration::ZERO, &rules)
    };
    assert!(!guest_counts(&user));
    let mut elsewhere = user.clone();
    elsewhere.joined(place(2, 1), t);
    assert!(guest_counts(&elsewhere), "until the guest has left");
    assert_eq!(user.judge(t + s(6), false, &rules), miss(Some(s(1))));
}
