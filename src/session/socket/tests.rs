//! Frames in every cut: what comes out is what went in, and nothing is kept for a socket that has
//! nothing to do.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::session::messages::HEARTBEAT;

/// How a client may put a payload into a frame.
#[derive(Clone, Copy)]
enum Length {
    Shortest,
    /// With more bytes for the length than it needs, which is not forbidden to be read.
    Padded,
}

/// A client's frame.
fn frame(opcode: u8, fin: bool, payload: &[u8], length: Length) -> Vec<u8> {
    let mut bytes = vec![opcode | if fin { 0x80 } else { 0 }];
    match (payload.len(), length) {
        (short @ 0..126, Length::Shortest) => bytes.push(0x80 | short as u8),
        (long, Length::Shortest) => {
            bytes.push(0x80 | 126);
            bytes.extend((long as u16).to_be_bytes());
        }
        (long, Length::Padded) => {
            bytes.push(0x80 | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    let mask = [7, 11, 13, 17];
    bytes.extend(mask);
    bytes.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    bytes
}

fn text(words: &str) -> Vec<u8> {
    frame(0x1, true, words.as_bytes(), Length::Shortest)
}

fn socket(room: usize) -> (DuplexStream, Socket<DuplexStream>) {
    let (ours, theirs) = duplex(room);
    (ours, Socket::new(theirs, Vec::new()))
}

async fn hear(socket: &mut Socket<DuplexStream>) -> ReceivedFrame {
    poll_fn(|cx| socket.poll_receive(cx))
        .await
        .expect("something")
}

/// The next whole message.
async fn next(socket: &mut Socket<DuplexStream>) -> Message {
    loop {
        if let ReceivedFrame::Message(message) = hear(socket).await {
            return message;
        }
    }
}

/// Polls once, with nothing to be had.
async fn rest(socket: &mut Socket<DuplexStream>) {
    poll_fn(|cx| {
        assert!(socket.poll_receive(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn an_idle_socket_keeps_no_codec() {
    let (mut client, mut socket) = socket(1 << 16);
    rest(&mut socket).await;
    assert!(socket.is_idle(), "before the first frame");
    for size in [0, 5, 125, 126, 127, 4_000, 4_096] {
        client.write_all(&text(&"x".repeat(size))).await.unwrap();
        assert_eq!(next(&mut socket).await.len(), size);
        socket.send(Message::text("y".repeat(size))).await.unwrap();
        rest(&mut socket).await;
        assert!(socket.is_idle(), "after {size} bytes");
    }
    socket.send(Message::text("said first")).await.unwrap();
    rest(&mut socket).await;
    assert!(socket.is_idle(), "after it spoke");
}

#[tokio::test]
async fn bytes_that_came_with_the_handshake_are_read_first() {
    let (mut client, theirs) = duplex(1 << 10);
    let (early, late) = (text("early"), text("late"));
    client.write_all(&early[4..]).await.unwrap();
    client.write_all(&late).await.unwrap();
    let mut socket = Socket::new(theirs, early[..4].to_vec());
    assert_eq!(next(&mut socket).await, Message::text("early"));
    assert_eq!(next(&mut socket).await, Message::text("late"));
    rest(&mut socket).await;
    assert!(socket.is_idle());
}

#[tokio::test]
async fn a_heartbeat_and_its_answer_need_no_codec() {
    let (mut client, mut socket) = socket(1 << 10);
    for (sent, message) in [
        (text(HEARTBEAT), Message::text(HEARTBEAT)),
        (
            frame(0xa, true, b"", Length::Shortest),
            Message::Pong(Vec::new().into()),
        ),
    ] {
        client.write_all(&sent).await.unwrap();
        assert_eq!(next(&mut socket).await, message);
        assert!(socket.is_idle(), "after it read {message:?}");
    }
    for message in [
        Message::text("x".repeat(252)),
        Message::Ping(vec![7; 125].into()),
    ] {
        socket.send(message.clone()).await.unwrap();
        assert!(socket.is_idle(), "after it said {message:?}");
        let header = if message.is_ping() {
            vec![0x89, 125]
        } else {
            vec![0x81, 126, 0, 252]
        };
        let mut heard = vec![0; header.len() + message.len()];
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, [header, message.into_data().to_vec()].concat());
    }
}

/// What a socket answers to bytes that come at once, and then to a second piece.
async fn told(
    pieces: [&[u8]; 2],
    socket: &mut Socket<DuplexStream>,
    client: &mut DuplexStream,
) -> Vec<String> {
    let mut told = Vec::new();
    for piece in pieces {
        client.write_all(piece).await.unwrap();
        while let Some(Some(done)) = poll_fn(|cx| {
            Poll::Ready(match socket.poll_receive(cx) {
                Poll::Ready(done) => Some(Some(done)),
                Poll::Pending => None,
            })
        })
        .await
        {
            told.push(format!("{done:?}"));
            if done.is_err() {
                return told;
            }
        }
    }
    told
}

#[tokio::test]
async fn the_fast_path_agrees_with_the_codec() {
    let mut cases = Vec::new();
    for whole in [text(HEARTBEAT), frame(0xa, true, b"", Length::Shortest)] {
        // Every bit turned over: another opcode, no mask, another length, another word.
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            cases.push((bytes, Vec::new()));
        }
        for cut in 0..=whole.len() {
            cases.push((whole[..cut].to_vec(), whole[cut..].to_vec()));
        }
        cases.push(([&whole[..], &whole].concat(), text("and on")));
        cases.push((whole.clone(), whole));
    }
    for (first, second) in cases {
        let (mut client, mut short) = socket(1 << 10);
        let short = told([&first, &second], &mut short, &mut client).await;
        // With a codec from the start, there is no shortcut.
        let (mut client, theirs) = duplex(1 << 10);
        let mut long = Socket {
            transport: theirs,
            codec: Some(Box::new(Codec::new(Vec::new()))),
        };
        let long = told([&first, &second], &mut long, &mut client).await;
        assert_eq!(short, long, "{first:02x?} then {second:02x?}");
    }
}

#[tokio::test]
async fn messages_that_find_no_room_are_sent_whole_and_in_order() {
    for room in 1..300 {
        let (mut client, mut socket) = socket(room);
        let words = ["a".repeat(90), "b".repeat(90), "c".repeat(200)];
        let saying = async {
            for words in &words {
                socket.send(Message::text(words.clone())).await.unwrap();
            }
        };
        let hearing = async {
            for words in &words {
                let mut heard = vec![0; if words.len() < 126 { 2 } else { 4 } + words.len()];
                client.read_exact(&mut heard).await.unwrap();
                assert!(
                    heard.ends_with(words.as_bytes()) && heard[0] == 0x81,
                    "room for {room}"
                );
            }
        };
        tokio::join!(saying, hearing);
        rest(&mut socket).await;
        assert!(socket.is_idle(), "room for {room}");
    }
}

#[tokio::test]
async fn half_a_frame_is_kept_until_the_rest_comes() {
    let (mut client, mut socket) = socket(1 << 10);
    let whole = text("a heartbeat");
    for cut in 1..whole.len() {
        client.write_all(&whole[..cut]).await.unwrap();
        rest(&mut socket).await;
        assert!(!socket.is_idle(), "{cut} bytes are there");
        client.write_all(&whole[cut..]).await.unwrap();
        assert_eq!(next(&mut socket).await, Message::text("a heartbeat"));
        rest(&mut socket).await;
        assert!(socket.is_idle());
    }
}

#[tokio::test]
async fn a_message_in_pieces_is_received_whole() {
    let (mut client, mut socket) = socket(1 << 10);
    client
        .write_all(&frame(0x1, false, b"in ", Length::Shortest))
        .await
        .unwrap();
    assert_eq!(hear(&mut socket).await, ReceivedFrame::Part);
    rest(&mut socket).await;
    assert!(!socket.is_idle(), "a piece is there");
    client
        .write_all(&frame(0x9, true, b"ping", Length::Shortest))
        .await
        .unwrap();
    client
        .write_all(&frame(0x0, true, b"pieces", Length::Padded))
        .await
        .unwrap();
    assert_eq!(
        hear(&mut socket).await,
        ReceivedFrame::Message(Message::Ping(b"ping".to_vec().into()))
    );
    assert_eq!(
        hear(&mut socket).await,
        ReceivedFrame::Message(Message::text("in pieces"))
    );
    socket.flush().await.unwrap();
    rest(&mut socket).await;
    assert!(socket.is_idle(), "nothing of it is left");
    client.write_all(&text("on it goes")).await.unwrap();
    assert_eq!(next(&mut socket).await, Message::text("on it goes"));
}

#[tokio::test]
async fn every_piece_of_a_message_is_heard_when_it_is_whole() {
    let (mut client, mut socket) = socket(1 << 10);
    for (i, piece) in ["piece ", "", "by ", "piece"].iter().enumerate() {
        let opcode = if i == 0 { 0x1 } else { 0x0 };
        let bytes = frame(opcode, false, piece.as_bytes(), Length::Padded);
        client.write_all(&bytes[..5]).await.unwrap();
        rest(&mut socket).await;
        client.write_all(&bytes[5..]).await.unwrap();
        assert_eq!(hear(&mut socket).await, ReceivedFrame::Part, "{piece}");
        rest(&mut socket).await;
    }
    client
        .write_all(&frame(0x0, true, b"", Length::Shortest))
        .await
        .unwrap();
    assert_eq!(
        hear(&mut socket).await,
        ReceivedFrame::Message(Message::text("piece by piece"))
    );
}

#[tokio::test]
async fn a_length_in_more_bytes_than_it_needs_leaves_nothing_behind() {
    let (mut client, mut socket) = socket(1 << 13);
    for size in [0, 5, 125, 126, 4_096] {
        client
            .write_all(&frame(0x1, true, &vec![b'x'; size], Length::Padded))
            .await
            .unwrap();
        assert_eq!(next(&mut socket).await.len(), size);
        rest(&mut socket).await;
        assert!(socket.is_idle(), "after {size} bytes");
    }
}

#[tokio::test]
async fn frames_that_arrive_while_a_send_waits_are_noticed_and_kept() {
    let (mut client, mut socket) = socket(300);
    let words = "y".repeat(400);
    let mut message = Some(Message::text(words.clone()));
    assert!(poll_fn(|cx| Poll::Ready(socket.poll_send(cx, message.take()).is_pending())).await);
    let heard = text("still here");
    for (sent, is_heard) in [
        (&heard[..0], false),
        (&heard[..7], false),
        (&heard[7..], true),
        (&text("again"), true),
    ] {
        client.write_all(sent).await.unwrap();
        assert_eq!(
            poll_fn(|cx| Poll::Ready(socket.has_received(cx))).await,
            is_heard
        );
    }
    let mut said = vec![0; 404];
    let (sent, read) = tokio::join!(socket.flush(), client.read_exact(&mut said));
    assert!(sent.is_ok() && read.is_ok() && said.ends_with(words.as_bytes()));
    assert_eq!(next(&mut socket).await, Message::text("still here"));
    assert_eq!(next(&mut socket).await, Message::text("again"));
    rest(&mut socket).await;
    assert!(socket.is_idle(), "nothing of it is left");
}

#[tokio::test]
async fn the_answer_to_a_ping_is_not_lost_when_the_client_reads_late() {
    let (mut client, mut socket) = socket(16);
    let reading = async {
        let (ping, heartbeat) = (
            frame(0x9, true, &[9; 100], Length::Shortest),
            text("and on"),
        );
        client.write_all(&ping).await.unwrap();
        let mut pong = vec![0; 102];
        client.read_exact(&mut pong).await.unwrap();
        assert_eq!((pong[0], pong[1], pong[101]), (0x8a, 100, 9));
        client.write_all(&heartbeat).await.unwrap();
    };
    let serving = async {
        assert!(next(&mut socket).await.is_ping());
        // It may be polled before the answer is flushed: nothing of it may be dropped.
        poll_fn(|cx| Poll::Ready(socket.poll_receive(cx).is_pending())).await;
        socket.flush().await.unwrap();
        assert_eq!(next(&mut socket).await, Message::text("and on"));
    };
    tokio::join!(reading, serving);
}

#[tokio::test]
async fn the_same_messages_come_out_however_the_bytes_are_cut() {
    for seed in 0..200 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (mut client, mut socket) = socket(1 << 14);
        let mut sent = Vec::new();
        let mut bytes = Vec::new();
        for i in 0..dice.random_range(1..20) {
            let words = format!("{i}{}", "x".repeat(dice.random_range(0..300)));
            let padded = if dice.random_bool(0.2) {
                Length::Padded
            } else {
                Length::Shortest
            };
            match dice.random_range(0..4) {
                0 => {
                    let cut = dice.random_range(0..words.len());
                    bytes.extend(frame(0x1, false, &words.as_bytes()[..cut], padded));
                    bytes.extend(frame(0x0, true, &words.as_bytes()[cut..], padded));
                }
                1 => {
                    bytes.extend(frame(0xa, true, b"pong", Length::Shortest));
                    bytes.extend(frame(0x1, true, words.as_bytes(), padded));
                }
                _ => bytes.extend(frame(0x1, true, words.as_bytes(), padded)),
            }
            sent.push(words);
        }
        let writing = async {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let cut = dice.random_range(1..=rest.len().min(400));
                client.write_all(&rest[..cut]).await.unwrap();
                rest = &rest[cut..];
                for _ in 0..dice.random_range(0..3) {
                    tokio::task::yield_now().await;
                }
            }
        };
        let reading = async {
            let mut heard = Vec::new();
            while heard.len() < sent.len() {
                if let Message::Text(words) = next(&mut socket).await {
                    heard.push(words.to_string());
                }
            }
            heard
        };
        let ((), heard) = tokio::join!(writing, reading);
        assert_eq!(heard, sent, "seed {seed}");
        rest(&mut socket).await;
        assert!(socket.is_idle(), "seed {seed}: something is left");
    }
}
