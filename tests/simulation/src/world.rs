//! What all tasks of a history share: the gateways, the network, what people know to be true, and
//! what was found.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use parking_lot::{Mutex, MutexGuard};
use rollcall::base::identity::{Identity, Role};
use rollcall::base::ids::{LiveId, UserId};
use rollcall::edge::datagrams::{DatagramDoor, wire};
use rollcall::gateway::Gateway;
use rollcall::presence::figures::{Figures, Quality};
use rollcall::session::Handshake;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::datagrams::Overheard;
use crate::expectation::{Beat, Expectation, How, Live, Place, Rules, Trouble, User};
use crate::faults::Kind;
use crate::network::{Network, derived};
use crate::plan::Plan;
use crate::timing::Timing;
use crate::trace::Trace;

/// How long a client waits for the answer to an HTTP request.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the socket of a client holds until the other side reads it.
const SOCKET_BUFFER: usize = 64 << 10;

/// By then the other gateways have heard that a session without a socket has ended.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// By then every gateway has heard that a user was removed: the longest fault, and the repair.
const REMOVAL_KNOWN: Duration = Duration::from_secs(75);

/// By then a gateway has read what it did not answer: as for a removal.
const READ_LATE: Duration = REMOVAL_KNOWN;

/// A socket that ends sooner may never have been told to the store.
const NOTICED: Duration = Duration::from_secs(2);

/// What people do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They come, go, swipe and vanish.
    Wander,
    /// They stay where they are.
    Rest,
    /// They leave, and do not come back.
    GoHome,
}

/// What only the engine can do to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Start(usize),
    Kill(usize),
    /// The machine is gone: sockets stay open, and nobody answers.
    Unplug(usize),
    Freeze(usize),
    Thaw(usize),
    /// It runs only in each so many turns.
    Slow(usize, u32),
}

/// A gateway, as people find it.
#[derive(Default)]
pub(crate) struct Spot {
    /// How often it was started.
    pub(crate) start: u32,
    pub(crate) link: usize,
    pub(crate) running: Option<Running>,
    /// Where clients still reach it that is asked to stop.
    pub(crate) stopping: Option<Door>,
    /// Troubles that last.
    troubles: u32,
}

pub(crate) struct Running {
    pub(crate) gateway: Gateway,
    /// For back ends.
    pub(crate) internal: Door,
    /// For clients.
    pub(crate) public: Door,
}

/// Where a gateway takes HTTP requests.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) handle: Handle,
    pub(crate) router: Router,
    datagrams: Arc<DatagramDoor>,
}

/// An answer to an HTTP request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    /// Whether the connection ends with it.
    pub(crate) closes: bool,
}

/// What became of an HTTP request.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Nobody listens.
    Nobody,
    /// It may be carried out, now or later.
    Unanswered,
    Answered(Answer),
}

impl Running {
    pub(crate) fn new(handle: Handle, gateway: Gateway) -> Self {
        let datagrams = Arc::new(gateway.datagram_door());
        let internal = Door {
            handle: handle.clone(),
            router: gateway.router(),
            datagrams: datagrams.clone(),
        };
        let public = Door {
            handle,
            router: gateway.public_router(),
            datagrams,
        };
        Self {
            gateway,
            internal,
            public,
        }
    }
}

impl Door {
    /// Sends a request. Returns its task, and where its answer comes.
    fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Option<(JoinHandle<()>, oneshot::Receiver<Answer>)> {
        let (answer, answered) = oneshot::channel();
        let router = self.router.clone();
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(body)
            .ok()?;
        let asked = self.handle.spawn(async move {
            let Ok(response) = router.oneshot(request).await;
            let status = response.status().as_u16();
            let closes = response
                .headers()
                .get(CONNECTION)
                .is_some_and(|value| value == "close");
            let body = match response.into_body().collect().await {
                Ok(body) => serde_json::from_slice(&body.to_bytes()).unwrap_or(Value::Null),
                Err(_) => Value::Null,
            };
            let answered = Answer {
                status,
                body,
                closes,
            };
            let _ = answer.send(answered);
        });
        Some((asked, answered))
    }
}

