//! Instructions for assistants, read before the first request. They name only offered tools.

use proctor_ops::tools::{self, Toolset};

/// Instructions for every tool, under 2,000 characters.
const ALL: &str = include_str!("instructions.md");

/// Returns the instructions for the tools of these sets.
///
/// A sentence that names another tool is dropped. So is a paragraph without its first sentence, or without any offered tool if it
/// named some.
pub(super) fn instructions(offered: &[Toolset]) -> String {
    let mut kept = String::new();
    for paragraph in ALL.lines() {
        if let Some(paragraph) = paragraph_for(paragraph, offered) {
            kept += &paragraph;
            kept.push('\n');
        }
    }
    kept
}

fn paragraph_for(paragraph: &str, offered: &[Toolset]) -> Option<String> {
    let is_offered = |set: &Toolset| offered.contains(set);
    let sentences: Vec<&str> = paragraph.split_inclusive(". ").collect();
    let kept = |sentence: &&&str| sets_named_in(sentence).iter().all(is_offered);
    let first = sentences.first().filter(kept);
    let kept: String = sentences.iter().filter(kept).copied().collect();
    let names_tools = !sets_named_in(paragraph).is_empty();
    let still_names_tools = !sets_named_in(&kept).is_empty();
    let is_kept = paragraph.is_empty() || (first.is_some() && (still_names_tools || !names_tools));
    is_kept.then(|| kept.trim_end().to_owned())
}

/// Returns the toolsets of the tools that a text names.
fn sets_named_in(text: &str) -> Vec<Toolset> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    words.filter_map(tools::find).map(|tool| tool.set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_short_and_name_tools_that_exist() {
        assert!(ALL.chars().count() < 2000, "{}", ALL.chars().count());
        for word in ALL.split(|c: char| !(c.is_ascii_lowercase() || c == '_')) {
            assert!(!word.contains('_') || tools::find(word).is_some(), "there is no '{word}'");
        }
        assert_eq!(instructions(&Toolset::USUAL), ALL);
    }

    #[test]
    fn a_tool_that_is_not_offered_is_not_named() {
        for set in Toolset::ALL {
            let text = instructions(&[set]);
            assert!(sets_named_in(&text).iter().all(|named| *named == set), "{set}: {text}");
            assert!(text.starts_with("Proctor runs and watches"), "{text}");
        }
        let logs = instructions(&[Toolset::Logs]);
        assert!(logs.contains("get_process_logs") && !logs.contains("A port is taken"), "{logs}");
    }
}
