//! The format of datagrams, as `docs/datagrams.md` describes it: what a client sends, and what a
//! gateway answers. Pure: bytes in, values out, and back. Clients in Rust may use it, too.
//!
//! A datagram begins with a byte for the version and its kind, and ends with the first half of an
//! HMAC-SHA256 over all bytes before. The kinds of clients and of gateways differ, so a datagram
//! that is sent back to its sender means nothing. Numbers have their high byte first.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};

use crate::auth::ticket::LONGEST_TICKET;
use crate::base::session_key::{KEY_BYTES, SessionKey};
pub use crate::session::socketless::datagram_state::Counter;

/// The length of a beat, a leave and every answer, in bytes.
pub const SHORT: usize = HEAD + MAC;

const _: () = assert!(SHORT <= 64);

/// The longest hello, in bytes. It fits into one packet of every network.
pub const LONGEST: usize = 1_200;

const _: () = assert!(SHORT + COOKIE + LONGEST_TICKET == LONGEST);

/// The length of a cookie, in bytes.
pub const COOKIE: usize = 16;

/// The version in the high half of the first byte.
const VERSION: u8 = 1 << 4;

/// The bytes before the authentication code of a short datagram.
const HEAD: usize = 26;

/// The bytes of the authentication code.
pub(crate) const MAC: usize = 16;

/// Where the counter begins in a datagram of a client.
const COUNTER: usize = 2 + KEY_BYTES;

const BEAT: u8 = VERSION | 1;
const LEAVE: u8 = VERSION | 2;
const HELLO: u8 = VERSION | 3;
const ACK: u8 = VERSION | 9;
const CHALLENGE: u8 = VERSION | 10;

/// The flag of a client that wants an answer.
const ANSWER: u8 = 1;

/// The flag of a client whose user watches.
const WATCHING: u8 = 1 << 1;

/// The flag of an answer that knows whether the user is a fan.
const FAN_KNOWN: u8 = 1 << 4;

/// The flag of an answer to a fan.
const FAN: u8 = 1 << 5;

/// Where the status stands in the flags of an answer.
const STATUS: u8 = 0b1111;

/// The key of one session's datagrams, ready for use.
pub struct DatagramKey(hmac::Key);

impl DatagramKey {
    /// The key that `POST /v1/presence` answers.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(HMAC_SHA256, key))
    }

    fn mac(&self, bytes: &[u8]) -> [u8; MAC] {
        let whole = hmac::sign(&self.0, bytes);
        let mut mac = [0; MAC];
        mac.copy_from_slice(&whole.as_ref()[..MAC]);
        mac
    }

    fn has_made(&self, mac: &[u8], bytes: &[u8]) -> bool {
        verify_slices_are_equal(&self.mac(bytes), mac).is_ok()
    }

    /// Writes the code of the bytes before it into the last bytes.
    pub(crate) fn seal(&self, datagram: &mut [u8]) {
        let end = datagram.len() - MAC;
        let mac = self.mac(&datagram[..end]);
        datagram[end..].copy_from_slice(&mac);
    }
}

/// What a gateway makes for one address and one session, and wants to see again. A client takes
/// nothing from it but the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cookie(pub [u8; COOKIE]);

impl Cookie {
    /// The channel of the datagrams that follow: the last four bytes.
    #[must_use]
    pub fn channel(&self) -> u32 {
        number_at(&self.0, COOKIE - 4)
    }
}

/// What a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramWish<'a> {
    /// To be seen.
    Beat,
    /// To be gone.
    Leave,
    /// To use this address from now on.
    Hello {
        /// Of the challenge that this hello answers.
        cookie: Cookie,
        /// Says whose session this is, to a gateway that does not have it.
        ticket: &'a str,
    },
}

/// A datagram of a client. Whoever reads it has yet to check that it [is
/// authentic](Self::is_authentic).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramRequest<'a> {
    /// Which session the client says it has.
    pub session: SessionKey,
    /// Tells a new datagram from a copy.
    pub counter: Counter,
    /// Whether the client asks for an answer.
    pub wants_answer: bool,
    /// Whether the client says that the picture plays and can be seen.
    pub watching: bool,
    /// What the client wants.
    pub wish: DatagramWish<'a>,
    bytes: &'a [u8],
}

