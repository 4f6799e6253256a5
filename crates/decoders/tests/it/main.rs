//! Every decoder keeps its invariants for every seed and for some thousand mutations of each, the
//! same on every run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod reference;
mod seeds;

use proctor_decoders::mutation::{Chance, mutated};
use proctor_decoders::{DECODERS, Decoder};

/// Mutations of each decoder, over all its seeds. The fuzz targets try more.
const MUTATIONS: usize = 3000;

/// Memory limit: an input that makes a decoder allocate what it claims fails the test.
const MEMORY: u64 = 4 << 30;

#[track_caller]
fn check(name: &str) {
    let limit = rustix::process::Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
    let decoder = proctor_decoders::find(name).unwrap();
    let seeds = (decoder.seeds)();
    assert!(seeds.len() >= 3, "{name} has {} seeds", seeds.len());
    let mut chance = Chance::new(1);
    (decoder.check)(&[]);
    seeds.iter().for_each(|seed| (decoder.check)(seed));
    for _ in 0..MUTATIONS {
        let (seed, other) = (&seeds[chance.below(seeds.len())], &seeds[chance.below(seeds.len())]);
        tried(decoder, &mutated(seed, other, &mut chance));
    }
}

/// Reports the input of a failed check, so that it can become a test.
fn tried(decoder: &Decoder, input: &[u8]) {
    let failed = std::panic::catch_unwind(|| (decoder.check)(input)).is_err();
    assert!(!failed, "{} broke its promise for b\"{}\"", decoder.name, input.escape_ascii());
}

macro_rules! decoders {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn every_decoder_is_tried() {
            let names: Vec<&str> = DECODERS.iter().map(|decoder| decoder.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

decoders!(
    to_keeper,
    from_keeper,
    state_file,
    sealed_record,
    log_index,
    log_page,
    log_cursor,
    configuration,
    interpolation,
    scalars,
    env_file,
    services_json,
    tokens_json,
    audit_line,
    requests,
    control,
    client_file,
    views,
    outputs,
    proc_stat,
    unified_diff,
    exact_edits,
    git_status,
    git_diff,
    git_log,
    git_blame,
    git_lists,
);
