//! One look at the open lives of a gateway. Nothing that it says is trusted: answers and pages are
//! bounded, and fields that an older gateway does not have are left out.

use std::collections::HashSet;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::cli::gateways::GatewayApi;
use crate::config::LivesSort;

/// Pages of a thousand lives that are read.
const MOST_PAGES: usize = 100;

/// An open live.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenLive {
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
    /// As [`Self::away`].
    #[serde(default)]
    pub(super) quality: Option<String>,
    pub(super) counted_at: Option<u64>,
}

impl OpenLive {
    pub(super) fn figure(&self, sort: LivesSort) -> u64 {
        match sort {
            LivesSort::Viewers => self.viewers,
            LivesSort::Fans => self.fans,
        }
    }
}

#[derive(Deserialize)]
struct Page {
    items: Vec<OpenLive>,
    cursor: Option<String>,
}

/// What a gateway told.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    /// Largest first, each once.
    pub(super) lives: Vec<OpenLive>,
    /// Whether there are more.
    pub(super) more: bool,
}

pub(super) async fn at(gateway: &GatewayApi, sort: LivesSort) -> anyhow::Result<Look> {
    let mut look = Look {
        lives: Vec::new(),
        more: true,
    };
    let mut cursor = String::new();
    // A live whose counts change while the pages are read may come twice.
    let mut seen = HashSet::new();
    for _ in 0..MOST_PAGES {
        let query = format!("/v1/lives?sort={}&limit=1000{cursor}", sort.as_str());
        let page: Page = gateway.get(&query).await?;
        look.lives.extend(
            page.items
                .into_iter()
                .filter(|live| seen.insert(live.live_id.clone())),
        );
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
