//! Files copied out of a sandbox that does everything to mislead the host.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::harness::{PYTHON, TestHome};

#[test]
fn files_and_directories_are_copied_out() {
    let home = TestHome::new(PYTHON);
    let here = home.working_directory();
    let code = "import os\n\
                open('/workspace/a', 'w').write('alpha')\n\
                open('/home/user/b', 'w').write('beta')\n\
                os.makedirs('/tmp/d/e'); open('/tmp/d/e/f', 'w').write('phi')";
    fs::create_dir(here.join("into")).unwrap();
    let outputs = ["--out", "a", "--out", "/home/user/b:into", "--out", "/tmp/d:copy"];
    let ran = home.run(&[&["-c", code], outputs.as_slice()].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("silica: copied /workspace/a to a (5 bytes)"), "{}", ran.stderr);
    for (path, content) in [("a", "alpha"), ("into/b", "beta"), ("copy/e/f", "phi")] {
        assert_eq!(fs::read_to_string(here.join(path)).unwrap(), content);
    }
}

#[test]
fn paths_outside_the_writable_places_are_refused_before_the_run() {
    let home = TestHome::new(PYTHON);
    for path in
        ["/etc/passwd", "../etc/passwd", "/workspace/../etc/passwd", "/tmpx", "", "/", "a//b"]
    {
        let ran = home.run(&["-c", "print('ran')", "--out", path]);
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{path}");
        let words = format!("{path:?} is not a path below /workspace, /home/user or /tmp");
        assert!(ran.stderr.contains(&words), "{}", ran.stderr);
    }
}

#[test]
fn what_the_guest_planted_is_not_followed() {
    let home = TestHome::new(PYTHON);
    let plant = "import os, socket\n\
                 os.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'folder')\n\
                 os.symlink('/proc/1/root/etc/passwd', 'magic'); os.symlink('loop', 'loop')\n\
                 os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')\n";
    for (path, words) in [
        ("link", "symbolic link"),
        ("folder/passwd", "symbolic link"),
        ("magic", "symbolic link"),
        ("loop", "symbolic link"),
        ("fifo", "neither a file nor a directory"),
        ("socket", "neither a file nor a directory"),
        ("missing", "cannot open /workspace/missing"),
    ] {
        let ran = home.run(&["-c", plant, "--out", &format!("{path}:copy")]);
        assert_eq!(ran.status, 125, "{path}: {ran:?}");
        assert!(ran.stderr.contains(words), "{path}: {}", ran.stderr);
        assert!(!home.working_directory().join("copy").exists(), "{path}");
    }
}

#[test]
fn directory_is_copied_without_its_evil_entries() {
    let home = TestHome::new(PYTHON);
    let code = "import os, socket\n\
                os.makedirs('d/deep'); os.chdir('d')\n\
                open('honest', 'w').write('x'); open('deep/too', 'w').write('y')\n\
                os.symlink('/etc/shadow', 'link'); os.symlink('/etc', 'deep/folder')\n\
                os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')\n\
                open(b'\\xff\\xfe', 'w'); open('new\\nline', 'w')\n\
                open('secret', 'w').write('z'); os.chmod('secret', 0)";
    let ran = home.run(&["-c", code, "--out", "d"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let mut found = Vec::new();
    let mut pending = vec![home.working_directory().join("d")];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            assert!(kind.is_dir() || kind.is_file(), "{entry:?}");
            if kind.is_dir() {
                pending.push(entry.path());
            }
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort();
    found.retain(|name| name != "secret");
    assert_eq!(found, ["deep", "honest", "new\nline", "too", "\u{fffd}\u{fffd}"]);
}

#[test]
fn copy_takes_no_more_room_than_the_sandbox_had() {
    let home = TestHome::new(PYTHON);
    let sparse = "for i in range(20): open(f'd/{i}', 'w').truncate(20 << 20)";
    let linked = "open('d/0', 'wb').write(b'x' * 900_000)\n\
                  for i in range(1, 40): os.link('d/0', f'd/{i}')";
    for code in [sparse, linked] {
        let code = format!("import os; os.mkdir('d')\n{code}");
        let ran = home.run(&["--disk", "1M", "-c", &code, "--out", "d"]);
        let copy = home.working_directory().join("d");
        let files = fs::read_dir(&copy).into_iter().flatten().flatten();
        let taken: u64 = files.map(|file| file.metadata().unwrap().blocks() * 512).sum();
        assert!(taken <= 1 << 20, "{taken} bytes of the host for 1 MiB in the sandbox: {ran:?}");
        let _ = fs::remove_dir_all(copy);
    }
}

#[test]
fn links_on_the_host_are_not_written_through() {
    let home = TestHome::new(PYTHON);
    let here = home.working_directory();
    fs::write(here.join("victim"), "mine").unwrap();
    fs::create_dir(here.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("victim", here.join("target")).unwrap();
    let ran = home.run(&["-c", "open('a', 'w').write('theirs')", "--out", "a:target"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(here.join("victim")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(here.join("target")).unwrap(), "theirs");
    fs::create_dir(here.join("d")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", here.join("d/sub")).unwrap();
    let code = "import os; os.makedirs('d/sub'); open('d/sub/f', 'w').write('theirs')";
    let ran = home.run(&["-c", code, "--out", "d:."]);
    assert_eq!(ran.status, 125, "{ran:?}");
    assert_eq!(fs::read_dir(here.join("elsewhere")).unwrap().count(), 0);
}

#[test]
fn files_come_out_after_every_kind_of_end() {
    let home = TestHome::new(PYTHON);
    for (end, status) in [
        ("1 / 0", 1),
        ("import os; os._exit(4)", 4),
        ("import ctypes; ctypes.string_at(0)", 139),
        ("import time; time.sleep(60)", 124),
    ] {
        let code = format!("open('a', 'w').write('kept')\n{end}");
        let ran = home.run(&["--timeout", "1", "-c", &code, "--out", "a"]);
        assert_eq!(ran.status, status, "{end}: {}", ran.stderr);
        assert_eq!(
            fs::read_to_string(home.working_directory().join("a")).unwrap(),
            "kept",
            "{end}"
        );
        fs::remove_file(home.working_directory().join("a")).unwrap();
    }
}
