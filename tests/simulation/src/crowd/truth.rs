//! What the people of a crowd know to be true: who is in which live, through which gateway, and how
//! the gateways are. One lock guards it; it is held for a moment, never across an await.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::{CrowdEvent, Mode};
use crate::expectation::{
    Beat, Expectation, Freeze, How, Live, NOBODY, Rules, SocketAt, Trouble, User, Wrong,
};
use crate::timing::Timing;

/// By then every gateway has heard that a user was removed: the longest fault, and the repair.
const REMOVAL_KNOWN: Duration = Duration::from_secs(75);

/// By then a gateway has read what it did not answer: as for a removal.
const READ_LATE: Duration = REMOVAL_KNOWN;

/// A connection that ends sooner may never have been told to the store.
const NOTICED: Duration = Duration::from_secs(2);

/// By then a gateway that reaches the store again knows that it does, and has read what it missed.
const BACK: Duration = Duration::from_secs(11);

/// In what way a gateway cannot keep its promises; see [`Trouble`].
#[derive(Debug, Clone, Copy)]
struct TroubleKind {
    frozen: bool,
    cut_off: bool,
    may_lose: bool,
}

/// A live, as the back end knows it, and its users.
#[derive(Debug, Default)]
pub struct LiveTruth {
    /// `None` while it is closed, or closing.
    pub epoch: Option<u64>,
    /// Changes with each opening and closing.
    pub version: u64,
    /// Whether an answer to its close or its opening is still to come: until then nobody is judged.
    pub changes: bool,
    /// Over how many slices it is spread.
    pub slices: u32,
    /// Whether it is kept who came, and when.
    pub attends: bool,
    /// A later epoch, which the store and all gateways seemed to have forgotten.
    pub forgotten: Option<u64>,
    /// When this epoch was opened.
    pub opened: Option<Instant>,
    /// Whether anybody was ever there, in this epoch.
    pub was_entered: bool,
    /// Its users.
    pub expectations: BTreeMap<User, Expectation>,
    /// Who may not join, from when and until when.
    pub banned: BTreeMap<User, (Instant, Instant)>,
    /// Every epoch that a back end opened, and whether it closed it.
    pub epochs: BTreeMap<u64, bool>,
}

/// A connected socket, in a live or not, or a session without one.
#[derive(Debug)]
pub struct Online {
    /// Where it is.
    pub place: SocketAt,
    /// Whose it is.
    pub user: User,
    since: Instant,
    /// The last beat of a session without a socket.
    beat: Option<Beat>,
}

/// What a socket was told last: that it is in this live.
#[derive(Debug, Clone, Copy)]
pub struct Belief {
    /// Where it is.
    pub place: SocketAt,
    /// Whose it is.
    pub user: User,
    /// The live.
    pub live: Live,
    /// Its epoch then.
    pub epoch: u64,
}

/// What is true.
#[derive(Debug)]
pub struct Truth {
    /// By number.
    pub lives: Vec<LiveTruth>,
    /// What is promised now.
    pub rules: Rules,
    /// Every connection, by its number.
    pub online: BTreeMap<u64, Online>,
    /// When users went offline last.
    pub last_online: BTreeMap<User, Instant>,
    /// Every socket that was told `joined`, by its number.
    pub beliefs: BTreeMap<u64, Belief>,
    /// Users whom a back end had removed from a live.
    pub removed: BTreeSet<User>,
    /// When a back end last asked for that.
    removed_at: BTreeMap<User, Instant>,
    /// When a request of a user was last given up without an answer.
    unanswered_at: BTreeMap<User, Instant>,
    /// How many troubles of each gateway last.
    troubles: Vec<u32>,
    dead: HashSet<(usize, u32)>,
}

/// A gateway, as people find it.
#[derive(Debug, Default)]
struct KnownGateway {
    /// How often it was started.
    start: AtomicU32,
    is_up: AtomicBool,
}

