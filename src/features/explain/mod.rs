//! `rollcall explain LIVE [USER]` tells the state of a live, which gateways hold which of its
//! slices, and whether a user is counted in it, with the reason in a sentence. It changes nothing.

pub(crate) mod explanation;
pub(crate) mod sentences;

use crate::cli::common::open;
use std::collections::HashMap;
use std::sync::Arc;

use anyhow::anyhow;

use self::explanation::{EntryStatus, ExplainedUser, Explanation, GatewayAnswer, SliceStatus};
use self::sentences::{about, fan_check, known, time, verdict};
use crate::base::exit;
use crate::base::ids::{GatewayId, Group, SliceId, UserId};
use crate::base::metrics::Metrics;
use crate::cli::common::{fence_name, print};
use crate::cli::gateways;
use crate::cli::gateways::GatewayApi;
use crate::cli::leases::LeaseSnapshot;
use crate::config::{Config, ExplainArgs, FanSource};
use crate::store::fans::{FanLookup, FanSetupError};
use crate::store::redis::RedisStore;
use crate::store::redis::inspect::LeaseInside;
use crate::store::{
    Claim, LiveRecord, LiveState, LiveStore, SliceEntry, Slices, Store, StoreResult,
};

/// Opens the source of fans that the settings name.
type OpenFans =
    fn(&Config, &Arc<dyn Store>, &Arc<Metrics>) -> Result<Arc<dyn FanLookup>, FanSetupError>;

/// Explains a live, writes the explanation to standard output and returns the exit code.
pub async fn run(config: &Config, args: &ExplainArgs, fan_source: OpenFans) -> anyhow::Result<u8> {
    let gateways = gateways::open(&args.gateways)?;
    let store = Arc::new(open(config).await?);
    let graph: Arc<dyn Store> = store.clone();
    let fans = fan_source(config, &graph, &Arc::default())?;
    let explanation = explain(&store, config, args, gateways, fans)
        .await
        .map_err(|why| anyhow!("the command cannot continue: {why}"))?;
    Ok(print(exit::STOPPED, &explanation, args.json))
}

async fn explain(
    store: &RedisStore,
    config: &Config,
    args: &ExplainArgs,
    gateways: Vec<GatewayApi>,
    fans: Arc<dyn FanLookup>,
) -> StoreResult<Explanation> {
    let record = store.load_live(&args.live).await?;
    let listed = store.listed_at(&args.live).await?.is_some();
    let mut explanation = Explanation {
        live_id: args.live.clone(),
        state: record.as_ref().map(|record| record.state.as_str()),
        streamer_id: record.as_ref().map(|record| record.streamer.clone()),
        epoch: record.as_ref().map(|record| record.epoch),
        listed,
        slices: Vec::new(),
        user: None,
        because: Vec::new(),
    };
    let Some(record) = record else {
        explanation.because.push(format!(
            "Nobody is counted: the store has no record of live {}.",
            args.live
        ));
        return Ok(explanation);
    };
    explanation.because.push(about(&record, listed));
    let leases = LeaseSnapshot::read(store).await?;
    let explainer = Explainer {
        store,
        leases,
        config,
        args,
        gateways,
        fans,
    };
    if record.state != LiveState::Closed {
        for slice in record.all_slices() {
            // With a user, the explanation tells only of the slice of this user.
            if let Some(user) = &args.user
                && user.slice_index(record.slices) != slice.index
            {
                continue;
            }
            explanation.slices.push(explainer.slice(&slice).await?);
        }
    }
    if let Some(user) = &args.user {
        explanation.user = Some(explainer.user(&record, user, &mut explanation).await?);
    }
    Ok(explanation)
}

/// What one gateway claims in a slice.
#[derive(Debug, Default)]
struct GatewayClaims {
    members: u64,
    fans: u64,
    has_user_as_fan: bool,
}

struct Explainer<'a> {
    store: &'a RedisStore,
    leases: LeaseSnapshot,
    config: &'a Config,
    args: &'a ExplainArgs,
    gateways: Vec<GatewayApi>,
    fans: Arc<dyn FanLookup>,
}

