//! The calls on slices: which script, with which keys, and what its answer means. The scripts must
//! agree with the model, [`crate::store::slice`].

use async_trait::async_trait;
use fred::types::Value;

use super::keys::{self, Keys};
use super::node::Command;
use super::reply::{Reply, flag, next_answer, nonsense, number, text};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, Group, LiveId, OnlineSet, SliceId, UserId};
use crate::store::Fence;
use crate::store::{
    Apply, ApplyReply, Arrived, Compared, DroppedNotes, HeldFrom, HeldPage, Holders, MAX_BATCH,
    MemberPage, PutBackPage, Settled, SlicePart, SliceReading, SliceSize, SliceSurvey, SliceTotals,
    SliceView, Slices, StoreError, StoreResult, Strays, StraysPage, Surplus, Swept, Uniques,
};

/// What a gateway knows of a slice: its version, and by then how many came, how many left and how
/// many fans were there.
fn known_args(known: SliceSize) -> Vec<Value> {
    let Arrived { joins, leaves } = known.arrived();
    args![known.version, joins, leaves, known.fans]
}

fn apply_args((keys, form): (&Keys, &str), call: &Apply, not_after: UnixMillis) -> Vec<Value> {
    debug_assert!(
        call.left
            .as_ref()
            .is_none_or(|left| left.len() == call.leaves.len())
    );
    debug_assert_eq!(
        call.since.len() + call.lives.len(),
        if call.slice.set.keeps_notes() {
            call.present().count()
        } else {
            0
        }
    );
    let mut args = args![
        call.epoch,
        call.gateway,
        call.number,
        call.follows
            .map(|number| number.to_string())
            .unwrap_or_default(),
        not_after,
        keys::SLICE_TTL.as_secs(),
        keys.held_prefix(&call.slice, Group::All),
        keys.held_prefix(&call.slice, Group::Fans),
        keys::ATTENDANCE_TTL.as_secs(),
        form,
        call.joins.len(),
        call.fans.len(),
        call.leaves.len()
    ];
    args.extend(known_args(call.known));
    args.extend(args![
        if call.uniques { "1" } else { "" },
        keys::TOTALS_TTL.as_secs()
    ]);
    args.extend(call.present().map(|user| Value::from(user.as_str())));
    args.extend(call.since.iter().map(|at| Value::from(at.to_string())));
    args.extend(
        call.lives
            .iter()
            .map(|lives| Value::from(join_lives(lives))),
    );
    args.extend(call.leaves.iter().map(|user| Value::from(user.as_str())));
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

pub(super) fn apply_reply(mut reply: Reply) -> StoreResult<ApplyReply> {
    Ok(match reply.text()?.as_str() {
        "done" => {
            let (held, held_fans) = (reply.number()?, reply.number()?);
            let noted = read_noted(&reply.text()?)?;
            ApplyReply::Done(SliceView {
                size: read_size(&mut reply)?,
                held,
                held_fans,
                noted,
            })
        }
        "closed" => ApplyReply::Closed,
        "newer" => ApplyReply::Newer(Epoch(reply.number()?)),
        "old" => ApplyReply::Old,
        "unknown" => ApplyReply::Unknown,
        "late" => ApplyReply::Late(reply.number()?),
        other => return Err(nonsense(format!("a change answered {other}"))),
    })
}

pub(super) fn read_slice(mut reply: Reply) -> StoreResult<SliceReading> {
    let there = Cards {
        members: reply.number()?,
        fans: reply.number()?,
    };
    let word = reply.text()?;
    let fence = read_fence_word(&word)?;
    let size = fenced_size(&word, there);
    let entry = reply.text()?;
    let entry = if entry.is_empty() {
        None
    } else {
        Some(
            entry
                .parse()
                .map_err(|_| nonsense("an entry that is no number"))?,
        )
    };
    let (held, held_fans) = (reply.number()?, reply.number()?);
    let noted = read_noted(&reply.text()?)?;
    Ok(SliceReading {
        size,
        fence,
        entry,
        held,
        held_fans,
        noted,
        gateways: reply.gateways()?,
    })
}

/// Reads a size from the answer of a script: members, fans, how many left, version, whether it is
/// in doubt.
fn read_size(reply: &mut Reply) -> StoreResult<SliceSize> {
    Ok(SliceSize {
        card: reply.number()?,
        fans: reply.number()?,
        leaves: reply.number()?,
        version: reply.number()?,
        in_doubt: reply.flag()?,
    })
}

/// How many users the sets of a slice have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cards {
    pub(super) members: u64,
    pub(super) fans: u64,
}

