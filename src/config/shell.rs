//! The files that a package installs beside the program: completions for a shell, and the manual
//! page. Both follow from the parser of the command line.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// The script that makes a shell complete the command line.
pub(super) fn completions(mut command: Command, shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "rollcall", &mut script);
    text(&script)
}

/// The manual page, for section 1: the settings, then the options of each command.
pub(super) fn manual(command: &Command) -> String {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = Man::new(command.clone()).render(&mut page);
    for of_command in command.get_subcommands() {
        page.extend(
            format!(
                ".SH \"ROLLCALL {}\"\n",
                of_command.get_name().to_uppercase()
            )
            .into_bytes(),
        );
        let _ = Man::new(of_command.clone()).render_options_section(&mut page);
    }
    text(&page)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{Command, Subcommand};

    use crate::config::command::CommandLine;
    use crate::config::{Loaded, SETTINGS, load};

    fn commands() -> Vec<String> {
        let command = CommandLine::augment_subcommands(Command::new("rollcall"));
        command
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect()
    }

    fn printed(line: &str) -> String {
        let args = ["rollcall"]
            .into_iter()
            .chain(line.split(' '))
            .map(OsString::from);
        match load(args, []) {
            Ok(Loaded::Print(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_shell_completes_every_setting_and_command() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = printed(&format!("completions {shell}"));
            for setting in SETTINGS.iter() {
                assert!(
                    script.contains(&setting.name),
                    "{shell} does not complete --{}",
                    setting.name
                );
            }
        }
        let bash = printed("completions bash");
        for command in commands() {
            assert!(bash.contains(&command), "bash does not complete {command}");
        }
    }

    #[test]
    fn the_manual_names_every_setting_and_its_variable() {
        // A hyphen of an option is written as `\\-`.
        let page = printed("man").replace('\\', "");
        assert!(page.contains(".TH rollcall 1"), "{}", &page[..200]);
        for setting in SETTINGS.iter() {
            assert!(
                page.contains(&format!("--{}", setting.name)),
                "--{}",
                setting.name
            );
            assert!(page.contains(&setting.env_name()), "{}", setting.env_name());
        }
        for command in commands() {
            assert!(
                page.contains(&command),
                "the manual does not name {command}"
            );
        }
        assert!(
            page.contains("--jwt-private-key"),
            "the options of the commands"
        );
    }

    #[test]
    fn a_shell_that_is_not_known_is_a_mistake() {
        for (line, words) in [
            (&["completions"][..], "SHELL: is missing"),
            (
                &["completions", "tcsh"],
                "must be one of bash, elvish, fish, powershell, zsh",
            ),
            (&["completions", "bash", "zsh"], "one too many"),
        ] {
            let args = ["rollcall"].iter().chain(line).map(OsString::from);
            let why = load(args, []).expect_err("a mistake").to_string();
            assert!(why.contains(words), "{why}");
        }
    }
}
