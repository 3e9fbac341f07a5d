//! What an operator sees of the sockets of a gateway that runs, and of one that stopped.

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::{on_memory, on_redis};
use crate::support::wait::becomes;

on_memory! {
    async fn open_sockets_are_counted(world) {
        let crowd = (world.viewer("u1").await, world.viewer("u2").await);
        becomes("the metric", 2.0, async || world.metric("rollcall_sockets").await).await;
        crowd.0.close().await;
        becomes("the metric", 1.0, async || world.metric("rollcall_sockets").await).await;
    }
}

on_redis! {
    async fn a_stopped_gateway_leaves_nobody_behind(world) {
        let survivor = world.another_gateway().await;
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let _crowd = world.crowd("u", 3, "42").await;
        world.fans_become("42", &["u0", "u1", "u2"]).await;
        let addr = world.addr;
        world.stop().await;
        assert!(tokio::net::TcpStream::connect(addr).await.is_err(), "it listens no more");
        survivor.fans_become("42", &[]).await;
        survivor.dashboard("42").await.sees(viewers(0), fans(0)).await;
    }
}
