//! The sessions without a socket of this gateway: how they begin, are found, go on elsewhere, and
//! end.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{SessionEnd, SocketlessSession, Way};
use crate::auth::claims::TokenClaims;
use crate::auth::presence_secret::PresenceSecret;
use crate::auth::session_claims::SessionClaims;
use crate::base::address_prefix::AddressPrefix;
use crate::base::clock::{Moment, UnixMillis, millis};
use crate::base::identity::{Identity, Role};
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::base::keyed_permits::KeyedPermit;
use crate::base::metrics::Metrics;
use crate::base::session_key::{ID_LIFE, SessionKey};
use crate::presence::Room;
use crate::presence::conn::{Conn, Gaze, Signals};
use crate::presence::ended_sessions::EndedSessions;
use crate::presence::queue::Queue;
use crate::presence::room::Interest;
use crate::presence::user_budgets::Cost;
use crate::session::context::SessionContext;
use crate::session::drain::HOLD;
use crate::session::joining::{self, Seating};
use crate::session::memberships::Memberships;
use crate::session::messages::{ErrorCode, JoinRequest, Refusal, UserRights};
use crate::store::{
    ChangeKind, EndedSession, Figures, Info, LiveState, MAX_BATCH, MAX_CHANGES, Over, Store,
    StoreError,
};
use crate::sync::lives::LiveError;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::Mutex;

/// How long the id of a session is good that began without a token, in ms: a day.
const WITHOUT_TOKEN: UnixMillis = 24 * 3_600 * 1_000;

/// The most by which a switch to another live raises the number of a session's ids.
const SWITCH_STEP: u32 = 1 << 10;

/// The longest id of a session, in bytes: it stands in a path, and a request's head has 8 KiB.
const LONGEST_ID: usize = 6 << 10;

/// A client that wants to begin a session.
pub(crate) struct Newcomer {
    pub(crate) identity: Identity,
    /// `None` with `--auth off`.
    pub(crate) claims: Option<Arc<TokenClaims>>,
    /// The permit of its address; `None` for an address that may have any number of sessions.
    pub(crate) permit: Option<KeyedPermit>,
}

/// Why a session did not begin, or does not go on.
#[derive(Debug)]
pub(crate) enum Denied {
    /// As a socket's join would have been refused.
    Refused(Refusal),
    /// The gateway has as many sessions without a socket as it may have.
    Full,
    /// The gateway is about to stop.
    Draining,
    /// The id of the session is over.
    Over(Over),
    /// The live of the session is over, or the session never was one: join again.
    Unknown,
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Denied {
    fn from(why: StoreError) -> Self {
        LiveError::from(why).into()
    }
}

impl From<LiveError> for Denied {
    fn from(why: LiveError) -> Self {
        Self::Refused(why.into())
    }
}

/// What the id of a session says of the live that it goes on in.
#[derive(Clone, Copy)]
struct AsOf {
    epoch: Epoch,
    removals: u64,
}

/// The ids that [`SocketlessSessions::leave`] ends for a client that does not know which one it has.
pub(crate) const EVERY_ID: u32 = u32::MAX;

/// An id of a session, and what it says.
pub(crate) struct SignedId {
    pub(crate) id: String,
    pub(crate) claims: SessionClaims,
}

/// A session that has joined a live.
pub(crate) struct Joined {
    /// The id by which the client goes on, here or on another gateway.
    pub(crate) id: String,
    /// What the id says.
    pub(crate) claims: SessionClaims,
    pub(crate) room: Arc<Room>,
    pub(crate) figures: Figures,
    /// What a back end wrote about the live, if anything.
    pub(crate) info: Option<Info>,
    pub(crate) you: Option<UserRights>,
}

pub(crate) struct SocketlessSessions {
    pub(super) context: Arc<SessionContext>,
    secret: Arc<PresenceSecret>,
    pub(super) ended: Arc<EndedSessions>,
    pub(super) store: Arc<dyn Store>,
    pub(super) open: DashMap<SessionKey, Arc<SocketlessSession>>,
    /// How many there may be.
    most: usize,
    pub(super) signalled: Arc<Queue<Arc<SocketlessSession>>>,
    /// Sessions that were told to go on elsewhere, and until when they keep their seat here. The
    /// time is the same for all, so the first one is due first.
    pub(super) moving: Mutex<VecDeque<(Moment, Arc<SocketlessSession>)>>,
}

impl SocketlessSessions {
    pub(crate) fn new(
        context: Arc<SessionContext>,
        secret: Arc<PresenceSecret>,
        ended: Arc<EndedSessions>,
        store: Arc<dyn Store>,
        most: usize,
    ) -> Self {
        Self {
            context,
            secret,
            ended,
            store,
            open: DashMap::new(),
            most,
            signalled: Arc::default(),
            moving: Mutex::default(),
        }
    }

