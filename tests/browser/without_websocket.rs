//! Viewers behind a proxy that lets no WebSocket through: they join, are counted and leave as all
//! others do.

use std::time::Duration;

use rollcall::config::Config;
use serde_json::json;
use tokio::time::Instant;

use crate::page::Visitor;
use crate::proxy::Proxy;
use crate::site::Site;
use crate::stories;
use crate::support::dashboard::{Dashboard, fans, viewers};
use crate::support::link::Link;
use crate::support::redis_view::Redis;
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::{PATIENCE, SLACK, same, throughout, until};
use crate::support::world::World;

/// How soon after the load of a page its viewer is in the live.
const JOINED_WITHIN: Duration = Duration::from_secs(4);

/// How long a viewer may still be counted after the page was closed, or after the timeout.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// What a browser says of a WebSocket that did not open.
const NO_SOCKET: &str = "WebSocket connection to";

/// The viewer page of this user, who joins live 42.
fn viewer_page(proxy: &Proxy, user: &str, way: &str) -> String {
    format!(
        "http://{}/demo#user={user}&live=42&way={way}&join=1",
        proxy.addr()
    )
}

/// A silent viewer is counted for much longer than a story waits, so who is gone has left.
fn patient(config: &mut Config) {
    config.timeout = Duration::from_secs(60);
}

/// How often nobody was counted after somebody had come.
fn times_gone(dashboard: &Dashboard) -> usize {
    let counted = dashboard.log.iter().map(|counts| counts.number("viewers"));
    let since_somebody_came = counted.skip_while(|viewers| *viewers == 0);
    since_somebody_came.filter(|viewers| *viewers == 0).count()
}

