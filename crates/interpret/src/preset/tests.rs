//! Presets that are built in, and those that an operator adds.

use super::{DEFAULT, PresetError, PromptPresets, Shape};

#[test]
fn built_in_presets_are_there() {
    let presets = PromptPresets::default();
    let names: Vec<&str> = presets.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["data", "math", "program"]);
    assert_eq!(presets.get(DEFAULT).expect("the default").policy.policy().name(), "data");
    assert_eq!(presets.get("program").expect("programs").policy.policy().name(), "strict");
}

#[test]
fn an_operator_adds_and_replaces() {
    let mut presets = PromptPresets::default();
    let text = "description = 'x'\nprompt = ' be brief '\npolicy = 'open'\nshape = 'agent'\nrounds = 0\ntimeout_seconds = 1.5";
    presets.add("mine", text).expect("a preset");
    presets.add("data", text).expect("a preset in the place of another");
    let preset = presets.get("mine").expect("it was added");
    assert_eq!((preset.shape, preset.prompt.as_str()), (Shape::Agent, "be brief"));
    assert_eq!(presets.get("data").expect("it was replaced").prompt, "be brief");
}

#[test]
fn what_is_no_preset_is_refused() {
    let mut presets = PromptPresets::default();
    let good = "description = 'x'\nprompt = 'y'\npolicy = 'open'\n";
    for name in ["", "A", "a b", "../x"] {
        assert!(matches!(presets.add(name, good), Err(PresetError::Value(..))), "{name}");
    }
    for more in ["temperature = 1", "shape = 'other'", "rounds = -1"] {
        let added = presets.add("x", &format!("{good}{more}"));
        assert!(matches!(added, Err(PresetError::Syntax(..))), "{more}");
    }
    let text = "description = 'x'\nprompt = 'y'\npolicy = ''";
    assert!(matches!(presets.add("x", text), Err(PresetError::Value(..))));
    let text = format!("{good}timeout_seconds = -1");
    assert!(matches!(presets.add("x", &text), Err(PresetError::Value(..))));
    let long = format!("description = 'x'\npolicy = 'open'\nprompt = '{}'", "y".repeat(70_000));
    assert!(matches!(presets.add("x", &long), Err(PresetError::Value(..))));
}
