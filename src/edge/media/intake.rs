//! Takes in what a media server says: which live it is about, who may publish, and what the message
//! does to the live. The route of callbacks and the poller use it.

use std::sync::Arc;

use super::publisher::{Gatekeeper, Undecided};
use super::servers::KnownServer;
use crate::auth::tokens::Tokens;
use crate::base::ids::LiveId;
use crate::base::media_event::{MediaEvent, StreamNews};
use crate::base::media_server::MediaServerName;
use crate::store::{Heard, Store};
use crate::sync::lives::LiveError;
use crate::sync::streams::{StreamError, StreamKeeper, TakenIn};

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A session publishes from now on.
    Began,
    /// The session goes on.
    Alive,
    /// The session ended.
    Ended,
    /// An end that could not be written, and will be.
    Kept,
    /// Somebody asked and may publish.
    Allowed,
    /// It means nothing: a double, late, or about nobody who publishes.
    Ignored,
}

impl Taken {
    /// The label in the metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Alive => "alive",
            Self::Ended => "ended",
            Self::Kept => "kept",
            Self::Allowed => "allowed",
            Self::Ignored => "ignored",
        }
    }
}

/// Why a message was not taken in. The texts hold no stream key and no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The publisher may not publish.
    Refused(String),
    /// The store, or the platform, did not say.
    Unknown(String),
}

impl From<Undecided> for NotTaken {
    fn from(why: Undecided) -> Self {
        match why {
            Undecided::Denied(why) => Self::Refused(why.to_string()),
            Undecided::Platform(why) => Self::Unknown(why.to_string()),
            Undecided::Store(why) => Self::Unknown(why.to_string()),
        }
    }
}

impl From<StreamError> for NotTaken {
    fn from(why: StreamError) -> Self {
        match why {
            StreamError::Live(LiveError::Store(why)) => Self::Unknown(why.to_string()),
            why => Self::Refused(why.to_string()),
        }
    }
}

/// Takes in what one server says.
pub(crate) struct Intake<'a> {
    pub(crate) server: &'a KnownServer,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<&'a Arc<Tokens>>,
    pub(crate) store: &'a dyn Store,
    pub(crate) streams: &'a StreamKeeper,
}

impl Intake<'_> {
    pub(crate) async fn take_in(&self, event: &MediaEvent) -> Result<Taken, NotTaken> {
        let gatekeeper = Gatekeeper {
            server: self.server,
            tokens: self.tokens,
            store: self.store,
        };
        let Some(live) = gatekeeper.live(event).await? else {
            return Ok(Taken::Ignored);
        };
        let mut publisher = None;
        if matches!(event.news, StreamNews::Request | StreamNews::Publish) {
            publisher = Some(gatekeeper.publisher(event, &live).await?);
        }
        let heard = Heard {
            server: self.server.settings.name.clone(),
            session: event.session.clone(),
            news: event.news,
            at: event.at,
        };
        let streams = self.streams;
        let mut taken_in = match streams.hear(&live, &heard, publisher.as_ref()).await {
            Ok(taken_in) => taken_in,
            // Most servers say only once that a session ended.
            Err(StreamError::Live(LiveError::Store(_)))
                if is_end(event.news) && streams.unheard.keep(&live, &heard) =>
            {
                return Ok(Taken::Kept);
            }
            Err(why) => return Err(why.into()),
        };
        if taken_in == TakenIn::NeedsPublisher {
            let publisher = gatekeeper.publisher(event, &live).await?;
            taken_in = streams.hear(&live, &heard, Some(&publisher)).await?;
        }
        log(&heard.server, &live, event.news, taken_in);
        Ok(match taken_in {
            TakenIn::Began => Taken::Began,
            TakenIn::Noted if event.news == StreamNews::Alive => Taken::Alive,
            TakenIn::Noted => Taken::Ended,
            TakenIn::Nothing if event.news == StreamNews::Request => Taken::Allowed,
            TakenIn::Nothing | TakenIn::NeedsPublisher => Taken::Ignored,
        })
    }
}

fn is_end(news: StreamNews) -> bool {
    matches!(news, StreamNews::Done | StreamNews::Left)
}

/// Says when streams begin and end. The live's id is no secret, unlike the stream's name.
fn log(server: &MediaServerName, live: &LiveId, news: StreamNews, taken_in: TakenIn) {
    match taken_in {
        TakenIn::Began => tracing::info!(%server, live_id = %live, "a stream began"),
        TakenIn::Noted if is_end(news) => {
            tracing::info!(%server, live_id = %live, "a stream ended");
        }
        _ => {}
    }
}
