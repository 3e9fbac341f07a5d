//! Notices that messages do not arrive, whatever the reason: Redis refuses to publish them,
//! something on the way swallows them, or this gateway's subscription has fallen silent.
//!
//! With each renewal of its lease a gateway publishes a *word* at every master, and waits for that
//! word itself. If the word has not come back by a later renewal, the gateway is not heard at that
//! master. Its lease says so, and every gateway reads all leases. Nobody expects a word of another
//! gateway.
//!
//! Where Redis refused another message of this gateway, for example because its user may publish on
//! some channels only, the gateway holds its words back until Redis takes one on that channel. So
//! they do not come back either.
//!
//! Each master of a cluster has an echo channel of its own: sharded channels lie on nodes, so a
//! gateway may be heard on one and not on another.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::args;
use super::reply::number;
use super::router::Router;
use super::slots::slot_of;
use super::topology::Topology;
use crate::base::ids::GatewayId;
use crate::base::metrics::Metrics;
use crate::store::{Channel, Doubt, LivingGateway, StoreError, StoreResult};

/// How long a word may be under way.
const GRACE: Duration = Duration::from_secs(1);
/// How often the log repeats that messages do not arrive.
const REMIND: Duration = Duration::from_secs(60);

/// Publishes this gateway's words and waits for them, and reads from all leases who is not heard.
#[derive(Debug)]
pub(crate) struct Echo {
    topology: Arc<Topology>,
    metrics: Arc<Metrics>,
    /// The echo channels of the present masters, by their numbers.
    channels: Mutex<HashMap<u32, EchoChannel>>,
    unheard: watch::Sender<Option<Doubt>>,
    /// When the log last said that Redis refuses messages of this gateway.
    told_refused: Mutex<Option<Instant>>,
    /// When the log last said that gateways are not heard.
    told_unheard: Mutex<Option<Instant>>,
}

/// What this gateway knows of one echo channel. Pure.
#[derive(Debug, Default)]
struct EchoChannel {
    /// The word that has not come back yet, and since when it is under way.
    under_way: Option<(String, Instant)>,
    /// A word was under way for too long, and none has come back since.
    is_unheard: bool,
    /// A subscription has begun, and no word has come back since.
    is_excused: bool,
    /// The name of the channel on which Redis refused another message at that master.
    refused: Option<String>,
}

impl EchoChannel {
    /// Begins to wait for a word. False if the last one may still come back: then no other goes out.
    fn begin(&mut self, word: &str, now: Instant) -> bool {
        if let Some((_, since)) = &self.under_way {
            if now.duration_since(*since) < GRACE {
                return false;
            }
            self.is_unheard = true;
        }
        self.under_way = Some((word.to_owned(), now));
        true
    }

    fn hear(&mut self, word: &str) {
        if self.forget(word) {
            self.is_unheard = false;
            self.is_excused = false;
        }
    }

    /// A subscription begins, so the word that is under way may have been missed. This excuses the
    /// gateway only once until a word comes back: Redis may end one subscription after the other.
    fn subscribed(&mut self) {
        if !self.is_excused {
            self.is_excused = true;
            self.under_way = None;
        }
    }

    /// Waits no longer for a word. False if it was not this one that was under way.
    fn forget(&mut self, word: &str) -> bool {
        self.under_way.take_if(|(there, _)| there == word).is_some()
    }
}

impl Echo {
    pub(crate) fn new(topology: Arc<Topology>, metrics: Arc<Metrics>) -> Self {
        Self {
            topology,
            metrics,
            channels: Mutex::default(),
            unheard: watch::Sender::new(None),
            told_refused: Mutex::default(),
            told_unheard: Mutex::default(),
        }
    }

    /// The slots in which messages of some gateway do not arrive; `None` if there are none.
    pub(crate) fn unheard(&self) -> watch::Receiver<Option<Doubt>> {
        self.unheard.subscribe()
    }

