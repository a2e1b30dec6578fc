//! One cell, from its first byte to its outcome.
//!
//! A single loop waits for whatever comes first: a frame, output, the end of the interpreter, an
//! interrupt, or a clock. Before a result is shown and before a cell is called done, the pipes are
//! drained: the guest waits for our word after each result, so what it printed before comes before.
//! Tests: `tests/it/engine/limits.rs`, `tests/it/engine/misbehaving.rs`.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_domain::{Bundle, CellError, Exit, Limit, LimitHit, Limits, Outcome, Usage};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::{CellReport, Control, INT, KILL, Kernel, KernelError, Watcher, read_waiting};
use crate::output::HeadTail;
use crate::tier::Life;
use crate::wire::{CommHead, FromGuest, Status, ToGuest, WireError};

/// How long interrupted code may take to stop before it is killed.
// CPython runs signal handlers between two instructions of bytecode. A long call in C, or code that
// swallows `KeyboardInterrupt`, gets no more than this.
const GRACE: Duration = Duration::from_millis(500);

/// How long the report of an interpreter's end may lag behind the end of its streams.
// The streams close with the process; its exit status comes only when the zone master has collected
// it.
const LIFE_LAG: Duration = Duration::from_secs(2);

/// The least time between two looks at the processor time used.
// Near the limit `cpu_pause` goes towards zero, and each look reads files of the control group.
const CPU_CHECK_MIN: Duration = Duration::from_millis(20);

/// What a pipe holds by default (pipe(7)): everything that the guest wrote before its last frame.
// A guest that enlarges its pipes (F_SETPIPE_SZ) may have output left after a cell, which then
// appears in its next one.
const PIPE_BYTES: usize = 64 * 1024;

/// What is read at once of a pipe at first.
const BUFFER_BYTES_MIN: usize = 1024;

/// Room for heads and for payloads that the guest's own count rounds differently.
const BODY_SLACK_BYTES: u64 = 64 * 1024;

/// One of the two pipes that a cell prints to.
#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

/// A cell under way.
struct Cell<'a> {
    id: u64,
    limits: &'a Limits,
    watcher: &'a mut dyn Watcher,
    started: Instant,
    deadline: Instant,
    next_cpu_check: Instant,
    /// Why it was interrupted, and when it is killed.
    stopping: Option<(Outcome, Instant)>,
    /// What the sandbox had used before.
    baseline: Usage,
    stdout: HeadTail,
    stderr: HeadTail,
    buffer: Vec<u8>,
    interrupt_on_hello: bool,
    /// Whether the code waits for a line.
    asks: bool,
    error: Option<CellError>,
    results: Vec<Arc<Bundle>>,
    result_bytes: u64,
    results_left_out: u64,
    /// Whether the watcher refused to have more kept.
    keeping_refused: bool,
}

/// How the loop ended.
enum End {
    /// The guest sent `done`.
    Done { status: Status, exit_code: i32, left_out: u64 },
    /// The interpreter ended.
    Died(Life),
    /// It does not speak the protocol any more.
    Disconnected,
    /// It had to be killed, for this reason.
    Killed(Outcome),
}

pub(super) async fn run(
    kernel: &mut Kernel,
    code: &str,
    limits: &Limits,
    watcher: &mut dyn Watcher,
    controls: &mut mpsc::Receiver<Control>,
) -> Result<CellReport, KernelError> {
    let id = kernel.next_cell;
    kernel.next_cell += 1;
    let started = Instant::now();
    let mut cell = Cell {
        id,
        limits,
        watcher,
        started,
        deadline: started + limits.wall,
        next_cpu_check: started + cpu_pause(limits, limits.cpu),
        stopping: None,
        baseline: kernel.usage(),
        stdout: HeadTail::new(limits.output_bytes),
        stderr: HeadTail::new(limits.output_bytes),
        buffer: Vec::new(),
        interrupt_on_hello: false,
        asks: false,
        error: None,
        results: Vec::new(),
        result_bytes: 0,
        results_left_out: 0,
        keeping_refused: false,
    };
    kernel.frames.allow_bodies(limits.result_bytes + BODY_SLACK_BYTES);
    let (results_max, result_bytes_max) = (limits.results, limits.result_bytes);
    let setup = std::mem::take(&mut kernel.next_cell_setup);
    let (comm, body) = setup.comm.as_deref().map(CommHead::new).unzip();
    let head = ToGuest::Run {
        cell: id,
        results_max,
        result_bytes_max,
        env: &setup.environment,
        name: setup.filename.as_deref(),
        argv: setup.arguments.as_deref(),
        input: setup.input.then_some(true),
        comm,
    };
    let body = body.as_deref().unwrap_or(code.as_bytes());
    // A send that failed does not say why. `ended` finds out whether the interpreter has died.
    let end = match kernel.send(&head, body).await {
        Ok(()) => drive(kernel, &mut cell, controls).await,
        Err(_) => ended(kernel, &mut cell).await,
    };
    Ok(finish(kernel, cell, end).await)
}

