//! Which place wins, what counts as a place, and where the file is looked for.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};

use super::{environment, file, load, pairs, set};
use crate::config::check::limit_path;
use crate::config::error::ConfigError;
use crate::config::file::{FILE_BYTES_MAX, Search, User};
use crate::config::flags::ServeFlags;
use crate::config::keys::{Key, SECTIONS, key, keys};
use crate::config::load::OTHER_VARIABLES;
use crate::config::settings::Settings;

#[test]
fn later_places_win() {
    let in_file = "log.format = \"json\"\nlisten = \"127.0.0.1:2\"\n";
    let variable = [("SILICA_LISTEN", "127.0.0.1:3")];
    let general = set(&[("listen", "127.0.0.1:4"), ("listen", "127.0.0.1:5")]);
    let named = ServeFlags { listen: Some("127.0.0.1:6".to_owned()), ..general.clone() };
    let none = ServeFlags::default();
    let table = [
        ("", &[][..], &none, "127.0.0.1:8585", "default"),
        (in_file, &[], &none, "127.0.0.1:2", "silica.toml:2"),
        ("", &variable, &none, "127.0.0.1:3", "SILICA_LISTEN"),
        (in_file, &variable, &none, "127.0.0.1:3", "SILICA_LISTEN"),
        ("", &[], &general, "127.0.0.1:5", "--set"),
        (in_file, &variable, &general, "127.0.0.1:5", "--set"),
        (in_file, &variable, &named, "127.0.0.1:6", "--listen"),
        (in_file, &[("SILICA_LISTEN", "")], &none, "127.0.0.1:2", "silica.toml:2"),
    ];
    for (text, variables, flags, listen, origin) in table {
        let loaded = load(text, variables, flags).unwrap();
        let found = (loaded.settings.listen.to_string(), loaded.origin("listen").to_string());
        assert_eq!(found, (listen.to_owned(), origin.to_owned()));
    }
}

/// Every setting that is not a default, with its origin.
fn check(text: &str, variables: &[(&str, &str)], flags: &ServeFlags, expected: &Expect) {
    let loaded = load(text, variables, flags).unwrap();
    let changed = keys().map(|key| {
        let value = (key.write)(&loaded.settings).toml();
        (key.path, value.unwrap_or_default(), loaded.origin(key.path).to_string())
    });
    let lines = changed
        .filter(|(_, _, origin)| origin != "default")
        .map(|(path, value, origin)| format!("{path} = {value} ({origin})\n"));
    let notices = loaded.notices.iter().map(|notice| format!("notice: {notice}\n"));
    expected.assert_eq(&lines.chain(notices).collect::<String>());
}