/// Reads the number of members of whom something is noted; empty is none.
pub(super) fn read_noted(word: &str) -> StoreResult<Option<u64>> {
    if word.is_empty() {
        Ok(None)
    } else {
        word.parse()
            .map(Some)
            .map_err(|_| nonsense("a count of notes"))
    }
}

/// The fence and the parts of a slice; how much each part holds is in other keys, and left zero.
fn read_parts(fence: Value, entries: Value) -> StoreResult<Parts> {
    let entries = Reply::of(entries)?.pairs()?;
    // What is no number is no entry, as in the scripts.
    let entries = entries
        .into_iter()
        .filter_map(|(name, number)| Some((name, number.parse().ok()?)));
    let parts = entries.map(|(name, entry)| {
        let gateway = GatewayId::parse(&name).map_err(|_| nonsense("a gateway's name"))?;
        Ok(SlicePart {
            gateway,
            entry,
            held: 0,
            held_fans: 0,
        })
    });
    let fence = if fence.is_null() {
        String::new()
    } else {
        text(fence)?
    };
    Ok(Parts {
        fence,
        parts: parts.collect::<StoreResult<_>>()?,
    })
}

/// The text of a slice's fence, and its parts.
#[derive(Clone)]
struct Parts {
    fence: String,
    parts: Vec<SlicePart>,
}

/// A slice with what [`read_parts`] read of it.
type FoundParts<'a> = (&'a SliceId, StoreResult<Parts>);

/// The commands for the sizes of a slice and its parts, in the order in which [`read_sizes`] takes
/// their answers.
fn size_commands(keys: &Keys, (slice, found): &FoundParts<'_>) -> Vec<Command> {
    let Ok(Parts { parts, .. }) = found else {
        return Vec::new();
    };
    let mut commands = Vec::new();
    for group in slice.set.groups() {
        commands.push(("SCARD", args![keys.members(slice, *group)]));
        commands.extend(
            parts
                .iter()
                .map(|part| ("SCARD", args![keys.held(slice, *group, &part.gateway)])),
        );
    }
    commands.extend(keys.notes(slice).map(|notes| ("HLEN", args![notes])));
    commands
}

fn read_sizes(
    (slice, found): &FoundParts<'_>,
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
) -> StoreResult<SliceSurvey> {
    let Parts { fence, mut parts } = found.clone()?;
    // Take all of them, whatever the first is, so that the next slice finds its own.
    let per_group = 1 + parts.len();
    let mut take = |count: usize| -> Vec<_> { (0..count).map(|_| next_answer(answers)).collect() };
    let groups: Vec<_> = slice
        .set
        .groups()
        .iter()
        .map(|group| (*group, take(per_group)))
        .collect();
    let noted = slice
        .set
        .keeps_notes()
        .then(|| take(1))
        .and_then(|noted| noted.into_iter().next());
    let mut there = Cards {
        members: 0,
        fans: 0,
    };
    for (group, answers) in groups {
        let mut counts = answers.into_iter().map(|answer| number(&answer?));
        let card = counts.next().transpose()?.unwrap_or_default();
        match group {
            Group::All => there.members = card,
            Group::Fans => there.fans = card,
        }
        for (part, held) in parts.iter_mut().zip(counts) {
            match group {
                Group::All => part.held = held?,
                Group::Fans => part.held_fans = held?,
            }
        }
    }
    let noted = noted.map(|noted| number(&noted?)).transpose()?;
    let SliceSize {
        leaves,
        in_doubt: may_be_in_doubt,
        ..
    } = fenced_size(&fence, there);
    let Cards {
        members: card,
        fans,
    } = there;
    Ok(SliceSurvey {
        fence: read_fence_word(&fence)?,
        card,
        fans,
        leaves,
        noted,
        may_be_in_doubt,
        parts,
    })
}

