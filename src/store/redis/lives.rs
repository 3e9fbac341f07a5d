//! The calls on the records of lives and on the list of open ones. The two lie in different slots
//! of a cluster, so a call that changes both uses the order that leaves no open live unlisted; a
//! crash in between may leave a closed live on the list, which [`LiveStore::delist`] removes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::try_join;

use super::counts::point_args;
use super::paging::{Order, Scored};
use super::reply::{Reply, next_answer, nonsense, score, text};
use super::slices::read_fence;
use super::{RedisStore, args, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, LiveId, MAX_SLICES, UserId};
use crate::store::{
    Arrived, Channel, CloseLive, CloseReason, CloseReply, Closure, Counted, Fence, Figures,
    FinishClose, Happened, Info, InfoReply, LEAP, ListedLive, LiveEpoch, LiveRecord, LiveState,
    LiveStore, MAX_RECORD_FIELDS, OpenLive, OpenReply, OpenedBy, Peaks, PendingEvent, RecordEvents,
    Standing, StoreResult, Sums, Terms, Uniques, WriteInfo,
};

/// What the fields of pending events begin with; the number of the event follows.
pub(super) const EVENT_FIELD: &str = "event:";

/// Reads the fields that are left of an answer as a record; none means that there is no record.
pub(super) fn record(live: &LiveId, fields: Reply) -> StoreResult<Option<LiveRecord>> {
    let found: HashMap<_, _> = fields.pairs()?.into_iter().collect();
    if found.is_empty() {
        return Ok(None);
    }
    read_record(live, &found)
        .map(Some)
        .ok_or_else(|| nonsense(format!("the record of live {live} is garbled")))
}

fn read_record(live: &LiveId, fields: &HashMap<String, String>) -> Option<LiveRecord> {
    let word = |name: &str| fields.get(name).map(String::as_str);
    let number = |name: &str| word(name).and_then(|text| text.parse::<u64>().ok());
    let state = LiveState::from_word(word("state")?)?;
    let closure = match state {
        LiveState::Open => None,
        LiveState::Closing | LiveState::Closed => Some(Closure {
            reason: CloseReason::from_word(word("reason")?)?,
            at: number("closed_at")?,
        }),
    };
    Some(LiveRecord {
        live: live.clone(),
        state,
        streamer: UserId::parse(word("streamer_id")?).ok()?,
        epoch: Epoch(number("epoch")?),
        slices: number("slices")
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| (1..=MAX_SLICES).contains(n))?,
        opened_at: number("opened_at")?,
        opened_by: OpenedBy::from_word(word("opened_by")?)?,
        peaks: Peaks {
            viewers: number("peak_viewers")?,
            fans: number("peak_fans")?,
        },
        closure,
        removals: number("removals").unwrap_or(0),
        terms: Terms {
            title: word("title").map(str::to_owned),
            streamer_timeout: number("streamer_timeout_s").map(Duration::from_secs),
            attendance: word("attendance") == Some("1"),
            invisible: word("invisible") == Some("1"),
        },
        info: Info {
            version: number("info_version").unwrap_or(0),
            json: word("info").map(Arc::from),
        },
        counted: number("counted_at").map(|at| Counted {
            figures: read_figures(word("viewers"), word("fans")),
            at,
        }),
        sums: Sums {
            arrived: Arrived {
                joins: number("joins").unwrap_or(0),
                leaves: number("leaves").unwrap_or(0),
            },
            watched_ms: number("watched_ms").unwrap_or(0),
            uniques: number("unique_viewers")
                .zip(number("unique_fans"))
                .map(|(viewers, fans)| Uniques { viewers, fans }),
        },
        events: read_events(fields),
    })
}

/// Reads the fields `viewers` and `fans`; absent ones, and what is no number, are zero.
pub(super) fn read_figures(viewers: Option<&str>, fans: Option<&str>) -> Figures {
    let read = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
    Figures {
        viewers: read(viewers),
        fans: read(fans),
    }
}

