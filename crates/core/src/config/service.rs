//! Builds one service: merges its own layer over the supervisor's over the defaults, checks the
//! result, and copies it for each instance.

use super::mcp;
use super::problem::{TextPosition, quoted};
use super::read::{Layer, LocatedValue, Reader};
use super::scalar;
use super::secret::shown_strictly;
use super::string_lists::INSTANCE;
use super::value::{DisplayText, Value, Variable};
use super::{HealthCheck, ServiceDef, UserRef};
use crate::name::{MAX_NAME, ServiceName};
use std::collections::{BTreeMap, BTreeSet};

/// The layers of one service, and its place in the file.
pub(super) struct Service<'l> {
    pub name: ServiceName,
    /// The place of its name in the file.
    pub place: TextPosition,
    /// `services.web`
    pub path: String,
    pub own: &'l Layer,
    pub supervisor: &'l Layer,
    pub defaults: &'l Layer,
}

/// The result of building a service.
pub(super) struct BuiltService {
    pub definitions: Vec<ServiceDef>,
    /// Its environment with origins, for the settings.
    pub variables: Vec<Variable>,
}

impl Service<'_> {
    /// Merges two spellings of one setting: `health_check_interval` becomes
    /// `health_check.interval`.
    pub(super) fn join_intervals(reader: &mut Reader<'_>, own: &mut Layer, path: &str) {
        let Some(short) = own.remove("health_check_interval") else { return };
        if own.contains_key("health_check.interval") {
            let place = short.place.unwrap_or(TextPosition::START);
            let message =
                format!("{path}.health_check_interval: 'health_check.interval' sets it too");
            reader.problem(place, message, Some("remove one of them".into()));
        }
        own.insert("health_check.interval".into(), short);
    }

    /// Returns the effective value and its origin.
    pub(super) fn find(&self, key: &str) -> Option<&LocatedValue> {
        let layers = [self.own, self.supervisor, self.defaults];
        layers.into_iter().find_map(|layer| layer.get(key))
    }

    pub(super) fn build(&self, reader: &mut Reader<'_>) -> BuiltService {
        let argv = self.argv(reader);
        let variables = self.variables(reader);
        let user = self.user(reader);
        let groups = self.groups(reader);
        let health = self.health(reader);
        self.check_restart(reader);
        self.check_logs(reader);
        self.check_instances(reader);
        let definitions = argv.map(|(argv, command_words)| {
            let definition = ServiceDef {
                name: self.name.clone(),
                description: self.text("description"),
                groups,
                argv,
                command_words,
                env: variables.iter().map(|it| (it.name.clone(), it.text.clone())).collect(),
                working_dir: self
                    .text("working_dir")
                    .unwrap_or_else(|| reader.around.base_dir.into()),
                user,
                umask: self.umask(),
                limits: self.limits(),
                nice: self.small("nice"),
                oom_score_adj: self.small("oom_score_adj"),
                port: self.number("port").and_then(|port| u16::try_from(port).ok()),
                autostart: self.flag("autostart"),
                primary: self.flag("primary"),
                assistants: mcp::assistants(self.choice("assistants")),
                stop: self.stop(),
                restart: self.restart(),
                logs: self.logs(),
                health,
            };
            self.instances(reader, definition)
        });
        BuiltService { definitions: definitions.unwrap_or_default(), variables }
    }

    /// Returns the whole command line, and the number of its words that come from `command`.
    fn argv(&self, reader: &mut Reader<'_>) -> Option<(Vec<String>, usize)> {
        let Some(found) = self.find("command") else {
            let message = format!("{}: 'command' is missing", self.path);
            reader.problem(self.place, message, Some("write 'command: …' below it".into()));
            return None;
        };
        let place = found.place.unwrap_or(self.place);
        let path = format!("{}.command", self.path);
        let args = self.words("args").into_iter();
        let mut argv = match (&found.value, self.flag("shell")) {
            (Value::Line(line, _), true) => {
                return Some(self.shell(reader, &line.text, args.collect()));
            }
            (Value::Line(line, syntax), false) => {
                let argv = split(reader, line, place, &path)?;
                if let Some(syntax) = syntax.as_ref().filter(|syntax| syntax.is_certain()) {
                    let message = format!("{path}: {syntax}, and no shell runs this command");
                    reader.ambiguity(place, message, syntax.advice());
                }
                argv
            }
            (_, true) => {
                let message =
                    format!("{path}: found a list, expected text, because 'shell' is true");
                reader.problem(place, message, None);
                return None;
            }
            (_, false) => self.words("command"),
        };
        if argv.first().is_some_and(|program| program.starts_with('~')) {
            let message = format!("{path}: '~' is not expanded, found {}", quoted(&argv[0]));
            reader.problem(place, message, Some("write ${HOME}/…, or a path from '/'".into()));
        }
        let command_words = argv.len();
        argv.extend(args);
        Some((argv, command_words))
    }

    fn shell(
        &self,
        reader: &mut Reader<'_>,
        line: &str,
        args: Vec<String>,
    ) -> (Vec<String>, usize) {
        let mut argv = vec!["/bin/sh".to_string(), "-c".into(), line.into()];
        if args.is_empty() {
            let command_words = argv.len();
            return (argv, command_words);
        }
        if !line.contains('$') {
            let place = self.place_of("args");
            let message = format!("{}.args: the shell command does not use them", self.path);
            reader.problem(
                place,
                message,
                Some("write \"$@\" in 'command' where they belong".into()),
            );
        }
        // The word after the command is the shell's own name, $0.
        argv.push("sh".into());
        let command_words = argv.len();
        argv.extend(args);
        (argv, command_words)
    }

    /// Within a level `env` overrides files; every value of the service overrides those of the
    /// supervisor.
    fn variables(&self, reader: &mut Reader<'_>) -> Vec<Variable> {
        let own_files = self.own.contains_key("env_file");
        let mut merged = Vec::new();
        let mut index = BTreeMap::new();
        for (layer, path, with_files) in
            [(self.supervisor, "supervisor", !own_files), (self.own, self.path.as_str(), own_files)]
        {
            if let Some(LocatedValue { value: Value::Words(files), place, .. }) =
                layer.get("env_file").filter(|_| with_files)
            {
                let place = place.unwrap_or(self.place);
                let variables = reader.env_files(files, place, &format!("{path}.env_file"));
                lay_over(&mut merged, &mut index, variables);
            }
            if let Some(LocatedValue { value: Value::Variables(variables), .. }) = layer.get("env")
            {
                lay_over(&mut merged, &mut index, variables.clone());
            }
        }
        merged
    }

    fn user(&self, reader: &mut Reader<'_>) -> Option<UserRef> {
        let supplementary = self.words("supplementary_groups");
        let place = self.place_of("supplementary_groups");
        let path = format!("{}.supplementary_groups", self.path);
        for group in supplementary.iter().filter(|group| !scalar::is_account(group)) {
            reader.problem(
                place,
                format!("{path}: found {}, expected a group", quoted(group)),
                None,
            );
        }
        if let Some(LocatedValue { value: Value::User { user, group }, .. }) = self.find("user") {
            return Some(UserRef { user: user.clone(), group: group.clone(), supplementary });
        }
        if !supplementary.is_empty() {
            let message = format!("{path}: has no effect without 'user'");
            reader.problem(place, message, None);
        }
        None
    }

    fn groups(&self, reader: &mut Reader<'_>) -> Vec<String> {
        let groups = self.words("groups");
        let place = self.place_of("groups");
        let mut seen = BTreeSet::new();
        for group in &groups {
            let trouble = match plain_name(group) {
                Err(why) => Some(why.replace("service name", "group name")),
                Ok(_) if !seen.insert(group) => Some(format!("{} is a duplicate", quoted(group))),
                Ok(_) => None,
            };
            if let Some(trouble) = trouble {
                reader.problem(place, format!("{}.groups: {trouble}", self.path), None);
            }
        }
        groups
    }

    fn health(&self, reader: &mut Reader<'_>) -> Option<HealthCheck> {
        if let Some(url) = self.text("health_check_url") {
            return Some(HealthCheck {
                url,
                interval: self.millis("health_check.interval"),
                timeout: self.millis("health_check.timeout"),
                retries: self.count("health_check.retries"),
                start_period: self.millis("health_check.start_period"),
            });
        }
        let timing = self.own.iter().find(|(key, _)| key.starts_with("health_check."));
        if let Some((key, found)) = timing {
            let message = format!("{}.{key}: has no effect without 'health_check_url'", self.path);
            reader.problem(found.place.unwrap_or(self.place), message, None);
        }
        None
    }

    fn check_restart(&self, reader: &mut Reader<'_>) {
        let Some(delay) = self.maybe_millis("restart.delay") else { return };
        let longest = self.millis("restart.max_delay");
        if delay > longest {
            let message = format!(
                "{}.restart.delay: found {} ms, expected at most 'max_delay', {} ms",
                self.path, delay.0, longest.0
            );
            reader.problem(
                self.place_of("restart.delay"),
                message,
                Some("raise 'max_delay'".into()),
            );
        }
    }

    fn check_logs(&self, reader: &mut Reader<'_>) {
        let (size, total) = (self.bytes("logs.max_size"), self.bytes("logs.max_total"));
        if total < size.saturating_mul(2) {
            let key = match self.find("logs.max_total") {
                Some(LocatedValue { place: Some(_), .. }) => "logs.max_total",
                _ => "logs.max_size",
            };
            let message = format!(
                "{}.{key}: 'max_total' is {total} bytes, expected at least twice 'max_size', {size} bytes",
                self.path
            );
            let help = "both streams have an open file of up to 'max_size'; raise 'max_total' or lower 'max_size'";
            reader.problem(self.place_of(key), message, Some(help.into()));
        }
    }

    fn check_instances(&self, reader: &mut Reader<'_>) {
        let instances = self.count("instances");
        let port = self.number("port").unwrap_or(0);
        if port + i64::from(instances) - 1 > 65535 {
            let message = format!(
                "{}.port: {instances} instances from port {port} on exceed port 65535",
                self.path
            );
            reader.problem(self.place_of("port"), message, None);
        }
        let longest = self.name.instance_of(instances);
        if instances > 1 && longest.as_str().len() > MAX_NAME {
            let message =
                format!("{}: the name '{longest}' is longer than {MAX_NAME} characters", self.path);
            reader.problem(self.place, message, None);
        }
    }

    /// Returns the definition once, or once for each instance.
    fn instances(&self, reader: &mut Reader<'_>, definition: ServiceDef) -> Vec<ServiceDef> {
        let instances = self.count("instances");
        let (count, size) = cost(&definition);
        let mut all = Vec::new();
        for number in 1..=instances {
            if !reader.charge(count, size, self.place) {
                break;
            }
            let mut one = definition.clone();
            let mut port_is_ours = false;
            if let Some(first) = definition.port {
                let port = first.saturating_add(u16::try_from(number - 1).unwrap_or(u16::MAX));
                port_is_ours = !one.env.iter().any(|(name, _)| name == "PORT");
                one.port = Some(port);
                if let Some(health) = &mut one.health {
                    health.url = scalar::with_port(&health.url, first, port);
                }
            }
            if let Some(port) = one.port.filter(|_| port_is_ours) {
                one.env.push(("PORT".into(), port.to_string()));
            }
            if instances > 1 {
                one.name = self.name.instance_of(number);
                one.env.push((INSTANCE.into(), number.to_string()));
            }
            all.push(one);
        }
        all
    }
}

