//! The bar's arithmetic and what is done to messages.

use super::{Step, one_line, units};

#[test]
fn the_bar_goes_from_empty_to_full() {
    assert_eq!(units(Step::Skeleton, 0.0), 0);
    assert_eq!(units(Step::Interpreter, 0.5), 1500);
    assert_eq!(units(Step::Finish, 1.0), 7000);
}

#[test]
fn messages_cannot_steer_the_terminal() {
    assert_eq!(one_line("a\x1b[2Jb\nc"), "a [2Jb c");
    assert_eq!(one_line(&"x".repeat(500)).len(), 200);
}
