//! The tools for files.

use super::{Tool, Toolset};

pub(super) const READ: Tool = Tool::new(
        "file.read",
        "read_file",
        Toolset::Files,
        "Read files",
        "Text of files, whole or by lines, and the sha256 of each. Continue a long file with 'cursor'. Images are shown; other binary files are described. Relative paths start in the folder of this conversation.",
    )
    .usually(r#"{"max_bytes":24000,"pictures":true}"#)
    .hiding(&["path", "numbers", "pictures", "max_bytes"])
    .requiring(&["paths"])
    .leaving_out(&["modified", "mode", "size"])
    .speaking_within(&["text", "base64"]);

pub(super) const SEARCH: Tool = Tool::new(
        "file.search",
        "search_files",
        Toolset::Files,
        "Search files",
        "Search contents with ripgrep: regular expression or 'literal', grouped by file. 'tell': counts or files for an overview first. .gitignore is honoured.",
    )
    .usually(r#"{"most":100,"max_bytes":30000}"#)
    .hiding(&["paths", "ignore_case", "before", "after", "invert", "max_line", "max_bytes", "types"])
    .requiring(&["pattern"])
    .speaking(&["files", "searched"]);

pub(super) const LIST: Tool = Tool::new(
    "file.list",
    "list_files",
    Toolset::Files,
    "List a folder",
    "List a folder; 'depth' makes it a tree. .gitignore is honoured.",
)
.usually(r#"{"most":500,"max_bytes":30000}"#)
.hiding(&["max_bytes"])
.speaking(&["entries"]);

pub(super) const FIND: Tool = Tool::new(
    "file.find",
    "find_files",
    Toolset::Files,
    "Find files",
    "Find files by name: globs such as *.rs or src/**/*.ts. .gitignore is honoured.",
)
.usually(r#"{"max_bytes":30000}"#)
.hiding(&["max_bytes"])
.requiring(&["globs"])
.speaking(&["found"]);

/// Fields of a change that the text already contains.
const TOLD: &[&str] = &["size", "added", "removed", "places", "hunks"];

pub(super) const WRITE: Tool = Tool::new(
    "file.write",
    "write_file",
    Toolset::Files,
    "Write a file",
    "Create or overwrite a whole file. To change a part, use edit_file.",
)
.destroys()
.settles()
.hiding(&["base64", "exact", "dry_run"])
.requiring(&["content"])
.leaving_out(TOLD)
.speaking_within(&["diff"]);

pub(super) const EDIT: Tool = Tool::new(
    "file.edit",
    "edit_file",
    Toolset::Files,
    "Edit a file",
    "Replace exact texts in a file, all edits or none. 'old' must occur once (or set 'all'); if not, the error shows the nearest lines.",
)
.destroys()
.hiding(&["old", "new", "all", "dry_run"])
.requiring(&["edits"])
.leaving_out(TOLD)
.speaking_within(&["diff"]);

pub(super) const CHANGE: Tool = Tool::new(
    "file.change",
    "change_in_file",
    Toolset::Files,
    "Find and replace",
    "Find and replace text or a regular expression in a file, everywhere or only the 'nth' match.",
)
.destroys()
.hiding(&["dry_run", "if_hash"])
.leaving_out(TOLD)
.speaking_within(&["diff"]);

pub(super) const APPLY_DIFF: Tool = Tool::new(
    "file.apply_diff",
    "apply_diff",
    Toolset::Files,
    "Apply a diff",
    "Apply a unified diff to all its files or to none; line numbers may be wrong. Hunks that do not apply are reported one by one.",
)
.destroys()
.hiding(&["diff_base64", "strict", "if_hash"])
.requiring(&["diff"])
.leaving_out(TOLD)
.speaking_within(&["diff"]);

pub(super) const MOVE: Tool = Tool::new(
    "file.move",
    "move_file",
    Toolset::Files,
    "Move a file",
    "Move or rename a file or a folder.",
)
.destroys()
.hiding(&["dry_run", "if_hash"]);

pub(super) const DELETE: Tool = Tool::new(
    "file.delete",
    "delete_file",
    Toolset::Files,
    "Delete a file",
    "Delete a file or an empty folder; undo_edit restores a file.",
)
.destroys()
.hiding(&["dry_run"])
.leaving_out(TOLD)
.speaking_within(&["diff"]);

pub(super) const MAKE_FOLDER: Tool = Tool::new(
    "file.make_folder",
    "make_folder",
    Toolset::Files,
    "Create a folder",
    "Create a folder and its missing parents.",
)
.hiding(&["dry_run"])
.settles();

pub(super) const UNDO: Tool = Tool::new(
    "file.undo",
    "undo_edit",
    Toolset::Files,
    "Undo an edit",
    "Restore a file to its content before the last change, or to a 'generation' from an earlier reply. A second undo reverts the first.",
)
.destroys()
.hiding(&["if_hash", "dry_run"])
.leaving_out(TOLD)
.speaking_within(&["diff"]);

pub(super) const HISTORY: Tool = Tool::new(
    "file.history",
    "file_history",
    Toolset::System,
    "Generations of a file",
    "Earlier contents of a file, newest first.",
);

pub(super) const CHECK: Tool = Tool::new(
    "change.check",
    "change_and_check",
    Toolset::Files,
    "Change and check",
    "Edit files, restart a service and wait until it is ready, writes a line ('log') or responds ('url'). If it does not, files and service are restored and its last lines returned.",
)
.destroys()
.hiding(&["diff_base64"])
.speaking(&["files", "output"]);
