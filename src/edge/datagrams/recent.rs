//! Bounds the answers to addresses that are not validated: whoever recorded one datagram could
//! otherwise have a gateway send any number of answers to any address. A table of fixed size
//! remembers which sessions were answered a moment ago.

use crate::base::clock::Millis;
use crate::base::session_key::SessionKey;

/// The shortest time between two such answers for one session, in ms.
const APART: Millis = 100;

/// How many sessions are remembered. One that is forgotten early is answered once more.
const PLACES: usize = 4_096;

#[derive(Debug, Clone, Copy)]
struct Answered {
    session: SessionKey,
    until: Millis,
}

#[derive(Debug)]
pub(super) struct RecentAnswers(Box<[Option<Answered>]>);

impl Default for RecentAnswers {
    fn default() -> Self {
        Self(vec![None; PLACES].into())
    }
}

impl RecentAnswers {
    /// Whether a session may be answered now; notes it. The session's key is one that a gateway
    /// made, so its bytes are as good as a hash.
    pub(super) fn admit(&mut self, session: &SessionKey, now: Millis) -> bool {
        let bytes = session.as_bytes();
        let place = usize::from(u16::from_be_bytes([bytes[0], bytes[1]])) % PLACES;
        if let Some(last) = self.0[place]
            && last.session == *session
            && now < last.until
        {
            return false;
        }
        self.0[place] = Some(Answered {
            session: *session,
            until: now + APART,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::session_key::KEY_BYTES;

    fn session(last: u8) -> SessionKey {
        let mut bytes = [0; KEY_BYTES];
        bytes[KEY_BYTES - 1] = last;
        SessionKey::from_bytes(bytes)
    }

    #[test]
    fn a_session_is_answered_ten_times_a_second_at_most() {
        let mut recent = RecentAnswers::default();
        let admitted = (0..1_000).filter(|now| recent.admit(&session(1), *now));
        assert_eq!(admitted.count(), 10);
    }

    #[test]
    fn sessions_do_not_wait_for_each_other() {
        let mut recent = RecentAnswers::default();
        // They share a place in the table.
        assert!((1..100).all(|last| recent.admit(&session(last), 0)));
    }
}
