//! What a package installs beside the program: completions for a shell, and the manual page. Both follow from the
//! parser of the command line.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Command, ValueEnum, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;

use super::command::COMMANDS;

/// The script that makes the shell of that name complete the command line. `words` come after `completions`.
pub(super) fn completions(command: Command, words: &[&str]) -> Result<String, String> {
    let shells: Vec<String> = Shell::value_variants().iter().map(Shell::to_string).collect();
    let usage = || format!("completions: needs the name of one shell: {}", shells.join(", "));
    let [word] = words else { return Err(usage()) };
    let shell = Shell::from_str(word, false).map_err(|_| usage())?;
    let names = COMMANDS.iter().map(|(name, about)| PossibleValue::new(*name).help(*about));
    let mut command = command
        .mut_arg("words", |words| words.hide(false).value_parser(PossibleValuesParser::new(names)))
        .mut_args(|arg| if takes_a_file(&arg) { arg.value_hint(ValueHint::FilePath) } else { arg });
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "rollcall", &mut script);
    Ok(text(&script))
}

fn takes_a_file(arg: &clap::Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.starts_with("FILE")))
}

/// The manual page, for section 1.
pub(super) fn manual(command: Command) -> String {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = Man::new(command).render(&mut page);
    text(&page)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::COMMANDS;
    use crate::config::{Loaded, SETTINGS, load};

    fn printed(line: &str) -> String {
        let args = ["rollcall"].into_iter().chain(line.split(' ')).map(OsString::from);
        match load(args, []) {
            Ok(Loaded::Print(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_shell_completes_every_setting_and_command() {
        for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
            let script = printed(&format!("completions {shell}"));
            for setting in SETTINGS {
                assert!(script.contains(setting.name), "{shell} does not complete --{}", setting.name);
            }
        }
        let bash = printed("completions bash");
        for (command, _) in COMMANDS {
            assert!(bash.contains(command), "bash does not complete {command}");
        }
    }

    #[test]
    fn the_manual_names_every_setting_and_its_variable() {
        // A hyphen of an option is written as `\\-`.
        let page = printed("man").replace('\\', "");
        assert!(page.contains(".TH rollcall 1"), "{}", &page[..200]);
        for setting in SETTINGS {
            assert!(page.contains(&format!("--{}", setting.name)), "--{}", setting.name);
            assert!(page.contains(&setting.env_name()), "{}", setting.env_name());
        }
        for (command, _) in COMMANDS {
            assert!(page.contains(command), "the manual does not name {command}");
        }
    }

    #[test]
    fn every_command_is_known() {
        for (command, _) in COMMANDS {
            let told = load(["rollcall".into(), command.into()], []).map_err(|err| err.to_string());
            assert!(!told.is_err_and(|why| why.contains("are commands")), "{command}");
        }
    }

    #[test]
    fn a_shell_that_is_not_known_is_a_mistake() {
        for line in [&["completions"][..], &["completions", "tcsh"], &["completions", "bash", "zsh"]] {
            let args = ["rollcall"].iter().chain(line).map(OsString::from);
            let why = load(args, []).expect_err("a mistake").to_string();
            assert!(why.contains("one shell: bash, elvish, fish, powershell, zsh"), "{why}");
        }
    }
}
