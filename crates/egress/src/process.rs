//! The process `silica __egress`: holds secrets and the authority's key, and reads what guests send.
//!
//! It has one thread, no right to write any file, and ends when its parent's socket closes. Which
//! sandbox a connection belongs to follows from the socket that accepted it, and from nothing that
//! a guest says.

mod accept;
mod ask;
mod budget;
mod carry;
mod connection;
mod denials;
mod dial;
mod dns;
mod hello;
mod http;
mod intercept;
mod listeners;
mod lockdown;
mod lookup;
mod names;
mod parent;
mod proxy;
mod refusal;
mod sandbox;
mod scrub;
mod substitute;
mod tokens;
mod tunnel;
mod upstream;
mod world;

#[cfg(feature = "fuzzing")]
pub(crate) use dns::{Parsed as ParsedDns, parse as parse_dns};
#[cfg(feature = "fuzzing")]
pub(crate) use hello::HelloReader;
#[cfg(feature = "fuzzing")]
pub(crate) use proxy::authority as parse_authority;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::packet::PacketSocket;
use crate::wire::{AttachOrder, Order, Report};
use parent::Parent;
use sandbox::Sandbox;
use world::World;

/// How often idle connections, counts of refusals and usage are looked at.
const TICK: Duration = Duration::from_millis(500);

/// How long the connections of an ended sandbox may take to close, and how often they are counted.
const DETACH_PATIENCE: Duration = Duration::from_secs(2);
const DETACH_PAUSE: Duration = Duration::from_millis(1);

/// The most threads that wait for the host's resolver.
const RESOLVER_THREADS_MAX: usize = 16;

/// Runs the process: its standard input is the socket to the server. Returns when that closes.
pub fn run() -> io::Result<()> {
    let socket = rustix::io::dup(rustix::stdio::stdin())?;
    lockdown::apply()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(RESOLVER_THREADS_MAX)
        .build()?;
    runtime.block_on(serve(socket))
}

async fn serve(socket: OwnedFd) -> io::Result<()> {
    let socket = Arc::new(PacketSocket::new(socket)?);
    let Some((Order::Configure(order), _)) = socket.receive::<Order>().await? else {
        return Err(io::Error::other("the first message does not configure"));
    };
    let parent = Parent::new(&socket);
    let world = match World::new(*order, parent) {
        Ok(world) => Arc::new(world),
        Err(message) => {
            socket.send(&Report::Failed(message.clone()), &[]).await?;
            return Err(io::Error::other(message));
        }
    };
    world.parent.report(Report::Ready);
    tokio::spawn(tick(Arc::clone(&world)));
    while let Some((order, fds)) = socket.receive::<Order>().await? {
        handle(&world, order, fds);
    }
    Ok(())
}

async fn tick(world: Arc<World>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        for sandbox in world.sandboxes() {
            sandbox.tick();
        }
    }
}

fn handle(world: &Arc<World>, order: Order, fds: Vec<OwnedFd>) {
    let done = |request, result: Result<(), String>| {
        world.parent.report(match result {
            Ok(()) => Report::Done { request },
            Err(message) => Report::Refused { request, message },
        });
    };
    match order {
        Order::Configure(_) => {}
        Order::Attach(order) => done(order.request, attach(world, *order, fds)),
        Order::Policy { request, sandbox, policy } => {
            let policy = policy.try_into().map_err(|error| format!("bad policy: {error}"));
            let changed = policy.and_then(|policy| {
                world.sandbox(sandbox).map(|sandbox| sandbox.set_policy(policy))
            });
            done(request, changed);
        }
        Order::Secrets { request, sandbox, secrets } => {
            let secrets: Result<Vec<_>, _> = secrets.into_iter().map(TryInto::try_into).collect();
            let secrets = secrets.map_err(|error| format!("bad secret: {error}"));
            let changed = secrets.and_then(|secrets| {
                world.sandbox(sandbox).map(|sandbox| sandbox.set_secrets(secrets))
            });
            done(request, changed);
        }
        Order::Detach { request, sandbox } => {
            tokio::spawn(detach(Arc::clone(world), request, sandbox));
        }
        Order::Sockets { request, error } => {
            let sockets = error.map_or(Ok(fds), Err);
            world.parent.sockets_came(request, sockets);
        }
        Order::Answer { question, answer } => world.parent.answer_came(question, answer),
        Order::Connections { request, sandbox } => match world.sandbox(sandbox) {
            Ok(sandbox) => {
                let records = sandbox.connections.records();
                world.parent.report(Report::Connections { request, records });
            }
            Err(message) => done(request, Err(message)),
        },
        Order::Usage { request, sandbox } => match world.sandbox(sandbox) {
            Ok(sandbox) => {
                world.parent.report(Report::Usage { request, usage: sandbox.usage() });
            }
            Err(message) => done(request, Err(message)),
        },
    }
}

/// Ends a sandbox, and replies when its connections are closed and reported.
async fn detach(world: Arc<World>, request: u64, number: u64) {
    let sandbox = world.sandbox(number);
    world.remove(number);
    if let Ok(sandbox) = sandbox {
        let deadline = tokio::time::Instant::now() + DETACH_PATIENCE;
        while sandbox.connections.open_count() > 0 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(DETACH_PAUSE).await;
        }
    }
    world.parent.report(Report::Done { request });
}

fn attach(world: &Arc<World>, order: AttachOrder, fds: Vec<OwnedFd>) -> Result<(), String> {
    let number = order.sandbox;
    world.remove(number);
    let sandbox = Sandbox::new(world, order)?;
    let sandbox = Arc::new(sandbox);
    accept::start(&sandbox, fds).map_err(|error| format!("cannot use the sockets: {error}"))?;
    world.add(number, sandbox);
    Ok(())
}
