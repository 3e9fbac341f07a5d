//! The calls on erasures. The jobs are kept as those for followers are, with the same scripts: a
//! stream that the gateways read as one consumer group, and a hash that notes which gateway works
//! on a job and how far it got.
//!
//! A pass goes over all keys of all masters, because nothing says in which lists, timelines and
//! answers a user is. Erasures are rare, so the walk is worth more than an index that every write
//! would have to keep. A step takes one page of keys, and touches each key by itself: keys of a
//! cluster lie in different slots. Its place is the cursor of the page, so another gateway goes on
//! where one was stopped. Keys that a master gets from another meanwhile are found by the next pass.
//!
//! The logins are one large key that knows many users: steps of their own go over it.

use async_trait::async_trait;
use fred::types::Value;

use super::events::entry;
use super::keys::ERASURE_TTL;
use super::keys::traces::{NamesUsers, Size};
use super::last_seen::write_member;
use super::node::{Command, Node, Share};
use super::reply::{Reply, next_answer, number, text};
use super::router::ScriptCall;
use super::scripts::Script;
use super::{RedisStore, args, attendance, scripts};
use crate::base::clock::millis;
use crate::base::ids::{Epoch, ErasureId, GatewayId, LiveId, Login, UserId};
use crate::config::AttendanceForm;
use crate::store::{
    Attendance, CLAIM_AFTER, EndedErasure, ErasedSome, Erasure, ErasureProgress, Erasures,
    LiveEpoch, MAX_BATCH, MOST_SESSIONS, StoreError, StoreResult, TakenErasure, Trace, event_names,
    names,
};

/// The consumer group of the gateways.
const GROUP: &str = "gateways";
/// Keys of a step, about.
const PAGE: usize = 500;
/// Events of a stream that are read at once.
const EVENTS: usize = 250;

/// Where a step of a pass begins.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// At this cursor of the keys of a master.
    Keys(String, u64),
    /// At this cursor of the logins.
    Logins(u64),
}

impl Place {
    /// Reads what [`Self::write`] wrote. `None` at the beginning of a pass, and for a text that
    /// another version wrote, with which the pass begins anew.
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let place = match words.next()? {
            "keys" => {
                let host = words.next()?.to_owned();
                Self::Keys(host, words.next()?.parse().ok()?)
            }
            "logins" => Self::Logins(words.next()?.parse().ok()?),
            _ => return None,
        };
        Some(place)
    }

    fn write(&self) -> String {
        match self {
            Self::Keys(host, cursor) => format!("keys {host} {cursor}"),
            Self::Logins(cursor) => format!("logins {cursor}"),
        }
    }
}

/// A key that may name the user.
struct Suspect {
    key: String,
    how: NamesUsers,
}

/// What a look into a key says.
enum Looked {
    /// Nothing of the user.
    Nothing,
    /// So many things, which are gone now.
    Gone(Option<Trace>, u64),
    /// The user is there, until gateways take the user away.
    Remains,
    /// The profile, with the logins that it knows.
    Profile(Vec<Login>),
    /// The key says that it names the user, and goes.
    Doomed(Trace),
    /// The user's bit is set.
    Bit,
    /// A record of a live of the user, and whether the live is closed.
    Owned(LiveId, bool),
    /// The attendance of a live of the user.
    Attended(LiveEpoch),
    /// A stream key of this live.
    StreamKey(LiveId),
}

impl RedisStore {
    fn erasure_keys(&self) -> Vec<String> {
        vec![self.keys().erasures(), self.keys().erasures_progress()]
    }

    async fn do_ask(&self, user: &UserId) -> StoreResult<ErasureId> {
        let new = ErasureId::random();
        let mut keys = self.erasure_keys();
        keys.extend([
            self.keys().erasures_asked(),
            self.keys().erasure_report(&new),
        ]);
        let args = args![user, new, ERASURE_TTL.as_secs()];
        let id = self
            .router
            .script(&scripts::ASK_ERASURE, keys, args)
            .await?
            .text()?;
        Ok(ErasureId::parse(&id).unwrap_or(new))
    }

