//! Operations on files below the roots. One file for each.

pub mod apply_diff;
pub mod change;
pub mod delete;
pub mod edit;
pub mod find;
pub mod history;
pub mod list;
pub mod make_folder;
pub mod move_file;
pub mod read;
pub mod search;
pub mod undo;
pub mod write;
