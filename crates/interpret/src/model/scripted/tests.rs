//! Which turn answers which request.

use super::super::{IgnoreDeltas, Message, ModelError, Request, Stop};
use super::{ScriptError, Scripted};

fn request(text: &str) -> Request {
    Request {
        model: "script".to_owned(),
        system: String::new(),
        messages: vec![Message::user(text)],
        tools: Vec::new(),
        tokens_max: 1,
    }
}

#[tokio::test]
async fn turns_with_a_condition_stay_and_the_others_are_used_up() {
    let text = "[[turn]]\nwhen = 'sum'\ntext = 'a'\n[[turn]]\ntext = 'b'\ncode = '1'\n";
    let script = Scripted::parse(text).expect("a script");
    for _ in 0..2 {
        let answer = script.ask(&request("a sum"), &mut IgnoreDeltas).await.expect("a turn");
        assert_eq!((answer.text().as_str(), answer.stop), ("a", Stop::Done));
    }
    let answer = script.ask(&request("other"), &mut IgnoreDeltas).await.expect("a turn");
    assert_eq!(
        (answer.text().as_str(), answer.stop, answer.calls().count()),
        ("b", Stop::Tools, 1)
    );
    let ended = script.ask(&request("other"), &mut IgnoreDeltas).await;
    assert!(matches!(ended, Err(ModelError::ScriptEnded)));
}

#[test]
fn a_file_with_anything_else_in_it_is_refused() {
    for text in ["", "turn = 3", "[[turn]]\ntext = 'a'\ntemperature = 1", "[[turn"] {
        assert!(matches!(Scripted::parse(text), Err(ScriptError::Syntax(_))), "{text}");
    }
    let long = "[[turn]]\n".repeat(10_001);
    assert!(matches!(Scripted::parse(&long), Err(ScriptError::TooLong)));
}
