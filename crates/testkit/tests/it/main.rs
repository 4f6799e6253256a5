//! Tests of the test tools: a victim that does not misbehave as requested would make every other
//! test lie.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

mod fixture;
mod support;
mod victim_family;
mod victim_output;
mod victim_self;
