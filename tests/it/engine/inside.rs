//! What a process in a sandbox reads for the host, and what a guest can do to that process.

use std::time::{Duration, Instant};

use silica_engine::{FileError, FileKind, InsidePath, InsideReader, KernelOrigin, Range};

use super::commands::{finish, sandbox};
use crate::harness::{LiveSandbox, PYTHON, TestHome, print};

/// Finds the reader, which waits until it is told what to read.
const FIND: &str = r"
import os, signal
def readers():
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            line = open(f'/proc/{pid}/cmdline').read()
        except OSError:
            continue
        if 'silica_guest/reader.py' in line:
            found.append(int(pid))
    return found
";

fn inside(path: &str) -> InsidePath {
    InsidePath::parse(path).unwrap()
}

async fn content(mut reader: InsideReader) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::new();
    loop {
        match reader.next().await? {
            piece if piece.is_empty() => return Ok(content),
            piece => content.extend(piece),
        }
    }
}

async fn read(sandbox: &LiveSandbox, path: &str) -> Result<String, FileError> {
    let bytes = content(sandbox.inside_read(&inside(path)).await?).await?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[tokio::test]
async fn what_the_guest_can_read_is_read() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let theirs = print(&mut sandbox, "import os; print(*sorted(os.listdir('/')))").await;
    let listing = sandbox.inside_list(&inside("/"), 1).await.unwrap();
    let names: Vec<&str> = listing.entries.iter().map(|entry| entry.listed.name()).collect();
    assert_eq!(names.join(" "), theirs);
    assert!(!listing.truncated);
    let passwd = print(&mut sandbox, "print(open('/etc/passwd').read())").await;
    assert_eq!(read(&sandbox, "/etc/passwd").await.unwrap().trim_end(), passwd.trim_end());
    // Its size says 0.
    assert!(read(&sandbox, "/proc/self/status").await.unwrap().contains("NoNewPrivs:\t1"));
    let mut part = sandbox.inside_read(&inside("/etc/passwd")).await.unwrap();
    part.select(Range { start: 2, end: Some(6) }).unwrap();
    assert_eq!(content(part).await.unwrap(), &passwd.as_bytes()[2..6]);
    let mut none = sandbox.inside_read(&inside("/etc/passwd")).await.unwrap();
    let beyond = none.select(Range { start: 1 << 40, end: None });
    assert!(matches!(beyond, Err(FileError::Range { .. })), "{beyond:?}");
    drop(none);
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn what_the_guest_cannot_read_is_refused() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let code = "import os; os.mkfifo('/tmp/fifo'); open('/tmp/shut', 'w').close(); os.chmod('/tmp/shut', 0)
os.symlink('/tmp/loop', '/tmp/loop'); print('made')";
    print(&mut sandbox, code).await;
    let refused = async |path: &str| read(&sandbox, path).await.unwrap_err();
    assert!(matches!(refused("/nowhere").await, FileError::Missing(_)));
    assert!(matches!(refused("/etc").await, FileError::IsDirectory(_)));
    assert!(matches!(refused("/etc/passwd/x").await, FileError::NotDirectory(_)));
    assert!(matches!(refused("/tmp/fifo").await, FileError::Special(_)));
    assert!(matches!(refused("/dev/zero").await, FileError::Special(_)));
    assert!(matches!(refused("/tmp/shut").await, FileError::Denied(_)));
    assert!(matches!(refused("/tmp/loop").await, FileError::Linked(_)));
    assert!(matches!(refused("/proc/self/mem").await, FileError::Unanswered { .. }));
    let missing = sandbox.inside_stat(&inside("/nowhere")).await;
    assert!(matches!(missing, Err(FileError::Missing(_))), "{missing:?}");
    let file = sandbox.inside_list(&inside("/etc/passwd"), 1).await;
    assert!(matches!(file, Err(FileError::NotDirectory(_))), "{file:?}");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn links_lead_where_they_lead_the_guest() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let code = "import os; os.symlink('/etc/passwd', '/workspace/out'); os.symlink('gone', '/workspace/broken'); print('made')";
    print(&mut sandbox, code).await;
    let entry = sandbox.inside_stat(&inside("/workspace/out")).await.unwrap();
    assert_eq!(entry.listed.stat.kind, FileKind::Symlink);
    assert_eq!(entry.listed.stat.target.as_deref(), Some("/etc/passwd"));
    let end = entry.link_end.unwrap();
    assert_eq!((end.path.as_str(), end.found.unwrap().0), ("/etc/passwd", FileKind::File));
    let broken = sandbox.inside_stat(&inside("/workspace/broken")).await.unwrap();
    assert_eq!(broken.link_end.unwrap().found, None);
    // The host itself reads what the guest reads, and nothing else has this content.
    let theirs = print(&mut sandbox, "print(open('/workspace/out').read())").await;
    assert_eq!(read(&sandbox, "/workspace/out").await.unwrap().trim_end(), theirs.trim_end());
    finish(engine, sandbox).await;
}

