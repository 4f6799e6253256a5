//! Git: every operation with the installed git, in real repositories, then in hostile ones.

mod committing;
mod everyday;
mod filtered;
mod going_on;
mod hostile;
mod injected;
mod layouts;
mod linked;
mod meant;
mod merging;
mod odd;
mod paged;
mod reaching;
mod refused;
mod rooted;
mod scene;
mod swapped;
mod told;
mod trusted;
mod vectors;
mod waiting;
