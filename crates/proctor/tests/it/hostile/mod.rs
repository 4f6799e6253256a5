//! A hostile environment: files are removed, truncated, garbled and forged; resources are exhausted. Supervision
//! continues, nothing is
//! started twice, and problems are reported.

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
