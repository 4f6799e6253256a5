//! The audit with real files: damage is found, and writing continues where it can.

use super::Audit;
use super::audit_file::{AuditFile, AuditPaths, files};
use super::line::{AuditedCall, LineKind};
use super::read::{AuditQuery, read};
use super::verify::{AuditReport, verify};
use crate::registry::Registry;
use proctor_core::access::Caller;
use proctor_core::config::security::Audit as Settings;
use proctor_core::home::Home;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

struct Scene {
    _folder: TempDir,
    place: AuditPaths,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let place = AuditPaths { folder: at("audit"), head: at("head"), anchor: at("services.json") };
    Scene { _folder: folder, place }
}

fn intent(target: &str) -> LineKind {
    LineKind::Intent(AuditedCall::new(&Caller::local(7), "service.stop", &[target.to_owned()]))
}

impl Scene {
    fn open(&self) -> AuditFile {
        AuditFile::open(&self.place, Settings::USUAL, true).unwrap()
    }

    /// A daemon that writes this many operations, begun and finished.
    fn written(count: u64) -> Scene {
        let scene = scene();
        scene.write(count);
        scene
    }

    fn write(&self, count: u64) {
        let mut book = self.open();
        for number in 0..count {
            let of = book.append(vec![intent(&format!("service-{number}"))]).unwrap();
            book.append(vec![LineKind::Result { of, code: "ok".into(), millis: 1 }]).unwrap();
        }
    }

    fn verify(&self) -> AuditReport {
        verify(&self.place).unwrap()
    }

    fn newest(&self) -> PathBuf {
        files(&self.place.folder).unwrap().pop().unwrap().1
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(self.newest()).unwrap().lines().map(String::from).collect()
    }

    fn set_lines(&self, lines: &[String]) {
        fs::write(self.newest(), lines.iter().map(|line| format!("{line}\n")).collect::<String>())
            .unwrap();
    }

    /// The findings of `verify` after this damage of the lines.
    fn after(count: u64, damage: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
        let scene = Scene::written(count);
        let mut lines = scene.lines();
        damage(&mut lines);
        scene.set_lines(&lines);
        let name = format!("{}:", scene.newest().display());
        scene.verify().problems.into_iter().map(|it| it.replace(&name, "")).collect()
    }
}

#[test]
fn what_was_written_is_found_right_and_goes_on_with_the_next_daemon() {
    let scene = Scene::written(3);
    let verdict = scene.verify();
    assert_eq!((verdict.files, verdict.lines, verdict.first, verdict.last), (1, 7, 1, 7));
    assert_eq!((verdict.problems.len(), verdict.notes.len()), (0, 0), "{verdict:?}");
    scene.write(1);
    let verdict = scene.verify();
    assert_eq!((verdict.lines, verdict.problems.len(), verdict.unfinished.len()), (10, 0, 0));
}

#[test]
fn what_was_begun_and_not_finished_is_visible() {
    let scene = Scene::written(1);
    scene.open().append(vec![intent("web")]).unwrap();
    assert_eq!(scene.verify().unfinished, [5]);
    let query = AuditQuery { most: 10, code: Some("unfinished".into()), ..AuditQuery::default() };
    let found = read(&scene.place, &query).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].seq, found[0].code.as_deref()), (5, None));
}

