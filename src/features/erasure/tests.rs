//! Erasures over HTTP.

use crate::base::ids::UserId;
use crate::edge::http::tests::world::World;
use crate::features::erasure::eraser::Eraser;
use crate::features::erasure::eraser::MOST_AT_A_TIME;
use std::sync::Arc;

#[tokio::test]
async fn when_too_many_users_are_being_erased_another_has_to_wait() {
    let world = World::new();
    for n in 0..MOST_AT_A_TIME {
        let user = UserId::parse(&format!("u{n}")).unwrap();
        world.app.of::<Arc<Eraser>>().erase(&user).await.unwrap();
    }
    let refused = world.delete("/v1/users/late").await;
    refused.is_problem(429, "too_many_erasures");
    assert_eq!(refused.header("retry-after"), "10");
    world.delete("/v1/users/u7").await.is(202);
}
