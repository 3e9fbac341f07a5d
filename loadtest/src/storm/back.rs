//! The way back of one viewer that was cut off: connect again at once, and come back as the gateway says.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::error_kind::{self, Kind};
use crate::plan::CrowdPlan;
use crate::share::Share;
use crate::viewer::{Refusal, Socket, Viewer, join, knock};

/// After so many refusals or failures a viewer gives up.
const MAX_TRIES: u32 = 20;

/// Between two tries when nothing was said of when to come back.
const UNTOLD: Duration = Duration::from_secs(1);

/// Comes back and stays; or gives up. Boxed: it is larger than all else of a viewer.
pub(crate) fn come_back(share: Arc<Share>, number: usize) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let cut = Instant::now();
        let mut last = error_kind::CONNECT_TIMEOUT;
        for _ in 0..MAX_TRIES {
            match enter(&share.plan, &share, number).await {
                Ok(socket) => {
                    let seat = share.sit_back(number, cut.elapsed());
                    tokio::spawn(Box::pin(Viewer::new(share, seat, number, socket).stay()));
                    return;
                }
                Err(Refusal { later: Some(Some(after)), kind }) => {
                    share.tally(|tally| tally.storm.told.record(after));
                    last = kind;
                    sleep(after).await;
                }
                Err(Refusal { later, kind }) => {
                    share.tally(|tally| match later {
                        Some(_) => tally.storm.untimed += 1,
                        None => tally.error(Kind::Owned(format!("return:{kind}")), 1),
                    });
                    last = kind;
                    sleep(UNTOLD).await;
                }
            }
        }
        share.is_stranded(share.role(number), last);
    })
}

async fn enter(plan: &CrowdPlan, share: &Share, number: usize) -> Result<Socket, Refusal> {
    let failed = |kind| Refusal { kind, later: None };
    let live_id = plan.live_id(share.role(number).live);
    let query = format!("user_id={}&role=viewer", plan.user_id(number));
    // From other source addresses than before: the ports of those are still taken by what was cut.
    let source = plan.target.address.is_ipv4().then(|| plan.sources + number % plan.sources);
    let knocking = timeout(plan.connect_timeout, knock(plan, source, &query));
    let mut socket = knocking.await.unwrap_or(Err(failed(error_kind::CONNECT_TIMEOUT)))?;
    let joining = timeout(plan.connect_timeout, join(&mut socket, Some(&live_id)));
    joining.await.unwrap_or(Err(error_kind::JOIN_TIMEOUT)).map_err(failed)?;
    Ok(socket)
}
