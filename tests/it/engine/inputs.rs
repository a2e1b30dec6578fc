//! Bad and good input: code, limits, and files handed in.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};

use crate::harness::{CommandOutput, PYTHON, TestHome};

/// That a run was refused before anything happened, with these words.
fn assert_refused(ran: &CommandOutput, words: &[&str]) {
    assert!(matches!(ran.status, 2 | 125), "{ran:?}");
    assert_eq!(ran.stdout, "");
    for word in words {
        assert!(ran.stderr.contains(word), "{word:?} is not in {}", ran.stderr);
    }
}

#[test]
fn empty_code_runs() {
    let home = TestHome::new(PYTHON);
    std::fs::write(home.working_directory().join("empty.py"), "").unwrap();
    for ran in [home.run(&["-c", ""]), home.run(&["empty.py"]), home.run(&[])] {
        assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    }
}

#[test]
fn code_that_is_not_text_is_refused() {
    let home = TestHome::new(PYTHON);
    let code = b"print('\xff\xfe')";
    std::fs::write(home.working_directory().join("latin.py"), code).unwrap();
    assert_refused(&home.run(&["latin.py"]), &["latin.py is not UTF-8", "byte 7"]);
    assert_refused(&home.run_with_stdin(&[], code), &["standard input is not UTF-8", "byte 7"]);
}

#[test]
fn code_that_is_too_long_is_refused() {
    let home = TestHome::new(PYTHON);
    let code = vec![b'#'; 10 << 20];
    std::fs::write(home.working_directory().join("long.py"), &code).unwrap();
    assert_refused(&home.run(&["long.py"]), &["long.py", "1048576 bytes"]);
    assert_refused(&home.run_with_stdin(&[], &code), &["standard input", "1048576 bytes"]);
    let longest = [vec![b'#'; (1 << 20) - 9], b"\nprint(1)".to_vec()].concat();
    assert_eq!(home.run_with_stdin(&[], &longest).stdout, "1\n");
}

#[test]
fn odd_code_runs_or_raises() {
    let home = TestHome::new(PYTHON);
    for (code, status, words) in [
        ("print(", 1, "SyntaxError"),
        ("  x = 1\n y = 2", 1, "IndentationError"),
        ("print('a')\r\nprint('b')\r\n", 0, "a\nb\n"),
        ("\u{feff}print('bom')", 0, "bom\n"),
        ("é = 'ünï'; print(é, '🜁')", 0, "ünï 🜁\n"),
        ("print('\\0nul')", 0, "\0nul\n"),
    ] {
        let ran = home.run_with_stdin(&[], code.as_bytes());
        assert_eq!(ran.status, status, "{code:?}: {ran:?}");
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(words), "{code:?}: {ran:?}");
    }
    let ran = home.run_with_stdin(&[], b"print(1)\0");
    assert_eq!(ran.status, 1, "{ran:?}");
}

#[test]
fn what_is_not_there_is_named() {
    let home = TestHome::new(PYTHON);
    assert_refused(&home.run(&["nowhere.py"]), &["cannot read nowhere.py", "No such file"]);
    assert_refused(&home.run(&["."]), &[". is a directory", "give a Python file"]);
    assert_refused(&home.run(&["--template", "nothing", "-c", ""]), &["cannot be used multiple"]);
    let mut command = std::process::Command::new(crate::harness::SILICA);
    command.args(["run", "--template", "nothing", "-c", "1"]).env("SILICA_HOME", home.path());
    assert_refused(&crate::harness::finish(&mut command), &["nothing"]);
    assert_refused(&home.run(&["--template", "../python", "-c", "1"]), &[]);
}

#[test]
fn limits_out_of_range_name_limit_and_value() {
    let home = TestHome::new(PYTHON);
    for (flag, value, words) in [
        ("--memory", "0", "the memory limit is 0 bytes, but at least 32 MiB"),
        ("--memory", "31M", "the memory limit is 31 MiB, but at least"),
        ("--memory", "17G", "the memory limit is 17 GiB, but at most 16 GiB"),
        ("--memory", "-1", "-1"),
        ("--memory", "lots", "\"lots\" is not a size"),
        ("--cpus", "0", "the cpus limit is 0, but at least 0.02"),
        ("--cpus", "65", "the cpus limit is 65, but at most 64"),
        ("--cpus", "-1", "-1"),
        ("--cpus", "nan", "is not a number of processors"),
        ("--timeout", "0", "the wall limit is 0 s, but at least"),
        ("--timeout", "2d", "is not a time"),
        ("--timeout", "2h", "the wall limit is 7200 s, but at most 3600 s"),
        ("--timeout", "3601", "the wall limit is 3601 s, but at most 3600 s"),
        ("--timeout", "-1s", "-1"),
        ("--timeout", "inf", "is not a time"),
        ("--cpu-seconds", "0", "the cpu limit is 0 s, but at least"),
        ("--cpu-seconds", "1e9", "the cpu limit is 1000000000 s, but at most"),
        ("--disk", "0", "the disk limit is 0 bytes, but at least 64 KiB"),
        ("--disk", "9G", "the disk limit is 9 GiB, but at most 8 GiB"),
        ("--disk", "600M", "the disk limit is 600 MiB, but files are kept in memory"),
        ("--file-size", "0", "the file_size limit is 0 bytes, but at least"),
        ("--file-size", "9G", "the file_size limit is 9 GiB, but at most"),
        ("--processes", "0", "the processes limit is 0, but at least 2"),
        ("--processes", "5000", "the processes limit is 5000, but at most 4096"),
        ("--processes", "-1", "-1"),
        ("--processes", "99999999999", "99999999999"),
        ("--open-files", "0", "the open_files limit is 0, but at least 16"),
        ("--open-files", "65537", "the open_files limit is 65537, but at most 65536"),
        ("--output", "0", "the output limit is 0 bytes, but at least"),
        ("--output", "65M", "the output limit is 65 MiB, but at most 64 MiB"),
        ("--results", "0", "the results limit is 0, but at least 1"),
        ("--results", "1025", "the results limit is 1025, but at most 1024"),
        ("--result-bytes", "0", "the result_bytes limit is 0 bytes, but at least"),
        ("--result-bytes", "65M", "the result_bytes limit is 65 MiB, but at most 64 MiB"),
    ] {
        let ran = home.run(&[flag, value, "-c", "print('ran')"]);
        assert_refused(&ran, &[words]);
    }
}