/// Reads the events that a record notes. Skips what cannot be read: another program's, or a later
/// version's.
fn read_events(fields: &HashMap<String, String>) -> RecordEvents {
    let pending = fields.iter().filter_map(|(name, text)| {
        let number = name.strip_prefix(EVENT_FIELD)?.parse().ok()?;
        Some(PendingEvent {
            number,
            what: Happened::parse(text)?,
        })
    });
    let mut pending: Vec<_> = pending.collect();
    pending.sort_unstable_by_key(|event| event.number);
    let told = fields.get("counts_told").and_then(|told| {
        let (figures, at) = told.rsplit_once(' ')?;
        let (viewers, fans) = figures.split_once(' ')?;
        Some(Counted {
            figures: read_figures(Some(viewers), Some(fans)),
            at: at.parse().ok()?,
        })
    });
    RecordEvents { pending, told }
}

/// The arguments of what a live is opened with; empty ones are not written.
fn terms_args(terms: &Terms) -> Vec<Value> {
    let timeout = terms
        .streamer_timeout
        .map(|timeout| timeout.as_secs().to_string());
    args![
        terms.title.as_deref().unwrap_or_default(),
        timeout.unwrap_or_default()
    ]
}

fn flag_args(terms: &Terms) -> Vec<Value> {
    args![
        FLAG[usize::from(terms.attendance)],
        FLAG[usize::from(terms.invisible)]
    ]
}

/// A field that is not written, and one that is.
const FLAG: [&str; 2] = ["", "1"];

/// A record that must be there.
fn sure_record(live: &LiveId, fields: Reply) -> StoreResult<LiveRecord> {
    record(live, fields)?.ok_or_else(|| nonsense("a record without fields"))
}

impl RedisStore {
    /// The record and the other keys of its epoch.
    pub(super) fn record_keys(&self, live: &LiveId) -> Vec<String> {
        let keys = self.keys();
        vec![keys.live(live), keys.removals(live), keys.bans(live)]
    }

    /// The last arguments of a script that publishes what it changes on the live's channel.
    pub(super) fn publish_args(&self, live: &LiveId, message: &str) -> [Value; 2] {
        [
            Value::from(self.keys().channel(&Channel::Live(live.clone()))),
            Value::from(message),
        ]
    }

    /// The highest epoch that the requested slices have seen. If the record was lost, or an earlier
    /// epoch had another number of slices, the record alone would begin an epoch that the slices
    /// refuse.
    async fn highest_fence(&self, request: &OpenLive) -> StoreResult<Epoch> {
        let fences = request
            .all_slices()
            .map(|slice| ("GET", args![self.keys().fence(&slice)]));
        let mut highest = Epoch(0);
        for fence in self.router.read_all(fences.collect()).await {
            highest = highest.max(read_fence(fence?)?.map_or(highest, Fence::epoch));
        }
        Ok(highest)
    }

    /// Puts a live on the list. Without a time, as a hint that it may be about to open.
    async fn list(&self, live: &LiveId, opened_at: Option<UnixMillis>) -> StoreResult<()> {
        let args = args![live, opened_at.map(|at| at.to_string()).unwrap_or_default()];
        self.router
            .script(&scripts::LIST, self.keys().list(), args)
            .await
            .map(drop)
    }

    async fn take_off_list(&self, live: &LiveId, listed_until: UnixMillis) -> StoreResult<()> {
        let args = args![live, listed_until];
        self.router
            .script(&scripts::DELIST, self.keys().list(), args)
            .await
            .map(drop)
    }