    /// How often clients should send a beat, in ms.
    pub(crate) fn beat_ms(&self) -> u64 {
        millis(self.context.core.config.heartbeat)
    }

    /// How long a client may be silent, in ms.
    pub(crate) fn timeout_ms(&self) -> u64 {
        millis(self.context.core.config.timeout)
    }

    pub(crate) fn secret(&self) -> &PresenceSecret {
        &self.secret
    }

    /// The same secret, for a task.
    pub(crate) fn shared_secret(&self) -> Arc<PresenceSecret> {
        self.secret.clone()
    }

    // ------------------------------------------------------------------------------ the beginning

    /// Begins a session: its user joins a live.
    pub(crate) async fn begin(
        &self,
        newcomer: Newcomer,
        wish: &JoinRequest,
    ) -> Result<Joined, Denied> {
        self.check_room()?;
        let session = self.fresh_session(newcomer);
        let begun = match self.join(&session, wish, None).await {
            Ok(room) => self.joined(&session, room),
            Err(why) => Err(why),
        };
        match begun {
            Ok(_) => {
                self.keep(&session);
            }
            Err(_) => {
                session.end(SessionEnd::Left);
            }
        }
        begun
    }

    /// Refuses a session for which there is no room. Those that are just beginning do not count yet.
    fn check_room(&self) -> Result<(), Denied> {
        if self.context.is_draining() {
            return Err(Denied::Draining);
        }
        if self.open.len() >= self.most {
            return Err(Denied::Full);
        }
        Ok(())
    }

    /// A new session with no seat yet, which nobody finds yet.
    fn fresh_session(&self, newcomer: Newcomer) -> Arc<SocketlessSession> {
        let key = self.secret.new_key();
        self.new_session(key, 0, self.context.core.clock.unix(), newcomer)
    }

    /// A session that may have begun elsewhere, with no seat yet, which nobody finds yet.
    fn new_session(
        &self,
        key: SessionKey,
        number: u32,
        began: UnixMillis,
        newcomer: Newcomer,
    ) -> Arc<SocketlessSession> {
        let Newcomer {
            identity,
            claims,
            permit,
        } = newcomer;
        let conn = Arc::new(Conn::new(identity, self.context.core.clock.now()));
        conn.note_way(Way::Http.seat_way());
        if let Some(claims) = claims {
            let end = self.context.end_of(&claims);
            conn.hold_token(claims, end);
        }
        let memberships = Memberships::new(self.context.clone(), conn);
        let signalled = self.signalled.clone();
        SocketlessSession::new(key, number, began, memberships, signalled, permit)
    }

    /// Takes a seat in the live; or goes on in it, if this is the same opening and the user was not
    /// removed meanwhile.
    async fn join(
        &self,
        session: &Arc<SocketlessSession>,
        wish: &JoinRequest,
        as_of: Option<AsOf>,
    ) -> Result<Arc<Room>, Denied> {
        let context = &self.context;
        joining::know_rules(context).await?;
        match session.memberships.lock().as_ref() {
            Some(memberships) => joining::check(context, memberships, wish)?,
            None => return Err(Denied::Unknown),
        }
        // Friends are pushed to streams only, which ask for them when they open.
        let seat = JoinRequest::plain(wish.live.clone());
        for _ in 0..joining::TRIES {
            let room = context.lives.find(&wish.live).await?;
            if let Some(AsOf { epoch, removals }) = as_of {
                check_epoch(room.record.epoch, epoch)?;
                let user = &session.conn.identity.user;
                self.check_removed(&room, user, removals).await?;
            }
            let mut memberships = session.memberships.lock();
            let Some(memberships) = memberships.as_mut() else {
                return Err(Denied::Unknown);
            };
            if joining::take_seat(context, memberships, &room, &seat)? == Seating::Seated {
                session.friends.store(wish.friends, Ordering::Relaxed);
                return Ok(room);
            }
        }
        Err(LiveError::NotOpen(wish.live.clone()).into())
    }

