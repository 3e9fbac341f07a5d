//! One client cannot spoil it for others: how fast a socket may send, how many sockets a user may
//! have, and what a socket and a live take.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::support::socket::UPGRADE;
use crate::support::stores::{on_memory, on_redis, story};
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, becomes, fits, until};
use crate::support::world::World;

fn heartbeat() -> Value {
    json!({"type": "heartbeat"})
}

/// How often a limit refused or closed something.
async fn limited(world: &World, limit: &str) -> f64 {
    world
        .metric(&format!("rollcall_limited_total{{why=\"{limit}\"}}"))
        .await
}

on_memory! {
    async fn a_client_that_floods_is_told_once_and_then_closed(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        let mut pace = tokio::time::interval(Duration::from_millis(1));
        for _ in 0..60 {
            viewer.say(heartbeat()).await;
            pace.tick().await;
        }
        viewer.expect_error("rate_limited").await;
        // Any further error would fail this.
        viewer.hear_kind("none", Instant::now() + PATIENCE).await;
        viewer.expect_closed(4_008).await;
        world.fans_become("42", &[]).await;
        // 20 at once were served, 20 more were refused, and the next one was too many.
        let refused = limited(&world, "messages").await;
        assert!((21.0..=22.0).contains(&refused), "{refused} refused");
    }
}

on_memory! {
    async fn endless_pieces_of_a_message_are_no_way_around(world) {
        let mut viewer = world.viewer("u1").await;
        let piece = |data| Message::Frame(Frame::message("", OpCode::Data(data), false));
        viewer.say_frame(piece(Data::Text)).await;
        for _ in 0..60 {
            viewer.say_frame(piece(Data::Continue)).await;
        }
        assert_eq!(viewer.expect("error").await["code"], "rate_limited");
        viewer.say_frame(piece(Data::Continue)).await;
        viewer.expect_closed(4_008).await;
    }
}

on_memory! {
    async fn a_client_that_was_refused_is_served_again_after_a_pause(world) {
        let mut viewer = world.viewer("u1").await;
        for _ in 0..30 {
            viewer.say(heartbeat()).await;
        }
        viewer.expect_error("rate_limited").await;
        // Ten beyond a burst of twenty: at ten a second it takes a second until one is served.
        viewer.hears_no("error", Duration::from_millis(1_500)).await;
        viewer.survives_errors().await;
        viewer.heartbeat_json().await;
    }
}

on_memory! {
    tuned(|config| config.sockets_per_user = 2)
    async fn the_oldest_socket_of_a_user_goes_when_there_are_too_many(world) {
        world.open("42").await;
        let mut first = world.viewer_in("u1", "42").await;
        // A gateway knows the age of a socket in milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let second = world.viewer_in("u1", "42").await;
        let mut other = world.viewer_in("u2", "42").await;
        let mut third = world.viewer_in("u1", "42").await;
        first.expect_closed(4_009).await;
        // Still one viewer, through the sockets that are left.
        world.acks_become(&mut third, Some(false), 2, 0).await;
        second.close().await;
        let mut fourth = world.viewer_in("u1", "42").await;
        for viewer in [&mut other, &mut third, &mut fourth] {
            assert!(viewer.is_connected().await, "{}", viewer.transcript());
        }
        assert_eq!(limited(&world, "sockets_per_user").await, 1.0);
    }
}

on_memory! {
    tuned(|config| {
        config.sockets_per_user = 1;
        config.timeout = Duration::from_secs(60);
    })
    async fn the_seat_of_a_socket_that_vanished_is_no_socket(world) {
        world.open("42").await;
        world.viewer_in("u1", "42").await.reset().await;
        becomes("the gateway notices that the socket is gone", 0.0, async || {
            world.metric("rollcall_sockets").await
        })
        .await;
        let mut again = world.viewer_in("u1", "42").await;
        assert!(again.is_connected().await);
        assert_eq!(limited(&world, "sockets_per_user").await, 0.0);
    }
}

on_memory! {
    tuned(|config| {
        config.watches_per_socket = 2;
        config.opens_per_socket = 1;
    })
    async fn a_socket_watches_and_opens_only_so_many_lives(world) {
        for live in ["1", "2", "3"] {
            world.open(live).await;
        }
        let request = |kind: &str, live: &str| json!({"type": kind, "live_id": live, "streamer_id": "s1"});
        let mut service = world.service().await;
        for live in ["1", "2", "2"] {
            assert_eq!(service.ask(request("watch", live)).await["type"], "counts");
        }
        service.is_refused(request("watch", "3"), "rate_limited").await;
        service.ask(request("unwatch", "1")).await;
        assert_eq!(service.ask(request("watch", "3")).await["type"], "counts");

        for live in ["4", "4"] {
            assert_eq!(service.ask(request("open", live)).await["type"], "opened");
        }
        service.is_refused(request("open", "5"), "rate_limited").await;
        // A live that is open already counts as any other.
        service.is_refused(request("open", "1"), "rate_limited").await;
        assert_eq!(world.backend().get("/v1/lives/5").await.status, 404, "nothing was written");
        service.close_live("4").await;
        assert_eq!(service.ask(request("open", "5")).await["type"], "opened");
        assert_eq!((limited(&world, "watches").await, limited(&world, "opens").await), (1.0, 2.0));
    }
}

