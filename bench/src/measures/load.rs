//! The memory of the server as a function of load: sandboxes, kept output, streams that are open.
//!
//! Only the server's own process counts; sandboxes have memory of their own. The settings that bound what one key
//! keeps are those of a server without configuration.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Bench, PRINT};
use crate::peers::Contender;
use crate::results::{Curve, Line};
use crate::silica::{Client, Served};

/// The numbers of sandboxes, up to what a key may have.
const SANDBOXES: [usize; 6] = [0, 10, 25, 50, 75, 100];

/// Megabytes that cells have printed: more than a key may keep.
const PRINTED_MB: [usize; 6] = [0, 60, 120, 240, 480, 960];

/// The megabytes of one sandbox: nearly as much as the highest limit allows.
const PRINTED_MB_EACH: usize = 60;

/// The numbers of open streams.
const STREAMS: [usize; 5] = [0, 25, 50, 100, 200];

/// The time for what is not needed any more to be given back.
const SETTLE: Duration = Duration::from_millis(500);

/// How long a cell may take to print, looked at so often.
const PRINT_STEP: Duration = Duration::from_millis(50);
const PRINT_STEPS_MAX: usize = 2400;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let sandboxes = of_sandboxes(bench)?;
    let kept = of_kept_output(bench)?;
    let streams = of_streams(bench)?;
    let growth: f64 = [&sandboxes, &kept, &streams].into_iter().map(|points| grown(points)).sum();
    bench.results.promise("P28", growth, "MB");
    for (name, points) in
        [("load-sandboxes", sandboxes), ("load-kept", kept), ("load-streams", streams)]
    {
        let lines = vec![Line { label: "the server".to_owned(), points }];
        bench.results.curves.push(Curve { name: name.to_owned(), unit: "MB".to_owned(), lines });
    }
    Ok(())
}

/// Returns how much the highest point is above the first.
fn grown(points: &[(f64, f64)]) -> f64 {
    let first = points.first().map_or(0.0, |point| point.1);
    points.iter().map(|point| point.1 - first).fold(0.0, f64::max)
}

fn look(served: &Served) -> f64 {
    std::thread::sleep(SETTLE);
    served.memory()
}

fn of_sandboxes(bench: &Bench) -> Result<Vec<(f64, f64)>> {
    let mut served = bench.serve(0)?;
    // The first use of everything is not load.
    served.fresh(PRINT)?;
    let (mut points, mut sessions) = (Vec::new(), Vec::new());
    for count in SANDBOXES.into_iter().filter(|count| *count <= bench.pick(25, 100)) {
        while sessions.len() < count {
            sessions.push(served.open()?);
        }
        points.push((count as f64, look(&served)));
    }
    Ok(points)
}

fn of_kept_output(bench: &Bench) -> Result<Vec<(f64, f64)>> {
    let mut served = bench.serve(0)?;
    served.fresh(PRINT)?;
    let mut client = served.client()?;
    let limits = json!({"output_bytes": 64 << 20, "result_bytes": 64 << 20});
    let (mut points, mut printed) = (Vec::new(), 0);
    for megabytes in PRINTED_MB.into_iter().filter(|megabytes| *megabytes <= bench.pick(240, 960)) {
        while printed < megabytes {
            let sandbox = client.create(&json!({ "limits": limits }))?;
            let code = format!("import sys\nsys.stdout.write('x' * {PRINTED_MB_EACH}_000_000)");
            begin(&mut client, &sandbox, &code)?;
            wait_until_idle(&mut client, &sandbox)?;
            printed += PRINTED_MB_EACH;
        }
        points.push((megabytes as f64, look(&served)));
    }
    Ok(points)
}

fn of_streams(bench: &Bench) -> Result<Vec<(f64, f64)>> {
    let mut served = bench.serve(0)?;
    served.fresh(PRINT)?;
    let mut client = served.client()?;
    let sandbox = client.create(&json!({}))?;
    begin(&mut client, &sandbox, "print('x' * 1000, flush=True)\nimport time\ntime.sleep(600)")?;
    let path = format!("/v1/sandboxes/{sandbox}/cells/c1/events");
    let (mut points, mut open) = (Vec::new(), Vec::new());
    for count in STREAMS.into_iter().filter(|count| *count <= bench.pick(50, 200)) {
        while open.len() < count {
            let mut stream = served.client()?;
            stream.begin(&path)?;
            open.push(stream);
        }
        points.push((count as f64, look(&served)));
    }
    Ok(points)
}

/// Begins a cell and does not wait for it.
fn begin(client: &mut Client, sandbox: &str, code: &str) -> Result<()> {
    let path = format!("/v1/sandboxes/{sandbox}/cells");
    let body = json!({"code": code, "background": true, "timeout_seconds": 600});
    client.json("POST", &path, &body).map(drop)
}

fn wait_until_idle(client: &mut Client, sandbox: &str) -> Result<()> {
    for _ in 0..PRINT_STEPS_MAX {
        let kernel =
            client.json("GET", &format!("/v1/sandboxes/{sandbox}/kernels/k1"), &json!({}))?;
        let state = kernel["state"].as_str().context("no state")?;
        ensure!(state != "ended", "the kernel ended");
        if state == "idle" {
            return Ok(());
        }
        std::thread::sleep(PRINT_STEP);
    }
    anyhow::bail!("the cell does not end")
}
