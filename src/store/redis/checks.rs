//! The checks of many lives. They are plain commands that read, many in one call to each node: a
//! script would cost Redis three times as much. A slice that is not as expected is read once more
//! in one step.

use std::collections::HashMap;

use async_trait::async_trait;
use fred::types::Value;

use super::keys::Keys;
use super::lives::read_figures;
use super::node::Command;
use super::reply::{Reply, next_answer, number, text};
use super::slices::{Cards, fenced_size};
use super::{RedisStore, args};
use crate::base::ids::{GatewayId, Group, SliceId};
use crate::store::{
    CheckLive, Checked, Checks, ExpectedSlice, Finding, FoundSlice, LiveState, SliceReading,
    Slices, StoreResult,
};

/// The commands for one live, in the order in which [`read_live`] takes their answers.
fn commands(keys: &Keys, gateway: &GatewayId, expected: &CheckLive) -> Vec<Command> {
    let mut commands = vec![("HGETALL", args![keys.live(&expected.live)])];
    if expected.listed {
        commands.push(("ZSCORE", args![keys.lives(), expected.live.as_str()]));
    }
    for expected in &expected.slices {
        commands.extend(slice_commands(keys, gateway, &expected.slice));
    }
    commands
}

/// The commands for one slice, in the order in which [`SliceAnswers::take`] takes their answers.
fn slice_commands(keys: &Keys, gateway: &GatewayId, slice: &SliceId) -> Vec<Command> {
    let mut commands = vec![
        ("HGET", args![keys.gateways(slice), gateway.as_str()]),
        ("GET", args![keys.fence(slice)]),
    ];
    for group in slice.set.groups() {
        commands.push(("SCARD", args![keys.held(slice, *group, gateway)]));
        commands.push(("SCARD", args![keys.members(slice, *group)]));
    }
    if let Some(notes) = keys.notes(slice) {
        commands.push(("HLEN", args![notes]));
    }
    commands
}

/// The answers for one slice.
struct SliceAnswers {
    entry: StoreResult<Value>,
    fence: StoreResult<Value>,
    groups: Vec<GroupAnswers>,
    /// The number of members with notes; `None` for a set that keeps none.
    noted: Option<StoreResult<Value>>,
}

/// The answers for one group of a slice.
struct GroupAnswers {
    group: Group,
    /// How many users the gateway holds.
    held: StoreResult<Value>,
    /// How many users there are.
    members: StoreResult<Value>,
}

impl SliceAnswers {
    fn take(
        expected: &ExpectedSlice,
        answers: &mut dyn Iterator<Item = StoreResult<Value>>,
    ) -> Self {
        let set = &expected.slice.set;
        let entry = next_answer(answers);
        let fence = next_answer(answers);
        let mut groups = Vec::new();
        for group in set.groups() {
            groups.push(GroupAnswers {
                group: *group,
                held: next_answer(answers),
                members: next_answer(answers),
            });
        }
        let noted = if set.keeps_notes() {
            Some(next_answer(answers))
        } else {
            None
        };
        Self {
            entry,
            fence,
            groups,
            noted,
        }
    }

    /// Whether the slice is as expected.
    fn meet(self, expected: &ExpectedSlice) -> StoreResult<bool> {
        let entry = self
            .entry?
            .into_string()
            .and_then(|entry| entry.parse().ok());
        let noted = match self.noted {
            Some(noted) => Some(number(&noted?)?),
            None => None,
        };
        let fence = self.fence?;
        let fence = if fence.is_null() {
            String::new()
        } else {
            text(fence)?
        };
        let mut own = Cards {
            members: 0,
            fans: 0,
        };
        let mut all = own;
        for answers in self.groups {
            let held = number(&answers.held?)?;
            let members = number(&answers.members?)?;
            match answers.group {
                Group::All => {
                    own.members = held;
                    all.members = members;
                }
                Group::Fans => {
                    own.fans = held;
                    all.fans = members;
                }
            }
        }
        let size = fenced_size(&fence, all);
        Ok(expected.is_met(&FoundSlice {
            entry,
            held: own.members,
            held_fans: own.fans,
            size,
            noted,
        }))
    }
}

/// The findings of a live, and the places of the slices that must be read once more. A key without
/// an answer does not spoil the other findings: it may lie on another node.
fn read_live(
    expected: &CheckLive,
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
) -> (Checked, Vec<usize>) {
    // Take all answers, even if the first is an error, so that the next live finds its own.
    let record = next_answer(answers);
    let listed = if expected.listed {
        Some(next_answer(answers))
    } else {
        None
    };
    let mut slices = Vec::with_capacity(expected.slices.len());
    for slice in &expected.slices {
        slices.push(SliceAnswers::take(slice, answers));
    }
    let mut checked = Checked::default();
    checked.take(read_record(expected, record));
    match listed {
        Some(Ok(Value::Null)) => checked.findings.push(Finding::Unlisted),
        Some(Err(_)) => checked.findings.push(Finding::ListUnread),
        Some(Ok(_)) | None => {}
    }
    let mut differing = Vec::new();
    for (place, answers) in slices.into_iter().enumerate() {
        match answers.meet(&expected.slices[place]) {
            Ok(true) => {}
            Ok(false) => differing.push(place),
            Err(why) => checked.take(Err(why)),
        }
    }
    (checked, differing)
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

impl RedisStore {
    /// Reads the slices at these places once more, each in one step, and adds what it finds.
    async fn read_differing(
        &self,
        gateway: &GatewayId,
        expected: &CheckLive,
        mut checked: Checked,
        differing: Vec<usize>,
    ) -> Checked {
        for place in differing {
            let reading = self
                .read_slice(&expected.slices[place].slice, gateway)
                .await;
            checked.take(reading.map(|reading| vec![Finding::Slice(place, reading)]));
        }
        checked
    }
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
                |expected, answers| Ok(read_live(expected, answers)),
            )
            .await;
        let mut found = Vec::with_capacity(lives.len());
        for (expected, read) in lives.iter().zip(read) {
            found.push(match read {
                Ok((checked, differing)) => {
                    self.read_differing(gateway, expected, checked, differing)
                        .await
                }
                Err(why) => Checked {
                    findings: Vec::new(),
                    complete: Err(why),
                },
            });
        }
        found
    }

    async fn check_slices(
        &self,
        gateway: &GatewayId,
        slices: &[ExpectedSlice],
    ) -> Vec<StoreResult<Option<SliceReading>>> {
        let read = self
            .router
            .read_each(
                "check",
                slices,
                |expected| slice_commands(self.keys(), gateway, &expected.slice),
                |expected, answers| SliceAnswers::take(expected, answers).meet(expected),
            )
            .await;
        let mut found = Vec::with_capacity(slices.len());
        for (expected, read) in slices.iter().zip(read) {
            found.push(match read {
                Ok(true) => Ok(None),
                Ok(false) => self.read_slice(&expected.slice, gateway).await.map(Some),
                Err(why) => Err(why),
            });
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
            let (checked, _) = read_live(&expected, &mut answers);
            checked.complete.unwrap();
            checked.findings
        };
        assert_eq!(found_with(Ok(Value::from(1.5))), []);
        assert_eq!(found_with(Ok(Value::Null)), [Finding::Unlisted]);
        assert_eq!(found_with(Err(StoreError::Timeout)), [Finding::ListUnread]);
    }
}
