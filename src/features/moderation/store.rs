//! The boundary for the rules of moderation: who is banned from the platform or by a streamer, who
//! moderates, and whose tokens were revoked. All rules lie in one place, and all gateways know all
//! of them.
//!
//! Each change has a number, which grows. A gateway reads the changes after the last one that it
//! knows. The rules have a name, too, which is made with the first of them: if it is another one, or
//! the last number is smaller than before, the store has lost rules. Then each gateway writes back
//! those that it knows ([`RuleStore::restore_rules`]).
//!
//! What is left of a lifted rule stays for [`LIFTED_KEPT`]. A gateway that was cut off for longer
//! reads all rules again; it knows by the floor.

use std::time::Duration;

use crate::base::actor::Actor;
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::presence::rules::{RuleName, RuleTerms};
use crate::store::calls::calls;
use crate::store::{Store, StoreResult};

/// How long a gateway may have been cut off and still learns what was lifted meanwhile from the
/// changes alone.
pub const LIFTED_KEPT: Duration = Duration::from_secs(24 * 3_600);

/// How long revoked tokens are refused. No token may be good for longer.
pub const REVOKED_KEPT: Duration = Duration::from_secs(400 * 24 * 3_600);

/// How many rules one call reads.
pub const RULES_PAGE: usize = 1_000;

/// How many rules one call restores.
pub const RESTORED_AT_ONCE: usize = 250;

/// The longest reason, in characters.
pub const LONGEST_REASON: usize = 200;

/// A request to make a rule, in the place of one of the same name.
#[derive(Debug, Clone)]
pub struct PutRule {
    /// What it is about.
    pub name: RuleName,
    /// How long it holds from now on; `None`: for ever.
    pub lasts: Option<Duration>,
    /// Who asks for it.
    pub by: Option<Actor>,
    /// A text for people, of one line, at most [`LONGEST_REASON`] characters; empty is none.
    pub reason: String,
    /// Whether a moderator asks, who may not replace what the streamer or a back end did.
    pub as_moderator: bool,
}

/// A request to end a rule.
#[derive(Debug, Clone)]
pub struct LiftRule {
    /// What it is about.
    pub name: RuleName,
    /// Whether a moderator asks, who may not lift what the streamer or a back end did.
    pub as_moderator: bool,
}

/// The outcome of a [`PutRule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutReply {
    /// The rule holds.
    Done {
        /// Whether there was none of this name.
        is_new: bool,
        /// What it says.
        terms: RuleTerms,
    },
    /// The streamer or a back end made the rule that is there. Nothing was done.
    Kept,
}

/// The outcome of a [`LiftRule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReply {
    /// There is no such rule; whether there was one.
    Done(bool),
    /// The streamer or a back end made the rule. Nothing was done.
    Kept,
}

/// How far a gateway knows the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RulesPlace {
    /// The name of the rules; empty if the store had none.
    pub name: String,
    /// The number of the last change.
    pub last: u64,
}

/// Some changes of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesPage {
    /// The store's time.
    pub at: UnixMillis,
    /// The name of the rules, and the number of the last change of all.
    pub place: RulesPlace,
    /// What is left of lifted rules is gone up to this number.
    pub floor: u64,
    /// The names of changed rules, in the order of the numbers; with what they say, `None` if they
    /// were lifted.
    pub changes: Vec<(String, Option<String>)>,
    /// The number of the last of these changes; the caller's if there are none.
    pub read_to: u64,
}

calls! {
    /// Rules of moderation.
    pub trait RuleStore {
        /// Makes a rule.
        async fn put_rule(&self, wish: &PutRule) -> StoreResult<PutReply>, writes;

        /// Ends a rule. It is noted even if there is none: a gateway may be about to restore it.
        async fn lift_rule(&self, wish: &LiftRule) -> StoreResult<EndReply>, writes;

        /// Up to `limit` changes after this number, at most [`RULES_PAGE`].
        async fn rules_since(&self, since: u64, limit: usize) -> StoreResult<RulesPage>, reads;

        /// Writes up to [`RESTORED_AT_ONCE`] rules that a gateway knows and the store has lost, each
        /// with what it says. Changes nothing where the store has a rule of the name, or the rest
        /// of one. The store must be found to lack what the caller knows, up to its place.
        async fn restore_rules(
            &self,
            known: &RulesPlace,
            rules: &[(String, String)],
        ) -> StoreResult<()>, writes;
    }
}

/// The calls of the core, and those about rules.
pub trait ModerationStore: Store + RuleStore {}

impl<T: Store + RuleStore + ?Sized> ModerationStore for T {}

/// The actor whose bans a moderator of the streamer must leave as they are, beside those of back
/// ends.
pub(crate) fn streamer_of(name: &RuleName) -> String {
    match name.streamer() {
        Some(streamer) => format!("streamer:{streamer}"),
        None => "-".to_owned(),
    }
}

/// Whether the rule names the user.
pub(crate) fn names_user(name: &str, user: &UserId) -> bool {
    name.split(' ').skip(1).any(|id| id == user.as_str())
}
