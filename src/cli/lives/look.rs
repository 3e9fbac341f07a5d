//! One look at the open lives of a gateway. The command does not trust the gateway: it bounds answers
//! and pages. It leaves out fields that an older gateway does not have.

use std::collections::HashSet;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::cli::gateways::GatewayApi;
use crate::config::LivesSort;

/// Maximum pages of a look. A page has up to a thousand lives.
const MAX_PAGES: usize = 100;

/// An open live.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShownLive {
    pub(super) live_id: String,
    pub(super) streamer_id: String,
    pub(super) epoch: u64,
    pub(super) title: Option<String>,
    pub(super) opened_at: u64,
    pub(super) viewers: u64,
    pub(super) fans: u64,
    /// `None` if the gateway does not hold the live.
    #[serde(default)]
    pub(super) away: Option<u64>,
    /// `None` if the gateway does not hold the live.
    #[serde(default)]
    pub(super) quality: Option<String>,
    pub(super) counted_at: Option<u64>,
}

impl ShownLive {
    pub(super) fn figure(&self, sort: LivesSort) -> u64 {
        match sort {
            LivesSort::Viewers => self.viewers,
            LivesSort::Fans => self.fans,
        }
    }
}

#[derive(Deserialize)]
struct LivesPage {
    items: Vec<ShownLive>,
    cursor: Option<String>,
}

/// The lives of which a gateway told.
#[derive(Debug, Clone, Default)]
pub(super) struct LivesLook {
    /// Each live once, the largest first.
    pub(super) lives: Vec<ShownLive>,
    /// Whether the gateway has more lives.
    pub(super) more: bool,
}

pub(super) async fn at(gateway: &GatewayApi, sort: LivesSort) -> anyhow::Result<LivesLook> {
    let mut look = LivesLook {
        lives: Vec::new(),
        more: true,
    };
    let mut cursor = String::new();
    // A live whose counts change while the pages are read may come twice.
    let mut seen = HashSet::new();
    for _ in 0..MAX_PAGES {
        let query = format!("/v1/lives?sort={}&limit=1000{cursor}", sort.as_str());
        let page: LivesPage = gateway.get(&query).await?;
        for live in page.items {
            if seen.insert(live.live_id.clone()) {
                look.lives.push(live);
            }
        }
        let Some(next) = page.cursor else {
            look.more = false;
            break;
        };
        cursor = format!("&cursor={}", utf8_percent_encode(&next, NON_ALPHANUMERIC));
    }
    look.lives
        .sort_by_key(|live| std::cmp::Reverse(live.figure(sort)));
    Ok(look)
}
