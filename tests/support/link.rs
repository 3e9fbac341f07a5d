//! Owns the wire between a gateway and Redis: a small TCP proxy that a test can cut, stall, slow
//! down and heal. Bytes that were held back are delivered on healing even if their sender has hung
//! up since, as a real network may do.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several test binaries share this file, none uses all of it"
)]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// What the wire does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    /// Passes them on, each piece after so long.
    Open(Duration),
    /// Keeps them until healed.
    Stalled,
    /// Keeps those of the first so many connections; newer ones are open.
    OldStalled(u64),
    /// Passes on what goes to the server and keeps what comes back.
    Mute,
    /// Passes everything on, but leads messages to other gateways astray that go this way.
    Swallowing(Way),
    /// Resets every connection and refuses new ones.
    Cut,
}

/// One way through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

/// The proxy; gone when dropped.
pub struct Link {
    addr: SocketAddr,
    wire: watch::Sender<Wire>,
    /// Connections that were accepted before so many strandings pass nothing any more.
    strandings: watch::Sender<u64>,
    accepted: Arc<AtomicU64>,
    server: watch::Sender<SocketAddr>,
    accepting: JoinHandle<()>,
}

impl Link {
    /// Listens on a free port and passes everything on to `server`.
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port for the link");
        let addr = listener.local_addr().expect("the link's address");
        let (wire, seen) = watch::channel(Wire::Open(Duration::ZERO));
        let strandings = watch::Sender::new(0);
        let accepted = Arc::new(AtomicU64::new(0));
        let ways = Ways {
            wire: seen,
            strandings: strandings.subscribe(),
            number: 0,
        };
        let server = watch::Sender::new(server);
        let ends = Ends {
            addr,
            server: server.subscribe(),
        };
        let accepting = tokio::spawn(accept(listener, ends, ways, accepted.clone()));
        Self {
            addr,
            wire,
            strandings,
            accepted,
            server,
            accepting,
        }
    }

    /// The URL that a gateway is given.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Leads new connections to another server, as a name does that was given to it; those there
    /// are stay.
    pub fn lead_to(&self, server: SocketAddr) {
        self.server.send_replace(server);
    }

    /// Resets every connection and refuses new ones.
    pub fn cut(&self) {
        self.wire.send_replace(Wire::Cut);
    }

    /// Holds back every byte; connections stay and new ones are accepted.
    pub fn stall(&self) {
        self.wire.send_replace(Wire::Stalled);
    }

    /// As [`Self::stall`], for the connections there are; those made from now on are open.
    pub fn stall_old(&self) {
        self.wire
            .send_replace(Wire::OldStalled(self.accepted.load(Ordering::SeqCst)));
    }

    /// Lets calls through to the server and holds back its answers.
    pub fn mute(&self) {
        self.wire.send_replace(Wire::Mute);
    }

    /// Redis takes the messages that the gateway publishes, and nobody is subscribed to where they
    /// go.
    pub fn swallow_published(&self) {
        self.wire.send_replace(Wire::Swallowing(Way::ToServer));
    }

    /// The gateway stays subscribed, and no message reaches it under a name that it knows.
    pub fn swallow_delivered(&self) {
        self.wire.send_replace(Wire::Swallowing(Way::ToClient));
    }

    /// Lets the connections of now pass nothing ever again, without closing them, as a router does
    /// that forgot them; new ones are not touched.
    pub fn strand(&self) {
        self.strandings.send_modify(|n| *n += 1);
    }

    /// Passes each piece on after `delay`.
    pub fn slow(&self, delay: Duration) {
        self.wire.send_replace(Wire::Open(delay));
    }

    /// Passes everything on at once, what was held back first.
    pub fn heal(&self) {
        self.slow(Duration::ZERO);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut();
        self.accepting.abort();
    }
}

/// Where the proxy listens, and where it leads.
struct Ends {
    addr: SocketAddr,
    server: watch::Receiver<SocketAddr>,
}

/// What one connection has to know.
#[derive(Clone)]
struct Ways {
    wire: watch::Receiver<Wire>,
    strandings: watch::Receiver<u64>,
    /// Which connection it is, from 0.
    number: u64,
}

async fn accept(listener: TcpListener, ends: Ends, ways: Ways, count: Arc<AtomicU64>) {
    let mut wire = ways.wire.clone();
    let mut listener = Some(listener);
    loop {
        if *wire.borrow_and_update() == Wire::Cut {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(ends.addr).await.ok();
        }
        let Some(open) = &listener else {
            tokio::select! {
                changed = wire.changed() => if changed.is_err() { return },
                () = sleep(Duration::from_millis(10)) => {}
            }
            continue;
        };
        tokio::select! {
            changed = wire.changed() => if changed.is_err() { return },
            accepted = open.accept() => {
                if let Ok((client, _)) = accepted {
                    let number = count.fetch_add(1, Ordering::SeqCst);
                    let server = *ends.server.borrow();
                    tokio::spawn(join(client, server, Ways { number, ..ways.clone() }));
                }
            }
        }
    }
}

