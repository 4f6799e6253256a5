//! Durations, sizes, signals, numbers and the other single values of a configuration, and service names.

use crate::config::around;
use proctor_core::config::{parse, signal};
use proctor_core::name::{MAX_NAME, ServiceName};
use serde_json::{Value, json};

/// Keys with a single value, one of each kind and unit.
const KEYS: &[&str] = &[
    "restart.delay",
    "restart.window",
    "restart.cool_off",
    "restart.backoff",
    "restart.jitter",
    "stop.grace",
    "stop.signal",
    "health_check.interval",
    "logs.max_size",
    "logs.max_age",
    "logs.max_files",
    "limits.nofile",
    "limits.data",
    "max_restarts",
    "restart_policy",
    "umask",
    "user",
    "nice",
    "port",
    "autostart",
    "health_check_url",
    "working_dir",
    "description",
];

/// The first byte selects the key. An accepted value is shown in a form that means the same when
/// written.
pub(crate) fn check(bytes: &[u8]) {
    let Some((key, bytes)) = crate::choice(bytes) else { return };
    let (key, text) = (KEYS[key % KEYS.len()], crate::lossy(bytes));
    if let Some(shown) = read(key, &json!(text)) {
        let again = read(key, &shown);
        assert_eq!(again.as_ref(), Some(&shown), "{key}: {text:?} is shown as what it is not");
    }
    a_name(&text);
    if let Some(number) = signal::number(&text) {
        assert_eq!(signal::number(&number.to_string()), Some(number));
        let by_name = signal::name(number).map(signal::number);
        assert!(by_name.is_none_or(|again| again == Some(number)), "{text}");
    }
}

/// The effective value if `key` has this value; `None` if it is refused or absent.
fn read(key: &str, value: &Value) -> Option<Value> {
    let mut service = json!({ "command": "serve" });
    match key.split_once('.') {
        Some((block, key)) => service[block] = json!({ key: value }),
        None => service[key] = value.clone(),
    }
    if key.starts_with("health_check.") {
        service["health_check_url"] = json!("http://localhost/");
    }
    let file = json!({ "services": { "web": service } }).to_string();
    let config = parse("proctor.yaml", &file, &around()).ok()?;
    let full = format!("services.web.{key}");
    let setting = config.settings.iter().find(|setting| setting.key == full);
    let setting = setting.unwrap_or_else(|| panic!("{key} is taken and not shown"));
    serde_json::from_str(&setting.value).ok().filter(|value: &Value| !value.is_null())
}

/// A name becomes a folder, a cgroup and a word on a command line.
fn a_name(text: &str) {
    let Ok(name) = ServiceName::parse(text) else { return };
    assert_eq!(name.as_str(), text);
    assert!(text.len() <= MAX_NAME && !text.starts_with(['.', '-', '@']), "{text}");
    assert!(!text.contains(['/', '\0', ' ', '\n']), "{text}");
    match name.instance() {
        None => assert_eq!(name.base(), text),
        Some(number) => assert_eq!(format!("{}@{number}", name.base()), text),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let values = [
        "5s",
        "500ms",
        "1.5h",
        "none",
        "2d",
        "2",
        "0.25",
        "10s",
        "SIGTERM",
        "30",
        "16MiB",
        "7d",
        "5",
        "1024:4096",
        "64MB:unlimited",
        "unlimited",
        "on_failure",
        "0o022",
        "me:1000",
        "-5",
        "8080",
        "true",
        "http://[::1]:80/x?y",
        "sub/${HOME}",
        "web@2",
    ];
    let of_key = |(key, value): (usize, &&str)| [&[key as u8], value.as_bytes()].concat();
    values.iter().enumerate().map(of_key).collect()
}
