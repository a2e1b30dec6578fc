//! Upload and download of files, compared with a bare copy over loopback into memory.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Bench;
use crate::results::{Better, Table};
use crate::silica::Client;

const LINE: &[u8] = b"12345,67890,abcdefgh\n";
const HEAD: &[u8] = b"a,b,c\n";
const LINES_A_CHUNK: usize = 50_000;

/// How many bytes go over the bare socket at a time, as many as over the other.
const CHUNK_BYTES: usize = LINE.len() * LINES_A_CHUNK;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let size: usize = bench.pick(128 << 20, 1 << 30);
    let chunks = size / CHUNK_BYTES;
    let length = HEAD.len() + chunks * CHUNK_BYTES;
    let served = bench.serve(0)?;
    let mut client = served.client()?;
    let limits = json!({"limits": {
        "memory_bytes": 3_u64 << 30, "disk_bytes": 3_u64 << 29, "file_bytes": 3_u64 << 29, "cpu_seconds": 600,
    }});
    let sandbox = client.create(&limits)?;
    let path = format!("/v1/sandboxes/{sandbox}/files/content?path=big.csv");
    let before = served.memory();
    let mut most = before;
    let rate = |started: Instant| length as f64 / 1e6 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    client.upload(&path, length, |socket| {
        send(socket, chunks, |chunk| {
            if chunk % 64 == 0 {
                most = most.max(served.memory());
            }
        })
    })?;
    let uploaded = rate(started);
    let started = Instant::now();
    let mut received = 0;
    client.download(&path, |bytes| received += bytes.len())?;
    let downloaded = rate(started);
    ensure!(received == length, "{received} of {length} bytes came back");
    sum_inside(&mut client, &sandbox, chunks)?;
    most = most.max(served.memory());
    client.delete(&sandbox)?;
    let started = Instant::now();
    bare(chunks)?;
    let bare = rate(started);
    bench.results.promise("P18", most - before, "MB");
    bench.results.promise("P18", (most - before) / (length as f64 / 1e6), "×");
    bench.results.promise("P19", uploaded, "MB/s");
    bench.results.promise("P19", uploaded / bare, "×");
    let mut table = Table::new("files", "MB/s", Better::More);
    table.add("Silica, upload", true, uploaded);
    table.add("Silica, download", true, downloaded);
    table.add("a bare socket into memory", false, bare);
    bench.results.tables.push(table);
    Ok(())
}

fn send(socket: &mut TcpStream, chunks: usize, mut look: impl FnMut(usize)) -> Result<()> {
    let chunk = LINE.repeat(LINES_A_CHUNK);
    socket.write_all(HEAD)?;
    for number in 0..chunks {
        socket.write_all(&chunk)?;
        look(number);
    }
    Ok(())
}

/// Checks that the file is complete, by code inside that reads all of it.
fn sum_inside(client: &mut Client, sandbox: &str, chunks: usize) -> Result<()> {
    let code = "import pandas as pd\nprint(sum(int(part.a.sum()) for part in pd.read_csv('big.csv', chunksize=500_000)))";
    let printed = client.cell(sandbox, code)?;
    let expected = 12_345 * LINES_A_CHUNK * chunks;
    ensure!(printed.trim() == expected.to_string(), "it printed {printed:?}");
    Ok(())
}

/// Copies the bytes from one thread to another over loopback, and into a file in memory.
fn bare(chunks: usize) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || -> Result<()> {
            let (mut socket, _) = listener.accept()?;
            let mut file = tempfile::tempfile_in("/dev/shm").context("/dev/shm cannot be used")?;
            let mut piece = vec![0; 256 << 10];
            loop {
                let count = socket.read(&mut piece)?;
                if count == 0 {
                    return Ok(());
                }
                file.write_all(&piece[..count])?;
            }
        });
        let mut socket = TcpStream::connect(address)?;
        send(&mut socket, chunks, |_| ())?;
        drop(socket);
        reader.join().expect("the reader panicked")
    })
}
