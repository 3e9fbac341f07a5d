//! What becomes of each datagram, without sockets and without time that passes.

use crate::auth::presence_secret::PresenceSecret;
use crate::base::clock::{Clock, moment};
use crate::base::ids::LiveId;
use crate::base::session_key::SessionKey;
use crate::config::Config;
use crate::features::datagrams::responder::*;
use crate::features::datagrams::strangers::VAIN_HASHES;
use crate::features::datagrams::wire;
use crate::features::datagrams::wire::DatagramAnswer;
use crate::gateway::wiring::FromOutside;
use crate::session::messages::JoinRequest;
use crate::session::socketless::sessions::Newcomer;
use crate::store::memory::MemoryStore;
use crate::testing;

const HOME: &str = "192.0.2.1:4000";
const ELSEWHERE: &str = "192.0.2.1:4001";
const VICTIM: &str = "198.51.100.9:53";

/// A gateway that has one socket for datagrams.
struct Gateway {
    app: Arc<AppState>,
    responder: Responder,
    now: Moment,
}

impl Gateway {
    fn new() -> Self {
        Self::with(Arc::new(PresenceSecret::open(None).unwrap()))
    }

    fn with(presence_secret: Arc<PresenceSecret>) -> Self {
        let config = Config {
            udp: Some("127.0.0.1:0".parse().unwrap()),
            ..Config::default()
        };
        let verifiers = FromOutside {
            presence_secret,
            ..FromOutside::default()
        };
        let store = Arc::new(MemoryStore::new(Clock::start()));
        let app = testing::app_with(&config, verifiers, store);
        Self {
            responder: Responder::new(Arc::new(Shared::new(app.clone()))),
            app,
            now: moment(1_000),
        }
    }

    /// A client that has just joined over HTTP.
    async fn joined(&self, user: &str) -> Client {
        testing::open_live(&self.app.sessions, "42").await;
        let newcomer = Newcomer {
            identity: testing::viewer(user),
            claims: None,
            permit: None,
        };
        let wish = JoinRequest::plain(LiveId::parse("42").unwrap());
        let joined = self.app.presences.begin(newcomer, &wish).await.unwrap();
        let session = joined.claims.key;
        let key = self.app.presences.secret().datagram_key(&session).unwrap();
        Client {
            session,
            ticket: joined.claims.seal(self.app.presences.secret()).unwrap(),
            key: DatagramKey::new(&key),
            counter: Counter {
                channel: 0,
                number: 0,
            },
        }
    }

    /// Lets time pass, then takes in a datagram.
    fn takes(&mut self, datagram: &[u8], from: &str) -> DatagramReply {
        self.now += 1_000;
        self.at_once(datagram, from)
    }

    fn at_once(&mut self, datagram: &[u8], from: &str) -> DatagramReply {
        self.responder
            .take(datagram, from.parse().unwrap(), self.now)
    }

    fn count(&self, fate: Fate) -> u64 {
        let tallies = Tallies::new(&self.app.core.metrics);
        tallies.of(fate)
    }

    /// When the session was heard last, by the gateway's clock.
    fn heard_at(&self, client: &Client) -> Moment {
        let session = self.app.presences.find(&client.session).unwrap();
        session.conn.last_heard()
    }
}

/// A client of the gateway, at any address.
struct Client {
    session: SessionKey,
    ticket: String,
    key: DatagramKey,
    counter: Counter,
}

impl Client {
    fn next(&mut self) -> Counter {
        self.counter.number += 1;
        self.counter
    }

    fn beat(&mut self) -> [u8; SHORT] {
        let counter = self.next();
        wire::beat(&self.key, &self.session, counter, true)
    }

    fn leave(&mut self) -> [u8; SHORT] {
        let counter = self.next();
        wire::leave(&self.key, &self.session, counter)
    }

    fn hello(&mut self, cookie: Cookie) -> Vec<u8> {
        self.counter.channel = cookie.channel();
        let counter = self.next();
        wire::hello_to(&self.key, &self.session, counter, cookie, &self.ticket)
    }

    /// The cookie of a challenge.
    fn challenged(&self, reply: &DatagramReply) -> Cookie {
        match self.read(reply) {
            Some(DatagramAnswer::Challenge(challenge)) => challenge.cookie,
            other => panic!("no challenge: {other:?}"),
        }
    }

