//! Paths that try to escape, and links that are swapped during a lookup.

mod hostile;
mod paths;
mod races;
mod scene;