/// A live, as the back end knows it.
#[derive(Debug, Default)]
pub(crate) struct LiveTruth {
    /// `None` while it is closed, or closing.
    pub(crate) epoch: Option<u64>,
    /// Whether an answer to its close or its opening is still to come: until then nobody is judged.
    pub(crate) changes: bool,
    pub(crate) slices: u32,
    /// Whether it is kept who came, and when.
    pub(crate) attends: bool,
    /// A later one, which the store and all gateways seemed to have forgotten.
    pub(crate) forgotten: Option<u64>,
    /// When this epoch was opened.
    pub(crate) opened: Option<Instant>,
    /// Whether anybody was ever there, in this epoch.
    pub(crate) was_entered: bool,
    pub(crate) expectations: BTreeMap<User, Expectation>,
    /// Who may not join, from when and until when.
    pub(crate) banned: BTreeMap<User, (Instant, Instant)>,
    /// Every epoch that a back end opened, and whether it closed it.
    pub(crate) epochs: BTreeMap<u64, bool>,
}

/// A connected socket, or a session without one.
pub(crate) struct Online {
    pub(crate) place: Place,
    pub(crate) user: User,
    since: Instant,
    /// The last beat of a session without a socket.
    beat: Option<Beat>,
}

/// What a socket was told last of the friends in its live.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShownFriends {
    pub(crate) live: Live,
    pub(crate) users: BTreeSet<String>,
    /// Whether it was said that these are not all.
    pub(crate) partial: bool,
}

pub(crate) struct Truth {
    pub(crate) lives: Vec<LiveTruth>,
    /// Whether the media server has a publisher.
    pub(crate) is_on_air: bool,
    pub(crate) rules: Rules,
    /// Every connected socket, and every session without one on each of its gateways, by its
    /// number.
    pub(crate) online: BTreeMap<u64, Online>,
    /// When users went offline last.
    pub(crate) last_online: BTreeMap<User, Instant>,
    /// When a request of a user was last given up without an answer.
    unanswered_at: BTreeMap<User, Instant>,
    /// By socket.
    pub(crate) shown_friends: BTreeMap<u64, ShownFriends>,
    /// Users whom a back end had removed from a live.
    pub(crate) removed: BTreeSet<User>,
    /// When a back end last asked for that.
    removed_at: BTreeMap<User, Instant>,
    /// How many faults of each kind there were.
    pub(crate) faults: BTreeMap<Kind, u64>,
    dead: HashSet<(usize, u32)>,
    /// Until then older data may still be there, with users who left long ago.
    pub(crate) older_until: Option<Instant>,
    pub(crate) findings: Vec<String>,
}

/// Somebody began to follow a streamer, or ended it.
struct FanChange {
    follows: bool,
    at: Instant,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) timing: Timing,
    pub(crate) network: Arc<Network>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) overheard: Overheard,
    pub(crate) mode: watch::Sender<Mode>,
    pub(crate) spots: Mutex<Vec<Spot>>,
    orders: Mutex<Vec<Order>>,
    truth: Mutex<Truth>,
    changed_fans: Mutex<BTreeMap<(User, Live), FanChange>>,
    sockets: AtomicU64,
}

impl Online {
    /// Notes when the user was last online. If the store may never have heard of the user, or a
    /// gateway may yet read an older request of the user, nothing is expected.
    fn ends(
        &self,
        troubles: &[Option<Trouble>],
        unanswered_at: &BTreeMap<User, Instant>,
        last_online: &mut BTreeMap<User, Instant>,
    ) {
        let is_well = troubles[self.place.gateway]
            .is_none_or(|trouble| trouble.until.is_some_and(|at| at <= self.since));
        let is_read_late = unanswered_at
            .get(&self.user)
            .is_some_and(|at| at.elapsed() < READ_LATE);
        match is_well && !is_read_late && self.since.elapsed() > NOTICED {
            true => drop(last_online.insert(self.user, Instant::now())),
            false => drop(last_online.remove(&self.user)),
        }
    }
}

