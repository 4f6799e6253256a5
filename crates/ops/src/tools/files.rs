//! The tools for files.

use super::{Tool, Toolset};

pub(super) const READ: Tool = Tool::new(
        "file.read",
        "read_file",
        Toolset::Files,
        "Read files",
        "Text of files below the project's roots, whole or by lines; sha256, encoding and line endings of each are in the facts. What does not fit comes by 'cursor'. Images are shown; other binary files are described, 'bytes' gives them as base64.",
    )
    .usually(r#"{"max_bytes":24000,"pictures":true}"#)
    .hiding(&["path", "numbers", "pictures"])
    .speaking_within(&["text", "base64"]);

pub(super) const SEARCH: Tool = Tool::new(
        "file.search",
        "search_files",
        Toolset::Files,
        "Search files",
        "Search contents with ripgrep: regular expression or 'literal', grouped by file. 'tell': counts or files for an overview first. .gitignore is honoured.",
    )
    .usually(r#"{"most":100}"#)
    .hiding(&["before", "after", "invert", "max_line"])
    .speaking(&["files"]);

pub(super) const LIST: Tool = Tool::new(
        "file.list",
        "list_files",
        Toolset::Files,
        "List a folder",
        "What is in a folder; 'depth' makes it a tree. Without 'path': the roots. .gitignore is honoured.",
    )
    .usually(r#"{"most":500}"#)
    .speaking(&["entries"]);

pub(super) const FIND: Tool = Tool::new(
    "file.find",
    "find_files",
    Toolset::Files,
    "Find files",
    "Find files by name: globs such as *.rs or src/**/*.ts. .gitignore is honoured.",
)
.speaking(&["found"]);
