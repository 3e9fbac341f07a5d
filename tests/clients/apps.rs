//! Folders as authors of apps have them, with a package of `src/clients` and a client that was
//! generated from the OpenAPI document of a gateway.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::support::story::tell;

/// How long a compiler, a generator or an installer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// The longest that a story may take.
const STORY_DEADLINE: Duration = Duration::from_secs(170);

/// Runs one story with its deadline.
pub fn story(told: impl Future<Output = ()>) {
    tell(STORY_DEADLINE, told);
}

/// A folder or a file of the project.
pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of a file of the project.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The first program of this language in the document about clients.
pub fn shown(language: &str) -> String {
    let document = read("docs/client.md");
    let fence = format!("\n```{language}\n");
    let found = document.split_once(&fence);
    let (_, rest) = found.unwrap_or_else(|| panic!("the document has no program in {language}"));
    rest.split_once("```").unwrap().0.to_owned()
}

/// Runs a program to its end; it must succeed. Returns all that it said.
pub async fn succeeds(mut command: Command) -> String {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output
        .unwrap_or_else(|_| panic!("{command:?}: takes longer than {PATIENCE:?}"))
        .unwrap_or_else(|why| panic!("{command:?}: {why}: ./tests/run installs it"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{stdout}{stderr}",
        output.status
    );
    format!("{stdout}{stderr}")
}

/// A program of a Python package that `./tests/run` installs.
pub fn of_python(name: &str) -> Command {
    let mut command = Command::new(root("target/clients/python/bin").join(name));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// A program of a package from npm that `./tests/run` installs.
fn of_npm(name: &str) -> Command {
    Command::new(root("target/clients/node/node_modules/.bin").join(name))
}

/// The folder of an app in JavaScript or TypeScript.
pub struct NodeApp {
    folder: TempDir,
}

impl NodeApp {
    /// A folder with the package, and with what else `./tests/run` installs for apps.
    pub async fn new() -> Self {
        // Node and TypeScript look for packages in the folders above, too.
        let installed = root("target/clients/node");
        let folder = tempfile::Builder::new()
            .prefix("app-")
            .tempdir_in(&installed);
        let folder = folder.unwrap_or_else(|why| {
            panic!("{}: {why}: ./tests/run installs it", installed.display())
        });
        let app = Self { folder };
        app.has("package.json", r#"{"private": true, "type": "module"}"#);
        let websocket = r#"import WebSocket from "ws"; globalThis.WebSocket ??= WebSocket;"#;
        app.has("websocket.mjs", websocket);
        let tarball = app.packs().await;
        let mut install = app.here(Command::new("npm"));
        install.args([
            "install",
            "--silent",
            "--offline",
            "--no-audit",
            "--no-fund",
        ]);
        install.args(["--cache", "cache", &format!("./{tarball}")]);
        succeeds(install).await;
        app
    }

    /// Packs the package as `npm pack` does; returns the name of the file.
    async fn packs(&self) -> String {
        let mut pack = self.here(Command::new("npm"));
        pack.args(["pack", "--silent", "--cache", "cache"]);
        pack.arg(root("src/clients/javascript"));
        succeeds(pack).await.trim().to_owned()
    }

    /// The package as it is installed.
    pub fn package(&self) -> PathBuf {
        self.folder.path().join("node_modules/rollcall-presence")
    }

    /// Writes a file into the folder.
    pub fn has(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Makes types of an OpenAPI document: `openapi.json` in the folder becomes `types`.
    pub async fn generates(&self, document: &str, types: &str) {
        self.has("openapi.json", document);
        let mut generate = self.here(of_npm("openapi-typescript"));
        generate.args(["openapi.json", "--output", types]);
        succeeds(generate).await;
    }

    /// Compiles these files, as strictly as the compiler can, into `built`.
    pub async fn compiles(&self, files: &[&str]) {
        let mut compile = self.here(of_npm("tsc"));
        compile.args([
            "--strict",
            "--exactOptionalPropertyTypes",
            "--noUncheckedIndexedAccess",
        ]);
        compile.args(["--target", "es2022", "--lib", "es2022,dom,dom.iterable"]);
        compile.args([
            "--module",
            "nodenext",
            "--jsx",
            "react-jsx",
            "--outDir",
            "built",
        ]);
        compile.args(files);
        succeeds(compile).await;
    }

    /// A program in the folder, with a WebSocket where this Node has none.
    pub fn node(&self, program: &str) -> Command {
        let mut node = self.here(Command::new("node"));
        node.args(["--import", "./websocket.mjs", program]);
        node
    }

    fn here(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path());
        command
    }
}

/// The folder of an app in Python.
pub struct PythonApp {
    folder: TempDir,
}

impl PythonApp {
    /// A folder with the package.
    pub async fn new() -> Self {
        let app = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let mut install = app.here(of_python("pip"));
        install.args([
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
        ]);
        install.args(["--no-compile", "--target", "."]);
        install.arg(root("src/clients/python"));
        succeeds(install).await;
        app
    }

    /// The package as it is installed.
    pub fn package(&self) -> PathBuf {
        self.folder.path().join("rollcall")
    }

    /// Writes a file into the folder.
    pub fn has(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// Makes a client of an OpenAPI document: the package `rollcall_api`. Nothing is left out.
    pub async fn generates(&self, document: &str) {
        self.has("openapi.json", document);
        // It would format what it made.
        self.has("generator.yaml", "post_hooks: []\n");
        let mut generate = self.here(of_python("openapi-python-client"));
        generate.args([
            "generate",
            "--path",
            "openapi.json",
            "--config",
            "generator.yaml",
        ]);
        generate.args([
            "--meta",
            "none",
            "--output-path",
            "rollcall_api",
            "--fail-on-warning",
        ]);
        succeeds(generate).await;
    }

    /// Checks the types of these files, as strictly as the checker can.
    pub async fn has_right_types(&self, files: &[&str]) {
        let mut check = self.here(of_python("mypy"));
        check.args([
            "--strict",
            "--follow-imports",
            "silent",
            "--cache-dir",
            "/dev/null",
        ]);
        check.args(files).env("MYPYPATH", ".");
        succeeds(check).await;
    }

    /// A program in the folder.
    pub fn python(&self, program: &str) -> Command {
        let mut python = self.here(of_python("python"));
        python.arg(program);
        python
    }

    fn here(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path());
        command
    }
}
