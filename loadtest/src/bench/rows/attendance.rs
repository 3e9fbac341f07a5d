//! Who came to all of seven lives of 100,000 fans, over HTTP, with sets and with bitmaps: how long
//! an answer takes, whether it is exact, whether any call keeps Redis busy for long, and the memory
//! of a fan and of a session. Sets have names, of which Redis keeps no compact form, and bitmaps
//! have numbers without gaps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use reqwest::Method;
use rollcall::base::clock::unix_now;
use rollcall::base::ids::{Epoch, GatewayId, LiveId, OnlineSet, SliceId, UserId};
use rollcall::base::metrics::Metrics;
use rollcall::base::secret::Secret;
use rollcall::config::AttendanceForm;
use rollcall::store::redis::RedisStore;
use rollcall::store::{
    Apply, ApplyReply, Attendance, Attending, Entries, LiveEpoch, MAX_BATCH, SESSIONS_A_CALL,
    SliceEntry, SliceSize, Slices,
};
use serde_json::json;

use super::users::used_memory;
use crate::bench::figures::{Figures, Who};
use crate::bench::servers::{Gateway, Redis};
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "attendance";
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

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let fans = bench.pick(100_000, 2_000);
    let crowds = crowds(fans);
    for form in [AttendanceForm::Set, AttendanceForm::Bitmap] {
        let redis = Redis::start().await?;
        let ids = if form == AttendanceForm::Bitmap {
            "u32"
        } else {
            "text"
        };
        let flags = [
            "--attendance",
            form.as_str(),
            "--last-seen-ids",
            ids,
            "--track-online",
            "off",
        ];
        let gateway = bench.programs.gateway_with(&redis, None, &flags).await?;
        let store =
            RedisStore::connect(&Secret::new(redis.url()), Arc::new(Metrics::default())).await?;
        ensure!(
            store.fix_attendance_form(form).await? == form,
            "another form"
        );
        let asked = Asked {
            gateway: &gateway,
            redis: &redis,
            form,
            crowds: &crowds,
            times: bench.pick(60, 5),
        };
        let grown = asked.seed(&store).await?;
        note(
            figures,
            form,
            "Redis memory of a fan of one live",
            "B",
            grown / (fans * LIVES) as f64,
        );
        for which in [Attending::All, Attending::Any, Attending::Not] {
            asked.about(which, figures).await?;
        }
    }
    sessions(fans, figures).await
}

fn note(
    figures: &mut Figures,
    form: AttendanceForm,
    measure: &str,
    unit: &'static str,
    value: f64,
) {
    figures.note(
        NAME,
        Who::Rollcall,
        (&format!("{}: {measure}", form.as_str()), unit),
        value,
    );
}

async fn slow_calls(redis: &Redis) -> anyhow::Result<f64> {
    redis_does(redis, "SLOWLOG", &["LEN"])
        .await?
        .as_f64()
        .context("a number of slow calls")
}

async fn redis_does(redis: &Redis, command: &'static str, words: &[&str]) -> anyhow::Result<Value> {
    let command = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
    Ok(redis.client.custom(command, words.to_vec()).await?)
}

async fn watch_slow_calls(redis: &Redis) -> anyhow::Result<()> {
    redis_does(redis, "CONFIG", &["SET", "slowlog-log-slower-than", SLOW]).await?;
    redis_does(redis, "SLOWLOG", &["RESET"]).await.map(drop)
}

struct Asked<'a> {
    gateway: &'a Gateway,
    redis: &'a Redis,
    form: AttendanceForm,
    /// The fans of each live.
    crowds: &'a [Vec<usize>],
    times: usize,
}

