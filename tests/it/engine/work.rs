//! Ordinary work goes on as anywhere: libraries, processes, threads, tools.

use serde_json::{Value, json};
use silica_domain::Limits;
use silica_engine::{KernelOrigin, ZygotePolicy};
use silica_jail::client::UseOfHost;

use crate::harness::{SCIENCE, TestHome, cell, print, text};

/// Each prints `ok` when it worked.
const TASKS: [(&str, &str); 26] = [
    (
        "pandas",
        "import pandas as pd; d = pd.DataFrame({'a': [1, 2, 3]}).describe(); print('ok' if d.loc['mean', 'a'] == 2 else d)",
    ),
    (
        "csv",
        "import pandas as pd, io; print('ok' if pd.read_csv(io.StringIO('a,b\\n1,2')).b[0] == 2 else '')",
    ),
    (
        "numpy",
        "import numpy as np; a = np.random.rand(50, 50); print('ok' if np.allclose(a @ np.linalg.inv(a), np.eye(50), atol=1e-6) else '')",
    ),
    (
        "sqlite3",
        "import sqlite3\nc = sqlite3.connect('/tmp/d.db'); c.execute('create table t(x)'); c.execute('insert into t values (1)'); c.commit()\nprint('ok' if c.execute('select sum(x) from t').fetchone() == (1,) else '')",
    ),
    (
        "multiprocessing",
        "import multiprocessing as mp\ndef square(n): return n * n\nwith mp.get_context('fork').Pool(2) as p: print('ok' if p.map(square, range(4)) == [0, 1, 4, 9] else '')",
    ),
    (
        "shared memory",
        "from multiprocessing import shared_memory as s\nm = s.SharedMemory(create=True, size=10); m.buf[0] = 7; n = s.SharedMemory(m.name); print('ok' if n.buf[0] == 7 else ''); n.close(); m.close(); m.unlink()",
    ),
    (
        "executor",
        "from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(2) as e: print('ok' if e.submit(pow, 2, 5).result() == 32 else '')",
    ),
    (
        "threads",
        "import threading\nr = []\nt = [threading.Thread(target=r.append, args=(i,)) for i in range(20)]\n[x.start() for x in t]; [x.join() for x in t]\nprint('ok' if sorted(r) == list(range(20)) else r)",
    ),
    (
        "await",
        "import asyncio\nawait asyncio.sleep(0.01)\nprint(await asyncio.to_thread(lambda: 'ok'))",
    ),
    (
        "asyncio process",
        "import asyncio\np = await asyncio.create_subprocess_exec('echo', 'ok', stdout=-1)\nprint((await p.communicate())[0].decode().strip())",
    ),
    (
        "pipes",
        "import subprocess\np = subprocess.run('sort | tail -1', shell=True, input='a\\nok\\nb', capture_output=True, text=True)\nprint(p.stdout.strip())",
    ),
    (
        "tempfile",
        "import tempfile, os\nwith tempfile.TemporaryDirectory() as d:\n  with tempfile.NamedTemporaryFile(dir=d) as f: f.write(b'x'); print('ok' if os.path.exists(f.name) else '')",
    ),
    // A domain of Landlock that does not allow it turns this into EXDEV.
    (
        "moving",
        "import os\nfor p in ('/workspace', '/home/user', '/tmp', '/dev/shm'):\n  os.chdir(p); os.makedirs('from/d'); os.mkdir('to'); open('from/d/f', 'w').close()\n  os.rename('from/d', 'to/d'); os.link('to/d/f', 'from/f'); os.replace('from/f', 'to/g')\nprint('ok' if os.stat('to/g').st_nlink == 2 else '')",
    ),
    (
        "zipfile",
        "import zipfile, io\nb = io.BytesIO()\nwith zipfile.ZipFile(b, 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', 'ok')\nprint(zipfile.ZipFile(b).read('a').decode())",
    ),
    (
        "ctypes",
        "import ctypes, os; print('ok' if ctypes.CDLL(None).getpid() == os.getpid() else '')",
    ),
    (
        "callback",
        "import ctypes\nf = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1); print('ok' if f(1) == 2 else '')",
    ),
    ("shell", "!echo ok"),
    ("bash cell", "%%bash\nx=ok; echo $x"),
    (
        "loopback",
        "import socket, threading\ns = socket.create_server(('127.0.0.1', 0))\ndef serve():\n  c, _ = s.accept(); c.sendall(b'ok'); c.close()\nthreading.Thread(target=serve).start()\nprint(socket.create_connection(s.getsockname()).recv(9).decode()); s.close()",
    ),
    (
        "names of services",
        "import socket\nprint('ok' if (socket.getservbyname('https'), socket.getservbyport(53, 'udp'), socket.getprotobyname('tcp')) == (443, 'domain', 6) else '')",
    ),
    (
        "http",
        "import http.server, threading, urllib.request, os\nos.chdir('/tmp'); open('i', 'w').write('ok')\nh = type('H', (http.server.SimpleHTTPRequestHandler,), {'log_message': lambda *a: None})\ns = http.server.HTTPServer(('127.0.0.1', 0), h); threading.Thread(target=s.handle_request).start()\nprint(urllib.request.urlopen(f'http://127.0.0.1:{s.server_port}/i').read().decode()); s.server_close()",
    ),
    (
        "locks",
        "import fcntl\nwith open('/tmp/lock', 'w') as f: fcntl.lockf(f, fcntl.LOCK_EX); fcntl.flock(f, fcntl.LOCK_SH); print('ok')",
    ),
    (
        "pty",
        "import pty, os\np, f = pty.fork()\nif p == 0: os.execvp('echo', ['echo', 'ok'])\nprint(os.read(f, 9).decode().strip()); os.waitpid(p, 0); None",
    ),
    (
        "git",
        "import os, subprocess\nr = lambda c: subprocess.run(c, shell=True, check=True, capture_output=True, text=True, cwd='/tmp').stdout\nif os.path.exists('/usr/bin/git'): r('git init -q g && cd g && echo 1 > a && git add a && git -c user.name=a -c user.email=a@b commit -qm ok')\nprint(r('cd g && git log --format=%s').strip() if os.path.exists('/usr/bin/git') else 'ok')",
    ),
    (
        "gcc",
        "import os, subprocess\nif os.path.exists('/usr/bin/gcc'):\n  open('/tmp/a.c', 'w').write('#include <stdio.h>\\nint main() { puts(\"ok\"); }')\n  subprocess.run(['gcc', '-o', '/tmp/a', '/tmp/a.c'], check=True); print(subprocess.run('/tmp/a', capture_output=True, text=True).stdout.strip())\nelse: print('ok')",
    ),
    (
        "signals",
        "import signal\nhit = []\nsignal.signal(signal.SIGALRM, lambda *_: hit.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause(); print('ok' if hit else '')",
    ),
];

