//! Who came to all of seven lives of 100,000 fans, over HTTP, with sets and with bitmaps: how long
//! an answer takes, whether its count is exact, whether any call keeps Redis busy for long, and the memory
//! of a fan and of a session. Sets have names, of which Redis keeps no compact form, and bitmaps
//! have numbers without gaps.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::Method;
use rollcall::base::clock::unix_now;
use rollcall::base::ids::{Epoch, GatewayId, LiveId, OnlineSet, SliceId, UserId};
use rollcall::config::AttendanceForm;
use rollcall::features::attendance::store::{Attendance, Attending};
use rollcall::store::redis::RedisStore;
use rollcall::store::{
    Apply, ApplyReply, Entries, LiveEpoch, MAX_BATCH, SESSIONS_A_CALL, SliceEntry, Slices,
};
use serde_json::json;

use super::answers::AnswerTimes;
use super::holder::{by_slice, first_call};
use crate::bench::servers::{BenchGateway, Redis};
use crate::bench::settings::Bench;

const LIVES: usize = 7;
/// Redis notes calls that take longer, in µs.
const SLOW: &str = "5000";

/// The n-th user.
fn user(form: AttendanceForm, n: usize) -> UserId {
    let number = 1_000_000 + n;
    let id = match form {
        AttendanceForm::Set => format!("user-{number}"),
        AttendanceForm::Bitmap => number.to_string(),
    };
    UserId::parse(&id).unwrap_or_else(|_| unreachable!("an id"))
}

/// Whether a user comes to a live: nine in ten do, not always the same.
fn came(n: usize, live: usize) -> bool {
    ((n * LIVES + live) as u32).wrapping_mul(2_654_435_761) >> 16 >= 6_554
}

/// The fans who come to each live, `fans` of them.
fn crowds(fans: usize) -> Vec<Vec<usize>> {
    (0..LIVES)
        .map(|live| (0..).filter(|n| came(*n, live)).take(fans).collect())
        .collect()
}

pub(super) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let fans = bench.pick(100_000, 2_000);
    let crowds = crowds(fans);
    for (form, ids) in [
        (AttendanceForm::Set, "text"),
        (AttendanceForm::Bitmap, "u32"),
    ] {
        let flags = ["--attendance", form.as_str(), "--last-seen-ids", ids];
        let (redis, gateway) = bench.place(0, 0, &flags).await?;
        let store = redis.store().await?;
        ensure!(
            store.fix_attendance_form(form).await? == form,
            "another form"
        );
        let asked = AttendanceCase {
            gateway: &gateway,
            redis: &redis,
            form,
            crowds: &crowds,
        };
        let each = asked.seed(&store).await? / (fans * LIVES) as f64;
        let name = form.as_str();
        bench.ours(
            &format!("{name}: Redis memory of a fan of one live, B"),
            each,
        );
        for which in [Attending::All, Attending::Any, Attending::Not] {
            asked.about(which, bench).await?;
        }
    }
    sessions(fans, bench).await
}

struct AttendanceCase<'a> {
    gateway: &'a BenchGateway,
    redis: &'a Redis,
    form: AttendanceForm,
    /// The fans of each live.
    crowds: &'a [Vec<usize>],
}