    /// Publishes a word at each master, in the background, and returns the channels on which earlier
    /// words did not come back. Masters that are gone are forgotten.
    pub(crate) fn send(
        self: &Arc<Self>,
        router: &Router,
        gateway: &GatewayId,
        renewal: u64,
    ) -> BTreeSet<u32> {
        let word = format!("{gateway} {renewal}");
        let now = Instant::now();
        let present = self.topology.map().echo_channels(self.topology.keys());
        let mut channels = self.channels.lock();
        channels.retain(|number, _| present.contains(number));
        let mut unheard = BTreeSet::new();
        for number in present {
            let channel = channels.entry(number).or_default();
            if channel.begin(&word, now) {
                let echo = Arc::clone(self);
                let router = router.clone();
                let word = word.clone();
                // Boxed: the library's futures are large.
                tokio::spawn(Box::pin(async move {
                    let said = echo.publish_word(&router, number, word.clone()).await;
                    echo.note_answer(number, &word, said);
                }));
            }
            if channel.is_unheard {
                unheard.insert(number);
            }
        }
        unheard
    }

    /// Publishes a word. If that master refused another message, it must first take an empty
    /// message, which gateways ignore, on the channel of the refused one.
    async fn publish_word(&self, router: &Router, number: u32, word: String) -> StoreResult<()> {
        if let Some(name) = self.of(number, |channel| channel.refused.clone()).flatten() {
            publish(router, name, String::new()).await?;
            self.of(number, |channel| channel.refused = None);
        }
        let name = self.topology.keys().channel(&Channel::Echo(number));
        publish(router, name, word).await
    }

    fn note_answer(&self, number: u32, word: &str, said: StoreResult<()>) {
        match said {
            Ok(()) => {}
            Err(why) if is_refusal(&why) => self.complain(&why),
            // The master is away. While it takes nothing, nobody misses anything.
            Err(_) => {
                self.of(number, |channel| channel.forget(word));
            }
        }
    }

    /// Looks at the channel of a present master.
    fn of<T>(&self, number: u32, look: impl FnOnce(&mut EchoChannel) -> T) -> Option<T> {
        self.channels.lock().get_mut(&number).map(look)
    }

    /// Notes why a message of this gateway on a channel with this name was not published.
    pub(crate) fn note_refusal(&self, name: &str, why: &StoreError) {
        if !is_refusal(why) {
            return;
        }
        self.complain(why);
        let map = self.topology.map();
        let Some(node) = map.owner(slot_of(name.as_bytes())) else {
            return;
        };
        if let Some(number) = map.echo_at(node.host(), self.topology.keys()) {
            self.channels.lock().entry(number).or_default().refused = Some(name.to_owned());
        }
    }

    fn complain(&self, why: &StoreError) {
        if is_due(&self.told_refused) {
            tracing::warn!(
                error = %why,
                "redis does not publish this gateway's messages, so other gateways show its changes up to 4 s late"
            );
        }
    }

    /// Notes that a subscription to an echo channel begins.
    pub(crate) fn subscribed(&self, number: u32) {
        self.of(number, EchoChannel::subscribed);
    }

    /// Takes in a word of any gateway.
    pub(crate) fn heard(&self, number: u32, word: &str) {
        self.of(number, |channel| channel.hear(word));
    }

    /// Takes in the leases that were just read, this gateway's own among them.
    pub(crate) fn looked(&self, living: &[LivingGateway]) {
        let mut gateways = BTreeSet::new();
        let mut channels = BTreeSet::new();
        for there in living {
            if !there.unheard.is_empty() {
                gateways.insert(there.gateway.as_str());
                channels.extend(&there.unheard);
            }
        }
        self.metrics.unheard_gateways.set(gateways.len() as i64);
        self.log(gateways);
        let slots = self.slots_of(&channels);
        self.unheard.send_if_modified(|known| {
            let changed = *known != slots;
            *known = slots;
            changed
        });
    }

    fn log(&self, gateways: BTreeSet<&str>) {
        if gateways.is_empty() {
            if self.told_unheard.lock().take().is_some() {
                tracing::info!("messages of all gateways arrive again");
            }
        } else if is_due(&self.told_unheard) {
            let names: Vec<&str> = gateways.into_iter().collect();
            tracing::warn!(
                gateways = names.join(" "),
                "messages of gateways do not arrive, although their leases are renewed; lives are checked every 4 s"
            );
        }
    }

    /// The slots of the masters that have these channels.
    fn slots_of(&self, channels: &BTreeSet<u32>) -> Option<Doubt> {
        let map = self.topology.map();
        let mut slots = Vec::new();
        for number in channels {
            let name = self.topology.keys().channel(&Channel::Echo(*number));
            if let Some(node) = map.owner(slot_of(name.as_bytes())) {
                slots.extend(map.slots_at(node.host()));
            }
        }
        Doubt::of_slots(slots)
    }
}

