//! The table of permissions: who may do what. Sessions and HTTP handlers ask it before they read anything from the
//! store. `docs/security.md` shows the same table.

use crate::base::identity::Role;

/// Something that a caller may ask for, over the socket or over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Join,
    /// Watch a live, or stop watching.
    Watch,
    Open,
    Close,
    /// Remove a user from a live, ban the user, or lift the ban.
    Moderate,
    ListBans,
    /// Read one live, and who is online in it.
    ReadLive,
    /// List the lives of all streamers.
    ListLives,
    Follow,
    ReadFollows,
    /// Read what one gateway holds: `/v1/gateway/…`.
    ReadGateway,
    ReadMetrics,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The bearer of a token, or a socket with `--auth off`.
    Role(Role),
    /// The holder of an API key.
    Key(Scopes),
}

/// What an API key is good for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scopes {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) moderate: bool,
}

/// The answer of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    Yes,
    /// Only for the streamer's own lives.
    OwnLives,
    No,
}

use Permission::{No, OwnLives, Yes};

/// One row: what viewers, streamers and services may do with their tokens, and which scope a key needs.
struct Row {
    action: Action,
    viewer: Permission,
    streamer: Permission,
    service: Permission,
    scope: Option<Scope>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Read,
    Write,
    Moderate,
}

const fn row(action: Action, [viewer, streamer, service]: [Permission; 3], scope: Option<Scope>) -> Row {
    Row { action, viewer, streamer, service, scope }
}

/// Every action, once.
const TABLE: &[Row] = &[
    row(Action::Join, [Yes, Yes, Yes], None),
    row(Action::Watch, [No, OwnLives, Yes], None),
    row(Action::Open, [No, OwnLives, Yes], Some(Scope::Write)),
    row(Action::Close, [No, OwnLives, Yes], Some(Scope::Write)),
    row(Action::Moderate, [No, OwnLives, Yes], Some(Scope::Moderate)),
    row(Action::ListBans, [No, OwnLives, Yes], Some(Scope::Moderate)),
    row(Action::ReadLive, [No, OwnLives, Yes], Some(Scope::Read)),
    row(Action::ListLives, [No, No, Yes], Some(Scope::Read)),
    row(Action::Follow, [No, No, Yes], Some(Scope::Write)),
    row(Action::ReadFollows, [No, No, Yes], Some(Scope::Read)),
    row(Action::ReadGateway, [No, No, Yes], Some(Scope::Read)),
    row(Action::ReadMetrics, [No, No, Yes], Some(Scope::Read)),
];

/// Whether `caller` may do `action`.
pub(crate) fn permission(caller: Caller, action: Action) -> Permission {
    let Some(row) = TABLE.iter().find(|row| row.action == action) else { return No };
    match caller {
        Caller::Role(Role::Viewer) => row.viewer,
        Caller::Role(Role::Streamer) => row.streamer,
        Caller::Role(Role::Service) => row.service,
        Caller::Key(scopes) => match row.scope {
            Some(Scope::Read) if scopes.read => Yes,
            Some(Scope::Write) if scopes.write => Yes,
            Some(Scope::Moderate) if scopes.moderate => Yes,
            _ => No,
        },
    }
}