/// Returns the least time in which `left` of processor time can be used up: the sandbox has
/// `cpu_millis` thousandths of a processor.
fn cpu_pause(limits: &Limits, left: Duration) -> Duration {
    (left * 1000 / limits.cpu_millis.max(1)).max(CPU_CHECK_MIN)
}

async fn drive(
    kernel: &mut Kernel,
    cell: &mut Cell<'_>,
    controls: &mut mpsc::Receiver<Control>,
) -> End {
    let (mut out_open, mut err_open, mut controlled) = (true, true, true);
    loop {
        let timer = cell.next_timer();
        let room = cell.watcher.has_room();
        tokio::select! {
            // Polled in this order: a cell that ends just as its deadline passes counts as ended.
            biased;
            frame = kernel.frames.next() => {
                if let Some(end) = on_frame(kernel, cell, frame).await {
                    return end;
                }
            }
            // Without room the pipes are not read. They fill up and the code waits, instead of the
            // memory of this process growing.
            () = poll_fn(|context| cell.watcher.poll_room(context)), if !room => {}
            _ = kernel.stdout.readable(), if out_open && room => {
                // A pipe at its end stays readable, and a closed channel stays ready: each is
                // waited for once.
                out_open = cell.read(Stream::Stdout, &kernel.stdout);
            }
            _ = kernel.stderr.readable(), if err_open && room => {
                err_open = cell.read(Stream::Stderr, &kernel.stderr);
            }
            control = controls.recv(), if controlled => match control {
                Some(Control::Interrupt) => cell.interrupt(kernel).await,
                Some(Control::Kill) => return End::Killed(Outcome::Interrupted),
                Some(Control::Extend(time)) => cell.deadline += time,
                Some(Control::Input(line)) => cell.answer(kernel, &line).await,
                None => controlled = false,
            },
            () = tokio::time::sleep_until(timer.into()) => {
                if let Some(end) = on_timer(kernel, cell).await {
                    return end;
                }
            }
        }
    }
}

async fn on_frame(
    kernel: &mut Kernel,
    cell: &mut Cell<'_>,
    frame: Result<FromGuest, WireError>,
) -> Option<End> {
    match frame {
        Ok(FromGuest::Result { cell: id, seq, bundle }) if id == cell.id => {
            // The runner flushes, sends the result and waits for the acknowledgement. So what was
            // printed before is in the pipes by now (docs/design/order.md).
            cell.drain(kernel);
            cell.keep(bundle);
            acknowledge(kernel, seq).await
        }
        Ok(FromGuest::Clear { cell: id, seq, wait }) if id == cell.id => {
            cell.drain(kernel);
            cell.watcher.clear(wait);
            acknowledge(kernel, seq).await
        }
        Ok(FromGuest::Comm { cell: id, seq, comm }) if id == cell.id => {
            cell.drain(kernel);
            cell.watcher.comm(comm);
            acknowledge(kernel, seq).await
        }
        Ok(FromGuest::Input { cell: id, seq, prompt, password }) if id == cell.id => {
            cell.drain(kernel);
            cell.asks = true;
            cell.watcher.input(prompt, password);
            acknowledge(kernel, seq).await
        }
        Ok(FromGuest::Error { cell: id, error }) if id == cell.id => {
            cell.drain(kernel);
            cell.watcher.error(&error);
            cell.error = Some(error);
            None
        }
        Ok(FromGuest::Done { cell: id, status, exit_code, results_dropped, results_too_large })
            if id == cell.id =>
        {
            cell.drain(kernel);
            let left_out = results_dropped.saturating_add(results_too_large);
            Some(End::Done { status, exit_code, left_out })
        }
        // An interpreter that had not said hello when the cell was sent says it now.
        Ok(FromGuest::Hello { .. }) if !kernel.greeted => {
            kernel.greeted = true;
            if cell.interrupt_on_hello {
                cell.interrupt(kernel).await;
            }
            None
        }
        Err(WireError::Closed(_)) => Some(ended(kernel, cell).await),
        // A frame about another cell, a second hello, or bytes that are no frame: code in the guest
        // writes to the socket. What follows cannot be in step, so the interpreter ends.
        Ok(_) | Err(_) => Some(End::Disconnected),
    }
}

