//! Sessions over in-memory streams, with time that stands still until it is moved.

mod any_frames;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role as Side;
use tokio_util::sync::CancellationToken;

use super::socket::websocket_config;
use super::*;
use crate::auth::claims::TokenClaims;
use crate::base::identity::Role;
use crate::base::ids::{ErasureId, UserId};
use crate::base::metrics::Why;
use crate::store::{CloseReason, Closure, LiveRecord, LiveState};
use crate::testing;

fn handshake(user: &str) -> Handshake {
    Handshake {
        identity: testing::viewer(user),
        claims: None,
        join: None,
        watch: None,
        permit: None,
    }
}

/// Runs a session on a stream that takes `room` bytes before somebody reads; answers the client's
/// end.
async fn connect(
    context: &Arc<SessionContext>,
    user: &str,
    room: usize,
) -> (WebSocketStream<DuplexStream>, tokio::task::JoinHandle<()>) {
    let (ours, theirs) = duplex(room);
    let session = tokio::spawn(run(context.clone(), theirs, Vec::new(), handshake(user)));
    (
        WebSocketStream::from_raw_socket(ours, Side::Client, Some(websocket_config())).await,
        session,
    )
}

async fn hears(client: &mut WebSocketStream<DuplexStream>, words: &str) {
    let heard = client.next().await.unwrap().unwrap();
    assert!(
        heard.to_text().unwrap().contains(words),
        "{heard} instead of {words}"
    );
}

