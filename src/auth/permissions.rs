//! The table of permissions: which callers may do which actions. Sessions and the HTTP API ask it
//! before they read anything from the store. `docs/security.md` shows the same table.

use crate::base::identity::Role;
use crate::base::ids::UserId;

/// Something that a caller may ask for, over the socket or over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Join,
    /// Watch a live, or stop watching.
    Watch,
    Open,
    Close,
    /// Change the title of an open live, or its streamer timeout.
    Change,
    /// Write what clients are told about a live.
    WriteInfo,
    /// Say which viewers of a live really watch.
    Confirm,
    /// Ban a user from a live, or lift the ban.
    Moderate,
    ListBans,
    /// Send a viewer out of a live.
    RemoveViewer,
    /// Ban a user from all lives of a streamer, lift the ban, or list the bans.
    BanFromStreamer,
    /// Say who moderates in the lives of a streamer, or list them.
    SetModerators,
    /// Ban a user from the platform, lift the ban, or list the bans.
    BanFromPlatform,
    /// Refuse the tokens of a user that were issued before.
    RevokeTokens,
    /// Read one live, and who is or was in it.
    ReadLive,
    /// See how the viewers of a live spread over networks.
    ReadShape,
    /// List the lives of a streamer: the open ones, and the summaries of the past ones.
    ReadPastLives,
    /// Read who came to lives of all streamers.
    ReadAttendance,
    /// List the lives of all streamers.
    ListLives,
    Follow,
    ReadFollows,
    WriteUser,
    ReadUser,
    /// Erase a user, and learn how far that is.
    Erase,
    /// Read what users tell, or those whom they follow.
    ReadFeeds,
    /// Make or delete an announcement of a user.
    Announce,
    /// Change a user's list of other users.
    WriteList,
    /// Read who is online on the platform, and who was.
    ReadOnline,
    /// Say that users are there, without a socket.
    NoteSeen,
    /// Say that oneself is there, without a socket.
    Beat,
    ForgetSeen,
    /// Read how webhooks stand, and what was sent to them.
    ReadWebhooks,
    /// Send a webhook a test event, or what happened before.
    SendToWebhook,
    /// Read what one gateway holds: `/v1/gateway/…`.
    ReadGateway,
    /// Change what one gateway logs.
    ChangeLog,
    /// Make one gateway read its files of keys and certificates again.
    Reload,
    ReadMetrics,
}

impl Action {
    /// Whether the audit trail has an entry for each change that the action makes. It has none for
    /// what back ends do all day on behalf of users: follows, announcements, lists, beats.
    pub(crate) fn is_audited(self) -> bool {
        match self {
            Self::Open
            | Self::Close
            | Self::Change
            | Self::Moderate
            | Self::RemoveViewer
            | Self::BanFromStreamer
            | Self::SetModerators
            | Self::BanFromPlatform
            | Self::RevokeTokens
            | Self::WriteUser
            | Self::Erase
            | Self::ForgetSeen
            | Self::SendToWebhook
            | Self::ChangeLog
            | Self::Reload => true,
            Self::WriteInfo
            | Self::Confirm
            | Self::Follow
            | Self::Announce
            | Self::WriteList
            | Self::NoteSeen
            | Self::Beat
            | Self::Join
            | Self::Watch
            | Self::ListBans
            | Self::ReadLive
            | Self::ReadShape
            | Self::ReadPastLives
            | Self::ReadAttendance
            | Self::ListLives
            | Self::ReadFollows
            | Self::ReadUser
            | Self::ReadFeeds
            | Self::ReadOnline
            | Self::ReadWebhooks
            | Self::ReadGateway
            | Self::ReadMetrics => false,
        }
    }
}

/// The caller of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The bearer of a token, or a socket with `--auth off`.
    Role(Role),
    /// The holder of an API key.
    Key(Scopes),
}

/// What an API key allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scopes {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) moderate: bool,
}

impl Scopes {
    fn contain(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read,
            Scope::Write => self.write,
            Scope::Moderate => self.moderate,
        }
    }
}

/// The answer of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    Yes,
    /// Only in lives to which the user has one of these ties.
    Tied(&'static [Tie]),
    No,
}

/// What a user may be to a live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tie {
    Streamer,
    Host,
    /// A moderator of its streamer.
    Moderator,
}

impl Permission {
    /// The answer as `docs/security.md` shows it.
    fn text(self) -> String {
        let ties = match self {
            Self::Yes => return "yes".to_owned(),
            Self::No => return "no".to_owned(),
            Self::Tied(ties) => ties,
        };
        let words: Vec<&str> = ties
            .iter()
            .map(|tie| match tie {
                Tie::Streamer => "own",
                Tie::Host => "hosted",
                Tie::Moderator => "moderated",
            })
            .collect();
        format!("{} lives", words.join(" and "))
    }

