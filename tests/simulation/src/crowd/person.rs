//! One person of the crowd, with some devices. A random generator, seeded per person, decides what
//! the person does; the person gives orders to the devices and opens no connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::device::{Device, DeviceEnd, DeviceEvent, DeviceOrder, Silence};
use super::truth::CrowdState;
use super::{CrowdEvent, Habits, Mode, Surroundings, derived};
use crate::expectation::{Live, User};

/// How often a person checks what may have changed by itself: a closed live, a gateway that was
/// down.
const LOOK: Duration = Duration::from_millis(400);

/// A person gives one order at a time, so there is always room.
const CHANNEL_CAPACITY: usize = 16;

/// A device, as its person knows it.
struct Handle {
    socket: u64,
    user: User,
    gateway: usize,
    orders: Sender<DeviceOrder>,
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

    fn order(&self, order: DeviceOrder) {
        // A device that has ended says so.
        let _ = self.orders.try_send(order);
    }
}

/// What a person wants of one device.
struct DevicePlan {
    habits: Habits,
    want: Option<Live>,
    /// The next order is not given before.
    due: Instant,
    /// When the person wants a live again, and which.
    back: Option<(Instant, Live)>,
    device: Option<Handle>,
    /// The gateway on which the device was last.
    last: Option<usize>,
}

impl DevicePlan {
    fn wants(&mut self, live: Live, due: Instant) {
        (self.want, self.back, self.due) = (Some(live), None, due);
    }

    fn away_until(&mut self, when: Instant) {
        if let Some(live) = self.want.take() {
            self.back = Some((when, live));
        }
    }

    /// Orders the device to end.
    fn drop_device(&mut self, order: DeviceOrder) {
        if let Some(device) = self.device.take() {
            device.order(order);
        }
    }

    /// Whether the device is where it should be, as far as that can be.
    fn is_settled(&self, crowd: &CrowdState) -> bool {
        match (&self.device, self.want) {
            (None, want) => want.is_none(),
            (Some(device), _) if !device.is_free() => false,
            // A person who wants a closed live stays.
            (Some(device), Some(live)) => device.live == Some(live) || crowd.epoch(live).is_none(),
            (Some(device), None) => device.live.is_none(),
        }
    }

    /// When the next step of a slot that is not settled is due.
    fn wake(&self) -> Option<Instant> {
        match &self.device {
            Some(device) if device.moves.is_some() => device.moves,
            Some(device) if device.busy => None,
            _ => Some(self.due.max(Instant::now() + Duration::from_millis(1))),
        }
    }

    /// Whether the device waits for a live, of which nothing tells it that it has opened.
    fn waits(&self) -> bool {
        let is_elsewhere = |device: &Handle| device.live != self.want;
        self.want.is_some() && self.device.as_ref().is_some_and(is_elsewhere)
    }
}

/// A person.
pub struct Person<S: Surroundings> {
    surroundings: Arc<S>,
    user: User,
    rng: StdRng,
    slots: Vec<DevicePlan>,
    told: Receiver<(u64, DeviceEvent)>,
    tell: Sender<(u64, DeviceEvent)>,
    next_act: Instant,
    unsettled: bool,
}

impl<S: Surroundings> Person<S> {
    /// Somebody who is about to come.
    pub fn new(surroundings: Arc<S>, user: User) -> Self {
        let customs = surroundings.crowd().customs;
        let rng = StdRng::seed_from_u64(derived(customs.seed, &format!("person {user}")));
        let (tell, told) = channel(CHANNEL_CAPACITY);
        let now = Instant::now();
        let slot = |device: usize| DevicePlan {
            habits: surroundings.habits(user, device),
            want: None,
            due: now + Duration::from_secs_f64(f64::from(user) / customs.ramp),
            back: None,
            device: None,
            last: None,
        };
        let slots = (0..surroundings.devices(user)).map(slot).collect();
        let unsettled = &surroundings.crowd().unsettled;
        unsettled.fetch_add(1, Ordering::SeqCst);
        Self {
            surroundings,
            user,
            rng,
            slots,
            told,
            tell,
            next_act: now,
            unsettled: true,
        }
    }

