//! Integration tests of `proctor-core`: shapes that are stored or sent, as other versions wrote them.

mod v1;
mod values;
