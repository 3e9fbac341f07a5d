//! The walk that erases. [`crate::features::erasure::redis_jobs`] has the calls, and keeps the jobs.
//!
//! A pass goes over all keys of all masters, because nothing says in which lists, timelines and
//! answers a user is. Erasures are rare, so the walk is worth more than an index that every write
//! would have to keep. A step takes one page of keys, and touches each key by itself: keys of a
//! cluster lie in different slots. Its place is the cursor of the page, so another gateway goes on
//! where one was stopped. A cursor means nothing to a server that started since: the place names the
//! run of the server, and if that is another one, its keys are looked at anew. Keys that a master
//! gets from another meanwhile are found by the next pass.
//!
//! The logins are one large key that knows many users: steps of their own go over it.

use crate::features::erasure::scripts as own_scripts;
use fred::types::Value;

use crate::base::ids::{Epoch, LiveId, Login, UserId};
use crate::config::AttendanceForm;
use crate::features::attendance::redis as attendance;
use crate::features::attendance::store::Attendance;
use crate::features::erasure::personal_data::{NamesUsers, Size};
use crate::features::erasure::store::{ErasedSome, PersonalData, json_names};
use crate::features::media::store::Publishing;
use crate::store::ERASED_KEPT;
use crate::store::LiveEpoch;
use crate::store::MOST_SESSIONS;
use crate::store::redis::events::entry;
use crate::store::redis::last_seen::write_member;
use crate::store::redis::lives::record;
use crate::store::redis::node::{Command, Node, Share};
use crate::store::redis::reply::{Reply, next_answer, nonsense, number};
use crate::store::redis::router::ScriptCall;
use crate::store::redis::scripts::Script;
use crate::store::redis::{RedisCalls, args};
use crate::store::{ERASED_ANSWER, LiveRecord, LiveState, MAX_BATCH, StoreError, StoreResult};

/// Keys of a step, about.
const PAGE: usize = 500;
/// Events of a stream that are read at once.
const EVENTS: usize = 250;

/// Where a step of a pass begins.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// In the keys of a master.
    Keys(KeysPlace),
    /// At this cursor of the logins.
    Logins(u64),
}

/// A place in the keys of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeysPlace {
    host: String,
    /// Where to go on; `None` at the first page.
    at: Option<Cursor>,
}

/// A cursor of a SCAN, which only the run of the server understands that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    run: String,
    cursor: u64,
}

impl KeysPlace {
    fn first_of(host: String) -> Self {
        Self { host, at: None }
    }
}

impl Place {
    /// Reads what [`Self::write`] wrote. `None` at the beginning of a pass, and for a text that
    /// another version wrote, with which the pass begins anew.
    fn read(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split(' ').collect();
        match words[..] {
            ["keys", host] => Some(Self::Keys(KeysPlace::first_of(host.to_owned()))),
            ["keys", host, run, cursor] => {
                let run = run.to_owned();
                let cursor = cursor.parse().ok()?;
                Some(Self::Keys(KeysPlace {
                    host: host.to_owned(),
                    at: Some(Cursor { run, cursor }),
                }))
            }
            ["logins", cursor] => Some(Self::Logins(cursor.parse().ok()?)),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Keys(KeysPlace { host, at: None }) => format!("keys {host}"),
            Self::Keys(KeysPlace {
                host,
                at: Some(Cursor { run, cursor }),
            }) => format!("keys {host} {run} {cursor}"),
            Self::Logins(cursor) => format!("logins {cursor}"),
        }
    }
}

/// A key that may name the user.
struct Candidate {
    key: String,
    how: NamesUsers,
}

/// How a step deals with a key.
enum Look {
    /// These commands erase at once. The first tells how many things of the kind there were.
    Erase(Option<PersonalData>, Vec<Command>),
    /// This command reads, and [`read_look`] says what to do then.
    Read(Command),
}

/// What a look into a key says.
enum Looked {
    /// Nothing of the user.
    Nothing,
    /// So many things, which are gone now.
    Gone(Option<PersonalData>, u64),
    /// The user is there, until gateways take the user away.
    Remains,
    /// The profile, with the logins that it knows.
    Profile(Vec<Login>),
    /// The key says that it names the user, and goes.
    Delete(PersonalData),
    /// An answer that names the user.
    Answer,
    /// A record of a live of the user.
    Owned(LiveId),
    /// The attendance of a live of the user.
    Attended(LiveEpoch),
    /// A stream key of this live.
    StreamKey(LiveId),
}

