//! The tests' fake gateway as a program, to find the load generator's own limit:
//! `cargo run --release -p loadtest --example fake_gateway -- 127.0.0.1:8099`.

#[path = "../tests/support/fake.rs"]
mod fake;

use fake::{FakeGateway, Fault};

#[tokio::main]
async fn main() {
    let listen = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let gateway = FakeGateway::start(&listen, Fault::None).await;
    println!("listening on http://{}", gateway.address);
    std::future::pending::<()>().await;
}
