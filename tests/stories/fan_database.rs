//! A database knows the fans: `--fan-source sql`, on a real PostgreSQL and a real MySQL.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rollcall::base::secret::Secret;
use rollcall::config::{Config, FanSource, SqlIds};
use sqlx::{ConnectOptions, Executor};

use crate::support::backend::Backend;
use crate::support::certificates::Certificates;
use crate::support::mysql::MySql;
use crate::support::postgres::{FOLLOWS, PASSWORD, Postgres};
use crate::support::program::Program;
use crate::support::stores::story;
use crate::support::viewer::Viewer;
use crate::support::wait::{BACK, SLACK, becomes};
use crate::support::world::{World, timings};

fn asks(database: &Postgres) -> impl FnOnce(&mut Config) + use<> {
    asks_at(database.url(), database.password_file())
}

fn asks_at(url: String, password: PathBuf) -> impl FnOnce(&mut Config) + use<> {
    |config| {
        config.fan_source = FanSource::Sql;
        config.fan_url = Some(Secret::new(url));
        config.fan_secret_file = Some(password);
        config.fan_timeout = Duration::from_millis(600);
        config.fan_ttl = Duration::from_millis(500);
    }
}

#[test]
fn the_table_says_who_is_a_fan_and_who_no_longer_is() {
    story(async {
        let database = Postgres::start().await;
        database.run(FOLLOWS).await;
        database.follow("s1", &["u1", "u3"]).await;
        database.follow("s2", &["u0"]).await;
        let world = World::on_redis(asks(&database)).await;
        world.open("42").await;
        let mut crowd = world.crowd("u", 4, "42").await;
        world.fans_become("42", &["u1", "u3"]).await;
        world.acks_become(&mut crowd[1], Some(true), 4, 2).await;
        world.acks_become(&mut crowd[0], Some(false), 4, 2).await;
        database.follow("s1", &["u0"]).await;
        database
            .run("UPDATE follows SET is_follow = 0 WHERE streamer_id = 's1' AND user_id = 'u3'")
            .await;
        world
            .fans_become_within("42", &["u0", "u1"], world.config.fan_ttl + SLACK)
            .await;
    });
}

#[test]
fn a_new_password_is_read_with_sighup() {
    story(async {
        let database = Postgres::start().await;
        database.run(FOLLOWS).await;
        database.follow("s1", &["u1"]).await;
        let world = World::on_memory(asks(&database)).await;
        world.open("42").await;
        let _crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u1"]).await;
        // Committed before the connections end: the new password is the one that a new connection
        // needs.
        let statements = "BEGIN; UPDATE follows SET user_id = 'u0'; ALTER ROLE rollcall PASSWORD 'another'; COMMIT; \
                          SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rollcall'";
        database.run(statements).await;
        world.breaker_becomes(2.0).await;
        std::fs::write(database.password_file(), "another").unwrap();
        world.reload().await;
        world.fans_become_within("42", &["u0"], BACK + SLACK).await;
    });
}

#[test]
fn a_statement_of_ones_own_reads_ids_that_are_integers() {
    story(async {
        let database = Postgres::start().await;
        database
            .run("CREATE TABLE relation (who int, fan bigint)")
            .await;
        database
            .run("INSERT INTO relation VALUES (9, 7), (9, 8), (9, 8), (5, 6)")
            .await;
        let world = World::on_memory(|config| {
            asks(&database)(config);
            config.fan_sql_ids = SqlIds::Integer;
            config.fan_sql =
                Some("SELECT fan FROM relation WHERE fan = ANY($2) AND who = $1".to_owned());
        })
        .await;
        world.backend().open("42", "9").await;
        let mut crowd = Vec::new();
        // No user id makes the statement fail, and 007 is not 7.
        for user in ["6", "7", "8", "007", "eight", "99999999999999999999", "-1"] {
            crowd.push(world.viewer_in(user, "42").await);
        }
        world.fans_become("42", &["7", "8"]).await;
        world.acks_become(&mut crowd[3], Some(false), 7, 2).await;
        world.acks_become(&mut crowd[4], Some(false), 7, 2).await;
        // A streamer whose id is no integer has no fans.
        world.backend().open("43", "s1").await;
        let mut elsewhere = world.viewer_in("7", "43").await;
        world.acks_become(&mut elsewhere, Some(false), 1, 0).await;
    });
}

