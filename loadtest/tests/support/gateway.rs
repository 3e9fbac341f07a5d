//! The gateway's own program, for tools that start it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// `rollcall`, as it is in the source: missing or older than that, it is built.
pub fn gateway() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_loadtest")).with_file_name("rollcall");
    let built = program
        .metadata()
        .and_then(|file| file.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH);
    if built < newest(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../src"))) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = std::process::Command::new(cargo)
            .args(["build", "--locked", "--package", "rollcall"])
            .status();
        assert!(
            built.expect("cargo runs").success(),
            "the gateway cannot be built"
        );
    }
    program
}

/// When the last change below a directory was.
fn newest(directory: &Path) -> SystemTime {
    let entries = directory.read_dir().expect("the gateway's source");
    let times = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        let own = path
            .metadata()
            .and_then(|file| file.modified())
            .expect("a time");
        // A directory's own time says what was renamed, not what was written.
        if path.is_dir() { newest(&path) } else { own }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
