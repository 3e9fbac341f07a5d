//! Who asked for a change over the HTTP API: the holder of a key, or the bearer of a token. Events name
//! the actor.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::identity::Role;
use super::ids::UserId;

/// The holder of an API key, by its name, or the bearer of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The name of the key. It has no spaces.
    Key(Arc<str>),
    /// The role and the `sub` of the token.
    Bearer(Role, UserId),
}

/// The word before the name of a key; no role is called so.
const KEY: &str = "key";

impl Actor {
    /// Reads an actor back from its text. `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, name) = text.split_once(':')?;
        if word == KEY {
            return Some(Self::Key(name.into()));
        }
        let role = Role::from_word(word)?;
        Some(Self::Bearer(role, UserId::parse(name).ok()?))
    }

    /// What the actor may do at least: a key may do some of what a service may.
    fn role(&self) -> Role {
        match self {
            Self::Key(_) => Role::Service,
            Self::Bearer(role, _) => *role,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(name) => write!(f, "{KEY}:{name}"),
            Self::Bearer(role, user) => write!(f, "{}:{user}", role.as_str()),
        }
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut actor = to.serialize_struct("Actor", 3)?;
        actor.serialize_field("role", self.role().as_str())?;
        match self {
            Self::Key(name) => {
                actor.serialize_field("key", &**name)?;
                actor.serialize_field("user_id", &None::<UserId>)?;
            }
            Self::Bearer(_, user) => {
                actor.serialize_field("key", &None::<&str>)?;
                actor.serialize_field("user_id", user)?;
            }
        }
        actor.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_actor_is_read_back_from_its_text() {
        let user = UserId::parse("a:b@c").unwrap();
        for actor in [
            Actor::Key("back=end:1".into()),
            Actor::Bearer(Role::Streamer, user.clone()),
            Actor::Bearer(Role::Service, user),
        ] {
            assert_eq!(Actor::parse(&actor.to_string()), Some(actor));
        }
        for text in ["", "key", "admin:u1", "viewer:", "viewer:{u}"] {
            assert_eq!(Actor::parse(text), None, "{text}");
        }
    }

    #[test]
    fn events_name_the_role_and_the_key_or_the_user() {
        let key = json!(Actor::Key("backend".into()));
        let right = json!({"role": "service", "key": "backend", "user_id": null});
        assert_eq!(key, right);
        let bearer = json!(Actor::Bearer(Role::Streamer, UserId::parse("s1").unwrap()));
        let right = json!({"role": "streamer", "key": null, "user_id": "s1"});
        assert_eq!(bearer, right);
    }
}
