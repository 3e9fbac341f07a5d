//! The README's tour with the clients: the back end with what is generated from the OpenAPI
//! document, the streamer and the viewer with the packages.

use rollcall::config::Config;

use crate::apps::{NodeApp, PythonApp, read, succeeds};
use crate::support::backend::Backend;
use crate::support::program::Program;

/// A gateway as the README starts it, and its OpenAPI document.
async fn gateway() -> (Program, String) {
    let gateway = Program::start(&Config::default()).await;
    let document = Backend::at(gateway.addr).get("/openapi.json").await.text;
    (gateway, document)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_in_typescript_takes_the_tour() {
    let (gateway, document) = gateway().await;
    let app = NodeApp::new().await;
    app.generates(&document, "api.ts").await;
    app.has("tour.ts", &read("tests/clients/programs/tour.ts"));
    app.compiles(&["tour.ts"]).await;
    let mut tour = app.node("built/tour.js");
    tour.arg(format!("http://{}", gateway.addr));
    assert_eq!(succeeds(tour).await, "the tour is over\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_in_python_takes_the_tour() {
    let (gateway, document) = gateway().await;
    let app = PythonApp::new().await;
    app.generates(&document).await;
    app.has("tour.py", &read("tests/clients/programs/tour.py"));
    app.has_right_types(&["tour.py"]).await;
    let mut tour = app.python("tour.py");
    tour.arg(format!("http://{}", gateway.addr));
    assert_eq!(succeeds(tour).await, "the tour is over\n");
}
