//! Users whom the bench writes into slices through the store's ordinary calls, as a gateway does
//! that holds them, so that they look as in production without their sockets.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{bail, ensure};
use rollcall::base::ids::{Epoch, GatewayId, LiveId, OnlineSet, SliceId, UserId};
use rollcall::store::redis::RedisStore;
use rollcall::store::{
    Apply, ApplyReply, Lease, LeaseReply, LeaseStore, MAX_BATCH, RenewLease, SliceSize, Slices,
};
use tokio_util::task::AbortOnDropHandle;

/// Keeps its lease until it is dropped; the gateways bury it some time after.
pub(super) struct LeaseHolder {
    _lease: AbortOnDropHandle<anyhow::Result<()>>,
}

impl LeaseHolder {
    /// Writes the users, one slice after the other. Of users of the platform, `lives` tells in which
    /// lives they are.
    pub(super) async fn start(
        store: &RedisStore,
        epoch: Epoch,
        slices: impl IntoIterator<Item = (SliceId, Vec<UserId>)>,
        lives: impl Fn(&UserId) -> Vec<LiveId>,
    ) -> anyhow::Result<Self> {
        let gateway = GatewayId::random();
        let mut lease = None;
        for (slice, users) in slices {
            lease = Some(renew(store, &gateway, lease).await?);
            for (number, users) in (1..).zip(users.chunks(MAX_BATCH)) {
                let users = users.to_vec();
                // Every user who is held in a live is a fan there.
                let (joins, fans) = if slice.live().is_some() {
                    (Vec::new(), users)
                } else {
                    (users, Vec::new())
                };
                let call = Apply {
                    number,
                    follows: if number > 1 { Some(number - 1) } else { None },
                    since: vec![1; fans.len()],
                    lives: if slice.set == OnlineSet::Users {
                        joins.iter().map(&lives).collect()
                    } else {
                        Vec::new()
                    },
                    joins,
                    fans,
                    ..first_call(slice.clone(), epoch, gateway.clone())
                };
                let reply = store.apply(&call).await?;
                ensure!(
                    matches!(reply, ApplyReply::Done(_)),
                    "a slice refused its users: {reply:?}"
                );
            }
        }
        Ok(Self {
            _lease: AbortOnDropHandle::new(tokio::spawn(keep(store.clone(), gateway, lease))),
        })
    }
}

/// The first call of a gateway for a slice, in which nobody comes or goes.
pub(super) fn first_call(slice: SliceId, epoch: Epoch, gateway: GatewayId) -> Apply {
    Apply {
        slice,
        epoch,
        gateway,
        number: 1,
        follows: None,
        known: SliceSize::default(),
        more: false,
        bye: false,
        uniques: false,
        joins: Vec::new(),
        fans: Vec::new(),
        since: Vec::new(),
        lives: Vec::new(),
        left: None,
        leaves: Vec::new(),
    }
}

/// The slices of a set, each with its users.
pub(super) fn by_slice(
    set: &OnlineSet,
    of: u32,
    users: impl Iterator<Item = UserId>,
) -> Vec<(SliceId, Vec<UserId>)> {
    let mut slices: Vec<(SliceId, Vec<UserId>)> = Vec::new();
    for index in 1..=of {
        let set = set.clone();
        slices.push((SliceId { set, index, of }, Vec::new()));
    }
    for user in users {
        let (_, inside) = &mut slices[user.slice_index(of) as usize - 1];
        inside.push(user);
    }
    slices
}

async fn keep(
    store: RedisStore,
    gateway: GatewayId,
    mut lease: Option<Lease>,
) -> anyhow::Result<()> {
    loop {
        lease = Some(renew(&store, &gateway, lease).await?);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn renew(
    store: &RedisStore,
    gateway: &GatewayId,
    held: Option<Lease>,
) -> anyhow::Result<Lease> {
    let number = held.map_or(0, |held| held.count) + 1;
    let renewal = RenewLease {
        gateway: gateway.clone(),
        held,
        number,
        unheard: BTreeSet::new(),
        burials: Vec::new(),
    };
    match store.renew_lease(&renewal).await? {
        LeaseReply::Renewed(leases) => Ok(leases.own),
        LeaseReply::Dead => bail!("the gateway that holds the users was buried"),
    }
}

/// The n-th user of the platform, with an id that fits four bytes: a number of up to ten digits,
/// each once, in no order.
pub(super) fn platform_user(n: usize) -> UserId {
    let number = (n as u32).wrapping_mul(2_654_435_761);
    UserId::parse(&number.to_string()).unwrap_or_else(|_| unreachable!("a number is an id"))
}
