//! Tests of the settings table: every row's bounds, messages, defaults and round trip.

use std::time::Duration;

use super::*;

fn env(vars: &[(&str, &str)]) -> Result<Settings, SettingError> {
    Settings::from_env(vars.iter().map(|(n, v)| (n.to_string(), v.to_string())))
}

fn one(name: &str, value: &str) -> Settings {
    env(&[(name, value)]).unwrap()
}

fn refusal(name: &str, value: &str) -> String {
    let text = env(&[(name, value)]).unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

fn size(text: &str) -> Option<u64> {
    env(&[("SHMEM_SYMMETRIC_SIZE", text)]).ok().and_then(|s| s.symmetric_size)
}

#[test]
fn empty_environment_is_the_default() {
    assert_eq!(env(&[]), Ok(Settings::default()));
    assert_eq!(env(&[("PATH", "/bin"), ("SHMEM_OTHER", "x")]), Ok(Settings::default()));
}

#[test]
fn table_defaults_are_the_real_ones() {
    for entry in table() {
        if entry.show(&Settings::default()).is_some() && entry.name != "SHMEM_FT_PARITY" {
            assert_eq!(entry.show(&Settings::default()), Some(entry.default()));
            assert_eq!(env(&[(entry.name, &entry.default())]), Ok(Settings::default()));
        }
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = table().iter().map(|e| e.name).collect();
    names.sort();
    assert!(names.windows(2).all(|w| w[0] != w[1]));
}

#[test]
fn modes() {
    for mode in BackupMode::ALL {
        assert_eq!(one("SHMEM_FT_BACKUP_MODE", mode.name()).backup_mode, mode);
    }
    assert_eq!(
        refusal("SHMEM_FT_BACKUP_MODE", "raid6"),
        "SHMEM_FT_BACKUP_MODE=raid6: expected none, single, double, raid4, raid5, rs"
    );
    let slots = BackupMode::ALL.map(BackupMode::slots);
    assert_eq!(slots, [0, 1, 1, 2, 2, 2]);
    let snapshot = BackupMode::ALL.map(BackupMode::keeps_snapshot);
    assert_eq!(snapshot, [false, false, true, true, true, true]);
    assert!(!BackupMode::None.protects() && BackupMode::Single.protects());
}

#[test]
fn words() {
    assert_eq!(one("SHMEM_FT_SUBSTITUTE", "spawn").substitute, Substitute::Spawn);
    assert_eq!(one("SHMEM_FT_SUBSTITUTE", "spare").substitute, Substitute::Spare);
    assert_eq!(one("SHMEM_FT_ROLLBACK", "global").rollback, Rollback::Global);
    assert_eq!(one("SHMEM_FT_PLACEMENT", "spread").placement, Placement::Spread);
    for (text, delta) in [("auto", Delta::Auto), ("on", Delta::On), ("off", Delta::Off)] {
        assert_eq!(one("SHMEM_FT_DELTA", text).delta, delta);
    }
    let tracks = [("auto", Track::Auto), ("pages", Track::Pages), ("digests", Track::Digests)];
    for (text, track) in tracks {
        assert_eq!(one("SHMEM_FT_TRACK", text).track, track);
    }
    for (text, threads) in [("auto", 0), ("1", 1), ("64", 64)] {
        assert_eq!(one("SHMEM_FT_THREADS", text).threads, threads);
    }
    for bad in ["0", "65", "all"] {
        assert!(refusal("SHMEM_FT_THREADS", bad).ends_with(" auto, 1 to 64"));
    }
    assert_eq!(one("SHMEM_FT_PLACEMENT", "strict").placement, Placement::Strict);
    assert_eq!(refusal("SHMEM_FT_PLACEMENT", ""), "SHMEM_FT_PLACEMENT=: expected spread, strict");
    assert_eq!(refusal("SHMEM_FT_DOMAINS", " "), "SHMEM_FT_DOMAINS= : expected the path of a file");
}

#[test]
fn intervals() {
    let interval = |text| one("SHMEM_FT_INTERVAL", text).interval;
    assert_eq!(interval("auto"), Interval::Auto);
    assert_eq!(interval("0"), Settings::default().interval);
    assert_eq!(interval("2.5"), Interval::After(Duration::from_millis(2500)));
    for bad in ["", "off", "-1", "86400.001", "1h"] {
        let allowed = "expected auto, 0 to 86400 seconds";
        assert_eq!(
            refusal("SHMEM_FT_INTERVAL", bad),
            format!("SHMEM_FT_INTERVAL={bad}: {allowed}")
        );
    }
    assert_eq!(one("SHMEM_FT_MTBF", "21600").mtbf, Some(Duration::from_secs(21600)));
}

#[test]
fn devices() {
    let device = |text| one("SHMEM_FT_DEVICE", text).device.expect("it is set");
    let named = |port| Device { name: "mlx5_0".to_owned(), port };
    assert_eq!((device("mlx5_0"), device("mlx5_0:2")), (named(None), named(Some(2))));
    for bad in ["", ":1", "a b", "mlx5_0:", "mlx5_0:0", "mlx5_0:256", "mlx5_0:1:2", "../x"] {
        let allowed = "expected NAME or NAME:PORT of a device that ibv_devices lists";
        assert_eq!(refusal("SHMEM_FT_DEVICE", bad), format!("SHMEM_FT_DEVICE={bad}: {allowed}"));
    }
}

#[test]
fn both_bounds_of_every_number() {
    let rs = |name, value: u64| {
        env(&[("SHMEM_FT_BACKUP_MODE", "rs"), (name, value.to_string().as_str())])
    };
    for entry in table() {
        let (ValueKind::Count { min, max } | ValueKind::Size { min, max }) = entry.kind else {
            continue;
        };
        for inside in [min, max] {
            let settings = rs(entry.name, inside).unwrap();
            let shown = entry.show(&settings).unwrap();
            assert_eq!(env(&[("SHMEM_FT_BACKUP_MODE", "rs"), (entry.name, &shown)]), Ok(settings));
        }
        for outside in [min.checked_sub(1), Some(max + 1)].into_iter().flatten() {
            assert!(rs(entry.name, outside).is_err(), "{}={outside}", entry.name);
        }
    }
    assert_eq!(one("SHMEM_FT_MAX_RESTARTS", "1000000").max_restarts, 1_000_000);
    assert_eq!(one("SHMEM_FT_GROUP_SIZE", " 64 ").group_size, Some(64));
    assert_eq!(refusal("SHMEM_FT_GROUP_SIZE", "1"), "SHMEM_FT_GROUP_SIZE=1: expected 2 to 64");
    for bad in ["+4", "4x", "-4", "", "4.0", "99999999999999999999999"] {
        assert!(env(&[("SHMEM_FT_GROUP_SIZE", bad)]).is_err(), "{bad}");
    }
}

#[test]
fn parity_depends_on_the_mode() {
    assert_eq!(one("SHMEM_FT_BACKUP_MODE", "rs").parity, 2);
    assert_eq!(one("SHMEM_FT_BACKUP_MODE", "raid5").parity, 1);
    assert_eq!(env(&[("SHMEM_FT_PARITY", "3"), ("SHMEM_FT_BACKUP_MODE", "rs")]).unwrap().parity, 3);
    assert_eq!(env(&[("SHMEM_FT_BACKUP_MODE", "rs"), ("SHMEM_FT_PARITY", "1")]).unwrap().parity, 1);
    assert_eq!(one("SHMEM_FT_PARITY", "1").parity, 1);
    let refused = env(&[("SHMEM_FT_PARITY", "2"), ("SHMEM_FT_BACKUP_MODE", "raid5")]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "SHMEM_FT_PARITY=2 with SHMEM_FT_BACKUP_MODE=raid5: expected SHMEM_FT_PARITY=1, or the \
         mode rs, since only rs has several parities"
    );
}

#[test]
fn snapshots_depend_on_the_mode() {
    let two = |mode| env(&[("SHMEM_FT_SNAPSHOTS", "2"), ("SHMEM_FT_BACKUP_MODE", mode)]);
    for mode in ["raid4", "raid5", "rs"] {
        assert_eq!(two(mode).unwrap().snapshots, 2);
        assert_eq!(one("SHMEM_FT_BACKUP_MODE", mode).snapshots, 1);
    }
    assert_eq!(
        two("double").unwrap_err().to_string(),
        "SHMEM_FT_SNAPSHOTS=2 with SHMEM_FT_BACKUP_MODE=double: expected SHMEM_FT_SNAPSHOTS=1, \
         or the mode raid4, raid5 or rs, since the other modes overwrite the one copy on another PE"
    );
    assert!(two("none").is_err() && two("single").is_err());
    assert_eq!(one("SHMEM_FT_SNAPSHOTS", "1").snapshots, 1);
}

#[test]
fn parity_in_the_background_needs_two_snapshots_and_no_logs() {
    let with = |snapshots, rollback| {
        env(&[
            ("SHMEM_FT_BACKGROUND", "on"),
            ("SHMEM_FT_BACKUP_MODE", "raid5"),
            ("SHMEM_FT_SNAPSHOTS", snapshots),
            ("SHMEM_FT_ROLLBACK", rollback),
        ])
    };
    assert_eq!(with("2", "global").unwrap().background, Background::On);
    for (snapshots, rollback) in [("1", "global"), ("2", "local")] {
        assert_eq!(
            with(snapshots, rollback).unwrap_err().to_string(),
            format!(
                "SHMEM_FT_BACKGROUND=on with SHMEM_FT_SNAPSHOTS={snapshots} and \
                 SHMEM_FT_ROLLBACK={rollback}: expected SHMEM_FT_SNAPSHOTS=2 and \
                 SHMEM_FT_ROLLBACK=global, since parity is computed from copies while the program \
                 runs"
            )
        );
    }
    assert_eq!(one("SHMEM_FT_SNAPSHOTS", "1").background, Background::Off);
}

#[test]
fn the_lost_roll_back_locally_to_copies_of_their_own() {
    let with = |mode, substitute, limit| {
        env(&[
            ("SHMEM_FT_ROLLBACK", "local"),
            ("SHMEM_FT_BACKUP_MODE", mode),
            ("SHMEM_FT_SUBSTITUTE", substitute),
            ("SHMEM_FT_LOG_LIMIT", limit),
        ])
    };
    for mode in ["raid4", "raid5", "rs"] {
        let settings = with(mode, "spare", "1M").unwrap();
        assert_eq!((settings.rollback, settings.log_limit), (Rollback::Local, Some(1 << 20)));
    }
    let refused = |mode, substitute, limit| with(mode, substitute, limit).unwrap_err().to_string();
    for mode in ["none", "single", "double"] {
        assert_eq!(
            refused(mode, "spawn", "1M"),
            format!(
                "SHMEM_FT_ROLLBACK=local with SHMEM_FT_BACKUP_MODE={mode}: expected the mode \
                 raid4, raid5 or rs, since with the others a loss in a checkpoint may leave none \
                 to roll back to"
            )
        );
    }
    assert!(
        refused("raid5", "shrink", "1M").contains("expected none together with shrink, or neither")
    );
    assert!(
        refused("raid5", "spawn", "1023K").starts_with("SHMEM_FT_LOG_LIMIT=1023K: expected 1M")
    );
}

#[test]
fn without_rollback_jobs_continue_with_fewer_pes() {
    let with = |substitute, rollback, mode| {
        env(&[
            ("SHMEM_FT_SUBSTITUTE", substitute),
            ("SHMEM_FT_ROLLBACK", rollback),
            ("SHMEM_FT_BACKUP_MODE", mode),
        ])
    };
    let both = with("shrink", "none", "none").unwrap();
    assert_eq!((both.substitute, both.rollback), (Substitute::Shrink, Rollback::None));
    let refused =
        |substitute, rollback, mode| with(substitute, rollback, mode).unwrap_err().to_string();
    assert_eq!(
        refused("spare", "none", "none"),
        "SHMEM_FT_ROLLBACK=none with SHMEM_FT_SUBSTITUTE=spare: expected none together with \
         shrink, or neither, since a substitute rolls back, and without one no PE does"
    );
    assert_eq!(
        refused("shrink", "global", "raid5"),
        "SHMEM_FT_ROLLBACK=global with SHMEM_FT_SUBSTITUTE=shrink: expected none together with \
         shrink, or neither, since a substitute rolls back, and without one no PE does"
    );
    assert_eq!(
        refused("shrink", "none", "double"),
        "SHMEM_FT_ROLLBACK=none with SHMEM_FT_BACKUP_MODE=double: expected the mode none, raid4, \
         raid5 or rs, since with the others a loss in a checkpoint may leave none to read from"
    );
}

#[test]
fn sizes_follow_the_specification() {
    assert_eq!(size("65536"), Some(65536));
    assert_eq!(size("20m"), Some(20_971_520));
    assert_eq!(size("3.1M"), Some(3_250_586));
    assert_eq!(size(".5m"), Some(524_288));
    assert_eq!(size("100k"), Some(102_400));
    assert_eq!(size("1.5G"), Some(3 << 29));
    assert_eq!(size("2t"), Some(2 << 40));
    assert_eq!(size("64T"), Some(64 << 40));
    for small in ["0", "1", "63K", "64K", ".01M"] {
        assert_eq!(size(small), Some(64 << 10), "{small}");
    }
    for bad in
        ["", ".", "M", "8MB", "100kk", "1KiB", "65T", "-1M", "1e9", "1.2.3M", "1 M", "0x100000"]
    {
        assert_eq!(size(bad), None, "{bad}");
    }
    assert_eq!(size(&format!("{}M", "9".repeat(30))), None);
    assert_eq!(size(&format!("{}T", "9".repeat(26))), None);
    assert_eq!(
        refusal("SHMEM_SYMMETRIC_SIZE", "8MB"),
        "SHMEM_SYMMETRIC_SIZE=8MB: expected 0 to 64T bytes, as a number with an optional suffix \
         K, M, G or T; less than 64K is rounded up"
    );
}

#[test]
fn old_names_count_where_the_new_ones_are_not_set() {
    let (old, new) = (("SMA_SYMMETRIC_SIZE", "2M"), ("SHMEM_SYMMETRIC_SIZE", "1M"));
    assert_eq!(env(&[old]).unwrap().symmetric_size, Some(2 << 20));
    for vars in [[old, new], [new, old], [("SMA_SYMMETRIC_SIZE", "bad"), new]] {
        assert_eq!(env(&vars).unwrap().symmetric_size, Some(1 << 20));
    }
    assert!(
        refusal("SMA_SYMMETRIC_SIZE", "bad").starts_with("SMA_SYMMETRIC_SIZE=bad: expected 0 ")
    );
    for (old, new) in OLD_NAMES.iter().filter(|(_, new)| *new != "SHMEM_SYMMETRIC_SIZE") {
        assert_eq!(one(old, ""), one(new, ""));
        assert_ne!(one(old, ""), Settings::default(), "{old}");
    }
    assert_eq!(env(&[("SMA_CHECK", "x"), ("SMA_OTHER", "x")]), Ok(Settings::default()));
}

#[test]
fn seconds_are_exact() {
    let timeout = |text: &str| env(&[("SHMEM_FT_NODE_TIMEOUT", text)]);
    for (text, millis) in [("0.1", 100), ("2", 2000), ("1.05", 1050), ("3600", 3_600_000)] {
        let settings = timeout(text).unwrap();
        assert_eq!(settings.node_timeout, Duration::from_millis(millis));
        assert_eq!(settings.period(), Duration::from_millis(millis) / 10);
        let again = settings.to_env().into_iter().map(|(n, v)| (n.to_owned(), v));
        assert_eq!(Settings::from_env(again), Ok(settings));
    }
    for bad in ["", "0", "0.099", "3601", ".5", "1.", "1.0001", "-1", "1s", "99999999999999999999"]
    {
        assert!(timeout(bad).is_err(), "{bad}");
    }
}

#[test]
fn switches_and_flags() {
    assert!(!one("SHMEM_FT_ADOPT", "0").adopt && one("SHMEM_FT_ADOPT", "1").adopt);
    assert!(!one("SHMEM_FT_REPORT", "0").report && !one("SHMEM_CHECK", "0").check);
    for on in ["", "0", "no", "1"] {
        assert!(one("SHMEM_INFO", on).info);
        assert!(one("SHMEM_VERSION", on).version);
        assert!(one("SHMEM_DEBUG", on).debug);
    }
    assert_eq!(refusal("SHMEM_CHECK", "yes"), "SHMEM_CHECK=yes: expected 1 (on), 0 (off)");
}

#[test]
fn rules_are_read_and_refused_by_name() {
    assert_eq!(one("SHMEM_FT_INJECT", "2@5,node:1@3:copy").inject.len(), 2);
    assert!(one("SHMEM_FT_INJECT", "").inject.is_empty());
    let text = refusal("SHMEM_FT_INJECT", "2@5:then");
    assert!(text.starts_with("SHMEM_FT_INJECT: rule `2@5:then`: no point `then`: expected bef"));
}

#[test]
fn unknown_names_list_the_nearest() {
    for (name, nearest) in [
        ("SHMEM_FT_BACKUPMODE", "SHMEM_FT_BACKUP_MODE"),
        ("SHMEM_FT_MODE", "SHMEM_FT_BACKUP_MODE"),
        ("SHMEM_FT_GROUP", "SHMEM_FT_GROUP_SIZE"),
        ("SHMEM_FT_PARTY", "SHMEM_FT_PARITY"),
        ("SHMEM_FT_NODE_TIMOUT", "SHMEM_FT_NODE_TIMEOUT"),
        ("SHMEM_FT_RESTARTS", "SHMEM_FT_MAX_RESTARTS"),
    ] {
        let line = format!("{name}: no such setting, nearest is {nearest}; `oshinfo` lists them");
        assert_eq!(refusal(name, "1"), line);
    }
    refusal("SHMEM_FT_A\nB", "1");
    refusal("SHMEM_FT_BACKUP_MODE", "a\nb");
}

#[test]
fn environment_round_trips() {
    let all = env(&[
        ("SHMEM_FT_BACKUP_MODE", "rs"),
        ("SHMEM_FT_GROUP_SIZE", "12"),
        ("SHMEM_FT_PARITY", "3"),
        ("SHMEM_FT_SNAPSHOTS", "2"),
        ("SHMEM_FT_INTERVAL", "auto"),
        ("SHMEM_FT_MTBF", "3600.5"),
        ("SHMEM_FT_SUBSTITUTE", "spare"),
        ("SHMEM_FT_PLACEMENT", "strict"),
        ("SHMEM_FT_DOMAINS", "site/rack.toml"),
        ("SHMEM_FT_BIND", "core"),
        ("SHMEM_FT_TRACE", "debug"),
        ("SHMEM_FT_PAGES", "small"),
        ("SHMEM_FT_DEVICE", "mlx5_0:2"),
        ("SHMEM_FT_PROVIDER", "tcp;ofi_rxm"),
        ("SHMEM_FT_ADOPT", "0"),
        ("SHMEM_FT_MAX_RESTARTS", "0"),
        ("SHMEM_FT_MEMORY_LIMIT", "1.5G"),
        ("SHMEM_FT_LOG_LIMIT", "64M"),
        ("SHMEM_FT_NODE_TIMEOUT", "2.5"),
        ("SHMEM_FT_PE_TIMEOUT", "60"),
        ("SHMEM_FT_SCRUB", "off"),
        ("SHMEM_FT_PLAN", "plan.toml"),
        ("SHMEM_FT_AUDIT", "1"),
        ("SHMEM_FT_STORE", "/scratch/me"),
        ("SHMEM_FT_STORE_EVERY", "2.5s"),
        ("SHMEM_FT_STORE_KEEP", "3"),
        ("SHMEM_FT_STORE_MEMORY", "1G"),
        ("SHMEM_FT_INJECT", "1@2:encode,node:0@4"),
        ("SHMEM_FT_REPORT", "0"),
        ("SHMEM_SYMMETRIC_SIZE", "100001"),
        ("SHMEM_INFO", ""),
        ("SHMEM_VERSION", ""),
        ("SHMEM_DEBUG", ""),
        ("SHMEM_CHECK", "0"),
    ])
    .unwrap();
    assert_eq!(all.to_env().len(), table().len());
    for settings in [all, Settings::default()] {
        let vars = settings.to_env().into_iter().map(|(n, v)| (n.to_owned(), v));
        assert_eq!(Settings::from_env(vars), Ok(settings.clone()));
    }
}

#[test]
fn settings_in_force_are_shown_with_their_choices() {
    let settings = one("SHMEM_FT_BACKUP_MODE", "raid5");
    let chosen = [("SHMEM_FT_GROUP_SIZE", "4".to_owned()), ("SHMEM_FT_THREADS", "2".to_owned())];
    let text = in_force(&settings, &chosen);
    assert_eq!(text.lines().count(), table().len());
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line[name.len()..].trim().split("  ").next().unwrap().to_owned()
    };
    assert_eq!(value("SHMEM_FT_BACKUP_MODE"), "raid5");
    assert_eq!(value("SHMEM_FT_GROUP_SIZE"), "4");
    assert_eq!(value("SHMEM_FT_THREADS"), "auto (2)");
    assert_eq!(value("SHMEM_FT_PARITY"), "1");
    assert_eq!(value("SHMEM_FT_DOMAINS"), "none");
}

#[test]
fn markdown_has_a_row_for_every_setting() {
    let text = markdown();
    assert_eq!(text.lines().count(), table().len() + 2);
    for (line, entry) in text.lines().skip(2).zip(table()) {
        assert!(line.starts_with(&format!("| `{}` | ", entry.name)));
        assert_eq!(line.matches('|').count(), 6, "{line}");
    }
}

#[test]
fn checkpoints_on_disk_are_counted_or_timed_and_need_copies_in_memory() {
    let every = |text| one("SHMEM_FT_STORE_EVERY", text).store_every;
    assert_eq!(every("3"), Every::Checkpoints(3));
    assert_eq!(every("1.5s"), Every::Time(Duration::from_millis(1500)));
    for bad in ["0", "0s", "s", "", "-1", "1.5", "1m", "2 s"] {
        let line = refusal("SHMEM_FT_STORE_EVERY", bad);
        assert!(line.contains("expected 1 to 1000000000 checkpoints, or 0.001 to"), "{line}");
    }
    let rate = |text| one("SHMEM_FT_STORE_RATE", text).store_rate;
    assert_eq!([rate("off"), rate("64K"), rate("1G")], [0, 64 << 10, 1 << 30]);
    assert!(refusal("SHMEM_FT_STORE_RATE", "1K").contains("expected off, 64K to"));
    assert!(refusal("SHMEM_FT_STORE_COMPRESS", "20").ends_with("expected 0 to 19"));
    for mode in BackupMode::ALL {
        let all = env(&[("SHMEM_FT_STORE", "x"), ("SHMEM_FT_BACKUP_MODE", mode.name())]);
        assert_eq!(all.is_ok(), mode.keeps_snapshot(), "{mode:?}");
    }
}
