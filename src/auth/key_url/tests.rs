//! A small HTTP server answers what a hostile or broken one could.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Answers each request of a path with the text of that path.
async fn server(answers: &'static [(&'static str, &'static str, usize)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4_096];
            let length = tcp.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let (_, head, body) = answers
                .iter()
                .find(|(at, ..)| *at == path)
                .expect("a path of the test");
            let head = format!(
                "HTTP/1.1 {}\r\nconnection: close\r\n\r\n",
                head.replace("HOST", &addr.to_string())
            );
            let _ = tcp.write_all(head.as_bytes()).await;
            let _ = tcp.write_all(&vec![b'x'; *body]).await;
        }
    });
    format!("http://{addr}")
}

async fn fetch(url: &str) -> Result<usize, FetchError> {
    let source = KeyUrl::new(Url::parse(url).unwrap(), Proxy::Never)?;
    source.fetch().await.map(|body| body.len())
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_bound() {
    let at = server(&[
        ("/ok", "200 OK", 1_000),
        ("/most", "200 OK", LONGEST),
        ("/long", "200 OK", LONGEST + 1),
        ("/away", "404 Not Found", 10),
        ("/moved", "302 Found\r\nlocation: http://HOST/ok", 0),
        ("/elsewhere", "302 Found\r\nlocation: https://HOST/ok", 0),
        ("/file", "302 Found\r\nlocation: file:///etc/passwd", 0),
        ("/round", "302 Found\r\nlocation: http://HOST/round", 0),
    ])
    .await;
    assert_eq!(fetch(&format!("{at}/ok")).await, Ok(1_000));
    assert_eq!(fetch(&format!("{at}/most")).await, Ok(LONGEST));
    assert_eq!(fetch(&format!("{at}/long")).await, Err(FetchError::TooLong));
    assert_eq!(
        fetch(&format!("{at}/away")).await,
        Err(FetchError::Status(404))
    );
    assert_eq!(fetch(&format!("{at}/moved")).await, Ok(1_000));
    for elsewhere in ["elsewhere", "file", "round"] {
        assert_eq!(
            fetch(&format!("{at}/{elsewhere}")).await,
            Err(FetchError::Status(302)),
            "{elsewhere}"
        );
    }
}

#[tokio::test]
async fn an_error_does_not_name_the_url() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let why = fetch(&format!("http://{nobody}/?key=hunter2"))
        .await
        .unwrap_err();
    assert!(
        matches!(&why, FetchError::Unreachable(text) if text.contains("refused")),
        "{why}"
    );
    assert!(!format!("{why} {why:?}").contains("hunter2"), "{why:?}");
}

#[tokio::test]
async fn a_redirect_tells_nobody_where_it_came_from() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let heads = tokio::spawn(async move {
        let mut heads = Vec::new();
        for answer in ["302 Found\r\nlocation: /other", "200 OK"] {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4_096];
            let length = tcp.read(&mut head).await.unwrap();
            heads.push(String::from_utf8_lossy(&head[..length]).to_ascii_lowercase());
            let answer =
                format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            tcp.write_all(answer.as_bytes()).await.unwrap();
        }
        heads
    });
    assert_eq!(
        fetch(&format!("http://{addr}/keys?password=hunter2")).await,
        Ok(0)
    );
    let heads = heads.await.unwrap();
    assert!(heads[1].starts_with("get /other "), "{heads:?}");
    assert!(
        !heads[1].contains("referer") && !heads[1].contains("hunter2"),
        "{heads:?}"
    );
}
