//! The table as a whole, and what outputs look like to a person.

mod golden;
mod matrix;
mod played;
mod table;
mod underway;
