//! The trait of the parts of a gateway that come from files of the settings, so that one task
//! (`edge/reload.rs`) can watch all the files.

use std::path::PathBuf;

/// A part that comes from files, and that the gateway can read again while it runs: keys, secrets,
/// certificates.
pub trait FromFiles: Send + Sync {
    /// The name of the part, as in `the API keys`; for the log and for operators.
    fn name(&self) -> &'static str;

    /// The files. The list is empty if there is nothing to read.
    fn files(&self) -> Vec<PathBuf>;

    /// Reads the files again. It blocks.
    ///
    /// # Errors
    /// The problem, with the setting that names the file. The text quotes nothing of the file. The
    /// part then stays as it was.
    fn read_again(&self) -> Result<(), String>;
}