    /// Whether the tie is one of those that are needed.
    pub(crate) fn is_for(self, tie: Tie) -> bool {
        match self {
            Self::Tied(ties) => ties.contains(&tie),
            Self::Yes | Self::No => false,
        }
    }

    /// Whether the user must be somebody whom a streamer chose.
    pub(crate) fn is_for_staff_only(self) -> bool {
        matches!(self, Self::Tied(ties) if !ties.contains(&Tie::Streamer))
    }

    /// Whether the permission lets `user` act on a live of `streamer`, host and moderator or not:
    /// the room knows the hosts, and the rules of moderation say who moderates.
    pub(crate) fn covers(self, user: &UserId, streamer: &UserId) -> bool {
        self == Self::Yes || self.is_for(Tie::Streamer) && user == streamer
    }
}

use Permission::{No, Yes};

const OWN: Permission = Permission::Tied(&[Tie::Streamer]);
const HOSTED: Permission = Permission::Tied(&[Tie::Host]);
const OWN_OR_HOSTED: Permission = Permission::Tied(&[Tie::Streamer, Tie::Host]);
const MODERATED: Permission = Permission::Tied(&[Tie::Moderator]);
const OWN_OR_MODERATED: Permission = Permission::Tied(&[Tie::Streamer, Tie::Moderator]);
const STAFFED: Permission = Permission::Tied(&[Tie::Host, Tie::Moderator]);
const OWN_OR_STAFFED: Permission = Permission::Tied(&[Tie::Streamer, Tie::Host, Tie::Moderator]);

/// The scope that an API key needs for an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Read,
    Write,
    Moderate,
}

impl Scope {
    /// The scope as in the file of keys.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Moderate => "moderate",
        }
    }
}

/// One row: whether the tokens of viewers, streamers and services allow the action, and which scope
/// a key needs.
struct PermissionRow {
    action: Action,
    what: &'static str,
    viewer: Permission,
    streamer: Permission,
    service: Permission,
    scope: Option<Scope>,
}

const fn row(
    action: Action,
    [viewer, streamer, service]: [Permission; 3],
    scope: Option<Scope>,
    what: &'static str,
) -> PermissionRow {
    PermissionRow {
        action,
        what,
        viewer,
        streamer,
        service,
        scope,
    }
}

const READ: Option<Scope> = Some(Scope::Read);
const WRITE: Option<Scope> = Some(Scope::Write);
const MODERATE: Option<Scope> = Some(Scope::Moderate);

