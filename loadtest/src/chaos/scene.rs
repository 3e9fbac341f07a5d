//! The scene of a run: the servers, the links and the gateways it owns, and what a fault may do to them. All of it is
//! gone when this is dropped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, sleep};

use super::backend::Backend;
use super::findings::{Broken, Promise};
use super::gateway::{Gateway, Recipe};
use super::hall::{Hall, Mode, Plan};
use super::outsider::Outsider;
use super::person::Person;
use super::poll::{self, Look};
use super::reader::Reader;
use super::screens::Screens;
use super::support::link::Link;
use super::support::redis_cluster::RedisCluster;
use super::support::redis_server::{RedisServer, faketime, free_port};
use super::truth::{How, Live};

/// How many gateways there are.
pub(crate) const GATEWAYS: usize = 3;

/// Where the data is.
pub(crate) enum Store {
    Single(Box<RedisServer>),
    /// Three masters, and replicas of the first two.
    Cluster(RedisCluster),
}

/// Everything that a run owns.
pub(crate) struct Scene {
    pub(crate) hall: Arc<Hall>,
    pub(crate) gateways: Vec<Gateway>,
    /// By gateway; none in a cluster, whose nodes are found under their own addresses.
    pub(crate) links: Vec<Link>,
    pub(crate) screens: Screens,
    pub(crate) backend: Backend,
    pub(crate) reader: Arc<Reader>,
    pub(crate) outsider: Outsider,
    pub(crate) looks: watch::Receiver<Option<Look>>,
    _tasks: JoinSet<()>,
    pub(crate) store: Store,
}

/// What a scene is made of.
pub(crate) struct Materials<'a> {
    pub(crate) plan: Plan,
    pub(crate) program: PathBuf,
    pub(crate) cluster: bool,
    /// Redis goes by a wall clock that can be set, which costs it time. Not in a cluster.
    pub(crate) clock: bool,
    pub(crate) logs: &'a Path,
}

impl Scene {
    /// Starts everything; the crowd comes in and every live is open.
    pub(crate) async fn set(materials: Materials<'_>) -> anyhow::Result<Self> {
        let Materials { plan, program, cluster, clock, logs } = materials;
        // Without the library a run goes on: only the fault that needs it fails.
        let store = match (cluster, faketime().filter(|_| clock)) {
            (true, _) => Store::Cluster(RedisCluster::start(3, 2).await),
            (false, Some(library)) => Store::Single(Box::new(RedisServer::start_with_clock(library).await)),
            (false, None) => Store::Single(Box::new(RedisServer::start().await)),
        };
        let addresses: Vec<SocketAddr> =
            (0..GATEWAYS).map(|_| SocketAddr::from(([127, 0, 0, 1], free_port()))).collect();
        let hall = Arc::new(Hall::new(&plan, &addresses));
        let reader = Arc::new(Reader::connect(&store.addresses()).await?);
        write_follows(&hall, &reader).await?;
        // What comes back after a kill is the follow graph: the platform's, not the gateways'.
        store.nodes().iter().for_each(|node| drop(node.cli(&["SAVE"])));

        let (mut links, mut gateways) = (Vec::new(), Vec::new());
        for (number, address) in addresses.iter().enumerate() {
            let redis = match &store {
                Store::Single(server) => {
                    links.push(Link::to(server.addr()).await);
                    links[number].url()
                }
                Store::Cluster(cluster) => cluster.url(),
            };
            let log = logs.join(format!("gateway-{number}.log"));
            let flags = plan.timing.flags();
            let mut gateway = Gateway::new(Recipe { program: program.clone(), address: *address, redis, flags, log });
            hall.gateway_starts(number);
            gateway.start().await?;
            hall.gateway_started(number);
            gateways.push(gateway);
        }
        let redis = match &store {
            Store::Single(server) => server.url(),
            Store::Cluster(cluster) => cluster.url(),
        };
        let outsider = Outsider { program, redis, flags: plan.timing.flags() };
        let screens = Screens::open(&hall);
        let (send, looks) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(poll::feel_lag(hall.clone()));
        tasks.spawn(poll::run(hall.clone(), reader.clone(), send));
        let mut scene = Self {
            hall,
            gateways,
            links,
            screens,
            backend: Backend::new()?,
            reader,
            outsider,
            looks,
            _tasks: tasks,
            store,
        };
        scene.open_all().await?;
        for user in 0..plan.people() {
            scene._tasks.spawn(Box::pin(Person::new(scene.hall.clone(), user).run()));
        }
        Ok(scene)
    }

