//! Random histories: whatever the order of calls, both stores give the same answer at every step.

use rollcall::features::WholeStore;
use std::fmt::Debug;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::conformance;
use crate::redis_server::RedisServer;

mod live;
mod moderation;
mod slice;

/// Histories of a test, unless `PROPTEST_CASES` asks for more or fewer.
const CASES: u32 = 128;

/// A server, and a store on it.
struct Redis {
    server: RedisServer,
    store: Arc<dyn WholeStore>,
}

impl Redis {
    fn empty(&self) {
        self.server.cli(&["FLUSHALL"]);
    }
}

/// Runs histories one after the other; the shortest that fails is told.
fn agree_on<S: Strategy>(
    histories: &S,
    run: &impl AsyncFn(S::Value, &Redis) -> Result<(), TestCaseError>,
) where
    S::Value: Debug,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let redis = runtime.block_on(async {
        let server = RedisServer::start().await;
        let store = conformance::redis(&server).await;
        Redis { server, store }
    });
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let config = Config {
        cases: asked.unwrap_or(CASES),
        failure_persistence: None,
        ..Config::default()
    };
    let agreed =
        TestRunner::new(config).run(histories, |history| runtime.block_on(run(history, &redis)));
    if let Err(error) = agreed {
        panic!("{error}");
    }
}
