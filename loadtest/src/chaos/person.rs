//! One person of the crowd, with up to two devices. A random generator, seeded per person, decides
//! what the person does; the person gives orders to the devices and opens no socket.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::device::{Device, DeviceEvent, End, Order, Silence};
use super::run_state::{CrowdEvent, Crowded, Mode, RunState, mix};
use super::socketless::SocketlessDevice;
use simulation::expectation::{Live, User};

/// New sockets per second while the crowd comes in.
const RAMP: f64 = 400.0;
/// How often a person checks what may have changed by itself: a closed live, a gateway that was
/// down.
const LOOK: Duration = Duration::from_millis(400);
/// A person gives one order at a time, so there is always room.
const CHANNEL_CAPACITY: usize = 16;

/// A device, as its person knows it.
struct Handle {
    socket: u64,
    gateway: usize,
    orders: Sender<Order>,
    live: Option<Live>,
    /// The last order is not carried out yet.
    busy: bool,
    /// When the device moves, as the gateway asked.
    moves: Option<Instant>,
}

impl Handle {
    fn is_free(&self) -> bool {
        !self.busy && self.moves.is_none()
    }
}

/// What a person wants of one device.
struct Slot {
    want: Option<Live>,
    /// The next order is not given before.
    due: Instant,
    /// When the person wants a live again, and which.
    back: Option<(Instant, Live)>,
    device: Option<Handle>,
    last: Option<usize>,
}

pub(crate) struct Person {
    state: Arc<RunState>,
    user: User,
    rng: StdRng,
    slots: [Slot; 2],
    told: Receiver<(u64, DeviceEvent)>,
    tell: Sender<(u64, DeviceEvent)>,
    next_act: Instant,
    unsettled: bool,
}

impl Slot {
    fn empty(due: Instant) -> Self {
        Self {
            want: None,
            due,
            back: None,
            device: None,
            last: None,
        }
    }
}

impl Person {
    pub(crate) fn new(state: Arc<RunState>, user: User) -> Self {
        let rng = StdRng::seed_from_u64(mix(state.seed).wrapping_add(u64::from(user)));
        let (tell, told) = channel(CHANNEL_CAPACITY);
        let now = Instant::now();
        let slots = [
            Slot::empty(now + Duration::from_secs_f64(f64::from(user) / RAMP)),
            Slot::empty(now),
        ];
        state.unsettled.fetch_add(1, Ordering::SeqCst);
        Self {
            state,
            user,
            rng,
            slots,
            told,
            tell,
            next_act: now,
            unsettled: true,
        }
    }

    pub(crate) async fn run(mut self) {
        let home = self.state.home(self.user);
        let first_live = match home {
            Some((live, _)) => live,
            None => self.any_live(),
        };
        self.slots[0].want = Some(first_live);
        let mut mode = self.state.mode.subscribe();
        let mut crowd_events = self.state.crowd_events.subscribe();
        let mut wandered = false;
        loop {
            let wanders = *mode.borrow_and_update() == Mode::Wander;
            let now = Instant::now();
            if wanders && !wandered {
                // After a rest people must not act all at once.
                self.next_act = now + self.idle();
            }
            wandered = wanders;
            if wanders && now >= self.next_act {
                self.act();
                self.next_act = now + self.idle();
            }
            for slot in 0..self.slots.len() {
                self.tend(slot, wanders);
            }
            self.count_self();
            let wake = self.wake(wanders);
            tokio::select! {
                told = self.told.recv() => if let Some((socket, told)) = told { self.hear(socket, told); },
                event = crowd_events.recv() => if let Ok(event) = event { self.react(event); },
                changed = mode.changed() => if changed.is_err() { return },
                () = sleep_until(wake) => {}
            }
        }
    }

    fn wake(&self, wanders: bool) -> Instant {
        let mut wake = Instant::now() + Duration::from_secs(60);
        for slot in self
            .slots
            .iter()
            .filter(|slot| !slot.is_settled(&self.state))
        {
            let moves = slot.device.as_ref().and_then(|device| device.moves);
            let busy = slot.device.as_ref().is_some_and(|device| device.busy);
            wake = wake.min(moves.unwrap_or(if busy {
                wake
            } else {
                slot.due.max(Instant::now() + Duration::from_millis(1))
            }));
        }
        if wanders {
            let backs = self.slots.iter().filter_map(|slot| Some(slot.back?.0));
            wake = backs.fold(wake.min(self.next_act), Instant::min);
        }
        // Nothing tells a person that a live opened again.
        let waits = self.slots.iter().any(|slot| {
            slot.want
                .is_some_and(|_| slot.device.as_ref().is_some_and(|d| d.live != slot.want))
        });
        if waits {
            wake.min(Instant::now() + LOOK)
        } else {
            wake
        }
    }

