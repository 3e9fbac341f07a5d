//! The calls on slices: their scripts, the keys of these, and the meaning of the answers. The
//! scripts must agree with the model, [`crate::store::slice`].

use async_trait::async_trait;
use fred::types::Value;

use super::keys::{self, Keys};
use super::node::Command;
use super::reply::{Reply, flag, next_answer, nonsense, number, text};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, Group, LiveId, OnlineSet, SliceId, UserId};
use crate::store::{
    Apply, ApplyReply, Arrived, Compared, DroppedNotes, Fence, HeldFrom, HeldPage, Holders,
    MAX_BATCH, MemberPage, PutBackPage, Settled, SlicePart, SliceReading, SliceSize, SliceSurvey,
    SliceTotals, SliceView, Slices, StoreError, StoreResult, Strays, StraysPage, Surplus, Swept,
    Uniques,
};

/// The arguments for the state of a slice that a gateway knows: its version, and the joins, leaves
/// and fans up to that version.
fn known_args(known: SliceSize) -> Vec<Value> {
    let Arrived { joins, leaves } = known.arrived();
    args![known.version, joins, leaves, known.fans]
}

/// `form` is the form of the ids of users seen; see [`RedisStore::seen_form`].
fn apply_args(keys: &Keys, form: &str, call: &Apply, not_after: UnixMillis) -> Vec<Value> {
    if let Some(left) = &call.left {
        debug_assert_eq!(left.len(), call.leaves.len());
    }
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
            let held = reply.number()?;
            let held_fans = reply.number()?;
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
    let entry = read_entry(&reply.text()?)?;
    let held = reply.number()?;
    let held_fans = reply.number()?;
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

/// Reads the number of a gateway's entry; empty is none.
fn read_entry(word: &str) -> StoreResult<Option<u64>> {
    if word.is_empty() {
        return Ok(None);
    }
    let number = word
        .parse()
        .map_err(|_| nonsense("an entry that is no number"))?;
    Ok(Some(number))
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

/// The numbers of users in the sets of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cards {
    pub(super) members: u64,
    pub(super) fans: u64,
}

/// Reads the number of members that have notes; empty is none.
pub(super) fn read_noted(word: &str) -> StoreResult<Option<u64>> {
    if word.is_empty() {
        return Ok(None);
    }
    let count = word.parse().map_err(|_| nonsense("a count of notes"))?;
    Ok(Some(count))
}

/// The fence and the parts of a slice. Leaves zero how many users each part holds: other keys say
/// that.
fn read_parts(fence: Value, entries: Value) -> StoreResult<Parts> {
    let entries = Reply::of(entries)?.pairs()?;
    let fence = if fence.is_null() {
        String::new()
    } else {
        text(fence)?
    };
    let mut parts = Vec::with_capacity(entries.len());
    for (name, number) in entries {
        // The scripts do not take a value that is no number for an entry either.
        let Ok(entry) = number.parse() else {
            continue;
        };
        let gateway = GatewayId::parse(&name).map_err(|_| nonsense("a gateway's name"))?;
        parts.push(SlicePart {
            gateway,
            entry,
            held: 0,
            held_fans: 0,
        });
    }
    Ok(Parts { fence, parts })
}

/// The text of a slice's fence, and its parts.
#[derive(Clone)]
struct Parts {
    fence: String,
    parts: Vec<SlicePart>,
}

/// A slice and the result of [`read_parts`] for it.
struct FoundParts<'a> {
    slice: &'a SliceId,
    parts: StoreResult<Parts>,
}

/// The commands for the sizes of a slice and its parts, in the order in which [`read_sizes`] takes
/// their answers.
fn size_commands(keys: &Keys, found: &FoundParts<'_>) -> Vec<Command> {
    let slice = found.slice;
    let Ok(Parts { parts, .. }) = &found.parts else {
        return Vec::new();
    };
    let mut commands = Vec::new();
    for group in slice.set.groups() {
        commands.push(("SCARD", args![keys.members(slice, *group)]));
        for part in parts {
            commands.push(("SCARD", args![keys.held(slice, *group, &part.gateway)]));
        }
    }
    if let Some(notes) = keys.notes(slice) {
        commands.push(("HLEN", args![notes]));
    }
    commands
}

