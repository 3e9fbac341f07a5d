//! The client for apps, alone: each test of `client_tests.js` runs in a page of its own, where time
//! is the test's and the gateway is a fake one; and once with a real gateway.

use serde_json::json;

use crate::page::Visitor;
use crate::stories;
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::world::World;

const TESTS: &str = include_str!("client_tests.js");

stories! {
    async fn every_test_of_the_client_passes() {
        let world = World::on_memory(|_| ()).await;
        let visitor = Visitor::comes().await;
        let page = visitor.visits(format!("http://{}/", world.addr)).await;
        let names = page.value(&format!("{TESTS}; Object.keys(clientTests)")).await;
        let names: Vec<String> = serde_json::from_value(names).unwrap();
        assert!(names.len() >= 25, "{names:?}");
        let mut failed = Vec::new();
        for name in &names {
            page.goes_to(format!("http://{}/?{name}", world.addr)).await;
            let run = format!("{TESTS}; runClientTest({})", json!(name));
            let told = page.value(&run).await;
            if told != "passed" {
                failed.push(format!("{name}: {}", told.as_str().unwrap_or_default()));
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
        println!("{} tests of the client passed", names.len());
        page.does_not_complain();
    }

    async fn a_client_changes_its_token_before_it_ends() {
        let world = World::on_memory(with_tokens).await;
        let page = Visitor::comes().await.visits(format!("http://{}/", world.addr)).await;
        let token = |seconds| mint(&json!({"sub": "u1", "role": "viewer", "exp": in_seconds(seconds)}));
        // The second token ends later than the first, and the gateway says so in its answer.
        let (first, second) = (token(4), token(3_600));
        let script = format!(
            "import('/rollcall.js').then(async ({{Rollcall}}) => {{
               const why = [];
               const token = (reason) => (why.push(reason) === 1 ? '{first}' : '{second}');
               const client = new Rollcall({{token}});
               client.connect();
               const told = await new Promise((resolve) => client.on('refreshed', resolve));
               client.close();
               return [why, told.expires_at > Date.now() + 3_000_000];
             }})"
        );
        assert_eq!(page.value(&script).await, json!([["connect", "refresh"], true]));
        page.does_not_complain();
    }
}
