//! What a socket makes of orders and messages, without a gateway.

use axum::http::Method;
use tokio::io::DuplexStream;

use super::super::truth::{CrowdState, Customs};
use super::super::{Habits, Outcome as Request};
use super::*;
use crate::timing::Timing;

/// A crowd that reaches nobody.
struct Alone(CrowdState);

impl Surroundings for Alone {
    type Stream = DuplexStream;

    fn crowd(&self) -> &CrowdState {
        &self.0
    }

    fn name_of_live(&self, live: Live) -> String {
        format!("l{live}")
    }

    fn name_of_user(&self, user: User) -> String {
        format!("u{user}")
    }

    fn habits(&self, _user: User, _device: usize) -> Habits {
        Habits::default()
    }

    async fn connect(
        &self,
        _gateway: usize,
        _user: User,
        _join: Option<Live>,
    ) -> Result<WebSocketStream<DuplexStream>, CrowdRefusal> {
        Err(CrowdRefusal::Nobody)
    }

    async fn ask(&self, _gateway: usize, _method: Method, _path: &str, _body: &Value) -> Request {
        Request::Nobody
    }

    fn is_sound(&self, _gateway: usize) -> bool {
        true
    }

    fn may_forget(&self, _user: User, _place: SocketAt) -> bool {
        false
    }

    fn socket_ended(&self, _user: User, _place: SocketAt, _code: Option<u16>, _why: &str) {}

    fn session_is_wrong(&self, _user: User, _live: Live, _gateway: usize, _why: &str) {}
}

/// A socket of user 7, which has joined live 0.
fn client() -> SocketClient<Alone> {
    let crowd = CrowdState::new(Customs {
        timing: Timing::NORMAL,
        seed: 1,
        gateways: 1,
        lives: 2,
        busy: 2,
        pace: Duration::from_secs(10),
        ramp: 1.0,
    });
    for live in &mut crowd.truth().lives {
        live.epoch = Some(1);
    }
    let place = crowd.place(0);
    let mut client = SocketClient {
        surroundings: Arc::new(Alone(crowd)),
        user: 7,
        place,
        asked: None,
        signing_in: None,
        leaving: None,
        live: None,
        id: 0,
        unanswered_since: None,
    };
    client.join(0);
    let step = client.hears(r#"{"type":"joined","live_id":"l0"}"#);
    assert!(matches!(step.tell, Some(DeviceEvent::Joined(0))));
    client
}

/// Who is in the lives, or may be.
fn held(client: &SocketClient<Alone>) -> [Vec<User>; 2] {
    let truth = client.surroundings.0.truth();
    [0, 1].map(|live: Live| truth.lives[live].held().collect())
}

#[test]
fn a_swipe_ends_the_former_stay_when_it_is_answered() {
    let mut client = client();
    client.join(1);
    assert_eq!(held(&client), [[7], [7]]);
    client.hears(r#"{"type":"joined","live_id":"l1"}"#);
    assert_eq!(held(&client), [vec![], vec![7]]);
}

#[test]
fn a_socket_whose_swipe_is_refused_leaves_the_former_live_too() {
    let mut client = client();
    client.join(1);
    let step = client.hears(r#"{"type":"error","id":2,"code":"live_not_open"}"#);
    assert_eq!(step.say.as_deref(), Some(r#"{"id":3,"type":"leave"}"#));
    assert!(step.tell.is_none());
    let step = client.hears(r#"{"type":"left","id":3}"#);
    assert!(matches!(step.tell, Some(DeviceEvent::Out)));
    assert_eq!(held(&client), [[0; 0], [0; 0]]);
}

#[test]
fn a_close_of_another_live_means_nothing() {
    let mut client = client();
    assert!(
        client
            .hears(r#"{"type":"closed","live_id":"l1"}"#)
            .tell
            .is_none()
    );
    assert_eq!(held(&client), [vec![7], vec![]]);
    let step = client.hears(r#"{"type":"closed","live_id":"l0"}"#);
    assert!(matches!(step.tell, Some(DeviceEvent::Closed)));
    assert_eq!(held(&client), [[0; 0], [0; 0]]);
}

#[test]
fn a_guest_who_is_taken_for_a_user_stays_in_the_live_and_one_who_is_refused_stays_a_guest() {
    let mut client = client();
    client.sign_in(8);
    assert_eq!(held(&client), [vec![7, 8], vec![]]);
    client.hears(r#"{"type":"error","id":2,"code":"banned"}"#);
    assert_eq!(held(&client), [vec![7], vec![]]);
    client.sign_in(8);
    let step = client.hears(r#"{"type":"refreshed","id":3}"#);
    assert!(matches!(step.tell, Some(DeviceEvent::SignedIn(8))));
    assert_eq!((client.user, held(&client)), (8, [vec![8], vec![]]));
}