impl AttendanceCase<'_> {
    /// Opens the lives and has the fans come to them. Returns by how much the memory of Redis grew.
    async fn seed(&self, store: &RedisStore) -> anyhow::Result<f64> {
        let before = self.redis.used_memory().await?;
        for (live, crowd) in self.crowds.iter().enumerate() {
            let body = json!({ "streamer_id": "7", "attendance": true });
            let opened = self
                .gateway
                .call(Method::PUT, &format!("/v1/lives/l{live}"), Some(body))
                .await?;
            let opened: serde_json::Value = serde_json::from_str(&opened)?;
            let epoch = Epoch(opened["epoch"].as_u64().context("an epoch")?);
            let of = LiveEpoch {
                live: LiveId::parse(&format!("l{live}"))?,
                epoch,
            };
            let here: Vec<UserId> = crowd.iter().map(|n| user(self.form, *n)).collect();
            for some in here.chunks(MAX_BATCH) {
                ensure!(
                    store.note_attendance(&of, some).await?.is_empty(),
                    "fans were not noted"
                );
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(self.redis.used_memory().await? - before)
    }

    /// Asks for the first page again and again. Its count must be that of a model.
    async fn about(&self, which: Attending, bench: &mut Bench) -> anyhow::Result<()> {
        let (op, what) = match which {
            Attending::All => ("all", "came to all seven"),
            Attending::Any => ("any", "came to any of seven"),
            Attending::Not => ("not", "came to the first and no other"),
        };
        let lives: Vec<String> = (0..LIVES).map(|live| format!("l{live}")).collect();
        let path = format!(
            "/v1/attendance?op={op}&live_ids={}&limit=1000",
            lives.join(",")
        );
        let everybody: BTreeSet<usize> = self.crowds.iter().flatten().copied().collect();
        let expected = everybody.iter().filter(|n| {
            let came_to = self
                .crowds
                .iter()
                .map(|crowd| crowd.binary_search(n).is_ok());
            which.takes(&came_to.collect::<Vec<_>>())
        });
        let expected = expected.count();
        let page = self.gateway.call(Method::GET, &path, None).await?;
        let page: serde_json::Value = serde_json::from_str(&page)?;
        ensure!(
            page["count"] == expected,
            "{what}: counted {} of {expected}",
            page["count"]
        );
        let times = bench.pick(60, 5);
        let answers = AnswerTimes::of(self.gateway, self.redis, &path, times, SLOW).await?;
        let what = format!("{}: {what}", self.form.as_str());
        answers.note(bench, &what);
        // Redis measures by the wall clock, and this machine does other things, too: a call that
        // takes so long by itself does so every time.
        let slow = answers.slow.iter().copied().fold(f64::MAX, f64::min);
        bench.ours(&format!("{what}: calls over 5 ms in Redis"), slow);
        Ok(())
    }
}

/// One session of each of these users, in two slices, and then a second one.
async fn sessions(users: usize, bench: &mut Bench) -> anyhow::Result<()> {
    let redis = Redis::start().await?;
    let store = redis.store().await?;
    let set = OnlineSet::Live(LiveId::parse("42")?);
    let everybody = (0..users).map(|n| user(AttendanceForm::Set, n));
    let slices = by_slice(&set, 2, everybody);
    let before = redis.used_memory().await?;
    let mut grown = Vec::new();
    let mut number = 0;
    let mut cpu = 0.0;
    let mut dearest = 0.0_f64;
    for _ in 0..2 {
        for joins in [true, false] {
            let began = number;
            let before = redis.server.cpu()?;
            for (slice, users) in &slices {
                for some in users.chunks(SESSIONS_A_CALL) {
                    number += 1;
                    change(&store, slice, number, (some, joins)).await?;
                }
            }
            let spent = redis.server.cpu()? - before;
            cpu += spent;
            dearest = dearest.max(spent / (number - began) as f64);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        grown.push(redis.used_memory().await? - before);
    }
    let each = users as f64;
    for (measure, value) in [
        ("Redis memory of a user with one, B", grown[0] / each),
        (
            "Redis memory of another one, B",
            (grown[1] - grown[0]) / each,
        ),
        ("Redis CPU of a join or leave, µs", cpu * 1e6 / (4.0 * each)),
        (
            "Redis CPU of a full call, of joins or of leaves, ms",
            dearest * 1e3,
        ),
    ] {
        bench.ours(&format!("sessions: {measure}"), value);
    }
    Ok(())
}

/// Some users join the slice, or all leave it. Each call is its gateway's first there.
async fn change(
    store: &RedisStore,
    slice: &SliceId,
    number: u64,
    (users, joins): (&[UserId], bool),
) -> anyhow::Result<()> {
    let gateway = GatewayId::parse("gw-a")?;
    let looks = store
        .look(std::slice::from_ref(slice), &gateway, Entries::Own)
        .await;
    let look = looks.into_iter().next().context("no look")??;
    let follows = match look.entry {
        Some(SliceEntry::At { number, .. }) => Some(number),
        Some(SliceEntry::Dead) | None => None,
    };
    let now = unix_now();
    let (joins, leaves) = if joins {
        (users.to_vec(), Vec::new())
    } else {
        (Vec::new(), users.to_vec())
    };
    let call = Apply {
        number,
        follows,
        since: vec![now; joins.len()],
        left: Some(vec![now; leaves.len()]),
        joins,
        leaves,
        ..first_call(slice.clone(), Epoch(7), gateway)
    };
    ensure!(
        matches!(store.apply(&call).await?, ApplyReply::Done(_)),
        "a change was refused"
    );
    Ok(())
}
