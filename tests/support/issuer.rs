//! Owns what an issuer of tokens has: a secret in a file, keys that openssl makes, tokens signed
//! with them, and a small HTTP server that shows the public keys.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A secret as an operator makes it.
pub const SECRET: &str = "a-secret-of-more-than-32-bytes-hunter2";

/// An issuer with a secret, whose file is gone when it is dropped.
pub struct Issuer {
    dir: TempDir,
}

impl Issuer {
    /// With [`SECRET`].
    pub fn new() -> Self {
        let issuer = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        issuer.writes(SECRET);
        issuer
    }

    /// The file with the secret.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("secret")
    }

    /// Replaces the secret in the file.
    pub fn writes(&self, secret: &str) {
        std::fs::write(self.file(), format!("{secret}\n")).unwrap();
    }
}

/// Claims of a user, good for an hour; `more` adds to them.
pub fn claims(user: &str, more: &Value) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let mut claims = json!({ "sub": user, "exp": now + 3_600 });
    claims
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    claims
}

/// A token signed with a secret.
pub fn hs256(secret: &str, claims: &Value) -> String {
    encode(
        &Header::new(Algorithm::HS256),
        claims,
        &EncodingKey::from_secret(secret.as_bytes()),
    )
    .unwrap()
}

/// A P-256 key with a name.
pub struct NamedKey {
    id: String,
    key: EncodingKey,
}

impl NamedKey {
    /// A new key.
    pub fn new(id: &str) -> Self {
        let mut command = Command::new("openssl");
        command
            .args("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256".split(' '))
            .stdin(Stdio::null());
        let out = command
            .output()
            .unwrap_or_else(|e| panic!("openssl cannot be started ({e})"));
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        Self {
            id: id.to_owned(),
            key: EncodingKey::from_ec_pem(&out.stdout).unwrap(),
        }
    }

    /// A token that names the key.
    pub fn signs(&self, claims: &Value) -> String {
        let header = Header {
            kid: Some(self.id.clone()),
            ..Header::new(Algorithm::ES256)
        };
        encode(&header, claims, &self.key).unwrap()
    }

    fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        serde_json::to_value(jwk).unwrap()
    }
}

/// Shows a key set over HTTP.
pub struct KeyServer {
    /// Where the set is.
    pub url: String,
    set: Arc<Mutex<String>>,
    asked: Arc<AtomicU64>,
}

impl KeyServer {
    /// Shows these keys.
    pub async fn new(keys: &[&NamedKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        let server = Self {
            url,
            set: Arc::default(),
            asked: Arc::default(),
        };
        server.shows(keys);
        let (set, asked) = (server.set.clone(), server.asked.clone());
        tokio::spawn(async move {
            while let Ok((mut tcp, _)) = listener.accept().await {
                let mut head = [0; 4_096];
                let _ = tcp.read(&mut head).await;
                asked.fetch_add(1, Ordering::SeqCst);
                let body = set.lock().unwrap().clone();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = tcp.write_all((head + &body).as_bytes()).await;
            }
        });
        server
    }

    /// Shows these keys from now on.
    pub fn shows(&self, keys: &[&NamedKey]) {
        let keys: Vec<_> = keys.iter().map(|key| key.public()).collect();
        *self.set.lock().unwrap() = json!({ "keys": keys }).to_string();
    }

    /// How often it was asked.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}
