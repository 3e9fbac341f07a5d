//! The calls on attendance, in both forms. The keys of one part share a hash slot over all lives.
//! So one script answers for a part in the form of sets. Bitmaps are read one part at a time and
//! combined here.

use crate::features::attendance::scripts;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use fred::types::Value;
use futures_util::try_join;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::config::{AttendanceForm, number_of};
use crate::features::attendance::store::{
    ATTENDANCE_PARTS, ATTENDANCE_RENEWED, Attendance, Attended, Attendees, Attending, BITS_A_PART,
};
use crate::store::ATTENDANCE_KEPT;
use crate::store::LiveEpoch;
use crate::store::redis::node::Command;
use crate::store::redis::reply::{Reply, flag, next_answer, nonsense, number, text};
use crate::store::redis::{RedisCalls, args, keys};
use crate::store::{MAX_BATCH, StoreResult};

/// Maximum look-ups per script. Each takes Redis about 0.2 µs.
const MAX_LOOK_UPS: usize = 8_000;

/// The place of a user's bit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bit {
    pub(crate) part: u32,
    pub(crate) offset: u32,
}

/// A command that writes a key, and the command that renews the key's lifetime.
fn with_lifetime(key: &str, command: Command) -> Vec<Command> {
    vec![
        command,
        ("EXPIRE", args![key, keys::ATTENDANCE_TTL.as_secs()]),
    ]
}

fn user_args(key: &str, users: &[UserId]) -> Vec<Value> {
    let mut args = args![key];
    args.extend(users.iter().map(|user| Value::from(user.as_str())));
    args
}

fn read_users(reply: Reply) -> impl Iterator<Item = UserId> {
    reply
        .texts()
        .filter_map(|member| UserId::parse(&member).ok())
}

/// The place of a user's bit; `None` for an id that is no number. The edge refuses such ids where
/// attendance is kept as bitmaps.
pub(crate) fn bit(user: &UserId) -> Option<Bit> {
    let number = number_of(user)?;
    Some(Bit {
        part: number / BITS_A_PART,
        offset: number % BITS_A_PART,
    })
}

fn find_field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let (_, value) = fields.iter().find(|(field, _)| field == name)?;
    Some(value)
}

fn read_attended(fields: &[(String, String)]) -> Option<Attended> {
    Some(Attended {
        streamer: UserId::parse(find_field(fields, "streamer_id")?).ok()?,
        slices: find_field(fields, "slices")?.parse().ok()?,
        opened_at: find_field(fields, "opened_at")?.parse().ok()?,
        closed_at: find_field(fields, "closed_at").and_then(|at| at.parse().ok()),
    })
}

impl RedisCalls {
    pub(crate) fn attendance_form(&self) -> AttendanceForm {
        self.attendance_form.get().copied().unwrap_or_default()
    }

    pub(crate) async fn fixed_attendance_form(&self) -> StoreResult<Option<AttendanceForm>> {
        let fixed = self
            .router
            .command("GET", args![self.keys().attendance_form()])
            .await?;
        if fixed.is_null() {
            return Ok(None);
        }
        match text(fixed)?.as_str() {
            "set" => Ok(Some(AttendanceForm::Set)),
            "bitmap" => Ok(Some(AttendanceForm::Bitmap)),
            other => Err(nonsense(format!("attendance as {other}"))),
        }
    }

    async fn all_done(&self, commands: Vec<Command>) -> StoreResult<()> {
        for answer in self.router.read_all(commands).await {
            answer?;
        }
        Ok(())
    }

    async fn write_attended(&self, of: &LiveEpoch, fields: Vec<Value>) -> StoreResult<()> {
        let mut args = args![keys::ATTENDANCE_TTL.as_secs()];
        args.extend(fields);
        self.router
            .script(
                &scripts::WRITE_ATTENDANCE,
                vec![self.keys().attended(of)],
                args,
            )
            .await?;
        Ok(())
    }

    async fn list_attended(&self, list: String, entry: Vec<Value>) -> StoreResult<()> {
        self.router
            .script(&scripts::LIST_ATTENDANCE, vec![list], entry)
            .await?;
        Ok(())
    }

