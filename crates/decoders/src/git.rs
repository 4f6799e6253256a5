//! Output of git. A repository controls most of it: names, messages, authors.

use super::{choice, lossy};
use proctor_engine::git::answers;
use proctor_engine::git::{EntryState, Name};

const A: &str = "0123456789abcdef0123456789abcdef01234567";

/// Names are part of the input, and together no longer than it.
fn are_within<'a>(bytes: &[u8], names: impl IntoIterator<Item = &'a Name>) {
    let mut sum = 0;
    for Name(name) in names {
        let known = name.is_empty() || bytes.windows(name.len()).any(|part| part == name);
        assert!(known, "{name:?} was made up");
        sum += name.len();
    }
    assert!(sum <= bytes.len(), "{sum} bytes of names in {}", bytes.len());
}

/// Texts are no longer than the input, with each invalid byte replaced by three bytes.
fn is_bounded<'a>(bytes: &[u8], texts: impl IntoIterator<Item = &'a str>) {
    let sum: usize = texts.into_iter().map(str::len).sum();
    assert!(sum <= 3 * bytes.len(), "{sum} bytes of text from {}", bytes.len());
}

fn is_hash(text: &str) {
    let hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(matches!(text.len(), 40 | 64) && hexadecimal, "{text:?} is no hash");
}

pub(crate) fn status(bytes: &[u8]) {
    let Some(status) = answers::status(bytes) else { return };
    are_within(bytes, status.entries.iter().map(|entry| &entry.path));
    for entry in &status.entries {
        assert!(!entry.path.0.is_empty() && !entry.path.0.contains(&0), "{entry:?}");
        if let EntryState::Changed { from: Some(from), .. } = &entry.what {
            are_within(bytes, [from]);
        }
    }
    // Half an entry does not count: cutting the input never adds entries.
    if let Some(shorter) = bytes.split_last().and_then(|(_, rest)| answers::status(rest)) {
        assert!(status.entries.starts_with(&shorter.entries), "{shorter:?} of {status:?}");
    }
}

pub(crate) fn diff(bytes: &[u8]) {
    let Some((files, text)) = answers::diff(bytes) else { return };
    assert!(bytes.ends_with(text), "the text is not the end of it");
    are_within(
        bytes,
        files.iter().flat_map(|file| [Some(&file.path), file.from.as_ref()]).flatten(),
    );
}

pub(crate) fn log(bytes: &[u8]) {
    for commit in answers::commits(bytes) {
        is_hash(&commit.hash);
        commit.parents.iter().for_each(|parent| is_hash(parent));
        assert!(!commit.subject.contains('\n'), "{commit:?}");
        let more = [commit.refs.as_deref(), commit.body.as_deref()].into_iter().flatten();
        let texts = [&*commit.author, &commit.email, &commit.subject].into_iter().chain(more);
        is_bounded(bytes, texts);
    }
}

pub(crate) fn blame(bytes: &[u8]) {
    let Some((flags, bytes)) = choice(bytes) else { return };
    let (first, count) = (1 + (flags as u64 >> 5), (flags as u64 >> 1) & 15);
    let blame = answers::blame(bytes, first, count, flags & 1 == 1);
    let lines = blame.runs.iter().map(|run| run.lines.len() as u64).sum::<u64>();
    assert!(blame.runs.iter().all(|run| !run.lines.is_empty()), "{blame:?}");
    assert!(lines <= bytes.len() as u64, "{lines} lines of {} bytes", bytes.len());
    for run in &blame.runs {
        is_hash(&run.hash);
        // Four bytes a character, plus the mark of the cut.
        assert!(run.summary.len() <= 804 && run.author.len() <= 804, "{run:?}");
    }
}

