//! Owns a gateway that wants keys of back ends, plain and behind TLS, and the options of a command
//! that asks it.

use data_encoding::HEXLOWER;
use rollcall::config::AuthMode;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::certificates::Certificates;
use super::tls_door::tls_before;
use super::world::World;

/// The key that may read.
pub const KEY: &str = "a key of the operator";

/// The key that may not read.
pub const WEAK: &str = "a key that only moderates";

/// The gateway; its files are gone when it is dropped.
pub struct Guarded {
    /// The gateway, on a Redis.
    pub world: World,
    /// Names it.
    pub plain: String,
    /// Names it behind TLS.
    pub secure: String,
    /// Names the authority of its certificate.
    pub ca: String,
    folder: TempDir,
    _certificates: Certificates,
}

impl Guarded {
    /// Starts it.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let digest = |key: &str| HEXLOWER.encode(&Sha256::digest(key));
        let (keys, secret) = (folder.path().join("keys"), folder.path().join("secret"));
        let lines = format!("look read {}\nact moderate {}\n", digest(KEY), digest(WEAK));
        std::fs::write(&keys, lines).unwrap();
        std::fs::write(&secret, "s".repeat(32)).unwrap();
        let world = World::on_redis(|config| {
            config.auth = AuthMode::Jwt;
            config.jwt_hs256_secret_file = Some(secret);
            config.api_keys = Some(keys);
        })
        .await;
        let certificates = Certificates::for_host("IP:127.0.0.1");
        let door = tls_before(world.addr, &certificates).await;
        Self {
            plain: format!("--gateway http://{}", world.addr),
            secure: format!("--gateway https://{door}"),
            ca: format!("--gateway-ca {}", certificates.ca().display()),
            world,
            folder,
            _certificates: certificates,
        }
    }

    /// Names a file with this key.
    pub fn key(&self, key: &str) -> String {
        let file = self.folder.path().join(format!("{}.key", key.len()));
        std::fs::write(&file, format!("{key}\n")).unwrap();
        format!("--api-key-file {}", file.display())
    }
}
