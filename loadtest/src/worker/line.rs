//! A viewer's line to the gateway, once it has joined: a WebSocket, requests over HTTP, or
//! datagrams. What the lines of one process share is in [`ViewerLines`].

mod datagrams;
mod heard;
mod http;

use std::io;
use std::sync::Arc;

use tokio::time::timeout;

use self::datagrams::DatagramLine;
pub(in crate::worker) use self::heard::Hearing;
use self::http::HttpLine;
use crate::client::datagrams::DatagramSockets;
use crate::client::http::HttpConnections;
use crate::client::{self, Failure, WebSocket};
use crate::error_kind::{self, ErrorName};
use crate::plan::{CrowdPlan, ViewerTransport};

/// Connections over which the viewers of one process join that send datagrams afterwards.
const TO_JOIN: usize = 16;

/// What the viewers of one process share.
#[derive(Debug)]
pub(super) enum ViewerLines {
    /// Nothing: each has a socket of its own.
    Sockets,
    Http(Arc<HttpConnections>),
    Datagrams {
        sockets: Arc<DatagramSockets>,
        /// Over these the viewers join.
        connections: HttpConnections,
    },
}

impl ViewerLines {
    pub(super) async fn open(plan: &CrowdPlan) -> io::Result<Self> {
        Ok(match plan.by {
            ViewerTransport::Ws => Self::Sockets,
            ViewerTransport::Http => {
                let share = (plan.connections / plan.processes).max(1);
                Self::Http(Arc::new(HttpConnections::new(&plan.target, share)))
            }
            ViewerTransport::Udp => Self::Datagrams {
                sockets: Arc::new(DatagramSockets::open().await?),
                connections: HttpConnections::new(&plan.target, TO_JOIN),
            },
        })
    }

    /// Begins a session without a socket. `None` if the viewers have sockets.
    pub(super) async fn begin(
        &self,
        plan: &CrowdPlan,
        viewer: usize,
        live_id: &str,
    ) -> Option<Result<ViewerLine, Failure>> {
        match self {
            Self::Sockets => None,
            Self::Http(connections) => Some(by_http(connections, plan, viewer, live_id).await),
            Self::Datagrams {
                sockets,
                connections,
            } => Some(by_datagram(sockets, connections, plan, viewer, live_id).await),
        }
    }
}

async fn by_http(
    connections: &Arc<HttpConnections>,
    plan: &CrowdPlan,
    viewer: usize,
    live_id: &str,
) -> Result<ViewerLine, Failure> {
    let session = http::begin(connections, plan, viewer, live_id).await?;
    let line = HttpLine::new(connections.clone(), viewer, &session);
    Ok(ViewerLine::Http(line))
}

async fn by_datagram(
    sockets: &Arc<DatagramSockets>,
    connections: &HttpConnections,
    plan: &CrowdPlan,
    viewer: usize,
    live_id: &str,
) -> Result<ViewerLine, Failure> {
    let session = http::begin(connections, plan, viewer, live_id).await?;
    let mut line = DatagramLine::new(sockets.clone(), viewer, session)?;
    line.say_hello().await?;
    Ok(ViewerLine::Datagrams(Box::new(line)))
}

/// The line of one viewer.
pub(super) enum ViewerLine {
    Socket(Box<WebSocket>),
    Http(HttpLine),
    Datagrams(Box<DatagramLine>),
}

impl ViewerLine {
    /// The next thing that the gateway says. Nothing is lost when the future is dropped.
    pub(super) async fn heard(&mut self) -> Result<Hearing, Failure> {
        match self {
            Self::Socket(socket) => {
                let text = client::receive(socket).await?;
                Ok(understood(&text))
            }
            Self::Http(line) => line.heard().await,
            Self::Datagrams(line) => line.heard().await,
        }
    }

    pub(super) async fn beat(&mut self, id: u64) -> Result<(), Failure> {
        match self {
            Self::Socket(socket) => {
                let text = format!(r#"{{"type":"heartbeat","id":{id}}}"#);
                client::send(socket, text).await
            }
            Self::Http(line) => {
                line.beat(id).await;
                Ok(())
            }
            Self::Datagrams(line) => {
                line.beat(id);
                Ok(())
            }
        }
    }

    /// Leaves cleanly, so that the gateway counts the viewer no more.
    pub(super) async fn leave(&mut self, plan: &CrowdPlan) -> Result<(), ErrorName> {
        let leaving = async {
            match self {
                Self::Socket(socket) => {
                    client::send_close(socket)
                        .await
                        .map_err(|failure| failure.kind)?;
                    client::drain(socket).await;
                    Ok(())
                }
                Self::Http(line) => line.leave().await,
                Self::Datagrams(line) => line.leave().await,
            }
        };
        timeout(plan.ack_timeout, leaving)
            .await
            .unwrap_or_else(|_| Err("close_unanswered".into()))
    }
}

fn understood(text: &str) -> Hearing {
    let message = match client::parse(text) {
        Ok(message) => message,
        Err(kind) => return Hearing::Trouble(kind),
    };
    match &*message.kind {
        "heartbeat_ack" => Hearing::Ack {
            id: message.id,
            fan: message.fan,
        },
        "error" => Hearing::Trouble(error_kind::of_code(message.code.as_deref())),
        "closed" => Hearing::Trouble(error_kind::LIVE_CLOSED),
        "reconnect" => Hearing::Trouble(error_kind::RECONNECT_TOLD),
        _ => Hearing::Nothing,
    }
}