    /// Makes a session that has its seat known, and has the reaper watch it. Returns the session
    /// that goes on: another request may have resumed the same one meanwhile.
    fn keep(&self, session: &Arc<SocketlessSession>) -> Arc<SocketlessSession> {
        match self.open.entry(session.key) {
            Entry::Occupied(there) if there.get().is_open() => {
                let there = there.get().clone();
                session.end(SessionEnd::Left);
                return there;
            }
            Entry::Occupied(mut there) => {
                there.insert(session.clone());
            }
            Entry::Vacant(place) => {
                place.insert(session.clone());
                self.context.core.metrics.presences.inc();
            }
        }
        if let Some(memberships) = session.memberships.lock().as_ref() {
            memberships.count_for_user();
        }
        session.listen();
        self.context.reaper.admit(&session.conn);
        self.context.refuse_unwelcome(&session.conn);
        if self.context.is_draining() {
            // The drain may have signalled all sessions just before this one was watched.
            session.conn.signal(Signals::STOP);
        }
        // A signal may have been set before there was a waker.
        self.signalled.push(session.clone());
        if self.ended.over(&session.key, session.number()).is_some() {
            self.finish_here(session, SessionEnd::Left);
        }
        session.clone()
    }

    /// What the client of a session is told that has joined a live.
    fn joined(&self, session: &SocketlessSession, room: Arc<Room>) -> Result<Joined, Denied> {
        let SignedId { id, claims } = self.sign(session, &room);
        if id.len() > LONGEST_ID {
            let message = "the lists of the token are too long for a session without a socket";
            return Err(Refusal::new(ErrorCode::Forbidden, message).into());
        }
        let (figures, info, you) = match session.memberships.lock().as_mut() {
            Some(memberships) => (
                memberships.figures().unwrap_or_default(),
                memberships.info_to_tell(&room),
                memberships.you_now(),
            ),
            None if self.context.is_draining() => return Err(Denied::Draining),
            None => return Err(Denied::Unknown),
        };
        Ok(Joined {
            id,
            claims,
            room,
            figures,
            info,
            you,
        })
    }

    /// An id for a session in the live that it is in.
    fn sign(&self, session: &SocketlessSession, room: &Room) -> SignedId {
        let claims = SessionClaims {
            key: session.key,
            live: room.record.live.clone(),
            epoch: room.record.epoch,
            number: session.number(),
            friends: session.asks_friends(),
            removals: room.seats.bans.last(),
            good_until: self.context.core.clock.unix() + millis(ID_LIFE),
            began: session.began,
            bearer: self.bearer(&session.conn),
        };
        SignedId {
            id: claims.sign(&self.secret),
            claims,
        }
    }

    /// What the id of a session says of its user.
    fn bearer(&self, conn: &Conn) -> TokenClaims {
        let counted = conn.identity.counted;
        match conn.claims() {
            Some(claims) => TokenClaims {
                counted,
                ..TokenClaims::clone(&claims)
            },
            None => TokenClaims {
                user: conn.identity.user.clone(),
                role: conn.identity.role,
                counted,
                expires_at: self.context.core.clock.unix() + WITHOUT_TOKEN,
                issued_at: None,
                user_since: None,
                lives: None,
                fan_of: None,
            },
        }
    }

    // ---------------------------------------------------------------------------------- going on

    /// Reads the id of a session. `None` if no gateway made it, or it has expired.
    pub(crate) fn read(&self, id: &str) -> Option<SessionClaims> {
        SessionClaims::read(id, &self.secret, self.context.core.clock.unix())
    }

    /// As [`Self::read`], of the ticket of this session.
    pub(crate) fn read_ticket(&self, ticket: &str, key: &SessionKey) -> Option<SessionClaims> {
        SessionClaims::open(ticket, key, &self.secret, self.context.core.clock.unix())
    }

    /// A session that is here and goes on.
    pub(crate) fn find(&self, key: &SessionKey) -> Option<Arc<SocketlessSession>> {
        let session = self.open.get(key)?.clone();
        if session.is_open() {
            Some(session)
        } else {
            None
        }
    }

