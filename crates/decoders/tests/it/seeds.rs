//! Writes the seeds as files for a fuzzer, and checks that each decoder has a fuzz target.

use proctor_decoders::DECODERS;
use std::path::{Path, PathBuf};

/// Writes the seeds of every decoder into `folder/NAME/`, where the fuzzer of that name expects
/// them.
fn write_seeds(folder: &Path) {
    for decoder in DECODERS {
        let corpus = folder.join(decoder.name);
        std::fs::create_dir_all(&corpus).unwrap();
        for (number, seed) in (decoder.seeds)().iter().enumerate() {
            std::fs::write(corpus.join(format!("seed-{number:02}")), seed).unwrap();
        }
    }
}

/// `cargo xtask fuzz` runs this with `WRITE_SEEDS=FOLDER`.
#[test]
fn every_decoder_writes_its_seeds() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("WRITE_SEEDS").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| scratch.path().to_owned());
    write_seeds(&folder);
    for decoder in DECODERS {
        let first = std::fs::read(folder.join(decoder.name).join("seed-00")).unwrap();
        assert_eq!(Some(&first), (decoder.seeds)().first(), "{}", decoder.name);
    }
}

#[test]
fn every_decoder_has_a_fuzz_target_and_every_target_a_decoder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for decoder in DECODERS {
        let name = decoder.name;
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{name}\"\n")), "{name}");
        let text = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs")));
        let call = format!("proctor_decoders::check(\"{name}\", bytes)");
        assert!(text.unwrap().contains(&call), "{name}");
    }
    let targets = std::fs::read_dir(folder.join("fuzz_targets")).unwrap();
    assert_eq!(targets.count(), DECODERS.len());
}
