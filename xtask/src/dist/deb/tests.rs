//! The form of the archive, and the version of glibc that a package asks for.

use super::{ar, newest_glibc};

#[test]
fn members_have_headers_of_sixty_bytes_and_begin_at_even_places() {
    let archive = ar(&[("debian-binary", b"2.0\n"), ("odd", b"abc"), ("last", b"")]);
    let text = String::from_utf8(archive).unwrap();
    assert!(
        text.starts_with("!<arch>\ndebian-binary   1767225600  0     0     100644  4         `\n")
    );
    let second = text.find("odd").unwrap();
    assert_eq!(second, 8 + 60 + 4);
    assert_eq!(&text[second + 60..second + 64], "abc\n");
    assert_eq!(text.len(), second + 64 + 60);
}

#[test]
fn newest_version_is_found_by_number() {
    let symbols = "(GLIBC_2.2.5) read\n(GLIBC_2.34) x\n(GLIBC_2.9) y\nGLIBC_PRIVATE z\n";
    assert_eq!(newest_glibc(symbols).as_deref(), Some("2.34"));
    assert_eq!(newest_glibc("none"), None);
}
