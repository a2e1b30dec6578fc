//! The signature is the one that others compute.

use super::signature;

/// Computed with `printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret`.
#[test]
fn signature_is_what_others_compute() {
    let expected = "49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686";
    assert_eq!(
        signature(b"secret", 1_700_000_000, "{\"a\":1}"),
        format!("t=1700000000,v1={expected}")
    );
}
