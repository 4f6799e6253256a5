//! Reading logs (contract; to be filled).
