//! Connections for HTTP requests that stay open, and that many viewers share, as behind a proxy. A
//! connection has one request under way at a time, as HTTP/1.1 has it; others wait for it.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::http_answer::HttpAnswer;
use crate::entry::ClientStream;
use crate::error_kind::{self, ErrorName};
use crate::target::Target;

/// How many requests may wait for a connection; beyond that, their senders wait.
const WAITING: usize = 1_024;

/// Half of the ports of an address, as for WebSockets.
const CONNECTIONS_PER_SOURCE: usize = 10_000;

/// A request, and who wants to hear what comes of it.
struct PendingRequest {
    number: u64,
    text: String,
    by: mpsc::Sender<Answered>,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The number that its sender gave it.
    pub(crate) number: u64,
    pub(crate) answer: Result<HttpAnswer, ErrorName>,
}

/// The connections of one process to one gateway.
#[derive(Debug)]
pub(crate) struct HttpConnections {
    host: String,
    queues: Vec<mpsc::Sender<PendingRequest>>,
}

impl HttpConnections {
    /// So many connections, each of which is opened for its first request.
    pub(crate) fn new(target: &Target, count: usize) -> Self {
        let mut queues = Vec::with_capacity(count);
        for number in 0..count {
            let (queue, asked) = mpsc::channel(WAITING);
            let source = if target.address.is_ipv4() {
                Some(number / CONNECTIONS_PER_SOURCE)
            } else {
                None
            };
            let connection = ClientConnection {
                target: target.clone(),
                source,
                stream: None,
            };
            tokio::spawn(connection.run(asked));
            queues.push(queue);
        }
        Self {
            host: target.address.to_string(),
            queues,
        }
    }

    /// Sends a request over the connection of this viewer. `by` is told what comes of it.
    pub(crate) async fn ask(
        &self,
        viewer: usize,
        number: u64,
        request: &HttpRequest<'_>,
        by: &mpsc::Sender<Answered>,
    ) {
        let asked = PendingRequest {
            number,
            text: request.text(&self.host),
            by: by.clone(),
        };
        // The connections live as long as this value.
        let _ = self.queues[viewer % self.queues.len()].send(asked).await;
    }
}

/// A request to a gateway.
#[derive(Debug)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    /// JSON.
    pub(crate) body: &'a str,
}

impl HttpRequest<'_> {
    fn text(&self, host: &str) -> String {
        let Self { method, path, body } = self;
        let length = body.len();
        let kind = if body.is_empty() {
            ""
        } else {
            "Content-Type: application/json\r\n"
        };
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{kind}Content-Length: {length}\r\n\r\n{body}"
        )
    }
}

struct ClientConnection {
    target: Target,
    source: Option<usize>,
    stream: Option<ClientStream>,
}

impl ClientConnection {
    async fn run(mut self, mut asked: mpsc::Receiver<PendingRequest>) {
        let mut buffer = Vec::new();
        while let Some(PendingRequest { number, text, by }) = asked.recv().await {
            let answer = self.ask(&text, &mut buffer).await;
            // The viewer may be gone.
            let _ = by.send(Answered { number, answer }).await;
        }
    }

    /// Sends a request. If the gateway has closed the connection meanwhile, the request goes over a
    /// new one.
    async fn ask(&mut self, text: &str, buffer: &mut Vec<u8>) -> Result<HttpAnswer, ErrorName> {
        if let Some(mut stream) = self.stream.take() {
            match exchange(&mut stream, text, buffer).await {
                Ok(answer) => return Ok(self.took(answer, stream)),
                // The gateway has not begun to answer, and will not.
                Err(_) if buffer.is_empty() => {}
                Err(error) => return Err(error_kind::of_http(&error)),
            }
        }
        let mut stream = self.connect().await?;
        match exchange(&mut stream, text, buffer).await {
            Ok(answer) => Ok(self.took(answer, stream)),
            Err(error) => Err(error_kind::of_http(&error)),
        }
    }

    /// Keeps the connection, unless the gateway closes it.
    fn took(&mut self, answer: HttpAnswer, stream: ClientStream) -> HttpAnswer {
        if !answer.closes {
            self.stream = Some(stream);
        }
        answer
    }

    async fn connect(&self) -> Result<ClientStream, ErrorName> {
        let connected = self.target.connect(self.source).await;
        let stream = connected.map_err(|error| error_kind::of_connect(&error))?;
        let secured = self.target.entry.secure(stream).await;
        secured.map_err(|_| error_kind::TLS)
    }
}

/// Sends a request, and reads its answer. The buffer has what has come of it so far.
async fn exchange(
    stream: &mut ClientStream,
    text: &str,
    buffer: &mut Vec<u8>,
) -> io::Result<HttpAnswer> {
    buffer.clear();
    stream.write_all(text.as_bytes()).await?;
    loop {
        if let Some(answer) = HttpAnswer::read(buffer) {
            return Ok(answer);
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each connection once, and then closes it without a word.
    async fn answer_once_each(listener: TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1_024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(answer).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_request_goes_over_a_new_connection_when_the_old_one_was_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::plain(listener.local_addr().unwrap());
        tokio::spawn(answer_once_each(listener));
        let connections = HttpConnections::new(&target, 1);
        let (by, mut heard) = mpsc::channel(1);
        let request = HttpRequest {
            method: "POST",
            path: "/",
            body: "",
        };
        for number in 0..3 {
            connections.ask(7, number, &request, &by).await;
            let heard = heard.recv().await.unwrap();
            assert_eq!(heard.number, number);
            assert_eq!(heard.answer.unwrap().status, 200);
        }
    }
}
