//! Attendance: which fans came to a live, and from when to when each user was there.
//!
//! It hears of the core: lives that open and close, fans who come. The stays themselves begin and
//! end in the step of the core's scripts that changes the claims, see [`crate::store::Stays`].

use std::sync::Arc;

use self::store::AttendanceStore;
use self::upkeep::AttendanceKeeper;
use super::wired::{SetupError, Wired};
use crate::config::Config;
use crate::peers::core::Core;

pub(crate) mod attended;
pub mod attendees;
pub(crate) mod audit;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod redis_sessions;
pub(crate) mod scripts;
pub(crate) mod sessions_http;
pub mod store;
#[cfg(test)]
mod tests;
pub(crate) mod upkeep;

pub(crate) fn feature(
    core: &Arc<Core>,
    store: Arc<dyn AttendanceStore>,
    clients: Arc<dyn AttendanceStore>,
) -> Wired {
    let keeper = AttendanceKeeper {
        store,
        store_for_clients: clients.clone(),
        clock: core.clock,
        form: core.config.attendance,
    };
    Wired::hears(Arc::new(keeper), move |_, added| {
        added.part(clients);
        added.routes(http::routes);
        Ok(())
    })
}

/// Fixes the form in which the store keeps attendance.
///
/// # Errors
/// The store already has another form.
pub(crate) async fn fix_form(
    config: &Config,
    store: &dyn AttendanceStore,
) -> Result<(), SetupError> {
    let wanted = config.attendance;
    let fixed = match store.fix_attendance_form(wanted).await {
        Ok(fixed) if fixed == wanted => return Ok(()),
        Ok(fixed) => fixed,
        Err(why) => {
            // The walk tries again.
            tracing::warn!(error = %why, "could not look how the store keeps attendance");
            return Ok(());
        }
    };
    let fixed = fixed.as_str();
    let wanted = wanted.as_str();
    Err(SetupError::Wrong(format!(
        "this Redis was first used with attendance {fixed}, which cannot be changed to {wanted} while it has data: \
         use attendance {fixed}, or delete what is kept of attendance and the key {prefix}rollcall:attendance-form",
        prefix = config.key_prefix
    )))
}