/// Whether a line of the log is due that was last written then; it is written now.
fn is_due(last: &Mutex<Option<Instant>>) -> bool {
    let mut last = last.lock();
    let is_due = last.is_none_or(|last| last.elapsed() >= REMIND);
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
}

async fn publish(router: &Router, name: String, message: String) -> StoreResult<()> {
    let publish = async { number(&router.command("SPUBLISH", args![name, message]).await?) };
    router.call("tell", publish).await?;
    Ok(())
}

/// Whether Redis itself refused. Any other error is the connection's, and then the node is already
/// known to be away.
fn is_refusal(why: &StoreError) -> bool {
    matches!(why, StoreError::Refused(_) | StoreError::Nonsense(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo channel, and the begin of its time.
    struct EchoWatch {
        channel: EchoChannel,
        began: Instant,
    }

    impl EchoWatch {
        fn begin() -> Self {
            Self {
                channel: EchoChannel::default(),
                began: Instant::now(),
            }
        }

        /// A renewal with this word. True if the word goes out.
        fn renews(&mut self, seconds: f64, word: &str) -> bool {
            let now = self.began + Duration::from_secs_f64(seconds);
            self.channel.begin(word, now)
        }
    }

    #[test]
    fn a_gateway_whose_words_come_back_is_heard() {
        let mut watch = EchoWatch::begin();
        for renewal in 0..5_u32 {
            let word = format!("a {renewal}");
            assert!(watch.renews(f64::from(renewal) * 2.0, &word));
            assert!(!watch.channel.is_unheard);
            watch.channel.hear("b 9");
            watch.channel.hear(&word);
        }
    }

    #[test]
    fn a_gateway_whose_word_is_lost_is_not_heard_until_one_comes_back() {
        let mut watch = EchoWatch::begin();
        watch.renews(0.0, "a 1");
        assert!(watch.renews(2.0, "a 2") && watch.channel.is_unheard);
        watch.channel.hear("a 1");
        watch.channel.hear("b 2");
        assert!(watch.channel.is_unheard, "too late, and another gateway's");
        watch.channel.hear("a 2");
        assert!(!watch.channel.is_unheard);
    }

    #[test]
    fn a_gateway_that_renews_often_waits_as_long_for_its_word() {
        let mut watch = EchoWatch::begin();
        watch.renews(0.0, "a 0");
        for tenth in 1..10_u32 {
            assert!(!watch.renews(f64::from(tenth) / 10.0, &format!("a {tenth}")));
        }
        assert!(!watch.channel.is_unheard);
        assert!(watch.renews(1.0, "a 10") && watch.channel.is_unheard);
    }

    #[test]
    fn a_new_subscription_excuses_one_missed_word() {
        let mut watch = EchoWatch::begin();
        watch.renews(0.0, "a 1");
        watch.channel.subscribed();
        assert!(watch.renews(2.0, "a 2") && !watch.channel.is_unheard);
        watch.channel.hear("a 2");
        watch.renews(4.0, "a 3");
        watch.channel.subscribed();
        assert!(watch.renews(6.0, "a 4") && !watch.channel.is_unheard);
    }

    #[test]
    fn a_gateway_whose_subscriptions_end_again_and_again_is_not_heard() {
        let mut watch = EchoWatch::begin();
        for renewal in 0..3_u32 {
            watch.renews(f64::from(renewal) * 2.0, &format!("a {renewal}"));
            watch.channel.subscribed();
        }
        assert!(watch.channel.is_unheard);
    }

    #[test]
    fn a_word_that_did_not_go_out_is_not_missed_and_makes_nobody_heard() {
        let mut watch = EchoWatch::begin();
        watch.renews(0.0, "a 1");
        assert!(!watch.channel.forget("a 0") && watch.channel.forget("a 1"));
        assert!(watch.renews(2.0, "a 2") && !watch.channel.is_unheard);
        watch.renews(4.0, "a 3");
        watch.channel.forget("a 3");
        assert!(watch.renews(6.0, "a 4") && watch.channel.is_unheard);
    }
}
