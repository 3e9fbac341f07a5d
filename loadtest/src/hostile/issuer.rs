//! Signs the tokens of the run, with a secret and with an RSA key, and forges tokens.

use std::process::Stdio;
use std::time::UNIX_EPOCH;

use anyhow::{Context, ensure};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

/// `{"alg":"none","typ":"JWT"}`
const ALG_NONE: &str = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";

/// How a token was forged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Forgery {
    NoToken,
    Expired,
    /// Signed with somebody else's RSA key.
    WrongKey,
    /// Not signed at all.
    AlgNone,
    /// Signed with HS256 and the text of the gateway's public key.
    PublicKeyAsSecret,
}

pub(super) struct Issuer {
    pub(super) secret_file: String,
    /// In PEM, of `rsa`.
    pub(super) public_key_file: String,
    /// Gone when this is dropped.
    dir: TempDir,
    secret: EncodingKey,
    rsa: EncodingKey,
    stranger: EncodingKey,
    /// The text of that file, taken for a secret.
    public_key: EncodingKey,
}

impl Issuer {
    /// The folder of its files.
    pub(super) fn folder(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(super) async fn new() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let [secret_file, public_key_file, rsa, stranger] =
            ["secret", "public.pem", "rsa.pem", "stranger.pem"].map(|name| {
                let path = dir.path().join(name).into_os_string().into_string();
                path.ok()
                    .context("the temporary folder's name is not UTF-8")
            });
        let secret_file = secret_file?;
        let public_key_file = public_key_file?;
        let rsa = rsa?;
        let stranger = stranger?;
        let secret = format!(
            "{:032x}{:032x}",
            rand::random::<u128>(),
            rand::random::<u128>()
        );
        std::fs::write(&secret_file, &secret)?;
        for file in [&rsa, &stranger] {
            openssl(&[
                "genpkey",
                "-algorithm",
                "RSA",
                "-pkeyopt",
                "rsa_keygen_bits:2048",
                "-out",
                file,
            ])
            .await?;
        }
        openssl(&["pkey", "-in", &rsa, "-pubout", "-out", &public_key_file]).await?;
        Ok(Self {
            secret: EncodingKey::from_secret(secret.as_bytes()),
            rsa: EncodingKey::from_rsa_pem(&std::fs::read(rsa)?)?,
            stranger: EncodingKey::from_rsa_pem(&std::fs::read(stranger)?)?,
            public_key: EncodingKey::from_secret(&std::fs::read(&public_key_file)?),
            secret_file,
            public_key_file,
            dir,
        })
    }

    /// A good token of a viewer, with more claims.
    pub(super) fn viewer(&self, user: &str, more: &Value) -> anyhow::Result<String> {
        Ok(encode(
            &Header::new(Algorithm::HS256),
            &claims(user, more)?,
            &self.secret,
        )?)
    }

    /// The same, with the RSA key.
    pub(super) fn viewer_by_rsa(&self, user: &str) -> anyhow::Result<String> {
        Ok(encode(
            &Header::new(Algorithm::RS256),
            &claims(user, &json!({}))?,
            &self.rsa,
        )?)
    }

    /// A token that no gateway may accept; it claims all that a token can give.
    pub(super) fn forged(&self, user: &str, how: Forgery) -> anyhow::Result<String> {
        let claims = claims(user, &json!({"role": "service"}))?;
        Ok(match how {
            Forgery::NoToken => String::new(),
            Forgery::Expired => {
                self.viewer(user, &json!({"role": "service", "exp": 1_700_000_000}))?
            }
            Forgery::WrongKey => encode(&Header::new(Algorithm::RS256), &claims, &self.stranger)?,
            Forgery::AlgNone => {
                let good = encode(&Header::new(Algorithm::HS256), &claims, &self.secret)?;
                format!(
                    "{ALG_NONE}.{}.",
                    good.split('.').nth(1).context("a token without claims")?
                )
            }
            Forgery::PublicKeyAsSecret => {
                encode(&Header::new(Algorithm::HS256), &claims, &self.public_key)?
            }
        })
    }
}

fn claims(user: &str, more: &Value) -> anyhow::Result<Value> {
    let mut claims = json!({"sub": user, "exp": UNIX_EPOCH.elapsed()?.as_secs() + 24 * 3_600});
    for (name, value) in more.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    Ok(claims)
}

async fn openssl(args: &[&str]) -> anyhow::Result<()> {
    let run = Command::new("openssl")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .await;
    let run = run.context("openssl cannot be started: is it installed?")?;
    ensure!(
        run.status.success(),
        "openssl {}: {}",
        args[0],
        String::from_utf8_lossy(&run.stderr)
    );
    Ok(())
}
