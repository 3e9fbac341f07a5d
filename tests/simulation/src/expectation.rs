//! Whether one user must be in the set of one live, derived from the user's sockets and from how
//! the ended ones ended. Pure: the verdict over what Redis holds follows from these records and a
//! time.
//!
//! A socket *surely* holds its user once the gateway said `joined`, and *possibly* from its request
//! until it is known to have ended. A user with a sure socket must be in the set. A user without a
//! possible one must be out of it, after the time that the gateways promise for the way in which
//! the last socket ended.
//!
//! A session without a socket is one such socket on each gateway that took a beat of it. Nobody is
//! told when such a gateway gives it up, so it ends by itself, a timeout after its last beat there.

use std::time::Duration;

use rollcall::store::REBUILD;
use tokio::time::Instant;

use super::timing::Timing;

/// The clock of a gateway may be ahead by so much of that of its clients.
const EARLIER: Duration = Duration::from_millis(200);

/// A user's number.
pub type User = u32;

/// A live's number.
pub type Live = usize;

/// One socket on one gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketAt {
    /// Its number.
    pub socket: u64,
    /// The gateway.
    pub gateway: usize,
    /// Which start of that gateway.
    pub start: u32,
}

/// How a stay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A leave, a swipe, or a clean close.
    Left,
    /// The socket ended with no close frame.
    Vanished,
    /// The gateway was killed.
    Killed,
    /// The gateway sent the socket elsewhere.
    Moved,
    /// The socket asked to join and ended before the answer: the gateway may read the request
    /// later, even after a close.
    Unanswered,
    /// The live closed.
    Closed,
    /// The guest has become a user, who has the seat.
    SignedIn,
}

/// A beat that was answered. The gateway heard it between these times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// When it was sent.
    pub sent: Instant,
    /// When its answer was there.
    pub answered: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    place: SocketAt,
    /// Since when the socket surely holds the user.
    since: Option<Instant>,
    /// Of a user who was a guest here: since when the socket surely had the guest's seat.
    seated: Option<Instant>,
    /// A join is on its way.
    asking: bool,
    /// The last beat of a session without a socket.
    beat: Option<Beat>,
}

#[derive(Debug, Clone, Copy)]
struct Gone {
    gateway: usize,
    start: u32,
    at: Instant,
    how: How,
}

/// One user in one live.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    holds: Vec<Hold>,
    gone: Vec<Gone>,
}

/// A time in which a gateway cannot keep its promises.
#[derive(Debug, Clone, Copy)]
pub struct Trouble {
    /// When it began.
    pub since: Instant,
    /// When it ended; `None` as long as it lasts.
    pub until: Option<Instant>,
    /// The process does not run, or so seldom that it reads late what was sent to it. When the
    /// trouble is over, this is in [`Rules::freezes`].
    pub frozen: bool,
    /// It may not have reached the store. Otherwise it only stood still, or starts.
    pub cut_off: bool,
    /// Redis may have lost writes. Then slices are rebuilt after it, and nobody leaves meanwhile.
    pub may_lose: bool,
}

/// A time in which a gateway was frozen, and has not been since.
#[derive(Debug, Clone, Copy)]
pub struct Freeze {
    /// When it began.
    pub since: Instant,
    /// When it ended.
    pub until: Instant,
}

/// Somebody who was never there.
pub static NOBODY: Expectation = Expectation {
    holds: Vec::new(),
    gone: Vec::new(),
};

impl Trouble {
    /// When users may leave again; `None` as long as it lasts.
    fn frees(&self) -> Option<Instant> {
        let rebuild = if self.may_lose {
            REBUILD
        } else {
            Duration::ZERO
        };
        Some(self.until? + rebuild)
    }
}

/// What is promised now.
#[derive(Debug, Clone)]
pub struct Rules {
    /// How long each promise may take.
    pub timing: Timing,
    /// The last trouble of each gateway.
    pub troubles: Vec<Option<Trouble>>,
    /// The frozen troubles of each gateway that are over, the first one first. A later trouble of
    /// another kind does not make the process notice silence earlier.
    pub freezes: Vec<Vec<Freeze>>,
    /// Since when each gateway runs; `None`: it does not.
    pub runs_since: Vec<Option<Instant>>,
    /// When a renewal arrived last that an ended process of each gateway had sent.
    pub last_renewals: Vec<Option<Instant>>,
}

