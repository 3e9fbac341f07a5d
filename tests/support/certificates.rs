//! Owns an authority of a test's own and a certificate for 127.0.0.1, made by openssl.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several test binaries share this file, none uses all of it"
)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The files, gone when dropped.
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    /// For a server at this address, as in `IP:127.0.0.1` or `DNS:redis.example`.
    pub fn for_host(host: &str) -> Self {
        let all = Self {
            dir: tempfile::tempdir().expect("a directory for certificates"),
        };
        all.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority \
             -keyout ca.key -out ca.crt",
        );
        all.openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server \
             -keyout server.key -out server.csr",
        );
        std::fs::write(all.file("names"), format!("subjectAltName={host}\n")).expect("a file");
        all.openssl(
            "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
        );
        all
    }

    /// The authority's own certificate.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.crt")
    }

    /// The certificate of the server.
    pub fn chain(&self) -> PathBuf {
        self.file("server.crt")
    }

    /// The private key of the server.
    pub fn key(&self) -> PathBuf {
        self.file("server.key")
    }

    /// Options that make a redis-server use it on one more port.
    pub fn options(&self, port: u16) -> Vec<String> {
        let file = |name| self.file(name).display().to_string();
        let options = [
            ("--tls-port", port.to_string()),
            ("--tls-cert-file", file("server.crt")),
            ("--tls-key-file", file("server.key")),
            ("--tls-ca-cert-file", file("ca.crt")),
            ("--tls-auth-clients", "no".to_owned()),
        ];
        options
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn openssl(&self, args: &str) {
        let mut command = Command::new("openssl");
        command
            .args(args.split(' '))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        let out = command
            .output()
            .unwrap_or_else(|e| panic!("openssl cannot be started ({e})"));
        assert!(
            out.status.success(),
            "openssl {args}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}
