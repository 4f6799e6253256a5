//! Reading, listing, finding and searching: as a person, as an assistant, as a client of HTTP.

use super::{app, put, token};
use proctor_testkit::{Conversation, Home, Http};
use serde_json::{Value, json};

#[test]
fn a_file_is_shown_as_it_is_and_described_to_programs() {
    let home = app("");
    put(&home, "a.txt", "one\n\ttwo\nthree");
    assert_eq!(home.ok(["file", "read", "a.txt"]), "one\n\ttwo\nthree\n");
    assert_eq!(home.ok(["file", "read", "a.txt", "--from", "2", "-n", "1"]), "\ttwo\n");
    assert_eq!(home.ok(["file", "read", "app:a.txt", "--tail", "1"]), "three\n");
    let file = &home.json(["file", "read", "a.txt"])["files"][0];
    assert_eq!(
        (&file["text"], &file["size"], &file["lines"], &file["no_final_newline"]),
        (&json!("one\n\ttwo\nthree"), &json!(14), &json!(3), &json!(true))
    );
    let sum = std::process::Command::new("sha256sum").arg(home.path().join("app/a.txt")).output();
    if let Ok(sum) = sum {
        let sum = String::from_utf8(sum.stdout).unwrap();
        assert!(sum.starts_with(file["sha256"].as_str().unwrap()), "{sum} {file}");
    }
    assert_eq!(home.fail(["file", "read", "none"]).0, 3);
    let (code, said) = home.fail(["file", "read", "../token"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("leads out of its root"), "{said}");
}

#[test]
fn a_folder_is_listed_and_names_and_contents_are_found() {
    let home = app("");
    put(&home, "src/main.rs", "fn main() {\n\tcall();\n}\n");
    put(&home, "src/lib.rs", "pub fn call() {}\n");
    put(&home, "target/x.rs", "call");
    put(&home, ".gitignore", "target\n");
    assert_eq!(
        home.ok(["file", "list", "--depth", "2"]),
        format!(
            "app: {}\nsrc/\n  lib.rs  17 B\n  main.rs  23 B\n",
            home.path().join("app").display()
        )
    );
    assert_eq!(home.ok(["file", "find", "*.rs"]), "src/lib.rs\nsrc/main.rs\n");
    assert_eq!(
        home.ok(["file", "search", "call", "--context", "1"]),
        "src/lib.rs\n1:pub fn call() {}\nsrc/main.rs\n1-fn main() {\n2:\tcall();\n3-}\n"
    );
    assert_eq!(
        home.ok(["file", "search", "-F", "call()", "--tell", "files"]),
        "src/lib.rs\nsrc/main.rs\n"
    );
    let found = home.json(["file", "search", "call", "--no-ignore", "--most", "1"]);
    assert_eq!((&found["more"], found["files"].as_array().unwrap().len()), (&json!(true), 1));
    let cursor = found["cursor"].as_str().unwrap();
    let rest = home.json(["file", "search", "call", "--no-ignore", "--cursor", cursor]);
    assert_eq!((&rest["matches"], &rest["more"]), (&json!(2), &json!(false)));
}

#[test]
fn without_a_configuration_there_is_nothing_to_look_at() {
    let home = Home::new();
    home.ok(["daemon", "start"]);
    let (code, said) = home.fail(["file", "list", "x"]);
    assert_eq!(code, 3);
    assert!(said.contains("no folder is declared"), "{said}");
}

#[test]
fn the_folder_of_the_configuration_is_the_root_if_nothing_is_said() {
    let home = Home::new();
    home.write("proctor.yaml", "services: {}\n");
    home.write("note.txt", "here\n");
    home.ok(["up", "-d"]);
    assert_eq!(home.ok(["file", "read", "note.txt"]), "here\n");
    // This home's own files are there, too.
    for own in ["token", "tokens.json", "services.json", "audit/00000001.jsonl", "proctor.log"] {
        let (code, said) = home.fail(["file", "read", own]);
        assert_eq!(code, 1, "{own}: {said}");
        assert!(said.contains("Proctor's own"), "{own}: {said}");
    }
    assert_eq!(home.ok(["file", "find", "*", "--hidden"]), "note.txt\nproctor.yaml\n");
    assert_eq!(home.ok(["file", "search", "proctor_", "--hidden", "--no-ignore"]), "");
    home.write("proctor.yaml", "supervisor:\n  roots: []\n  services: {}\n");
    home.ok(["up", "-d"]);
    assert_eq!(home.fail(["file", "read", "note.txt"]).0, 3);
}

#[test]
fn who_may_only_look_at_services_does_not_see_files() {
    let home = app("");
    put(&home, "a.txt", "text");
    let http = Http::at(home.port("http"));
    let body = json!({ "path": "a.txt" });
    assert_eq!(http.post("/api/v1/file/read", &body).status, 401);
    let viewer = Http::at(home.port("http")).token(&token(&home, "viewer"));
    assert_eq!(viewer.post("/api/v1/file/read", &body).status, 403);
    assert_eq!(viewer.post("/api/v1/file/search", &json!({ "pattern": "x" })).status, 403);
    let operator = Http::at(home.port("http")).token(&token(&home, "operator"));
    let answer = operator.post("/api/v1/file/read", &body);
    assert_eq!((answer.status, answer.json()["files"][0]["text"].as_str()), (200, Some("text")));
    assert_eq!(operator.get("/api/v1/file/list?path=.&depth=1").status, 200);
    let audit = home.json(["audit", "read", "-n", "100"]);
    let read =
        |line: &&Value| line["operation"] == "file.read" && line["targets"] == json!(["a.txt"]);
    assert_eq!(audit["entries"].as_array().unwrap().iter().filter(read).count(), 1, "{audit:#}");
}

#[test]
fn an_assistant_reads_text_and_has_the_facts_beside_it() {
    let home = app("");
    put(&home, "a.rs", "fn main() {\n\tprintln!(\"`proctor list`\");\n}\n");
    put(&home, "large.txt", "0123456789\n".repeat(10_000));
    let mut assistant = Conversation::begin(&home, "assistant");
    let told = assistant.ok("read_file", json!({ "path": "a.rs" }));
    let (text, facts) = told.text.split_once("── ").unwrap();
    assert_eq!(text, "fn main() {\n\tprintln!(\"`proctor list`\");\n}\n");
    assert!(facts.starts_with("a.rs: ") && facts.contains("sha256="), "{facts}");
    let file = &told.facts["files"][0];
    assert!(file["sha256"].is_string() && file.get("text").is_none(), "{file}");
    let told = assistant.ok("read_file", json!({ "path": "large.txt" }));
    assert!(
        told.text.len() < 30_000 && told.text.contains("continue with cursor: "),
        "{}",
        told.text.len()
    );
    let found = assistant.ok("search_files", json!({ "pattern": "main" }));
    assert_eq!(found.text, "a.rs\n1:fn main() {\n── matches=1\n");
    let listed = assistant.ok("list_files", json!({}));
    assert!(listed.text.contains("a.rs") && listed.text.contains("large.txt"), "{}", listed.text);
    assert_eq!(assistant.ok("find_files", json!({ "globs": ["*.rs"] })).text, "a.rs\n");
    let wrong = assistant.call("read_file", json!({ "path": "/etc/passwd" }));
    assert!(wrong.is_error && wrong.text.contains("is outside the roots"), "{}", wrong.text);
}

#[test]
fn pictures_are_shown_and_other_bytes_described() {
    let home = app("");
    // The smallest picture.
    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    put(&home, "a.png", picture);
    put(&home, "b.bin", b"\x7fELF\0\x01\x02");
    let mut assistant = Conversation::begin(&home, "assistant");
    let told = assistant.ok("read_file", json!({ "paths": ["a.png", "b.bin"] }));
    let data = "iVBORw0KGgoAAAANSUhEUg==";
    let shown = json!({ "type": "image", "mimeType": "image/png", "data": data });
    assert_eq!(told.pictures, [shown]);
    let files = &told.facts["files"];
    assert_eq!((&files[0]["media"], files[0].get("picture")), (&json!("image/png"), None));
    assert_eq!((&files[1]["binary"], files[1].get("base64")), (&json!(true), None));
    let bytes = assistant.ok("read_file", json!({ "paths": ["b.bin"], "bytes": true }));
    assert!(bytes.text.contains("f0VMRgABAg=="), "{}", bytes.text);
    assert_eq!(home.ok(["file", "read", "a.png"]), "a.png (16 B, image/png, not text)\n");
}
