//! Pages of a platform with the client for apps: pages that are left and shown again, pages with a
//! policy of their own, and the programs of the documents, as their readers run them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::page::{PATIENCE, Visitor};
use crate::site::Site;
use crate::stories;
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::{SLACK, until};
use crate::support::world::World;

/// What a browser says of a request that a page's policy forbids.
const FORBIDDEN: &str = "violates the following Content Security Policy directive";

/// The programs in this language that a document shows.
fn programs(document: &str, language: &str) -> Vec<String> {
    let path = format!("{}/{document}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

/// A text of the documents with the address of the gateway of a story.
fn with_address(text: &str, addr: SocketAddr) -> String {
    text.replace("https://live.example.org", &format!("http://{addr}"))
        .replace("wss://live.example.org", &format!("ws://{addr}"))
        .replace("http://127.0.0.1:8080", &format!("http://{addr}"))
}

/// What a call of the console was given.
fn values_of(args: &Value) -> Value {
    args.as_array()
        .into_iter()
        .flatten()
        .map(|arg| arg["value"].clone())
        .collect()
}

stories! {
    async fn a_page_that_is_left_is_no_viewer_until_its_user_comes_back() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let page = Visitor::comes().await.visits(format!("http://{}/", world.addr)).await;
        let joins = "import('/rollcall.js').then(async ({Rollcall}) => {
            globalThis.client = new Rollcall({userId: 'u1'});
            globalThis.ends = [];
            client.on('state', ({state, reason}) => ends.push(reason ?? state));
            return (await client.join('42')).viewers;
        })";
        assert_eq!(page.value(joins).await, json!(1));
        page.goes_to(format!("http://{}/healthz", world.addr)).await;
        world.viewers_become(0, SLACK).await;

        // The browser shows the same page again, not another copy of it.
        page.value("setTimeout(() => history.back(), 0); null").await;
        page.is("globalThis.ends?.join(' ')", json!("connecting open page_left connecting open")).await;
        world.viewers_become(1, SLACK).await;
        page.does_not_complain();
    }

    async fn a_frozen_tab_stays_a_viewer_and_goes_on_when_it_thaws() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let page = Visitor::comes().await.visits(format!("http://{}/", world.addr)).await;
        let joins = "import('/rollcall.js').then(async ({Rollcall}) => {
            globalThis.client = new Rollcall({userId: 'u1'});
            globalThis.acks = 0;
            client.on('heartbeat_ack', () => acks += 1);
            return (await client.join('42')).viewers;
        })";
        assert_eq!(page.value(joins).await, json!(1));
        page.call("Page.setWebLifecycleState", json!({"state": "frozen"})).await;
        // Several timeouts of this gateway long.
        tokio::time::sleep(3 * world.config.timeout).await;
        world.viewers_become(1, Duration::ZERO).await;
        page.call("Page.setWebLifecycleState", json!({"state": "active"})).await;
        page.value("globalThis.acks = 0").await;
        page.is("acks > 1 && client.status.state", json!("open")).await;
        world.viewers_become(1, Duration::ZERO).await;
        // The browser may end the connection of a page that it froze; then the client has made
        // another.
        page.complains_only_of(&["Page entered Back-Forward Cache"]);
    }

    async fn a_policy_that_allows_the_socket_alone_is_found_out() {
        let site = Site::opens().await;
        let world = World::on_memory(|config| config.origins = vec![site.origin()]).await;
        world.open("42").await;
        let addr = world.addr;
        let policy = format!("script-src 'unsafe-inline' http://{addr}; connect-src ws://{addr}");
        let module = format!(
            "import {{ Rollcall }} from 'http://{addr}/rollcall.js';
            globalThis.states = [];
            const client = new Rollcall({{ url: 'http://{addr}', userId: 'u1' }});
            // A page that has just become visible plans the next attempt anew.
            const note = (said) => said === states.at(-1) || states.push(said);
            client.on('state', ({{ state, reason }}) => note(reason ?? state));
            globalThis.joined = (await client.join('42')).viewers;"
        );
        site.shows("/app", &policy, &module);
        let page = Visitor::comes().await.visits(format!("{}/app", site.origin())).await;
        page.is("globalThis.joined ?? null", json!(1)).await;
        let states = page.value("states.join(' ')").await;
        assert_eq!(states, "connecting unreachable connecting unreachable connecting open");
        assert!(page.complaints().iter().any(|said| said.contains(FORBIDDEN)), "{:?}", page.complaints());
        page.complains_only_of(&[FORBIDDEN, "Refused to connect", "Fetch API cannot load"]);
    }

    async fn the_programs_for_pages_work_under_the_policy_of_the_document() {
        let site = Site::opens().await;
        let world = World::on_memory(|config| {
            with_tokens(config);
            config.origins = vec![site.origin()];
        })
        .await;
        let mut streamer = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        streamer.open("42").await;
        let document = programs("docs/client.md", "js");
        assert_eq!(document.len(), 2, "a viewer and a dashboard");
        // A dashboard shows what a service may see; the token ends with its line, as a program
        // prints it.
        let token = mint(&json!({"sub": "office", "role": "service", "exp": in_seconds(3_600)}));
        site.serves("/my-platform/rollcall-token", "text/plain", &format!("{token}\n"));
        let parts = "const told = globalThis.told = {};
            const show = (viewers, fan) => told.shown = [viewers, fan];
            const showEnd = (reason) => told.end = reason;
            const draw = (counts) => told.drawn = counts.viewers;
            const drawSummary = (closed) => told.summary = closed.reason;\n";
        // The import of a module stands first.
        let module = with_address(&document.concat(), world.addr).replacen('\n', &format!("\n{parts}"), 1);
        let policies = programs("docs/client.md", "");
        let policy = policies.iter().find_map(|text| text.strip_prefix("Content-Security-Policy: ")).unwrap();
        let scripts = format!("script-src 'unsafe-inline' http://{}", world.addr);
        let policy = with_address(&format!("{}; {scripts}", policy.trim()), world.addr);
        let policy = policy.replace("connect-src", "connect-src 'self'");
        site.shows("/app", &policy, &module);
        let page = Visitor::comes().await.visits(format!("{}/app", site.origin())).await;
        page.is("globalThis.told?.drawn ?? null", json!(1)).await;
        page.is("told.shown ?? null", json!([1, false])).await;
        streamer.close_live("42").await;
        page.is("told.end ?? null", json!("requested")).await;
        page.is("told.summary ?? null", json!("requested")).await;
        page.does_not_complain();
    }

    async fn the_program_of_the_readme_tells_what_it_says() {
        let site = Site::opens().await;
        let world = World::on_memory(|config| config.origins = vec![site.origin()]).await;
        world.open("demo").await;
        let client = reqwest::get(format!("http://{}/rollcall.js", world.addr)).await.unwrap().text().await.unwrap();
        site.serves("/rollcall.js", "text/javascript", &client);
        let program = programs("README.md", "js").concat();
        site.shows("/app", "script-src 'self' 'unsafe-inline'", &with_address(&program, world.addr));
        let page = Visitor::comes().await.visits(format!("{}/app", site.origin())).await;
        // A first answer may come before the gateway knows whether the user is a fan.
        until("the program tells viewers, fans and whether the user is one", PATIENCE, async || {
            let said = page.heard("Runtime.consoleAPICalled");
            let told: Vec<Value> = said.iter().map(|call| values_of(&call["args"])).collect();
            if told.contains(&json!([1, 0, false])) { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await;
        page.does_not_complain();
    }
}
