//! Owns a tab: what a person does with it, and what they see. A click is a real one, where the
//! element is.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::chromium::{Chromium, Turn};
use super::wait::{fits, same, until};

/// How long a page may take for what should come at once, beside other tests on two cores.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A person with a browser of their own: tabs of one visitor share their storage.
#[derive(Clone)]
pub struct Visitor {
    turn: Arc<Turn>,
    context: String,
}

impl Visitor {
    pub async fn comes() -> Self {
        Self::with(Turn::wait().await).await
    }

    /// Somebody whose browser is to be killed.
    pub async fn with_own_browser() -> Self {
        Self::with(Turn::with_own_browser("own").await).await
    }

    pub fn kills_the_browser(&self) {
        self.turn.chromium.kill();
    }

    async fn with(turn: Turn) -> Self {
        let made = turn
            .chromium
            .call(None, "Target.createBrowserContext", json!({}))
            .await
            .unwrap();
        Self {
            context: made["browserContextId"].as_str().unwrap().to_owned(),
            turn: Arc::new(turn),
        }
    }

    /// Opens an empty tab, in front of the others.
    pub async fn tab(&self) -> Page {
        let chromium = self.turn.chromium;
        let wish = json!({"url": "about:blank", "browserContextId": self.context});
        let target = chromium
            .call(None, "Target.createTarget", wish)
            .await
            .unwrap()["targetId"]
            .clone();
        let wish = json!({"targetId": target, "flatten": true});
        let session = chromium
            .call(None, "Target.attachToTarget", wish)
            .await
            .unwrap()["sessionId"]
            .clone();
        let (target, session) = (
            target.as_str().unwrap().to_owned(),
            session.as_str().unwrap().to_owned(),
        );
        chromium.listen(&session);
        let page = Page {
            visitor: self.clone(),
            target,
            session,
        };
        for domain in ["Page", "Runtime", "Log", "Network", "Performance"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        // The language of the machine must not decide what tests read.
        page.speaks("en-US").await;
        page
    }

    /// Opens a tab that shows this address.
    pub async fn visits(&self, url: impl Display) -> Page {
        let page = self.tab().await;
        page.goes_to(url).await;
        page
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        if Arc::strong_count(&self.turn) == 1 {
            let context = json!({"browserContextId": self.context});
            self.turn
                .chromium
                .tell("Target.disposeBrowserContext", context);
        }
    }
}

/// The dashboard of a live of the streamer `s1`, with `--auth off`.
pub async fn streamer_sees(live: &str, addr: SocketAddr) -> Page {
    Visitor::comes()
        .await
        .visits(format!("http://{addr}/#user=s1&role=streamer&live={live}"))
        .await
}

pub struct Page {
    visitor: Visitor,
    target: String,
    session: String,
}

impl Page {
    fn chromium(&self) -> &'static Chromium {
        self.visitor.turn.chromium
    }

    pub async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self
            .chromium()
            .call(Some(&self.session), method, params)
            .await;
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    pub async fn goes_to(&self, url: impl Display) {
        let gone = self
            .call("Page.navigate", json!({"url": url.to_string()}))
            .await;
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.is("document.readyState", json!("complete")).await;
    }

