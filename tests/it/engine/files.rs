//! The host's work on the files of a real sandbox, whose user the host is not.

use silica_domain::Limits;
use silica_engine::{
    ChangedFile, Changes, Existing, FileError, Files, GuestPath, KernelOrigin, Overwrite, Parents,
    Removal, WriteOptions,
};

use crate::harness::{
    LiveSandbox, PYTHON, TIMEOUT, TestEngine, TestHome, cell, eventually_async, print,
};

const OPTIONS: WriteOptions = WriteOptions {
    mode: 0o644,
    parents: Parents::Create,
    existing: Existing::Replace,
    bytes_max: u64::MAX,
};

fn guest(path: &str) -> GuestPath {
    GuestPath::parse(path).unwrap()
}

fn put(files: &Files, path: &str, content: &[u8]) -> Result<u64, FileError> {
    let mut writer = files.write(&guest(path), &OPTIONS)?;
    writer.write(content)?;
    writer.finish()
}

fn get(files: &Files, path: &str) -> Result<String, FileError> {
    let (mut reader, mut content, mut buffer) = (files.read(&guest(path))?, Vec::new(), [0; 100]);
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(String::from_utf8(content).unwrap()),
            length => content.extend_from_slice(&buffer[..length]),
        }
    }
}

async fn sandbox(home: &TestHome) -> (TestEngine, LiveSandbox) {
    let engine = home.engine().await;
    let mut sandbox = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
    sandbox.ready().await.unwrap();
    (engine, sandbox)
}

async fn end(engine: TestEngine, sandbox: LiveSandbox) {
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

/// By this number the host knows that there is nothing to compare after a cell.
#[tokio::test]
async fn new_sandbox_holds_its_places_and_no_other_inode() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    assert_eq!(sandbox.files().space().1, silica_jail::enclosure::WRITABLE_INODES);
    print(&mut sandbox, "open('a', 'w').close(); print('made')").await;
    assert_eq!(sandbox.files().space().1, silica_jail::enclosure::WRITABLE_INODES + 1);
    end(engine, sandbox).await;
}

#[tokio::test]
async fn host_and_guest_work_on_the_same_files() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let snapshot = sandbox.files().snapshot().unwrap();
    for path in ["a/b/c", "a/b/c", "/home/user/h", "/tmp/t"] {
        put(sandbox.files(), path, b"from the host").unwrap();
    }
    // The guest owns what the host made, and can do with it what it likes.
    let code = "import os\n\
                for path in ('/workspace/a', '/workspace/a/b/c', '/home/user/h', '/tmp/t'):\n    \
                    assert os.stat(path).st_uid == os.getuid() == 1000, os.stat(path)\n\
                assert os.stat('a/b/c').st_gid == os.getgid(), os.stat('a/b/c')\n\
                assert os.listdir('a/b') == ['c'], os.listdir('a/b')\n\
                open('a/b/c', 'a').write(' and the guest'); os.rename('a', 'd'); print('done')";
    assert_eq!(print(&mut sandbox, code).await, "done");
    let files = sandbox.files();
    assert_eq!(get(files, "d/b/c").unwrap(), "from the host and the guest");
    let file = |path: &str, size| ChangedFile { path: path.to_owned(), size };
    let changes = files.snapshot().unwrap().since(&snapshot);
    let created = vec![file("/home/user/h", 13), file("/workspace/d/b/c", 27)];
    assert_eq!(changes, Changes { created, ..Changes::default() });
    let mut archive = Vec::new();
    files.archive(&guest("d"), &mut archive).unwrap();
    files.extract(&guest("e"), &mut archive.as_slice(), 1000).unwrap();
    files.rename(&guest("e/b/c"), &guest("/home/user/moved"), Overwrite::Refuse).unwrap();
    assert_eq!(files.remove(&guest("d"), Removal::Tree).unwrap(), 3);
    let code = "print(open('/home/user/moved').read(), os.listdir('.'), os.listdir('e/b'))";
    assert_eq!(print(&mut sandbox, code).await, "from the host and the guest ['e'] []");
    end(engine, sandbox).await;
}

#[tokio::test]
async fn the_disk_of_a_sandbox_bounds_the_host_too() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let mut writer = sandbox.files().write(&guest("large"), &OPTIONS).unwrap();
    let chunk = vec![1; 1 << 20];
    let written = (0..10_000).try_for_each(|_| writer.write(&chunk));
    assert!(matches!(written, Err(FileError::DiskFull(_))), "{written:?}");
    drop(writer);
    assert_eq!(print(&mut sandbox, "import os; print(os.listdir('.'))").await, "[]");
    put(sandbox.files(), "small", b"fits").unwrap();
    end(engine, sandbox).await;
}

#[tokio::test]
async fn a_guest_that_swaps_links_at_full_speed_leads_nobody_out() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let canary = tempfile::tempdir().unwrap();
    let (outside, secret) = (canary.path().to_owned(), "only on the host");
    std::fs::write(outside.join("f"), secret).unwrap();
    let code = format!(
        "import os, subprocess, sys\n\
         os.mkdir('d'); open('d/f', 'w').write('inside'); os.symlink({outside:?}, 'l')\n\
         swap = '''\n\
         import os\n\
         while True:\n    \
             os.rename('d', 'x'); os.rename('l', 'd'); os.rename('d', 'l'); os.rename('x', 'd')\n\
         '''\n\
         subprocess.Popen([sys.executable, '-c', swap])"
    );
    let report = cell(&mut sandbox, &code, &Limits::default()).await;
    assert_eq!(report.outcome, silica_domain::Outcome::Ok, "{:?}", report.error);
    let files = sandbox.files();
    let swapping =
        eventually_async(TIMEOUT, || matches!(get(files, "d/f"), Err(FileError::Linked(_)))).await;
    assert!(swapping, "the link is never seen");
    for _ in 0..2000 {
        if let Ok(content) = get(files, "d/f") {
            assert_eq!(content, "inside");
        }
        // Either side may win the race: the file is inside, or the call is refused.
        let _ = put(files, "d/new", b"new");
        let _ = files.remove(&guest("d/f"), Removal::Tree);
        let _ = put(files, "d/f", b"inside");
        let _ = files.make_directory(&guest("d/sub"), Parents::Require);
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(outside.join("f")).unwrap(), secret);
    end(engine, sandbox).await;
}
