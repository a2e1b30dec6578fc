//! Labelled texts: what must be found, and what must not.

use silica_policy::{Action, Policy, Preset};

struct Sample {
    label: String,
    code: String,
}

/// Splits a set into labelled texts; the text before the first label describes the set.
fn samples(set: &str) -> Vec<Sample> {
    let parts = set.split("\n### ").skip(1);
    let sample = |part: &str| {
        let (label, code) = part.split_once('\n').expect("a label and code");
        Sample { label: label.to_owned(), code: code.to_owned() }
    };
    parts.map(sample).collect()
}

#[test]
fn every_labelled_violation_of_strict_is_found() {
    let policy = Policy::preset(Preset::Strict);
    let samples = samples(include_str!("../sets/strict.txt"));
    assert!(samples.len() >= 140, "{} samples", samples.len());
    let mut missed = Vec::new();
    for Sample { label, code } in &samples {
        let report = policy.check(&code.replace('␀', "\0"));
        let (rules, _) = label.split_once(" (").expect("rules and what it tries");
        for rule in rules.split(' ') {
            let found = report.findings.iter().any(|finding| finding.rule == rule);
            if !found || report.verdict != Action::Block {
                let found: Vec<_> = report.findings.iter().map(|f| &f.rule).collect();
                missed.push(format!("{label}: {rule} is not in {found:?}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_module_by_its_name_is_no_attribute() {
    let report = Policy::preset(Preset::Strict).check("import os\nos.remove('a')\n");
    let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(rules, ["import", "file"]);
}

#[test]
fn ordinary_use_of_the_allowed_modules_is_allowed() {
    let code = r#"
from __future__ import annotations
import collections.abc, datetime as dt, decimal, fractions, functools, itertools, json, math as m
import random, re, statistics, string, textwrap
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import date, timedelta
from functools import lru_cache, reduce
from statistics import mean

Point = namedtuple("Point", "x y")
p = Point(1, 2)._replace(x=3)
print(p._asdict(), Point._fields, p.x)

class Stack:
    def __init__(self):
        self._items = []
        self.numbers, self.re, self.random, self.math, self.operator = [], 1, 2, 3, "+"
    def push(self, other):
        self._items.append(other)
        return self.numbers, self.re, self.random, self.math, self.operator, other._items

@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

try:
    json.loads("{")
except json.decoder.JSONDecodeError as error:
    print(error.msg)
found = re.match(r"(?P<a>\w+)", "abc")
print(found.group("a"), found.re, re.compile("x").pattern, re.IGNORECASE, m.pi, random.random())
print(datetime_now := dt.datetime.now().time(), dt.time(1, 2), date.today() + timedelta(days=1))
print(isinstance([], collections.abc.Sequence), Counter("abca").most_common(1), mean([1, 2]))
print(functools.partial(pow, 2)(3), list(itertools.islice(itertools.count(), 3)))
print(string.ascii_letters, string.Template("$a").substitute(a=1), textwrap.dedent(" a"))
print(decimal.Decimal("1.1"), fractions.Fraction(1, 3), statistics.NormalDist(0, 1).cdf(0))
print(reduce(lambda a, b: a + b, [1, 2]), OrderedDict(a=1), defaultdict(list), deque([1]), fib(10))
"#;
    let report = Policy::preset(Preset::Strict).check(code);
    let found: Vec<_> = report.findings.iter().map(|it| (it.line, it.headline())).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn ordinary_analysis_raises_no_alarm_under_data() {
    let policy = Policy::preset(Preset::Data);
    let samples = samples(include_str!("../sets/ordinary.txt"));
    assert!(samples.len() >= 200, "{} samples", samples.len());
    let mut alarms = Vec::new();
    for Sample { label, code } in &samples {
        let report = policy.check(code);
        if let Some(finding) = report.findings.first() {
            alarms.push(format!("{label}: {} at line {}", finding.headline(), finding.line));
        }
    }
    // One in a hundred; a warning counts as an alarm too.
    let most = samples.len() / 100;
    assert!(alarms.len() <= most, "{} of {}:\n{}", alarms.len(), samples.len(), alarms.join("\n"));
}
