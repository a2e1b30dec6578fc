//! The entry points for `tests/fuzz`: what guests send, read as the process reads it.
//!
//! They exist only with the feature `fuzzing`; no other code may use them.

use silica_domain::{NetworkHost, decoded_path};

use crate::process::{HelloReader, ParsedDns, parse_authority, parse_dns};

/// Reads a DNS packet. Every answer repeats the id and says that it is one.
pub fn dns(data: &[u8]) {
    if let ParsedDns::Answer(answer) = parse_dns(data) {
        assert_eq!(answer[..2], data[..2]);
        assert!(answer[2] & 0x80 != 0);
    }
}

/// Reads a TLS hello, whole and byte by byte: both ways see the same.
pub fn hello(data: &[u8]) {
    let whole = HelloReader::default().push(data);
    let mut reader = HelloReader::default();
    let mut pieces = Ok(None);
    for byte in data {
        pieces = reader.push(std::slice::from_ref(byte));
        if !matches!(pieces, Ok(None)) {
            break;
        }
    }
    if let (Ok(Some(whole)), Ok(Some(pieces))) = (&whole, &pieces) {
        assert_eq!(whole, pieces);
    }
    assert_eq!(matches!(whole, Ok(Some(_))), matches!(pieces, Ok(Some(_))));
}

/// Reads the target of a CONNECT and the path of a request.
pub fn head(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok((NetworkHost::Name(name), _)) = parse_authority(text, None) {
        assert!(text.to_ascii_lowercase().starts_with(name.as_str()));
    }
    if let Ok(path) = decoded_path(text) {
        assert!(path.split('/').all(|segment| segment != ".."));
    }
}
