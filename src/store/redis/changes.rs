//! Changes of several keys that lie in different slots of a cluster: a follow, an unfollow, another
//! login. A gateway may die between two writes, so it notes the change first and deletes the note
//! last. The walk finishes the changes whose notes are left.
//!
//! A note is also a lock: there is one change of the same thing at a time. It holds for [`HOLD`],
//! and a node refuses a write of a change that arrives later than a few seconds after the change
//! began. So a gateway that finds an older note may finish the change: no write of the first
//! gateway can still arrive.

use std::fmt;
use std::time::Duration;

use tokio::time::sleep;

use super::reply::{Reply, nonsense};
use super::{RedisCalls, args, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Login, UserId};
use crate::store::{MAX_BATCH, StoreError, StoreResult};

/// The number of keys over which the notes are spread.
pub const PARTITIONS: u64 = 64;

/// How long a note keeps other gateways from the same change: longer than a write of the change may
/// be under way.
const HOLD: Duration = Duration::from_secs(8);

/// How long a caller waits before it asks again whether another change is over.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// A change of several keys, as its note describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotedChange {
    Follow {
        user: UserId,
        streamer: UserId,
    },
    Unfollow {
        user: UserId,
        streamer: UserId,
    },
    /// The user is about to get this login.
    Login {
        user: UserId,
        login: Login,
    },
}

/// A change that has begun.
#[derive(Debug)]
pub(crate) struct BegunChange {
    key: String,
    what: String,
    stamp: String,
    /// False for a change that another gateway left, and may have written in part.
    is_new: bool,
}

impl fmt::Display for NotedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Follow { user, streamer } => write!(f, "a follow of {streamer} by {user}"),
            Self::Unfollow { user, streamer } => write!(f, "an unfollow of {streamer} by {user}"),
            Self::Login { user, login } => write!(f, "a change of the login of {user} to {login}"),
        }
    }
}

impl NotedChange {
    /// The name of the thing that changes. There is one change of it at a time.
    fn what(&self) -> String {
        match self {
            Self::Follow { user, streamer } | Self::Unfollow { user, streamer } => {
                format!("{user} {streamer}")
            }
            Self::Login { user, .. } => user.to_string(),
        }
    }

    fn how(&self) -> String {
        match self {
            Self::Follow { .. } => "follow".to_owned(),
            Self::Unfollow { .. } => "unfollow".to_owned(),
            Self::Login { login, .. } => format!("login {login}"),
        }
    }

    fn user(&self) -> &UserId {
        match self {
            Self::Follow { user, .. } | Self::Unfollow { user, .. } | Self::Login { user, .. } => {
                user
            }
        }
    }

    /// The user and the streamer of a follow or an unfollow; `None` for another change.
    pub(crate) fn into_follow(self) -> Option<(UserId, UserId)> {
        match self {
            Self::Follow { user, streamer } | Self::Unfollow { user, streamer } => {
                Some((user, streamer))
            }
            Self::Login { .. } => None,
        }
    }

    /// Reads a note; `None` for a note that another program wrote.
    fn read(what: &str, how: &str) -> Option<Self> {
        match (what.split_once(' '), how.split_once(' ')) {
            (Some((user, streamer)), None) => {
                let user = UserId::parse(user).ok()?;
                let streamer = UserId::parse(streamer).ok()?;
                match how {
                    "follow" => Some(Self::Follow { user, streamer }),
                    "unfollow" => Some(Self::Unfollow { user, streamer }),
                    _ => None,
                }
            }
            (None, Some(("login", login))) => Some(Self::Login {
                user: UserId::parse(what).ok()?,
                login: Login::parse(login).ok()?,
            }),
            _ => None,
        }
    }
}

/// Reads a field of the hash of notes: a change, and the time at which it began. `None` if another
/// program wrote it.
fn read_note(what: &str, note: &str) -> Option<(NotedChange, UnixMillis)> {
    let (began, how) = note.split_once(' ')?;
    let began = began.parse().ok()?;
    Some((NotedChange::read(what, how)?, began))
}

impl RedisCalls {
    pub(crate) fn changes_key(&self, change: &NotedChange) -> String {
        self.keys().changes(change.user().xxh3() % PARTITIONS)
    }

    /// Begins a change, once no other change of the same thing is under way. Finishes a change that
    /// another gateway left.
    pub(crate) async fn begin_change(&self, change: &NotedChange) -> StoreResult<BegunChange> {
        let key = self.changes_key(change);
        let what = change.what();
        loop {
            let args = args![what, change.how(), millis(HOLD), "new"];
            let mut reply = self
                .router
                .script(&scripts::BEGIN_CHANGE, vec![key.clone()], args)
                .await?;
            match reply.text()?.as_str() {
                "begun" => {
                    return Ok(BegunChange {
                        key,
                        what,
                        stamp: reply.text()?,
                        is_new: true,
                    });
                }
                "busy" => sleep(RETRY_DELAY).await,
                "left" => match NotedChange::read(&what, &reply.text()?) {
                    Some(left) => {
                        Box::pin(self.finish_change(&left)).await?;
                    }
                    None => return Err(nonsense("the note of a change")),
                },
                other => return Err(nonsense(format!("the begin of a change answered {other}"))),
            }
        }
    }

