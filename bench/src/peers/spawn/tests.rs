//! The driver starts real interpreters, and reports their output and failures.

use serde_json::json;

use super::{PROGRAM, Plan, Spawner};

fn spawner() -> Spawner {
    let path = std::env::vars().filter(|(name, _)| name == "PATH").collect();
    Spawner::new(Plan {
        version: String::new(),
        command: vec![PROGRAM.to_owned()],
        environment: path,
        interpreter: "python3".to_owned(),
        container: None,
    })
}

#[test]
fn new_process_prints_and_is_timed() {
    let answer = spawner().answer(&json!({"do": "fresh", "code": "print(1)"})).unwrap();
    assert_eq!(answer["output"], "1\n");
    assert!(answer["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn session_keeps_its_variables_until_it_is_closed() {
    let mut spawner = spawner();
    let session = spawner.answer(&json!({"do": "open"})).unwrap()["session"].clone();
    let mut run =
        |code: &str| spawner.answer(&json!({"do": "run", "session": session, "code": code}));
    run("x = 'a\\nb'").unwrap();
    assert_eq!(run("print(x)").unwrap()["output"], "a\nb\n");
    spawner.answer(&json!({"do": "close", "session": session})).unwrap();
    let error = spawner.answer(&json!({"do": "run", "session": session, "code": ""})).unwrap_err();
    assert_eq!(error.to_string(), "no such session");
}

#[test]
fn crowds_and_rates_count_what_ran() {
    let mut spawner = spawner();
    let crowd = spawner.answer(&json!({"do": "crowd", "count": 3, "code": "print(1)"})).unwrap();
    assert!(crowd["seconds"].as_f64().unwrap() > 0.0);
    let request = json!({"do": "rate", "clients": 2, "for": 0.01, "code": "print(1)"});
    assert!(spawner.answer(&request).unwrap()["count"].as_u64().unwrap() >= 2);
}

#[test]
fn failure_is_reported_by_its_last_words() {
    let error = spawner().answer(&json!({"do": "fresh", "code": "1 / 0"})).unwrap_err();
    assert_eq!(error.to_string(), "ZeroDivisionError: division by zero");
}
