//! Tests of the page of odd records: whole, harmless and bounded.

use super::*;
use crate::event::{Event, What};
use crate::job::SettingValue;
use crate::record::tests::record;
use crate::record::{AtEnd, Span};
use crate::story::tests::eventful;
use raidshmem_core::message::ProgressReport;
use raidshmem_core::quantity::{CheckpointNumber, Pe, ViewNumber};
use std::time::Duration;

/// Fails unless every element is closed in order; returns the names of all.
#[track_caller]
fn elements(html: &str) -> Vec<String> {
    const VOID: [&str; 2] = ["meta", "link"];
    let (mut open, mut all) = (Vec::new(), Vec::new());
    let mut rest = html;
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').expect("a tag ends");
        rest = after;
        let name = tag.split([' ', '\n']).next().unwrap_or_default().to_owned();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name), "before {after:.60}"),
            None if name == "!DOCTYPE" || VOID.contains(&name.as_str()) => {}
            None => {
                open.push(name.clone());
                all.push(name);
            }
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
    all
}

#[test]
fn a_fall_back_to_disk_is_on_the_page() {
    let mut record = eventful();
    let (why, rebuilt) = ("group 0 lost PEs 1,3, parity 1".to_owned(), Vec::new());
    let what = What::FellBack { checkpoint: CheckpointNumber(2), set: 7, why, rebuilt };
    let time = record.events.last().expect("an event").time;
    record.events.push(Event { time, what });
    let page = page(&record);
    let words = "More was lost than the parity covers (group 0 lost PEs 1,3, parity 1): all PEs \
                 began again from set 7 on disk.";
    assert!(page.contains(words), "`{words}` is not in\n{page}");
}

#[test]
fn a_recovery_of_new_groups_has_no_map_of_the_old_ones() {
    let mut record = eventful();
    let old = "Group 0: PEs 0-3 in 4 stripes; PEs 1,3 lost all chunks and parities";
    assert!(page(&record).contains(old));
    let (group_of, survives) = (vec![0, 0, 1, 1], String::new());
    let what = ProgressReport::Regrouped { checkpoint: CheckpointNumber(2), group_of, survives };
    record.events.push(Event { time: Duration::from_secs(5), what: what.into() });
    let page = page(&record);
    assert!(!page.contains(old) && page.contains("there is no map of the new ones"), "{page}");
    let before = "Group 0: PEs 0-3 in 4 stripes; memory of PE 2 was adopted as it was.";
    assert!(page.contains(before), "the first loss was in the old groups");
}

#[test]
fn all_that_happened_is_on_the_page() {
    let page = page(&eventful());
    elements(&page);
    for words in [
        "<h1>./jacobi 64</h1>",
        "4 PEs on 4 nodes, mode raid5",
        "Ended well; lost 2 PEs and 1 node, of which not all were replaced.",
        "At 3.00 s PE 2 was killed by SIGKILL.",
        "1.00 s of work was lost",
        "The substitute of PE 2 adopted the memory that the dead process had left: 1.0 MiB.",
        "All PEs resumed from checkpoint 2 after 400.0 ms.",
        "At 6.00 s node 1 was lost with PE 1.",
        "A substitute took over PE 1 on node 0 after 1.00 s.",
        "PE 1 was rebuilt from PEs 0,2,3: 1.0 MiB in 300.0 ms.",
        "The job ended before all PEs had resumed.",
        "Group 0: PEs 0-3 in 4 stripes; memory of PE 2 was adopted as it was.",
        "Group 0: PEs 0-3 in 4 stripes; PEs 1,3 lost all chunks and parities, made again \
         from those of PEs 0,2.",
        "parity 0 over PEs 1-3, which PE 0 holds",
        "<td class=\"line\">all &lt;b&gt;back&lt;/b&gt;</td>",
    ] {
        assert!(page.contains(words), "`{words}` is not in\n{page}");
    }
}

#[test]
fn user_input_is_escaped() {
    let mut record = eventful();
    let bad = "<script>alert(1)</script>\"'&".to_owned();
    record.job.program.clone_from(&bad);
    (record.job.host, record.job.since) = (bad.clone(), bad.clone());
    record.job.nodes.fill(bad.clone());
    record.job.survives = Some(bad.clone());
    (record.end.status, record.end.words) = (3, Some(bad.clone()));
    record.job.fabric.clone_from(&bad);
    record.job.raidshmem.clone_from(&bad);
    let (name, value, doc) = (bad.clone(), Some(bad.clone()), bad.clone());
    record.job.settings.push(SettingValue { name, value, default: false, doc });
    for event in &mut record.events {
        if let What::Lost { cause, .. } = &mut event.what {
            cause.clone_from(&bad);
        }
    }
    let what = What::Said { line: bad.clone() };
    record.events.push(Event { time: Duration::ZERO, what });
    let html = page(&record);
    let all = elements(&html);
    assert!(!all.iter().any(|name| name == "script"), "{html}");
    assert!(html.contains("&lt;script&gt;"), "it is shown as text");
    record.job.mode = bad;
    elements(&page(&record));
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let html = page(&eventful());
    assert!(!html.contains("://") && !html.contains("@import") && !html.contains(" src="));
    let named = html.split("url(").skip(1).all(|rest| rest.starts_with('#'));
    let linked = html.split("href=\"").skip(1).all(|rest| rest.starts_with(['#', 'd']));
    assert!(named && linked, "only parts of the page itself");
}

#[test]
fn a_quiet_job_and_an_odd_one_have_a_page() {
    let html = page(&record());
    elements(&html);
    assert!(
        html.contains("Ended well; nothing was lost.") && html.contains("No checkpoint was made")
    );
    for mode in ["none", "single", "double", "raid4", "rs", "x"] {
        let mut record = eventful();
        record.job.mode = mode.to_owned();
        (record.job.parity, record.end.status) = (2, 3);
        elements(&page(&record));
        record.job.parity = 99;
        record.end.ran = Duration::ZERO;
        elements(&page(&record));
    }
    let mut record = record();
    (record.totals.data, record.totals.kept) = (u64::MAX, u64::MAX);
    record.checkpoints = vec![Span {
        count: 0,
        first: 9,
        last: 1,
        begin: Duration::from_secs(10_000_000_000),
        end: Duration::ZERO,
        took: Duration::from_secs(10_000_000_000),
        longest: Duration::from_secs(10_000_000_000),
    }];
    elements(&page(&record));
}

#[test]
fn the_page_of_a_large_job_is_bounded() {
    let mut record = eventful();
    record.job.node_of = (0..16_000).map(|pe| pe / 8).collect();
    record.job.nodes = (0..2000).map(|node| format!("n{node}")).collect();
    record.job.groups =
        (0..250).map(|group| (0..64).map(|place| Pe(group + place * 250)).collect()).collect();
    record.at_end = (0..16_000).map(|pe| AtEnd { pe: Pe(pe), ..AtEnd::default() }).collect();
    for number in 0..4096u32 {
        let (time, pes) = (Duration::from_millis(9000 + u64::from(number)), vec![Pe(number)]);
        let what = What::Lost { pes, node: None, cause: "died".to_owned(), drained: false };
        record.events.push(Event { time, what });
        let (checkpoint, took) = (CheckpointNumber(1), Duration::ZERO);
        let what = ProgressReport::Resumed { checkpoint, view: ViewNumber(2), took }.into();
        record.events.push(Event { time, what });
    }
    let html = page(&record);
    elements(&html);
    assert!(html.len() < 16 << 20, "{} bytes", html.len());
    assert!(html.contains("15952 others"), "lanes are for those that were lost");
}
