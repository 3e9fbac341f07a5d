//! Owns the web server of a platform: a few pages at an origin that is not the gateway's, with the
//! policy of a story.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A whole answer by the path that is asked for.
type Answers = Arc<Mutex<HashMap<String, String>>>;

pub struct Site {
    addr: SocketAddr,
    answers: Answers,
    serving: JoinHandle<()>,
}

impl Site {
    /// A site without pages.
    pub async fn opens() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let answers = Answers::default();
        let serves = answers.clone();
        let serving = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(answer(connection, serves.clone()));
            }
        });
        Self {
            addr,
            answers,
            serving,
        }
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Shows a page whose script is this module, under this Content-Security-Policy.
    pub fn shows(&self, path: &str, policy: &str, module: &str) {
        let page = format!(
            "<!DOCTYPE html><title>An app</title><script type=\"module\">\n{module}\n</script>"
        );
        self.serves(
            path,
            &format!("text/html\r\ncontent-security-policy: {policy}"),
            &page,
        );
    }

    /// Serves something of this type.
    pub fn serves(&self, path: &str, kind: &str, body: &str) {
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(mut connection: TcpStream, answers: Answers) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    // A browser asks for an icon too.
    let nothing = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned();
    let answer = answers
        .lock()
        .unwrap()
        .get(path)
        .cloned()
        .unwrap_or(nothing);
    let _ = connection.write_all(answer.as_bytes()).await;
}
