//! What all tasks of a history share: the gateways, the network, the crowd and what it knows to be
//! true, and what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use parking_lot::{Mutex, MutexGuard};
use rollcall::auth::mint::{Grant, TokenSigner};
use rollcall::base::address_prefix::AddressPrefix;
use rollcall::base::identity::{Identity, Role};
use rollcall::base::ids::{LiveId, UserId};
use rollcall::features::datagrams::DatagramDoor;
use rollcall::features::datagrams::wire::SHORT;
use rollcall::gateway::Gateway;
use rollcall::presence::figures::{Figures, Quality};
use rollcall::session::Handshake;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role as Side, WebSocketConfig};
use tower::ServiceExt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::crowd::session::OldId;
use crate::crowd::truth::{CrowdState, Customs, Truth};
use crate::crowd::{Answer, CrowdRefusal, Habits, Outcome, Surroundings, derived};
use crate::eavesdropper::Overheard;
use crate::expectation::{How, Live, SocketAt, User};
use crate::faults::Fault;
use crate::moderation::{self, RulesInForce};
use crate::network::Network;
use crate::old_ids;
use crate::oracle;
use crate::plan::HistoryPlan;
use crate::timing::Timing;
use crate::trace::Trace;

/// How long a client waits for the answer to an HTTP request.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the socket of a client holds until the other side reads it.
const SOCKET_BUFFER: usize = 64 << 10;

/// A person does something each so often, on average.
const PACE: Duration = Duration::from_secs(10);

/// So many people come in a second, at first.
const RAMP: f64 = 7.5;

/// The guest that a person may be has this number more.
const GUEST: User = 1_000;

/// Signs the tokens of all. It is the presence secret, too.
pub(crate) const SECRET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/presence-secret");

/// Longer than a history.
const TOKEN_LIFE: Duration = Duration::from_secs(24 * 3_600);

/// The close code of who was removed from a live.
const REMOVED: u16 = 4003;

/// What only the engine can do to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessOrder {
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
    pub(crate) link: usize,
    pub(crate) running: Option<RunningGateway>,
    /// Where clients still reach it that is asked to stop.
    pub(crate) stopping: Option<HttpDoor>,
}

pub(crate) struct RunningGateway {
    pub(crate) gateway: Gateway,
    /// For back ends.
    pub(crate) internal: HttpDoor,
    /// For clients.
    pub(crate) public: HttpDoor,
}

/// Where a gateway takes HTTP requests.
#[derive(Clone)]
pub(crate) struct HttpDoor {
    pub(crate) handle: Handle,
    pub(crate) router: Router,
    datagrams: Arc<DatagramDoor>,
}

