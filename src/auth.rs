//! Owns the answer to "who is this?" at the edge: from the head of a request to an [`Identity`], or a refusal.
//!
//! Called by the WebSocket upgrade before it answers 101. Decides nothing about lives: what a role may do is the
//! session's business. With [`AuthMode::Off`] the query says who it is, which is for loopback and tests only.

use axum::extract::Query;
use axum::http::request::Parts;
use serde::Deserialize;

use crate::config::AuthMode;
use crate::ids::{InvalidId, UserId};

/// What a socket may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Joins lives and is counted.
    Viewer,
    /// Opens, closes and watches its own lives.
    Streamer,
    /// A back end: opens and closes for any streamer, watches any live.
    Service,
}

impl Role {
    /// The word that stands for it in a query or a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Streamer => "streamer",
            Self::Service => "service",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Viewer, Self::Streamer, Self::Service].into_iter().find(|role| role.as_str() == word)
    }
}

/// Who is at the other end of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: UserId,
    /// What they may do.
    pub role: Role,
    /// False with `?count=false`: takes part but is in no figure.
    pub counted: bool,
}

/// Why somebody was not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The query string cannot be read, or names a field twice.
    #[error("the query cannot be read: {0}")]
    Query(String),
    /// `count` is neither `true` nor `false`.
    #[error("count is true or false")]
    Count,
    /// There is no `user_id`.
    #[error("user_id is missing")]
    NoUser,
    /// The `user_id` is none.
    #[error("user_id: {0}")]
    User(#[from] InvalidId),
    /// A role that does not exist.
    #[error("role is viewer, streamer or service")]
    Role,
}

/// The part of the query that says who somebody is. Fields that are not of it are left to others.
#[derive(Debug, Deserialize)]
struct Claims {
    user_id: Option<String>,
    role: Option<String>,
    count: Option<String>,
}

/// Finds out who sends a request.
///
/// # Errors
/// See [`AuthError`].
pub fn authenticate(mode: AuthMode, parts: &Parts) -> Result<Identity, AuthError> {
    let Query(claims) = Query::<Claims>::try_from_uri(&parts.uri).map_err(|e| AuthError::Query(e.body_text()))?;
    let (user, role) = match mode {
        AuthMode::Off => believe(&claims)?,
    };
    Ok(Identity { user, role, counted: counted(claims.count.as_deref())? })
}

/// Takes the query's word for it.
fn believe(claims: &Claims) -> Result<(UserId, Role), AuthError> {
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
    fn the_query_says_who_it_is() {
        let user = UserId::parse("mail@example.org:tab 1".replace(' ', "-").as_str()).unwrap();
        assert_eq!(
            ask("?user_id=mail%40example.org%3Atab-1&role=streamer&count=false&live_id=42"),
            Ok(Identity { user, role: Role::Streamer, counted: false })
        );
        let plain = ask("?user_id=u1").unwrap();
        assert_eq!((plain.role, plain.counted), (Role::Viewer, true));
    }

    #[test]
    fn who_does_not_say_it_well_is_refused() {
        assert_eq!(ask(""), Err(AuthError::NoUser));
        assert_eq!(ask("?user_id="), Err(AuthError::User(InvalidId::Length)));
        assert_eq!(ask("?user_id=%7Bu%7D"), Err(AuthError::User(InvalidId::Alphabet)));
        assert_eq!(ask("?user_id=u%0A1"), Err(AuthError::User(InvalidId::Alphabet)));
        assert_eq!(ask("?user_id=u1&role=admin"), Err(AuthError::Role));
        assert_eq!(ask("?user_id=u1&count=maybe"), Err(AuthError::Count));
        assert!(matches!(ask("?user_id=u1&user_id=u2"), Err(AuthError::Query(_))));
    }
}
