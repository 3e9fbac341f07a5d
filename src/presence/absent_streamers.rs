//! The lives whose streamer is gone. State only: the flusher notes streamers who left this gateway,
//! and `sync::streamer_timeout` decides which streamers are gone.
//!
//! A live with a streamer timeout lasts while the streamer is connected to any gateway, whether or
//! not that gateway has a room of the live.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::clock::Moment;
use crate::base::ids::LiveId;

#[derive(Debug, Default)]
pub struct AbsentStreamers {
    /// By live.
    absent: Mutex<HashMap<LiveId, Absence>>,
    someone_left: Notify,
    /// Whether this gateway walks over all lives, and so also judges the streamers of other
    /// gateways.
    judges_all: AtomicBool,
}

/// The absence of a streamer, by this gateway's clock.
#[derive(Debug, Clone, Copy)]
pub struct Absence {
    pub since: Moment,
    /// When to look whether the streamer has come back.
    pub look_at: Moment,
    /// The last look had no answer: while the store was away no gateway could tell it who is
    /// connected.
    pub failed: bool,
}

impl AbsentStreamers {
    /// Notes that the streamer of these lives left a gateway and was last heard at `since`.
    pub fn left(&self, lives: &[LiveId], since: Moment) {
        let mut absent = self.absent.lock();
        for live in lives {
            let absence = absent.entry(live.clone()).or_insert(Absence {
                since,
                look_at: since,
                failed: false,
            });
            // A streamer who came back and left again gets the whole timeout again.
            absence.since = absence.since.max(since);
        }
        self.someone_left.notify_one();
    }

    /// As [`AbsentStreamers::left`], by a message of a peer. The gateway that walks judges these
    /// streamers too, in case the peer dies.
    pub fn peer_says_left(&self, lives: &[LiveId], since: Moment) {
        if self.judges_all.load(Ordering::Relaxed) {
            self.left(lives, since);
        }
    }

    pub fn judge_all(&self, judges_all: bool) {
        self.judges_all.store(judges_all, Ordering::Relaxed);
    }

    /// Whether this gateway walks over all lives.
    pub fn judges_all(&self) -> bool {
        self.judges_all.load(Ordering::Relaxed)
    }

    /// Notes that the walk found the streamer of a live gone.
    pub fn found_absent(&self, live: &LiveId, now: Moment) {
        self.absent.lock().entry(live.clone()).or_insert(Absence {
            since: now,
            look_at: now,
            failed: false,
        });
        self.someone_left.notify_one();
    }

    /// Has the absence of a live's streamer judged now: how long it may last has changed. Without
    /// word of one, it begins now, and not when the next walk finds the streamer gone.
    pub fn look_now(&self, live: &LiveId, now: Moment) {
        let mut absent = self.absent.lock();
        let absence = absent.entry(live.clone()).or_insert(Absence {
            since: now,
            look_at: now,
            failed: false,
        });
        absence.look_at = now;
        self.someone_left.notify_one();
    }

    /// Notes that the walk found the streamer of a live connected.
    pub fn found_present(&self, live: &LiveId) {
        self.absent.lock().remove(live);
    }

    pub async fn departures(&self) {
        self.someone_left.notified().await;
    }

    pub fn next_look(&self) -> Option<Moment> {
        self.absent
            .lock()
            .values()
            .map(|absence| absence.look_at)
            .min()
    }

    pub fn looks_due(&self, now: Moment) -> Vec<(LiveId, Absence)> {
        let absent = self.absent.lock();
        absent
            .iter()
            .filter(|(_, there)| there.look_at <= now)
            .map(|(live, there)| (live.clone(), *there))
            .collect()
    }

    /// Notes the result of a look at `seen`: when to look again, and whether the look failed;
    /// `None` settles the matter.
    pub fn looked(&self, live: &LiveId, seen: &Absence, next: Option<(Moment, bool)>, now: Moment) {
        let mut absent = self.absent.lock();
        let Some(there) = absent.get_mut(live) else {
            return;
        };
        if there.look_at != seen.look_at {
            // Meanwhile somebody asked for another look.
            return;
        }
        match next {
            Some((look_at, failed)) => {
                there.look_at = look_at;
                there.failed = failed;
            }
            None if there.since == seen.since => {
                absent.remove(live);
            }
            // The streamer left once more meanwhile.
            None => there.look_at = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn live() -> LiveId {
        LiveId::parse("42").unwrap()
    }

    fn due(absent: &AbsentStreamers, now: Moment) -> Absence {
        match absent.looks_due(now).as_slice() {
            [(_, absence)] => *absence,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_look_that_is_asked_for_comes_at_once_and_the_absence_goes_on() {
        let absent = AbsentStreamers::default();
        absent.found_absent(&live(), moment(10));
        let seen = due(&absent, moment(10));
        absent.looked(&live(), &seen, Some((moment(50_000), false)), moment(10));
        absent.found_absent(&live(), moment(20));
        assert!(absent.looks_due(moment(20)).is_empty());
        absent.look_now(&live(), moment(30));
        assert_eq!(due(&absent, moment(30)).since, moment(10));
    }

    #[test]
    fn a_look_that_began_before_another_was_asked_for_puts_nothing_off() {
        let absent = AbsentStreamers::default();
        absent.found_absent(&live(), moment(10));
        for (now, next) in [(20, Some((moment(50_000), false))), (30, None)] {
            let seen = due(&absent, moment(now));
            absent.look_now(&live(), moment(now));
            absent.looked(&live(), &seen, next, moment(now));
            assert_eq!(due(&absent, moment(now)).since, moment(10));
        }
    }
}
