//! The calls on rules. Each change is one step of the script `change_rules.lua`.

use std::fmt::Write;

use async_trait::async_trait;
use fred::types::Value;

use super::scripts;
use super::store::{
    EndReply, LIFTED_KEPT, LiftRule, PutReply, PutRule, RuleStore, RulesPage, RulesPlace,
    streamer_of,
};
use crate::base::actor::Actor;
use crate::base::clock::millis;
use crate::presence::rules::{RuleName, RuleTerms};
use crate::store::StoreResult;
use crate::store::redis::reply::{Reply, nonsense, text};
use crate::store::redis::{RedisCalls, args};

/// A name for rules, of which the store has none yet.
pub(crate) fn new_name() -> String {
    let mut name = String::new();
    // A text takes everything.
    let _ = write!(name, "{:016x}", rand::random::<u64>());
    name
}

fn actor(by: Option<&Actor>) -> String {
    match by {
        Some(by) => by.to_string(),
        None => "-".to_owned(),
    }
}

fn guard(name: &RuleName, as_moderator: bool) -> String {
    if as_moderator {
        streamer_of(name)
    } else {
        String::new()
    }
}

impl RedisCalls {
    async fn change_rules(&self, args: Vec<Value>) -> StoreResult<Reply> {
        let keys = self.keys().keys_of_rules();
        self.router.script(&scripts::CHANGE_RULES, keys, args).await
    }
}

#[async_trait]
impl RuleStore for RedisCalls {
    async fn put_rule(&self, wish: &PutRule) -> StoreResult<PutReply> {
        let args = args![
            "put",
            new_name(),
            millis(LIFTED_KEPT),
            guard(&wish.name, wish.as_moderator),
            0,
            wish.name,
            wish.lasts.map_or(0, millis),
            actor(wish.by.as_ref()),
            wish.reason
        ];
        let mut reply = self.change_rules(args).await?;
        if reply.text()? == "kept" {
            return Ok(PutReply::Kept);
        }
        let was_there = reply.flag()?;
        let at = reply.number()?;
        let until = reply.number()?;
        Ok(PutReply::Done {
            is_new: !was_there,
            terms: RuleTerms {
                until: (until > 0).then_some(until),
                at,
                by: wish.by.clone(),
                reason: (!wish.reason.is_empty()).then(|| wish.reason.clone()),
            },
        })
    }

    async fn lift_rule(&self, wish: &LiftRule) -> StoreResult<EndReply> {
        let args = args![
            "lift",
            new_name(),
            millis(LIFTED_KEPT),
            guard(&wish.name, wish.as_moderator),
            0,
            wish.name
        ];
        let mut reply = self.change_rules(args).await?;
        if reply.text()? == "kept" {
            return Ok(EndReply::Kept);
        }
        Ok(EndReply::Done(reply.flag()?))
    }

    async fn rules_since(&self, since: u64, limit: usize) -> StoreResult<RulesPage> {
        let keys = vec![
            self.keys().rules(),
            self.keys().rule_changes(),
            self.keys().rules_state(),
        ];
        let args = args![since, limit];
        let mut reply = self.router.script(&scripts::READ_RULES, keys, args).await?;
        let at = reply.number()?;
        let place = RulesPlace {
            name: reply.text()?,
            last: reply.number()?,
        };
        let floor = reply.number()?;
        let mut read_to = since;
        let mut changes = Vec::new();
        let names = reply.list()?.scored()?;
        let mut says = reply.list()?;
        for (name, number) in names {
            let says = says
                .piece()
                .ok_or_else(|| nonsense("a rule that says nothing"))?;
            // What another program wrote keeps its place, and says nothing.
            let says = text(says).unwrap_or_default();
            changes.push((name, if says == "-" { None } else { Some(says) }));
            read_to = number;
        }
        Ok(RulesPage {
            at,
            place,
            floor,
            changes,
            read_to,
        })
    }

    async fn restore_rules(
        &self,
        known: &RulesPlace,
        rules: &[(String, String)],
    ) -> StoreResult<()> {
        let mut args = args![
            "restore",
            new_name(),
            millis(LIFTED_KEPT),
            known.name,
            known.last
        ];
        for (name, says) in rules {
            args.push(Value::from(name.as_str()));
            args.push(Value::from(says.as_str()));
        }
        self.change_rules(args).await?;
        Ok(())
    }
}
