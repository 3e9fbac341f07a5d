//! Who pays for a datagram that does not come from the validated address of its session. Anybody
//! may have overheard it, so it spends nothing of the session unless the gateway sees it for the
//! first time:
//!
//! - a new one spends an answer of its session, or of its address if its session has none left;
//! - a copy spends an answer of the address that it came from, and time of the socket;
//! - a forgery spends time of the socket.
//!
//! A client counts all its datagrams, so one is new if its number is higher than any before.

use crate::base::clock::{Millis, Moment};
use crate::base::gcra::Rate;
use crate::features::datagrams::addresses::key_of;
use crate::features::datagrams::recent::Recent;
use crate::features::datagrams::wire::DatagramRequest;
use crate::session::socketless::datagram_state::AddressHash;

/// The shortest time between two answers for one session, and between two to one address, in ms.
const APART: Millis = 100;

/// How many hashes a second each socket spends on datagrams that turn out to be worth nothing.
/// Beyond that, those of addresses that are not validated are dropped unread. A tenth of a core
/// takes them.
pub(crate) const VAIN_HASHES: u32 = 100_000;

/// What the answer to a copy costs, in hashes: it has two of them, and the kernel sends it.
const ANSWERED_COPY: u32 = 10;

/// The datagrams of a session that came from addresses that are not validated.
#[derive(Debug, Clone, Copy)]
struct HeardStranger {
    newest: u32,
    /// When the session may be answered again.
    answer_at: Moment,
}

/// The budgets of one socket.
#[derive(Debug)]
pub(crate) struct Strangers {
    sessions: Recent<HeardStranger>,
    /// When an address may be answered again.
    addresses: Recent<Moment>,
    hashes: Rate,
    /// The state of that limit.
    spent: u64,
}

impl Default for Strangers {
    fn default() -> Self {
        Self {
            sessions: Recent::default(),
            addresses: Recent::default(),
            hashes: Rate::per_second(VAIN_HASHES).with_burst(1),
            spent: 0,
        }
    }
}

impl Strangers {
    /// Whether no time is left for datagrams that may be worth nothing.
    pub(crate) fn have_spent_all(&self, now: Moment) -> bool {
        self.hashes.wait(self.spent, now) > 0
    }

    pub(crate) fn pay_for_forgery(&mut self, now: Moment) {
        self.hashes.count(&mut self.spent, 1, now);
    }

    /// Whether somebody pays for the answer to an authentic datagram. `taken_in` is the highest
    /// number that its session has taken in on this gateway.
    pub(crate) fn pay_for_answer(
        &mut self,
        request: &DatagramRequest<'_>,
        from: AddressHash,
        taken_in: Option<u32>,
        now: Moment,
    ) -> bool {
        let session = key_of(&request.session);
        let number = request.counter.number;
        let heard = self.sessions.get(session);
        let before = heard.map(|heard| heard.newest).max(taken_in);
        let is_new = before.is_none_or(|before| number > before);
        if is_new {
            let answer_at = heard.map_or(Moment::START, |heard| heard.answer_at);
            let session_pays = now >= answer_at;
            let heard = HeardStranger {
                newest: number,
                answer_at: if session_pays { now + APART } else { answer_at },
            };
            self.sessions.put(session, heard);
            if session_pays {
                return true;
            }
        }
        let address_pays = self.addresses.get(from.0).is_none_or(|at| now >= at);
        if address_pays {
            self.addresses.put(from.0, now + APART);
        }
        let cost = if address_pays { ANSWERED_COPY } else { 1 };
        self.hashes.count(&mut self.spent, cost, now);
        address_pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::base::session_key::SessionKey;
    use crate::features::datagrams::wire;
    use crate::features::datagrams::wire::{Counter, DatagramKey};

    const HOME: AddressHash = AddressHash(1);
    const ELSEWHERE: AddressHash = AddressHash(2);

    fn pays(
        strangers: &mut Strangers,
        number: u32,
        from: AddressHash,
        taken_in: Option<u32>,
        now: Moment,
    ) -> bool {
        let counter = Counter { channel: 0, number };
        let session = SessionKey::from_bytes([7; 16]);
        let beat = wire::beat(&DatagramKey::new(&[7; 32]), &session, counter, true);
        strangers.pay_for_answer(&DatagramRequest::read(&beat).unwrap(), from, taken_in, now)
    }

    #[test]
    fn copies_from_one_address_take_nothing_from_the_session_and_from_another_address() {
        let mut strangers = Strangers::default();
        let mut answered = 0;
        for now in 0..10_000 {
            answered += u32::from(pays(&mut strangers, 5, ELSEWHERE, None, moment(now)));
            answered += u32::from(pays(&mut strangers, 5, ELSEWHERE, None, moment(now)));
            if now % 1_000 == 999 {
                assert!(pays(
                    &mut strangers,
                    6 + now as u32,
                    ELSEWHERE,
                    None,
                    moment(now)
                ));
                assert!(pays(&mut strangers, 5, HOME, None, moment(now)));
            }
        }
        assert!(answered <= 101, "{answered} answers in ten seconds");
        assert!(!strangers.have_spent_all(moment(10_000)));
    }

    #[test]
    fn what_its_session_has_taken_in_is_a_copy() {
        let mut strangers = Strangers::default();
        assert!(
            pays(&mut strangers, 5, ELSEWHERE, Some(5), moment(0)),
            "its address pays"
        );
        assert!(!pays(&mut strangers, 5, ELSEWHERE, Some(5), moment(1)));
        assert!(pays(&mut strangers, 6, ELSEWHERE, Some(5), moment(1)));
    }

    #[test]
    fn a_client_that_sends_too_much_gets_few_answers() {
        let mut strangers = Strangers::default();
        let answered =
            (0..1_000).filter(|now| pays(&mut strangers, *now as u32, HOME, None, moment(*now)));
        assert_eq!(
            answered.count(),
            20,
            "the session pays for ten, the address for ten"
        );
    }

    #[test]
    fn copies_from_many_addresses_are_answered_up_to_a_bound() {
        let mut strangers = Strangers::default();
        let mut answered = 0;
        for number in 0..100_000 {
            if strangers.have_spent_all(moment(1)) {
                break;
            }
            answered += u32::from(pays(
                &mut strangers,
                5,
                AddressHash(number),
                None,
                moment(1),
            ));
        }
        assert_eq!(answered, VAIN_HASHES / ANSWERED_COPY + 2);
    }
}
