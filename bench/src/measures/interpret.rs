//! The time that the prompt loop adds to that of the model, and the delay of streamed text.
//!
//! The model is a thread of this process that answers at once, so both ends of every wait are read
//! from one clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Bench, POOL_SIZE, PRINT};
use crate::results::{Better, Row, Table};
use crate::silica::Served;
use crate::statistics::Samples;

/// The times of the model's last answer.
#[derive(Clone, Copy)]
struct Times {
    asked: Instant,
    first_word: Instant,
    done: Instant,
}

type Clock = Arc<Mutex<Option<Times>>>;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let (url, clock) = model()?;
    let base = format!("model.base_url={url}");
    let settings = ["model.provider=openai", "model.name=m", "model.key_needed=no", &base];
    let mut served = Served::start(&bench.silica, POOL_SIZE, &settings)?;
    let mut client = served.client()?;
    let [mut added, mut word, mut direct, mut empty] = std::array::from_fn(|_| Samples::default());
    let ask = json!({"prompt": "Print one"});
    let effort = bench.effort();
    for round in 0..effort.samples + effort.warm_ups {
        served.wait_for_pool()?;
        let started = Instant::now();
        let answer = client.json("POST", "/interpret", &ask)?;
        let took = started.elapsed();
        ensure!(answer["output"] == "1", "{answer}");
        let times = take(&clock).context("the model was not asked")?;
        if round >= effort.warm_ups {
            added.push(took.saturating_sub(times.done - times.asked));
        }
        served.wait_for_pool()?;
        let mut heard = None;
        client.stream("/v1/interpret", &ask, |bytes| {
            if heard.is_none() && bytes.windows(11).any(|window| window == b"event: text") {
                heard = Some(Instant::now());
            }
        })?;
        let times = take(&clock).context("the model was not asked")?;
        let word_took = heard.context("no word came")?.saturating_duration_since(times.first_word);
        served.wait_for_pool()?;
        let direct_took = timed(|| client.json("POST", "/v1/run", &json!({"code": PRINT})))?;
        let empty_took = timed(|| client.request("GET", "/healthz", b""))?;
        if round >= effort.warm_ups {
            word.push(word_took);
            direct.push(direct_took);
            empty.push(empty_took);
        }
    }
    let mut table = Table::new("interpret", "ms", Better::Less);
    let pairs = [
        ("P26", ("added to the model's own time", added), ("the same code by /v1/run", direct)),
        ("P27", ("the model's first word", word), ("an empty request", empty)),
    ];
    for (number, (who, samples), (beside, others)) in pairs {
        let (Some(summary), Some(other)) = (samples.summary(), others.summary()) else { continue };
        bench.results.promise(number, summary.p50, "ms");
        bench.results.promise(number, summary.p50 / other.p50, "×");
        table.rows.push(Row { who: who.to_owned(), ours: true, summary });
        table.rows.push(Row { who: beside.to_owned(), ours: true, summary: other });
    }
    bench.results.tables.push(table);
    Ok(())
}

fn timed<T>(act: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let started = Instant::now();
    act()?;
    Ok(started.elapsed())
}

fn take(clock: &Clock) -> Option<Times> {
    clock.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Starts a model that answers at once; returns its address and the times that it records.
fn model() -> Result<(String, Clock)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let clock = Clock::default();
    let kept = Arc::clone(&clock);
    // The thread ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let clock = Arc::clone(&kept);
            // The server closes the connection at the end of the measure.
            std::thread::spawn(move || serve(&stream, &clock));
        }
    });
    Ok((url, clock))
}

fn serve(stream: &TcpStream, clock: &Clock) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let asked = Instant::now();
        while line.trim_end() != "" {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            line.clear();
            reader.read_line(&mut line).ok()?;
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let mut socket = stream;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.write_all(head.as_bytes()).ok()?;
        let first_word = Instant::now();
        socket.write_all(chunk(&event("```python\nprint(1)\n")).as_bytes()).ok()?;
        let end = chunk(&(event("```") + "data: [DONE]\n\n")) + "0\r\n\r\n";
        socket.write_all(end.as_bytes()).ok()?;
        let times = Times { asked, first_word, done: Instant::now() };
        *clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(times);
    }
}

fn event(text: &str) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": null});
    format!("data: {}\n\n", json!({"model": "m", "choices": [choice]}))
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
