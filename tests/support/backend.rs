//! Owns the verbs of a back end at the HTTP API.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::wait::PATIENCE;

/// How long an idle connection is used again. The gateway closes idle ones after some seconds, and a
/// request that is sent at that moment would be lost.
const IDLE: Duration = Duration::from_secs(1);

/// A client of the HTTP API.
#[derive(Debug, Clone)]
pub struct Backend {
    addr: SocketAddr,
    http: reqwest::Client,
}

/// What the API answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The request, for messages.
    pub request: String,
    /// The status.
    pub status: u16,
    /// The content type, without parameters.
    pub content_type: String,
    /// The request's id, which every answer has.
    pub request_id: String,
    /// The body as it came.
    pub text: String,
    /// The body as JSON; null if it is none.
    pub body: Value,
}

impl Backend {
    /// Talks to the API at this address.
    pub fn at(addr: SocketAddr) -> Self {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .pool_idle_timeout(IDLE)
            .build()
            .unwrap();
        Self { addr, http }
    }

    /// Any request; `body` is sent as it is.
    pub async fn send(&self, method: Method, path: &str, body: Option<&str>) -> Answer {
        self.send_with(method, path, body, &[]).await
    }

    /// The same with an id of the client's for the request.
    pub async fn send_named(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        id: Option<&str>,
    ) -> Answer {
        let header = id.map(|id| ("x-request-id", id));
        self.send_with(method, path, body, header.as_slice()).await
    }

    /// The same with these headers.
    pub async fn send_with(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let request = format!("{method} {path}");
        let mut call = self
            .http
            .request(method, format!("http://{}{path}", self.addr));
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        if let Some(body) = body {
            call = call
                .header("content-type", "application/json")
                .body(body.to_owned());
        }
        let answer = call
            .send()
            .await
            .unwrap_or_else(|error| panic!("{request}: {error}"));
        let status = answer.status().as_u16();
        let content_type = answer
            .headers()
            .get("content-type")
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        let content_type = content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        let request_id = answer
            .headers()
            .get("x-request-id")
            .map(|id| id.to_str().unwrap().to_owned());
        let request_id =
            request_id.unwrap_or_else(|| panic!("{request}: no x-request-id in {answer:?}"));
        let text = answer.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer {
            request,
            status,
            content_type,
            request_id,
            text,
            body,
        }
    }

    /// A request without a body; its status, or `None` if nobody answers.
    pub async fn try_send(&self, method: Method, path: &str) -> Option<u16> {
        let url = format!("http://{}{path}", self.addr);
        let answer = self.http.request(method, url).send().await.ok()?;
        Some(answer.status().as_u16())
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    /// PUT with a JSON body.
    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, Some(&body.to_string())).await
    }

    /// PATCH with a JSON body.
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, Some(&body.to_string()))
            .await
    }

    /// POST with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(&body.to_string())).await
    }

    /// Tells the clients of a live something; its version.
    pub async fn tell(&self, live: &str, info: Value) -> u64 {
        let written = self
            .put(&format!("/v1/lives/{live}/info"), info)
            .await
            .is(200)
            .body;
        written["info_version"].as_u64().expect("a version")
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }

    /// Opens a live for a streamer, or finds it open.
    pub async fn open(&self, live: &str, streamer: &str) -> Value {
        let answer = self
            .put(
                &format!("/v1/lives/{live}"),
                json!({"streamer_id": streamer}),
            )
            .await;
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer.body
    }

    /// Opens a live over so many slices.
    pub async fn open_sliced(&self, live: &str, streamer: &str, slices: u32) -> Value {
        let wish = json!({"streamer_id": streamer, "slices": slices});
        self.put(&format!("/v1/lives/{live}"), wish)
            .await
            .is(201)
            .body
    }

    /// Closes a live.
    pub async fn close(&self, live: &str) -> Value {
        self.delete(&format!("/v1/lives/{live}")).await.is(200).body
    }

    /// What the API says of a live.
    pub async fn live(&self, live: &str) -> Value {
        self.get(&format!("/v1/lives/{live}")).await.is(200).body
    }

    /// Removes a user from a live.
    pub async fn remove(&self, live: &str, user: &str) -> Answer {
        self.send(
            Method::DELETE,
            &format!("/v1/lives/{live}/viewers/{user}"),
            None,
        )
        .await
    }

    /// Removes a user, who may not come back for so many seconds.
    pub async fn ban(&self, live: &str, user: &str, seconds: u64) -> Value {
        self.put(
            &format!("/v1/lives/{live}/bans/{user}"),
            json!({"ban_s": seconds}),
        )
        .await
        .is(200)
        .body
    }

    /// Makes a user follow a streamer.
    pub async fn follow(&self, user: &str, streamer: &str) {
        let answer = self
            .put(&format!("/v1/users/{user}/following/{streamer}"), json!({}))
            .await;
        assert!((200..300).contains(&answer.status), "{answer:?}");
    }

    /// Takes a follow back.
    pub async fn unfollow(&self, user: &str, streamer: &str) {
        let answer = self
            .delete(&format!("/v1/users/{user}/following/{streamer}"))
            .await;
        assert!((200..300).contains(&answer.status), "{answer:?}");
    }

    /// Every item of a paged listing, in pages of `limit`, in the order in which they came.
    pub async fn list(&self, path: &str, limit: usize) -> Vec<Value> {
        let more = if path.contains('?') { '&' } else { '?' };
        let mut items = Vec::new();
        let mut cursor = String::new();
        for _ in 0..10_000 {
            let page = self
                .get(&format!("{path}{more}limit={limit}{cursor}"))
                .await
                .is(200);
            let got = page.body["items"]
                .as_array()
                .unwrap_or_else(|| panic!("no items: {page:?}"));
            assert!(
                got.len() <= limit,
                "a page of {} with limit {limit}: {path}",
                got.len()
            );
            items.extend(got.iter().cloned());
            cursor = match &page.body["cursor"] {
                Value::Null => return items,
                Value::String(text) => format!("&cursor={text}"),
                other => format!("&cursor={other}"),
            };
        }
        panic!("{path} has no end");
    }

    /// The users of a paged listing, in the order in which they came.
    pub async fn users(&self, path: &str, limit: usize) -> Vec<String> {
        let items = self.list(path, limit).await;
        let user = |item: &Value| item["user_id"].as_str().unwrap().to_owned();
        items.iter().map(user).collect()
    }

    /// The fans online, as the API lists them; each must come once.
    pub async fn fans(&self, live: &str) -> BTreeSet<String> {
        let listed = self.users(&format!("/v1/lives/{live}/fans"), 1_000).await;
        let fans: BTreeSet<String> = listed.iter().cloned().collect();
        assert_eq!(fans.len(), listed.len(), "a fan came twice: {listed:?}");
        fans
    }
}

impl Answer {
    /// Has this status.
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Is a problem document with this status; its code.
    pub fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.content_type, "application/problem+json", "{self:?}");
        assert_eq!(self.body["status"], status, "{self:?}");
        for field in ["type", "title", "detail", "code"] {
            assert!(
                self.body[field].as_str().is_some_and(|s| !s.is_empty()),
                "no {field}: {self:?}"
            );
        }
        assert_eq!(
            self.body["request_id"],
            self.request_id.as_str(),
            "{self:?}"
        );
        self.body["code"].as_str().unwrap().to_owned()
    }
}