    async fn read_erasure(&self, id: &ErasureId) -> StoreResult<Option<Erasure>> {
        let args = args![
            self.keys().erasure_report(id),
            "asked_at",
            "ended_at",
            "found"
        ];
        let mut fields = Reply::of(self.router.command("HMGET", args).await?)?;
        let asked_at = match fields.piece() {
            Some(asked_at) if !asked_at.is_null() => number(&asked_at)?,
            _ => return Ok(None),
        };
        let ended = match (fields.piece(), fields.piece()) {
            (Some(at), Some(found)) if !at.is_null() => Some(EndedErasure {
                at: number(&at)?,
                found: serde_json::from_str(&text(found)?).unwrap_or_default(),
            }),
            _ => None,
        };
        Ok(Some(Erasure { asked_at, ended }))
    }

    async fn take(&self, worker: &GatewayId) -> StoreResult<Option<TakenErasure>> {
        let args = args![worker, GROUP, millis(CLAIM_AFTER), 1];
        let mut reply = self
            .router
            .script(&scripts::TAKE_FANOUTS, self.erasure_keys(), args)
            .await?;
        // How many there are, and the age of the oldest.
        reply.number()?;
        reply.number()?;
        let Some(job) = reply.piece() else {
            return Ok(None);
        };
        let job = text(job)?;
        let user = reply.text()?;
        reply.text()?;
        let progress = reply.text()?;
        let asked = args![self.keys().erasures_asked(), user];
        let id = self.router.command("HGET", asked).await?.into_string();
        let id = id.and_then(|id| ErasureId::parse(&id).ok());
        let Ok(user) = UserId::parse(&user) else {
            // Another program wrote this job.
            let args = args![worker, GROUP, job, user];
            self.router
                .script(&scripts::FINISH_FANOUT, self.erasure_keys(), args)
                .await?;
            return Ok(None);
        };
        Ok(Some(TakenErasure {
            job,
            id: id.unwrap_or_else(ErasureId::random),
            user,
            progress: serde_json::from_str(&progress).unwrap_or_default(),
        }))
    }

