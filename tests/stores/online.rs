//! Users of the whole platform: who is online, when the others were seen last, in which live each
//! is, and which friends are there.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::clock::{UnixMillis, unix_now};
use rollcall::base::ids::{LiveId, SliceId, UserId};
use rollcall::config::SeenIds;
use rollcall::store::{Apply, OnlineCount, Seen, SliceEntry, Span, StoreError, UserPresence};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::acl::Cluster;
use crate::conformance::{
    Caller, connect, gateway, look, memory, passes, sweep, user, users, users_slice,
};
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;

pub mod friends;
pub mod whereabouts;

/// The slices of users.
const SLICES: u32 = 64;

/// A store, and the way to make users come online in it.
pub struct Platform {
    pub store: Arc<dyn WholeStore>,
    place: Place,
}

enum Place {
    Memory,
    Server(RedisServer),
    Cluster(Arc<RedisCluster>),
}

impl Platform {
    pub fn on_memory() -> Self {
        Self {
            store: memory(),
            place: Place::Memory,
        }
    }

    pub async fn on_redis() -> Self {
        let server = RedisServer::start().await;
        Self {
            store: Arc::new(connect(&server.url()).await),
            place: Place::Server(server),
        }
    }

    async fn on_cluster(cluster: &mut Cluster, case: &str) -> Self {
        Self {
            store: cluster.begins(case).await,
            place: Place::Cluster(Arc::clone(&cluster.nodes)),
        }
    }

    /// One command of Redis, on the server that has the key.
    pub fn redis(&self, command: &str, key: &str, more: &[&str]) -> String {
        let words: Vec<&str> = [command, key]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        match &self.place {
            Place::Memory => panic!("no Redis"),
            Place::Server(server) => server.cli(&words),
            Place::Cluster(cluster) => cluster.nodes[cluster.home(key)].cli(&words),
        }
    }

    /// Puts users among those online, or takes them out, as the flusher does.
    async fn change(&self, users: &[UserId], command: &str) {
        for user in users {
            match self.place {
                Place::Memory if command == "SADD" => {
                    self.apply(user, [std::slice::from_ref(user), &[]]).await
                }
                Place::Memory => self.apply(user, [&[], std::slice::from_ref(user)]).await,
                _ => drop(self.redis(command, &set_of(user), &[user.as_str()])),
            }
        }
    }

    /// A call of the flusher. Whoever leaves was here last at the very beginning.
    async fn apply(&self, user: &UserId, [joins, leaves]: [&[UserId]; 2]) {
        let slice = users_slice(user.slice_index(SLICES));
        let mut gateway = self.gateway("a", slice).await;
        let call = Apply {
            left: Some(vec![0; leaves.len()]),
            ..gateway.next(gateway.entry, joins, leaves)
        };
        gateway.makes(&call).await;
    }

    /// A gateway that goes on from its entry.
    async fn gateway(&self, name: &str, slice: SliceId) -> Caller {
        let mut gateway = Caller::new(&self.store, name).in_slice(slice);
        if let Some(SliceEntry::At { number, .. }) = gateway.looks().await.entry {
            (gateway.number, gateway.entry) = (number, Some(number));
        }
        gateway
    }

    pub async fn come(&self, users: &[UserId]) {
        self.change(users, "SADD").await;
        self.see(users, 0).await;
    }

    pub async fn go(&self, users: &[UserId], at: UnixMillis) {
        self.change(users, "SREM").await;
        self.see(users, at).await;
    }

    pub async fn see(&self, users: &[UserId], at: UnixMillis) {
        let seen: Vec<(UserId, UnixMillis)> = users.iter().map(|user| (user.clone(), at)).collect();
        self.store.note_seen(&seen, Duration::ZERO).await.unwrap();
    }

    async fn count(&self, from: UnixMillis, to: UnixMillis) -> OnlineCount {
        self.store.count_online(Span { from, to }).await.unwrap()
    }

