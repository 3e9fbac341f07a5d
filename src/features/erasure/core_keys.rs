//! Erases users from keys of the core, where it takes more than the declaration of the keys says.

use async_trait::async_trait;
use fred::types::Value;

use super::scripts;
use super::store::json_names;
use crate::base::ids::{Epoch, LiveId};
use crate::store::redis::args;
use crate::store::redis::erasing::{ErasesKeys, Erasing, FamilyEraser, Look, Suspect};
use crate::store::redis::events::entry;
use crate::store::redis::keys::{
    ANSWER, AUDIT_TRAIL, DEAD_EVENTS, LAST_SEEN, RECORD, REPLAYS, SESSIONS, STAYS,
};
use crate::store::redis::last_seen::write_member;
use crate::store::redis::lives::record;
use crate::store::redis::node::Command;
use crate::store::redis::reply::{Reply, nonsense, number};
use crate::store::redis::router::ScriptCall;
use crate::store::{
    ERASED_ANSWER, ERASED_KEPT, LiveEpoch, LiveRecord, LiveState, MOST_SESSIONS, PersonalData,
    StoreResult,
};

/// Events of a stream that are read at once.
const EVENTS: usize = 250;

pub(crate) static ERASERS: &[FamilyEraser] = &[
    (&RECORD, &OfRecords),
    (&STAYS, &StaysOfUsers),
    (&LAST_SEEN, &LastSeenTimes),
    (&ANSWER, &KeptAnswers),
    (&AUDIT_TRAIL, &OfStreams(PersonalData::AuditEntries)),
    (&DEAD_EVENTS, &OfStreams(PersonalData::WebhookEvents)),
    (&REPLAYS, &OfStreams(PersonalData::WebhookEvents)),
];

struct StaysOfUsers;

impl ErasesKeys for StaysOfUsers {
    fn look(&self, key: &Suspect, of: &Erasing<'_>) -> Option<Look> {
        let sessions = of.calls.keys().make(&SESSIONS, &[&key.ids[0], &key.ids[1]]);
        let call = ScriptCall {
            keys: vec![key.key.clone(), sessions],
            args: args![of.user, MOST_SESSIONS],
        };
        Some(Look::Run(
            PersonalData::Sessions,
            &scripts::ERASE_STAYS,
            call,
        ))
    }
}

struct LastSeenTimes;

impl ErasesKeys for LastSeenTimes {
    fn look(&self, key: &Suspect, of: &Erasing<'_>) -> Option<Look> {
        let mut args = args![key.key];
        args.push(write_member(of.calls.seen_ids(), of.user));
        Some(Look::Erase(
            Some(PersonalData::LastSeen),
            vec![("ZREM", args)],
        ))
    }
}

/// Answers to requests that may be repeated.
struct KeptAnswers;

#[async_trait]
impl ErasesKeys for KeptAnswers {
    fn look(&self, key: &Suspect, _: &Erasing<'_>) -> Option<Look> {
        Some(Look::Read(("GET", args![key.key])))
    }

    async fn act(&self, key: &Suspect, answer: Value, of: &mut Erasing<'_>) -> StoreResult<()> {
        if answer
            .as_string()
            .is_some_and(|it| json_names(&it, of.user))
        {
            let args = args![key.key, ERASED_ANSWER, "XX", "KEEPTTL"];
            let replaced = !of.send("SET", args).await?.is_null();
            of.step.add(PersonalData::Answers, u64::from(replaced));
        }
        Ok(())
    }
}

/// Streams of events, which the report tells of as this.
struct OfStreams(PersonalData);

/// Reads a page of a stream.
fn page(stream: &str, from: &str) -> Command {
    ("XRANGE", args![stream, from, "+", "COUNT", EVENTS])
}

#[async_trait]
impl ErasesKeys for OfStreams {
    fn look(&self, key: &Suspect, _: &Erasing<'_>) -> Option<Look> {
        Some(Look::Read(page(&key.key, "-")))
    }

    async fn act(&self, key: &Suspect, answer: Value, of: &mut Erasing<'_>) -> StoreResult<()> {
        let mut events = Reply::of(answer)?;
        loop {
            let mut doomed = args![key.key];
            let mut last = None;
            while let Some(piece) = events.piece() {
                let (entry, fields) = entry(piece)?;
                let data = fields.get("data");
                if data.is_some_and(|data| json_names(data, of.user)) {
                    doomed.push(Value::from(entry.to_string()));
                }
                last = Some(entry);
            }
            if doomed.len() > 1 {
                let deleted = of.send("XDEL", doomed).await?;
                of.step.add(self.0, number(&deleted)?);
            }
            let Some(last) = last else {
                return Ok(());
            };
            let (command, args) = page(&key.key, &format!("({last}"));
            events = Reply::of(of.send(command, args).await?)?;
        }
    }
}

/// The record of a live of the user goes with all that lies beside it, once the live is closed. A
/// record that nobody can read goes at once. In the record of another user's live, the user is no
/// host any more.
struct OfRecords;

#[async_trait]
impl ErasesKeys for OfRecords {
    fn look(&self, key: &Suspect, _: &Erasing<'_>) -> Option<Look> {
        Some(Look::Read((
            "HMGET",
            args![key.key, "streamer_id", "hosts"],
        )))
    }

    async fn act(&self, key: &Suspect, answer: Value, of: &mut Erasing<'_>) -> StoreResult<()> {
        let Ok(live) = LiveId::parse(&key.ids[0]) else {
            return Ok(());
        };
        let fields = Reply::of(answer)?.pieces();
        let [streamer, hosts] = fields.as_slice() else {
            return Err(nonsense("an answer of two fields"));
        };
        if !of.is_user(streamer) {
            return dismiss(key, hosts, of).await;
        }
        of.step.is_dirty = true;
        let fields = Reply::of(of.send("HGETALL", args![key.key]).await?)?;
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
                of.step.open_lives.push(live);
                return Ok(());
            }
            Ok(None) => return Ok(()),
            Err(_) => {}
        }
        let names = of.calls.keys();
        let mut keys = of.calls.record_keys(&live);
        keys.extend([
            names.streams(&live),
            names.history(&LiveEpoch {
                live: live.clone(),
                epoch,
            }),
            names.erased_live(&live),
        ]);
        let [epoch, at] = closed;
        let args = args![of.user, epoch, at, ERASED_KEPT.as_secs()];
        let steps = of.calls.router.script(&scripts::ERASE_LIVE, keys, args);
        let erased = of.calls.router.call("erase_some", steps).await?.number()?;
        of.step.add(PersonalData::Lives, erased);
        Ok(())
    }
}

/// Takes the user out of the hosts of a live.
async fn dismiss(key: &Suspect, hosts: &Value, of: &mut Erasing<'_>) -> StoreResult<()> {
    let Some(hosts) = hosts.as_str() else {
        return Ok(());
    };
    if !hosts.split(' ').any(|host| host == of.user.as_str()) {
        return Ok(());
    }
    let keys = vec![key.key.clone()];
    let steps = of
        .calls
        .router
        .script(&scripts::ERASE_HOST, keys, args![of.user]);
    let erased = of.calls.router.call("erase_some", steps).await?.number()?;
    of.step.add(PersonalData::HostPlaces, erased);
    Ok(())
}
