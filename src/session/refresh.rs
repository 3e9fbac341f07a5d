//! Refreshes the token of a socket: the client presents a new token before the old one expires. The
//! socket goes on as the same user, and never with more rights than before. From then on the
//! gateway refuses what the new token no longer allows. The socket stays in the live that it
//! joined; it stops watching the lives that it may no longer watch. A guest may also present the
//! token of a user, and goes on as that user.

use super::Session;
use super::joining;
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
        let claims = match tokens.verify(token.reveal()).await {
            Ok(claims) => claims,
            Err(why) => {
                return Err(Refusal::new(ErrorCode::Forbidden, why.to_string()).into());
            }
        };
        joining::know_rules(&self.context).await?;
        if self.context.is_revoked(&claims) {
            let why = TokenError::Revoked.to_string();
            return Err(Refusal::new(ErrorCode::Forbidden, why).into());
        }
        let conn = &self.memberships.conn;
        let signs_in = conn.identity.user.is_guest() && !claims.user.is_guest();
        if claims.user != conn.identity.user && !signs_in {
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
        if signs_in {
            joining::refuse_erased(&self.context, &claims.user)?;
            self.memberships.sign_in(&claims)?;
        } else {
            self.memberships.refresh(&claims);
        }
        Ok(self
            .send(&ServerMessage::Refreshed { expires_at }, id)
            .await?)
    }
}
