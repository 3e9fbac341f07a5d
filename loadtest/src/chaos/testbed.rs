//! The testbed of a run: the servers, links and gateways that it owns, and what a fault may do to
//! them. Dropping it ends every process and task that it started.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::audit_command::AuditCommand;
use super::backend::Backend;
use super::dashboards::ChaosDashboards;
use super::findings::{Broken, Promise};
use super::gateway::{GatewayConfig, GatewayProcess};
use super::observer::{self, Observation};
use super::reader::Reader;
use super::run_state::{CONNECT_WITHIN, ChaosPlan, RunState};
use super::store::ChaosStore;
use super::support::link::Link;
use super::support::redis_cluster::RedisCluster;
use super::support::redis_server::{RedisServer, faketime, free_port};
use crate::api::http_client;
use simulation::crowd::Mode;
use simulation::crowd::person::Person;
use simulation::expectation::{How, Live, User};

/// The secret by which the gateways know each other's sessions without a socket.
const PRESENCE_SECRET: &str = "all gateways of a run share this";

pub(crate) struct Testbed {
    pub(crate) state: Arc<RunState>,
    pub(crate) gateways: Vec<GatewayProcess>,
    /// A link for each gateway; none in a cluster, where gateways find the nodes under their own
    /// addresses.
    pub(crate) links: Vec<Link>,
    pub(crate) dashboards: ChaosDashboards,
    pub(crate) backend: Backend,
    pub(crate) reader: Arc<Reader>,
    pub(crate) audit_command: AuditCommand,
    pub(crate) observations: watch::Receiver<Option<Observation>>,
    /// People, and who looks at Redis.
    tasks: JoinSet<()>,
    pub(crate) store: ChaosStore,
}

pub(crate) struct TestbedSetup<'a> {
    pub(crate) plan: ChaosPlan,
    pub(crate) program: PathBuf,
    pub(crate) cluster: bool,
    /// Redis runs under libfaketime, which slows it down, so that its wall clock can be set. Not in
    /// a cluster.
    pub(crate) clock: bool,
    pub(crate) logs: &'a Path,
}

impl Testbed {
    /// Starts everything; the crowd comes in and every live is open.
    pub(crate) async fn build(materials: TestbedSetup<'_>) -> anyhow::Result<Self> {
        let mut testbed = Self::start_empty(materials).await?;
        testbed.populate().await?;
        Ok(testbed)
    }

    /// Starts the servers and gateways. No live is open and nobody is connected.
    pub(crate) async fn start_empty(materials: TestbedSetup<'_>) -> anyhow::Result<Self> {
        let TestbedSetup {
            plan,
            program,
            cluster,
            clock,
            logs,
        } = materials;
        // Without libfaketime only the fault that needs it fails.
        let store = match (cluster, faketime().filter(|_| clock)) {
            (true, _) => ChaosStore::Cluster(RedisCluster::start(3, 2).await),
            (false, Some(library)) => {
                ChaosStore::Single(Box::new(RedisServer::start_with_clock(library).await))
            }
            (false, None) => ChaosStore::Single(Box::new(RedisServer::start().await)),
        };
        let addresses: Vec<SocketAddr> = (0..plan.gateways)
            .map(|_| SocketAddr::from(([127, 0, 0, 1], free_port())))
            .collect();
        let http = http_client(CONNECT_WITHIN)?;
        let state = Arc::new(RunState::new(&plan, &addresses, http));
        let reader = Arc::new(Reader::connect(&store.addresses()).await?);
        write_follows(&state, &reader).await?;
        // A killed Redis comes back with the follow graph, which is the platform's, and nothing of
        // the gateways'.
        store
            .nodes()
            .iter()
            .for_each(|node| drop(node.cli(&["SAVE"])));

        let secret = logs.join("presence-secret");
        std::fs::write(&secret, PRESENCE_SECRET).context("the gateways' presence secret")?;
        let mut links = Vec::new();
        let mut gateways = Vec::new();
        for (number, address) in addresses.iter().enumerate() {
            let redis = match &store {
                ChaosStore::Single(server) => {
                    links.push(Link::to(server.addr()).await);
                    links[number].url()
                }
                ChaosStore::Cluster(cluster) => cluster.url(),
            };
            let log = logs.join(format!("gateway-{number}.log"));
            let mut flags = plan.timing.flags();
            flags.extend(plan.flags.iter().cloned());
            flags.push("--presence-secret-file".to_owned());
            flags.push(secret.display().to_string());
            let mut gateway = GatewayProcess::new(GatewayConfig {
                program: program.clone(),
                address: *address,
                redis,
                flags,
                log,
            });
            state.gateway_starts(number);
            gateway.start().await?;
            state.crowd.set_up(number, true);
            gateways.push(gateway);
        }
        let audit_command = AuditCommand {
            program,
            redis: store.url(),
            flags: plan.timing.flags(),
        };
        Ok(Self {
            dashboards: ChaosDashboards::none(&state),
            state,
            gateways,
            links,
            backend: Backend::new()?,
            reader,
            audit_command,
            observations: watch::channel(None).1,
            tasks: JoinSet::new(),
            store,
        })
    }