    fn acked(&self, reply: &DatagramReply) -> DatagramAck {
        match self.read(reply) {
            Some(DatagramAnswer::Ack(ack)) => ack,
            other => panic!("no ack: {other:?}"),
        }
    }

    fn read(&self, reply: &DatagramReply) -> Option<DatagramAnswer> {
        match reply {
            DatagramReply::Answer(bytes) => DatagramAnswer::read(bytes, &self.key),
            _ => None,
        }
    }

    /// Has its address validated.
    fn settles(&mut self, gateway: &mut Gateway, at: &str) {
        let beat = self.beat();
        let cookie = self.challenged(&gateway.takes(&beat, at));
        let hello = self.hello(cookie);
        let ack = self.acked(&gateway.takes(&hello, at));
        assert_eq!(ack.status, DatagramStatus::Here);
    }
}

fn is_nothing(reply: &DatagramReply) -> bool {
    matches!(reply, DatagramReply::Nothing)
}

#[tokio::test]
async fn a_beat_from_a_validated_address_is_heard_and_told_the_figures() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    client.settles(&mut gateway, HOME);
    let beat = client.beat();
    let ack = client.acked(&gateway.takes(&beat, HOME));
    assert_eq!(ack.counter, client.counter);
    assert_eq!(ack.viewers, 1);
    assert_eq!(ack.fan, None);
    assert_eq!(ack.beat_ms, 5_000);
    assert_eq!(gateway.count(Fate::Beat), 1);
}

#[tokio::test(start_paused = true)]
async fn a_beat_from_an_address_that_is_not_validated_keeps_nobody() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    client.settles(&mut gateway, HOME);
    let heard_at = gateway.heard_at(&client);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let beat = client.beat();
    client.challenged(&gateway.takes(&beat, ELSEWHERE));
    assert_eq!(gateway.heard_at(&client), heard_at);
    client.acked(&gateway.takes(&beat, HOME));
    assert!(gateway.heard_at(&client) > heard_at, "it was not used up");
}

#[tokio::test]
async fn a_client_goes_on_from_another_address_after_one_round_trip() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    client.settles(&mut gateway, HOME);
    client.settles(&mut gateway, ELSEWHERE);
    let beat = client.beat();
    client.acked(&gateway.takes(&beat, ELSEWHERE));
    let late = client.beat();
    client.challenged(&gateway.takes(&late, HOME));
}

#[tokio::test]
async fn a_copy_of_any_datagram_changes_nothing() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    let first = client.beat();
    let cookie = client.challenged(&gateway.takes(&first, HOME));
    let hello = client.hello(cookie);
    client.acked(&gateway.takes(&hello, HOME));
    let beat = client.beat();
    client.acked(&gateway.takes(&beat, HOME));
    for copy in [beat.to_vec(), hello] {
        assert!(is_nothing(&gateway.takes(&copy, HOME)));
    }
    assert_eq!(gateway.count(Fate::Replayed), 2);
    // It is of no channel: the gateway cannot know that it is a copy.
    client.challenged(&gateway.takes(&first, HOME));
}

#[tokio::test]
async fn a_hello_that_was_recorded_does_not_bring_the_former_address_back() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    let beat = client.beat();
    let cookie = client.challenged(&gateway.takes(&beat, HOME));
    let recorded = client.hello(cookie);
    client.acked(&gateway.takes(&recorded, HOME));
    client.settles(&mut gateway, ELSEWHERE);
    assert!(is_nothing(&gateway.takes(&recorded, HOME)));
    let beat = client.beat();
    client.acked(&gateway.takes(&beat, ELSEWHERE));
}

#[tokio::test]
async fn a_cookie_is_of_no_use_from_another_address() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    let beat = client.beat();
    let cookie = client.challenged(&gateway.takes(&beat, HOME));
    let hello = client.hello(cookie);
    let reply = gateway.takes(&hello, VICTIM);
    assert_ne!(client.challenged(&reply), cookie);
}

