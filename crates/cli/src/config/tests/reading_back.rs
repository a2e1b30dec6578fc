//! What is printed reads back as what it was, and the documents say what the table says.

use std::collections::BTreeMap;

use expect_test::expect_file;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use toml::de::DeValue;

use super::{file, load};
use crate::config::document;
use crate::config::flags::ServeFlags;
use crate::config::keys::{Key, keys};
use crate::config::load::Draft;
use crate::config::origin::Origin;
use crate::config::raw_value::RawValue;
use crate::config::settings::Settings;

/// Reads a text that has no unknown keys and no wrong values, though maybe contradictions.
fn read(text: &str) -> Draft {
    let mut draft = Draft::default();
    draft.take_file(&file(text));
    assert_eq!(draft.problems, [], "{text}");
    draft
}

#[test]
fn default_file_says_exactly_the_defaults() {
    let text = document::file(&Settings::default());
    let loaded = load(&text, &[], &ServeFlags::default()).unwrap();
    assert_eq!(loaded.settings, Settings::default());
    for key in keys() {
        let unsaid = (key.write)(&Settings::default()).toml().is_none() || key.path == "inputs";
        let said = matches!(loaded.origin(key.path), Origin::File(..));
        assert!(said || unsaid, "{} is not in the file", key.path);
    }
    assert_eq!(text.lines().find(|line| line.chars().count() > 100), None);
}

#[test]
fn examples_in_the_default_file_can_be_used() {
    let text = document::file(&Settings::default());
    let is_example =
        |line: &&str| keys().filter_map(|key| key.example).any(|example| line.ends_with(example));
    let examples = text.lines().filter(|line| line.starts_with("# ")).filter(is_example);
    assert_eq!(examples.count(), 19);
    let used: Vec<&str> = text
        .lines()
        .map(|line| if is_example(&line) { line.trim_start_matches("# ") } else { line })
        .collect();
    let settings = load(&used.join("\n"), &[], &ServeFlags::default()).unwrap().settings;
    assert!(settings.public_url.is_some() && settings.tls.key.is_some());
    assert_eq!(settings.inputs.len(), 1);
}

#[test]
fn page_of_the_documentation_is_up_to_date() {
    expect_file!["../../../../../docs/reference/configuration.md"].assert_eq(&document::page());
}

/// Something that some key may take, as TOML.
fn literal() -> impl Strategy<Value = String> {
    let quoted = |text: String| toml::Value::String(text).to_string();
    let pattern = |pattern: &str| prop::string::string_regex(pattern).unwrap().boxed();
    let word = pattern("[a-z][a-z0-9-]{0,12}");
    let address = prop_oneof![
        word.clone(),
        any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|address| format!("[{address}]")),
    ]
    .boxed();
    let listen = (address.clone(), any::<u16>()).prop_map(|(host, port)| format!("{host}:{port}"));
    let origin = listen.clone().prop_map(|listen| format!("https://{listen}"));
    let path = pattern("(/[ -~é\"'\\\\]{1,8}){1,3}");
    let choice = prop::sample::select(vec![
        "text",
        "json",
        "error",
        "trace",
        "full",
        "digest",
        "strict",
        "data",
        "always",
        "anthropic",
        "openai",
        "no",
        "bearer",
        "list",
        "open",
    ]);
    let text = prop_oneof![
        word.clone(),
        path.clone(),
        address,
        listen,
        origin.clone(),
        (origin, path).prop_map(|(origin, path)| format!("{origin}{path}")),
        choice.prop_map(str::to_owned),
        pattern("[a-z\\\\d+*.\"' \\[\\]#]{1,12}"),
        (0..5000_u64, pattern("[KMG]")).prop_map(|(number, unit)| format!("{number}{unit}")),
        pattern("[0-9]{1,2}/[0-9]{1,2}"),
        pattern("\\PC{0,16}"),
    ];
    let number = prop_oneof![
        (0..2000_u64).prop_map(|number| number.to_string()),
        (0..10_000_000_000_u64).prop_map(|number| number.to_string()),
        (0..10_000_000_u64).prop_map(|millis| format!("{:?}", millis as f64 / 1000.0)),
    ];
    let truth = any::<bool>().prop_map(|truth| truth.to_string());
    let single = prop_oneof![4 => number, 12 => text.prop_map(quoted), 1 => truth].boxed();
    let list = prop::collection::vec(single.clone(), 0..3)
        .prop_map(|items| format!("[{}]", items.join(", ")));
    let table = prop::collection::btree_map(word, single.clone(), 0..3).prop_map(|entries| {
        let entry = |(name, value)| format!("{name} = {value}");
        let entries: Vec<String> = entries.into_iter().map(entry).collect();
        format!("{{ {} }}", entries.join(", "))
    });
    prop_oneof![4 => single, 1 => list, 1 => table]
}

/// How many literals are offered to the keys.
const OFFERS: usize = 96;

/// Settings in which each key has the first of some literals that it takes, if it takes one. Each
/// key begins with another literal.
fn settings() -> impl Strategy<Value = Settings> {
    let offers = prop::collection::vec(literal(), OFFERS);
    offers.prop_map(|offers| {
        let given = |offer: &String| RawValue::from_toml(&DeValue::parse(offer).unwrap(), None);
        let offers: Vec<RawValue> = offers.iter().map(given).collect();
        let mut settings = Settings::default();
        for (index, key) in keys().enumerate() {
            let mut in_turn = offers.iter().cycle().skip(index).take(OFFERS);
            in_turn.find(|offer| (key.read)(&mut settings, offer).is_ok());
        }
        settings
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn settings_print_and_read_back(settings in settings()) {
        let text = document::file(&settings);
        prop_assert_eq!(&read(&text).settings, &settings, "{}", text);
        // Once more, each value on its own, as the table of `silica config` shows it.
        let shown = keys().filter_map(|key| {
            Some(format!("{} = {}\n", key.path, (key.write)(&settings).toml()?))
        });
        let text: String = shown.collect();
        prop_assert_eq!(&read(&text).settings, &settings, "{}", text);
    }
}

/// The property above means nothing for a key that never takes one of the literals.
#[test]
fn literals_reach_every_key() {
    let mut runner = TestRunner::deterministic();
    let mut left: BTreeMap<&str, &Key> = keys().map(|key| (key.path, key)).collect();
    let default = Settings::default();
    for _ in 0..100 {
        let settings = settings().new_tree(&mut runner).unwrap().current();
        left.retain(|_, key| (key.write)(&settings) == (key.write)(&default));
        if left.is_empty() {
            return;
        }
    }
    panic!("never changed: {:?}", left.keys());
}
