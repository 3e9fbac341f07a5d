//! Serves every client message but the heartbeat: what it does, which role may send it, and how it
//! is refused.

use std::sync::Arc;

use tokio_tungstenite::tungstenite::Message;

use super::joining::{self, Seating};
use super::socket::Transport;
use super::{Session, SessionResult};
use crate::auth::permissions::{Action, Caller, Permission, permission};
use crate::base::ids::{LiveId, MAX_SLICES, UserId};
use crate::base::metrics::Metrics;
use crate::presence::Room;
use crate::presence::conn::Gaze;
use crate::presence::room::Interest;
use crate::presence::user_budgets::Cost;
use crate::session::close_codes::Close;
use crate::session::messages::{
    BanTold, ClientMessage, ErrorCode, InfoTold, JoinRequest, Refusal, RequestId, ServerMessage,
};
use crate::store::{CloseReason, OpenedBy, Terms};
use crate::sync::lives::{LiveError, OpenRequest};

pub(super) enum RequestError {
    /// The client gets an error message; the session goes on.
    Refused(Refusal),
    /// The session ends.
    Ended(Close),
}

impl From<Refusal> for RequestError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Close> for RequestError {
    fn from(why: Close) -> Self {
        Self::Ended(why)
    }
}

impl From<LiveError> for RequestError {
    fn from(why: LiveError) -> Self {
        Self::Refused(why.into())
    }
}

impl From<LiveError> for Refusal {
    fn from(why: LiveError) -> Self {
        let code = match why {
            LiveError::Banned(ban) => return Self::kept_out(&ban),
            LiveError::NotOpen(_) | LiveError::NeverOpened(_) => ErrorCode::LiveNotOpen,
            LiveError::Owned(_) => ErrorCode::LiveOwned,
            LiveError::NotByStreamers | LiveError::Erased(_) | LiveError::BannedHost(_) => {
                ErrorCode::Forbidden
            }
            LiveError::TooMany(_) | LiveError::TooFast(_) => ErrorCode::RateLimited,
            LiveError::Store(_) => ErrorCode::StoreUnavailable,
        };
        let message = match why {
            // Details are for the operator only.
            LiveError::Store(why) => format!("{}; try again", why.for_clients()),
            other => other.to_string(),
        };
        Self::new(code, message)
    }
}

pub(super) type RequestResult = Result<(), RequestError>;

pub(super) fn forbidden(why: &'static str) -> RequestError {
    Refusal::new(ErrorCode::Forbidden, why).into()
}

impl<S: Transport> Session<S> {
    /// Serves a request and answers it.
    pub(super) async fn serve(
        &mut self,
        id: Option<&RequestId>,
        request: Result<ClientMessage, Refusal>,
    ) -> SessionResult {
        // A client that leaves a live which has just ended is told of the end first.
        self.tell_closed().await?;
        let served = match request {
            Ok(ClientMessage::Heartbeat { watching }) => {
                self.memberships.note_watching(watching);
                let ack = self.memberships.ack(id);
                return self.put(Some(Message::Text(ack))).await;
            }
            Ok(ClientMessage::Join(wish)) => self.join(&wish, id).await,
            Ok(ClientMessage::Away) => {
                self.memberships.look(Gaze::Away);
                Ok(())
            }
            Ok(ClientMessage::Back) => {
                self.memberships.look_again();
                Ok(())
            }
            Ok(ClientMessage::Leave) => self.leave(id).await,
            Ok(ClientMessage::Watch(live)) => self.watch(&live, id).await,
            Ok(ClientMessage::Unwatch(live)) => self.unwatch(live.as_ref(), id).await,
            Ok(ClientMessage::Open {
                live,
                streamer,
                slices,
            }) => self.open(live, streamer, slices, id).await,
            Ok(ClientMessage::Close(live)) => self.close(&live, id).await,
            Ok(ClientMessage::Refresh(token)) => self.refresh(&token, id).await,
            Err(refusal) => Err(refusal.into()),
        };
        match served {
            Ok(()) => Ok(()),
            Err(RequestError::Ended(why)) => Err(why),
            Err(RequestError::Refused(refusal)) => {
                let code = refusal.code.as_str();
                Metrics::count(&self.context.core.metrics.client_errors, code);
                tracing::debug!(code, why = &*refusal.message, "request refused");
                self.send(
                    &ServerMessage::Error {
                        code,
                        message: &refusal.message,
                        ban: refusal.ban.as_deref().map(BanTold::of),
                    },
                    id,
                )
                .await
            }
        }
    }