#[test]
fn an_altered_removed_inserted_or_moved_line_is_found_where_it_is() {
    let check = |damage: fn(&mut Vec<String>), expected: &[&str]| {
        assert_eq!(Scene::after(3, damage), expected);
    };
    check(
        |lines| lines[3] = lines[3].replace("service-1", "service-9"),
        &["4: was altered: its hash does not match"],
    );
    check(|lines| drop(lines.remove(3)), &["4: record 4 is missing before record 5"]);
    check(|lines| drop(lines.drain(1..4)), &["2: records 2 to 4 are missing before record 5"]);
    check(
        |lines| lines.swap(3, 4),
        &[
            "4: record 4 is missing before record 5",
            "5: record 4 follows record 5: inserted, repeated or moved",
            "6: record 6 does not follow the one before it",
        ]
        .map(|it| if it.starts_with("6") { "6: record 5 is missing before record 6" } else { it }),
    );
    check(
        |lines| lines.insert(3, lines[1].clone()),
        &[
            "4: record 2 follows record 3: inserted, repeated or moved",
            "5: record 3 is missing before record 4",
        ],
    );
    check(|lines| lines.insert(3, "{}".into()), &["4: is not a line of the audit"]);
    check(|lines| lines.truncate(5), &["records 6 to 7 are missing at the end"]);
    check(|lines| lines.clear(), &["records 1 to 7 are missing at the end"]);
    check(|lines| drop(lines.drain(..2)), &["records 1 to 2 are missing at the beginning"]);
}

#[test]
fn a_line_written_anew_with_its_hash_breaks_the_next() {
    let problems = Scene::after(3, |lines| {
        let (mut line, _) = super::line::AuditLine::decode(lines[3].as_bytes()).unwrap();
        line.what = intent("another");
        lines[3] = line.encode().0.trim_end().to_owned();
    });
    assert_eq!(problems, ["5: record 5 does not follow the one before it"]);
}

#[test]
fn a_chain_rewritten_to_its_end_is_known_by_the_head() {
    let problems = Scene::after(2, |lines| {
        let mut prev = super::line::GENESIS.to_owned();
        for text in lines {
            let (mut line, _) = super::line::AuditLine::decode(text.as_bytes()).unwrap();
            line.prev = prev;
            line.at = "2020-01-01T00:00:00.000000Z".into();
            let (encoded, hash) = line.encode();
            *text = encoded.trim_end().to_owned();
            prev = hash;
        }
    });
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].ends_with("head has another hash for record 5"), "{problems:?}");
}

#[test]
fn an_unfinished_line_stays_and_the_next_daemon_says_so() {
    let scene = Scene::written(2);
    let mut book = scene.open();
    let (length, head) = (fs::read(scene.newest()).unwrap().len(), fs::read(&scene.place.head));
    book.append(vec![intent("web")]).unwrap();
    drop(book);
    let (whole, head) = (fs::read(scene.newest()).unwrap(), head.unwrap());
    for cut in length..whole.len() {
        // As if the writer had been killed at this byte.
        fs::write(scene.newest(), &whole[..cut]).unwrap();
        fs::write(&scene.place.head, &head).unwrap();
        let before = scene.verify();
        assert_eq!(before.problems, [""; 0]);
        scene.write(1);
        let after = scene.verify();
        assert_eq!(after.problems, [""; 0], "{cut} of {}", whole.len());
        let (nothing, only_end) = (cut == length, cut + 1 == whole.len());
        assert_eq!(after.notes.is_empty(), nothing || only_end, "{cut}: {after:?}");
        assert_eq!(after.unfinished.len(), usize::from(only_end), "{cut}: {after:?}");
        let now = fs::read(scene.newest()).unwrap();
        assert!(now.starts_with(&whole[..cut]), "something was removed");
    }
}

#[test]
fn an_altered_last_line_does_not_pass_for_an_unfinished_one() {
    let scene = Scene::written(2);
    let mut lines = scene.lines();
    lines[4] = lines[4].replace("\"ok\"", "\"no\"");
    scene.set_lines(&lines);
    scene.write(1);
    let problems = scene.verify().problems;
    assert!(problems[0].contains("was altered"), "{problems:?}");
    assert!(problems[1].contains("records 5 to 5 are missing; a daemon noticed"), "{problems:?}");
}