#[test]
fn a_database_that_is_stopped_turns_nobody_away_and_is_asked_again_when_it_is_back() {
    story(async {
        let mut database = Postgres::start().await;
        database.run(FOLLOWS).await;
        database.follow("s1", &["u0", "u1", "late"]).await;
        let world = World::on_redis(asks(&database)).await;
        world.open("42").await;
        let mut crowd = world.crowd("u", 3, "42").await;
        world.fans_become("42", &["u0", "u1"]).await;
        database.stop();
        world.breaker_becomes(2.0).await;
        let mut late = world.viewer_in("late", "42").await;
        world
            .fans_stay("42", &["u0", "u1"], world.config.fan_ttl * 4)
            .await;
        world.acks_become(&mut late, None, 4, 2).await;
        for viewer in crowd.iter_mut().chain([&mut late]) {
            assert!(viewer.is_connected().await, "{}", viewer.user);
        }
        database.go_on().await;
        world
            .fans_become_within("42", &["late", "u0", "u1"], BACK + SLACK)
            .await;
        world.acks_become(&mut late, Some(true), 4, 3).await;
        world.breaker_becomes(0.0).await;
    });
}

#[test]
fn a_table_that_is_locked_holds_up_nobody() {
    story(async {
        let database = Postgres::start().await;
        database.run(FOLLOWS).await;
        database.follow("s1", &["u0", "late"]).await;
        let world = World::on_redis(asks(&database)).await;
        world.open("42").await;
        let mut crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0"]).await;
        let mut lock = database.options().connect().await.unwrap();
        lock.execute("BEGIN; LOCK TABLE follows IN ACCESS EXCLUSIVE MODE")
            .await
            .unwrap();
        world.breaker_becomes(2.0).await;
        let _late = world.viewer_in("late", "42").await;
        crowd.remove(0).close().await;
        world
            .fans_become_within("42", &[], world.config.flush * 2 + SLACK)
            .await;
        lock.execute("COMMIT").await.unwrap();
        world
            .fans_become_within("42", &["late"], BACK + SLACK)
            .await;
    });
}

