//! Authorisation of every request, called by `dispatch`. The rules are in `core`; this module looks up their subjects.

use crate::error::{Code, OpError};
use crate::operation::{About, Caller, Context, Effect, Front, Meta, Role, Target};
use crate::running_operations::RunningOperation;
use proctor_core::access::{self, AccessDenied};
use proctor_core::assistant_policy::AssistantPolicy;
use proctor_core::config::security::Security;
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use proctor_core::wire::PhaseView;
use proctor_engine::api::{OwnerUse, ServiceView};
use proctor_engine::error::EngineError;
use serde_json::json;

/// Checks the caller's role and, over the network, the operations that the configuration offers there.
pub(crate) fn authorise(context: &Context, meta: &Meta, needs: Role) -> Result<(), OpError> {
    let (name, caller) = (meta.name, &context.caller);
    context.engine.security(|security| {
        let offered = security.allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
        if caller.is_network() && !offered {
            let message = format!("{name} is not offered over the network");
            return Err(OpError::new(Code::Forbidden, message).help(
                "`security.allowed_commands` in the configuration lists the offered operations",
            ));
        }
        allows(security, caller, needs).map_err(|refused| match refused {
            AccessDenied::Unauthenticated => {
                OpError::new(Code::Unauthenticated, format!("{name} needs a token"))
                    .help("`proctor token path` prints the file of the first token")
            }
            AccessDenied::Forbidden { has, needs } => {
                let why = short_of(security, caller, needs);
                OpError::new(Code::Forbidden, format!("{name} needs the role {needs}; {why}"))
                    .details(json!({ "role": has, "needs": needs }))
            }
        })
    })
}

/// Returns the rule for assistants if one calls. An operation that applies a configuration takes it along, because
/// only it knows the changes.
pub(crate) fn hands(context: &Context) -> Option<AssistantPolicy> {
    context.engine.security(|security| AssistantPolicy::of(&context.caller, security.mcp.reach))
}

/// Checks the targets of the request: an assistant may not change every service, nor Proctor itself under `own`.
pub(crate) fn may_change(
    context: &Context,
    name: &str,
    target: Target,
    about: About<'_>,
) -> Result<(), OpError> {
    let Some(hands) = hands(context) else { return Ok(()) };
    if target == Target::Nothing {
        return Ok(());
    }
    refuse_services(context, &hands, &changed(context, about))?;
    match target {
        Target::Proctor if !hands.may_change_proctor() => {
            let rule = "this assistant may change only services that it started";
            let message =
                format!("{name} changes Proctor itself; {rule} (`supervisor.mcp.control: own`)");
            Err(OpError::new(Code::Forbidden, message).help("ask the person you work for"))
        }
        // A configuration is decided on where it is applied, an operation where it is found.
        Target::Nothing
        | Target::Proctor
        | Target::Services
        | Target::Files
        | Target::Programs
        | Target::Configuration
        | Target::Operation => Ok(()),
    }
}

/// Returns the services that an operation changes, for a later request to cancel it.
pub(crate) fn targets(context: &Context, meta: &Meta, about: About<'_>) -> Vec<ServiceName> {
    if meta.effect == Effect::Read { Vec::new() } else { changed(context, about) }
}

/// Checks whether an assistant may cancel this operation. Cancelling changes its services and undoes the work of the
/// caller that started it.
pub(crate) fn may_cancel(context: &Context, call: &RunningOperation) -> Result<(), OpError> {
    let Some(hands) = hands(context) else { return Ok(()) };
    refuse_services(context, &hands, &call.changes)?;
    if hands.may_end(call.client.as_ref()) {
        return Ok(());
    }
    let message = format!("operation {} was started by {}", call.id, call.by);
    Err(OpError::new(Code::Forbidden, message).help(
        "assistants cancel only operations they started themselves (`supervisor.mcp.control`); ask the person you work for",
    ))
}

fn refuse_services(
    context: &Context,
    hands: &AssistantPolicy,
    names: &[ServiceName],
) -> Result<(), OpError> {
    let services: Vec<_> = context.engine.read(|view| {
        let services = names.iter().filter_map(|name| view.services.get(name));
        let off = services.filter_map(|service| {
            let why = hands.may_change(service.assistants, service.owner()).err()?;
            Some((service.name.clone(), why))
        });
        off.collect()
    });
    if services.is_empty() {
        Ok(())
    } else {
        Err(EngineError::AssistantRefused { services }.into())
    }
}

/// Renews the leases of the caller's own services until the response is dropped.
pub(crate) fn using(context: &Context, about: About<'_>) -> Vec<OwnerUse> {
    let Some(client) = &context.caller.client else { return Vec::new() };
    let names = match about {
        About::Services(words) => context.engine.select(words).unwrap_or_default(),
        About::New { name, .. } => of_base(context, name),
        About::Nothing | About::Everything => Vec::new(),
    };
    context.engine.using(client, &names)
}

/// Returns the services that would change. An unknown name changes nothing; the operation reports it.
fn changed(context: &Context, about: About<'_>) -> Vec<ServiceName> {
    match about {
        About::Nothing | About::New { replace: false, .. } => Vec::new(),
        About::Services([]) => context.engine.meant().unwrap_or_default(),
        About::Services(words) => context.engine.select(words).unwrap_or_default(),
        About::New { name, replace: true } => of_base(context, name),
        About::Everything => context.engine.read(|view| {
            let busy = view.services.values().filter(|service| !is_idle(service));
            busy.map(|service| service.name.clone()).collect()
        }),
    }
}

fn of_base(context: &Context, base: &str) -> Vec<ServiceName> {
    context
        .engine
        .read(|view| view.services.keys().filter(|name| name.base() == base).cloned().collect())
}

/// Returns true if the service does not run and will not run by itself.
fn is_idle(service: &ServiceView) -> bool {
    let state = service.state.as_ref();
    state.is_none_or(|state| state.wish == Wish::Down && matches!(state.phase, PhaseView::Down))
}

/// Returns true if the caller has at least this role.
pub(crate) fn has_role(context: &Context, needs: Role) -> bool {
    context.engine.security(|security| allows(security, &context.caller, needs).is_ok())
}

fn allows(security: &Security, caller: &Caller, needs: Role) -> Result<(), AccessDenied> {
    access::allows(caller, needs, security.strangers, security.mcp.reach.role)
}

fn short_of(security: &Security, caller: &Caller, needs: Role) -> String {
    let most = security.mcp.reach.role;
    if caller.front == Front::Mcp && most < needs {
        format!("assistants have the rights of {most} (`supervisor.mcp.role`)")
    } else {
        format!("{} does not have it", caller.principal)
    }
}