    /// Writes the users of each part with the two commands that `write` makes. Answers the users
    /// who were not written.
    async fn note_parts(
        &self,
        parts: BTreeMap<u32, Vec<UserId>>,
        write: impl Fn(u32, &[UserId]) -> Vec<Command>,
    ) -> Vec<UserId> {
        let parts: Vec<(u32, Vec<UserId>)> = parts.into_iter().collect();
        let written = self
            .router
            .read_each(
                "note_attendance",
                &parts,
                |(part, users)| write(*part, users),
                |_, answers| {
                    // Take both answers, so that the next part finds its own.
                    let noted = next_answer(answers);
                    let renewed = next_answer(answers);
                    noted?;
                    renewed?;
                    Ok(())
                },
            )
            .await;
        let mut missed = Vec::new();
        for ((_, users), written) in parts.into_iter().zip(written) {
            if written.is_err() {
                missed.extend(users);
            }
        }
        missed
    }

    async fn note_bits(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<UserId>> {
        let mut parts: BTreeMap<u32, Vec<UserId>> = BTreeMap::new();
        for user in users {
            if let Some(bit) = bit(user) {
                parts.entry(bit.part).or_default().push(user.clone());
            }
        }
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let key = self.keys().attendance_parts(of);
        let mut args = args![key];
        args.extend(parts.keys().map(|part| Value::from(part.to_string())));
        // A part must be listed before it has a member.
        self.router
            .call(
                "note_attendance",
                self.all_done(with_lifetime(&key, ("SADD", args))),
            )
            .await?;
        let missed = self
            .note_parts(parts, |part, users| self.write_bits(of, part, users))
            .await;
        Ok(missed)
    }

    fn write_bits(&self, of: &LiveEpoch, part: u32, users: &[UserId]) -> Vec<Command> {
        let key = self.keys().attendance_bits(of, part);
        let mut args = args![key];
        for user in users {
            if let Some(bit) = bit(user) {
                args.extend(args!["SET", "u1", bit.offset, 1]);
            }
        }
        with_lifetime(&key, ("BITFIELD", args))
    }

    async fn note_sets(&self, of: &LiveEpoch, users: &[UserId]) -> Vec<UserId> {
        let mut parts: BTreeMap<u32, Vec<UserId>> = BTreeMap::new();
        for user in users {
            parts.entry(part_of(user)).or_default().push(user.clone());
        }
        self.note_parts(parts, |part, users| {
            let key = self.keys().attendance_set(of, part);
            with_lifetime(&key, ("SADD", user_args(&key, users)))
        })
        .await
    }

    /// Every key that has fans of an epoch.
    async fn attendance_keys(&self, of: &LiveEpoch) -> StoreResult<Vec<String>> {
        Ok(match self.attendance_form() {
            AttendanceForm::Set => (0..ATTENDANCE_PARTS)
                .map(|part| self.keys().attendance_set(of, part))
                .collect(),
            AttendanceForm::Bitmap => {
                let parts = self.bit_parts(std::slice::from_ref(of)).await?;
                parts
                    .into_iter()
                    .map(|part| self.keys().attendance_bits(of, part))
                    .collect()
            }
        })
    }

    /// Every key of an epoch. The keys that lead to the others come last.
    async fn all_attendance_keys(
        &self,
        of: &LiveEpoch,
        attended: Option<&Attended>,
    ) -> StoreResult<Vec<String>> {
        let mut all = self.attendance_keys(of).await?;
        let slices = attended.map_or(0, |attended| attended.slices);
        for slice in SliceId::all(OnlineSet::Live(of.live.clone()), slices) {
            all.extend([
                self.keys().sessions(&slice, of.epoch),
                self.keys().stays(&slice, of.epoch),
            ]);
        }
        all.extend([self.keys().attendance_parts(of), self.keys().attended(of)]);
        Ok(all)
    }

    /// Sends one command for each key, in as many calls as needed.
    pub(crate) async fn for_each_key(
        &self,
        name: &'static str,
        keys: &[String],
        command: impl Fn(&String) -> Command,
    ) -> StoreResult<()> {
        let answers = self
            .router
            .read_each(
                name,
                keys,
                |key| vec![command(key)],
                |_, answers| next_answer(answers),
            )
            .await;
        for answer in answers {
            answer?;
        }
        Ok(())
    }

    async fn bit_parts(&self, lives: &[LiveEpoch]) -> StoreResult<BTreeSet<u32>> {
        let mut parts = BTreeSet::new();
        for of in lives {
            let mut cursor = 0;
            loop {
                let args = args![self.keys().attendance_parts(of), cursor, "COUNT", MAX_BATCH];
                let mut reply = Reply::of(self.router.command("SSCAN", args).await?)?;
                cursor = reply.number()?;
                for part in reply.list()?.texts() {
                    if let Ok(part) = part.parse::<u32>() {
                        parts.insert(part);
                    }
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(parts)
    }

    async fn bits(
        &self,
        which: Attending,
        lives: &[LiveEpoch],
        part: u32,
    ) -> StoreResult<Attendees> {
        let read = lives
            .iter()
            .map(|of| ("GET", args![self.keys().attendance_bits(of, part)]))
            .collect();
        let mut all = self.router.read_all(read).await.into_iter();
        let mut bits = read_bits(all.next())?;
        for other in all {
            let other = read_bits(Some(other))?;
            for (byte, other) in bits.iter_mut().zip(other) {
                *byte = match which {
                    Attending::All => *byte & other,
                    Attending::Any => *byte | other,
                    Attending::Not => *byte & !other,
                };
            }
        }
        Ok(Attendees::Bits {
            first: part * BITS_A_PART,
            bits,
        })
    }

    async fn members(
        &self,
        which: Attending,
        lives: &[LiveEpoch],
        part: u32,
    ) -> StoreResult<Attendees> {
        let on: Vec<String> = lives
            .iter()
            .map(|of| self.keys().attendance_set(of, part))
            .collect();
        let word = match which {
            Attending::All => "all",
            Attending::Any => "any",
            Attending::Not => "not",
        };
        let args = args![word, MAX_BATCH, MAX_LOOK_UPS];
        let mut reply = self
            .router
            .script(&scripts::FIND_ATTENDEES, on.clone(), args)
            .await?;
        let mut users: Vec<UserId> = match reply.text()?.as_str() {
            "done" => read_users(reply).collect(),
            "many" => {
                let mut cards = Vec::with_capacity(on.len());
                for _ in &on {
                    cards.push(reply.number()?);
                }
                self.many_members(which, on, &cards).await?
            }
            other => return Err(nonsense(format!("attendees answered {other}"))),
        };
        users.sort_unstable();
        Ok(Attendees::Users(users))
    }

    /// As [`Self::members`], page by page, for sets that are too large for one step.
    async fn many_members(
        &self,
        which: Attending,
        mut on: Vec<String>,
        cards: &[u64],
    ) -> StoreResult<Vec<UserId>> {
        let mut found = BTreeSet::new();
        if which == Attending::Any {
            for key in &on {
                self.scan_members(key, &[], which, &mut found).await?;
            }
            return Ok(found.into_iter().collect());
        }
        if which == Attending::All {
            let mut smallest = 0;
            for (place, card) in cards.iter().enumerate() {
                if *card < cards[smallest] {
                    smallest = place;
                }
            }
            on.swap(0, smallest);
        }
        self.scan_members(&on[0], &on[1..], which, &mut found)
            .await?;
        Ok(found.into_iter().collect())
    }

    /// Adds to `found` the members of a set who are in all other sets, or in none of them.
    async fn scan_members(
        &self,
        key: &str,
        others: &[String],
        which: Attending,
        found: &mut BTreeSet<UserId>,
    ) -> StoreResult<()> {
        let mut cursor = 0;
        loop {
            let mut reply = Reply::of(
                self.router
                    .command("SSCAN", args![key, cursor, "COUNT", MAX_BATCH])
                    .await?,
            )?;
            cursor = reply.number()?;
            let page: Vec<UserId> = read_users(reply.list()?).collect();
            for some in page.chunks(MAX_BATCH) {
                let mut left = some.to_vec();
                for other in others {
                    if left.is_empty() {
                        break;
                    }
                    let mut answers = Reply::of(
                        self.router
                            .command("SMISMEMBER", user_args(other, &left))
                            .await?,
                    )?;
                    let mut kept = Vec::with_capacity(left.len());
                    for user in left {
                        if answers.flag()? == (which == Attending::All) {
                            kept.push(user);
                        }
                    }
                    left = kept;
                }
                found.extend(left);
            }
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Reads the epochs of a sorted set whose scores lie in a span, as ZRANGE takes it.
    async fn epochs(
        &self,
        key: String,
        from: &str,
        to: &str,
        limit: usize,
    ) -> StoreResult<Vec<LiveEpoch>> {
        let args = args![key, from, to, "BYSCORE", "LIMIT", 0, limit.min(MAX_BATCH)];
        let reply = Reply::of(self.router.command("ZRANGE", args).await?)?;
        Ok(reply
            .texts()
            .filter_map(|member| LiveEpoch::parse(&member))
            .collect())
    }

    async fn has_bits(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<bool>> {
        // A user without a bit gets a command, too, so that there is one answer per user. No part
        // has this number.
        let nowhere = Bit {
            part: u32::MAX,
            offset: 0,
        };
        let mut commands = Vec::with_capacity(users.len());
        for user in users {
            let bit = bit(user).unwrap_or(nowhere);
            let key = self.keys().attendance_bits(of, bit.part);
            commands.push(("GETBIT", args![key, bit.offset]));
        }
        let answers = self.router.read_all(commands).await;
        let mut attended = Vec::with_capacity(users.len());
        for (user, answer) in users.iter().zip(answers) {
            attended.push(bit(user).is_some() && flag(&answer?)?);
        }
        Ok(attended)
    }

    async fn has_members(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<bool>> {
        let mut parts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (place, user) in users.iter().enumerate() {
            parts.entry(part_of(user)).or_default().push(place);
        }
        let mut commands = Vec::with_capacity(parts.len());
        for (part, places) in &parts {
            let asked: Vec<UserId> = places.iter().map(|place| users[*place].clone()).collect();
            let key = self.keys().attendance_set(of, *part);
            commands.push(("SMISMEMBER", user_args(&key, &asked)));
        }
        let answers = self.router.read_all(commands).await;
        let mut attended = vec![false; users.len()];
        for (places, answer) in parts.values().zip(answers) {
            let mut answer = Reply::of(answer?)?;
            for place in places {
                attended[*place] = answer.flag()?;
            }
        }
        Ok(attended)
    }
}

pub(crate) fn part_of(user: &UserId) -> u32 {
    user.slice_index(ATTENDANCE_PARTS) - 1
}

/// The bits of a part, padded to the length of a whole part.
fn read_bits(answer: Option<StoreResult<Value>>) -> StoreResult<Vec<u8>> {
    let answer = answer.unwrap_or(Ok(Value::Null))?;
    let mut bits = answer.as_bytes().map(<[u8]>::to_vec).unwrap_or_default();
    bits.resize(BITS_A_PART as usize / 8, 0);
    Ok(bits)
}

#[async_trait]
impl Attendance for RedisCalls {
    async fn fix_attendance_form(&self, form: AttendanceForm) -> StoreResult<AttendanceForm> {
        self.attendance_form.get_or_init(|| form);
        if let Some(fixed) = self.fixed_attendance_form().await? {
            return Ok(fixed);
        }
        self.router
            .command(
                "SET",
                args![self.keys().attendance_form(), form.as_str(), "NX"],
            )
            .await?;
        Ok(self.fixed_attendance_form().await?.unwrap_or(form))
    }

    async fn begin_attendance(&self, of: &LiveEpoch, attended: &Attended) -> StoreResult<()> {
        let list = self.keys().attended_lives(&attended.streamer);
        let Attended {
            streamer,
            slices,
            opened_at,
            ..
        } = attended;
        // This entry goes first: the walk finds the other keys through it when it is time to
        // forget them.
        let due = opened_at + millis(ATTENDANCE_RENEWED);
        self.list_attended(self.keys().attendance_due(), args!["NX", due, of])
            .await?;
        let fields = args![
            "streamer_id",
            streamer,
            "slices",
            slices,
            "opened_at",
            opened_at
        ];
        let listed = async {
            self.list_attended(list.clone(), args![opened_at, of])
                .await?;
            self.router
                .command("EXPIRE", args![list, keys::ATTENDANCE_TTL.as_secs()])
                .await?;
            Ok(())
        };
        try_join!(self.write_attended(of, fields), listed)?;
        Ok(())
    }

    async fn note_attendance(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<UserId>> {
        match self.attendance_form() {
            AttendanceForm::Set => Ok(self.note_sets(of, users).await),
            AttendanceForm::Bitmap => self.note_bits(of, users).await,
        }
    }

    async fn end_attendance(&self, of: &LiveEpoch, closed_at: UnixMillis) -> StoreResult<()> {
        self.write_attended(of, args!["closed_at", closed_at])
            .await?;
        let due = closed_at + millis(ATTENDANCE_KEPT);
        self.list_attended(self.keys().attendance_due(), args![due, of])
            .await
    }

    async fn attended(&self, of: &LiveEpoch) -> StoreResult<Option<Attended>> {
        let fields = Reply::of(
            self.router
                .command("HGETALL", args![self.keys().attended(of)])
                .await?,
        )?
        .pairs()?;
        // Only a close may have been noted, after Redis lost everything else. That is no
        // attendance.
        if find_field(&fields, "streamer_id").is_none() {
            return Ok(None);
        }
        match read_attended(&fields) {
            Some(attended) => Ok(Some(attended)),
            None => Err(nonsense(format!("the attendance of {of} is garbled"))),
        }
    }

    async fn attended_lives(
        &self,
        streamer: &UserId,
        from: UnixMillis,
        limit: usize,
    ) -> StoreResult<Vec<LiveEpoch>> {
        let key = self.keys().attended_lives(streamer);
        let from = from.to_string();
        self.epochs(key, &from, "+inf", limit).await
    }

    async fn attendance_parts(&self, lives: &[LiveEpoch]) -> StoreResult<Vec<u32>> {
        match self.attendance_form() {
            AttendanceForm::Set => Ok((0..ATTENDANCE_PARTS).collect()),
            AttendanceForm::Bitmap => {
                let parts = self.bit_parts(lives).await?;
                Ok(parts.into_iter().collect())
            }
        }
    }

    async fn attendees(
        &self,
        which: Attending,
        lives: &[LiveEpoch],
        part: u32,
    ) -> StoreResult<Attendees> {
        if lives.is_empty() {
            return Ok(Attendees::Users(Vec::new()));
        }
        match self.attendance_form() {
            AttendanceForm::Set => self.members(which, lives, part).await,
            AttendanceForm::Bitmap => self.bits(which, lives, part).await,
        }
    }

    async fn have_attended(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<bool>> {
        match self.attendance_form() {
            AttendanceForm::Set => self.has_members(of, users).await,
            AttendanceForm::Bitmap => self.has_bits(of, users).await,
        }
    }

    async fn attendance_due(&self, now: UnixMillis, limit: usize) -> StoreResult<Vec<LiveEpoch>> {
        let key = self.keys().attendance_due();
        let now = now.to_string();
        self.epochs(key, "-inf", &now, limit).await
    }

    async fn renew_attendance(
        &self,
        of: &LiveEpoch,
        attended: &Attended,
        next: UnixMillis,
    ) -> StoreResult<()> {
        let mut all = self
            .router
            .call(
                "renew_attendance",
                self.all_attendance_keys(of, Some(attended)),
            )
            .await?;
        all.push(self.keys().attended_lives(&attended.streamer));
        let ttl = keys::ATTENDANCE_TTL.as_secs();
        self.for_each_key("renew_attendance", &all, |key| ("EXPIRE", args![key, ttl]))
            .await?;
        let due = self.list_attended(self.keys().attendance_due(), args!["XX", next, of]);
        self.router.call("renew_attendance", due).await
    }

    async fn forget_attendance(
        &self,
        of: &LiveEpoch,
        attended: Option<&Attended>,
    ) -> StoreResult<()> {
        let all = self
            .router
            .call("forget_attendance", self.all_attendance_keys(of, attended))
            .await?;
        self.for_each_key("forget_attendance", &all, |key| ("UNLINK", args![key]))
            .await?;
        let steps = async {
            if let Some(attended) = attended {
                let list = self.keys().attended_lives(&attended.streamer);
                self.router.command("ZREM", args![list, of]).await?;
            }
            let removed = self
                .router
                .command("ZREM", args![self.keys().attendance_due(), of])
                .await?;
            number(&removed)?;
            Ok(())
        };
        self.router.call("forget_attendance", steps).await
    }
}
