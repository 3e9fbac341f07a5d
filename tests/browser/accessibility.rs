//! Everybody can use the pages: axe-core finds nothing serious, in light and dark, on a phone, in
//! English and Chinese; the keyboard reaches everything; and screen readers are told the figures,
//! but not too often.

use serde_json::{Value, json};

use crate::page::{PATIENCE, Page, Visitor, streamer_sees};
use crate::stories;
use crate::support::wait::{same, until};
use crate::support::world::World;

/// https://github.com/dequelabs/axe-core, for these tests only.
const AXE: &str = include_str!("vendor/axe.js");

/// A phone of the smallest kind.
const PHONE: (u32, u32) = (320, 640);

/// Lets axe-core look at the page as it is now.
async fn has_no_serious_finding(page: &Page, what: &str) {
    page.value(&format!("{AXE};0")).await;
    let found = page
        .value("axe.run().then(({violations}) => violations)")
        .await;
    let is_serious =
        |finding: &&Value| finding["impact"] == "serious" || finding["impact"] == "critical";
    let serious: Vec<_> = found
        .as_array()
        .unwrap()
        .iter()
        .filter(is_serious)
        .collect();
    let short = |finding: &&Value| {
        format!(
            "{} {} {}",
            finding["id"], finding["help"], finding["nodes"][0]["html"]
        )
    };
    assert!(
        serious.is_empty(),
        "{what}: {:#?}",
        serious.iter().map(short).collect::<Vec<_>>()
    );
}

async fn fits(page: &Page, what: &str) {
    let wide = page
        .value("document.documentElement.scrollWidth - innerWidth")
        .await;
    assert!(wide.as_i64().unwrap() <= 0, "{what}: {wide} px too wide");
}

/// A live with a fan, a viewer, and somebody who is banned.
async fn lively() -> (World, Vec<crate::support::viewer::Viewer>) {
    let world = World::on_memory(|_| ()).await;
    let mut crowd = world.live_with_fans(2).await;
    crowd.push(world.viewer_in("v", "42").await);
    world.backend().ban("42", "rude", 600).await;
    (world, crowd)
}

stories! {
    async fn every_page_passes_in_light_and_dark_wide_and_narrow() {
        let (world, _crowd) = lively().await;
        let visitor = Visitor::comes().await;
        for (path, ready) in [
            ("/", "#sign-in-title"),
            ("/#user=office&role=service", "#lives-body button"),
            ("/#user=s1&role=streamer&live=42", "#bans-list .id"),
            ("/#user=s1&role=streamer&live=none", "#open-form"),
            ("/demo#user=u9&live=42&join=1", "#friends-note"),
        ] {
            for (look, dark) in [("light", false), ("dark", true)] {
                let page = visitor.tab().await;
                if dark {
                    page.is_dark().await;
                }
                page.goes_to(format!("http://{}{path}", world.addr)).await;
                let seen = format!("document.querySelector({})?.checkVisibility() ?? false", json!(ready));
                page.is(&seen, json!(true)).await;
                let name = format!("{look}{}", path.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
                has_no_serious_finding(&page, &name).await;
                page.is_photographed(&name).await;
                page.is_as_wide_as(PHONE.0, PHONE.1).await;
                fits(&page, &name).await;
                has_no_serious_finding(&page, &format!("{name}, narrow")).await;
                page.is_photographed(&format!("{name}-phone")).await;
                page.does_not_complain();
                page.closes().await;
            }
        }
    }

    async fn dialogs_pass_too() {
        let (world, _crowd) = lively().await;
        let page = streamer_sees("42", world.addr).await;
        page.clicks("#fans-list button").await;
        has_no_serious_finding(&page, "the dialog that removes").await;
        page.presses("Escape").await;
        page.clicks("#close-live").await;
        has_no_serious_finding(&page, "the dialog that closes").await;
        page.does_not_complain();
    }

    async fn a_chinese_browser_reads_chinese_and_may_change() {
        let (world, _crowd) = lively().await;
        let page = Visitor::comes().await.tab().await;
        page.speaks("zh-CN").await;
        page.goes_to(format!("http://{}/#user=s1&role=streamer&live=42", world.addr)).await;
        page.shows("#state-text", "已连接，数据准确。").await;
        page.shows("#fans-title", "在线粉丝").await;
        page.is("document.documentElement.lang", json!("zh-CN")).await;
        page.shows("#bans-list .id", "rude").await;
        page.is_photographed("chinese").await;
        has_no_serious_finding(&page, "Chinese").await;
        page.clicks("[data-language=en]").await;
        page.shows("#fans-title", "Fans online").await;
        page.shows("#state-text", "Connected. The figures are exact.").await;
        // What was written into lists changes too.
        page.is("document.querySelector('#bans-list button').ariaLabel", json!("Lift the ban of rude")).await;
        page.is("document.querySelector('#fans-list button').ariaLabel", json!("Remove or ban u0")).await;
        // No text was forgotten: what is written in the page is in the words, in both languages.
        let missing = "import('/pages/words.js').then(({LANGUAGES: {en, zh}}) => [
            ...Object.keys(en.words).filter(key => !(key in zh.words)),
            ...[...document.querySelectorAll('[data-t]')].map(e => e.dataset.t).filter(key => !(key in en.words))])";
        assert_eq!(page.value(missing).await, json!([]));
        page.goes_to(format!("http://{}/demo#user=u9&live=42&join=1", world.addr)).await;
        page.shows("#room-title", "In the room").await;
        assert_eq!(page.value(missing).await, json!([]));
        page.does_not_complain();
    }

    async fn the_keyboard_reaches_everything_and_the_chart_tells_its_values() {
        let (world, _crowd) = lively().await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#bans-list .id", "rude").await;
        page.is("document.querySelectorAll('#fans-list .id').length", json!(2)).await;
        page.value("document.activeElement.blur(), window.reached = new Set()").await;
        let missed = "[...document.querySelectorAll('button, input, select, a, [tabindex=\"0\"], summary')]\
                      .filter(e => e.checkVisibility() && !reached.has(e)).map(e => e.outerHTML)";
        // A list that is told anew while the keys are pressed has new buttons: then another round reaches them.
        until("the keyboard reaches everything", PATIENCE, async || {
            for _ in 0..20 {
                page.presses("Tab").await;
                page.value("void reached.add(document.activeElement)").await;
            }
            same(page.value(missed).await, json!([]))
        }).await;
        page.value("document.querySelector('#chart').focus()").await;
        page.presses("End").await;
        page.mentions("#chart-values", "viewers 3, fans 2").await;
        page.does_not_complain();
    }

    async fn a_screen_reader_is_told_the_figures_once_in_a_while() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#announcer", "Viewers 0, fans 0.").await;
        let observe = "window.told = 0; new MutationObserver(() => { window.told += 1; })\
                       .observe(document.querySelector('#announcer'), {childList: true, subtree: true})";
        page.value(observe).await;
        let _crowd = world.crowd("u", 30, "42").await;
        page.shows("#viewers", "30").await;
        page.shows("#announcer", "Viewers 30, fans 0.").await;
        let told = page.value("window.told").await;
        // Text that is replaced is one change, or two: the old one goes, the new one comes.
        assert!(told.as_u64().unwrap() <= 4, "{told}");
        page.does_not_complain();
    }
}
