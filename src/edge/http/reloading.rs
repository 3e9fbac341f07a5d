//! The route that makes this gateway read its keys, secrets and certificates again. It is for places
//! where nobody can send the process a signal.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::authorization::CalledBy;
use super::problem::{Problem, ProblemKind, refusals};
use super::state::AppState;
use crate::base::ids::GatewayId;

/// What a gateway read again.
#[derive(Serialize, ToSchema)]
#[schema(as = Reloaded)]
pub(crate) struct Reloaded {
    /// The gateway that answers.
    #[schema(value_type = String, example = "gw-nlv76ootsqk3vjsq")]
    gateway_id: GatewayId,
    /// What it has read, whether it changed or not.
    #[schema(example = json!(["the API keys", "the keys of tokens"]))]
    read: Vec<&'static str>,
}

refusals!(ReloadRefused = BadFiles, StoreUnavailable);

/// Read keys and certificates again
///
/// On this gateway only: the files of keys, secrets and certificates, and the key set of a URL. A
/// gateway looks at its files each second, so this is for those who will not wait, or want to know
/// whether the files are good.
#[utoipa::path(post, path = "/v1/gateway/reload", operation_id = "reload_gateway", tag = "operations",
    responses((status = 200, description = "All are in force", body = Reloaded), ReloadRefused))]
pub(crate) async fn reload(
    State(state): State<Arc<AppState>>,
    CalledBy(caller): CalledBy,
) -> Result<Json<Reloaded>, Problem> {
    let by = match caller {
        Some(actor) => actor.to_string(),
        None => "anybody: auth is off".to_owned(),
    };
    tracing::info!(
        by,
        "reading keys, secrets and certificates again, as asked over HTTP"
    );
    match state.reloader.reload().await {
        Ok(read) => Ok(Json(Reloaded {
            gateway_id: state.core.gateways.id(),
            read,
        })),
        Err(problems) => Err(Problem::new(
            ProblemKind::BadFiles,
            format!(
                "{}; what was read before stays in force",
                problems.join("; ")
            ),
        )),
    }
}
