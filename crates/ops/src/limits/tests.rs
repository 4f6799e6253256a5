//! Limits with many concurrent callers.

use super::*;
use crate::operation::{Front, Role};

fn network(peer: &str, token: Option<&str>) -> Caller {
    let principal = token.map_or(Principal::Anonymous, |id| Principal::Token {
        id: TokenId(id.into()),
        name: id.into(),
        role: Role::Admin,
    });
    Caller::remote(principal, Front::Rest, peer.parse().unwrap())
}

fn code(result: Result<Permit, OpError>) -> Option<Code> {
    result.err().map(|error| error.code)
}

#[test]
fn whatever_comes_over_the_network_the_owner_gets_in() {
    let limits = Arc::new(Limits::default());
    let mut held = Vec::new();
    for token in 0..8 {
        for _ in 0..MAX_READS {
            held.extend(
                limits.admit(&network("10.0.0.1:1", Some(&token.to_string())), Effect::Read),
            );
        }
    }
    assert_eq!(held.len(), MAX_READS as usize, "all slots of the network are in use");
    let owner = Caller::local(0);
    assert!(
        limits.admit(&owner, Effect::Read).is_ok() && limits.admit(&owner, Effect::Admin).is_ok()
    );
    drop(held);
    assert!(limits.admit(&network("10.0.0.1:1", None), Effect::Read).is_ok());
}

#[test]
fn one_caller_leaves_places_to_others() {
    let limits = Arc::new(Limits::default());
    let one = network("10.0.0.1:1", Some("a"));
    let held: Vec<Permit> =
        (0..READS_OF_ONE).map(|_| limits.admit(&one, Effect::Read).ok().unwrap()).collect();
    assert_eq!(code(limits.admit(&one, Effect::Read)), Some(Code::Busy));
    assert!(limits.admit(&network("10.0.0.1:2", Some("b")), Effect::Read).is_ok());
    drop(held);
    assert!(limits.admit(&one, Effect::Read).is_ok());
}

#[test]
fn changes_in_a_row_are_limited_and_reads_are_not() {
    let limits = Arc::new(Limits::default());
    let one = network("10.0.0.1:1", Some("a"));
    let all = (0..100_000).all(|_| limits.admit(&one, Effect::Read).is_ok());
    assert!(all, "a read was refused");
    let taken = (0..2000).filter(|_| limits.admit(&one, Effect::Write).is_ok()).count();
    assert!((500..1500).contains(&taken), "{taken} of 2000 changes at once");
    let error = limits.admit(&one, Effect::Write).err().unwrap();
    assert_eq!(error.code, Code::RateLimited);
    assert!(error.details.unwrap()["retry_after_seconds"].as_f64().unwrap() > 0.0);
    assert!((0..2000).all(|_| limits.admit(&Caller::local(7), Effect::Write).is_ok()));
}

#[test]
fn wrong_tokens_of_one_address_are_limited() {
    let limits = Limits::default();
    let (one, other) = (network("[2001:db8::1]:1", None), network("[2001:db9::1]:1", None));
    for _ in 0..30 {
        limits.guessed_wrong(&one);
    }
    assert!(limits.may_guess(&one).is_err());
    let neighbour = network("[2001:db8::2]:1", None);
    assert!(limits.may_guess(&neighbour).is_err(), "another address of the same network");
    assert!(limits.may_guess(&other).is_ok());
}

#[test]
fn what_is_remembered_of_callers_has_a_bound() {
    let limits = Limits::default();
    for a in 0..=255 {
        for b in 0..64 {
            limits.notes_refusal(&network(&format!("10.0.{b}.{a}:1"), None));
        }
    }
    let known = limits.state().callers.len();
    assert!(known <= MAX_CALLERS + 1, "{known}");
}

#[test]
fn refusals_of_many_addresses_are_not_written_down_one_by_one() {
    let limits = Limits::default();
    let written = |count, token: Option<&str>| {
        let caller = |n: u32| network(&format!("10.0.{}.{}:1", n / 256, n % 256), token);
        (0..count).filter(|n| limits.notes_refusal(&caller(*n))).count()
    };
    let nameless = written(2000, None);
    assert!((200..500).contains(&nameless), "{nameless} of 2000 were written");
    assert_eq!(written(50, Some("a")), 50, "those of a token have a share of their own");
    assert!(limits.notes_refusal(&Caller::local(7)));
}

#[test]
fn all_addresses_of_this_machine_are_one_caller() {
    let limits = Arc::new(Limits::default());
    for n in 0..30 {
        limits.guessed_wrong(&network(&format!("127.0.0.{n}:1"), None));
    }
    for peer in ["127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.9]:1"] {
        assert!(limits.may_guess(&network(peer, None)).is_err(), "{peer}");
    }
    let reads =
        |n: u32| limits.admit(&network(&format!("127.0.1.{}:1", n % 256), None), Effect::Read);
    let held: Vec<Permit> = (0..MAX_READS).filter_map(|n| reads(n).ok()).collect();
    assert_eq!(held.len(), READS_OF_ONE as usize);
}

#[test]
fn wrong_tokens_of_more_addresses_than_are_remembered_are_limited_too() {
    let limits = Limits::default();
    let (now, load) = (Instant::now(), Load { reads: 1, changes: 0 });
    let busy = (0..MAX_CALLERS).map(|n| (Key::Token(TokenId(n.to_string())), load));
    let shares = busy.map(|(key, load)| (key, CallerShare { load, ..CallerShare::new(now) }));
    limits.state().callers.extend(shares);
    // The bucket refills over time, and a busy machine is slow.
    let refused = (0..200).any(|n| {
        limits.guessed_wrong(&network(&format!("10.0.0.{n}:1"), None));
        limits.may_guess(&network("10.0.1.1:1", None)).is_err()
    });
    assert!(refused);
}
