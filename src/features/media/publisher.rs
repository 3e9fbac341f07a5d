//! Decides to which live a stream belongs, and who its streamer is: by the token in the stream's
//! query, by the platform's answer about a stream key, or, where the settings allow it, by what the
//! media server says.

use std::sync::Arc;
use std::time::Duration;

use crate::auth::presented::presented;
use crate::auth::tokens::{TokenError, Tokens};
use crate::base::identity::Role;
use crate::base::ids::{InvalidId, LiveId, UserId};
use crate::base::media_event::{MediaEvent, StreamNews};
use crate::config::Placeholder;
use crate::features::media::keeper::LiveOf;
use crate::features::media::servers::KnownServer;
use crate::features::media::store::MediaStore;
use crate::features::media::store::{Publishing, STREAMS_TTL, StreamPublisher};
use crate::features::media::stream_keys::{NoAnswer, digest};
use crate::store::StoreError;

/// How long a session may take from the server's question to the beginning of its stream.
const GRANT_TTL: Duration = Duration::from_secs(60);

/// Why somebody may not publish. It quotes nothing of the request, which may have a stream key or a
/// token in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PublishDenied {
    /// What the settings make of the stream's name is no id.
    #[error("the stream has no name that can be the id of a live: {0}")]
    Live(InvalidId),
    /// What the settings make of the streamer is no id.
    #[error("the streamer has no name that can be the id of a user: {0}")]
    Streamer(InvalidId),
    /// No token, and nothing else says who the streamer is.
    #[error("the stream has no token")]
    NoToken,
    /// The token is not good.
    #[error("{0}")]
    Token(#[from] TokenError),
    /// The token is a viewer's or a service's.
    #[error("the token is not a streamer's")]
    Role,
    /// The token is for other lives.
    #[error("the token is for other lives")]
    OtherLives,
    /// The platform knows no such stream key, or does not allow it.
    #[error("the platform does not allow the stream key")]
    StreamKey,
}

