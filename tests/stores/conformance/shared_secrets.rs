//! The secrets that gateways share.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::store::MAX_SECRETS;

use super::on_each;

on_each!(the_first_secret_signs_and_the_others_are_added,);

async fn the_first_secret_signs_and_the_others_are_added(store: Arc<dyn WholeStore>) {
    let share = async |own: &[&str]| {
        let own: Vec<String> = own.iter().map(ToString::to_string).collect();
        store.share_secrets(&own).await.unwrap()
    };
    assert_eq!(share(&["a"]).await, ["a"]);
    assert_eq!(share(&["b", "a"]).await, ["a", "b"]);
    assert_eq!(share(&["a", "b"]).await, ["a", "b"]);
    assert_eq!(share(&["c", "d", "e", "f"]).await.len(), MAX_SECRETS);
    assert_eq!(share(&["g"]).await, ["a", "b", "c", "d"]);
}
