//! Requests that fit the OpenAPI document, and requests that do not, which Schemathesis makes up:
//! each answer is one that the document describes. They are the same in each run, and bounded in
//! number. `docs/contributing.md` says how to make many more.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::apps::{of_python, root, succeeds};
use crate::support::tokens::with_tokens;
use crate::support::world::World;

const KEY: &str = "a key of the requests";

/// How many requests of each kind are made for an operation at most.
const EXAMPLES: &str = "4";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_as_the_document_says() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let digest = HEXLOWER.encode(&Sha256::digest(KEY));
    std::fs::write(&keys, format!("all read,write,moderate {digest}\n")).unwrap();
    let world = World::on_memory(|config| {
        with_tokens(config);
        config.api_keys = Some(keys);
        config.http_rate = 0;
    })
    .await;
    let mut run = of_python("schemathesis");
    run.arg("--config-file")
        .arg(root("tests/clients/schemathesis.toml"));
    run.arg("run")
        .arg(format!("http://{}/openapi.json", world.addr));
    // DELETE closes a live, and the record of a closed live stays.
    run.args(["--checks", "all", "--exclude-checks", "use_after_free"]);
    // What follows from answers differs from run to run.
    run.args(["--phases", "examples,coverage,fuzzing"]);
    run.args(["--max-examples", EXAMPLES, "--generation-deterministic"]);
    run.args(["--no-color", "--header"]);
    run.arg(format!("Authorization: Bearer {KEY}"));
    run.current_dir(folder.path());
    let said = succeeds(run).await;
    let (_, counted) = said.split_once("Test cases:").unwrap();
    let made = counted.split_whitespace().next().unwrap();
    assert!(made.parse::<u32>().unwrap() >= 1_000, "{said}");
}
