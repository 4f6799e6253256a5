//! Files that a repository's configuration names and git may read: more configuration, attributes, patterns,
//! names of people, and more in a later git. An endless file would exhaust memory, and files outside the root
//! do not concern the repository.

use super::Repository;
use super::configuration::Setting;
use super::error::GitError;
use super::repository_location::small;
use proctor_core::home::Home;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Maximum size of such a file: many times a real one.
const MAX_FILE_BYTES: u64 = 1 << 20;

impl Repository {
    /// Fails if an untrusted repository names a file that is large or outside its root. Missing files are not
    /// read.
    pub(super) async fn check_named_files(&self, settings: &[Setting<'_>]) -> Result<(), GitError> {
        let connects = !self.protocols.is_empty();
        for setting in settings.iter().filter(|setting| !setting.owners) {
            if connects && setting.is_other_end() {
                let why = format!("its {} is a program", super::output_fields::text(setting.name));
                return Err(self.unsafe_(&why));
            }
            let reads = setting.may_read(self.paths_begin(), connects);
            let Some(path) = reads.map_err(|why| self.unsafe_(&why))? else { continue };
            let (root, shown) = (self.root.clone(), path.display().to_string());
            let own = self.own.clone();
            let fits = crate::blocking(move || is_small_below(&path, &root, &own)).await;
            if !fits.unwrap_or(false) {
                let (name, root) = (super::output_fields::text(setting.name), self.root.display());
                let why = format!("its {name} is {shown}, which is not a small file below {root}");
                return Err(self.unsafe_(&why));
            }
        }
        Ok(())
    }
}

/// Returns true for a small file below the root, with links resolved, that does not belong to Proctor.
fn is_small_below(path: &Path, root: &Path, own: &[PathBuf]) -> bool {
    let is_kept = |path: &Path| {
        let below = own.iter().filter_map(|own| path.strip_prefix(own).ok());
        let mut first = below.filter_map(|below| below.iter().next()?.to_str());
        first.any(Home::keeps)
    };
    match fs::canonicalize(path) {
        Ok(path) => {
            path.starts_with(root) && !is_kept(&path) && small(&path, MAX_FILE_BYTES).is_ok()
        }
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}