fn make(directory: &Path, name: &str, kind: FileType) {
    let mode = Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(CWD, directory.join(name), kind, mode, 0).unwrap();
}

#[test]
fn inputs_that_are_no_files_are_refused() {
    let home = TestHome::new(PYTHON);
    let here = home.working_directory();
    std::fs::write(here.join("file"), "x").unwrap();
    std::os::unix::fs::symlink("file", here.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", here.join("dangling")).unwrap();
    make(&here, "fifo", FileType::Fifo);
    make(&here, "socket", FileType::Socket);
    for (input, words) in [
        ("missing", "cannot use missing as an input"),
        ("", "as an input"),
        ("link", "it is a symbolic link"),
        ("dangling", "it is a symbolic link"),
        ("fifo", "it is a named pipe"),
        ("socket", "it is a socket"),
        ("/dev/null", "it is a device"),
        ("/proc/self/fd/0:x", "it is a symbolic link"),
        ("file:", "is not a name below /data/input"),
        ("file:.", "is not a name below /data/input"),
        ("file:..", "is not a name below /data/input"),
        ("file:a/b", "is not a name below /data/input"),
        ("file:../../etc/passwd", "is not a name below /data/input"),
        ("file:/etc/passwd", "is not a name below /data/input"),
    ] {
        assert_refused(&home.run(&["--in", input, "-c", "print('ran')"]), &[words]);
    }
    let long = format!("file:{}", "n".repeat(256));
    assert_refused(&home.run(&["--in", &long, "-c", ""]), &["is not a name"]);
}

#[test]
fn two_inputs_of_one_name_are_refused() {
    let home = TestHome::new(PYTHON);
    std::fs::write(home.working_directory().join("a"), "a").unwrap();
    std::fs::write(home.working_directory().join("b"), "b").unwrap();
    let ran = home.run(&["--in", "a", "--in", "b:a", "-c", ""]);
    assert_refused(&ran, &["two inputs are both called a"]);
}

#[test]
fn inputs_can_be_read_and_not_changed() {
    let home = TestHome::new(PYTHON);
    let here = home.working_directory();
    std::fs::create_dir_all(here.join("folder/deep")).unwrap();
    std::fs::write(here.join("folder/deep/leaf"), "leaf").unwrap();
    for (name, mode) in [("open", 0o644), ("private", 0o600), ("c:olon", 0o644)] {
        std::fs::write(here.join(name), name).unwrap();
        std::fs::set_permissions(here.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let code = r"
import os
for name in sorted(os.listdir('/data/input')):
    path = '/data/input/' + name
    if os.path.isdir(path):
        print(name, os.listdir(path), open(path + '/deep/leaf').read())
        path += '/deep/leaf'
    else:
        print(name, open(path).read())
    for attempt in [
        lambda: open(path, 'w'),
        lambda: open(path, 'a'),
        lambda: os.unlink(path),
        lambda: os.rename(path, path + '2'),
        lambda: os.chmod(path, 0o777),
        lambda: open(os.path.dirname(path) + '/new', 'w'),
        lambda: os.mkdir('/data/input/more'),
    ]:
        try:
            attempt()
            print('changed', path)
        except OSError as error:
            if error.errno not in (1, 13, 16, 30): print(error)
";
    let inputs = ["open", "private:renamed", "c:olon", "folder"];
    let mut arguments: Vec<&str> = inputs.iter().flat_map(|input| ["--in", input]).collect();
    arguments.extend(["-c", code]);
    let ran = home.run(&arguments);
    let expected = "c:olon c:olon\nfolder ['deep'] leaf\nopen open\nrenamed private\n";
    assert_eq!((ran.status, ran.stdout.as_str()), (0, expected), "{}", ran.stderr);
    assert_eq!(std::fs::read(here.join("private")).unwrap(), b"private");
    // The copy that was made of the private file has gone.
    let copies = std::fs::read_dir(home.path().join("run/inputs")).into_iter().flatten();
    assert_eq!(copies.count(), 0);
}

#[test]
fn private_directory_as_input_is_refused_with_advice() {
    let home = TestHome::new(PYTHON);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = home.working_directory().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    let ran = home.run(&["--in", "folder", "-c", ""]);
    assert_refused(&ran, &["folder", "chmod o+rx"]);
}
