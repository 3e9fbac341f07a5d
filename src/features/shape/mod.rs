//! The shape of a live: how its viewers of this moment spread over networks, ways, ages of ids and
//! times of joining, over all gateways. A platform sees a crowd of bots in it; Rollcall judges
//! nobody.
//!
//! Nothing is kept: each gateway counts what its seats and connections say when it is asked. The
//! addresses stay in its memory, and the others hear names of networks that mean something in this
//! opening of the live only.

use self::counting::ShapeCounter;
use super::wired::{Wired, named};

pub(crate) mod counting;
pub(crate) mod http;
#[cfg(test)]
mod tests;

pub(crate) fn feature() -> Wired {
    Wired::joins(|_, added| {
        added.intake(|app, _| {
            let counter = ShapeCounter::of(app);
            vec![named("shapes of lives", move |stop| counter.answer(stop))]
        });
        added.routes(http::routes);
        Ok(())
    })
}