    async fn do_open(&self, request: &OpenLive) -> StoreResult<OpenReply> {
        let key = self.keys().live(&request.live);
        // A call that arrives late, after others opened and closed the live, finds another epoch
        // and does nothing.
        let seen = self.router.command("HGET", args![key, "epoch"]);
        let (seen, highest, ()) = try_join!(
            seen,
            self.highest_fence(request),
            self.list(&request.live, None)
        )?;
        let mut args = args![
            request.streamer,
            request.slices,
            request.by.as_str(),
            highest,
            seen.into_string().unwrap_or_default()
        ];
        args.extend(terms_args(&request.terms));
        args.extend(args![MAX_RECORD_FIELDS]);
        args.extend(self.publish_args(&request.live, &request.message));
        args.extend(flag_args(&request.terms));
        let mut reply = self
            .change(
                &request.live,
                &scripts::OPEN,
                self.record_keys(&request.live),
                args,
            )
            .await?;
        let outcome = reply.text()?;
        if outcome == "changed" {
            return Ok(OpenReply::Changed);
        }
        let record = sure_record(&request.live, reply)?;
        Ok(match outcome.as_str() {
            "opened" => {
                // The list may still have an older epoch's time. It has the live already, as the
                // ranks want it.
                let figures = [(request.live.clone(), Figures::default())];
                try_join!(
                    self.list(&request.live, Some(record.opened_at)),
                    self.do_rank(&figures)
                )?;
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
            record.peaks.viewers,
            record.peaks.fans,
            record.removals,
            LEAP
        ];
        args.extend(terms_args(&record.terms));
        args.extend(args![
            record.info.version,
            record.info.json.as_deref().unwrap_or_default()
        ]);
        args.extend(self.publish_args(&record.live, message));
        args.extend(flag_args(&record.terms));
        let mut reply = self
            .change(
                &record.live,
                &scripts::KEEP,
                self.record_keys(&record.live),
                args,
            )
            .await?;
        match reply.text()?.as_str() {
            "open" => Ok(Standing::Open {
                removals: reply.number()?,
                info: reply.number()?,
            }),
            "rewritten" => {
                self.list(&record.live, Some(record.opened_at)).await?;
                Ok(Standing::Rewritten)
            }
            "over" => Ok(Standing::Over(sure_record(&record.live, reply)?)),
            other => Err(nonsense(format!("a live that is kept answered {other}"))),
        }
    }

    async fn do_write_info(&self, request: &WriteInfo) -> StoreResult<InfoReply> {
        let mut args = args![request.epoch, request.json.as_deref().unwrap_or_default()];
        args.extend(self.publish_args(&request.live, &request.message));
        let mut reply = self
            .change(
                &request.live,
                &scripts::WRITE_INFO,
                vec![self.keys().live(&request.live)],
                args,
            )
            .await?;
        match reply.text()?.as_str() {
            "written" => Ok(InfoReply::Written(reply.number()?)),
            "over" => Ok(InfoReply::Over),
            "absent" => Ok(InfoReply::Absent),
            other => Err(nonsense(format!("information answered {other}"))),
        }
    }

    async fn do_begin_close(&self, request: &CloseLive) -> StoreResult<CloseReply> {
        let Peaks { viewers, fans } = request.peaks;
        let mut args = args![
            request.epoch,
            request.reason.as_str(),
            viewers,
            fans,
            MAX_RECORD_FIELDS
        ];
        args.extend(self.publish_args(&request.live, &request.message));
        args.push(Value::from(FLAG[usize::from(request.uniques)]));
        args.extend(point_args());
        let mut keys = self.record_keys(&request.live);
        keys.push(self.keys().history(&LiveEpoch {
            live: request.live.clone(),
            epoch: request.epoch,
        }));
        let mut reply = self
            .change(&request.live, &scripts::BEGIN_CLOSE, keys, args)
            .await?;
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

    async fn do_finish_close(&self, request: &FinishClose) -> StoreResult<Option<LiveRecord>> {
        let FinishClose {
            live,
            epoch,
            arrived,
            uniques,
            keep,
        } = request;
        let uniques =
            uniques.map(|uniques| [uniques.viewers.to_string(), uniques.fans.to_string()]);
        let [viewers, fans] = uniques.unwrap_or_default();
        let args = args![
            epoch,
            keep.as_secs(),
            arrived.joins,
            arrived.leaves,
            viewers,
            fans
        ];
        let mut keys = self.record_keys(live);
        keys.push(self.keys().history(&LiveEpoch {
            live: live.clone(),
            epoch: *epoch,
        }));
        let mut reply = self
            .router
            .script(&scripts::FINISH_CLOSE, keys, args)
            .await?;
        reply.text()?;
        let record = record(live, reply)?;
        if let Some(LiveRecord {
            state: LiveState::Closed,
            closure: Some(closure),
            ..
        }) = &record
        {
            // An opening that came in between lists the live with a later time, and stays.
            self.take_off_list(live, closure.at).await?;
        }
        Ok(record)
    }

    async fn do_delist(&self, live: &LiveId) -> StoreResult<()> {
        let args = args![self.keys().lives(), live];
        let listed = self.router.command("ZSCORE", args).await?;
        if listed.is_null() {
            return Ok(());
        }
        let listed = score(listed)?;
        let state = self
            .router
            .command("HGET", args![self.keys().live(live), "state"])
            .await?;
        if state.is_null() || text(state)? == LiveState::Closed.as_str() {
            self.take_off_list(live, listed.ceil().max(0.0) as UnixMillis)
                .await?;
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
            let fields = self
                .router
                .command("HGETALL", args![self.keys().live(live)])
                .await?;
            record(live, Reply::of(fields)?)
        };
        self.router.call("load_live", steps).await
    }

    async fn load_lives(&self, lives: &[LiveId]) -> Vec<StoreResult<Option<LiveRecord>>> {
        let command = |live: &LiveId| vec![("HGETALL", args![self.keys().live(live)])];
        let read = |live: &LiveId, answers: &mut dyn Iterator<Item = _>| {
            record(live, Reply::of(next_answer(answers)?)?)
        };
        self.router
            .read_each("load_lives", lives, command, read)
            .await
    }

    async fn keep_live(&self, record: &LiveRecord, message: &str) -> StoreResult<Standing> {
        self.router
            .call("keep_live", self.do_keep(record, message))
            .await
    }

    async fn list_live(&self, live: &LiveId, opened_at: UnixMillis) -> StoreResult<()> {
        self.router
            .call("list_live", self.list(live, Some(opened_at)))
            .await
    }

    async fn write_info(&self, request: &WriteInfo) -> StoreResult<InfoReply> {
        self.router
            .call("write_info", self.do_write_info(request))
            .await
    }

    async fn begin_close(&self, request: &CloseLive) -> StoreResult<CloseReply> {
        self.router
            .call("begin_close", self.do_begin_close(request))
            .await
    }

    async fn finish_close(&self, request: &FinishClose) -> StoreResult<Option<LiveRecord>> {
        self.router
            .call("finish_close", self.do_finish_close(request))
            .await
    }

    async fn lives_page(
        &self,
        after: Option<&ListedLive>,
        limit: usize,
    ) -> StoreResult<Vec<ListedLive>> {
        let after = after.map(|last| (last.live.as_str().to_owned(), last.opened_at));
        let read = |(live, opened_at): Scored| {
            Some(ListedLive {
                live: LiveId::parse(&live).ok()?,
                opened_at,
            })
        };
        self.router
            .call(
                "lives_page",
                self.page((&self.keys().lives(), Order::Up), after, limit, read),
            )
            .await
    }

    async fn delist(&self, live: &LiveId) -> StoreResult<()> {
        self.router.call("delist", self.do_delist(live)).await
    }

    async fn take_walk_turn(
        &self,
        gateway: &GatewayId,
        ttl: Duration,
        dead: &HashSet<GatewayId>,
    ) -> StoreResult<bool> {
        let key = self.keys().walker();
        let steps = async {
            // Mostly another gateway has the turn, and a look costs Redis a small part of what a
            // script does.
            let holder = self.router.command("GET", args![key]).await?;
            let holder = holder.as_str().unwrap_or_default();
            let is_free = holder.is_empty() || holder == gateway.as_str();
            if !is_free && !dead.contains(&*holder) {
                return Ok(false);
            }
            let args = args![gateway, millis(ttl).max(1), &*holder];
            self.router
                .script(&scripts::TURN, vec![key], args)
                .await?
                .flag()
        };
        self.router.call("take_walk_turn", steps).await
    }
}
