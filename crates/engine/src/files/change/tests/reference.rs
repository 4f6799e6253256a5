//! Diffs of git for a few files that were changed, moved, copied, swapped and deleted at once. The result
//! equals that of `git apply`, and strict mode rejects what git rejects. `EDIT_CASES` (a number) makes it long.

use super::*;
use std::collections::BTreeMap;
use std::process::{Command, Output};

const CASES: u64 = 15;

const NAMES: &[&str] = &["f", "g h", "sub/k", "x b/x", "ünï", "q\"t", "a/b", "b/c", "w/i", "new"];

type Tree = BTreeMap<String, (Vec<u8>, bool)>;

/// Random numbers with a fixed seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

fn content(dice: &mut Dice) -> Vec<u8> {
    let words = ["a", "b", "- x", "-- ", "+++ b/f", "@@ -1 +1 @@", "rename from x", "\\ no"];
    let count = [0, 1, 6, 30][dice.below(4)];
    let mut text: String =
        (0..count).map(|_| format!("{}{}\n", dice.pick(&words), dice.below(40))).collect();
    if dice.below(4) == 0 {
        text.pop();
    }
    text.into_bytes()
}

/// Random changes of the files.
fn changed(mut tree: Tree, dice: &mut Dice) -> Tree {
    let names: Vec<String> = tree.keys().cloned().collect();
    for name in &names {
        let Some((content_now, executable)) = tree.get(name).cloned() else { continue };
        let other = dice.pick(NAMES).to_owned();
        let beside = (content_now.clone(), executable);
        match dice.below(8) {
            0 => drop(tree.remove(name)),
            1 if !tree.contains_key(&other) => {
                drop(tree.remove(name).map(|it| tree.insert(other, it)))
            }
            2 if !tree.contains_key(&other) => {
                tree.insert(other, beside);
                tree.insert(name.clone(), ([&content_now[..], b"more\n"].concat(), executable));
            }
            3 if tree.contains_key(&other) => {
                let there = tree.insert(other, beside).unwrap();
                tree.insert(name.clone(), there);
            }
            4 => drop(tree.insert(name.clone(), (content_now, !executable))),
            5 => drop(tree.insert(name.clone(), (content(dice), executable))),
            6 => {
                let mut lines: Vec<&[u8]> =
                    content_now.split_inclusive(|it| *it == b'\n').collect();
                let at = dice.below(lines.len() + 1);
                lines.insert(at, b"put in\n");
                tree.insert(name.clone(), (lines.concat(), executable));
            }
            _ => {}
        }
    }
    // A file cannot be a folder.
    tree.into_iter().filter(|(name, _)| !matches!(name.as_str(), "a" | "b" | "w")).collect()
}

