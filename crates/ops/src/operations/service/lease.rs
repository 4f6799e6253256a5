//! `service.lease`: shows or sets the lease of services.

use crate::error::{Code, OpError};
use crate::input::lease_of;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Role, Target};
use crate::text_output::{Page, Show};
use crate::timestamps::span;
use proctor_engine::api::LeaseChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Lease;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Service, group, or a name that selects all instances
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Time the service is kept without use: 30m, 2h; the previous lease if omitted
    #[arg(value_name = "TIME", conflicts_with = "none")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Remove the lease: keep the service until it is removed
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
    /// Program that started the service
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Seconds until the service is removed, unless its owner uses it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds_left: Option<u64>,
}

impl Operation for Lease {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["lease"],
        summary: "Show or set how long a temporary service is kept",
        details: "\
When a lease expires, the service is stopped and removed; its logs stay readable. Every use by the program that started the \
service renews the lease. A service from proctor.yaml has no lease.

Examples:
  proctor lease web 2h
  proctor lease web
  proctor lease web --none",
        // Setting a lease removes the service later.
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
                .help("only services of `proctor start --name` and `proctor add` have leases"));
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
