//! The messages that gateways send each other: what each means, and how it is written. A message is
//! a JSON object with a version and its sender. A gateway passes over messages of a type or version
//! that it does not know, so gateways of two versions can work side by side.

use serde::{Deserialize, Serialize};

use crate::base::clock::Millis;
use crate::base::ids::{Epoch, GatewayId, LiveId, UserId};
use crate::presence::confirmed::SliceConfirmed;
use crate::presence::shape::LiveShape;
use crate::store::EndedSession;

const VERSION: u32 = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub gateway: GatewayId,
    pub message: PeerMessage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PeerMessage {
    /// On a live's channel: the viewers on the sender, and news of slices.
    Counts(PeerCounts),
    /// On a live's channel: its record changed, by an opening, a close, a removal or a ban. The
    /// receiver reads it.
    Record,
    /// On a live's channel: the store was found to have lost something of it. The receiver checks
    /// the live. On the gateways' channel: a slice of the platform forgot what gateways hold. The
    /// receiver checks these slices.
    Doubt,
    /// On a live's channel: viewers on the sender asked for their friends there. From now on the
    /// receiver tells who comes and who leaves, on the live's channel of moves.
    FriendsAsked,
    /// On a live's channel of moves: these users came or left, as the store knows by now. The
    /// receiver looks where the followed users of the viewers who asked are.
    Moved {
        users: Vec<UserId>,
        /// Others may have moved, too: the receiver looks for everybody.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        anybody: bool,
    },
    /// On a live's channel: how many viewers are confirmed in these slices, as the store just said.
    Confirmed {
        epoch: Epoch,
        slices: Vec<SliceConfirmed>,
    },
    /// On the gateways' channel: the follow graph changed, so a fan check is due.
    Follow { user: UserId, streamer: UserId },
    /// On the gateways' channel: the streamer of these lives left the sender. The receiver looks
    /// later whether the streamer came back.
    Gone {
        lives: Vec<LiveId>,
        /// How long the streamer had been silent by then, in ms.
        silent: Millis,
    },
    /// On the gateways' channel: these ids of sessions without a socket are over. The receiver ends
    /// its own part of them.
    SessionsEnded { sessions: Vec<EndedSession> },
    /// On the gateways' channel: the rules of moderation changed. The receiver looks at the store.
    Rules,
    /// On the gateways' channel: the sender asks how the viewers of a live spread. The receiver
    /// answers with its own, also if it has none.
    ShapeAsked {
        question: u64,
        live: LiveId,
        epoch: Epoch,
    },
    /// On the gateways' channel: how the viewers on the sender spread, for the gateway that asked
    /// this question.
    Shape { question: u64, shape: LiveShape },
    /// A message of a type that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Absolute figures of a live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerCounts {
    pub epoch: Epoch,
    /// Grows with each of these messages of the sender.
    pub number: u64,
    pub viewers: u64,
    /// Viewers among them who are away.
    #[serde(default, skip_serializing_if = "is_none")]
    pub away: u64,
    /// Viewers among them who watch.
    #[serde(default, skip_serializing_if = "is_none")]
    pub watching: u64,
    /// The sender may not know what the others have: the receiver tells it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
    /// Slices whose size the store told the sender.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceCard>,
    /// The indexes of the slices in `slices` that are in a rebuild.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuilds: Vec<u32>,
    /// The slices in `slices` that have guests: the index of each, and how many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<(u32, u64)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

/// The size of one slice: its index, its members and its fans over all gateways, how many left, the
/// version of the slice that has this size, and its incarnation.
pub type SliceCard = (u32, u64, u64, u64, u64, u64);

/// Why a text is not acted upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// The text is not a message, or its ids are invalid.
    Malformed,
    /// The message has another version, or a type that this version does not know.
    Unknown,
}