/// The size of a slice with this fence and so many users. It is in doubt if the fence says so, or
/// counts others: the next call finds that out.
pub(super) fn fenced_size(fence: &str, there: Cards) -> SliceSize {
    let read = || {
        let mut words = fence.strip_prefix("open:")?.split(':').skip(1);
        let version = words.next()?.parse().ok()?;
        let (joins, leaves) = words.next()?.split_once('-')?;
        let leaves = leaves.parse().ok()?;
        let card = joins.parse::<u64>().ok()?.checked_sub(leaves)?;
        let fans = words.next()?.parse().ok()?;
        let in_doubt = words.next().is_some() || (card, fans) != (there.members, there.fans);
        Some(SliceSize {
            card,
            fans,
            leaves,
            version,
            in_doubt,
        })
    };
    read().unwrap_or(SliceSize {
        in_doubt: there.members + there.fans > 0,
        ..SliceSize::default()
    })
}

/// The commands that compare a slice with what gateways hold, group by group: who is in the group
/// and held by nobody, and, gateway by gateway, who is held and not in the group.
fn differ_commands(
    keys: &Keys,
    Holders {
        slice,
        gateways,
        overlap,
    }: &Holders,
) -> Vec<Command> {
    let mut commands = Vec::new();
    for group in slice.set.groups() {
        let set = keys.members(slice, *group);
        let held: Vec<String> = gateways
            .iter()
            .map(|gateway| keys.held(slice, *group, gateway))
            .collect();
        let strays = std::iter::once(set.clone())
            .chain(held.iter().cloned())
            .map(Value::from)
            .collect();
        commands.push(("SDIFF", strays));
        if *overlap {
            commands.extend(
                held.into_iter()
                    .map(|held| ("SDIFF", args![held, set.clone()])),
            );
        }
    }
    commands
}

/// Whether any of those answers names anybody.
fn read_differ(
    holders: &Holders,
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
) -> StoreResult<bool> {
    let lacking = if holders.overlap {
        holders.gateways.len()
    } else {
        0
    };
    let answered = (1 + lacking) * holders.slice.set.groups().len();
    // Take all of them, whatever the first is, so that the next slice finds its own.
    let found: Vec<_> = (0..answered).map(|_| next_answer(answers)).collect();
    let mut differs = false;
    for found in found {
        differs |= Reply::of(found?)?.piece().is_some();
    }
    Ok(differs)
}

/// Reads the answer to a GET of a fence.
pub(super) fn read_fence(answer: Value) -> StoreResult<Option<Fence>> {
    if answer.is_null() {
        Ok(None)
    } else {
        read_fence_word(&text(answer)?)
    }
}

/// Reads what [`super::keys::Keys::fence`] says; empty is none.
pub(super) fn read_fence_word(word: &str) -> StoreResult<Option<Fence>> {
    let read = || match word.split_once(':')? {
        ("open", rest) => Some(Fence::Open(Epoch(rest.split(':').next()?.parse().ok()?))),
        ("closed", rest) => Some(Fence::Closed(Epoch(rest.split(':').next()?.parse().ok()?))),
        _ => None,
    };
    if word.is_empty() {
        return Ok(None);
    }
    read()
        .map(Some)
        .ok_or_else(|| nonsense("a fence without an epoch"))
}

