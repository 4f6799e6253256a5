//! Messages from daemon to keeper. Each kind is a field: an older keeper sees one that it does not know as no kind at all, and
//! the request's number tells it what to refuse.

use super::spec::Spec;
use super::{Numbered, Pairs, StoredError, owned, owned_pairs, pairs, required, service_name, v1};
use crate::lifecycle::Wish;
use crate::name::RunId;
use crate::spec::EnvId;
use crate::wire::{Message, ToKeeper, Whom};
use minicbor::{Decode, Encode};

#[derive(Default, Encode, Decode)]
#[cbor(map)]
struct Frame<'a> {
    #[n(0)]
    request: Option<u64>,
    #[n(1)]
    hello: Option<Hello>,
    #[b(2)]
    environment: Option<Environment<'a>>,
    #[b(3)]
    define: Option<Spec<'a>>,
    #[b(4)]
    remove: Option<Named<'a>>,
    #[b(5)]
    set_wish: Option<SetWish<'a>>,
    #[b(6)]
    restart: Option<Restart<'a>>,
    #[b(7)]
    signal: Option<Signal<'a>>,
    #[b(8)]
    unhealthy: Option<Unhealthy<'a>>,
    #[n(9)]
    shutdown: Option<Shutdown>,
    #[b(10)]
    upgrade: Option<Upgrade<'a>>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Hello {
    #[n(0)]
    protocol: u32,
    #[n(1)]
    pid: u32,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Environment<'a> {
    #[n(0)]
    id: u64,
    #[b(1)]
    variables: Pairs<'a>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Named<'a> {
    #[b(0)]
    name: &'a str,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct SetWish<'a> {
    #[b(0)]
    name: &'a str,
    #[n(1)]
    wish: u32,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Restart<'a> {
    #[b(0)]
    name: &'a str,
    /// Variables for the next run alone.
    #[b(1)]
    once: Option<Pairs<'a>>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Signal<'a> {
    #[b(0)]
    name: &'a str,
    #[n(1)]
    signal: i32,
    #[n(2)]
    whom: u32,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Unhealthy<'a> {
    #[b(0)]
    name: &'a str,
    #[n(1)]
    run: u64,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Shutdown {}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Upgrade<'a> {
    #[b(0)]
    binary: &'a str,
}

impl Message for ToKeeper {
    fn encode_into(&self, out: &mut Vec<u8>) {
        super::encode_into(&Frame::from(self), out);
    }

    fn decode(bytes: &[u8]) -> Result<ToKeeper, StoredError> {
        if v1::is_message(bytes) {
            return v1::hello_to_keeper(bytes);
        }
        super::decode::<Frame<'_>>(bytes)?.try_into()
    }
}

impl<'a> From<&'a ToKeeper> for Frame<'a> {
    fn from(message: &'a ToKeeper) -> Frame<'a> {
        let empty = Frame::default();
        let asked = |request: &u64| Frame { request: Some(*request), ..Frame::default() };
        match message {
            ToKeeper::Hello { protocol, pid } => {
                Frame { hello: Some(Hello { protocol: *protocol, pid: *pid }), ..empty }
            }
            ToKeeper::Environment { id, vars } => {
                let environment = Environment { id: id.0, variables: pairs(vars) };
                Frame { environment: Some(environment), ..empty }
            }
            ToKeeper::Define { request, spec } => {
                Frame { define: Some(spec.as_ref().into()), ..asked(request) }
            }
            ToKeeper::Remove { request, name } => {
                Frame { remove: Some(Named { name: name.as_str() }), ..asked(request) }
            }
            ToKeeper::SetWish { request, name, wish } => {
                let set_wish = SetWish { name: name.as_str(), wish: wish.number() };
                Frame { set_wish: Some(set_wish), ..asked(request) }
            }
            ToKeeper::Restart { request, name } => {
                let restart = Restart { name: name.as_str(), once: None };
                Frame { restart: Some(restart), ..asked(request) }
            }
            ToKeeper::RestartWith { request, name, env } => {
                let restart = Restart { name: name.as_str(), once: Some(pairs(env)) };
                Frame { restart: Some(restart), ..asked(request) }
            }
            ToKeeper::Signal { request, name, signal, whom } => {
                let (name, whom) = (name.as_str(), whom.number());
                Frame { signal: Some(Signal { name, signal: *signal, whom }), ..asked(request) }
            }
            ToKeeper::Unhealthy { name, run } => {
                let unhealthy = Unhealthy { name: name.as_str(), run: run.0 };
                Frame { unhealthy: Some(unhealthy), ..empty }
            }
            ToKeeper::Shutdown { request } => {
                Frame { shutdown: Some(Shutdown {}), ..asked(request) }
            }
            ToKeeper::Upgrade { request, binary } => {
                Frame { upgrade: Some(Upgrade { binary }), ..asked(request) }
            }
            ToKeeper::Unknown { request } => Frame { request: *request, ..empty },
        }
    }
}

impl TryFrom<Frame<'_>> for ToKeeper {
    type Error = StoredError;

    fn try_from(frame: Frame<'_>) -> Result<ToKeeper, StoredError> {
        let request = || required(frame.request, "request number");
        Ok(match frame {
            Frame { hello: Some(Hello { protocol, pid }), .. } => ToKeeper::Hello { protocol, pid },
            Frame { environment: Some(Environment { id, variables }), .. } => {
                ToKeeper::Environment { id: EnvId(id), vars: owned_pairs(variables) }
            }
            Frame { define: Some(spec), .. } => {
                ToKeeper::Define { request: request()?, spec: Box::new(spec.try_into()?) }
            }
            Frame { remove: Some(Named { name }), .. } => {
                ToKeeper::Remove { request: request()?, name: service_name(name)? }
            }
            Frame { set_wish: Some(SetWish { name, wish }), .. } => {
                let (name, wish) = (service_name(name)?, Wish::from_number(wish)?);
                ToKeeper::SetWish { request: request()?, name, wish }
            }
            Frame { restart: Some(Restart { name, once: None }), .. } => {
                ToKeeper::Restart { request: request()?, name: service_name(name)? }
            }
            Frame { restart: Some(Restart { name, once: Some(once) }), .. } => {
                let (name, env) = (service_name(name)?, owned_pairs(once));
                ToKeeper::RestartWith { request: request()?, name, env }
            }
            Frame { signal: Some(Signal { name, signal, whom }), .. } => {
                let (name, whom) = (service_name(name)?, Whom::from_number(whom)?);
                ToKeeper::Signal { request: request()?, name, signal, whom }
            }
            Frame { unhealthy: Some(Unhealthy { name, run }), .. } => {
                ToKeeper::Unhealthy { name: service_name(name)?, run: RunId(run) }
            }
            Frame { shutdown: Some(Shutdown {}), .. } => ToKeeper::Shutdown { request: request()? },
            Frame { upgrade: Some(Upgrade { binary }), .. } => {
                ToKeeper::Upgrade { request: request()?, binary: owned(binary) }
            }
            Frame { request, .. } => ToKeeper::Unknown { request },
        })
    }
}

impl Numbered for Whom {
    const WHAT: &'static str = "receiver of a signal";
    const ALL: &'static [Whom] = &[Whom::Main, Whom::Tree];

    fn number(self) -> u32 {
        match self {
            Whom::Main => 0,
            Whom::Tree => 1,
        }
    }
}
