//! What all tasks of a run share: the gateways' endpoints, the crowd's mode, and the truth, which
//! is what the crowd was told and what was found. One lock guards the truth; it is held for a
//! moment, never across an await.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Client;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::findings::{Broken, Findings};
use crate::target::Target;
use simulation::expectation::{Beat, Expectations, How, Live, Place, Rules, Trouble, User};
use simulation::timing::Timing;

/// What the crowd does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// People come, go, swipe and reconnect.
    Wander,
    /// People finish what they have begun, and stay.
    Rest,
}

/// Viewers of a quiet live.
const IDLE_VIEWERS_PER_LIVE: u32 = 3;

/// An event that many people of the crowd react to at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrowdEvent {
    /// Each third person, counted from this one, vanishes for this long.
    Vanish(u32, Duration),
    /// Every socket on this gateway is cut; its users reconnect at once.
    Storm(usize),
}

/// Where users find a gateway, and whether they may expect it there.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) target: Target,
    start: AtomicU32,
    state: AtomicU8,
}

const UP: u8 = 0;
const LEAVING: u8 = 1;
const DOWN: u8 = 2;

/// A live, as the back end knows it, and its users.
#[derive(Debug, Default)]
pub(crate) struct LiveTruth {
    /// `None` while the live is closed or closing.
    pub(crate) epoch: Option<u32>,
    pub(crate) slices: u32,
    /// Changes with each opening and closing.
    pub(crate) version: u64,
    pub(crate) expectations: Expectations,
}

/// What is true, and what was found.
pub(crate) struct Truth {
    pub(crate) lives: Vec<LiveTruth>,
    pub(crate) rules: Rules,
    /// For each socket that was told `joined`: its user, live and epoch.
    pub(crate) believes: HashMap<Place, (User, Live, u32)>,
    pub(crate) findings: Findings,
    /// Every connected socket, in a live or not, and every session without one, and its user.
    pub(crate) online: HashMap<Place, User>,
    /// When each session without a socket sent its last beat to a gateway.
    beats: HashMap<Place, Instant>,
    dead: HashSet<(usize, u32)>,
}

pub(crate) struct RunState {
    pub(crate) timing: Timing,
    pub(crate) seed: u64,
    /// All people: first those who wander, then the idle viewers.
    pub(crate) people: u32,
    wanderers: u32,
    /// The share of devices of wandering people that open no socket.
    socketless: f64,
    /// How many lives people wander among; the quiet lives come after them.
    pub(crate) busy: usize,
    /// The share of users that follow a streamer.
    pub(crate) follows: f64,
    /// A person does something every so often, on average.
    pub(crate) pace: Duration,
    pub(crate) crowded: Crowded,
    /// A member may be wrong for so long beyond what is promised.
    pub(crate) grace: Duration,
    /// The first so many lives are opened with attendance.
    pub(crate) attended: usize,
    pub(crate) endpoints: Vec<Endpoint>,
    /// For the requests of devices without a socket.
    pub(crate) http: Client,
    pub(crate) mode: watch::Sender<Mode>,
    pub(crate) crowd_events: broadcast::Sender<CrowdEvent>,
    /// How many people are not where they want to be.
    pub(crate) unsettled: AtomicUsize,
    sockets: AtomicU64,
    truth: Mutex<Truth>,
}

/// Which gateways people go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Crowded {
    /// Any
    Even,
    /// The first, if it lets them in
    One,
}

pub(crate) struct Plan {
    pub(crate) timing: Timing,
    pub(crate) seed: u64,
    pub(crate) viewers: u32,
    /// The share of devices of wandering people that open no socket.
    pub(crate) socketless: f64,
    pub(crate) lives: usize,
    /// More lives, in which all viewers are idle.
    pub(crate) quiet: usize,
    pub(crate) follows: f64,
    pub(crate) pace: Duration,
    pub(crate) crowded: Crowded,
    /// A member may be wrong for so long beyond what is promised.
    pub(crate) grace: Duration,
    pub(crate) gateways: usize,
    /// The first so many lives are opened with attendance.
    pub(crate) attended: usize,
    /// More settings of the gateways.
    pub(crate) flags: Vec<String>,
}

impl Plan {
    pub(crate) fn people(&self) -> u32 {
        self.viewers + IDLE_VIEWERS_PER_LIVE * self.quiet as u32
    }
}