/// Lets the guest go on after a frame for which it waits.
async fn acknowledge(kernel: &mut Kernel, seq: u64) -> Option<End> {
    let sent = kernel.send(&ToGuest::Ack { seq }, &[]).await;
    sent.is_err().then_some(End::Disconnected)
}

/// Returns how a cell ended whose control socket has closed: the interpreter ended, or the code
/// closed the socket.
async fn ended(kernel: &mut Kernel, cell: &mut Cell<'_>) -> End {
    let gone = kernel.life.wait_for(|life| *life != Life::Alive);
    let end = match tokio::time::timeout(LIFE_LAG, gone).await {
        Ok(Ok(life)) => End::Died(*life),
        // The watch closes without a value when the sandbox is ended on request.
        Ok(Err(_)) => End::Died(Life::SandboxDied { out_of_memory: false }),
        Err(_) => End::Disconnected,
    };
    // After the wait, so that the last output of a process that died is there.
    cell.drain(kernel);
    end
}

/// Handles the deadline, the limit of processor time, and the end of the grace.
async fn on_timer(kernel: &mut Kernel, cell: &mut Cell<'_>) -> Option<End> {
    let now = Instant::now();
    // The limit has struck already. Neither it nor another may interrupt a second time.
    if let Some((outcome, kill_at)) = cell.stopping {
        return (now >= kill_at).then_some(End::Killed(outcome));
    }
    if now >= cell.deadline {
        cell.stop(kernel, Outcome::TimedOut).await;
    } else if now >= cell.next_cpu_check {
        // Zero where no control group counts: there RLIMIT_CPU ends the process.
        let used = cell.cpu_used(&kernel.usage()).unwrap_or_default();
        match cell.limits.cpu.checked_sub(used) {
            Some(left) if !left.is_zero() => {
                cell.next_cpu_check = now + cpu_pause(cell.limits, left);
            }
            _ => cell.stop(kernel, Outcome::CpuExceeded).await,
        }
    }
    None
}