impl Explainer<'_> {
    async fn slice(&self, slice: &SliceId) -> StoreResult<SliceStatus> {
        let inside = self.store.inspect_slice(slice).await?;
        let mut held = self.held_by_gateway(slice).await?;
        let mut gateways = Vec::new();
        for (gateway, entry) in inside.entries {
            let lease = self.leases.get(&gateway);
            let held = held.remove(&gateway).unwrap_or_default();
            gateways.push(EntryStatus {
                expired: matches!(lease, Some(LeaseInside::Living { age, .. }) if age >= self.config.lease),
                lease: lease.into(),
                number: match entry {
                    SliceEntry::At { number, .. } => Some(number),
                    SliceEntry::Dead => None,
                },
                members: held.members,
                fans: held.fans,
                holds_user: self.args.user.as_ref().map(|_| held.has_user_as_fan),
                gateway_id: gateway,
            });
        }
        let fence = inside.fence.map(fence_name);
        let key = self.store.keys().slice(slice);
        Ok(SliceStatus {
            slice: slice.index,
            key,
            viewers: inside.card,
            fans: inside.fans,
            fence,
            gateways,
        })
    }

    /// What each gateway claims in a slice.
    async fn held_by_gateway(
        &self,
        slice: &SliceId,
    ) -> StoreResult<HashMap<GatewayId, GatewayClaims>> {
        let mut held: HashMap<GatewayId, GatewayClaims> = HashMap::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = self.store.claims_page(slice, from).await?;
            for claimed in page.users {
                for (gateway, claim) in claimed.by {
                    let Some(gateway) = gateway else { continue };
                    let is_fan = claim == Claim::Fan;
                    let held = held.entry(gateway).or_default();
                    held.members += 1;
                    held.fans += u64::from(is_fan);
                    held.has_user_as_fan |=
                        is_fan && self.args.user.as_ref() == Some(&claimed.user);
                }
            }
            cursor = page.next;
        }
        Ok(held)
    }

    async fn user(
        &self,
        record: &LiveRecord,
        user: &UserId,
        explanation: &mut Explanation,
    ) -> StoreResult<ExplainedUser> {
        let because = &mut explanation.because;
        let streamer = &record.streamer;
        let mut viewer = false;
        let mut counted = false;
        if record.state == LiveState::Closed {
            because.push(format!("{user} is not counted: the live is closed."));
        } else {
            let index = user.slice_index(record.slices);
            let slice = SliceId::of_live(record.live.clone(), index, record.slices);
            viewer = self.store.is_member(&slice, Group::All, user).await?;
            counted = self.store.is_member(&slice, Group::Fans, user).await?;
            let slice = explanation.slices.first();
            because.push(verdict(user, index, viewer, counted, slice));
        }
        let answer = self.fans.ask(streamer, std::slice::from_ref(user)).await;
        let follows_since = match self.config.fan_source {
            FanSource::Redis => {
                self.store
                    .follows_since(user, streamer, self.config.fan_key)
                    .await?
            }
            FanSource::Token | FanSource::Http | FanSource::Sql => None,
        };
        because.push(fan_check(
            user,
            streamer,
            self.config.fan_source,
            &answer,
            follows_since,
        ));
        let ban_ends_at = self.store.banned_until(&record.live, user).await?;
        if let Some(until) = ban_ends_at {
            because.push(format!(
                "{user} was removed, and may not join until {}.",
                time(until)
            ));
        }
        let mut gateways = Vec::new();
        for gateway in &self.gateways {
            let url = &gateway.url;
            let mut row = GatewayAnswer {
                url: url.to_string(),
                knows: None,
                error: None,
            };
            match gateway.viewer(&record.live, user).await {
                Ok(knows) => {
                    because.push(known(user, &knows));
                    row.knows = Some(knows);
                }
                Err(why) => {
                    let why = why.root_cause().to_string();
                    because.push(format!("{url} cannot be asked: {why}."));
                    row.error = Some(why);
                }
            }
            gateways.push(row);
        }
        let fan = match answer {
            Ok(answers) => answers.first().copied().flatten(),
            Err(_) => None,
        };
        Ok(ExplainedUser {
            user_id: user.clone(),
            viewer,
            counted,
            fan,
            follows_since,
            ban_ends_at,
            gateways,
        })
    }
}