impl<'a> DatagramRequest<'a> {
    /// Reads a datagram of a client. `None` if it is something else.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let wish = match *bytes.first()? {
            BEAT if bytes.len() == SHORT => DatagramWish::Beat,
            LEAVE if bytes.len() == SHORT => DatagramWish::Leave,
            HELLO if (SHORT + COOKIE + 1..=LONGEST).contains(&bytes.len()) => hello(bytes)?,
            _ => return None,
        };
        let session: [u8; KEY_BYTES] = bytes[2..COUNTER].try_into().ok()?;
        Some(Self {
            session: SessionKey::from_bytes(session),
            counter: counter_at(bytes, COUNTER),
            wants_answer: bytes[1] & ANSWER != 0,
            watching: bytes[1] & WATCHING != 0,
            wish,
            bytes,
        })
    }

    /// Whether the client has the key of this session.
    #[must_use]
    pub fn is_authentic(&self, key: &DatagramKey) -> bool {
        let end = self.bytes.len() - MAC;
        key.has_made(&self.bytes[end..], &self.bytes[..end])
    }
}

fn hello(bytes: &[u8]) -> Option<DatagramWish<'_>> {
    let after_cookie = HEAD + COOKIE;
    let ticket = &bytes[after_cookie..bytes.len() - MAC];
    Some(DatagramWish::Hello {
        cookie: Cookie(bytes[HEAD..after_cookie].try_into().ok()?),
        ticket: std::str::from_utf8(ticket).ok()?,
    })
}

/// Writes a beat.
#[must_use]
pub fn beat(
    key: &DatagramKey,
    session: &SessionKey,
    counter: Counter,
    wants_answer: bool,
) -> [u8; SHORT] {
    short(BEAT, key, session, counter, flags(wants_answer))
}

/// Writes a beat of a user who watches.
#[must_use]
pub fn watching_beat(
    key: &DatagramKey,
    session: &SessionKey,
    counter: Counter,
    wants_answer: bool,
) -> [u8; SHORT] {
    let flags = flags(wants_answer) | WATCHING;
    short(BEAT, key, session, counter, flags)
}

fn flags(wants_answer: bool) -> u8 {
    if wants_answer { ANSWER } else { 0 }
}

/// Writes a leave. Its answer says [`DatagramStatus::Left`].
#[must_use]
pub fn leave(key: &DatagramKey, session: &SessionKey, counter: Counter) -> [u8; SHORT] {
    short(LEAVE, key, session, counter, ANSWER)
}

fn short(
    kind: u8,
    key: &DatagramKey,
    session: &SessionKey,
    counter: Counter,
    flags: u8,
) -> [u8; SHORT] {
    let mut bytes = [0; SHORT];
    bytes[..HEAD].copy_from_slice(&head(kind, session, counter, flags));
    key.seal(&mut bytes);
    bytes
}

fn head(kind: u8, session: &SessionKey, counter: Counter, flags: u8) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    bytes[0] = kind;
    bytes[1] = flags;
    bytes[2..COUNTER].copy_from_slice(session.as_bytes());
    bytes[COUNTER..].copy_from_slice(&counter_bytes(counter));
    bytes
}

/// Writes the answer to a challenge. The counter is of the channel that the cookie names.
#[must_use]
pub fn hello_to(
    key: &DatagramKey,
    session: &SessionKey,
    counter: Counter,
    cookie: Cookie,
    ticket: &str,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SHORT + COOKIE + ticket.len());
    bytes.extend(head(HELLO, session, counter, ANSWER));
    bytes.extend(cookie.0);
    bytes.extend(ticket.as_bytes());
    bytes.extend([0; MAC]);
    key.seal(&mut bytes);
    bytes
}

/// What became of a session, as its client must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DatagramStatus {
    /// The viewer is in the live.
    Here = 0,
    /// As `Here`, but the gateway is about to stop: go on at another address.
    Move = 1,
    /// The client has left.
    Left = 2,
    /// The live was closed.
    Closed = 3,
    /// A moderator removed the user.
    Removed = 4,
    /// The user has opened too many sockets and sessions since.
    CrowdedOut = 5,
    /// The session is over for another reason, such as a token that has expired. The client may join
    /// again.
    Over = 6,
}

impl DatagramStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Here,
        Self::Move,
        Self::Left,
        Self::Closed,
        Self::Removed,
        Self::CrowdedOut,
        Self::Over,
    ];
}

/// The answer to a beat, a leave or a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramAck {
    /// Of the datagram that this answers.
    pub counter: Counter,
    /// What became of the session.
    pub status: DatagramStatus,
    /// Whether the user follows the streamer; `None` if that is not known yet.
    pub fan: Option<bool>,
    /// The viewers of the live; 0 if the session is over.
    pub viewers: u32,
    /// The fans among them.
    pub fans: u32,
    /// Changes whenever a back end has written something about the live. The client reads it over
    /// HTTP; 0 if there is nothing.
    pub info: u32,
    /// How long the client should wait between two beats, in ms.
    pub beat_ms: u32,
}