#[test]
fn a_last_line_written_anew_with_its_hash_is_told_by_the_next_daemon_for_ever() {
    let forge = |scene: &Scene, at: usize| {
        let mut lines = scene.lines();
        let mut prev = None;
        for text in &mut lines[at..] {
            let (mut line, _) = super::line::AuditLine::decode(text.as_bytes()).unwrap();
            line.at = "2020-01-01T00:00:00.000000Z".into();
            line.prev = prev.unwrap_or(line.prev);
            let (encoded, hash) = line.encode();
            (*text, prev) = (encoded.trim_end().to_owned(), Some(hash));
        }
        scene.set_lines(&lines);
    };
    let check = |scene: &Scene, record: u64| {
        scene.write(1);
        scene.write(1);
        let problems = scene.verify().problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        let expected = format!("record {record} was altered; a daemon noticed");
        assert!(problems[0].contains(&expected), "{problems:?}");
    };
    let scene = Scene::written(2);
    forge(&scene, 4);
    check(&scene, 5);
    // A writer that was killed before it wrote the head leaves lines that the head does not know.
    let scene = Scene::written(2);
    let head = fs::read(&scene.place.head).unwrap();
    scene.open().append(vec![intent("web")]).unwrap();
    fs::write(&scene.place.head, &head).unwrap();
    drop(scene.open());
    assert_eq!(scene.verify().problems, [""; 0]);
    fs::write(&scene.place.head, &head).unwrap();
    forge(&scene, 4);
    check(&scene, 5);
}

#[test]
fn lines_cut_off_while_nobody_wrote_are_told_by_the_next_daemon_for_ever() {
    let scene = Scene::written(3);
    scene.set_lines(&scene.lines()[..4]);
    scene.write(1);
    scene.write(1);
    let verdict = scene.verify();
    assert_eq!(verdict.problems.len(), 1, "{verdict:?}");
    assert!(verdict.problems[0].contains("records 5 to 7 are missing; a daemon noticed"));
    // The whole folder, too.
    fs::remove_dir_all(&scene.place.folder).unwrap();
    assert!(scene.verify().problems[0].contains("are missing at the end"));
    scene.write(1);
    assert!(scene.verify().problems[0].contains("are missing; a daemon noticed"));
}

#[test]
fn a_head_that_is_gone_is_told() {
    let scene = Scene::written(1);
    fs::remove_file(&scene.place.head).unwrap();
    assert!(scene.verify().problems[0].contains("head is missing"));
    scene.write(1);
    let verdict = scene.verify();
    assert_eq!(verdict.problems.len(), 1);
    assert!(verdict.problems[0].contains("found lines and no audit.head"), "{verdict:?}");
}

#[test]
fn files_follow_each_other_and_the_oldest_go() {
    let scene = scene();
    let settings = Settings { max_size: 2000, max_files: 3, ..Settings::USUAL };
    let mut book = AuditFile::open(&scene.place, settings, true).unwrap();
    for number in 0..100 {
        book.append(vec![intent(&format!("s{number}"))]).unwrap();
    }
    let kept = files(&scene.place.folder).unwrap();
    assert_eq!(kept.len(), 3);
    assert!(kept[0].0 > 1, "{kept:?}");
    let verdict = scene.verify();
    assert_eq!((verdict.problems.len(), verdict.last), (0, 101), "{verdict:?}");
    assert!(verdict.first > 1 && verdict.notes[0].contains("dropped by rotation"));
    let query = AuditQuery { most: 15, ..AuditQuery::default() };
    let found = read(&scene.place, &query).unwrap();
    let seqs: Vec<u64> = found.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (87..=101).collect::<Vec<u64>>());
    // A file that was not dropped by rotation is reported as missing.
    fs::remove_file(&kept[0].1).unwrap();
    assert!(scene.verify().problems[0].contains("are missing at the beginning"));
    fs::remove_file(&kept[2].1).unwrap();
    assert!(scene.verify().problems.iter().any(|it| it.contains("are missing at the end")));
}

