//! What the guest may plant, and what becomes of it.

use std::os::unix::fs::symlink;

use super::*;

fn check(path: &str, inner: Option<&str>) {
    let parsed = GuestPath::parse(path).ok();
    assert_eq!(parsed.as_ref().map(|path| path.inner.as_str()), inner, "{path:?}");
}

#[test]
fn guest_paths_name_writable_places_only() {
    check("plot.png", Some("workspace/plot.png"));
    check("a/b", Some("workspace/a/b"));
    check("/workspace/a", Some("workspace/a"));
    check("/workspace/", Some("workspace"));
    check("/home/user/.config", Some("home/.config"));
    check("/tmp/x y", Some("tmp/x y"));
    for refused in [
        "",
        "/",
        "//workspace/a",
        "/workspace//a",
        "/workspace/../etc/passwd",
        "../x",
        "a/./b",
        "/etc/passwd",
        "/workspacex/a",
        "/home/userx",
        "/home",
        "/data/input/x",
        "a\0b",
        "/proc/1/root",
    ] {
        check(refused, None);
    }
    check(&"x/".repeat(4000), None);
}

fn sandbox() -> (tempfile::TempDir, Files) {
    let root = tempfile::tempdir().unwrap();
    for (place, _) in PLACES {
        std::fs::create_dir(root.path().join(place)).unwrap();
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(root.path(), flags, Mode::empty()).unwrap();
    (root, Files::new(directory, 1 << 20))
}

fn copy(files: &Files, path: &str, target: &Path) -> Result<u64, FileError> {
    files.copy_out(&GuestPath::parse(path).unwrap(), target)
}

#[test]
fn links_and_special_files_are_refused() {
    let (root, files) = sandbox();
    let workspace = root.path().join("workspace");
    let host_secret = root.path().join("secret");
    std::fs::write(&host_secret, "secret").unwrap();
    symlink(&host_secret, workspace.join("link")).unwrap();
    symlink(root.path(), workspace.join("dirlink")).unwrap();
    symlink("../secret", workspace.join("up")).unwrap();
    let fifo = workspace.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(workspace.join("socket")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("out");
    for link in ["link", "dirlink/secret", "up"] {
        let error = copy(&files, link, &target).unwrap_err();
        assert!(matches!(error, FileError::Open { linked: true, .. }), "{link}: {error:?}");
    }
    for special in ["fifo", "socket"] {
        let error = copy(&files, special, &target).unwrap_err();
        assert!(matches!(error, FileError::Special(_)), "{special}: {error:?}");
    }
    assert!(!target.exists());
}

#[test]
fn a_directory_comes_out_without_its_links() {
    let (root, files) = sandbox();
    let results = root.path().join("workspace/results");
    std::fs::create_dir_all(results.join("deep")).unwrap();
    std::fs::write(results.join("a.txt"), "a").unwrap();
    std::fs::write(results.join("deep/b.txt"), "bb").unwrap();
    symlink("/etc/passwd", results.join("evil")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let copied = copy(&files, "results", &out.path().join("got")).unwrap();
    assert_eq!(copied, 3);
    assert_eq!(std::fs::read_to_string(out.path().join("got/deep/b.txt")).unwrap(), "bb");
    assert!(!out.path().join("got/evil").exists());
}

#[test]
fn an_existing_link_on_the_host_is_replaced_not_followed() {
    let (root, files) = sandbox();
    std::fs::write(root.path().join("workspace/x"), "new").unwrap();
    let out = tempfile::tempdir().unwrap();
    let precious = out.path().join("precious");
    std::fs::write(&precious, "old").unwrap();
    symlink(&precious, out.path().join("x")).unwrap();
    copy(&files, "x", &out.path().join("x")).unwrap();
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "old");
    assert_eq!(std::fs::read_to_string(out.path().join("x")).unwrap(), "new");
}
