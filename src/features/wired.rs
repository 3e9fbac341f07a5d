//! What a feature gives to the wiring, and what the wiring gives to a feature.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::Extensions;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::tokens::Tokens;
use crate::base::from_files::FromFiles;
use crate::edge::http::routes::{AddRoutes, Routes};
use crate::edge::http::state::AppState;
use crate::peers::core::Core;
use crate::session::context::SessionContext;
use crate::store::fans::FanSetupError;
use crate::sync::events::api_events::ApiEvents;
use crate::sync::features::{Feature, Features};
use crate::sync::lives::Lives;

/// Begins a task, which runs until told to stop.
pub(crate) type Begin =
    Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Tasks, by their names.
pub(crate) type Tasks = Vec<(&'static str, Begin)>;

/// Makes the tasks that take in what clients send beside HTTP, once the state of the handlers is
/// there. The tracker tracks the tasks that must end before the process does.
type MakeIntake = Box<dyn FnOnce(&Arc<AppState>, &TaskTracker) -> Tasks>;

/// What handlers use, for callers within this process.
pub struct Handlers(pub(crate) Arc<AppState>);

/// Why a feature cannot be used as it is set up. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The settings or their files are wrong.
    #[error("{0}")]
    Wrong(String),
    /// An address cannot be bound.
    #[error("cannot listen on {0}: {1}")]
    Address(SocketAddr, io::Error),
}

impl From<FanSetupError> for SetupError {
    fn from(why: FanSetupError) -> Self {
        Self::Wrong(why.to_string())
    }
}

/// The parts of the core that exist when features join them.
pub(crate) struct CoreParts {
    pub(crate) core: Arc<Core>,
    pub(crate) lives: Arc<Lives>,
    pub(crate) sessions: Arc<SessionContext>,
    pub(crate) features: Features,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// For events that no record notes.
    pub(crate) events: Arc<ApiEvents>,
}

/// What features add to a gateway.
#[derive(Default)]
pub(crate) struct Added {
    /// Tasks that stop with the readers.
    pub(crate) tasks: Tasks,
    /// Tasks that stop with the listener.
    pub(crate) intake: Vec<MakeIntake>,
    /// Where clients send datagrams; `None` if the gateway takes none.
    pub(crate) udp_addresses: Option<Vec<String>>,
    pub(crate) routes: Vec<AddRoutes>,
    /// What the handlers of these routes use, see [`crate::edge::http::state::AppState::of`].
    pub(crate) parts: Extensions,
    /// What is read again when files change.
    pub(crate) files: Vec<Arc<dyn FromFiles>>,
}

impl Added {
    pub(crate) fn task<F>(
        &mut self,
        name: &'static str,
        begin: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.push(named(name, begin));
    }

    pub(crate) fn intake(
        &mut self,
        make: impl FnOnce(&Arc<AppState>, &TaskTracker) -> Tasks + 'static,
    ) {
        self.intake.push(Box::new(make));
    }

    pub(crate) fn routes(&mut self, add: fn(Routes) -> Routes) {
        self.routes.push(add);
    }

    pub(crate) fn part<T: Clone + Send + Sync + 'static>(&mut self, part: T) {
        self.parts.insert(part);
    }
}

/// A task with its name.
pub(crate) fn named<F>(
    name: &'static str,
    begin: impl FnOnce(CancellationToken) -> F + Send + 'static,
) -> (&'static str, Begin)
where
    F: Future<Output = ()> + Send + 'static,
{
    (name, Box::new(|stop| Box::pin(begin(stop))))
}

type Join = Box<dyn FnOnce(&CoreParts, &mut Added) -> Result<(), SetupError>>;

/// A feature that is set up. The core calls it from then on; it has not joined the gateway yet.
pub(crate) struct Wired {
    pub(crate) feature: Option<Arc<dyn Feature>>,
    pub(crate) join: Join,
}

impl Wired {
    /// A feature that hears what the core does, and then adds something to the gateway.
    pub(crate) fn hears(
        feature: Arc<dyn Feature>,
        join: impl FnOnce(&CoreParts, &mut Added) -> Result<(), SetupError> + 'static,
    ) -> Self {
        Self {
            feature: Some(feature),
            join: Box::new(join),
        }
    }

    /// A feature that only adds something to the gateway.
    pub(crate) fn joins(
        join: impl FnOnce(&CoreParts, &mut Added) -> Result<(), SetupError> + 'static,
    ) -> Self {
        Self {
            feature: None,
            join: Box::new(join),
        }
    }
}
