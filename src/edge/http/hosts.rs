//! The hosts of a live, as a request names them: read, and refused where a user cannot be a host.

use serde::Deserialize;
use utoipa::openapi::{ArrayBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::erased;
use super::problem::{Problem, ProblemKind};
use super::state::AppState;
use crate::base::ids::UserId;
use crate::edge::fields::FieldPlace;
use crate::store::MAX_HOSTS;
use crate::sync::lives::LiveError;

/// The field `hosts` of a body, which [`read`] reads.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct HostIds(Vec<String>);

impl PartialSchema for HostIds {
    fn schema() -> RefOr<Schema> {
        ArrayBuilder::new()
            .items(Ref::from_schema_name("UserId"))
            .max_items(Some(MAX_HOSTS))
            .unique_items(true)
            .into()
    }
}

impl ToSchema for HostIds {}

/// Reads the ids of hosts. No guest has one.
pub(super) fn read(HostIds(texts): &HostIds) -> Result<Vec<UserId>, Problem> {
    if texts.len() > MAX_HOSTS {
        let detail = format!("a live has at most {MAX_HOSTS} hosts beside its streamer");
        return Err(Problem::new(ProblemKind::BadMessage, detail).at(FieldPlace::field("hosts")));
    }
    let mut hosts = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let user = UserId::parse(text).map_err(|why| Problem::from(why).at(item(index)))?;
        if hosts.contains(&user) {
            let detail = "the user is on the list already";
            return Err(Problem::new(ProblemKind::BadMessage, detail).at(item(index)));
        }
        hosts.push(user);
    }
    Ok(hosts)
}

/// Refuses users who cannot host a live of this streamer: the streamer, who is banned from the lives
/// of the streamer or from the platform, and who is being erased.
pub(super) async fn check(
    state: &AppState,
    streamer: &UserId,
    hosts: &[UserId],
) -> Result<(), Problem> {
    if hosts.is_empty() {
        return Ok(());
    }
    if !state.sessions.know_rules().await {
        let detail = "the gateway does not know yet who is banned; try again";
        return Err(Problem::new(ProblemKind::StoreUnavailable, detail));
    }
    let now = state.core.clock.now();
    for (index, host) in hosts.iter().enumerate() {
        if host == streamer {
            let detail = "the streamer needs no place among the hosts";
            return Err(Problem::new(ProblemKind::Forbidden, detail).at(item(index)));
        }
        if let Some(ban) = state.core.rules.ban_by(streamer, host, now) {
            return Err(Problem::banned(&ban).at(item(index)));
        }
        erased::check(state, host).map_err(|problem| problem.at(item(index)))?;
    }
    Ok(())
}

/// The problem of a change of a live, with the place of the host whom it is about.
pub(super) fn refused(why: LiveError, hosts: &[UserId]) -> Problem {
    let place = match &why {
        LiveError::BannedHost(user) => hosts.iter().position(|host| host == user),
        _ => None,
    };
    let problem = Problem::from(why);
    match place {
        Some(index) => problem.at(item(index)),
        None => problem,
    }
}

fn item(index: usize) -> FieldPlace {
    FieldPlace::item("hosts", index)
}