/// What is wrong with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// In the set, and should not be.
    Ghost,
    /// Not in the set, and should be.
    Miss,
}

/// The verdict over one user in one live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserVerdict {
    /// Wrong, whatever excuse there is: it counts for the time to correct.
    pub wrong: Option<Wrong>,
    /// Wrong for so long beyond what was promised.
    pub overdue: Option<Duration>,
}

const RIGHT: UserVerdict = UserVerdict {
    wrong: None,
    overdue: None,
};

impl Expectation {
    /// The socket may hold the user from now on.
    pub fn joining(&mut self, place: SocketAt) {
        match self.holds.iter_mut().find(|hold| hold.place == place) {
            Some(hold) => (hold.since, hold.asking) = (None, true),
            None => self.holds.push(Hold {
                place,
                since: None,
                seated: None,
                asking: true,
                beat: None,
            }),
        }
    }

    /// The guest's socket asks to go on as this user, and surely has had a seat for so long.
    pub fn signing_in(&mut self, place: SocketAt, seated: Option<Instant>) {
        self.joining(place);
        for hold in self.holds.iter_mut().filter(|hold| hold.place == place) {
            hold.seated = seated;
        }
    }

    /// Since when the socket surely holds the user.
    pub fn held_since(&self, place: SocketAt) -> Option<Instant> {
        self.holds.iter().find(|hold| hold.place == place)?.since
    }

    /// Whether the socket holds the user, or may do so.
    pub fn may_hold(&self, place: SocketAt) -> bool {
        self.holds.iter().any(|hold| hold.place == place)
    }

    /// The socket surely holds the user.
    pub fn joined(&mut self, place: SocketAt, at: Instant) {
        self.joining(place);
        for hold in self.holds.iter_mut().filter(|hold| hold.place == place) {
            (hold.since, hold.asking) = (Some(at), false);
        }
    }

    /// A beat is on its way: the gateway may hold the user before its answer is here.
    pub fn beating(&mut self, place: SocketAt) {
        if !self.holds.iter().any(|hold| hold.place == place) {
            self.joining(place);
        }
    }

    /// The gateway did not take a beat.
    pub fn refused(&mut self, place: SocketAt, at: Instant) {
        let is_new = |hold: &Hold| hold.place == place && hold.beat.is_none();
        if self.holds.iter().any(is_new) {
            self.ended(place, at, How::Left);
        }
        self.leaving(place);
    }

    /// The gateway has answered a beat, and may hold the user for a timeout from then on. With
    /// `is_sure` it surely does.
    pub fn beaten(&mut self, place: SocketAt, beat: Beat, is_sure: bool) {
        self.beating(place);
        for hold in self.holds.iter_mut().filter(|hold| hold.place == place) {
            hold.asking = false;
            hold.beat = Some(beat);
            hold.since = match is_sure {
                true => hold.since.or(Some(beat.answered)),
                false => None,
            };
        }
    }

    /// A beat was not answered. The gateway may have heard it all the same, and may hear it yet.
    pub fn unanswered(&mut self, place: SocketAt, at: Instant) {
        self.holds
            .retain(|hold| hold.place != place || hold.beat.is_some());
        self.gone.push(Gone {
            gateway: place.gateway,
            start: place.start,
            at,
            how: How::Unanswered,
        });
    }

    /// Nobody knows any more whether the sessions without a socket are there that `which` chooses:
    /// somebody has asked a gateway to end them.
    pub fn doubt(&mut self, which: impl Fn(&SocketAt) -> bool) {
        for hold in self.holds.iter_mut() {
            if hold.beat.is_some() && which(&hold.place) {
                hold.since = None;
            }
        }
    }

