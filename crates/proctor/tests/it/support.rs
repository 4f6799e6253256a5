//! Helpers of the end-to-end tests: a configuration around the victim, and requests about services.

use proctor_testkit::{Home, kill9, victim, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Deadline; generous because machines are noisy, and only a failing test waits this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// Returns a `proctor.yaml` with one service `web`: the victim with these arguments, and more keys.
pub(crate) fn web(args: &[&str], keys: &str) -> String {
    format!("supervisor:\n  services:\n{}", service("web", args, keys))
}

/// Returns one service of a configuration: the victim with these arguments, and more keys (one per line).
pub(crate) fn service(name: &str, args: &[&str], keys: &str) -> String {
    let list: Vec<String> = args.iter().map(|arg| serde_json::to_string(arg).unwrap()).collect();
    let mut text = format!(
        "    {name}:\n      command: [{:?}]\n      args: [{}]\n",
        victim(),
        list.join(", ")
    );
    for line in keys.lines() {
        text.push_str(&format!("      {line}\n"));
    }
    text
}

/// Returns a home whose configuration is up, in the background.
pub(crate) fn up(config: &str) -> Home {
    let home = Home::new();
    home.write("proctor.yaml", config);
    home.ok(["up", "-d"]);
    home
}

/// Returns the full status of a service.
#[track_caller]
pub(crate) fn status(home: &Home, name: &str) -> Value {
    home.json(["status", name])["services"][0].clone()
}

#[track_caller]
pub(crate) fn pid(home: &Home, name: &str) -> u32 {
    let status = status(home, name);
    status["pid"].as_u64().unwrap_or_else(|| panic!("{name} has no pid: {status:#}")) as u32
}

/// Waits until a service is in this state, and returns its status.
#[track_caller]
pub(crate) fn wait_state(home: &Home, name: &str, state: &str) -> Value {
    wait_until(&format!("{name} is {state}"), LIMIT, || status(home, name)["state"] == state);
    status(home, name)
}

/// Returns the lines of a service's log, without marks.
#[track_caller]
pub(crate) fn lines(home: &Home, name: &str, more: &[&str]) -> Vec<String> {
    let mut words = vec!["logs", name, "-n", "1000000"];
    words.extend(more);
    let answer = home.json(words);
    let items = answer["items"].as_array().unwrap();
    items
        .iter()
        .filter(|item| item["kind"] == "line")
        .map(|item| item["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the input of `start` for the victim under this name, with more fields.
pub(crate) fn start_of(home: &Home, name: &str, args: &[&str], more: Value) -> Value {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut argv = vec![victim().display().to_string()];
    argv.extend(args.iter().map(|arg| (*arg).to_owned()));
    let mut input = json!({
        "name": name, "argv": argv, "base_dir": home.path(), "environment": { "PATH": path },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    input
}

/// Returns a `proctor.yaml` of these services, each made by [`service`] or [`shell`].
pub(crate) fn services(all: &[String]) -> String {
    format!("supervisor:\n  services:\n{}", all.concat())
}

/// Returns one service of a configuration: a shell with this script, and more keys (one per line).
pub(crate) fn shell(name: &str, script: &str, keys: &str) -> String {
    let script = serde_json::to_string(&script.replace('$', "$$")).unwrap();
    let mut text = format!("    {name}:\n      command: [/bin/sh, -c, {script}]\n");
    for line in keys.lines() {
        text.push_str(&format!("      {line}\n"));
    }
    text
}

/// Returns the marks of a service's log: kind, time and text, in order.
#[track_caller]
pub(crate) fn marks(home: &Home, name: &str) -> Vec<(String, String, String)> {
    let answer = home.json(["logs", name, "-n", "1000000"]);
    let word = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let items = answer["items"].as_array().unwrap().iter().filter(|item| item["kind"] != "line");
    items.map(|item| (word(item, "kind"), word(item, "at"), word(item, "text"))).collect()
}

/// Kills the keeper and waits until another has taken over.
#[track_caller]
pub(crate) fn replace_keeper(home: &Home) {
    let old = home.keeper_pid();
    kill9(old);
    wait_until("a new keeper", LIMIT, || home.living_keeper().is_some_and(|now| now != old));
}

/// Returns the response to one request over its own connection.
#[track_caller]
pub(crate) fn ask(home: &Home, op: &str, input: &Value) -> Value {
    answer(home, &json!({ "op": op, "input": input }))
}

/// Sends a request as the assistant with this name, if there is one. Returns the output or the error.
#[track_caller]
pub(crate) fn ask_as(
    home: &Home,
    client: Option<&str>,
    op: &str,
    input: Value,
) -> Result<Value, Value> {
    let mut request = json!({ "op": op, "input": input });
    if let Some(client) = client {
        request["as"] = json!({ "front": "mcp", "client": client });
    }
    let mut answer = answer(home, &request);
    let good = answer.get("ok").is_some();
    let told = answer[if good { "ok" } else { "error" }].take();
    if good { Ok(told) } else { Err(told) }
}

#[track_caller]
fn answer(home: &Home, request: &Value) -> Value {
    let mut stream = UnixStream::connect(home.path().join("run/proctor.sock")).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    writeln!(stream, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|why| panic!("{request}: {why}: {line}"))
}
