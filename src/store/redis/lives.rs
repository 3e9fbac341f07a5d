//! The calls on the records of lives and on the list of open ones. The two lie in different slots
//! of a cluster, so a call that changes both uses the order that leaves no open live unlisted. A
//! crash in between may leave a closed live on the list; [`LiveStore::delist`] removes it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::try_join;

use super::counts::point_args;
use super::paging::{PageOrder, Scored};
use super::reply::{Reply, next_answer, nonsense, score, text};
use super::slices::read_fence;
use super::{RedisCalls, args, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, LiveId, MAX_SLICES, UserId};
use crate::store::LiveEpoch;
use crate::store::redis::live_stream::read_status;
use crate::store::{
    Arrived, ChangeLive, ChangeReply, Channel, CloseLive, CloseReason, CloseReply, Closure,
    Counted, Counts, Figures, FinishClose, Info, LEAP, ListedLive, LiveChange, LiveRecord,
    LiveState, LiveStore, MAX_RECORD_FIELDS, OpenLive, OpenReply, OpenedBy, Peaks, PendingEvent,
    RecordEvents, RecordStanding, StoreResult, Sums, Terms, Uniques,
};

/// The prefix of the fields of pending events; the number of the event follows.
pub(crate) const EVENT_FIELD: &str = "event:";

/// Reads the remaining fields of an answer as a record; no fields mean that there is no record.
pub(crate) fn record(live: &LiveId, fields: Reply) -> StoreResult<Option<LiveRecord>> {
    let found: HashMap<_, _> = fields.pairs()?.into_iter().collect();
    if found.is_empty() {
        return Ok(None);
    }
    match read_record(live, &RecordFields(&found)) {
        Some(record) => Ok(Some(record)),
        None => Err(nonsense(format!("the record of live {live} is garbled"))),
    }
}

/// The fields of a record, by their names.
struct RecordFields<'a>(&'a HashMap<String, String>);

impl<'a> RecordFields<'a> {
    fn word(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(String::as_str)
    }

    /// `None` also if the field is no number.
    fn number(&self, name: &str) -> Option<u64> {
        self.word(name)?.parse().ok()
    }
}

fn read_record(live: &LiveId, fields: &RecordFields<'_>) -> Option<LiveRecord> {
    let state = LiveState::from_word(fields.word("state")?)?;
    let closure = match state {
        LiveState::Open => None,
        LiveState::Closing | LiveState::Closed => Some(Closure {
            reason: CloseReason::from_word(fields.word("reason")?)?,
            at: fields.number("closed_at")?,
        }),
    };
    let slices = u32::try_from(fields.number("slices")?).ok()?;
    if !(1..=MAX_SLICES).contains(&slices) {
        return None;
    }
    let unique_viewers = fields.number("unique_viewers");
    let unique_fans = fields.number("unique_fans");
    let uniques = match (unique_viewers, unique_fans) {
        (Some(viewers), Some(fans)) => Some(Uniques { viewers, fans }),
        _ => None,
    };
    Some(LiveRecord {
        live: live.clone(),
        state,
        streamer: UserId::parse(fields.word("streamer_id")?).ok()?,
        epoch: Epoch(fields.number("epoch")?),
        slices,
        opened_at: fields.number("opened_at")?,
        opened_by: OpenedBy::from_word(fields.word("opened_by")?)?,
        peaks: Peaks {
            viewers: fields.number("peak_viewers")?,
            fans: fields.number("peak_fans")?,
        },
        closure,
        removals: fields.number("removals").unwrap_or(0),
        version: fields.number("version").unwrap_or(0),
        terms: Terms {
            title: fields.word("title").map(str::to_owned),
            streamer_timeout: fields.number("streamer_timeout_s").map(Duration::from_secs),
            attendance: fields.word("attendance") == Some("1"),
            invisible: fields.word("invisible") == Some("1"),
            hosts: read_hosts(fields.word("hosts").unwrap_or_default()),
        },
        info: Info {
            version: fields.number("info_version").unwrap_or(0),
            json: fields.word("info").map(Arc::from),
        },
        counted: fields.number("counted_at").map(|at| Counted {
            figures: read_figures(
                fields.word("viewers"),
                fields.word("fans"),
                fields.word("guests"),
            ),
            at,
        }),
        sums: Sums {
            arrived: Arrived {
                joins: fields.number("joins").unwrap_or(0),
                leaves: fields.number("leaves").unwrap_or(0),
            },
            watched_ms: fields.number("watched_ms").unwrap_or(0),
            uniques,
        },
        events: read_events(fields),
        stream: fields.word("stream").and_then(read_status),
    })
}

