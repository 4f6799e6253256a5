//! Long output comes in pages, and the pages are complete.

use super::scene::{Scene, put};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;

#[test]
fn differences_come_by_the_page() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n"), ("bin", "x\0y")]);
    let long: String = (0..400).map(|n| format!("line {n}\n")).collect();
    put(&repo, "a", &long);
    put(&repo, "bin", "x\0z");
    scene.daemon("", json!({}), async |caller| {
        let whole = caller.ok("git.diff", &repo, json!({})).await;
        let expected = scene.git(&repo, &["diff"]) + "\n";
        assert_eq!(whole["diff"], expected);
        assert_eq!(
            whole["files"][0],
            json!({ "path": "a", "change": "modified", "added": 400, "deleted": 1 })
        );
        assert_eq!(whole["files"][1], json!({ "path": "bin", "change": "modified" }));
        let (mut text, mut input) = (String::new(), json!({ "max_bytes": 1000 }));
        loop {
            let page = caller.ok("git.diff", &repo, input.clone()).await;
            let part = page["diff"].as_str().unwrap();
            assert!(part.len() <= 1000 && part.ends_with('\n'));
            text += part;
            if page.get("more").is_none() {
                break;
            }
            input["cursor"] = page["cursor"].clone();
        }
        assert_eq!(text, expected);
        put(&repo, "a", "other\n");
        assert_eq!(caller.refused("git.diff", &repo, input).await.0, Code::Stale);
        let since = caller
            .ok("git.diff", &repo, json!({ "from": "HEAD", "paths": ["a"], "context": 0 }))
            .await;
        assert_eq!(since["diff"].as_str().unwrap().lines().last(), Some("+other"));
    });
}

#[test]
fn files_of_a_revision_come_by_the_page() {
    let scene = Scene::new();
    let lines: String = (0..400).map(|n| format!("line {n} ü\n")).collect();
    let repo = scene.repository("app", &[("lines", &lines), ("long", &"äöü".repeat(500))]);
    let binary: Vec<u8> = (0..5000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(repo.join("binary"), &binary).unwrap();
    scene.git(&repo, &["add", "-A"]);
    scene.git(&repo, &["commit", "-q", "-m", "second"]);
    scene.daemon("", json!({}), async |caller| {
        for path in ["lines", "long", "binary"] {
            let expected = fs::read(repo.join(path)).unwrap();
            let (mut all, mut input) = (Vec::new(), json!({ "path": path, "max_bytes": 700 }));
            loop {
                let page = caller.ok("git.show", &repo, input.clone()).await;
                let file = &page["file"];
                assert_eq!(file["size"], expected.len());
                assert_eq!(
                    file.get("offset").map_or(0, |at| at.as_u64().unwrap()),
                    all.len() as u64
                );
                match (file["text"].as_str(), file["bytes"].as_str()) {
                    (Some(text), None) => all.extend_from_slice(text.as_bytes()),
                    (None, Some(bytes)) => all.extend(STANDARD.decode(bytes).unwrap()),
                    both => panic!("{path}: {both:?}"),
                }
                assert_eq!(page.get("more").is_some(), page.get("cursor").is_some());
                let Some(cursor) = page.get("cursor") else { break };
                input["cursor"] = cursor.clone();
            }
            assert!(all == expected, "{path}");
        }
        let page = caller.ok("git.show", &repo, json!({ "path": "lines", "max_bytes": 700 })).await;
        let other = json!({ "path": "long", "cursor": page["cursor"] });
        assert_eq!(caller.refused("git.show", &repo, other).await.0, Code::Stale);
    });
}
