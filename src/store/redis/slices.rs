//! The calls on slices: their scripts, the keys of these, and the meaning of the answers. The
//! scripts must agree with the model, [`crate::store::slice`].

mod claims;
mod fence;
pub(crate) mod look;

use async_trait::async_trait;
use fred::types::Value;

use self::claims::{GatewayTokens, read_entries, read_since};
pub(crate) use self::fence::read_fence;
use super::keys;
use super::reply::{Reply, flag, next_answer, nonsense, text};
use super::{RedisCalls, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, Group, LiveId, OnlineSet, SliceId, UserId};
use crate::store::{
    Apply, ApplyRefusal, ApplyReply, Arrived, ClaimsPage, Drift, Entries, MAX_BATCH, MemberPage,
    Pass, PassCursor, PassPhase, Passed, SliceLook, SliceSize, SliceTotals, Slices, StoreError,
    StoreResult, Uniques,
};

/// About as many users are on a page of a pass. A page takes Redis about 2 ms, and Redis does
/// nothing else meanwhile.
const PASS_PAGE: usize = 500;

/// The arguments for the state of a slice that a gateway knows: its version, the joins and leaves up
/// to that version, the fans and the guests.
fn known_args(known: SliceSize) -> Vec<Value> {
    let Arrived { joins, leaves } = known.arrived();
    args![known.version, joins, leaves, known.fans, known.guests]
}

/// `form` is the form of the ids of users seen; see [`RedisCalls::seen_form`].
fn apply_args(form: &str, call: &Apply, not_after: UnixMillis) -> Vec<Value> {
    if let Some(left) = &call.left {
        debug_assert_eq!(left.len(), call.leaves.len());
    }
    debug_assert_eq!(
        call.since.len() + call.lives.len(),
        match call.slice.set {
            OnlineSet::Live(_) | OnlineSet::Users => call.present().count(),
            OnlineSet::Streamers => 0,
        }
    );
    debug_assert!(!call.bye || call.present().count() + call.leaves.len() == 0);
    let follows = match call.follows {
        Some(number) => number.to_string(),
        None => String::new(),
    };
    let what_next = match (call.bye, call.more) {
        (true, _) => "bye",
        (false, true) => "more",
        (false, false) => "",
    };
    let mut args = args![
        call.epoch,
        call.gateway,
        call.number,
        follows,
        not_after,
        what_next,
        keys::SLICE_TTL.as_secs(),
        keys::ATTENDANCE_TTL.as_secs(),
        keys::TOTALS_TTL.as_secs(),
        form,
        if call.uniques { "1" } else { "" }
    ];
    args.extend(known_args(call.known));
    args.extend(args![call.joins.len(), call.fans.len(), call.leaves.len()]);
    let users = call.present().chain(&call.leaves);
    args.extend(users.map(|user| Value::from(user.as_str())));
    args.extend(call.since.iter().map(|at| Value::from(at.to_string())));
    args.extend(
        call.lives
            .iter()
            .map(|lives| Value::from(join_lives(lives))),
    );
    args.extend(
        call.left
            .iter()
            .flatten()
            .map(|at| Value::from(at.to_string())),
    );
    args
}

fn join_lives(lives: &[LiveId]) -> String {
    let lives: Vec<&str> = lives.iter().map(LiveId::as_str).collect();
    lives.join(",")
}

pub(crate) fn apply_reply(mut reply: Reply) -> StoreResult<ApplyReply> {
    Ok(match reply.text()?.as_str() {
        "done" => ApplyReply::Done(read_size(&mut reply)?),
        "over" => ApplyReply::Over,
        "refused" => ApplyReply::Refused(read_refusal(reply)?),
        "late" => ApplyReply::Late(reply.number()?),
        other => return Err(nonsense(format!("a change answered {other}"))),
    })
}

/// Reads the number of the gateway's entry, which is empty if there is none, and the size of a
/// slice that belongs to the epoch of the call.
fn read_refusal(mut reply: Reply) -> StoreResult<ApplyRefusal> {
    let entry = reply.text()?;
    let entry = if entry.is_empty() {
        None
    } else {
        let number = entry.parse();
        Some(number.map_err(|_| nonsense("an entry that is no number"))?)
    };
    let size = if reply.is_empty() {
        None
    } else {
        Some(read_size(&mut reply)?)
    };
    Ok(ApplyRefusal { entry, size })
}

