//! What parts of a gateway that come from files of the settings have in common, so that one task
//! can watch all the files: `edge/reload.rs`.

use std::path::PathBuf;

/// A part that is read from files, and can be read again while the gateway runs: keys, secrets,
/// certificates.
pub trait FromFiles: Send + Sync {
    /// What it is, as in `the API keys`; for the log and for operators.
    fn name(&self) -> &'static str;

    /// The files. None: there is nothing to read.
    fn files(&self) -> Vec<PathBuf>;

    /// Reads the files again. It blocks.
    ///
    /// # Errors
    /// What is wrong, with the setting that names the file, quoting nothing of the file. The part
    /// then stays as it was.
    fn read_again(&self) -> Result<(), String>;
}
