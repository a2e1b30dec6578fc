//! The keys of the sections `network` and `secrets`.

use std::net::IpAddr;
use std::time::Duration;

use silica_domain::{Cidr, DenyRule, DnsName, NetworkError, NetworkMode, NetworkRule};

use super::{
    COUNT_MAX, ENTRIES_MAX, INPUT_NAME, Key, MILLISECOND, SECOND, SIZE_MAX, TIME_MAX, URL,
};
use crate::config::codec::{
    Bytes, Choice, Codec, List, Optional, PATH, Seconds, Table, Text, TextError, Whole,
};
use crate::config::settings::SecretSource;

/// The longest time that a connection is held for a person's answer.
const ASK_MAX: Duration = Duration::from_mins(10);
/// The longest time of a look-up.
const DNS_MAX: Duration = Duration::from_mins(1);

const MODE: Choice<NetworkMode> = Choice(&[
    ("none", NetworkMode::None),
    ("list", NetworkMode::List),
    ("open", NetworkMode::Open),
]);

pub(super) const NETWORK: &[Key] = &[
    key!("network.mode_max" => network.mode_max, MODE,
        "The most that a sandbox may ask for: no network, hosts that its rules name, or every public \
         host on ports 80 and 443. A sandbox that asks for nothing has none"),
    key!("network.allow" => network.allow,
        List { of: RULE, items_max: ENTRIES_MAX, separator: None },
        "What a sandbox may ask for if mode_max is list; any public host if empty"),
    key!("network.deny" => network.deny,
        List { of: DENIAL, items_max: ENTRIES_MAX, separator: None },
        "Hosts and ranges that no sandbox reaches, whatever else is allowed"),
    key!("network.private_allowed" => network.private_allowed,
        List { of: RANGE, items_max: ENTRIES_MAX, separator: Some(',') },
        "Ranges that are not public and may be reached all the same, such as 10.1.0.0/16; never the \
         server's own port"),
    key!("network.extra_roots" => network.extra_roots, Optional { of: PATH },
        "A PEM file of authorities that servers may be certified by, beside the public ones",
        Some("\"/etc/silica/roots.pem\"")),
    key!("network.upstream_proxy" => network.upstream_proxy, Optional { of: URL },
        "An HTTP proxy through which every connection goes", Some("\"http://proxy.example:3128\"")),
    key!("network.dns_timeout_seconds" => network.dns_timeout, Seconds(MILLISECOND..=DNS_MAX),
        "How long a look-up may take"),
    key!("network.ask_seconds" => network.ask, Seconds(MILLISECOND..=ASK_MAX),
        "How long a connection is held for a person's answer, where a sandbox asks for one"),
    key!("network.e2b_default" => network.e2b_default, MODE,
        "The network of a sandbox of E2B's clients whose request allows internet access or does not \
         speak of it"),
    key!("network.connections" => network.limits.connections, Whole(1..=COUNT_MAX),
        "Connections of one sandbox at a time"),
    key!("network.connections_per_second" => network.limits.connections_per_second,
        Whole(1..=COUNT_MAX), "New connections of one sandbox in a second"),
    key!("network.names" => network.limits.names, Whole(1..=COUNT_MAX),
        "Different host names that one sandbox looks up"),
    key!("network.bytes_up" => network.limits.bytes_up, Bytes(1..=SIZE_MAX),
        "Bytes that one sandbox sends to other machines in its life"),
    key!("network.bytes_down" => network.limits.bytes_down, Bytes(1..=SIZE_MAX),
        "Bytes that one sandbox receives from other machines in its life"),
    key!("network.bytes_per_second" => network.limits.bytes_per_second, Bytes(1..=SIZE_MAX),
        "Bytes of one sandbox in a second, both ways together"),
    key!("network.idle_seconds" => network.limits.idle, Seconds(SECOND..=TIME_MAX),
        "How long a connection may be silent"),
    key!("network.life_seconds" => network.limits.life, Seconds(SECOND..=TIME_MAX),
        "How long a connection may live"),
    key!("network.key_connections" => network.key_connections, Whole(1..=COUNT_MAX),
        "Connections of all sandboxes of one key at a time"),
    key!("network.server_connections" => network.server_connections, Whole(1..=COUNT_MAX),
        "Connections of all sandboxes at a time"),
    key!("network.hosts" => network.hosts,
        Table { name: NAME, of: ADDRESS, entries_max: ENTRIES_MAX },
        "Addresses of names, which are not looked up then", Some("\"db.internal\" = \"10.1.2.3\"")),
    key!("secrets" => network.secrets,
        Table { name: INPUT_NAME, of: SECRET, entries_max: ENTRIES_MAX },
        "Files with secrets that every key may use in its sandboxes and never see, each with the \
         hosts it may go to", Some("openai = \"/etc/silica/openai.key@api.openai.com\"")),
];

const RULE: Text<NetworkRule> = Text {
    allowed: "a rule, such as api.example.com, *.example.com or db.example.com:5432/tcp",
    read: |text| text.parse().map_err(|error| because(&error)),
    write: ToString::to_string,
};

const DENIAL: Text<DenyRule> = Text {
    allowed: "a host, a pattern of hosts or a range of addresses, such as *.bad.example",
    read: |text| text.parse().map_err(|error| because(&error)),
    write: ToString::to_string,
};

const RANGE: Text<Cidr> = Text {
    allowed: "a range of addresses, such as 10.1.0.0/16",
    read: |text| text.parse().map_err(|error| because(&error)),
    write: ToString::to_string,
};

const NAME: Text<DnsName> = Text {
    allowed: "a host name",
    read: |text| text.parse().map_err(|error| because(&error)),
    write: |name| name.as_str().to_owned(),
};

const ADDRESS: Text<IpAddr> = Text {
    allowed: "an address, such as 10.1.2.3",
    read: |text| text.parse().map_err(|_| TextError::NotAllowed),
    write: ToString::to_string,
};

const SECRET: Text<SecretSource> = Text {
    allowed: "the absolute path of a file, @, and hosts with commas between them",
    read: |text| {
        let (file, hosts) = text.rsplit_once('@').ok_or(TextError::NotAllowed)?;
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if !file.starts_with('/') || hosts.iter().any(String::is_empty) {
            return Err(TextError::NotAllowed);
        }
        Ok(SecretSource { file: file.into(), hosts })
    },
    write: |source| format!("{}@{}", source.file.display(), source.hosts.join(",")),
};

fn because(error: &NetworkError) -> TextError {
    TextError::Because(error.to_string())
}
