//! A rolling update: a gateway that is asked to stop sends its viewers elsewhere, and no count dips
//! on the way.

use std::time::Duration;

use rollcall::config::Config;
use serde_json::Value;
use tokio::time::Instant;

use crate::support::dashboard::{Counts, fans, viewers};
use crate::support::program::Program;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, SLACK, fits, until};
use crate::support::world::{World, timings};

const DRAIN: Duration = Duration::from_secs(8);

/// A viewer who is sent away and joins through another gateway: when the viewer was told, and the
/// answer to the join.
async fn moves(mut viewer: Viewer, user: String, new: &World) -> (Instant, Viewer, Value) {
    let after = viewer.expect("reconnect").await["after_ms"]
        .as_u64()
        .expect("after_ms");
    assert_eq!(viewer.end().await, Some(1012), "{}", viewer.transcript());
    let told = Instant::now();
    tokio::time::sleep(Duration::from_millis(after)).await;
    let mut viewer = new.viewer(&user).await;
    let joined = viewer.join("42").await;
    (told, viewer, joined)
}

#[test]
fn viewers_are_sent_to_another_gateway_and_no_figure_dips_or_rises() {
    story(async {
        let redis = Redis::start().await;
        let old = World::beside(redis.clone(), |config| config.drain = DRAIN).await;
        let new = World::beside(redis, |_| ()).await;
        let crowd = old.live_with_fans(20).await;
        let mut dashboard = new.dashboard("42").await;
        dashboard.sees(viewers(20), fans(20)).await;

        let began = Instant::now();
        let stopping = old.stop();
        let moving = async {
            let moves = crowd
                .into_iter()
                .enumerate()
                .map(|(i, viewer)| moves(viewer, format!("u{i}"), &new));
            futures_util::future::join_all(moves).await
        };
        let ((), moved) = tokio::join!(stopping, moving);
        assert!(
            began.elapsed() < DRAIN + SLACK,
            "a drain ends when everybody has gone: {:?}",
            began.elapsed()
        );
        let (first, last) = (
            moved.iter().map(|m| m.0).min(),
            moved.iter().map(|m| m.0).max(),
        );
        assert!(
            last.zip(first)
                .is_some_and(|(l, f)| l - f > Duration::from_millis(300)),
            "spread: {first:?} to {last:?}"
        );
        new.card_becomes("42", 20, PATIENCE).await;
        dashboard.listen(Duration::from_millis(600)).await;
        let all_there = |c: &&Counts| !c.are(viewers(20), fans(20));
        for counts in dashboard.log.iter().skip_while(all_there) {
            let peaks = (counts.number("peak_viewers"), counts.number("peak_fans"));
            assert!(
                counts.are(viewers(20), fans(20)) && peaks == (20, 20),
                "{}",
                dashboard.seen()
            );
        }
        // Once the viewers have arrived elsewhere, the old gateway keeps nothing for them.
        let _late = new.viewer_in("late", "42").await;
        dashboard.sees(viewers(21), fans(20)).await;
    });
}

#[test]
fn a_gateway_that_learns_of_a_live_from_those_who_are_sent_to_it_counts_them_once() {
    story(async {
        let redis = Redis::start().await;
        let old = World::beside(redis.clone(), |config| config.drain = DRAIN).await;
        let new = World::beside(redis.clone(), |_| ()).await;
        let crowd = old.live_with_fans(20).await;
        until("the counts are in the record", PATIENCE, || async {
            fits(redis.live_field("42", "viewers").await, |viewers| {
                viewers.as_deref() == Some("20")
            })
        })
        .await;

        let moving = async {
            let moves = crowd
                .into_iter()
                .enumerate()
                .map(|(i, viewer)| moves(viewer, format!("u{i}"), &new));
            futures_util::future::join_all(moves).await
        };
        let ((), moved) = tokio::join!(old.stop(), moving);
        for (_, viewer, joined) in &moved {
            // The one who joins may be known from the old gateway.
            let told = joined["viewers"].as_u64().unwrap();
            assert!((20..=21).contains(&told), "{}", viewer.transcript());
        }
        let counts = new.dashboard("42").await.sees(viewers(20), fans(20)).await;
        assert_eq!(counts.number("peak_viewers"), 20, "{}", counts.json);
    });
}

#[test]
fn a_draining_gateway_refuses_connections_and_says_so() {
    story(async {
        let draining = World::on_memory(|config| config.drain = DRAIN).await;
        draining.open("42").await;
        let mut crowd = draining.crowd("u", 30, "42").await;
        let addr = draining.addr;
        let backend = draining.backend().clone();
        let stopping = tokio::spawn(draining.stop());
        crowd[0].expect("reconnect").await;
        let ready = backend.get("/readyz").await;
        assert_eq!(ready.status, 503, "{ready:?}");
        let refused = crate::support::socket::Socket::connect(addr, "/ws?user_id=late", &[]).await;
        assert!(refused.is_err(), "a socket was taken in during the drain");
        stopping.await.expect("stopped");
    });
}

#[test]
fn a_last_flush_that_fails_is_made_again_until_redis_is_back() {
    story(async {
        let redis = Redis::start().await;
        let (world, link) =
            World::over_a_link(&redis, |config| config.drain = Duration::from_secs(30)).await;
        world.open("42").await;
        world.follow(&["u1"]).await;
        let viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        link.cut();
        viewer.close().await;
        let began = Instant::now();
        let back = async {
            // By now the clients that read are gone, and the last flush has failed.
            tokio::time::sleep(Duration::from_secs(2)).await;
            link.heal();
        };
        tokio::join!(world.stop(), back);
        assert_eq!(redis.card("42").await, 0, "the last flush was given up");
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
    });
}

#[test]
fn a_stop_with_redis_gone_ends_within_the_drain() {
    story(async {
        const DRAIN: Duration = Duration::from_secs(14);
        let redis = Redis::start().await;
        let world = World::beside(redis.clone(), |config| config.drain = DRAIN).await;
        world.open("42").await;
        world.follow(&["u1"]).await;
        // The client is told to go and does not close its end.
        let viewer = world.viewer_in("u1", "42").await;
        viewer.go_silent();
        redis.kill().await;
        let began = Instant::now();
        world.stop().await;
        assert!(began.elapsed() < DRAIN, "{:?}", began.elapsed());
    });
}

#[test]
fn a_gateway_without_sockets_stops_without_a_warning() {
    story(async {
        let mut program = Program::start(&Config {
            drain: Duration::ZERO,
            ..timings()
        })
        .await;
        program.terminate();
        assert_eq!(program.exit(PATIENCE).await.code(), Some(0));
        let said = program.said();
        assert!(!said.contains("remaining sockets"), "{said}");
    });
}

#[test]
fn signals_without_a_meaning_are_ignored_and_quit_stops_as_terminate_does() {
    story(async {
        let mut world =
            World::program_with(Redis::start().await, |config| config.drain = DRAIN).await;
        let mut viewer = world.viewer("u1").await;
        for (signal, name) in [("-USR1", "SIGUSR1"), ("-USR2", "SIGUSR2")] {
            world.process().signal(signal);
            until("a line that names the signal", PATIENCE, || {
                let said = world.process().said();
                async move {
                    if said.contains(name) {
                        Ok(())
                    } else {
                        Err(said)
                    }
                }
            })
            .await;
        }
        viewer.heartbeat_json().await;
        world.process().signal("-QUIT");
        viewer.expect("reconnect").await;
        assert_eq!(world.process().exit(PATIENCE).await.code(), Some(0));
    });
}