impl Cell<'_> {
    fn next_timer(&self) -> Instant {
        match self.stopping {
            Some((_, kill_at)) => kill_at,
            None => self.deadline.min(self.next_cpu_check),
        }
    }

    /// Gives the code the line that it waits for; drops one that it did not ask for.
    async fn answer(&mut self, kernel: &mut Kernel, line: &str) {
        if std::mem::take(&mut self.asks) {
            // A guest that does not read is dealt with by the deadline.
            let _ = kernel.send(&ToGuest::Input { cell: self.id }, line.as_bytes()).await;
        }
    }

    /// Interrupts the code for a limit; it is killed if it has not stopped within the grace.
    async fn stop(&mut self, kernel: &mut Kernel, outcome: Outcome) {
        self.stopping = Some((outcome, Instant::now() + GRACE));
        self.interrupt(kernel).await;
    }

    /// Interrupts the code. The frame before the signal names the cell, should
    /// the signal come before the cell has started or after it has ended.
    async fn interrupt(&mut self, kernel: &mut Kernel) {
        // Before its first word an interpreter would die of the signal.
        self.interrupt_on_hello = !kernel.greeted;
        if kernel.greeted {
            // A guest that does not read is dealt with by the deadline.
            let _ = kernel.send(&ToGuest::Interrupt { cell: self.id }, &[]).await;
            kernel.signal(INT).await;
        }
    }

    fn cpu_used(&self, usage: &Usage) -> Option<Duration> {
        let used = usage.cpu_us?.saturating_sub(self.baseline.cpu_us?);
        Some(Duration::from_micros(used))
    }

    /// Reads what is there; returns false at the stream's end.
    fn read(&mut self, stream: Stream, pipe: &pipe::Receiver) -> bool {
        let mut buffer = self.empty_buffer();
        let open = match pipe.try_read_buf(&mut buffer) {
            Ok(0) => false,
            Ok(_) => {
                self.take(stream, &buffer);
                true
            }
            // Not an end: `drain` reads past the runtime, which may still believe that there is
            // something.
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        };
        self.buffer = buffer;
        open
    }

    /// Takes the buffer, to be given back. Most cells print little; for one that filled it, it
    /// grows.
    fn empty_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let full = buffer.len() == buffer.capacity();
        buffer.clear();
        if full {
            buffer.reserve((2 * buffer.capacity()).clamp(BUFFER_BYTES_MIN, PIPE_BYTES));
        }
        buffer
    }

    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let kept = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let growth = kept.growth(bytes.len());
        if growth > 0 && !self.watcher.may_keep(growth as u64) {
            self.keeping_refused = true;
            kept.seal();
        }
        let kept = kept.push(bytes);
        let wanted = if self.watcher.takes_everything() { bytes } else { kept };
        match stream {
            Stream::Stdout => self.watcher.stdout(wanted),
            Stream::Stderr => self.watcher.stderr(wanted),
        }
    }

    /// Takes what the pipes hold now, and no more: a child that goes on writing cannot hold us up.
    fn drain(&mut self, kernel: &Kernel) {
        for (stream, pipe) in [(Stream::Stdout, &kernel.stdout), (Stream::Stderr, &kernel.stderr)] {
            let mut left = PIPE_BYTES;
            while left > 0 {
                let mut buffer = self.empty_buffer();
                let (room, length) = (buffer.capacity(), read_waiting(pipe, &mut buffer));
                self.take(stream, &buffer);
                self.buffer = buffer;
                // A short read means that the pipe is empty.
                if length < room {
                    break;
                }
                left = left.saturating_sub(length);
            }
        }
    }

    /// Keeps a result if its number and size still fit.
    fn keep(&mut self, bundle: Bundle) {
        let bytes = bundle.bytes();
        // The runner keeps to both limits and counts what it leaves out. This is for a guest that
        // does not.
        let fits = self.results.len() < self.limits.results as usize
            && self.result_bytes + bytes <= self.limits.result_bytes;
        let may_keep = fits && self.watcher.may_keep(bytes);
        self.keeping_refused |= fits && !may_keep;
        if may_keep {
            self.result_bytes += bytes;
            let bundle = Arc::new(bundle);
            self.watcher.result(&bundle);
            self.results.push(bundle);
        } else {
            self.results_left_out += 1;
        }
    }
}

async fn finish(kernel: &mut Kernel, mut cell: Cell<'_>, end: End) -> CellReport {
    let duration = cell.started.elapsed();
    if let End::Killed(_) | End::Disconnected = end {
        kernel.signal(KILL).await;
        let gone = kernel.life.wait_for(|life| *life != Life::Alive);
        // A process stuck in the kernel is the sandbox's end to deal with.
        let _ = tokio::time::timeout(LIFE_LAG, gone).await;
        cell.drain(kernel);
    }
    let usage = kernel.usage();
    let oom_kills = usage.oom_kills.saturating_sub(cell.baseline.oom_kills);
    let outcome = outcome(&end, cell.stopping.map(|(outcome, _)| outcome), oom_kills);
    // After any other end the interpreter is dead, or its variables cannot be reached in step.
    let kernel_lives = matches!(end, End::Done { .. });
    if let End::Done { left_out, .. } = end {
        cell.results_left_out = cell.results_left_out.saturating_add(left_out);
    }
    let limits_hit = limits_hit(&cell, outcome, oom_kills, &usage);
    // So far the watcher has seen the heads alone. What is kept of the tails is known only now.
    if !cell.watcher.takes_everything() {
        cell.watcher.stdout(&cell.stdout.rest());
        cell.watcher.stderr(&cell.stderr.rest());
    }
    CellReport {
        outcome,
        cpu: cell.cpu_used(&usage),
        memory_peak_bytes: usage.memory_peak_bytes,
        error: cell.error,
        stdout: cell.stdout.into(),
        stderr: cell.stderr.into(),
        results: cell.results,
        results_left_out: cell.results_left_out,
        keeping_refused: cell.keeping_refused,
        duration,
        limits_hit,
        kernel_lives,
    }
}

