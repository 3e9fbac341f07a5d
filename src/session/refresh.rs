//! A client that presents a new token before the old one expires. The socket goes on as the same
//! user, and never with more rights than before. What the new token no longer allows is refused
//! from then on. The socket stays in the live that it joined; it stops watching if its role may not
//! watch.

use super::Session;
use super::requests::{RequestResult, forbidden};
use super::socket::Transport;
use crate::auth::tokens::TokenError;
use crate::base::identity::Role;
use crate::base::secret::Secret;
use crate::session::messages::{ErrorCode, Refusal, RequestId, ServerMessage};

impl<S: Transport> Session<S> {
    pub(super) async fn refresh(
        &mut self,
        token: &Secret,
        id: Option<&RequestId>,
    ) -> RequestResult {
        let Some(tokens) = self.context.tokens.clone() else {
            return Err(forbidden("this gateway checks no tokens"));
        };
        let refused = |why: TokenError| Refusal::new(ErrorCode::Forbidden, why.to_string());
        let claims = tokens.verify(token.reveal()).await.map_err(refused)?;
        let conn = &self.memberships.conn;
        if claims.user != conn.identity.user {
            return Err(forbidden("the token is another user's"));
        }
        if claims.role > conn.role() {
            return Err(forbidden("the token has a higher role than the one before"));
        }
        if !conn.identity.counted && claims.counted && claims.role != Role::Service {
            return Err(forbidden(
                "this socket is in no figure, and the token does not allow that",
            ));
        }
        if conn.identity.counted && !claims.counted {
            return Err(forbidden(
                "this socket is in the figures, and the token forbids that: open another socket",
            ));
        }
        let expires_at = claims.expires_at;
        self.memberships.refresh(claims);
        Ok(self
            .send(&ServerMessage::Refreshed { expires_at }, id)
            .await?)
    }
}
