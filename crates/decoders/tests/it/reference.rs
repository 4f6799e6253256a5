//! Compares our diffs with those of `diff`, `patch` and `git apply`: we apply theirs, they apply
//! ours, and we refuse the hunks they refuse. `EDIT_CASES` (a number) sets the length of the test.

use proctor_core::diff::{FileNames, MatchMode, Patch, Reading, apply, compare, parse, unified};
use proctor_decoders::mutation::Chance;
use std::path::Path;
use std::process::{Command, Output};

/// Files in one run of each program.
const CASES: usize = 400;

fn cases() -> usize {
    std::env::var("EDIT_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

/// Lines of which many are equal, with all kinds of endings and non-text bytes.
const LINES: &[&[u8]] = &[
    b"a\n",
    b"b\n",
    b"c\r\n",
    b"\n",
    b"-d\n",
    b"+e\n",
    b"--- x\n",
    b"+++ y\n",
    b"\\ f\n",
    b"\xff\xfe\n",
    b" g \n",
    b"a\r\n",
    b"@@ -1 +1 @@\n",
];
const LAST: &[&[u8]] = &[b"", b"", b"end", b"end\n", b"\r", b"\xe4"];

fn content(chance: &mut Chance) -> Vec<u8> {
    let lines: Vec<&[u8]> =
        (0..chance.below(30)).map(|_| LINES[chance.below(LINES.len())]).collect();
    [lines.concat(), LAST[chance.below(LAST.len())].to_vec()].concat()
}

/// Returns the content with a few lines changed, added or removed.
fn changed(content: &[u8], chance: &mut Chance, most: usize) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    for _ in 0..=chance.below(most) {
        // The last line may have no ending, and then nothing follows it.
        let at = chance.below(lines.len());
        match chance.below(3) {
            0 if at < lines.len() => drop(lines.remove(at)),
            1 if at + 1 < lines.len() => lines[at] = LINES[chance.below(LINES.len())],
            _ => lines.insert(at, LINES[chance.below(LINES.len())]),
        }
    }
    lines.concat()
}

fn write(folder: &Path, number: usize, content: &[u8]) {
    std::fs::write(folder.join(format!("f{number}")), content).unwrap();
}

fn read(folder: &Path, number: usize) -> Vec<u8> {
    std::fs::read(folder.join(format!("f{number}"))).unwrap_or_default()
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("LC_ALL", "C");
    // Otherwise git would use a repository in a parent folder.
    command.env("GIT_CEILING_DIRECTORIES", folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

fn folders(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    names.iter().for_each(|name| std::fs::create_dir(folder.path().join(name)).unwrap());
    folder
}

#[test]
fn what_diff_and_git_write_we_apply() {
    let (folder, mut chance) = (folders(&["old", "new"]), Chance::new(7));
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    for number in 0..cases() {
        let before = content(&mut chance);
        write(&old, number, &before);
        write(&new, number, &changed(&before, &mut chance, 6));
    }
    let by_diff = run(folder.path(), "diff", &["-a", "-u", "-r", "-d", "old", "new"]).stdout;
    let git = ["diff", "--no-index", "--text", "--no-color", "--minimal", "old", "new"];
    let by_git = run(folder.path(), "git", &git).stdout;
    for text in [by_diff, by_git] {
        let patches = parse(&text, Reading::Strict).unwrap();
        assert!(patches.len() > cases() / 2, "{} files differ", patches.len());
        for patch in &patches {
            let number = number_of(patch);
            let (before, after) = (read(&old, number), read(&new, number));
            let applied = apply(&before, &patch.hunks, MatchMode::default()).unwrap();
            assert_eq!(applied.content, after, "{}", before.escape_ascii());
            // No other diff has fewer lines than ours.
            let ours: usize =
                compare(&before, &after).iter().map(|it| it.old.len() + it.new.len()).sum();
            let changes = |patch: &Patch| {
                let lines = patch.hunks.iter().flat_map(|hunk| &hunk.lines);
                lines.filter(|line| line.sign != proctor_core::diff::Sign::Same).count()
            };
            assert!(ours <= changes(patch), "{} {}", before.escape_ascii(), after.escape_ascii());
        }
    }
}

#[test]
fn what_git_writes_for_a_mail_we_apply() {
    let lines = |skip: usize, other: usize| -> String {
        let line =
            |n: usize| if n == other { format!("other {n}\n") } else { format!("line {n}\n") };
        (1..=20).filter(|n| *n != skip).map(line).collect()
    };
    let old = lines(0, 0);
    // In the middle, at the end, and both; and with the last lines removed.
    for new in [lines(0, 10), lines(0, 20), lines(5, 20), lines(20, 0), lines(20, 19)] {
        let folder = folders(&[]);
        let git = |arguments: &[&str]| {
            let who = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
            let output = run(folder.path(), "git", &[&who[..], arguments].concat());
            assert!(output.status.success(), "{arguments:?}: {}", shown(&output));
            output.stdout
        };
        git(&["init", "-q"]);
        for content in [&old, &new] {
            write(folder.path(), 0, content.as_bytes());
            git(&["add", "f0"]);
            git(&["commit", "-q", "-m", "Change f0"]);
        }
        let text = git(&["format-patch", "-1", "--stdout"]);
        assert!(text.windows(5).any(|part| part == b"\n-- \n"), "{}", text.escape_ascii());
        for reading in [Reading::Strict, Reading::Lenient] {
            let patches = parse(&text, reading).unwrap();
            assert_eq!(patches.len(), 1);
            let applied = apply(old.as_bytes(), &patches[0].hunks, MatchMode::default());
            let content = applied.map(|applied| applied.content);
            assert_eq!(content.as_deref(), Ok(new.as_bytes()), "{}", text.escape_ascii());
        }
    }
}

/// The number in `…/f12`.
fn number_of(patch: &Patch) -> usize {
    let name = String::from_utf8(patch.new.clone().unwrap()).unwrap();
    name.rsplit_once("/f")
        .map_or(name.trim_start_matches('f'), |(_, number)| number)
        .parse()
        .unwrap()
}

#[test]
fn what_we_write_patch_and_git_apply() {
    let (folder, mut chance) = (folders(&["patch", "git"]), Chance::new(11));
    let (mut text, mut expected) = (Vec::new(), Vec::new());
    for number in 0..cases() {
        let before = content(&mut chance);
        let after = changed(&before, &mut chance, 6);
        write(&folder.path().join("patch"), number, &before);
        write(&folder.path().join("git"), number, &before);
        let name = format!("f{number}");
        text.extend(unified(FileNames::Changed(&name), &before, &after, 3));
        expected.push(after);
    }
    std::fs::write(folder.path().join("all.diff"), &text).unwrap();
    let patch = ["-p1", "-F0", "--binary", "-f", "-s", "-i", "../all.diff"];
    let git = ["apply", "--whitespace=nowarn", "../all.diff"];
    for (program, arguments) in [("patch", &patch[..]), ("git", &git)] {
        if program == "patch" && !has_patch() {
            continue;
        }
        let folder = folder.path().join(program);
        let output = run(&folder, program, arguments);
        assert!(output.status.success(), "{program}: {}", shown(&output));
        for (number, after) in expected.iter().enumerate() {
            assert_eq!(read(&folder, number), *after, "{program} f{number}");
        }
    }
}

/// `patch` is not on every machine; git is always compared.
fn has_patch() -> bool {
    Command::new("patch").arg("--version").output().is_ok()
}

fn shown(output: &Output) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&text[..text.len().min(4000)]).into_owned()
}

#[test]
fn on_another_content_we_do_what_patch_does() {
    if !has_patch() {
        return;
    }
    for fuzz in 0..=2 {
        let (folder, mut chance) = (folders(&["files"]), Chance::new(13 + fuzz as u64));
        let files = folder.path().join("files");
        let mut scenes = Vec::new();
        let mut text = Vec::new();
        for number in 0..cases() {
            let before = content(&mut chance);
            let diff = unified(
                FileNames::Changed(&format!("f{number}")),
                &before,
                &changed(&before, &mut chance, 2),
                3,
            );
            let other = changed(&before, &mut chance, 3);
            write(&files, number, &other);
            text.extend_from_slice(&diff);
            scenes.push((other, diff));
        }
        std::fs::write(folder.path().join("all.diff"), &text).unwrap();
        let fuzzy = format!("-F{fuzz}");
        let arguments =
            ["-p1", &fuzzy, "--binary", "-f", "--no-backup-if-mismatch", "-i", "../all.diff"];
        let output = run(&files, "patch", &arguments);
        let (mut fitted, mut refused, mut stricter) = (0, 0, 0);
        for (number, (other, diff)) in scenes.iter().enumerate() {
            let Some(patch) = parse(diff, Reading::Strict).unwrap().pop() else { continue };
            let ours = apply(other, &patch.hunks, MatchMode::AsPatch { fuzz, any_ends: false });
            let rejected = files.join(format!("f{number}.rej")).exists();
            let scene = || {
                format!(
                    "fuzz {fuzz} f{number}: {}\n{}",
                    other.escape_ascii(),
                    String::from_utf8_lossy(diff)
                )
            };
            if ours.is_err() && !rejected {
                // For `patch`, a line ignored by fuzz may be missing completely. We require that it
                // exists.
                stricter += 1;
                continue;
            }
            assert_eq!(ours.is_err(), rejected, "{}\n{}", scene(), shown(&output));
            match ours {
                Ok(applied) => assert_eq!(applied.content, read(&files, number), "{}", scene()),
                Err(_) => refused += 1,
            }
            fitted += usize::from(!rejected);
        }
        assert!(fitted > 20 && refused > 20, "{fitted} fit, {refused} do not");
        assert!(stricter <= if fuzz == 0 { 0 } else { cases() / 50 }, "stricter {stricter} times");
    }
}

#[test]
fn on_another_content_we_take_nothing_that_git_does_not() {
    let (folder, mut chance) = (folders(&["files"]), Chance::new(17));
    let files = folder.path().join("files");
    let (mut scenes, mut text) = (Vec::new(), Vec::new());
    for number in 0..cases() {
        let before = content(&mut chance);
        let after = changed(&before, &mut chance, 3);
        let name = format!("f{number}");
        let diff = unified(FileNames::Changed(&name), &before, &after, chance.below(4));
        // Some match the diff, some have extra lines before them, some differ.
        let other = match chance.below(3) {
            0 => before,
            1 => [LINES[..chance.below(LINES.len())].concat(), before].concat(),
            _ => changed(&before, &mut chance, 3),
        };
        write(&files, number, &other);
        text.extend_from_slice(&diff);
        scenes.push((other, diff));
    }
    std::fs::write(folder.path().join("all.diff"), &text).unwrap();
    let arguments = ["apply", "--reject", "--whitespace=nowarn", "../all.diff"];
    let output = run(&files, "git", &arguments);
    let (mut fitted, mut refused, mut stricter) = (0, 0, 0);
    for (number, (other, diff)) in scenes.iter().enumerate() {
        let Some(patch) = parse(diff, Reading::Strict).unwrap().pop() else { continue };
        let ours = apply(other, &patch.hunks, MatchMode::AsGit);
        let rejected = files.join(format!("f{number}.rej")).exists();
        match (ours, rejected) {
            (Ok(applied), false) => {
                fitted += 1;
                let (now, diff) = (read(&files, number), diff.escape_ascii());
                assert_eq!(applied.content, now, "f{number}: {}\n{diff}", other.escape_ascii());
            }
            (Ok(_), true) => panic!(
                "f{number}: {}\n{}\n{}",
                other.escape_ascii(),
                String::from_utf8_lossy(diff),
                shown(&output)
            ),
            (Err(_), true) => refused += 1,
            (Err(_), false) => stricter += 1,
        }
    }
    assert!(fitted > cases() / 8 && refused > cases() / 8, "{fitted} fit, {refused} do not");
    assert!(stricter <= cases() / 20, "stricter {stricter} times");
}
