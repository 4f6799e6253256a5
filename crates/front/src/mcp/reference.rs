//! Table of the tools in Markdown, for the documentation.

use proctor_ops::tools::{TOOLS, Toolset};
use std::fmt::Write as _;

/// Returns one table, set by set.
pub fn reference() -> String {
    let mut text = String::from("| tool | set | takes at least | |\n|---|---|---|---|\n");
    for set in Toolset::ALL {
        for tool in TOOLS.iter().filter(|tool| tool.set == set) {
            let role = tool.entry().meta.role;
            let about = tool.about.replace('|', "\\|");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| `{}` | {set} | {role} | {about} |", tool.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_in_the_table() {
        let text = reference();
        assert_eq!(text.lines().count(), TOOLS.len() + 2);
        assert!(
            text.contains("| `stop_process` | processes | operator | Stop processes"),
            "{text}"
        );
    }
}
