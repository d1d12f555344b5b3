//! The environment of a job: the variables of `oshrun`, as changed by its options.
//!
//! Pure. An option overrides the variable of the same meaning; `-x` overrides an inherited
//! variable, so `-x SHMEM_FT_BACKUP_MODE=raid5` has the expected effect.

#![forbid(unsafe_code)]

use super::args::Args;
use super::refused::Refused;
use raidshmem_core::inject::InjectedFault;
use raidshmem_core::settings::{SettingError, Settings, current, table};
use raidshmem_core::spelling::{likeness, nearest};

/// Names and values.
pub type Variables = Vec<(String, String)>;

const INJECT: &str = "SHMEM_FT_INJECT";

/// Returns the settings made by options: option, variable, value.
fn made(args: &Args) -> Vec<(&'static str, &'static str, String)> {
    let one = |option, name, value: &Option<String>| Some((option, name, value.clone()?));
    let verbose = args.verbose.then(|| "1".to_owned());
    let all = [
        one("--mode", "SHMEM_FT_BACKUP_MODE", &args.mode),
        one("--group", "SHMEM_FT_GROUP_SIZE", &args.group),
        one("--parity", "SHMEM_FT_PARITY", &args.parity),
        one("--bind", "SHMEM_FT_BIND", &args.bind),
        one("--fabric", "SHMEM_FT_FABRIC", &args.fabric),
        one("-v", "SHMEM_FT_REPORT", &verbose),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the variables of `-x`, and a notice for each that is not set anywhere.
pub fn exported(
    given: &[String],
    environment: &[(String, String)],
) -> Result<(Variables, Vec<String>), Refused> {
    let (mut variables, mut unset) = (Variables::new(), Vec::new());
    for text in given {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => {
                let found = environment.iter().find(|(name, _)| name == text);
                (text.as_str(), found.map(|(_, value)| value.clone()))
            }
        };
        if name.is_empty() {
            return Err(Refused::Variable { got: text.clone() });
        }
        match value {
            Some(value) => variables.push((name.to_owned(), value)),
            None => {
                let name = name.escape_debug();
                unset.push(format!("-x {name}: not set here, so PEs do not get it"));
            }
        }
    }
    Ok((variables, unset))
}

/// Returns the settings in force: `environment`, overridden by `exported` and then by options.
pub fn settings(
    args: &Args,
    environment: &[(String, String)],
    exported: &[(String, String)],
) -> Result<Settings, Refused> {
    let mut all = environment.to_vec();
    all.extend_from_slice(exported); // the last of several values counts
    let made = made(args);
    all.retain(|(name, _)| made.iter().all(|(_, other, _)| other != name));
    all.extend(made.iter().map(|(_, name, value)| ((*name).to_owned(), value.clone())));
    add_rules(args, &mut all)?;
    Settings::from_env(all.into_iter()).map_err(|error| match error {
        SettingError::Value { name, value, allowed } => {
            match made.iter().find(|(_, other, _)| *other == name) {
                Some(&(option, ..)) => Refused::OptionValue { option, got: value, allowed },
                None => SettingError::Value { name, value, allowed }.into(),
            }
        }
        other => other.into(),
    })
}

/// Adds the rules of `--kill` and `--kill-node` to those of the setting.
fn add_rules(args: &Args, all: &mut Variables) -> Result<(), Refused> {
    let kill = args.kill.iter().map(|rule| ("--kill", rule.clone()));
    let kill_node = args.kill_node.iter().map(|rule| ("--kill-node", format!("node:{rule}")));
    let read = |(option, rule): (_, String)| match rule.parse::<InjectedFault>() {
        Ok(rule) => Ok(rule.to_string()),
        Err(source) => Err(Refused::Rule { option, source }),
    };
    let rules = kill.chain(kill_node).map(read).collect::<Result<Vec<String>, Refused>>()?;
    if !rules.is_empty() {
        let before = all.iter().rposition(|(name, _)| name == INJECT);
        let before = before.map(|at| all.remove(at).1).filter(|text| !text.is_empty());
        let rules: Vec<String> = before.into_iter().chain(rules).collect();
        all.push((INJECT.to_string(), rules.join(",")));
    }
    Ok(())
}

/// Returns notices about variables that look like settings but are not; ignores other tools'
/// variables.
pub fn strange(variables: &[(String, String)]) -> Vec<String> {
    let line = |(name, _): &(String, String)| -> Option<String> {
        let name = name.as_str();
        let known = |name: &str| table().iter().any(|entry| entry.name == name);
        if known(current(name)) || name.starts_with("SHMEM_FT_") {
            return None; // an unknown SHMEM_FT_ name is rejected elsewhere
        }
        if let Some(rest) = name.strip_prefix("SMA_") {
            let now = format!("SHMEM_{rest}");
            let now = if known(&now) { now } else { meant(&now)?.to_owned() };
            return Some(format!("{name} is not read: the setting is called {now}"));
        }
        let nearest = name.strip_prefix("SHMEM_").and_then(|_| meant(name))?;
        Some(format!("{} is not a setting: did you mean {nearest}?", name.escape_debug()))
    };
    variables.iter().filter_map(line).collect()
}

/// Returns the setting whose name is nearest to `name`.
fn meant(name: &str) -> Option<&'static str> {
    nearest(table().iter().map(|entry| entry.name), |known| likeness(name, known), 0.8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidshmem_core::settings::BackupMode;

    fn pairs(list: &[(&str, &str)]) -> Variables {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn options_win_over_variables_and_those_of_x_over_inherited_ones() {
        let here = pairs(&[("SHMEM_FT_BACKUP_MODE", "raid4"), ("SHMEM_FT_PARITY", "3")]);
        let mode = |args: &Args, exported: &[(&str, &str)]| {
            settings(args, &here[..1], &pairs(exported)).unwrap().backup_mode
        };
        let bare = Args::default();
        assert_eq!(mode(&bare, &[]), BackupMode::Raid4);
        assert_eq!(mode(&bare, &[("SHMEM_FT_BACKUP_MODE", "raid5")]), BackupMode::Raid5);
        let args = Args { mode: Some("rs".into()), ..Args::default() };
        assert_eq!(mode(&args, &[("SHMEM_FT_BACKUP_MODE", "raid5")]), BackupMode::Rs);
        assert_eq!(settings(&args, &here, &[]).unwrap().parity, 3);
        let (parity, group) = (Some("1".into()), Some("5".into()));
        let args = Args { parity, group, verbose: true, ..args };
        let settings = settings(&args, &here, &[]).unwrap();
        assert_eq!((settings.parity, settings.group_size, settings.report), (1, Some(5), true));
    }

    #[test]
    fn a_wrong_value_is_attributed_to_its_source() {
        let refusal = |args: &Args, variables| {
            settings(args, &pairs(variables), &[]).unwrap_err().to_string()
        };
        let args = Args { mode: Some("raid6".into()), ..Args::default() };
        assert!(refusal(&args, &[]).starts_with("--mode raid6: expected none, single, "));
        let args = Args { group: Some("1".into()), ..Args::default() };
        assert_eq!(refusal(&args, &[]), "--group 1: expected 2 to 64");
        let line = refusal(&Args::default(), &[("SHMEM_FT_GROUP_SIZE", "1")]);
        assert_eq!(line, "SHMEM_FT_GROUP_SIZE=1: expected 2 to 64");
    }

    #[test]
    fn rules_of_options_follow_those_of_the_setting() {
        let (kill, kill_node) = (words(&["2@5"]), words(&["1@3:copy"]));
        let args = Args { kill, kill_node, ..Args::default() };
        let found = settings(&args, &pairs(&[(INJECT, "0@1")]), &[]).unwrap();
        let rules: Vec<String> = found.inject.iter().map(ToString::to_string).collect();
        assert_eq!(rules, ["0@1", "2@5", "node:1@3:copy"]);
    }

    #[test]
    fn variables_are_taken_from_here_or_with_their_value() {
        let here = pairs(&[("HOME", "/h"), ("EMPTY", "")]);
        let given = words(&["HOME", "A=1=2", "B=", "EMPTY", "NONE"]);
        let (found, unset) = exported(&given, &here).unwrap();
        assert_eq!(found, pairs(&[("HOME", "/h"), ("A", "1=2"), ("B", ""), ("EMPTY", "")]));
        assert_eq!(unset, ["-x NONE: not set here, so PEs do not get it"]);
        for bad in ["", "=1"] {
            let error = exported(&words(&[bad]), &here).unwrap_err().to_string();
            assert_eq!(error, format!("-x {bad}: expected VAR or VAR=VALUE"));
        }
    }

    #[test]
    fn misspelled_settings_are_named_and_those_of_other_tools_are_not() {
        let of = |name| strange(&pairs(&[(name, "1")])).pop();
        let line = of("SHMEM_SYMETRIC_SIZE").unwrap();
        assert_eq!(
            line,
            "SHMEM_SYMETRIC_SIZE is not a setting: did you mean SHMEM_SYMMETRIC_SIZE?"
        );
        let line = of("SMA_SYMMETRIC_SIZ").unwrap();
        assert!(line.ends_with("is not read: the setting is called SHMEM_SYMMETRIC_SIZE"));
        assert!(of("SMA_CHECK").unwrap().ends_with("SHMEM_CHECK"));
        for other in [
            "SHMEM_HOME",
            "SHMEM_INFO",
            "SMA_SYMMETRIC_SIZE",
            "SMA_X",
            "PATH",
            "SHMEM_FT_MODE",
            "MY_INFO",
        ] {
            assert_eq!(of(other), None);
        }
    }
}
