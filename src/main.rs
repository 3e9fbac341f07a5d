//! The program: an allocator, and [`rollcall::gateway::process`].

use std::process::ExitCode;

use rollcall::base::exit;
use rollcall::gateway::process;

/// Sockets come and go for weeks: after a crowd left and came back, the system's allocator held two
/// thirds more memory than at first (`docs/profile.md`).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Otherwise a panic of this thread would exit with 101.
    std::panic::catch_unwind(process::run)
        .unwrap_or(exit::BUG)
        .into()
}
