//! Keys change while a gateway runs, with nobody who could send it a signal: it watches their
//! files, and reads them again when a back end says so. A file that cannot be used changes nothing,
//! and the operator learns it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::command::run;
use crate::support::issuer::{Issuer, SECRET, claims, hs256};
use crate::support::presence::Events;
use crate::support::program::Program;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, becomes};
use crate::support::world::timings;

/// The keys of back ends in a Secret that Kubernetes mounts: each file is a link through the link
/// `..data`, which is exchanged when the Secret changes.
struct Mount {
    folder: tempfile::TempDir,
    versions: usize,
}

impl Mount {
    fn new(keys: &[&Key]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink("..data/api-keys", folder.path().join("api-keys")).unwrap();
        let mut mount = Self {
            folder,
            versions: 0,
        };
        mount.changes_to(&keys.iter().map(|key| key.line.as_str()).collect::<String>());
        mount
    }

    fn file(&self) -> PathBuf {
        self.place("api-keys")
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn changes_to(&mut self, text: &str) {
        self.versions += 1;
        let data = format!("..{}", self.versions);
        fs::create_dir(self.place(&data)).unwrap();
        fs::write(self.place(&data).join("api-keys"), text).unwrap();
        symlink(&data, self.place("..data_tmp")).unwrap();
        fs::rename(self.place("..data_tmp"), self.place("..data")).unwrap();
    }
}

/// A back end's key, and its line in the file.
struct Key {
    text: String,
    line: String,
}

impl Key {
    fn new(name: &str, scopes: &str) -> Self {
        let out = run(&format!("key --name {name} --scopes {scopes}"))
            .is(0)
            .out;
        let (text, line) = out.split_once('\n').unwrap();
        Self {
            text: text.to_owned(),
            line: line.to_owned(),
        }
    }

    async fn calls(&self, addr: SocketAddr, method: Method, path: &str) -> (u16, Value) {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .build()
            .unwrap();
        let call = client
            .request(method, format!("http://{addr}{path}"))
            .bearer_auth(&self.text);
        let answer = call.send().await.unwrap();
        let status = answer.status().as_u16();
        (
            status,
            serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default(),
        )
    }

    async fn opens(&self, addr: SocketAddr, live: &str) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let call = client.put(format!("http://{addr}/v1/lives/{live}"));
        let call = call
            .bearer_auth(&self.text)
            .json(&json!({"streamer_id": "s1"}));
        assert_eq!(call.send().await.unwrap().status(), 201);
    }

    async fn watches(&self, addr: SocketAddr, live: &str) -> Events {
        Events::open(addr, &format!("/v1/lives/{live}/events"), Some(&self.text)).await
    }

    async fn is_good(&self, addr: SocketAddr) -> bool {
        self.calls(addr, Method::GET, "/v1/lives").await.0 == 200
    }

    async fn becomes(&self, addr: SocketAddr, good: bool) {
        becomes("the key counts, or counts no more", good, async || {
            self.is_good(addr).await
        })
        .await;
    }

    async fn reloads(&self, addr: SocketAddr) -> (u16, Value) {
        self.calls(addr, Method::POST, "/v1/gateway/reload").await
    }

    /// A figure of the gateway.
    async fn figure(&self, addr: SocketAddr, name: &str) -> Option<String> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .build()
            .unwrap();
        let call = client
            .get(format!("http://{addr}/metrics"))
            .bearer_auth(&self.text);
        let text = call.send().await.unwrap().text().await.unwrap();
        text.lines()
            .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_owned()))
    }
}

async fn gateway(issuer: &Issuer, keys: &Path) -> Program {
    let (secret, keys) = (
        issuer.file().display().to_string(),
        keys.display().to_string(),
    );
    let options = format!("--auth jwt --jwt-hs256-secret-file {secret} --api-keys {keys}");
    Program::start_with(&timings(), &options).await
}

async fn unusable_files_are(key: &Key, addr: SocketAddr, count: &str) {
    becomes(
        "the gateway counts files that it cannot use",
        Some(count.to_owned()),
        async || key.figure(addr, "rollcall_files_unusable").await,
    )
    .await;
}

#[test]
fn a_key_that_is_taken_out_of_a_mounted_secret_opens_nothing_within_seconds() {
    story(async {
        let issuer = Issuer::new();
        let (shop, ops, new) = (
            Key::new("shop", "read"),
            Key::new("ops", "read"),
            Key::new("new", "read"),
        );
        let mut mount = Mount::new(&[&shop, &ops]);
        let program = gateway(&issuer, &mount.file()).await;
        assert!(shop.is_good(program.addr).await && ops.is_good(program.addr).await);
        mount.changes_to(&format!("{}{}", ops.line, new.line));
        shop.becomes(program.addr, false).await;
        assert!(ops.is_good(program.addr).await && new.is_good(program.addr).await);
        program
            .logs(&["API keys are in force", "added=\"new\"", "revoked=\"shop\""])
            .await;
    });
}