/// The first byte selects one of several lists.
pub(crate) fn lists(bytes: &[u8]) {
    let Some((which, bytes)) = choice(bytes) else { return };
    match which % 6 {
        0 => answers::branches(bytes).iter().for_each(|branch| {
            is_hash(&branch.hash);
            is_bounded(bytes, [&*branch.name, &branch.subject]);
        }),
        1 => answers::tags(bytes).iter().for_each(|tag| {
            is_hash(&tag.hash);
            is_bounded(bytes, [&*tag.name, &tag.subject]);
        }),
        2 => answers::stashes(bytes).iter().for_each(|stash| {
            is_hash(&stash.hash);
            is_bounded(bytes, [&*stash.message]);
        }),
        3 => answers::worktrees(bytes).iter().for_each(|tree| {
            tree.head.iter().for_each(|head| is_hash(head));
            let path = Name(tree.path.as_os_str().as_encoded_bytes().to_vec());
            are_within(bytes, [&path]);
        }),
        4 => {
            let files = answers::sides(bytes);
            are_within(bytes, files.iter().map(|file| &file.path));
            for side in
                files.iter().flat_map(|file| [&file.base, &file.ours, &file.theirs]).flatten()
            {
                is_hash(&side.blob);
            }
        }
        _ => {
            if let Some((kind, _, content)) = answers::object(bytes) {
                assert!(bytes.ends_with(content), "{kind}: the content is not the end of it");
                assert!(lossy(bytes).contains(&kind), "{kind} was made up");
            }
        }
    }
}

pub(crate) fn seeds_status() -> Vec<Vec<u8>> {
    [
        format!("# branch.oid {A}\0# branch.head main\0# branch.upstream o/main\0# branch.ab +1 -2\0# stash 1\0"),
        format!("1 .M N... 100644 100644 100644 {A} {A} a b\0? new\0! target/\0"),
        format!("2 R. N... 100644 100644 100644 {A} {A} R100 new\0old\0"),
        format!("u UD N... 100644 100644 000000 100644 {A} {A} {A} gone\0"),
    ]
    .map(String::into_bytes)
    .into()
}

pub(crate) fn seeds_diff() -> Vec<Vec<u8>> {
    [
        ":100644 100644 1 2 M\0a\x003\t1\ta\0\0diff --git a/a b/a\n",
        ":100644 100644 1 2 R090\0old\0new\x000\t2\t\0old\0new\0\0diff --git\n",
        ":100644 100644 1 2 U\0a\0:100644 100644 1 2 M\0a\0-\t-\ta\0\0",
        "::100644 100644 100644 1 2 0 MM\0f\0:100644 100644 1 2 M\0a\x001\t0\ta\0\0diff --git a/a b/a\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

pub(crate) fn seeds_log() -> Vec<Vec<u8>> {
    [
        format!("{A}\n{A} {A}\nJ\nj@x\n100\n-5\nHEAD -> main\nSubject\n\nBody\n\0"),
        format!("{A}\n\n\n\n1\n2\n\n\0"),
        format!("{A}\n\nJ\nj\n1\n2\n\nS\0{A}\n{A}\nK\nk\n3\n4\ntag: v\nT\0"),
    ]
    .map(String::into_bytes)
    .into()
}

pub(crate) fn seeds_blame() -> Vec<Vec<u8>> {
    let line = format!("{A} 1 1 1\nauthor J\nauthor-time 5\nsummary one\nfilename a\n\tfirst\n");
    let next = format!("{A} 2 2\n\tsecond\n");
    [format!("\u{1e}{line}"), format!("\u{1f}{line}{next}"), format!("\u{2}{line}{next}")]
        .map(String::into_bytes)
        .into()
}

pub(crate) fn seeds_lists() -> Vec<Vec<u8>> {
    [
        format!(
            "\u{0}refs/heads/main\0{A}\0o/main\0ahead 2, behind 1\x00100\0/srv/a\0*\0Fix it\0\n"
        ),
        format!("\u{1}refs/tags/v1\0{A}\0\x005\0subject\0\n"),
        format!("\u{2}{A}\n5\nWIP on main: x\0"),
        format!("\u{3}worktree /a\0HEAD {A}\0branch refs/heads/main\0\0"),
        format!("\u{4}100644 {A} 1\tx\x00100755 {A} 2\tx\0"),
        format!("\u{5}{A} blob 3\nabc"),
    ]
    .map(String::into_bytes)
    .into()
}