impl DatagramAck {
    /// Writes the answer.
    #[must_use]
    pub fn seal(&self, key: &DatagramKey) -> [u8; SHORT] {
        let mut bytes = [0; SHORT];
        bytes[0] = ACK;
        bytes[1] = self.status as u8;
        match self.fan {
            None => {}
            Some(false) => bytes[1] |= FAN_KNOWN,
            Some(true) => bytes[1] |= FAN_KNOWN | FAN,
        }
        bytes[2..10].copy_from_slice(&counter_bytes(self.counter));
        bytes[10..14].copy_from_slice(&self.viewers.to_be_bytes());
        bytes[14..18].copy_from_slice(&self.fans.to_be_bytes());
        bytes[18..22].copy_from_slice(&self.info.to_be_bytes());
        bytes[22..26].copy_from_slice(&self.beat_ms.to_be_bytes());
        key.seal(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8; SHORT]) -> Option<Self> {
        let flags = bytes[1];
        let status = DatagramStatus::ALL.get(usize::from(flags & STATUS))?;
        let fan = if flags & FAN_KNOWN == 0 {
            None
        } else {
            Some(flags & FAN != 0)
        };
        Some(Self {
            counter: counter_at(bytes, 2),
            status: *status,
            fan,
            viewers: number_at(bytes, 10),
            fans: number_at(bytes, 14),
            info: number_at(bytes, 18),
            beat_ms: number_at(bytes, 22),
        })
    }
}

/// Asks a client to show that it receives what is sent to its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// Of the datagram that this answers.
    pub counter: Counter,
    /// What the client must send back in a hello.
    pub cookie: Cookie,
}

impl Challenge {
    /// Writes the challenge.
    #[must_use]
    pub fn seal(&self, key: &DatagramKey) -> [u8; SHORT] {
        let mut bytes = [0; SHORT];
        bytes[0] = CHALLENGE;
        bytes[2..10].copy_from_slice(&counter_bytes(self.counter));
        bytes[10..26].copy_from_slice(&self.cookie.0);
        key.seal(&mut bytes);
        bytes
    }
}

/// A datagram of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramAnswer {
    /// The gateway has taken a datagram in.
    Ack(DatagramAck),
    /// The gateway does not know the address yet.
    Challenge(Challenge),
}

impl DatagramAnswer {
    /// Reads a datagram of a gateway. `None` if it is none, or not for the session of this key.
    #[must_use]
    pub fn read(bytes: &[u8], key: &DatagramKey) -> Option<Self> {
        let bytes: &[u8; SHORT] = bytes.try_into().ok()?;
        if !key.has_made(&bytes[HEAD..], &bytes[..HEAD]) {
            return None;
        }
        match bytes[0] {
            ACK => DatagramAck::read(bytes).map(Self::Ack),
            CHALLENGE => Some(Self::Challenge(Challenge {
                counter: counter_at(bytes, 2),
                cookie: Cookie(bytes[10..26].try_into().ok()?),
            })),
            _ => None,
        }
    }
}

fn counter_bytes(counter: Counter) -> [u8; 8] {
    let whole = (u64::from(counter.channel) << 32) | u64::from(counter.number);
    whole.to_be_bytes()
}

fn counter_at(bytes: &[u8], from: usize) -> Counter {
    Counter {
        channel: number_at(bytes, from),
        number: number_at(bytes, from + 4),
    }
}