    /// Lives until everybody goes home.
    pub async fn run(mut self) {
        let first_live = match self.surroundings.home(self.user) {
            Some((live, _)) => live,
            None => self.any_live(),
        };
        self.slots[0].want = Some(first_live);
        let mut mode = self.crowd().mode.subscribe();
        let mut events = self.crowd().events.subscribe();
        let mut wandered = false;
        loop {
            let present = *mode.borrow_and_update();
            if present == Mode::GoHome {
                for slot in &mut self.slots {
                    slot.drop_device(DeviceOrder::Close);
                }
                return;
            }
            let wanders = present == Mode::Wander;
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
                biased;
                told = self.told.recv() => if let Some((socket, told)) = told { self.hear(socket, told); },
                event = events.recv() => if let Ok(event) = event { self.react(event); },
                changed = mode.changed() => if changed.is_err() { return },
                () = sleep_until(wake) => {}
            }
        }
    }

    fn crowd(&self) -> &CrowdState {
        self.surroundings.crowd()
    }

    fn wake(&self, wanders: bool) -> Instant {
        let now = Instant::now();
        let mut wake = now + Duration::from_secs(60);
        for slot in &self.slots {
            if !slot.is_settled(self.crowd()) {
                wake = slot.wake().map_or(wake, |at| wake.min(at));
            }
            if wanders && let Some((at, _)) = slot.back {
                wake = wake.min(at);
            }
            if slot.waits() {
                wake = wake.min(now + LOOK);
            }
        }
        if wanders {
            wake.min(self.next_act)
        } else {
            wake
        }
    }

    fn count_self(&mut self) {
        let crowd = self.surroundings.crowd();
        let unsettled = !self.slots.iter().all(|slot| slot.is_settled(crowd));
        if unsettled != self.unsettled {
            self.unsettled = unsettled;
            match unsettled {
                true => crowd.unsettled.fetch_add(1, Ordering::SeqCst),
                false => crowd.unsettled.fetch_sub(1, Ordering::SeqCst),
            };
        }
    }

    /// The time until the next act. Exponential: an act is equally likely at any moment.
    fn idle(&mut self) -> Duration {
        let pace = self.crowd().customs.pace;
        pace.mul_f64(-(1.0 - self.rng.random::<f64>()).ln())
    }

    fn any_live(&mut self) -> Live {
        let lives = self.crowd().customs.busy;
        self.rng.random_range(0..lives)
    }

    fn within(&mut self, from_ms: u64, to_ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(self.rng.random_range(from_ms..=to_ms.max(from_ms)))
    }

    fn any_silence(&mut self) -> Silence {
        if self.rng.random_bool(0.5) {
            Silence::Hangup
        } else {
            Silence::Limbo
        }
    }

    /// Any gateway but the last one, if possible. Somebody with a home takes the first that is up,
    /// counted from there.
    fn gateway(&mut self, last: Option<usize>) -> usize {
        let all = self.crowd().customs.gateways;
        if self.surroundings.is_first_crowded() && last != Some(0) && self.crowd().is_up(0) {
            return 0;
        }
        if let Some((_, home)) = self.surroundings.home(self.user) {
            return (home..home + all)
                .map(|gateway| gateway % all)
                .find(|at| self.crowd().is_up(*at))
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
        let crowd = self.surroundings.crowd();
        let slot = &mut self.slots[at];
        if wanders && let Some((_, live)) = slot.back.take_if(|(when, _)| *when <= now) {
            (slot.want, slot.due) = (Some(live), now);
        }
        let moves = slot.device.as_ref().and_then(|device| device.moves);
        if moves.is_some_and(|when| when <= now) {
            slot.drop_device(DeviceOrder::Close);
        }
        if slot.due > now || slot.is_settled(crowd) {
            return;
        }
        match (&mut slot.device, slot.want) {
            (None, Some(live)) => self.connect(at, live),
            // Nobody asks for a closed live: it may open again.
            (Some(device), Some(live)) if device.is_free() && crowd.epoch(live).is_some() => {
                device.busy = true;
                device.order(DeviceOrder::Join(live));
            }
            (Some(device), None) if device.is_free() => {
                device.busy = true;
                device.order(DeviceOrder::Leave);
            }
            _ => {}
        }
    }

    fn connect(&mut self, at: usize, live: Live) {
        let gateway = self.gateway(self.slots[at].last);
        let place = self.crowd().place(gateway);
        let at_once = self.rng.random_bool(0.5)
            && self.crowd().epoch(live).is_some()
            && !self.surroundings.asks_for_friends(self.user);
        let user = match self.surroundings.guest_of(self.user) {
            Some(guest) if self.rng.random_bool(0.6) => guest,
            _ => self.user,
        };
        let (orders, for_device) = channel(CHANNEL_CAPACITY);
        let device = Device {
            surroundings: self.surroundings.clone(),
            user,
            number: at,
            place,
            orders: for_device,
            tell: self.tell.clone(),
            first: if at_once { Some(live) } else { None },
            rng: StdRng::from_rng(&mut self.rng),
        };
        let slot = &mut self.slots[at];
        tokio::spawn(Box::pin(device.run(slot.habits)));
        slot.last = Some(gateway);
        slot.device = Some(Handle {
            socket: place.socket,
            user,
            gateway,
            orders,
            live: None,
            busy: true,
            moves: None,
        });
    }

    fn hear(&mut self, socket: u64, told: DeviceEvent) {
        let is_of =
            |slot: &DevicePlan| matches!(&slot.device, Some(device) if device.socket == socket);
        let Some(at) = self.slots.iter().position(is_of) else {
            return;
        };
        let again = self.within(300, 1_500);
        let coin = self.rng.random_bool(0.5);
        let slot = &mut self.slots[at];
        let Some(device) = &mut slot.device else {
            return;
        };
        match told {
            DeviceEvent::Joined(live) => (device.live, device.busy) = (Some(live), false),
            DeviceEvent::Out => (device.live, device.busy) = (None, false),
            DeviceEvent::SignedIn(user) => (device.user, device.busy) = (user, false),
            DeviceEvent::Closed => {
                device.live = None;
                slot.due = again;
            }
            DeviceEvent::Again(still_in) => {
                (device.live, device.busy) = (still_in, false);
                slot.due = again;
            }
            DeviceEvent::MoveAfter(_) if slot.habits.ignores_reconnects => {}
            DeviceEvent::MoveAfter(after) => device.moves = Some(Instant::now() + after),
            DeviceEvent::Unanswered if coin => {
                slot.due = Instant::now();
                slot.drop_device(DeviceOrder::Vanish(Silence::Hangup));
            }
            DeviceEvent::Unanswered => {}
            DeviceEvent::Ended(end) => {
                let moved = device.moves.is_some();
                slot.device = None;
                self.ended(at, &end, moved);
            }
        }
    }

    /// A device is no longer connected.
    fn ended(&mut self, at: usize, end: &DeviceEnd, moved: bool) {
        let again = self.within(300, 1_500);
        let soon = self.within(0, 3_000);
        let stays_away = self.rng.random_bool(0.4) && !self.surroundings.must_return(self.user);
        let timing = self.crowd().customs.timing;
        let insists = self.surroundings.is_first_crowded();
        let slot = &mut self.slots[at];
        match end {
            DeviceEnd::Asked => {}
            DeviceEnd::Refused(after) => {
                slot.due = after.map_or(again, |after| Instant::now() + after);
                // With one crowded gateway all people insist on it.
                slot.last = slot.last.filter(|_| !insists);
            }
            DeviceEnd::Lost if moved => slot.due = Instant::now(),
            // Some people return at once. Peers must sweep those who return much later.
            DeviceEnd::Lost if stays_away => {
                slot.away_until(Instant::now() + timing.killed() + timing.refresh);
            }
            DeviceEnd::Lost => slot.due = soon,
        }
    }

    fn react(&mut self, event: CrowdEvent) {
        let silence = self.any_silence();
        let back = self.within(0, 200);
        match event {
            CrowdEvent::Vanish(third, away) if self.user % 3 == third % 3 => {
                for slot in &mut self.slots {
                    slot.drop_device(DeviceOrder::Vanish(silence));
                    slot.away_until(Instant::now() + away);
                }
            }
            CrowdEvent::Vanish(..) => {}
            CrowdEvent::Storm(gateway) => {
                let is_there = |device: &Handle| device.gateway == gateway;
                for slot in &mut self.slots {
                    if slot.device.as_ref().is_some_and(is_there) {
                        slot.drop_device(DeviceOrder::Vanish(Silence::Hangup));
                        slot.due = back;
                    }
                }
            }
        }
    }

    /// Somebody on another gateway goes home once the home gateway is up.
    fn go_home(&mut self, home: usize) {
        let is_up = self.crowd().is_up(home);
        let is_away = |device: &Handle| device.gateway != home;
        let slot = &mut self.slots[0];
        if is_up && slot.device.as_ref().is_some_and(is_away) {
            slot.drop_device(DeviceOrder::Close);
            slot.due = Instant::now();
        }
    }

    /// Has a device that is a guest's go on as the person. False if it has none, or does not want
    /// to.
    fn signs_in(&mut self) -> bool {
        let user = self.user;
        let is_guests = |slot: &&mut DevicePlan| match &slot.device {
            Some(device) => slot.habits.has_socket && device.is_free() && device.user != user,
            None => false,
        };
        let Some(slot) = self.slots.iter_mut().find(is_guests) else {
            return false;
        };
        if !self.rng.random_bool(0.4) {
            return false;
        }
        if let Some(device) = &mut slot.device {
            device.busy = true;
            device.order(DeviceOrder::SignIn(user));
        }
        true
    }

    fn act(&mut self) {
        if let Some((_, home)) = self.surroundings.home(self.user) {
            return self.go_home(home);
        }
        if self.signs_in() {
            return;
        }
        let live = self.any_live();
        let soon = self.within(500, 8_000);
        let later = self.within(500, 20_000);
        let silence = self.any_silence();
        let silent_for = Duration::from_millis(self.rng.random_range(3_000..60_000));
        let die = self.rng.random_range(0..100);
        let any = self.rng.random_range(0..self.slots.len());
        let now = Instant::now();
        if any > 0 && (35..50).contains(&die) {
            return self.use_other_device(any, live, silence, die < 44);
        }
        let at = if self.slots[any].want.is_some() {
            any
        } else {
            0
        };
        let slot = &mut self.slots[at];
        match die {
            // A swipe to another live.
            0..25 => slot.wants(live, now),
            // Out of the live, and back.
            25..35 => slot.away_until(soon),
            // The network changes: the same device opens another connection.
            35..65 => {
                let device = slot.device.as_ref();
                match device.filter(|_| slot.habits.falls_silent && die % 2 == 0) {
                    Some(device) => device.order(DeviceOrder::FallSilent(silent_for)),
                    None => {
                        slot.drop_device(DeviceOrder::Vanish(silence));
                        slot.due = now;
                    }
                }
            }
            65..75 => {
                slot.drop_device(DeviceOrder::Vanish(silence));
                slot.away_until(later);
            }
            75..90 => {
                slot.drop_device(DeviceOrder::Close);
                slot.away_until(soon);
            }
            _ => {
                slot.drop_device(DeviceOrder::Close);
                slot.due = now;
            }
        }
    }

    /// Another device connects, mostly to the live of the first one, or leaves.
    fn use_other_device(&mut self, other: usize, live: Live, silence: Silence, coin: bool) {
        let (want, last) = (self.slots[0].want, self.slots[0].last);
        let slot = &mut self.slots[other];
        if slot.want.is_none() {
            slot.last = last;
            let live = if coin { want.unwrap_or(live) } else { live };
            return slot.wants(live, Instant::now());
        }
        let order = if coin {
            DeviceOrder::Close
        } else {
            DeviceOrder::Vanish(silence)
        };
        slot.drop_device(order);
        slot.want = None;
    }
}

impl<S: Surroundings> Drop for Person<S> {
    fn drop(&mut self) {
        if self.unsettled {
            let unsettled = &self.surroundings.crowd().unsettled;
            unsettled.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
