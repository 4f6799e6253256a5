//! The MCP handler: passes the requests of an assistant to tools, resources and prompts.

use super::call::{self, Progress, ToolCall};
use super::http::SESSION;
use super::instructions::instructions;
use super::operation_caller::{OperationCaller, PresentedToken, RequestCaller};
use super::project::KnownProject;
use super::resource_updates::ResourceUpdates;
use super::sessions::{Sessions, Subscriptions};
use super::tasks::Tasks;
use super::tool_reply;
use super::{prompts, resources, schema};
use axum::http::request::Parts;
use proctor_core::access::ClientName;
use proctor_ops::error::{Code, OpError};
use proctor_ops::field_aliases::understood;
use proctor_ops::operation::{Caller, Front};
use proctor_ops::tools::{self, Tool, Toolset};
#[expect(deprecated, reason = "clients of the handshake era still use logging")]
use rmcp::model::SetLevelRequestParams;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CompleteRequestParams, CompleteResult, CreateTaskResult, DiscoverResult, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestMethod,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::SessionRestoreMarker;
use rmcp::{ServerHandler, model::Tool as Listed};
use serde_json::{Map, Value, json};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Maximum bytes of a page of text: it fits into a reply with its notes.
const MAX_PAGE_BYTES: u64 = 24_000;

/// Milliseconds that lists of tools and prompts may be cached; they change only with another Proctor.
const LISTS_KEEP: u64 = 300_000;

/// Interval between reads of the configuration.
const SETS_KEEP: Duration = Duration::from_secs(10);

/// Time after which a client that supports tasks gets a handle for a running call.
const TASK_AFTER: Duration = Duration::from_secs(5);

/// Time of the last read, and its result.
type CachedServices = Option<(Instant, Vec<Toolset>)>;

/// State shared by all conversations of one door.
pub(super) struct SharedState {
    pub(super) door: Box<dyn OperationCaller>,
    /// Toolsets offered by default; `None` takes those of the configuration.
    pub(super) sets: Option<Vec<Toolset>>,
    /// Toolsets of the configuration at the last read.
    pub(super) configured: Mutex<CachedServices>,
    /// True if the caller is on this machine and in our folder.
    pub(super) here: bool,
    /// Maximum duration of a call.
    pub(super) patience: Duration,
    pub(super) tasks: Tasks,
    /// Subscriptions of sessions, kept beyond our own end; `None` for a conversation of its own process.
    pub(super) sessions: Option<Arc<Sessions>>,
}

/// One conversation.
#[derive(Clone)]
pub(super) struct Conversation {
    pub(super) house: Arc<SharedState>,
    watches: Arc<ResourceUpdates>,
    project: Arc<KnownProject>,
}

impl Conversation {
    pub(super) fn new(house: Arc<SharedState>) -> Conversation {
        Conversation { house, watches: Arc::default(), project: Arc::default() }
    }

    /// Performs an operation for the speaker.
    pub(super) async fn ask(
        &self,
        speaker: &RequestCaller,
        operation: &str,
        input: Value,
    ) -> Result<Value, OpError> {
        self.house.door.call(speaker, super::operation_caller::entry(operation)?, input).await
    }

    /// Stores the subscriptions of the session of a request.
    fn follow(
        &self,
        context: &RequestContext<RoleServer>,
        change: impl FnOnce(&mut Subscriptions),
    ) {
        let parts = context.extensions.get::<Parts>();
        let session = parts.and_then(|parts| parts.headers.get(SESSION)?.to_str().ok());
        if let (Some(sessions), Some(session)) = (&self.house.sessions, session) {
            sessions.follow(session, change);
        }
    }

    /// Restores the subscriptions that a session had at the previous daemon.
    fn resume(&self, session: &str, context: &RequestContext<RoleServer>) {
        let Some(sessions) = &self.house.sessions else { return };
        let Subscriptions { uris, list, level } = sessions.followed(session);
        let (speaker, peer) = (speaker(context), &context.peer);
        for place in uris.iter().filter_map(|uri| resources::ResourceAddress::parse(uri)) {
            // The number of subscriptions was checked before.
            let _ = self.watches.begin(self.house.clone(), peer.clone(), speaker.clone(), place);
        }
        if list {
            self.watches.follow_list(self.house.clone(), peer.clone(), speaker.clone());
        }
        if let Some(level) = level {
            self.watches.tell(self.house.clone(), peer.clone(), speaker, level);
        }
    }

