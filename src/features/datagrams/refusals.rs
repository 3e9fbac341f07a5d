//! The sessions that this gateway was asked to go on with, and could not: they are over, their live
//! is closed, or nobody knows them. Each is remembered for a moment, so that a client that asks
//! again and again costs neither time nor calls to the store. Its address pays for each refusal, so
//! that many such sessions cost little, too.

use std::net::SocketAddr;

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::base::budgets::Budgets;
use crate::base::clock::{Millis, Moment};
use crate::base::gcra::Rate;
use crate::base::session_key::SessionKey;
use crate::edge::client_address::{ClientAddress, network};
use crate::features::datagrams::addresses::key_of;
use crate::features::datagrams::recent::Recent;
use crate::features::datagrams::wire::DatagramStatus;

/// How long a refusal is remembered, in ms.
const REMEMBERED: Millis = 10_000;

/// The shortest time between two answers to a session that was refused, in ms.
const ANSWERS_APART: Millis = 250;

/// The shortest time between two attempts to go on with one session, in ms.
const ATTEMPTS_APART: Millis = 1_000;

/// How many refusals a second one address may cause; twice as many at once.
const REFUSALS: u32 = 50;

/// What became of a session's hellos.
#[derive(Debug, Clone, Copy, Default)]
struct HelloAttempt {
    /// The last refusal, the ticket that was refused, and until when it counts.
    refused: Option<(DatagramStatus, TicketHash, Moment)>,
    /// Until then the gateway does not look at hellos of the session.
    silent_until: Moment,
}

/// Tells the tickets of one session apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TicketHash(u64);

impl TicketHash {
    pub(crate) fn of(ticket: &str) -> Self {
        Self(xxh3_64(ticket.as_bytes()))
    }
}

pub(crate) struct HelloRefusals {
    attempts: Mutex<Recent<HelloAttempt>>,
    addresses: Budgets<u64>,
}

impl Default for HelloRefusals {
    fn default() -> Self {
        Self {
            attempts: Mutex::default(),
            addresses: Budgets::new(Rate::per_second(REFUSALS)),
        }
    }
}

impl HelloRefusals {
    fn last(&self, session: &SessionKey) -> HelloAttempt {
        let last = self.attempts.lock().get(key_of(session));
        last.unwrap_or_default()
    }

    fn be_silent(&self, session: &SessionKey, until: Moment) {
        let attempt = HelloAttempt {
            silent_until: until,
            ..self.last(session)
        };
        self.attempts.lock().put(key_of(session), attempt);
    }

    /// Whether hellos of a session are not looked at now.
    pub(crate) fn are_silent(&self, session: &SessionKey, now: Moment) -> bool {
        now < self.last(session).silent_until
    }

    /// What a session was answered that came with this ticket a moment ago.
    pub(crate) fn told(
        &self,
        session: &SessionKey,
        ticket: TicketHash,
        now: Moment,
    ) -> Option<DatagramStatus> {
        match self.last(session).refused {
            Some((status, refused, until)) if refused == ticket && now < until => Some(status),
            _ => None,
        }
    }

    /// Notes that a session which is not here is answered.
    pub(crate) fn answer(&self, session: &SessionKey, now: Moment) {
        self.be_silent(session, now + ANSWERS_APART);
    }

    /// Notes that an attempt begins. False if one is under way, or the address has caused too many
    /// refusals.
    pub(crate) fn begin(&self, session: &SessionKey, from: SocketAddr, now: Moment) -> bool {
        if self.are_silent(session, now) {
            return false;
        }
        if let Some(address) = payer(from)
            && self.addresses.wait(&address, now) > 0
        {
            return false;
        }
        self.be_silent(session, now + ATTEMPTS_APART);
        true
    }

    /// Notes a refusal, and that the session is answered.
    pub(crate) fn note(
        &self,
        session: &SessionKey,
        ticket: TicketHash,
        from: SocketAddr,
        why: DatagramStatus,
        now: Moment,
    ) {
        if let Some(address) = payer(from) {
            self.addresses.overdraw(&address, 1, now);
        }
        let attempt = HelloAttempt {
            refused: Some((why, ticket, now + REMEMBERED)),
            silent_until: now + ANSWERS_APART,
        };
        self.attempts.lock().put(key_of(session), attempt);
    }
}

/// Whose budget pays; `None` for a client on this machine.
fn payer(from: SocketAddr) -> Option<u64> {
    ClientAddress::Peer(from.ip()).limited().map(network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn session(first: u8) -> SessionKey {
        SessionKey::from_bytes([first; 16])
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_refusal_is_told_again_for_a_while_and_not_too_often() {
        let refusals = HelloRefusals::default();
        let from = address("192.0.2.1:4000");
        let [ticket, newer] = ["old", "new"].map(TicketHash::of);
        assert_eq!(refusals.told(&session(1), ticket, moment(0)), None);
        refusals.note(&session(1), ticket, from, DatagramStatus::Closed, moment(0));
        let mut answers = 0;
        for now in 1..10_000 {
            if !refusals.are_silent(&session(1), moment(now)) {
                assert_eq!(
                    refusals.told(&session(1), ticket, moment(now)),
                    Some(DatagramStatus::Closed)
                );
                refusals.answer(&session(1), moment(now));
                answers += 1;
            }
        }
        assert_eq!(answers, 39, "four a second");
        assert_eq!(
            refusals.told(&session(1), newer, moment(9_999)),
            None,
            "another ticket may be good"
        );
        assert_eq!(
            refusals.told(&session(1), ticket, moment(10_000)),
            None,
            "the store is asked again"
        );
        assert!(!refusals.are_silent(&session(2), moment(1)));
    }

    #[test]
    fn an_attempt_that_is_under_way_is_the_only_one_of_its_session() {
        let refusals = HelloRefusals::default();
        assert!(refusals.begin(&session(1), address("192.0.2.1:4000"), moment(0)));
        assert!(!refusals.begin(&session(1), address("192.0.2.1:4000"), moment(999)));
        assert!(refusals.are_silent(&session(1), moment(999)));
        assert!(!refusals.are_silent(&session(1), moment(1_000)));
    }

    #[test]
    fn an_address_that_causes_many_refusals_waits_and_no_other_does() {
        let refusals = HelloRefusals::default();
        let begins = |from: &str, now| refusals.begin(&session(255), address(from), now);
        for number in 0..=200 {
            let from = address(&format!("192.0.2.1:{}", 4_000 + number));
            let ticket = TicketHash::of("t");
            refusals.note(
                &session(number as u8),
                ticket,
                from,
                DatagramStatus::Over,
                moment(0),
            );
        }
        assert!(!begins("192.0.2.1:9", moment(0)));
        assert!(begins("192.0.2.2:9", moment(0)));
        assert!(begins("192.0.2.1:9", moment(3_000)));
        assert!(begins("127.0.0.1:9", moment(4_000)));
    }
}