    /// For each user: online, and when seen last.
    async fn known(&self, users: &[UserId]) -> Vec<(bool, Option<UnixMillis>)> {
        let known = self.store.presence_of(users).await.unwrap();
        assert_eq!(known.len(), users.len());
        known
            .into_iter()
            .map(|presence| (presence.online, presence.last_seen))
            .collect()
    }

    /// Everybody last seen in a span, in pages of so many.
    async fn seen(&self, span: Span, limit: usize) -> Vec<Seen> {
        let (mut all, mut rounds): (Vec<Seen>, usize) = (Vec::new(), 0);
        loop {
            let (page, more) = self.store.seen_page(span, all.last(), limit).await.unwrap();
            assert!(
                page.len() <= limit && (!more || !page.is_empty()),
                "{} of {limit}, {more}",
                page.len()
            );
            all.extend(page);
            rounds += 1;
            assert!(rounds < 10_000, "the list has an end");
            if !more {
                return all;
            }
        }
    }
}

/// The key of the set of users online in which a user is.
fn set_of(user: &UserId) -> String {
    format!("online-users_slice{}", user.slice_index(SLICES))
}

/// The cases on memory and on one server, and a function that runs all of them on a cluster.
macro_rules! on_each_platform {
    ($($case:ident),* $(,)?) => {
        mod on_memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::online::Platform::on_memory()).await;
            })*
        }
        mod on_redis {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::online::Platform::on_redis().await).await;
            })*
        }
        pub async fn on_cluster(cluster: &mut crate::acl::Cluster) {
            $(
                let case = stringify!($case);
                let platform = crate::online::Platform::on_cluster(cluster, case).await;
                Box::pin($case(platform)).await;
            )*
        }
    };
}
pub(crate) use on_each_platform;

on_each_platform!(
    a_user_is_online_or_was_seen_but_never_both,
    of_two_times_the_later_one_stays,
    a_time_that_is_too_near_to_the_known_one_changes_nothing,
    a_count_has_each_user_once_and_both_ends_of_the_window,
    a_list_is_in_order_and_misses_nobody,
    the_oldest_are_forgotten_a_thousand_at_a_time,
    everybody_of_a_long_list_has_the_right_answer,
);

async fn a_user_is_online_or_was_seen_but_never_both(platform: Platform) {
    let some = users(0, 300);
    assert_eq!(
        platform.known(&some[..2]).await,
        [(false, None), (false, None)]
    );
    platform.come(&some).await;
    assert_eq!(
        platform.count(0, UnixMillis::MAX).await,
        OnlineCount {
            online: 300,
            seen: 0
        }
    );
    // Somebody online who is seen elsewhere stays online only.
    platform.see(&some[..10], 500).await;
    platform.go(&some[100..], 1_000).await;
    assert_eq!(
        platform.count(0, UnixMillis::MAX).await,
        OnlineCount {
            online: 100,
            seen: 200
        }
    );
    platform.come(&some[100..150]).await;
    assert_eq!(
        platform.count(0, UnixMillis::MAX).await,
        OnlineCount {
            online: 150,
            seen: 150
        }
    );
    let asked = [user(200), user(0), user(120), user(999), user(200)];
    let known = platform.known(&asked).await;
    let gone = (false, Some(1_000));
    assert_eq!(
        known,
        [gone, (true, None), (true, None), (false, None), gone]
    );
    assert!(platform.known(&[]).await.is_empty());
    platform.store.note_seen(&[], Duration::ZERO).await.unwrap();
}

