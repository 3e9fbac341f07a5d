//! Reads the credentials of an upgrade request, and decides who the client is before the gateway
//! answers the upgrade with 101. With [`AuthMode::Off`](crate::config::AuthMode::Off) the query
//! alone names the client; such a gateway listens on loopback addresses only.

use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{Uri, header};
use serde::Deserialize;

use crate::auth::claims::TokenClaims;
use crate::auth::presented::presented;
use crate::auth::tokens::{TokenError, Tokens};
use crate::base::address_prefix::AddressPrefix;
use crate::base::identity::{Identity, Role};
use crate::base::ids::{InvalidId, UserId};
use crate::edge::fields::{FieldError, from_query};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthError {
    /// The query has a field twice.
    #[error("{0}")]
    Query(FieldError),
    #[error("count must be true or false")]
    Count,
    #[error("invisible must be true or false")]
    Invisible,
    #[error(
        "count=false and invisible=true need a token with one of these claims, or the role service"
    )]
    MustCount,
    #[error("user_id is missing")]
    NoUser,
    #[error("user_id: {0}")]
    User(#[from] InvalidId),
    #[error("role must be viewer, streamer or service")]
    Role,
    #[error("role must be viewer: a guest has no other")]
    GuestRole,
    #[error("a token is missing: send Authorization: Bearer, or ?token=")]
    NoToken,
    #[error("{0}")]
    Token(#[from] TokenError),
}

/// The fields of the query that identify the user. Other modules read the other fields.
#[derive(Debug, Deserialize)]
struct IdentityFields {
    user_id: Option<String>,
    role: Option<String>,
    count: Option<String>,
    invisible: Option<String>,
    token: Option<String>,
}

impl IdentityFields {
    /// `count=false` and `invisible=true` mean the same.
    fn wants_to_count(&self) -> Result<bool, AuthError> {
        let count = flag(self.count.as_deref(), AuthError::Count)?.unwrap_or(true);
        let invisible = flag(self.invisible.as_deref(), AuthError::Invisible)?.unwrap_or(false);
        Ok(count && !invisible)
    }
}

/// The identity of the client, and the claims of its token. Without `tokens`, the client's own word
/// is enough.
pub(crate) async fn authenticate(
    tokens: Option<&Tokens>,
    parts: &Parts,
) -> Result<(Identity, Option<Arc<TokenClaims>>), AuthError> {
    let fields: IdentityFields = from_query(&parts.uri).map_err(AuthError::Query)?;
    let wants_to_count = fields.wants_to_count()?;
    let Some(tokens) = tokens else {
        return Ok((unverified(&fields, wants_to_count)?, None));
    };
    let in_query = match &fields.token {
        Some(token) => presented(token),
        None => None,
    };
    let token = bearer(parts).or(in_query).ok_or(AuthError::NoToken)?;
    let claims = tokens.verify(token).await?;
    if !wants_to_count && claims.counted && claims.role != Role::Service {
        return Err(AuthError::MustCount);
    }
    let identity = Identity {
        user: claims.user.clone(),
        role: claims.role,
        counted: wants_to_count && claims.counted,
        network: AddressPrefix::default(),
    };
    Ok((identity, Some(claims)))
}

/// The token in a query.
pub(crate) fn token_in_query(uri: &Uri) -> Option<String> {
    #[derive(Deserialize)]
    struct TokenField {
        token: Option<String>,
    }
    let TokenField { token } = from_query(uri).ok()?;
    Some(presented(&token?)?.to_owned())
}

/// The token or key of an `Authorization: Bearer` header.
pub(crate) fn bearer(parts: &Parts) -> Option<&str> {
    credentials(parts, "bearer")
}

/// What an `Authorization` header of this scheme has.
pub(crate) fn credentials<'a>(parts: &'a Parts, scheme: &str) -> Option<&'a str> {
    let (sent, credentials) = parts
        .headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    if sent.eq_ignore_ascii_case(scheme) {
        presented(credentials)
    } else {
        None
    }
}

fn unverified(fields: &IdentityFields, counted: bool) -> Result<Identity, AuthError> {
    let user = UserId::read(fields.user_id.as_deref().ok_or(AuthError::NoUser)?)?;
    let role = match fields.role.as_deref() {
        None => Role::Viewer,
        Some(word) => Role::from_word(word).ok_or(AuthError::Role)?,
    };
    if user.is_guest() && role != Role::Viewer {
        return Err(AuthError::GuestRole);
    }
    Ok(Identity {
        user,
        role,
        counted,
        network: AddressPrefix::default(),
    })
}

fn flag(word: Option<&str>, wrong: AuthError) -> Result<Option<bool>, AuthError> {
    match word {
        None => Ok(None),
        Some("true" | "1") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        Some(_) => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use futures_util::FutureExt;

    use super::*;

    fn ask(query: &str) -> Result<Identity, AuthError> {
        let (parts, ()) = Request::get(format!("/ws{query}"))
            .body(())
            .unwrap()
            .into_parts();
        authenticate(None, &parts)
            .now_or_never()
            .unwrap()
            .map(|(identity, _)| identity)
    }

    #[test]
    fn the_query_identifies_the_user() {
        let user = UserId::parse("mail@example.org:tab 1".replace(' ', "-").as_str()).unwrap();
        assert_eq!(
            ask("?user_id=mail%40example.org%3Atab-1&role=streamer&count=false&live_id=42"),
            Ok(Identity {
                user,
                role: Role::Streamer,
                counted: false,
                network: AddressPrefix::default(),
            })
        );
        let plain = ask("?user_id=u1").unwrap();
        assert_eq!((plain.role, plain.counted), (Role::Viewer, true));
        for (query, counted) in [
            ("invisible=true", false),
            ("invisible=1&count=true", false),
            ("count=0&invisible=false", false),
            ("count=true&invisible=false", true),
        ] {
            assert_eq!(
                ask(&format!("?user_id=u1&{query}")).unwrap().counted,
                counted,
                "{query}"
            );
        }
    }

    #[test]
    fn a_wrong_query_is_refused() {
        assert_eq!(ask(""), Err(AuthError::NoUser));
        assert_eq!(ask("?user_id="), Err(AuthError::User(InvalidId::Length)));
        assert_eq!(
            ask("?user_id=%7Bu%7D"),
            Err(AuthError::User(InvalidId::Alphabet))
        );
        assert_eq!(
            ask("?user_id=u%0A1"),
            Err(AuthError::User(InvalidId::Alphabet))
        );
        assert_eq!(ask("?user_id=u1&role=admin"), Err(AuthError::Role));
        assert_eq!(ask("?user_id=u1&count=maybe"), Err(AuthError::Count));
        assert_eq!(
            ask("?user_id=u1&invisible=maybe"),
            Err(AuthError::Invisible)
        );
        assert!(matches!(
            ask("?user_id=u1&user_id=u2"),
            Err(AuthError::Query(_))
        ));
    }
}