/// Skips what is no id: another program wrote it.
fn read_hosts(text: &str) -> Vec<UserId> {
    let words = text.split_ascii_whitespace();
    words.filter_map(|word| UserId::parse(word).ok()).collect()
}

/// Hosts as an argument; the scripts do not write an empty one.
fn hosts_arg(hosts: &[UserId]) -> String {
    let words: Vec<&str> = hosts.iter().map(UserId::as_str).collect();
    words.join(" ")
}

/// Reads the fields `viewers`, `fans` and `guests`; a field that is absent or no number counts as
/// zero.
pub(crate) fn read_figures(
    viewers: Option<&str>,
    fans: Option<&str>,
    guests: Option<&str>,
) -> Figures {
    Figures {
        viewers: read_figure(viewers),
        fans: read_figure(fans),
        guests: read_figure(guests),
    }
}

fn read_figure(text: Option<&str>) -> u64 {
    match text {
        Some(text) => text.parse().unwrap_or(0),
        None => 0,
    }
}

/// Reads the events that a record notes. Skips events that cannot be read: another program, or a
/// later version of this one, wrote them.
fn read_events(fields: &RecordFields<'_>) -> RecordEvents {
    let mut pending = Vec::new();
    for (name, text) in fields.0 {
        if let Some(event) = read_pending_event(name, text) {
            pending.push(event);
        }
    }
    pending.sort_unstable_by_key(|event| event.number);
    RecordEvents {
        pending,
        told: read_counts_told(fields),
    }
}

/// `None` for a field of another kind, and for an event that cannot be read.
fn read_pending_event(name: &str, text: &str) -> Option<PendingEvent> {
    let number = name.strip_prefix(EVENT_FIELD)?.parse().ok()?;
    PendingEvent::parse(number, text)
}

/// Reads `<viewers> <fans> <at>`, with the guests before the time if there were any.
fn read_counts_told(fields: &RecordFields<'_>) -> Option<Counted> {
    let (figures, at) = fields.word("counts_told")?.rsplit_once(' ')?;
    let mut figures = figures.split(' ');
    Some(Counted {
        figures: read_figures(figures.next(), figures.next(), figures.next()),
        at: at.parse().ok()?,
    })
}

/// `None` for another program's member.
fn read_listed((live, opened_at): Scored) -> Option<ListedLive> {
    Some(ListedLive {
        live: LiveId::parse(&live).ok()?,
        opened_at,
    })
}

/// The arguments for the terms of a live; the scripts do not write an empty one.
fn terms_args(terms: &Terms) -> Vec<Value> {
    args![
        terms.title.as_deref().unwrap_or_default(),
        timeout_arg(terms.streamer_timeout)
    ]
}

/// A streamer timeout as an argument, in seconds; empty for the default.
fn timeout_arg(timeout: Option<Duration>) -> String {
    match timeout {
        Some(timeout) => timeout.as_secs().to_string(),
        None => String::new(),
    }
}

fn flag_args(terms: &Terms) -> Vec<Value> {
    args![flag_arg(terms.attendance), flag_arg(terms.invisible)]
}

/// A flag as an argument; the scripts do not write an empty one.
fn flag_arg(is_set: bool) -> &'static str {
    if is_set { "1" } else { "" }
}

/// Reads a record that must be there.
fn sure_record(live: &LiveId, fields: Reply) -> StoreResult<LiveRecord> {
    match record(live, fields)? {
        Some(record) => Ok(record),
        None => Err(nonsense("a record without fields")),
    }
}

impl RedisCalls {
    /// The keys of the record and of its epoch's removals and bans.
    pub(crate) fn record_keys(&self, live: &LiveId) -> Vec<String> {
        let keys = self.keys();
        vec![keys.live(live), keys.removals(live), keys.bans(live)]
    }