impl RedisCalls {
    /// The master whose keys come after those of `done`, in the order of their names.
    fn master_after(&self, done: Option<&str>) -> Option<String> {
        let map = self.router.topology().map();
        let hosts = map.nodes().iter().map(|node| node.host().to_string());
        hosts.filter(|host| Some(host.as_str()) > done).min()
    }

    pub(crate) async fn step(&self, user: &UserId, place: &str) -> StoreResult<ErasedSome> {
        let place = match (Place::read(place), self.master_after(None)) {
            (Some(place), _) => place,
            (None, Some(host)) => Place::Keys(KeysPlace::first_of(host)),
            (None, None) => return Err(StoreError::Lost("no master is known".to_owned())),
        };
        let mut step = ErasedSome::default();
        let next = match &place {
            Place::Keys(keys) => self.erase_keys(user, keys, &mut step).await.map(Some),
            Place::Logins(cursor) => self.erase_logins(user, *cursor, &mut step).await,
        };
        let next = match next {
            Ok(next) => next,
            Err(why) => {
                step.failed = Some(why);
                Some(place)
            }
        };
        step.next = next.map(|place| place.write());
        Ok(step)
    }

    /// Erases what a page of the keys of a master has of the user.
    async fn erase_keys(
        &self,
        user: &UserId,
        place: &KeysPlace,
        step: &mut ErasedSome,
    ) -> StoreResult<Place> {
        let map = self.router.topology().map();
        let node = map
            .nodes()
            .iter()
            .find(|node| node.host().to_string() == place.host);
        let mut next = None;
        if let Some(node) = node {
            let (keys, after) = self.page_of_keys(node, place.at.as_ref(), step).await?;
            next = after;
            self.erase_from(user, keys, step).await?;
        } else {
            // A master that is gone has no keys any more. Another has them, and the next pass finds
            // them there.
            step.is_dirty = true;
        }
        if next.is_some() {
            return Ok(Place::Keys(KeysPlace {
                host: place.host.clone(),
                at: next,
            }));
        }
        Ok(match self.master_after(Some(&place.host)) {
            Some(host) => Place::Keys(KeysPlace::first_of(host)),
            None => Place::Logins(0),
        })
    }

    /// A page of the keys of a master, and where the next one begins. Notes in the step if the
    /// server started since the cursor was made: then its keys are looked at from the beginning,
    /// and another pass is needed.
    async fn page_of_keys(
        &self,
        node: &Node,
        at: Option<&Cursor>,
        step: &mut ErasedSome,
    ) -> StoreResult<(Vec<String>, Option<Cursor>)> {
        let steps = async {
            let run = run_of(node).await?;
            let from = match at {
                Some(at) if at.run == run => at.cursor,
                Some(_) => {
                    step.is_dirty = true;
                    0
                }
                None => 0,
            };
            let args = args![from, "MATCH", self.keys().matching("*"), "COUNT", PAGE];
            let answer = node
                .send(Share::Own, "SCAN", args)
                .await
                .map_err(StoreError::from)?;
            let mut reply = Reply::of(answer)?;
            let next = reply.cursor()?.map(|cursor| Cursor { run, cursor });
            Ok((reply.list()?.texts().collect(), next))
        };
        self.router.call("erase_some", steps).await
    }

    /// Erases what these keys have of the user.
    async fn erase_from(
        &self,
        user: &UserId,
        keys: Vec<String>,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        let parts = match self.attendance_form() {
            AttendanceForm::Set => [Some(attendance::part_of(user)), None],
            AttendanceForm::Bitmap => [None, attendance::bit(user).map(|bit| bit.part)],
        };
        let mut candidates = Vec::new();
        for key in keys {
            if let Some(how) = self.keys().names_users(&key, user, parts) {
                candidates.push(Candidate { key, how });
            }
        }
        self.erase_candidates(user, candidates, step).await
    }

