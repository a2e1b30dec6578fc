//! One sandbox in the process: its policy, its names, its limits, its connections.

use std::collections::HashSet;
use std::future::Future;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use silica_domain::{EffectivePolicy, NetworkApproval, NetworkVerdict, RuleProtocol};
use tokio::sync::watch;

use super::ask::Questions;
use super::budget::{Budget, Budgets, Direction};
use super::connection::{Connection, Connections};
use super::denials::Denials;
use super::names::NameTable;
use super::refusal::Refusal;
use super::world::{World, lock};
use crate::events::{ConnectionKind, NetworkUsage};
use crate::secret::BoundSecret;
use crate::wire::{AttachOrder, Report};

pub(super) struct Sandbox {
    pub(super) world: Arc<World>,
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) key: String,
    pub(super) names: Mutex<NameTable>,
    pub(super) budgets: Budgets,
    pub(super) connections: Connections,
    pub(super) denials: Denials,
    pub(super) questions: Questions,
    /// Where it listens beside the first sockets.
    pub(super) listening: Mutex<HashSet<(Ipv4Addr, u16)>>,
    pub(super) spares: Mutex<Vec<OwnedFd>>,
    policy: Mutex<Arc<EffectivePolicy>>,
    secrets: Mutex<Arc<Vec<BoundSecret>>>,
    before: NetworkUsage,
    reported: Mutex<NetworkUsage>,
    ended: watch::Sender<bool>,
}

impl Sandbox {
    pub(super) fn new(world: &Arc<World>, order: AttachOrder) -> Result<Self, String> {
        let policy = order.policy.try_into().map_err(|error| format!("bad policy: {error}"))?;
        let secrets: Result<Vec<_>, _> = order.secrets.into_iter().map(TryInto::try_into).collect();
        let secrets = secrets.map_err(|error| format!("bad secret: {error}"))?;
        let own = Arc::new(Budget::new(order.limits.into()));
        own.add_used(order.used.bytes_up, order.used.bytes_down);
        let key_budget = world.key_budget(&order.key);
        let sandbox = Self {
            world: Arc::clone(world),
            number: order.sandbox,
            id: order.id,
            key: order.key,
            names: Mutex::default(),
            budgets: Budgets([own, key_budget, Arc::clone(&world.budget)]),
            connections: Connections::default(),
            denials: Denials::default(),
            questions: Questions::default(),
            listening: Mutex::default(),
            spares: Mutex::default(),
            policy: Mutex::new(Arc::new(policy)),
            secrets: Mutex::new(Arc::new(secrets)),
            before: order.used,
            reported: Mutex::new(order.used),
            ended: watch::Sender::new(false),
        };
        sandbox.restore_names(order.names)?;
        Ok(sandbox)
    }

    /// Gives names the addresses that they had in an earlier process.
    fn restore_names(&self, mut names: Vec<(String, u32)>) -> Result<(), String> {
        names.sort_by_key(|(_, place)| *place);
        let mut table = lock(&self.names);
        for (name, place) in names {
            let name = name.parse().map_err(|error| format!("bad name: {error}"))?;
            let taken = self.budgets.take_name().ok().and_then(|()| table.add(&name));
            if taken.is_none_or(|(given, _)| given != place) {
                return Err("names and addresses do not fit".to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn policy(&self) -> Arc<EffectivePolicy> {
        Arc::clone(&lock(&self.policy))
    }

    pub(super) fn secrets(&self) -> Arc<Vec<BoundSecret>> {
        Arc::clone(&lock(&self.secrets))
    }

    pub(super) fn set_secrets(&self, secrets: Vec<BoundSecret>) {
        *lock(&self.secrets) = Arc::new(secrets);
    }

    /// Adds a person's leave.
    pub(super) fn approve(&self, approval: NetworkApproval) {
        let mut policy = lock(&self.policy);
        let mut approved = EffectivePolicy::clone(&policy);
        approved.approve(approval);
        *policy = Arc::new(approved);
    }

    /// Replaces the policy, and closes the connections that it does not allow.
    pub(super) fn set_policy(self: &Arc<Self>, policy: EffectivePolicy) {
        let policy = Arc::new(policy);
        *lock(&self.policy) = Arc::clone(&policy);
        for connection in self.connections.open() {
            if let Some(refusal) = no_longer(&policy, &connection) {
                connection.end(&refusal);
            }
        }
        super::listeners::open_ranges(self);
    }

    /// Runs a task until it or the sandbox ends.
    pub(super) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let mut ended = self.ended.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => {}
                () = task => {}
            }
        });
    }

    /// Ends all tasks, and closes all sockets with them.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
        lock(&self.spares).clear();
        self.budgets.give_names_back(lock(&self.names).len());
        for denial in self.denials.rest() {
            self.world.parent.report(Report::Denied { sandbox: self.number, denial });
        }
    }

    pub(super) fn deny(&self, host: &str, port: u16, kind: ConnectionKind, refusal: &Refusal) {
        if let Some(denial) = self.denials.note(host, port, kind, refusal) {
            self.world.parent.report(Report::Denied { sandbox: self.number, denial });
        }
    }

    pub(super) fn usage(&self) -> NetworkUsage {
        let own = self.budgets.own();
        NetworkUsage {
            bytes_up: own.bytes(Direction::Up),
            bytes_down: own.bytes(Direction::Down),
            connections_open: self.connections.open_count(),
            connections: self.before.connections + self.connections.count(),
            denials: self.before.denials + self.denials.total(),
            limit_hit: self.before.limit_hit || own.was_hit(),
        }
    }

    /// Does what is due from time to time.
    pub(super) fn tick(self: &Arc<Self>) {
        let limits = self.budgets.own().limits();
        self.connections.close_old(limits.idle, limits.life);
        for denial in self.denials.due() {
            self.world.parent.report(Report::Denied { sandbox: self.number, denial });
        }
        let usage = self.usage();
        let mut reported = lock(&self.reported);
        if *reported != usage {
            *reported = usage;
            self.world.parent.report(Report::Used { sandbox: self.number, usage });
        }
    }
}

/// Returns why a connection is not allowed by a policy that replaced the one it began under.
fn no_longer(policy: &EffectivePolicy, connection: &Connection) -> Option<Refusal> {
    let grant = match policy.decide_connection(&connection.host, connection.port) {
        NetworkVerdict::Allowed(grant) => grant,
        NetworkVerdict::Ask if connection.once.load(Ordering::Relaxed) => return None,
        NetworkVerdict::Ask => {
            return Some(Refusal::forbidden("policy_changed", "the rules have changed"));
        }
        NetworkVerdict::Denied(denial) => return Some(denial.into()),
    };
    let fits = match (connection.kind(), grant.protocol) {
        (ConnectionKind::Pass, RuleProtocol::Tls) => !grant.intercept,
        // What is read may be judged request by request.
        (ConnectionKind::Intercept, RuleProtocol::Tls)
        | (ConnectionKind::Http, RuleProtocol::Http | RuleProtocol::Tcp)
        | (ConnectionKind::Tcp, RuleProtocol::Tcp) => true,
        _ => false,
    };
    let changed = || Refusal::forbidden("policy_changed", "the rules have changed");
    (!fits).then(changed)
}