#[test]
fn with_authorities_of_its_own_a_gateway_asks_only_a_database_that_proves_its_name() {
    story(async {
        let right = Certificates::for_host("IP:127.0.0.1");
        let database = Postgres::start_tls(&right.chain(), &right.key()).await;
        database.run(FOLLOWS).await;
        database.follow("s1", &["u1"]).await;
        let asks_trusting = |ca: &Certificates| {
            let ca = ca.ca();
            let tune = asks(&database);
            |config: &mut Config| {
                tune(config);
                config.fan_ca = Some(ca);
            }
        };
        let world = World::on_memory(asks_trusting(&right)).await;
        world.open("42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        let encrypted = "DO $$ BEGIN ASSERT (SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                         WHERE application_name = 'rollcall'); END $$";
        database.run(encrypted).await;

        let world = World::on_memory(asks_trusting(&Certificates::for_host("IP:127.0.0.1"))).await;
        nobody_is_told_to_be_a_fan(&world).await;
    });
}

/// The database cannot be asked, so the breaker opens, and a viewer hears of neither yes nor no.
async fn nobody_is_told_to_be_a_fan(world: &World) {
    world.open("42").await;
    let mut viewer = world.viewer_in("u1", "42").await;
    world.breaker_becomes(2.0).await;
    assert_eq!(viewer.heartbeat().await.fan, None);
}

#[test]
fn a_table_in_mysql_says_who_is_a_fan_of_very_many_viewers_too() {
    story(async {
        let database = MySql::start().await;
        database.run("CREATE TABLE follows (streamer_id varchar(64), user_id varchar(64), is_follow int)").await;
        let fans: Vec<String> = (0..70).step_by(7).map(|n| format!("u{n}")).collect();
        let rows: Vec<String> = fans
            .iter()
            .map(|fan| format!("('s1', '{fan}', 1)"))
            .collect();
        database
            .run(&format!(
                "INSERT INTO follows VALUES ('s2', 'u1', 1), {}",
                rows.join(",")
            ))
            .await;
        let world = World::on_redis(asks_at(database.url(), database.password_file())).await;
        world.open("42").await;
        let mut crowd = world.crowd("u", 70, "42").await;
        let fans: Vec<&str> = fans.iter().map(String::as_str).collect();
        world.fans_become("42", &fans).await;
        world
            .acks_become(&mut crowd[1], Some(false), 70, fans.len() as u64)
            .await;
        database
            .run("UPDATE follows SET is_follow = 0 WHERE user_id <> 'u7'")
            .await;
        world
            .fans_become_within("42", &["u7"], world.config.fan_ttl + SLACK)
            .await;
    });
}

#[test]
fn mysql_proves_its_name_and_has_ids_of_any_type() {
    story(async {
        let right = Certificates::for_host("IP:127.0.0.1");
        let database = MySql::start_tls(&right.chain(), &right.key()).await;
        for kind in ["int", "bigint unsigned", "varbinary(20)"] {
            database
                .run(&format!(
                    "CREATE OR REPLACE TABLE relation (who int, fan {kind})"
                ))
                .await;
            database
                .run("INSERT INTO relation VALUES (9, 7), (9, 8), (9, 8), (5, 6)")
                .await;
            let world = World::on_memory(|config| {
                asks_at(database.url(), database.password_file())(config);
                config.fan_ca = Some(right.ca());
                config.fan_sql_ids = SqlIds::Integer;
                config.fan_sql =
                    Some("SELECT fan FROM relation WHERE who = ? AND fan IN (?)".to_owned());
            })
            .await;
            world.backend().open("42", "9").await;
            let mut crowd = Vec::new();
            for user in ["6", "7", "8", "007", "eight"] {
                crowd.push(world.viewer_in(user, "42").await);
            }
            world.fans_become("42", &["7", "8"]).await;
            world.acks_become(&mut crowd[3], Some(false), 5, 2).await;
            world.stop().await;
        }
        let other = Certificates::for_host("IP:127.0.0.1");
        let world = World::on_memory(|config| {
            asks_at(database.url(), database.password_file())(config);
            config.fan_ca = Some(other.ca());
        })
        .await;
        nobody_is_told_to_be_a_fan(&world).await;
    });
}

#[test]
fn no_log_and_no_error_shows_the_password() {
    story(async {
        let mut database = Postgres::start().await;
        database.run(FOLLOWS).await;
        database.follow("s1", &["u1"]).await;
        let encoded = PASSWORD
            .replace(':', "%3A")
            .replace('@', "%40")
            .replace('/', "%2F");
        let with = |password: &str| {
            database
                .url()
                .replace("rollcall@", &format!("rollcall:{password}@"))
        };
        // The library does not know the parameter, and would log it.
        let (right, wrong) = (with(&encoded) + "?passphrase=hunter2", with("hunter2"));
        let program = starts_with(&right).await;
        let other = starts_with(&wrong).await;
        let (_viewer, _other) = (joins(program.addr).await, joins(other.addr).await);
        let backend = Backend::at(program.addr);
        becomes("u1 is a fan", ["u1".to_owned()].into(), async || {
            backend.fans("42").await
        })
        .await;
        database.stop();
        program.logs(&["the fan source does not answer"]).await;
        database.go_on().await;
        program.logs(&["the fan source is back"]).await;
        other.logs(&["password authentication failed"]).await;
        for program in [program, other] {
            assert!(
                !program.said().contains("hunter2"),
                "the password is in the log"
            );
        }
    });
}

/// The program with this database, which logs all it can.
async fn starts_with(url: &str) -> Program {
    let options = format!("--fan-source sql --fan-url {url} --fan-ttl 300ms --log trace");
    Program::start_with(&timings(), &options).await
}

/// `u1` in live 42.
async fn joins(addr: SocketAddr) -> Viewer {
    Backend::at(addr).open("42", "s1").await;
    Viewer::connects(addr, "u1", "&live_id=42").await
}