    async fn join(&mut self, wish: &JoinRequest, id: Option<&RequestId>) -> RequestResult {
        joining::know_rules(&self.context).await?;
        joining::check(&self.context, &self.memberships, wish)?;
        for _ in 0..joining::TRIES {
            let room = self.context.lives.find(&wish.live).await?;
            match joining::take_seat(&self.context, &mut self.memberships, &room, wish)? {
                Seating::Ended => {}
                Seating::Seated => {
                    self.joined(&room, id).await?;
                    if let Some(text) = self.memberships.first_counts() {
                        self.put(Some(Message::Text(text))).await?;
                    }
                    return Ok(());
                }
            }
        }
        Err(LiveError::NotOpen(wish.live.clone()).into())
    }

    async fn joined(&mut self, room: &Arc<Room>, id: Option<&RequestId>) -> SessionResult {
        let figures = self.memberships.figures().unwrap_or_default();
        let info = self.memberships.info_to_tell(room);
        let message = ServerMessage::Joined {
            live_id: &room.record.live,
            streamer_id: &room.record.streamer,
            viewers: figures.viewers,
            fans: figures.fans,
            guests: figures.guests,
            you: self.memberships.you_now(),
            told: info.as_ref().map(InfoTold::of),
        };
        self.send(&message, id).await
    }

    async fn leave(&mut self, id: Option<&RequestId>) -> RequestResult {
        let Some(room) = self.memberships.leave("leave") else {
            return Err(
                Refusal::new(ErrorCode::NotJoined, "this socket has joined no live").into(),
            );
        };
        tracing::debug!(live_id = %room.record.live, "left");
        let message = ServerMessage::Left {
            live_id: &room.record.live,
        };
        Ok(self.send(&message, id).await?)
    }

    async fn watch(&mut self, live: &LiveId, id: Option<&RequestId>) -> RequestResult {
        const OWNERS: &str = "only the live's streamer, a host or a service may watch it";
        self.refuse_early(Action::Watch, OWNERS, live)?;
        // Any viewer may ask: nothing is read, and no room made, for one of whom this gateway does
        // not know already that the user hosts the live.
        if self.permission(Action::Watch).is_for_staff_only() {
            let room = self.context.core.rooms.get(live);
            if !room.is_some_and(|room| self.memberships.may_watch(&room)) {
                return Err(forbidden(OWNERS));
            }
        }
        let most = self.context.limits.watches;
        if self.memberships.watched_besides(live) >= most {
            return Err(self.limited("watches", format!("a socket may watch {most} lives")));
        }
        self.charge(Cost::Visit)?;
        for _ in 0..joining::TRIES {
            let room = self.context.lives.find(live).await?;
            if !self.memberships.may_watch(&room) {
                return Err(forbidden(OWNERS));
            }
            if self.memberships.listen(&room, Interest::Counts).is_ok() {
                // A host who was dismissed just now was signalled before the socket listened.
                if !self.memberships.unwatch_forbidden().is_empty() {
                    return Err(forbidden(OWNERS));
                }
                let Some(message) = self.memberships.counts_of(&room, id) else {
                    continue;
                };
                return Ok(self.put(Some(Message::Text(message))).await?);
            }
        }
        Err(LiveError::NotOpen(live.clone()).into())
    }

    async fn unwatch(&mut self, live: Option<&LiveId>, id: Option<&RequestId>) -> RequestResult {
        const WATCHERS: &str = "only streamers, hosts and services watch lives";
        self.refuse_role(Action::Watch, WATCHERS)?;
        let is_viewer = self.permission(Action::Watch).is_for_staff_only();
        if is_viewer && !self.memberships.watches_any() {
            return Err(forbidden(WATCHERS));
        }
        self.memberships.unwatch(live);
        Ok(self
            .send(&ServerMessage::Unwatched { live_id: live }, id)
            .await?)
    }

    /// Tells the client what its user may do from now on, if that changed.
    pub(super) async fn look_at_rights(&mut self) -> SessionResult {
        self.memberships.judge_streaming();
        if let Some(message) = self.memberships.new_you() {
            self.put(Some(Message::Text(message))).await?;
        }
        for live in self.memberships.unwatch_forbidden() {
            let live_id = Some(&live);
            self.send(&ServerMessage::Unwatched { live_id }, None)
                .await?;
        }
        Ok(())
    }

