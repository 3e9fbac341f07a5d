//! The follow graph in Redis, as other programs read it. The tests beside the routes tell who follows
//! whom, and the conformance suite how the pages go.

use crate::support::stores::on_redis;

on_redis! {
    async fn the_graph_stands_in_redis_as_the_platform_knows_it(world) {
        world.follow(&["u1"]).await;
        let redis = world.redis();
        let from_one_end = redis.ask(&["ZSCORE", "followers:s1", "u1"]).await;
        assert_eq!(redis.ask(&["ZSCORE", "following:u1", "s1"]).await, from_one_end);
        assert!(from_one_end.is_string(), "scored by the time of the follow: {from_one_end}");
        world.backend().unfollow("u1", "s1").await;
        assert_eq!(redis.ask(&["EXISTS", "followers:s1", "following:u1"]).await, 0);
    }
}
