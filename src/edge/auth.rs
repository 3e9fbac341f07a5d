//! Authentication: decides from an upgrade request who the client is, before the upgrade is answered with 101. The
//! session decides what a role may do. This version reads no tokens: with [`AuthMode::Off`] it believes the query, on
//! loopback addresses only.

use axum::extract::Query;
use axum::http::request::Parts;
use serde::Deserialize;

use crate::base::identity::{Identity, Role};
use crate::base::ids::{InvalidId, UserId};
use crate::config::AuthMode;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthError {
    /// The query string is malformed, or names a field twice.
    #[error("the query cannot be read: {0}")]
    Query(String),
    #[error("count must be true or false")]
    Count,
    #[error("user_id is missing")]
    NoUser,
    #[error("user_id: {0}")]
    User(#[from] InvalidId),
    #[error("role must be viewer, streamer or service")]
    Role,
}

/// The part of the query that identifies the user; other fields are read elsewhere.
#[derive(Debug, Deserialize)]
struct Claims {
    user_id: Option<String>,
    role: Option<String>,
    count: Option<String>,
}

pub(crate) fn authenticate(mode: AuthMode, parts: &Parts) -> Result<Identity, AuthError> {
    let Query(claims) = Query::<Claims>::try_from_uri(&parts.uri).map_err(|e| AuthError::Query(e.body_text()))?;
    let (user, role) = match mode {
        AuthMode::Off => unverified(&claims)?,
    };
    Ok(Identity { user, role, counted: counted(claims.count.as_deref())? })
}

fn unverified(claims: &Claims) -> Result<(UserId, Role), AuthError> {
    let user = UserId::parse(claims.user_id.as_deref().ok_or(AuthError::NoUser)?)?;
    let role = match claims.role.as_deref() {
        None => Role::Viewer,
        Some(word) => Role::from_word(word).ok_or(AuthError::Role)?,
    };
    Ok((user, role))
}

fn counted(word: Option<&str>) -> Result<bool, AuthError> {
    match word {
        None | Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(_) => Err(AuthError::Count),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn ask(query: &str) -> Result<Identity, AuthError> {
        let (parts, ()) = Request::get(format!("/ws{query}")).body(()).unwrap().into_parts();
        authenticate(AuthMode::Off, &parts)
    }

    #[test]
    fn the_query_identifies_the_user() {
        let user = UserId::parse("mail@example.org:tab 1".replace(' ', "-").as_str()).unwrap();
        assert_eq!(
            ask("?user_id=mail%40example.org%3Atab-1&role=streamer&count=false&live_id=42"),
            Ok(Identity { user, role: Role::Streamer, counted: false })
        );
        let plain = ask("?user_id=u1").unwrap();
        assert_eq!((plain.role, plain.counted), (Role::Viewer, true));
    }

    #[test]
    fn a_wrong_query_is_refused() {
        assert_eq!(ask(""), Err(AuthError::NoUser));
        assert_eq!(ask("?user_id="), Err(AuthError::User(InvalidId::Length)));
        assert_eq!(ask("?user_id=%7Bu%7D"), Err(AuthError::User(InvalidId::Alphabet)));
        assert_eq!(ask("?user_id=u%0A1"), Err(AuthError::User(InvalidId::Alphabet)));
        assert_eq!(ask("?user_id=u1&role=admin"), Err(AuthError::Role));
        assert_eq!(ask("?user_id=u1&count=maybe"), Err(AuthError::Count));
        assert!(matches!(ask("?user_id=u1&user_id=u2"), Err(AuthError::Query(_))));
    }
}
