//! A guest that swaps a directory and a link to the outside as fast as it can, against every
//! operation: what is outside is neither read nor written nor removed, whichever side is faster.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};

use super::*;

/// How often everything is tried while the guest swaps.
const ROUNDS: usize = 300;

const OUTSIDE: &[u8] = b"what is outside";

/// A directory outside, with what could be read, replaced and removed in it.
fn canary() -> tempfile::TempDir {
    let canary = tempfile::tempdir().unwrap();
    for name in ["f", "old", "gone"] {
        fs::write(canary.path().join(name), OUTSIDE).unwrap();
    }
    fs::create_dir(canary.path().join("sub")).unwrap();
    fs::write(canary.path().join("sub/canary"), OUTSIDE).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(canary.path(), open).unwrap();
    canary
}

fn look(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(look(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// The guest: makes the directory and the link again if they are gone, and swaps them.
fn swap(workspace: &Path, outside: &Path, stop: &AtomicBool) {
    let (directory, link) = (workspace.join("d"), workspace.join("l"));
    while !stop.load(Ordering::Relaxed) {
        let exchanged =
            rustix::fs::renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE);
        if exchanged.is_err() {
            // Each may be there already, or the other one.
            let _ = fs::create_dir(&directory);
            let _ = fs::write(directory.join("f"), "inside");
            let _ = symlink(outside, &link);
        }
    }
}

/// Everything the host can do, once; what fails is refused, and what succeeds was inside.
fn try_everything(ground: &Ground, out: &Path) {
    let files = &ground.files;
    let (here, out) = (guest("d"), out.join("copy"));
    if let Ok(content) = ground.get("d/f") {
        assert_ne!(content, OUTSIDE);
    }
    let _ = ground.put("d/new", b"new");
    let _ =
        ground.put_with("d/old", b"old", &WriteOptions { existing: Existing::Append, ..OPTIONS });
    let _ = ground.put_with("d/p/q", b"pq", &WriteOptions { parents: Parents::Create, ..OPTIONS });
    for path in [here.clone(), guest("/workspace")] {
        if let Ok(listing) = files.list(&path, 3) {
            assert!(listing.entries.iter().all(|listed| listed.name() != "canary"));
        }
        let mut bytes = Vec::new();
        let _ = files.archive(&path, &mut bytes);
        assert!(!bytes.windows(OUTSIDE.len()).any(|window| window == OUTSIDE));
        let _ = files.copy_out(&path, &out);
    }
    let _ = files.stat(&guest("d/f"));
    let _ = files.make_directory(&guest("d/m/n"), Parents::Create);
    let _ = files.rename(&guest("d/new"), &guest("d/newer"), Overwrite::Replace);
    let _ = files.rename(&guest("d/old"), &guest("/tmp/old"), Overwrite::Replace);
    let _ = files.remove(&guest("d/gone"), Removal::Single);
    let _ = files.remove(&guest("d/sub"), Removal::Tree);
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    archive.append_data(&mut header, "f", &b"tar"[..]).unwrap();
    let _ = files.extract(&here, &mut archive.into_inner().unwrap().as_slice(), 1000);
    let _ = files.remove(&here, Removal::Tree);
}

fn race(ground: &Ground) {
    let (canary, out) = (canary(), tempfile::tempdir().unwrap());
    let before = look(canary.path());
    let workspace = ground.at("/workspace");
    fs::create_dir(workspace.join("d")).unwrap();
    symlink(canary.path(), workspace.join("l")).unwrap();
    let stop = AtomicBool::new(false);
    let mut snapshot = ground.files.snapshot().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&workspace, canary.path(), &stop));
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..ROUNDS {
                try_everything(ground, out.path());
                let changes = ground.changes(&mut snapshot);
                let told = changes.created.iter().chain(&changes.changed);
                assert!(told.clone().all(|file| !file.path.ends_with("/canary")));
            }
        }));
        // Before a panic is passed on, or the other thread would go on for ever.
        stop.store(true, Ordering::Relaxed);
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_eq!(look(canary.path()), before);
    assert!(look(out.path()).iter().all(|(_, content)| content != OUTSIDE));
}

#[test]
fn swapping_leads_nobody_out() {
    race(&Ground::new());
}

/// The same while the host takes another user's rights and gives them back, thousands of times.
#[test]
fn swapping_leads_nobody_out_as_another_user() {
    if !is_root() {
        return;
    }
    let mut ground = Ground::new();
    ground.give_to(STRANGER);
    race(&ground);
    assert!(is_root());
}