on_memory! {
    tuned(|config| config.opens_per_socket = 1)
    async fn a_streamer_opens_no_more_lives_over_new_sockets(world) {
        let mut first = world.streamer("s1").await;
        first.open("6").await;
        let mut second = world.streamer("s1").await;
        second.is_refused(json!({"type": "open", "live_id": "7"}), "rate_limited").await;
        second.ask(json!({"type": "open", "live_id": "6"})).await;
        second.is_refused(json!({"type": "open", "live_id": "8", "slices": 256}), "forbidden").await;
        first.close_live("6").await;
        assert_eq!(second.ask(json!({"type": "open", "live_id": "7"})).await["type"], "opened");
    }
}

on_memory! {
    tuned(|config| {
        config.join_rate = 2;
        config.message_rate = 0;
    })
    async fn a_live_takes_only_so_many_joins_a_second(world) {
        for live in ["42", "43"] {
            world.open(live).await;
        }
        let mut viewer = world.viewer_in("u1", "43").await;
        for _ in 0..10 {
            // A socket that is there already joins at no cost.
            viewer.join("43").await;
        }
        let mut joined = 0;
        let (refused, there) = loop {
            let (live, there) = if joined % 2 == 0 { ("42", "43") } else { ("43", "42") };
            let answer = viewer.ask(json!({"type": "join", "live_id": live})).await;
            if answer["type"] == "error" {
                assert_eq!(answer["code"], "rate_limited");
                break (live, there);
            }
            joined += 1;
            assert!(joined < 200, "no join was refused");
        };
        assert!(joined >= 6, "four join each live at once, and one of them had joined before: {joined}");
        assert_eq!(viewer.heartbeat_json().await["live_id"], there, "the socket stays where it was");
        let viewer = tokio::sync::Mutex::new(viewer);
        until("the live takes another join", PATIENCE, async || {
            let answer = viewer.lock().await.ask(json!({"type": "join", "live_id": refused})).await;
            if answer["type"] == "joined" { Ok(()) } else { Err(answer) }
        })
        .await;
        assert!(limited(&world, "joins").await >= 1.0);
    }
}

/// Joins one live after the other in turn, without a wait; how often the socket was let into
/// another live.
async fn switches(viewer: &mut Viewer, times: usize, more: &Value) -> usize {
    let mut joined = 0;
    let mut here = None;
    for number in 0..times {
        let live = if number % 2 == 0 { "1" } else { "2" };
        let mut request = json!({"type": "join", "live_id": live});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = viewer.ask(request).await;
        match answer["type"].as_str() {
            Some("joined") => joined += usize::from(here.replace(live) != Some(live)),
            _ => assert_eq!(answer["code"], "rate_limited", "{answer}"),
        }
    }
    joined
}

on_memory! {
    tuned(|config| {
        config.user_rate = 2;
        config.message_rate = 0;
    })
    async fn more_sockets_buy_a_user_no_more_joins(world) {
        for live in ["1", "2"] {
            world.open(live).await;
        }
        let began = Instant::now();
        let mut joined = 0;
        for _ in 0..10 {
            let mut viewer = world.viewer("u1").await;
            joined += switches(&mut viewer, 10, &json!({})).await;
            viewer.close().await;
        }
        // Four seconds' worth at once, and then the rate.
        let most = 8 + 2 * (began.elapsed().as_secs() as usize + 1);
        assert!((8..=most).contains(&joined), "{joined} joins, at most {most}");
        assert!(limited(&world, "user").await >= 50.0);
        let mut other = world.viewer("u2").await;
        assert_eq!(switches(&mut other, 4, &json!({})).await, 4, "another user has a budget of their own");
        let mut back_end = world.service().await;
        assert_eq!(switches(&mut back_end, 40, &json!({})).await, 40, "a back end has none");
        other.join("2").await;
        for _ in 0..40 {
            // The live that the socket is in already costs nothing.
            other.join("2").await;
        }
    }
}

