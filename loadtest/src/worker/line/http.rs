//! A viewer whose heartbeats are HTTP requests, over a connection that it shares with others.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::heard::Hearing;
use crate::client::Failure;
use crate::client::http::{self, HttpConnections, HttpRequest};
use crate::client::http_answer::HttpAnswer;
use crate::client::presence::{Begun, Said};
use crate::error_kind::{self, ErrorName};
use crate::plan::CrowdPlan;

/// How many answers may wait for a viewer.
const WAITING: usize = 8;

/// Numbers the requests that are no heartbeats.
const NO_HEARTBEAT: u64 = u64::MAX;

/// The status of a session that the gateway does not know.
const NOT_FOUND: u16 = 404;

/// Begins a session: the viewer joins its live.
pub(super) async fn begin(
    connections: &HttpConnections,
    plan: &CrowdPlan,
    viewer: usize,
    live_id: &str,
) -> Result<Begun, ErrorName> {
    let query = format!("user_id={}&role=viewer", plan.user_id(viewer));
    let query = plan
        .target
        .entry
        .query(&query)
        .map_err(|_| error_kind::NO_TOKEN)?;
    let request = HttpRequest {
        method: "POST",
        path: &format!("/v1/presence?{query}"),
        body: &format!(r#"{{"live_id":"{live_id}"}}"#),
    };
    let (by, mut heard) = mpsc::channel(1);
    connections.ask(viewer, NO_HEARTBEAT, &request, &by).await;
    let Some(heard) = heard.recv().await else {
        return Err(error_kind::JOIN_TIMEOUT);
    };
    let answer = heard.answer?;
    if !answer.is_success() {
        return Err(refusal(&answer));
    }
    serde_json::from_slice(&answer.body).map_err(|_| error_kind::BAD_FRAME)
}

/// The line of one viewer.
pub(crate) struct HttpLine {
    connections: Arc<HttpConnections>,
    viewer: usize,
    /// Of the session.
    path: String,
    by: mpsc::Sender<http::Answered>,
    heard: mpsc::Receiver<http::Answered>,
}

impl HttpLine {
    pub(super) fn new(connections: Arc<HttpConnections>, viewer: usize, session: &Begun) -> Self {
        let (by, heard) = mpsc::channel(WAITING);
        Self {
            connections,
            viewer,
            path: path(&session.id),
            by,
            heard,
        }
    }

    pub(super) async fn heard(&mut self) -> Result<Hearing, Failure> {
        // The line has a sender, so the channel does not end.
        let Some(http::Answered { number, answer }) = self.heard.recv().await else {
            return Ok(Hearing::Nothing);
        };
        match answer {
            Ok(answer) if answer.is_success() => {
                let Said {
                    fan, session_id, ..
                } = Said::read(&answer.body);
                if let Some(next) = session_id {
                    self.path = path(&next);
                }
                let id = Some(number);
                Ok(Hearing::Ack { id, fan })
            }
            Ok(answer) if answer.status == NOT_FOUND => Err(refusal(&answer).into()),
            Ok(answer) => Ok(Hearing::Trouble(refusal(&answer))),
            Err(kind) => Ok(Hearing::Trouble(kind)),
        }
    }

    pub(super) async fn beat(&self, id: u64) {
        self.ask("POST", id).await;
    }

    pub(super) async fn leave(&mut self) -> Result<(), ErrorName> {
        self.ask("DELETE", NO_HEARTBEAT).await;
        while let Some(http::Answered { number, answer }) = self.heard.recv().await {
            if number == NO_HEARTBEAT {
                let answer = answer?;
                return if answer.is_success() {
                    Ok(())
                } else {
                    Err(refusal(&answer))
                };
            }
        }
        Ok(())
    }

    async fn ask(&self, method: &'static str, number: u64) {
        let request = HttpRequest {
            method,
            path: &self.path,
            body: "",
        };
        self.connections
            .ask(self.viewer, number, &request, &self.by)
            .await;
    }
}

fn path(session_id: &str) -> String {
    format!("/v1/presence/{session_id}")
}

fn refusal(answer: &HttpAnswer) -> ErrorName {
    match Said::read(&answer.body).code {
        Some(code) => error_kind::of_code(Some(&code)),
        None => error_kind::of_status(answer.status),
    }
}
