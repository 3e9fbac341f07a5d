//! What a feature gives to the wiring, and what the wiring gives to a feature.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::Extensions;
use tokio_util::sync::CancellationToken;

use crate::auth::tokens::Tokens;
use crate::base::from_files::FromFiles;
use crate::edge::http::routes::{AddRoutes, Routes};
use crate::peers::core::Core;
use crate::session::context::SessionContext;
use crate::sync::features::Feature;
use crate::sync::lives::Lives;

/// Begins a task, which runs until told to stop.
pub(crate) type Begin =
    Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Why a feature cannot be used as it is set up. The text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(pub String);

/// The parts of the core that exist when features join them.
pub(crate) struct CoreParts {
    pub(crate) core: Arc<Core>,
    pub(crate) lives: Arc<Lives>,
    pub(crate) sessions: Arc<SessionContext>,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<Arc<Tokens>>,
}

/// What features add to a gateway.
#[derive(Default)]
pub(crate) struct Added {
    /// Tasks that stop with the readers, by their names.
    pub(crate) tasks: Vec<(&'static str, Begin)>,
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
        self.tasks
            .push((name, Box::new(|stop| Box::pin(begin(stop)))));
    }

    pub(crate) fn routes(&mut self, add: fn(Routes) -> Routes) {
        self.routes.push(add);
    }

    pub(crate) fn part<T: Clone + Send + Sync + 'static>(&mut self, part: T) {
        self.parts.insert(part);
    }
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
