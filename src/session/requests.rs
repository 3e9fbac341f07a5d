//! Owns the requests of a client that are no heartbeats: what each does, who may ask for it, and how it is refused.

use super::line::Transport;
use super::{Ends, Session};
use crate::auth::Role;
use crate::close::Close;
use crate::ids::{LiveId, MAX_SLICES, UserId};
use crate::metrics::Metrics;
use crate::presence::room::Interest;
use crate::presence::{NoSeat, Room};
use crate::protocol::{ErrorCode, Refusal, Request, RequestId, Say};
use crate::store::{CloseReason, OpenedBy};
use crate::sync::lives::{LiveError, OpenWish};

/// How often a join looks for a room that has just ended before it gives up.
const JOIN_TRIES: usize = 3;

/// Why a request was not answered as asked.
pub(super) enum Trouble {
    /// It is answered with an error; the socket goes on.
    Refused(Refusal),
    /// The socket ends.
    Over(Close),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Close> for Trouble {
    fn from(why: Close) -> Self {
        Self::Over(why)
    }
}

impl From<LiveError> for Trouble {
    fn from(why: LiveError) -> Self {
        let code = match why {
            LiveError::NotOpen(_) | LiveError::NeverOpened(_) => ErrorCode::LiveNotOpen,
            LiveError::Owned(_) => ErrorCode::LiveOwned,
            LiveError::Store(_) => ErrorCode::StoreUnavailable,
        };
        let message = match why {
            // What exactly is wrong with the store is the operator's to know.
            LiveError::Store(_) => "the store does not answer; try again".to_owned(),
            other => other.to_string(),
        };
        Self::Refused(Refusal::new(code, message))
    }
}

type Served = Result<(), Trouble>;

fn forbidden(why: &'static str) -> Trouble {
    Refusal::new(ErrorCode::Forbidden, why).into()
}

impl<S: Transport> Session<S> {
    /// Does what a client asks for and answers it.
    pub(super) async fn serve(&mut self, id: Option<&RequestId>, request: Result<Request, Refusal>) -> Ends {
        // First what was true before: who leaves a live that has just ended is told so.
        self.tell_closed().await?;
        let served = match request {
            Ok(Request::Heartbeat) => return self.send(self.ack(id)).await,
            Ok(Request::Join(live)) => self.join(&live, id).await,
            Ok(Request::Leave) => self.leave(id).await,
            Ok(Request::Watch(live)) => self.watch(&live, id).await,
            Ok(Request::Unwatch(live)) => self.unwatch(live.as_ref(), id).await,
            Ok(Request::Open { live, streamer, slices }) => self.open(live, streamer, slices, id).await,
            Ok(Request::Close(live)) => self.close(&live, id).await,
            Err(refusal) => Err(refusal.into()),
        };
        match served {
            Ok(()) => Ok(()),
            Err(Trouble::Over(why)) => Err(why),
            Err(Trouble::Refused(refusal)) => {
                let code = refusal.code.as_str();
                Metrics::count(&self.core.metrics.client_errors, code);
                self.say(&Say::Error { code, message: &refusal.message }, id).await
            }
        }
    }

    async fn join(&mut self, live: &LiveId, id: Option<&RequestId>) -> Served {
        for _ in 0..JOIN_TRIES {
            let room = self.core.lives.find(live).await?;
            match self.places.sit(&room) {
                Ok(()) => return Ok(self.joined(&room, id).await?),
                Err(NoSeat::Banned(left)) => {
                    let left = left.as_millis().div_ceil(1_000);
                    let message = format!("removed from live {live}; not to join it for {left} s");
                    return Err(Refusal::new(ErrorCode::Banned, message).into());
                }
                Err(NoSeat::Ended) => {}
            }
        }
        Err(LiveError::NotOpen(live.clone()).into())
    }

    async fn joined(&mut self, room: &Room, id: Option<&RequestId>) -> Ends {
        let figures = room.figures();
        let say = Say::Joined {
            live_id: &room.record.live,
            streamer_id: &room.record.streamer,
            viewers: figures.viewers,
            fans: figures.fans,
        };
        self.say(&say, id).await
    }