    /// Deletes the note. If that fails, the walk does the change once more, which changes nothing.
    pub(crate) async fn end_change(&self, begun: &BegunChange) {
        let args = args![begun.what, begun.stamp];
        if let Err(error) = self
            .router
            .script(&scripts::END_CHANGE, vec![begun.key.clone()], args)
            .await
        {
            tracing::debug!(%error, "the note of a change stays until the walk finds it");
        }
    }

    /// Passes on the answer of a change's first write. If that write did nothing, this ends a new
    /// change.
    pub(crate) async fn or_end<T>(
        &self,
        begun: &BegunChange,
        first: StoreResult<T>,
    ) -> StoreResult<T> {
        if begun.is_new && first.as_ref().is_err_and(StoreError::did_nothing) {
            self.end_change(begun).await;
        }
        first
    }

    /// Finishes a change that was left. False if it is still under way, or over.
    pub(crate) async fn finish_change(&self, change: &NotedChange) -> StoreResult<bool> {
        let guards = self.guards(change).await?;
        let key = self.changes_key(change);
        let what = change.what();
        let args = args![what, change.how(), millis(HOLD), "left"];
        let mut reply = self
            .router
            .script(&scripts::BEGIN_CHANGE, vec![key.clone()], args)
            .await?;
        match reply.text()?.as_str() {
            "begun" => {}
            "busy" | "over" => return Ok(false),
            other => return Err(nonsense(format!("a change that was left answered {other}"))),
        }
        let begun = BegunChange {
            key,
            what,
            stamp: reply.text()?,
            is_new: false,
        };
        match change {
            NotedChange::Follow { user, streamer } => {
                self.write_follow(user, streamer, "", &begun, guards)
                    .await?;
            }
            NotedChange::Unfollow { user, streamer } => {
                self.write_unfollow(user, streamer, &begun, guards).await?;
            }
            NotedChange::Login { user, login } => self.settle_login(user, login, guards[0]).await?,
        }
        self.end_change(&begun).await;
        Ok(true)
    }

    /// The time until which the nodes of a change's two keys accept its writes.
    pub(crate) async fn guards(&self, change: &NotedChange) -> StoreResult<[UnixMillis; 2]> {
        let [first, second] = match change {
            NotedChange::Follow { user, streamer } | NotedChange::Unfollow { user, streamer } => {
                self.edge_keys(user, streamer)
            }
            NotedChange::Login { user, .. } => [self.keys().users(), self.keys().user(user)],
        };
        Ok([
            self.router.not_after(&first).await?,
            self.router.not_after(&second).await?,
        ])
    }

    /// The changes that are noted now, up to [`MAX_BATCH`] of each partition.
    pub(crate) async fn noted_changes(&self) -> StoreResult<Vec<(NotedChange, UnixMillis)>> {
        let mut scans = Vec::new();
        for partition in 0..PARTITIONS {
            let key = self.keys().changes(partition);
            scans.push(("HSCAN", args![key, 0, "COUNT", MAX_BATCH]));
        }
        let mut changes = Vec::new();
        for answer in self.router.read_all(scans).await {
            let mut reply = Reply::of(answer?)?;
            // One page of a partition is enough, so its cursor does not matter.
            reply.number()?;
            for (what, note) in reply.list()?.pairs()? {
                changes.extend(read_note(&what, &note));
            }
        }
        Ok(changes)
    }
}

/// Reads the answer of a guarded write. A write that came too late did nothing; it answers `late`
/// and the node's time.
pub(crate) fn in_time(store: &RedisCalls, key: &str, mut reply: Reply) -> StoreResult<Reply> {
    match reply.text()?.as_str() {
        "done" => Ok(reply),
        "late" => {
            store.router.note_time(key, reply.number()?);
            Err(StoreError::Refused("the write came too late".to_owned()))
        }
        other => Err(nonsense(format!("a guarded write answered {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let user = |id| UserId::parse(id).unwrap();
        let changes = [
            NotedChange::Follow {
                user: user("u1"),
                streamer: user("s:1"),
            },
            NotedChange::Unfollow {
                user: user("u@1"),
                streamer: user("s1"),
            },
            NotedChange::Login {
                user: user("u1"),
                login: Login::parse("Ann").unwrap(),
            },
        ];
        for change in changes {
            assert_eq!(
                NotedChange::read(&change.what(), &change.how()),
                Some(change)
            );
        }
        for (what, how) in [
            ("u1", "follow"),
            ("u1 s1", "login a"),
            ("u1 s1 s2", "follow"),
            ("u1", "login "),
            ("", ""),
        ] {
            assert_eq!(NotedChange::read(what, how), None, "{what} {how}");
        }
    }
}
