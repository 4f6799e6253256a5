//! Files below the roots, through every front.

mod errors;
mod looking;
mod paging;
mod standing;

use proctor_testkit::Home;

/// A Proctor whose only root is `app`, with these additional keys.
pub(crate) fn app(keys: &str) -> Home {
    let home = Home::listening();
    std::fs::create_dir(home.path().join("app")).unwrap();
    home.write("proctor.yaml", &format!("supervisor:\n  roots: [app]\n{keys}  services: {{}}\n"));
    home.ok(["up", "-d"]);
    home
}

/// Writes a file below `app`.
pub(crate) fn put(home: &Home, path: &str, content: impl AsRef<[u8]>) {
    let path = home.path().join("app").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Creates a token with this role.
pub(crate) fn token(home: &Home, role: &str) -> String {
    let made = home.json(["token", "create", role, "--role", role]);
    made["secret"].as_str().unwrap().to_owned()
}
