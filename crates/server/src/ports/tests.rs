//! Paths of ports.

use super::{inner_path, is_passed_on, split_path};

#[test]
fn the_path_of_a_port_is_split_as_it_is() {
    for (path, segments, expected) in [
        ("/v1/sandboxes/a/ports/1/x/y", 5, ("/v1/sandboxes/a/ports/1", "/x/y")),
        ("/v1/sandboxes/a/ports/1//x%2f", 5, ("/v1/sandboxes/a/ports/1", "//x%2f")),
        ("/v1/sandboxes/a/ports/1/", 5, ("/v1/sandboxes/a/ports/1", "/")),
        ("/v1/sandboxes/a/ports/1", 5, ("/v1/sandboxes/a/ports/1", "")),
        ("/v1/ports/t/x", 3, ("/v1/ports/t", "/x")),
    ] {
        assert_eq!(split_path(path, segments), expected);
    }
}

#[test]
fn only_paths_of_ports_are_passed_on_as_they_are() {
    for (path, expected) in [
        ("/v1/sandboxes/a/ports/1//x", true),
        ("/v1/sandboxes/a/ports", true),
        ("/v1/ports/t//", true),
        ("/v1//sandboxes/a/ports/1", false),
        ("/v1/sandboxes/a/files//ports", false),
        ("/", false),
    ] {
        assert_eq!(is_passed_on(path), expected, "{path}");
    }
}

#[test]
fn an_empty_path_is_the_root() {
    assert_eq!(inner_path("", None).unwrap(), "/");
    assert_eq!(inner_path("", Some("a=b")).unwrap(), "/?a=b");
    assert_eq!(inner_path("/x//y", Some("")).unwrap(), "/x//y?");
}
