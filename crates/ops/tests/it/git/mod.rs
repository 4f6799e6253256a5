//! Git: every operation against the installed git, in real repositories; then in hostile ones.

mod everyday;
mod filtered;
mod going_on;
mod hostile;
mod injected;
mod linked;
mod merging;
mod refused;
mod rooted;
mod scene;
mod trusted;
mod vectors;