/// Why it is unknown who may publish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Undecided {
    /// They may not.
    #[error("{0}")]
    Denied(#[from] PublishDenied),
    /// The platform does not say.
    #[error("{0}")]
    Platform(#[from] NoAnswer),
    /// The store does not say.
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Decides about the streams of one server.
pub(crate) struct Gatekeeper<'a> {
    pub(crate) server: &'a KnownServer,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<&'a Arc<Tokens>>,
    pub(crate) store: &'a dyn MediaStore,
}

/// Where a session publishes.
pub(crate) struct PublishPlace {
    pub(crate) live: LiveId,
    /// Where it published before the platform moved its stream key.
    pub(crate) former: Option<LiveId>,
}

impl Gatekeeper<'_> {
    /// Where a session publishes that asks, begins or goes on; `None` if no live is known for it.
    pub(crate) async fn place(
        &self,
        event: &MediaEvent,
    ) -> Result<Option<PublishPlace>, Undecided> {
        let Some(stream_keys) = &self.server.stream_keys else {
            let live = self.live_by_name(event)?;
            return Ok(Some(PublishPlace { live, former: None }));
        };
        let digest = digest(&self.server.settings.name, event);
        let noted = self.store.find_publishing(&digest).await?;
        let noted = noted.map(|noted| noted.live);
        // A session goes on where it began, even if the platform is away or moved the key.
        if matches!(event.news, StreamNews::Alive | StreamNews::Unnamed)
            && let Some(live) = noted
        {
            return Ok(Some(PublishPlace { live, former: None }));
        }
        if event.news == StreamNews::Unnamed {
            return Ok(None);
        }
        let owner = stream_keys
            .owner(event)
            .await?
            .ok_or(PublishDenied::StreamKey)?;
        if event.news != StreamNews::Request {
            self.store
                .note_publishing(&digest, &owner.live.clone().into(), STREAMS_TTL)
                .await?;
        }
        Ok(Some(PublishPlace {
            former: noted.filter(|noted| *noted != owner.live),
            live: owner.live,
        }))
    }

    /// The live of a stream that is named after it; for the log. A stream key is never the name of a
    /// live.
    pub(crate) fn named_live(&self, event: &MediaEvent) -> Option<LiveId> {
        match self.server.stream_keys {
            Some(_) => None,
            None => self.live_by_name(event).ok(),
        }
    }

    /// The live of a session that ended, which must be found even if the platform is away, or has
    /// moved the key since.
    pub(crate) fn live_of_end(&self, event: &MediaEvent) -> Result<LiveOf, Undecided> {
        if self.server.stream_keys.is_none() {
            return Ok(LiveOf::Id(self.live_by_name(event)?));
        }
        let digest = digest(&self.server.settings.name, event);
        Ok(LiveOf::Noted(digest))
    }

    fn live_by_name(&self, event: &MediaEvent) -> Result<LiveId, PublishDenied> {
        let text = self
            .server
            .settings
            .live
            .fill(|placeholder| match placeholder {
                Placeholder::App => event.app.as_deref().unwrap_or_default(),
                _ => event.stream.reveal(),
            });
        LiveId::parse(&text).map_err(PublishDenied::Live)
    }

    /// Who may publish this stream to this live.
    pub(crate) async fn publisher(
        &self,
        event: &MediaEvent,
        live: &LiveId,
    ) -> Result<StreamPublisher, Undecided> {
        if let Some(stream_keys) = &self.server.stream_keys {
            let owner = stream_keys
                .owner(event)
                .await?
                .ok_or(PublishDenied::StreamKey)?;
            if owner.live != *live {
                return Err(PublishDenied::OtherLives.into());
            }
            return Ok(counted(owner.streamer));
        }
        if let Some(granted) = self.granted(event, live).await? {
            return Ok(granted);
        }
        let Some(tokens) = self.tokens else {
            return Ok(counted(self.unverified(event, live)?));
        };
        let token = match &event.token {
            Some(token) => presented(token.reveal()),
            None => None,
        };
        let Some(token) = token else {
            let named = self.named(event, live).ok_or(PublishDenied::NoToken)?;
            return Ok(counted(named.map_err(PublishDenied::Streamer)?));
        };
        let claims = tokens.verify(token).await.map_err(PublishDenied::Token)?;
        if claims.role != Role::Streamer {
            return Err(PublishDenied::Role.into());
        }
        if !claims.allows(live) {
            return Err(PublishDenied::OtherLives.into());
        }
        Ok(StreamPublisher {
            streamer: claims.user.clone(),
            invisible: !claims.counted,
        })
    }

    /// Remembers who may publish in a session, for the message that its stream began. That message has
    /// no token if the publisher proved who it is otherwise than in the query of the stream's URL.
    pub(crate) async fn grant(
        &self,
        event: &MediaEvent,
        live: &LiveId,
        publisher: &StreamPublisher,
    ) -> Result<(), StoreError> {
        if self.server.stream_keys.is_some() {
            return Ok(());
        }
        let digest = digest(&self.server.settings.name, event);
        let publishing = Publishing {
            live: live.clone(),
            publisher: Some(publisher.clone()),
        };
        self.store
            .note_publishing(&digest, &publishing, GRANT_TTL)
            .await
    }

    /// Who was let in with this session, of a server that asks first and tells of the beginning later.
    async fn granted(
        &self,
        event: &MediaEvent,
        live: &LiveId,
    ) -> Result<Option<StreamPublisher>, StoreError> {
        if event.news != StreamNews::Publish || event.asks {
            return Ok(None);
        }
        let digest = digest(&self.server.settings.name, event);
        match self.store.find_publishing(&digest).await? {
            Some(found) if found.live == *live => Ok(found.publisher),
            _ => Ok(None),
        }
    }

    /// The streamer, as a gateway with `--auth off` believes.
    fn unverified(&self, event: &MediaEvent, live: &LiveId) -> Result<UserId, PublishDenied> {
        let named = match self.named(event, live) {
            Some(named) => named,
            None => UserId::parse(event.streamer.as_deref().unwrap_or(live.as_str())),
        };
        named.map_err(PublishDenied::Streamer)
    }

    /// The streamer, as the settings say; `None` if they do not.
    fn named(&self, event: &MediaEvent, live: &LiveId) -> Option<Result<UserId, InvalidId>> {
        let template = self.server.settings.streamer.as_ref()?;
        let text = template.fill(|placeholder| match placeholder {
            Placeholder::Name => event.stream.reveal(),
            Placeholder::App => event.app.as_deref().unwrap_or_default(),
            Placeholder::Live => live.as_str(),
            Placeholder::Streamer => event.streamer.as_deref().unwrap_or_default(),
        });
        Some(UserId::parse(&text))
    }
}

fn counted(streamer: UserId) -> StreamPublisher {
    StreamPublisher {
        streamer,
        invisible: false,
    }
}