async fn check(origin: KernelOrigin) {
    let home = TestHome::new(SCIENCE);
    let engine = home.engine().await;
    let mut sandbox = engine.create(&home.options(origin)).await.unwrap();
    sandbox.ready().await.unwrap();
    let limits = Limits::default();
    let mut wrong = Vec::new();
    for (name, code) in TASKS {
        let report = cell(&mut sandbox, code, &limits).await;
        if text(&report.stdout) != "ok\n" {
            let (stdout, stderr) = (text(&report.stdout), text(&report.stderr));
            wrong.push(format!("{name}: {:?} {stdout}{stderr}{:?}", report.outcome, report.error));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

/// Without groups a limit on memory counts what is mapped, and libraries map more than they use.
#[tokio::test]
async fn tables_of_text_fit_without_groups() {
    let home = TestHome::new(SCIENCE);
    let use_of_host = UseOfHost { cgroups: false, unique_ids: true };
    let engine = home.engine_with(ZygotePolicy::default(), use_of_host).await;
    for origin in [KernelOrigin::Warm, KernelOrigin::Fresh] {
        let mut sandbox = engine.create(&home.options(origin)).await.unwrap();
        let code = "import pandas as pd, matplotlib.pyplot as plt\n\
                    d = pd.DataFrame({'a': ['x', 'y'] * 1000}); plt.plot([1, 2]); plt.savefig('p.png')\n\
                    more = bytearray(64 << 20); print(d.a.str.upper().nunique())";
        assert_eq!(print(&mut sandbox, code).await, "2");
        sandbox.destroy().await.unwrap();
    }
    engine.close().await;
}

#[tokio::test]
async fn tasks_in_a_fork() {
    check(KernelOrigin::Warm).await;
}

#[tokio::test]
async fn tasks_in_a_fresh_interpreter() {
    check(KernelOrigin::Fresh).await;
}

/// The chart data of `PLOT`, whose ticks are fixed so that they do not change with matplotlib.
const PLOT: &str = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, float('nan')], label='é')\n\
    plt.xlabel('Time (s)'); plt.xticks([1, 2]); plt.yticks([3]);";
const CHART: &str = r#"{"type":"line","title":null,"elements":[{"label":"\u00e9","points":[[1,3.0],[2,null]]}],"x_label":"Time (s)","x_unit":"s","y_label":null,"y_unit":null,"x_ticks":[1,2],"x_tick_labels":["1","2"],"x_scale":"linear","y_ticks":[3],"y_tick_labels":["3"],"y_scale":"linear"}"#;

/// A cell, a MIME type of its only result, and how that begins.
const SHOWN: [(&str, &str, &[u8]); 16] = [
    (PLOT, "image/png", b"\x89PNG"),
    (PLOT, "application/vnd.silica.chart+json", CHART.as_bytes()),
    (
        "import matplotlib.pyplot as plt; plt.bar(['a', 'b'], [3, 4]); plt.show()",
        "application/vnd.silica.chart+json",
        br#"{"type":"bar","title":null,"elements":[{"label":"a","group":"Group 0","value":3.0},"#,
    ),
    ("import pandas as pd; pd.DataFrame({'a': [1]})", "text/plain", b"   a\n0  1"),
    ("import pandas as pd; pd.DataFrame({'a': [1]})", "text/html", b"<div>"),
    (
        "import pandas as pd; pd.DataFrame({'a': [1, None]}, index=['x', 'y'])",
        "application/vnd.silica.data+json",
        br#"{"index":["x","y"],"a":[1.0,null]}"#,
    ),
    (
        "import plotly.graph_objects as go; go.Figure(go.Scatter(y=[1, 2]))",
        "application/vnd.plotly.v1+json",
        br#"{"data":[{"#,
    ),
    ("import plotly.graph_objects as go; go.Figure(go.Scatter(y=[1, 2]))", "text/html", b"<div"),
    ("import sympy; sympy.Symbol('x') / 2", "text/latex", br"$\displaystyle \frac{x}{2}$"),
    ("from PIL import Image; Image.new('L', (2, 2))", "image/png", b"\x89PNG"),
    ("from IPython.display import Markdown; Markdown('# x')", "text/markdown", b"# x"),
    (
        "from IPython.display import JSON; JSON({'a': [None]})",
        "application/json",
        br#"{"a":[null]}"#,
    ),
    ("from IPython.display import Javascript; Javascript('f()')", "application/javascript", b"f()"),
    ("from IPython.display import SVG; SVG('<svg/>')", "image/svg+xml", b"<svg/>"),
    ("display({'image/jpeg': b'\\xff\\xd8'}, raw=True)", "image/jpeg", b"\xff\xd8"),
    ("display({'application/pdf': 'JVBERi0x'}, raw=True)", "application/pdf", b"%PDF-1"),
];

#[tokio::test]
async fn pictures_and_tables_are_results() {
    let home = TestHome::new(SCIENCE);
    let engine = home.engine().await;
    let limits = Limits::default();
    for origin in [KernelOrigin::Warm, KernelOrigin::Fresh] {
        let mut sandbox = engine.create(&home.options(origin)).await.unwrap();
        for (code, mime, begins) in SHOWN {
            let report = cell(&mut sandbox, code, &limits).await;
            assert_eq!(report.results.len(), 1, "{code}: {:?} {:?}", report.outcome, report.error);
            let data = report.results[0].get(mime).unwrap_or_default();
            let shown = String::from_utf8_lossy(data);
            assert!(data.starts_with(begins), "{code}: {mime} is {shown}");
        }
        sandbox.destroy().await.unwrap();
    }
    engine.close().await;
}

/// Hostile objects cost at most their own representation.
#[tokio::test]
async fn hostile_results_harm_nothing() {
    let home = TestHome::new(SCIENCE);
    let engine = home.engine().await;
    let limits = Limits::default();
    let mut sandbox = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
    let cells = [
        "class H:\n    def _repr_html_(self): return 'x' * 100_000_000\n    def __repr__(self): return 'kept'\nH()",
        "display({'text/plain': 'kept', 'not\\na type': 'x', 'a/é': 'x'}, raw=True)",
        "m = {}\nfor _ in range(999): m = {'m': m}\ndisplay({'text/plain': 'kept'}, metadata={'a': m, 'b': 10**400}, raw=True)",
        "a = []\na.append(a)\ndisplay({'text/plain': 'kept', 'application/json': [a, float('nan')]}, raw=True)",
    ];
    for code in cells {
        let report = cell(&mut sandbox, code, &limits).await;
        assert_eq!(report.outcome, silica_domain::Outcome::Ok, "{code}: {:?}", report.error);
        assert_eq!(report.results[0].get("text/plain"), Some(&b"kept"[..]), "{code}");
    }
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn cut_tables_say_so() {
    let home = TestHome::new(SCIENCE);
    let engine = home.engine().await;
    let mut sandbox = engine.create(&home.options(KernelOrigin::Fresh)).await.unwrap();
    let code = "import pandas as pd; pd.DataFrame({'a': range(3000)})";
    let report = cell(&mut sandbox, code, &Limits::default()).await;
    let metadata: Value = serde_json::from_str(&report.results[0].metadata).unwrap();
    let about = json!({"rows": 3000, "columns": 1, "index": [], "truncated": true});
    assert_eq!(metadata, json!({"application/vnd.silica.data+json": about}));
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

#[test]
fn plot_is_saved_by_the_binary() {
    let home = TestHome::new(SCIENCE);
    let ran = home.run(&["-c", "import matplotlib.pyplot as plt; plt.plot([1, 2]);"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("silica: saved silica-1.png"), "{}", ran.stderr);
    assert!(
        std::fs::read(home.working_directory().join("silica-1.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
}

/// What is not a picture is printed when it can be read, and saved when it is a page.
#[test]
fn other_results_are_printed_or_saved_by_the_binary() {
    let home = TestHome::new(SCIENCE);
    let code = "from IPython.display import HTML, JSON, Markdown\n\
        display(Markdown('# title'), JSON({'a': 1}), HTML('<b>page</b>'), object)\n\
        display({'made/up': 'x'}, raw=True)\ndisplay({'application/pdf': 'JVBERi0x'}, raw=True)";
    let ran = home.run(&["-c", code]);
    assert_eq!((ran.status, &*ran.stdout), (0, "# title\n{\"a\":1}\nobject\n"), "{}", ran.stderr);
    assert_eq!(
        std::fs::read(home.working_directory().join("silica-1.html")).unwrap(),
        b"<b>page</b>"
    );
    assert_eq!(std::fs::read(home.working_directory().join("silica-1.pdf")).unwrap(), b"%PDF-1");
    let said = "silica: saved silica-1.html\n\
        silica: a result of type made/up is shown only with --json\n\
        silica: saved silica-1.pdf\n";
    assert!(ran.stderr.ends_with(said), "{}", ran.stderr);
}