    fn count_self(&mut self) {
        let unsettled = !self.slots.iter().all(|slot| slot.is_settled(&self.state));
        if unsettled != self.unsettled {
            self.unsettled = unsettled;
            match unsettled {
                true => self.state.unsettled.fetch_add(1, Ordering::SeqCst),
                false => self.state.unsettled.fetch_sub(1, Ordering::SeqCst),
            };
        }
    }

    /// The time until the next act. Exponential: an act is equally likely at any moment.
    fn idle(&mut self) -> Duration {
        self.state
            .pace
            .mul_f64(-(1.0 - self.rng.random::<f64>()).ln())
    }

    fn any_live(&mut self) -> Live {
        self.rng.random_range(0..self.state.busy)
    }

    fn within(&mut self, from_ms: u64, to_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(self.rng.random_range(from_ms..=to_ms.max(from_ms)))
    }

    /// Any gateway but the last one, if possible. An idle viewer takes the first that is up,
    /// counted from home.
    fn gateway(&mut self, last: Option<usize>) -> usize {
        if self.state.crowded == Crowded::One && last != Some(0) && self.state.is_up(0) {
            return 0;
        }
        let all = self.state.endpoints.len();
        if let Some((_, home)) = self.state.home(self.user) {
            return (home..home + all)
                .map(|gateway| gateway % all)
                .find(|at| self.state.is_up(*at))
                .unwrap_or(home);
        }
        let any = self.rng.random_range(0..all);
        if Some(any) == last {
            (any + 1) % all
        } else {
            any
        }
    }

    /// Takes the next step towards what the person wants of the slot.
    fn tend(&mut self, at: usize, wanders: bool) {
        let now = Instant::now();
        let slot = &mut self.slots[at];
        if wanders && let Some((_, live)) = slot.back.take_if(|(when, _)| *when <= now) {
            (slot.want, slot.due) = (Some(live), now);
        }
        if slot
            .device
            .as_ref()
            .is_some_and(|device| device.moves.is_some_and(|when| when <= now))
        {
            self.drop_device(at, Order::Close);
        }
        let slot = &mut self.slots[at];
        if slot.due > now || slot.is_settled(&self.state) {
            return;
        }
        match (&mut slot.device, slot.want) {
            (None, Some(live)) => self.connect(at, live),
            // Nobody asks for a closed live: it may open again.
            (Some(device), Some(live)) if device.is_free() && self.state.epoch(live).is_some() => {
                device.busy = true;
                let _ = device.orders.try_send(Order::Join(live));
            }
            (Some(device), None) if device.is_free() => {
                device.busy = true;
                let _ = device.orders.try_send(Order::Leave);
            }
            _ => {}
        }
    }

    fn connect(&mut self, at: usize, live: Live) {
        let gateway = self.gateway(self.slots[at].last);
        let place = self.state.place(gateway);
        let by_url = self.rng.random_bool(0.5) && self.state.epoch(live).is_some();
        let (orders, for_device) = channel(CHANNEL_CAPACITY);
        let device = Device {
            state: self.state.clone(),
            user: self.user,
            place,
            orders: for_device,
            tell: self.tell.clone(),
            by_url: if by_url { Some(live) } else { None },
        };
        if self.state.has_socket(self.user, at) {
            tokio::spawn(Box::pin(device.run()));
        } else {
            tokio::spawn(Box::pin(SocketlessDevice::new(device).run()));
        }
        let slot = &mut self.slots[at];
        slot.last = Some(gateway);
        slot.device = Some(Handle {
            socket: place.socket,
            gateway,
            orders,
            live: None,
            busy: true,
            moves: None,
        });
    }

    fn drop_device(&mut self, at: usize, order: Order) {
        if let Some(device) = self.slots[at].device.take() {
            let _ = device.orders.try_send(order);
        }
    }

    fn hear(&mut self, socket: u64, told: DeviceEvent) {
        let Some(at) = self
            .slots
            .iter()
            .position(|slot| matches!(&slot.device, Some(device) if device.socket == socket))
        else {
            return;
        };
        let again = self.within(300, 1_500);
        let soon = self.within(0, 3_000);
        let (coin, stays_away): (bool, bool) =
            (self.rng.random_bool(0.5), self.rng.random_bool(0.4));
        let stays_away = stays_away && !self.state.must_stay(self.user);
        let slot = &mut self.slots[at];
        let Some(device) = &mut slot.device else {
            return;
        };
        match told {
            DeviceEvent::Joined(live) => (device.live, device.busy) = (Some(live), false),
            DeviceEvent::Out => (device.live, device.busy) = (None, false),
            DeviceEvent::Closed => {
                device.live = None;
                slot.due = again;
            }
            DeviceEvent::Again => {
                (device.live, device.busy) = (None, false);
                slot.due = again;
            }
            DeviceEvent::MoveAfter(after) => device.moves = Some(Instant::now() + after),
            DeviceEvent::Unanswered if coin => {
                slot.due = Instant::now();
                self.drop_device(at, Order::Vanish(Silence::Hangup));
            }
            DeviceEvent::Unanswered => {}
            DeviceEvent::Ended(end) => {
                let moved = device.moves.is_some();
                slot.device = None;
                match end {
                    End::Asked => {}
                    End::Refused(after) => {
                        slot.due = match after {
                            Some(after) => Instant::now() + after,
                            None => again,
                        };
                        // With one crowded gateway all people insist on it.
                        slot.last = slot.last.filter(|_| self.state.crowded == Crowded::Even);
                    }
                    End::Lost if moved => slot.due = Instant::now(),
                    // Some people return at once. Peers must sweep those who return much later.
                    End::Lost if stays_away => {
                        let wait = self.state.timing.killed() + self.state.timing.refresh;
                        slot.back = slot.want.take().map(|live| (Instant::now() + wait, live));
                    }
                    End::Lost => slot.due = soon,
                }
            }
        }
    }

