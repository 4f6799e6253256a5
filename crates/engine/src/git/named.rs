//! Files that a repository's own configuration names, and that git reads to their end for whatever it does: more of the
//! configuration, attributes, patterns, names of people. One without end would take all the memory there is, and what lies
//! outside of the root is none of the repository's business.

use super::Repository;
use super::configuration::Setting;
use super::error::GitError;
use super::place::small;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Of such a file: many times what anybody writes.
const LARGEST: u64 = 1 << 20;

impl Repository {
    /// A repository that is not trusted names small files below its root; what is not there is not read.
    pub(super) async fn check_named_files(&self, settings: &[Setting<'_>]) -> Result<(), GitError> {
        for setting in settings.iter().filter(|setting| !setting.owners) {
            let reads = setting.reads(self.paths_begin()).map_err(|why| self.unsafe_(&why))?;
            let Some(path) = reads else { continue };
            let (root, shown) = (self.root.clone(), path.display().to_string());
            let fits = crate::blocking(move || is_small_below(&path, &root)).await;
            if !fits.unwrap_or(false) {
                let (name, root) = (super::fields::text(setting.name), self.root.display());
                let why = format!("its {name} is {shown}, which is no small file below {root}");
                return Err(self.unsafe_(&why));
            }
        }
        Ok(())
    }
}

/// Wherever links lead to it.
fn is_small_below(path: &Path, root: &Path) -> bool {
    match fs::canonicalize(path) {
        Ok(path) => path.starts_with(root) && small(&path, LARGEST).is_ok(),
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}
