//! All measures, in the order in which they run.
//!
//! A measure drives contenders and writes its figures to the results; it does not depend on the
//! document. A measure that fails is recorded there and does not affect the others.

mod churn;
mod code;
mod crowd;
mod e2b;
mod files;
mod floor;
mod growth;
mod idle;
mod interpret;
mod library;
mod load;
mod memory;
mod output;
mod policy;
mod rate;

mod soak;
mod stages;
mod start;
mod warm;

use std::time::Duration;

use anyhow::Result;

use crate::interleave::{Effort, Lane, first_line};
use crate::peers::{Contender, Peer, Place};
use crate::plain::Plain;
use crate::results::{Absent, Results};
use crate::silica::{Served, Silica};

/// The names of Silica in tables.
pub(crate) const POOL: &str = "Silica, from the pool";
pub(crate) const ON_DEMAND: &str = "Silica, on demand";
pub(crate) const SILICA: &str = "Silica";

const PRINT: &str = "print(1)";
const DESCRIBE: &str =
    "import pandas as pd\nprint(pd.DataFrame({'x': range(100), 'y': range(100)}).describe())";

/// Sandboxes kept ready by a server that has a pool.
const POOL_SIZE: usize = 8;

/// The context of a measure.
pub(crate) struct Bench {
    pub(crate) silica: Silica,
    pub(crate) plain: Plain,
    pub(crate) place: Place,
    pub(crate) peers: Vec<Peer>,
    pub(crate) quick: bool,
    pub(crate) soak: Duration,
    pub(crate) results: Results,
}

type Measure = fn(&mut Bench) -> Result<()>;

/// By name; `--only` takes parts of these.
pub(crate) const MEASURES: [(&str, Measure); 22] = [
    ("start-print", start::print),
    ("start-pandas", start::pandas),
    ("library", library::run),
    ("warm", warm::run),
    ("crowd", crowd::run),
    ("floor", floor::run),
    ("rate", rate::run),
    ("memory", memory::run),
    ("memory-load", load::run),
    ("code", code::run),
    ("output", output::run),
    ("files", files::run),
    ("stages", stages::run),
    ("policy", policy::run),
    ("interpret", interpret::run),
    ("e2b", e2b::run),
    ("idle", idle::run),
    ("churn", churn::run),
    ("growth-sandboxes", growth::sandboxes),
    ("growth-heap", growth::heap),
    ("growth-cells", growth::cells),
    ("growth-audit", growth::audit),
];

/// Runs only with `--soak`.
pub(crate) const SOAK: (&str, Measure) = ("soak", soak::run);

impl Bench {
    /// The effort for a sample that takes milliseconds.
    fn effort(&self) -> Effort {
        let second = Duration::from_secs(1);
        let quick = Effort { warm_ups: 0, samples: 5, lane: second, samples_least: 1, in_a_row: 1 };
        let full =
            Effort { warm_ups: 3, samples: 60, lane: second * 10, samples_least: 5, in_a_row: 1 };
        self.pick(quick, full)
    }

    /// Returns the value for this run: quick or full.
    fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    fn serve(&self, pool: usize) -> Result<Served> {
        Served::start(&self.silica, pool, &[])
    }
}

/// A lane for each peer that runs this in a new place.
fn fresh_lanes<'a>(
    peers: &'a mut [Peer],
    act: impl Fn(&mut dyn Contender) -> Result<Duration> + Copy + 'a,
) -> Vec<Lane<'a>> {
    let lane = move |peer: &'a mut Peer| {
        let contender = &mut peer.contender;
        Lane::new(peer.name, false, move || act(contender.as_mut()))
    };
    peers.iter_mut().map(lane).collect()
}

/// A session of a peer, open.
struct Opened<'a> {
    peer: &'a mut Peer,
    session: u64,
}

impl Opened<'_> {
    /// A lane that does something in the session.
    fn lane<'b>(
        &'b mut self,
        act: impl Fn(&mut dyn Contender, u64) -> Result<Duration> + 'b,
    ) -> Lane<'b> {
        let (contender, session) = (&mut self.peer.contender, self.session);
        Lane::new(self.peer.name, false, move || act(contender.as_mut(), session))
    }

    fn close(self) {
        // A session that has failed meanwhile is in the table with its reason.
        let _ = self.peer.contender.close(self.session);
    }
}

/// Opens a session of every peer that has sessions; returns the others with the reason.
fn open_all<'a>(peers: impl Iterator<Item = &'a mut Peer>) -> (Vec<Opened<'a>>, Vec<Absent>) {
    let (mut opened, mut absent) = (Vec::new(), Vec::new());
    for peer in peers {
        match peer.contender.open() {
            Ok(session) => opened.push(Opened { peer, session }),
            Err(error) => {
                absent.push(Absent { who: peer.name.to_owned(), reason: first_line(&error) });
            }
        }
    }
    (opened, absent)
}