    fn react(&mut self, event: CrowdEvent) {
        let silence = if self.rng.random_bool(0.5) {
            Silence::Hangup
        } else {
            Silence::Limbo
        };
        let back = self.within(0, 200);
        match event {
            CrowdEvent::Vanish(third, away) if self.user % 3 == third % 3 => {
                for at in 0..self.slots.len() {
                    self.drop_device(at, Order::Vanish(silence));
                    let slot = &mut self.slots[at];
                    if let Some(live) = slot.want.take() {
                        slot.back = Some((Instant::now() + away, live));
                    }
                }
            }
            CrowdEvent::Vanish(..) => {}
            CrowdEvent::Storm(gateway) => {
                for at in 0..self.slots.len() {
                    if self.slots[at]
                        .device
                        .as_ref()
                        .is_some_and(|device| device.gateway == gateway)
                    {
                        self.drop_device(at, Order::Vanish(Silence::Hangup));
                        self.slots[at].due = back;
                    }
                }
            }
        }
    }

    /// An idle viewer on another gateway goes home once the home gateway is up.
    fn go_home(&mut self, home: usize) {
        let away = self.slots[0]
            .device
            .as_ref()
            .is_some_and(|device| device.gateway != home);
        if away && self.state.is_up(home) {
            self.drop_device(0, Order::Close);
            self.slots[0].due = Instant::now();
        }
    }

    fn act(&mut self) {
        if let Some((_, home)) = self.state.home(self.user) {
            return self.go_home(home);
        }
        let live = self.any_live();
        let soon = self.within(500, 8_000);
        let later = self.within(500, 20_000);
        let silence = if self.rng.random_bool(0.5) {
            Silence::Hangup
        } else {
            Silence::Limbo
        };
        let die = self.rng.random_range(0..100);
        let now = Instant::now();
        let same = self.slots[0].want;
        match die {
            // A swipe to another live.
            0..25 => self.slots[0].wants(live, now),
            // Out of the live, and back.
            25..35 => self.slots[0].away_until(soon),
            // A second device connects or leaves.
            35..50 => match self.slots[1].want {
                None => {
                    let live = if die < 44 { same.unwrap_or(live) } else { live };
                    self.slots[1].last = self.slots[0].last;
                    self.slots[1].wants(live, now);
                }
                Some(_) => {
                    let order = if die < 44 {
                        Order::Close
                    } else {
                        Order::Vanish(silence)
                    };
                    self.drop_device(1, order);
                    self.slots[1].want = None;
                }
            },
            // The network changes: the same device opens another socket.
            50..65 => {
                self.drop_device(0, Order::Vanish(silence));
                self.slots[0].due = now;
            }
            65..75 => {
                self.drop_device(0, Order::Vanish(silence));
                self.slots[0].away_until(later);
            }
            75..90 => {
                self.drop_device(0, Order::Close);
                self.slots[0].away_until(soon);
            }
            _ => {
                self.drop_device(0, Order::Close);
                self.slots[0].due = now;
            }
        }
    }
}

impl Slot {
    fn wants(&mut self, live: Live, due: Instant) {
        (self.want, self.back, self.due) = (Some(live), None, due);
    }

    fn away_until(&mut self, when: Instant) {
        if let Some(live) = self.want.take() {
            self.back = Some((when, live));
        }
    }

    /// Whether the device is where it should be, as far as that can be.
    fn is_settled(&self, state: &RunState) -> bool {
        match (&self.device, self.want) {
            (None, want) => want.is_none(),
            (Some(device), _) if !device.is_free() => false,
            // A person who wants a closed live stays.
            (Some(device), Some(live)) => device.live == Some(live) || state.epoch(live).is_none(),
            (Some(device), None) => device.live.is_none(),
        }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        if self.unsettled {
            self.state.unsettled.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