/// Every action, once.
const TABLE: &[PermissionRow] = &[
    row(
        Action::Join,
        [Yes, Yes, Yes],
        None,
        "join a live (socket, HTTP)",
    ),
    row(
        Action::Watch,
        [HOSTED, OWN_OR_HOSTED, Yes],
        READ,
        "watch the counts of a live (socket, events)",
    ),
    row(
        Action::Open,
        [No, OWN, Yes],
        WRITE,
        "open a live (socket, HTTP)",
    ),
    row(
        Action::Close,
        [No, OWN, Yes],
        WRITE,
        "close a live (socket, HTTP), or end a stream of it",
    ),
    row(Action::Change, [No, OWN, Yes], WRITE, "change an open live"),
    row(
        Action::WriteInfo,
        [No, OWN, Yes],
        WRITE,
        "write the information about a live",
    ),
    row(
        Action::Confirm,
        [No, No, Yes],
        WRITE,
        "confirm who really watches a live",
    ),
    row(
        Action::Moderate,
        [HOSTED, OWN_OR_HOSTED, Yes],
        MODERATE,
        "ban a user from one live, lift such a ban",
    ),
    row(
        Action::RemoveViewer,
        [STAFFED, OWN_OR_STAFFED, Yes],
        MODERATE,
        "send a user out of a live",
    ),
    row(
        Action::BanFromStreamer,
        [MODERATED, OWN_OR_MODERATED, Yes],
        MODERATE,
        "ban a user from a streamer's lives, lift or list such bans",
    ),
    row(
        Action::SetModerators,
        [No, OWN, Yes],
        MODERATE,
        "say who moderates in a streamer's lives, or list them",
    ),
    row(
        Action::BanFromPlatform,
        [No, No, Yes],
        MODERATE,
        "ban a user from the platform, lift or list such bans",
    ),
    row(
        Action::RevokeTokens,
        [No, No, Yes],
        MODERATE,
        "refuse the tokens of a user that were issued before",
    ),
    row(
        Action::ListBans,
        [STAFFED, OWN_OR_STAFFED, Yes],
        MODERATE,
        "list the bans of a live",
    ),
    row(
        Action::ReadLive,
        [STAFFED, OWN_OR_STAFFED, Yes],
        READ,
        "look at a live, and who is or was in it",
    ),
    row(
        Action::ReadShape,
        [No, No, Yes],
        READ,
        "see how the viewers of a live spread over networks",
    ),
    row(
        Action::ReadPastLives,
        [No, OWN, Yes],
        READ,
        "list the lives of a streamer, open or past",
    ),
    row(
        Action::ReadAttendance,
        [No, No, Yes],
        READ,
        "ask which fans came to which lives",
    ),
    row(
        Action::ListLives,
        [No, No, Yes],
        READ,
        "list the open lives",
    ),
    row(
        Action::Follow,
        [No, No, Yes],
        WRITE,
        "make a user follow or unfollow a streamer",
    ),
    row(
        Action::ReadFollows,
        [No, No, Yes],
        READ,
        "list whom a user follows, or who follows them",
    ),
    row(
        Action::WriteUser,
        [No, No, Yes],
        WRITE,
        "sign a user up, or write a profile",
    ),
    row(Action::ReadUser, [No, No, Yes], READ, "look at a user"),
    row(
        Action::Erase,
        [No, No, Yes],
        WRITE,
        "erase a user, and ask how far that is",
    ),
    row(
        Action::ReadFeeds,
        [No, No, Yes],
        READ,
        "read feeds, and what users tell",
    ),
    row(
        Action::Announce,
        [No, No, Yes],
        WRITE,
        "make or delete an announcement of a user",
    ),
    row(
        Action::WriteList,
        [No, No, Yes],
        WRITE,
        "change a user's list of other users",
    ),
    row(
        Action::ReadOnline,
        [No, No, Yes],
        READ,
        "ask who is online on the platform, or was",
    ),
    row(
        Action::NoteSeen,
        [No, No, Yes],
        WRITE,
        "say that users are there, without a socket",
    ),
    row(
        Action::Beat,
        [Yes, Yes, Yes],
        None,
        "say that oneself is there, without a socket",
    ),
    row(
        Action::ForgetSeen,
        [No, No, Yes],
        WRITE,
        "forget users who were seen long ago",
    ),
    row(
        Action::ReadWebhooks,
        [No, No, Yes],
        READ,
        "look at webhooks, and what was sent to them",
    ),
    row(
        Action::SendToWebhook,
        [No, No, Yes],
        WRITE,
        "send a webhook a test, or events again",
    ),
    row(
        Action::ReadGateway,
        [No, No, Yes],
        READ,
        "ask what one gateway holds",
    ),
    row(
        Action::ChangeLog,
        [No, No, Yes],
        MODERATE,
        "change what one gateway logs",
    ),
    row(
        Action::Reload,
        [No, No, Yes],
        MODERATE,
        "make one gateway read its keys and certificates again",
    ),
    row(Action::ReadMetrics, [No, No, Yes], READ, "read the metrics"),
];

/// Whether `caller` may do `action`.
pub(crate) fn permission(caller: Caller, action: Action) -> Permission {
    let Some(row) = TABLE.iter().find(|row| row.action == action) else {
        return No;
    };
    match caller {
        Caller::Role(Role::Viewer) => row.viewer,
        Caller::Role(Role::Streamer) => row.streamer,
        Caller::Role(Role::Service) => row.service,
        Caller::Key(scopes) if row.scope.is_some_and(|scope| scopes.contain(scope)) => Yes,
        Caller::Key(_) => No,
    }
}

/// The scope that an API key needs; `None` if no key will do.
pub(crate) fn scope(action: Action) -> Option<Scope> {
    TABLE.iter().find(|row| row.action == action)?.scope
}

/// The table as `docs/security.md` shows it.
#[must_use]
pub fn markdown_table() -> String {
    let mut table =
        "| action | viewer | streamer | service | API key |\n| --- | --- | --- | --- | --- |\n"
            .to_owned();
    for PermissionRow {
        what,
        viewer,
        streamer,
        service,
        scope,
        ..
    } in TABLE
    {
        let viewer = viewer.text();
        let streamer = streamer.text();
        let service = service.text();
        let key = match scope {
            Some(scope) => format!("`{}`", scope.as_str()),
            None => "no".to_owned(),
        };
        table += &format!("| {what} | {viewer} | {streamer} | {service} | {key} |\n");
    }
    table
}