fn write(folder: &Path, tree: &Tree) {
    for (name, (content, executable)) in tree {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let mode = if *executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn read(folder: &Path) -> Tree {
    let files = all_names(folder).into_iter().filter(|path| Path::new(path).is_file());
    let own = files.filter(|path| !path.contains("/.git/"));
    own.map(|path| {
        let name = Path::new(&path).strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        let executable = fs::metadata(&path).unwrap().mode() & 0o100 != 0;
        (name, (fs::read(&path).unwrap(), executable))
    })
    .collect()
}

fn git(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("git");
    command.args(["-c", "core.autocrlf=false"]).args(words).current_dir(folder);
    // Otherwise a repository further up would be used.
    command.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command.output().unwrap()
}

/// Adds a tree to the index of a repository.
fn index(folder: &Path, tree: &Tree) -> String {
    for name in read(folder).keys() {
        fs::remove_file(folder.join(name)).unwrap();
    }
    write(folder, tree);
    assert!(git(folder, &["add", "-A"]).status.success());
    String::from_utf8(git(folder, &["write-tree"]).stdout).unwrap().trim().to_owned()
}

/// The files that a diff is applied to: its originals, or with lines inserted at the start of some.
fn there(old: &Tree, dice: &mut Dice) -> Tree {
    let mut tree = old.clone();
    if dice.below(3) == 0 {
        for (content_now, _) in tree.values_mut() {
            let more = if dice.below(2) == 0 { content(dice) } else { Vec::new() };
            let ended = more.is_empty() || more.ends_with(b"\n");
            content_now.splice(0..0, more.into_iter().chain((!ended).then_some(b'\n')));
        }
    }
    tree
}

#[test]
fn what_git_makes_of_its_diffs_we_make_of_them() {
    let scene = Scene::new();
    let repo = scene.place.path("repo");
    fs::create_dir(&repo).unwrap();
    assert!(git(&repo, &["init", "-q"]).status.success());
    let cases = std::env::var("EDIT_CASES").ok().and_then(|text| text.parse().ok());
    let (cases, mut refused): (u64, _) = (cases.unwrap_or(CASES), 0);
    for case in 0..cases {
        let mut dice = Dice(case);
        let count = 3 + dice.below(4);
        let names: Vec<&str> = (0..count).map(|_| dice.pick(NAMES)).collect();
        let old: Tree = names
            .into_iter()
            .map(|name| (name.to_owned(), (content(&mut dice), dice.below(4) == 0)))
            .collect();
        let new = changed(old.clone(), &mut dice);
        let (around, there) = ([3, 3, 1, 0][dice.below(4)], there(&old, &mut dice));
        let before = index(&repo, &old);
        index(&repo, &new);
        let found: &[&str] = [
            &["-M"][..],
            &["-C", "--find-copies-harder"],
            &["-B", "-M"],
            &["-B10%/10%", "-C5%"],
            &["--no-renames"],
        ][case as usize % 5];
        let sides = ["diff.noprefix", "diff.mnemonicPrefix", "diff.renames"][case as usize % 3];
        let bare = sides == "diff.noprefix";
        let (sides_now, around_now) = (format!("{sides}=true"), format!("-U{around}"));
        let words = ["-c", &sides_now, "diff", "--cached", "--text", &around_now, &before];
        let text = git(&repo, &[&words[..], found].concat()).stdout;
        if text.is_empty() {
            continue;
        }
        let theirs = scene.place.path(&format!("theirs{case}"));
        write(&theirs, &there);
        fs::create_dir_all(&theirs).unwrap();
        fs::write(scene.place.path("diff"), &text).unwrap();
        let strip = if bare { "-p0" } else { "-p1" };
        let applied = git(&theirs, &["apply", strip, "--whitespace=nowarn", "../diff"]);
        let folder = format!("t{case}");
        write(&scene.place.path("app").join(&folder), &there);
        let strict = case % 2 == 0;
        let query = DiffQuery {
            text: text.clone(),
            folder: Some(folder.clone()),
            strict,
            ..DiffQuery::default()
        };
        let ours = scene.run(scene.files.apply_diff(query, wish()));
        let scene_of =
            || format!("case {case} {sides} {found:?}\n{}", String::from_utf8_lossy(&text));
        let (git_takes, usual) = (applied.status.success(), there == old && around == 3);
        if usual && git_takes {
            assert_eq!(read(&theirs), new, "{}", scene_of());
            ours.as_ref().unwrap_or_else(|why| panic!("{why}: {}", scene_of()));
        }
        refused += u64::from(usual && !git_takes);
        if strict && ours.is_ok() {
            assert!(git_takes, "{}: {}", String::from_utf8_lossy(&applied.stderr), scene_of());
        }
        if ours.is_ok() && (strict || usual && git_takes) {
            let now = read(&scene.place.path("app").join(&folder));
            assert_eq!(now, read(&theirs), "{}", scene_of());
        }
    }
    assert!(refused <= cases / 10, "git refuses {refused} of {cases}");
    scene.is_tidy();
}
