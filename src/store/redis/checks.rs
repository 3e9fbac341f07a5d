//! The checks of many lives: plain commands that read, many in one call to each node, because a
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
use crate::base::ids::{GatewayId, Group};
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
    commands.extend(
        expected
            .slices
            .iter()
            .flat_map(|expected| slice_commands(keys, gateway, expected)),
    );
    commands
}

/// The commands for one slice, in the order in which [`SliceAnswers::take`] takes their answers.
fn slice_commands(
    keys: &Keys,
    gateway: &GatewayId,
    ExpectedSlice { slice, .. }: &ExpectedSlice,
) -> Vec<Command> {
    let mut commands = vec![
        ("HGET", args![keys.gateways(slice), gateway.as_str()]),
        ("GET", args![keys.fence(slice)]),
    ];
    for group in slice.set.groups() {
        commands.push(("SCARD", args![keys.held(slice, *group, gateway)]));
        commands.push(("SCARD", args![keys.members(slice, *group)]));
    }
    commands.extend(keys.notes(slice).map(|notes| ("HLEN", args![notes])));
    commands
}

/// The answers for one slice.
struct SliceAnswers {
    entry: StoreResult<Value>,
    fence: StoreResult<Value>,
    /// Of each group, how many users the gateway holds, and how many there are.
    groups: Vec<(Group, [StoreResult<Value>; 2])>,
    noted: Option<StoreResult<Value>>,
}

impl SliceAnswers {
    fn take(
        expected: &ExpectedSlice,
        answers: &mut dyn Iterator<Item = StoreResult<Value>>,
    ) -> Self {
        let mut next = || next_answer(answers);
        let (entry, fence) = (next(), next());
        let groups = expected
            .slice
            .set
            .groups()
            .iter()
            .map(|group| (*group, [next(), next()]))
            .collect();
        Self {
            entry,
            fence,
            groups,
            noted: expected.slice.set.keeps_notes().then(next),
        }
    }

    fn meet(self, expected: &ExpectedSlice) -> StoreResult<bool> {
        let entry = self
            .entry?
            .into_string()
            .and_then(|entry| entry.parse().ok());
        let noted = self.noted.map(|noted| number(&noted?)).transpose()?;
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
        for (group, [held, there]) in self.groups {
            let (held, there) = (number(&held?)?, number(&there?)?);
            match group {
                Group::All => (own.members, all.members) = (held, there),
                Group::Fans => (own.fans, all.fans) = (held, there),
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

/// What is not as expected, and the places of the slices that must be read once more. What has no
/// answer leaves the rest as it is: it may lie on another node.
fn read_live(
    expected: &CheckLive,
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
) -> (Checked, Vec<usize>) {
    let mut next = || next_answer(answers);
    // Take all of them, whatever the first is, so that the next live finds its own.
    let record = next();
    let listed = if expected.listed { Some(next()) } else { None };
    let slices: Vec<_> = expected
        .slices
        .iter()
        .map(|slice| (slice, SliceAnswers::take(slice, answers)))
        .collect();
    let mut checked = Checked::default();
    checked.take(record.and_then(|record| read_record(expected, Reply::of(record)?)));
    checked.findings.extend(match listed {
        Some(Ok(Value::Null)) => Some(Finding::Unlisted),
        Some(Err(_)) => Some(Finding::ListUnread),
        _ => None,
    });
    let mut differing = Vec::new();
    for (place, (slice, answers)) in slices.into_iter().enumerate() {
        match answers.meet(slice) {
            Ok(true) => {}
            Ok(false) => differing.push(place),
            Err(why) => checked.take(Err(why)),
        }
    }
    (checked, differing)
}

/// What is not as expected in a record.
fn read_record(expected: &CheckLive, record: Reply) -> StoreResult<Vec<Finding>> {
    let record: HashMap<_, _> = record.pairs()?.into_iter().collect();
    let mut findings = Vec::new();
    let word = |name: &str| record.get(name).map(String::as_str);
    let figures = read_figures(word("viewers"), word("fans"));
    let is_open = word("state") == Some(LiveState::Open.as_str())
        && word("epoch") == Some(&expected.epoch.to_string())
        && word("removals").unwrap_or("0") == expected.removals.to_string()
        && word("info_version").unwrap_or("0") == expected.info.to_string();
    if !is_open {
        findings.push(Finding::Record);
    }
    if expected.counted.is_some_and(|expected| expected != figures) {
        findings.push(Finding::Counted);
    }
    Ok(findings)
}

impl RedisStore {
    async fn read_differing(
        &self,
        gateway: &GatewayId,
        expected: &CheckLive,
        (mut checked, differing): (Checked, Vec<usize>),
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
        let read = |expected: &CheckLive, answers: &mut dyn Iterator<Item = _>| {
            Ok(read_live(expected, answers))
        };
        let read = self
            .router
            .read_each(
                "check",
                lives,
                |expected| commands(self.keys(), gateway, expected),
                read,
            )
            .await;
        let mut found = Vec::with_capacity(lives.len());
        for (expected, read) in lives.iter().zip(read) {
            found.push(match read {
                Ok(checked) => self.read_differing(gateway, expected, checked).await,
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
        let read = |expected: &ExpectedSlice, answers: &mut dyn Iterator<Item = _>| {
            SliceAnswers::take(expected, answers).meet(expected)
        };
        let read = self
            .router
            .read_each(
                "check",
                slices,
                |expected| slice_commands(self.keys(), gateway, expected),
                read,
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
            info: 0,
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