/// The number that begins at `from`. The caller has checked the length.
fn number_at(bytes: &[u8], from: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[from..from + 4]);
    u32::from_be_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: [u8; KEY_BYTES] = *b"0123456789abcdef";

    const COUNTER: Counter = Counter {
        channel: 0x0102_0304,
        number: 0x0506_0708,
    };

    fn key() -> DatagramKey {
        DatagramKey::new(&[7; 32])
    }

    fn session() -> SessionKey {
        SessionKey::from_bytes(SESSION)
    }

    fn ack(status: DatagramStatus, fan: Option<bool>) -> DatagramAck {
        DatagramAck {
            counter: COUNTER,
            status,
            fan,
            viewers: 1_000_000,
            fans: 3,
            info: 9,
            beat_ms: 5_000,
        }
    }

    /// Every datagram that a client can send.
    fn requests() -> [Vec<u8>; 3] {
        [
            beat(&key(), &session(), COUNTER, true).to_vec(),
            leave(&key(), &session(), COUNTER).to_vec(),
            hello_to(&key(), &session(), COUNTER, Cookie([9; COOKIE]), "ticket"),
        ]
    }

    #[test]
    fn what_a_client_wrote_is_read_alike() {
        let [beat, leave, hello] = requests();
        let beat = DatagramRequest::read(&beat).unwrap();
        assert_eq!(beat.wish, DatagramWish::Beat);
        assert_eq!(beat.session, session());
        assert_eq!(beat.counter, COUNTER);
        assert!(beat.wants_answer);
        assert_eq!(
            DatagramRequest::read(&leave).unwrap().wish,
            DatagramWish::Leave
        );
        let hello = DatagramRequest::read(&hello).unwrap();
        assert_eq!(
            hello.wish,
            DatagramWish::Hello {
                cookie: Cookie([9; COOKIE]),
                ticket: "ticket",
            }
        );
        assert!(hello.is_authentic(&key()));
        let quiet = super::beat(&key(), &session(), COUNTER, false);
        assert!(!DatagramRequest::read(&quiet).unwrap().wants_answer);
    }

    #[test]
    fn what_a_gateway_wrote_is_read_alike() {
        for status in DatagramStatus::ALL {
            for fan in [None, Some(false), Some(true)] {
                let ack = ack(status, fan);
                let read = DatagramAnswer::read(&ack.seal(&key()), &key());
                assert_eq!(read, Some(DatagramAnswer::Ack(ack)));
            }
        }
        let challenge = Challenge {
            counter: COUNTER,
            cookie: Cookie(*b"fedcba9876543210"),
        };
        let read = DatagramAnswer::read(&challenge.seal(&key()), &key());
        assert_eq!(read, Some(DatagramAnswer::Challenge(challenge)));
    }

    /// The document shows these bytes.
    #[test]
    fn the_bytes_are_those_of_the_document() {
        let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
        let key: [u8; 32] = std::array::from_fn(|at| at as u8);
        let key = DatagramKey::new(&key);
        let beat = super::beat(&key, &session(), COUNTER, true);
        let ack = ack(DatagramStatus::Here, Some(true)).seal(&key);
        let page = include_str!("../../../docs/datagrams.md");
        for datagram in [hex(&beat), hex(&ack)] {
            assert!(page.contains(&datagram), "the document lacks {datagram}");
        }
    }

    #[test]
    fn a_changed_byte_makes_any_datagram_worthless() {
        for sent in requests() {
            for at in 0..sent.len() {
                let mut forged = sent.clone();
                forged[at] ^= 1;
                let taken = DatagramRequest::read(&forged)
                    .is_some_and(|request| request.is_authentic(&key()));
                assert!(!taken, "byte {at} of {sent:?}");
            }
        }
        let sent = ack(DatagramStatus::Here, None).seal(&key());
        for at in 0..sent.len() {
            let mut forged = sent;
            forged[at] ^= 1;
            assert_eq!(DatagramAnswer::read(&forged, &key()), None, "byte {at}");
        }
    }

    #[test]
    fn a_datagram_with_another_length_is_none() {
        for sent in requests() {
            for length in 0..sent.len() {
                let cut = DatagramRequest::read(&sent[..length]);
                let taken = cut.is_some_and(|request| request.is_authentic(&key()));
                assert!(!taken, "{length} bytes of {sent:?}");
            }
            let padded = [sent.as_slice(), &[0; 1_500]].concat();
            assert_eq!(DatagramRequest::read(&padded), None);
        }
        let longest = "i".repeat(LONGEST_TICKET);
        let cookie = Cookie([0; COOKIE]);
        let fits = hello_to(&key(), &session(), COUNTER, cookie, &longest);
        assert_eq!(fits.len(), LONGEST);
        assert!(DatagramRequest::read(&fits).is_some());
        let id = longest + "i";
        let too_long = hello_to(&key(), &session(), COUNTER, cookie, &id);
        assert_eq!(DatagramRequest::read(&too_long), None);
    }

    #[test]
    fn a_datagram_that_is_sent_back_means_nothing() {
        for sent in requests() {
            assert_eq!(DatagramAnswer::read(&sent, &key()), None);
        }
        let ack = ack(DatagramStatus::Here, None).seal(&key());
        assert_eq!(DatagramRequest::read(&ack), None);
        let challenge = Challenge {
            counter: COUNTER,
            cookie: Cookie([0; COOKIE]),
        };
        assert_eq!(DatagramRequest::read(&challenge.seal(&key())), None);
    }

    #[test]
    fn an_answer_is_never_larger_than_what_it_answers() {
        let answer = ack(DatagramStatus::Here, None).seal(&key()).len();
        for sent in requests() {
            assert!(answer <= sent.len());
        }
    }
}
