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
//! What to do with a key says its [`Family`], or the eraser that the owner of the key has. Large keys
//! that know many users come last: steps of their own go over them.

use async_trait::async_trait;
use fred::types::Value;

use crate::base::ids::UserId;
use crate::store::redis::erasing::{AllErasers, ErasesKeys, Erasing, FamilyEraser, Look, Suspect};
use crate::store::redis::family::{AllFamilies, Family, KeyType, Names, Own};
use crate::store::redis::keys::Keys;
use crate::store::redis::node::{Node, Share};
use crate::store::redis::reply::{Reply, next_answer, nonsense, number};
use crate::store::redis::router::ScriptCall;
use crate::store::redis::scripts::Script;
use crate::store::redis::{RedisCalls, args};
use crate::store::{ErasedSome, PersonalData, StoreError, StoreResult};

/// Keys of a step, about.
const PAGE: usize = 500;

/// Where a step of a pass begins.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// At this cursor of the keys of a master, which only the run of the server understands that
    /// made it. 0 is the beginning.
    Keys {
        host: String,
        run: String,
        cursor: u64,
    },
    /// In a large key, by the name of its family, at this cursor.
    Large { name: String, cursor: u64 },
}

impl Place {
    fn keys_of(host: String) -> Self {
        Self::Keys {
            host,
            run: "-".to_owned(),
            cursor: 0,
        }
    }

    /// Reads what [`Self::write`] wrote. `None` at the beginning of a pass, and for a text that
    /// another version wrote, with which the pass begins anew.
    fn read(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split(' ').collect();
        match words[..] {
            ["keys", host, run, cursor] => Some(Self::Keys {
                host: host.to_owned(),
                run: run.to_owned(),
                cursor: cursor.parse().ok()?,
            }),
            [name, cursor] => Some(Self::Large {
                name: name.to_owned(),
                cursor: cursor.parse().ok()?,
            }),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Keys { host, run, cursor } => format!("keys {host} {run} {cursor}"),
            Self::Large { name, cursor } => format!("{name} {cursor}"),
        }
    }
}

/// A key that may name the user, and how to deal with it.
struct Candidate {
    key: Suspect,
    look: Look,
    eraser: &'static dyn ErasesKeys,
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
            (None, Some(host)) => Place::keys_of(host),
            (None, None) => return Err(StoreError::Lost("no master is known".to_owned())),
        };
        let mut erasing = Erasing {
            calls: self,
            user,
            step: ErasedSome::default(),
        };
        let next = match &place {
            Place::Keys { host, run, cursor } => erasing.keys(host, run, *cursor).await,
            Place::Large { name, cursor } => erasing.large(name, *cursor).await,
        };
        let mut step = erasing.step;
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
}

