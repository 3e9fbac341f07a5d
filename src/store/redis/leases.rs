//! The calls on gateways' leases. The scripts must agree with the model,
//! [`crate::store::LeaseTable`].

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::node::Share;
use super::reply::{Reply, gateway, nonsense};
use super::{RedisCalls, args, keys, scripts};
use crate::base::clock::millis;
use crate::base::ids::GatewayId;
use crate::store::{
    DEATH_TTL, Lease, LeaseReply, LeaseStore, Leases, LivingGateway, RenewLease, StoreResult,
};

#[async_trait]
impl LeaseStore for RedisCalls {
    async fn renew_lease(&self, renewal: &RenewLease) -> StoreResult<LeaseReply> {
        let RenewLease {
            gateway,
            held,
            number,
            unheard,
            burials,
        } = renewal;
        let (born, known_count) = match held {
            Some(held) => (held.born.to_string(), held.count),
            None => (String::new(), 0),
        };
        let mut args = args![
            gateway,
            born,
            known_count,
            number,
            written(unheard),
            millis(DEATH_TTL),
            keys::LEASES_TTL.as_secs()
        ];
        for burial in burials {
            let count = match burial.count {
                Some(count) => count.to_string(),
                None => String::new(),
            };
            args.extend(args![burial.gateway, count]);
        }
        let router = self.router.with_share(Share::Lease);
        let mut reply = router
            .script(&scripts::RENEW_LEASE, vec![self.keys().leases()], args)
            .await?;
        match reply.text()?.as_str() {
            "renewed" => {
                let own = Lease {
                    born: reply.number()?,
                    count: reply.number()?,
                };
                let living = living_gateways(reply.list()?)?;
                let dead = reply.list()?.counted_gateways()?;
                self.subscriber.echo().looked(&living);
                Ok(LeaseReply::Renewed(Leases { own, living, dead }))
            }
            "dead" => Ok(LeaseReply::Dead),
            other => Err(nonsense(format!("a lease answered {other}"))),
        }
    }

    async fn end_lease(&self, gateway: &GatewayId) -> StoreResult<()> {
        let args = args![gateway, keys::LEASES_TTL.as_secs()];
        self.router
            .script(&scripts::END_LEASE, vec![self.keys().leases()], args)
            .await?
            .number()?;
        Ok(())
    }
}

/// The numbers of channels as the lease has them.
fn written(channels: &BTreeSet<u32>) -> String {
    let numbers: Vec<String> = channels.iter().map(u32::to_string).collect();
    numbers.join(",")
}

/// Reads them back. Passes over what is no number: one wrong lease must not keep every gateway from
/// renewing its own.
fn read(channels: &str) -> BTreeSet<u32> {
    channels
        .split(',')
        .filter_map(|number| number.parse().ok())
        .collect()
}

pub(crate) fn living_gateways(mut reply: Reply) -> StoreResult<Vec<LivingGateway>> {
    let mut living = Vec::new();
    while let Some(name) = reply.piece() {
        living.push(LivingGateway {
            gateway: gateway(name)?,
            count: reply.number()?,
            unheard: read(&reply.text()?),
        });
    }
    Ok(living)
}
