//! Ways in which a repository could run its own program, or reach beyond its root: each plants one.
//!
//! A planted program leaves a mark. `fires` is a call of plain git that runs it: a vector that never fires proves nothing.

use super::scene::{Scene, copy, put};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) struct Vector {
    pub(super) name: &'static str,
    plant: fn(&Trap<'_>),
    /// Words for plain git, in each repository's copy; empty if this git cannot be made to run it.
    fires: &'static [&'static str],
    /// Mark that it leaves, if not that of its program.
    mark: Option<&'static str>,
    pub(super) works: Works,
}

/// Operations that work in spite of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Works {
    /// All, as in a good repository.
    All,
    /// Operations that need the filter are refused; the rest works.
    Unfiltered,
    /// A rebase cannot continue; the rest works.
    NoRebase,
    /// Operations that would read submodules are refused; the rest works.
    Unnamed,
    /// None: the repository is not touched.
    Nothing,
}

/// Place of a vector.
pub(super) struct Trap<'a> {
    pub(super) scene: &'a Scene,
    pub(super) repo: &'a Path,
    /// Command that calls the program.
    pub(super) program: String,
}

impl Trap<'_> {
    fn config(&self, text: &str) {
        let file = self.repo.join(".git/config");
        let text = text.replace("EVIL", &self.program);
        fs::write(&file, fs::read_to_string(&file).unwrap() + &text).unwrap();
    }

    fn file(&self, name: &str, text: &str) {
        put(self.repo, name, &text.replace("EVIL", &self.program));
    }

    fn attributes(&self, text: &str) {
        put(self.repo, ".git/info/attributes", text);
    }

    fn hooks(&self, folder: &str) {
        let folder = self.repo.join(folder);
        fs::create_dir_all(&folder).unwrap();
        for hook in HOOKS {
            symlink(&self.program, folder.join(hook)).unwrap();
        }
    }
}

/// Writes an executable script with a separate process: a file open for writing here, or in a process forked at this moment,
/// cannot be executed.
pub(super) fn script(file: &Path, text: &str) {
    let source = file.with_extension("source");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&source, format!("#!/bin/sh\n{text}\n")).unwrap();
    let made = Command::new("install").args(["-m", "755"]).args([&source, file]).status().unwrap();
    assert!(made.success());
    fs::remove_file(source).unwrap();
}

/// Returns the program of one vector, which leaves its mark.
pub(super) fn program(scene: &Scene, name: &str) -> (String, PathBuf) {
    let folder = scene.root.parent().unwrap().join("marks");
    let (file, mark) = (folder.join(format!("{name}.sh")), folder.join(name));
    script(&file, &format!("echo \"$*\" >> {}", mark.display()));
    (file.display().to_string(), mark)
}

impl Vector {
    pub(super) fn plant(&self, trap: &Trap<'_>) {
        (self.plant)(trap);
    }

    /// Returns the file that shows that it ran.
    pub(super) fn mark(&self, of_program: &Path) -> PathBuf {
        of_program.with_file_name(self.mark.unwrap_or(self.name))
    }

    /// Checks that it runs its program without restrictions.
    pub(super) fn check_alive(&self, scene: &Scene, repo: &Path, mark: &Path) {
        if self.fires.is_empty() {
            return;
        }
        // Makes git read the content.
        let file = fs::File::options().append(true).open(repo.join("f")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let said = scene.plain(repo, self.fires);
        assert!(mark.exists(), "{} does not fire: {said:?}", self.name);
        fs::remove_file(mark).unwrap();
    }
}

const HOOKS: [&str; 18] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "reference-transaction",
    "pre-auto-gc",
    "post-rewrite",
    "post-index-change",
    "fsmonitor-watchman",
    "push-to-checkout",
];

const fn vector(
    name: &'static str,
    fires: &'static [&'static str],
    plant: fn(&Trap<'_>),
) -> Vector {
    Vector { name, plant, fires, mark: None, works: Works::All }
}

const fn filter(
    name: &'static str,
    fires: &'static [&'static str],
    plant: fn(&Trap<'_>),
) -> Vector {
    Vector { works: Works::Unfiltered, ..vector(name, fires, plant) }
}

