//! Texts that are not plain UTF-8: they are read as text, and changes are written in their encoding.

use super::*;
use proctor_core::content::{Encoding, encode_utf16};

impl Scene {
    fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.place.path("app").join(path)).unwrap()
    }

    fn replace(&self, path: &str, find: &str, put: &str) -> Result<FileOutcome, String> {
        let (find, put) = (find.to_owned(), put.to_owned());
        let wanted = Replacement { find, put, regex: true, ..Replacement::default() };
        self.run(self.files.replace(path.into(), wanted, wish()))
    }
}

const WIDE: [Encoding; 2] = [Encoding::Utf16Le, Encoding::Utf16Be];

#[test]
fn what_is_written_is_written_as_the_file_was() {
    let scene = Scene::new();
    for encoding in WIDE {
        let of = |text: &str| encode_utf16(text, encoding);
        for (old, new, expected) in [
            ("a\r\nb\r\n", "ü\n𝄞", "ü\r\n𝄞\r\n"),
            ("a\nb", "x\r\ny", "x\ny"),
            ("a", "\u{feff}x\n", "x\n"),
            ("", "x", "x"),
        ] {
            scene.place.write("w", of(old));
            scene.write("w", new).unwrap();
            assert_eq!(scene.bytes("w"), of(expected), "{new:?} for {old:?}");
        }
    }
    let mark = "\u{feff}";
    for (old, new, expected) in [("a\r\n", "x\ny", "x\r\ny\r\n"), ("a", "\u{feff}x", "x")] {
        scene.place.write("w", format!("{mark}{old}"));
        scene.write("w", new).unwrap();
        assert_eq!(scene.read("w"), Some(format!("{mark}{expected}")), "{new:?} for {old:?}");
    }
    let exact = WriteRequest { content: b"x\n".to_vec(), exact: true, only_new: false };
    scene.run(scene.files.write("w".into(), exact, wish())).unwrap();
    assert_eq!(scene.bytes("w"), b"x\n");
}

#[test]
fn edits_are_of_the_text_and_tell_its_lines() {
    let scene = Scene::new();
    for encoding in WIDE {
        let of = |text: &str| encode_utf16(text, encoding);
        scene.place.write("w", of("eins\r\nzwei ä\r\n"));
        let dry = ExpectedState { dry_run: true, ..wish() };
        let shown = scene.edit("w", "zwei ä", "drei\nö", dry).unwrap();
        let diff = String::from_utf8(shown.diff).unwrap();
        assert!(diff.contains("\n-zwei ä\r\n+drei\r\n+ö\r\n"), "{diff}");
        let edited = scene.edit("w", "zwei ä", "drei\nö", wish()).unwrap();
        assert_eq!((edited.hunks[0].line, edited.added, edited.removed), (2, 2, 1));
        assert_eq!(scene.bytes("w"), of("eins\r\ndrei\r\nö\r\n"));
        scene.replace("w", "^(e).*$", "$1𝄞").unwrap();
        assert_eq!(scene.bytes("w"), of("e𝄞\r\ndrei\r\nö\r\n"));
        let edit = Edit { old: "drei".into(), new: "4".into(), all: false };
        let several = vec![("w".to_owned(), vec![edit])];
        scene.run(scene.files.edit_several(several, wish())).unwrap();
        assert_eq!(scene.bytes("w"), of("e𝄞\r\n4\r\nö\r\n"));
    }
}

#[test]
fn what_is_not_all_text_is_left_as_it_is() {
    let scene = Scene::new();
    // Half a unit at the end, and half a character in the middle.
    for odd in [&b"\xff\xfea\0b"[..], b"\xff\xfea\0\0\xd8b\0"] {
        scene.place.write("w", odd);
        let refused = scene.edit("w", "a", "c", wish()).unwrap_err();
        assert!(
            refused.contains("'w' is utf-16le and has bytes that are invalid in it"),
            "{refused}"
        );
        assert_eq!(scene.bytes("w"), odd);
    }
    scene.place.write("w", encode_utf16("aä", Encoding::Utf16Le));
    let refused = scene.replace("w", "(?-u:\\xa4)", "").unwrap_err();
    assert!(refused.contains("would have bytes that are invalid in it"), "{refused}");
}