    /// Opens every live, and lets the crowd and the dashboards in.
    pub(crate) async fn populate(&mut self) -> anyhow::Result<()> {
        let state = &self.state;
        let reader = &self.reader;
        self.dashboards = ChaosDashboards::open(state);
        let (send, observations) = watch::channel(None);
        self.observations = observations;
        self.tasks.spawn(observer::measure_timer_lag(state.clone()));
        self.tasks
            .spawn(observer::run(state.clone(), reader.clone(), send));
        self.open_all().await?;
        for user in 0..self.state.people {
            self.tasks
                .spawn(Box::pin(Person::new(self.state.clone(), user).run()));
        }
        Ok(())
    }

    /// Closes every live. Then people close their sockets, dashboards lose theirs, and nobody reads
    /// Redis any more.
    pub(crate) async fn clear(&mut self) -> anyhow::Result<()> {
        let lives = self.state.lives();
        for live in (0..lives)
            .filter(|live| self.state.crowd.epoch(*live).is_some())
            .collect::<Vec<_>>()
        {
            self.close(live, None).await?;
        }
        self.tasks.shutdown().await;
        self.dashboards = ChaosDashboards::none(&self.state);
        // Its idle connections end with it.
        self.backend = Backend::new()?;
        Ok(())
    }

    /// The gateways that run, the given one last.
    pub(crate) fn up_but(&self, last: Option<usize>) -> Vec<SocketAddr> {
        let mut up: Vec<usize> = self.state.crowd.gateways_up().collect();
        up.sort_by_key(|gateway| Some(*gateway) == last);
        up.into_iter()
            .map(|gateway| self.state.targets[gateway].address)
            .collect()
    }

    /// Opens a live, not through the gateway named if it can be avoided.
    pub(crate) async fn open(
        &mut self,
        live: Live,
        slices: u32,
        not_through: Option<usize>,
    ) -> anyhow::Result<()> {
        let id = self.state.live_id(live);
        let streamer = self.state.streamer_id(live);
        let attendance = live < self.state.attended;
        let body = json!({ "streamer_id": streamer, "slices": slices, "attendance": attendance });
        let opened = self
            .backend
            .open(&self.up_but(not_through), &id, &body)
            .await?;
        self.state.opened(live, opened.epoch.into(), opened.slices);
        Ok(())
    }

    /// Closes a live, and waits for the answer.
    pub(crate) async fn close(
        &mut self,
        live: Live,
        not_through: Option<usize>,
    ) -> anyhow::Result<()> {
        self.state.closing(live);
        self.backend
            .close(&self.up_but(not_through), &self.state.live_id(live))
            .await?;
        self.state.closed(live);
        Ok(())
    }

    /// Closes both lives, not through the gateway named, and opens the second again, with another
    /// number of slices.
    pub(crate) async fn close_and_reopen(
        &mut self,
        [first, second]: [Live; 2],
        not_through: usize,
    ) -> anyhow::Result<()> {
        self.close(first, Some(not_through)).await?;
        if first != second {
            self.close(second, Some(not_through)).await?;
            self.open(second, 1 << ((second + 1) % 4), Some(not_through))
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn start(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.state.gateway_starts(gateway);
        self.gateways[gateway].start().await?;
        self.state.crowd.set_up(gateway, true);
        Ok(())
    }

    pub(crate) async fn kill(&mut self, gateway: usize) -> anyhow::Result<()> {
        // Recorded first, because users see their sockets end.
        self.state.crowd.ended(gateway, How::Killed);
        self.gateways[gateway].kill().await?;
        // Again, for answers that the gateway sent just before it died.
        self.state.crowd.ended(gateway, How::Killed);
        Ok(())
    }

    /// SIGTERM: the gateway sends its viewers elsewhere, and ends.
    pub(crate) async fn drain(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.state.crowd.set_up(gateway, false);
        let state = self.state.clone();
        let start = state.crowd.start_of(gateway);
        tokio::spawn(async move {
            sleep(state.timing.kept_while_stopping()).await;
            state.crowd.gives_up_sessions(gateway, start);
        });
        let within = self.state.timing.drain + Duration::from_secs(10);
        self.gateways[gateway].drain(within).await?;
        self.state.crowd.ended(gateway, How::Moved);
        Ok(())
    }

    /// Starts every gateway that does not run, and opens every live that is closed.
    pub(crate) async fn mend(&mut self) -> anyhow::Result<()> {
        for gateway in 0..self.gateways.len() {
            if !self.gateways[gateway].is_running() {
                self.start(gateway).await?;
            }
        }
        self.open_all().await
    }

    /// Opens every live that is not open.
    async fn open_all(&mut self) -> anyhow::Result<()> {
        let lives = self.state.lives();
        for live in 0..lives {
            if self.state.crowd.epoch(live).is_none() {
                self.open(live, self.state.slices(live), None).await?;
            }
        }
        Ok(())
    }

    /// A gateway that ended by itself is a bug.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        for (number, gateway) in self.gateways.iter_mut().enumerate() {
            if let Some(status) = gateway.has_died() {
                bail!("gateway {number} ended by itself: {status}");
            }
        }
        Ok(())
    }

