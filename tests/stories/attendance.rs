//! Attendance: which fans came to which lives, and from when to when each user was there, on real
//! gateways.

use std::collections::BTreeSet;
use std::time::Duration;

use rollcall::base::clock::unix_now;
use rollcall::config::{AttendanceForm, Config, SeenIds};
use serde_json::{Value, json};

use super::audit::{audit, found};
use crate::support::dashboard::{fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::wait::{PATIENCE, becomes, names, same, until};
use crate::support::world::World;

async fn open(world: &World, live: &str) -> u64 {
    let body = json!({"streamer_id": "s1", "attendance": true});
    let opened = world
        .backend()
        .put(&format!("/v1/lives/{live}"), body)
        .await
        .is(201)
        .body;
    assert_eq!(opened["attendance"], true);
    opened["epoch"].as_u64().unwrap()
}

/// How many answer a question, and who, in pages of two.
async fn answer(world: &World, question: &str) -> (u64, BTreeSet<String>) {
    let path = format!("/v1/attendance?{question}");
    let count = world.backend().get(&path).await.is(200).body["count"]
        .as_u64()
        .unwrap();
    let users = world.backend().users(&path, 2).await;
    (count, users.into_iter().collect())
}

/// The same, while nobody comes.
async fn came(world: &World, question: &str) -> BTreeSet<String> {
    let (count, users) = answer(world, question).await;
    assert_eq!(count, users.len() as u64, "{question}");
    users
}

async fn become_those_who_came(world: &World, question: &str, wanted: &[&str]) {
    let wanted = (wanted.len() as u64, names(wanted));
    becomes("those who came", wanted.clone(), async || {
        answer(world, question).await
    })
    .await;
}

async fn sessions(world: &World, live: &str) -> Vec<Value> {
    world
        .backend()
        .list(&format!("/v1/lives/{live}/sessions"), 2)
        .await
}

/// Of each session, in their order: who, and whether it has ended.
async fn become_sessions(world: &World, live: &str, wanted: &[(&str, bool)]) -> Vec<Value> {
    let wanted: Vec<(String, bool)> = wanted
        .iter()
        .map(|(user, ended)| ((*user).to_owned(), *ended))
        .collect();
    until("the sessions", world.sweep_bound(), || async {
        let all = sessions(world, live).await;
        let shown = all.iter().map(|it| {
            (
                it["user_id"].as_str().unwrap().to_owned(),
                !it["left_at"].is_null(),
            )
        });
        same(shown.collect(), wanted.clone()).map(|_| all)
    })
    .await
}

on_redis! {
    async fn in_a_full_redis_a_live_with_attendance_closes(world) {
        open(&world, "42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        become_those_who_came(&world, "live_ids=42", &["u1"]).await;
        world.redis().ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        world.backend().close("42").await;
        viewer.expect("closed").await;
        assert_eq!(came(&world, "live_ids=42").await, names(&["u1"]));
    }
}

on_memory! {
    async fn fans_are_found_by_the_lives_to_which_they_came(world) {
        world.follow(&["u1", "u2", "u3"]).await;
        let first = open(&world, "a").await;
        let both = world.viewer_in("u1", "a").await;
        let _stranger = world.viewer_in("x1", "a").await;
        let mut only = world.viewer_in("u2", "a").await;
        become_those_who_came(&world, "live_ids=a", &["u1", "u2"]).await;
        // Whoever came stays one who came.
        only.leave().await;
        both.close().await;
        world.backend().close("a").await;
        open(&world, "b").await;
        let _both = world.viewer_in("u1", "b").await;
        let _other = world.viewer_in("u3", "b").await;
        become_those_who_came(&world, "live_ids=b", &["u1", "u3"]).await;
        for (question, users) in [
            ("op=all&live_ids=a,b", &["u1"][..]),
            ("op=any&live_ids=a,b", &["u1", "u2", "u3"]),
            ("op=not&live_ids=a,b", &["u2"]),
            ("op=not&live_ids=b,a", &["u3"]),
            ("op=all&streamer_id=s1", &["u1"]),
            ("op=any&streamer_id=s1&days=1", &["u1", "u2", "u3"]),
            ("streamer_id=nobody", &[]),
            ("op=all&streamer_id=s1&live_ids=b", &["u1"]),
            // Named by itself and as one of the streamer's, a live counts once.
            ("op=not&streamer_id=s1&live_ids=b", &["u3"]),
            ("op=any", &[]),
            ("op=not&from=1", &[]),
        ] {
            assert_eq!(came(&world, question).await, names(users), "{question}");
        }
        // The same id again is another epoch, and the first is asked for by its number.
        let second = open(&world, "a").await;
        assert_eq!(came(&world, "live_ids=a").await, names(&[]));
        assert_eq!(came(&world, &format!("live_ids=a@{first}")).await, names(&["u1", "u2"]));
        let question = format!("op=not&live_ids=a@{first},a@{second},b");
        assert_eq!(came(&world, &question).await, names(&["u2"]));
        let missing = world.backend().get("/v1/attendance?live_ids=a@5").await;
        assert_eq!(missing.problem(404), "epoch_not_found");
    }
}

on_memory! {
    async fn an_invisible_user_leaves_no_attendance_and_no_session(world) {
        open(&world, "a").await;
        world.follow(&["ghost", "u1"]).await;
        let mut ghost = world.person("ghost", "viewer", "&live_id=a&invisible=true").await;
        ghost.expect("joined").await;
        let _plain = world.viewer_in("u1", "a").await;
        become_those_who_came(&world, "live_ids=a", &["u1"]).await;
        ghost.leave().await;
        world.dashboard("a").await.sees(viewers(1), fans(1)).await;
        become_sessions(&world, "a", &[("u1", false)]).await;
        assert_eq!(came(&world, "live_ids=a").await, names(&["u1"]));
    }
}

on_both_stores! {
    async fn a_session_lasts_as_long_as_any_device_is_there(world) {
        let before = unix_now();
        world.follow(&["u1"]).await;
        let epoch = open(&world, "42").await;
        let phone = world.viewer_in("u1", "42").await;
        become_sessions(&world, "42", &[("u1", false)]).await;
        let tablet = world.viewer_in("u1", "42").await;
        let mut stranger = world.viewer_in("x1", "42").await;
        become_sessions(&world, "42", &[("u1", false), ("x1", false)]).await;
        phone.close().await;
        stranger.leave().await;
        become_sessions(&world, "42", &[("u1", false), ("x1", true)]).await;
        tablet.close().await;
        let all = become_sessions(&world, "42", &[("u1", true), ("x1", true)]).await;
        assert_eq!((&all[0]["fan"], &all[1]["fan"]), (&json!(true), &json!(false)), "{all:?}");
        let back = world.viewer_in("u1", "42").await;
        let all = become_sessions(&world, "42", &[("u1", true), ("x1", true), ("u1", false)]).await;
        assert_ne!(all[0]["session_id"], all[2]["session_id"]);
        let times: Vec<u64> = all.iter().map(|it| it["joined_at"].as_u64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] >= before && times[2] <= unix_now(), "{times:?}");
        let lasted = all[0]["left_at"].as_u64().unwrap() - times[0];
        assert!(all[2]["watched_ms"].as_u64().unwrap() >= lasted, "{all:?}");
        // Who entered in that time.
        let path = format!("/v1/lives/42/sessions?from={}&to={}", times[1], times[2]);
        let some = world.backend().get(&path).await.is(200).body;
        assert_eq!((&some["count"], some["items"].as_array().unwrap().len()), (&json!(2), 2), "{some}");
        // Those who were there in that time, of the fans: x1 was, and is none.
        assert_eq!(came(&world, &format!("live_ids=42&from={}&to={}", times[0], times[0])).await, names(&["u1"]));
        assert_eq!(came(&world, &format!("live_ids=42&from=1&to={}", times[0] - 1)).await, names(&[]));
        // The close ends what is open, and the sessions can still be read.
        let closed = world.backend().close("42").await;
        let all = become_sessions(&world, "42", &[("u1", true), ("x1", true), ("u1", true)]).await;
        assert_eq!(all[2]["left_at"], closed["closed_at"]);
        open(&world, "42").await;
        assert_eq!(sessions(&world, "42").await, [] as [Value; 0]);
        let former = world.backend().list(&format!("/v1/lives/42/sessions?epoch={epoch}"), 2).await;
        assert_eq!(former, all);
        drop(back);
    }
}

on_redis! {
    async fn what_outlasts_a_close_has_a_lifetime(world) {
        world.follow(&["u1"]).await;
        open(&world, "42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        become_those_who_came(&world, "live_ids=42", &["u1"]).await;
        become_sessions(&world, "42", &[("u1", false)]).await;
        world.backend().close("42").await;
        let redis = world.redis();
        let mut kept = BTreeSet::new();
        for key in redis.keys("*42*").await {
            // The id of a gateway may have these characters, too.
            if key.starts_with("{online-users_slice") {
                continue;
            }
            let ttl = redis.ask(&["TTL", &key]).await.as_i64().unwrap();
            assert!((1..=30 * 86_400).contains(&ttl), "{key} has {ttl}");
            // The history, which there is if counts were written before the close, lasts as long as
            // the record.
            if !key.ends_with(":fence") && !key.contains(":history@") && key != "live:42" {
                assert!(ttl <= 10 * 86_400, "{key} has {ttl}");
                kept.insert(key.split_once('@').map_or(key.clone(), |(name, _)| name.to_owned()));
            }
        }
        assert_eq!(kept, names(&["attendance:42", "{online-fans:42}:sessions", "{online-fans:42}:stays"]));
        // Eight days later the gateway that walks deletes all of it.
        let of = redis.ask(&["ZRANGE", "rollcall:attendance", "0", "-1"]).await[0].as_str().unwrap().to_owned();
        let score: f64 = redis.ask(&["ZSCORE", "rollcall:attendance", &of]).await.as_str().unwrap().parse().unwrap();
        let closed_at = redis.live_field("42", "closed_at").await.unwrap().parse::<f64>().unwrap();
        assert_eq!(score - closed_at, 8.0 * 86_400_000.0);
        let long_ago = (closed_at - 9.0 * 86_400_000.0).to_string();
        redis.ask(&["HSET", &format!("attendance:{of}"), "closed_at", &long_ago]).await;
        redis.ask(&["ZADD", "rollcall:attendance", "1", &of]).await;
        world.takes_the_sweepers_turn().await;
        until("it is forgotten", world.config.check_every * 2 + PATIENCE, || async {
            let left = redis.keys("*@*").await.into_iter().filter(|key| !key.contains(":history@"));
            same((left.collect::<BTreeSet<String>>(), redis.keys("attended:*").await), Default::default())
        })
        .await;
        assert_eq!(world.backend().get("/v1/lives/42/sessions").await.problem(404), "epoch_not_found");
    }
}

on_redis! {
    async fn what_is_kept_of_an_open_live_stays_although_its_note_is_lost(world) {
        world.follow(&["u1"]).await;
        let epoch = open(&world, "42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        become_those_who_came(&world, "live_ids=42", &["u1"]).await;
        let redis = world.redis();
        let (of, key) = (format!("42@{epoch}"), format!("attendance:42@{epoch}"));
        redis.ask(&["DEL", &key]).await;
        redis.ask(&["ZADD", "rollcall:attendance", "1", &of]).await;
        world.takes_the_sweepers_turn().await;
        until("it is noted again, and looked after", world.config.check_every * 2 + PATIENCE, || async {
            let due = redis.ask(&["ZSCORE", "rollcall:attendance", &of]).await;
            same((redis.ask(&["EXISTS", &key]).await, due != "1"), (json!(1), true))
        })
        .await;
        assert_eq!(came(&world, &format!("live_ids={of}")).await, names(&["u1"]));
    }
}

#[test]
fn an_audit_finds_what_is_wrong_with_attendance_and_puts_right_what_is_safe() {
    story(async {
        // The gateway repairs nothing meanwhile.
        let world = World::on_redis(|config| config.check_every = Duration::from_secs(600)).await;
        world.follow(&["u1", "u2"]).await;
        let (epoch, over) = (open(&world, "42").await, open(&world, "43").await);
        let _viewers = [
            world.viewer_in("u1", "42").await,
            world.viewer_in("u2", "42").await,
        ];
        become_those_who_came(&world, "live_ids=42", &["u1", "u2"]).await;
        become_sessions(&world, "42", &[("u1", false), ("u2", false)]).await;
        let closed = world.backend().close("43").await;
        world.open("44").await;
        let redis = world.redis();
        // The first walk may take long on a busy machine. It ends, and no other begins.
        redis.say("SET rollcall:sweeper nobody EX 600").await;
        let look = async |code: i32, more: &str| {
            let options = format!("--users --lease 2500ms --lease-refresh 500ms {more}");
            found(&audit(&redis.url(), code, &options).await)
        };
        assert_eq!(look(0, "").await, BTreeSet::new());

        // What another program wrote hides nothing else.
        redis.ask(&["SET", "attendance:mistyped@1", "x"]).await;
        let (stays, of) = (
            format!("{{online-fans:42}}:stays@{epoch}"),
            format!("42@{epoch}"),
        );
        let (noted, ended) = (format!("attendance:{of}"), format!("attendance:43@{over}"));
        redis.ask(&["HSET", &stays, "ghost", "1 0 9 1000 -"]).await;
        redis.ask(&["HDEL", &stays, "u2"]).await;
        redis.ask(&["PERSIST", &noted]).await;
        redis.ask(&["ZREM", "rollcall:attendance", &of]).await;
        redis.ask(&["HDEL", &ended, "closed_at"]).await;
        redis.ask(&["SADD", "attendance:44@1:{p5}", "u9"]).await;
        redis.ask(&["EXPIRE", "attendance:44@1:{p5}", "100"]).await;
        let left = [
            ("attendance_without_session", "42"),
            ("missing_sessions", "42"),
        ];
        let repaired = [
            ("everlasting_attendance", "42"),
            ("ghost_sessions", "42"),
            ("unended_attendance", "43"),
            ("unlisted_attendance", "42"),
            ("unlisted_attendance", "44"),
        ];
        let all = |some: &[(&str, &str)]| -> BTreeSet<(String, String)> {
            some.iter()
                .map(|(kind, live)| ((*kind).to_owned(), (*live).to_owned()))
                .collect()
        };
        let unreadable = [("unreadable_key", "mistyped")];
        let wrong = all(&[&left[..], &repaired, &unreadable].concat());
        assert_eq!(look(1, "").await, wrong);
        redis.ask(&["DEL", "attendance:mistyped@1"]).await;
        assert_eq!(look(1, "--fix").await, all(&left));

        let ghost = redis.ask(&["HGET", &stays, "ghost"]).await;
        assert!(!ghost.as_str().unwrap().ends_with('-'), "{ghost}");
        assert!(redis.ask(&["TTL", &noted]).await.as_i64().unwrap() > 0);
        assert!(
            !redis
                .say(&format!("ZSCORE rollcall:attendance {of}"))
                .await
                .is_null()
        );
        let closed_at = redis.ask(&["HGET", &ended, "closed_at"]).await;
        assert_eq!(closed_at.as_str().unwrap(), closed["closed_at"].to_string());
        assert_eq!(redis.keys("attendance:44*").await, BTreeSet::new());
        assert_eq!(came(&world, "live_ids=42").await, names(&["u1", "u2"]));
    });
}

on_redis! {
    async fn what_redis_loses_of_those_who_are_here_is_written_again(world) {
        world.follow(&["u1", "u2"]).await;
        open(&world, "42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        become_those_who_came(&world, "live_ids=42", &["u1"]).await;
        let before = become_sessions(&world, "42", &[("u1", false)]).await;
        world.redis().ask(&["FLUSHALL"]).await;
        world.follow(&["u1", "u2"]).await;
        let _other = world.viewer_in("u2", "42").await;
        become_those_who_came(&world, "streamer_id=s1", &["u1", "u2"]).await;
        let after = become_sessions(&world, "42", &[("u1", false), ("u2", false)]).await;
        assert_eq!(after[0]["joined_at"], before[0]["joined_at"], "the gateway knows since when");
    }
}

#[test]
fn sessions_of_a_killed_gateway_end_at_its_last_sign_of_life_unless_the_user_came_back() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let other = World::beside(redis.clone(), |_| ()).await;
        other.follow(&["u1", "u2"]).await;
        open(&other, "42").await;
        let _gone = doomed.viewer_in("u1", "42").await;
        become_sessions(&other, "42", &[("u1", false)]).await;
        let _moved = doomed.viewer_in("u2", "42").await;
        become_sessions(&other, "42", &[("u1", false), ("u2", false)]).await;
        become_those_who_came(&other, "live_ids=42", &["u1", "u2"]).await;
        doomed.process().kill();
        let killed = unix_now();
        let _back = other.viewer_in("u2", "42").await;
        let all = become_sessions(&other, "42", &[("u1", true), ("u2", false)]).await;
        let left_at = all[0]["left_at"].as_u64().unwrap();
        let lease = other.config.lease.as_millis() as u64;
        assert!(
            (killed - lease..=killed + lease / 2).contains(&left_at),
            "{left_at}, and killed at {killed}"
        );
        assert_eq!(came(&other, "live_ids=42").await, names(&["u1", "u2"]));
    });
}

#[test]
fn a_move_to_another_gateway_is_one_session() {
    story(async {
        let redis = Redis::start().await;
        let (old, new) = (
            World::beside(redis.clone(), |_| ()).await,
            World::beside(redis, |_| ()).await,
        );
        open(&old, "42").await;
        let here = old.viewer_in("u1", "42").await;
        become_sessions(&new, "42", &[("u1", false)]).await;
        here.vanish();
        let there = new.viewer_in("u1", "42").await;
        until("both gateways hold the viewer", PATIENCE, async || {
            let entries = new.redis().say("HLEN {online-fans:42}:gateways").await;
            same(entries.as_u64(), Some(2))
        })
        .await;
        old.stop().await;
        there.close().await;
        become_sessions(&new, "42", &[("u1", true)]).await;
    });
}

#[test]
fn bitmaps_answer_as_sets_do_and_the_first_gateway_fixes_the_form() {
    story(async {
        let redis = Redis::start().await;
        let world = World::beside(redis.clone(), |config| {
            config.last_seen_ids = SeenIds::U32;
            config.attendance = AttendanceForm::Bitmap;
        })
        .await;
        world.follow(&["7", "70000"]).await;
        open(&world, "a").await;
        let _fans = [
            world.viewer_in("7", "a").await,
            world.viewer_in("70000", "a").await,
        ];
        let _stranger = world.viewer_in("8", "a").await;
        become_those_who_came(&world, "live_ids=a", &["7", "70000"]).await;
        let all =
            become_sessions(&world, "a", &[("7", false), ("70000", false), ("8", false)]).await;
        assert_eq!(
            all.iter()
                .map(|it| it["fan"].as_bool().unwrap())
                .collect::<Vec<_>>(),
            [true, true, false]
        );
        assert_eq!(
            redis.keys("attendance:*{*").await.len(),
            2,
            "a piece for each 65,536 numbers"
        );
        let config = Config {
            attendance: AttendanceForm::Set,
            ..(*world.config).clone()
        };
        let refused = rollcall::gateway::start(config)
            .await
            .err()
            .expect("another form");
        assert!(
            refused.to_string().contains("attendance bitmap"),
            "{refused}"
        );
    });
}