    /// Ends the sessions without a socket of which their gateways have heard no beat for a timeout.
    pub fn lapse(&mut self, now: Instant, timing: &Timing) {
        let least = timing.timeout.saturating_sub(EARLIER);
        let is_over = |hold: &mut Hold| hold.beat.is_some_and(|beat| beat.sent + least <= now);
        let over = self.holds.extract_if(.., is_over);
        self.gone.extend(over.filter_map(|hold| {
            Some(Gone {
                gateway: hold.place.gateway,
                start: hold.place.start,
                at: hold.beat?.answered,
                how: How::Vanished,
            })
        }));
    }

    /// The socket has begun to leave.
    pub fn leaving(&mut self, place: SocketAt) {
        for hold in self.holds.iter_mut().filter(|hold| hold.place == place) {
            (hold.since, hold.seated, hold.asking) = (None, None, false);
        }
    }

    /// The socket holds the user no more.
    pub fn ended(&mut self, place: SocketAt, at: Instant, how: How) {
        let before = self.holds.len();
        self.holds.retain(|hold| hold.place != place);
        if self.holds.len() < before {
            self.gone.push(Gone {
                gateway: place.gateway,
                start: place.start,
                at,
                how,
            });
        }
    }

    /// The live closed, and all users are out. A gateway may still carry out an unanswered join, in
    /// the next epoch.
    pub fn closed(&mut self, at: Instant) {
        self.gone.retain(|gone| gone.how == How::Unanswered);
        let out = self.holds.extract_if(.., |hold| !hold.asking);
        self.gone.extend(out.map(
            |Hold {
                 place: SocketAt { gateway, start, .. },
                 ..
             }| Gone {
                gateway,
                start,
                at,
                how: How::Closed,
            },
        ));
    }

    /// That start of a gateway has ended, with everything that it had not yet written to Redis.
    pub fn gateway_ended(
        &mut self,
        (gateway, start): (usize, u32),
        at: Instant,
        how: How,
        rules: &Rules,
    ) {
        let places: Vec<SocketAt> = self.holds.iter().map(|hold| hold.place).collect();
        for place in places
            .into_iter()
            .filter(|place| (place.gateway, place.start) == (gateway, start))
        {
            self.ended(place, at, how);
        }
        for gone in self
            .gone
            .iter_mut()
            .filter(|gone| (gone.gateway, gone.start) == (gateway, start))
        {
            let may_be_unwritten = gone.promised(rules).is_none_or(|by| by >= at);
            if how == How::Killed && gone.how != How::Closed && may_be_unwritten {
                (gone.at, gone.how) = (at, How::Killed);
            }
        }
    }

    /// Forgets ends that are too old to matter.
    pub fn tidy(&mut self, before: Instant) {
        self.gone.retain(|gone| gone.at >= before);
    }

    /// Whether a socket is, or may be, there.
    pub fn is_held(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Whether nothing is known of the user here any more.
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty() && self.gone.is_empty()
    }

    /// Whether every socket there is, or may be, or may still count, is on this gateway.
    pub fn only_on(&self, gateway: usize, at: Instant, rules: &Rules) -> bool {
        let elsewhere = |gone: &Gone| gone.gateway != gateway && gone.natural(rules) >= at;
        self.is_held()
            && self.holds.iter().all(|hold| hold.place.gateway == gateway)
            && !self.gone.iter().any(elsewhere)
    }

    /// Whether the user surely is, and has been for so long, on a gateway that is well.
    pub fn is_surely_there(&self, at: Instant, long: Duration, rules: &Rules) -> bool {
        self.is_sure(at, long, rules, |hold| hold.since)
    }

    /// The same of a seat that the user has taken over from a guest, who may have had it for longer,
    /// and for which the gateway `of` counts one of the two at any time; so do all gateways if it is
    /// `None`.
    pub fn is_surely_counted(
        &self,
        at: Instant,
        long: Duration,
        of: Option<usize>,
        rules: &Rules,
    ) -> bool {
        self.is_sure(at, long, rules, |hold| {
            let is_meant = of.is_none_or(|gateway| gateway == hold.place.gateway);
            hold.seated.filter(|_| is_meant).or(hold.since)
        })
    }

