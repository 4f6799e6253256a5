//! Paths that want out, and links that are swapped while somebody goes through them.

mod hostile;
mod paths;
mod races;
mod scene;
