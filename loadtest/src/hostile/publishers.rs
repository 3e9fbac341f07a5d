//! Publishers who try stream keys on which the platform fails, beside an honest publisher. Each is
//! about a key of its own, as one client can make them.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::bench::servers::BenchGateway;

/// Between two hostile publishers.
const BETWEEN: Duration = Duration::from_millis(50);

/// How many hostile publishers come.
const HOSTILE: usize = 40;

/// After how many of them the honest one comes.
const HONEST_AFTER: usize = 5;

const SECRET: &str = "the-secret-of-a-media-server";

pub(super) const LET_IN: &str = "an honest publisher is let in";

/// The settings of the media server, with a platform that knows one stream key. It answers as long as
/// the program runs.
pub(super) async fn settings(folder: &Path) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket));
        }
    });
    let file = folder.join("media.toml");
    let text = format!(
        "[media.main]\nkind = \"generic\"\nsecret = \"{SECRET}\"\npublish-url = \"http://{address}/\"\n"
    );
    std::fs::write(&file, text)?;
    let file = file.into_os_string().into_string();
    file.ok()
        .context("the temporary folder's name is not UTF-8")
}

/// Answers one question as a platform does that stumbles over what it does not expect.
async fn answer(mut socket: TcpStream) -> std::io::Result<()> {
    let mut question = Vec::new();
    while !question.ends_with(b"}") {
        if socket.read_buf(&mut question).await? == 0 {
            return Ok(());
        }
    }
    let question = String::from_utf8_lossy(&question);
    let (status, body) = if question.contains("honest") {
        (
            "200 OK",
            r#"{"allowed":true,"live_id":"honest","streamer_id":"s1"}"#,
        )
    } else if question.contains("odd") {
        ("422 Unprocessable Content", "")
    } else if question.contains("slow") {
        std::future::pending().await
    } else {
        ("500 Internal Server Error", "")
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    socket.write_all(format!("{head}{body}").as_bytes()).await
}

/// What the honest publisher was answered, in words.
pub(super) async fn publish(gateway: &BenchGateway) -> anyhow::Result<String> {
    let mut clock = interval(BETWEEN);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut hostile = JoinSet::new();
    let mut honest = JoinSet::new();
    for number in 0..HOSTILE {
        clock.tick().await;
        let key = match number % 5 {
            0 => format!("odd{number}"),
            1 => format!("slow{number}"),
            2 => format!("{number}\0"),
            3 => format!("{number}").repeat(200),
            _ => format!("broken{number}"),
        };
        hostile.spawn(call(gateway, &key));
        if number % HONEST_AFTER == 0 {
            honest.spawn(call(gateway, "honest"));
        }
    }
    let mut answers = Vec::new();
    while let Some(status) = honest.join_next().await {
        answers.push(status??);
    }
    let refused: Vec<u16> = answers
        .iter()
        .copied()
        .filter(|status| *status != 200)
        .collect();
    while let Some(status) = hostile.join_next().await {
        if status?? == 200 {
            return Ok("a hostile publisher is let in".to_owned());
        }
    }
    Ok(match &refused[..] {
        [] => LET_IN.to_owned(),
        refused => format!("an honest publisher is refused: {refused:?}"),
    })
}

/// Publishes in a session of its own; the status of the answer.
fn call(gateway: &BenchGateway, key: &str) -> impl Future<Output = anyhow::Result<u16>> + use<> {
    let address = gateway.server.addr;
    let session = format!("{:x}", rand::random::<u64>());
    let body = json!({"event": "publish", "session": session, "stream": key});
    let request = gateway
        .http
        .post(format!("http://{address}/v1/media/main?secret={SECRET}"))
        // The gateway may close an idle connection in the moment in which it is used again.
        .header("connection", "close")
        .body(body.to_string());
    async move { Ok(request.send().await?.status().as_u16()) }
}
