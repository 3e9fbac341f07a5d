//! Looks at slices with plain commands, many in one call to each node: a script would cost Redis
//! three times as much. The look of a walk and the checks of lives use it.

use fred::types::Value;

use super::claims::{AllEntries, read_entries, read_entry};
use super::fence::read_counted;
use crate::base::ids::{GatewayId, Group, SliceId};
use crate::store::redis::args;
use crate::store::redis::keys::Keys;
use crate::store::redis::node::Command;
use crate::store::redis::reply::{Reply, next_answer, number};
use crate::store::slice::counted::SliceCounts;
use crate::store::{Entries, Fence, SliceEntry, SliceLook, SliceSize, StoreResult};

/// The state of a slice at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SliceInside {
    /// The number of users in the public set of members.
    pub(crate) card: u64,
    /// The number of users in the public set of fans.
    pub(crate) fans: u64,
    /// The number of users on whom there are claims.
    pub(crate) claimed: u64,
    pub(crate) fence: Option<Fence>,
    /// As in [`crate::store::SliceLook`].
    pub(crate) size: SliceSize,
    /// As in [`crate::store::SliceLook`].
    pub(crate) is_intact: bool,
    /// The entry of each gateway.
    pub(crate) entries: Vec<(GatewayId, SliceEntry)>,
}

/// The commands for one slice, in the order in which [`SliceAnswers::take`] takes their answers.
pub(crate) fn commands(
    keys: &Keys,
    slice: &SliceId,
    gateway: &GatewayId,
    entries: Entries,
) -> Vec<Command> {
    let gateways = keys.gateways(slice);
    let mut commands = vec![
        ("GET", args![keys.fence(slice)]),
        ("HLEN", args![keys.who(slice)]),
    ];
    for group in slice.set.groups() {
        commands.push(("SCARD", args![keys.members(slice, *group)]));
    }
    match entries {
        Entries::All => commands.push(("HGETALL", args![gateways])),
        Entries::Own => commands.extend([
            ("HLEN", args![gateways]),
            ("HGET", args![gateways, gateway]),
        ]),
    }
    commands
}

/// The answers for one slice.
pub(crate) struct SliceAnswers {
    fence: StoreResult<Value>,
    claimed: StoreResult<Value>,
    groups: Vec<(Group, StoreResult<Value>)>,
    entries: EntryAnswers,
}

/// The answers about entries.
enum EntryAnswers {
    All(StoreResult<Value>),
    Own {
        count: StoreResult<Value>,
        entry: StoreResult<Value>,
    },
}

/// The entries that there are.
struct FoundEntries {
    count: u64,
    own: Option<SliceEntry>,
    /// All, if they were asked for.
    all: Vec<(GatewayId, SliceEntry)>,
}

impl EntryAnswers {
    fn read(self) -> StoreResult<FoundEntries> {
        match self {
            Self::All(entries) => {
                let AllEntries { count, read } = read_entries(entries?)?;
                let all = read.into_iter().map(|(of, entry)| (of, entry.state));
                Ok(FoundEntries {
                    count,
                    own: None,
                    all: all.collect(),
                })
            }
            Self::Own { count, entry } => {
                let entry = entry?.into_string();
                let entry = entry.and_then(|entry| read_entry(&entry));
                Ok(FoundEntries {
                    count: number(&count?)?,
                    own: entry.map(|entry| entry.state),
                    all: Vec::new(),
                })
            }
        }
    }
}

impl SliceAnswers {
    /// Takes all answers for a slice, even if the first is an error, so that the next slice finds
    /// its own.
    pub(crate) fn take(
        slice: &SliceId,
        entries: Entries,
        answers: &mut dyn Iterator<Item = StoreResult<Value>>,
    ) -> Self {
        let fence = next_answer(answers);
        let claimed = next_answer(answers);
        let mut groups = Vec::new();
        for group in slice.set.groups() {
            groups.push((*group, next_answer(answers)));
        }
        let entries = match entries {
            Entries::All => EntryAnswers::All(next_answer(answers)),
            Entries::Own => EntryAnswers::Own {
                count: next_answer(answers),
                entry: next_answer(answers),
            },
        };
        Self {
            fence,
            claimed,
            groups,
            entries,
        }
    }

    /// The answers of the script for an audit, which gives them in the same order.
    pub(crate) fn of_script(slice: &SliceId, reply: Reply) -> Self {
        let mut answers = reply.pieces().into_iter().map(Ok);
        Self::take(slice, Entries::All, &mut answers)
    }

    /// What the gateway finds.
    pub(crate) fn read(self, gateway: &GatewayId) -> StoreResult<SliceLook> {
        let found = self.found()?;
        let among_all = found.entries.all.iter().find(|(of, _)| of == gateway);
        Ok(SliceLook {
            fence: found.fence,
            size: found.size(),
            is_intact: found.is_intact(),
            has_keys: found.has_keys(),
            entry: found.entries.own.or(among_all.map(|(_, entry)| *entry)),
            entries: found.entries.all,
        })
    }

    /// What an audit finds.
    pub(crate) fn inspect(self) -> StoreResult<SliceInside> {
        let found = self.found()?;
        Ok(SliceInside {
            card: found.members,
            fans: found.fans,
            claimed: found.claimed,
            fence: found.fence,
            size: found.size(),
            is_intact: found.is_intact(),
            entries: found.entries.all,
        })
    }

    fn found(self) -> StoreResult<FoundAnswers> {
        let (fence, counted) = read_counted(self.fence?)?;
        let mut found = FoundAnswers {
            fence,
            counted,
            members: 0,
            fans: 0,
            claimed: number(&self.claimed?)?,
            entries: self.entries.read()?,
        };
        for (group, card) in self.groups {
            match group {
                Group::All => found.members = number(&card?)?,
                Group::Fans => found.fans = number(&card?)?,
            }
        }
        Ok(found)
    }
}

/// The content of the answers.
struct FoundAnswers {
    fence: Option<Fence>,
    counted: SliceCounts,
    members: u64,
    fans: u64,
    claimed: u64,
    entries: FoundEntries,
}

impl FoundAnswers {
    fn size(&self) -> SliceSize {
        match self.fence {
            Some(Fence::Open(_)) => self.counted.size(self.differs()),
            Some(Fence::Closed(_)) | None => SliceSize::default(),
        }
    }

    /// Whether the public sets have other sizes than the claims say.
    fn differs(&self) -> bool {
        self.members != self.counted.shown(self.claimed) || self.fans != self.counted.fans
    }

    fn is_intact(&self) -> bool {
        self.counted.fits(self.claimed) && self.counted.entries == self.entries.count
    }

    fn has_keys(&self) -> bool {
        self.members + self.fans + self.claimed + self.entries.count > 0
    }
}