    /// Runs for a while; ends early if a gateway dies.
    pub(crate) async fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check_alive()?;
            sleep(Duration::from_millis(50).min(end.saturating_duration_since(Instant::now())))
                .await;
        }
        Ok(())
    }

    /// Lets people finish, and waits until all of them are where they want to be.
    pub(crate) async fn rest(&mut self, within: Duration) -> anyhow::Result<()> {
        self.state.crowd.mode.send_replace(Mode::Rest);
        let deadline = Instant::now() + within;
        let mut calm = 0;
        while calm < 4 {
            if Instant::now() > deadline {
                bail!(
                    "{} people do not get where they want to be within {within:?}",
                    self.unsettled()
                );
            }
            self.pass(Duration::from_millis(100)).await?;
            calm = if self.unsettled() == 0 { calm + 1 } else { 0 };
        }
        Ok(())
    }

    fn unsettled(&self) -> usize {
        self.state.crowd.unsettled.load(Ordering::SeqCst)
    }

    pub(crate) fn wander(&self) {
        self.state.crowd.mode.send_replace(Mode::Wander);
    }

    /// After a lease and two seconds without a gateway, its users must have been swept by the
    /// others.
    pub(crate) async fn expect_swept(&self, gateway: usize) {
        let lives = self.state.lives();
        for live in 0..lives {
            let Some(Ok(snapshot)) = observer::read(&self.state, &self.reader, live).await else {
                continue;
            };
            let users: Vec<_> = snapshot
                .slices
                .iter()
                .flatten()
                .filter_map(|id| self.state.user(id))
                .collect();
            let truth = self.state.truth();
            let expectations = &truth.lives[live].expectations;
            let mut left = Vec::new();
            for user in users {
                if let Some(expectation) = expectations.get(&user)
                    && expectation.only_on(gateway, snapshot.began, &truth.rules)
                {
                    left.push(user);
                }
            }
            drop(truth);
            if let Some(first) = left.first() {
                let broken = Broken::new(
                    Promise::NotSwept,
                    format!("{} users of a gateway that is away", left.len()),
                );
                let user = self.state.user_id(*first);
                let id = self.state.live_id(live);
                self.state
                    .broke(broken.user(user).live(id).gateway(gateway));
            }
        }
    }

    /// A gateway that has been without Redis for some seconds must say so on every dashboard.
    pub(crate) fn expect_honest(&self, gateway: usize) {
        if let Some(live) = self.dashboards.exact_on(gateway).first() {
            let broken = Broken::new(
                Promise::Dashboard,
                "calls its figures exact, with Redis away for seconds",
            );
            self.state
                .broke(broken.live(self.state.live_id(*live)).gateway(gateway));
        }
    }
}

async fn write_follows(state: &RunState, reader: &Reader) -> anyhow::Result<()> {
    let mut calls = Vec::new();
    for live in 0..state.lives() {
        let is_fan = |user: &User| state.is_fan(*user, live);
        let fans: Vec<User> = (0..state.people).filter(is_fan).collect();
        let key = format!("followers:{}", state.streamer_id(live));
        for some in fans.chunks(500) {
            calls.push(edges(&key, some.iter().map(|user| state.user_id(*user))));
        }
    }
    for user in 0..state.people {
        let follows = |live: &Live| state.is_fan(user, *live);
        let streamers = (0..state.lives()).filter(follows);
        let key = format!("following:{}", state.user_id(user));
        let words = edges(&key, streamers.map(|live| state.streamer_id(live)));
        if words.len() > 1 {
            calls.push(words);
        }
    }
    reader
        .run_all("ZADD", calls)
        .await
        .context("the follow graph")
}

/// The words of a command that adds these to a set of the follow graph.
fn edges(key: &str, others: impl Iterator<Item = String>) -> Vec<String> {
    let mut words = vec![key.to_owned()];
    for other in others {
        words.extend(["1".to_owned(), other]);
    }
    words
}
