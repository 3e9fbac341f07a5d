//! Cookies: how a gateway finds out that a client receives what is sent to its address, without
//! remembering whom it asked. A cookie says when it was made, and proves that this process made it
//! for one address and one session.

use std::net::SocketAddr;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

use crate::base::clock::{Millis, Moment, millis};
use crate::base::session_key::{KEY_BYTES, SessionKey};
use crate::features::datagrams::addresses::{ADDRESS, canonical};
use crate::features::datagrams::wire::{COOKIE, Cookie};

/// A cookie is good for this long at most.
const LONGEST: Duration = Duration::from_secs(10);

/// The bytes of a cookie that say when it was made: the low bits of the gateway's time in ms.
const TIME: usize = 4;

/// Makes cookies, and checks them.
pub(crate) struct Cookies {
    key: Key,
    good_for: Millis,
}

impl Cookies {
    /// A hello that somebody recorded must not bring back a session that has timed out since, so no
    /// cookie is good for longer than half of `timeout`.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            key: Key::new(HMAC_SHA256, &rand::random::<[u8; 32]>()),
            good_for: millis(LONGEST.min(timeout / 2)),
        }
    }

    /// A cookie for a client at this address that says that it has the session.
    pub(crate) fn make(&self, from: SocketAddr, session: &SessionKey, now: Moment) -> Cookie {
        self.made_at(now.as_millis() as u32, from, session)
    }

    /// When the cookie was made; `None` unless it was made for this address and session, and a
    /// short time ago.
    pub(crate) fn check(
        &self,
        cookie: &Cookie,
        from: SocketAddr,
        session: &SessionKey,
        now: Moment,
    ) -> Option<u32> {
        let mut time = [0; TIME];
        time.copy_from_slice(&cookie.0[..TIME]);
        let time = u32::from_be_bytes(time);
        let age = (now.as_millis() as u32).wrapping_sub(time);
        if Millis::from(age) > self.good_for {
            return None;
        }
        let right = self.made_at(time, from, session);
        verify_slices_are_equal(&right.0, &cookie.0).ok()?;
        Some(time)
    }

    fn made_at(&self, time: u32, from: SocketAddr, session: &SessionKey) -> Cookie {
        let mut facts = [0; TIME + ADDRESS + KEY_BYTES];
        facts[..TIME].copy_from_slice(&time.to_be_bytes());
        facts[TIME..TIME + ADDRESS].copy_from_slice(&canonical(from));
        facts[TIME + ADDRESS..].copy_from_slice(session.as_bytes());
        let proof = sign(&self.key, &facts);
        let mut cookie = [0; COOKIE];
        cookie[..TIME].copy_from_slice(&time.to_be_bytes());
        cookie[TIME..].copy_from_slice(&proof.as_ref()[..COOKIE - TIME]);
        Cookie(cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    const HOME: &str = "192.0.2.1:4000";

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn session(first: u8) -> SessionKey {
        let mut bytes = [0; KEY_BYTES];
        bytes[0] = first;
        SessionKey::from_bytes(bytes)
    }

    fn cookies() -> Cookies {
        Cookies::new(Duration::from_secs(15))
    }

    #[test]
    fn a_cookie_is_good_for_its_address_and_session_alone() {
        let cookies = cookies();
        let cookie = cookies.make(address(HOME), &session(1), moment(5_000));
        let check =
            |from: &str, of: u8| cookies.check(&cookie, address(from), &session(of), moment(5_100));
        assert_eq!(check(HOME, 1), Some(5_000));
        assert_eq!(check("192.0.2.1:4001", 1), None);
        assert_eq!(check("192.0.2.2:4000", 1), None);
        assert_eq!(check(HOME, 2), None);
    }

    #[test]
    fn one_and_the_same_address_through_either_kind_of_socket_is_the_same() {
        let cookies = cookies();
        let cookie = cookies.make(address(HOME), &session(1), moment(0));
        let mapped = address("[::ffff:192.0.2.1]:4000");
        assert_eq!(
            cookies.check(&cookie, mapped, &session(1), moment(0)),
            Some(0)
        );
    }

    #[test]
    fn a_cookie_is_good_for_half_of_the_timeout_and_ten_seconds_at_most() {
        for (timeout, good_for) in [(15, 7_500), (4, 2_000), (60, 10_000)] {
            let cookies = Cookies::new(Duration::from_secs(timeout));
            let made_at = u64::from(u32::MAX) - 500;
            let cookie = cookies.make(address(HOME), &session(1), moment(made_at));
            let check = |now| cookies.check(&cookie, address(HOME), &session(1), now);
            assert_eq!(check(moment(made_at + good_for)), Some(made_at as u32));
            assert_eq!(check(moment(made_at + good_for + 1)), None);
            assert_eq!(check(moment(made_at - 1)), None, "not made yet");
        }
    }

    #[test]
    fn a_cookie_of_another_process_or_with_a_changed_byte_is_worthless() {
        let cookies = cookies();
        let good = cookies.make(address(HOME), &session(1), moment(1_000));
        let elsewhere = self::cookies();
        assert_eq!(
            elsewhere.check(&good, address(HOME), &session(1), moment(1_000)),
            None
        );
        for at in 0..COOKIE {
            let mut forged = good;
            forged.0[at] ^= 1;
            let check = cookies.check(&forged, address(HOME), &session(1), moment(1_000));
            assert_eq!(check, None, "byte {at}");
        }
    }

    #[test]
    fn every_cookie_names_another_channel() {
        let cookies = cookies();
        let channel = |now| {
            cookies
                .make(address(HOME), &session(1), moment(now))
                .channel()
        };
        let channels: std::collections::HashSet<u32> = (0..1_000).map(channel).collect();
        assert!(channels.len() >= 999, "{} channels", channels.len());
    }
}
