//! Archives made by an attacker.

use tar::{EntryType, Header};

use super::*;

/// Puts an archive together without any of the checks a proper builder makes.
#[derive(Default)]
struct Forged(Vec<u8>);

impl Forged {
    fn entry(mut self, name: &[u8], kind: EntryType, content: &[u8]) -> Self {
        self.0.extend(header(name, kind, content.len() as u64).as_bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.entry(name.as_bytes(), EntryType::Regular, content.as_bytes())
    }

    /// Only a header that says so much follows.
    fn claims(mut self, name: &[u8], kind: EntryType, size: u64) -> Self {
        self.0.extend(header(name, kind, size).as_bytes());
        self
    }

    fn pax(self, key: &str, value: &str) -> Self {
        let record = format!(" {key}={value}\n");
        // The length counts its own digits.
        let mut length = (1..=3).map(|digits| record.len() + digits);
        let length = length.find(|length| length.to_string().len() + record.len() == *length);
        let record = format!("{}{record}", length.unwrap());
        self.entry(b"pax", EntryType::XHeader, record.as_bytes())
    }

    fn into(self, ground: &Ground, path: &str) -> Result<Extracted, FileError> {
        ground.files.extract(&guest(path), &mut self.0.as_slice(), COPY_BYTES_MAX)
    }
}

fn header(name: &[u8], kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o4750);
    header.set_cksum();
    header
}