impl World {
    pub(crate) fn new(plan: Plan, trace: Arc<Trace>) -> Self {
        let network = Arc::new(Network::new(
            derived(plan.seed, "network"),
            plan.nodes,
            trace.clone(),
        ));
        let truth = Truth {
            is_on_air: false,
            lives: (0..plan.lives).map(|_| LiveTruth::default()).collect(),
            rules: Rules {
                timing: Timing::SIMULATED,
                troubles: vec![None; plan.gateways],
                runs_since: vec![None; plan.gateways],
                last_renewals: vec![None; plan.gateways],
            },
            online: BTreeMap::new(),
            last_online: BTreeMap::new(),
            unanswered_at: BTreeMap::new(),
            shown_friends: BTreeMap::new(),
            removed: BTreeSet::new(),
            removed_at: BTreeMap::new(),
            faults: BTreeMap::new(),
            dead: HashSet::new(),
            older_until: None,
            findings: Vec::new(),
        };
        Self {
            timing: Timing::SIMULATED,
            network,
            trace,
            overheard: Overheard::default(),
            mode: watch::Sender::new(Mode::Rest),
            spots: Mutex::new((0..plan.gateways).map(|_| Spot::default()).collect()),
            orders: Mutex::default(),
            truth: Mutex::new(truth),
            changed_fans: Mutex::default(),
            sockets: AtomicU64::new(1),
            plan,
        }
    }

    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock()
    }

    pub(crate) fn order(&self, order: Order) {
        self.trace.tell(None, &format!("{order:?}"));
        self.orders.lock().push(order);
    }

    pub(crate) fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut *self.orders.lock())
    }

    /// Something is not as it was promised.
    pub(crate) fn found(&self, what: String) {
        self.trace.tell(None, &what);
        self.truth.lock().findings.push(what);
    }

    pub(crate) fn live_id(&self, live: Live) -> LiveId {
        id(LiveId::parse(&format!("l{live}")))
    }

    pub(crate) fn streamer_id(&self, live: Live) -> UserId {
        id(UserId::parse(&format!("s{live}")))
    }

    pub(crate) fn user_id(&self, user: User) -> UserId {
        id(UserId::parse(&format!("u{user}")))
    }

    /// Whether a user's sockets are those of a streamer. Lives have streamers of their own, who are
    /// never here.
    pub(crate) fn is_streamer(&self, user: User) -> bool {
        user % 4 == 1
    }

    pub(crate) fn user(&self, user: &UserId) -> Option<User> {
        user.as_str().strip_prefix('u')?.parse().ok()
    }

    /// Whether a user follows the streamer of a live.
    pub(crate) fn is_fan(&self, user: User, live: Live) -> bool {
        match self.changed_fans.lock().get(&(user, live)) {
            Some(change) => change.follows,
            None => {
                xxh3_64_with_seed(&[user as u8, (user >> 8) as u8, live as u8], self.plan.seed) % 5
                    < 3
            }
        }
    }

    /// Whether the gateways may not know yet that a user follows, or follows no longer.
    pub(crate) fn is_fan_unsure(&self, user: User, live: Live) -> bool {
        let changed = self.changed_fans.lock();
        changed
            .get(&(user, live))
            .is_some_and(|change| change.at.elapsed() < self.timing.repaired())
    }

    /// A user follows from now on, or follows no longer, or it is not known which of the two.
    pub(crate) fn follows(&self, user: User, live: Live, follows: bool) {
        self.changed_fans.lock().insert(
            (user, live),
            FanChange {
                follows,
                at: Instant::now(),
            },
        );
    }

    pub(crate) fn is_up(&self, gateway: usize) -> bool {
        self.spots.lock()[gateway].running.is_some()
    }

    /// What a gateway says of a live.
    pub(crate) fn figures(&self, gateway: usize, live: Live) -> Option<(Figures, Quality)> {
        let spots = self.spots.lock();
        let gateway = &spots[gateway].running.as_ref()?.gateway;
        let live = self.live_id(live);
        Some((gateway.figures(&live)?, gateway.quality(&live)?))
    }

    /// The place of a new socket there.
    pub(crate) fn place(&self, gateway: usize) -> Place {
        Place {
            socket: self.sockets.fetch_add(1, Ordering::Relaxed),
            gateway,
            start: self.start_of(gateway),
        }
    }

    /// Which start of the gateway it is.
    pub(crate) fn start_of(&self, gateway: usize) -> u32 {
        self.spots.lock()[gateway].start
    }

    /// Opens a socket; `None` if nobody listens.
    pub(crate) fn connect(
        &self,
        gateway: usize,
        user: UserId,
        role: Role,
        join: Option<Live>,
    ) -> Option<DuplexStream> {
        let spots = self.spots.lock();
        let running = spots[gateway].running.as_ref()?;
        let identity = Identity {
            user,
            role,
            counted: true,
        };
        let join = join.map(|live| self.live_id(live).to_string());
        let handshake = Handshake {
            identity,
            claims: None,
            join,
            watch: None,
            permit: None,
        };
        let (client, server) = tokio::io::duplex(SOCKET_BUFFER);
        running
            .public
            .handle
            .spawn(running.gateway.serve(server, handshake));
        Some(client)
    }

    /// Asks a gateway over HTTP; the status and the body of its answer.
    pub(crate) async fn http(
        &self,
        gateway: usize,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Option<(u16, Value)> {
        let is_put = method == Method::PUT;
        let door = self.spots.lock()[gateway]
            .running
            .as_ref()?
            .internal
            .clone();
        let (asked, answered) = door.send(method, path, body)?;
        let answered = timeout(PATIENCE, answered).await;
        if answered.is_err() && is_put {
            // A request that a client gave up may be carried out later. One that opens a live that
            // the client has closed meanwhile is beyond what a gateway can know.
            asked.abort();
        }
        let Answer { status, body, .. } = answered.ok()?.ok()?;
        Some((status, body))
    }

    /// Asks a gateway as a client without a socket does, by POST or DELETE.
    pub(crate) async fn ask(
        &self,
        gateway: usize,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Asked {
        let Some(door) = self.door(gateway) else {
            return Asked::Nobody;
        };
        let Some((_, answered)) = door.send(method, path, body) else {
            return Asked::Nobody;
        };
        match timeout(PATIENCE, answered).await {
            Ok(Ok(answer)) => Asked::Answered(answer),
            _ => Asked::Unanswered,
        }
    }

    /// Sends a datagram. Returns the task that has its answer; `None` if nobody listens.
    pub(crate) fn datagram(
        &self,
        gateway: usize,
        datagram: Vec<u8>,
        from: SocketAddr,
    ) -> Option<JoinHandle<Option<[u8; wire::SHORT]>>> {
        let Door {
            handle, datagrams, ..
        } = self.door(gateway)?;
        Some(handle.spawn(async move { datagrams.take(&datagram, from).await }))
    }

    /// Where clients reach a gateway that runs, or is about to stop.
    fn door(&self, gateway: usize) -> Option<Door> {
        let spots = self.spots.lock();
        let spot = &spots[gateway];
        match &spot.running {
            Some(running) => Some(running.public.clone()),
            None => spot.stopping.clone(),
        }
    }

    /// Whether somebody listens there.
    pub(crate) fn listens(&self, gateway: usize) -> bool {
        self.door(gateway).is_some()
    }

    /// A gateway starts: its sockets from now on belong to the new process.
    pub(crate) fn starts(&self, gateway: usize, link: usize) {
        let mut spots = self.spots.lock();
        spots[gateway].start += 1;
        spots[gateway].link = link;
        self.truth.lock().rules.runs_since[gateway] = Some(Instant::now());
    }

    /// The process of a gateway is gone, with all that it had not told the store.
    pub(crate) fn ended(&self, gateway: usize, how: How) {
        let start = self.spots.lock()[gateway].start;
        let mut truth = self.truth.lock();
        // Of two ends the first is the one that people noticed.
        if !truth.dead.insert((gateway, start)) {
            return;
        }
        let at = Instant::now();
        let Truth { lives, rules, .. } = &mut *truth;
        rules.runs_since[gateway] = None;
        for live in lives {
            for expectation in live.expectations.values_mut() {
                expectation.gateway_ended((gateway, start), at, how, rules);
            }
        }
        let Truth {
            online,
            last_online,
            unanswered_at,
            rules,
            ..
        } = &mut *truth;
        let is_there = |_: &u64, online: &mut Online| {
            (online.place.gateway, online.place.start) == (gateway, start)
        };
        for (_, online) in online.extract_if(.., is_there) {
            online.ends(&rules.troubles, unanswered_at, last_online);
        }
    }

    /// The gateway cannot keep its promises from now on.
    pub(crate) fn trouble(&self, gateway: usize, frozen: bool) {
        self.spots.lock()[gateway].troubles += 1;
        let mut truth = self.truth.lock();
        let before = truth.rules.troubles[gateway].filter(|trouble| trouble.until.is_none());
        let since = before.map_or_else(Instant::now, |before| before.since);
        let frozen = frozen || before.is_some_and(|before| before.frozen);
        truth.rules.troubles[gateway] = Some(Trouble {
            since,
            until: None,
            frozen,
            may_lose: false,
        });
    }

    /// One of its troubles is over.
    pub(crate) fn well(&self, gateway: usize) {
        let left = {
            let mut spots = self.spots.lock();
            spots[gateway].troubles = spots[gateway].troubles.saturating_sub(1);
            spots[gateway].troubles
        };
        if left == 0
            && let Some(trouble) = &mut self.truth.lock().rules.troubles[gateway]
        {
            trouble.until = Some(Instant::now());
        }
    }

    pub(crate) fn trouble_for_all(&self) {
        (0..self.plan.gateways).for_each(|gateway| self.trouble(gateway, false));
    }

    pub(crate) fn all_well(&self) {
        (0..self.plan.gateways).for_each(|gateway| self.well(gateway));
    }

    /// When the gateway began that runs for the shortest time.
    pub(crate) fn youngest(&self) -> Option<Instant> {
        self.truth
            .lock()
            .rules
            .runs_since
            .iter()
            .flatten()
            .max()
            .copied()
    }

    /// The open lives in which somebody is.
    pub(crate) fn lives_with_viewers(&self) -> Vec<Live> {
        let truth = self.truth.lock();
        let has_viewers = |live: &Live| {
            let live = &truth.lives[*live];
            live.epoch.is_some() && live.expectations.values().any(Expectation::is_held)
        };
        (0..self.plan.lives).filter(has_viewers).collect()
    }

    /// Whether the gateway runs, and has been well for as long as it needs to know everything.
    pub(crate) fn is_sound(&self, gateway: usize) -> bool {
        let known = self.timing.healed() + self.timing.told();
        let trouble = self.truth.lock().rules.troubles[gateway];
        self.is_up(gateway)
            && trouble.is_none_or(|trouble| trouble.until.is_some_and(|at| at.elapsed() > known))
    }

    fn with(&self, live: Live, user: User, place: Place, change: impl FnOnce(&mut Expectation)) {
        let mut truth = self.truth.lock();
        if !truth.dead.contains(&(place.gateway, place.start)) {
            change(truth.lives[live].expectations.entry(user).or_default());
        }
    }

    pub(crate) fn connected(&self, user: User, place: Place) {
        let mut truth = self.truth.lock();
        if !truth.dead.contains(&(place.gateway, place.start)) {
            truth.online.insert(
                place.socket,
                Online {
                    place,
                    user,
                    since: Instant::now(),
                    beat: None,
                },
            );
        }
    }

    pub(crate) fn disconnected(&self, place: Place) {
        let mut truth = self.truth.lock();
        truth.shown_friends.remove(&place.socket);
        let Truth {
            online,
            last_online,
            unanswered_at,
            rules,
            ..
        } = &mut *truth;
        if let Some(online) = online.remove(&place.socket) {
            online.ends(&rules.troubles, unanswered_at, last_online);
        }
    }

    /// Whom a user follows among the users.
    pub(crate) fn friends_of(&self, user: User) -> impl Iterator<Item = User> {
        let people = self.plan.people as u32;
        (1..6)
            .map(move |step| (user + step * 7) % people)
            .filter(move |friend| *friend != user)
    }

    /// A socket was shown who of the friends is in its live; `None`: it is in no live.
    pub(crate) fn shown_friends(&self, place: Place, shown: Option<ShownFriends>) {
        let mut truth = self.truth.lock();
        match shown {
            Some(shown) => drop(truth.shown_friends.insert(place.socket, shown)),
            None => drop(truth.shown_friends.remove(&place.socket)),
        }
    }

    pub(crate) fn joining(&self, user: User, live: Live, place: Place) {
        self.with(live, user, place, |expectation| expectation.joining(place));
    }

    /// The gateway said `joined` to what was asked in that epoch. False if the live has closed in
    /// between.
    pub(crate) fn joined(&self, user: User, live: Live, place: Place, epoch: Option<u64>) -> bool {
        let is_current = epoch.is_some() && self.epoch(live) == epoch;
        if is_current && self.is_sound(place.gateway) {
            let settled = self.timing.told() + self.timing.settled();
            let now = Instant::now();
            let banned = self.truth.lock().lives[live].banned.get(&user).copied();
            // A ban ends by the clock of the store.
            if !self.plan.steps_clock()
                && banned.is_some_and(|(from, until)| from + settled < now && now < until)
            {
                self.found(format!(
                    "gateway {} let u{user} into l{live} in spite of a ban",
                    place.gateway
                ));
            }
        }
        self.truth.lock().lives[live].was_entered |= is_current;
        self.with(live, user, place, |expectation| match is_current {
            true => expectation.joined(place, Instant::now()),
            false => expectation.joining(place),
        });
        is_current
    }

    /// A beat of a session without a socket is on its way.
    pub(crate) fn beating(&self, user: User, live: Live, place: Place) {
        self.with(live, user, place, |expectation| expectation.beating(place));
    }

    /// The gateway did not take a beat of a session without a socket.
    pub(crate) fn refused(&self, user: User, live: Live, place: Place) {
        self.with(live, user, place, |expectation| {
            expectation.refused(place, Instant::now())
        });
    }

    /// The gateway has answered a beat of a session without a socket, which was in that epoch.
    pub(crate) fn beaten(&self, user: User, live: Live, epoch: u64, place: Place, beat: Beat) {
        let is_sure = self.epoch(live) == Some(epoch) && !self.is_removed_lately(user);
        let timing = &self.timing;
        self.with(live, user, place, |expectation| {
            // A gateway that had given the user up takes the user in anew.
            expectation.lapse(beat.answered, timing);
            expectation.beaten(place, beat, is_sure);
        });
        if !self.truth.lock().online.contains_key(&place.socket) {
            self.connected(user, place);
        }
        if let Some(online) = self.truth.lock().online.get_mut(&place.socket) {
            online.beat = Some(beat);
        }
    }

    /// A gateway may have seen the user for a moment, although it refused what the user asked for.
    pub(crate) fn seen_somewhere(&self, user: User) {
        self.truth.lock().last_online.remove(&user);
    }

    /// A gateway may see the user when it reads a request that it did not answer.
    pub(crate) fn seen_late(&self, user: User) {
        let mut truth = self.truth.lock();
        truth.last_online.remove(&user);
        truth.unanswered_at.insert(user, Instant::now());
    }

    /// A request of a session without a socket was not answered.
    pub(crate) fn unanswered(&self, user: User, live: Live, place: Place) {
        self.with(live, user, place, |expectation| {
            expectation.unanswered(place, Instant::now())
        });
    }

    /// Ends what ends by itself. Everything that judges comes after this.
    pub(crate) fn lapse(&self) {
        let now = Instant::now();
        let timing = &self.timing;
        let mut truth = self.truth.lock();
        for live in &mut truth.lives {
            for expectation in live.expectations.values_mut() {
                expectation.lapse(now, timing);
            }
        }
        let Truth {
            online,
            last_online,
            unanswered_at,
            rules,
            ..
        } = &mut *truth;
        let is_over = |_: &u64, online: &mut Online| {
            online
                .beat
                .is_some_and(|beat| beat.sent + timing.timeout <= now)
        };
        for (_, online) in online.extract_if(.., is_over) {
            online.ends(&rules.troubles, unanswered_at, last_online);
        }
    }

    /// A back end is about to have a user removed from a live.
    pub(crate) fn removing(&self, user: User, live: Live) {
        let mut truth = self.truth.lock();
        truth.removed.insert(user);
        truth.removed_at.insert(user, Instant::now());
        if let Some(expectation) = truth.lives[live].expectations.get_mut(&user) {
            expectation.doubt(|_| true);
        }
    }

    /// Whether a removal of the user may not have reached every gateway.
    fn is_removed_lately(&self, user: User) -> bool {
        let truth = self.truth.lock();
        truth
            .removed_at
            .get(&user)
            .is_some_and(|at| at.elapsed() < REMOVAL_KNOWN)
    }

    /// Whether a gateway may have ended a session of the user because of a removal.
    pub(crate) fn was_removed(&self, user: User) -> bool {
        self.truth.lock().removed.contains(&user)
    }

    /// A gateway that stops gives up the sessions without a socket that it has.
    pub(crate) fn gives_up_sessions(&self, gateway: usize) {
        let start = self.spots.lock()[gateway].start;
        let mut truth = self.truth.lock();
        for live in &mut truth.lives {
            for expectation in live.expectations.values_mut() {
                expectation.doubt(|place| (place.gateway, place.start) == (gateway, start));
            }
        }
    }

    /// A session without a socket left a live through the gateway `through`. A gateway that is told
    /// so gives it up there as well; one that may not have been told gives it up later.
    pub(crate) fn left_everywhere(
        self: &Arc<Self>,
        user: User,
        live: Live,
        places: Vec<Place>,
        through: usize,
    ) {
        let world = self.clone();
        let left_at = Instant::now();
        tokio::spawn(async move {
            sleep(TOLD_WITHIN).await;
            for place in places {
                let is_told = world.is_sound(through) && world.is_sound(place.gateway);
                let how = if place.gateway == through || is_told {
                    How::Left
                } else {
                    How::Vanished
                };
                world.with(live, user, place, |expectation| {
                    expectation.ended(place, left_at, how)
                });
                world.disconnected(place);
            }
        });
    }

    /// Whether every gateway has run, and has been well, since shortly before that.
    pub(crate) fn was_told_since(&self, at: Instant) -> bool {
        let truth = self.truth.lock();
        let rules = &truth.rules;
        (0..self.plan.gateways).all(|gateway| {
            let has_run = rules.runs_since[gateway].is_some_and(|since| since < at);
            let known = self.timing.healed() + self.timing.told();
            let is_well = rules.troubles[gateway]
                .is_none_or(|trouble| trouble.until.is_some_and(|until| until + known < at));
            has_run && is_well
        })
    }

    pub(crate) fn leaving(&self, user: User, live: Live, place: Place) {
        self.with(live, user, place, |expectation| expectation.leaving(place));
    }

    pub(crate) fn left(&self, user: User, live: Live, place: Place, how: How) {
        self.with(live, user, place, |expectation| {
            expectation.ended(place, Instant::now(), how)
        });
    }

    pub(crate) fn epoch(&self, live: Live) -> Option<u64> {
        self.truth.lock().lives[live].epoch
    }

    /// Whether a socket there may end without a broken promise.
    pub(crate) fn may_lose(&self, place: Place) -> bool {
        let spots = self.spots.lock();
        spots[place.gateway].start != place.start || spots[place.gateway].running.is_none()
    }
}

/// What a task of a gateway comes to, if that does not take too long and the gateway does not end.
pub(crate) async fn within_patience<T>(task: JoinHandle<T>) -> Option<T> {
    timeout(PATIENCE, task).await.ok()?.ok()
}

/// Ids here are right.
fn id<T, E: std::fmt::Debug>(parsed: Result<T, E>) -> T {
    parsed.unwrap_or_else(|why| unreachable!("{why:?}"))
}
