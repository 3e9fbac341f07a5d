//! The calls on the records of lives and on the list of open ones. The two lie in different slots of a cluster, so a
//! call that changes both uses the order that leaves no open live unlisted; a crash in between may leave a closed live
//! on the list, which [`LiveStore::delist`] removes.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::paging::{Order, Scored};
use super::reply::{Reply, next_answer, nonsense, score, text};
use super::slices::read_fence;
use super::{RedisStore, args, keys, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, LiveId, MAX_SLICES, UserId};
use crate::store::{
    Channel, CloseLive, CloseReason, CloseReply, Closure, Fence, LEAP, ListedLive, LiveRecord, LiveState, LiveStore,
    OpenLive, OpenReply, OpenedBy, Peaks, Standing, StoreResult,
};

/// Reads the fields that are left of an answer as a record; none means that there is no record.
pub(super) fn record(live: &LiveId, fields: Reply) -> StoreResult<Option<LiveRecord>> {
    let found: HashMap<_, _> = fields.pairs()?.into_iter().collect();
    if found.is_empty() {
        return Ok(None);
    }
    read_record(live, &found).map(Some).ok_or_else(|| nonsense(format!("the record of live {live} is garbled")))
}

fn read_record(live: &LiveId, fields: &HashMap<String, String>) -> Option<LiveRecord> {
    let word = |name: &str| fields.get(name).map(String::as_str);
    let number = |name: &str| word(name).and_then(|text| text.parse::<u64>().ok());
    let state = LiveState::from_word(word("state")?)?;
    let closure = match state {
        LiveState::Open => None,
        LiveState::Closing | LiveState::Closed => {
            Some(Closure { reason: CloseReason::from_word(word("reason")?)?, at: number("closed_at")? })
        }
    };
    Some(LiveRecord {
        live: live.clone(),
        state,
        streamer: UserId::parse(word("streamer_id")?).ok()?,
        epoch: Epoch(number("epoch")?),
        slices: number("slices").and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=MAX_SLICES).contains(n))?,
        exact_viewers: word("exact_viewers") == Some("1"),
        opened_at: number("opened_at")?,
        opened_by: OpenedBy::from_word(word("opened_by")?)?,
        peaks: Peaks { viewers: number("peak_viewers")?, fans: number("peak_fans")? },
        closure,
        removals: number("removals").unwrap_or(0),
    })
}

/// The record and the other keys of its epoch.
pub(super) fn keys_of(live: &LiveId) -> Vec<String> {
    vec![keys::live(live), keys::removals(live), keys::bans(live), keys::viewers(live)]
}

/// The last arguments of a script that publishes what it changes on the live's channel.
pub(super) fn publish_args(live: &LiveId, message: &str) -> [Value; 2] {
    [Value::from(keys::channel(&Channel::Live(live.clone()))), Value::from(message)]
}

/// A record that must be there.
fn sure_record(live: &LiveId, fields: Reply) -> StoreResult<LiveRecord> {
    record(live, fields)?.ok_or_else(|| nonsense("a record without fields"))
}

impl RedisStore {
    /// The highest epoch that the requested slices have seen. If the record was lost, or an earlier epoch had another
    /// number of slices, the record alone would begin an epoch that the slices refuse.
    async fn highest_fence(&self, request: &OpenLive) -> StoreResult<Epoch> {
        let fences = request.all_slices().map(|slice| ("GET", args![keys::fence(&slice)]));
        let mut highest = Epoch(0);
        for fence in self.router.read_all(fences.collect()).await {
            highest = highest.max(read_fence(fence?)?.map_or(highest, Fence::epoch));
        }
        Ok(highest)
    }

    async fn list(&self, live: &LiveId, opened_at: UnixMillis) -> StoreResult<()> {
        let args = args![keys::LIVES, opened_at, live];
        self.router.command("ZADD", args).await.map(drop)
    }

    async fn take_off_list(&self, live: &LiveId, listed_until: UnixMillis) -> StoreResult<()> {
        let args = args![live, listed_until];
        self.router.script(&scripts::DELIST, vec![keys::LIVES.to_owned()], args).await.map(drop)
    }

    async fn do_open(&self, request: &OpenLive) -> StoreResult<OpenReply> {
        let key = keys::live(&request.live);
        // A call that arrives late, after others opened and closed the live, finds another epoch and does nothing.
        let seen = self.router.command("HGET", args![key, "epoch"]).await?;
        let highest = self.highest_fence(request).await?;
        let name = args![request.live];
        self.router.script(&scripts::LIST, vec![keys::LIVES.to_owned()], name).await?;
        let mut args = args![
            request.streamer,
            request.slices,
            request.by.as_str(),
            if request.exact_viewers { "1" } else { "" },
            highest,
            seen.into_string().unwrap_or_default()
        ];
        args.extend(publish_args(&request.live, &request.message));
        let mut reply = self.router.script(&scripts::OPEN, keys_of(&request.live), args).await?;
        let outcome = reply.text()?;
        if outcome == "changed" {
            return Ok(OpenReply::Changed);
        }
        let record = sure_record(&request.live, reply)?;
        Ok(match outcome.as_str() {
            "opened" => {
                // The list may still have an older epoch's time.
                self.list(&request.live, record.opened_at).await?;
                OpenReply::Opened(record)
            }
            "already" => OpenReply::AlreadyOpen(record),
            "owned" => OpenReply::Owned(record),
            "closing" => OpenReply::Closing(record),
            other => return Err(nonsense(format!("an opening answered {other}"))),
        })
    }

