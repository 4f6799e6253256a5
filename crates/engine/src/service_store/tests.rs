//! Stored formats, damaged files, and the fallback when the file cannot be written.

use super::*;
use proctor_core::record_encoding::BootId;
use proctor_core::time::{Millis, Mono, Now, Wall};

fn open(path: PathBuf) -> (Store, LoadedStore) {
    let fallback = path.with_file_name("fallback.json");
    Store::open(path, fallback)
}

/// The format that version 1 promises; written by hand, never regenerated.
const RELEASED: &str = r#"{
    "version": 1, "config": "/srv/proctor.yaml", "example": false, "environment": {"A": "1"},
    "wishes": {"web": "up", "db@2": "down"}, "args": {"web": ["--port", "80"]},
    "added": {"job": {"definition": {"command": "true"}, "base_dir": "/srv", "environment": null}}
}"#;

#[test]
fn a_file_of_version_one_is_understood() {
    let stored: StoredServices = serde_json::from_str(RELEASED).unwrap();
    assert_eq!(stored.source(), Some(ConfigSource::File("/srv/proctor.yaml".into())));
    let web = ServiceName::parse("web").unwrap();
    assert_eq!(stored.wishes[&web], StoredWish::Up);
    assert_eq!(stored.args[&web], ["--port", "80"]);
    let job = &stored.added[&ServiceName::parse("job").unwrap()];
    assert_eq!(job.definition, Some(serde_json::json!({"command": "true"})));
    let again: StoredServices =
        serde_json::from_slice(&serde_json::to_vec(&stored).unwrap()).unwrap();
    assert_eq!(again, stored);
}

/// The format with owners and leases.
const OWNED: &str = r#"{
    "version": 1,
    "added": {"job": {"definition": {"command": "true"}, "base_dir": "/srv", "environment": null, "owner": "claude-code",
              "lease": {"length": 1800000, "until": 1763193600000000, "ends": 7200000000, "boot": "00112233445566778899aabbccddeeff"}}}
}"#;

#[test]
fn whose_a_service_is_and_until_when_is_understood() {
    let stored: StoredServices = serde_json::from_str(OWNED).unwrap();
    let job = &stored.added[&ServiceName::parse("job").unwrap()];
    assert_eq!(job.owner, ClientName::parse("claude-code"));
    let (now, boot) = (
        Mono(7_000_000_000),
        BootId(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"),
    );
    let lease = job.lease.as_ref().unwrap().resume(Now { mono: now, wall: Wall(0) }, boot);
    assert_eq!(lease.left(now), Millis::seconds(200 + 180));
    let again: StoredServices =
        serde_json::from_slice(&serde_json::to_vec(&stored).unwrap()).unwrap();
    assert_eq!(again, stored);
}

#[test]
fn what_is_dropped_leaves_nothing_of_its_instances() {
    let name = |text: &str| ServiceName::parse(text).unwrap();
    let mut stored: StoredServices = serde_json::from_str(OWNED).unwrap();
    for service in ["job@1", "job@2", "jobs"] {
        stored.wishes.insert(name(service), StoredWish::Up);
    }
    stored.args.insert(name("job@2"), Vec::new());
    stored.drop_added(&name("job"));
    assert_eq!(stored.wishes.keys().collect::<Vec<_>>(), [&name("jobs")]);
    assert!(stored.args.is_empty() && stored.added.is_empty());
}

#[tokio::test]
async fn what_was_saved_comes_back_and_leftovers_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("services.json");
    let (store, found) = open(path.clone());
    assert!(matches!(found, LoadedStore::Nothing));
    let mut stored = StoredServices::default();
    stored.set_source(&ConfigSource::Example);
    store.save(&stored).await.unwrap();
    std::fs::write(folder.path().join(".services.json.4294967295-1-0.tmp"), "{").unwrap();
    let (_, found) = open(path);
    assert!(matches!(found, LoadedStore::Stored(back) if *back == stored));
    let mut left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".services.json.spare", "services.json"]);
}

