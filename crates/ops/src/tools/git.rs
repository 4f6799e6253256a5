//! The tools for version control.

use super::{Tool, Toolset};

pub(super) const STATUS: Tool = Tool::new(
    "git.status",
    "git_status",
    Toolset::Git,
    "Status of a repository",
    "The work tree: branch, staged and unstaged changes, new files, conflicts, a merge or rebase in progress.",
)
.hiding(&["limit", "no_untracked", "ignored"]);

pub(super) const DIFF: Tool = Tool::new(
    "git.diff",
    "git_diff",
    Toolset::Git,
    "Differences",
    "Changes as a unified diff: unstaged, 'staged', since a revision, or between two.",
)
.usually(r#"{"max_bytes":24000}"#)
.hiding(&["max_bytes"])
.leaving_out(&["change"])
.speaking(&["diff"]);

pub(super) const LOG: Tool = Tool::new(
    "git.log",
    "git_log",
    Toolset::Git,
    "Commits",
    "Commits, newest first, by path, author, time or message.",
)
.hiding(&["follow", "until"])
.speaking(&["commits"]);

pub(super) const SHOW: Tool = Tool::new(
    "git.show",
    "git_show",
    Toolset::Git,
    "Show a commit",
    "A commit with its changes; with 'path', a file at that revision.",
)
.usually(r#"{"max_bytes":24000}"#)
.hiding(&["max_bytes"])
.leaving_out(&["change"])
.speaking(&["commit", "diff", "file"]);

pub(super) const BLAME: Tool = Tool::new(
    "git.blame",
    "git_blame",
    Toolset::Git,
    "Blame a file",
    "The commit and author that last changed each line of a file.",
)
.usually(r#"{"max_bytes":30000}"#)
.hiding(&["max_bytes"])
.speaking(&["runs"]);

pub(super) const ADD: Tool = Tool::new(
    "git.add",
    "git_add",
    Toolset::Git,
    "Stage changes",
    "Stage changes for the next commit. git_commit with 'paths' does both.",
)
.settles()
.hiding(&["update"]);

pub(super) const COMMIT: Tool = Tool::new(
    "git.commit",
    "git_commit",
    Toolset::Git,
    "Commit",
    "Commit the staged changes, some 'paths', or 'all' tracked files. Reports if there was nothing to commit.",
)
.leaving_out(&["parents", "author", "email", "refs"]);

pub(super) const RESTORE: Tool = Tool::new(
        "git.restore",
        "git_restore",
        Toolset::Git,
        "Restore files",
        "Restore files from the index or a revision; with 'staged', unstage them. Uncommitted changes in them are lost.",
    )
    .destroys()
    .settles()
    .hiding(&["worktree"]);

pub(super) const BRANCH: Tool = Tool::new(
    "git.branch",
    "git_branch",
    Toolset::Git,
    "Branches",
    "List branches and work trees, create, switch or delete a branch.",
)
.hiding(&["limit"])
.destroys();

pub(super) const TAG: Tool =
    Tool::new("git.tag", "git_tag", Toolset::Git, "Tags", "List, create or delete tags.")
        .hiding(&["limit"])
        .destroys();

pub(super) const STASH: Tool = Tool::new(
    "git.stash",
    "git_stash",
    Toolset::Git,
    "Stash changes",
    "List, push, pop or drop stashes.",
)
.hiding(&["message"])
.destroys();

pub(super) const RESOLVE: Tool = Tool::new(
        "git.resolve",
        "git_resolve",
        Toolset::Git,
        "Resolve conflicts",
        "List the conflicts of a merge or rebase, resolve one file (ours, theirs, done), continue or abort.",
    )
    .hiding(&["base64", "bytes"])
    .destroys();
