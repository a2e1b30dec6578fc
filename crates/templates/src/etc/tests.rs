//! The skeleton made after a small made-up host.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use expect_test::expect;

use crate::{skeleton, tree};

fn listing(root: &Path) -> String {
    let mut lines = Vec::new();
    tree::walk(root, &mut |path, metadata| {
        let below = path.strip_prefix(root).expect("below").display();
        lines.push(if metadata.is_symlink() {
            format!("{below} -> {}", fs::read_link(path).expect("link").display())
        } else if metadata.is_dir() {
            format!("{below}/")
        } else {
            format!("{below}")
        });
        Ok(tree::Descend::Yes)
    })
    .expect("walk");
    lines.sort();
    lines.join("\n")
}

fn host(folder: &Path) {
    for name in ["usr/lib", "etc/alternatives", "etc/fonts/conf.d", "etc/ssl/certs", "lib64"] {
        fs::create_dir_all(folder.join(name)).expect("make");
    }
    symlink("usr/bin", folder.join("bin")).expect("link");
    symlink("/usr/bin/gawk", folder.join("etc/alternatives/awk")).expect("link");
    symlink("/opt/secret/tool", folder.join("etc/alternatives/tool")).expect("link");
    for name in ["etc/os-release", "etc/shadow", "etc/ssl/certs/ca.crt", "etc/fonts/fonts.conf"] {
        fs::write(folder.join(name), name).expect("write");
    }
}

#[test]
fn takes_the_hosts_shape_and_little_of_its_configuration() {
    let folder = tempfile::tempdir().expect("folder");
    let (root, machine) = (folder.path().join("root"), folder.path().join("host"));
    host(&machine);
    skeleton::create(&root, &machine).expect("made");
    // A second time over the first, as a resumed build does.
    skeleton::create(&root, &machine).expect("made again");
    expect![[r"
        bin -> usr/bin
        data/
        data/input/
        dev/
        etc/
        etc/alternatives/
        etc/alternatives/awk -> /usr/bin/gawk
        etc/bash.bashrc
        etc/fonts/
        etc/fonts/conf.d/
        etc/fonts/fonts.conf
        etc/group
        etc/hostname
        etc/hosts
        etc/nsswitch.conf
        etc/os-release
        etc/passwd
        etc/pki/
        etc/pki/tls/
        etc/pki/tls/cert.pem -> /opt/silica/trust/bundle.pem
        etc/pki/tls/certs/
        etc/pki/tls/certs/ca-bundle.crt -> /opt/silica/trust/bundle.pem
        etc/profile
        etc/protocols
        etc/resolv.conf
        etc/services
        etc/shells
        etc/ssl/
        etc/ssl/cert.pem -> /opt/silica/trust/bundle.pem
        etc/ssl/certs/
        etc/ssl/certs/ca-certificates.crt -> /opt/silica/trust/bundle.pem
        etc/timezone
        home/
        home/user/
        lib64/
        opt/
        opt/silica/
        proc/
        run/
        tmp/
        usr/
        var/
        var/tmp -> /tmp
        workspace/"]]
    .assert_eq(&listing(&root));
    expect![[r#"["/usr", "/lib64"]"#]].assert_eq(&format!("{:?}", skeleton::system_dirs(&machine)));
}
