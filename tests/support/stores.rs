//! Owns the macros that make tests of a story: on both stores, or on Redis alone.

use std::time::Duration;

use rollcall::config::Config;

/// The longest that a story may take.
const STORY_DEADLINE: Duration = Duration::from_secs(90);

/// Leaves every setting as the stories have it.
pub fn as_it_is(_: &mut Config) {}

/// Runs one story with its deadline.
pub async fn within_deadline(story: impl Future<Output = ()>) {
    tokio::time::timeout(STORY_DEADLINE, Box::pin(story))
        .await
        .expect("the story ends before its deadline");
}

/// Makes two tests of a story, `on_memory` and `on_redis`. `tuned(|config| …)` in front changes its
/// settings.
macro_rules! on_both_stores {
    ($(#[$doc:meta])* async fn $name:ident($world:ident) $story:block) => {
        on_both_stores! { $(#[$doc])* tuned($crate::support::stores::as_it_is) async fn $name($world) $story }
    };
    ($(#[$doc:meta])* tuned($tune:expr) async fn $name:ident($world:ident) $story:block) => {
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn story($world: $crate::support::world::World) $story

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_memory() {
                let world = $crate::support::world::World::on_memory($tune).await;
                $crate::support::stores::within_deadline(story(world)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis() {
                let world = $crate::support::world::World::on_redis($tune).await;
                $crate::support::stores::within_deadline(story(world)).await;
            }
        }
    };
}

/// Makes a test of a story that needs Redis.
macro_rules! on_redis {
    ($(#[$doc:meta])* async fn $name:ident($world:ident) $story:block) => {
        on_redis! { $(#[$doc])* tuned($crate::support::stores::as_it_is) async fn $name($world) $story }
    };
    ($(#[$doc:meta])* tuned($tune:expr) async fn $name:ident($world:ident) $story:block) => {
        $(#[$doc])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let $world = $crate::support::world::World::on_redis($tune).await;
            $crate::support::stores::within_deadline(async move $story).await;
        }
    };
}

pub(crate) use {on_both_stores, on_redis};
