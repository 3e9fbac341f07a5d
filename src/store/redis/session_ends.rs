//! The calls on ends of sessions without a socket: a string each, which expires by itself, in the slot
//! of the gateways' channel.

use async_trait::async_trait;

use super::reply::nonsense;
use super::{RedisCalls, args, scripts};
use crate::base::clock::millis;
use crate::base::session_key::{ENDS_KEPT, SessionKey};
use crate::store::{Channel, EndedSession, Over, SessionEnds, StoreResult};

#[async_trait]
impl SessionEnds for RedisCalls {
    async fn end_sessions(&self, ended: &[EndedSession], message: &str) -> StoreResult<()> {
        if ended.is_empty() {
            return Ok(());
        }
        let channel = self.keys().channel(&Channel::Gateways);
        let mut keys = Vec::with_capacity(ended.len());
        let mut args = args![millis(ENDS_KEPT), channel, message];
        for end in ended {
            keys.push(self.keys().session_end(&end.key));
            args.extend(args![end.below, end.why.as_str()]);
        }
        let reply = self.router.script(&scripts::END_SESSIONS, keys, args);
        self.take_refusal(&Channel::Gateways, reply.await?)?;
        Ok(())
    }

    async fn ended_sessions(&self, asked: &[SessionKey]) -> StoreResult<Vec<EndedSession>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let keys = asked.iter().map(|key| self.keys().session_end(key));
        let keys: Vec<String> = keys.collect();
        let script = &scripts::READ_SESSION_ENDS;
        let mut reply = self.router.script(script, keys, Vec::new()).await?;
        let mut ended = Vec::new();
        while let Some(place) = reply.next_number()? {
            let text = reply.text()?;
            ended.push(read(asked, place, &text).ok_or_else(|| nonsense(text))?);
        }
        Ok(ended)
    }
}

/// Reads the text of the key in this place, counted from 1.
fn read(asked: &[SessionKey], place: u64, text: &str) -> Option<EndedSession> {
    let place = usize::try_from(place).ok()?.checked_sub(1)?;
    let (below, why) = text.split_once(' ')?;
    Some(EndedSession {
        key: *asked.get(place)?,
        below: below.parse().ok()?,
        why: Over::from_word(why),
    })
}
