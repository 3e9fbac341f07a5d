//! The throttle by itself, on a clock that the test moves.

use super::*;
use crate::base::clock::moment;

fn figures(viewers: u64, fans: u64) -> Figures {
    Figures {
        viewers,
        fans,
        guests: 0,
    }
}

fn shown(at: Moment, figures: Figures) -> Shown {
    Shown {
        at,
        figures,
        away: 0,
        watching: 0,
        confirmed: 0,
        arrived: Arrived::default(),
        stream: None,
        quality: Quality::Exact,
    }
}

fn step(throttle: &mut Throttle, now: Moment, figures: Figures) -> ThrottleStep {
    throttle.step(shown(now, figures))
}

#[test]
fn the_first_change_goes_out_at_once_and_the_rest_are_throttled() {
    let mut throttle = Throttle::default();
    assert_eq!(
        step(&mut throttle, moment(0), figures(1, 1)),
        ThrottleStep::Send
    );
    assert_eq!(
        step(&mut throttle, moment(1_000), figures(2, 1)),
        ThrottleStep::Send
    );
    assert_eq!(
        step(&mut throttle, moment(1_010), figures(3, 1)),
        ThrottleStep::At(moment(1_500))
    );
    assert_eq!(
        step(&mut throttle, moment(1_400), figures(9, 1)),
        ThrottleStep::At(moment(1_500))
    );
    assert_eq!(
        step(&mut throttle, moment(1_500), figures(9, 1)),
        ThrottleStep::Send
    );
    assert_eq!(
        step(&mut throttle, moment(1_501), figures(9, 1)),
        ThrottleStep::Nothing
    );
}

#[test]
fn the_lag_is_the_wait_of_the_first_change_that_was_not_sent() {
    let mut throttle = Throttle::default();
    step(&mut throttle, moment(0), figures(1, 1));
    assert_eq!(throttle.lag(), 0, "the first change goes out at once");
    step(&mut throttle, moment(100), figures(2, 1));
    step(&mut throttle, moment(300), figures(3, 1));
    step(&mut throttle, moment(500), figures(3, 1));
    assert_eq!(throttle.lag(), 400);
    step(&mut throttle, moment(600), figures(4, 1));
    step(&mut throttle, moment(700), figures(3, 1));
    step(&mut throttle, moment(900), figures(5, 1));
    step(&mut throttle, moment(1_000), figures(5, 1));
    assert_eq!(
        throttle.lag(),
        100,
        "in between the figures were those that had been sent"
    );
}

#[test]
fn a_new_dashboard_is_not_left_with_the_figures_it_was_told_first() {
    let mut throttle = Throttle::default();
    assert!(!throttle.note_first(shown(moment(1_000), figures(1, 0))));
    assert_eq!(
        step(&mut throttle, moment(1_001), figures(2, 0)),
        ThrottleStep::Send,
        "the first change goes out at once"
    );
    assert!(throttle.note_first(shown(moment(1_100), figures(3, 0))));
    assert_eq!(
        step(&mut throttle, moment(1_200), figures(2, 0)),
        ThrottleStep::At(moment(1_501))
    );
    assert_eq!(
        step(&mut throttle, moment(1_501), figures(2, 0)),
        ThrottleStep::Send,
        "it was told 3"
    );
    assert_eq!(
        step(&mut throttle, moment(2_100), figures(2, 0)),
        ThrottleStep::Nothing
    );
}

#[test]
fn viewers_who_keep_joining_do_not_starve_the_counts() {
    let mut throttle = Throttle::default();
    let sent = (0..10_000)
        .filter(|now| step(&mut throttle, moment(*now), figures(1 + now, 1)) == ThrottleStep::Send)
        .count();
    assert_eq!(sent, 20);
}

#[test]
fn zero_goes_out_at_once_but_flapping_is_bounded() {
    let mut throttle = Throttle::default();
    step(&mut throttle, moment(0), figures(1, 1));
    assert_eq!(
        step(&mut throttle, moment(60), figures(1, 0)),
        ThrottleStep::Send
    );
    assert_eq!(
        step(&mut throttle, moment(70), figures(0, 0)),
        ThrottleStep::At(moment(110))
    );
    let flaps = (200..1_200)
        .filter(|n| step(&mut throttle, moment(*n), figures(n % 2, 0)) == ThrottleStep::Send)
        .count();
    assert!(flaps <= 21, "{flaps}");
}

#[test]
fn who_goes_away_is_told_as_other_changes_are() {
    let mut throttle = Throttle::default();
    step(&mut throttle, moment(1_000), figures(2, 1));
    let away = |at| Shown {
        away: 1,
        ..shown(at, figures(2, 1))
    };
    assert_eq!(
        throttle.step(away(moment(1_100))),
        ThrottleStep::At(moment(1_500))
    );
    assert_eq!(throttle.step(away(moment(1_500))), ThrottleStep::Send);
    assert_eq!(throttle.step(away(moment(2_500))), ThrottleStep::Nothing);
}