fn reason(result: Result<Extracted, FileError>) -> &'static str {
    match result {
        Err(FileError::Entry { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_that_lead_out_are_refused() {
    let ground = Ground::new();
    for name in ["../x", "/etc/x", "/workspace/x", "a/../../x", "a//b", "..", "a/..", "./../x"] {
        let forged = Forged::default().file("before", "kept").file(name, "x").file("after", "x");
        assert_eq!(reason(forged.into(&ground, "d")), "its name leads out or is no path", "{name}");
        assert_eq!(ground.names("/workspace"), ["/workspace/d/", "/workspace/d/before"]);
        let long = Forged::default().entry(b"x", EntryType::GNULongName, name.as_bytes());
        let forged = long.file("harmless", "x");
        assert_eq!(reason(forged.into(&ground, "d")), "its name leads out or is no path", "{name}");
        let forged = Forged::default().pax("path", name).file("harmless", "x");
        assert_eq!(reason(forged.into(&ground, "d")), "its name leads out or is no path", "{name}");
    }
    let forged = Forged::default().entry(b"../x/", EntryType::Directory, b"");
    assert_eq!(reason(forged.into(&ground, "d")), "its name leads out or is no path");
    let forged = Forged::default().entry(b"", EntryType::Regular, b"");
    assert_eq!(reason(forged.into(&ground, "d")), "its name leads out or is no path");
    let forged = Forged::default().entry(b"./", EntryType::Symlink, b"");
    assert_eq!(forged.into(&ground, "d").unwrap().left_out, 1);
    let forged = Forged::default().entry(b".", EntryType::Regular, b"x");
    assert_eq!(reason(forged.into(&ground, "d")), "it has no name");
    assert_eq!(ground.names("/tmp"), [""; 0]);
}

#[test]
fn links_and_devices_are_left_out_and_nothing_is_written_through_them() {
    let ground = Ground::new();
    let outside = tempfile::tempdir().unwrap();
    let mut forged = Forged::default();
    for (name, kind) in [
        ("link", EntryType::Symlink),
        ("hard", EntryType::Link),
        ("char", EntryType::Char),
        ("block", EntryType::Block),
        ("fifo", EntryType::Fifo),
        ("odd", EntryType::new(b'Q')),
    ] {
        let mut header = header(name.as_bytes(), kind, 0);
        header.set_link_name_literal(outside.path().to_str().unwrap()).unwrap();
        header.set_cksum();
        forged.0.extend(header.as_bytes());
    }
    let extracted = forged.file("link/x", "inside").into(&ground, "d").unwrap();
    let names = ["link", "hard", "char", "block", "fifo", "odd"].map(str::to_owned).to_vec();
    let expected = Extracted { files: 1, bytes: 6, left_out: 6, left_out_names: names };
    assert_eq!(extracted, expected);
    assert_eq!(
        ground.names("/workspace"),
        ["/workspace/d/", "/workspace/d/link/", "/workspace/d/link/x"]
    );
    // A link that the guest made before.
    std::os::unix::fs::symlink(outside.path(), ground.at("d/mine")).unwrap();
    let through = Forged::default().file("mine/x", "x").into(&ground, "d");
    assert_eq!(word(through), "Linked");
    let through = Forged::default().file("x", "x").into(&ground, "d/mine");
    assert_eq!(word(through), "Linked");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn sizes_are_believed_only_within_bounds() {
    let ground = Ground::new();
    let over = COPY_BYTES_MAX + 1;
    for kind in [EntryType::Regular, EntryType::Symlink, EntryType::XGlobalHeader] {
        for size in [over, 1 << 40, u64::MAX >> 1] {
            let forged = Forged::default().claims(b"x", kind, size);
            let word = word(forged.into(&ground, "d"));
            assert!(matches!(word.as_str(), "TooLarge" | "Archive"), "{kind:?} {size}: {word}");
        }
    }
    let half = "x".repeat(COPY_BYTES_MAX as usize / 2 + 1);
    let twice = Forged::default().file("x", &half).file("x", &half);
    assert_eq!(word(twice.into(&ground, "d")), "TooLarge");
    for kind in [EntryType::GNULongName, EntryType::XHeader] {
        let forged = Forged::default().claims(b"x", kind, COPY_BYTES_MAX - 1);
        assert_eq!(reason(forged.into(&ground, "d")), "it is too long");
    }
    for (kind, length) in [(EntryType::Regular, 600), (EntryType::GNULongName, 60)] {
        let mut forged = Forged::default().claims(b"half", kind, length);
        forged.0.extend([b'x'; 50]);
        assert_eq!(reason(forged.into(&ground, "d")), "the archive ends in the middle of it");
    }
    assert_eq!(ground.names("/workspace"), ["/workspace/d/", "/workspace/d/x"]);
}

#[test]
fn too_many_entries_are_refused() {
    let ground = Ground::new();
    let mut forged = Forged::default();
    let one = header(b"d", EntryType::Symlink, 0);
    for _ in 0..=ENTRIES_MAX {
        forged.0.extend(one.as_bytes());
    }
    assert_eq!(word(forged.into(&ground, "d")), "TooMuch");
}

#[test]
fn sparse_files_and_contradictions_are_refused() {
    let ground = Ground::new();
    let sparse = Forged::default().entry(b"x", EntryType::GNUSparse, b"");
    assert_eq!(reason(sparse.into(&ground, "d")), "it is a sparse file");
    let sparse = Forged::default().pax("GNU.sparse.realsize", "1000000").file("x", "x");
    assert_eq!(reason(sparse.into(&ground, "d")), "it describes a sparse file");
    let sized = Forged::default().pax("size", "5").file("x", "x");
    assert_eq!(reason(sized.into(&ground, "d")), "its size is given twice");
    let named = Forged::default().pax("path", "a").entry(b"l", EntryType::GNULongName, b"b");
    assert_eq!(reason(named.file("c", "").into(&ground, "d")), "two names are given for one entry");
    let records = Forged::default().entry(b"pax", EntryType::XHeader, b"999 path=x\n");
    assert_eq!(word(records.file("x", "").into(&ground, "d")), "Archive");
    let mut wrong = Forged::default().file("x", "x");
    wrong.0[0] ^= 1;
    assert_eq!(word(wrong.into(&ground, "d")), "Archive");
    for noise in [vec![0xff; 512], vec![1; 700], vec![b'x'; 100]] {
        assert_eq!(word(Forged(noise).into(&ground, "d")), "Archive");
    }
    assert_eq!(ground.names("/workspace"), ["/workspace/d/"]);
}

#[test]
fn honest_archives_are_unpacked() {
    use std::os::unix::fs::PermissionsExt;
    let ground = Ground::new();
    let long = format!("{}/{}", "l".repeat(120), "n".repeat(200));
    let zeroed = format!("{long}\0");
    let forged = Forged::default()
        .entry(b"./", EntryType::Directory, b"")
        .entry(b"./a/", EntryType::Directory, b"")
        .file("./a/x", "1")
        .entry(b"pax_global", EntryType::XGlobalHeader, b"19 comment=whatever\n")
        .file("a/./x", "later")
        .entry(b"old/", EntryType::Regular, b"")
        .pax("path", "pax/ü")
        .file("p", "pax")
        .pax("mtime", "1.5")
        .entry(b"././@LongLink", EntryType::GNULongName, zeroed.as_bytes())
        .file(&long[..99], "long");
    let extracted = forged.into(&ground, "d").unwrap();
    assert_eq!((extracted.files, extracted.bytes, extracted.left_out), (4, 13, 0));
    assert_eq!(ground.get("d/a/x").unwrap(), b"later");
    assert_eq!(ground.get("d/pax/ü").unwrap(), b"pax");
    assert_eq!(ground.get(&format!("d/{long}")).unwrap(), b"long");
    assert_eq!(fs::metadata(ground.at("d/a/x")).unwrap().permissions().mode() & 0o7777, 0o750);
    assert_eq!(ground.files.stat(&guest("d/old")).unwrap().kind, FileKind::Directory);
    assert_eq!(Forged::default().into(&ground, "e").unwrap(), Extracted::default());
    assert_eq!(ground.files.stat(&guest("e")).unwrap().kind, FileKind::Directory);
    let clash = Forged::default().file("f", "x").file("f/g", "x");
    assert_eq!(word(clash.into(&ground, "e")), "NotDirectory");
    let clash = Forged::default().entry(b"h", EntryType::Directory, b"").file("h", "x");
    assert_eq!(word(clash.into(&ground, "e")), "IsDirectory");
}
