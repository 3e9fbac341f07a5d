//! Owns the proxy of a company, between its people's browsers and a gateway: Debian's nginx that
//! nobody has told of WebSockets. It takes `Upgrade` out of every request.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::support::redis_server::free_port;
use crate::support::wait::{PATIENCE, until};

pub struct Proxy {
    addr: SocketAddr,
    process: Child,
    _dir: TempDir,
}

impl Proxy {
    /// Passes everything on to this gateway, but no WebSocket.
    pub async fn before(gateway: SocketAddr) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        std::fs::write(dir.path().join("nginx.conf"), settings(addr, gateway)).unwrap();
        let process = Command::new("nginx")
            .arg("-p")
            .arg(dir.path())
            .args(["-c", "nginx.conf", "-e", "stderr"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx runs; ./tests/run installs it");
        let proxy = Self {
            addr,
            process,
            _dir: dir,
        };
        until("nginx listens", PATIENCE, async || {
            TcpStream::connect(addr).await.map(|_| ())
        })
        .await;
        proxy
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// All in one process, with nothing outside of its folder.
fn settings(listen: SocketAddr, gateway: SocketAddr) -> String {
    let mut folders = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        folders += &format!("{kind}_temp_path {kind};\n");
    }
    format!(
        "daemon off;
        master_process off;
        pid pid;
        events {{}}
        http {{
            access_log off;
            {folders}
            server {{
                listen {listen};
                location / {{
                    proxy_pass http://{gateway};
                    proxy_set_header Host $http_host;
                }}
            }}
        }}"
    )
}
