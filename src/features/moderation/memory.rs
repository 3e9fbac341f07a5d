//! The rules in the embedded store. It is the model of the scripts.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;

use super::store::{
    EndReply, LIFTED_KEPT, LiftRule, PutReply, PutRule, RuleStore, RulesPage, RulesPlace,
    names_user,
};
use crate::base::actor::Actor;
use crate::base::clock::{UnixMillis, millis};
use crate::presence::rules::{RuleName, RuleTerms};
use crate::store::memory::MemoryStore;
use crate::store::memory::states::{State, StateErasure};
use crate::store::{PersonalData, StoreResult};

/// A rule, or what is left of a lifted one.
#[derive(Debug, Clone)]
struct KeptRule {
    number: u64,
    /// `None` if it was lifted.
    says: Option<String>,
    /// When it is forgotten.
    ends: Option<UnixMillis>,
}

impl KeptRule {
    /// What it says, unless it is over.
    fn running(&self, now: UnixMillis) -> Option<RuleTerms> {
        let terms = RuleTerms::parse(self.says.as_deref()?)?;
        (!terms.is_over(now)).then_some(terms)
    }
}

/// The rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleBook {
    place: RulesPlace,
    floor: u64,
    rules: HashMap<String, KeptRule>,
    by_number: BTreeMap<u64, String>,
}

impl State for RuleBook {
    fn erase(&mut self, erasure: &mut StateErasure<'_>) {
        let user = erasure.user;
        let names: Vec<String> = self.rules.keys().cloned().collect();
        for name in names {
            if names_user(&name, user) {
                self.drop_rule(&name);
                self.place.last += 1;
                self.floor = self.place.last;
                erasure.step.add(PersonalData::Bans, 1);
                continue;
            }
            let terms = self.rules.get(&name).and_then(|rule| rule.running(0));
            let Some(terms) = terms else {
                continue;
            };
            if matches!(&terms.by, Some(Actor::Bearer(_, by)) if by == user) {
                let unnamed = RuleTerms { by: None, ..terms };
                self.note(&name, Some(unnamed.to_string()), 0);
                erasure.step.add(PersonalData::Bans, 1);
            }
        }
    }
}

impl RuleBook {
    /// Names the rules with the first change, and forgets what is over.
    fn begin(&mut self, now: UnixMillis) {
        if self.place.name.is_empty() {
            self.place = RulesPlace {
                name: format!("{:016x}", rand::random::<u64>()),
                last: now.saturating_mul(1_000),
            };
        }
        let over = self
            .rules
            .iter()
            .filter(|(_, rule)| rule.ends.is_some_and(|ends| ends <= now))
            .map(|(name, _)| name.clone());
        let over: Vec<String> = over.collect();
        for name in over {
            if let Some(rule) = self.drop_rule(&name)
                && rule.says.is_none()
            {
                self.floor = self.floor.max(rule.number);
            }
        }
    }

    fn drop_rule(&mut self, name: &str) -> Option<KeptRule> {
        let rule = self.rules.remove(name)?;
        self.by_number.remove(&rule.number);
        Some(rule)
    }

    fn note(&mut self, name: &str, says: Option<String>, now: UnixMillis) {
        self.drop_rule(name);
        self.place.last += 1;
        let number = self.place.last;
        let ends = match &says {
            Some(says) => RuleTerms::parse(says).and_then(|terms| terms.until),
            None => Some(now.saturating_add(millis(LIFTED_KEPT))),
        };
        self.by_number.insert(number, name.to_owned());
        let rule = KeptRule { number, says, ends };
        self.rules.insert(name.to_owned(), rule);
    }

    /// The rule of this name that runs. `Err` if a moderator must leave it as it is.
    fn there(
        &self,
        name: &RuleName,
        as_moderator: bool,
        now: UnixMillis,
    ) -> Result<Option<RuleTerms>, ()> {
        let rule = self.rules.get(&name.to_string());
        let there = rule.and_then(|rule| rule.running(now));
        match &there {
            Some(terms) if as_moderator && !name.is_by_moderator(terms.by.as_ref()) => Err(()),
            _ => Ok(there),
        }
    }
}

#[async_trait]
impl RuleStore for MemoryStore {
    async fn put_rule(&self, wish: &PutRule) -> StoreResult<PutReply> {
        let now = self.now();
        let mut book = self.states.lock::<RuleBook>();
        book.begin(now);
        let Ok(there) = book.there(&wish.name, wish.as_moderator, now) else {
            return Ok(PutReply::Kept);
        };
        let terms = RuleTerms {
            until: wish.lasts.map(|lasts| now.saturating_add(millis(lasts))),
            at: now,
            by: wish.by.clone(),
            reason: (!wish.reason.is_empty()).then(|| wish.reason.clone()),
        };
        book.note(&wish.name.to_string(), Some(terms.to_string()), now);
        Ok(PutReply::Done {
            is_new: there.is_none(),
            terms,
        })
    }

    async fn lift_rule(&self, wish: &LiftRule) -> StoreResult<EndReply> {
        let now = self.now();
        let mut book = self.states.lock::<RuleBook>();
        book.begin(now);
        let Ok(there) = book.there(&wish.name, wish.as_moderator, now) else {
            return Ok(EndReply::Kept);
        };
        book.note(&wish.name.to_string(), None, now);
        Ok(EndReply::Done(there.is_some()))
    }

    async fn rules_since(&self, since: u64, limit: usize) -> StoreResult<RulesPage> {
        let book = self.states.lock::<RuleBook>();
        let mut page = RulesPage {
            at: self.now(),
            place: book.place.clone(),
            floor: book.floor,
            changes: Vec::new(),
            read_to: since,
        };
        let later = book.by_number.range(since.saturating_add(1)..);
        for (number, name) in later.take(limit) {
            let says = book.rules.get(name).and_then(|rule| rule.says.clone());
            page.changes.push((name.clone(), says));
            page.read_to = *number;
        }
        Ok(page)
    }

    async fn restore_rules(
        &self,
        known: &RulesPlace,
        rules: &[(String, String)],
    ) -> StoreResult<()> {
        let now = self.now();
        let mut book = self.states.lock::<RuleBook>();
        book.begin(now);
        if book.place.name == known.name && book.place.last < known.last {
            book.place = RulesPlace {
                name: format!("{:016x}", rand::random::<u64>()),
                last: known.last + 1,
            };
        }
        for (name, says) in rules {
            if !book.rules.contains_key(name) {
                book.note(name, Some(says.clone()), now);
            }
        }
        Ok(())
    }
}
