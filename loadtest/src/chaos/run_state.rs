//! What all tasks of a run share: the gateways' endpoints, the crowd and what it knows to be true,
//! and what was found.

use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use reqwest::{Client, Method, header};
use serde_json::Value;
use simulation::crowd::truth::{CrowdState, Customs, Truth};
use simulation::crowd::{Answer, CrowdRefusal, Habits, Outcome, Surroundings};
use simulation::expectation::{Live, SocketAt, User};
use simulation::timing::Timing;
use tokio_tungstenite::WebSocketStream;

use super::findings::{Broken, Findings, Promise};
use crate::client;
use crate::entry::ClientStream;
use crate::target::Target;

/// How long connect and upgrade may take before a device tries elsewhere.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Viewers of a quiet live.
const IDLE_VIEWERS_PER_LIVE: u32 = 3;

/// New sockets per second while the crowd comes in.
const RAMP: f64 = 400.0;

pub(crate) struct RunState {
    pub(crate) crowd: CrowdState,
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
    follows: f64,
    crowded: Crowding,
    /// A member may be wrong for so long beyond what is promised.
    pub(crate) grace: Duration,
    /// The first so many lives are opened with attendance.
    pub(crate) attended: usize,
    /// Where users find each gateway.
    pub(crate) targets: Vec<Target>,
    /// For the requests of devices without a socket.
    http: Client,
    findings: Mutex<Findings>,
}

/// Which gateways people go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Crowding {
    /// Any
    Even,
    /// The first, if it lets them in
    One,
}

pub(crate) struct ChaosPlan {
    pub(crate) timing: Timing,
    pub(crate) seed: u64,
    pub(crate) viewers: u32,
    /// The share of devices of wandering people that open no socket.
    pub(crate) socketless: f64,
    pub(crate) lives: usize,
    /// More lives, in which all viewers are idle.
    pub(crate) quiet: usize,
    pub(crate) follows: f64,
    /// A person does something every so often, on average.
    pub(crate) pace: Duration,
    pub(crate) crowded: Crowding,
    /// A member may be wrong for so long beyond what is promised.
    pub(crate) grace: Duration,
    pub(crate) gateways: usize,
    /// The first so many lives are opened with attendance.
    pub(crate) attended: usize,
    /// More settings of the gateways.
    pub(crate) flags: Vec<String>,
}

impl RunState {
    pub(crate) fn new(plan: &ChaosPlan, addresses: &[SocketAddr], http: Client) -> Self {
        let crowd = CrowdState::new(Customs {
            timing: plan.timing,
            seed: plan.seed,
            gateways: addresses.len(),
            lives: plan.lives + plan.quiet,
            busy: plan.lives,
            pace: plan.pace,
            ramp: RAMP,
        });
        Self {
            crowd,
            timing: plan.timing,
            seed: plan.seed,
            people: plan.viewers + IDLE_VIEWERS_PER_LIVE * plan.quiet as u32,
            wanderers: plan.viewers,
            socketless: plan.socketless,
            busy: plan.lives,
            follows: plan.follows,
            crowded: plan.crowded,
            grace: plan.grace,
            attended: plan.attended,
            targets: addresses.iter().copied().map(Target::gateway).collect(),
            http,
            findings: Mutex::default(),
        }
    }

    pub(crate) fn truth(&self) -> impl std::ops::DerefMut<Target = Truth> + '_ {
        self.crowd.truth()
    }

    pub(crate) fn findings(&self) -> MutexGuard<'_, Findings> {
        self.findings.lock()
    }

    /// How many lives there are, quiet ones among them.
    pub(crate) fn lives(&self) -> usize {
        self.crowd.customs.lives
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

    /// Over how many slices a live is spread at first. Quiet lives are small.
    pub(crate) fn slices(&self, live: Live) -> u32 {
        if live < self.busy { 1 << (live % 4) } else { 1 }
    }

    /// Whether a user follows a live's streamer: fixed by the seed.
    pub(crate) fn is_fan(&self, user: User, live: Live) -> bool {
        let mixed = mix(self.seed ^ (u64::from(user) << 20) ^ live as u64);
        share(mixed) < self.follows
    }

    /// The gateway is about to start: sockets from now on belong to the new process.
    pub(crate) fn gateway_starts(&self, gateway: usize) {
        self.crowd.starts(gateway);
        self.truth().rules.troubles[gateway] = None;
    }

    /// The backend asks to close the live: until the answer no user of it is judged.
    pub(crate) fn closing(&self, live: Live) {
        let mut truth = self.truth();
        let live_truth = &mut truth.lives[live];
        live_truth.epoch = None;
        live_truth.version += 1;
    }

    pub(crate) fn closed(&self, live: Live) {
        self.changed(live, None);
    }

    pub(crate) fn opened(&self, live: Live, epoch: u64, slices: u32) {
        self.changed(live, Some((epoch, slices)));
    }

    /// A live has closed, or opened with this epoch and this many slices. Everybody is out.
    fn changed(&self, live: Live, opened: Option<(u64, u32)>) {
        let at = tokio::time::Instant::now();
        let mut truth = self.truth();
        let live_truth = &mut truth.lives[live];
        live_truth.version += 1;
        if let Some((epoch, slices)) = opened {
            (live_truth.epoch, live_truth.slices) = (Some(epoch), slices);
        }
        for expectation in live_truth.expectations.values_mut() {
            expectation.closed(at);
        }
    }

    pub(crate) fn broke(&self, broken: Broken) {
        self.findings().broke(broken);
    }
}