/// Takes the next `count` answers.
fn next_answers(
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
    count: usize,
) -> Vec<StoreResult<Value>> {
    (0..count).map(|_| next_answer(answers)).collect()
}

fn read_sizes(
    found: &FoundParts<'_>,
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
) -> StoreResult<SliceSurvey> {
    let set = &found.slice.set;
    let Parts { fence, mut parts } = found.parts.clone()?;
    // Takes all answers of this slice before reading any, so that the next slice finds its own even
    // after an error.
    let mut of_groups = Vec::new();
    for group in set.groups() {
        let card = next_answer(answers);
        let held = next_answers(answers, parts.len());
        of_groups.push((*group, card, held));
    }
    let noted = if set.keeps_notes() {
        Some(next_answer(answers))
    } else {
        None
    };
    let mut there = Cards {
        members: 0,
        fans: 0,
    };
    for (group, card, held) in of_groups {
        let card = number(&card?)?;
        match group {
            Group::All => there.members = card,
            Group::Fans => there.fans = card,
        }
        for (part, held) in parts.iter_mut().zip(held) {
            let held = number(&held?)?;
            match group {
                Group::All => part.held = held,
                Group::Fans => part.held_fans = held,
            }
        }
    }
    let noted = match noted {
        Some(noted) => Some(number(&noted?)?),
        None => None,
    };
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
/// if the fence counts another number of users: the next call finds that out.
pub(super) fn fenced_size(fence: &str, there: Cards) -> SliceSize {
    match read_fenced_size(fence, there) {
        Some(size) => size,
        None => SliceSize {
            in_doubt: there.members + there.fans > 0,
            ..SliceSize::default()
        },
    }
}

/// Reads `open:<epoch>:<version>:<joins>-<leaves>:<fans>`; one more word means doubt. `None` for a
/// closed fence, and for one without counts.
fn read_fenced_size(fence: &str, there: Cards) -> Option<SliceSize> {
    let mut words = fence.strip_prefix("open:")?.split(':').skip(1);
    let version = words.next()?.parse().ok()?;
    let (joins, leaves) = words.next()?.split_once('-')?;
    let joins: u64 = joins.parse().ok()?;
    let leaves = leaves.parse().ok()?;
    let card = joins.checked_sub(leaves)?;
    let fans = words.next()?.parse().ok()?;
    let says_doubt = words.next().is_some();
    Some(SliceSize {
        card,
        fans,
        leaves,
        version,
        in_doubt: says_doubt || card != there.members || fans != there.fans,
    })
}

/// The commands that compare a slice with what gateways hold, group by group. The first asks for
/// the members of the group that no gateway holds. With `overlap`, one command a gateway asks for
/// the users that it holds and that are not in the group.
fn differ_commands(keys: &Keys, holders: &Holders) -> Vec<Command> {
    let Holders {
        slice,
        gateways,
        overlap,
    } = holders;
    let mut commands = Vec::new();
    for group in slice.set.groups() {
        let set = keys.members(slice, *group);
        let held: Vec<String> = gateways
            .iter()
            .map(|gateway| keys.held(slice, *group, gateway))
            .collect();
        let mut strays = args![set];
        strays.extend(held.iter().map(|held| Value::from(held.as_str())));
        commands.push(("SDIFF", strays));
        if *overlap {
            for held in held {
                commands.push(("SDIFF", args![held, set]));
            }
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
    // Takes all answers of this slice before reading any, so that the next slice finds its own even
    // after an error.
    let found = next_answers(answers, answered);
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

/// Reads the text at [`super::keys::Keys::fence`]; empty is none.
pub(super) fn read_fence_word(word: &str) -> StoreResult<Option<Fence>> {
    if word.is_empty() {
        return Ok(None);
    }
    match parse_fence(word) {
        Some(fence) => Ok(Some(fence)),
        None => Err(nonsense("a fence without an epoch")),
    }
}

fn parse_fence(word: &str) -> Option<Fence> {
    let (state, rest) = word.split_once(':')?;
    let epoch = Epoch(rest.split(':').next()?.parse().ok()?);
    match state {
        "open" => Some(Fence::Open(epoch)),
        "closed" => Some(Fence::Closed(epoch)),
        _ => None,
    }
}

/// Reads by how many the users in a slice exceed the count of the scripts.
fn read_surplus(word: &str) -> StoreResult<i64> {
    word.parse().map_err(|_| nonsense("a difference of sizes"))
}

/// Reads ids of lives with commas between; skips those that are none.
fn read_live_ids(words: &str) -> Vec<LiveId> {
    let mut lives = Vec::new();
    for word in words.split(',') {
        if let Ok(live) = LiveId::parse(word) {
            lives.push(live);
        }
    }
    lives
}

impl RedisStore {
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
    async fn of_each(
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

    async fn scan(&self, key: String, cursor: u64) -> StoreResult<MemberPage> {
        let args = args![key, cursor, "COUNT", MAX_BATCH];
        let mut reply = Reply::of(self.router.command("SSCAN", args).await?)?;
        let next = reply.cursor()?;
        Ok(MemberPage {
            users: reply.list()?.users(),
            next,
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
        let mut reply = self.router.script(&scripts::PAGE_HELD, on, args).await?;
        let next = reply.cursor()?;
        let held: Vec<String> = reply.list()?.texts().collect();
        let missing = reply.list()?.users();
        let words: Vec<String> = reply.list()?.texts().collect();
        let mut page = HeldPage {
            users: Vec::with_capacity(held.len()),
            missing,
            lives: Vec::with_capacity(words.len()),
            next,
        };
        let mut words = words.iter();
        for user in &held {
            let words = words.next();
            let Ok(user) = UserId::parse(user) else {
                continue;
            };
            if let Some(words) = words {
                page.lives.push((user.clone(), read_live_ids(words)));
            }
            page.users.push(user);
        }
        Ok(page)
    }

    /// A call that is too late to make its entry did nothing, and told the node's time. The store
    /// then makes it once more.
    async fn do_apply(&self, call: &Apply) -> StoreResult<ApplyReply> {
        let keys = self.keys();
        let slice = &call.slice;
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
            let args = apply_args(keys, self.seen_form(slice), call, not_after);
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

    async fn do_strays(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
        most: usize,
        strays: Strays,
    ) -> StoreResult<StraysPage> {
        let how = match strays {
            Strays::Count => "count",
            Strays::Drop => "drop",
        };
        let keys = self.keys();
        let args = args![
            cursor,
            most,
            keys.held_prefix(slice, group),
            how,
            keys.stays_prefix(slice),
            self.seen_form(slice)
        ];
        let on = vec![
            keys.members(slice, Group::All),
            keys.fence(slice),
            keys.gateways(slice),
            keys.members(slice, group),
        ];
        let on = keys.with_all_fans(slice, keys.with_ends(slice, on));
        let mut reply = self.router.script(&scripts::DROP_STRAYS, on, args).await?;
        let next = reply.cursor()?;
        let strays = reply.number()?;
        let card = reply.number()?;
        let held = reply.number()?;
        let size = read_size(&mut reply)?;
        Ok(StraysPage {
            strays,
            names: reply.users(),
            next,
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
            .script(&scripts::COMPARE_SLICE, self.size_keys(slice), args)
            .await?;
        let Some(members) = reply.piece() else {
            return Ok(None);
        };
        let surplus = Surplus {
            members: read_surplus(&text(members)?)?,
            fans: read_surplus(&reply.text()?)?,
        };
        let wait = reply.number()?;
        let began = reply.flag()?;
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
        let mut on = vec![
            keys.members(slice, Group::All),
            keys.fence(slice),
            keys.members(slice, page.group),
            keys.held(slice, page.group, gateway),
        ];
        if slice.set.live().is_some() {
            // The notes on the users of the platform stay: only the gateway that holds a user knows
            // in which lives the user is.
            on = keys.with_all_fans(slice, keys.with_notes(slice, on));
        }
        let args = args![page.cursor, page.most, epoch, keys::SLICE_TTL.as_secs()];
        let mut reply = self.router.script(&scripts::PUT_BACK, on, args).await?;
        let next = reply.cursor()?;
        let put_back = reply.number()?;
        let size = read_size(&mut reply)?;
        Ok(PutBackPage {
            put_back,
            next,
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
            .script(&scripts::SETTLE_DOUBT, self.size_keys(slice), args)
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
        let args = args![
            keys.held_prefix(slice, Group::All),
            keys.held_prefix(slice, Group::Fans),
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
        let steps = async { read_slice(self.router.script(&scripts::READ_SLICE, on, args).await?) };
        self.router.call("read_slice", steps).await
    }

    async fn survey(&self, slices: &[SliceId]) -> Vec<StoreResult<SliceSurvey>> {
        let parts = self
            .router
            .read_each(
                "survey",
                slices,
                |slice| {
                    vec![
                        ("GET", args![self.keys().fence(slice)]),
                        ("HGETALL", args![self.keys().gateways(slice)]),
                    ]
                },
                |_, answers| {
                    let fence = next_answer(answers);
                    let entries = next_answer(answers);
                    read_parts(fence?, entries?)
                },
            )
            .await;
        let found: Vec<_> = slices
            .iter()
            .zip(parts)
            .map(|(slice, parts)| FoundParts { slice, parts })
            .collect();
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
        let args = args![
            gateway,
            most,
            keys.held_prefix(slice, Group::All),
            keys.held_prefix(slice, Group::Fans),
            keys.stays_prefix(slice),
            last_heard,
            self.seen_form(slice)
        ];
        let steps = async {
            let on = keys.with_fans(
                slice,
                gateway,
                keys.with_ends(slice, keys.of_gateway(slice, gateway)),
            );
            let mut reply = self.router.script(&scripts::SWEEP_SLICE, on, args).await?;
            let released = reply.number()?;
            let done = reply.flag()?;
            Ok(Swept {
                released,
                done,
                size: read_size(&mut reply)?,
            })
        };
        self.router.call("sweep", steps).await
    }

    async fn differ_from_held(&self, slices: &[Holders]) -> Vec<StoreResult<bool>> {
        self.router
            .read_each(
                "differ_from_held",
                slices,
                |holders| differ_commands(self.keys(), holders),
                read_differ,
            )
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
            let next = reply.cursor()?;
            Ok(DroppedNotes {
                dropped: reply.number()?,
                next,
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
        let args = args![
            epoch,
            super::keys::CLOSED_FENCE_TTL.as_secs(),
            keys.held_prefix(slice, Group::All),
            keys.held_prefix(slice, Group::Fans)
        ];
        let steps = async {
            let mut reply = self.router.script(&scripts::CLOSE_SLICE, on, args).await?;
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
                .of_each("SMISMEMBER", self.keys().members(slice, group), users)
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
            let notes = if slice.set.live().is_some() {
                self.keys().notes(slice)
            } else {
                None
            };
            let Some(notes) = notes else {
                return Ok(vec![None; users.len()]);
            };
            let mut since = Vec::with_capacity(users.len());
            for at in self.of_each("HMGET", notes, users).await? {
                since.push(if at.is_null() {
                    None
                } else {
                    Some(number(&at)?)
                });
            }
            Ok(since)
        };
        self.router.call("since_of", steps).await
    }
}
