//! The package for JavaScript: what is in it, what TypeScript makes of its types, and the hook for
//! React that the document shows.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::apps::{NodeApp, read, shown, story};
use crate::support::backend::Backend;
use crate::support::link::Link;
use crate::support::running::Running;
use crate::support::wait::{PATIENCE, same, until};
use crate::support::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_package_has_the_module_its_types_and_nothing_else() {
    let app = NodeApp::new().await;
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(app.package()).unwrap() {
        files.insert(entry.unwrap().file_name().into_string().unwrap());
    }
    let wanted = ["README.md", "package.json", "rollcall.d.ts", "rollcall.js"];
    assert_eq!(files, BTreeSet::from(wanted.map(str::to_owned)));
    let manifest: Value =
        serde_json::from_str(&read("src/clients/javascript/package.json")).unwrap();
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    assert!(manifest["dependencies"].is_null() && manifest["scripts"].is_null());
    let world = World::on_memory(|_| ()).await;
    for name in ["rollcall.js", "rollcall.d.ts"] {
        let served = world.backend().get(&format!("/{name}")).await.is(200).text;
        let packed = std::fs::read_to_string(app.package().join(name)).unwrap();
        assert_eq!(served, packed, "a gateway serves another {name}");
    }
}

/// An OpenAPI document with the messages of the AsyncAPI document as its schemas, so that types can
/// be generated of them; and the name of each message on the wire, with the name of its schema.
async fn messages(backend: &Backend) -> (String, Vec<(String, String)>) {
    let document = backend.get("/asyncapi.json").await.is(200).body;
    let mut schemas = document["components"]["schemas"]
        .as_object()
        .unwrap()
        .clone();
    let mut said = Vec::new();
    for message in document["operations"]["say"]["messages"]
        .as_array()
        .unwrap()
    {
        let reference = message["$ref"].as_str().unwrap();
        let (_, name) = reference.rsplit_once('/').unwrap();
        let message = &document["components"]["messages"][name];
        schemas.insert(name.to_owned(), message["payload"].clone());
        said.push((
            message["name"].as_str().unwrap().to_owned(),
            name.to_owned(),
        ));
    }
    let openapi = json!({
        "openapi": "3.1.0",
        "info": {"title": "messages", "version": "1"},
        "paths": {},
        "components": {"schemas": schemas},
    });
    (openapi.to_string(), said)
}

/// The test beside the AsyncAPI document compares the names of fields; this one compares types.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_says_fits_the_types_of_the_package() {
    let world = World::on_memory(|_| ()).await;
    let (document, said) = messages(world.backend()).await;
    let app = NodeApp::new().await;
    app.generates(&document, "messages.ts").await;
    let mut program = "import type { Events } from \"rollcall-presence\";\n\
                       import type { components } from \"./messages.js\";\n\
                       type Said = components[\"schemas\"];\n"
        .to_owned();
    assert_eq!(said.len(), 13, "{said:?}");
    for (name, schema) in &said {
        program += &format!(
            "export const {name} = (said: Said[\"{schema}\"]): Events[\"{name}\"] => said;\n"
        );
    }
    app.has("said.ts", &program);
    app.compiles(&["said.ts"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_uses_of_the_package_do_not_compile() {
    let app = NodeApp::new().await;
    // Each comment demands that the next line is wrong.
    app.has(
        "wrong.ts",
        "import { Rollcall } from \"rollcall-presence\";\n\
         // @ts-expect-error\n\
         const client = new Rollcall({ userID: \"u1\" });\n\
         // @ts-expect-error\n\
         client.on(\"count\", () => {});\n\
         // @ts-expect-error\n\
         client.on(\"heartbeat_ack\", ({ watchers }) => watchers);\n\
         // @ts-expect-error\n\
         client.join(42);\n",
    );
    app.compiles(&["wrong.ts"]).await;
}

async fn has_viewers(world: &World, live: &str, wanted: u64) {
    until("the viewers", PATIENCE, async || {
        let viewers = world.backend().live(live).await["viewers"].as_u64();
        same(viewers, Some(wanted))
    })
    .await;
}

#[test]
fn the_hook_for_react_joins_with_its_component_and_leaves_with_it() {
    story(async {
        let world = World::on_memory(|_| ()).await;
        for live in ["42", "43", "44", "45"] {
            world.open(live).await;
        }
        let link = Link::to(world.addr).await;
        let app = NodeApp::new().await;
        app.has("useLive.tsx", &shown("tsx"));
        app.compiles(&["useLive.tsx"]).await;
        app.has("page.mjs", &read("tests/clients/programs/page.mjs"));
        let mut page = app.node("page.mjs");
        page.arg(format!("http://{}", link.addr()));
        let mut page = Running::start(page);
        // It goes on to the next live at once.
        assert_eq!(page.prints("shown").await["text"], "42: 1");
        assert_eq!(page.prints("shown").await["text"], "43: 1");
        has_viewers(&world, "42", 0).await;
        has_viewers(&world, "43", 1).await;
        world.backend().close("43").await;
        assert_eq!(page.prints("shown").await["text"], "43: over, requested");
        assert_eq!(
            page.prints("shown").await["text"],
            "nope: live_not_open, null"
        );

        // The return of the client is refused.
        assert_eq!(page.prints("shown").await["text"], "44: 1");
        link.cut();
        world.backend().ban("44", "u1", 600).await;
        link.heal();
        assert_eq!(page.prints("shown").await["text"], "44: banned, null");

        // Its connection is ended for good.
        assert_eq!(page.prints("shown").await["text"], "45: 1");
        world.backend().remove("45", "u1").await.is(200);
        assert_eq!(page.prints("shown").await["text"], "45: removed, null");
        let (status, said) = page.ends().await;
        assert!(status.success() && said.is_empty(), "{status}: {said}");
    });
}

#[test]
fn the_hook_for_react_has_forty_lines_at_most() {
    let hook = shown("tsx");
    assert!(hook.lines().count() <= 40, "{} lines", hook.lines().count());
}