/// Somebody overheard datagrams of a client, and repeats one of them 2,000 times a second, while the
/// client changes its address.
#[tokio::test]
async fn whoever_repeats_a_datagram_takes_nothing_from_its_session() {
    for from in [VICTIM, HOME, ELSEWHERE] {
        for overheard in 0..3 {
            let mut gateway = Gateway::new();
            let mut client = gateway.joined("u1").await;
            let first = client.beat();
            let cookie = client.challenged(&gateway.takes(&first, HOME));
            let hello = client.hello(cookie);
            client.acked(&gateway.takes(&hello, HOME));
            let beat = client.beat();
            client.acked(&gateway.takes(&beat, HOME));
            let copy = vec![first.to_vec(), hello, beat.to_vec()].swap_remove(overheard);
            let mut answers = 0;
            let mut flood = |gateway: &mut Gateway| {
                for _ in 0..2_000 {
                    for _ in 0..2 {
                        answers += u32::from(!is_nothing(&gateway.at_once(&copy, from)));
                    }
                    gateway.now += 1;
                }
            };
            flood(&mut gateway);
            let beat = client.beat();
            let cookie = client.challenged(&gateway.at_once(&beat, ELSEWHERE));
            let hello = client.hello(cookie);
            client.acked(&gateway.at_once(&hello, ELSEWHERE));
            flood(&mut gateway);
            let beat = client.beat();
            client.acked(&gateway.at_once(&beat, ELSEWHERE));
            assert!(answers <= 42, "{answers} answers in four seconds");
        }
    }
}

#[tokio::test]
async fn copies_to_many_addresses_are_no_larger_and_no_more_than_what_arrived() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    let beat = client.beat();
    for port in 1..=60_000 {
        let victim = format!("198.51.100.9:{port}");
        gateway.at_once(&beat, &victim);
    }
    let answered = gateway.count(Fate::Challenged);
    assert!(
        answered <= u64::from(VAIN_HASHES / 10) + 2,
        "{answered} answers"
    );
}

#[tokio::test]
async fn a_client_that_beats_too_often_is_heard_and_seldom_answered() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    client.settles(&mut gateway, HOME);
    gateway.now += 1_000;
    let mut answers = 0;
    for _ in 0..1_000 {
        gateway.now += 1;
        let beat = client.beat();
        if !is_nothing(&gateway.at_once(&beat, HOME)) {
            answers += 1;
        }
    }
    assert_eq!(answers, 4);
    assert_eq!(gateway.count(Fate::Beat), 1_000);
}

#[tokio::test]
async fn a_leave_ends_the_session_from_whichever_address_it_comes() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    client.settles(&mut gateway, HOME);
    let leave = client.leave();
    let ack = client.acked(&gateway.takes(&leave, ELSEWHERE));
    assert_eq!(ack.status, DatagramStatus::Left);
    assert!(gateway.app.presences.find(&client.session).is_none());
    let again = client.leave();
    let ack = client.acked(&gateway.takes(&again, ELSEWHERE));
    assert_eq!(ack.status, DatagramStatus::Left);
}

#[tokio::test]
async fn whoever_has_left_does_not_come_back_by_a_late_hello() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    let beat = client.beat();
    let cookie = client.challenged(&gateway.takes(&beat, HOME));
    let hello = client.hello(cookie);
    let leave = client.leave();
    client.acked(&gateway.takes(&leave, HOME));
    let ack = client.acked(&gateway.takes(&hello, HOME));
    assert_eq!(ack.status, DatagramStatus::Left);
    assert_eq!(gateway.count(Fate::Resumed), 0);
}

#[tokio::test]
async fn a_session_of_another_gateway_goes_on_here_only_after_a_hello() {
    let secret = Arc::new(PresenceSecret::open(None).unwrap());
    let elsewhere = Gateway::with(secret.clone());
    let mut here = Gateway::with(secret);
    let mut client = elsewhere.joined("u1").await;
    let beat = client.beat();
    let cookie = client.challenged(&here.takes(&beat, HOME));
    let hello = client.hello(cookie);
    let DatagramReply::Resume(resumption) = here.takes(&hello, HOME) else {
        panic!("the session does not go on");
    };
    assert_eq!(resumption.claims.key, client.session);
    assert_eq!(resumption.opening.counter, client.counter);
}

#[tokio::test]
async fn a_hello_takes_a_session_along_that_switched_to_another_live_elsewhere() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    client.settles(&mut gateway, HOME);
    let presences = &gateway.app.presences;
    let mut claims = presences
        .read_ticket(&client.ticket, &client.session)
        .unwrap();
    claims.number += 1;
    client.ticket = claims.seal(presences.secret()).unwrap();
    client.counter.channel = 0;
    let beat = client.beat();
    let cookie = client.challenged(&gateway.takes(&beat, HOME));
    let hello = client.hello(cookie);
    let DatagramReply::Resume(resumption) = gateway.takes(&hello, HOME) else {
        panic!("the session stays in its former live");
    };
    assert_eq!(resumption.claims.number, 1);
}

