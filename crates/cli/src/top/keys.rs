//! The keyboard of the live view: reads each key at once, without echo.

use std::io::{self, IsTerminal, Read};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::sync::mpsc;

/// The keyboard; dropping it restores the modes of the terminal.
pub(super) struct Keys {
    before: Termios,
    pressed: mpsc::UnboundedReceiver<u8>,
}

impl Keys {
    /// Starts to read keys; returns `None` if stdin is not a terminal.
    pub(super) fn listen() -> Option<Self> {
        let stdin = io::stdin();
        let before = stdin.is_terminal().then(|| tcgetattr(&stdin).ok()).flatten()?;
        let mut modes = before.clone();
        // Ctrl-C still sends SIGINT.
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read returns after one key, whatever the terminal was set to before.
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Now, &modes).ok()?;
        let (sender, pressed) = mpsc::unbounded_channel();
        // The thread is not joined; it ends with the program at the latest.
        std::thread::spawn(move || {
            for byte in stdin.lock().bytes().map_while(Result::ok) {
                if sender.send(byte).is_err() {
                    return;
                }
            }
        });
        Some(Self { before, pressed })
    }

    /// Waits until the user presses q.
    pub(super) async fn quit(&mut self) {
        while let Some(key) = self.pressed.recv().await {
            if matches!(key, b'q' | b'Q') {
                return;
            }
        }
        // Stdin is closed; only a signal can end the program now.
        std::future::pending::<()>().await;
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
