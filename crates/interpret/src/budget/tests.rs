//! Budgets that stop, and books that last.

use std::sync::atomic::{AtomicU32, Ordering};

use silica_store::Tenant;

use super::{DailyBudget, Ledger};
use crate::model::{Cost, Tokens};

fn tenant() -> Tenant {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Tenant::parse(&format!("tenant{number}")).expect("a name")
}

fn tokens(input: u64, output: u64) -> Tokens {
    Tokens { input, output }
}

#[test]
fn tokens_run_out_for_one_key_and_not_for_another() {
    let ledger = Ledger::in_memory(DailyBudget { tokens: Some(100), cost: None });
    let (one, other) = (tenant(), tenant());
    ledger.spend(&one, tokens(60, 39), Cost::default());
    ledger.check(&one).expect("one is left");
    ledger.spend(&one, tokens(1, 0), Cost::default());
    let spent = ledger.check(&one).expect_err("nothing is left");
    assert_eq!(spent.what, "100 tokens");
    assert!(spent.retry_after.as_secs() <= 24 * 60 * 60);
    ledger.check(&other).expect("it has spent nothing");
}

#[test]
fn money_runs_out_too() {
    let ledger = Ledger::in_memory(DailyBudget { tokens: None, cost: Some(Cost::dollars(0.01)) });
    let one = tenant();
    ledger.spend(&one, tokens(1, 1), Cost::dollars(0.01));
    assert_eq!(ledger.check(&one).expect_err("it is spent").what, "0.01 dollars");
}

#[test]
fn a_restart_forgets_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let (file, one) = (place.path().join("spending.json"), tenant());
    let budget = DailyBudget { tokens: Some(10), cost: None };
    let ledger = Ledger::open(budget, file.clone()).expect("a new book");
    ledger.spend(&one, tokens(4, 6), Cost::dollars(1.0));
    drop(ledger);
    let ledger = Ledger::open(budget, file.clone()).expect("the same book");
    ledger.check(&one).expect_err("it is spent");
    assert_eq!(ledger.today(&one).requests, 1);
    std::fs::write(&file, "{").expect("a file");
    Ledger::open(budget, file).expect_err("an empty book would be a gift");
}
