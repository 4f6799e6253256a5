//! A bare axum server for `cargo xtask bench --only rest`: one path, one fixed body of a given size, one thread as in
//! the daemon. It
//! prints its port and runs until it is killed.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let size: usize = std::env::args().nth(1).ok_or("how many bytes?")?.parse()?;
    let body: &'static str = Box::leak("x".repeat(size).into_boxed_str());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
        let answer = move || async move { ([(CONTENT_TYPE, "application/json")], body) };
        let router = Router::new().route("/", get(answer));
        Ok(axum::serve(listener, router).await?)
    })
}