impl Erasing<'_> {
    /// Erases what a page of the keys of a master has of the user.
    async fn keys(&mut self, host: &str, run: &str, cursor: u64) -> StoreResult<Option<Place>> {
        let map = self.calls.router.topology().map();
        let mut nodes = map.nodes().iter();
        if let Some(node) = nodes.find(|node| node.host().to_string() == host) {
            let (keys, next) = self.page_of_keys(node, run, cursor).await?;
            self.erase_from(keys).await?;
            if next.is_some() {
                return Ok(next);
            }
        } else {
            // A master that is gone has no keys any more. Another has them, and the next pass finds
            // them there.
            self.step.is_dirty = true;
        }
        match self.calls.master_after(Some(host)) {
            Some(host) => Ok(Some(Place::keys_of(host))),
            None => Ok(self.large_after(None)),
        }
    }

    /// The beginning of the large key after this one; `None` after the last.
    fn large_after(&self, done: Option<&str>) -> Option<Place> {
        let mut families = self.calls.keys().families();
        families.retain(|family| family.names == Names::Large && Some(family.name) > done);
        let name = families.into_iter().map(|family| family.name).min()?;
        Some(Place::Large {
            name: name.to_owned(),
            cursor: 0,
        })
    }

    /// Erases what a page of a large key has of the user.
    async fn large(&mut self, name: &str, cursor: u64) -> StoreResult<Option<Place>> {
        for (family, eraser) in self.calls.keys().erasers() {
            if family.name == name {
                let cursor = eraser.page(cursor, self).await?;
                if cursor > 0 {
                    let name = name.to_owned();
                    return Ok(Some(Place::Large { name, cursor }));
                }
            }
        }
        Ok(self.large_after(Some(name)))
    }

    /// A page of the keys of a master, and where the next one begins. Notes in the step if the
    /// server started since the cursor was made: then its keys are looked at from the beginning,
    /// and another pass is needed.
    async fn page_of_keys(
        &mut self,
        node: &Node,
        run: &str,
        cursor: u64,
    ) -> StoreResult<(Vec<String>, Option<Place>)> {
        let calls = self.calls;
        let steps = async {
            let now = run_of(node).await?;
            let mut from = cursor;
            if cursor > 0 && now != run {
                self.step.is_dirty = true;
                from = 0;
            }
            let args = args![from, "MATCH", calls.keys().matching("*"), "COUNT", PAGE];
            let answer = node
                .send(Share::Own, "SCAN", args)
                .await
                .map_err(StoreError::from)?;
            let mut reply = Reply::of(answer)?;
            let next = reply.cursor()?.map(|cursor| Place::Keys {
                host: node.host().to_string(),
                run: now,
                cursor,
            });
            Ok((reply.list()?.texts().collect(), next))
        };
        calls.router.call("erase_some", steps).await
    }

    /// Erases what these keys have of the user.
    async fn erase_from(&mut self, keys: Vec<String>) -> StoreResult<()> {
        let families = self.calls.keys().families();
        let erasers = self.calls.keys().erasers();
        let mut scripts: Vec<(PersonalData, &'static Script, Vec<ScriptCall>)> = Vec::new();
        let mut others = Vec::new();
        for key in keys {
            let Some(key) = suspect(self.calls.keys(), &families, key) else {
                continue;
            };
            let Some(candidate) = self.candidate(&erasers, key) else {
                continue;
            };
            let Look::Run(kind, script, call) = candidate.look else {
                others.push(candidate);
                continue;
            };
            let same = scripts
                .iter_mut()
                .find(|(of, its, _)| *of == kind && std::ptr::eq(*its, script));
            match same {
                Some((.., calls)) => calls.push(call),
                None => scripts.push((kind, script, vec![call])),
            }
        }
        let mut failed = Ok(());
        for (kind, script, calls) in scripts {
            // The others are erased all the same, and count.
            if let Err(why) = self.run(script, calls, kind).await {
                failed = Err(why);
            }
        }
        let answers = self
            .calls
            .router
            .read_each(
                "erase_some",
                &others,
                |candidate| candidate.look.commands(),
                |candidate, answers| {
                    let mut first = next_answer(answers);
                    for _ in 1..candidate.look.commands().len() {
                        // Each answer is taken, so that the next key finds its own.
                        if let Err(why) = next_answer(answers) {
                            first = Err(why);
                        }
                    }
                    first
                },
            )
            .await;
        for (candidate, answer) in others.into_iter().zip(answers) {
            let Candidate { key, look, eraser } = candidate;
            let done = match (known(answer), look) {
                (Ok(Some(answer)), Look::Erase(kind, _)) => {
                    number(&answer).map(|count| self.step.note(kind, count))
                }
                (Ok(Some(answer)), _) => eraser.act(&key, answer, self).await,
                (answer, _) => answer.map(drop),
            };
            if done.is_err() {
                failed = done;
            }
        }
        failed
    }

    async fn run(
        &mut self,
        script: &'static Script,
        calls: Vec<ScriptCall>,
        kind: PersonalData,
    ) -> StoreResult<()> {
        let router = &self.calls.router;
        let answers = async { Ok(router.script_each(script, calls).await) };
        let mut failed = Ok(());
        for answer in router.call("erase_some", answers).await? {
            match known(answer) {
                Ok(Some(mut count)) => self.step.add(kind, count.number()?),
                Ok(None) => {}
                Err(why) => failed = Err(why),
            }
        }
        failed
    }

    /// How to deal with a key; `None` if it cannot name the user.
    fn candidate(&self, erasers: &[FamilyEraser], key: Suspect) -> Option<Candidate> {
        let mut of_key: Vec<&'static dyn ErasesKeys> = vec![&Declared];
        for (family, eraser) in erasers {
            if *family == key.family {
                of_key.push(*eraser);
            }
        }
        for eraser in of_key {
            if let Some(look) = eraser.look(&key, self) {
                return Some(Candidate { key, look, eraser });
            }
        }
        None
    }
}

