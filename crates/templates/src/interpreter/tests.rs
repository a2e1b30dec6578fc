//! What is copied and how paths are taken out.

use std::path::Path;

use super::{replace, replace_search_path, wanted};

#[test]
fn leaves_out_what_no_guest_needs() {
    for name in ["json", "json/decoder.py", "lib-dynload/math.so", "ensurepip", "configparser.py"] {
        assert!(wanted(Path::new(name)), "{name}");
    }
    for name in ["test", "ctypes/test", "site-packages", "config-3.11-x86_64-linux-gnu", "x.a"] {
        assert!(!wanted(Path::new(name)), "{name}");
    }
}

#[test]
fn the_search_path_keeps_its_length() {
    let old = b"/home/me/python/3.11/lib";
    let file = [b"\x7fELF\0x\0", &old[..], b"\0y"].concat();
    let changed = replace_search_path(&file, old).expect("changed");
    assert_eq!(changed.len(), file.len());
    assert_eq!(&changed[..21], b"\x7fELF\0x\0$ORIGIN/../lib");
    assert!(changed[21..32].iter().all(|byte| *byte == 0));
    assert_eq!(changed.last(), Some(&b'y'));

    // Too short, absent, part of a longer string, or not a program: left alone.
    assert_eq!(replace_search_path(b"\x7fELF\0/py/lib\0", b"/py/lib"), None);
    assert_eq!(replace_search_path(b"\x7fELF\0x\0", old), None);
    assert_eq!(replace_search_path(&[b"\x7fELF\0x:", &old[..], b"\0"].concat(), old), None);
    assert_eq!(replace_search_path(&[b"\0", &old[..], b"\0"].concat(), old), None);
}

#[test]
fn replaces_every_occurrence() {
    assert_eq!(replace(b"a/x b/x", b"/x", b"/long"), Some(b"a/long b/long".to_vec()));
    assert_eq!(replace(b"a", b"/x", b"/y"), None);
}