const fn refused(
    name: &'static str,
    fires: &'static [&'static str],
    plant: fn(&Trap<'_>),
) -> Vector {
    Vector { works: Works::Nothing, ..vector(name, fires, plant) }
}

const fn unnamed(
    name: &'static str,
    fires: &'static [&'static str],
    plant: fn(&Trap<'_>),
) -> Vector {
    Vector { works: Works::Unnamed, ..vector(name, fires, plant) }
}

const STATUS: &[&str] = &["status"];
const PUSH: &[&str] = &["stash", "push"];
const DIFF: &[&str] = &["diff", "HEAD~1", "HEAD"];
const COMMIT: &[&str] = &["commit", "--allow-empty", "-m", "x"];
const FETCH: &[&str] = &["fetch", "evil"];
const ADD: &[&str] = &["add", "f"];
const CREDENTIALS: &[&str] =
    &["-c", "alias.ask=!printf 'protocol=https\\nhost=x\\n\\n' | git credential fill", "ask"];

pub(super) const VECTORS: &[Vector] = &[
    vector("nothing", &[], |_| {}),
    vector("fsmonitor", STATUS, |trap| trap.config("[core]\n fsmonitor = EVIL\n")),
    vector("included", STATUS, |trap| {
        trap.file(".git/evil", "[core]\n fsmonitor = EVIL\n");
        trap.config("[include]\n path = evil\n");
    }),
    vector("included-if", STATUS, |trap| {
        trap.file(".git/evil", "[core]\n fsmonitor = EVIL\n");
        trap.config("[includeIf \"gitdir:/\"]\n path = evil\n");
    }),
    vector("worktree-config", STATUS, |trap| {
        trap.file(".git/config.worktree", "[core]\n fsmonitor = EVIL\n");
        trap.config("[core]\n repositoryFormatVersion = 1\n[extensions]\n worktreeConfig = true\n");
    }),
    vector("hooks", COMMIT, |trap| trap.hooks(".git/hooks")),
    vector("hooks-path", COMMIT, |trap| {
        trap.hooks(".git/hooks/planted");
        trap.config("[core]\n hooksPath = .git/hooks/planted\n");
    }),
    vector("config-hook", &[], |trap| {
        trap.config(
            "[hook \"evil\"]\n command = EVIL\n event = post-index-change\n enabled = true\n",
        );
    }),
    filter("clean", ADD, |trap| {
        trap.attributes("* filter=evil\n");
        trap.config("[filter \"evil\"]\n clean = EVIL\n");
    }),
    filter("clean-required", ADD, |trap| {
        trap.attributes("* filter=evil\n");
        trap.config("[filter \"evil\"]\n clean = EVIL\n required = true\n");
    }),
    filter("smudge", &["checkout", "HEAD~1", "--", "f"], |trap| {
        trap.attributes("* filter=evil\n");
        trap.config("[filter \"evil\"]\n smudge = EVIL\n");
    }),
    filter("process", ADD, |trap| {
        trap.attributes("* filter=evil\n");
        trap.config("[filter \"evil\"]\n process = EVIL\n");
    }),
    filter("filter-with-a-twin", ADD, |trap| {
        trap.attributes("* filter=evil\n");
        trap.config("[filter \"EVil\"]\n clean = true\n[filter \"evil\"]\n clean = EVIL\n");
    }),
    filter("filter-with-an-odd-name", ADD, |trap| {
        trap.attributes("* filter=a=b.c\n");
        trap.config("[filter \"a=b.c\"]\n clean = EVIL\n");
    }),
    filter("filter-in-the-tree", ADD, |trap| {
        trap.file(".gitattributes", "* filter=evil\n");
        trap.config("[filter \"evil\"]\n clean = EVIL\n smudge = EVIL\n");
    }),
    filter("filter-of-another-file", ADD, |trap| {
        trap.file(".git/other", "* filter=evil\n");
        trap.config("[core]\n attributesFile = .git/other\n[filter \"evil\"]\n clean = EVIL\n");
    }),
    vector("textconv", DIFF, |trap| {
        trap.attributes("* diff=evil\n");
        trap.config("[diff \"evil\"]\n textconv = EVIL\n cachetextconv = true\n");
    }),
    vector("diff-command", DIFF, |trap| {
        trap.attributes("* diff=evil\n");
        trap.config("[diff \"evil\"]\n command = EVIL\n");
    }),
    vector("diff-external", DIFF, |trap| trap.config("[diff]\n external = EVIL\n")),
    vector("merge-driver", &["merge-tree", "--write-tree", "clash", "main"], |trap| {
        trap.attributes("* merge=evil\n");
        trap.config("[merge \"evil\"]\n driver = EVIL %A %O %B\n");
    }),
    vector("merge-default", &["merge-tree", "--write-tree", "clash", "main"], |trap| {
        trap.config(
            "[merge]\n default = evil\n[merge \"evil\"]\n driver = EVIL\n recursive = evil\n",
        );
    }),
    vector("alias", &["own"], |trap| {
        let names = [
            "own",
            "status",
            "diff",
            "log",
            "commit",
            "stash",
            "config",
            "rev-parse",
            "update-index",
        ];
        let aliases: String = names.iter().map(|name| format!(" {name} = !EVIL\n")).collect();
        trap.config(&format!("[alias]\n{aliases}"));
    }),
    vector("ssh", FETCH, |trap| {
        trap.config("[core]\n sshCommand = EVIL\n[remote \"evil\"]\n url = ssh://nowhere/x\n fetch = +refs/*:refs/evil/*\n");
    }),
    vector("promisor", &["cat-file", "-p", "1234567890123456789012345678901234567890"], |trap| {
        trap.config(
            "[core]\n repositoryFormatVersion = 1\n[extensions]\n partialClone = evil\n[protocol \"ext\"]\n allow = always\n\
             [remote \"evil\"]\n url = ext::EVIL\n promisor = true\n partialCloneFilter = blob:none\n",
        );
    }),
    vector("upload-pack", FETCH, |trap| {
        trap.config(
            "[remote \"evil\"]\n url = .\n uploadpack = EVIL\n fetch = +refs/*:refs/evil/*\n",
        );
    }),
    vector("instead-of", FETCH, |trap| {
        trap.config("[url \"ext::EVIL \"]\n insteadOf = x\n[protocol \"ext\"]\n allow = always\n[remote \"evil\"]\n url = xy\n");
    }),
    vector("git-proxy", FETCH, |trap| {
        trap.config("[core]\n gitProxy = EVIL\n[remote \"evil\"]\n url = git://127.0.0.1:1/x\n");
    }),
    vector("pager", &[], |trap| {
        trap.config("[core]\n pager = EVIL\n[pager]\n log = EVIL\n diff = EVIL\n show = EVIL\n config = EVIL\n tag = EVIL\n");
    }),
    vector("editor", &["commit", "--allow-empty", "--amend"], |trap| {
        trap.config("[core]\n editor = EVIL\n[commit]\n verbose = true\n status = true\n");
    }),
    vector("sequence-editor", &["rebase", "-i", "--autostash", "HEAD~1"], |trap| {
        trap.config("[sequence]\n editor = EVIL\n");
    }),
    vector("credentials", CREDENTIALS, |trap| {
        trap.config("[core]\n askPass = EVIL\n[credential]\n helper = EVIL\n[credential \"https://x\"]\n helper = EVIL\n");
    }),
    vector("signing", COMMIT, |trap| {
        trap.config("[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n forceSignAnnotated = true\n[gpg]\n program = EVIL\n[gpg \"openpgp\"]\n program = EVIL\n");
    }),
    vector("signing-key", COMMIT, |trap| {
        trap.config("[commit]\n gpgSign = true\n[gpg]\n format = ssh\n[gpg \"ssh\"]\n program = EVIL\n defaultKeyCommand = EVIL\n");
    }),
    vector("signatures", &["log", "-1", "signed"], |trap| {
        signed(trap);
        trap.config("[log]\n showSignature = true\n[merge]\n verifySignatures = true\n[gpg]\n program = EVIL\n[gpg \"openpgp\"]\n program = EVIL\n");
    }),
    vector("trailer", &["interpret-trailers", "--trailer", "evil", "f"], |trap| {
        trap.config("[trailer \"evil\"]\n key = evil\n command = EVIL\n cmd = EVIL\n");
    }),
    vector("gc", &["gc", "--quiet", "--prune=now"], |trap| {
        trap.config("[gc]\n auto = 1\n autoPackLimit = 1\n autoDetach = false\n recentObjectsHook = EVIL\n[maintenance]\n auto = true\n");
        trap.hooks(".git/hooks");
    }),
    vector("submodule", STATUS, |trap| submodule(trap, "[core]\n fsmonitor = EVIL\n")),
    vector("submodule-filter", STATUS, |trap| {
        submodule(
            trap,
            "[filter \"evil\"]\n clean = EVIL\n[diff \"evil\"]\n textconv = EVIL\n command = EVIL\n",
        );
        put(trap.repo, "sub/.git/info/attributes", "* filter=evil diff=evil\n");
    }),
    unnamed("submodule-with-an-odd-name", PUSH, |trap| {
        filtered_submodule(trap, b"[submodule \"e\xff\"]\n path = sub\n ignore = none\n");
    }),
    unnamed("submodule-among-too-many", PUSH, |trap| {
        let others =
            (1000..2200).map(|n| format!("[submodule \"{n}{}\"]\n url = x\n", "x".repeat(4000)));
        let text =
            others.collect::<String>() + "[submodule \"sub\"]\n path = sub\n ignore = none\n";
        filtered_submodule(trap, text.as_bytes());
    }),
    vector("submodule-update", &["submodule", "update"], |trap| {
        submodule(trap, "");
        trap.scene.git(&trap.repo.join("sub"), &["commit", "-q", "--allow-empty", "-m", "more"]);
        trap.config("[submodule \"sub\"]\n active = true\n url = ./sub\n update = !EVIL\n[submodule]\n recurse = true\n");
    }),
    vector(
        "submodule-url",
        &["-c", "protocol.ext.allow=always", "submodule", "update", "--init"],
        |trap| {
            submodule(trap, "");
            fs::remove_dir_all(trap.repo.join("sub")).unwrap();
            fs::create_dir(trap.repo.join("sub")).unwrap();
            trap.file(".gitmodules", "[submodule \"sub\"]\n path = sub\n url = \"ext::EVIL\"\n");
            trap.scene.git(trap.repo, &["add", ".gitmodules"]);
            trap.config("[submodule]\n recurse = true\n[submodule \"sub\"]\n active = true\n url = \"ext::EVIL\"\n");
        },
    ),
    Vector {
        works: Works::NoRebase,
        ..vector("rebase-exec", &[], |trap| {
            let todo = trap.repo.join(".git/rebase-merge/git-rebase-todo");
            if todo.exists() {
                let text = fs::read_to_string(&todo).unwrap();
                fs::write(todo, format!("exec {}\n{text}", trap.program)).unwrap();
            }
        })
    },
    Vector {
        works: Works::NoRebase,
        ..vector("rebase-strategy", &["merge-evil"], |trap| {
            trap.config("[alias]\n merge-evil = !EVIL\n");
            if trap.repo.join(".git/rebase-merge").exists() {
                trap.file(".git/rebase-merge/strategy", "evil\n");
            }
        })
    },
    Vector {
        // The content written there.
        mark: Some("f"),
        ..vector("core-worktree", &["checkout", "-f", "HEAD", "--", "f"], |trap| {
            let folder = Path::new(&trap.program).parent().unwrap();
            trap.config(&format!("[core]\n worktree = {}\n", folder.display()));
        })
    },
    refused("linked-git", STATUS, |trap| {
        let away = away(trap);
        symlink(away, trap.repo.join(".git")).unwrap();
    }),
    refused("git-file", STATUS, |trap| {
        let away = away(trap);
        fs::write(trap.repo.join(".git"), format!("gitdir: {}\n", away.display())).unwrap();
    }),
    refused("common-dir", STATUS, |trap| {
        let away = away(trap);
        fs::create_dir(trap.repo.join(".git")).unwrap();
        for file in ["HEAD", "index"] {
            fs::copy(away.join(file), trap.repo.join(".git").join(file)).unwrap();
        }
        fs::write(trap.repo.join(".git/commondir"), format!("{}\n", away.display())).unwrap();
    }),
    refused("linked-index", &[], |trap| {
        let (index, away) = (trap.repo.join(".git/index"), trap.scene.outside.join("kept"));
        fs::remove_file(&index).unwrap();
        symlink(away, index).unwrap();
    }),
    refused("linked-steps", &[], |trap| {
        let done = trap.repo.join(".git/rebase-merge/done");
        fs::create_dir_all(done.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&done);
        symlink(trap.scene.outside.join("kept"), done).unwrap();
    }),
    refused("linked-objects", &[], |trap| {
        let object = trap.repo.join(".git/objects/12").join("3".repeat(38));
        fs::create_dir_all(object.parent().unwrap()).unwrap();
        symlink(trap.scene.outside.join("kept"), object).unwrap();
    }),
];

