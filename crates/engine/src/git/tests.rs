//! Against the installed git, in repositories that are made here.
