//! Which variables reach programs on the host.

use std::ffi::OsString;
use std::process::Command;

use expect_test::expect;

use super::BuildOptions;

#[test]
fn keeps_mirrors_and_proxies_and_drops_the_rest() {
    let variables = [
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("PATH", "/bin"),
        ("PIP_INDEX_URL", "https://mirror.example/simple"),
        ("PIP_NO_BINARY", ":all:"),
        ("PIP_TARGET", "/elsewhere"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONPATH", "/x"),
        ("SILICA_PYTHON", "/opt/python3"),
        ("SSL_CERT_FILE", "/ca.pem"),
        ("https_proxy", "http://proxy.example"),
    ];
    let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let options = BuildOptions::new(variables.into());
    assert_eq!(options.python, Some("/opt/python3".into()));
    assert_eq!(options.search_path, "/bin");

    let mut command = Command::new("x");
    options.apply_environment(&mut command);
    let names: Vec<_> = command.get_envs().map(|(name, _)| name.to_string_lossy()).collect();
    expect!["PATH PIP_INDEX_URL PYTHONNOUSERSITE SSL_CERT_FILE https_proxy"]
        .assert_eq(&names.join(" "));
}