/// Reads a size from the answer of a script.
fn read_size(reply: &mut Reply) -> StoreResult<SliceSize> {
    Ok(SliceSize {
        card: reply.number()?,
        fans: reply.number()?,
        guests: reply.number()?,
        leaves: reply.number()?,
        version: reply.number()?,
        incarnation: reply.number()?,
        rebuild: reply.flag()?,
        differs: reply.flag()?,
    })
}

fn pass_args(form: &str, pass: &Pass) -> Vec<Value> {
    let (phase, cursor) = match pass.from {
        None => ("begin", 0),
        Some(PassCursor { phase, cursor }) => (phase_word(phase), cursor),
    };
    let wrong = match pass.wrong {
        Some(incarnation) => incarnation.to_string(),
        None => String::new(),
    };
    let mut args = args![
        pass.epoch,
        phase,
        cursor,
        if pass.only_claims { "1" } else { "" },
        PASS_PAGE,
        form,
        keys::SLICE_TTL.as_secs(),
        keys::TOTALS_TTL.as_secs(),
        wrong
    ];
    args.extend(known_args(pass.known));
    for (gateway, last_heard) in &pass.dead {
        args.extend(args![gateway, last_heard]);
    }
    args
}

fn phase_word(phase: PassPhase) -> &'static str {
    match phase {
        PassPhase::Claims => "claims",
        PassPhase::Members => "members",
        PassPhase::Fans => "fans",
    }
}

/// Reads what the next page of a pass looks through; empty at the end.
fn read_phase(word: &str) -> StoreResult<Option<PassPhase>> {
    let phases = [PassPhase::Claims, PassPhase::Members, PassPhase::Fans];
    let phase = phases.into_iter().find(|phase| phase_word(*phase) == word);
    if phase.is_none() && !word.is_empty() {
        return Err(nonsense(format!("a pass goes on with {word}")));
    }
    Ok(phase)
}

/// Reads the answer to a page of a pass; it is empty if the slice does not belong to the epoch.
pub(crate) fn read_passed(mut reply: Reply) -> StoreResult<Option<Passed>> {
    if reply.is_empty() {
        return Ok(None);
    }
    let phase = read_phase(&reply.text()?)?;
    let cursor = reply.number()?;
    Ok(Some(Passed {
        next: phase.map(|phase| PassCursor { phase, cursor }),
        released: reply.number()?,
        drift: Drift {
            stray: reply.number()?,
            missing: reply.number()?,
        },
        size: read_size(&mut reply)?,
    }))
}

/// Reads the answers to HSCAN of the claims and to HGETALL of the entries.
pub(crate) fn read_claims_page(page: Value, entries: Value) -> StoreResult<ClaimsPage> {
    let mut page = Reply::of(page)?;
    let next = page.cursor()?;
    let tokens = GatewayTokens::of(read_entries(entries)?);
    let mut users = Vec::new();
    for (user, value) in page.list()?.pairs()? {
        // Skips what another program wrote: nobody can ask for it by name.
        if let Ok(user) = UserId::read(&user) {
            users.push(tokens.claimed(user, &value));
        }
    }
    Ok(ClaimsPage { users, next })
}

impl RedisCalls {
    /// How ids of users seen are written, for scripts that change a slice. Empty for all sets but
    /// the users of the platform.
    fn seen_form(&self, slice: &SliceId) -> &'static str {
        if slice.set == OnlineSet::Users {
            self.seen_ids().as_str()
        } else {
            ""
        }
    }

    /// Sends a command that takes a key and these users; returns its answer about each user.
    pub(crate) async fn of_each(
        &self,
        command: &'static str,
        key: String,
        users: &[UserId],
    ) -> StoreResult<Vec<Value>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = args![key];
        args.extend(users.iter().map(|user| Value::from(user.as_str())));
        let answers = Reply::of(self.router.command(command, args).await?)?.pieces();
        if answers.len() == users.len() {
            Ok(answers)
        } else {
            Err(nonsense("an answer for other users"))
        }
    }
}