on_memory! {
    tuned(|config| {
        config.sockets_per_user = 20;
        config.message_rate = 0;
    })
    async fn a_browser_with_all_its_tabs_comes_back_at_once(world) {
        world.open("42").await;
        let mut tabs = Vec::new();
        for _ in 0..20 {
            tabs.push(world.person("u1", "viewer", "&live_id=42").await);
        }
        for tab in &mut tabs {
            assert_eq!(tab.expect("joined").await["live_id"], "42");
        }
    }
}

on_redis! {
    tuned(|config| config.message_rate = 0)
    async fn follows_are_read_once_for_all_sockets_of_a_user(world) {
        for live in ["1", "2"] {
            world.open(live).await;
        }
        let friends: Vec<String> = (0..1_000).map(|n| format!("friend{n}")).collect();
        let mut words = vec!["ZADD", "following:u1"];
        words.extend(friends.iter().flat_map(|friend| ["1", friend.as_str()]));
        world.redis().ask(&words).await;
        let reads = async || {
            let said = world.redis().ask(&["INFO", "commandstats"]).await;
            let said = said.as_str().unwrap().to_owned();
            let line = said.lines().find_map(|line| line.strip_prefix("cmdstat_zrevrange:calls=")).unwrap_or("0");
            line.split(',').next().unwrap().parse::<u64>().unwrap()
        };
        // A gateway tries the command out when it starts.
        let before = reads().await;
        let began = Instant::now();
        let mut sockets = Vec::new();
        for _ in 0..5 {
            let mut viewer = world.viewer("u1").await;
            switches(&mut viewer, 3, &json!({"friends": true})).await;
            sockets.push(viewer);
        }
        let answered = sockets[0].expect("friends").await;
        assert_eq!(answered["count"], 0, "{answered}");
        // A read serves for five seconds.
        let most = 1 + began.elapsed().as_secs() / 5;
        let reads = reads().await - before;
        assert!((1..=most).contains(&reads), "{reads} reads, at most {most}");
        // A follow is seen at once all the same.
        let _friend = world.viewer_in("ann", "1").await;
        world.backend().follow("u1", "ann").await;
        until("the new friend is seen", PATIENCE, async || {
            let mut viewer = world.viewer("u1").await;
            viewer.ask(json!({"type": "join", "live_id": "1", "friends": true})).await;
            fits(viewer.expect("friends").await, |shown| shown["user_ids"] == json!(["ann"]))
        })
        .await;
    }
}

on_memory! {
    tuned(|config| {
        config.lives_per_streamer = 2;
        config.opens_per_day = 6;
        config.user_rate = 0;
    })
    async fn a_streamer_has_so_many_lives_and_opens_so_many_a_day(world) {
        let open = |live: &str| json!({"type": "open", "live_id": live});
        let mut streamer = world.streamer("s1").await;
        for live in ["1", "2", "2"] {
            assert_eq!(streamer.ask(open(live)).await["type"], "opened");
        }
        // Another socket is no way around, and lives of back ends do not count.
        let mut again = world.streamer("s1").await;
        again.is_refused(open("3"), "rate_limited").await;
        world.open("4").await;
        world.open("5").await;
        again.is_refused(open("3"), "rate_limited").await;
        assert_eq!(world.backend().get("/v1/lives/3").await.status, 404, "nothing was written");
        let mut other = world.streamer("s2").await;
        assert_eq!(other.ask(open("6")).await["type"], "opened");
        other.is_refused(open("1"), "live_owned").await;
        assert_eq!(other.ask(open("7")).await["type"], "opened", "a live of another streamer took no room");
        for live in ["2", "3", "3", "3"] {
            streamer.close_live(live).await;
            assert_eq!(streamer.ask(open("3")).await["type"], "opened", "after {live}");
        }
        streamer.close_live("3").await;
        streamer.is_refused(open("8"), "rate_limited").await;
        assert_eq!(limited(&world, "opens").await, 3.0);
    }
}

on_memory! {
    tuned(|config| config.streamers_open = false)
    async fn where_only_back_ends_open_lives_a_streamer_opens_none(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.is_refused(json!({"type": "open", "live_id": "1"}), "forbidden").await;
        world.open("1").await;
        let opened = streamer.ask(json!({"type": "open", "live_id": "1"})).await;
        assert_eq!(opened["type"], "opened", "it is open, and the streamer's own");
        streamer.close_live("1").await;
        streamer.is_refused(json!({"type": "open", "live_id": "1"}), "forbidden").await;
    }
}

