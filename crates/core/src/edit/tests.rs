//! Edits of texts with all kinds of line endings, and the errors for those that cannot be made.

use super::*;
use proptest::prelude::*;

fn change(old: &str, new: &str) -> Edit {
    Edit { old: old.into(), new: new.into(), all: false }
}

fn all(old: &str, new: &str) -> Edit {
    Edit { all: true, ..change(old, new) }
}

#[track_caller]
fn check(content: &str, edits: &[Edit], expected: &str, lines: &[usize]) {
    let edited = edit(content.as_bytes(), edits).unwrap_or_else(|misfit| panic!("{misfit:?}"));
    assert_eq!(String::from_utf8(edited.content).unwrap(), expected);
    assert_eq!((edited.places.count, edited.places.lines.as_slice()), (lines.len(), lines));
}

#[test]
fn edits_are_made_one_after_the_other() {
    check("a\nb\nc\n", &[change("b", "B")], "a\nB\nc\n", &[2]);
    check("a\nb\n", &[change("b", "x\ny"), change("y", "z")], "a\nx\nz\n", &[2, 3]);
    check("x x\nx\n", &[all("x", "yy")], "yy yy\nyy\n", &[1, 1, 2]);
    check("aaa", &[all("aa", "b")], "ba", &[1]);
    check("abc", &[change("b", "")], "ac", &[1]);
    check("", &[change("", "new")], "new", &[1]);
    check("no end", &[change("end", "End")], "no End", &[1]);
}

#[test]
fn of_very_many_places_the_first_are_told_and_all_are_edited() {
    let many = "a".repeat(3 * MAX_MATCHES);
    let edited = edit(many.as_bytes(), &[all("a", "bc\n"), all("c", "d")]).unwrap();
    assert_eq!(edited.content, "bd\n".repeat(3 * MAX_MATCHES).into_bytes());
    assert_eq!(edited.content.len(), edited.content.capacity(), "room for nothing else");
    assert_eq!((edited.places.count, edited.places.lines.len()), (6 * MAX_MATCHES, MAX_MATCHES));
    assert!(edited.places.lines.iter().all(|line| *line == 1));
}

#[test]
fn the_ends_of_lines_are_the_files() {
    check("a\r\nb\r\nc\r\n", &[change("a\nb", "A\nB\nX")], "A\r\nB\r\nX\r\nc\r\n", &[1]);
    check("a\r\nb\r\n", &[change("b", "x\ny")], "a\r\nx\r\ny\r\n", &[2]);
    check("a\nb\n", &[change("a\r\nb", "x\r\ny")], "x\ny\n", &[1]);
    check("a\r\nb\nc\n", &[change("b\nc", "x\ny")], "a\r\nx\ny\n", &[2]);
    check("a\r\nb\nc\r\nd\n", &[change("a\nb", "A\nb")], "A\r\nb\nc\r\nd\n", &[1]);
    check("a\n", &[change("a", "a\r\nb")], "a\r\nb\n", &[1]);
}

#[test]
fn none_is_made_if_one_cannot_be() {
    let misfit = |content: &str, edits: &[Edit]| edit(content.as_bytes(), edits).unwrap_err();
    let missing = misfit("a\nb\n", &[change("a", "A"), change("c", "C")]);
    assert!(matches!(missing, EditError::Missing { edit: 1, .. }), "{missing:?}");
    let twice = misfit("a\na\nb a\n", &[change("a", "A")]);
    assert_eq!(twice, EditError::Ambiguous { edit: 0, count: 3, lines: vec![1, 2, 3] });
    assert_eq!(misfit("a", &[change("a", "a")]), EditError::Same { edit: 0 });
    assert_eq!(misfit("a", &[change("", "x")]), EditError::Empty { edit: 0 });
    let many = misfit(&"x\n".repeat(50), &[change("x", "y")]);
    assert!(
        matches!(many, EditError::Ambiguous { count: 50, lines, .. } if lines.len() == MAX_REPORTED)
    );
}

#[test]
fn what_is_nearly_there_is_told() {
    let content =
        "fn main() {\n    let x = 1;\n    call(x);\n}\n\nfn other() {\n    let y = 2;\n}\n";
    let near = |text: &str| {
        let misfit = edit(content.as_bytes(), &[change(text, "new")]).unwrap_err();
        let EditError::Missing { near, .. } = misfit else { panic!("{misfit:?}") };
        near
    };
    let found = near("let  x = 1;\n\tcall(x);\n");
    assert_eq!((found[0].line, found[0].blanks, found[0].likeness), (2, true, 1.0), "{found:?}");
    assert_eq!(found[0].text, "    let x = 1;\n    call(x);\n");
    let found = near("    let y = 3;");
    assert_eq!((found[0].line, found[0].blanks), (7, false), "{found:?}");
    let found = near("fn main() {\n    let x = 1;\n    call(x, 2);\n}\n");
    assert_eq!((found[0].line, found[0].likeness), (1, 0.75), "{found:?}");
    assert_eq!(near("something quite different"), []);
    assert_eq!(near("\n\n\n\n"), []);
}

proptest! {
    #[test]
    fn an_edit_is_what_replacing_would_be(
        content in "[ab\r\n]{0,40}", old in "[ab]{1,3}", new in "[abc]{0,4}",
    ) {
        prop_assume!(old != new);
        let count = content.matches(&old).count();
        let one = edit(content.as_bytes(), &[change(&old, &new)]);
        match count {
            0 => prop_assert!(matches!(one, Err(EditError::Missing { .. })), "missing"),
            1 => prop_assert_eq!(one.unwrap().content, content.replacen(&old, &new, 1).into_bytes()),
            many => {
                let told = matches!(one, Err(EditError::Ambiguous { count, .. }) if count == many);
                prop_assert!(told, "ambiguous");
            }
        }
        if count > 0 {
            let edited = edit(content.as_bytes(), &[all(&old, &new)]).unwrap();
            prop_assert_eq!(edited.content, content.replace(&old, &new).into_bytes());
            prop_assert_eq!(edited.places.count, count);
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay_as_they_are(
        before in prop::collection::vec(any::<u8>(), 0..30),
        after in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let content = [&before[..], b"<needle>", &after].concat();
        prop_assume!(memmem::find_iter(&content, b"<needle>").count() == 1);
        let edited = edit(&content, &[change("<needle>", "x")]).unwrap();
        prop_assert_eq!(edited.content, [&before[..], b"x", &after].concat());
    }
}
