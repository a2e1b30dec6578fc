//! What is said about a configuration that is not right, word for word.

use expect_test::{Expect, expect};

use super::{load, pairs, set};
use crate::config::error::PROBLEMS_MAX;
use crate::config::flags::ServeFlags;

fn check(text: &str, variables: &[(&str, &str)], flags: &ServeFlags, expected: &Expect) {
    let error = load(text, variables, flags).unwrap_err();
    expected.assert_eq(&format!("{error}\n"));
}

/// Each text by itself is wrong; all messages together.
fn check_files(texts: &[&str], expected: &Expect) {
    let message = |text: &&str| {
        let error = load(text, &[], &ServeFlags::default()).unwrap_err();
        format!("{error}\n")
    };
    expected.assert_eq(&texts.iter().map(message).collect::<String>());
}

#[test]
fn file_that_is_not_toml() {
    check_files(
        &["listen", "\n[tls\n", "listen = \"a:1\"\nlisten = \"a:2\"", "[log]\n[log]\n", "x = 08"],
        &expect![[r"
            silica.toml:1:7: this is not TOML: key with no value, expected `=`
            silica.toml:2:5: this is not TOML: unclosed table, expected `]`
            silica.toml:2:1: this is not TOML: duplicate key
            silica.toml:2:2: this is not TOML: duplicate key
            silica.toml:1:5: this is not TOML: unexpected leading zero, expected nothing
        "]],
    );
}

#[test]
fn unknown_keys_name_the_nearest() {
    check_files(
        &[
            "lisen = 1",
            "\n\n[tls]\ncertificat = \"/x\"",
            "timeout_seconds = 1",
            "[server]\nttl_seconds = 1",
            "[limit.default]\nmemory = 1",
            "weather = \"fine\"",
            "\"tls.key\" = \"/x\"",
            "\"\\u001b[31m\" = 1",
            "[[servers]]\nx = 1",
        ],
        &expect![[r#"
            silica.toml:1: `lisen` is not a key; did you mean `listen`?
            silica.toml:4: `tls.certificat` is not a key; did you mean `tls.certificate`?
            silica.toml:1: `timeout_seconds` is not a key; did you mean `cells.timeout_seconds`?
            silica.toml:2: `server.ttl_seconds` is not a key; did you mean `sandboxes.ttl_seconds`?
            silica.toml:1: `limit` is not a key; did you mean `limits`?
            silica.toml:1: `weather` is not a key
            silica.toml:1: `\"tls.key\"` is not a key
            silica.toml:1: `\u{1b}[31m` is not a key
            silica.toml:1: `servers` is not a key; did you mean `server`?
        "#]],
    );
    let flags = set(&[("cells.timeout", "1"), ("pool.python", "1"), ("", "1")]);
    check(
        "",
        &[],
        &flags,
        &expect![[r"
            the configuration is invalid:
              --set: `cells.timeout` is not a key; did you mean `cells.timeout_seconds`?
              --set: `pool.python` is not a key; did you mean `pool`?
              --set: `` is not a key
        "]],
    );
}

#[test]
fn wrong_types_and_values_in_a_file() {
    check_files(
        &[
            "listen = 8585",
            "listen = \"8585\"",
            "public_url = \"ftp://a\"",
            "tls = 1",
            "[[tls]]\nkey = \"/x\"",
            "tls.key = \"key.pem\"",
            "log.format = \"xml\"",
            "log.level = true",
            "server.request_body_bytes_max = \"5X\"",
            "server.request_body_bytes_max = 10",
            "server.shutdown_seconds = \"5\"",
            "server.shutdown_seconds = -1",
            "server.shutdown_seconds = inf",
            "server.allowed_origins = \"http://a\"",
            "server.allowed_origins = [\n\"http://a\",\n\"http://b/c\",\n]",
            "server.allowed_hosts = [\"a:80\"]",
            "sandboxes.template = \"No Such\"",
            "sandboxes.max_cells = 1.5",
            "sandboxes.max_cells = 99999999999999999999",
            "sandboxes.idle_seconds = 0.5",
            "cells.queue_max = 0",
            "limits.default.memory = \"1M\"",
            "limits.max.cpus = 0.001",
            "[pool]\npython = 1\n\n\"Bad Name\" = 1",
            "[pool]\npython = -1",
            "pool = 4",
            "audit.redact = [\"a\", \"(\"]",
            "audit.retention_days = 1979-05-27",
            "[inputs]\ncorpus = \"srv/corpus\"",
            "[inputs]\n\"a/b\" = \"/srv\"",
            "sandboxes.max_cells = {}",
            "sandboxes.max_cells = []",
        ],
        &expect![[r#"
            silica.toml:1: `listen` is 8585; allowed: an address and a port, such as 127.0.0.1:8585, [::]:8585 or localhost:8585
            silica.toml:1: `listen` is "8585"; allowed: an address and a port, such as 127.0.0.1:8585, [::]:8585 or localhost:8585
            silica.toml:1: `public_url` is "ftp://a"; allowed: a URL that begins with http:// or https://, without user, query and fragment
            silica.toml:1: `tls` is 1; allowed: a table with certificate, key
            silica.toml:1: `tls` is a list; allowed: a table with certificate, key
            silica.toml:1: `tls.key` is "key.pem"; allowed: an absolute path
            silica.toml:1: `log.format` is "xml"; allowed: "text" or "json"
            silica.toml:1: `log.level` is true; allowed: "error", "warn", "info", "debug" or "trace"
            silica.toml:1: `server.request_body_bytes_max` is "5X"; allowed: a size from 1K to 4G
            silica.toml:1: `server.request_body_bytes_max` is 10; allowed: a size from 1K to 4G
            silica.toml:1: `server.shutdown_seconds` is "5"; allowed: a number of seconds from 0 to 3600
            silica.toml:1: `server.shutdown_seconds` is -1; allowed: a number of seconds from 0 to 3600
            silica.toml:1: `server.shutdown_seconds` is inf; allowed: a number of seconds from 0 to 3600
            silica.toml:1: `server.allowed_origins` is "http://a"; allowed: a list of up to 100, each an origin, such as https://pages.example or http://localhost:3000
            silica.toml:3: `server.allowed_origins[1]` is "http://b/c"; allowed: an origin, such as https://pages.example or http://localhost:3000
            silica.toml:1: `server.allowed_hosts[0]` is "a:80"; allowed: a host name or address without a port
            silica.toml:1: `sandboxes.template` is "No Such"; allowed: a template's name (1 to 40 of a-z, 0-9 and -, not starting with -)
            silica.toml:1: `sandboxes.max_cells` is 1.5; allowed: a whole number from 1 to 1000000000
            silica.toml:1: `sandboxes.max_cells` is 99999999999999999999; allowed: a whole number from 1 to 1000000000
            silica.toml:1: `sandboxes.idle_seconds` is 0.5; allowed: a number of seconds from 1 to 315360000, or 0 for never
            silica.toml:1: `cells.queue_max` is 0; allowed: a whole number from 1 to 1000000
            silica.toml:1: `limits.default.memory` is "1M"; allowed: a size from 32M to 65536G
            silica.toml:1: `limits.max.cpus` is 0.001; allowed: a number of processors from 0.02 to 1000
            silica.toml:4: `pool` is a table with "Bad Name"; allowed: a template's name (1 to 40 of a-z, 0-9 and -, not starting with -)
            silica.toml:2: `pool.python` is -1; allowed: a whole number from 0 to 1000
            silica.toml:1: `pool` is 4; allowed: a table of up to 100 entries: a template's name (1 to 40 of a-z, 0-9 and -, not starting with -) = a whole number from 0 to 1000
            silica.toml:1: `audit.redact[1]` is "("; allowed: a regular expression (unclosed group)
            silica.toml:1: `audit.retention_days` is 1979-05-27; allowed: a number of days from 1 to 36500, or 0 for ever
            silica.toml:2: `inputs.corpus` is "srv/corpus"; allowed: an absolute path
            silica.toml:2: `inputs` is a table with "a/b"; allowed: a name (1 to 64 of a-z, A-Z, 0-9, - and _)
            silica.toml:1: `sandboxes.max_cells` is a table; allowed: a whole number from 1 to 1000000000
            silica.toml:1: `sandboxes.max_cells` is a list; allowed: a whole number from 1 to 1000000000
        "#]],
    );
}

#[test]
fn wrong_values_in_variables_and_flags() {
    let variables = [("SILICA_CELLS_QUEUE_MAX", "many"), ("SILICA_POOL", "python")];
    let flags = ServeFlags {
        listen: Some("nowhere".to_owned()),
        log_format: Some(String::new()),
        tls_key: Some(String::new()),
        warm: pairs(&[("python", "1"), ("python", "2")]),
        ..set(&[("quota.sandboxes", "0"), ("audit.redact", "[0-9]"), ("tls.key", "key.pem")])
    };
    check(
        "",
        &variables,
        &flags,
        &expect![[r#"
            the configuration is invalid:
              SILICA_CELLS_QUEUE_MAX: `cells.queue_max` is "many"; allowed: a whole number from 1 to 1000000
              SILICA_POOL: `pool` is "python"; allowed: a table of up to 100 entries: a template's name (1 to 40 of a-z, 0-9 and -, not starting with -) = a whole number from 0 to 1000
              --set: `quota.sandboxes` is "0"; allowed: a whole number from 1 to 1000000
              --set: `audit.redact` is "[0-9]"; allowed: a list of up to 100, each a regular expression
              --set: `tls.key` is "key.pem"; allowed: an absolute path
              --listen: `listen` is "nowhere"; allowed: an address and a port, such as 127.0.0.1:8585, [::]:8585 or localhost:8585
              --tls-key: `tls.key` is ""; allowed: an absolute path
              --log-format: `log.format` is ""; allowed: "text" or "json"
              --warm: `pool.python` is given twice; allowed: each name once
        "#]],
    );
}

#[test]
fn what_may_be_a_secret_is_not_repeated() {
    let secret = "swordfish";
    let key = format!("-----BEGIN PRIVATE KEY-----\n{secret}\n");
    let url = format!("https://user:{secret}@silica.example");
    let flags = set(&[
        ("tls.key", &key),
        ("public_url", &url),
        ("server.allowed_origins", &url),
        ("listen", &"x".repeat(1000)),
    ]);
    let error = load("", &[("SILICA_PASSWORD", secret)], &flags).unwrap_err().to_string();
    assert!(!error.contains(secret), "{error}");
    expect![[r#"
        the configuration is invalid:
          --set: `tls.key` is the content of a file (not shown); allowed: an absolute path
          --set: `public_url` is a URL with a user (not shown); allowed: a URL that begins with http:// or https://, without user, query and fragment
          --set: `server.allowed_origins[0]` is a URL with a user (not shown); allowed: an origin, such as https://pages.example or http://localhost:3000
          --set: `listen` is "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"; allowed: an address and a port, such as 127.0.0.1:8585, [::]:8585 or localhost:8585
    "#]].assert_eq(&format!("{error}\n"));
}

#[test]
fn values_that_do_not_go_together() {
    check_files(
        &[
            "tls.key = \"/k\"",
            "sandboxes.ttl_seconds_max = 60",
            "sandboxes.idle_seconds_max = 60\nsandboxes.idle_seconds = 0\ncells.timeout_seconds = 3601",
            "limits.max.memory = \"256M\"",
            "limits.default.disk = \"512M\"",
            "ports.domain = \"a.example\"\npublic_url = \"https://api.a.example:1/x\"",
            "ports.domain = \"A.example\"\nserver.allowed_hosts = [\"a.example\", \"x.y.a.example\"]",
        ],
        &expect![[r#"
            `tls.certificate` is not set (default) and `tls.key` is "/k" (silica.toml:1); set both or neither
            `sandboxes.ttl_seconds` is 3600 (default), which is more than its maximum: `sandboxes.ttl_seconds_max` is 60 (silica.toml:1)
            `cells.timeout_seconds` is 3601 (silica.toml:3), which is more than its maximum: `cells.timeout_seconds_max` is 3600 (default)
            `limits.default.memory` is "512M" (default), which is more than its maximum: `limits.max.memory` is "256M" (silica.toml:1)
            `limits.default.disk` is "512M" (silica.toml:1) and `limits.default.memory` is "512M" (default); files are kept in memory, so the first must be less than the second
            `ports.domain` is "a.example" (silica.toml:1), below which only ports answer, and `server.allowed_hosts` is [] (default), `public_url` is "https://api.a.example:1/x" (silica.toml:2); choose another domain
            `ports.domain` is "a.example" (silica.toml:1), below which only ports answer, and `server.allowed_hosts` is ["a.example", "x.y.a.example"] (silica.toml:2), `public_url` is not set (default); choose another domain
        "#]],
    );
    let flags = set(&[("limits.default.wall_seconds", "9999.5")]);
    let variables = [("SILICA_TLS_CERTIFICATE", "/c"), ("SILICA_CELLS_TIMEOUT_SECONDS_MAX", "1")];
    check(
        "",
        &variables,
        &flags,
        &expect![[r#"
            the configuration is invalid:
              `cells.timeout_seconds` is 30 (default), which is more than its maximum: `cells.timeout_seconds_max` is 1 (SILICA_CELLS_TIMEOUT_SECONDS_MAX)
              `tls.certificate` is "/c" (SILICA_TLS_CERTIFICATE) and `tls.key` is not set (default); set both or neither
              `limits.default.wall_seconds` is 9999.5 (--set), which is more than its maximum: `limits.max.wall_seconds` is 3600 (default)
        "#]],
    );
}

#[test]
fn a_large_maximum_of_files_is_no_contradiction() {
    let text = "limits.max.memory = \"4G\"\nlimits.max.disk = \"8G\"";
    load(text, &[], &ServeFlags::default()).unwrap();
}

#[test]
fn nesting_without_end_is_refused() {
    let deep = "[".repeat(100_000);
    let (list, table) = (format!("[{deep}]"), "{a=".repeat(100_000));
    let flags = set(&[("server.allowed_hosts", &list), ("pool", &table)]);
    let error = load(&format!("x = {deep}"), &[], &flags).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 4, "{error}");
}

#[test]
fn problems_are_told_together_in_order_and_not_without_end() {
    let text = "b = 1\n[cells]\nqueue_max = 0\n[a]\n";
    let flags = set(&[("log.level", "loud")]);
    check(
        text,
        &[("SILICA_LISTEN", "x")],
        &flags,
        &expect![[r#"
        the configuration is invalid:
          silica.toml:1: `b` is not a key
          silica.toml:3: `cells.queue_max` is 0; allowed: a whole number from 1 to 1000000
          silica.toml:4: `a` is not a key
          SILICA_LISTEN: `listen` is "x"; allowed: an address and a port, such as 127.0.0.1:8585, [::]:8585 or localhost:8585
          --set: `log.level` is "loud"; allowed: "error", "warn", "info", "debug" or "trace"
    "#]],
    );
    let many: Vec<String> = (0..1000).map(|number| format!("key{number} = 1")).collect();
    let error = load(&many.join("\n"), &[], &ServeFlags::default()).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1 + PROBLEMS_MAX + 1);
    assert_eq!(error.lines().last(), Some("  and more"));
}
