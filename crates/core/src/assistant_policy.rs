//! Decides which services an assistant may change, as pure values.
//!
//! A role limits the kinds of operations a caller may run (`access`). This module limits the
//! services an assistant may run them on. It keeps well-meaning assistants away from each other's
//! services and from a person's. It does not stop a program that runs as the same user and has
//! other ways.

use crate::access::{Caller, ClientName, Front, Role};

/// The services that assistants may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Control {
    /// Only services that an assistant of the same name started.
    Own,
    #[default]
    All,
}

/// Access of assistants to one service, which overrides [`Control`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AssistantAccess {
    /// Read only.
    View,
    #[default]
    Control,
}

/// The upper limit for all assistants, whichever user they act for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssistantLimits {
    pub role: Role,
    pub control: Control,
}

impl AssistantLimits {
    pub const USUAL: AssistantLimits = AssistantLimits { role: Role::Admin, control: Control::All };
    pub const CLOSED: AssistantLimits =
        AssistantLimits { role: Role::Viewer, control: Control::Own };
}

/// The services that one assistant may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssistantPolicy {
    client: Option<ClientName>,
    reach: AssistantLimits,
}

/// The reason an assistant may not change a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssistantRefusal {
    /// The service is configured as read-only for assistants.
    ViewOnly,
    /// Another caller started the service.
    NotOwn,
}

impl AssistantPolicy {
    /// Returns `None` if the caller is not an assistant; then only its role counts.
    pub fn of(caller: &Caller, reach: AssistantLimits) -> Option<AssistantPolicy> {
        let assistant = caller.front == Front::Mcp;
        assistant.then(|| AssistantPolicy { client: caller.client.clone(), reach })
    }

    pub fn may_change(
        &self,
        service: AssistantAccess,
        owner: Option<&ClientName>,
    ) -> Result<(), AssistantRefusal> {
        // An assistant without a name owns nothing.
        let own = owner.is_some() && owner == self.client.as_ref();
        match (service, self.reach.control) {
            (AssistantAccess::View, _) => Err(AssistantRefusal::ViewOnly),
            (AssistantAccess::Control, Control::Own) if !own => Err(AssistantRefusal::NotOwn),
            (AssistantAccess::Control, Control::Own | Control::All) => Ok(()),
        }
    }

    /// Whether the assistant may change Proctor itself: tokens, the mode, the daemon.
    pub fn may_change_proctor(&self) -> bool {
        match self.reach.control {
            Control::Own => false,
            Control::All => true,
        }
    }

    /// An assistant limited to its own services may end only operations that it began.
    pub fn may_end(&self, began: Option<&ClientName>) -> bool {
        self.may_change(AssistantAccess::Control, began).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assistant_changes_what_is_its_own_or_all_but_what_is_for_looking() {
        use AssistantAccess::{Control as Open, View};
        use AssistantRefusal::{NotOwn, ViewOnly};
        let (a, b) = (ClientName::parse("a"), ClientName::parse("b"));
        let rows = [
            // control, service setting, owner → result for assistant a
            (Control::All, Open, &a, Ok(())),
            (Control::All, Open, &b, Ok(())),
            (Control::All, Open, &None, Ok(())),
            (Control::All, View, &a, Err(ViewOnly)),
            (Control::Own, Open, &a, Ok(())),
            (Control::Own, Open, &b, Err(NotOwn)),
            (Control::Own, Open, &None, Err(NotOwn)),
            (Control::Own, View, &a, Err(ViewOnly)),
        ];
        for (control, service, owner, expected) in rows {
            let reach = AssistantLimits { control, ..AssistantLimits::USUAL };
            let assistant = Caller::local(0).through(Front::Mcp, a.clone());
            let hands = AssistantPolicy::of(&assistant, reach).unwrap();
            assert_eq!(
                hands.may_change(service, owner.as_ref()),
                expected,
                "{control:?} {owner:?}"
            );
            assert_eq!(hands.may_change_proctor(), control == Control::All, "{control:?}");
            let nameless = Caller::local(0).through(Front::Mcp, None);
            let hands = AssistantPolicy::of(&nameless, reach).unwrap();
            let may = hands.may_change(service, owner.as_ref()).is_ok();
            assert_eq!(may, control == Control::All && service == Open, "{control:?} {owner:?}");
            assert_eq!(
                AssistantPolicy::of(&Caller::local(0), reach),
                None,
                "a person is no assistant"
            );
        }
    }
}