#[test]
fn every_form_of_a_value_is_read() {
    let text = r#"
        listen = "[::1]:0"
        public_url = "https://silica.example/code/"
        tls.certificate = "/c.pem"
        tls = { key = "/k.pem" }
        "#;
    // A dotted key makes a table that an inline one cannot add to.
    assert!(load(text, &[], &ServeFlags::default()).is_err());
    let text = r#"
        listen = "[0:0::1]:0"
        public_url = "https://silica.example/code/"
        tls = { certificate = "/c.pem", key = "/k.pem" }
        server.allowed_origins = [
            "https://Pages.example", # comment
            "http://[::1]:3000",
        ]
        [sandboxes]
        idle_seconds = 0
        ttl_seconds = 0x10
        [limits]
        default.memory = 600_000_000
        default.cpus = 0.25
        max = { wall_seconds = 7200.5 }
        [pool]
        python = 0
        [inputs]
        corpus = "/srv/corpus"
        [audit]
        redact = ['key-[0-9]{3,}']
        "#;
    check(
        text,
        &[],
        &ServeFlags::default(),
        &expect![[r#"
        listen = "[::1]:0" (silica.toml:2)
        public_url = "https://silica.example/code" (silica.toml:3)
        tls.certificate = "/c.pem" (silica.toml:4)
        tls.key = "/k.pem" (silica.toml:4)
        server.allowed_origins = ["https://pages.example", "http://[::1]:3000"] (silica.toml:5)
        sandboxes.ttl_seconds = 16 (silica.toml:11)
        sandboxes.idle_seconds = 0 (silica.toml:10)
        limits.default.memory = 600000000 (silica.toml:13)
        limits.default.cpus = 0.25 (silica.toml:14)
        limits.max.wall_seconds = 7200.5 (silica.toml:15)
        pool = { python = 0 } (silica.toml:16)
        audit.redact = ["key-[0-9]{3,}"] (silica.toml:21)
        inputs = { corpus = "/srv/corpus" } (silica.toml:18)
    "#]],
    );
}

#[test]
fn variables_and_flags_are_read_by_what_the_key_is() {
    let variables = [
        ("SILICA_SERVER_ALLOWED_HOSTS", "silica.example, [::1],10.0.0.1"),
        ("SILICA_SERVER_REQUEST_BODY_BYTES_MAX", "1048577"),
        ("SILICA_LIMITS_DEFAULT_MEMORY", "1GiB"),
        ("SILICA_POOL", "python=3, science=1"),
        ("SILICA_AUDIT_REDACT", r"\d{3,4}"),
        ("SILICA_CELLS_TIMEOUT_SECONDS", "1.5"),
        ("SILICA_INPUTS", "{ corpus = \"/srv/a=b,c\" }"),
    ];
    let flags = set(&[
        ("server.allowed_origins", "[\"http://a.example\", \"http://b.example\"]"),
        ("quota.upload_bytes_per_minute", "1536K"),
        ("log.level", "debug"),
        ("audit.retention_days", "90"),
    ]);
    check(
        "",
        &variables,
        &flags,
        &expect![[r#"
        log.level = "debug" (--set)
        server.request_body_bytes_max = 1048577 (SILICA_SERVER_REQUEST_BODY_BYTES_MAX)
        server.allowed_origins = ["http://a.example", "http://b.example"] (--set)
        server.allowed_hosts = ["silica.example", "::1", "10.0.0.1"] (SILICA_SERVER_ALLOWED_HOSTS)
        cells.timeout_seconds = 1.5 (SILICA_CELLS_TIMEOUT_SECONDS)
        limits.default.memory = "1G" (SILICA_LIMITS_DEFAULT_MEMORY)
        quota.upload_bytes_per_minute = "1536K" (--set)
        pool = { python = 3, science = 1 } (SILICA_POOL)
        audit.redact = ['\d{3,4}'] (SILICA_AUDIT_REDACT)
        audit.retention_days = 90 (--set)
        inputs = { corpus = "/srv/a=b,c" } (SILICA_INPUTS)
    "#]],
    );
}

#[test]
fn flags_of_their_own_set_their_keys() {
    let text = |text: &str| Some(text.to_owned());
    let flags = ServeFlags {
        config: Some("not-read-here.toml".into()),
        listen: text("localhost:1"),
        public_url: text("http://a"),
        tls_certificate: text("/c"),
        tls_key: text("/d/../k"),
        log_format: text("json"),
        warm: pairs(&[("python", "9")]),
        set: Vec::new(),
    };
    check(
        "",
        &[],
        &flags,
        &expect![[r#"
        listen = "localhost:1" (--listen)
        public_url = "http://a" (--public-url)
        tls.certificate = "/c" (--tls-certificate)
        tls.key = "/d/../k" (--tls-key)
        log.format = "json" (--log-format)
        pool = { python = 9 } (--warm)
    "#]],
    );
}

#[test]
fn lists_and_tables_replace_the_ones_before() {
    let text = "pool = { python = 1, other = 2 }\nserver.allowed_hosts = [\"a\", \"b\"]\n";
    let warm = ServeFlags { warm: pairs(&[("third", "3")]), ..ServeFlags::default() };
    check(
        text,
        &[("SILICA_SERVER_ALLOWED_HOSTS", "c")],
        &warm,
        &expect![[r#"
            server.allowed_hosts = ["c"] (SILICA_SERVER_ALLOWED_HOSTS)
            pool = { third = 3 } (--warm)
        "#]],
    );
    let cleared = set(&[("pool", ""), ("server.allowed_hosts", ""), ("public_url", "")]);
    check(
        "public_url = \"http://a\"",
        &[],
        &cleared,
        &expect![[r"
        public_url =  (--set)
        server.allowed_hosts = [] (--set)
        pool = {} (--set)
    "]],
    );
}

#[test]
fn variables_that_set_nothing_are_mentioned() {
    let variables = [
        ("SILICA_LISEN", "secret"),
        ("SILICA_WEATHER", "secret"),
        ("SILICA_HOME", "/x"),
        ("SILICA_KEY", "secret"),
        ("OTHER", "secret"),
    ];
    check(
        "",
        &variables,
        &ServeFlags::default(),
        &expect![[r"
        notice: the variable SILICA_LISEN sets nothing; did you mean SILICA_LISTEN?
        notice: the variable SILICA_WEATHER sets nothing
    "]],
    );
}

#[test]
fn file_that_everybody_can_change_is_mentioned() {
    let mut open = file("");
    open.writable_by_all = true;
    let loaded = Settings::from_layers(Some(&open), &environment(&[]), &ServeFlags::default());
    let expected =
        ["every user of this machine can write to silica.toml; use chmod o-w to prevent it"];
    assert_eq!(loaded.unwrap().notices, expected);
}

#[test]
fn file_is_looked_for_in_order() {
    let (flag, home) = (Some(Path::new("given.toml")), Path::new("/data"));
    let named = |path: &str| Search::Named(path.into());
    let among = |paths: &[&str]| Search::Among(paths.iter().map(PathBuf::from).collect());
    let variable = ("SILICA_CONFIG", "/variable.toml");
    let user = ("HOME", "/home/user");
    let settings = ("XDG_CONFIG_HOME", "/settings");
    let etc = among(&["/data/silica.toml", "/etc/silica/silica.toml"]);
    let table = [
        (flag, &[variable][..], User::Root, named("given.toml")),
        (None, &[variable, user], User::Root, named("/variable.toml")),
        (None, &[("SILICA_CONFIG", ""), user, settings], User::Root, etc),
        (
            None,
            &[user, settings],
            User::Ordinary,
            among(&["/data/silica.toml", "/settings/silica/silica.toml"]),
        ),
        (
            None,
            &[user, ("XDG_CONFIG_HOME", "relative")],
            User::Ordinary,
            among(&["/data/silica.toml", "/home/user/.config/silica/silica.toml"]),
        ),
        (None, &[], User::Ordinary, among(&["/data/silica.toml"])),
    ];
    for (flag, variables, user, expected) in table {
        assert_eq!(Search::new(flag, &environment(variables), home, user), expected);
    }
}

#[test]
fn first_file_that_is_there_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("second"), "listen = \"a:1\"").unwrap();
    std::fs::write(path("third"), "").unwrap();
    std::fs::set_permissions(path("third"), PermissionsExt::from_mode(0o666)).unwrap();
    let found = Search::Among(vec![path("first"), path("second"), path("third")]).read();
    let found = found.unwrap().unwrap();
    assert_eq!((found.path, found.writable_by_all), (path("second"), false));
    let third = Search::Named(path("third")).read().unwrap().unwrap();
    assert!(third.writable_by_all);
    assert!(Search::Among(vec![path("first")]).read().unwrap().is_none());
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("large"), " ".repeat(FILE_BYTES_MAX + 1)).unwrap();
    std::fs::write(path("largest"), " ".repeat(FILE_BYTES_MAX)).unwrap();
    std::fs::write(path("binary"), b"listen = \"\xff\"").unwrap();
    let read = |name: &str| Search::Named(path(name)).read();
    assert!(matches!(read("missing"), Err(ConfigError::Read { .. })));
    assert!(matches!(read("binary"), Err(ConfigError::Read { .. })));
    assert!(matches!(read("large"), Err(ConfigError::TooLarge { .. })));
    assert!(read("largest").unwrap().is_some());
    // One that is there and cannot be read is not passed over for the next.
    let paths = vec![path("."), path("largest")];
    assert!(matches!(Search::Among(paths).read(), Err(ConfigError::Read { .. })));
}

#[test]
fn names_are_distinct_and_sections_stand_together() {
    let mut variables: Vec<String> = keys().map(Key::variable).collect();
    variables.extend(OTHER_VARIABLES.map(str::to_owned));
    let count = variables.len();
    variables.sort();
    variables.dedup();
    assert_eq!(variables.len(), count);
    let section = |key: &Key| if key.is_table() { key.path } else { key.split().0 };
    let mut sections: Vec<&str> = keys().map(section).collect();
    sections.dedup();
    let described = std::iter::once("").chain(SECTIONS.iter().map(|(name, _)| *name));
    assert_eq!(sections, described.collect::<Vec<_>>());
}

#[test]
fn every_limit_has_its_two_keys() {
    use silica_domain::Limit;
    let limits = [
        Limit::Memory,
        Limit::Cpu,
        Limit::Wall,
        Limit::Cpus,
        Limit::Processes,
        Limit::OpenFiles,
        Limit::Disk,
        Limit::FileSize,
        Limit::Output,
        Limit::Results,
        Limit::ResultBytes,
    ];
    for limit in limits {
        for section in ["limits.default", "limits.max"] {
            let path = limit_path(section, limit);
            assert!(key(&path).is_some(), "{path}");
        }
    }
    assert_eq!(keys().filter(|key| key.path.starts_with("limits.")).count(), 2 * limits.len());
}
