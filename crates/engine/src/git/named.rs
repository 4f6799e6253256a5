//! Files that a repository's own configuration names, and that git reads to their end for whatever it does: attributes,
//! patterns, names of people. One without end would take all the memory there is.

use super::Repository;
use super::call::Call;
use super::error::GitError;
use super::fields::records;
use super::place::small;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Of such a file: many times what anybody writes.
const LARGEST: u64 = 1 << 20;

impl Repository {
    /// A repository that is not trusted names small files below its root; what is not there is not read.
    pub(super) async fn check_named_files(&self) -> Result<(), GitError> {
        for name in &self.settings.named_files {
            let call = Call::reading(&["config", "--type=path", "-z", "--get", name]);
            let said = self.ask(call).await?;
            let Some(path) = records(&said.out).next().filter(|path| !path.is_empty()) else {
                continue;
            };
            let path = self.place.top.join(OsStr::from_bytes(path));
            let (root, shown) = (self.root.clone(), path.display().to_string());
            let fits = crate::blocking(move || is_small_below(&path, &root)).await;
            if !fits.unwrap_or(false) {
                let root = self.root.display();
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