on_memory! {
    tuned(|config| {
        config.streamers_open = false;
        config.user_rate = 0;
        config.message_rate = 0;
    })
    async fn a_streamer_who_opens_while_the_live_closes_opens_none(world) {
        let (mut closer, mut opener) = (world.streamer("s1").await, world.streamer("s1").await);
        for round in 0..20 {
            let live = round.to_string();
            let opened = world.backend().open(&live, "s1").await;
            let (close, open) = (json!({"type": "close", "live_id": live}), json!({"type": "open", "live_id": live}));
            let (_, answer) = tokio::join!(closer.ask(close), opener.ask(open));
            let is_refused = answer["code"] == "forbidden";
            assert!(is_refused || answer["epoch"] == opened["epoch"], "{answer}");
            assert_eq!(world.backend().live(&live).await["epoch"], opened["epoch"]);
        }
    }
}

/// What Redis has read and written over the network so far, in bytes, and the CPU that it took, in
/// seconds.
async fn redis_work(world: &World) -> [f64; 2] {
    let said = world.redis().ask(&["INFO", "everything"]).await;
    let said = said.as_str().unwrap().to_owned();
    let value = |name: &str| -> f64 {
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap().trim().parse().unwrap()
    };
    let bytes = value("total_net_input_bytes") + value("total_net_output_bytes");
    [bytes, value("used_cpu_sys") + value("used_cpu_user")]
}

on_redis! {
    tuned(|config| config.message_rate = 0)
    async fn twenty_sockets_of_a_user_cost_redis_at_most_twice_as_much_as_one(world) {
        const SPAN: Duration = Duration::from_secs(6);
        for live in ["1", "2"] {
            world.open(live).await;
        }
        for user in ["alone", "many"] {
            let mut words = vec!["ZADD".to_owned(), format!("following:{user}")];
            words.extend((0..1_000).flat_map(|n| ["1".to_owned(), format!("friend{n}")]));
            world.redis().ask(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        let mut costs = Vec::new();
        for (user, count) in [("alone", 1), ("many", 20)] {
            let mut sockets = Vec::new();
            for _ in 0..count {
                sockets.push(world.viewer(user).await);
            }
            let before = redis_work(&world).await;
            let until = Instant::now() + SPAN;
            let busy = sockets.iter_mut().map(async |viewer| {
                while Instant::now() < until {
                    switches(viewer, 2, &json!({"friends": true})).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
            join_all(busy).await;
            let after = redis_work(&world).await;
            costs.push([after[0] - before[0], after[1] - before[1]]);
            for viewer in sockets {
                viewer.close().await;
            }
        }
        let [[bytes, cpu], [more_bytes, more_cpu]] = [costs[0], costs[1]];
        assert!(more_bytes <= 2.0 * bytes, "{more_bytes} bytes instead of {bytes}");
        // The clock of the CPU has steps of 10 ms.
        assert!(more_cpu <= 2.0 * cpu + 0.05, "{more_cpu} s of CPU instead of {cpu}");
    }
}

/// What the kernel holds for the client of a connection to this address, in bytes.
fn unsent_to(client: SocketAddr, gateway: SocketAddr) -> u64 {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let line = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| {
            words.len() > 4
                && words[1].ends_with(&port(gateway))
                && words[2].ends_with(&port(client))
        });
    let queues = line.map(|words| words[4].to_owned()).unwrap_or_default();
    queues
        .split(':')
        .next()
        .and_then(|sent| u64::from_str_radix(sent, 16).ok())
        .unwrap_or(0)
}

#[test]
fn a_client_that_never_reads_holds_no_more_than_the_documents_say() {
    story(async {
        let world = World::on_memory(|config| {
            config.message_rate = 0;
            config.timeout = Duration::from_secs(20);
        })
        .await;
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut tcp = socket.connect(world.addr).await.unwrap();
        let client = tcp.local_addr().unwrap();
        tcp.write_all(UPGRADE.as_bytes()).await.unwrap();
        // A heartbeat whose answer repeats a long id.
        let heartbeat = json!({"type": "heartbeat", "id": "x".repeat(3_000)}).to_string();
        let mut frame = vec![0x81, 0x80 | 126];
        frame.extend((heartbeat.len() as u16).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(heartbeat.as_bytes());
        let (mut most, mut still_since) = (0, Instant::now());
        let mut frames = 0;
        // Until the gateway takes no more, because it cannot answer.
        while still_since.elapsed() < Duration::from_millis(500) {
            let is_blocked = match tokio::time::timeout(
                Duration::from_millis(20),
                tcp.write_all(&frame),
            )
            .await
            {
                Ok(written) => {
                    written.expect("the gateway keeps the socket");
                    still_since = Instant::now();
                    false
                }
                Err(_) => true,
            };
            frames += 1;
            // The table is long on a machine with many connections.
            if is_blocked || frames % 50 == 0 {
                most = most.max(unsent_to(client, world.addr));
            }
        }
        assert!(
            most > 4_096,
            "{most} bytes were held: the gateway never had to wait"
        );
        assert!(most <= 64 << 10, "the kernel holds {most} bytes");
    });
}