async fn join(client: TcpStream, server: SocketAddr, mut ways: Ways) {
    ways.strandings.mark_unchanged();
    let Ok(server) = TcpStream::connect(server).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    // With no linger, dropping the last half resets the connection instead of closing it in good
    // order.
    let _ = (client.set_zero_linger(), server.set_zero_linger());
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = pump(from_client, to_server, Way::ToServer, ways.clone());
    let back = pump(from_server, to_client, Way::ToClient, ways.clone());
    let both = async { tokio::join!(there, back) };
    tokio::pin!(both);
    let cut = until(ways.wire.clone(), |w| w == Wire::Cut);
    tokio::pin!(cut);
    tokio::select! {
        _ = &mut both => {}
        () = &mut cut => {}
        // Nothing is polled but the cut: the sockets stay open, and nobody reads them.
        _ = ways.strandings.changed() => cut.await,
    }
}

/// Pieces that the wire holds at most, one way.
const ON_THE_WAY: usize = 1_024;

/// A piece, and when it arrives at the other end.
type OnItsWay = (Instant, Vec<u8>);

async fn pump(from: OwnedReadHalf, to: OwnedWriteHalf, way: Way, ways: Ways) -> io::Result<()> {
    // Pieces that follow each other closely arrive so: they do not wait for each other's delay.
    let (sent, arriving) = mpsc::channel(ON_THE_WAY);
    tokio::try_join!(take_in(from, sent, way, ways), deliver(arriving, to)).map(|_| ())
}

async fn deliver(mut arriving: mpsc::Receiver<OnItsWay>, mut to: OwnedWriteHalf) -> io::Result<()> {
    while let Some((due, piece)) = arriving.recv().await {
        if due > Instant::now() {
            sleep_until(due).await;
        }
        to.write_all(&piece).await?;
    }
    to.shutdown().await
}

async fn take_in(
    mut from: OwnedReadHalf,
    sent: mpsc::Sender<OnItsWay>,
    way: Way,
    ways: Ways,
) -> io::Result<()> {
    let Ways { wire, number, .. } = ways;
    let mut piece = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut piece).await?;
        let held = |w| match w {
            Wire::Stalled => true,
            Wire::OldStalled(limit) => number < limit,
            Wire::Mute => way == Way::ToClient,
            Wire::Open(_) | Wire::Cut | Wire::Swallowing(_) => false,
        };
        until(wire.clone(), |w| !held(w)).await;
        let now = *wire.borrow();
        if read == 0 {
            return Ok(());
        }
        if now == Wire::Swallowing(way) {
            lead_astray(&mut piece[..read], way);
        }
        let delay = if let Wire::Open(delay) = now {
            delay
        } else {
            Duration::ZERO
        };
        if sent
            .send((Instant::now() + delay, piece[..read].to_vec()))
            .await
            .is_err()
        {
            return Ok(());
        }
    }
}

/// The channels of gateways' messages, and names of the same length that nobody knows.
const ASTRAY: [(&[u8], &[u8]); 3] = [
    (b"rollcall:{live:", b"rollcall:{l1ve:"),
    (b"rollcall:gateways", b"rollcall:gatew4ys"),
    (b"rollcall:echo:", b"rollcall:ech0:"),
];

/// Renames the channels to which messages are published, or from which they are delivered, and
/// leaves subscriptions.
fn lead_astray(piece: &mut [u8], way: Way) {
    let has = |piece: &[u8], word: &[u8]| {
        piece
            .windows(word.len())
            .any(|there| there.eq_ignore_ascii_case(word))
    };
    let carries_messages = match way {
        Way::ToServer => !has(piece, b"subscribe\r\n"),
        Way::ToClient => has(piece, b"smessage\r\n"),
    };
    if !carries_messages {
        return;
    }
    for (channel, other) in ASTRAY {
        let mut at = 0;
        while let Some(there) = piece[at..]
            .windows(channel.len())
            .position(|there| there == channel)
        {
            at += there;
            piece[at..at + other.len()].copy_from_slice(other);
        }
    }
}

/// Waits until the wire is as wished; for ever if the link is gone.
async fn until(mut wire: watch::Receiver<Wire>, wished: impl Fn(Wire) -> bool) {
    if wire.wait_for(|w| wished(*w)).await.is_err() {
        std::future::pending::<()>().await;
    }
}
