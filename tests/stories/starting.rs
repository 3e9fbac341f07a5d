//! The program seen from outside: what it prints when it starts, and its exit code when it cannot
//! start.

use crate::support::command::run;
use crate::support::program::Program;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_memory, story};
use crate::support::viewer::Viewer;
use crate::support::wait::PATIENCE;
use crate::support::world::{World, timings};

#[test]
fn a_taken_address_ends_the_program_with_69() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    assert_eq!(run(&format!("--listen {address}")).is(69).out, "");
}

#[test]
fn the_program_waits_for_a_redis_that_starts_late() {
    story(async {
        let redis = Redis::start().await;
        redis.kill().await;
        let mut config = timings();
        config.redis = Some(rollcall::base::secret::Secret::new(redis.url()));
        config.wait_for_store = PATIENCE;
        let starting = tokio::spawn(async move { Program::start(&config).await });
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        redis.restart_empty().await;
        let program = starting.await.unwrap();
        Viewer::connects(program.addr, "u1", "").await;
    });
}

#[test]
fn an_interrupt_ends_the_program_with_0_even_while_redis_is_away() {
    story(async {
        let redis = Redis::start().await;
        let mut world = World::program(redis.clone()).await;
        let _crowd = world.live_with_fans(3).await;
        redis.kill().await;
        world.process().terminate();
        let status = world.process().exit(PATIENCE * 2).await;
        assert_eq!(status.code(), Some(0), "{status}");
    });
}

on_memory! {
    tuned(|config| config.admin_listen = Some("127.0.0.1:0".parse().unwrap()))
    async fn an_admin_address_takes_the_api_off_the_public_one(world) {
        let admin = world.admin();
        admin.get("/v1/lives").await.is(200);
        admin.get("/metrics").await.is(200);
        admin.get("/").await.is(200);
        admin.open("42", "s1").await;
        for path in ["/v1/lives", "/v1/lives/42", "/metrics"] {
            world.backend().get(path).await.problem(404);
        }
        for path in ["/", "/openapi.json", "/healthz", "/readyz"] {
            world.backend().get(path).await.is(200);
        }
        world.viewer("u1").await.join("42").await;
    }
}