/// How people are.
#[derive(Debug, Clone, Copy)]
pub struct Customs {
    /// The gateways' times.
    pub timing: Timing,
    /// Decides what people do.
    pub seed: u64,
    /// How many gateways there are.
    pub gateways: usize,
    /// How many lives there are.
    pub lives: usize,
    /// People wander among the first so many of them.
    pub busy: usize,
    /// A person does something each so often, on average.
    pub pace: Duration,
    /// So many people come in a second, at first.
    pub ramp: f64,
}

/// What all people of a crowd share.
#[derive(Debug)]
pub struct CrowdState {
    /// How they are.
    pub customs: Customs,
    /// What they do now.
    pub mode: watch::Sender<Mode>,
    /// What happens to many of them at once.
    pub events: broadcast::Sender<CrowdEvent>,
    /// How many people are not where they want to be.
    pub unsettled: AtomicUsize,
    spots: Vec<KnownGateway>,
    connections: AtomicU64,
    truth: Mutex<Truth>,
}

/// Somebody who is in a set of a live, or not, and should not be so.
pub struct Wronged<'a> {
    /// Who.
    pub user: User,
    /// In which way.
    pub wrong: Wrong,
    /// Wrong for so long beyond what was promised.
    pub overdue: Option<Duration>,
    /// What is known of the user.
    pub expectation: &'a Expectation,
}

impl LiveTruth {
    /// Holds a set that has these users against the truth. Of those who are in the live, some belong
    /// to the set.
    pub fn judge<'a>(
        &'a self,
        present: &BTreeSet<User>,
        belongs: impl Fn(User) -> bool,
        at: Instant,
        rules: &Rules,
    ) -> Vec<Wronged<'a>> {
        let everybody: BTreeSet<User> = self.expectations.keys().chain(present).copied().collect();
        let mut all = Vec::new();
        for user in everybody {
            let known = self.expectations.get(&user);
            let expectation = known.filter(|_| belongs(user)).unwrap_or(&NOBODY);
            let verdict = expectation.judge(at, present.contains(&user), rules);
            if let Some(wrong) = verdict.wrong {
                all.push(Wronged {
                    user,
                    wrong,
                    overdue: verdict.overdue,
                    expectation,
                });
            }
        }
        all
    }

    /// Forgets ends that are too old to matter, after this time.
    pub fn tidy(&mut self, now: Instant, memory: Duration) {
        let Some(old) = now.checked_sub(memory) else {
            return;
        };
        self.expectations.retain(|_, expectation| {
            expectation.tidy(old);
            !expectation.is_empty()
        });
    }

    /// The users who are there, or may be.
    pub fn held(&self) -> impl Iterator<Item = User> + '_ {
        let held =
            |(user, expectation): (&User, &Expectation)| expectation.is_held().then_some(*user);
        self.expectations.iter().filter_map(held)
    }
}

impl Truth {
    /// The lives that are open.
    pub fn open_lives(&self) -> impl Iterator<Item = (Live, &LiveTruth)> {
        let lives = self.lives.iter().enumerate();
        lives.filter(|(_, live)| live.epoch.is_some())
    }

    /// Ends the connections of which this is true.
    fn end_online(&mut self, is_over: impl Fn(&Online) -> bool) {
        let ended = self.online.extract_if(.., |_, online| is_over(online));
        let ended: Vec<Online> = ended.map(|(_, online)| online).collect();
        ended.iter().for_each(|online| self.note_end(online));
    }

    /// Notes when a user was last online whose connection has ended. If the store may never have
    /// heard of the user, or a gateway may yet read an older request of the user, nothing is
    /// expected.
    fn note_end(&mut self, online: &Online) {
        let Online {
            place, user, since, ..
        } = *online;
        let is_well = self.rules.troubles[place.gateway]
            .is_none_or(|trouble| trouble.until.is_some_and(|at| at <= since));
        let unanswered_at = self.unanswered_at.get(&user);
        let is_read_late = unanswered_at.is_some_and(|at| at.elapsed() < READ_LATE);
        if is_well && !is_read_late && since.elapsed() > NOTICED {
            self.last_online.insert(user, Instant::now());
        } else {
            self.last_online.remove(&user);
        }
    }