/// Decides what an end means; nothing else does.
fn outcome(end: &End, stopping: Option<Outcome>, oom_kills: u64) -> Outcome {
    match *end {
        // Code that ends by itself within the grace has ended, even if it handled the interrupt.
        End::Done { status: Status::Ok, .. } => Outcome::Ok,
        End::Done { status: Status::Exited, exit_code, .. } => Outcome::Exited(exit_code),
        // Code may turn the interrupt into another exception. The limit is the reason all the same.
        End::Done { status: Status::Raised, .. } => stopping.unwrap_or(Outcome::Raised),
        End::Done { status: Status::Interrupted, .. } => stopping.unwrap_or(Outcome::Interrupted),
        End::Killed(outcome) => outcome,
        End::Disconnected => stopping.unwrap_or(Outcome::Disconnected),
        End::Died(Life::SandboxDied { out_of_memory: true }) => Outcome::OutOfMemory,
        End::Died(Life::SandboxDied { out_of_memory: false } | Life::Alive) => Outcome::SandboxDied,
        End::Died(Life::Ended(Exit::Signal(KILL))) if oom_kills > 0 => Outcome::OutOfMemory,
        // SIGXCPU, by RLIMIT_CPU where no cgroup counts.
        End::Died(Life::Ended(Exit::Signal(24))) => Outcome::CpuExceeded,
        End::Died(Life::Ended(Exit::Signal(signal))) => {
            stopping.unwrap_or(Outcome::Crashed(signal))
        }
        End::Died(Life::Ended(Exit::Status(status))) => {
            stopping.unwrap_or(Outcome::Vanished(status))
        }
    }
}

/// Names every limit the code ran into, whether or not it ended the cell.
fn limits_hit(cell: &Cell<'_>, outcome: Outcome, oom_kills: u64, usage: &Usage) -> Vec<LimitHit> {
    let mut hit = Vec::new();
    let mut note = |limit, what: &str| hit.push(LimitHit::new(limit, cell.limits, what));
    match outcome {
        Outcome::TimedOut => note(Limit::Wall, "the code ran longer than"),
        Outcome::CpuExceeded => note(Limit::Cpu, "the code used more processor time than"),
        Outcome::OutOfMemory => note(Limit::Memory, "the code needed more memory than"),
        _ if oom_kills > 0 => note(Limit::Memory, "a process was killed for needing more than"),
        _ => {}
    }
    // Most of these limits are counted nowhere: a call fails, and the exception is all there is. It
    // is the guest's word, so it adds a hint and never decides the outcome. The numbers are EAGAIN,
    // EMFILE, EFBIG and ENOSPC (errno(3)).
    let raised = |name: &str, number: &str| {
        cell.error.as_ref().is_some_and(|error| {
            (name.is_empty() || error.name == name) && error.value.contains(number)
        })
    };
    if raised("MemoryError", "") && oom_kills == 0 {
        note(Limit::Memory, "the code asked for more memory than");
    }
    if usage.fork_refusals > cell.baseline.fork_refusals
        || raised("BlockingIOError", "[Errno 11]")
        || raised("RuntimeError", "can't start new thread")
    {
        note(Limit::Processes, "the code tried to have more processes and threads than");
    }
    if raised("", "[Errno 24]") {
        note(Limit::OpenFiles, "the code tried to have more files open than");
    }
    if raised("", "[Errno 27]") {
        note(Limit::FileSize, "the code tried to write a file larger than");
    }
    if raised("", "[Errno 28]") {
        note(Limit::Disk, "the code tried to write more than");
    }
    // Then the watcher knows why something was left out, and it was not one of these limits.
    if cell.keeping_refused {
        return hit;
    }
    if cell.stdout.left_out() > 0 || cell.stderr.left_out() > 0 {
        note(Limit::Output, "the code printed more than");
    }
    if cell.results_left_out > 0 {
        if cell.results.len() >= cell.limits.results as usize {
            note(Limit::Results, "the code showed more results than");
        } else {
            note(Limit::ResultBytes, "the code's results are larger than");
        }
    }
    hit
}
