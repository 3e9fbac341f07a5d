//! Owns the tokens of a story: the HS256 secret in a file, and the verbs that mint a token and
//! connect with it.

use std::path::PathBuf;
use std::sync::OnceLock;

use jsonwebtoken::{EncodingKey, Header, encode};
use rollcall::base::clock::unix_now;
use rollcall::config::{AuthMode, Config};
use serde_json::Value;

use super::socket::Socket;
use super::viewer::Viewer;
use super::world::World;

/// What tokens are signed with.
pub const SECRET: &[u8] = b"the secret of the stories, 32 bytes or more";

/// Lets the gateway check tokens that [`mint`] makes.
pub fn with_tokens(config: &mut Config) {
    config.auth = AuthMode::Jwt;
    config.jwt_hs256_secret_file = Some(secret_file());
}

/// Signs these claims.
pub fn mint(claims: &Value) -> String {
    hs256(SECRET, claims)
}

/// Signs these claims with a secret.
pub fn hs256(secret: &[u8], claims: &Value) -> String {
    encode(
        &Header::default(),
        claims,
        &EncodingKey::from_secret(secret),
    )
    .unwrap()
}

/// A Unix time in so many seconds.
pub fn in_seconds(seconds: i64) -> i64 {
    (unix_now() / 1_000) as i64 + seconds
}

impl World {
    /// Somebody who connects with a token of these claims; without `exp`, it is good for an hour.
    pub async fn bearer(&self, mut claims: Value) -> Viewer {
        if claims["exp"].is_null() {
            claims["exp"] = in_seconds(3_600).into();
        }
        let bearer = format!("Bearer {}", mint(&claims));
        let connected = Socket::connect(self.addr, "/ws", &[("authorization", &bearer)]).await;
        let (socket, _) = connected.unwrap_or_else(|error| panic!("{claims}: {error}"));
        Viewer::greeted(claims["sub"].as_str().unwrap(), socket).await
    }
}

fn secret_file() -> PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| shared_file("hs256", SECRET)).clone()
}

/// A file that every test writes alike, in one step: another one may be reading it.
pub fn shared_file(name: &str, content: &[u8]) -> PathBuf {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let file = tempfile::NamedTempFile::new_in(folder).unwrap();
    std::fs::write(&file, content).unwrap();
    let path = PathBuf::from(folder).join(name);
    file.persist(&path).unwrap();
    path
}