/// The program and its modules are read-only, and no variable or file of the guest changes how it starts.
#[tokio::test]
async fn a_guest_changes_nothing_about_the_reader() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let code = r"
import os
os.environ.update(PATH='/workspace', PYTHONPATH='/workspace', LD_PRELOAD='/workspace/x.so', PYTHONHOME='/workspace', PYTHONSTARTUP='/workspace/os.py')
for folder in ('/workspace', '/home/user', '/tmp', '/home/user/.local/lib/python%d.%d/site-packages' % __import__('sys').version_info[:2]):
    os.makedirs(folder, exist_ok=True)
    for name in ('os.py', 'stat.py', 'sitecustomize.py', 'usercustomize.py', 'python', 'python3', 'pyvenv.cfg', 'x.pth'):
        with open(f'{folder}/{name}', 'w') as file:
            file.write('import sys; open(\'/workspace/ran\', \'w\').write(str(sys.argv))\n')
        os.chmod(f'{folder}/{name}', 0o755)
print('laid')
";
    print(&mut sandbox, code).await;
    assert!(read(&sandbox, "/etc/passwd").await.is_ok());
    assert_eq!(print(&mut sandbox, "print(os.path.exists('/workspace/ran'))").await, "False");
    let writable = "print([path for path in ('/opt/silica/guest/silica_guest', __import__('sys').executable, os.__file__) if os.access(path, os.W_OK)])";
    assert_eq!(print(&mut sandbox, writable).await, "[]");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn a_stopped_reader_is_given_up_and_killed() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let mut reader = sandbox.inside_read(&inside("/etc/passwd")).await.unwrap();
    let stop = format!(
        "{FIND}\nfor pid in readers(): os.kill(pid, signal.SIGSTOP)\nprint(len(readers()))"
    );
    assert_eq!(print(&mut sandbox, &stop).await, "1");
    let began = Instant::now();
    let error = reader.next().await.unwrap_err();
    assert!(matches!(error, FileError::Unanswered { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(reader);
    let gone =
        async |sandbox: &mut LiveSandbox| print(sandbox, "print(len(readers()))").await == "0";
    let mut left = true;
    for _ in 0..50 {
        if gone(&mut sandbox).await {
            left = false;
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!left, "a reader is left");
    finish(engine, sandbox).await;
}

/// What a guest writes in the place of the reader is what the guest's owner gets: as much as was announced.
#[tokio::test]
async fn a_flooded_answer_is_cut_and_a_killed_reader_is_told() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let reader = sandbox.inside_read(&inside("/etc/passwd")).await.unwrap();
    let size = reader.stat().size;
    let flood = format!(
        "{FIND}
import threading
def flood(pid):
    try:
        pipe = os.open(f'/proc/{{pid}}/fd/1', os.O_WRONLY)
        while True: os.write(pipe, b'x' * 65536)
    except OSError: pass
for pid in readers(): threading.Thread(target=flood, args=(pid,), daemon=True).start()
print(len(readers()))"
    );
    assert_eq!(print(&mut sandbox, &flood).await, "1");
    let flooded = content(reader).await.unwrap();
    assert_eq!(flooded.len() as u64, size);
    let reader = sandbox.inside_read(&inside("/etc/passwd")).await.unwrap();
    let kill = "for pid in readers(): os.kill(pid, signal.SIGKILL)\nprint('killed')";
    assert_eq!(print(&mut sandbox, kill).await, "killed");
    let error = content(reader).await.unwrap_err();
    assert!(matches!(error, FileError::Shrunk(_) | FileError::Unanswered { .. }), "{error}");
    // The flood ended with its reader; the next reader works.
    assert!(read(&sandbox, "/etc/passwd").await.is_ok());
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn a_large_directory_is_cut_at_its_bound() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut sandbox = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
    sandbox.ready().await.unwrap();
    let code = "import os; os.mkdir('/tmp/many')\nfor i in range(20500): open(f'/tmp/many/{i}', 'w').close()\nprint('made')";
    print(&mut sandbox, code).await;
    let listing = sandbox.inside_list(&inside("/tmp/many"), 1).await.unwrap();
    assert!(listing.truncated);
    assert_eq!(listing.entries.len(), 20_000);
    finish(engine, sandbox).await;
}