    async fn open(
        &mut self,
        live: LiveId,
        streamer: Option<UserId>,
        slices: Option<u32>,
        id: Option<&RequestId>,
    ) -> RequestResult {
        self.refuse_early(Action::Open, "viewers cannot open lives", &live)?;
        joining::know_rules(&self.context).await?;
        let user = &self.memberships.conn.identity.user;
        let for_all = self.permission(Action::Open) == Permission::Yes;
        let (streamer, by) = match streamer {
            Some(streamer) if for_all => (streamer, OpenedBy::Service),
            None if for_all => {
                return Err(Refusal::new(ErrorCode::BadMessage, "streamer_id is missing").into());
            }
            Some(streamer) if streamer != *user => {
                return Err(forbidden("a streamer can open only their own lives"));
            }
            _ => (user.clone(), OpenedBy::Streamer),
        };
        if by == OpenedBy::Streamer && slices.is_some() {
            return Err(forbidden("only a service chooses the number of slices"));
        }
        let invisible = by == OpenedBy::Streamer && !self.memberships.conn.identity.counted;
        let wish = OpenRequest {
            live,
            streamer,
            slices,
            by,
            terms: Terms {
                invisible,
                ..Terms::default()
            },
        };
        if let Some(slices) = wish.slices
            && !(1..=MAX_SLICES).contains(&slices)
        {
            return Err(Refusal::new(
                ErrorCode::BadMessage,
                format!("slices must be 1 to {MAX_SLICES}"),
            )
            .into());
        }
        let most = self.context.limits.opens;
        let by_socket = self.memberships.opened_besides(&wish.live);
        // A streamer's lives count whichever socket opened them, so that new sockets open no more.
        let by_streamer = match by {
            OpenedBy::Streamer => {
                let rooms = self.context.core.rooms.of_streamer(&wish.streamer);
                rooms
                    .iter()
                    .filter(|room| room.record.live != wish.live)
                    .count()
            }
            OpenedBy::Service | OpenedBy::Media => 0,
        };
        if by_socket.max(by_streamer) >= most {
            return Err(self.limited("opens", format!("a socket may have {most} lives open")));
        }
        // A streamer who comes back may open a live that is still open; that costs less.
        let is_open = match self.context.core.rooms.get(&wish.live) {
            Some(room) => room.record.streamer == wish.streamer,
            None => false,
        };
        self.charge(if is_open { Cost::Visit } else { Cost::Open })?;
        let record = self.context.lives.open(wish).await?.record;
        // Somebody may have closed the live again. Then there is no room to listen to, and the
        // answer is still true.
        if let Ok(room) = self.context.lives.find(&record.live).await
            && room.record.epoch == record.epoch
        {
            let _ = self.memberships.listen(&room, Interest::End);
        }
        let message = ServerMessage::Opened {
            live_id: &record.live,
            epoch: record.epoch,
            slices: record.slices,
        };
        Ok(self.send(&message, id).await?)
    }

    async fn close(&mut self, live: &LiveId, id: Option<&RequestId>) -> RequestResult {
        const OWNERS: &str = "only the live's streamer or a service may close it";
        self.refuse_early(Action::Close, OWNERS, live)?;
        self.charge(Cost::Change)?;
        let record = self.context.lives.record(live).await?;
        if !self.may(Action::Close, &record.streamer) {
            return Err(forbidden(OWNERS));
        }
        // Close this epoch only: the next one may belong to another streamer.
        let record = self
            .context
            .lives
            .close_epoch(&record, CloseReason::Requested)
            .await?;
        // The answer tells this socket of the close; it must not be told a second time.
        self.memberships.forget(live);
        Ok(self.send(&ServerMessage::closed(&record), id).await?)
    }

    fn charge(&self, cost: Cost) -> RequestResult {
        Ok(joining::charge(
            &self.context,
            &self.memberships.conn,
            cost,
        )?)
    }

    fn limited(&self, limit: &'static str, message: String) -> RequestError {
        joining::limited(&self.context, limit, message).into()
    }

    fn refuse_early(&self, action: Action, why: &'static str, live: &LiveId) -> RequestResult {
        Ok(joining::refuse_early(
            &self.memberships.conn,
            action,
            why,
            live,
        )?)
    }

    fn refuse_role(&self, action: Action, why: &'static str) -> RequestResult {
        Ok(joining::refuse_role(&self.memberships.conn, action, why)?)
    }

    /// Whether this socket may do something to a live of `streamer`.
    fn may(&self, action: Action, streamer: &UserId) -> bool {
        self.permission(action)
            .covers(&self.memberships.conn.identity.user, streamer)
    }

    fn permission(&self, action: Action) -> Permission {
        permission(Caller::Role(self.memberships.conn.role()), action)
    }
}