    async fn erase_candidates(
        &self,
        user: &UserId,
        candidates: Vec<Candidate>,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        let mut others = Vec::new();
        let mut timelines = Vec::new();
        let mut stays = Vec::new();
        let mut bits = Vec::new();
        for candidate in candidates {
            match candidate.how {
                NamesUsers::Timeline => timelines.push(ScriptCall {
                    keys: vec![candidate.key],
                    args: args![format_args!("{user}~")],
                }),
                NamesUsers::Stays(sessions) => stays.push(ScriptCall {
                    keys: vec![candidate.key, sessions],
                    args: args![user, MOST_SESSIONS],
                }),
                // An id that is no number has no bit.
                NamesUsers::AttendanceBits => bits.extend(attendance::bit(user).map(|bit| {
                    let args = args![bit.offset];
                    let keys = vec![candidate.key];
                    ScriptCall { keys, args }
                })),
                NamesUsers::Events(kind) => {
                    known(self.erase_events(user, &candidate.key, kind, step).await)?;
                }
                _ => others.push(candidate),
            }
        }
        for (script, calls, kind) in [
            (
                &own_scripts::ERASE_STATUSES,
                timelines,
                PersonalData::TimelineEntries,
            ),
            (&own_scripts::ERASE_STAYS, stays, PersonalData::Sessions),
            (&own_scripts::CLEAR_BIT, bits, PersonalData::Attendance),
        ] {
            self.erase_by_script(script, calls, kind, step).await?;
        }
        let looked = self
            .router
            .read_each(
                "erase_some",
                &others,
                |candidate| match self.look(candidate, user) {
                    Look::Erase(_, commands) => commands,
                    Look::Read(command) => vec![command],
                },
                |candidate, answers| match self.look(candidate, user) {
                    Look::Erase(kind, commands) => {
                        let mut count = next_answer(answers);
                        for _ in 1..commands.len() {
                            // Each answer is taken, so that the next key finds its own.
                            if let Err(why) = next_answer(answers) {
                                count = Err(why);
                            }
                        }
                        Ok(Looked::Gone(kind, number(&count?)?))
                    }
                    Look::Read(_) => read_look(candidate, user, next_answer(answers)?),
                },
            )
            .await;
        let mut failed = Ok(());
        for (candidate, found) in others.iter().zip(looked) {
            let done = match known(found) {
                Ok(Some(found)) => self.act_on(user, candidate, found, step).await,
                Ok(None) => Ok(()),
                Err(why) => Err(why),
            };
            // The others are erased all the same, and count.
            if done.is_err() {
                failed = done;
            }
        }
        failed
    }

    async fn erase_by_script(
        &self,
        script: &'static Script,
        calls: Vec<ScriptCall>,
        kind: PersonalData,
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
        let mut failed = Ok(());
        for answer in answers {
            match known(answer) {
                Ok(Some(mut count)) => step.add(kind, count.number()?),
                Ok(None) => {}
                Err(why) => failed = Err(why),
            }
        }
        failed
    }

    /// How to deal with a key.
    fn look(&self, candidate: &Candidate, user: &UserId) -> Look {
        let key = &candidate.key;
        let unlink = ("UNLINK", args![key]);
        match &candidate.how {
            NamesUsers::Own(Some(Size { kind, command })) => {
                Look::Erase(Some(*kind), vec![(command, args![key]), unlink])
            }
            NamesUsers::Own(None) => Look::Erase(None, vec![unlink]),
            NamesUsers::Ranked(kind) => Look::Erase(*kind, vec![("ZREM", args![key, user])]),
            NamesUsers::Removals => {
                let args = args![key, user, format_args!("+{user}")];
                Look::Erase(Some(PersonalData::Bans), vec![("ZREM", args)])
            }
            NamesUsers::AttendanceSet => {
                let args = args![key, user];
                Look::Erase(Some(PersonalData::Attendance), vec![("SREM", args)])
            }
            NamesUsers::LastSeen => {
                let mut args = args![key];
                args.push(write_member(self.seen_ids(), user));
                Look::Erase(Some(PersonalData::LastSeen), vec![("ZREM", args)])
            }
            NamesUsers::Profile => Look::Read(("HMGET", args![key, "login", "former"])),
            NamesUsers::Attended(_) | NamesUsers::Record(_) => {
                Look::Read(("HGET", args![key, "streamer_id"]))
            }
            NamesUsers::Answer | NamesUsers::StreamKey => Look::Read(("GET", args![key])),
            NamesUsers::OnlineSet => Look::Read(("SISMEMBER", args![key, user])),
            NamesUsers::OnlineHash => Look::Read(("HGET", args![key, user])),
            NamesUsers::Unfinished => Look::Read(("HGETALL", args![key])),
            NamesUsers::Timeline
            | NamesUsers::Stays(_)
            | NamesUsers::AttendanceBits
            | NamesUsers::Events(_) => Look::Erase(None, Vec::new()),
        }
    }