impl Asked<'_> {
    /// Opens the lives and has the fans come to them. Returns by how much the memory of Redis grew.
    async fn seed(&self, store: &RedisStore) -> anyhow::Result<f64> {
        let before = used_memory(self.redis).await?;
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
        Ok(used_memory(self.redis).await? - before)
    }

    /// Reads the whole list once, which must be that of a model, and then asks for its first page
    /// again and again.
    async fn about(&self, which: Attending, figures: &mut Figures) -> anyhow::Result<()> {
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
        let came: Vec<BTreeSet<usize>> = self
            .crowds
            .iter()
            .map(|crowd| crowd.iter().copied().collect())
            .collect();
        let everybody: BTreeSet<usize> = came.iter().flatten().copied().collect();
        let mut expected = BTreeSet::new();
        for n in everybody {
            let came_to: Vec<bool> = came.iter().map(|crowd| crowd.contains(&n)).collect();
            if which.takes(&came_to) {
                expected.insert(user(self.form, n).to_string());
            }
        }
        let found = self.list(&path, expected.len()).await?;
        ensure!(
            found == expected,
            "{what}: {} listed, of {}",
            found.len(),
            expected.len()
        );
        let mut times = Vec::with_capacity(self.times);
        let mut slow = f64::MAX;
        for _ in 0..self.times {
            watch_slow_calls(self.redis).await?;
            let began = Instant::now();
            self.gateway.call(Method::GET, &path, None).await?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            // Redis measures by the wall clock, and this machine does other things, too: a call
            // that takes so long by itself does so every time.
            slow = slow.min(slow_calls(self.redis).await?);
        }
        times.sort_by(f64::total_cmp);
        note(
            figures,
            self.form,
            &format!("{what}: p50"),
            "ms",
            time_at(&times, 0.5),
        );
        note(
            figures,
            self.form,
            &format!("{what}: p99"),
            "ms",
            time_at(&times, 0.99),
        );
        note(
            figures,
            self.form,
            &format!("{what}: calls over 5 ms in Redis"),
            "",
            slow,
        );
        Ok(())
    }

    async fn list(&self, path: &str, count: usize) -> anyhow::Result<BTreeSet<String>> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self
                .gateway
                .call(Method::GET, &format!("{path}&cursor={cursor}"), None)
                .await?;
            let page: serde_json::Value = serde_json::from_str(&page)?;
            ensure!(
                page["count"] == count,
                "counted {} of {count}",
                page["count"]
            );
            let items = page["items"].as_array().context("items")?;
            all.extend(
                items
                    .iter()
                    .filter_map(|item| item["user_id"].as_str().map(str::to_owned)),
            );
            match page["cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        let distinct: BTreeSet<String> = all.iter().cloned().collect();
        ensure!(distinct.len() == all.len(), "some were listed twice");
        Ok(distinct)
    }
}

/// One session of each of these users, in two slices, and then a second one.
async fn sessions(users: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start().await?;
    let store =
        RedisStore::connect(&Secret::new(redis.url()), Arc::new(Metrics::default())).await?;
    let mut of_slice = vec![Vec::new(); 2];
    (0..users)
        .map(|n| user(AttendanceForm::Set, n))
        .for_each(|user| of_slice[user.slice_index(2) as usize - 1].push(user));
    let before = used_memory(&redis).await?;
    let mut grown = Vec::new();
    let mut number = 0;
    let mut cpu = 0.0;
    let mut dearest = 0.0_f64;
    for _ in 0..2 {
        for joins in [true, false] {
            let began = number;
            let before = redis.server.cpu()?;
            for (index, users) in (1..).zip(&of_slice) {
                for some in users.chunks(SESSIONS_A_CALL) {
                    number += 1;
                    change(&store, (index, number), (some, joins)).await?;
                }
            }
            let spent = redis.server.cpu()? - before;
            cpu += spent;
            dearest = dearest.max(spent / (number - began) as f64);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        grown.push(used_memory(&redis).await? - before);
    }
    let mut note =
        |measure: &str, unit, value| figures.note(NAME, Who::Rollcall, (measure, unit), value);
    note(
        "sessions: Redis memory of a user with one",
        "B",
        grown[0] / users as f64,
    );
    note(
        "sessions: Redis memory of another one",
        "B",
        (grown[1] - grown[0]) / users as f64,
    );
    note(
        "sessions: Redis CPU of a join or leave",
        "µs",
        cpu * 1e6 / (4 * users) as f64,
    );
    note(
        "sessions: Redis CPU of a full call, of joins or of leaves",
        "ms",
        dearest * 1e3,
    );
    Ok(())
}

/// Some users join the slice, or all leave it. Each call is its gateway's first there.
async fn change(
    store: &RedisStore,
    (index, number): (u32, u64),
    (users, joins): (&[UserId], bool),
) -> anyhow::Result<()> {
    let slice = SliceId {
        set: OnlineSet::Live(LiveId::parse("42")?),
        index,
        of: 2,
    };
    let gateway = GatewayId::parse("gw-a")?;
    let looks = store
        .look(std::slice::from_ref(&slice), &gateway, Entries::Own)
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
        epoch: Epoch(7),
        gateway,
        number,
        follows,
        known: SliceSize::default(),
        more: false,
        bye: false,
        uniques: false,
        since: vec![now; joins.len()],
        lives: Vec::new(),
        left: Some(vec![now; leaves.len()]),
        slice,
        joins,
        fans: Vec::new(),
        leaves,
    };
    ensure!(
        matches!(store.apply(&call).await?, ApplyReply::Done(_)),
        "a change was refused"
    );
    Ok(())
}

/// The time at this share of the sorted times.
fn time_at(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}
