//! The effective values of a service, converted to the types of its definition.
//!
//! The key table guarantees a default for every value read with [`sure`]; a test checks that.

use super::keys::blocks;
use super::problem::TextPosition;
use super::read::LocatedValue;
use super::service::Service;
use super::value::Value;
use crate::spec::{Limit, LogSpec, OnFull, OnShutdown, Policy, Resource, RestartSpec, StopSpec};
use crate::time::Millis;

impl Service<'_> {
    pub(super) fn stop(&self) -> StopSpec {
        let signal = match self.value("stop.signal") {
            Some(Value::Signal(signal)) => Some(*signal),
            _ => None,
        };
        let on_shutdown = match self.choice("on_shutdown") {
            "leave" => OnShutdown::Leave,
            _ => OnShutdown::Stop,
        };
        StopSpec { signal: sure(signal), grace: self.millis("stop.grace"), on_shutdown }
    }

    pub(super) fn restart(&self) -> RestartSpec {
        let policy = match self.choice("restart_policy") {
            "always" => Policy::Always,
            "never" => Policy::Never,
            "one_shot" => Policy::OneShot,
            _ => Policy::OnFailure,
        };
        let success_codes = match self.value("success_exit_codes") {
            Some(Value::ExitCodes(codes)) => Some(codes.clone()),
            _ => None,
        };
        RestartSpec {
            policy,
            success_codes: sure(success_codes),
            max_restarts: self.number("max_restarts").and_then(|count| u32::try_from(count).ok()),
            window: self.millis("restart.window"),
            delay: self.maybe_millis("restart.delay"),
            max_delay: self.millis("restart.max_delay"),
            backoff: self.float("restart.backoff"),
            jitter: self.float("restart.jitter"),
            stable_after: self.millis("restart.stable_after"),
            cool_off: self.maybe_millis("restart.cool_off"),
        }
    }

    pub(super) fn logs(&self) -> LogSpec {
        let on_full = match self.choice("logs.on_full") {
            "block" => OnFull::Block,
            _ => OnFull::Drop,
        };
        LogSpec {
            segment_bytes: self.bytes("logs.max_size"),
            max_age: self.maybe_millis("logs.max_age"),
            max_segments: self.count("logs.max_files"),
            max_total_bytes: self.bytes("logs.max_total"),
            on_full,
        }
    }

    pub(super) fn limits(&self) -> Vec<Limit> {
        let one = |name: &str| match self.value(&format!("limits.{name}")) {
            Some(Value::Limit { soft, hard }) => {
                Some(Limit { resource: resource(name), soft: *soft, hard: *hard })
            }
            _ => None,
        };
        blocks::LIMITS.iter().filter_map(|key| one(key.name)).collect()
    }

    pub(super) fn umask(&self) -> Option<u32> {
        match self.value("umask") {
            Some(Value::Umask(mask)) => Some(*mask),
            _ => None,
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.find(key).map(|found| &found.value)
    }

    /// The place of the effective value; for a default, the place of the service.
    pub(super) fn place_of(&self, key: &str) -> TextPosition {
        match self.find(key) {
            Some(LocatedValue { place: Some(place), .. }) => *place,
            _ => self.place,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.value(key) {
            Some(Value::Text(word)) => Some(word.text.clone()),
            _ => None,
        }
    }

    pub(super) fn words(&self, key: &str) -> Vec<String> {
        match self.value(key) {
            Some(Value::Words(words)) => words.iter().map(|word| word.text.clone()).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        match self.value(key) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn small(&self, key: &str) -> Option<i32> {
        self.number(key).and_then(|number| i32::try_from(number).ok())
    }

    pub(super) fn count(&self, key: &str) -> u32 {
        sure(self.number(key).and_then(|number| u32::try_from(number).ok()))
    }

    pub(super) fn maybe_millis(&self, key: &str) -> Option<Millis> {
        match self.value(key) {
            Some(Value::Millis(millis)) => Some(Millis(*millis)),
            _ => None,
        }
    }

    pub(super) fn millis(&self, key: &str) -> Millis {
        sure(self.maybe_millis(key))
    }

    pub(super) fn bytes(&self, key: &str) -> u64 {
        let bytes = match self.value(key) {
            Some(Value::Bytes(bytes)) => Some(*bytes),
            _ => None,
        };
        sure(bytes)
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        matches!(self.value(key), Some(Value::Bool(true)))
    }

    fn float(&self, key: &str) -> f64 {
        let float = match self.value(key) {
            Some(Value::Float(float)) => Some(*float),
            _ => None,
        };
        sure(float)
    }

    pub(super) fn choice(&self, key: &str) -> &'static str {
        let choice = match self.value(key) {
            Some(Value::Choice(name)) => Some(*name),
            _ => None,
        };
        sure(choice)
    }
}

fn sure<T>(value: Option<T>) -> T {
    value.expect("the key table has a default of the right kind")
}

fn resource(name: &str) -> Resource {
    match name {
        "nofile" => Resource::OpenFiles,
        "nproc" => Resource::Processes,
        "core" => Resource::Core,
        "as" => Resource::AddressSpace,
        "cpu" => Resource::Cpu,
        "data" => Resource::Data,
        "fsize" => Resource::FileSize,
        "memlock" => Resource::LockedMemory,
        _ => Resource::Stack,
    }
}