    /// Everybody whom a live is known to have, or to have had a while ago.
    fn expectations(&mut self) -> impl Iterator<Item = &mut Expectation> {
        self.lives
            .iter_mut()
            .flat_map(|live| live.expectations.values_mut())
    }

    fn is_dead(&self, place: SocketAt) -> bool {
        self.dead.contains(&(place.gateway, place.start))
    }
}

impl CrowdState {
    /// Nobody is there, and no gateway runs.
    #[must_use]
    pub fn new(customs: Customs) -> Self {
        let gateways = customs.gateways;
        let truth = Truth {
            lives: (0..customs.lives).map(|_| LiveTruth::default()).collect(),
            rules: Rules {
                timing: customs.timing,
                troubles: vec![None; gateways],
                freezes: vec![Vec::new(); gateways],
                runs_since: vec![None; gateways],
                last_renewals: vec![None; gateways],
            },
            online: BTreeMap::new(),
            last_online: BTreeMap::new(),
            beliefs: BTreeMap::new(),
            removed: BTreeSet::new(),
            removed_at: BTreeMap::new(),
            unanswered_at: BTreeMap::new(),
            troubles: vec![0; gateways],
            dead: HashSet::new(),
        };
        Self {
            customs,
            mode: watch::Sender::new(Mode::Rest),
            events: broadcast::Sender::new(64),
            unsettled: AtomicUsize::new(0),
            spots: (0..gateways).map(|_| KnownGateway::default()).collect(),
            connections: AtomicU64::new(1),
            truth: Mutex::new(truth),
        }
    }