    /// The session of an id, if it is here and the id is its present one.
    pub(crate) fn find_as_of(&self, claims: &SessionClaims) -> Option<Arc<SocketlessSession>> {
        let session = self.find(&claims.key)?;
        if session.number() == claims.number {
            Some(session)
        } else {
            None
        }
    }

    /// Refuses the id of a session that is over, as far as this gateway or the store remembers.
    async fn check_ends(&self, key: &SessionKey, number: u32) -> Result<(), Denied> {
        if let Some(why) = self.ended.over(key, number) {
            return Err(Denied::Over(why));
        }
        for ended in self.store.ended_sessions(&[*key]).await? {
            self.ended.hear(ended);
            if let Some(why) = ended.over(number) {
                return Err(Denied::Over(why));
            }
        }
        Ok(())
    }

    /// Refuses a user who was removed from the live after this removal.
    async fn check_removed(
        &self,
        room: &Room,
        user: &UserId,
        mut known: u64,
    ) -> Result<(), Denied> {
        let (live, epoch) = (&room.record.live, room.record.epoch);
        while known < room.seats.bans.last() {
            let later = self.store.removals_since(live, epoch, known).await?;
            let Some(later) = later else {
                return Err(Denied::Unknown);
            };
            if later.last.saturating_sub(known) > MAX_CHANGES as u64 {
                // The store does not have all of them any more.
                return Err(Denied::Unknown);
            }
            if let Some(change) = later.changes.iter().find(|change| change.user == *user) {
                return Err(match change.kind {
                    ChangeKind::Removed(_) => Denied::Over(Over::Removed),
                    // The user may come back, but the session is over.
                    ChangeKind::Lifted => Denied::Unknown,
                });
            }
            match later.changes.last() {
                Some(change) if later.changes.len() >= MAX_BATCH => known = change.number,
                _ => break,
            }
        }
        Ok(())
    }

    /// The session of an id: the one that is here, or one that another gateway began, which goes on
    /// here from now on.
    pub(crate) async fn find_or_resume(
        &self,
        claims: SessionClaims,
        permit: Option<KeyedPermit>,
        network: AddressPrefix,
    ) -> Result<Arc<SocketlessSession>, Denied> {
        let SessionClaims {
            key,
            live,
            epoch,
            number,
            friends,
            removals,
            good_until: _,
            began,
            bearer,
        } = claims;
        let as_of = AsOf { epoch, removals };
        let wish = JoinRequest {
            live,
            counts: false,
            friends,
        };
        let here = self.find(&key);
        if let Some(session) = &here {
            match session.number().cmp(&number) {
                Less => {}
                Equal => return Ok(session.clone()),
                Greater => return Err(Denied::Over(Over::Switched)),
            }
        }
        self.check_ends(&key, number).await?;
        let erasing = &self.context.core.erasing;
        if erasing.contains(&bearer.user) || erasing.has_erased_since(&bearer.user, began) {
            return Err(Denied::Over(Over::Removed));
        }
        if !erasing.has_heard() {
            return Err(unheard());
        }
        if self.context.is_revoked(&bearer) {
            // A new session needs a token, which is refused if it is the old one.
            return Err(Denied::Unknown);
        }
        if let Some(session) = here {
            // It switched to another live on another gateway, and goes on here as one from there.
            self.finish_here(&session, SessionEnd::Moved);
        }
        self.check_room()?;
        let newcomer = Newcomer {
            identity: Identity {
                user: bearer.user.clone(),
                role: bearer.role,
                counted: bearer.counted,
                network,
            },
            claims: Some(Arc::new(bearer)),
            permit,
        };
        let session = self.new_session(key, number, began, newcomer);
        match self.join(&session, &wish, Some(as_of)).await {
            Ok(_) => {
                if let Some(memberships) = session.memberships.lock().as_mut() {
                    memberships.goes_on();
                }
                let kept = self.keep(&session);
                if Arc::ptr_eq(&kept, &session) {
                    self.context.core.metrics.presences_resumed.inc();
                }
                Ok(kept)
            }
            Err(why) => {
                session.end(SessionEnd::Left);
                Err(match why {
                    Denied::Refused(refusal) if refusal.code == ErrorCode::LiveNotOpen => {
                        self.look_again(&wish.live, epoch).await
                    }
                    Denied::Refused(refusal) if !may_pass(refusal.code) => Denied::Unknown,
                    why => why,
                })
            }
        }
    }