fn closed(context: &SessionContext, why: &'static str) -> u64 {
    context
        .core
        .metrics
        .sockets_closed
        .get_or_create(&Why { why })
        .get()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut_off() {
    let context = testing::sessions();
    let started = tokio::time::Instant::now();
    let (_client, session) = connect(&context, "u1", 16).await;
    session.await.unwrap();
    assert_eq!(closed(&context, "slow_consumer"), 1);
    assert!(
        started.elapsed() >= context.core.config.timeout
            && started.elapsed() < context.core.config.timeout * 2
    );
    assert_eq!(context.core.metrics.sockets.get(), 0);
}

/// The gateway learns of the erasure a moment before it closes the user's sockets.
#[tokio::test(start_paused = true)]
async fn a_user_who_is_being_erased_is_told_so_by_a_join() {
    let context = testing::sessions();
    let (mut client, _session) = connect(&context, "u1", 4_096).await;
    hears(&mut client, "welcome").await;
    let user = UserId::parse("u1").unwrap();
    let erasure = ErasureId::random();
    context
        .core
        .erasing
        .ask(&user, &erasure, context.core.clock.now());
    let join = r#"{"type":"join","live_id":"42"}"#;
    client.send(Message::text(join)).await.unwrap();
    hears(&mut client, r#""code":"being_erased""#).await;
}

/// A client whose buffer the welcome fills, but for a byte, and the reaper of its gateway.
async fn with_a_full_buffer(
    context: &Arc<SessionContext>,
) -> (WebSocketStream<DuplexStream>, tokio::task::JoinHandle<()>) {
    let (mut other, _) = connect(context, "u0", 4_096).await;
    let welcome = other.next().await.unwrap().unwrap();
    tokio::spawn(context.reaper.clone().run(CancellationToken::new()));
    let header = if welcome.len() < 126 { 2 } else { 4 };
    connect(context, "u1", header + welcome.len() + 1).await
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanished_with_a_full_buffer_is_gone_a_timeout_after_its_last_frame() {
    let context = testing::sessions();
    let (mut client, session) = with_a_full_buffer(&context).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.send(Message::Pong(Vec::new().into())).await.unwrap();
    let last = tokio::time::Instant::now();
    // The Ping that is due after a heartbeat finds no room.
    session.await.unwrap();
    assert_eq!(closed(&context, "heartbeat_timeout"), 1);
    let (timeout, took) = (context.core.config.timeout, last.elapsed());
    assert!(
        took >= timeout && took < timeout + Duration::from_secs(1),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_talks_but_does_not_read_is_cut_off_a_timeout_after_its_buffer_was_full() {
    let context = testing::sessions();
    let (mut client, session) = with_a_full_buffer(&context).await;
    let started = tokio::time::Instant::now();
    // Heard at 2 s, so pinged some 5 s later, which finds no room; what is said after that is not
    // read.
    for pause in [2, 8, 2] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        client.send(Message::Pong(Vec::new().into())).await.unwrap();
    }
    session.await.unwrap();
    assert_eq!(closed(&context, "slow_consumer"), 1);
    let (least, took) = (
        Duration::from_secs(2) + context.core.config.heartbeat + context.core.config.timeout,
        started.elapsed(),
    );
    assert!(
        took >= least && took < least + Duration::from_secs(2),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_a_message_in_slow_pieces_stays() {
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    let context = testing::sessions();
    tokio::spawn(context.reaper.clone().run(CancellationToken::new()));
    let (mut client, session) = connect(&context, "u1", 4_096).await;
    let piece = |data, last| Message::Frame(Frame::message("", OpCode::Data(data), last));
    // It is pinged in between and does not answer, as it does not read.
    client.send(piece(Data::Text, false)).await.unwrap();
    for _ in 0..10 {
        tokio::time::sleep(context.core.config.timeout / 2).await;
        client.send(piece(Data::Continue, false)).await.unwrap();
    }
    client.send(piece(Data::Continue, true)).await.unwrap();
    hears(&mut client, "welcome").await;
    while !client
        .next()
        .await
        .unwrap()
        .unwrap()
        .to_text()
        .unwrap_or_default()
        .contains("bad_message")
    {}
    drop(client);
    session.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_pinged_and_then_closed_after_the_timeout_and_not_before() {
    let context = testing::sessions();
    let stop = CancellationToken::new();
    let reaper = tokio::spawn(context.reaper.clone().run(stop.clone()));
    let started = tokio::time::Instant::now();
    let (mut client, session) = connect(&context, "u1", 4_096).await;
    // Frame by frame and by hand: a client of the library would answer the Pings.
    let socket = client.get_mut();
    let mut pings = 0;
    let code = loop {
        let kind = socket.read_u8().await.unwrap() & 0x0f;
        let length = match socket.read_u8().await.unwrap() {
            126 => socket.read_u16().await.unwrap(),
            short => short.into(),
        };
        let mut body = vec![0; length.into()];
        socket.read_exact(&mut body).await.unwrap();
        match kind {
            0x9 => pings += 1,
            0x8 => break u16::from_be_bytes([body[0], body[1]]),
            _ => {}
        }
    };
    let timeout = context.core.config.timeout;
    assert_eq!((code, pings), (4000, 2));
    assert!(
        started.elapsed() >= timeout && started.elapsed() < timeout + Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
    client.get_mut().shutdown().await.unwrap();
    session.await.unwrap();
    stop.cancel();
    reaper.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_could_not_be_pinged_in_time_is_pinged_before_it_is_judged() {
    for signals in [Signals::PING.and(Signals::JUDGE), Signals::JUDGE] {
        let context = testing::sessions();
        let (mut client, session) = connect(&context, "u1", 4_096).await;
        assert!(
            client.next().await.unwrap().unwrap().is_text(),
            "the welcome"
        );
        // The session had no time for the signals until now: it served a request, or did not run.
        tokio::time::advance(context.core.config.timeout).await;
        context.reaper.signal_all(signals);
        assert!(
            client.next().await.unwrap().unwrap().is_ping(),
            "{signals:?}"
        );
        client
            .send(Message::text(r#"{"type":"heartbeat"}"#))
            .await
            .unwrap();
        assert!(
            client.next().await.unwrap().unwrap().is_text(),
            "still there"
        );
        drop(client);
        session.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_a_request_at_the_end_of_its_live_is_told_of_the_end_first() {
    for (says, hears_then) in [
        (r#"{"type":"leave"}"#, "not_joined"),
        (r#"{"type":"heartbeat"}"#, r#""live_id":null"#),
    ] {
        asks_at_the_end(says, hears_then).await;
    }
}

async fn asks_at_the_end(says: &str, hears_then: &str) {
    let context = testing::sessions();
    let room = testing::open_live(&context, "42").await;
    let (mut client, session) = connect(&context, "u1", 4_096).await;
    client
        .send(Message::text(r#"{"type":"join","live_id":"42"}"#))
        .await
        .unwrap();
    hears(&mut client, "welcome").await;
    hears(&mut client, "joined").await;
    // The room has ended; its sockets are yet to be told.
    let closure = Closure {
        reason: CloseReason::Requested,
        at: 1,
    };
    assert!(room.close(LiveRecord {
        state: LiveState::Closed,
        closure: Some(closure),
        ..room.record.clone()
    }));
    client.send(Message::text(says)).await.unwrap();
    hears(&mut client, r#""type":"closed""#).await;
    hears(&mut client, hears_then).await;
    drop(client);
    session.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_close_is_read_even_if_an_earlier_frame_cannot_be_answered() {
    for (says_goodbye, why) in [(true, "client"), (false, "vanished")] {
        let context = testing::sessions();
        let (mut client, session) = connect(&context, "u1", 4_096).await;
        // All of it is there, and the client is gone, before the session has a chance to read: the
        // process stood still.
        for _ in 0..3 {
            client
                .send(Message::text(r#"{"type":"heartbeat"}"#))
                .await
                .unwrap();
        }
        if says_goodbye {
            client.send(Message::Close(None)).await.unwrap();
        }
        drop(client);
        session.await.unwrap();
        assert_eq!(closed(&context, why), 1, "{why}");
    }
}

/// How many frames of a client are answered by errors, and with which code the socket ends.
async fn sends_on(frames: Vec<Message>) -> (usize, u16, Arc<SessionContext>) {
    let context = testing::sessions();
    let (mut client, session) = connect(&context, "u1", 1 << 16).await;
    hears(&mut client, "welcome").await;
    let (mut out, mut into) = client.split();
    tokio::spawn(async move {
        out.send_all(&mut futures_util::stream::iter(frames.into_iter().map(Ok)))
            .await
    });
    let mut errors = 0;
    let code = loop {
        match into.next().await.unwrap().unwrap() {
            Message::Text(text) if text.contains("rate_limited") => errors += 1,
            Message::Close(frame) => break frame.unwrap().code.into(),
            _ => {}
        }
    };
    drop(into);
    session.await.unwrap();
    (errors, code, context)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_on_beyond_the_rate_is_told_once_and_then_closed() {
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    let piece = |data| Message::Frame(Frame::message("", OpCode::Data(data), false));
    let ping = || Message::Ping(Vec::new().into());
    let frames: [(&str, Vec<Message>); 5] = [
        (
            "heartbeats",
            vec![Message::text(r#"{"type":"heartbeat"}"#); 41],
        ),
        ("pings", vec![ping(); 41]),
        (
            "pongs that answer nothing",
            vec![Message::Pong(Vec::new().into()); 41],
        ),
        ("binary", vec![Message::binary("x"); 41]),
        // Pieces are counted together as they arrive, with the message behind them.
        (
            "pieces",
            [
                vec![piece(Data::Text)],
                vec![piece(Data::Continue); 40],
                vec![ping(); 2],
            ]
            .concat(),
        ),
    ];
    for (what, frames) in frames {
        assert!(frames.len() > 40, "twice the burst, and one more");
        let (errors, code, context) = sends_on(frames).await;
        assert_eq!((errors, code), (1, 4008), "{what}");
        assert_eq!(closed(&context, "rate_limited"), 1);
        assert!(
            context
                .core
                .metrics
                .limited
                .get_or_create(&Why { why: "messages" })
                .get()
                > 0
        );
    }
}

/// The wall clock stands nearly still here, while the gateway's clock moves on.
#[tokio::test(start_paused = true)]
async fn only_the_gateways_own_clock_says_when_a_token_ends() {
    let context = testing::sessions();
    tokio::spawn(context.reaper.clone().run(CancellationToken::new()));
    let claims = TokenClaims {
        user: testing::viewer("u1").user,
        role: Role::Viewer,
        counted: true,
        expires_at: context.core.clock.unix() + 60_000,
        issued_at: None,
        user_since: None,
        lives: None,
        fan_of: None,
    };
    let started = tokio::time::Instant::now();
    let (ours, theirs) = duplex(4_096);
    let handshake = Handshake {
        claims: Some(Arc::new(claims)),
        ..handshake("u1")
    };
    let session = tokio::spawn(run(context.clone(), theirs, Vec::new(), handshake));
    let mut client =
        WebSocketStream::from_raw_socket(ours, Side::Client, Some(websocket_config())).await;
    let code = loop {
        // The library answers the Pings, so the socket is never silent for long.
        if let Message::Close(frame) = client.next().await.unwrap().unwrap() {
            break u16::from(frame.unwrap().code);
        }
    };
    let lasted = started.elapsed();
    assert_eq!(code, 4001);
    assert!(
        lasted > Duration::from_secs(89) && lasted < Duration::from_secs(91),
        "{lasted:?} with the leeway of 30 s"
    );
    drop(client);
    session.await.unwrap();
    assert_eq!(closed(&context, "token_expired"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_keeps_the_rate_is_always_served() {
    let context = testing::sessions();
    let (mut client, session) = connect(&context, "u1", 4_096).await;
    hears(&mut client, "welcome").await;
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The answer to a Ping of the gateway costs nothing.
        context.reaper.signal_all(Signals::PING);
        assert!(client.next().await.unwrap().unwrap().is_ping());
        client.flush().await.unwrap();
        client
            .send(Message::text(r#"{"type":"heartbeat"}"#))
            .await
            .unwrap();
        hears(&mut client, "heartbeat_ack").await;
    }
    drop(client);
    session.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn endless_signals_do_not_keep_frames_from_being_read() {
    let context = testing::sessions();
    let (mut client, session) = connect(&context, "u1", 1 << 16).await;
    let nagging = {
        let context = context.clone();
        tokio::spawn(async move {
            loop {
                context.reaper.signal_all(Signals::PING);
                tokio::task::yield_now().await;
            }
        })
    };
    client
        .send(Message::text(r#"{"type":"leave","id":7}"#))
        .await
        .unwrap();
    loop {
        match client.next().await.unwrap().unwrap() {
            Message::Text(text) if text.contains("not_joined") => break,
            _ => {}
        }
    }
    nagging.abort();
    drop(client);
    session.await.unwrap();
}

/// What a socket costs while it waits. Pinned so that a growth is noticed: it is paid by every
/// viewer there is.
#[tokio::test]
async fn the_future_of_a_session_stays_small() {
    let context = testing::sessions();
    let (_, theirs) = tokio::io::duplex(16);
    let size = std::mem::size_of_val(&run(context, theirs, Vec::new(), handshake("u1")));
    assert!(size <= 648, "{size} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_dropped_leaves_nothing_behind() {
    let context = testing::sessions();
    let room = testing::open_live(&context, "42").await;
    let (mut client, session) = connect(&context, "u1", 4_096).await;
    client
        .send(Message::text(r#"{"type":"join","live_id":"42"}"#))
        .await
        .unwrap();
    hears(&mut client, "welcome").await;
    hears(&mut client, "joined").await;
    assert_eq!(
        (
            context.core.metrics.sockets.get(),
            room.figures.own_viewers().viewers
        ),
        (1, 1)
    );
    session.abort();
    assert!(session.await.unwrap_err().is_cancelled());
    assert_eq!(
        (
            context.core.metrics.sockets.get(),
            room.figures.own_viewers().viewers,
            closed(&context, "lost")
        ),
        (0, 0, 1)
    );
    assert!(context.reaper.open_conns().is_empty());
}
