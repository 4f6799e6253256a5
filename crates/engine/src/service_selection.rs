//! Resolves words of a command line to services: a name, all instances of one, a group, or `all`.

use crate::api::View;
use crate::error::EngineError;
use proctor_core::name::ServiceName;
use std::collections::BTreeSet;

/// The word that selects every service.
const ALL: &str = "all";

/// Minimum similarity of two words for one to be suggested instead of the other.
const ALIKE: f64 = 0.75;

/// Each service once, in the order of the words.
pub(crate) fn select(view: &View, words: &[String]) -> Result<Vec<ServiceName>, EngineError> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for word in words {
        let meant = meant(view, word);
        if meant.is_empty() && word != ALL {
            return Err(unknown(view, word));
        }
        names.extend(meant.into_iter().filter(|name| seen.insert(name.clone())));
    }
    Ok(names)
}

/// The services of a request that names none.
pub(crate) fn meant_by_nothing(view: &View) -> Result<Vec<ServiceName>, EngineError> {
    let bases: BTreeSet<&str> = view.services.keys().map(ServiceName::base).collect();
    let primary = view.services.values().filter(|service| service.primary);
    let primary: BTreeSet<&str> = primary.map(|service| service.name.base()).collect();
    let one = if primary.is_empty() { &bases } else { &primary };
    match (one.first(), one.len()) {
        (Some(base), 1) => Ok(meant(view, base)),
        _ => {
            let names = bases.into_iter().map(str::to_owned).collect();
            Err(EngineError::NoneNamed { names })
        }
    }
}

/// The error for an unknown word, with the most similar name.
pub(crate) fn unknown(view: &View, word: &str) -> EngineError {
    let names = view.services.keys().flat_map(|name| [name.as_str(), name.base()]);
    let known = names.chain(view.groups.keys().map(String::as_str));
    let alike = |known: &str| strsim::jaro_winkler(&word.to_lowercase(), &known.to_lowercase());
    let nearest = known
        .map(|known| (alike(known), known))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|one, two| one.0.total_cmp(&two.0))
        .map(|(_, known)| known.to_owned());
    EngineError::UnknownService { name: word.to_owned(), nearest }
}

fn meant(view: &View, word: &str) -> Vec<ServiceName> {
    if word == ALL {
        return view.services.keys().cloned().collect();
    }
    if let Ok(name) = ServiceName::parse(word)
        && view.services.contains_key(&name)
    {
        return vec![name];
    }
    let mut instances: Vec<ServiceName> =
        view.services.keys().filter(|name| name.base() == word).cloned().collect();
    instances.sort_by_key(ServiceName::instance);
    if !instances.is_empty() {
        return instances;
    }
    view.groups.get(word).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Origin;
    use crate::definition::tests::{definition, plain};
    use crate::registry_state::RegistryState;

    fn view() -> View {
        let mut board = RegistryState::default();
        for name in ["api", "web@1", "web@2", "web@10", "database"] {
            let mut def = plain(name, &["true"]);
            if name.starts_with("web") || name == "api" {
                def.groups = vec!["front".into()];
            }
            board.define(&definition(def, Origin::File));
        }
        board.view
    }

    fn check(words: &[&str], expected: Result<&[&str], Option<&str>>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match (select(&view(), &words), expected) {
            (Ok(names), Ok(expected)) => {
                let names: Vec<&str> = names.iter().map(ServiceName::as_str).collect();
                assert_eq!(names, expected, "{words:?}");
            }
            (Err(EngineError::UnknownService { nearest, .. }), Err(expected)) => {
                assert_eq!(nearest.as_deref(), expected, "{words:?}");
            }
            (result, _) => panic!("{words:?} gave {result:?}"),
        }
    }

    #[test]
    fn words_name_services_instances_groups_or_all() {
        check(&["api"], Ok(&["api"]));
        check(&["web@2"], Ok(&["web@2"]));
        check(&["web"], Ok(&["web@1", "web@2", "web@10"]));
        check(&["front"], Ok(&["api", "web@1", "web@10", "web@2"]));
        check(&["all"], Ok(&["api", "database", "web@1", "web@10", "web@2"]));
        check(&["web@2", "web", "api", "api"], Ok(&["web@2", "web@1", "web@10", "api"]));
        check(&[], Ok(&[]));
    }

    #[test]
    fn without_a_name_the_only_or_the_primary_service_is_meant() {
        let check = |services: &[(&str, bool)], expected: Result<&[&str], &str>| {
            let mut board = RegistryState::default();
            for (name, primary) in services {
                let mut def = plain(name, &["true"]);
                def.primary = *primary;
                board.define(&definition(def, Origin::File));
            }
            match (meant_by_nothing(&board.view), expected) {
                (Ok(names), Ok(expected)) => {
                    let names: Vec<&str> = names.iter().map(ServiceName::as_str).collect();
                    assert_eq!(names, expected, "{services:?}");
                }
                (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected),
                (result, _) => panic!("{services:?} gave {result:?}"),
            }
        };
        check(&[("web", false)], Ok(&["web"]));
        check(&[("web@1", false), ("web@2", false)], Ok(&["web@1", "web@2"]));
        check(&[("api", false), ("web", true)], Ok(&["web"]));
        check(&[("api", false), ("web@1", true), ("web@2", true)], Ok(&["web@1", "web@2"]));
        check(&[("api", false), ("web", false)], Err("which service? name one of api, web"));
        check(&[("api", true), ("web", true)], Err("which service? name one of api, web"));
        check(&[], Err("there is no service"));
    }

    #[test]
    fn an_unknown_word_gets_the_nearest_name() {
        check(&["databse"], Err(Some("database")));
        check(&["API2"], Err(Some("api")));
        check(&["fornt"], Err(Some("front")));
        check(&["web@3"], Err(Some("web@2")));
        check(&["../etc"], Err(None));
        check(&["zzz"], Err(None));
    }
}