    /// Returns the toolsets in the request's address, those of our start, or those of the configuration.
    async fn sets(&self, context: &RequestContext<RoleServer>) -> Result<Vec<Toolset>, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        let query = parts.and_then(|parts| parts.uri.query()).unwrap_or_default();
        let named = query.split('&').find_map(|pair| pair.strip_prefix("toolsets="));
        match (named, &self.house.sets) {
            (Some(names), _) => Toolset::list(&names.replace("%2C", ","))
                .map_err(|why| ErrorData::invalid_params(why, None)),
            (None, Some(sets)) => Ok(sets.clone()),
            (None, None) => Ok(self.house.configured(&speaker(context)).await),
        }
    }

    /// Returns the instructions for the tools that this conversation is offered.
    async fn instructions(&self, context: &RequestContext<RoleServer>) -> String {
        // Unknown toolsets are rejected when tools are listed.
        let sets = self.sets(context).await.unwrap_or_else(|_| Toolset::USUAL.to_vec());
        instructions(&sets)
    }

    async fn tool(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<&'static Tool, ErrorData> {
        let wrong = |message: String| Err(ErrorData::invalid_params(message, None));
        match tools::find(name) {
            Some(tool) if self.sets(context).await?.contains(&tool.set) => Ok(tool),
            Some(tool) => wrong(format!(
                "'{name}' belongs to the toolset '{}', which is not offered here",
                tool.set
            )),
            None => wrong(format!("unknown tool '{name}'")),
        }
    }
}

impl SharedState {
    /// Returns the toolsets of the configuration; none if nothing runs.
    async fn configured(&self, speaker: &RequestCaller) -> Vec<Toolset> {
        if let Some((at, sets)) = self.known().clone()
            && at.elapsed() < SETS_KEEP
        {
            return sets;
        }
        let usual = || Toolset::USUAL.to_vec();
        let Ok(entry) = super::operation_caller::entry("daemon.status") else { return usual() };
        let Ok(status) = self.door.glance(speaker, entry, json!({})).await else { return usual() };
        let names = status["toolsets"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named = names.iter().filter_map(|name| name.as_str()?.parse().ok());
        let sets: Vec<Toolset> = named.collect();
        let sets = if sets.is_empty() { usual() } else { sets };
        *self.known() = Some((Instant::now(), sets.clone()));
        sets
    }

    fn known(&self) -> MutexGuard<'_, CachedServices> {
        self.configured.lock().expect("nothing panics in between")
    }
}

pub(super) fn speaker(context: &RequestContext<RoleServer>) -> RequestCaller {
    let client = context.client_info().and_then(|info| ClientName::parse(&info.name));
    let parts = context.extensions.get::<Parts>();
    let caller = parts.and_then(|parts| parts.extensions.get::<Caller>()).cloned();
    let caller = caller.map(|caller| {
        let front = caller.front;
        caller.through(front, client.clone())
    });
    let token = parts.and_then(|parts| parts.extensions.get::<PresentedToken>()).cloned();
    RequestCaller { caller, client, token }
}

/// Converts an error of a request that is not a tool call.
pub(super) fn refusal(error: OpError) -> ErrorData {
    let OpError { code, message, help, .. } = error;
    let message = help.map_or(message.clone(), |help| format!("{message}; {help}"));
    if matches!(code, Code::UnknownService | Code::NotFound) {
        return ErrorData::resource_not_found(message, None);
    }
    let number = match code == Code::BadInput {
        true => ErrorCode::INVALID_PARAMS,
        false => code.rpc().map_or(ErrorCode::INTERNAL_ERROR, ErrorCode),
    };
    ErrorData::new(number, message, None)
}

fn input(tool: &Tool, given: Option<Map<String, Value>>) -> Map<String, Value> {
    let given = Value::Object(given.unwrap_or_default());
    let Value::Object(mut input) = understood(tool.entry(), given, Front::Mcp) else {
        return Map::new();
    };
    let usual: Map<String, Value> = serde_json::from_str(tool.usual).unwrap_or_default();
    // A request with a start position does not mean the end.
    let begins = ["cursor", "since"].iter().any(|field| input.contains_key(*field));
    // A line or a port is the condition to wait for.
    let is_said = ["log", "port"].iter().any(|field| input.contains_key(*field));
    let applies = |field: &str| match field {
        "tail" => !begins,
        "until" => !is_said,
        _ => true,
    };
    for (field, value) in usual.into_iter().filter(|(field, _)| applies(field)) {
        input.entry(field).or_insert(value);
    }
    // Lines that do not fit into the text would be skipped by its own cursor.
    if let Some(bytes) = input.get_mut("max_bytes")
        && bytes.as_u64().is_some_and(|bytes| bytes > MAX_PAGE_BYTES)
    {
        *bytes = json!(MAX_PAGE_BYTES);
    }
    input
}

