//! Tells the service manager that started the process, by the protocol of systemd's sd_notify, that
//! the process is ready, that it stops, and that it lives. Without a service manager these
//! functions do nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The least time between two signs of life, whatever the service manager asks for.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

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

/// Reports periodically that the process lives, if the service manager watches it (`WatchdogSec=`).
/// The reports come from a task, so a runtime that hangs falls silent, and the service manager
/// restarts the process.
pub async fn feed_watchdog() {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut turns = tokio::time::interval((limit / 3).max(MIN_INTERVAL));
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