/// A key with its family; `None` for a key that no gateway writes.
fn suspect(keys: &Keys, families: &[&'static Family], key: String) -> Option<Suspect> {
    for family in families {
        if let Some(ids) = keys.read(family, &key) {
            let ids = ids.into_iter().map(str::to_owned).collect();
            return Some(Suspect { key, family, ids });
        }
    }
    None
}

/// Erases what the declaration of a key says.
struct Declared;

#[async_trait]
impl ErasesKeys for Declared {
    fn look(&self, key: &Suspect, of: &Erasing<'_>) -> Option<Look> {
        declared_look(key, of.user)
    }

    /// If the user is there, gateways take the user away.
    async fn act(&self, key: &Suspect, answer: Value, of: &mut Erasing<'_>) -> StoreResult<()> {
        of.step.is_dirty |= match (key.family.names, key.family.kind) {
            (Names::Unfinished, _) => {
                let mut texts = Reply::of(answer)?.texts();
                texts.any(|text| has_word(&text, of.user))
            }
            (_, KeyType::Set) => number(&answer)? > 0,
            _ => !answer.is_null(),
        };
        Ok(())
    }
}

fn declared_look(Suspect { key, family, ids }: &Suspect, user: &UserId) -> Option<Look> {
    let is_own = ids.last().is_some_and(|owner| owner == user.as_str());
    let unlink = ("UNLINK", args![key]);
    match (family.own, family.names) {
        (Own::Untold, _) if is_own => Some(Look::Erase(None, vec![unlink])),
        (Own::Told(kind, command), _) if is_own => {
            Some(Look::Erase(Some(kind), vec![(command, args![key]), unlink]))
        }
        (_, Names::Members(kind)) => {
            let args = args![key, user, format_args!("+{user}")];
            Some(Look::Erase(kind, vec![("ZREM", args)]))
        }
        (_, Names::Online) => {
            let is_set = family.kind == KeyType::Set;
            let command = if is_set { "SISMEMBER" } else { "HGET" };
            Some(Look::Read((command, args![key, user])))
        }
        (_, Names::Unfinished) => Some(Look::Read(("HGETALL", args![key]))),
        (_, Names::Nobody | Names::Otherwise | Names::Large) => None,
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

/// Whether one of the words of a job or a change is the user, or a status of the user.
fn has_word(text: &str, user: &UserId) -> bool {
    text.split([' ', '~']).any(|word| word == user.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{Epoch, ListName, LiveId, OnlineSet, SliceId, USERS_SLICES};
    use crate::base::key_prefix::KeyPrefix;
    use crate::features::feeds::store::timelines::Timeline;
    use crate::store::{Edge, LiveEpoch};

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    /// What is done with a key: the commands and what the report tells, or `owner` if its owner says
    /// what.
    fn done_with(keys: &Keys, key: &str, user: &UserId) -> String {
        let Some(suspect) = suspect(keys, &keys.families(), key.to_owned()) else {
            return "unknown".to_owned();
        };
        let names = suspect.family.names;
        let look = match declared_look(&suspect, user) {
            Some(look) => look,
            None if names == Names::Otherwise => return "owner".to_owned(),
            None => return String::new(),
        };
        let mut words: Vec<String> = Vec::new();
        for (command, _) in look.commands() {
            words.push(command.to_owned());
        }
        if let Look::Erase(Some(kind), _) = look {
            words.push(serde_json::to_string(&kind).unwrap().replace('"', ""));
        }
        words.join(" ")
    }

    #[test]
    fn what_is_done_with_a_key_depends_on_what_it_is_and_on_whose_it_is() {
        for prefix in ["", "app1:"] {
            let keys = Keys::new(KeyPrefix::parse(prefix).unwrap(), 0);
            let (mine, other) = (user("u:1"), user("u2"));
            let live = LiveId::parse("42").unwrap();
            let list = ListName::parse("cooks").unwrap();
            let of = LiveEpoch {
                live: live.clone(),
                epoch: Epoch(3),
            };
            let of_live = OnlineSet::Live(live.clone());
            let slice = SliceId::all(of_live, 1).next().unwrap();
            let [who, gateways] = keys.whereabouts(1);
            let [past, summaries] = keys.past_lives(&mine);
            for (key, done) in [
                (keys.user(&mine), "owner"),
                (keys.edge(&mine, Edge::Following), "ZCARD UNLINK following"),
                (keys.edge(&other, Edge::Followers), "ZREM"),
                (keys.list_of(&mine, &list), "EXISTS UNLINK lists"),
                (keys.list_of(&other, &list), "ZREM list_places"),
                (
                    keys.timeline(&Timeline::Home(mine.clone())),
                    "ZCARD UNLINK timeline_entries",
                ),
                (keys.timeline(&Timeline::Home(other.clone())), "owner"),
                (keys.timeline(&Timeline::Profile(other.clone())), ""),
                (keys.posts(&mine), "HLEN UNLINK announcements"),
                (keys.posts(&other), ""),
                (past, "UNLINK"),
                (summaries, "HLEN UNLINK past_lives"),
                (keys.claimed_lives(&mine), "UNLINK"),
                (keys.claimed_lives(&other), ""),
                (keys.attended_lives(&mine), "UNLINK"),
                (keys.attendance_set(&of, 7), "owner"),
                (keys.attendance_bits(&of, 7), "owner"),
                (keys.attended(&of), "owner"),
                (keys.live(&live), "owner"),
                (keys.removals(&live), "ZREM bans"),
                (keys.bans(&live), "ZREM bans"),
                (keys.last_seen(5), "owner"),
                (keys.pulled(), "ZREM"),
                (keys.changes(9), "HGETALL"),
                (keys.fanout_progress(), "HGETALL"),
                (keys.events(), ""),
                (keys.audit_trail(), "owner"),
                (keys.users(), ""),
                (keys.erasures_progress(), ""),
                (keys.stays(&slice, Epoch(3)), "owner"),
                (
                    keys.members(&slice, crate::base::ids::Group::All),
                    "SISMEMBER",
                ),
                (keys.online_users(USERS_SLICES), "SISMEMBER"),
                (who, "HGET"),
                (gateways, ""),
                (format!("other:{prefix}"), "unknown"),
            ] {
                assert_eq!(done_with(&keys, &key, &mine), done, "{key}");
            }
        }
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let host = "[::1]:6379".to_owned();
        for place in [
            Place::keys_of(host.clone()),
            Place::Keys {
                host,
                run: "0a1b".to_owned(),
                cursor: u64::MAX,
            },
            Place::Large {
                name: "users".to_owned(),
                cursor: 7,
            },
        ] {
            assert_eq!(Place::read(&place.write()), Some(place));
        }
        for other in ["", "keys", "keys a", "keys a 1", "keys a b c", "users x"] {
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