impl ServerHandler for Conversation {
    #[expect(deprecated, reason = "clients of the handshake era still use logging")]
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let version = env!("CARGO_PKG_VERSION");
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("proctor", version).with_title("Proctor"))
            .with_instructions(instructions(&Toolset::USUAL))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        if let Some(SessionRestoreMarker { id, .. }) = context.extensions.get() {
            self.resume(id, &context);
        }
        let mut result = self.negotiate_initialize(&request)?;
        result.instructions = Some(self.instructions(&context).await);
        Ok(result)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let config = self.get_info().with_instructions(self.instructions(&context).await);
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, config))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = schema::tools(&self.sets(&context).await?);
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(LISTS_KEEP))
    }

    fn get_tool(&self, name: &str) -> Option<Listed> {
        schema::tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = self.tool(&request.name, &context).await?;
        let speaker = speaker(&context);
        let offered = self.sets(&context).await?;
        let follows_tasks = context.client_capabilities().is_some_and(|can| can.supports_tasks());
        let task = follows_tasks && call::is_slow(tool) && !self.house.tasks.is_full();
        let progress = context.meta.get_progress_token();
        let project = match self.house.here {
            true => self.project.get(&context).await,
            false => None,
        };
        let ct = context.ct.clone();
        let call = ToolCall {
            house: Arc::clone(&self.house),
            tool,
            speaker: speaker.clone(),
            input: input(tool, request.arguments),
            project,
            progress: progress.map(|token| Progress { peer: context.peer.clone(), token, said: 0 }),
            patience: (!task).then_some(self.house.patience),
            told_to_stop: Box::pin(async move { ct.cancelled_owned().await }),
        };
        if !task {
            return answered(tool, call, offered).await.map(Into::into);
        }
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let call = ToolCall { told_to_stop: Box::pin(async move { drop(stopped.await) }), ..call };
        let mut work: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(answered(tool, call, offered));
        tokio::select! {
            biased;
            result = &mut work => return result.map(Into::into),
            () = tokio::time::sleep(TASK_AFTER) => {}
        }
        let task = self.house.tasks.begin(&speaker, tool.title, work, stop);
        Ok(CreateTaskResult::new(task).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.house.tasks.get(&speaker(&context), &request.task_id)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // No task of ours asks for input, so its existence is all to check.
        self.house.tasks.get(&speaker(&context), &request.task_id).map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.house.tasks.cancel(&speaker(&context), &request.task_id)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let after = request.and_then(|request| request.cursor);
        let speaker = speaker(&context);
        let result = resources::list(self, &speaker, after.as_deref()).await?;
        if context.protocol_version().is_some_and(|version| version.has_initialize()) {
            self.follow(&context, |followed| followed.list = true);
            self.watches.follow_list(self.house.clone(), context.peer, speaker);
        }
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates().with_ttl_ms(LISTS_KEEP))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(self, &speaker(&context), &request.uri).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()).with_ttl_ms(LISTS_KEEP))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        prompts::get(self, &speaker(&context), &request.name, &arguments).await.map(Into::into)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        resources::complete(self, &speaker(&context), &request).await
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.project.forget().await;
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let uris = requested.resource_subscriptions.iter().flatten();
        let known: Vec<String> =
            uris.filter(|uri| resources::ResourceAddress::parse(uri).is_some()).cloned().collect();
        let mut accepted = SubscriptionFilter::builder().resource_subscriptions(known);
        if requested.resources_list_changed == Some(true) {
            accepted = accepted.resources_list_changed();
        }
        Some(accepted.build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        super::resource_updates::listen(self, context).await;
        Ok(())
    }

    #[expect(deprecated, reason = "clients of the handshake era still use it")]
    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // The SDK accepts it in the era without conversations, where a level has no meaning.
        if context.protocol_version().is_some_and(|version| !version.has_initialize()) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        self.follow(&context, |followed| followed.level = Some(request.level));
        let speaker = speaker(&context);
        self.watches.tell(self.house.clone(), context.peer, speaker, request.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let place = resources::ResourceAddress::parse(&request.uri)
            .ok_or_else(|| resources::unknown(&request.uri))?;
        let speaker = speaker(&context);
        self.watches.begin(self.house.clone(), context.peer.clone(), speaker, place)?;
        self.follow(&context, |followed| _ = followed.uris.insert(request.uri));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watches.end(&request.uri);
        self.follow(&context, |followed| _ = followed.uris.remove(&request.uri));
        Ok(())
    }
}

/// Converts the result of a call to a response.
async fn answered(
    tool: &'static Tool,
    call: ToolCall,
    offered: Vec<Toolset>,
) -> Result<CallToolResult, ErrorData> {
    match call.run().await {
        Ok(outcome) => Ok(tool_reply::answer(tool, outcome, &offered)),
        Err(error) => tool_reply::failed(tool, error, &offered),
    }
}
