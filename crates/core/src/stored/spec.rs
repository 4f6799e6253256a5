//! A service's settings on disk and in a message.

use super::{Numbered, Pairs, StoredError, owned, owned_pairs, pairs, service_name};
use crate::spec::{
    Credentials, EnvId, ExecSpec, Limit, LogSpec, OnFull, OnShutdown, Policy, Resource,
    RestartSpec, ServiceSpec, StopSpec,
};
use crate::time::Millis;
use minicbor::{Decode, Encode};

#[derive(Encode, Decode)]
#[cbor(map)]
pub(crate) struct Spec<'a> {
    #[b(0)]
    name: &'a str,
    #[b(1)]
    exec: Exec<'a>,
    #[n(2)]
    stop: Stop,
    #[n(3)]
    restart: Restart,
    #[n(4)]
    logs: Logs,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Exec<'a> {
    #[b(0)]
    argv: Vec<&'a str>,
    #[b(1)]
    env: Pairs<'a>,
    #[n(2)]
    base_env: u64,
    #[b(3)]
    working_dir: &'a str,
    #[n(4)]
    credentials: Option<StoredCredentials>,
    #[n(5)]
    umask: Option<u32>,
    #[n(6)]
    limits: Vec<StoredLimit>,
    #[n(7)]
    nice: Option<i32>,
    #[n(8)]
    oom_score_adj: Option<i32>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct StoredCredentials {
    #[n(0)]
    uid: u32,
    #[n(1)]
    gid: u32,
    #[n(2)]
    groups: Vec<u32>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct StoredLimit {
    #[n(0)]
    resource: u32,
    #[n(1)]
    soft: Option<u64>,
    #[n(2)]
    hard: Option<u64>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Stop {
    #[n(0)]
    signal: i32,
    #[n(1)]
    grace: u64,
    #[n(2)]
    on_shutdown: u32,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Restart {
    #[n(0)]
    policy: u32,
    #[n(1)]
    success_codes: Vec<i32>,
    #[n(2)]
    max_restarts: Option<u32>,
    #[n(3)]
    window: u64,
    #[n(4)]
    delay: Option<u64>,
    #[n(5)]
    max_delay: u64,
    #[n(6)]
    backoff: f64,
    #[n(7)]
    jitter: f64,
    #[n(8)]
    stable_after: u64,
    #[n(9)]
    cool_off: Option<u64>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Logs {
    #[n(0)]
    segment_bytes: u64,
    #[n(1)]
    max_age: Option<u64>,
    #[n(2)]
    max_segments: u32,
    #[n(3)]
    max_total_bytes: u64,
    #[n(4)]
    on_full: u32,
}

/// The encoding of a spec, for a holder that keeps thousands. Equal specs have equal encodings.
pub fn encode(spec: &ServiceSpec) -> Vec<u8> {
    super::encode(&Spec::from(spec))
}

pub fn decode(bytes: &[u8]) -> Result<ServiceSpec, StoredError> {
    super::decode::<Spec<'_>>(bytes)?.try_into()
}

impl<'a> From<&'a ServiceSpec> for Spec<'a> {
    fn from(spec: &'a ServiceSpec) -> Spec<'a> {
        Spec {
            name: spec.name.as_str(),
            exec: Exec::from(&spec.exec),
            stop: Stop::from(&spec.stop),
            restart: Restart::from(&spec.restart),
            logs: Logs::from(&spec.logs),
        }
    }
}

impl TryFrom<Spec<'_>> for ServiceSpec {
    type Error = StoredError;

    fn try_from(stored: Spec<'_>) -> Result<ServiceSpec, StoredError> {
        Ok(ServiceSpec {
            name: service_name(stored.name)?,
            exec: stored.exec.try_into()?,
            stop: stored.stop.try_into()?,
            restart: stored.restart.try_into()?,
            logs: stored.logs.try_into()?,
        })
    }
}

impl<'a> From<&'a ExecSpec> for Exec<'a> {
    fn from(exec: &'a ExecSpec) -> Exec<'a> {
        let credentials = exec.credentials.as_ref();
        Exec {
            argv: exec.argv.iter().map(String::as_str).collect(),
            env: pairs(&exec.env),
            base_env: exec.base_env.0,
            working_dir: &exec.working_dir,
            credentials: credentials.map(|Credentials { uid, gid, groups }| StoredCredentials {
                uid: *uid,
                gid: *gid,
                groups: groups.clone(),
            }),
            umask: exec.umask,
            limits: exec.limits.iter().map(StoredLimit::from).collect(),
            nice: exec.nice,
            oom_score_adj: exec.oom_score_adj,
        }
    }
}

impl TryFrom<Exec<'_>> for ExecSpec {
    type Error = StoredError;

    fn try_from(stored: Exec<'_>) -> Result<ExecSpec, StoredError> {
        let limits = stored.limits.into_iter().map(Limit::try_from);
        Ok(ExecSpec {
            argv: stored.argv.into_iter().map(owned).collect(),
            env: owned_pairs(stored.env),
            base_env: EnvId(stored.base_env),
            working_dir: owned(stored.working_dir),
            credentials: stored
                .credentials
                .map(|StoredCredentials { uid, gid, groups }| Credentials { uid, gid, groups }),
            umask: stored.umask,
            limits: limits.collect::<Result<_, _>>()?,
            nice: stored.nice,
            oom_score_adj: stored.oom_score_adj,
        })
    }
}

impl From<&Limit> for StoredLimit {
    fn from(limit: &Limit) -> StoredLimit {
        let resource = limit.resource.number();
        StoredLimit { resource, soft: limit.soft, hard: limit.hard }
    }
}

impl TryFrom<StoredLimit> for Limit {
    type Error = StoredError;

    fn try_from(StoredLimit { resource, soft, hard }: StoredLimit) -> Result<Limit, StoredError> {
        Ok(Limit { resource: Resource::from_number(resource)?, soft, hard })
    }
}

impl From<&StopSpec> for Stop {
    fn from(stop: &StopSpec) -> Stop {
        let on_shutdown = stop.on_shutdown.number();
        Stop { signal: stop.signal, grace: stop.grace.0, on_shutdown }
    }
}

impl TryFrom<Stop> for StopSpec {
    type Error = StoredError;

    fn try_from(stored: Stop) -> Result<StopSpec, StoredError> {
        let on_shutdown = OnShutdown::from_number(stored.on_shutdown)?;
        Ok(StopSpec { signal: stored.signal, grace: Millis(stored.grace), on_shutdown })
    }
}

impl From<&RestartSpec> for Restart {
    fn from(restart: &RestartSpec) -> Restart {
        Restart {
            policy: restart.policy.number(),
            success_codes: restart.success_codes.clone(),
            max_restarts: restart.max_restarts,
            window: restart.window.0,
            delay: restart.delay.map(|delay| delay.0),
            max_delay: restart.max_delay.0,
            backoff: restart.backoff,
            jitter: restart.jitter,
            stable_after: restart.stable_after.0,
            cool_off: restart.cool_off.map(|cool_off| cool_off.0),
        }
    }
}

impl TryFrom<Restart> for RestartSpec {
    type Error = StoredError;

    fn try_from(stored: Restart) -> Result<RestartSpec, StoredError> {
        Ok(RestartSpec {
            policy: Policy::from_number(stored.policy)?,
            success_codes: stored.success_codes,
            max_restarts: stored.max_restarts,
            window: Millis(stored.window),
            delay: stored.delay.map(Millis),
            max_delay: Millis(stored.max_delay),
            backoff: stored.backoff,
            jitter: stored.jitter,
            stable_after: Millis(stored.stable_after),
            cool_off: stored.cool_off.map(Millis),
        })
    }
}

impl From<&LogSpec> for Logs {
    fn from(logs: &LogSpec) -> Logs {
        Logs {
            segment_bytes: logs.segment_bytes,
            max_age: logs.max_age.map(|age| age.0),
            max_segments: logs.max_segments,
            max_total_bytes: logs.max_total_bytes,
            on_full: logs.on_full.number(),
        }
    }
}

impl TryFrom<Logs> for LogSpec {
    type Error = StoredError;

    fn try_from(stored: Logs) -> Result<LogSpec, StoredError> {
        Ok(LogSpec {
            segment_bytes: stored.segment_bytes,
            max_age: stored.max_age.map(Millis),
            max_segments: stored.max_segments,
            max_total_bytes: stored.max_total_bytes,
            on_full: OnFull::from_number(stored.on_full)?,
        })
    }
}

impl Numbered for Resource {
    const WHAT: &'static str = "resource";
    const ALL: &'static [Resource] = &[
        Resource::AddressSpace,
        Resource::Core,
        Resource::Cpu,
        Resource::Data,
        Resource::FileSize,
        Resource::LockedMemory,
        Resource::OpenFiles,
        Resource::Processes,
        Resource::Stack,
    ];

    fn number(self) -> u32 {
        match self {
            Resource::AddressSpace => 0,
            Resource::Core => 1,
            Resource::Cpu => 2,
            Resource::Data => 3,
            Resource::FileSize => 4,
            Resource::LockedMemory => 5,
            Resource::OpenFiles => 6,
            Resource::Processes => 7,
            Resource::Stack => 8,
        }
    }
}

impl Numbered for OnShutdown {
    const WHAT: &'static str = "choice for a shutdown";
    const ALL: &'static [OnShutdown] = &[OnShutdown::Stop, OnShutdown::Leave];

    fn number(self) -> u32 {
        match self {
            OnShutdown::Stop => 0,
            OnShutdown::Leave => 1,
        }
    }
}

impl Numbered for Policy {
    const WHAT: &'static str = "restart policy";
    const ALL: &'static [Policy] =
        &[Policy::Always, Policy::OnFailure, Policy::Never, Policy::OneShot];

    fn number(self) -> u32 {
        match self {
            Policy::Always => 0,
            Policy::OnFailure => 1,
            Policy::Never => 2,
            Policy::OneShot => 3,
        }
    }
}

impl Numbered for OnFull {
    const WHAT: &'static str = "choice for a full disk";
    const ALL: &'static [OnFull] = &[OnFull::Drop, OnFull::Block];

    fn number(self) -> u32 {
        match self {
            OnFull::Drop => 0,
            OnFull::Block => 1,
        }
    }
}
