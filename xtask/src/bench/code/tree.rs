//! The tree to search: generated, always the same, in a git repository.

use super::super::adapters::write;
use crate::step::succeed;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules × parts × files: a large project, with 20 KB a file.
const PARTS: usize = 25;
const FILES: usize = 10;
const AVERAGE: usize = 20_000;

/// Entries of the listed folder.
pub(super) const WIDE: usize = 500;

/// Size of the file that is read and edited; every server shows it at once.
pub(super) const PAGE: usize = 20_000;

/// One edit replaces this text, and the next restores it.
pub(super) const BEFORE: &str = "    let limit = settings.limit(17);\n";
pub(super) const AFTER: &str = "    let limit = settings.limit(23);\n";

const WORDS: &[&str] = &[
    "account", "buffer", "channel", "deadline", "entry", "folder", "gateway", "handler", "index",
    "journal", "kernel", "ledger", "message", "number", "owner", "packet", "queue", "record",
    "session", "table", "update", "value", "window", "request", "stream", "cursor",
];

pub(crate) struct Tree {
    pub(crate) folder: PathBuf,
    pub(crate) files: usize,
    pub(crate) bytes: usize,
}

impl Tree {
    /// Creates a tree of about `bytes` bytes.
    pub(crate) fn make(folder: PathBuf, bytes: usize) -> Result<Tree> {
        let mut tree = Tree { folder, files: 0, bytes: 0 };
        let modules = bytes.div_ceil(PARTS * FILES * AVERAGE);
        for file in 0..modules * PARTS * FILES {
            let (part, module) = (file / FILES % PARTS, file / FILES / PARTS);
            let path = format!("src/module_{module:02}/part_{part:02}/file_{file:05}.rs");
            tree.put(&path, &source(file as u64))?;
        }
        for entry in 0..WIDE {
            tree.put(&format!("wide/entry_{entry:03}.txt"), &format!("entry {entry}\n"))?;
        }
        tree.put("page.rs", &page())?;
        tree.put(".gitignore", "build/\n")?;
        tree.put("build/ignored.rs", &"// mark_of_the_tree\n".repeat(1000))?;
        tree.commit()?;
        tree.put("notes.txt", "not known to git\n")?;
        tree.put("wide/entry_000.txt", "changed\n")?;
        Ok(tree)
    }

    fn put(&mut self, path: &str, text: &str) -> Result<()> {
        (self.files, self.bytes) = (self.files + 1, self.bytes + text.len());
        write(&self.folder.join(path), text)
    }

    fn commit(&self) -> Result<()> {
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(&self.folder).args(["-c", "user.name=A", "-c", "user.email=a@b.c"]);
            git.args(words);
            succeed(git)
        };
        git(&["init", "--quiet", "--initial-branch", "main"])?;
        // Uncompressed objects are written faster, and nobody reads them.
        git(&["-c", "core.compression=0", "add", "."])?;
        git(&["commit", "--quiet", "--message", "everything"])
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The folder's name for the servers.
pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the folder has a name that is not text")
}

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.roll(WORDS.len())]
    }
}

/// One file: functions of lines of words. A few have a mark, some have a function that handles
/// something.
fn source(number: u64) -> String {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let size = AVERAGE / 10 + dice.roll(AVERAGE * 18 / 10);
    let mut text = format!("//! File {number}.\n\n");
    if number.is_multiple_of(700) {
        text += "// mark_of_the_tree\n";
    }
    if number.is_multiple_of(20) {
        text += &format!("pub fn handle_{}_{number:05}() {{}}\n\n", dice.word());
    }
    while text.len() < size {
        function(&mut text, &mut dice);
    }
    text
}

fn function(text: &mut String, dice: &mut Dice) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "fn {}_{}({}: u64) {{", dice.word(), dice.roll(1000), dice.word());
    for _ in 0..5 + dice.roll(20) {
        let (name, number) = (dice.word(), dice.roll(100_000));
        let (one, other, note) = (dice.word(), dice.word(), dice.word());
        let _ = writeln!(text, "    let {name} = {one}.{other}({number}); // {note}");
    }
    text.push_str("}\n\n");
}

/// The page, with one line that edits change.
fn page() -> String {
    let mut text = String::from("fn page() {\n");
    let mut dice = Dice(7);
    while text.len() < PAGE / 2 {
        function(&mut text, &mut dice);
    }
    text += BEFORE;
    while text.len() < PAGE - 2000 {
        function(&mut text, &mut dice);
    }
    let rest = "/".repeat(PAGE - 1 - text.len());
    text + &rest + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_same_each_time_and_have_what_is_looked_for() {
        assert_eq!(source(700), source(700));
        assert_ne!(source(1), source(2));
        assert!(source(700).contains("mark_of_the_tree") && !source(1).contains("mark_of"));
        assert!(source(20).contains("pub fn handle_"));
        let page = page();
        assert_eq!((page.len(), page.matches(BEFORE).count()), (PAGE, 1));
        assert!(!page.contains(AFTER));
    }
}
