//! The head of the OpenAPI document. Its paths and schemas come from the handlers, so the document cannot differ from
//! what is served.

use utoipa::OpenApi;

use super::problem::ProblemBody;

/// Title, tags, and the one schema that no handler names as its answer.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Rollcall",
        description = "Who is in the room now: the HTTP API of a live-stream presence gateway, for back ends. \
            Errors are RFC 9457 problem documents; `code` says which. Times are Unix milliseconds. \
            Lists answer `{\"items\":[…],\"cursor\":…}`: pass the cursor on until it is null.",
    ),
    components(schemas(ProblemBody)),
    tags(
        (name = "lives", description = "Live-stream sessions: open, close, look, list"),
        (name = "fans", description = "Fans who are online in a live"),
        (name = "moderation", description = "Remove users from a live, and ban them"),
        (name = "follows", description = "The follow graph"),
        (name = "socket", description = "The WebSocket"),
        (name = "operations", description = "Probes, metrics, and what this gateway holds"),
    )
)]
pub(super) struct Head;
