//! Keys for the tests of this folder, made by openssl once per run, and tokens signed with them.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::base::clock::unix_now;

/// Both halves of a key, in PEM.
pub(super) struct Pair {
    pub private: String,
    pub public: String,
}

pub(super) static RSA: LazyLock<Pair> =
    LazyLock::new(|| Pair::new("RSA -pkeyopt rsa_keygen_bits:2048"));
pub(super) static SHORT_RSA: LazyLock<Pair> =
    LazyLock::new(|| Pair::new("RSA -pkeyopt rsa_keygen_bits:1024"));
pub(super) static P256: LazyLock<Pair> =
    LazyLock::new(|| Pair::new("EC -pkeyopt ec_paramgen_curve:P-256"));
pub(super) static OTHER_P256: LazyLock<Pair> =
    LazyLock::new(|| Pair::new("EC -pkeyopt ec_paramgen_curve:P-256"));
pub(super) static P384: LazyLock<Pair> =
    LazyLock::new(|| Pair::new("EC -pkeyopt ec_paramgen_curve:P-384"));
pub(super) static ED25519: LazyLock<Pair> = LazyLock::new(|| Pair::new("ED25519"));
pub(super) static OTHER_ED25519: LazyLock<Pair> = LazyLock::new(|| Pair::new("ED25519"));

pub(super) const SECRET: &str = "a-secret-of-forty-bytes-for-HS256-hunter2";

impl Pair {
    fn new(algorithm: &str) -> Self {
        let private = openssl(&format!("genpkey -algorithm {algorithm}"), "");
        let public = openssl("pkey -pubout", &private);
        Self { private, public }
    }

    pub fn signs(&self, algorithm: Algorithm) -> EncodingKey {
        let pem = self.private.as_bytes();
        match algorithm {
            Algorithm::RS256 | Algorithm::PS256 | Algorithm::RS384 => {
                EncodingKey::from_rsa_pem(pem)
            }
            Algorithm::EdDSA => EncodingKey::from_ed_pem(pem),
            _ => EncodingKey::from_ec_pem(pem),
        }
        .unwrap()
    }

    /// A certificate of the public half, in PEM.
    pub fn certificate(&self) -> String {
        openssl(
            "req -x509 -new -key /dev/stdin -subj /CN=rollcall",
            &self.private,
        )
    }

    /// The public half as a JSON Web Key.
    pub fn jwk(&self, algorithm: Algorithm, id: &str) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.signs(algorithm), algorithm).unwrap();
        jwk.common.key_id = Some(id.to_owned());
        serde_json::to_value(jwk).unwrap()
    }
}

fn openssl(args: &str, input: &str) -> String {
    let mut command = Command::new("openssl");
    command
        .args(args.split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|e| panic!("openssl cannot be started ({e})"));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(
        out.status.success(),
        "openssl {args}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

pub(super) fn set(keys: &[Value]) -> Vec<u8> {
    json!({ "keys": keys }).to_string().into_bytes()
}

pub(super) fn now() -> u64 {
    unix_now() / 1_000
}

/// Claims of `u1`, good for an hour; `more` adds to them, and removes what it sets to null.
pub(super) fn claims(more: &Value) -> Value {
    let mut claims = json!({ "sub": "u1", "exp": now() + 3_600 });
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
        .as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    claims
}

pub(super) fn hs256(more: &Value) -> String {
    signed(
        &Header::new(Algorithm::HS256),
        more,
        &EncodingKey::from_secret(SECRET.as_bytes()),
    )
}

pub(super) fn signed(header: &Header, more: &Value, key: &EncodingKey) -> String {
    encode(header, &claims(more), key).unwrap()
}

/// A token by this pair that names this key.
pub(super) fn by(pair: &Pair, algorithm: Algorithm, id: &str) -> String {
    let header = Header {
        kid: Some(id.to_owned()),
        ..Header::new(algorithm)
    };
    signed(&header, &json!({}), &pair.signs(algorithm))
}