impl Ignored {
    pub fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope<G, M> {
    v: u32,
    gateway: G,
    #[serde(flatten)]
    message: M,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

impl PeerMessage {
    /// Whether it tells its sender something, too.
    pub fn is_news_to_sender(&self) -> bool {
        matches!(self, Self::Record | Self::Moved { .. })
    }

    pub fn text(&self, gateway: &GatewayId) -> String {
        // Strings and numbers only: this does not fail.
        serde_json::to_string(&Envelope {
            v: VERSION,
            gateway,
            message: self,
        })
        .unwrap_or_default()
    }
}

pub fn read(text: &str) -> Result<ReceivedMessage, Ignored> {
    let Version { v } = serde_json::from_str(text).map_err(|_| Ignored::Malformed)?;
    if v != VERSION {
        return Err(Ignored::Unknown);
    }
    match serde_json::from_str(text) {
        Ok(Envelope {
            message: PeerMessage::Unknown,
            gateway: _,
            ..
        }) => Err(Ignored::Unknown),
        Ok(Envelope {
            gateway, message, ..
        }) => Ok(ReceivedMessage { gateway, message }),
        Err(_) => Err(Ignored::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::session_key::SessionKey;
    use crate::store::Over;

    #[test]
    fn messages_are_read_back_as_they_were_written() {
        let gateway = GatewayId::random();
        let counts = PeerCounts {
            epoch: Epoch(3),
            number: 9,
            viewers: 12,
            away: 1,
            watching: 7,
            asks: true,
            slices: vec![(2, 5, 3, 8, 1_732_000_000_000_000, 9)],
            rebuilds: vec![2],
            guests: vec![(2, 1)],
        };
        let (user, streamer) = (UserId::parse("u1").unwrap(), UserId::parse("s1").unwrap());
        for message in [
            PeerMessage::Counts(counts.clone()),
            PeerMessage::Record,
            PeerMessage::Doubt,
            PeerMessage::Rules,
            PeerMessage::FriendsAsked,
            PeerMessage::Moved {
                users: vec![user.clone()],
                anybody: false,
            },
            PeerMessage::Moved {
                users: Vec::new(),
                anybody: true,
            },
            PeerMessage::Confirmed {
                epoch: Epoch(3),
                slices: vec![SliceConfirmed {
                    slice: 2,
                    viewers: 5,
                    kept: 7,
                }],
            },
            PeerMessage::ShapeAsked {
                question: u64::MAX,
                live: LiveId::parse("42").unwrap(),
                epoch: Epoch(3),
            },
            PeerMessage::Shape {
                question: 1,
                shape: LiveShape {
                    viewers: 3,
                    networks: vec![(u64::MAX, 2), (7, 1)],
                    ..LiveShape::default()
                },
            },
            PeerMessage::Follow { user, streamer },
            PeerMessage::Gone {
                lives: vec![LiveId::parse("42").unwrap()],
                silent: 5_000,
            },
            PeerMessage::SessionsEnded {
                sessions: vec![EndedSession {
                    key: SessionKey::from_bytes([7; 16]),
                    below: 2,
                    why: Over::Switched,
                }],
            },
        ] {
            assert_eq!(
                read(&message.text(&gateway)),
                Ok(ReceivedMessage {
                    gateway: gateway.clone(),
                    message
                })
            );
        }
    }

    #[test]
    fn a_message_looks_like_this() {
        let counts = PeerCounts {
            epoch: Epoch(3),
            number: 9,
            viewers: 12,
            away: 0,
            watching: 0,
            asks: false,
            slices: vec![(2, 5, 3, 8, 17, 16)],
            rebuilds: vec![],
            guests: vec![],
        };
        let text = PeerMessage::Counts(counts).text(&GatewayId::parse("gw-a").unwrap());
        let shape = concat!(
            r#"{"v":4,"gateway":"gw-a","type":"counts","epoch":3,"number":9,"viewers":12,"#,
            r#""slices":[[2,5,3,8,17,16]]}"#
        );
        assert_eq!(text, shape);
    }

    #[test]
    fn garbage_is_malformed_and_newer_messages_are_unknown() {
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"v":4}"#,
            r#"{"v":4,"gateway":"a b","type":"record"}"#,
            r#"{"v":4,"gateway":"a","type":"gone"}"#,
            r#"{"v":4,"gateway":"a","type":"gone","lives":["42"],"silent":"9"}"#,
            r#"{"v":4,"gateway":"a","type":"counts","epoch":1,"number":-1,"viewers":0}"#,
        ] {
            assert_eq!(read(bad), Err(Ignored::Malformed), "{bad}");
        }
        for newer in [
            r#"{"v":5,"said":7}"#,
            r#"{"v":4,"gateway":"a","type":"ban","user":"u1","until":5}"#,
        ] {
            assert_eq!(read(newer), Err(Ignored::Unknown), "{newer}");
        }
        // Fields that this version does not know do no harm.
        let more = r#"{"v":4,"gateway":"a","type":"record","why":"moderated"}"#;
        assert!(read(more).is_ok());
    }
}
