//! A dashboard: a socket of a service that watches one live and receives its counts. The tools hold
//! these counts against what they know to be true, each in its own way.

use std::time::Duration;

use rollcall::presence::figures::Quality;

use crate::client::{self, Failure, WebSocket};
use crate::error_kind::{self, ErrorName};
use crate::target::Target;

/// What a dashboard shows. Counts that the gateway left out are -1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DashboardCounts {
    pub(crate) epoch: u32,
    pub(crate) viewers: i64,
    pub(crate) fans: i64,
    pub(crate) guests: i64,
    pub(crate) quality: Quality,
}

/// What the gateway tells a dashboard.
pub(crate) enum Update {
    Counts(DashboardCounts),
    LiveClosed,
    Refused(ErrorName),
}

pub(crate) struct Dashboard {
    socket: WebSocket,
}

impl Dashboard {
    pub(crate) async fn connect(
        target: &Target,
        user_id: &str,
        within: Duration,
    ) -> Result<Self, Failure> {
        let query = format!("user_id={user_id}&role=service");
        Ok(Self {
            socket: client::connect(target, None, &query, within).await?,
        })
    }

    pub(crate) async fn watch(&mut self, live_id: &str) -> Result<(), Failure> {
        client::send(
            &mut self.socket,
            format!(r#"{{"type":"watch","live_id":"{live_id}"}}"#),
        )
        .await
    }

    /// The next update. None is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Update, Failure> {
        loop {
            let text = client::receive(&mut self.socket).await?;
            let message = client::parse(&text)?;
            match &*message.kind {
                "counts" => {
                    return Ok(Update::Counts(DashboardCounts {
                        epoch: message.epoch.unwrap_or_default(),
                        viewers: message.viewers.unwrap_or(-1),
                        fans: message.fans.unwrap_or(-1),
                        guests: message.guests.unwrap_or(-1),
                        quality: message.quality.unwrap_or(Quality::Stale),
                    }));
                }
                "closed" => return Ok(Update::LiveClosed),
                "error" => {
                    return Ok(Update::Refused(error_kind::of_code(
                        message.code.as_deref(),
                    )));
                }
                _ => {}
            }
        }
    }
}
