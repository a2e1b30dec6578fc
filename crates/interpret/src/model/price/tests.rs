//! Prices as operators write them.

use super::{Cost, Price, PriceError, Tokens};

#[test]
fn the_tutorials_request_costs_what_the_tutorial_says() {
    let price: Price = "3/15".parse().expect("a price");
    let cost = price.of(Tokens { input: 500, output: 200 });
    assert_eq!(cost, Cost::dollars(0.0045));
    assert!((cost.as_dollars() - 0.0045).abs() < 1e-12);
    assert_eq!(price.to_string(), "3/15");
}

#[test]
fn what_is_no_price_is_refused() {
    for text in ["", "3", "3/", "/3", "-1/2", "1/nan", "1/inf", "1/2/3", "a/b", "1/1e99"] {
        assert_eq!(text.parse::<Price>(), Err(PriceError), "{text}");
    }
}

#[test]
fn no_number_of_tokens_overflows() {
    let price: Price = "100000/100000".parse().expect("a price");
    let cost = price.of(Tokens { input: u64::MAX, output: u64::MAX });
    assert_eq!(cost.0, u64::MAX);
}
