//! Large files. `EDIT_BYTES` (a number) sets their size; 100 MB is the long form.

use super::{Scene, wish};
use std::fs;

const USUAL: usize = 4 << 20;

#[test]
fn a_large_file_is_edited_patched_and_brought_back_to_the_byte() {
    let size = std::env::var("EDIT_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(USUAL);
    let scene = Scene::new();
    let lines = (0..).map(|number| format!("line {number} \u{fc} of a large file\r\n"));
    let mut content: Vec<u8> = Vec::with_capacity(size + 64);
    for line in lines {
        if content.len() >= size {
            break;
        }
        content.extend_from_slice(line.as_bytes());
    }
    content.extend_from_slice(b"\xff\xfe no end");
    scene.place.write("large", &content);
    let path = scene.place.path("app/large");
    let edited = scene.edit("large", "line 10000 ü of", "line TEN\nTHOUSAND of", wish()).unwrap();
    assert_eq!((edited.added, edited.removed), (2, 1));
    let at = content.windows(16).position(|part| part == "line 10000 ü of".as_bytes()).unwrap();
    let expected = [&content[..at], b"line TEN\r\nTHOUSAND of", &content[at + 16..]].concat();
    assert!(fs::read(&path).unwrap() == expected, "edited to the byte");
    // The reverse diff restores it.
    let back = proctor_core::diff::unified(
        proctor_core::diff::FileNames::Changed("large"),
        &expected,
        &content,
        3,
    );
    scene.diff(&String::from_utf8(back).unwrap()).unwrap();
    assert!(fs::read(&path).unwrap() == content, "patched to the byte");
    scene.run(scene.files.undo("large".into(), None, wish())).unwrap();
    assert!(fs::read(&path).unwrap() == expected, "undone to the byte");
    scene.is_tidy();
}
