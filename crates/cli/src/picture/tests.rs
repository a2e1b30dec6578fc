//! Which terminal gets what.

use super::{PICTURE_BYTES_MAX, Protocol};

#[test]
fn terminals_are_known_by_their_names() {
    assert_eq!(Protocol::named("xterm-kitty", "", ""), Some(Protocol::Kitty));
    assert_eq!(Protocol::named("xterm-256color", "ghostty", ""), Some(Protocol::Kitty));
    assert_eq!(Protocol::named("xterm", "", "3"), Some(Protocol::Kitty));
    assert_eq!(Protocol::named("xterm", "iTerm.app", ""), Some(Protocol::Iterm));
    assert_eq!(Protocol::named("xterm", "Apple_Terminal", ""), None);
    assert_eq!(Protocol::named("dumb", "iTerm.app", "3"), None);
}

#[test]
fn a_picture_is_cut_as_the_protocol_wants() {
    let shown = Protocol::Kitty.show(&[0; 6144 / 4 * 3]);
    let parts: Vec<&str> =
        shown.trim_end().split("\x1b\\").filter(|part| !part.is_empty()).collect();
    assert_eq!(parts.len(), 2);
    assert!(parts[0].starts_with("\x1b_Ga=T,f=100,m=1;") && parts[1].starts_with("\x1b_Gm=0;"));
    assert_eq!(Protocol::Iterm.show(b"png"), "\x1b]1337;File=inline=1;size=3:cG5n\x07\n");
    assert_eq!(Protocol::Kitty.show(&vec![0; PICTURE_BYTES_MAX + 1]), "");
}
