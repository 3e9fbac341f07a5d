//! Owns real media servers and real publishers: nginx with its RTMP module, node-media-server, Icecast,
//! and ffmpeg. A machine without one of them fails the test; it never skips it.

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use super::media::{SECRET, block_of_manual};
use super::redis_server::free_port;
use super::wait::{PATIENCE, same, throughout, until};

/// What a media server needs to start on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(40);

/// A media server. It is gone when dropped.
pub struct RtmpServer {
    child: Child,
    port: u16,
    /// The port of nginx's HTTP server; 0 without one.
    http: u16,
    dir: TempDir,
}

impl RtmpServer {
    /// An nginx that calls a gateway as the server `main`. With heartbeats it says of each publisher
    /// that it goes on, each so often, through a location that always answers 200.
    pub async fn nginx(gateway: SocketAddr, heartbeats: Option<Duration>) -> Self {
        let (port, http) = (free_port(), free_port());
        let dir = tempfile::tempdir().unwrap();
        let call = callback(gateway);
        let on_update = match heartbeats {
            Some(every) => format!(
                "on_update http://127.0.0.1:{http}/alive; notify_update_timeout {}ms;",
                every.as_millis()
            ),
            None => String::new(),
        };
        let path = dir.path().display();
        let user = if is_root() { "user root;" } else { "" };
        let config = format!(
            "load_module {};\n{user}\nworker_processes 1;\ndaemon off;\npid {path}/pid;\n\
             error_log {path}/log notice;\nevents {{}}\nrtmp {{ server {{ listen 127.0.0.1:{port};\n\
             application live {{ live on; drop_idle_publisher 10s; on_publish {call};\n\
             on_publish_done {call}; {on_update} }} }} }}\n\
             http {{ access_log off; client_body_temp_path {path}/b; proxy_temp_path {path}/p;\n\
             fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;\n\
             server {{ listen 127.0.0.1:{http}; location = /stat {{ rtmp_stat all; }}\n\
             location = /alive {{ proxy_pass {call}; proxy_connect_timeout 2s; proxy_read_timeout 3s;\n\
             proxy_intercept_errors on;\n\
             error_page 400 401 403 404 429 500 502 503 504 =200 @went_on; }}\n\
             location @went_on {{ return 200; }} }} }}\n",
            module().display()
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let child = Command::new("nginx")
            .arg("-c")
            .arg(&file)
            .arg("-p")
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("nginx is missing: ./tests/run installs it");
        Self {
            child,
            port,
            http,
            dir,
        }
        .ready()
        .await
    }

    /// Where nginx says who publishes.
    pub fn statistics(&self) -> String {
        format!("http://127.0.0.1:{}/stat", self.http)
    }

    /// A node-media-server that calls a gateway as the server `nms`.
    pub async fn node(gateway: SocketAddr) -> Self {
        let port = free_port();
        let dir = tempfile::tempdir().unwrap();
        let modules = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/media-servers");
        let url = callback(gateway).replace("/main?", "/nms?");
        let program = format!(
            "import Server from \"{}/node_modules/node-media-server/src/index.js\";\n\
             new Server({{ bind: \"127.0.0.1\", rtmp: {{ port: {port} }}, notify: {{ url: \"{url}\" }} }}).run();\n",
            modules.display()
        );
        let file = dir.path().join("server.mjs");
        std::fs::write(&file, program).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("node")
            .arg(&file)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("node is missing: ./tests/run installs it");
        Self {
            child,
            port,
            http: 0,
            dir,
        }
        .ready()
        .await
    }

    /// An Icecast that calls a gateway as the server `main`, as the manual says.
    pub async fn icecast(gateway: SocketAddr) -> Self {
        let port = free_port();
        let dir = tempfile::tempdir().unwrap();
        // Icecast does not run as root, and whoever it runs as writes its log there.
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let owner = if is_root() {
            "<changeowner><user>nobody</user><group>nogroup</group></changeowner>"
        } else {
            ""
        };
        let path = dir.path().display();
        let mount = block_of_manual("xml\n<mount type=\"default\">", gateway);
        let config = format!(
            "<icecast><limits><sources>5</sources><source-timeout>3</source-timeout></limits>\n\
             <authentication><source-password>none</source-password>\n\
             <admin-user>admin</admin-user><admin-password>none</admin-password></authentication>\n\
             <hostname>localhost</hostname><listen-socket><port>{port}</port>\n\
             <bind-address>127.0.0.1</bind-address></listen-socket>\n{mount}\n\
             <paths><basedir>{path}</basedir><logdir>{path}</logdir>\n\
             <webroot>/usr/share/icecast2/web</webroot>\n\
             <adminroot>/usr/share/icecast2/admin</adminroot></paths>\n\
             <logging><accesslog>access</accesslog><errorlog>log</errorlog></logging>\n\
             <security><chroot>0</chroot>{owner}</security></icecast>\n"
        );
        let file = dir.path().join("icecast.xml");
        std::fs::write(&file, config).unwrap();
        let child = Command::new("icecast2")
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("icecast2 is missing: ./tests/run installs it");
        Self {
            child,
            port,
            http: 0,
            dir,
        }
        .ready()
        .await
    }

    /// kill -9 of the worker process, which has the publishers; nginx starts another one.
    pub fn kill_worker(&self) {
        let workers = Command::new("pgrep")
            .args(["-P", &self.child.id().to_string()])
            .output()
            .expect("pgrep is missing");
        let workers = String::from_utf8(workers.stdout).unwrap();
        let mut killed = 0;
        for worker in workers.split_whitespace() {
            let done = Command::new("kill").args(["-9", worker]).status().unwrap();
            killed += usize::from(done.success());
        }
        assert!(killed > 0, "nginx has no worker");
    }

    async fn ready(self) -> Self {
        until("the media server listens", STARTS_WITHIN, async || {
            let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await;
            connected.map_err(|why| format!("{why}: {}", self.log()))
        })
        .await;
        self
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for RtmpServer {
    fn drop(&mut self) {
        // The whole group: nginx's worker outlives its master.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the media server logged:\n{}", self.log());
        }
    }
}

/// Somebody who publishes a test picture with ffmpeg. The publisher is killed when dropped.
pub struct Publisher(Child);

impl Publisher {
    /// Publishes to a server; `stream` is a name and a query.
    pub fn to(server: &RtmpServer, stream: &str) -> Self {
        let url = format!("rtmp://127.0.0.1:{}/live/{stream}", server.port);
        let picture = "testsrc=size=160x120:rate=10";
        Self::of(picture, &["-c:v", "flv1", "-f", "flv", &url])
    }

    /// Publishes a tone to an Icecast, with this password.
    pub fn of_audio(server: &RtmpServer, mount: &str, password: &str) -> Self {
        let port = server.port;
        let url = format!("icecast://source:{password}@127.0.0.1:{port}/{mount}");
        let format = [
            "-c:a",
            "libmp3lame",
            "-content_type",
            "audio/mpeg",
            "-f",
            "mp3",
        ];
        Self::of("sine", &[&format[..], &[&url]].concat())
    }

    fn of(source: &str, output: &[&str]) -> Self {
        let child = Command::new("ffmpeg")
            .args([
                "-nostdin",
                "-loglevel",
                "error",
                "-re",
                "-f",
                "lavfi",
                "-i",
                source,
            ])
            .args(output)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ffmpeg is missing: ./tests/run installs it");
        Self(child)
    }

    /// Ends the stream as a streamer does.
    pub fn stop(&mut self) {
        let id = self.0.id().to_string();
        let done = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(done.success(), "kill -INT");
        let _ = self.0.wait();
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        let _ = self.0.wait();
    }

    /// Holds that the server does not throw the publisher out for so long.
    pub async fn goes_on_for(&mut self, span: Duration) {
        let child = std::sync::Mutex::new(&mut self.0);
        throughout("the publisher goes on", span, async || {
            same(child.lock().unwrap().try_wait().unwrap().is_none(), true)
        })
        .await;
    }

    /// Waits until the server has thrown the publisher out.
    pub async fn is_refused(&mut self) {
        let child = std::sync::Mutex::new(&mut self.0);
        until("the publisher is refused", PATIENCE, async || {
            child
                .lock()
                .unwrap()
                .try_wait()
                .unwrap()
                .ok_or("it publishes")
        })
        .await;
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn callback(gateway: SocketAddr) -> String {
    format!("http://{gateway}/v1/media/main?secret={SECRET}")
}

fn module() -> PathBuf {
    let folders = ["/usr/lib/nginx/modules", "/usr/share/nginx/modules"];
    for folder in folders {
        let module = PathBuf::from(folder).join("ngx_rtmp_module.so");
        if module.exists() {
            return module;
        }
    }
    panic!("nginx has no RTMP module: ./tests/run installs libnginx-mod-rtmp")
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}