#[test]
fn what_cannot_be_written_is_an_error_and_can_be_written_later() {
    let scene = Scene::written(1);
    let mut book = scene.open();
    let aside = scene.place.folder.with_extension("aside");
    fs::remove_file(scene.newest()).unwrap();
    assert!(book.append(vec![intent("web")]).is_err(), "written into a file that is gone");
    drop(book);
    fs::rename(&scene.place.folder, &aside).unwrap();
    assert!(
        AuditFile::open(&scene.place, Settings::USUAL, false).is_err(),
        "the folder was made again"
    );
    fs::rename(&aside, &scene.place.folder).unwrap();
    assert!(AuditFile::open(&scene.place, Settings::USUAL, false).is_ok());
}

#[test]
fn entries_are_found_by_who_what_and_how_it_ended() {
    let scene = scene();
    let mut book = scene.open();
    for (number, code) in ["ok", "failed", "ok"].into_iter().enumerate() {
        let of = book.append(vec![intent(&format!("s{number}"))]).unwrap();
        book.append(vec![LineKind::Result { of, code: code.into(), millis: 5 }]).unwrap();
    }
    let call = AuditedCall::new(&Caller::local(9), "daemon.stop", &[]);
    book.append(vec![LineKind::Refused { call, code: "forbidden".into() }]).unwrap();
    let find = |change: fn(&mut AuditQuery)| {
        let mut query = AuditQuery { most: 10, ..AuditQuery::default() };
        change(&mut query);
        let found = read(&scene.place, &query).unwrap();
        found.into_iter().map(|entry| entry.seq).collect::<Vec<u64>>()
    };
    assert_eq!(find(|_| ()), [1, 2, 4, 6, 8]);
    assert_eq!(find(|query| query.code = Some("ok".into())), [2, 6]);
    assert_eq!(find(|query| query.code = Some("forbidden".into())), [8]);
    assert_eq!(find(|query| query.target = Some("s1".into())), [4]);
    assert_eq!(find(|query| query.operation = Some("daemon.stop".into())), [8]);
    assert_eq!(find(|query| query.who = Some("7".into())), [2, 4, 6]);
    assert_eq!(find(|query| query.most = 2), [6, 8]);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_does_not_answer_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home { state: folder.path().into(), runtime: folder.path().join("run") };
    // An audit whose writer never runs.
    let (audit, _writer) = Audit::new(&home, Arc::new(Registry::new()));
    let call = || AuditedCall::new(&Caller::local(7), "service.stop", &[]);
    for unavailable in [
        audit.begin(call()).await.map(drop).unwrap_err(),
        audit.saw(call(), "ok", 0).await.unwrap_err(),
    ] {
        assert!(unavailable.to_string().contains("its disk does not respond"), "{unavailable}");
    }
}

#[test]
fn an_audit_that_is_removed_as_a_whole_is_missed_before_and_after_the_next_daemon() {
    let scene = Scene::written(3);
    let anchor = scene.open().anchor();
    let stored = serde_json::json!({"version": 1, "audit": anchor});
    fs::write(&scene.place.anchor, stored.to_string()).unwrap();
    assert_eq!(scene.verify().problems, [""; 0]);
    // More was written since.
    scene.write(2);
    assert_eq!(scene.verify().problems, [""; 0]);
    fs::remove_dir_all(&scene.place.folder).unwrap();
    fs::remove_file(&scene.place.head).unwrap();
    let missing = format!("records 1 to {} are missing", anchor.seq);
    let problems = scene.verify().problems;
    assert!(problems.iter().any(|problem| problem.contains(&missing)), "{problems:?}");
    scene.write(1);
    let problems = scene.verify().problems;
    assert!(problems.iter().any(|problem| problem.contains(&missing)), "{problems:?}");
}

#[test]
fn an_audit_that_is_made_anew_is_not_the_one_that_is_known() {
    let scene = Scene::written(3);
    let stored = serde_json::json!({"version": 1, "audit": scene.open().anchor()});
    let other = Scene::written(9);
    fs::write(&other.place.anchor, stored.to_string()).unwrap();
    let problems = other.verify().problems;
    assert!(
        problems.iter().any(|it| it.contains("does not match the one recorded in services.json")),
        "{problems:?}"
    );
}
