//! When the files of a part are read: a part that counts, in a folder that changes as a mounted
//! Secret does.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;

/// A part that can use every file but one that holds `bad`.
#[derive(Default)]
struct Part {
    file: PathBuf,
    reads: AtomicUsize,
}

impl FromFiles for Part {
    fn name(&self) -> &'static str {
        "the part"
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }

    fn read_again(&self) -> Result<(), String> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        match fs::read_to_string(&self.file) {
            Ok(text) if text != "bad" => Ok(()),
            _ => Err("part: cannot be used".to_owned()),
        }
    }
}

struct World {
    folder: TempDir,
    part: Arc<Part>,
    reloader: Reloader,
    metrics: Arc<Metrics>,
    version: usize,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let part = Arc::new(Part {
            file: folder.path().join("key"),
            ..Part::default()
        });
        let metrics = Arc::<Metrics>::default();
        let reloader = Reloader::new(vec![part.clone()], None, metrics.clone());
        let mut world = Self {
            folder,
            part,
            reloader,
            metrics,
            version: 0,
        };
        symlink("..data/key", &world.part.file).unwrap();
        world.mounts("one");
        world.looks(1).await;
        world.reads(1);
        world
    }

    /// As the kubelet does it: the file stays a link, and the link that it leads through is renamed
    /// over the old one.
    fn mounts(&mut self, text: &str) {
        self.version += 1;
        let data = format!("..{}", self.version);
        let place = |name: &str| self.folder.path().join(name);
        fs::create_dir(place(&data)).unwrap();
        fs::write(place(&data).join("key"), text).unwrap();
        symlink(&data, place("..tmp")).unwrap();
        fs::rename(place("..tmp"), place("..data")).unwrap();
    }

    fn writes(&self, text: &str) {
        fs::write(&self.part.file, text).unwrap();
    }

    async fn looks(&self, times: usize) {
        for _ in 0..times {
            self.reloader.look().await;
        }
    }

    fn reads(&self, times: usize) {
        assert_eq!(self.part.reads.load(Ordering::Relaxed), times);
    }

    fn unusable(&self) -> i64 {
        self.metrics.files_unusable.get()
    }
}

#[tokio::test]
async fn a_mounted_secret_that_changes_by_a_link_is_read_once() {
    let mut world = World::new().await;
    world.looks(3).await;
    world.reads(1);
    world.mounts("two");
    world.looks(2).await;
    world.reads(2);
    world.looks(3).await;
    world.reads(2);
    // Mounted again with the same content: nothing has changed.
    world.mounts("two");
    world.looks(3).await;
    world.reads(2);
}

#[tokio::test]
async fn a_file_that_is_being_written_is_read_when_it_holds_still() {
    let world = World::new().await;
    for text in ["t", "tw", "two", "two and"] {
        world.writes(text);
        world.looks(1).await;
        world.reads(1);
    }
    world.looks(1).await;
    world.reads(2);
    // Changed and changed back between two looks.
    world.writes("three");
    world.looks(1).await;
    world.writes("two and");
    world.looks(3).await;
    world.reads(2);
}

#[tokio::test]
async fn a_bad_file_is_counted_until_it_is_good_and_read_once() {
    let mut world = World::new().await;
    assert_eq!(world.unusable(), 0);
    world.mounts("bad");
    world.looks(5).await;
    world.reads(2);
    assert_eq!(world.unusable(), 1);
    assert_eq!(
        world.reloader.reload().await,
        Err(vec!["part: cannot be used".to_owned()])
    );
    fs::remove_file(&world.part.file).unwrap();
    world.looks(5).await;
    world.reads(4);
    assert_eq!(world.unusable(), 1);
    world.writes("good");
    assert_eq!(world.reloader.reload().await, Ok(vec!["the part"]));
    assert_eq!(world.unusable(), 0);
    // What was read on demand is not read once more.
    world.looks(3).await;
    world.reads(5);
}

#[tokio::test(start_paused = true)]
async fn the_files_are_looked_at_until_the_stop() {
    let mut world = World::new().await;
    world.mounts("two");
    let stop = CancellationToken::new();
    let part = world.part.clone();
    let watch = tokio::spawn(Arc::new(world.reloader).watch(stop.clone()));
    let read = async {
        while part.reads.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(EVERY).await;
        }
    };
    tokio::time::timeout(EVERY * 60, read)
        .await
        .expect("a change is read");
    stop.cancel();
    watch.await.unwrap();
}