#[tokio::test]
async fn a_hello_with_the_ticket_of_another_session_is_worth_nothing() {
    let secret = Arc::new(PresenceSecret::open(None).unwrap());
    let elsewhere = Gateway::with(secret.clone());
    let mut here = Gateway::with(secret);
    let mut client = elsewhere.joined("u1").await;
    let other = elsewhere.joined("u2").await;
    let beat = client.beat();
    let cookie = client.challenged(&here.takes(&beat, HOME));
    client.ticket = other.ticket;
    let hello = client.hello(cookie);
    let ack = client.acked(&here.takes(&hello, HOME));
    assert_eq!(ack.status, DatagramStatus::Over);
    assert_eq!(here.count(Fate::Resumed), 0);
}

#[tokio::test]
async fn a_session_that_cannot_go_on_is_tried_once_and_told_so_a_few_times() {
    let secret = Arc::new(PresenceSecret::open(None).unwrap());
    let elsewhere = Gateway::with(secret.clone());
    let mut here = Gateway::with(secret);
    let mut client = elsewhere.joined("u1").await;
    let beat = client.beat();
    let cookie = client.challenged(&here.takes(&beat, HOME));
    let mut resumption = None;
    for _ in 0..900 {
        let hello = client.hello(cookie);
        if let DatagramReply::Resume(wanted) = here.at_once(&hello, HOME) {
            assert!(resumption.is_none(), "one attempt at a time");
            resumption = Some(wanted);
        }
        here.now += 1;
    }
    let Resumption { claims, ticket, .. } = *resumption.unwrap();
    let refusals = &here.responder.shared.refusals;
    refusals.note(
        &claims.key,
        ticket,
        HOME.parse().unwrap(),
        DatagramStatus::Closed,
        here.now,
    );
    let mut answers = 0;
    for _ in 0..2_000 {
        let hello = client.hello(cookie);
        let reply = here.at_once(&hello, HOME);
        if !is_nothing(&reply) {
            assert_eq!(client.acked(&reply).status, DatagramStatus::Closed);
            answers += 1;
        }
        here.now += 1;
    }
    assert_eq!(answers, 7, "four a second");
    assert_eq!(here.count(Fate::Resumed), 1);
}

#[tokio::test]
async fn a_draining_gateway_sends_sessions_of_others_away() {
    let secret = Arc::new(PresenceSecret::open(None).unwrap());
    let elsewhere = Gateway::with(secret.clone());
    let mut here = Gateway::with(secret);
    here.app.sessions.drain();
    let mut client = elsewhere.joined("u1").await;
    let beat = client.beat();
    let cookie = client.challenged(&here.takes(&beat, HOME));
    let hello = client.hello(cookie);
    let ack = client.acked(&here.takes(&hello, HOME));
    assert_eq!(ack.status, DatagramStatus::Move);
}

#[tokio::test]
async fn forgeries_are_dropped_and_beyond_a_rate_they_are_not_even_looked_at() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    client.settles(&mut gateway, HOME);
    let flood = 3 * VAIN_HASHES;
    gateway.now += 10_000;
    let garbage = wire::beat(
        &client.key,
        &SessionKey::from_bytes([7; 16]),
        client.counter,
        true,
    );
    for _ in 0..flood {
        assert!(is_nothing(&gateway.at_once(&garbage, VICTIM)));
    }
    let forged = gateway.count(Fate::Forged);
    assert!(forged <= u64::from(VAIN_HASHES) + 1, "{forged} hashes");
    assert_eq!(forged + gateway.count(Fate::Limited), u64::from(flood));
    let beat = client.beat();
    client.acked(&gateway.at_once(&beat, HOME));
}

#[tokio::test]
async fn a_datagram_whose_code_is_wrong_is_dropped_from_any_address() {
    let mut gateway = Gateway::new();
    let mut client = gateway.joined("u1").await;
    client.settles(&mut gateway, HOME);
    for from in [HOME, ELSEWHERE] {
        let datagrams = [client.beat().to_vec(), client.leave().to_vec()];
        for mut datagram in datagrams {
            datagram[SHORT - 1] ^= 1;
            assert!(is_nothing(&gateway.takes(&datagram, from)));
        }
    }
    assert_eq!(gateway.count(Fate::Forged), 4);
    assert!(gateway.app.presences.find(&client.session).is_some());
}
