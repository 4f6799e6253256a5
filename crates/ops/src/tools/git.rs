//! The tools for version control.

use super::{Tool, Toolset};

pub(super) const STATUS: Tool = Tool::new(
    "git.status",
    "git_status",
    Toolset::Git,
    "Status of a repository",
    "The work tree: branch, staged and unstaged changes, new files, conflicts, a merge or rebase under way.",
)
.hiding(&["limit", "no_untracked", "ignored"]);

pub(super) const DIFF: Tool = Tool::new(
        "git.diff",
        "git_diff",
        Toolset::Git,
        "Differences",
        "What is changed, as a unified diff: not yet staged, 'staged', since a revision, or between two.",
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
    "A commit with its changes; with 'path', a file as it was then.",
)
.usually(r#"{"max_bytes":24000}"#)
.hiding(&["max_bytes"])
.leaving_out(&["change"])
.speaking(&["commit", "diff", "file"]);

pub(super) const BLAME: Tool = Tool::new(
    "git.blame",
    "git_blame",
    Toolset::Git,
    "Who wrote it",
    "Which commit each line of a file came with.",
)
.usually(r#"{"max_bytes":30000}"#)
.hiding(&["max_bytes"])
.speaking(&["runs"]);

pub(super) const ADD: Tool = Tool::new(
    "git.add",
    "git_add",
    Toolset::Git,
    "Stage changes",
    "Put changes into the index for the next commit. git_commit with 'paths' does both.",
)
.settles()
.hiding(&["update"]);

pub(super) const COMMIT: Tool = Tool::new(
    "git.commit",
    "git_commit",
    Toolset::Git,
    "Commit",
    "Commit what is staged, some 'paths', or 'all' known files. Says if there was nothing to commit.",
)
.leaving_out(&["parents", "author", "email", "refs"]);

pub(super) const RESTORE: Tool = Tool::new(
        "git.restore",
        "git_restore",
        Toolset::Git,
        "Restore files",
        "Bring files back from the index, or from a revision; with 'staged', unstage them. Uncommitted changes in them are lost.",
    )
    .destroys()
    .settles()
    .hiding(&["worktree"]);

pub(super) const BRANCH: Tool = Tool::new(
    "git.branch",
    "git_branch",
    Toolset::Git,
    "Branches",
    "List branches and work trees, create a branch, switch to one, delete one.",
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
    "Put changes aside",
    "List, push, pop or drop changes put aside.",
)
.hiding(&["message"])
.destroys();

pub(super) const RESOLVE: Tool = Tool::new(
        "git.resolve",
        "git_resolve",
        Toolset::Git,
        "Resolve conflicts",
        "List the conflicts of a merge or rebase, settle one file (ours, theirs, done), continue or abort.",
    )
    .hiding(&["base64", "bytes"])
    .destroys();
