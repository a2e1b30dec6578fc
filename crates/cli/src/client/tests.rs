//! What is an address and a key.

use expect_test::{Expect, expect};

use super::*;

const URL: &str = "http://localhost:8585";

fn address(url: &str, expected: &Expect) {
    expected.assert_eq(&match Client::new(url, "silica_1", None) {
        Ok(client) => format!("{client:?}"),
        Err(error) => error.to_string(),
    });
}

#[test]
fn addresses_are_told_from_other_texts() {
    address("http://127.0.0.1:8585", &expect!["Client(http://127.0.0.1:8585)"]);
    address("http://host/silica/", &expect!["Client(http://host/silica)"]);
    address("http://[::1]:99", &expect!["Client(http://[::1]:99)"]);
    address("https://host", &expect!["Client(https://host)"]);
    let example = "is not the URL of a server; it must look like http://127.0.0.1:8585";
    for wrong in [
        "",
        "host:1",
        "ftp://host",
        "http://",
        "http://:80",
        "http://h:x",
        "http://h:99999",
        "http://u@h",
        "http://u:p@h",
        "http://h/\r\nX: y",
        "http://h\n",
        "http://[::1",
        "http://[::1]x",
        "http://h?x",
        "http://h#x",
    ] {
        let error = Client::new(wrong, "silica_1", None).unwrap_err().to_string();
        assert_eq!(error, format!("{wrong:?} {example}"));
    }
}

#[test]
fn keys_that_would_be_more_than_a_header_are_refused() {
    for key in ["", "a b", "a\r\nX: y", "ä"] {
        let error = Client::new(URL, key, None).unwrap_err().to_string();
        assert_eq!(
            error,
            "the key is invalid: it must consist of printable ASCII characters without spaces"
        );
    }
    let client = Client::new(URL, "silica_secret", None).unwrap();
    assert!(!format!("{client:?}").contains("secret"));
}

/// The time in the message is that of the request, and not of requests in general.
#[tokio::test]
async fn a_server_that_says_nothing_is_named_with_the_time_it_had() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let client = Client::new(&url, "key", None).unwrap();
    let patience = Duration::from_millis(1100);
    let refused = client.answer(client.request(Method::GET, "/", ""), patience).await;
    let message = refused.unwrap_err().to_string();
    assert_eq!(message, format!("{url} did not answer within 1 seconds"));
}

#[test]
fn file_without_a_certificate_is_said() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("ca.pem");
    let message = |file: &Path| {
        let error = format!("{:#}", Client::new(URL, "key", Some(file)).unwrap_err());
        error.replace(&file.display().to_string(), "FILE")
    };
    assert_eq!(message(&file), "cannot read FILE: No such file or directory (os error 2)");
    for text in ["", "no certificate", "-----BEGIN CERTIFICATE-----\n"] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(message(&file), "FILE must hold certificates in PEM format");
    }
}
