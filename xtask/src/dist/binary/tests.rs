//! Which variables a build keeps.

use super::is_set_for_us;

#[test]
fn settings_of_the_caller_are_kept() {
    for name in [
        "CARGO_HOME",
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_JOBS",
        "CARGO_NET_OFFLINE",
        "CARGO_HTTP_PROXY",
        "CARGO_HTTP_CAINFO",
        "CARGO_REGISTRIES_MIRROR_INDEX",
        "CARGO_SOURCE_CRATES_IO_REPLACE_WITH",
        "CARGO_INCREMENTAL",
        "PATH",
    ] {
        assert!(!is_set_for_us(name), "{name}");
    }
    for name in
        ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_PKG_VERSION", "CARGO_BIN_NAME", "CARGO_CRATE_NAME"]
    {
        assert!(is_set_for_us(name), "{name}");
    }
}
