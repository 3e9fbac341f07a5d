//! One request at a time, against a server that answers as the test says.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::features::webhooks::receiver::*;

const ID: &str = "42:1:live.opened:7";
const BODY: &str = "{\"a\":1}";

fn receiver(url: &str, reach: Reach) -> Result<WebhookReceiver, String> {
    receiver_with(url, Duration::from_millis(500), reach)
}

fn receiver_with(url: &str, timeout: Duration, reach: Reach) -> Result<WebhookReceiver, String> {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "0123456789abcdef").unwrap();
    let setting = "webhook-secret-file".to_owned();
    let signer = WebhookSigner::open(setting, secret.path().to_owned()).unwrap();
    WebhookReceiver::new(Url::parse(url).unwrap(), signer, timeout, reach)
}

/// A server that answers each connection with this text and then hangs; the first request that it
/// gets.
async fn server(answer: String) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks?key=hush", listener.local_addr().unwrap());
    let first = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4_096];
        let length = socket.read(&mut request).await.unwrap();
        let _ = socket.write_all(answer.as_bytes()).await;
        let text = String::from_utf8(request[..length].to_vec()).unwrap();
        // Whatever follows stays unanswered.
        tokio::spawn(async move {
            let _listener = listener;
            let _ = socket.read_to_end(&mut Vec::new()).await;
            std::future::pending::<()>().await;
        });
        text
    });
    (url, first)
}

async fn outcome(answer: &str) -> Result<u16, DeliveryFailure> {
    let (url, _first) = server(answer.to_owned()).await;
    receiver(&url, Reach::Any).unwrap().send(ID, BODY).await
}

#[tokio::test]
async fn an_event_is_a_post_with_its_id_and_a_signature() {
    let (url, first) = server("HTTP/1.1 204 No Content\r\n\r\n".to_owned()).await;
    receiver(&url, Reach::Any)
        .unwrap()
        .send(ID, BODY)
        .await
        .unwrap();
    let request = first.await.unwrap();
    assert!(
        request.starts_with("POST /hooks?key=hush HTTP/1.1\r\n"),
        "{request}"
    );
    for header in [
        "rollcall-event-id: 42:1:live.opened:7\r\n",
        "rollcall-signature: t=",
        "content-type: application/json\r\n",
    ] {
        assert!(request.contains(header), "{header} is not in {request}");
    }
    assert!(request.ends_with("\r\n\r\n{\"a\":1}"), "{request}");
}

#[tokio::test]
async fn only_a_status_of_success_is_one() {
    let empty = "\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(outcome(&format!("HTTP/1.1 200 OK{empty}")).await, Ok(200));
    for status in [301, 302, 307, 400, 410, 429, 500, 503] {
        let moved = format!("HTTP/1.1 {status} Other\r\nlocation: http://127.0.0.1:9/{empty}");
        let refused = DeliveryFailure::Status {
            status,
            retry_after: None,
        };
        assert_eq!(refused.is_about_all(), [429, 503].contains(&status));
        assert_eq!(
            outcome(&moved).await,
            Err(refused),
            "a redirect is not followed"
        );
    }
}

#[test]
fn a_receiver_says_when_to_come_back_in_seconds_or_by_a_date() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
    let read = |text: &str| {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]);
        retry_after(&headers, now).map(|wait| wait.as_secs())
    };
    assert_eq!(read("120"), Some(120));
    assert_eq!(read("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
    for long in [
        "7200",
        "4294967296",
        "99999999999999999999",
        "Mon, 07 Nov 1994 08:49:37 GMT",
    ] {
        assert_eq!(read(long), Some(3_600), "it is believed up to an hour");
    }
    for nothing in ["", "soon", "-1", "1.5", "Sun, 06 Nov 1994 08:49:36 GMT"] {
        assert_eq!(read(nothing), None, "{nothing:?}");
    }
    assert_eq!(retry_after(&HeaderMap::new(), now), None);
}

#[tokio::test]
async fn a_receiver_that_hangs_has_its_time_and_no_more() {
    let began = Instant::now();
    assert_eq!(outcome("").await, Err(DeliveryFailure::Timeout));
    assert_eq!(
        outcome("HTTP/1.1 200 OK\r\ncontent-le").await,
        Err(DeliveryFailure::Timeout)
    );
    // The status is known, so what is missing of the answer does not matter.
    assert_eq!(
        outcome("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await,
        Ok(200)
    );
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn little_of_a_huge_answer_is_read() {
    let huge = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n{}",
        "x".repeat(1 << 20)
    );
    let (url, _first) = server(huge).await;
    let patient = receiver_with(&url, Duration::from_secs(3_600), Reach::Any).unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(60), patient.send(ID, BODY)).await;
    assert_eq!(answered.expect("it does not wait for the rest"), Ok(200));
    assert!(
        outcome(&format!(
            "HTTP/1.1 200 OK\r\nx: {}\r\n\r\n",
            "x".repeat(1 << 20)
        ))
        .await
        .is_err()
    );
}

#[tokio::test]
async fn private_addresses_are_out_of_reach_by_any_name() {
    for url in [
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://2130706433/",
        "http://0x7f.1/",
    ] {
        assert!(
            receiver(url, Reach::Public)
                .err()
                .unwrap()
                .contains("webhook-allow-private"),
            "{url}"
        );
    }
    let refused = receiver("http://localhost:1/", Reach::Public)
        .unwrap()
        .send(ID, BODY)
        .await;
    let Err(DeliveryFailure::Unreachable(why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("private"), "{why}");
}

#[tokio::test]
async fn no_error_quotes_the_url() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let nobody = receiver(&format!("http://127.0.0.1:{port}/?key=hush"), Reach::Any).unwrap();
    let why = nobody.send(ID, BODY).await.unwrap_err();
    assert!(
        matches!(why, DeliveryFailure::Unreachable(_)) && !why.to_string().contains("hush"),
        "{why}"
    );
}
