//! Tags.

use super::Repository;
use super::arguments::prose;
use super::branches::first;
use super::call::GitCall;
use super::error::GitError;
use super::output_fields::{self, brief, groups, number, text};

/// The commit of an annotated tag has a field of its own.
const FORMAT: &str = "%(refname)%00%(objectname)%00%(*objectname)%00%(creatordate:unix)";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    /// The object that it names in the end.
    pub hash: String,
    /// It has a message.
    pub annotated: bool,
    /// Seconds since 1970.
    pub created: i64,
    pub subject: String,
}

#[derive(Debug, Clone, Default)]
pub struct TagRequest {
    pub name: String,
    /// The current commit if not given.
    pub revision: Option<String>,
    /// With a message, the tag is an object of its own.
    pub message: Option<String>,
}

impl Repository {
    /// The tags, newest first, at most `most`; and whether there are more.
    pub async fn tags(&self, most: usize) -> Result<(Vec<Tag>, bool), GitError> {
        let said = self.references("refs/tags/", "creatordate", FORMAT, most).await?;
        Ok(first(tags(&said.out), most, said.cut))
    }

    /// Creates a tag; returns the commit it names.
    pub async fn create_tag(&mut self, request: &TagRequest) -> Result<String, GitError> {
        self.write().await?;
        let name = &request.name;
        let full = self.reference("refs/tags/", name).await?;
        let hash = self.commit_of(request.revision.as_deref().unwrap_or("HEAD")).await?;
        let Some(message) = &request.message else {
            self.create_reference(&full, &hash, "tag: Created by Proctor", name).await?;
            return Ok(hash);
        };
        prose("message", message)?;
        let mut call = GitCall::writing(&["tag", "--annotate", "--cleanup=whitespace"]);
        if !self.place.trusted {
            call = call.arg("--no-sign");
        }
        let said = self.run(call.arg("-m").args([message, name, &hash])).await?;
        if said.code != 0 && said.err.contains("already exists") {
            return Err(GitError::Exists(name.clone()));
        }
        said.good()?;
        Ok(hash)
    }

    /// Deletes a tag; returns the object it named.
    pub async fn delete_tag(&mut self, name: &str) -> Result<String, GitError> {
        self.write().await?;
        let full = self.reference("refs/tags/", name).await?;
        let none = |_| GitError::Nothing(format!("tag '{name}'"));
        let hash = self.object(&full, "").await.map_err(none)?;
        self.ask(GitCall::writing(&["update-ref", "--no-deref", "-d", &full, &hash])).await?;
        Ok(hash)
    }
}

pub fn tags(bytes: &[u8]) -> Vec<Tag> {
    let tag = |[name, hash, behind, date, subject]: [&[u8]; 5]| {
        let name = name.strip_prefix(b"\n").unwrap_or(name);
        Some(Tag {
            name: text(name.strip_prefix(b"refs/tags/")?),
            hash: output_fields::hash(behind).or_else(|| output_fields::hash(hash))?,
            annotated: !behind.is_empty(),
            created: number(date).unwrap_or(0),
            subject: brief(subject),
        })
    };
    groups::<5>(bytes).into_iter().filter_map(tag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_from_their_fields() {
        let (a, b) = ("a".repeat(40), "b".repeat(64));
        let text =
            format!("refs/tags/v1\0{a}\0\x005\0subject\0\nrefs/tags/v/2\0{a}\0{b}\0-6\0\0\ncut");
        let tag = |name: &str, hash: &str, annotated, created, subject: &str| Tag {
            name: name.into(),
            hash: hash.into(),
            annotated,
            created,
            subject: subject.into(),
        };
        let expected = [tag("v1", &a, false, 5, "subject"), tag("v/2", &b, true, -6, "")];
        assert_eq!(tags(text.as_bytes()), expected);
    }
}
