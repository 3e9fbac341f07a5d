//! What a gateway remembers of the datagrams of one session: their key, the address that it has
//! validated, and which of them it has taken in. Pure: the time comes in. `features/datagrams` reads
//! the datagrams and acts.

use crate::base::clock::Moment;

/// Up to how far behind the newest datagram another one may arrive: datagrams overtake each other.
const WINDOW: u32 = u64::BITS;

/// The shortest time between two answers to one session, in ms. The datagrams in between count as
/// beats all the same.
const ANSWERS_APART: u32 = 250;

/// Numbers the datagrams of a session. A gateway draws the channel when it validates an address, so
/// a datagram for one gateway is of no use at another one, or later. In a channel the client
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// 0 before the first challenge.
    pub channel: u32,
    /// Grows with each datagram of the session.
    pub number: u32,
}

/// An address, as the keyed hash of its bytes: addresses are only compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressHash(pub(crate) u64);

/// How a datagram stands to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Fresh,
    /// It has arrived before, or is too old to tell.
    Replayed,
    /// It belongs to another channel.
    OtherChannel,
}

/// What a hello opened: the datagrams that follow it come from one address and carry its channel.
#[derive(Debug)]
pub(crate) struct DatagramChannel {
    /// Derived from the secret that all gateways share. Kept, because to derive it again costs more
    /// than to check a datagram.
    key: [u8; 32],
    address: AddressHash,
    /// Bit n says whether the datagram with the number `newest - n` has arrived.
    arrived: u64,
    name: u32,
    newest: u32,
    /// When the cookie of the hello was made: the low bits of the gateway's time.
    opened_at: u32,
    /// As `opened_at`.
    answered_at: u32,
}

/// A cookie that has been found good, as the hello brought it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) address: AddressHash,
    pub(crate) counter: Counter,
    /// When the cookie was made: the low bits of the gateway's time.
    pub(crate) cookie_made_at: u32,
}

impl DatagramChannel {
    fn open(key: [u8; 32], opening: &Opening) -> Self {
        Self {
            key,
            address: opening.address,
            arrived: 1,
            name: opening.counter.channel,
            newest: opening.counter.number,
            opened_at: opening.cookie_made_at,
            answered_at: opening.cookie_made_at.wrapping_sub(ANSWERS_APART),
        }
    }

    /// The key of the session's datagrams.
    pub(crate) fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// The highest number that has arrived.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// Whether a datagram came from the address that the hello validated.
    pub(crate) fn is_from(&self, address: AddressHash) -> bool {
        self.address == address
    }

    /// Notes an authentic datagram from the validated address.
    pub(crate) fn arrive(&mut self, counter: Counter) -> Arrival {
        if counter.channel != self.name {
            return Arrival::OtherChannel;
        }
        if counter.number > self.newest {
            let ahead = counter.number - self.newest;
            self.arrived = self.arrived.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = counter.number;
            return Arrival::Fresh;
        }
        let behind = self.newest - counter.number;
        if behind >= WINDOW {
            return Arrival::Replayed;
        }
        let bit = 1 << behind;
        if self.arrived & bit != 0 {
            return Arrival::Replayed;
        }
        self.arrived |= bit;
        Arrival::Fresh
    }

    /// Whether an answer may be sent now; notes it.
    pub(crate) fn may_answer(&mut self, now: Moment) -> bool {
        let now = now.as_millis() as u32;
        if now.wrapping_sub(self.answered_at) < ANSWERS_APART {
            return false;
        }
        self.answered_at = now;
        true
    }

    /// Whether a hello is older than the one that opened this channel. Both cookies were good a
    /// short time ago, or this channel is so old that any hello is younger.
    fn is_younger_than(&self, opening: &Opening, now: Moment) -> bool {
        let age = (now.as_millis() as u32).wrapping_sub(self.opened_at);
        let age_of_other = (now.as_millis() as u32).wrapping_sub(opening.cookie_made_at);
        age < age_of_other
    }
}

/// The state of one session's datagrams. It takes eight bytes until the session uses them.
#[derive(Debug, Default)]
pub(crate) struct DatagramState(Option<Box<DatagramChannel>>);

impl DatagramState {
    /// The channel of the last hello; `None` before the first one.
    pub(crate) fn channel(&mut self) -> Option<&mut DatagramChannel> {
        self.0.as_deref_mut()
    }

