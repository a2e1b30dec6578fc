//! Keys that are pressed while somebody watches: each at once and none of them shown.

use std::io::{self, IsTerminal, Read};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::sync::mpsc;

/// The keyboard; the terminal is as it was when this is dropped.
pub(super) struct Keys {
    before: Termios,
    pressed: mpsc::UnboundedReceiver<u8>,
}

impl Keys {
    /// None without a terminal to press keys on.
    pub(super) fn listen() -> Option<Self> {
        let stdin = io::stdin();
        let before = stdin.is_terminal().then(|| tcgetattr(&stdin).ok()).flatten()?;
        let mut modes = before.clone();
        // Ctrl-C stays what it is.
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read waits for one key, whatever somebody else has set.
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Now, &modes).ok()?;
        let (sender, pressed) = mpsc::unbounded_channel();
        // It ends with the program at the latest; nobody waits for it.
        std::thread::spawn(move || {
            for byte in stdin.lock().bytes().map_while(Result::ok) {
                if sender.send(byte).is_err() {
                    return;
                }
            }
        });
        Some(Self { before, pressed })
    }

    /// Waits until somebody has seen enough.
    pub(super) async fn quit(&mut self) {
        while let Some(key) = self.pressed.recv().await {
            if matches!(key, b'q' | b'Q') {
                return;
            }
        }
        // There will be no more keys, but there are signals.
        std::future::pending::<()>().await;
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that has gone needs no tidying.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