/// Moves the git folder out of the root, with a program in its configuration.
fn away(trap: &Trap<'_>) -> PathBuf {
    trap.config("[core]\n fsmonitor = EVIL\n");
    let name =
        trap.repo.strip_prefix(&trap.scene.root).unwrap().to_string_lossy().replace('/', "-");
    let away = trap.scene.root.parent().unwrap().join("moved").join(name);
    fs::create_dir_all(away.parent().unwrap()).unwrap();
    fs::rename(trap.repo.join(".git"), &away).unwrap();
    away
}

/// Creates a branch with a commit that claims to be signed.
fn signed(trap: &Trap<'_>) {
    let git = |words: &[&str]| trap.scene.git(trap.repo, words);
    let commit = git(&["cat-file", "commit", "HEAD"]);
    let (head, message) = commit.split_once("\n\n").unwrap();
    let armour = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----";
    put(trap.repo, "commit", &format!("{head}\n{armour}\n\n{message}\n"));
    let hash = git(&["hash-object", "-t", "commit", "-w", "commit"]);
    fs::remove_file(trap.repo.join("commit")).unwrap();
    git(&["update-ref", "refs/heads/signed", &hash]);
}

/// Adds a submodule with its own filter, which these modules ask git to read.
fn filtered_submodule(trap: &Trap<'_>, modules: &[u8]) {
    submodule(trap, "[filter \"evil\"]\n clean = EVIL\n");
    put(trap.repo, "sub/.git/info/attributes", "* filter=evil\n");
    // A section in the repository's configuration would be closed by its name.
    trap.scene.git(trap.repo, &["config", "--remove-section", "submodule.sub"]);
    fs::write(trap.repo.join(".gitmodules"), modules).unwrap();
    trap.scene.git(trap.repo, &["add", ".gitmodules"]);
}

/// Adds a submodule with this configuration of its own, which git is asked to read.
fn submodule(trap: &Trap<'_>, config: &str) {
    let sub = trap.repo.join("sub");
    copy(&trap.scene.models().join("sub"), &sub);
    trap.file(".gitmodules", "[submodule \"sub\"]\n path = sub\n url = ./sub\n ignore = none\n");
    trap.config("[submodule \"sub\"]\n ignore = none\n[diff]\n submodule = log\n ignoreSubmodules = none\n[status]\n submoduleSummary = true\n");
    trap.scene.plain(trap.repo, &["add", "sub", ".gitmodules"]);
    let file = sub.join(".git/config");
    let text = fs::read_to_string(&file).unwrap() + &config.replace("EVIL", &trap.program);
    fs::write(file, text).unwrap();
    // The size is unchanged, so git reads it again.
    put(&sub, "s", "t\n");
    let s = fs::File::options().append(true).open(sub.join("s")).unwrap();
    s.set_modified(std::time::UNIX_EPOCH).unwrap();
}