    /// The gateways that run, the given one last.
    pub(crate) fn up_but(&self, last: Option<usize>) -> Vec<SocketAddr> {
        let mut up: Vec<usize> = (0..GATEWAYS).filter(|gateway| self.hall.is_up(*gateway)).collect();
        up.sort_by_key(|gateway| Some(*gateway) == last);
        up.into_iter().map(|gateway| self.hall.doors[gateway].address).collect()
    }

    /// Opens a live, not through the gateway named if it can be avoided.
    pub(crate) async fn open(&mut self, live: Live, slices: u32, not_through: Option<usize>) -> anyhow::Result<()> {
        let (id, streamer) = (self.hall.live_id(live), self.hall.streamer_id(live));
        let opened = self.backend.open(&self.up_but(not_through), &id, &streamer, slices).await?;
        self.hall.opened(live, opened.epoch, opened.slices);
        Ok(())
    }

    /// Closes a live, and waits for the answer.
    pub(crate) async fn close(&mut self, live: Live, not_through: Option<usize>) -> anyhow::Result<()> {
        self.hall.closing(live);
        self.backend.close(&self.up_but(not_through), &self.hall.live_id(live)).await?;
        self.hall.closed(live);
        Ok(())
    }

    /// Closes both lives, not through the gateway named, and opens the second again, with another number of slices.
    pub(crate) async fn close_and_reopen(
        &mut self,
        [first, second]: [Live; 2],
        not_through: usize,
    ) -> anyhow::Result<()> {
        self.close(first, Some(not_through)).await?;
        if first != second {
            self.close(second, Some(not_through)).await?;
            self.open(second, 1 << ((second + 1) % 4), Some(not_through)).await?;
        }
        Ok(())
    }

    pub(crate) async fn start(&mut self, gateway: usize) -> anyhow::Result<()> {
        self.hall.gateway_starts(gateway);
        self.gateways[gateway].start().await?;
        self.hall.gateway_started(gateway);
        Ok(())
    }

    pub(crate) async fn kill(&mut self, gateway: usize) -> anyhow::Result<()> {
        // Marked first: its users see their sockets end.
        self.hall.gateway_ended(gateway, How::Killed);
        self.gateways[gateway].kill().await?;
        // What was said in the instant between was said by a gateway that still lived.
        self.hall.gateway_ended(gateway, How::Killed);
        Ok(())
    }

    /// Brings back whatever is not there: gateways, lives.
    pub(crate) async fn mend(&mut self) -> anyhow::Result<()> {
        for gateway in 0..GATEWAYS {
            if !self.gateways[gateway].is_running() {
                self.start(gateway).await?;
            }
        }
        self.open_all().await
    }