    fn is_sure(
        &self,
        at: Instant,
        long: Duration,
        rules: &Rules,
        since: impl Fn(&Hold) -> Option<Instant>,
    ) -> bool {
        let is_well = |gateway: usize| {
            let trouble = rules.troubles[gateway];
            trouble.is_none_or(|trouble| {
                trouble
                    .until
                    .is_some_and(|until| until + rules.timing.healed() + long < at)
            })
        };
        let is_sure = |hold: &Hold| {
            since(hold).is_some_and(|since| since + long < at) && is_well(hold.place.gateway)
        };
        self.holds.iter().any(is_sure)
    }

    /// Whether the user may be there, or may have been there so long ago.
    pub fn is_possibly_there(&self, at: Instant, long: Duration, rules: &Rules) -> bool {
        let may_be = |gone: &Gone| gone.promised(rules).is_none_or(|by| by + long >= at);
        !self.holds.is_empty() || self.gone.iter().any(may_be)
    }

    /// The same of a guest, without the seats that this user has taken over. While the user may also
    /// be there in another way, the guest may still count, too.
    pub fn is_possibly_counted(
        &self,
        user: Option<&Self>,
        at: Instant,
        long: Duration,
        rules: &Rules,
    ) -> bool {
        let may_be = |gone: &Gone| gone.promised(rules).is_none_or(|by| by + long >= at);
        let is_otherwise_there =
            user.is_some_and(|user| user.holds.len() > 1 || user.gone.iter().any(may_be));
        let counts = |gone: &&Gone| is_otherwise_there || gone.how != How::SignedIn;
        !self.holds.is_empty() || self.gone.iter().filter(counts).any(may_be)
    }

    /// The gateways with a socket that surely holds the user, each once.
    pub fn gateways(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self
            .holds
            .iter()
            .filter(|hold| hold.since.is_some())
            .map(|hold| hold.place.gateway)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// When the last end's promise runs out.
    pub fn out_by(&self, rules: &Rules) -> Option<Instant> {
        self.gone
            .iter()
            .filter_map(|gone| gone.promised(rules))
            .max()
    }

    /// The records in words, as of that time.
    pub fn tell(&self, at: Instant) -> String {
        let ago =
            |then: Instant| format!("{:.3} s", at.saturating_duration_since(then).as_secs_f64());
        let held = self.holds.iter().map(
            |Hold {
                 place: SocketAt { gateway, .. },
                 since,
                 ..
             }| match since {
                Some(since) => format!("on gateway {gateway} for {}", ago(*since)),
                None => format!("perhaps on gateway {gateway}"),
            },
        );
        let gone = self.gone.iter().map(
            |Gone {
                 gateway, at, how, ..
             }| format!("{how:?} on {gateway} {} ago", ago(*at)),
        );
        held.chain(gone).collect::<Vec<_>>().join(", ")
    }

    /// Judges a set that has, or has not, the user at that time.
    pub fn judge(&self, at: Instant, in_set: bool, rules: &Rules) -> UserVerdict {
        if in_set {
            self.judge_present(at, rules)
        } else {
            self.judge_absent(at, rules)
        }
    }

    fn judge_absent(&self, at: Instant, rules: &Rules) -> UserVerdict {
        let sure = || {
            self.holds
                .iter()
                .filter_map(|hold| Some((hold.place.gateway, hold.since?)))
        };
        let settled = rules.timing.settled();
        if !sure().any(|(_, since)| since + settled < at) {
            return RIGHT;
        }
        let promised = sure().filter_map(|(gateway, since)| match rules.troubles[gateway] {
            None => Some(since + settled),
            Some(Trouble { until, .. }) => {
                Some((since + settled).max(until? + rules.timing.healed()))
            }
        });
        UserVerdict {
            wrong: Some(Wrong::Miss),
            overdue: promised.min().and_then(|by| overdue(at, by)),
        }
    }

    fn judge_present(&self, at: Instant, rules: &Rules) -> UserVerdict {
        if self.is_held() {
            return RIGHT;
        }
        let Some(last) = self.gone.iter().map(|gone| gone.natural(rules)).max() else {
            // The user was never there, or too long ago to matter.
            return UserVerdict {
                wrong: Some(Wrong::Ghost),
                overdue: Some(Duration::MAX),
            };
        };
        if last >= at {
            return RIGHT;
        }
        let all: Option<Vec<Instant>> = self.gone.iter().map(|gone| gone.promised(rules)).collect();
        let promised = all.and_then(|all| all.into_iter().max());
        UserVerdict {
            wrong: Some(Wrong::Ghost),
            overdue: promised.and_then(|by| overdue(at, by)),
        }
    }
}

impl Gone {
    /// When the user is out if no fault delays it. A kill counts at once, so that its correction is
    /// timed.
    fn natural(&self, rules: &Rules) -> Instant {
        match self.how {
            How::Killed => self.at,
            how => self.began(rules) + allowance(how, &rules.timing),
        }
    }