    async fn do_keep(&self, record: &LiveRecord, message: &str) -> StoreResult<Standing> {
        let mut args = args![
            record.epoch,
            record.streamer,
            record.slices,
            record.opened_at,
            record.opened_by.as_str(),
            if record.exact_viewers { "1" } else { "" },
            record.peaks.viewers,
            record.peaks.fans,
            record.removals,
            LEAP
        ];
        args.extend(publish_args(&record.live, message));
        let mut reply = self.router.script(&scripts::KEEP, keys_of(&record.live), args).await?;
        match reply.text()?.as_str() {
            "open" => Ok(Standing::Open { removals: reply.number()? }),
            "rewritten" => {
                self.list(&record.live, record.opened_at).await?;
                Ok(Standing::Rewritten)
            }
            "over" => Ok(Standing::Over(sure_record(&record.live, reply)?)),
            other => Err(nonsense(format!("a live that is kept answered {other}"))),
        }
    }

    async fn do_begin_close(&self, request: &CloseLive) -> StoreResult<CloseReply> {
        let mut args = args![request.epoch, request.reason.as_str(), request.peaks.viewers, request.peaks.fans];
        args.extend(publish_args(&request.live, &request.message));
        let mut reply = self.router.script(&scripts::BEGIN_CLOSE, keys_of(&request.live), args).await?;
        let outcome = reply.text()?;
        if outcome == "absent" {
            return Ok(CloseReply::Absent);
        }
        let record = sure_record(&request.live, reply)?;
        match outcome.as_str() {
            "closing" => Ok(CloseReply::Closing(record)),
            "closed" => Ok(CloseReply::Closed(record)),
            "other" => Ok(CloseReply::OtherEpoch(record)),
            other => Err(nonsense(format!("a close answered {other}"))),
        }
    }

    async fn do_finish_close(&self, live: &LiveId, epoch: Epoch, keep: Duration) -> StoreResult<Option<LiveRecord>> {
        let args = args![epoch, keep.as_secs()];
        let mut reply = self.router.script(&scripts::FINISH_CLOSE, keys_of(live), args).await?;
        reply.text()?;
        let record = record(live, reply)?;
        if let Some(LiveRecord { state: LiveState::Closed, closure: Some(closure), .. }) = &record {
            // An opening that came in between lists the live with a later time, and stays.
            self.take_off_list(live, closure.at).await?;
        }
        Ok(record)
    }

    async fn do_delist(&self, live: &LiveId) -> StoreResult<()> {
        let args = args![keys::LIVES, live];
        let listed = self.router.command("ZSCORE", args).await?;
        if listed.is_null() {
            return Ok(());
        }
        let listed = score(listed)?;
        let state = self.router.command("HGET", args![keys::live(live), "state"]).await?;
        if state.is_null() || text(state)? == LiveState::Closed.as_str() {
            self.take_off_list(live, listed.ceil().max(0.0) as UnixMillis).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl LiveStore for RedisStore {
    async fn open_live(&self, request: &OpenLive) -> StoreResult<OpenReply> {
        self.router.call("open_live", self.do_open(request)).await
    }

    async fn load_live(&self, live: &LiveId) -> StoreResult<Option<LiveRecord>> {
        let steps = async {
            let fields = self.router.command("HGETALL", args![keys::live(live)]).await?;
            record(live, Reply::of(fields)?)
        };
        self.router.call("load_live", steps).await
    }

    async fn load_lives(&self, lives: &[LiveId]) -> Vec<StoreResult<Option<LiveRecord>>> {
        let command = |live: &LiveId| vec![("HGETALL", args![keys::live(live)])];
        let read =
            |live: &LiveId, answers: &mut dyn Iterator<Item = _>| record(live, Reply::of(next_answer(answers)?)?);
        self.router.read_each("load_lives", lives, command, read).await
    }

    async fn keep_live(&self, record: &LiveRecord, message: &str) -> StoreResult<Standing> {
        self.router.call("keep_live", self.do_keep(record, message)).await
    }

    async fn list_live(&self, live: &LiveId, opened_at: UnixMillis) -> StoreResult<()> {
        self.router.call("list_live", self.list(live, opened_at)).await
    }

    async fn begin_close(&self, request: &CloseLive) -> StoreResult<CloseReply> {
        self.router.call("begin_close", self.do_begin_close(request)).await
    }

    async fn finish_close(&self, live: &LiveId, epoch: Epoch, keep: Duration) -> StoreResult<Option<LiveRecord>> {
        self.router.call("finish_close", self.do_finish_close(live, epoch, keep)).await
    }

    async fn lives_page(&self, after: Option<&ListedLive>, limit: usize) -> StoreResult<Vec<ListedLive>> {
        let after = after.map(|last| (last.live.as_str().to_owned(), last.opened_at));
        let read = |(live, opened_at): Scored| Some(ListedLive { live: LiveId::parse(&live).ok()?, opened_at });
        self.router.call("lives_page", self.page((keys::LIVES, Order::Up), after, limit, read)).await
    }

    async fn delist(&self, live: &LiveId) -> StoreResult<()> {
        self.router.call("delist", self.do_delist(live)).await
    }

    async fn take_walk_turn(&self, gateway: &GatewayId, ttl: Duration) -> StoreResult<bool> {
        let args = args![gateway, millis(ttl).max(1)];
        let steps = async { self.router.script(&scripts::TURN, vec![keys::WALKER.to_owned()], args).await?.flag() };
        self.router.call("take_walk_turn", steps).await
    }
}