stories! {
    async fn a_viewer_joins_is_counted_and_leaves_without_a_websocket() {
        let world = World::on_memory(patient).await;
        let proxy = Proxy::before(world.addr).await;
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut dashboard = world.dashboard("42").await;
        let visitor = Visitor::comes().await;
        let page = visitor.tab().await;
        let loaded = Instant::now();
        page.goes_to(viewer_page(&proxy, "u1", "auto")).await;
        dashboard.sees(viewers(1), fans(1)).await;
        assert!(loaded.elapsed() < JOINED_WITHIN + SLACK, "{:?}", loaded.elapsed());
        let shown = "performance.now()";
        page.shows("#way-used", "Connected by HTTP, without a WebSocket.").await;
        assert!(page.value(shown).await.as_f64().unwrap() < 4_000.0);

        // What others do arrives, and how it stands.
        page.shows("#viewers", "1").await;
        let other = world.viewer_in("u2", "42").await;
        page.shows("#viewers", "2").await;
        page.shows("#fan", "You are a fan.").await;
        page.mentions("#ack", "viewers 2, fans 1").await;
        other.close().await;
        page.shows("#viewers", "1").await;

        // A tab beside a socket, and both of the same user, is one viewer.
        let socket = world.viewer_in("u1", "42").await;
        page.clicks("#leave").await;
        page.shows("#place", "In no live.").await;
        world.viewers_become(1, SLACK).await;
        socket.close().await;
        world.viewers_become(0, SLACK).await;
        page.clicks("#join").await;
        page.shows("#place", "In the live 42.").await;
        world.viewers_become(1, SLACK).await;
        page.complains_only_of(&[NO_SOCKET]);

        page.closes_by_hand().await;
        world.viewers_become(0, GONE_WITHIN).await;
    }

    async fn a_page_that_is_left_leaves_by_a_beacon_and_joins_again_when_it_is_back() {
        let world = World::on_memory(patient).await;
        let proxy = Proxy::before(world.addr).await;
        world.open("42").await;
        let page = Visitor::comes().await.visits(viewer_page(&proxy, "u1", "http")).await;
        page.shows("#place", "In the live 42.").await;
        world.viewers_become(1, SLACK).await;
        page.value("globalThis.isTheSamePage = true; null").await;
        page.goes_to(format!("http://{}/healthz", proxy.addr())).await;
        world.viewers_become(0, GONE_WITHIN).await;
        page.value("setTimeout(() => history.back(), 0); null").await;
        page.is("globalThis.isTheSamePage ?? false", json!(true)).await;
        page.is("document.querySelector('#log').textContent.split('\"joined\"').length - 1", json!(2)).await;
        page.shows("#way-used", "Connected by HTTP, without a WebSocket.").await;
        world.viewers_become(1, Duration::ZERO).await;
        page.closes_by_hand().await;
        world.viewers_become(0, GONE_WITHIN).await;
    }

    async fn a_viewer_whose_browser_is_killed_is_gone_after_the_timeout() {
        let world = World::on_memory(|_| ()).await;
        let proxy = Proxy::before(world.addr).await;
        world.open("42").await;
        let visitor = Visitor::with_own_browser().await;
        let page = visitor.visits(viewer_page(&proxy, "u1", "auto")).await;
        page.shows("#place", "In the live 42.").await;
        world.viewers_become(1, SLACK).await;
        throughout("the viewer stays", 2 * world.config.timeout, async || {
            same(world.backend().live("42").await["viewers"].as_u64().unwrap(), 1)
        })
        .await;
        visitor.kills_the_browser();
        world.viewers_become(0, world.config.timeout + GONE_WITHIN).await;
    }

    async fn a_viewer_whose_network_is_lost_without_a_word_is_gone_after_the_timeout_and_comes_back() {
        let world = World::on_memory(|_| ()).await;
        let proxy = Proxy::before(world.addr).await;
        let link = Link::to(proxy.addr()).await;
        world.open("42").await;
        let url = format!("http://{}/demo#user=u1&live=42&way=http&join=1", link.addr());
        let page = Visitor::comes().await.visits(url).await;
        page.shows("#place", "In the live 42.").await;
        world.viewers_become(1, SLACK).await;
        // The proxy goes on to hold the stream of events open.
        link.stall();
        world.viewers_become(0, world.config.timeout + GONE_WITHIN).await;
        link.heal();
        world.viewers_become(1, PATIENCE).await;
        page.shows("#place", "In the live 42.").await;
        page.complains_only_of(&["net::ERR_", "404"]);
    }

    async fn a_viewer_in_a_hidden_tab_stays_though_its_timers_are_late() {
        let world = World::on_memory(|_| ()).await;
        let proxy = Proxy::before(world.addr).await;
        world.open("42").await;
        let visitor = Visitor::comes().await;
        let page = visitor.visits(viewer_page(&proxy, "u1", "http")).await;
        page.shows("#place", "In the live 42.").await;
        let other = visitor.tab().await;
        other.comes_to_the_front().await;
        page.is("document.hidden", json!(true)).await;
        // Its timers never run, which is worse than what any browser does to a hidden page.
        page.value("globalThis.setTimeout = () => 0; null").await;
        world.viewers_become(1, SLACK).await;
        throughout("the viewer stays", 4 * world.config.timeout, async || {
            same(world.backend().live("42").await["viewers"].as_u64().unwrap(), 1)
        })
        .await;
        page.does_not_complain();
    }

    async fn a_viewer_whom_a_moderator_removes_stays_away() {
        let world = World::on_memory(|_| ()).await;
        let proxy = Proxy::before(world.addr).await;
        world.open("42").await;
        let page = Visitor::comes().await.visits(viewer_page(&proxy, "u1", "http")).await;
        page.shows("#place", "In the live 42.").await;
        world.backend().remove("42", "u1").await.is(200);
        page.shows("#place", "A moderator removed this user.").await;
        world.viewers_become(0, SLACK).await;
        throughout("the user stays away", 2 * world.config.timeout, async || {
            same(world.backend().live("42").await["viewers"].as_u64().unwrap(), 0)
        })
        .await;
        page.complains_only_of(&["403"]);
    }

    async fn a_viewer_goes_on_when_the_gateway_is_killed() {
        let redis = Redis::start().await;
        let mut first = World::program(redis.clone()).await;
        let second = World::program(redis).await;
        let link = Link::to(first.addr).await;
        let proxy = Proxy::before(link.addr()).await;
        first.open("42").await;
        let page = Visitor::comes().await.visits(viewer_page(&proxy, "u1", "http")).await;
        page.shows("#place", "In the live 42.").await;
        second.viewers_become(1, SLACK).await;
        first.process().kill();
        link.lead_to(second.addr);
        until("the viewer is on the second gateway", PATIENCE, async || {
            let known = second.backend().get("/v1/gateway/lives/42/viewers/u1").await.is(200);
            same(known.body["joined"].as_bool(), Some(true))
        })
        .await;
        page.shows("#place", "In the live 42.").await;
        second.viewers_become(1, SLACK).await;
    }

    async fn a_viewer_goes_over_to_a_websocket_when_one_opens_and_is_counted_all_the_time() {
        let world = World::on_memory(|_| ()).await;
        let proxy = Proxy::before(world.addr).await;
        let link = Link::to(proxy.addr()).await;
        world.open("42").await;
        let page = Visitor::comes().await.tab().await;
        // A minute takes a second, but for what the client does at the gateway's pace.
        let hurry = "const real = setTimeout; setTimeout = (act, ms) => real(act, ms > 30_000 ? ms / 30 : ms);";
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": hurry})).await;
        page.goes_to(format!("http://{}/demo#user=u1&live=42&join=1", link.addr())).await;
        page.shows("#way-used", "Connected by HTTP, without a WebSocket.").await;
        world.viewers_become(1, SLACK).await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(1), fans(0)).await;
        // The user goes home, where there is no such proxy.
        link.lead_to(world.addr);
        page.shows("#way-used", "Connected by WebSocket.").await;
        page.shows("#place", "In the live 42.").await;
        dashboard.listen(2 * world.config.timeout).await;
        assert_eq!(times_gone(&dashboard), 0, "{}", dashboard.seen());
        world.viewers_become(1, Duration::ZERO).await;
        page.complains_only_of(&[NO_SOCKET]);
    }

    async fn a_page_of_another_origin_joins_and_leaves_without_a_websocket() {
        let site = Site::opens().await;
        let world = World::on_memory(|config| {
            patient(config);
            config.origins = vec![site.origin()];
        })
        .await;
        let proxy = Proxy::before(world.addr).await;
        world.open("42").await;
        let gateway = format!("http://{}", proxy.addr());
        let module = format!(
            "import {{ Rollcall }} from '{gateway}/rollcall.js';
            const client = new Rollcall({{ url: '{gateway}', userId: 'u1', way: 'http' }});
            client.on('counts', ({{ viewers }}) => globalThis.viewers = viewers);
            client.on('heartbeat_ack', ({{ fan }}) => globalThis.fan = fan);
            await client.join('42', {{ counts: true }});
            globalThis.leave = () => client.leave();
            globalThis.join = () => client.join('42');"
        );
        // Neither its policy nor its origin needs more than for a WebSocket.
        let policy = format!("script-src 'unsafe-inline' {gateway}; connect-src {gateway}");
        site.shows("/app", &policy, &module);
        let page = Visitor::comes().await.visits(format!("{}/app", site.origin())).await;
        page.is("[globalThis.viewers, globalThis.fan]", json!([1, false])).await;
        let other = world.viewer_in("u2", "42").await;
        page.is("globalThis.viewers", json!(2)).await;
        other.close().await;
        page.is("globalThis.viewers", json!(1)).await;
        page.value("leave().then(() => null)").await;
        world.viewers_become(0, SLACK).await;
        page.value("join().then(() => null)").await;
        world.viewers_become(1, SLACK).await;
        page.does_not_complain();
        page.closes_by_hand().await;
        world.viewers_become(0, GONE_WITHIN).await;
    }

    async fn a_viewer_is_counted_all_the_time_while_the_token_is_renewed() {
        let world = World::on_memory(with_tokens).await;
        let proxy = Proxy::before(world.addr).await;
        let mut streamer = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        streamer.open("42").await;
        let mut dashboard = Dashboard::at(streamer);
        dashboard.watch("42").await;
        let page = Visitor::comes().await.visits(format!("http://{}/", proxy.addr())).await;
        let token = |seconds| mint(&json!({"sub": "u1", "role": "viewer", "exp": in_seconds(seconds)}));
        let tokens = [token(4), token(3_600)];
        let script = format!(
            "import('/rollcall.js').then(async ({{Rollcall}}) => {{
               const tokens = {};
               globalThis.client = new Rollcall({{token: () => tokens.shift()}});
               const renewed = new Promise((resolve) => client.on('refreshed', resolve));
               await client.join('42');
               return (await renewed).expires_at > Date.now() + 3_000_000;
             }})",
            json!(tokens)
        );
        assert_eq!(page.value(&script).await, true);
        dashboard.sees(viewers(1), fans(0)).await;
        dashboard.listen(2 * world.config.timeout).await;
        assert_eq!(times_gone(&dashboard), 0, "{}", dashboard.seen());
        assert_eq!(page.value("[client.way, client.status.state]").await, json!(["http", "open"]));
        page.complains_only_of(&[NO_SOCKET]);
        page.closes_by_hand().await;
        dashboard.sees(viewers(0), fans(0)).await;
    }

    async fn a_streamer_sees_the_counts_without_a_websocket() {
        let world = World::on_memory(|_| ()).await;
        let proxy = Proxy::before(world.addr).await;
        world.open("42").await;
        let url = format!("http://{}/#user=s1&role=streamer&live=42", proxy.addr());
        let page = Visitor::comes().await.visits(url).await;
        page.shows("#viewers", "0").await;
        let viewer = world.viewer_in("u1", "42").await;
        page.shows("#viewers", "1").await;
        viewer.close().await;
        page.shows("#viewers", "0").await;
        world.backend().close("42").await;
        page.shows("#state-text", "This live is not open.").await;
        page.complains_only_of(&[NO_SOCKET, "409"]);
    }

    async fn the_viewer_page_goes_the_way_that_is_chosen() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let page = Visitor::comes().await.visits(format!("http://{}/demo#user=u1&live=42&join=1", world.addr)).await;
        page.shows("#way-used", "Connected by WebSocket.").await;
        page.chooses("#way", "http").await;
        page.shows("#way-used", "Connected by HTTP, without a WebSocket.").await;
        page.shows("#place", "In the live 42.").await;
        page.chooses("#way", "socket").await;
        page.shows("#way-used", "Connected by WebSocket.").await;
        world.viewers_become(1, SLACK).await;
        page.does_not_complain();
    }
}