    /// When the user is out at the latest; `None` while it cannot be said.
    fn promised(&self, rules: &Rules) -> Option<Instant> {
        let natural = self.began(rules) + allowance(self.how, &rules.timing);
        let excuse = match self.how {
            How::Killed => return self.removed_by(rules),
            // The answer to the close is final, even if a gateway cannot be reached.
            How::Closed => return Some(natural),
            How::Left | How::Vanished | How::Unanswered | How::Moved | How::SignedIn => {
                rules.troubles[self.gateway].as_ref()
            }
        };
        match excuse {
            Some(trouble) => Some(natural.max(trouble.frees()? + rules.timing.healed())),
            None => Some(natural),
        }
    }

    /// When other gateways have removed the user of a killed one. One of them must have run, and
    /// have been well, for as long as it takes to notice that.
    fn removed_by(&self, rules: &Rules) -> Option<Instant> {
        let observed_since =
            |(runs_since, trouble): (&Option<Instant>, &Option<Trouble>)| match trouble {
                None => *runs_since,
                Some(trouble) => Some((*runs_since)?.max(trouble.frees()?)),
            };
        let first = rules
            .runs_since
            .iter()
            .zip(&rules.troubles)
            .filter_map(observed_since)
            .min()?;
        let last_renewal = rules.last_renewals[self.gateway].unwrap_or(self.at);
        let by = self.at.max(first).max(last_renewal) + rules.timing.killed();
        // The one whose turn it was to remove dead users may have ended as well, or be late. Its
        // turn lasts for two refreshes more.
        let has_ended =
            |gateway: usize| rules.runs_since[gateway].is_none_or(|since| since > self.at);
        let is_late = |gateway: usize| {
            rules.troubles[gateway]
                .is_some_and(|trouble| trouble.until.is_none_or(|until| until > self.at))
        };
        let mut others = (0..rules.runs_since.len()).filter(|gateway| *gateway != self.gateway);
        match others.any(|gateway| has_ended(gateway) || is_late(gateway)) {
            true => Some(by + 2 * rules.timing.refresh),
            false => Some(by),
        }
    }

    /// From when on the silence counts: a frozen process notices it only after the thaw.
    fn began(&self, rules: &Rules) -> Instant {
        let mut began = self.at;
        if matches!(self.how, How::Vanished | How::Unanswered) {
            for freeze in &rules.freezes[self.gateway] {
                if began + rules.timing.vanished() >= freeze.since {
                    began = began.max(freeze.until);
                }
            }
        }
        began
    }
}

fn allowance(how: How, timing: &Timing) -> Duration {
    match how {
        How::Left | How::SignedIn => timing.settled(),
        How::Vanished | How::Unanswered => timing.vanished(),
        How::Killed => timing.killed(),
        How::Moved => timing.moved(),
        How::Closed => Duration::ZERO,
    }
}

fn overdue(at: Instant, by: Instant) -> Option<Duration> {
    at.checked_duration_since(by).filter(|over| !over.is_zero())
}

#[cfg(test)]
mod tests;
