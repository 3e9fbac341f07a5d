//! What an erasure asks of the owners of keys. Most keys it erases by what their [`Family`] says;
//! for the others their owner, the core or a feature, has a [`FamilyEraser`]. An erasure goes over all
//! keys, and touches each by itself, because keys of a cluster lie in different slots.

use async_trait::async_trait;
use fred::types::Value;

use super::family::Family;
use super::node::Command;
use super::reply::number;
use super::router::ScriptCall;
use super::scripts::Script;
use super::{RedisCalls, args};
use crate::base::ids::UserId;
use crate::store::{ErasedSome, PersonalData, StoreResult};

/// A step of the erasure of a user.
pub(crate) struct Erasing<'a> {
    pub(crate) calls: &'a RedisCalls,
    pub(crate) user: &'a UserId,
    /// What was found so far.
    pub(crate) step: ErasedSome,
}

impl Erasing<'_> {
    /// Sends one command. The first argument is its key.
    pub(crate) async fn send(&self, command: &'static str, args: Vec<Value>) -> StoreResult<Value> {
        let steps = self.calls.router.command(command, args);
        self.calls.router.call("erase_some", steps).await
    }

    /// Deletes a key. Answers how many there were.
    pub(crate) async fn delete(&self, key: &str) -> StoreResult<u64> {
        number(&self.send("UNLINK", args![key]).await?)
    }

    /// Whether an answer is the id of the user.
    pub(crate) fn is_user(&self, answer: &Value) -> bool {
        answer.as_bytes() == Some(self.user.as_str().as_bytes())
    }
}

/// A key that may name the user.
pub(crate) struct Suspect {
    pub(crate) key: String,
    pub(crate) family: &'static Family,
    /// The ids in its name.
    pub(crate) ids: Vec<String>,
}

/// How an erasure deals with a key.
pub(crate) enum Look {
    /// These commands erase at once. The first tells how many things of the kind there were.
    Erase(Option<PersonalData>, Vec<Command>),
    /// This script erases, and tells how many there were.
    Run(PersonalData, &'static Script, ScriptCall),
    /// This command reads, and then [`ErasesKeys::act`] decides.
    Read(Command),
}

impl Look {
    /// The commands, to be sent in this order.
    pub(crate) fn commands(&self) -> Vec<Command> {
        match self {
            Self::Erase(_, commands) => commands.clone(),
            Self::Run(..) => Vec::new(),
            Self::Read(command) => vec![command.clone()],
        }
    }
}

/// Erases users from the keys of a family.
#[async_trait]
pub(crate) trait ErasesKeys: Sync {
    /// `None` if the key cannot name the user, and for a large key.
    fn look(&self, _: &Suspect, _: &Erasing<'_>) -> Option<Look> {
        None
    }

    /// Erases what [`Look::Read`] found, if the answer names the user. Every step may be repeated.
    async fn act(&self, _: &Suspect, _: Value, _: &mut Erasing<'_>) -> StoreResult<()> {
        Ok(())
    }

    /// Erases the user from the page of a large key at this cursor. Answers the next cursor, which
    /// is 0 at the end.
    async fn page(&self, _: u64, _: &mut Erasing<'_>) -> StoreResult<u64> {
        Ok(0)
    }
}

/// A family, and who erases users from its keys.
pub(crate) type FamilyEraser = (&'static Family, &'static dyn ErasesKeys);

/// All that owners of keys have for erasures. The list is put together above the core, because
/// features own keys.
pub(crate) trait AllErasers {
    /// Those of the families that name users [`super::family::Names::Otherwise`], or in a large key.
    fn erasers(&self) -> Vec<FamilyEraser>;
}