/// Reads how many users a slice has more than the scripts counted.
fn read_surplus(word: &str) -> StoreResult<i64> {
    word.parse().map_err(|_| nonsense("a difference of sizes"))
}

/// Another program wrote what is no user id; nobody can ask for it or take it out by name.
fn users(members: Reply) -> Vec<UserId> {
    members
        .texts()
        .filter_map(|member| UserId::parse(&member).ok())
        .collect()
}

impl RedisStore {
    /// How ids of users seen are written, for scripts that change a slice; empty for all but the
    /// users of the platform.
    fn seen_form(&self, slice: &SliceId) -> &'static str {
        if slice.set == OnlineSet::Users {
            self.seen_ids().as_str()
        } else {
            ""
        }
    }

    /// What a command of a key says of each of these users.
    async fn of_each(
        &self,
        (command, key): (&'static str, String),
        users: &[UserId],
    ) -> StoreResult<Vec<Value>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = args![key];
        args.extend(users.iter().map(|user| Value::from(user.as_str())));
        let mut reply = Reply::of(self.router.command(command, args).await?)?;
        let answers: Vec<Value> = std::iter::from_fn(|| reply.piece()).collect();
        if answers.len() == users.len() {
            Ok(answers)
        } else {
            Err(nonsense("an answer for other users"))
        }
    }

    async fn scan(&self, key: String, cursor: u64) -> StoreResult<MemberPage> {
        let args = args![key, cursor, "COUNT", MAX_BATCH];
        let mut reply = Reply::of(self.router.command("SSCAN", args).await?)?;
        let next = reply.number()?;
        Ok(MemberPage {
            users: users(reply.list()?),
            next: (next != 0).then_some(next),
        })
    }

    async fn read_held(
        &self,
        slice: &SliceId,
        group: Group,
        gateway: &GatewayId,
        cursor: u64,
    ) -> StoreResult<HeldPage> {
        let keys = self.keys();
        let mut on = vec![keys.members(slice, group), keys.held(slice, group, gateway)];
        if group == Group::All {
            on = keys.with_notes(slice, on);
        }
        let prefix = if slice.set == OnlineSet::Users {
            keys.held_prefix(slice, group)
        } else {
            String::new()
        };
        let args = args![cursor, MAX_BATCH, gateway, prefix];
        let mut reply = self.router.script(&scripts::HELD, on, args).await?;
        let next = reply.number()?;
        let held: Vec<String> = reply.list()?.texts().collect();
        let missing = users(reply.list()?);
        let lives = held
            .iter()
            .zip(reply.list()?.texts())
            .filter_map(|(user, lives)| {
                let lives = lives.split(',').filter_map(|live| LiveId::parse(live).ok());
                Some((UserId::parse(user).ok()?, lives.collect()))
            });
        let lives = lives.collect();
        let held = held.iter().filter_map(|user| UserId::parse(user).ok());
        Ok(HeldPage {
            users: held.collect(),
            missing,
            lives,
            next: (next != 0).then_some(next),
        })
    }

    /// A call that is too late to make its entry did nothing. It is made once more, now that the
    /// node's time is known.
    async fn do_apply(&self, call: &Apply) -> StoreResult<ApplyReply> {
        let (keys, slice) = (self.keys(), &call.slice);
        let mut on = keys.with_ends(slice, keys.of_gateway(slice, &call.gateway));
        on = keys.with_uniques(slice, keys.with_fans(slice, &call.gateway, on));
        if call.keeps_sessions() {
            on.extend([
                keys.stays(slice, call.epoch),
                keys.sessions(slice, call.epoch),
            ]);
        }
        let mut not_after = if call.follows.is_some() {
            0
        } else {
            self.router.not_after(&on[0]).await?
        };
        for _ in 0..2 {
            let args = apply_args((self.keys(), self.seen_form(&call.slice)), call, not_after);
            let reply = apply_reply(
                self.router
                    .script(&scripts::APPLY, on.clone(), args)
                    .await?,
            )?;
            let ApplyReply::Late(now) = reply else {
                return Ok(reply);
            };
            not_after = self.router.note_time(&on[0], now);
        }
        Err(StoreError::Timeout)
    }

    async fn do_strays(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
        most: usize,
        strays: Strays,
    ) -> StoreResult<StraysPage> {
        let args = args![
            cursor,
            most,
            self.keys().held_prefix(slice, group),
            match strays {
                Strays::Count => "count",
                Strays::Drop => "drop",
            },
            self.keys().stays_prefix(slice),
            self.seen_form(slice)
        ];
        let keys = self.keys();
        let members = keys.members(slice, Group::All);
        let on = vec![
            members,
            keys.fence(slice),
            keys.gateways(slice),
            keys.members(slice, group),
        ];
        let on = keys.with_all_fans(slice, keys.with_ends(slice, on));
        let mut reply = self.router.script(&scripts::STRAYS, on, args).await?;
        let next = reply.number()?;
        let strays = reply.number()?;
        let (card, held) = (reply.number()?, reply.number()?);
        let size = read_size(&mut reply)?;
        Ok(StraysPage {
            strays,
            names: users(reply),
            next: (next != 0).then_some(next),
            size,
            card,
            held,
        })
    }

    /// The keys of a script that compares sizes.
    fn size_keys(&self, slice: &SliceId) -> Vec<String> {
        let keys = self.keys();
        keys.with_all_fans(
            slice,
            vec![keys.members(slice, Group::All), keys.fence(slice)],
        )
    }

    async fn do_compare(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        known: SliceSize,
    ) -> StoreResult<Option<Compared>> {
        let mut args = args![epoch];
        args.extend(known_args(known));
        let mut reply = self
            .router
            .script(&scripts::COMPARE, self.size_keys(slice), args)
            .await?;
        let Some(members) = reply.piece() else {
            return Ok(None);
        };
        let surplus = Surplus {
            members: read_surplus(&text(members)?)?,
            fans: read_surplus(&reply.text()?)?,
        };
        let (wait, began) = (reply.number()?, reply.flag()?);
        Ok(Some(Compared {
            size: read_size(&mut reply)?,
            surplus,
            wait,
            began,
        }))
    }

    async fn do_put_back(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        gateway: &GatewayId,
        page: HeldFrom,
    ) -> StoreResult<PutBackPage> {
        let keys = self.keys();
        let (set, held) = (
            keys.members(slice, page.group),
            keys.held(slice, page.group, gateway),
        );
        let mut on = vec![
            keys.members(slice, Group::All),
            keys.fence(slice),
            set,
            held,
        ];
        if slice.set.live().is_some() {
            // In which lives a user of the platform is only the gateway knows that holds the user.
            on = keys.with_all_fans(slice, keys.with_notes(slice, on));
        }
        let args = args![page.cursor, page.most, epoch, keys::SLICE_TTL.as_secs()];
        let mut reply = self.router.script(&scripts::PUT_BACK, on, args).await?;
        let next = reply.number()?;
        let put_back = reply.number()?;
        let size = read_size(&mut reply)?;
        Ok(PutBackPage {
            put_back,
            next: (next != 0).then_some(next),
            size,
        })
    }

    async fn do_settle(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        surplus: Surplus,
    ) -> StoreResult<Settled> {
        let args = args![epoch, surplus.members.to_string(), surplus.fans.to_string()];
        let mut reply = self
            .router
            .script(&scripts::SETTLE, self.size_keys(slice), args)
            .await?;
        Ok(match reply.text()?.as_str() {
            "settled" => Settled::Settled(read_size(&mut reply)?),
            "early" => Settled::Early,
            "changed" => Settled::Changed,
            "over" => Settled::Over,
            other => return Err(nonsense(format!("the end of a doubt answered {other}"))),
        })
    }

    async fn do_drop_foreign_keys(
        &self,
        slice: &SliceId,
        gateway: &GatewayId,
    ) -> StoreResult<Vec<String>> {
        let keys = self.keys();
        let on = keys.with_fans(
            slice,
            gateway,
            keys.with_notes(slice, keys.of_gateway(slice, gateway)),
        );
        let on = keys.with_uniques(slice, on);
        let [held, held_fans] =
            [Group::All, Group::Fans].map(|group| keys.held_prefix(slice, group));
        let args = args![
            held,
            held_fans,
            keys.stays_prefix(slice),
            keys.sessions_prefix(slice)
        ];
        Ok(self
            .router
            .script(&scripts::DROP_FOREIGN_KEYS, on, args)
            .await?
            .texts()
            .collect())
    }
}