    /// Does what a look into a key asks for.
    async fn act_on(
        &self,
        user: &UserId,
        candidate: &Candidate,
        found: Looked,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        match found {
            Looked::Nothing => {}
            Looked::Gone(Some(kind), count) => step.add(kind, count),
            Looked::Gone(None, count) => step.is_dirty |= count > 0,
            Looked::Remains => step.is_dirty = true,
            Looked::Profile(logins) => {
                for login in logins {
                    self.free_login(user, &login, step).await?;
                }
                // The profile goes last: it knows the logins.
                step.add(
                    PersonalData::Profiles,
                    self.erase_key(&candidate.key).await?,
                );
            }
            Looked::Delete(kind) => step.add(kind, self.erase_key(&candidate.key).await?),
            Looked::Answer => {
                let args = args![candidate.key, ERASED_ANSWER, "XX", "KEEPTTL"];
                let replaced = !self.erase("SET", args).await?.is_null();
                step.add(PersonalData::Answers, u64::from(replaced));
            }
            Looked::Owned(live) => self.erase_live(user, live, step).await?,
            Looked::Attended(of) => {
                let attended =
                    known(self.router.call("attended", self.attended(&of)).await)?.flatten();
                self.forget_attendance(&of, attended.as_ref()).await?;
                step.is_dirty = true;
            }
            Looked::StreamKey(live) => {
                let args = args![self.keys().live(&live), "streamer_id"];
                let owner = self.erase("HGET", args).await?;
                // A live without a record has not begun yet, or is over: its key ends by itself.
                if is_text(&owner, user) {
                    step.add(
                        PersonalData::StreamKeys,
                        self.erase_key(&candidate.key).await?,
                    );
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
        step.add(PersonalData::Logins, freed);
        Ok(())
    }

    /// Erases the record of a live of the user, and all that lies beside it, once the live is
    /// closed. A record that nobody can read goes at once.
    async fn erase_live(
        &self,
        user: &UserId,
        live: LiveId,
        step: &mut ErasedSome,
    ) -> StoreResult<()> {
        step.is_dirty = true;
        let key = self.keys().live(&live);
        let fields = Reply::of(self.erase("HGETALL", args![key]).await?)?;
        // What is known of the closed epoch: nothing, if nobody can read the record.
        let mut closed = [String::new(), String::new()];
        let mut epoch = Epoch(0);
        match record(&live, fields) {
            Ok(Some(LiveRecord {
                state: LiveState::Closed,
                epoch: there,
                closure,
                ..
            })) => {
                let at = closure.map_or(0, |closure| closure.at);
                epoch = there;
                closed = [epoch.to_string(), at.to_string()];
            }
            Ok(Some(_)) => {
                step.open_lives.push(live);
                return Ok(());
            }
            Ok(None) => return Ok(()),
            Err(_) => {}
        }
        let mut keys = self.record_keys(&live);
        keys.extend([
            self.keys().streams(&live),
            self.keys().history(&LiveEpoch {
                live: live.clone(),
                epoch,
            }),
            self.keys().erased_live(&live),
        ]);
        let [epoch, at] = closed;
        let args = args![user, epoch, at, ERASED_KEPT.as_secs()];
        let steps = self.router.script(&own_scripts::ERASE_LIVE, keys, args);
        let erased = self.router.call("erase_some", steps).await?.number()?;
        step.add(PersonalData::Lives, erased);
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
        kind: PersonalData,
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
                    .is_some_and(|data| json_names(data, user))
                {
                    doomed.push(Value::from(entry.to_string()));
                }
                last = Some(entry);
            }
            if doomed.len() > 1 {
                let deleted = self.erase("XDEL", doomed).await?;
                step.add(kind, number(&deleted)?);
            }
            match last {
                Some(last) => from = format!("({last}"),
                None => return Ok(()),
            }
        }
    }
}

/// The run of a server: another one after each start.
async fn run_of(node: &Node) -> StoreResult<String> {
    let info = node
        .send(Share::Own, "INFO", args!["server"])
        .await
        .map_err(StoreError::from)?
        .into_string()
        .unwrap_or_default();
    for line in info.lines() {
        if let Some(run) = line.strip_prefix("run_id:") {
            return Ok(run.trim().to_owned());
        }
    }
    Err(nonsense("a server that does not name its run"))
}

/// An answer about a key; `None` for a key of another type, which another program wrote.
fn known<T>(answer: StoreResult<T>) -> StoreResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(StoreError::Nonsense(_)) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Reads the answer to a [`Look::Read`].
fn read_look(candidate: &Candidate, user: &UserId, answer: Value) -> StoreResult<Looked> {
    let (is_there, found) = match &candidate.how {
        NamesUsers::Profile => {
            let logins = Reply::of(answer)?.texts();
            let logins = logins.filter_map(|it| Login::parse(&it).ok()).collect();
            (true, Looked::Profile(logins))
        }
        NamesUsers::OnlineSet => (number(&answer)? > 0, Looked::Remains),
        NamesUsers::OnlineHash => (!answer.is_null(), Looked::Remains),
        NamesUsers::Attended(of) => (is_text(&answer, user), Looked::Attended(of.clone())),
        NamesUsers::Record(live) => (is_text(&answer, user), Looked::Owned(live.clone())),
        NamesUsers::Answer => {
            let is_there = answer.as_string().is_some_and(|it| json_names(&it, user));
            (is_there, Looked::Answer)
        }
        NamesUsers::StreamKey => {
            let found = Publishing::from_text(&answer.into_string().unwrap_or_default());
            match found {
                Some(Publishing {
                    publisher: Some(it),
                    ..
                }) if it.streamer == *user => (true, Looked::Delete(PersonalData::StreamKeys)),
                Some(found) => (true, Looked::StreamKey(found.live)),
                None => (false, Looked::Nothing),
            }
        }
        NamesUsers::Unfinished => {
            let fields = Reply::of(answer)?.texts();
            let is_there = fields.into_iter().any(|text| has_word(&text, user));
            (is_there, Looked::Remains)
        }
        _ => (false, Looked::Nothing),
    };
    Ok(if is_there { found } else { Looked::Nothing })
}

fn is_text(answer: &Value, user: &UserId) -> bool {
    answer.as_bytes() == Some(user.as_str().as_bytes())
}

/// Whether one of the words of a job or a change is the user, or a status of the user.
fn has_word(text: &str, user: &UserId) -> bool {
    text.split([' ', '~']).any(|word| word == user.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let host = "[::1]:6379".to_owned();
        let cursor = Cursor {
            run: "0a1b".to_owned(),
            cursor: u64::MAX,
        };
        for place in [
            Place::Keys(KeysPlace::first_of(host.clone())),
            Place::Keys(KeysPlace {
                host,
                at: Some(cursor),
            }),
            Place::Logins(7),
        ] {
            assert_eq!(Place::read(&place.write()), Some(place));
        }
        for other in ["", "keys", "keys a 1", "keys a b c", "logins x", "lists 1"] {
            assert_eq!(Place::read(other), None, "{other}");
        }
    }

    #[test]
    fn a_change_names_a_user_by_a_whole_word() {
        let user = UserId::parse("u1").unwrap();
        for text in ["u1 s1", "add u1~abc", "g1 5 u1"] {
            assert!(has_word(text, &user), "{text}");
        }
        for text in ["", "u11 s1", "add u1.b~abc", "g1 5 tenant:u1"] {
            assert!(!has_word(text, &user), "{text}");
        }
    }
}
