//! Who sees the users whose profiles say that they are hidden. They are counted as others are, and are
//! in no list that another user asks for.

use std::collections::HashSet;

use super::authorization::CalledBy;
use super::state::AppState;
use crate::base::actor::Actor;
use crate::base::identity::Role;
use crate::base::ids::UserId;
use crate::store::StoreResult;
use crate::sync::features::Features;

/// At least so many users are looked at in one question who of them is hidden, so that a row of
/// hidden users does not cost a question for each.
pub(crate) const LEAST_LOOKED_AT: usize = 100;

/// Whether the caller sees hidden users: back ends do, and so does everybody with `--auth off`.
fn sees_hidden(by: Option<&Actor>) -> bool {
    match by {
        Some(Actor::Bearer(role, _)) => *role == Role::Service,
        Some(Actor::Key(_)) | None => true,
    }
}

/// What a caller sees of other users.
pub(crate) struct Sight<'a> {
    features: &'a Features,
    by: Option<Actor>,
}

impl<'a> Sight<'a> {
    pub(crate) fn of(state: &'a AppState, CalledBy(by): CalledBy) -> Self {
        Self {
            features: &state.features,
            by,
        }
    }

    /// Those of these users who are not there for the caller.
    pub(crate) async fn unseen(&self, users: &[UserId]) -> StoreResult<HashSet<UserId>> {
        if sees_hidden(self.by.as_ref()) {
            return Ok(HashSet::new());
        }
        let mut unseen = self.features.hidden_among(users).await?;
        if let Some(Actor::Bearer(_, oneself)) = &self.by {
            unseen.remove(oneself);
        }
        Ok(unseen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_back_ends_see_hidden_users() {
        let bearer = |role| Actor::Bearer(role, UserId::parse("u1").unwrap());
        for (by, sees) in [
            (None, true),
            (Some(Actor::Key("shop".into())), true),
            (Some(bearer(Role::Service)), true),
            (Some(bearer(Role::Streamer)), false),
            (Some(bearer(Role::Viewer)), false),
        ] {
            assert_eq!(sees_hidden(by.as_ref()), sees, "{by:?}");
        }
    }
}