    /// Why a session does not go on in a live that seems not to be open. A gateway remembers for a
    /// moment that a live is not open; but the session has been in it, so the store is asked.
    async fn look_again(&self, live: &LiveId, epoch: Epoch) -> Denied {
        match self.context.lives.record(live).await {
            Ok(record) if record.state == LiveState::Open && record.epoch == epoch => behind(),
            Ok(_) | Err(LiveError::NeverOpened(_) | LiveError::NotOpen(_)) => Denied::Unknown,
            Err(why) => why.into(),
        }
    }

    /// Another id for a session, once the one that its client has is past half of its life. The
    /// store must say that the session is not over: `None` while it cannot.
    pub(crate) async fn renew(
        &self,
        session: &Arc<SocketlessSession>,
        claims: &SessionClaims,
    ) -> Result<Option<SignedId>, Denied> {
        let left = claims
            .good_until
            .saturating_sub(self.context.core.clock.unix());
        if left > millis(ID_LIFE) / 2 {
            return Ok(None);
        }
        match self.check_ends(&claims.key, claims.number).await {
            Ok(()) => {}
            Err(Denied::Refused(_)) => return Ok(None),
            Err(over) => {
                self.finish_here(session, SessionEnd::Moved);
                return Err(over);
            }
        }
        let memberships = session.memberships.lock();
        match memberships.as_ref().and_then(Memberships::seat) {
            Some(seat) if session.number() == claims.number => {
                Ok(Some(self.sign(session, &seat.room)))
            }
            _ => Ok(None),
        }
    }

    /// Notes a beat.
    pub(crate) fn beat(&self, session: &SocketlessSession, way: Way) {
        let now = self.context.core.clock.now();
        session.conn.heard(now);
        session.conn.note_way(way.seat_way());
        if session.conn.gaze() == Gaze::Watching
            && let Some(memberships) = session.memberships.lock().as_ref()
        {
            memberships.check_watching(now);
        }
        self.context.core.metrics.heartbeats.inc();
        let beats = &self.context.core.metrics.presence_beats;
        Metrics::count_way(beats, way.label());
    }

    /// Notes what a beat says of watching.
    pub(crate) fn note_watching(&self, session: &SocketlessSession, said: Option<bool>) {
        if said.is_some()
            && let Some(memberships) = session.memberships.lock().as_ref()
        {
            memberships.note_watching(said);
        }
    }

    /// Joins another live, and leaves the former one, on all gateways. The session has another id
    /// from then on.
    pub(crate) async fn switch(
        &self,
        session: &Arc<SocketlessSession>,
        wish: &JoinRequest,
    ) -> Result<Joined, Denied> {
        let room = self.join(session, wish, None).await?;
        // Of two switches at the same time, on two gateways, one has the higher number.
        let step = rand::random_range(1..=SWITCH_STEP);
        let number = session.number.fetch_add(step, Ordering::AcqRel) + step;
        self.ended.note(EndedSession {
            key: session.key,
            below: number,
            why: Over::Switched,
        });
        session.begin_pushes();
        self.joined(session, room)
    }

    /// Charges the user for a stream of events, if it costs the store something.
    pub(crate) fn charge_stream(&self, session: &SocketlessSession) -> Result<(), Denied> {
        if session.asks_friends() {
            joining::charge(&self.context, &session.conn, Cost::Visit)?;
        }
        Ok(())
    }

    // ------------------------------------------------------------------------------------ the end

    /// Ends a session whose client leaves with the id of this number. The id, and earlier ones, are
    /// good for nothing from then on, on any gateway.
    pub(crate) fn leave(&self, key: SessionKey, number: u32) {
        let ended = EndedSession {
            key,
            below: number.saturating_add(1),
            why: Over::Left,
        };
        // First, so that a request that takes the session over just now finds it. A repeated leave is
        // not told again.
        if self.ended.over(&key, ended.below - 1).is_none() {
            self.ended.note(ended);
        }
        if let Some(session) = self.find(&key)
            && session.number() <= number
        {
            session.conn.heard(self.context.core.clock.now());
            self.finish_here(&session, SessionEnd::Left);
        }
    }

