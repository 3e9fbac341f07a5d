//! The keys of the rules of moderation, all in one slot. An erasure finds the rules of a user in the
//! first of them, which has all names that the others have.

use async_trait::async_trait;
use fred::types::Value;

use super::scripts;
use super::store::names_user;
use crate::presence::rules::RuleTerms;
use crate::store::redis::args;
use crate::store::redis::erasing::{ErasesKeys, Erasing, FamilyEraser};
use crate::store::redis::family::{
    Family,
    KeyType::{Hash, Zset},
    Names, families,
};
use crate::store::redis::keys::Keys;
use crate::store::redis::reply::Reply;
use crate::store::{MAX_BATCH, PersonalData, StoreResult};

families! {
    /// Rule → `<end, Unix ms, or 0> <made at, Unix ms> <by whom, or -> <reason>`, or `-` for a day after it
    /// was lifted. The rule is `b <user_id>` for a ban of the platform, `s <streamer_id> <user_id>` for one
    /// of a streamer, `m <streamer_id> <user_id>` for a moderator, `r <user_id>` for revoked tokens. Never
    /// expires; rules that are over are dropped with later changes.
    RULES, fn rules() = Family::new(Hash, "rollcall:rules").names(Names::Large);

    /// The rules of [`RULES`], scored by the number of their last change. Never expires.
    RULE_CHANGES, fn rule_changes() =
        Family::new(Zset, "{rollcall:rules}:changes").names(Names::Otherwise);

    /// The rules with an end, scored by it, and those that were lifted, by when they are forgotten. Never
    /// expires.
    RULE_ENDS, fn rule_ends() = Family::new(Zset, "{rollcall:rules}:ends").names(Names::Otherwise);

    /// `name`, a random text that is made with the first rule; `last`, the number of the last change;
    /// `floor`, up to which lifted rules are forgotten. Never expires.
    RULES_STATE, fn rules_state() = Family::new(Hash, "{rollcall:rules}:state");
}

pub(crate) static ERASERS: &[FamilyEraser] = &[
    (&RULES, &OfRules),
    (&RULE_CHANGES, &WithRules),
    (&RULE_ENDS, &WithRules),
];

impl Keys {
    /// The keys of a change.
    pub(crate) fn keys_of_rules(&self) -> Vec<String> {
        vec![
            self.rules(),
            self.rule_changes(),
            self.rule_ends(),
            self.rules_state(),
        ]
    }
}

/// The eraser of the rules takes the names out of these keys, too.
struct WithRules;

impl ErasesKeys for WithRules {}

struct OfRules;

#[async_trait]
impl ErasesKeys for OfRules {
    async fn page(&self, cursor: u64, of: &mut Erasing<'_>) -> StoreResult<u64> {
        let keys = of.calls.keys();
        let args = args![keys.rules(), cursor, "COUNT", MAX_BATCH];
        let mut reply = Reply::of(of.send("HSCAN", args).await?)?;
        let next = reply.number()?;
        let mut named: Vec<Value> = Vec::new();
        let mut made: Vec<Value> = Vec::new();
        for (rule, says) in reply.list()?.pairs()? {
            if names_user(&rule, of.user) {
                named.push(Value::from(rule));
            } else if is_by(&says, of.user.as_str()) {
                made.push(Value::from(rule));
            }
        }
        for (how, rules) in [("erase", named), ("unname", made)] {
            if rules.is_empty() {
                continue;
            }
            let count = rules.len() as u64;
            let mut args = args![how, super::redis::new_name(), 0, "", 0];
            args.extend(rules);
            let keys = of.calls.keys().keys_of_rules();
            let steps = of.calls.router.script(&scripts::CHANGE_RULES, keys, args);
            of.calls.router.call("erase_some", steps).await?;
            of.step.add(PersonalData::Bans, count);
        }
        Ok(next)
    }
}

/// Whether the bearer of a token of this user made the rule.
fn is_by(says: &str, user: &str) -> bool {
    match RuleTerms::parse(says) {
        Some(RuleTerms { by: Some(by), .. }) => {
            let by = by.to_string();
            by.split_once(':').is_some_and(|(_, name)| name == user)
        }
        _ => false,
    }
}