    /// The last arguments of a script that publishes its change on the live's channel.
    pub(crate) fn publish_args(&self, live: &LiveId, message: &str) -> [Value; 2] {
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
            if let Some(fence) = read_fence(fence?)? {
                highest = highest.max(fence.epoch());
            }
        }
        Ok(highest)
    }

    /// Puts a live on the list. An entry without a time is a hint that the live may open soon.
    async fn list(&self, live: &LiveId, opened_at: Option<UnixMillis>) -> StoreResult<()> {
        let args = args![live, opened_at.map(|at| at.to_string()).unwrap_or_default()];
        self.router
            .script(&scripts::LIST_LIVE, self.keys().list(), args)
            .await?;
        Ok(())
    }

    async fn take_off_list(&self, live: &LiveId, listed_until: UnixMillis) -> StoreResult<()> {
        let args = args![live, listed_until];
        self.router
            .script(&scripts::DELIST_LIVE, self.keys().list(), args)
            .await?;
        Ok(())
    }
}

#[async_trait]
impl LiveStore for RedisCalls {
    async fn open_live(&self, request: &OpenLive) -> StoreResult<OpenReply> {
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
        args.extend(args![hosts_arg(&request.terms.hosts)]);
        let mut reply = self
            .change(
                &request.live,
                &scripts::OPEN_LIVE,
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
                // The list may still have an older epoch's time. The live is listed already, which
                // the ranks require.
                let figures = [(request.live.clone(), Figures::default())];
                try_join!(
                    self.list(&request.live, Some(record.opened_at)),
                    self.rank_lives(&figures)
                )?;
                OpenReply::Opened(record)
            }
            "already" => OpenReply::AlreadyOpen(record),
            "owned" => OpenReply::Owned(record),
            "closing" => OpenReply::Closing(record),
            other => return Err(nonsense(format!("an opening answered {other}"))),
        })
    }

    async fn load_live(&self, live: &LiveId) -> StoreResult<Option<LiveRecord>> {
        let fields = self
            .router
            .command("HGETALL", args![self.keys().live(live)])
            .await?;
        record(live, Reply::of(fields)?)
    }

    async fn load_lives(&self, lives: &[LiveId]) -> Vec<StoreResult<Option<LiveRecord>>> {
        self.router
            .read_each(
                "load_lives",
                lives,
                |live| vec![("HGETALL", args![self.keys().live(live)])],
                |live, answers| record(live, Reply::of(next_answer(answers)?)?),
            )
            .await
    }

    async fn keep_live(&self, record: &LiveRecord, message: &str) -> StoreResult<RecordStanding> {
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
            record.version,
            record.info.version,
            record.info.json.as_deref().unwrap_or_default()
        ]);
        args.extend(self.publish_args(&record.live, message));
        args.extend(flag_args(&record.terms));
        args.extend(args![hosts_arg(&record.terms.hosts)]);
        let mut keys = self.record_keys(&record.live);
        keys.push(self.keys().erased_live(&record.live));
        let mut reply = self
            .change(&record.live, &scripts::KEEP_LIVE, keys, args)
            .await?;
        match reply.text()?.as_str() {
            "open" => Ok(RecordStanding::Open {
                removals: reply.number()?,
                version: reply.number()?,
            }),
            "rewritten" => {
                self.list(&record.live, Some(record.opened_at)).await?;
                Ok(RecordStanding::Rewritten)
            }
            "over" => Ok(RecordStanding::Over(sure_record(&record.live, reply)?)),
            "erased" => Ok(RecordStanding::Over(LiveRecord {
                state: LiveState::Closed,
                closure: Some(Closure {
                    reason: CloseReason::Requested,
                    at: reply.number()?,
                }),
                ..record.clone()
            })),
            other => Err(nonsense(format!("a live that is kept answered {other}"))),
        }
    }

    async fn are_listed(&self, lives: &[LiveId]) -> StoreResult<Vec<bool>> {
        if lives.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = args![self.keys().lives()];
        args.extend(lives.iter().map(|live| Value::from(live.as_str())));
        let scores = Reply::of(self.router.command("ZMSCORE", args).await?)?.pieces();
        Ok(scores.iter().map(|score| !score.is_null()).collect())
    }

    async fn list_live(&self, live: &LiveId, opened_at: UnixMillis) -> StoreResult<()> {
        self.list(live, Some(opened_at)).await
    }

    async fn change_live(&self, request: &ChangeLive) -> StoreResult<ChangeReply> {
        let mut args = args![request.epoch];
        args.extend(self.publish_args(&request.live, &request.message));
        let LiveChange {
            info,
            title,
            streamer_timeout,
            hosts,
        } = &request.change;
        if let Some(json) = info {
            args.extend(args!["info", json.as_deref().unwrap_or_default()]);
        }
        if let Some(title) = title {
            args.extend(args!["title", title.as_deref().unwrap_or_default()]);
        }
        if let Some(timeout) = streamer_timeout {
            args.extend(args!["streamer_timeout_s", timeout_arg(*timeout)]);
        }
        if let Some(hosts) = hosts {
            args.extend(args!["hosts", hosts_arg(hosts)]);
        }
        let keys = vec![
            self.keys().live(&request.live),
            self.keys().bans(&request.live),
        ];
        let mut reply = self
            .change(&request.live, &scripts::CHANGE_LIVE, keys, args)
            .await?;
        match reply.text()?.as_str() {
            "changed" => Ok(ChangeReply::Changed(reply.number()?)),
            "over" => Ok(ChangeReply::Over),
            "absent" => Ok(ChangeReply::Absent),
            "banned" => match UserId::parse(&reply.text()?) {
                Ok(user) => Ok(ChangeReply::Banned(user)),
                Err(why) => Err(nonsense(why.to_string())),
            },
            other => Err(nonsense(format!("a change of a live answered {other}"))),
        }
    }

    async fn begin_close(&self, request: &CloseLive) -> StoreResult<CloseReply> {
        let Peaks { viewers, fans } = request.peaks;
        let mut args = args![
            request.epoch,
            request.reason.as_str(),
            viewers,
            fans,
            MAX_RECORD_FIELDS
        ];
        args.extend(self.publish_args(&request.live, &request.message));
        args.push(Value::from(flag_arg(request.uniques)));
        args.extend(point_args());
        let mut keys = self.record_keys(&request.live);
        keys.push(self.keys().history(&LiveEpoch {
            live: request.live.clone(),
            epoch: request.epoch,
        }));
        let mut reply = self
            .change(&request.live, &scripts::BEGIN_LIVE_CLOSE, keys, args)
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

    async fn finish_close(&self, request: &FinishClose) -> StoreResult<Option<LiveRecord>> {
        let FinishClose {
            live,
            epoch,
            arrived,
            uniques,
            keep,
        } = request;
        let (viewers, fans) = match uniques {
            Some(uniques) => (uniques.viewers.to_string(), uniques.fans.to_string()),
            None => (String::new(), String::new()),
        };
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
            .script(&scripts::FINISH_LIVE_CLOSE, keys, args)
            .await?;
        reply.text()?;
        let record = record(live, reply)?;
        if let Some(LiveRecord {
            state: LiveState::Closed,
            closure: Some(closure),
            ..
        }) = &record
        {
            // If the live was opened again meanwhile, its entry has a later time and stays.
            self.take_off_list(live, closure.at).await?;
        }
        Ok(record)
    }

    async fn lives_page(
        &self,
        after: Option<&ListedLive>,
        limit: usize,
    ) -> StoreResult<Vec<ListedLive>> {
        let after = after.map(|last| (last.live.as_str().to_owned(), last.opened_at));
        let key = self.keys().lives();
        self.page(&key, PageOrder::Up, after, limit, read_listed)
            .await
    }

    async fn delist(&self, live: &LiveId) -> StoreResult<()> {
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

    async fn take_walk_turn(
        &self,
        gateway: &GatewayId,
        ttl: Duration,
        dead: &HashSet<GatewayId>,
    ) -> StoreResult<bool> {
        let key = self.keys().walker();
        // Mostly another gateway has the turn, and this command costs Redis a small part of the
        // script.
        let holder = self.router.command("GET", args![key]).await?;
        let holder = holder.as_str().unwrap_or_default();
        let is_free = holder.is_empty() || holder == gateway.as_str();
        if !is_free && !dead.contains(&*holder) {
            return Ok(false);
        }
        let args = args![gateway, millis(ttl).max(1), &*holder];
        self.router
            .script(&scripts::TAKE_WALK_TURN, vec![key], args)
            .await?
            .flag()
    }
}
