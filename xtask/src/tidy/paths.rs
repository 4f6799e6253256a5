//! No file names a folder of the machine it was written on.

use super::Finding;

const FOLDERS: &[&str] = &[concat!("/wo", "rk"), concat!("/ro", "ot")];

pub(crate) fn check(file: &str, text: &str) -> Vec<Finding> {
    let named = |line: &str| FOLDERS.iter().find(|folder| names(line, folder)).copied();
    let lines = text.lines().enumerate().filter_map(|(index, line)| Some((index, named(line)?)));
    lines
        .map(|(index, folder)| Finding {
            file: file.to_owned(),
            line: index + 1,
            message: format!(
                "{folder} is a folder of one machine: use a relative path, or a temporary folder"
            ),
        })
        .collect()
}

/// Matches only at the beginning of a path and not as part of a longer name.
fn names(line: &str, folder: &str) -> bool {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let comes_from = |byte: &u8| goes_on(byte) || b"/.~})*".contains(byte);
    line.match_indices(folder).any(|(at, _)| {
        let before = line.as_bytes()[..at].last();
        let after = line.as_bytes().get(at + folder.len());
        !before.is_some_and(comes_from) && !after.is_some_and(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `@` stands for the folder.
    #[track_caller]
    fn check_line(line: &str, found: bool) {
        for folder in FOLDERS {
            let text = format!("first\n{}\n", line.replace('@', folder));
            let lines: Vec<usize> = check("README.md", &text).iter().map(|one| one.line).collect();
            assert_eq!(lines, if found { vec![2] } else { vec![] }, "{text}");
        }
    }

    #[test]
    fn folders_of_one_machine_are_not_named() {
        check_line("cd @/main", true);
        check_line("@", true);
        check_line("path = \"@\"", true);
        check_line("PATH=/bin:@/bin", true);
        check_line("(@/x)", true);
        check_line("@space", false);
        check_line("@-dir", false);
        check_line("$HOME@/x", false);
        check_line("${HOME}@/x", false);
        check_line("~@/x", false);
        check_line("./a@/x", false);
        check_line("https://example.org@/x", false);
    }
}