/// Counts the texts of a definition and their total length.
fn cost(definition: &ServiceDef) -> (usize, usize) {
    let groups = definition.user.iter().flat_map(|user| &user.supplementary);
    let texts = definition.argv.iter().chain(&definition.groups).chain(groups);
    let pairs = definition.env.iter().flat_map(|(name, text)| [name, text]);
    let rest = [&definition.working_dir].into_iter().chain(&definition.description);
    texts
        .chain(pairs)
        .chain(rest)
        .fold((0, 0), |(count, size), text| (count + 1, size + text.len()))
}

/// Splits a text into words as a POSIX shell does; a comment or white space is not a command.
fn split(
    reader: &mut Reader<'_>,
    line: &DisplayText,
    place: TextPosition,
    path: &str,
) -> Option<Vec<String>> {
    let (message, help) = match shlex::split(&line.text) {
        Some(words) if words.first().is_some_and(|program| !program.is_empty()) => {
            return Some(words);
        }
        Some(_) => ("found no program in it", None),
        None => (
            "a quote is not closed, or the text ends with a backslash",
            Some("close it, or write the command as a list of words".to_string()),
        ),
    };
    reader.problem(
        place,
        format!("{path}: {message}: {}", quoted(&shown_strictly(&line.shown))),
        help,
    );
    None
}

/// Adds a variable; it replaces an earlier one of the same name.
fn lay_over(into: &mut Vec<Variable>, index: &mut BTreeMap<String, usize>, from: Vec<Variable>) {
    for variable in from {
        match index.get(&variable.name) {
            Some(at) => into[*at] = variable,
            None => {
                index.insert(variable.name.clone(), into.len());
                into.push(variable);
            }
        }
    }
}

/// Parses a name without an instance; rejects the word for all services.
pub(super) fn plain_name(text: &str) -> Result<ServiceName, String> {
    if text == "all" {
        return Err("the service name 'all' means every service".into());
    }
    if text.contains('@') {
        return Err(format!(
            "service name {} may not contain an '@': use 'instances'",
            quoted(text)
        ));
    }
    ServiceName::parse(text).map_err(|error| error.to_string())
}
