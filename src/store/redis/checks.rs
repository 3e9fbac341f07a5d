//! The checks of many lives. They are plain commands that read, many in one call to each node: a
//! script would cost Redis three times as much.

use std::collections::HashMap;

use async_trait::async_trait;
use fred::types::Value;

use super::keys::Keys;
use super::lives::read_figures;
use super::node::Command;
use super::reply::{Reply, next_answer};
use super::slices::look;
use super::{RedisStore, args};
use crate::base::ids::GatewayId;
use crate::store::{CheckLive, Checked, Checks, Entries, Finding, LiveState, StoreResult};

/// The commands for one live, in the order in which [`read_live`] takes their answers.
fn commands(keys: &Keys, gateway: &GatewayId, expected: &CheckLive) -> Vec<Command> {
    let mut commands = vec![("HGETALL", args![keys.live(&expected.live)])];
    if expected.listed {
        commands.push(("ZSCORE", args![keys.lives(), expected.live.as_str()]));
    }
    for expected in &expected.slices {
        let slice = &expected.slice;
        commands.extend(look::commands(keys, slice, gateway, Entries::Own));
    }
    commands
}

/// The findings of a live. A key without an answer does not spoil the other findings: it may lie on
/// another node.
fn read_live(
    gateway: &GatewayId,
    expected: &CheckLive,
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
) -> Checked {
    // Take all answers, even if the first is an error, so that the next live finds its own.
    let record = next_answer(answers);
    let listed = if expected.listed {
        Some(next_answer(answers))
    } else {
        None
    };
    let mut slices = Vec::with_capacity(expected.slices.len());
    for expected in &expected.slices {
        slices.push(look::Answers::take(&expected.slice, Entries::Own, answers));
    }
    let mut checked = Checked::default();
    checked.take(read_record(expected, record));
    match listed {
        Some(Ok(Value::Null)) => checked.findings.push(Finding::Unlisted),
        Some(Err(_)) => checked.findings.push(Finding::ListUnread),
        Some(Ok(_)) | None => {}
    }
    for (place, answers) in slices.into_iter().enumerate() {
        match answers.read(gateway) {
            Ok(found) if expected.slices[place].is_met(&found) => {}
            Ok(found) => checked.findings.push(Finding::Slice(place, found)),
            Err(why) => checked.take(Err(why)),
        }
    }
    checked
}

/// The fields of a record that are not as expected.
fn read_record(expected: &CheckLive, record: StoreResult<Value>) -> StoreResult<Vec<Finding>> {
    let record: HashMap<_, _> = Reply::of(record?)?.pairs()?.into_iter().collect();
    let mut findings = Vec::new();
    let figures = read_figures(field(&record, "viewers"), field(&record, "fans"));
    let is_as_expected = field(&record, "state") == Some(LiveState::Open.as_str())
        && field(&record, "epoch") == Some(&expected.epoch.to_string())
        && field(&record, "removals").unwrap_or("0") == expected.removals.to_string()
        && field(&record, "version").unwrap_or("0") == expected.version.to_string();
    if !is_as_expected {
        findings.push(Finding::Record);
    }
    if expected.counted.is_some_and(|expected| expected != figures) {
        findings.push(Finding::Counted);
    }
    Ok(findings)
}

fn field<'a>(record: &'a HashMap<String, String>, name: &str) -> Option<&'a str> {
    record.get(name).map(String::as_str)
}

#[async_trait]
impl Checks for RedisStore {
    async fn check(&self, gateway: &GatewayId, lives: &[CheckLive]) -> Vec<Checked> {
        let read = self
            .router
            .read_each(
                "check",
                lives,
                |expected| commands(self.keys(), gateway, expected),
                |expected, answers| Ok(read_live(gateway, expected, answers)),
            )
            .await;
        let mut found = Vec::with_capacity(lives.len());
        for checked in read {
            found.push(checked.unwrap_or_else(|why| Checked {
                findings: Vec::new(),
                complete: Err(why),
            }));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{Epoch, LiveId};
    use crate::store::StoreError;

    #[test]
    fn a_list_that_could_not_be_read_is_a_finding_and_leaves_the_check_complete() {
        let live = LiveId::parse("42").unwrap();
        let expected = CheckLive {
            live,
            epoch: Epoch(1),
            listed: true,
            removals: 0,
            version: 0,
            counted: None,
            slices: Vec::new(),
        };
        let record = ["state", "open", "epoch", "1"].map(Value::from).to_vec();
        let found_with = |listed: StoreResult<Value>| {
            let mut answers = [Ok(Value::Array(record.clone())), listed].into_iter();
            let gateway = GatewayId::parse("gw-1").unwrap();
            let checked = read_live(&gateway, &expected, &mut answers);
            checked.complete.unwrap();
            checked.findings
        };
        assert_eq!(found_with(Ok(Value::from(1.5))), []);
        assert_eq!(found_with(Ok(Value::Null)), [Finding::Unlisted]);
        assert_eq!(found_with(Err(StoreError::Timeout)), [Finding::ListUnread]);
    }
}