async fn of_two_times_the_later_one_stays(platform: Platform) {
    for at in [2_000, 3_000, 1_000] {
        platform.see(&[user(1)], at).await;
    }
    platform
        .store
        .note_seen(&[(user(2), 7), (user(2), 9), (user(2), 8)], Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(
        platform.known(&users(1, 3)).await,
        [(false, Some(3_000)), (false, Some(9))]
    );
}

async fn a_time_that_is_too_near_to_the_known_one_changes_nothing(platform: Platform) {
    let apart = Duration::from_millis(60);
    for (at, then) in [
        (1_000, 1_000),
        (1_059, 1_000),
        (1_060, 1_060),
        (1_061, 1_060),
        (900, 1_060),
        (5_000, 5_000),
    ] {
        let unchanged = platform
            .store
            .note_seen(&[(user(1), at)], apart)
            .await
            .unwrap();
        assert_eq!(
            platform.known(&[user(1)]).await,
            [(false, Some(then))],
            "{at}"
        );
        assert_eq!(
            unchanged,
            if at == then {
                vec![]
            } else {
                vec![(user(1), then)]
            },
            "{at}"
        );
    }
    platform.come(&[user(1)]).await;
    platform
        .store
        .note_seen(&[(user(1), 5_001)], apart)
        .await
        .unwrap();
    assert_eq!(platform.known(&[user(1)]).await, [(true, None)]);
}

async fn a_count_has_each_user_once_and_both_ends_of_the_window(platform: Platform) {
    for n in 0..200_u64 {
        platform.see(&[user(n as usize)], n / 10 * 10).await;
    }
    platform.come(&users(195, 205)).await;
    let seen = async |from, to| platform.count(from, to).await.seen;
    assert_eq!(seen(0, UnixMillis::MAX).await, 195);
    assert_eq!(seen(100, 110).await, 20);
    assert_eq!(seen(101, 109).await, 0);
    assert_eq!(seen(190, UnixMillis::MAX).await, 5);
    assert_eq!(platform.count(190, UnixMillis::MAX).await.online, 10);
}

async fn a_list_is_in_order_and_misses_nobody(platform: Platform) {
    for n in 0..40 {
        platform
            .see(&users(n * 10, n * 10 + 10), 1_000 + n as UnixMillis)
            .await;
    }
    let whole = platform.seen(Span::ALL, 1_000).await;
    assert_eq!(whole.len(), 400);
    assert!(whole.is_sorted_by(|a, b| (a.at, &a.user) < (b.at, &b.user)));
    for limit in [1, 7, 64, 399] {
        assert_eq!(
            platform.seen(Span::ALL, limit).await,
            whole,
            "in pages of {limit}"
        );
    }
    let some = platform
        .seen(
            Span {
                from: 1_010,
                to: 1_019,
            },
            30,
        )
        .await;
    assert_eq!(some, whole[100..200]);
    assert!(
        platform
            .seen(
                Span {
                    from: 5_000,
                    to: 6_000
                },
                30
            )
            .await
            .is_empty()
    );
}

async fn the_oldest_are_forgotten_a_thousand_at_a_time(platform: Platform) {
    let slice = user(0).slice_index(SLICES);
    let mates: Vec<UserId> = (0..)
        .map(user)
        .filter(|user| user.slice_index(SLICES) == slice)
        .take(1_502)
        .collect();
    platform.see(&mates[..1_500], 10).await;
    platform.see(&mates[1_500..], 20).await;
    let forget = async |before| platform.store.forget_seen(slice, before).await.unwrap();
    assert_eq!(forget(10).await, 0);
    assert_eq!(
        [forget(20).await, forget(20).await, forget(20).await],
        [1_000, 500, 0]
    );
    assert_eq!(platform.seen(Span::ALL, 10).await.len(), 2);
    let elsewhere = slice % SLICES + 1;
    assert_eq!(
        platform
            .store
            .forget_seen(elsewhere, UnixMillis::MAX)
            .await
            .unwrap(),
        0
    );
}

/// Users of every kind, more of them in one slice than a call asks about.
async fn everybody_of_a_long_list_has_the_right_answer(platform: Platform) {
    let slice = user(0).slice_index(SLICES);
    let mates = (100..)
        .map(user)
        .filter(|user| user.slice_index(SLICES) == slice)
        .take(200);
    let asked: Vec<UserId> = (0..100).map(user).chain(mates).collect();
    let of_kind = |kind: usize| {
        asked
            .iter()
            .skip(kind)
            .step_by(5)
            .cloned()
            .collect::<Vec<_>>()
    };
    platform.see(&of_kind(3), 7).await;
    platform.see(&of_kind(4), 8).await;
    for user in of_kind(0) {
        platform.tells("a", &user, &[user.as_str()]).await;
    }
    platform.come(&of_kind(1)).await;
    let known = platform.store.presence_of(&asked).await.unwrap();
    let words = platform.store.whereabouts_of(&asked).await.unwrap();
    assert_eq!((known.len(), words.len()), (300, 300));
    for (place, (user, (known, words))) in
        asked.iter().zip(known.into_iter().zip(words)).enumerate()
    {
        let here = vec![(gateway("a"), LiveId::parse(user.as_str()).unwrap())];
        let (online, last_seen, lives) = match place % 5 {
            0 => (true, None, here),
            1 => (true, None, Vec::new()),
            2 => (false, None, Vec::new()),
            3 => (false, Some(7), Vec::new()),
            _ => (false, Some(8), Vec::new()),
        };
        assert_eq!(words, lives, "{place}: {user}");
        assert_eq!(
            known,
            UserPresence {
                online,
                last_seen,
                lives
            },
            "{place}: {user}"
        );
    }
    assert_eq!(platform.store.presence_of(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn ids_of_four_bytes_answer_as_texts_do() {
    let platform = Platform::on_redis().await;
    assert_eq!(
        platform.store.fix_seen_ids(SeenIds::U32).await.unwrap(),
        SeenIds::U32
    );
    let named = |id: &str| UserId::parse(id).unwrap();
    let ids = ["0", "9", "10", "258", "4294967295"].map(named);
    platform.see(&ids, 5).await;
    let [odd, name, large] = ["007", "alice", "4294967296"].map(named);
    platform
        .see(&[odd.clone(), name.clone(), large.clone(), named("7")], 6)
        .await;
    let asked = [named("258"), odd, name, large, named("7")];
    let known = platform.known(&asked).await;
    let (gone, unknown) = (|at| (false, Some(at)), (false, None));
    assert_eq!(known, [gone(5), unknown, unknown, unknown, gone(6)]);
    let listed: Vec<String> = platform
        .seen(Span::ALL, 2)
        .await
        .iter()
        .map(|seen| seen.user.to_string())
        .collect();
    assert_eq!(listed, ["0", "9", "10", "258", "4294967295", "7"]);
    platform.come(&[named("258")]).await;
    assert_eq!(
        platform.count(0, UnixMillis::MAX).await,
        OnlineCount { online: 1, seen: 5 }
    );
    let key = format!(
        "last-seen:{{online-users_slice{}}}",
        named("9").slice_index(SLICES)
    );
    let member = platform.redis("ZRANGE", &key, &["0", "-1"]);
    assert!(
        !member.contains("9\n") && platform.redis("ZCARD", &key, &[]) != "0",
        "{member:?}"
    );
}

#[tokio::test]
async fn visits_of_users_with_ids_of_four_bytes_are_noted_by_the_calls_that_end_them() {
    let platform = Platform::on_redis().await;
    platform.store.fix_seen_ids(SeenIds::U32).await.unwrap();
    let [some, odd] = ["258", "no-number"].map(|id| UserId::parse(id).unwrap());
    for user in [&some, &odd] {
        platform
            .apply(user, [std::slice::from_ref(user), &[]])
            .await;
        platform
            .apply(user, [&[], std::slice::from_ref(user)])
            .await;
    }
    let seen = platform.redis(
        "ZRANGE",
        &format!("last-seen:{{{}}}", set_of(&some)),
        &["0", "-1"],
    );
    assert_eq!(seen.as_bytes(), [0, 0, 1, 2]);
    assert_eq!(
        platform.redis("EXISTS", &format!("last-seen:{{{}}}", set_of(&odd)), &[]),
        "0"
    );
    platform
        .apply(&some, [std::slice::from_ref(&some), &[]])
        .await;
    assert_eq!(platform.known(&[some]).await, [(true, None)]);
    assert_eq!(
        platform.count(0, UnixMillis::MAX).await,
        OnlineCount { online: 1, seen: 0 }
    );
}

#[tokio::test]
async fn who_is_online_changes_although_another_program_garbled_the_last_seen_times() {
    let platform = Platform::on_redis().await;
    let users: Vec<UserId> = (0..)
        .map(user)
        .filter(|mate| set_of(mate) == set_of(&user(0)))
        .take(3)
        .collect();
    let seen = format!("last-seen:{{{}}}", set_of(&users[0]));
    platform.redis("SET", &seen, &["x"]);
    let slice = users_slice(users[0].slice_index(SLICES));
    let card = async || look(&platform.store, &slice, "a").await.size.card;
    platform.apply(&users[0], [&users, &[]]).await;
    assert_eq!(card().await, 3);
    platform.apply(&users[0], [&[], &users[..1]]).await;
    assert_eq!(card().await, 2);
    sweep(&platform.store, &slice, 1, &[("a", 70)]).await;
    assert_eq!(card().await, 0);
    assert_eq!(platform.redis("GET", &seen, &[]), "x");
}

/// Members on whom there is no claim, as after a rebuild.
#[tokio::test]
async fn strays_who_are_taken_out_were_seen_until_now() {
    let platform = Platform::on_redis().await;
    let stray = user(1);
    let slice = users_slice(stray.slice_index(SLICES));
    let mut gateway = platform.gateway("a", slice).await;
    gateway.registers(&[]).await;
    platform.come(std::slice::from_ref(&stray)).await;
    assert_eq!(
        platform.known(std::slice::from_ref(&stray)).await,
        [(true, None)]
    );
    let before = unix_now();
    let passed = passes(&platform.store, gateway.pass()).await.unwrap();
    assert_eq!((passed.drift.stray, passed.size.card), (1, 0));
    let known = platform.known(&[stray]).await;
    assert!(
        !known[0].0 && known[0].1.is_some_and(|at| at + 5_000 >= before),
        "{known:?}"
    );
}

#[tokio::test]
async fn the_first_gateway_fixes_how_ids_are_kept() {
    let server = RedisServer::start().await;
    let (first, second) = (connect(&server.url()).await, connect(&server.url()).await);
    use rollcall::store::LastSeen;
    assert_eq!(
        first.fix_seen_ids(SeenIds::U32).await.unwrap(),
        SeenIds::U32
    );
    assert_eq!(
        second.fix_seen_ids(SeenIds::Text).await.unwrap(),
        SeenIds::U32
    );
    assert_eq!(server.cli(&["GET", "rollcall:last-seen-ids"]), "u32");
    server.cli(&["FLUSHALL"]);
    assert_eq!(
        first.fix_seen_ids(SeenIds::U32).await.unwrap(),
        SeenIds::U32
    );
    assert_eq!(server.cli(&["GET", "rollcall:last-seen-ids"]), "u32");
}

/// What a server does.
struct Monitor(Lines<BufReader<TcpStream>>);

impl Monitor {
    async fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(server.addr()).await.unwrap();
        stream.write_all(b"MONITOR\r\n").await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "+OK");
        Self(lines)
    }

    /// The commands since the last call, each with its key.
    async fn commands(&mut self, server: &RedisServer) -> Vec<String> {
        server.cli(&["ECHO", "end"]);
        let mut seen = Vec::new();
        loop {
            let line = timeout(Duration::from_secs(10), self.0.next_line())
                .await
                .unwrap()
                .unwrap()
                .unwrap();
            let words: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            if words[0] == "ECHO" {
                return seen;
            }
            seen.extend(words.get(1).map(|key| format!("{} {key}", words[0])));
        }
    }
}

/// How many packets a server has read.
fn packets(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "stats"]);
    let reads = stats
        .lines()
        .find_map(|line| line.strip_prefix("total_reads_processed:"));
    reads.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn the_questions_about_many_users_are_asked_together() {
    let platform = Platform::on_redis().await;
    let Place::Server(server) = &platform.place else {
        unreachable!()
    };
    let users: Vec<UserId> = (0..500).map(user).collect();
    platform.store.presence_of(&users).await.unwrap();
    let mut monitor = Monitor::start(server).await;
    let before = packets(server);
    platform.store.presence_of(&users).await.unwrap();
    // Some are those of this test, and of connections that are watched.
    let during = packets(server) - before;
    assert!(during <= 30, "{during} packets");
    let seen = monitor.commands(server).await;
    let calls = seen
        .iter()
        .filter(|line| line.starts_with("EVALSHA "))
        .count();
    assert!(
        (4..=8).contains(&calls),
        "128 users in a call at most: {seen:?}"
    );
    for slice in 1..=SLICES {
        let asked = format!("SMISMEMBER online-users_slice{slice}");
        assert_eq!(
            seen.iter().filter(|line| **line == asked).count(),
            1,
            "{asked}"
        );
    }
    assert!(
        !seen.iter().any(|line| line.starts_with("HMGET")),
        "nobody is online"
    );
}

/// What other programs wrote is not believed, and says of nobody that they are away.
#[tokio::test]
async fn whereabouts_that_another_program_wrote_say_nothing() {
    let platform = Platform::on_redis().await;
    let Place::Server(server) = &platform.place else {
        unreachable!()
    };
    let known = user(1);
    let key = format!("{{{}}}:who", set_of(&known));
    platform.come(std::slice::from_ref(&known)).await;
    let gateways = format!("{{{}}}:gateways", set_of(&known));
    let entries = ["a", "1:7", "#1", "a", "b", "2:dead", "c", "what"];
    server.cli(&[&["HSET", gateways.as_str()], &entries[..]].concat());
    let mut asked: Vec<UserId> = (0..300).map(user).collect();
    asked.retain(|user| *user != known);
    asked.insert(7, known.clone());
    for words in [
        "",
        "nowords",
        " 1",
        " 1=",
        "1=42",
        " 2=42 3=42 9=42",
        " 1={42},caf\\233",
        " what 1=\\0\\255,42",
    ] {
        let script = format!("return redis.call('HSET', KEYS[1], ARGV[1], \"{words}\")");
        server.cli(&["EVAL", &script, "1", &key, known.as_str()]);
        let found = platform.store.presence_of(&asked).await.unwrap();
        let here: Vec<usize> = (0..asked.len())
            .filter(|place| found[*place].online)
            .collect();
        assert_eq!(here, [7], "{words:?}");
        let lives: Vec<_> = found[7]
            .lives
            .iter()
            .map(|(gateway, live)| (gateway.as_str(), live.as_str()))
            .collect();
        let read: &[_] = if words.ends_with(",42") {
            &[("a", "42")]
        } else {
            &[]
        };
        assert_eq!(lives, read, "{words:?}");
    }
    // A line feed would give other users each other's answers.
    server.cli(&[
        "EVAL",
        "return redis.call('HSET', KEYS[1], ARGV[1], ' 1=a\\nb')",
        "1",
        &key,
        known.as_str(),
    ]);
    let refused = platform.store.presence_of(&asked).await.unwrap_err();
    assert!(matches!(refused, StoreError::Nonsense(_)), "{refused}");
}

/// A call that has more commands than a task may send at a time.
#[tokio::test]
async fn the_last_command_of_a_long_call_does_not_overtake_the_others() {
    let platform = Platform::on_redis().await;
    let Place::Server(server) = &platform.place else {
        unreachable!()
    };
    let lives: Vec<LiveId> = (0..200)
        .map(|number| LiveId::parse(&format!("l{number}")).unwrap())
        .collect();
    let mut monitor = Monitor::start(server).await;
    let before = packets(server);
    assert!(
        platform
            .store
            .load_lives(&lives)
            .await
            .iter()
            .all(Result::is_ok)
    );
    let during = packets(server) - before;
    assert!(
        during <= 30,
        "{during} packets with {} commands",
        lives.len()
    );
    let seen = monitor.commands(server).await;
    let asked: Vec<_> = seen
        .iter()
        .filter(|line| line.starts_with("HGETALL live:"))
        .collect();
    let wanted: Vec<_> = lives
        .iter()
        .map(|live| format!("HGETALL live:{live}"))
        .collect();
    assert_eq!(asked, wanted.iter().collect::<Vec<_>>(), "{seen:?}");
}