#[async_trait]
impl Slices for RedisStore {
    async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply> {
        self.router.call("apply", self.do_apply(call)).await
    }

    async fn read_slice(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<SliceReading> {
        let args = args![gateway];
        let keys = self.keys();
        let on = keys.with_fans(
            slice,
            gateway,
            keys.with_notes(slice, keys.of_gateway(slice, gateway)),
        );
        let steps = async { read_slice(self.router.script(&scripts::READ, on, args).await?) };
        self.router.call("read_slice", steps).await
    }

    async fn survey(&self, slices: &[SliceId]) -> Vec<StoreResult<SliceSurvey>> {
        let commands = |slice: &SliceId| {
            vec![
                ("GET", args![self.keys().fence(slice)]),
                ("HGETALL", args![self.keys().gateways(slice)]),
            ]
        };
        let read = |_: &SliceId, answers: &mut dyn Iterator<Item = _>| {
            let (fence, entries) = (next_answer(answers), next_answer(answers));
            read_parts(fence?, entries?)
        };
        let parts = self
            .router
            .read_each("survey", slices, commands, read)
            .await;
        let found: Vec<_> = slices.iter().zip(parts).collect();
        self.router
            .read_each(
                "survey",
                &found,
                |found| size_commands(self.keys(), found),
                read_sizes,
            )
            .await
    }

    async fn sweep(
        &self,
        slice: &SliceId,
        gateway: &GatewayId,
        most: usize,
        last_heard: UnixMillis,
    ) -> StoreResult<Swept> {
        let keys = self.keys();
        let [held, held_fans] =
            [Group::All, Group::Fans].map(|group| keys.held_prefix(slice, group));
        let stays = keys.stays_prefix(slice);
        let args = args![
            gateway,
            most,
            held,
            held_fans,
            stays,
            last_heard,
            self.seen_form(slice)
        ];
        let steps = async {
            let on = keys.with_fans(
                slice,
                gateway,
                keys.with_ends(slice, keys.of_gateway(slice, gateway)),
            );
            let mut reply = self.router.script(&scripts::SWEEP, on, args).await?;
            let (released, done) = (reply.number()?, reply.flag()?);
            Ok(Swept {
                released,
                done,
                size: read_size(&mut reply)?,
            })
        };
        self.router.call("sweep", steps).await
    }

    async fn differ_from_held(&self, slices: &[Holders]) -> Vec<StoreResult<bool>> {
        let commands = |holders: &Holders| differ_commands(self.keys(), holders);
        self.router
            .read_each("differ_from_held", slices, commands, read_differ)
            .await
    }

    async fn strays(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
        most: usize,
        strays: Strays,
    ) -> StoreResult<StraysPage> {
        self.router
            .call("strays", self.do_strays(slice, group, cursor, most, strays))
            .await
    }

    async fn compare(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        known: SliceSize,
    ) -> StoreResult<Option<Compared>> {
        self.router
            .call("compare", self.do_compare(slice, epoch, known))
            .await
    }

    async fn put_back(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        gateway: &GatewayId,
        page: HeldFrom,
    ) -> StoreResult<PutBackPage> {
        self.router
            .call("put_back", self.do_put_back(slice, epoch, gateway, page))
            .await
    }

    async fn drop_notes(&self, slice: &SliceId, cursor: u64) -> StoreResult<DroppedNotes> {
        let on = self
            .keys()
            .with_notes(slice, vec![self.keys().members(slice, Group::All)]);
        let steps = async {
            let mut reply = self
                .router
                .script(&scripts::DROP_NOTES, on, args![cursor, MAX_BATCH])
                .await?;
            let next = reply.number()?;
            Ok(DroppedNotes {
                dropped: reply.number()?,
                next: (next != 0).then_some(next),
            })
        };
        self.router.call("drop_notes", steps).await
    }

    async fn settle(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        surplus: Surplus,
    ) -> StoreResult<Settled> {
        self.router
            .call("settle", self.do_settle(slice, epoch, surplus))
            .await
    }

    async fn drop_foreign_keys(
        &self,
        slice: &SliceId,
        gateway: &GatewayId,
    ) -> StoreResult<Vec<String>> {
        self.router
            .call(
                "drop_foreign_keys",
                self.do_drop_foreign_keys(slice, gateway),
            )
            .await
    }

    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<SliceTotals> {
        let keys = self.keys();
        let on = vec![
            keys.members(slice, Group::All),
            keys.gateways(slice),
            keys.fence(slice),
        ];
        let on = keys.with_uniques(slice, keys.with_all_fans(slice, keys.with_notes(slice, on)));
        let [held, held_fans] =
            [Group::All, Group::Fans].map(|group| keys.held_prefix(slice, group));
        let args = args![
            epoch,
            super::keys::CLOSED_FENCE_TTL.as_secs(),
            held,
            held_fans
        ];
        let steps = async {
            let mut reply = self.router.script(&scripts::CLOSE, on, args).await?;
            let arrived = Arrived {
                joins: reply.number()?,
                leaves: reply.number()?,
            };
            let uniques = Uniques {
                viewers: reply.number()?,
                fans: reply.number()?,
            };
            Ok(SliceTotals { arrived, uniques })
        };
        self.router.call("close_slice", steps).await
    }

    async fn held_page(
        &self,
        slice: &SliceId,
        group: Group,
        gateway: &GatewayId,
        cursor: u64,
    ) -> StoreResult<HeldPage> {
        self.router
            .call("held_page", self.read_held(slice, group, gateway, cursor))
            .await
    }

    async fn members_page(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
    ) -> StoreResult<MemberPage> {
        self.router
            .call(
                "members_page",
                self.scan(self.keys().members(slice, group), cursor),
            )
            .await
    }

    async fn is_member(&self, slice: &SliceId, group: Group, user: &UserId) -> StoreResult<bool> {
        let args = args![self.keys().members(slice, group), user];
        let steps = async { flag(&self.router.command("SISMEMBER", args).await?) };
        self.router.call("is_member", steps).await
    }

    async fn are_members(
        &self,
        slice: &SliceId,
        group: Group,
        users: &[UserId],
    ) -> StoreResult<Vec<bool>> {
        let steps = async {
            let answers = self
                .of_each(("SMISMEMBER", self.keys().members(slice, group)), users)
                .await?;
            answers.iter().map(flag).collect()
        };
        self.router.call("are_members", steps).await
    }

    async fn since_of(
        &self,
        slice: &SliceId,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<UnixMillis>>> {
        let steps = async {
            let notes = self
                .keys()
                .notes(slice)
                .filter(|_| slice.set.live().is_some());
            let Some(notes) = notes else {
                return Ok(vec![None; users.len()]);
            };
            let answers = self.of_each(("HMGET", notes), users).await?;
            answers
                .iter()
                .map(|at| {
                    if at.is_null() {
                        Ok(None)
                    } else {
                        number(at).map(Some)
                    }
                })
                .collect()
        };
        self.router.call("since_of", steps).await
    }
}
