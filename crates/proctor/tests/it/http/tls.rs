//! HTTPS with a certificate made by the test.

use crate::control::admin;
use crate::support::{LIMIT, service, services};
use proctor_testkit::{Home, Response, exchange, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Writes a certificate that is valid for this machine's own names.
fn certify(home: &Home) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    home.write("tls/cert.pem", &made.cert.pem());
    home.write("tls/key.pem", &made.signing_key.serialize_pem());
}

fn configure(home: &Home, host: &str) {
    let config = services(&[service("web", &[], "")]);
    let tls = format!(
        "supervisor:\n  http: {{ host: {host}, tls: {{ cert: tls/cert.pem, key: tls/key.pem }} }}\n"
    );
    home.write("proctor.yaml", &config.replace("supervisor:\n", &tls));
    home.ok(["up", "-d"]);
}

/// Sends one request over TLS, from a client that trusts only this certificate.
fn ask(home: &Home, request: &str) -> Response {
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(home.path().join("tls/cert.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", home.port("http"))).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut stream = StreamOwned::new(session, stream);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    Response::parse(&answer).unwrap()
}

fn request(home: &Home, method: &str, path: &str, more: &str) -> Response {
    ask(
        home,
        &format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n"),
    )
}

#[test]
fn with_a_certificate_it_is_https_and_nothing_else() {
    let home = Home::listening();
    certify(&home);
    configure(&home, "127.0.0.1");
    let answer = request(&home, "GET", "/api/v1/services", "");
    assert_eq!((answer.status, answer.json()["services"][0]["name"].as_str()), (200, Some("web")));
    let token = format!("Authorization: Bearer {}\r\nContent-Length: 0\r\n", admin(&home));
    assert_eq!(request(&home, "POST", "/api/v1/services/web/restart", &token).status, 200);
    let page = "Origin: https://localhost\r\n";
    assert_eq!(request(&home, "GET", "/api/v1/services", page).status, 200);
    let page = "Origin: http://localhost\r\n";
    assert_eq!(
        request(&home, "GET", "/api/v1/services", page).status,
        403,
        "another scheme is another origin"
    );
    let plain = exchange(home.port("http"), b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!String::from_utf8_lossy(&plain).contains("HTTP/1.1"), "plain HTTP was answered");
}

#[test]
fn with_a_certificate_other_machines_may_be_served() {
    let home = Home::listening();
    certify(&home);
    configure(&home, "0.0.0.0");
    assert_eq!(request(&home, "GET", "/api/v1/services", "").status, 200);
    let status = home.json(["daemon", "status"]);
    assert!(status["listening"]["http"].as_str().unwrap().starts_with("0.0.0.0:"), "{status}");
}

#[test]
fn a_certificate_that_cannot_be_read_is_a_problem_and_never_plain_http() {
    let home = Home::listening();
    configure(&home, "127.0.0.1");
    let problem = wait_for("the problem", LIMIT, || {
        let problems = home.json(["daemon", "status"])["problems"].clone();
        problems
            .as_array()?
            .iter()
            .find_map(|it| it.as_str()?.strip_prefix("http: ").map(str::to_owned))
    });
    assert!(problem.contains("tls/cert.pem"), "{problem}");
    assert_eq!(home.json(["daemon", "status"])["listening"].get("http"), None);
    home.ok(["status", "web", "--check"]);
    certify(&home);
    // It is retried automatically.
    assert_eq!(request(&home, "GET", "/health", "").status, 200);
}
