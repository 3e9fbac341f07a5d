//! The sockets of streamers: a live opened over its streamer's socket lasts while the streamer is connected to any gateway,
//! whether or not that one has a room of the live.
//!
//! The store is told when the first socket of a streamer comes to this gateway and when the last one goes ([`run`]); what is
//! said is state, so a call that fails is made again. Who judges a streamer that is gone is [`crate::walk`]'s business.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::auth::Role;
use crate::clock::{Millis, millis};
use crate::conn::Conn;
use crate::core::Core;
use crate::ids::{LiveId, UserId};
use crate::store::{OpenedBy, Presence, StoreResult};

/// Calls under way at a time.
const AT_A_TIME: usize = 64;

/// A call that failed is made again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// A streamer who left so long ago, in ms, is said to be gone once more where the store may have lost that: whatever a
/// failover takes back is younger.
const GONE_KEPT: Millis = 60_000;

/// What was said is said again after so long: what the store keeps of it has a lifetime.
const SAID_AGAIN: Duration = Duration::from_secs(3_600);

/// The sockets of streamers, by user.
#[derive(Debug, Default)]
pub struct Streamers {
    here: DashMap<UserId, Vec<Arc<Conn>>>,
    /// Who is to be told of, and when a streamer who went was last heard.
    changed: Mutex<HashMap<UserId, Millis>>,
    notify: Notify,
    told: Mutex<HashMap<UserId, Told>>,
}

/// What the store was told of a streamer.
#[derive(Debug, Clone, Copy)]
struct Told {
    presence: Presence,
    /// The life of this gateway in which that was; 0: the store may have lost it since.
    life: u32,
    at: Millis,
}

impl Streamers {
    /// Notes a new socket, if it is a streamer's.
    pub fn admit(&self, conn: &Arc<Conn>) {
        if conn.identity.role != Role::Streamer {
            return;
        }
        let user = &conn.identity.user;
        let mut conns = self.here.entry(user.clone()).or_default();
        conns.push(conn.clone());
        if conns.len() == 1 {
            self.change(user.clone(), conn.last_heard());
        }
    }

    /// Forgets a socket.
    pub fn forget(&self, conn: &Arc<Conn>) {
        if conn.identity.role != Role::Streamer {
            return;
        }
        let user = &conn.identity.user;
        if let Some(mut conns) = self.here.get_mut(user) {
            conns.retain(|other| !Arc::ptr_eq(other, conn));
        }
        if self.here.remove_if(user, |_, conns| conns.is_empty()).is_some() {
            self.change(user.clone(), conn.last_heard());
        }
    }

    /// Whether one of a streamer's open sockets is on this gateway.
    pub fn is_here(&self, streamer: &UserId) -> bool {
        self.here.contains_key(streamer)
    }

    /// The store may have lost what it was told, or was told it under another id.
    pub fn say_all_again(&self) {
        let mut users: HashSet<UserId> = self.here.iter().map(|there| there.key().clone()).collect();
        for (user, told) in self.told.lock().iter_mut() {
            told.life = 0;
            users.insert(user.clone());
        }
        users.into_iter().for_each(|user| self.change(user, 0));
    }

    fn change(&self, user: UserId, heard: Millis) {
        let mut changed = self.changed.lock();
        let there = changed.entry(user).or_insert(heard);
        *there = heard.max(*there);
        drop(changed);
        self.notify.notify_one();
    }
}

/// Runs until told to stop: tells the store who came and who went.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let streamers = &core.streamers;
    let mut again = tokio::time::interval(SAID_AGAIN);
    let mut failed: HashMap<UserId, Millis> = HashMap::new();
    again.tick().await;
    loop {
        let retry = async {
            match failed.is_empty() {
                true => std::future::pending().await,
                false => tokio::time::sleep(RETRY).await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = streamers.notify.notified() => {}
            () = retry => {}
            _ = again.tick() => streamers.say_all_again(),
        }
        let mut changed = std::mem::take(&mut *streamers.changed.lock());
        for (user, heard) in failed.drain() {
            changed.entry(user).or_insert(heard);
        }
        let mut told = stream::iter(changed)
            .map(|(user, heard)| {
                let core = &core;
                async move { (tell(core, &user, heard).await, user, heard) }
            })
            .buffer_unordered(AT_A_TIME);
        while let Some((done, user, heard)) = told.next().await {
            if let Err(why) = done {
                tracing::debug!(user_id = %user, error = %why, "the store was not told of a streamer, will try again");
                failed.insert(user, heard);
            }
        }
        drop(told);
        let now = core.clock.now();
        streamers
            .told
            .lock()
            .retain(|_, told| told.presence == Presence::Here || now.saturating_sub(told.at) < GONE_KEPT);
    }
}

/// Tells the store of one streamer, if it was told something else.
async fn tell(core: &Core, user: &UserId, heard: Millis) -> StoreResult<()> {
    let streamers = &core.streamers;
    let own = core.own_lease.incarnation();
    let here = streamers.is_here(user);
    let told = streamers.told.lock().get(user).copied();
    let presence = if here { Presence::Here } else { Presence::Gone };
    let known = told.filter(|told| told.presence == presence);
    let is_settled = known.is_some_and(|told| told.life == own.number);
    if is_settled || (presence == Presence::Gone && told.is_none()) {
        return Ok(());
    }
    core.store.note_streamer(user, &own.id, presence).await?;
    let at = known.map_or(core.clock.now(), |told| told.at);
    streamers.told.lock().insert(user.clone(), Told { presence, life: own.number, at });
    // Said once more, it is no news to those who judge the streamer.
    if presence == Presence::Here || known.is_some() {
        return Ok(());
    }
    let of_streamer = core.rooms.of_streamer(user).into_iter();
    let lives: Vec<LiveId> = of_streamer
        .filter(|room| room.record.opened_by == OpenedBy::Streamer)
        .map(|room| room.record.live.clone())
        .collect();
    if !lives.is_empty() {
        let silent = core.clock.now().saturating_sub(heard).min(millis(core.config.timeout));
        core.walk.streamer_gone(&lives, core.clock.now().saturating_sub(silent));
        core.gossip.streamer_gone(&lives, silent);
    }
    Ok(())
}