#[async_trait]
impl Slices for RedisCalls {
    /// A call that is too late to make its entry did nothing, and told the node's time. The store
    /// then makes it once more.
    async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply> {
        let keys = self.keys();
        let slice = &call.slice;
        let mut on = keys.with_uniques(slice, keys.with_last_seen(slice, keys.of_slice(slice)));
        on = keys.with_confirmed(slice, call.epoch, on);
        if call.keeps_sessions() {
            on = keys.with_sessions(slice, call.epoch, on);
        }
        let mut not_after = if call.follows.is_some() {
            0
        } else {
            self.router.not_after(&on[0]).await?
        };
        for _ in 0..2 {
            let args = apply_args(self.seen_form(slice), call, not_after);
            let reply = self
                .router
                .script(&scripts::APPLY_CHANGES, on.clone(), args)
                .await?;
            let reply = apply_reply(reply)?;
            let ApplyReply::Late(now) = reply else {
                return Ok(reply);
            };
            not_after = self.router.note_time(&on[0], now);
        }
        Err(StoreError::Timeout)
    }

    async fn look(
        &self,
        slices: &[SliceId],
        gateway: &GatewayId,
        entries: Entries,
    ) -> Vec<StoreResult<SliceLook>> {
        self.router
            .read_each(
                "look",
                slices,
                |slice| look::commands(self.keys(), slice, gateway, entries),
                |slice, answers| look::SliceAnswers::take(slice, entries, answers).read(gateway),
            )
            .await
    }

    async fn pass(&self, pass: &Pass) -> StoreResult<Option<Passed>> {
        let keys = self.keys();
        let slice = &pass.slice;
        let on = keys.with_last_seen(slice, keys.of_slice(slice));
        let on = keys.with_confirmed(slice, pass.epoch, on);
        let on = keys.with_sessions(slice, pass.epoch, on);
        let args = pass_args(self.seen_form(slice), pass);
        read_passed(self.router.script(&scripts::PASS_SLICE, on, args).await?)
    }

    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<SliceTotals> {
        let keys = self.keys();
        let on = keys.with_uniques(slice, keys.of_slice(slice));
        let on = keys.with_confirmed(slice, epoch, on);
        let args = args![epoch, keys::CLOSED_FENCE_TTL.as_secs()];
        let mut reply = self.router.script(&scripts::CLOSE_SLICE, on, args).await?;
        Ok(SliceTotals {
            arrived: Arrived {
                joins: reply.number()?,
                leaves: reply.number()?,
            },
            uniques: Uniques {
                viewers: reply.number()?,
                fans: reply.number()?,
            },
        })
    }

    /// The entries are read last, so that they have the gateway of each claim, unless the gateway
    /// let go of the slice meanwhile.
    async fn claims_page(&self, slice: &SliceId, cursor: u64) -> StoreResult<ClaimsPage> {
        let keys = self.keys();
        let commands = vec![
            ("HSCAN", args![keys.who(slice), cursor, "COUNT", MAX_BATCH]),
            ("HGETALL", args![keys.gateways(slice)]),
        ];
        let mut answers = self.router.read_all(commands).await.into_iter();
        let page = next_answer(&mut answers);
        let entries = next_answer(&mut answers);
        read_claims_page(page?, entries?)
    }

    async fn members_page(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
    ) -> StoreResult<MemberPage> {
        let args = args![
            self.keys().members(slice, group),
            cursor,
            "COUNT",
            MAX_BATCH
        ];
        let mut reply = Reply::of(self.router.command("SSCAN", args).await?)?;
        let next = reply.cursor()?;
        Ok(MemberPage {
            users: reply.list()?.users(),
            next,
        })
    }

    async fn is_member(&self, slice: &SliceId, group: Group, user: &UserId) -> StoreResult<bool> {
        let args = args![self.keys().members(slice, group), user];
        flag(&self.router.command("SISMEMBER", args).await?)
    }

    async fn are_members(
        &self,
        slice: &SliceId,
        group: Group,
        users: &[UserId],
    ) -> StoreResult<Vec<bool>> {
        let answers = self
            .of_each("SMISMEMBER", self.keys().members(slice, group), users)
            .await?;
        answers.iter().map(flag).collect()
    }

    async fn since_of(
        &self,
        slice: &SliceId,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<UnixMillis>>> {
        if slice.set.live().is_none() {
            return Ok(vec![None; users.len()]);
        }
        let mut since = Vec::with_capacity(users.len());
        for claims in self.of_each("HMGET", self.keys().who(slice), users).await? {
            since.push(if claims.is_null() {
                None
            } else {
                read_since(&text(claims)?)
            });
        }
        Ok(since)
    }
}