    /// Opens every live that is not open.
    async fn open_all(&mut self) -> anyhow::Result<()> {
        let lives = self.hall.books().lives.len();
        for live in 0..lives {
            if self.hall.epoch(live).is_none() {
                self.open(live, self.hall.slices(live), None).await?;
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
            sleep(Duration::from_millis(50).min(end.saturating_duration_since(Instant::now()))).await;
        }
        Ok(())
    }

    /// Nobody wanders; waits until everybody is where they want to be.
    pub(crate) async fn rest(&mut self, within: Duration) -> anyhow::Result<()> {
        self.hall.mode.send_replace(Mode::Rest);
        let deadline = Instant::now() + within;
        let mut calm = 0;
        while calm < 4 {
            if Instant::now() > deadline {
                let restless = self.hall.unsettled.load(std::sync::atomic::Ordering::SeqCst);
                bail!("{restless} people do not get where they want to be within {within:?}");
            }
            self.pass(Duration::from_millis(100)).await?;
            calm = if self.hall.unsettled.load(std::sync::atomic::Ordering::SeqCst) == 0 { calm + 1 } else { 0 };
        }
        Ok(())
    }

    pub(crate) fn wander(&self) {
        self.hall.mode.send_replace(Mode::Wander);
    }

    /// After a lease and two seconds without a gateway, its users must have been swept by the others.
    pub(crate) async fn expect_swept(&self, gateway: usize) {
        let lives = self.hall.books().lives.len();
        for live in 0..lives {
            let Some(Ok(stand)) = poll::read(&self.hall, &self.reader, live).await else { continue };
            let users: Vec<_> = stand.slices.iter().flatten().filter_map(|id| self.hall.user(id)).collect();
            let mut books = self.hall.books();
            let standings = &books.lives[live].standings;
            let only_there = |user: &u32| {
                standings.get(user).is_some_and(|standing| standing.only_on(gateway, stand.began, &books.rules))
            };
            let left: Vec<_> = users.into_iter().filter(only_there).collect();
            if let Some(first) = left.first() {
                let broken = Broken::new(Promise::NotSwept, format!("{} users of a gateway that is away", left.len()));
                let (user, id) = (self.hall.user_id(*first), self.hall.live_id(live));
                books.findings.broke(broken.user(user).live(id).gateway(gateway));
            }
        }
    }

    /// A gateway that has been without Redis for some seconds must say so on every dashboard.
    pub(crate) fn expect_honest(&self, gateway: usize) {
        if let Some(live) = self.screens.exact_on(gateway).first() {
            let broken = Broken::new(Promise::Dashboard, "calls its figures exact, with Redis away for seconds");
            self.hall.broke(broken.live(self.hall.live_id(*live)).gateway(gateway));
        }
    }
}

impl Store {
    pub(crate) fn nodes(&self) -> &[RedisServer] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => &cluster.nodes,
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes().iter().map(RedisServer::addr).collect()
    }

    /// The only server there is.
    pub(crate) fn single(&mut self) -> anyhow::Result<&mut RedisServer> {
        match self {
            Self::Single(server) => Ok(server),
            Self::Cluster(_) => bail!("this fault is for one server, not for a cluster"),
        }
    }

    pub(crate) fn cluster(&mut self) -> anyhow::Result<&mut RedisCluster> {
        match self {
            Self::Cluster(cluster) => Ok(cluster),
            Self::Single(_) => bail!("this fault is for a cluster: give --cluster"),
        }
    }

    /// Runs one command on every server that is a master now.
    pub(crate) fn on_masters(&self, command: &[&str]) -> Vec<String> {
        let masters = self.nodes().iter().filter(|node| cli(node, &["ROLE"]).starts_with("master"));
        masters.map(|node| cli(node, command)).collect()
    }
}

/// redis-cli, off the runtime's own time.
pub(crate) fn cli(node: &RedisServer, command: &[&str]) -> String {
    block_in_place(|| node.cli(command))
}

async fn write_follows(hall: &Hall, reader: &Reader) -> anyhow::Result<()> {
    let lives = hall.books().lives.len();
    let (mut followers, mut following) = (Vec::new(), Vec::new());
    for live in 0..lives {
        let fans: Vec<u32> = (0..hall.people).filter(|user| hall.is_fan(*user, live)).collect();
        for some in fans.chunks(500) {
            let pairs = some.iter().flat_map(|user| ["1".to_owned(), hall.user_id(*user)]);
            followers.push([format!("followers:{}", hall.streamer_id(live))].into_iter().chain(pairs).collect());
        }
    }
    for user in 0..hall.people {
        let streamers = (0..lives).filter(|live| hall.is_fan(user, *live));
        let pairs: Vec<String> = streamers.flat_map(|live| ["1".to_owned(), hall.streamer_id(live)]).collect();
        if !pairs.is_empty() {
            following.push([format!("following:{}", hall.user_id(user))].into_iter().chain(pairs).collect());
        }
    }
    reader.run_all("ZADD", following).await.context("the follow graph")?;
    reader.run_all("ZADD", followers).await.context("the follow graph")
}
