//! The answer of `rollcall explain`: a JSON document for programs, sentences and a list for people.

use std::fmt;

use serde::Serialize;

use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId, UserId};
use crate::cli::leases::LeaseStatus;
use crate::edge::http::gateway::ViewerKnown;

#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    pub live_id: LiveId,
    /// `open`, `closing`, `closed`, or null if the store has no record of the live.
    pub state: Option<&'static str>,
    pub streamer_id: Option<UserId>,
    pub epoch: Option<Epoch>,
    /// Whether `lives` lists the live.
    pub listed: bool,
    /// All slices, or only the slice of the user. Empty if the live is closed.
    pub slices: Vec<SliceStatus>,
    pub user: Option<ExplainedUser>,
    /// The explanation, in sentences.
    pub because: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct SliceStatus {
    pub slice: u32,
    pub key: String,
    pub viewers: u64,
    pub fans: u64,
    /// `open:<epoch>`, `closed:<epoch>`, or null.
    pub fence: Option<String>,
    pub gateways: Vec<EntryStatus>,
}

/// A gateway that has an entry in a slice.
#[derive(Debug, Serialize)]
pub(super) struct EntryStatus {
    pub gateway_id: GatewayId,
    #[serde(flatten)]
    pub lease: LeaseStatus,
    /// Whether the lease has run out and nobody has buried the gateway yet.
    pub expired: bool,
    /// The number of the gateway's last call; null if the gateway is being swept.
    pub number: Option<u64>,
    /// How many members the gateway holds.
    pub members: u64,
    /// How many of these members it holds as fans.
    pub fans: u64,
    /// Whether the gateway holds the user as a fan.
    pub holds_user: Option<bool>,
}

#[derive(Debug, Serialize)]
pub(super) struct ExplainedUser {
    pub user_id: UserId,
    /// Whether the user is among all viewers of the slice.
    pub viewer: bool,
    /// Whether the user is among its fans, and so counts as an online fan.
    pub counted: bool,
    /// Whether the fan source says that the user is a fan. Null if it does not say.
    pub fan: Option<bool>,
    /// Null if the user does not follow the streamer, or if follows are not in Redis.
    pub follows_since: Option<UnixMillis>,
    /// When the user's ban from the live ends or ended. Null if there was none.
    pub ban_ends_at: Option<UnixMillis>,
    pub gateways: Vec<GatewayAnswer>,
}

/// What a gateway knows of the user, or why it did not answer.
#[derive(Debug, Serialize)]
pub(super) struct GatewayAnswer {
    pub url: String,
    pub knows: Option<ViewerKnown>,
    pub error: Option<String>,
}

impl EntryStatus {
    /// The state of the gateway's lease, and what other gateways will do about it.
    pub(super) fn standing(&self) -> String {
        let follows = match (self.lease.lease, self.expired) {
            (Some("living"), false) => "",
            (Some("living"), true) => ": it is to be buried",
            (Some(_), _) => ": it is to be swept",
            (None, _) => ": it is to be buried unless it renews one",
        };
        format!("{}{follows}", self.lease)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.because.join("\n"))?;
        for SliceStatus {
            slice,
            key,
            viewers,
            fans,
            fence,
            gateways,
        } in &self.slices
        {
            let fence = fence.as_deref().unwrap_or("none");
            write!(
                f,
                "\nslice {slice} ({key}): {viewers} viewers, {fans} fans, fence {fence}"
            )?;
            for entry in gateways {
                let EntryStatus {
                    gateway_id,
                    members,
                    fans,
                    number,
                    ..
                } = entry;
                write!(
                    f,
                    "\n  {gateway_id} holds {members}, {fans} of them fans, {}",
                    entry.standing()
                )?;
                if let Some(number) = number {
                    write!(f, ", call {number}")?;
                }
            }
        }
        Ok(())
    }
}
