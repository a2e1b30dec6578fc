//! Which host names a server answers to.

use super::{Settings, allowed_hosts};

fn hosts(public_url: Option<&str>) -> Vec<String> {
    allowed_hosts(&Settings { public_url: public_url.map(str::to_owned), ..Settings::default() })
}

/// A proxy before the server passes the name by which clients reach it.
#[test]
fn the_host_of_the_public_url_is_allowed() {
    let own = ["localhost", "127.0.0.1", "::1", "127.0.0.1"];
    assert_eq!(hosts(None), own);
    for (url, host) in [
        ("https://sandboxes.example.org", "sandboxes.example.org"),
        ("https://sandboxes.example.org:8443/silica", "sandboxes.example.org"),
        ("http://[fd00::1]:80", "fd00::1"),
    ] {
        assert_eq!(hosts(Some(url)), [&own[..], &[host]].concat());
    }
}

#[test]
fn hosts_that_are_configured_are_all() {
    let public_url = Some("https://sandboxes.example.org".to_owned());
    let mut settings = Settings { public_url, ..Settings::default() };
    settings.server.allowed_hosts = vec!["other.example".to_owned()];
    assert_eq!(allowed_hosts(&settings), ["other.example"]);
}