impl RunningGateway {
    pub(crate) fn new(handle: Handle, gateway: Gateway) -> Self {
        let datagrams = Arc::new(DatagramDoor::of(gateway.handlers()));
        let internal = HttpDoor {
            handle: handle.clone(),
            router: gateway.router(),
            datagrams: datagrams.clone(),
        };
        let public = HttpDoor {
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

impl HttpDoor {
    /// Sends a request. Returns its task, and where its answer comes.
    fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        token: Option<&str>,
    ) -> Option<(JoinHandle<()>, oneshot::Receiver<Answer>)> {
        let (answer, answered) = oneshot::channel();
        let router = self.router.clone();
        let body = if body.is_null() {
            Body::empty()
        } else {
            Body::from(body.to_string())
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(body).ok()?;
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

/// What a socket was told last of the friends in its live.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShownFriends {
    pub(crate) live: Live,
    pub(crate) users: BTreeSet<String>,
    /// Whether it was said that these are not all.
    pub(crate) partial: bool,
}

/// What else is true, and what was found.
#[derive(Default)]
pub(crate) struct Notes {
    /// Whether the media server has a publisher.
    pub(crate) is_on_air: bool,
    /// By socket.
    pub(crate) shown_friends: BTreeMap<u64, ShownFriends>,
    /// By socket, whether it was told that its user moderates in its live.
    pub(crate) shown_moderator: BTreeMap<u64, bool>,
    /// How many faults of each kind there were.
    pub(crate) faults: BTreeMap<Fault, u64>,
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
    pub(crate) plan: HistoryPlan,
    pub(crate) timing: Timing,
    pub(crate) network: Arc<Network>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) overheard: Overheard,
    pub(crate) crowd: CrowdState,
    pub(crate) rules: RulesInForce,
    signer: TokenSigner,
    /// Of users and of the back end.
    tokens: Mutex<BTreeMap<UserId, String>>,
    pub(crate) spots: Mutex<Vec<Spot>>,
    orders: Mutex<Vec<ProcessOrder>>,
    notes: Mutex<Notes>,
    changed_fans: Mutex<BTreeMap<(User, Live), FanChange>>,
}

impl World {
    pub(crate) fn new(plan: HistoryPlan, trace: Arc<Trace>) -> Self {
        let network = Arc::new(Network::new(
            derived(plan.seed, "network"),
            plan.nodes,
            trace.clone(),
        ));
        let crowd = CrowdState::new(Customs {
            timing: Timing::SIMULATED,
            seed: plan.seed,
            gateways: plan.gateways,
            lives: plan.lives,
            busy: plan.lives,
            pace: PACE,
            ramp: RAMP,
        });
        let signer = TokenSigner::of_secret_file(Path::new(SECRET));
        Self {
            timing: Timing::SIMULATED,
            network,
            trace,
            overheard: Overheard::default(),
            crowd,
            rules: RulesInForce::default(),
            signer: id(signer),
            tokens: Mutex::default(),
            spots: Mutex::new((0..plan.gateways).map(|_| Spot::default()).collect()),
            orders: Mutex::default(),
            notes: Mutex::default(),
            changed_fans: Mutex::default(),
            plan,
        }
    }

    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.crowd.truth()
    }

    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock()
    }

    pub(crate) fn order(&self, order: ProcessOrder) {
        self.trace.tell(None, &format!("{order:?}"));
        self.orders.lock().push(order);
    }

    pub(crate) fn take_orders(&self) -> Vec<ProcessOrder> {
        std::mem::take(&mut *self.orders.lock())
    }

    /// Something is not as it was promised.
    pub(crate) fn found(&self, what: String) {
        self.trace.tell(None, &what);
        self.notes().findings.push(what);
    }

    pub(crate) fn live_id(&self, live: Live) -> LiveId {
        id(LiveId::parse(&format!("l{live}")))
    }

    pub(crate) fn streamer_id(&self, live: Live) -> UserId {
        id(UserId::parse(&format!("s{live}")))
    }

    pub(crate) fn user_id(&self, user: User) -> UserId {
        match user.checked_sub(GUEST) {
            Some(number) => id(UserId::guest(&format!("g{number}"))),
            None => id(UserId::parse(&format!("u{user}"))),
        }
    }

    /// Whether a user has no account.
    pub(crate) fn is_guest(&self, user: User) -> bool {
        user >= GUEST
    }

    /// The user that a guest becomes by signing in.
    pub(crate) fn account_of(&self, guest: User) -> Option<User> {
        guest.checked_sub(GUEST)
    }

    /// A token, which is the same each time.
    fn token_of(&self, user: UserId, role: Role) -> String {
        let mut tokens = self.tokens.lock();
        if let Some(token) = tokens.get(&user) {
            return token.clone();
        }
        let grant = Grant {
            ttl: TOKEN_LIFE,
            ..Grant::new(user.clone(), role)
        };
        let token = id(self.signer.sign(&grant)).reveal().to_owned();
        tokens.insert(user, token.clone());
        token
    }

    /// Whether a user's sockets are those of a streamer. Lives have streamers of their own, who are
    /// never here.
    pub(crate) fn is_streamer(&self, user: User) -> bool {
        user % 4 == 1
    }

    pub(crate) fn user(&self, user: &UserId) -> Option<User> {
        match user.as_str().strip_prefix("~g") {
            Some(number) => Some(GUEST + number.parse::<User>().ok()?),
            None => user.as_str().strip_prefix('u')?.parse().ok(),
        }
    }

    /// Whether a user follows the streamer of a live.
    pub(crate) fn is_fan(&self, user: User, live: Live) -> bool {
        if self.is_guest(user) {
            return false;
        }
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

    /// What a gateway says of a live.
    pub(crate) fn figures(&self, gateway: usize, live: Live) -> Option<(Figures, Quality)> {
        let spots = self.spots.lock();
        let gateway = &spots[gateway].running.as_ref()?.gateway;
        let live = self.live_id(live);
        Some((gateway.figures(&live)?, gateway.quality(&live)?))
    }

    /// Whether a user has a seat on a gateway.
    pub(crate) fn has_seat(&self, gateway: usize, live: Live, user: User) -> bool {
        let spots = self.spots.lock();
        let running = spots[gateway].running.as_ref();
        running.is_some_and(|running| {
            let (live, user) = (self.live_id(live), self.user_id(user));
            running.gateway.has_seat(&live, &user)
        })
    }

    /// Asks a gateway over HTTP as the back end; the status and the body of its answer.
    pub(crate) async fn http(
        &self,
        gateway: usize,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Option<(u16, Value)> {
        let back_end = id(UserId::parse("back-end"));
        let token = self.token_of(back_end, Role::Service);
        self.http_with(gateway, method, path, body, &token).await
    }

    /// Asks a gateway over HTTP with a token; the status and the body of its answer.
    pub(crate) async fn http_with(
        &self,
        gateway: usize,
        method: Method,
        path: &str,
        body: &Value,
        token: &str,
    ) -> Option<(u16, Value)> {
        let is_put = method == Method::PUT;
        let door = self.spots.lock()[gateway]
            .running
            .as_ref()?
            .internal
            .clone();
        let (asked, answered) = door.send(method, path, body, Some(token))?;
        let answered = timeout(PATIENCE, answered).await;
        if answered.is_err() && is_put {
            // A request that a client gave up may be carried out later. One that opens a live that
            // the client has closed meanwhile is beyond what a gateway can know.
            asked.abort();
        }
        let Answer { status, body, .. } = answered.ok()?.ok()?;
        Some((status, body))
    }

    /// Sends a datagram. Returns the task that has its answer; `None` if nobody listens.
    pub(crate) fn send_datagram(
        &self,
        gateway: usize,
        datagram: Vec<u8>,
        from: SocketAddr,
    ) -> Option<JoinHandle<Option<[u8; SHORT]>>> {
        let HttpDoor {
            handle, datagrams, ..
        } = self.door(gateway)?;
        Some(handle.spawn(async move { datagrams.take(&datagram, from).await }))
    }

    /// Where clients reach a gateway that runs, or is about to stop.
    fn door(&self, gateway: usize) -> Option<HttpDoor> {
        let spots = self.spots.lock();
        let spot = &spots[gateway];
        match &spot.running {
            Some(running) => Some(running.public.clone()),
            None => spot.stopping.clone(),
        }
    }

    /// A gateway starts: its sockets from now on belong to the new process.
    pub(crate) fn starts(&self, gateway: usize, link: usize) {
        self.spots.lock()[gateway].link = link;
        self.crowd.starts(gateway);
    }

    /// A gateway serves.
    pub(crate) fn runs(&self, gateway: usize, running: RunningGateway) {
        self.spots.lock()[gateway].running = Some(running);
        self.crowd.set_up(gateway, true);
    }

    /// The process of a gateway is gone, with all that it had not told the store.
    pub(crate) fn ended(&self, gateway: usize, how: How) {
        // Of two ends the first is the one that people noticed.
        if !self.crowd.has_ended(gateway) {
            self.crowd.ended(gateway, how);
        }
    }

    /// When the gateway began that runs for the shortest time.
    pub(crate) fn youngest(&self) -> Option<Instant> {
        let truth = self.truth();
        truth.rules.runs_since.iter().flatten().max().copied()
    }

    /// The open lives in which somebody is.
    pub(crate) fn lives_with_viewers(&self) -> Vec<Live> {
        let truth = self.truth();
        let entered = truth
            .open_lives()
            .filter(|(_, live)| live.held().next().is_some());
        entered.map(|(live, _)| live).collect()
    }

    /// By then a gateway that is well again knows everything.
    fn known_within(&self) -> Duration {
        self.timing.healed() + self.timing.told()
    }

    /// Whom a user follows among the users.
    pub(crate) fn friends_of(&self, user: User) -> impl Iterator<Item = User> {
        let people = self.plan.people as u32;
        (1..6)
            .map(move |step| (user + step * 7) % people)
            .filter(move |friend| *friend != user)
    }

    /// A socket is shown who of the friends is in its live; the first `friends` comes after it has
    /// joined.
    fn is_shown_friends(&self, user: User, place: SocketAt, live: Live, message: &Value) {
        let mut notes = self.notes();
        let shown = &mut notes.shown_friends;
        let is_known = shown
            .get(&place.socket)
            .is_some_and(|shown| shown.live == live);
        let mut now = ShownFriends {
            live,
            users: BTreeSet::new(),
            partial: false,
        };
        if message["type"] == "friends" && message["live_id"] == self.live_id(live).as_str() {
            let ids = message["user_ids"].as_array().into_iter().flatten();
            now.users = ids.filter_map(Value::as_str).map(str::to_owned).collect();
            now.partial = message["partial"] == true;
        } else if is_known || !self.asks_for_friends(user) {
            return;
        }
        let is_counted = message["type"] != "friends" || message["count"] == now.users.len();
        shown.insert(place.socket, now);
        drop(notes);
        if !is_counted {
            self.found(format!("other friends are named than counted: {message}"));
        }
    }

    /// Whether every gateway has run, and has been well, since shortly before that.
    pub(crate) fn was_told_since(&self, at: Instant) -> bool {
        let truth = self.truth();
        let rules = &truth.rules;
        (0..self.plan.gateways).all(|gateway| {
            let has_run = rules.runs_since[gateway].is_some_and(|since| since < at);
            let known = self.known_within();
            let is_well = rules.troubles[gateway]
                .is_none_or(|trouble| trouble.until.is_some_and(|until| until + known < at));
            has_run && is_well
        })
    }

    /// Notes what a socket is told of whether its user moderates in its live.
    fn is_told_to_moderate(&self, place: SocketAt, live: Option<Live>, message: &Value) {
        let mut notes = self.notes();
        let moderator = match message["type"].as_str() {
            _ if live.is_none() => None,
            Some("joined") => Some(message["you"]["moderator"] == true),
            Some("you") => Some(message["moderator"] == true),
            _ => return,
        };
        match moderator {
            Some(moderator) => drop(notes.shown_moderator.insert(place.socket, moderator)),
            None => drop(notes.shown_moderator.remove(&place.socket)),
        }
    }

    /// Checks that nobody is let in in spite of a ban.
    fn is_not_banned(&self, user: User, live: Live, gateway: usize) {
        let settled = self.timing.told() + self.timing.settled();
        let now = Instant::now();
        let banned = self.truth().lives[live].banned.get(&user).copied();
        // A ban ends by the clock of the store.
        let is_banned = !self.plan.steps_clock()
            && banned.is_some_and(|(from, until)| from + settled < now && now < until);
        if is_banned && self.is_sound(gateway) {
            self.found(format!(
                "gateway {gateway} let u{user} into l{live} in spite of a ban"
            ));
        }
        moderation::is_let_in(self, user, Some(live), gateway);
    }
}

/// Messages are small, and each socket would clear a large buffer at first.
fn small() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(1 << 10)
        .write_buffer_size(0)
}

impl Surroundings for World {
    type Stream = DuplexStream;

    fn crowd(&self) -> &CrowdState {
        &self.crowd
    }

    fn name_of_live(&self, live: Live) -> String {
        self.live_id(live).to_string()
    }

    fn name_of_user(&self, user: User) -> String {
        self.user_id(user).to_string()
    }

    fn habits(&self, user: User, device: usize) -> Habits {
        let of = |what: &str| derived(self.plan.seed, &format!("{what} {user} {device}"));
        Habits {
            has_socket: self.plan.has_socket(user, device),
            ignores_reconnects: of("listens").is_multiple_of(6),
            sends_datagrams: of("datagrams").is_multiple_of(2),
            keeps_connection: of("keeps").is_multiple_of(2),
            moves_at_once: false,
            falls_silent: true,
        }
    }

    fn devices(&self, user: User) -> usize {
        1 + (derived(self.plan.seed, &format!("devices {user}")) % 3) as usize
    }

    fn guest_of(&self, user: User) -> Option<User> {
        (user % 4 == 2).then_some(user + GUEST)
    }

    fn token(&self, user: User) -> String {
        let role = if self.is_streamer(user) {
            Role::Streamer
        } else {
            Role::Viewer
        };
        self.token_of(self.user_id(user), role)
    }

    fn credentials(&self, user: User) -> String {
        format!("token={}", self.token(user))
    }

    async fn connect(
        &self,
        gateway: usize,
        user: User,
        join: Option<Live>,
    ) -> Result<WebSocketStream<DuplexStream>, CrowdRefusal> {
        let role = if self.is_streamer(user) {
            Role::Streamer
        } else {
            Role::Viewer
        };
        let handshake = Handshake {
            identity: Identity {
                user: self.user_id(user),
                role,
                counted: true,
                network: AddressPrefix::default(),
            },
            claims: None,
            join: join.map(|live| self.name_of_live(live)),
            watch: None,
            permit: None,
        };
        let (client, server) = tokio::io::duplex(SOCKET_BUFFER);
        {
            let spots = self.spots.lock();
            let running = spots[gateway]
                .running
                .as_ref()
                .ok_or(CrowdRefusal::Nobody)?;
            let served = running.gateway.serve(server, handshake);
            running.public.handle.spawn(served);
        }
        Ok(WebSocketStream::from_raw_socket(client, Side::Client, Some(small())).await)
    }

    async fn ask(&self, gateway: usize, method: Method, path: &str, body: &Value) -> Outcome {
        let Some(door) = self.door(gateway) else {
            return Outcome::Nobody;
        };
        let Some((_, answered)) = door.send(method, path, body, None) else {
            return Outcome::Nobody;
        };
        match timeout(PATIENCE, answered).await {
            Ok(Ok(answer)) => Outcome::Answered(answer),
            _ => Outcome::Unanswered,
        }
    }

    async fn datagram(
        &self,
        gateway: usize,
        datagram: Vec<u8>,
        from: SocketAddr,
    ) -> Option<Vec<u8>> {
        self.overheard.note(&datagram, from);
        let task = self.send_datagram(gateway, datagram, from)?;
        // The gateway may end meanwhile.
        let answer = timeout(PATIENCE, task).await.ok()?.ok()??;
        Some(answer.to_vec())
    }

    fn listens(&self, gateway: usize) -> bool {
        self.door(gateway).is_some()
    }

    fn is_sound(&self, gateway: usize) -> bool {
        self.crowd.is_up(gateway) && self.crowd.is_well_for(gateway, self.known_within())
    }

    fn may_forget(&self, user: User, place: SocketAt) -> bool {
        self.plan.loses_data() || self.crowd.was_removed(user) || !self.is_sound(place.gateway)
    }

    fn role(&self, user: User) -> &'static str {
        if self.is_streamer(user) {
            "streamer"
        } else {
            "viewer"
        }
    }

    fn asks_for_friends(&self, user: User) -> bool {
        user.is_multiple_of(3) && self.guest_of(user).is_none() && !self.is_guest(user)
    }

    fn note(&self, gateway: usize, what: &str) {
        self.trace.tell(Some(gateway), what);
    }

    fn hears(&self, user: User, place: SocketAt, live: Option<Live>, text: &str, said: &Value) {
        self.trace.hear(place, user, text);
        if said.is_null() {
            self.found(format!("a message that is no JSON: {text}"));
        }
        self.is_told_to_moderate(place, live, said);
        match live {
            Some(live) => self.is_shown_friends(user, place, live, said),
            None => drop(self.notes().shown_friends.remove(&place.socket)),
        }
    }

    fn let_in(&self, user: User, live: Live, place: SocketAt, epoch: Option<u64>, answer: &Value) {
        if answer["live_id"] != self.live_id(live).as_str() {
            self.found(format!(
                "u{user} asked to join l{live}, and was told {answer}"
            ));
        }
        if epoch.is_some() && self.crowd.epoch(live) == epoch {
            oracle::joined(self, user, live, place.gateway, answer);
            self.is_not_banned(user, live, place.gateway);
            self.truth().lives[live].was_entered = true;
        }
    }

    fn signed_in(&self, user: User, live: Option<Live>, place: SocketAt) {
        moderation::is_let_in(self, user, live, place.gateway);
    }

    fn socket_ended(&self, user: User, place: SocketAt, code: Option<u16>, why: &str) {
        let was_removed = code == Some(REMOVED) && self.crowd.was_removed(user);
        let may_end = self.crowd.may_lose(place) || was_removed;
        if !may_end && self.is_sound(place.gateway) {
            let gateway = place.gateway;
            self.found(format!(
                "gateway {gateway} ended a socket of u{user} with code {code:?}: {why}"
            ));
        }
    }

    fn session_is_wrong(&self, user: User, live: Live, gateway: usize, why: &str) {
        self.found(format!(
            "a session of u{user} in l{live} is wrong on gateway {gateway}: {why}"
        ));
    }

    fn id_is_over(self: &Arc<Self>, old: OldId) {
        old_ids::are_tried(self, &old);
    }
}

/// Ids here are right.
fn id<T, E: std::fmt::Debug>(parsed: Result<T, E>) -> T {
    parsed.unwrap_or_else(|why| unreachable!("{why:?}"))
}
