//! Changes that a service did not like: what is taken back, and what is left as others made it.

use crate::edits::{GOOD, content, scripted};
use crate::files::put;
use serde_json::json;

#[test]
fn what_somebody_else_changed_meanwhile_is_left_alone_and_all_else_is_taken_back() {
    let home = scripted();
    put(&home, "b.txt", "one\n");
    let run = crate::support::pid(&home, "web");
    let diff = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+echo theirs >> app/b.txt; exit 1\n exec sleep 100000\n\
                --- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let (code, said) = home.fail(["change", "web", "--diff", diff]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("not all could be restored"), "{said}");
    assert!(said.contains("'b.txt' has changed meanwhile, and was left as it is"), "{said}");
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    assert_eq!(content(&home, "b.txt"), b"two\ntheirs\n");
    let status = crate::support::status(&home, "web");
    assert!(status["state"] == "running" && status["pid"] != json!(run), "{status:#}");
}
