//! The program: an allocator, and [`rollcall::gateway::process`].

use std::process::ExitCode;

use rollcall::base::exit;
use rollcall::gateway::process;

/// Sockets open and close for weeks. After a crowd had left and come back, the system's allocator
/// held two thirds more memory than at first (`docs/profile.md`).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Otherwise a panic of this thread would exit with 101.
    std::panic::catch_unwind(process::run)
        .unwrap_or(exit::BUG)
        .into()
}