impl RunState {
    pub(crate) fn new(plan: &Plan, addresses: &[SocketAddr], http: Client) -> Self {
        let endpoint = |address: &SocketAddr| Endpoint {
            target: Target::gateway(*address),
            start: AtomicU32::new(0),
            state: DOWN.into(),
        };
        let truth = Truth {
            lives: (0..plan.lives + plan.quiet)
                .map(|_| LiveTruth::default())
                .collect(),
            rules: Rules {
                timing: plan.timing,
                troubles: vec![None; addresses.len()],
                runs_since: vec![None; addresses.len()],
                last_renewals: vec![None; addresses.len()],
            },
            believes: HashMap::new(),
            online: HashMap::new(),
            beats: HashMap::new(),
            findings: Findings::default(),
            dead: HashSet::new(),
        };
        Self {
            timing: plan.timing,
            seed: plan.seed,
            people: plan.people(),
            wanderers: plan.viewers,
            socketless: plan.socketless,
            busy: plan.lives,
            follows: plan.follows,
            pace: plan.pace,
            crowded: plan.crowded,
            grace: plan.grace,
            attended: plan.attended,
            endpoints: addresses.iter().map(endpoint).collect(),
            http,
            mode: watch::Sender::new(Mode::Rest),
            crowd_events: broadcast::Sender::new(64),
            unsettled: AtomicUsize::new(0),
            sockets: AtomicU64::new(0),
            truth: Mutex::new(truth),
        }
    }

    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn live_id(&self, live: Live) -> String {
        format!("chaos-l{live}")
    }

    pub(crate) fn streamer_id(&self, live: Live) -> String {
        format!("chaos-s{live}")
    }

    pub(crate) fn user_id(&self, user: User) -> String {
        format!("u{user}")
    }

    pub(crate) fn user(&self, id: &str) -> Option<User> {
        id.strip_prefix('u')?
            .parse()
            .ok()
            .filter(|user| *user < self.people)
    }

    /// The live of an idle viewer, and its home gateway, which is the same for all viewers of a
    /// live.
    pub(crate) fn home(&self, user: User) -> Option<(Live, usize)> {
        let live = self.busy + (user.checked_sub(self.wanderers)? / IDLE_VIEWERS_PER_LIVE) as usize;
        Some((live, live % self.endpoints.len()))
    }

    /// Whether a lost viewer returns soon. One idle viewer of each live must, because a live that
    /// no gateway holds keeps the counts of a dead one.
    pub(crate) fn must_stay(&self, user: User) -> bool {
        user.checked_sub(self.wanderers)
            .is_some_and(|idle| idle % IDLE_VIEWERS_PER_LIVE == 0)
    }

    /// Over how many slices a live is spread at first. Quiet lives are small.
    pub(crate) fn slices(&self, live: Live) -> u32 {
        if live < self.busy { 1 << (live % 4) } else { 1 }
    }

    /// Whether a user follows a live's streamer: fixed by the seed.
    pub(crate) fn is_fan(&self, user: User, live: Live) -> bool {
        let mixed = mix(self.seed ^ (u64::from(user) << 20) ^ live as u64);
        share(mixed) < self.follows
    }

    /// Whether a device of a person opens sockets: fixed by the seed. Idle viewers stay on their
    /// gateway, so they need one.
    pub(crate) fn has_socket(&self, user: User, device: usize) -> bool {
        let mixed = mix(mix(self.seed ^ (u64::from(user) << 20)) ^ device as u64);
        self.home(user).is_some() || share(mixed) >= self.socketless
    }

    /// The place of a new socket.
    pub(crate) fn place(&self, gateway: usize) -> Place {
        let start = self.start_of(gateway);
        Place {
            socket: self.sockets.fetch_add(1, Ordering::Relaxed),
            gateway,
            start,
        }
    }

    /// Which start of the gateway it is.
    pub(crate) fn start_of(&self, gateway: usize) -> u32 {
        self.endpoints[gateway].start.load(Ordering::SeqCst)
    }