    async fn leave(&mut self, id: Option<&RequestId>) -> Served {
        let Some(room) = self.places.stand("leave") else {
            return Err(Refusal::new(ErrorCode::NotJoined, "this socket sits in no live").into());
        };
        Ok(self.say(&Say::Left { live_id: &room.record.live }, id).await?)
    }

    async fn watch(&mut self, live: &LiveId, id: Option<&RequestId>) -> Served {
        const WHO: &str = "only the live's streamer or a service may watch it";
        self.refuse_viewers(WHO)?;
        for _ in 0..JOIN_TRIES {
            let room = self.core.lives.find(live).await?;
            if !self.may_rule(&room.record.streamer) {
                return Err(forbidden(WHO));
            }
            if self.places.listen(&room, Interest::Counts).is_ok() {
                let Some(message) = self.places.counts_of(&room, id) else { continue };
                return Ok(self.send(message).await?);
            }
        }
        Err(LiveError::NotOpen(live.clone()).into())
    }

    async fn unwatch(&mut self, live: Option<&LiveId>, id: Option<&RequestId>) -> Served {
        self.refuse_viewers("only streamers and services watch lives")?;
        self.places.unwatch(live);
        Ok(self.say(&Say::Unwatched { live_id: live }, id).await?)
    }

    async fn open(
        &mut self,
        live: LiveId,
        streamer: Option<UserId>,
        slices: Option<u32>,
        id: Option<&RequestId>,
    ) -> Served {
        let identity = &self.conn.identity;
        let wish = match (identity.role, streamer) {
            (Role::Viewer, _) => return Err(forbidden("viewers open no lives")),
            (Role::Streamer, Some(streamer)) if streamer != identity.user => {
                return Err(forbidden("a streamer opens only lives of their own"));
            }
            (Role::Streamer, _) => OpenWish { live, streamer: identity.user.clone(), slices, by: OpenedBy::Streamer },
            (Role::Service, Some(streamer)) => OpenWish { live, streamer, slices, by: OpenedBy::Service },
            (Role::Service, None) => {
                return Err(Refusal::new(ErrorCode::BadMessage, "streamer_id is missing").into());
            }
        };
        if wish.slices.is_some_and(|slices| !(1..=MAX_SLICES).contains(&slices)) {
            return Err(Refusal::new(ErrorCode::BadMessage, format!("slices is 1 to {MAX_SLICES}")).into());
        }
        let record = self.core.lives.open(wish).await?.record;
        // The live may be closed again by now; then there is no room to listen to, and the answer is still true.
        if let Ok(room) = self.core.lives.find(&record.live).await
            && room.record.epoch == record.epoch
        {
            let _ = self.places.listen(&room, Interest::End);
        }
        let say = Say::Opened { live_id: &record.live, epoch: record.epoch, slices: record.slices };
        Ok(self.say(&say, id).await?)
    }

    async fn close(&mut self, live: &LiveId, id: Option<&RequestId>) -> Served {
        const WHO: &str = "only the live's streamer or a service may close it";
        self.refuse_viewers(WHO)?;
        let view = self.core.lives.view(live).await?;
        if !self.may_rule(&view.record.streamer) {
            return Err(forbidden(WHO));
        }
        // This epoch and no other: whose the next one is has not been asked.
        let record = self.core.lives.close_epoch(&view.record, CloseReason::Requested).await?;
        // The answer tells this socket; it is not told a second time.
        self.places.forget(live);
        Ok(self.say(&Say::closed(&record), id).await?)
    }

    /// Refuses a viewer by the role alone, before anything is read or made for the request: anybody may send it, as often
    /// as they like.
    fn refuse_viewers(&self, why: &'static str) -> Served {
        match self.conn.identity.role {
            Role::Viewer => Err(forbidden(why)),
            Role::Streamer | Role::Service => Ok(()),
        }
    }

    fn may_rule(&self, streamer: &UserId) -> bool {
        match self.conn.identity.role {
            Role::Viewer => false,
            Role::Streamer => self.conn.identity.user == *streamer,
            Role::Service => true,
        }
    }
}
