//! Targets of requests to the proxy.

use super::authority;

fn read(text: &str, default_port: Option<u16>) -> Result<String, u16> {
    authority(text, default_port)
        .map(|(host, port)| format!("{host} {port}"))
        .map_err(|refusal| refusal.status.as_u16())
}

#[test]
fn targets_have_one_form() {
    for (text, expected) in [
        ("a.example:443", Ok("a.example 443")),
        ("A.Example:443", Ok("a.example 443")),
        ("93.184.215.14:80", Ok("93.184.215.14 80")),
        ("[2606:4700::1]:443", Ok("2606:4700::1 443")),
        ("a.example", Err(400)),
        ("a.example:", Err(400)),
        ("a.example:0", Err(400)),
        ("a.example:65536", Err(400)),
        ("a.example:+80", Err(400)),
        ("a.example:80:90", Err(403)),
        ("[a.example]:443", Err(400)),
        ("2606:4700::1:443", Err(400)),
        ("[::1]443", Err(400)),
        ("[::1", Err(400)),
        ("[fe80::1%25lo]:80", Err(400)),
        (":443", Err(400)),
        ("a@b.example:443", Err(400)),
        ("a.example.:443", Err(403)),
        ("127.1:443", Err(403)),
    ] {
        assert_eq!(read(text, None), expected.map(str::to_owned), "{text}");
    }
    assert_eq!(read("a.example", Some(80)), Ok("a.example 80".to_owned()));
}