#[test]
fn a_stream_of_events_ends_with_the_key_that_opened_it() {
    story(async {
        let issuer = Issuer::new();
        let (shop, ops) = (Key::new("shop", "read"), Key::new("ops", "read,write"));
        let mut mount = Mount::new(&[&shop, &ops]);
        let program = gateway(&issuer, &mount.file()).await;
        ops.opens(program.addr, "42").await;
        let mut revoked = shop.watches(program.addr, "42").await;
        let mut other = ops.watches(program.addr, "42").await;
        mount.changes_to(&ops.line);
        let why = revoked.hears("unauthorized", |_| true).await;
        assert!(
            why["message"].as_str().unwrap().contains("API key"),
            "{why}"
        );
        revoked.ends().await;
        assert_eq!(
            shop.calls(program.addr, Method::GET, "/v1/lives/42/events")
                .await
                .0,
            401
        );
        other.hears("counts", |_| true).await;
        ops.calls(program.addr, Method::DELETE, "/v1/lives/42")
            .await;
        other.hears("closed", |_| true).await;
    });
}

#[test]
fn a_stream_of_events_ends_with_its_token_and_says_so() {
    story(async {
        let issuer = Issuer::new();
        let ops = Key::new("ops", "read,write");
        let mount = Mount::new(&[&ops]);
        let program = gateway(&issuer, &mount.file()).await;
        ops.opens(program.addr, "42").await;
        // The gateway lets clocks differ by 30 s.
        let mut claims = claims("s9", &json!({"role": "service"}));
        claims["exp"] = json!(claims["exp"].as_u64().unwrap() - 3_600 - 26);
        let token = hs256(SECRET, &claims);
        let path = format!("/v1/lives/42/events?token={token}");
        let mut events = Events::open(program.addr, &path, None).await;
        events.hears("counts", |_| true).await;
        let why = events.hears("unauthorized", |_| true).await;
        assert_eq!(why["message"], "the token has expired");
        events.ends().await;
    });
}

#[test]
fn a_file_of_keys_that_is_emptied_keeps_them_and_says_so() {
    story(async {
        let issuer = Issuer::new();
        let (ops, new) = (Key::new("ops", "read"), Key::new("new", "read"));
        let mut mount = Mount::new(&[&ops]);
        let program = gateway(&issuer, &mount.file()).await;
        for empty in ["", "# ops left\n"] {
            mount.changes_to(empty);
            unusable_files_are(&ops, program.addr, "1").await;
        }
        program.logs(&["ERROR", "the file names no key"]).await;
        mount.changes_to(&new.line);
        new.becomes(program.addr, true).await;
        unusable_files_are(&new, program.addr, "0").await;
        assert!(!ops.is_good(program.addr).await);
    });
}

#[test]
fn a_broken_file_keeps_the_old_keys_and_says_so() {
    story(async {
        let issuer = Issuer::new();
        let (ops, new) = (Key::new("ops", "read,moderate"), Key::new("new", "read"));
        let mut mount = Mount::new(&[&ops]);
        let program = gateway(&issuer, &mount.file()).await;
        mount.changes_to("ops read\n");
        unusable_files_are(&ops, program.addr, "1").await;
        program
            .logs(&["ERROR", "what=\"the API keys\"", "api-keys: line 1: "])
            .await;
        let (status, problem) = ops.reloads(program.addr).await;
        assert_eq!(
            (status, problem["code"].as_str()),
            (409, Some("bad_files")),
            "{problem}"
        );
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("api-keys: line 1: "),
            "{problem}"
        );
        assert!(ops.is_good(program.addr).await && !new.is_good(program.addr).await);
        mount.changes_to(&format!("{}{}", ops.line, new.line));
        new.becomes(program.addr, true).await;
        unusable_files_are(&ops, program.addr, "0").await;
    });
}

#[test]
fn a_back_end_that_may_has_the_files_read_at_once_and_is_named_in_the_log() {
    story(async {
        let issuer = Issuer::new();
        let (shop, ops) = (Key::new("shop", "read,write"), Key::new("ops", "moderate"));
        let mut mount = Mount::new(&[&shop, &ops]);
        let program = gateway(&issuer, &mount.file()).await;
        assert_eq!(shop.reloads(program.addr).await.0, 403);
        mount.changes_to(&ops.line);
        let (status, reloaded) = ops.reloads(program.addr).await;
        assert_eq!(status, 200, "{reloaded}");
        assert_eq!(
            reloaded["read"],
            serde_json::json!(["the API keys", "the keys of tokens"])
        );
        assert!(
            !shop.is_good(program.addr).await,
            "it is revoked with the answer"
        );
        program
            .logs(&["as asked over HTTP", "by=\"key:ops\""])
            .await;
    });
}
