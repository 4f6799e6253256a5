//! `service.lease`: how long services stay that were started for a while.

use crate::error::{Code, OpError};
use crate::input::lease_of;
use crate::moment::span;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Role, Target};
use crate::show::{Page, Show};
use proctor_engine::api::LeaseChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Lease;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// A service, all instances of one, or a group
    #[arg(value_name = "NAME")]
    pub name: String,
    /// How long it stays without use: 30m, 2h; as long as before if not given
    #[arg(value_name = "TIME", conflicts_with = "none")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Keep it until it is removed
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub none: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub services: Vec<Leased>,
}

/// A service and its lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Leased {
    pub name: String,
    /// The program that started it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Until it is removed if its owner does not use it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds_left: Option<u64>,
}

impl Operation for Lease {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["lease"],
        summary: "Say how long a service stays that was started for a while",
        details: "\
When a lease is over, the service is stopped and removed; its logs stay readable. Whatever the program that started it does with \
it begins the lease anew. A service from proctor.yaml has none.

Examples:
  proctor lease web 2h
  proctor lease web
  proctor lease web --none",
        // Who sets one removes the service some day.
        role: Role::Admin,
        ..Meta::of("service.lease", Effect::Write, Target::Services).at(Method::Post, "/services/{name}/lease", "name")
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(std::slice::from_ref(&input.name))
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let change = match (&input.lease, input.none) {
            (Some(text), false) => LeaseChange::For(lease_of(text)?),
            (None, true) => LeaseChange::ForGood,
            (None, false) => LeaseChange::Renew,
            (Some(_), true) => return Err(OpError::bad_input("give 'lease' or 'none', not both")),
        };
        let names = context.engine.select(std::slice::from_ref(&input.name))?;
        let filed = |view: &proctor_engine::api::View| {
            let mut all = names.iter().filter_map(|name| view.services.get(name));
            all.find(|service| !service.added).map(|service| service.name.clone())
        };
        if let Some(name) = context.engine.read(filed) {
            let message = format!("'{name}' is defined in a configuration and has no lease");
            return Err(OpError::new(Code::DefinedInFile, message)
                .help("leases are for services of `proctor start --name` and `proctor add`"));
        }
        context.engine.change_lease(&names, change).await?;
        let now = proctor_sys::clock::now().mono;
        let services = context.engine.read(|view| {
            let services = names.iter().filter_map(|name| view.services.get(name));
            let leased = services.map(|service| Leased {
                name: service.name.to_string(),
                owner: service.owner().map(ToString::to_string),
                lease_seconds_left: service.lease_seconds_left(now),
            });
            leased.collect()
        });
        Ok(Output { services })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for Leased { name, owner, lease_seconds_left } in &self.services {
            let line = page.line().name(name);
            match lease_seconds_left {
                None => line.plain(" stays until it is removed"),
                Some(left) => {
                    let unless = match owner {
                        Some(owner) => format!(" unless {owner} uses it"),
                        None => String::new(),
                    };
                    line.plain(format!(" is removed in {}{unless}", span(*left as f64)))
                }
            };
        }
    }
}