impl Surroundings for RunState {
    type Stream = ClientStream;

    fn crowd(&self) -> &CrowdState {
        &self.crowd
    }

    fn name_of_live(&self, live: Live) -> String {
        self.live_id(live)
    }

    fn name_of_user(&self, user: User) -> String {
        self.user_id(user)
    }

    /// Fixed by the seed. Idle viewers stay on their gateway, so they need a socket.
    fn habits(&self, user: User, device: usize) -> Habits {
        let mixed = mix(mix(self.seed ^ (u64::from(user) << 20)) ^ device as u64);
        Habits {
            has_socket: self.home(user).is_some() || share(mixed) >= self.socketless,
            moves_at_once: true,
            ..Habits::default()
        }
    }

    /// The home gateway of a live's idle viewers is the same for all of them.
    fn home(&self, user: User) -> Option<(Live, usize)> {
        let live = self.busy + (user.checked_sub(self.wanderers)? / IDLE_VIEWERS_PER_LIVE) as usize;
        Some((live, live % self.targets.len()))
    }

    /// One idle viewer of each live must, because a live that no gateway holds keeps the counts of
    /// a dead one.
    fn must_return(&self, user: User) -> bool {
        user.checked_sub(self.wanderers)
            .is_some_and(|idle| idle % IDLE_VIEWERS_PER_LIVE == 0)
    }

    fn is_first_crowded(&self) -> bool {
        self.crowded == Crowding::One
    }

    async fn connect(
        &self,
        gateway: usize,
        user: User,
        join: Option<Live>,
    ) -> Result<WebSocketStream<ClientStream>, CrowdRefusal> {
        let mut query = format!("user_id={}&role=viewer", self.user_id(user));
        if let Some(live) = join {
            query.push_str(&format!("&live_id={}", self.live_id(live)));
        }
        client::connect(&self.targets[gateway], None, &query, CONNECT_WITHIN)
            .await
            .map_err(|failure| CrowdRefusal::Perhaps(failure.retry_after))
    }

    async fn ask(&self, gateway: usize, method: Method, path: &str, body: &Value) -> Outcome {
        let url = format!("http://{}{path}", self.targets[gateway].address);
        let mut request = self.http.request(method, url);
        if !body.is_null() {
            request = request.json(body);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(why) if why.is_connect() => return Outcome::Nobody,
            Err(_) => return Outcome::Unanswered,
        };
        let status = response.status().as_u16();
        let connection = response.headers().get(header::CONNECTION);
        let closes = connection.is_some_and(|value| value == "close");
        match response.text().await {
            Ok(text) => Outcome::Answered(Answer {
                status,
                body: serde_json::from_str(&text).unwrap_or_default(),
                closes,
            }),
            Err(_) => Outcome::Unanswered,
        }
    }

    fn is_sound(&self, gateway: usize) -> bool {
        self.crowd.is_well_for(gateway, self.timing.healed())
    }

    fn may_forget(&self, _user: User, place: SocketAt) -> bool {
        self.crowd.may_lose(place) || !self.is_sound(place.gateway)
    }

    fn told_of_close(&self, user: User, live: Live, place: SocketAt) {
        let epoch = self.crowd.epoch(live);
        let belief = self.truth().beliefs.get(&place.socket).copied();
        let believed = belief.map(|belief| belief.epoch);
        if believed.is_some() && believed == epoch && self.is_sound(place.gateway) {
            let broken = Broken::new(Promise::CloseUntold, "told that an open live closed")
                .user(self.user_id(user))
                .live(self.live_id(live));
            self.broke(broken.gateway(place.gateway));
        }
    }

    fn socket_ended(&self, user: User, place: SocketAt, code: Option<u16>, why: &str) {
        if self.crowd.may_lose(place) {
            self.findings().sockets_cut += 1;
            return;
        }
        let broken = Broken::new(Promise::SocketLost, format!("code {code:?}: {why}"));
        self.broke(broken.user(self.user_id(user)).gateway(place.gateway));
    }

    fn session_is_wrong(&self, user: User, live: Live, gateway: usize, why: &str) {
        let broken = Broken::new(Promise::SessionLost, why)
            .user(self.user_id(user))
            .live(self.live_id(live));
        self.broke(broken.gateway(gateway));
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