    pub(crate) fn gateways_up(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.endpoints.len()).filter(|gateway| self.is_up(*gateway))
    }

    pub(crate) fn is_up(&self, gateway: usize) -> bool {
        self.endpoints[gateway].state.load(Ordering::SeqCst) == UP
    }

    /// Whether a socket there may end without a broken promise.
    pub(crate) fn may_lose(&self, place: Place) -> bool {
        let endpoint = &self.endpoints[place.gateway];
        endpoint.start.load(Ordering::SeqCst) != place.start
            || endpoint.state.load(Ordering::SeqCst) != UP
    }

    /// The gateway is about to start: sockets from now on belong to the new process.
    pub(crate) fn gateway_starts(&self, gateway: usize) {
        self.endpoints[gateway].start.fetch_add(1, Ordering::SeqCst);
        let mut truth = self.truth();
        truth.rules.troubles[gateway] = None;
        truth.rules.runs_since[gateway] = Some(Instant::now());
    }

    /// The gateway listens.
    pub(crate) fn gateway_started(&self, gateway: usize) {
        self.endpoints[gateway].state.store(UP, Ordering::SeqCst);
    }

    /// The gateway was asked to end, and sends its sockets elsewhere.
    pub(crate) fn gateway_leaves(&self, gateway: usize) {
        self.endpoints[gateway]
            .state
            .store(LEAVING, Ordering::SeqCst);
    }

    /// The gateway is about to be killed, or has ended.
    pub(crate) fn gateway_ended(&self, gateway: usize, how: How) {
        let endpoint = &self.endpoints[gateway];
        endpoint.state.store(DOWN, Ordering::SeqCst);
        let start = endpoint.start.load(Ordering::SeqCst);
        let mut truth = self.truth();
        truth.dead.insert((gateway, start));
        let at = Instant::now();
        let Truth { lives, rules, .. } = &mut *truth;
        rules.runs_since[gateway] = None;
        for live in lives {
            for expectation in live.expectations.values_mut() {
                expectation.gateway_ended((gateway, start), at, how, rules);
            }
        }
        truth
            .believes
            .retain(|place, _| (place.gateway, place.start) != (gateway, start));
        truth
            .online
            .retain(|place, _| (place.gateway, place.start) != (gateway, start));
        truth
            .beats
            .retain(|place, _| (place.gateway, place.start) != (gateway, start));
    }

    /// The gateway cannot keep its promises from now on.
    pub(crate) fn trouble(&self, gateway: usize, frozen: bool) {
        self.begin_trouble(gateway, frozen, false);
    }

    fn begin_trouble(&self, gateway: usize, frozen: bool, may_lose: bool) {
        self.truth().rules.troubles[gateway] = Some(Trouble {
            since: Instant::now(),
            until: None,
            frozen,
            may_lose,
        });
    }

    /// The gateway's trouble is over.
    pub(crate) fn well(&self, gateway: usize) {
        if let Some(trouble) = &mut self.truth().rules.troubles[gateway] {
            trouble.until = Some(Instant::now());
        }
    }

    /// No gateway reaches Redis.
    pub(crate) fn trouble_for_all(&self) {
        (0..self.endpoints.len()).for_each(|gateway| self.trouble(gateway, false));
    }

    /// No gateway reaches Redis, or not all that it has said: Redis loses writes.
    pub(crate) fn loss_for_all(&self) {
        (0..self.endpoints.len()).for_each(|gateway| self.begin_trouble(gateway, false, true));
    }

    pub(crate) fn all_well(&self) {
        (0..self.endpoints.len()).for_each(|gateway| self.well(gateway));
    }

    /// The backend asks to close the live: until the answer no user of it is judged.
    pub(crate) fn closing(&self, live: Live) {
        let mut truth = self.truth();
        let live_truth = &mut truth.lives[live];
        live_truth.epoch = None;
        live_truth.version += 1;
    }

    pub(crate) fn closed(&self, live: Live) {
        let at = Instant::now();
        let mut truth = self.truth();
        let live_truth = &mut truth.lives[live];
        live_truth.version += 1;
        live_truth
            .expectations
            .values_mut()
            .for_each(|expectation| expectation.closed(at));
    }

    pub(crate) fn opened(&self, live: Live, epoch: u32, slices: u32) {
        let at = Instant::now();
        let mut truth = self.truth();
        let live_truth = &mut truth.lives[live];
        live_truth.version += 1;
        (live_truth.epoch, live_truth.slices) = (Some(epoch), slices);
        live_truth
            .expectations
            .values_mut()
            .for_each(|expectation| expectation.closed(at));
    }

    /// Whether the gateway has been well for long enough to know what is open.
    pub(crate) fn is_sound(&self, gateway: usize) -> bool {
        let healed = self.timing.healed();
        self.truth().rules.troubles[gateway]
            .is_none_or(|trouble| trouble.until.is_some_and(|at| at.elapsed() > healed))
    }

    pub(crate) fn epoch(&self, live: Live) -> Option<u32> {
        self.truth().lives[live].epoch
    }

    /// A socket is connected, in a live or not.
    pub(crate) fn connected(&self, user: User, place: Place) {
        let mut truth = self.truth();
        if !truth.dead.contains(&(place.gateway, place.start)) {
            truth.online.insert(place, user);
        }
    }

    pub(crate) fn disconnected(&self, place: Place) {
        let mut truth = self.truth();
        truth.online.remove(&place);
        truth.beats.remove(&place);
    }

    /// A beat of a session without a socket is on its way.
    pub(crate) fn beating(&self, user: User, live: Live, place: Place) {
        let mut truth = self.truth();
        if !truth.dead.contains(&(place.gateway, place.start)) {
            let expectations = &mut truth.lives[live].expectations;
            expectations.entry(user).or_default().beating(place);
        }
    }

    /// The gateway did not take a beat of a session without a socket.
    pub(crate) fn refused(&self, user: User, live: Live, place: Place) {
        let mut truth = self.truth();
        if let Some(expectation) = truth.lives[live].expectations.get_mut(&user) {
            expectation.refused(place, Instant::now());
        }
    }

    /// The gateway has answered a beat of a session without a socket, which was in that epoch.
    pub(crate) fn beaten(&self, user: User, live: Live, epoch: u32, place: Place, beat: Beat) {
        let mut truth = self.truth();
        if truth.dead.contains(&(place.gateway, place.start)) {
            return;
        }
        let live_truth = &mut truth.lives[live];
        let is_current = live_truth.epoch == Some(epoch);
        let expectation = live_truth.expectations.entry(user).or_default();
        // A gateway that had given the user up takes the user in anew.
        expectation.lapse(beat.answered, &self.timing);
        expectation.beaten(place, beat, is_current);
        truth.online.insert(place, user);
        truth.beats.insert(place, beat.sent);
    }

    /// A request of a session without a socket was not answered.
    pub(crate) fn unanswered(&self, user: User, live: Live, place: Place) {
        let mut truth = self.truth();
        if !truth.dead.contains(&(place.gateway, place.start)) {
            let expectations = &mut truth.lives[live].expectations;
            let expectation = expectations.entry(user).or_default();
            expectation.unanswered(place, Instant::now());
        }
    }

    /// Ends what ends by itself. Everything that judges comes after this.
    pub(crate) fn lapse(&self) {
        let now = Instant::now();
        let mut truth = self.truth();
        for live_truth in &mut truth.lives {
            for expectation in live_truth.expectations.values_mut() {
                expectation.lapse(now, &self.timing);
            }
        }
        let Truth { beats, online, .. } = &mut *truth;
        let timeout = self.timing.timeout;
        for (place, _) in beats.extract_if(|_, sent| *sent + timeout <= now) {
            online.remove(&place);
        }
    }

    /// A gateway that stops gives up the sessions without a socket that it has.
    pub(crate) fn gives_up_sessions(&self, gateway: usize, start: u32) {
        let mut truth = self.truth();
        for live_truth in &mut truth.lives {
            for expectation in live_truth.expectations.values_mut() {
                expectation.doubt(|place| (place.gateway, place.start) == (gateway, start));
            }
        }
    }

    pub(crate) fn joining(&self, user: User, live: Live, place: Place) {
        let mut truth = self.truth();
        if !truth.dead.contains(&(place.gateway, place.start)) {
            truth.lives[live]
                .expectations
                .entry(user)
                .or_default()
                .joining(place);
        }
    }

    /// The gateway said `joined` to what was asked in that epoch. False if it must be asked again,
    /// because the live has closed in between.
    pub(crate) fn joined(&self, user: User, live: Live, place: Place, epoch: Option<u32>) -> bool {
        let mut truth = self.truth();
        if truth.dead.contains(&(place.gateway, place.start)) {
            return true;
        }
        let live_truth = &mut truth.lives[live];
        let expectation = live_truth.expectations.entry(user).or_default();
        let Some(now) = live_truth.epoch.filter(|now| epoch == Some(*now)) else {
            expectation.joining(place);
            return false;
        };
        expectation.joined(place, Instant::now());
        truth.believes.insert(place, (user, live, now));
        true
    }

    pub(crate) fn leaving(&self, user: User, live: Live, place: Place) {
        let mut truth = self.truth();
        truth.believes.remove(&place);
        if let Some(expectation) = truth.lives[live].expectations.get_mut(&user) {
            expectation.leaving(place);
        }
    }

    pub(crate) fn left(&self, user: User, live: Live, place: Place, how: How) {
        self.left_at(user, live, place, how, Instant::now());
    }

    pub(crate) fn left_at(&self, user: User, live: Live, place: Place, how: How, at: Instant) {
        let mut truth = self.truth();
        truth.believes.remove(&place);
        if let Some(expectation) = truth.lives[live].expectations.get_mut(&user) {
            expectation.ended(place, at, how);
        }
    }

    pub(crate) fn broke(&self, broken: Broken) {
        self.truth().findings.broke(broken);
    }
}

/// A number of this as a share of all there are.
fn share(mixed: u64) -> f64 {
    (mixed >> 11) as f64 / ((1_u64 << 53) as f64)
}

/// SplitMix64's finaliser: neighbouring numbers give unrelated ones.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