    /// Why the id that says this is over, as far as this gateway remembers.
    pub(crate) fn over(&self, claims: &SessionClaims) -> Option<Over> {
        self.ended.over(&claims.key, claims.number)
    }

    /// Ends a session on this gateway.
    pub(super) fn finish(&self, session: &Arc<SocketlessSession>, why: SessionEnd) {
        if let Some(over) = why.over()
            && !(over == Over::CrowdedOut && self.is_left_behind(session))
        {
            // Before the session ends: a beat that finds it gone must find this. If the session has
            // switched to another live elsewhere, its newer id stays good.
            self.ended.note(EndedSession {
                key: session.key,
                below: session.number().saturating_add(1),
                why: over,
            });
        }
        self.finish_here(session, why);
    }

    /// Whether the client's beats go to another gateway, or have ended.
    fn is_left_behind(&self, session: &SocketlessSession) -> bool {
        let silent = self
            .context
            .core
            .clock
            .now()
            .since(session.conn.last_heard());
        silent > 3 * millis(self.context.core.config.heartbeat) / 2
    }

    /// Ends a session on this gateway. Another gateway may go on with it.
    pub(super) fn finish_here(&self, session: &Arc<SocketlessSession>, why: SessionEnd) {
        if !session.end(why) {
            return;
        }
        let removed = self
            .open
            .remove_if(&session.key, |_, there| Arc::ptr_eq(there, session));
        if removed.is_some() {
            self.context.core.metrics.presences.dec();
            Metrics::count(&self.context.core.metrics.presences_ended, why.label());
        }
    }

    /// Until when a session that is told now to go on elsewhere keeps its seat here. A client
    /// without a stream learns of it by the answer to its next beat, and the beat after that has
    /// arrived elsewhere by then.
    pub(super) fn hold_until(&self) -> Moment {
        self.context.core.clock.now()
            + 2 * millis(self.context.core.config.heartbeat)
            + millis(HOLD)
    }

    // --------------------------------------------------------------------------------- dashboards

    /// A session that only watches a live, or this epoch of it only, for a stream of events. No beat
    /// keeps it, and no gateway goes on with it.
    pub(crate) async fn watch(
        &self,
        identity: Identity,
        live: &LiveId,
        epoch: Option<Epoch>,
        permit: Option<KeyedPermit>,
    ) -> Result<Arc<SocketlessSession>, Denied> {
        if self.context.is_draining() {
            return Err(Denied::Draining);
        }
        let newcomer = Newcomer {
            // A dashboard is nobody on the platform.
            identity: Identity {
                role: Role::Service,
                counted: false,
                ..identity
            },
            claims: None,
            permit,
        };
        let session = self.fresh_session(newcomer);
        for _ in 0..joining::TRIES {
            let room = self.context.lives.find(live).await?;
            if epoch.is_some_and(|epoch| epoch != room.record.epoch) {
                break;
            }
            let mut memberships = session.memberships.lock();
            if let Some(memberships) = memberships.as_mut()
                && memberships.listen(&room, Interest::Counts).is_ok()
            {
                memberships.count_for_user();
                self.context.reaper.admit(&session.conn);
                return Ok(session.clone());
            }
        }
        session.end(SessionEnd::Left);
        Err(LiveError::NotOpen(live.clone()).into())
    }
}

/// Whether a session of this epoch can go on in a room.
fn check_epoch(room: Epoch, session: Epoch) -> Result<(), Denied> {
    match room.cmp(&session) {
        Less => Err(behind()),
        Equal => Ok(()),
        Greater => Err(Denied::Unknown),
    }
}

/// The gateway has not heard yet that the live was opened.
fn behind() -> Denied {
    let message = "this gateway has not heard yet that the live is open; try again";
    Denied::Refused(Refusal::new(ErrorCode::StoreUnavailable, message))
}

/// The gateway has not heard yet who was erased.
fn unheard() -> Denied {
    let message = "this gateway has just started and knows of no session yet; try again";
    Denied::Refused(Refusal::new(ErrorCode::StoreUnavailable, message))
}

/// Whether a client that is refused so may go on with the same session later.
fn may_pass(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::RateLimited | ErrorCode::StoreUnavailable)
}

#[cfg(test)]
mod tests;