    /// The value of an expression, awaited if it is a promise.
    pub async fn value(&self, expression: &str) -> Value {
        self.try_value(expression)
            .await
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    async fn try_value(&self, expression: &str) -> Result<Value, String> {
        let wish = json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true});
        // While a page is left, there is nobody to ask.
        let answer = self
            .chromium()
            .call(Some(&self.session), "Runtime.evaluate", wish)
            .await;
        let answer = answer.map_err(|error| error.to_string())?;
        match &answer["exceptionDetails"] {
            Value::Null => Ok(answer["result"]["value"].clone()),
            thrown => Err(thrown.to_string()),
        }
    }

    /// Waits until an expression has this value.
    pub async fn is(&self, expression: &str, wanted: Value) {
        self.is_within(PATIENCE, expression, wanted).await;
    }

    pub async fn is_within(&self, patience: Duration, expression: &str, wanted: Value) {
        until(expression, patience, async || {
            same(self.try_value(expression).await?, wanted.clone())
        })
        .await;
    }

    /// Waits until an element that can be seen has this text.
    pub async fn shows(&self, selector: &str, text: &str) {
        self.is(&visible_text(selector), json!(text)).await;
    }

    /// Waits until its text contains these words.
    pub async fn mentions(&self, selector: &str, words: &str) {
        until(
            &format!("{selector} mentions {words}"),
            PATIENCE,
            async || {
                fits(self.try_value(&visible_text(selector)).await?, |text| {
                    text.as_str().is_some_and(|text| text.contains(words))
                })
            },
        )
        .await;
    }

    /// Waits until the element is there and cannot be seen, or is not there.
    pub async fn hides(&self, selector: &str) {
        self.is(&visible_text(selector), Value::Null).await;
    }

    /// Clicks in the middle of an element, once it can be seen and is enabled.
    pub async fn clicks(&self, selector: &str) {
        let element = json!(selector);
        // A click at a place from which the element moves meanwhile would be lost.
        let place = format!(
            "(async () => {{ const e = document.querySelector({element});
            if (!e?.checkVisibility() || e.disabled) return null;
            e.scrollIntoView({{block: 'center', behavior: 'instant'}});
            const before = e.getBoundingClientRect();
            await new Promise(done => setTimeout(done, 60));
            const r = e.getBoundingClientRect();
            if (r.x !== before.x || r.y !== before.y) return null;
            const at = {{x: r.x + r.width / 2, y: r.y + r.height / 2}};
            const hit = document.elementFromPoint(at.x, at.y);
            return e === hit || e.contains(hit) ? at : null; }})()"
        );
        let at = until(
            &format!("{selector} can be clicked"),
            PATIENCE,
            async || {
                let at = self.try_value(&place).await?;
                if at.is_null() {
                    Err("it cannot".to_owned())
                } else {
                    Ok(at)
                }
            },
        )
        .await;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Writes into a field, in place of what is there.
    pub async fn writes(&self, selector: &str, text: &str) {
        self.clicks(selector).await;
        self.value(&format!(
            "document.querySelector({}).select()",
            json!(selector)
        ))
        .await;
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// Chooses an option of a list.
    pub async fn chooses(&self, selector: &str, value: &str) {
        let (element, value) = (json!(selector), json!(value));
        let choose = format!(
            "(() => {{ const e = document.querySelector({element}); e.value = {value};
            e.dispatchEvent(new Event('change', {{bubbles: true}})); return e.value; }})()"
        );
        assert_eq!(
            self.value(&choose).await,
            value,
            "{selector} has the option"
        );
    }

    /// Presses a key, as in `Tab` or `Enter`.
    pub async fn presses(&self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({"type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    pub async fn speaks(&self, language: &str) {
        let agent = self
            .chromium()
            .call(None, "Browser.getVersion", json!({}))
            .await
            .unwrap()["userAgent"]
            .clone();
        self.call(
            "Network.setUserAgentOverride",
            json!({"userAgent": agent, "acceptLanguage": language}),
        )
        .await;
    }

    pub async fn is_dark(&self) {
        let features = json!([{"name": "prefers-color-scheme", "value": "dark"}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    pub async fn is_as_wide_as(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Comes in front of the visitor's other tabs, which are hidden then.
    pub async fn comes_to_the_front(&self) {
        self.call("Page.bringToFront", json!({})).await;
    }

    /// Its user closes the tab. The page learns of it, other than with [`Self::closes`].
    pub async fn closes_by_hand(self) {
        self.call("Page.close", json!({})).await;
    }

    pub async fn closes(self) {
        let wish = json!({"targetId": self.target});
        self.chromium()
            .call(None, "Target.closeTarget", wish)
            .await
            .unwrap();
    }

    /// Keeps a picture of the page's beginning, below the target folder.
    pub async fn is_photographed(&self, name: &str) {
        self.value("scrollTo({top: 0, behavior: 'instant'})").await;
        let picture = self
            .call("Page.captureScreenshot", json!({"format": "png"}))
            .await;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("browser");
        std::fs::create_dir_all(&folder).unwrap();
        let bytes = BASE64
            .decode(picture["data"].as_str().unwrap().as_bytes())
            .unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// Everything that the page complained about: exceptions, errors in its console, broken
    /// policies, failed requests.
    pub fn complaints(&self) -> Vec<String> {
        let text = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" if params["type"] == "error" => {
                    Some(params["args"].to_string())
                }
                "Log.entryAdded" if params["entry"]["level"] == "error" => Some(format!(
                    "{} {}",
                    params["entry"]["text"], params["entry"]["url"]
                )),
                _ => None,
            }
        };
        self.chromium()
            .heard(&self.session)
            .iter()
            .filter_map(text)
            .collect()
    }

    pub fn does_not_complain(&self) {
        self.complains_only_of(&[]);
    }

    /// It may complain of what the story did to it.
    pub fn complains_only_of(&self, expected: &[&str]) {
        let other = |said: &String| !expected.iter().any(|words| said.contains(words));
        let complaints: Vec<_> = self.complaints().into_iter().filter(other).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// The events of this kind so far.
    pub fn heard(&self, method: &str) -> Vec<Value> {
        let events = self.chromium().heard(&self.session).into_iter();
        events
            .filter(|event| event["method"] == method)
            .map(|event| event["params"].clone())
            .collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the page complained of: {:#?}", self.complaints());
        }
        self.chromium().forget(&self.session);
    }
}

/// The text of an element; null unless it can be seen.
fn visible_text(selector: &str) -> String {
    let element = json!(selector);
    format!(
        "(e => e?.checkVisibility() ? e.textContent.trim() : null)(document.querySelector({element}))"
    )
}
