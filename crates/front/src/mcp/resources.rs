//! Services as resources: their status and their output.

use super::assistant::{Conversation, refusal};
use super::operation_caller::RequestCaller;
use proctor_core::name::ServiceName;
use proctor_ops::error::OpError;
use proctor_ops::table::find;
use proctor_ops::text_output::{Page, unpainted};
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, ListResourceTemplatesResult,
    ListResourcesResult, ReadResourceResult, Reference, Resource, ResourceContents,
    ResourceTemplate,
};
use serde_json::{Value, json};

const ALL: &str = "proctor://services";

/// Services on one page of the list.
const PAGE: usize = 100;

/// Maximum output lines of a resource; `get_process_logs` reads more.
const LINES: usize = 200;

/// Maximum bytes of these lines.
const MAX_RESOURCE_BYTES: usize = 16_000;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// Object of a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResourceAddress {
    All,
    Status(ServiceName),
    Logs(ServiceName),
}

impl ResourceAddress {
    pub(super) fn parse(uri: &str) -> Option<ResourceAddress> {
        let rest = match uri.strip_prefix(ALL)? {
            "" => return Some(ResourceAddress::All),
            rest => rest.strip_prefix('/')?,
        };
        let (name, what) = rest.split_once('/')?;
        let name = ServiceName::parse(&name.replace("%40", "@")).ok()?;
        match what {
            "status" => Some(ResourceAddress::Status(name)),
            "logs" => Some(ResourceAddress::Logs(name)),
            _ => None,
        }
    }

    pub(super) fn uri(&self) -> String {
        match self {
            ResourceAddress::All => ALL.into(),
            ResourceAddress::Status(name) => format!("{ALL}/{name}/status"),
            ResourceAddress::Logs(name) => format!("{ALL}/{name}/logs"),
        }
    }

    pub(super) fn service(&self) -> Option<&ServiceName> {
        match self {
            ResourceAddress::All => None,
            ResourceAddress::Status(name) | ResourceAddress::Logs(name) => Some(name),
        }
    }
}

pub(super) fn unknown(uri: &str) -> ErrorData {
    let message = format!("unknown resource '{uri}'; resources/list shows all");
    ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
}

async fn names(assistant: &Conversation, speaker: &RequestCaller) -> Result<Vec<String>, OpError> {
    let list = assistant.ask(speaker, "service.list", json!({ "no_usage": true })).await?;
    let services = list["services"].as_array().cloned().unwrap_or_default();
    Ok(services
        .iter()
        .filter_map(|service| service["name"].as_str().map(ToOwned::to_owned))
        .collect())
}

/// Lists all services as one resource, then two resources for each. The cursor is the last name of the previous page.
pub(super) async fn list(
    assistant: &Conversation,
    speaker: &RequestCaller,
    after: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let mut names = names(assistant, speaker).await.map_err(refusal)?;
    names.sort();
    let first = after.is_none().then(|| {
        Resource::new(ALL, "services")
            .with_title("All processes")
            .with_description("Every supervised process and its state")
            .with_mime_type(JSON)
    });
    names.retain(|name| after.is_none_or(|after| name.as_str() > after));
    let next = (names.len() > PAGE).then(|| names[PAGE - 1].clone());
    names.truncate(PAGE);
    let both = names.iter().flat_map(|name| {
        let of = |what: &str, title: &str, kind: &str| {
            Resource::new(format!("{ALL}/{name}/{what}"), format!("{name} {what}"))
                .with_title(format!("{title} {name}"))
                .with_mime_type(kind)
        };
        [of("status", "Status of", JSON), of("logs", "Last output of", TEXT)]
    });
    let mut result = ListResourcesResult::with_all_items(first.into_iter().chain(both).collect());
    result.next_cursor = next;
    Ok(result)
}

pub(super) fn templates() -> ListResourceTemplatesResult {
    let of = |what: &str, title: &str, about: &str, kind: &str| {
        ResourceTemplate::new(format!("{ALL}/{{name}}/{what}"), format!("process {what}"))
            .with_title(title)
            .with_description(about)
            .with_mime_type(kind)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        of("status", "Status of a process", "Full status of one process", JSON),
        of("logs", "Output of a process", "Last output lines of one process", TEXT),
    ])
}

pub(super) async fn read(
    assistant: &Conversation,
    speaker: &RequestCaller,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let place = ResourceAddress::parse(uri).ok_or_else(|| unknown(uri))?;
    let (text, kind) = match &place {
        ResourceAddress::All => {
            (facts(assistant, speaker, "service.list", json!({ "no_usage": true })).await, JSON)
        }
        ResourceAddress::Status(name) => {
            (facts(assistant, speaker, "service.status", json!({ "names": [name] })).await, JSON)
        }
        ResourceAddress::Logs(name) => (output(assistant, speaker, name).await, TEXT),
    };
    let contents = ResourceContents::text(text.map_err(refusal)?, uri).with_mime_type(kind);
    Ok(ReadResourceResult::new(vec![contents]))
}

async fn facts(
    assistant: &Conversation,
    speaker: &RequestCaller,
    operation: &str,
    input: Value,
) -> Result<String, OpError> {
    Ok(assistant.ask(speaker, operation, input).await?.to_string())
}

/// Returns the last lines, as shown to people.
pub(super) async fn output(
    assistant: &Conversation,
    speaker: &RequestCaller,
    name: &ServiceName,
) -> Result<String, OpError> {
    // A service without output is still known.
    assistant.ask(speaker, "service.status", json!({ "names": [name], "no_usage": true })).await?;
    let input =
        json!({ "services": [name], "tail": LINES, "fold": true, "max_bytes": MAX_RESOURCE_BYTES });
    shown(&assistant.ask(speaker, "log.read", input).await?, "log.read")
}

/// Renders a response for people.
pub(super) fn shown(answer: &Value, operation: &str) -> Result<String, OpError> {
    let mut page = Page::new(proctor_ops::timestamps::zone);
    if let Some(entry) = find(operation) {
        entry.show(answer, &mut page)?;
    }
    Ok(page.render(None, unpainted))
}

/// Completes names of services.
pub(super) async fn complete(
    assistant: &Conversation,
    speaker: &RequestCaller,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let known = match &request.r#ref {
        Reference::Prompt(prompt) => super::prompts::takes(&prompt.name, &request.argument.name),
        Reference::Resource(template) => {
            request.argument.name == "name"
                && templates().resource_templates.iter().any(|one| one.uri_template == template.uri)
        }
        _ => false,
    };
    if !known {
        return Ok(CompleteResult::default());
    }
    let mut names = names(assistant, speaker).await.map_err(refusal)?;
    names.retain(|name| name.starts_with(&request.argument.value));
    let total = names.len();
    names.truncate(CompletionInfo::MAX_VALUES);
    let more = total > names.len();
    let values = CompletionInfo::with_pagination(names, u32::try_from(total).ok(), more);
    Ok(CompleteResult::new(values.map_err(|why| ErrorData::internal_error(why, None))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_place_or_nothing() {
        for uri in
            ["proctor://services", "proctor://services/web/status", "proctor://services/web@2/logs"]
        {
            assert_eq!(ResourceAddress::parse(uri).unwrap().uri(), uri);
        }
        for uri in [
            "",
            "proctor://",
            "proctor://services/",
            "proctor://services/web",
            "proctor://services/../status",
            "proctor://services/a/b/logs",
            "file:///etc/passwd",
            "proctor://services/web/logs/",
        ] {
            assert_eq!(ResourceAddress::parse(uri), None, "{uri}");
        }
    }
}