    async fn keep(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<bool> {
        let progress = serde_json::to_string(&taken.progress).unwrap_or_default();
        let args = args![worker, GROUP, taken.job, taken.user, progress];
        self.router
            .script(&scripts::KEEP_FANOUT, self.erasure_keys(), args)
            .await?
            .flag()
    }

    async fn finish(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<()> {
        let mut keys = self.erasure_keys();
        keys.extend([
            self.keys().erasures_asked(),
            self.keys().erasure_report(&taken.id),
        ]);
        let ErasureProgress { found, .. } = &taken.progress;
        let found = serde_json::to_string(found).unwrap_or_default();
        let args = args![
            worker,
            GROUP,
            taken.job,
            taken.user,
            found,
            ERASURE_TTL.as_secs()
        ];
        self.router
            .script(&scripts::FINISH_ERASURE, keys, args)
            .await?;
        Ok(())
    }

    // --------------------------------------------------------------------------------- one step

    /// The master whose keys come after those of `done`, in the order of their names.
    fn master_after(&self, done: Option<&str>) -> Option<String> {
        let map = self.router.topology().map();
        let hosts = map.nodes().iter().map(|node| node.host().to_string());
        hosts.filter(|host| Some(host.as_str()) > done).min()
    }

    async fn step(&self, user: &UserId, place: &str) -> StoreResult<ErasedSome> {
        let place = match (Place::read(place), self.master_after(None)) {
            (Some(place), _) => place,
            (None, Some(host)) => Place::Keys(host, 0),
            (None, None) => return Err(StoreError::Lost("no master is known".to_owned())),
        };
        let mut step = ErasedSome::default();
        let next = match place {
            Place::Keys(host, cursor) => {
                Some(self.erase_keys(user, host, cursor, &mut step).await?)
            }
            Place::Logins(cursor) => self.erase_logins(user, cursor, &mut step).await?,
        };
        step.next = next.map(|place| place.write());
        Ok(step)
    }

    /// Erases what a page of the keys of a master has of the user.
    async fn erase_keys(
        &self,
        user: &UserId,
        host: String,
        cursor: u64,
        step: &mut ErasedSome,
    ) -> StoreResult<Place> {
        let map = self.router.topology().map();
        let node = map
            .nodes()
            .iter()
            .find(|node| node.host().to_string() == host);
        // A master that is gone has no keys any more. Another has them, and the next pass finds
        // them there.
        let (keys, cursor) = match node {
            Some(node) => self.page_of_keys(node, cursor).await?,
            None => {
                step.is_dirty = true;
                (Vec::new(), 0)
            }
        };
        let parts = match self.attendance_form() {
            AttendanceForm::Set => [Some(attendance::part_of(user)), None],
            AttendanceForm::Bitmap => [None, attendance::bit(user).map(|bit| bit.part)],
        };
        let mut suspects = Vec::new();
        for key in keys {
            if let Some(how) = self.keys().names_users(&key, user, parts) {
                suspects.push(Suspect { key, how });
            }
        }
        self.erase_suspects(user, suspects, step).await?;
        Ok(if cursor > 0 {
            Place::Keys(host, cursor)
        } else {
            match self.master_after(Some(&host)) {
                Some(next) => Place::Keys(next, 0),
                None => Place::Logins(0),
            }
        })
    }

    async fn page_of_keys(&self, node: &Node, cursor: u64) -> StoreResult<(Vec<String>, u64)> {
        let args = args![cursor, "MATCH", self.keys().matching("*"), "COUNT", PAGE];
        let steps = async {
            let answer = node
                .send(Share::Own, "SCAN", args)
                .await
                .map_err(StoreError::from)?;
            let mut reply = Reply::of(answer)?;
            let next = reply.number()?;
            Ok((reply.list()?.texts().collect(), next))
        };
        self.router.call("erase_some", steps).await
    }

    async fn erase_suspects(
        &self,
        user: &UserId,
        suspects: Vec<Suspect>,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        let mut others = Vec::new();
        let mut timelines = Vec::new();
        let mut stays = Vec::new();
        for suspect in suspects {
            match suspect.how {
                NamesUsers::Timeline => timelines.push(ScriptCall {
                    keys: vec![suspect.key],
                    args: args![format_args!("{user}~")],
                }),
                NamesUsers::Stays(sessions) => stays.push(ScriptCall {
                    keys: vec![suspect.key, sessions],
                    args: args![user, MOST_SESSIONS],
                }),
                NamesUsers::Events => self.erase_events(user, &suspect.key, step).await?,
                _ => others.push(suspect),
            }
        }
        self.erase_by_script(
            &scripts::ERASE_STATUSES,
            timelines,
            Trace::TimelineEntries,
            step,
        )
        .await?;
        self.erase_by_script(&scripts::ERASE_STAYS, stays, Trace::Sessions, step)
            .await?;
        let looked = self
            .router
            .read_each(
                "erase_some",
                &others,
                |suspect| self.look_commands(suspect, user),
                |suspect, answers| read_look(suspect, user, answers),
            )
            .await;
        for (suspect, found) in others.iter().zip(looked) {
            match found {
                Ok(found) => self.act_on(user, suspect, found, step).await?,
                // A key of another type, which another program wrote.
                Err(StoreError::Nonsense(_)) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    async fn erase_by_script(
        &self,
        script: &'static Script,
        calls: Vec<ScriptCall>,
        trace: Trace,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let answers = self
            .router
            .call("erase_some", async {
                Ok(self.router.script_each(script, calls).await)
            })
            .await?;
        for answer in answers {
            match answer {
                Ok(mut count) => step.add(trace, count.number()?),
                Err(StoreError::Nonsense(_)) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// The commands that look into a key, and erase what they can at once.
    fn look_commands(&self, suspect: &Suspect, user: &UserId) -> Vec<Command> {
        let key = &suspect.key;
        match &suspect.how {
            NamesUsers::Own(Some(size)) => {
                vec![(size.command, args![key]), ("UNLINK", args![key])]
            }
            NamesUsers::Own(None) => vec![("UNLINK", args![key])],
            NamesUsers::Profile => vec![("HMGET", args![key, "login", "former"])],
            NamesUsers::Ranked(_) => vec![("ZREM", args![key, user])],
            NamesUsers::Removals => {
                vec![("ZREM", args![key, user, format_args!("+{user}")])]
            }
            NamesUsers::AttendanceSet => vec![("SREM", args![key, user])],
            NamesUsers::AttendanceBits => match attendance::bit(user) {
                Some(bit) => vec![("GETBIT", args![key, bit.offset])],
                None => Vec::new(),
            },
            NamesUsers::Attended(_) => vec![("HMGET", args![key, "streamer_id"])],
            NamesUsers::LastSeen => {
                let mut args = args![key];
                args.push(write_member(self.seen_ids(), user));
                vec![("ZREM", args)]
            }
            NamesUsers::Record(_) => vec![("HMGET", args![key, "streamer_id", "state"])],
            NamesUsers::Answer | NamesUsers::StreamKey => vec![("GET", args![key])],
            NamesUsers::OnlineSet => vec![("SISMEMBER", args![key, user])],
            NamesUsers::OnlineHash => vec![("HGET", args![key, user])],
            NamesUsers::Unfinished => vec![("HGETALL", args![key])],
            NamesUsers::Timeline | NamesUsers::Stays(_) | NamesUsers::Events => Vec::new(),
        }
    }

    /// Does what a look into a key asks for.
    async fn act_on(
        &self,
        user: &UserId,
        suspect: &Suspect,
        found: Looked,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        match found {
            Looked::Nothing => {}
            Looked::Gone(Some(trace), count) => step.add(trace, count),
            Looked::Gone(None, count) => step.is_dirty |= count > 0,
            Looked::Remains => step.is_dirty = true,
            Looked::Profile(logins) => {
                for login in logins {
                    self.free_login(user, &login, step).await?;
                }
                // The profile goes last: it knows the logins.
                step.add(Trace::Profiles, self.erase_key(&suspect.key).await?);
            }
            Looked::Doomed(trace) => step.add(trace, self.erase_key(&suspect.key).await?),
            Looked::Bit => {
                if let Some(bit) = attendance::bit(user) {
                    let args = args![suspect.key, "SET", "u1", bit.offset, 0];
                    self.erase("BITFIELD", args).await?;
                    step.add(Trace::Attendance, 1);
                }
            }
            Looked::Owned(live, false) => {
                step.is_dirty = true;
                step.open_lives.push(live);
            }
            Looked::Owned(live, true) => {
                self.erase_live(&live).await?;
                step.add(Trace::Lives, 1);
            }
            Looked::Attended(of) => {
                let attended = self.attended(&of).await?;
                self.forget_attendance(&of, attended.as_ref()).await?;
                step.is_dirty = true;
            }
            Looked::StreamKey(live) => {
                let args = args![self.keys().live(&live), "streamer_id"];
                let owner = self.erase("HGET", args).await?.into_string();
                if owner.is_none_or(|owner| owner == user.as_str()) {
                    step.add(Trace::StreamKeys, self.erase_key(&suspect.key).await?);
                }
            }
        }
        Ok(())
    }

    /// Sends one command of a step. The first argument is its key.
    async fn erase(&self, command: &'static str, args: Vec<Value>) -> StoreResult<Value> {
        let steps = self.router.command(command, args);
        self.router.call("erase_some", steps).await
    }

    async fn erase_key(&self, key: &str) -> StoreResult<u64> {
        number(&self.erase("UNLINK", args![key]).await?)
    }

    async fn free_login(
        &self,
        user: &UserId,
        login: &Login,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        let steps = async {
            let key = self.keys().users();
            let owner = self
                .router
                .command("HGET", args![key, login.folded()])
                .await?;
            if owner.into_string().as_deref() != Some(user.as_str()) {
                return Ok(0);
            }
            let until = self.router.not_after(&key).await?;
            self.give_back(user, login, until).await?;
            Ok(1)
        };
        let freed = self.router.call("erase_some", steps).await?;
        step.add(Trace::Logins, freed);
        Ok(())
    }

    /// Erases the record of a closed live, and all that lies beside it.
    async fn erase_live(&self, live: &LiveId) -> StoreResult<()> {
        let record = self.keys().live(live);
        let epoch = self.erase("HGET", args![record, "epoch"]).await?;
        let mut all = vec![
            self.keys().removals(live),
            self.keys().bans(live),
            self.keys().streams(live),
        ];
        if let Ok(epoch) = number(&epoch) {
            all.push(self.keys().history(&LiveEpoch {
                live: live.clone(),
                epoch: Epoch(epoch),
            }));
        }
        // The record goes last: it leads to the others.
        all.push(record);
        for key in all {
            self.erase_key(&key).await?;
        }
        Ok(())
    }

    /// Frees the logins of a page that are the user's: claims that no profile carries.
    async fn erase_logins(
        &self,
        user: &UserId,
        cursor: u64,
        step: &mut ErasedSome,
    ) -> StoreResult<Option<Place>> {
        let args = args![self.keys().users(), cursor, "COUNT", MAX_BATCH];
        let mut reply = Reply::of(self.erase("HSCAN", args).await?)?;
        let next = reply.number()?;
        for (login, owner) in reply.list()?.pairs()? {
            if owner == user.as_str()
                && let Ok(login) = Login::parse(&login)
            {
                self.free_login(user, &login, step).await?;
            }
        }
        Ok((next > 0).then_some(Place::Logins(next)))
    }

    /// Deletes the events of a stream that name the user, page by page.
    async fn erase_events(
        &self,
        user: &UserId,
        stream: &str,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        let mut from = "-".to_owned();
        loop {
            let page = args![stream, from, "+", "COUNT", EVENTS];
            let mut page = Reply::of(self.erase("XRANGE", page).await?)?;
            let mut doomed = args![stream];
            let mut last = None;
            while let Some(piece) = page.piece() {
                let (entry, fields) = entry(piece)?;
                if fields
                    .get("data")
                    .is_some_and(|data| event_names(data, user))
                {
                    doomed.push(Value::from(entry.to_string()));
                }
                last = Some(entry);
            }
            if doomed.len() > 1 {
                let deleted = self.erase("XDEL", doomed).await?;
                step.add(Trace::WebhookEvents, number(&deleted)?);
            }
            match last {
                Some(last) => from = format!("({last}"),
                None => return Ok(()),
            }
        }
    }
}

/// Reads the answers to [`RedisStore::look_commands`].
fn read_look(
    suspect: &Suspect,
    user: &UserId,
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
) -> StoreResult<Looked> {
    // An id that is no number has no bit.
    if suspect.how == NamesUsers::AttendanceBits && attendance::bit(user).is_none() {
        return Ok(Looked::Nothing);
    }
    let first = next_answer(answers);
    match &suspect.how {
        NamesUsers::Own(Some(Size { trace, .. })) => {
            // Take both answers, so that the next key finds its own.
            next_answer(answers)?;
            Ok(Looked::Gone(Some(*trace), number(&first?)?))
        }
        NamesUsers::Own(None) => Ok(Looked::Gone(None, number(&first?)?)),
        NamesUsers::Ranked(trace) => Ok(Looked::Gone(*trace, number(&first?)?)),
        NamesUsers::Removals => Ok(Looked::Gone(Some(Trace::Bans), number(&first?)?)),
        NamesUsers::AttendanceSet => Ok(Looked::Gone(Some(Trace::Attendance), number(&first?)?)),
        NamesUsers::LastSeen => Ok(Looked::Gone(Some(Trace::LastSeen), number(&first?)?)),
        NamesUsers::Profile => {
            let logins = Reply::of(first?)?.texts();
            Ok(Looked::Profile(
                logins.filter_map(|it| Login::parse(&it).ok()).collect(),
            ))
        }
        NamesUsers::AttendanceBits => Ok(if_there(number(&first?)? > 0, Looked::Bit)),
        NamesUsers::OnlineSet => Ok(if_there(number(&first?)? > 0, Looked::Remains)),
        NamesUsers::OnlineHash => Ok(if_there(!first?.is_null(), Looked::Remains)),
        NamesUsers::Attended(of) => {
            let owner = Reply::of(first?)?.texts().next();
            let is_own = owner.as_deref() == Some(user.as_str());
            Ok(if_there(is_own, Looked::Attended(of.clone())))
        }
        NamesUsers::Record(live) => {
            let fields = Reply::of(first?)?.pieces();
            let is_own = is_text(fields.first(), user.as_str());
            let is_closed = is_text(fields.get(1), "closed");
            Ok(if_there(is_own, Looked::Owned(live.clone(), is_closed)))
        }
        NamesUsers::Answer => {
            let answer = first?.into_string().unwrap_or_default();
            Ok(if_there(
                names(&answer, user),
                Looked::Doomed(Trace::Answers),
            ))
        }
        NamesUsers::StreamKey => match LiveId::parse(&first?.into_string().unwrap_or_default()) {
            Ok(live) => Ok(Looked::StreamKey(live)),
            Err(_) => Ok(Looked::Nothing),
        },
        NamesUsers::Unfinished => {
            let fields = Reply::of(first?)?.pairs()?;
            let is_there = fields
                .iter()
                .any(|(name, value)| names(name, user) || names(value, user));
            Ok(if_there(is_there, Looked::Remains))
        }
        NamesUsers::Timeline | NamesUsers::Stays(_) | NamesUsers::Events => Ok(Looked::Nothing),
    }
}

fn is_text(piece: Option<&Value>, text: &str) -> bool {
    piece.and_then(Value::as_bytes) == Some(text.as_bytes())
}

fn if_there(is_there: bool, found: Looked) -> Looked {
    if is_there { found } else { Looked::Nothing }
}

#[async_trait]
impl Erasures for RedisStore {
    async fn ask_erasure(&self, user: &UserId) -> StoreResult<ErasureId> {
        self.router.call("ask_erasure", self.do_ask(user)).await
    }

    async fn erasure(&self, id: &ErasureId) -> StoreResult<Option<Erasure>> {
        self.router.call("erasure", self.read_erasure(id)).await
    }

    async fn being_erased(&self) -> StoreResult<Vec<UserId>> {
        let args = args![self.keys().erasures_progress()];
        let steps = async { Ok(Reply::of(self.router.command("HKEYS", args).await?)?.users()) };
        self.router.call("being_erased", steps).await
    }

    async fn take_erasure(&self, worker: &GatewayId) -> StoreResult<Option<TakenErasure>> {
        self.router.call("take_erasure", self.take(worker)).await
    }

    async fn keep_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<bool> {
        self.router
            .call("keep_erasure", self.keep(worker, taken))
            .await
    }

    async fn finish_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<()> {
        self.router
            .call("finish_erasure", self.finish(worker, taken))
            .await
    }

    async fn erase_some(&self, user: &UserId, place: &str) -> StoreResult<ErasedSome> {
        self.step(user, place).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for place in [
            Place::Keys("[::1]:6379".to_owned(), u64::MAX),
            Place::Logins(7),
        ] {
            assert_eq!(Place::read(&place.write()), Some(place));
        }
        for other in ["", "keys", "keys a", "logins x", "dead", "lists 1"] {
            assert_eq!(Place::read(other), None, "{other}");
        }
    }
}
