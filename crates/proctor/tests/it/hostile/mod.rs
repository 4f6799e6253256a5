//! The hostile world: somebody tidies, truncates, garbles, forges, starves and floods. Supervision goes on, nothing is
//! started twice, and what was done about it is said.

mod clocks;
mod crowds;
mod floods;
mod garbled;
mod load;
mod own_files;
mod own_folders;
mod starved;
mod strangers;
mod tidied;
