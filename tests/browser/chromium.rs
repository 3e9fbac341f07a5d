//! Owns Debian's Chromium, one for all tests of this binary but those that kill it, and speaks its
//! DevTools protocol over a pipe.
//!
//! The pipe is Chromium's standard input and output, so there is no port, and Chromium ends with
//! the test process, however that ends.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

/// How long Chromium may take for one command, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many tests use it at a time: a browser computes more than it waits.
const AT_ONCE: usize = 2;

static CHROMIUM: LazyLock<Chromium> = LazyLock::new(|| Chromium::start("shared"));
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Chromium as root needs no sandbox of its own here: it loads pages of the tests only. The other
/// switches keep it from asking the network for anything by itself.
const SWITCHES: &str = "--headless=new --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage \
                        --disable-quic --no-first-run --no-default-browser-check --disable-background-networking \
                        --disable-component-update --disable-sync --hide-scrollbars --force-color-profile=srgb \
                        --enable-precise-memory-info --window-size=1100,900";

pub struct Chromium {
    stdin: Mutex<ChildStdin>,
    shared: Arc<Shared>,
    last_id: AtomicU64,
    process: Mutex<Child>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<HashMap<u64, oneshot::Sender<Result<Value, Value>>>>,
    /// What pages said, by session.
    events: Mutex<HashMap<String, Vec<Value>>>,
}

/// The right to use Chromium for a test.
pub struct Turn {
    _turn: SemaphorePermit<'static>,
    pub chromium: &'static Chromium,
}

impl Turn {
    pub async fn wait() -> Self {
        Self {
            _turn: TURNS.acquire().await.unwrap(),
            chromium: &CHROMIUM,
        }
    }

    /// A turn with a Chromium that no other test uses. It stays until the test process ends, unless
    /// it is killed.
    pub async fn with_own_browser(name: &str) -> Self {
        Self {
            _turn: TURNS.acquire().await.unwrap(),
            chromium: Box::leak(Box::new(Chromium::start(name))),
        }
    }
}

impl Chromium {
    /// Starts one with a profile of this name.
    fn start(name: &str) -> Self {
        let profile = new_profile().join(name);
        // Chromium reads from descriptor 3 and writes to 4.
        let script = format!(
            "exec chromium {SWITCHES} --user-data-dir=\"$0\" 3<&0 4>&1 0</dev/null 1>/dev/null"
        );
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(&profile);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts chromium, which ./tests/run installs");
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shared = Arc::<Shared>::default();
        let reads = shared.clone();
        std::thread::spawn(move || {
            for message in BufReader::new(stdout).split(0).map_while(Result::ok) {
                reads.hear(&serde_json::from_slice(&message).unwrap());
            }
            // Whoever still waits learns that there will be no answer.
            locked(&reads.answers).clear();
        });
        let (last_id, process) = (AtomicU64::default(), Mutex::new(child));
        Self {
            stdin: Mutex::new(stdin),
            shared,
            last_id,
            process,
        }
    }

    /// Ends it as a crash would: no page does anything any more.
    pub fn kill(&self) {
        let mut process = locked(&self.process);
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Sends a command, to a page or to the browser itself.
    pub async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, Value> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let (tell, told) = oneshot::channel();
        locked(&self.shared.answers).insert(id, tell);
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        locked(&self.stdin)
            .write_all(&bytes)
            .expect("chromium runs; ./tests/run installs it");
        let answer = tokio::time::timeout(PATIENCE, told).await;
        answer
            .unwrap_or_else(|_| panic!("{method}: no answer in {PATIENCE:?}"))
            .expect("chromium runs")
    }

    /// Begins to keep what the page of this session says.
    pub fn listen(&self, session: &str) {
        locked(&self.shared.events).insert(session.to_owned(), Vec::new());
    }

    /// What it said so far.
    pub fn heard(&self, session: &str) -> Vec<Value> {
        locked(&self.shared.events)
            .get(session)
            .cloned()
            .unwrap_or_default()
    }

    /// Forgets it.
    pub fn forget(&self, session: &str) {
        locked(&self.shared.events).remove(session);
    }

    /// Sends a command without waiting for its answer.
    pub fn tell(&self, method: &str, params: Value) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut bytes = json!({"id": id, "method": method, "params": params})
            .to_string()
            .into_bytes();
        bytes.push(0);
        let _ = locked(&self.stdin).write_all(&bytes);
    }
}

impl Shared {
    fn hear(&self, message: &Value) {
        if let Some(id) = message["id"].as_u64() {
            let Some(tell) = locked(&self.answers).remove(&id) else {
                return;
            };
            let error = &message["error"];
            let _ = tell.send(if error.is_null() {
                Ok(message["result"].clone())
            } else {
                Err(error.clone())
            });
            return;
        }
        let session = message["sessionId"].as_str().unwrap_or_default();
        if let Some(events) = locked(&self.events).get_mut(session) {
            events.push(json!({"method": message["method"], "params": message["params"]}));
        }
    }
}

/// A folder for what the Chromiums of this process keep. Nobody is left to remove it when the tests end, so
/// those of earlier runs are removed here.
fn new_profile() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("chromium");
    std::fs::create_dir_all(&folder).unwrap();
    for old in std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap())
    {
        if !Path::new("/proc").join(old.file_name()).exists() {
            let _ = std::fs::remove_dir_all(old.path());
        }
    }
    folder.join(std::process::id().to_string())
}

/// A test that failed must not fail the others.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
