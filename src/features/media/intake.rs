//! Takes in what a media server says: which live it is about, who may publish, and what the message
//! does to the live. The route of callbacks and the poller use it.

use std::sync::Arc;

use crate::auth::tokens::Tokens;
use crate::base::clock::unix_now;
use crate::base::ids::LiveId;
use crate::base::media_event::{MediaEvent, StreamNews};
use crate::base::media_server::{MediaKind, MediaServerName};
use crate::features::media::keeper::{EndedStream, LiveOf, StreamKeeper, TakenIn};
use crate::features::media::publisher::{Gatekeeper, Undecided};
use crate::features::media::servers::KnownServer;
use crate::features::media::store::Heard;
use crate::features::media::store::MediaStore;
use crate::store::StoreError;
use crate::sync::lives::LiveError;

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
            Undecided::Store(why) => why.into(),
        }
    }
}

impl From<StoreError> for NotTaken {
    fn from(why: StoreError) -> Self {
        Self::Unknown(why.to_string())
    }
}

impl From<LiveError> for NotTaken {
    fn from(why: LiveError) -> Self {
        match why {
            LiveError::Store(why) => why.into(),
            why => Self::Refused(why.to_string()),
        }
    }
}

/// Takes in what one server says.
pub(crate) struct Intake<'a> {
    pub(crate) server: &'a KnownServer,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<&'a Arc<Tokens>>,
    pub(crate) store: &'a dyn MediaStore,
    pub(crate) streams: &'a StreamKeeper,
}

impl Intake<'_> {
    pub(crate) async fn take_in(&self, event: &MediaEvent) -> Result<TakenIn, NotTaken> {
        if matches!(
            event.news,
            StreamNews::Done | StreamNews::Left | StreamNews::AllDone
        ) {
            let live = self.gatekeeper().live_of_end(event)?;
            let ending = self.ending(live, event, event.news);
            return Ok(self.streams.hear_end(ending).await?);
        }
        let gatekeeper = self.gatekeeper();
        let Some(place) = gatekeeper.place(event).await? else {
            return Ok(TakenIn::Ignored);
        };
        let live = place.live;
        let mut publisher = None;
        if matches!(event.news, StreamNews::Request | StreamNews::Publish) {
            publisher = Some(gatekeeper.publisher(event, &live).await?);
        }
        // The platform moved the key to another live, and the session with it.
        if let Some(former) = place.former {
            let left = self.ending(LiveOf::Id(former), event, StreamNews::Done);
            self.streams.hear_end(left).await?;
        }
        let heard = self.heard(event, event.news);
        let mut taken_in = self.streams.hear(&live, &heard, publisher.as_ref()).await?;
        if taken_in == TakenIn::NeedsPublisher {
            let publisher = gatekeeper.publisher(event, &live).await?;
            taken_in = self.streams.hear(&live, &heard, Some(&publisher)).await?;
        }
        if let Some(publisher) = &publisher
            && taken_in == TakenIn::Allowed
        {
            gatekeeper.grant(event, &live, publisher).await?;
        }
        log(&heard.server, &live, taken_in);
        Ok(taken_in)
    }

    /// The server took the answer for a no, or had none in time, and does not let the publisher in.
    /// The session may be written all the same, so it ends. Most servers say nothing about the end
    /// of a publisher that they refused.
    pub(crate) fn take_back(&self, event: &MediaEvent) {
        if !event.asks || event.news != StreamNews::Publish {
            return;
        }
        // It lets a publisher in whose question has no answer, and says of each that it ended.
        if self.server.settings.kind == MediaKind::NodeMediaServer {
            return;
        }
        // A stream whose name is no live was not written.
        if let Ok(live) = self.gatekeeper().live_of_end(event) {
            self.streams
                .hear_end_later(self.ending(live, event, StreamNews::Done));
        }
    }

    /// Says who was refused and why, but not with which key or token. A publisher who puts a stream
    /// key into the application has it behind a slash.
    pub(crate) fn log_refusal(&self, event: &MediaEvent, why: &str) {
        let live = self.gatekeeper().named_live(event);
        let mut app = event.app.as_deref();
        if self.server.stream_keys.is_some() {
            app = app.and_then(|app| app.split('/').next());
        }
        tracing::info!(
            server = %self.server.settings.name,
            live_id = live.as_ref().map(tracing::field::display),
            app,
            address = event.address.as_deref(),
            why,
            "a stream was refused"
        );
    }

    fn gatekeeper(&self) -> Gatekeeper<'_> {
        Gatekeeper {
            server: self.server,
            tokens: self.tokens,
            store: self.store,
        }
    }

    fn heard(&self, event: &MediaEvent, news: StreamNews) -> Heard {
        let settings = &self.server.settings;
        Heard {
            instance: event.instance.clone().unwrap_or_default(),
            at: event.at,
            address: event.address.clone(),
            end_known_by: settings.end_known_by(),
            second_publisher: settings.kind.second_publisher(),
            ..Heard::new(settings.name.clone(), event.session.clone(), news)
        }
    }

    fn ending(&self, live: LiveOf, event: &MediaEvent, news: StreamNews) -> EndedStream {
        EndedStream {
            live,
            heard: self.heard(event, news),
            heard_at: unix_now(),
        }
    }
}

/// Says when streams begin; the keeper says when they end. The live's id is no secret, unlike the
/// stream's name.
fn log(server: &MediaServerName, live: &LiveId, taken_in: TakenIn) {
    if taken_in == TakenIn::Began {
        tracing::info!(%server, live_id = %live, "a stream began");
    }
}