    /// Takes in an authentic hello with a good cookie. A hello that is older than the last one, or
    /// a copy of it, changes nothing: whoever recorded it must not get the session's address.
    pub(crate) fn open(&mut self, key: [u8; 32], opening: &Opening, now: Moment) -> Arrival {
        if let Some(channel) = self.channel() {
            if channel.is_younger_than(opening, now) {
                return Arrival::Replayed;
            }
            if channel.name == opening.counter.channel {
                return channel.arrive(opening.counter);
            }
        }
        self.0 = Some(Box::new(DatagramChannel::open(key, opening)));
        Arrival::Fresh
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::clock::moment;

    const HOME: AddressHash = AddressHash(1);

    fn counter(channel: u32, number: u32) -> Counter {
        Counter { channel, number }
    }

    fn opening(channel: u32, number: u32, cookie_made_at: u32) -> Opening {
        Opening {
            address: HOME,
            counter: counter(channel, number),
            cookie_made_at,
        }
    }

    fn opened() -> DatagramState {
        let mut state = DatagramState::default();
        let arrival = state.open([7; 32], &opening(5, 100, 1_000), moment(1_000));
        assert_eq!(arrival, Arrival::Fresh);
        state
    }

    fn arrivals(state: &mut DatagramState, numbers: &[u32]) -> Vec<Arrival> {
        let channel = state.channel().unwrap();
        let arrive = |number: &u32| channel.arrive(counter(5, *number));
        numbers.iter().map(arrive).collect()
    }

    /// Pinned so that a growth is noticed: every viewer who uses datagrams has one.
    #[test]
    fn the_state_of_a_session_is_small() {
        assert_eq!(size_of::<DatagramChannel>(), 64);
        assert_eq!(size_of::<DatagramState>(), 8);
    }

    #[test]
    fn each_datagram_is_fresh_once_in_whichever_order_they_come() {
        let mut state = opened();
        let numbers = [103, 101, 102, 101, 103, 100, 104];
        use Arrival::{Fresh, Replayed};
        assert_eq!(
            arrivals(&mut state, &numbers),
            [Fresh, Fresh, Fresh, Replayed, Replayed, Replayed, Fresh]
        );
    }

    #[test]
    fn what_is_too_old_to_tell_is_refused() {
        let mut state = opened();
        use Arrival::{Fresh, Replayed};
        assert_eq!(
            arrivals(&mut state, &[200, 137, 136, 1, 0]),
            [Fresh, Fresh, Replayed, Replayed, Replayed]
        );
        assert_eq!(
            arrivals(&mut state, &[u32::MAX, u32::MAX - 63, 300]),
            [Fresh, Fresh, Replayed]
        );
    }

    #[test]
    fn a_datagram_of_another_channel_is_not_taken_in() {
        let mut state = opened();
        let channel = state.channel().unwrap();
        assert_eq!(channel.arrive(counter(6, 101)), Arrival::OtherChannel);
        assert_eq!(channel.arrive(counter(0, 101)), Arrival::OtherChannel);
        assert_eq!(channel.arrive(counter(5, 101)), Arrival::Fresh);
    }

    #[test]
    fn a_newer_hello_moves_the_session_to_another_address_and_an_older_one_does_not() {
        let mut state = opened();
        let elsewhere = Opening {
            address: AddressHash(2),
            ..opening(6, 7, 2_000)
        };
        assert_eq!(
            state.open([7; 32], &elsewhere, moment(2_100)),
            Arrival::Fresh
        );
        assert!(state.channel().unwrap().is_from(AddressHash(2)));
        let recorded = opening(5, 101, 1_000);
        assert_eq!(
            state.open([7; 32], &recorded, moment(2_200)),
            Arrival::Replayed
        );
        assert!(state.channel().unwrap().is_from(AddressHash(2)));
        assert_eq!(
            state.open([7; 32], &elsewhere, moment(2_200)),
            Arrival::Replayed
        );
    }

    #[test]
    fn after_the_clock_of_the_cookies_has_gone_round_a_hello_is_still_taken_in() {
        let mut state = opened();
        let round = 1 << 32;
        for days in 1..100 {
            let now = 1_000 + days * 24 * 3_600 * 1_000;
            let hello = opening(days as u32 + 5, 1, (now % round) as u32);
            assert_eq!(
                state.open([7; 32], &hello, moment(now + 50)),
                Arrival::Fresh,
                "{days} days"
            );
        }
    }

    #[test]
    fn a_session_is_answered_four_times_a_second_at_most() {
        let mut state = opened();
        let channel = state.channel().unwrap();
        let answers = (1_000..3_000).filter(|now| channel.may_answer(moment(*now)));
        assert_eq!(answers.count(), 8);
    }

    proptest! {
        /// The bits agree with a set of all numbers that have arrived.
        #[test]
        fn no_datagram_is_fresh_twice(numbers in proptest::collection::vec(0_u32..300, 1..400)) {
            let mut state = opened();
            let channel = state.channel().unwrap();
            let mut newest = 100;
            let mut seen = std::collections::HashSet::from([100]);
            for number in numbers {
                let fresh = channel.arrive(counter(5, number)) == Arrival::Fresh;
                let is_in_window = number > newest || newest - number < WINDOW;
                prop_assert_eq!(fresh, is_in_window && !seen.contains(&number));
                if fresh {
                    seen.insert(number);
                    newest = newest.max(number);
                }
            }
        }
    }
}
