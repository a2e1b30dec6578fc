//! Directories as tar archives, read back by another reader.

use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;

use super::*;

/// Path, kind, mode and content of each entry.
fn entries(bytes: &[u8]) -> Vec<(String, tar::EntryType, u32, String)> {
    let mut archive = tar::Archive::new(bytes);
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        let header = entry.header();
        let (kind, mode) = (header.entry_type(), header.mode().unwrap());
        assert_eq!(header.username().unwrap(), Some("user"));
        found.push((entry.path().unwrap().to_str().unwrap().to_owned(), kind, mode, content));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn a_directory_becomes_an_archive_without_its_links() {
    let ground = Ground::new();
    let long = format!("d/{}/{}", "l".repeat(150), "n".repeat(255));
    fs::create_dir_all(ground.at(&long).parent().unwrap()).unwrap();
    for (path, content) in [
        ("d/a", "alpha"),
        ("d/empty", ""),
        ("d/new\nline", "n"),
        (long.as_str(), "long"),
        ("d/ü", "u"),
    ] {
        fs::write(ground.at(path), content).unwrap();
    }
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    fs::set_permissions(ground.at("d/a"), executable).unwrap();
    symlink("/etc/passwd", ground.at("d/link")).unwrap();
    make_fifo(&ground.at("d/fifo"));
    drop(std::os::unix::net::UnixListener::bind(ground.at("d/socket")).unwrap());
    let mut bytes = Vec::new();
    let archived = ground.files.archive(&guest("d"), &mut bytes).unwrap();
    assert_eq!(archived, Archived { entries: 6, bytes: 11, left_out: 3 });
    assert_eq!(bytes.len() % 512, 0);
    let (file, folder) = (tar::EntryType::Regular, tar::EntryType::Directory);
    let text = str::to_owned;
    assert_eq!(
        entries(&bytes),
        [
            (text("a"), file, 0o755, text("alpha")),
            (text("empty"), file, 0o644, text("")),
            (format!("{}/", "l".repeat(150)), folder, 0o755, text("")),
            (text(&long[2..]), file, 0o644, text("long")),
            (text("new\nline"), file, 0o644, text("n")),
            (text("ü"), file, 0o644, text("u")),
        ]
    );
}

#[test]
fn what_was_archived_can_be_unpacked_again() {
    let ground = Ground::new();
    fs::create_dir_all(ground.at("d/e/f")).unwrap();
    for (path, length) in [("d/0", 0), ("d/511", 511), ("d/e/512", 512), ("d/e/f/300000", 300_000)]
    {
        fs::write(ground.at(path), vec![b'x'; length]).unwrap();
    }
    let mut bytes = Vec::new();
    let archived = ground.files.archive(&guest("d"), &mut bytes).unwrap();
    let into = guest("/tmp/again");
    let extracted = ground.files.extract(&into, &mut bytes.as_slice(), 1 << 20).unwrap();
    assert_eq!((extracted.files, extracted.bytes, extracted.left_out), (4, archived.bytes, 0));
    let relative = |path: &str| {
        let names = ground.names(path).into_iter();
        names.map(|name| name[path.len()..].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(relative("/workspace/d"), relative("/tmp/again"));
    assert_eq!(ground.get("/tmp/again/e/f/300000").unwrap(), vec![b'x'; 300_000]);
}

#[test]
fn an_archive_takes_no_more_than_the_sandbox_may_hold() {
    let ground = Ground::new();
    fs::File::create(ground.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(word(ground.files.archive(&guest("/workspace"), &mut bytes)), "TooLarge");
    assert_eq!(bytes, b"");
    fs::write(ground.at("sparse"), vec![1; 300 << 10]).unwrap();
    for number in 0..8 {
        fs::hard_link(ground.at("sparse"), ground.at(&number.to_string())).unwrap();
    }
    assert_eq!(word(ground.files.archive(&guest("/workspace"), &mut bytes)), "TooLarge");
    assert!(bytes.len() as u64 <= COPY_BYTES_MAX + 9 * 512);
    assert_eq!(word(ground.files.archive(&guest("0"), &mut bytes)), "NotDirectory");
}

/// Shortens a file as soon as something is written, or takes nothing.
struct Meddler {
    file: Option<PathBuf>,
    taken: Vec<u8>,
}

impl Write for Meddler {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(file) = &self.file else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        fs::File::options().write(true).open(file)?.set_len(3)?;
        self.taken.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn half_an_archive_does_not_look_like_one() {
    let ground = Ground::new();
    fs::write(ground.at("a"), [1; 2000]).unwrap();
    let mut meddler = Meddler { file: Some(ground.at("a")), taken: Vec::new() };
    assert_eq!(word(ground.files.archive(&guest("/workspace"), &mut meddler)), "Shrunk");
    let mut archive = tar::Archive::new(meddler.taken.as_slice());
    let whole = archive.entries().unwrap().map(|entry| io::copy(&mut entry?, &mut io::sink()));
    assert!(meddler.taken.len() < 2000 && !meddler.taken.ends_with(&[0; 1024]));
    assert!(whole.last().unwrap().is_err());
    let mut closed = Meddler { file: None, taken: Vec::new() };
    assert_eq!(word(ground.files.archive(&guest("/workspace"), &mut closed)), "Output");
}