    /// What is true now.
    pub fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock()
    }

    /// The present opening of a live.
    pub fn epoch(&self, live: Live) -> Option<u64> {
        self.truth().lives[live].epoch
    }

    /// The place of a new connection.
    pub fn place(&self, gateway: usize) -> SocketAt {
        SocketAt {
            socket: self.connections.fetch_add(1, Ordering::Relaxed),
            gateway,
            start: self.start_of(gateway),
        }
    }

    /// Which start of the gateway it is.
    pub fn start_of(&self, gateway: usize) -> u32 {
        self.spots[gateway].start.load(Ordering::SeqCst)
    }

    /// Whether people may expect it to serve them.
    pub fn is_up(&self, gateway: usize) -> bool {
        self.spots[gateway].is_up.load(Ordering::SeqCst)
    }

    /// The gateways that a balancer finds ready.
    pub fn gateways_up(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.spots.len()).filter(|gateway| self.is_up(*gateway))
    }

    /// Whether a connection there may end without a broken promise.
    pub fn may_lose(&self, place: SocketAt) -> bool {
        self.start_of(place.gateway) != place.start || !self.is_up(place.gateway)
    }

    /// The gateway is about to start: connections from now on belong to the new process.
    pub fn starts(&self, gateway: usize) {
        self.spots[gateway].start.fetch_add(1, Ordering::SeqCst);
        self.truth().rules.runs_since[gateway] = Some(Instant::now());
    }

    /// The gateway listens, or people must not count on it any more.
    pub fn set_up(&self, gateway: usize, is_up: bool) {
        self.spots[gateway].is_up.store(is_up, Ordering::SeqCst);
    }

    /// Whether the present start of the gateway has ended.
    pub fn has_ended(&self, gateway: usize) -> bool {
        let start = self.start_of(gateway);
        self.truth().dead.contains(&(gateway, start))
    }

    /// The process of a gateway is gone, or about to be killed, with all that it had not told the
    /// store.
    pub fn ended(&self, gateway: usize, how: How) {
        self.set_up(gateway, false);
        let start = self.start_of(gateway);
        let is_there = |place: &SocketAt| (place.gateway, place.start) == (gateway, start);
        let mut truth = self.truth();
        truth.dead.insert((gateway, start));
        truth.rules.runs_since[gateway] = None;
        let at = Instant::now();
        let rules = truth.rules.clone();
        for expectation in truth.expectations() {
            expectation.gateway_ended((gateway, start), at, how, &rules);
        }
        truth.beliefs.retain(|_, belief| !is_there(&belief.place));
        truth.end_online(|online| is_there(&online.place));
    }

    /// The gateway cannot keep its promises from now on.
    pub fn trouble(&self, gateway: usize, frozen: bool) {
        let kind = TroubleKind {
            frozen,
            cut_off: true,
            may_lose: false,
        };
        self.begin_trouble(gateway, kind);
    }

    /// The gateway's process stands still, or is about to start; it reaches the store when it runs.
    pub fn stands_still(&self, gateway: usize, frozen: bool) {
        let kind = TroubleKind {
            frozen,
            cut_off: false,
            may_lose: false,
        };
        self.begin_trouble(gateway, kind);
    }

    fn begin_trouble(&self, gateway: usize, kind: TroubleKind) {
        let mut truth = self.truth();
        truth.troubles[gateway] += 1;
        let before = truth.rules.troubles[gateway];
        // The gateway may not know yet that it reaches the store again.
        let was_cut_off = before.is_some_and(|before| {
            before.cut_off && before.until.is_none_or(|until| until.elapsed() < BACK)
        });
        let before = before.filter(|trouble| trouble.until.is_none());
        truth.rules.troubles[gateway] = Some(Trouble {
            since: before.map_or_else(Instant::now, |before| before.since),
            until: None,
            frozen: kind.frozen || before.is_some_and(|before| before.frozen),
            cut_off: kind.cut_off || was_cut_off,
            may_lose: kind.may_lose || before.is_some_and(|before| before.may_lose),
        });
    }

    /// One of its troubles is over.
    pub fn well(&self, gateway: usize) {
        let mut truth = self.truth();
        let left = truth.troubles[gateway].saturating_sub(1);
        truth.troubles[gateway] = left;
        let rules = &mut truth.rules;
        if left == 0
            && let Some(trouble) = &mut rules.troubles[gateway]
        {
            let until = Instant::now();
            trouble.until = Some(until);
            if trouble.frozen {
                rules.freezes[gateway].push(Freeze {
                    since: trouble.since,
                    until,
                });
            }
        }
    }

    /// No gateway reaches the store.
    pub fn trouble_for_all(&self) {
        (0..self.spots.len()).for_each(|gateway| self.trouble(gateway, false));
    }

    /// No gateway reaches the store, or not all that it has said: the store loses writes.
    pub fn loss_for_all(&self) {
        let kind = TroubleKind {
            frozen: false,
            cut_off: true,
            may_lose: true,
        };
        (0..self.spots.len()).for_each(|gateway| self.begin_trouble(gateway, kind));
    }

    /// One of the troubles of each gateway is over.
    pub fn all_well(&self) {
        (0..self.spots.len()).for_each(|gateway| self.well(gateway));
    }

    /// Whether the gateway has had no trouble for so long.
    pub fn is_well_for(&self, gateway: usize, long: Duration) -> bool {
        let trouble = self.truth().rules.troubles[gateway];
        trouble.is_none_or(|trouble| trouble.until.is_some_and(|at| at.elapsed() > long))
    }

    /// Whether the gateway knows what the store knew when it went on, or began: at most it stood
    /// still before.
    pub fn has_caught_up(&self, gateway: usize) -> bool {
        let trouble = self.truth().rules.troubles[gateway];
        trouble.is_none_or(|trouble| {
            let left = if trouble.cut_off {
                BACK
            } else {
                Duration::ZERO
            };
            trouble.until.is_some_and(|at| at.elapsed() >= left)
        })
    }

    /// A gateway that stops gives up the sessions without a socket that it has.
    pub fn gives_up_sessions(&self, gateway: usize, start: u32) {
        for expectation in self.truth().expectations() {
            expectation.doubt(|place| (place.gateway, place.start) == (gateway, start));
        }
    }

    fn with(&self, live: Live, user: User, place: SocketAt, change: impl FnOnce(&mut Expectation)) {
        let mut truth = self.truth();
        if !truth.is_dead(place) {
            change(truth.lives[live].expectations.entry(user).or_default());
        }
    }

    /// Somebody is connected, in a live or not.
    pub fn connected(&self, user: User, place: SocketAt) {
        let mut truth = self.truth();
        if !truth.is_dead(place) {
            let online = Online {
                place,
                user,
                since: Instant::now(),
                beat: None,
            };
            truth.online.insert(place.socket, online);
        }
    }

    /// The connection is no more.
    pub fn disconnected(&self, place: SocketAt) {
        let mut truth = self.truth();
        if let Some(online) = truth.online.remove(&place.socket) {
            truth.note_end(&online);
        }
    }

    /// A join is on its way.
    pub fn joining(&self, user: User, live: Live, place: SocketAt) {
        self.with(live, user, place, |expectation| expectation.joining(place));
    }

    /// The gateway said `joined` to what was asked in that epoch. False if it must be asked again,
    /// because the live has closed in between.
    pub fn joined(&self, user: User, live: Live, place: SocketAt, epoch: Option<u64>) -> bool {
        let current = self.epoch(live).filter(|now| epoch == Some(*now));
        self.with(live, user, place, |expectation| match current {
            Some(_) => expectation.joined(place, Instant::now()),
            None => expectation.joining(place),
        });
        let mut truth = self.truth();
        if let Some(epoch) = current
            && !truth.is_dead(place)
        {
            let belief = Belief {
                place,
                user,
                live,
                epoch,
            };
            truth.beliefs.insert(place.socket, belief);
        }
        current.is_some()
    }

    /// The guest's socket asks to go on as a user of the live.
    pub fn signing_in(&self, guest: User, user: User, live: Live, place: SocketAt) {
        let seated = self.truth().lives[live]
            .expectations
            .get(&guest)
            .and_then(|expectation| expectation.held_since(place));
        self.leaving(guest, live, place);
        self.with(live, user, place, |expectation| {
            expectation.signing_in(place, seated)
        });
    }

    /// The gateway said that the guest's socket goes on as that user, in this live or in none.
    pub fn signed_in(&self, guest: User, user: User, live: Option<Live>, place: SocketAt) {
        let now = Instant::now();
        let mut truth = self.truth();
        if truth.is_dead(place) {
            return;
        }
        if let Some(online) = truth.online.get_mut(&place.socket) {
            (online.user, online.since) = (user, now);
        }
        truth.last_online.remove(&user);
        let Some(live) = live else {
            return;
        };
        let of_live = &mut truth.lives[live];
        let of_guest = of_live.expectations.entry(guest).or_default();
        // If not, the live has closed meanwhile.
        let had_seat = of_guest.may_hold(place);
        of_guest.ended(place, now, How::SignedIn);
        let of_user = of_live.expectations.entry(user).or_default();
        match of_live.epoch.filter(|_| had_seat) {
            Some(epoch) => {
                of_user.joined(place, now);
                let belief = Belief {
                    place,
                    user,
                    live,
                    epoch,
                };
                truth.beliefs.insert(place.socket, belief);
            }
            None => of_user.ended(place, now, How::Closed),
        }
    }

    /// The gateway did not take the guest for that user. The guest's socket stays in the live.
    pub fn not_signed_in(&self, guest: User, user: User, live: Live, place: SocketAt) {
        let now = Instant::now();
        self.with(live, user, place, |expectation| {
            expectation.ended(place, now, How::Left)
        });
        self.with(live, guest, place, |expectation| {
            if expectation.may_hold(place) {
                expectation.joined(place, now);
            }
        });
    }

    /// The user has begun to leave.
    pub fn leaving(&self, user: User, live: Live, place: SocketAt) {
        self.truth().beliefs.remove(&place.socket);
        self.with(live, user, place, |expectation| expectation.leaving(place));
    }

    /// The user has left, in this way.
    pub fn left(&self, user: User, live: Live, place: SocketAt, how: How) {
        self.left_at(user, live, place, how, Instant::now());
    }

    /// The user left at that time.
    pub fn left_at(&self, user: User, live: Live, place: SocketAt, how: How, at: Instant) {
        self.truth().beliefs.remove(&place.socket);
        self.with(live, user, place, |expectation| {
            expectation.ended(place, at, how)
        });
    }

    /// A beat of a session without a socket is on its way.
    pub fn beating(&self, user: User, live: Live, place: SocketAt) {
        self.with(live, user, place, |expectation| expectation.beating(place));
    }

    /// The gateway did not take a beat of a session without a socket. It may have seen the user for
    /// a moment all the same.
    pub fn refused(&self, user: User, live: Live, place: SocketAt) {
        self.with(live, user, place, |expectation| {
            expectation.refused(place, Instant::now())
        });
    }

    /// The gateway has answered a beat of a session without a socket, which was in that epoch.
    pub fn beaten(&self, user: User, live: Live, epoch: u64, place: SocketAt, beat: Beat) {
        let is_sure = self.epoch(live) == Some(epoch) && !self.is_removed_lately(user);
        let timing = &self.customs.timing;
        self.with(live, user, place, |expectation| {
            // A gateway that had given the user up takes the user in anew.
            expectation.lapse(beat.answered, timing);
            expectation.beaten(place, beat, is_sure);
        });
        if !self.truth().online.contains_key(&place.socket) {
            self.connected(user, place);
        }
        if let Some(online) = self.truth().online.get_mut(&place.socket) {
            online.beat = Some(beat);
        }
    }

    /// A request of a session without a socket was not answered.
    pub fn unanswered(&self, user: User, live: Live, place: SocketAt) {
        self.with(live, user, place, |expectation| {
            expectation.unanswered(place, Instant::now())
        });
        self.seen_late(user);
    }

    /// A gateway may have seen the user for a moment, although it refused what the user asked for.
    pub fn seen_somewhere(&self, user: User) {
        self.truth().last_online.remove(&user);
    }

    /// A gateway may see the user when it reads a request that it did not answer.
    pub fn seen_late(&self, user: User) {
        let mut truth = self.truth();
        truth.last_online.remove(&user);
        truth.unanswered_at.insert(user, Instant::now());
    }

    /// Ends what ends by itself. Everything that judges comes after this.
    pub fn lapse(&self) {
        let now = Instant::now();
        let timing = &self.customs.timing;
        let mut truth = self.truth();
        for expectation in truth.expectations() {
            expectation.lapse(now, timing);
        }
        truth.end_online(|online| {
            online
                .beat
                .is_some_and(|beat| beat.sent + timing.timeout <= now)
        });
    }

    /// A back end is about to have a user removed from a live.
    pub fn removing(&self, user: User, live: Live) {
        let mut truth = self.truth();
        truth.removed.insert(user);
        truth.removed_at.insert(user, Instant::now());
        if let Some(expectation) = truth.lives[live].expectations.get_mut(&user) {
            expectation.doubt(|_| true);
        }
    }

    /// Whether a removal of the user may not have reached every gateway.
    fn is_removed_lately(&self, user: User) -> bool {
        let truth = self.truth();
        truth
            .removed_at
            .get(&user)
            .is_some_and(|at| at.elapsed() < REMOVAL_KNOWN)
    }

    /// Whether a gateway may have ended a session of the user because of a removal.
    pub fn was_removed(&self, user: User) -> bool {
        self.truth().removed.contains(&user)
    }
}
