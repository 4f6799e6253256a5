//! Tokens against real files.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn home(folder: &Path) -> Home {
    Home { state: folder.to_owned(), runtime: folder.join("run") }
}

fn opened(folder: &Path) -> Tokens {
    let tokens = Tokens::open(&home(folder));
    tokens.save_first();
    tokens
}

fn name_of(principal: Option<Principal>) -> Option<String> {
    match principal? {
        Principal::Token { name, .. } => Some(name),
        other @ (Principal::Local { .. } | Principal::Anonymous | Principal::Stranger) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn the_first_start_makes_a_token_that_the_next_start_knows() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = opened(folder.path());
    let file = folder.path().join("token");
    let secret = std::fs::read_to_string(&file).unwrap();
    let secret = secret.trim_end();
    for file in [&file, &folder.path().join("tokens.json")] {
        let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
    let store = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
    assert!(!store.contains(&secret[8..20]), "the secret is in the store");
    for tokens in [tokens, opened(folder.path())] {
        let Some(Principal::Token { name, role, .. }) = tokens.authenticate(secret, None) else {
            panic!("the first token is not known");
        };
        assert_eq!((name.as_str(), role), ("admin", Role::Admin));
        let near = format!("{}x", &secret[..secret.len() - 1]);
        for wrong in ["", "proctor_", &near, &secret[1..], &format!("{secret} ")] {
            assert_eq!(tokens.authenticate(wrong, None), None, "{wrong}");
        }
    }
}

#[test]
fn tokens_are_made_listed_and_revoked_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = opened(folder.path());
    let (view, secret) = tokens.create("ci", Role::Viewer, None).unwrap();
    assert_eq!((view.name.as_str(), view.role, view.last_used), ("ci", Role::Viewer, None));
    assert!(matches!(tokens.create("ci", Role::Admin, None), Err(TokenError::Taken(_))));
    assert!(matches!(tokens.create(CONFIGURED, Role::Admin, None), Err(TokenError::Taken(_))));
    for bad in ["", "a b", "../x", "-x", "a\nb", &"x".repeat(65)] {
        assert!(matches!(tokens.create(bad, Role::Admin, None), Err(TokenError::BadName(_))));
    }
    assert_eq!(name_of(tokens.authenticate(secret.reveal(), None)).as_deref(), Some("ci"));
    assert!(tokens.list()[1].last_used.is_some(), "{:?}", tokens.list());
    tokens.revoke(&view.id.0).unwrap();
    assert!(matches!(tokens.revoke("ci"), Err(TokenError::Unknown(_))));
    for tokens in [&tokens, &opened(folder.path())] {
        assert_eq!(tokens.authenticate(secret.reveal(), None), None);
        assert_eq!(tokens.list().len(), 1);
    }
    tokens.revoke("admin").unwrap();
    assert!(!folder.path().join("token").exists(), "a secret of no use was left");
    assert_eq!(opened(folder.path()).list(), [], "a revoked first token is not made anew");
}

#[test]
fn a_token_ends_when_it_said_it_would() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = opened(folder.path());
    let now = clock::now().wall.0;
    let (_, over) = tokens.create("over", Role::Admin, Some(Wall(now - 2_000_000))).unwrap();
    let (_, later) = tokens.create("later", Role::Admin, Some(Wall(now + 60_000_000))).unwrap();
    assert_eq!(tokens.authenticate(over.reveal(), None), None);
    assert_eq!(name_of(tokens.authenticate(later.reveal(), None)).as_deref(), Some("later"));
}

#[test]
fn the_configured_token_counts_where_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = opened(folder.path());
    let digest = Digest::of("a good long secret");
    let found = tokens.authenticate("a good long secret", Some(&digest));
    assert_eq!(name_of(found).as_deref(), Some(CONFIGURED));
    assert_eq!(tokens.authenticate("a good long secret", None), None);
    assert_eq!(tokens.authenticate("another secret", Some(&digest)), None);
}

#[test]
fn a_file_that_cannot_be_read_lets_nobody_in_and_stays_as_it_is() {
    for damage in ["", "{", r#"{"version":9}"#] {
        let folder = tempfile::tempdir().unwrap();
        drop(opened(folder.path()));
        let secret = std::fs::read_to_string(folder.path().join("token")).unwrap();
        std::fs::write(folder.path().join("tokens.json"), damage).unwrap();
        let tokens = opened(folder.path());
        assert!(tokens.problem().unwrap().contains("tokens.json"), "{:?}", tokens.problem());
        assert_eq!(tokens.authenticate(secret.trim_end(), None), None);
        assert!(matches!(tokens.create("x", Role::Viewer, None), Err(TokenError::Unreadable(_))));
        let left = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
        assert_eq!(left, damage);
    }
}

#[test]
fn a_token_that_cannot_be_stored_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = opened(folder.path());
    std::fs::remove_dir_all(folder.path()).unwrap();
    assert!(matches!(tokens.create("x", Role::Viewer, None), Err(TokenError::Unwritable { .. })));
    assert!(matches!(tokens.revoke("admin"), Err(TokenError::Unwritable { .. })));
    assert_eq!(tokens.list().len(), 1);
}