#[tokio::test]
async fn what_is_not_understood_is_set_aside_and_kept() {
    let good = r#"{"version":1}"#;
    let bad = ["", "{", "[]", "{}", r#"{"version":2}"#, r#"{"version":1,"wishes":{"../x":"up"}}"#];
    for text in bad {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("services.json");
        std::fs::write(&path, text).unwrap();
        let (store, found) = open(path.clone());
        assert!(matches!(found, LoadedStore::Damaged { .. }), "{text:?} was taken");
        assert!(!path.exists());
        let entry = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        let aside = entry.file_name().into_string().unwrap();
        assert!(aside.starts_with("services.json.damaged-"), "{aside}");
        assert_eq!(std::fs::read_to_string(entry.path()).unwrap(), text);
        store.save(&StoredServices::default()).await.unwrap();
        assert!(path.exists());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("services.json");
    std::fs::write(&path, good).unwrap();
    assert!(matches!(open(path).1, LoadedStore::Stored(_)));
}

#[test]
fn no_part_of_a_file_is_taken_for_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("services.json");
    for length in 0..RELEASED.len() {
        std::fs::write(&path, &RELEASED[..length]).unwrap();
        assert!(read(&path).is_err(), "{length} bytes were taken");
    }
    std::fs::write(&path, RELEASED).unwrap();
    assert!(read(&path).unwrap().is_some());
}

#[tokio::test]
async fn what_can_be_neither_read_nor_moved_aside_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let (store, found) = open(folder.path().join("file/services.json"));
    let LoadedStore::Damaged { problem } = found else { panic!("{found:?}") };
    assert!(problem.contains("cannot be read"), "{problem}");
    assert!(problem.contains("cannot be moved aside"), "{problem}");
    let error = store.save(&StoredServices::default()).await.unwrap_err().to_string();
    assert!(error.contains("cannot be moved aside"), "{error}");
}

#[test]
fn a_folder_in_place_of_the_file_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("services.json");
    std::fs::create_dir(&path).unwrap();
    let (_, found) = open(path.clone());
    let LoadedStore::Damaged { problem } = found else { panic!("{found:?}") };
    assert!(problem.contains("is not a file written by Proctor; it was moved to"), "{problem}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_state_folder_that_is_gone_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone/services.json");
    let (store, _) = open(path.clone());
    let error = store.save(&StoredServices::default()).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot write {}: ", path.display())), "{error}");
}

#[tokio::test]
async fn what_cannot_be_written_in_its_place_is_found_elsewhere_until_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("services.json");
    let (store, _) = open(path.clone());
    store.save(&StoredServices::default()).await.unwrap();
    let mut newer = StoredServices::default();
    newer.wishes.insert(ServiceName::parse("web").unwrap(), StoredWish::Down);
    store.save_in_fallback(&newer).await.unwrap();
    let (store, found) = open(path.clone());
    assert!(matches!(found, LoadedStore::Stored(found) if *found == newer) && store.has_fallback());
    store.save(&newer).await.unwrap();
    assert!(!store.has_fallback());
    let (_, found) = open(path);
    assert!(matches!(found, LoadedStore::Stored(found) if *found == newer));
}

#[tokio::test]
async fn a_changed_bit_is_noticed_and_the_file_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("services.json");
    let mut stored = StoredServices::default();
    stored.wishes.insert(ServiceName::parse("web").unwrap(), StoredWish::Down);
    stored.args.insert(ServiceName::parse("web").unwrap(), vec!["--port".into(), "80".into()]);
    let good = encode(&stored).unwrap();
    assert_eq!(parse(&good).unwrap(), stored);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&bad).is_err(), "bit {bit}: {}", String::from_utf8_lossy(&bad));
    }
    let text = String::from_utf8(good).unwrap();
    std::fs::write(&path, text.replace("\"down\"", "\"up\"")).unwrap();
    let (_, found) = open(path.clone());
    let LoadedStore::Damaged { problem } = found else { panic!("{found:?}") };
    assert!(problem.contains("checksum") && problem.contains("moved to"), "{problem}");
    // To edit the file by hand, remove both lines.
    let edited: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("sealed") && !line.contains("checksum"))
        .collect();
    let edited = edited.join("\n").replace("\"down\"", "\"up\"").replace("},\n}", "}\n}");
    std::fs::write(&path, edited).unwrap();
    let (_, found) = open(path);
    assert!(matches!(found, LoadedStore::Stored(_)), "{found:?}");
}
