//! Settings of a service in version 1.

use super::super::{Numbered, StoredError, service_name};
use crate::spec::{
    Credentials, EnvId, ExecSpec, Limit, LogSpec, OnFull, OnShutdown, Policy, Resource,
    RestartSpec, ServiceSpec, StopSpec,
};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Spec {
    name: String,
    exec: Exec,
    stop: Stop,
    restart: Restart,
    logs: Logs,
}

#[derive(Serialize, Deserialize)]
struct Exec {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    base_env: u64,
    working_dir: String,
    /// User, group and supplementary groups.
    credentials: Option<(u32, u32, Vec<u32>)>,
    umask: Option<u32>,
    /// Resource, soft and hard limit.
    limits: Vec<(u32, Option<u64>, Option<u64>)>,
    nice: Option<i32>,
    oom_score_adj: Option<i32>,
}

#[derive(Deserialize)]
struct Stop {
    signal: i32,
    grace: u64,
    on_shutdown: u32,
}

#[derive(Deserialize)]
struct Restart {
    policy: u32,
    success_codes: Vec<i32>,
    max_restarts: Option<u32>,
    window: u64,
    delay: Option<u64>,
    max_delay: u64,
    backoff: f64,
    jitter: f64,
    stable_after: u64,
    cool_off: Option<u64>,
}

#[derive(Deserialize)]
struct Logs {
    segment_bytes: u64,
    max_age: Option<u64>,
    max_segments: u32,
    max_total_bytes: u64,
    on_full: u32,
}

pub(crate) fn decode_spec(bytes: &[u8]) -> Result<ServiceSpec, StoredError> {
    let Spec { name, exec, stop, restart, logs } = super::read(bytes)?;
    Ok(ServiceSpec {
        name: service_name(&name)?,
        exec: exec.try_into()?,
        stop: StopSpec {
            signal: stop.signal,
            grace: Millis(stop.grace),
            on_shutdown: OnShutdown::from_number(stop.on_shutdown)?,
        },
        restart: RestartSpec {
            policy: Policy::from_number(restart.policy)?,
            success_codes: restart.success_codes,
            max_restarts: restart.max_restarts,
            window: Millis(restart.window),
            delay: restart.delay.map(Millis),
            max_delay: Millis(restart.max_delay),
            backoff: restart.backoff,
            jitter: restart.jitter,
            stable_after: Millis(restart.stable_after),
            cool_off: restart.cool_off.map(Millis),
        },
        logs: LogSpec {
            segment_bytes: logs.segment_bytes,
            max_age: logs.max_age.map(Millis),
            max_segments: logs.max_segments,
            max_total_bytes: logs.max_total_bytes,
            on_full: OnFull::from_number(logs.on_full)?,
        },
    })
}

impl TryFrom<Exec> for ExecSpec {
    type Error = StoredError;

    fn try_from(stored: Exec) -> Result<ExecSpec, StoredError> {
        let limits = stored.limits.into_iter().map(|(resource, soft, hard)| {
            Ok(Limit { resource: Resource::from_number(resource)?, soft, hard })
        });
        let credentials = |(uid, gid, groups)| Credentials { uid, gid, groups };
        Ok(ExecSpec {
            argv: stored.argv,
            env: stored.env,
            base_env: EnvId(stored.base_env),
            working_dir: stored.working_dir,
            credentials: stored.credentials.map(credentials),
            umask: stored.umask,
            limits: limits.collect::<Result<_, StoredError>>()?,
            nice: stored.nice,
            oom_score_adj: stored.oom_score_adj,
        })
    }
}

/// The exec part of a spec as version 1 encoded it. `services.json` has hashes of these bytes, by which a new daemon tells
/// whether a process was made with other settings. So they stay the same for the same settings: a field that `ExecSpec` gets
/// later is to be appended only where it is set.
pub fn exec_bytes(exec: &ExecSpec) -> Vec<u8> {
    let ExecSpec {
        argv,
        env,
        base_env,
        working_dir,
        credentials,
        umask,
        limits,
        nice,
        oom_score_adj,
    } = exec;
    let limit = |limit: &Limit| (limit.resource.number(), limit.soft, limit.hard);
    let frozen = Exec {
        argv: argv.clone(),
        env: env.clone(),
        base_env: base_env.0,
        working_dir: working_dir.clone(),
        credentials: credentials.as_ref().map(|who| (who.uid, who.gid, who.groups.clone())),
        umask: *umask,
        limits: limits.iter().map(limit).collect(),
        nice: *nice,
        oom_score_adj: *oom_score_adj,
    };
    postcard::to_allocvec(&frozen).expect("texts, numbers and lists of known length are encoded")
}
