//! Which commands an installation leads to, by its files and its host.

use std::path::PathBuf;

use super::{HostServices, SystemCommand};

const HOST: HostServices = HostServices { systemd: true, apparmor: true, user: true };

fn lines(commands: &[SystemCommand]) -> Vec<String> {
    commands.iter().map(ToString::to_string).collect()
}

#[test]
fn an_installed_service_is_stopped_and_forgotten() {
    let files: Vec<PathBuf> =
        ["/usr/local/bin/silica", "/etc/systemd/system/silica.service", "/etc/apparmor.d/silica"]
            .map(PathBuf::from)
            .into();
    assert_eq!(
        lines(&HOST.after_install(&files)),
        ["apparmor_parser -r -W /etc/apparmor.d/silica"]
    );
    assert_eq!(
        lines(&HOST.before_removal(&files)),
        [
            "systemctl disable --now silica.service silica-unprivileged.service",
            "apparmor_parser -R /etc/apparmor.d/silica",
        ]
    );
    assert_eq!(lines(&HOST.after_removal(&files, false)), ["systemctl daemon-reload"]);
    assert_eq!(
        lines(&HOST.after_removal(&files, true)),
        ["systemctl daemon-reload", "userdel silica"]
    );
}

#[test]
fn nothing_is_run_for_a_program_alone_or_on_a_bare_host() {
    let program: Vec<PathBuf> = vec!["/usr/local/bin/silica".into()];
    let service: Vec<PathBuf> = vec!["/etc/systemd/system/silica.service".into()];
    let bare = HostServices { systemd: false, apparmor: false, user: false };
    for (host, files) in [(HOST, program), (bare, service)] {
        let commands = [
            host.after_install(&files),
            host.before_removal(&files),
            host.after_removal(&files, true),
        ];
        assert_eq!(lines(&commands.concat()), Vec::<String>::new());
    }
}
