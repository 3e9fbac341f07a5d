//! Owns the macros that make tests of a story: on the memory store, on Redis, or on both.
//!
//! The conformance suite holds both stores to the same answers, so a story runs on one: on Redis if
//! it is about keys, crashes, several gateways or what other programs write, and on the memory store
//! otherwise. Those that show the whole way of joining, leaving, counting and closing run on both.

use std::time::Duration;

use rollcall::config::Config;

use super::story::tell;

/// The longest that a story may take.
const STORY_DEADLINE: Duration = Duration::from_secs(90);

/// Leaves every setting as the stories have it.
pub fn as_it_is(_: &mut Config) {}

/// Runs one story with its deadline.
pub fn story(told: impl Future<Output = ()>) {
    tell(STORY_DEADLINE, told);
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

            #[test]
            fn on_memory() {
                $crate::support::stores::story(async {
                    story($crate::support::world::World::on_memory($tune).await).await;
                });
            }

            #[test]
            fn on_redis() {
                $crate::support::stores::story(async {
                    story($crate::support::world::World::on_redis($tune).await).await;
                });
            }
        }
    };
}

/// Makes a test of a story on the memory store.
macro_rules! on_memory {
    ($($story:tt)*) => { $crate::support::stores::on_one_store! { on_memory $($story)* } };
}

/// Makes a test of a story that needs Redis.
macro_rules! on_redis {
    ($($story:tt)*) => { $crate::support::stores::on_one_store! { on_redis $($story)* } };
}

macro_rules! on_one_store {
    ($store:ident $(#[$doc:meta])* async fn $name:ident($world:ident) $story:block) => {
        $crate::support::stores::on_one_store! {
            $store $(#[$doc])* tuned($crate::support::stores::as_it_is) async fn $name($world) $story
        }
    };
    ($store:ident $(#[$doc:meta])* tuned($tune:expr) async fn $name:ident($world:ident) $story:block) => {
        $(#[$doc])*
        #[test]
        fn $name() {
            $crate::support::stores::story(async move {
                let $world = $crate::support::world::World::$store($tune).await;
                $story
            });
        }
    };
}

pub(crate) use {on_both_stores, on_memory, on_one_store, on_redis};
