//! What the sets cost Redis: viewers, half of them fans, connect, join at 2,000 a second, and
//! leave, with and without `--track-online`.

use crate::bench::figures::{Figures, Who};
use crate::bench::generator::Generator;
use crate::bench::generator::order::{Crowd, Enter, Order};
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "sets";
const PER_SECOND: f64 = 2_000.0;

/// What a gateway keeps, and the flags for that.
const KEPT: [(&str, [&str; 2]); 2] = [
    ("viewers and fans", ["--track-online", "off"]),
    ("users online too", ["--track-online", "on"]),
];

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let sockets = bench.pick(10_000, 200);
    let mut generator = Generator::start()?;
    for round in 0..bench.rounds.min(5) {
        for step in 0..KEPT.len() {
            let (kept, flags) = KEPT[(round + step) % KEPT.len()];
            let redis = Redis::start().await?;
            redis.follow(sockets / 2, 1).await?;
            let gateway = bench.programs.gateway_with(&redis, None, &flags).await?;
            gateway.open(1, None).await?;
            let before = redis.server.cpu()?;
            let crowd = Crowd::new(
                gateway.server.addr,
                sockets,
                Enter::Upgraded,
                160 + round as u8,
            );
            generator.carry_out(&Order::Connect(crowd)).await?;
            generator
                .carry_out(&Order::Join {
                    per_second: PER_SECOND,
                })
                .await?;
            generator.carry_out(&Order::Rest { seconds: 1.0 }).await?;
            generator.carry_out(&Order::Leave).await?;
            // The last flush.
            generator.carry_out(&Order::Rest { seconds: 1.0 }).await?;
            let cpu = redis.server.cpu()? - before;
            let measure = format!("Redis CPU per viewer who comes and goes, {kept}");
            figures.note(
                NAME,
                Who::Rollcall,
                (&measure, "µs"),
                cpu * 1e6 / sockets as f64,
            );
        }
    }
    Ok(())
}
