//! What the process tells the service manager that started it, by the protocol of systemd's
//! sd_notify: that it is ready, that it stops, and that it lives. Without a service manager all of
//! this does nothing. The process calls it.

use std::time::Duration;

use sd_notify::NotifyState;

/// The least time between two signs of life, whatever the service manager asks for.
const LEAST: Duration = Duration::from_millis(100);

/// The gateway listens.
pub fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("listening")]);
}

/// The gateway sends its sockets elsewhere and then ends.
pub fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("sending sockets elsewhere"),
    ]);
}

/// Says again and again that the process lives, if the service manager watches it (`WatchdogSec=`).
/// It says so from a task, so a runtime that hangs falls silent, and the service manager starts the
/// process again.
pub async fn feed_watchdog() {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut turns = tokio::time::interval((limit / 3).max(LEAST));
    loop {
        turns.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(why) = sd_notify::notify(states) {
        tracing::warn!(error = %why, "the service manager could not be told");
    }
}
