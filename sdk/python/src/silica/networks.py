"""What a sandbox may reach, what it reached, and the secrets it uses.

Each class parses itself from an answer (`parse`); none of them sends a request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Union

if TYPE_CHECKING:
    from datetime import datetime

    from silica.core.fields import Fields


class NetworkRule(TypedDict, total=False):
    """A rule that allows: a `host` or a `cidr`, and what connections to it may do."""

    host: str
    cidr: str
    ports: list[int]
    protocol: str
    methods: list[str]
    paths: list[str]
    secrets: list[str]
    websocket: bool


class NetworkOptions(TypedDict, total=False):
    """The network that a sandbox is to have; what is left out has the defaults of the server.

    `mode` is `none`, `list` (the default: what the rules allow) or `open` (every public host on
    ports 80 and 443). A rule is a `NetworkRule` or text such as `api.example.com` or
    `db.example.com:5432/tcp`.
    """

    mode: str
    presets: list[str]
    allow: list[Union[str, NetworkRule]]
    deny: list[Union[str, NetworkRule]]
    secrets: list[str]
    ask: bool
    expose: list[int]
    limits: dict[str, float]


@dataclass(frozen=True, slots=True)
class NetworkUsage:
    """What a sandbox has used of its network."""

    connections: int
    connections_open: int
    denials: int
    bytes_up: int
    bytes_down: int
    limit_hit: bool

    @classmethod
    def parse(cls, fields: Fields) -> NetworkUsage:
        """Parses `usage` of a network."""
        return cls(
            connections=fields.whole("connections", 0),
            connections_open=fields.whole("connections_open", 0),
            denials=fields.whole("denials", 0),
            bytes_up=fields.whole("bytes_up", 0),
            bytes_down=fields.whole("bytes_down", 0),
            limit_hit=fields.flag("limit_hit", default=False),
        )


@dataclass(frozen=True, slots=True)
class NetworkInfo:
    """The network of a sandbox. Each rule of `allow` and `deny` names its `origin`."""

    mode: str
    ask: bool
    allow: list[dict[str, Any]]
    deny: list[dict[str, Any]]
    approved: list[dict[str, Any]]
    expose: list[int]
    secrets: list[str]
    limits: dict[str, Any]
    usage: NetworkUsage

    @classmethod
    def parse(cls, fields: Fields) -> NetworkInfo:
        """Parses a network."""
        return cls(
            mode=fields.text("mode"),
            ask=fields.flag("ask", default=False),
            allow=fields.many("allow", _values),
            deny=fields.many("deny", _values),
            approved=fields.many("approved", _values),
            expose=fields.wholes("expose"),
            secrets=fields.texts("secrets"),
            limits=fields.object("limits"),
            usage=NetworkUsage.parse(fields.sub("usage")),
        )


@dataclass(frozen=True, slots=True)
class NetworkCheck:
    """What the rules say about a connection or request. It is true if it would be allowed.

    `ask` is true if a person would be asked. `rule` and `origin` name what allows it, `code` and
    `reason` why it is refused.
    """

    allowed: bool
    ask: bool
    rule: str | None
    origin: str | None
    code: str | None
    reason: str | None

    @classmethod
    def parse(cls, fields: Fields) -> NetworkCheck:
        """Parses the answer of `…/network/check`."""
        return cls(
            allowed=fields.flag("allowed", default=False),
            ask=fields.flag("ask", default=False),
            rule=fields.text_or_none("rule"),
            origin=fields.text_or_none("origin"),
            code=fields.text_or_none("code"),
            reason=fields.text_or_none("reason"),
        )

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection of a sandbox: where it went, what allowed or ended it, and its bytes.

    `kind` is `pass` (TLS from end to end), `intercept` (TLS that is read), `http` or `tcp`; `state`
    is `open`, `closed` or `refused`.
    """

    host: str
    port: int
    address: str | None
    kind: str
    state: str
    rule: str | None
    origin: str | None
    code: str | None
    message: str | None
    bytes_up: int
    bytes_down: int
    duration_ms: int
    request_count: int
    requests: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @classmethod
    def parse(cls, fields: Fields) -> Connection:
        """Parses a connection."""
        return cls(
            host=fields.text("host"),
            port=fields.whole("port"),
            address=fields.text_or_none("address"),
            kind=fields.text("kind"),
            state=fields.text("state"),
            rule=fields.text_or_none("rule"),
            origin=fields.text_or_none("origin"),
            code=fields.text_or_none("code"),
            message=fields.text_or_none("message"),
            bytes_up=fields.whole("bytes_up", 0),
            bytes_down=fields.whole("bytes_down", 0),
            duration_ms=fields.whole("duration_ms", 0),
            request_count=fields.whole("request_count", 0),
            requests=fields.many("requests", _values),
        )


@dataclass(frozen=True, slots=True)
class Denied:
    """A host that the network refused to a cell, with the reason. `port` is 0 for a look-up."""

    host: str
    port: int
    code: str
    message: str
    count: int

    @classmethod
    def parse(cls, fields: Fields) -> Denied:
        """Parses one of `denied`."""
        return cls(
            host=fields.text("host"),
            port=fields.whole("port", 0),
            code=fields.text("code"),
            message=fields.text("message", ""),
            count=fields.whole("count", 1),
        )

    def __str__(self) -> str:
        return f"{self.host}: {self.message}"


@dataclass(frozen=True, slots=True)
class CellNetwork:
    """What a cell did with the network of its sandbox, and the first of what was refused."""

    connections: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    denied: list[Denied] = field(default_factory=list)
    limit_hit: bool = False

    @classmethod
    def parse(cls, fields: Fields) -> CellNetwork:
        """Parses `network` of a cell."""
        return cls(
            connections=fields.whole("connections", 0),
            bytes_up=fields.whole("bytes_up", 0),
            bytes_down=fields.whole("bytes_down", 0),
            denied=fields.many("denied", Denied.parse),
            limit_hit=fields.flag("limit_hit", default=False),
        )


@dataclass(frozen=True, slots=True)
class SecretInfo:
    """A secret without its value. `offered` is true for one of the operator."""

    name: str
    hosts: list[str]
    places: list[str]
    env: str | None
    prefix: str | None
    inject: dict[str, Any] | None
    offered: bool
    created_at: datetime | None
    changed_at: datetime | None

    @classmethod
    def parse(cls, fields: Fields) -> SecretInfo:
        """Parses a secret."""
        return cls(
            name=fields.text("name"),
            hosts=fields.texts("hosts"),
            places=fields.texts("in"),
            env=fields.text_or_none("env"),
            prefix=fields.text_or_none("prefix"),
            inject=fields.object("inject") or None,
            offered=fields.flag("offered", default=False),
            created_at=fields.time_or_none("created_at"),
            changed_at=fields.time_or_none("changed_at"),
        )


@dataclass(frozen=True, slots=True)
class ExposedPort:
    """A port that can be reached from outside. `open` is true if a server listens there."""

    port: int
    open: bool
    url: str

    @classmethod
    def parse(cls, fields: Fields) -> ExposedPort:
        """Parses one of `ports`."""
        return cls(fields.whole("port"), fields.flag("open", default=False), fields.text("url"))


@dataclass(frozen=True, slots=True)
class Exposure:
    """The ports of a sandbox that can be reached from outside.

    With `every` all that can be exposed are, and `ports` is empty; with `public` no key is needed.
    """

    ports: list[ExposedPort]
    every: bool
    public: bool

    @classmethod
    def parse(cls, fields: Fields) -> Exposure:
        """Parses the answer of `…/ports`."""
        return cls(
            ports=fields.many("ports", ExposedPort.parse),
            every=fields.flag("every", default=False),
            public=fields.flag("public", default=False),
        )

    def at(self, base: str) -> Exposure:
        """Returns the same with complete URLs, below the URL of the server."""
        ports = [
            ExposedPort(one.port, one.open, base + one.url if one.url.startswith("/") else one.url)
            for one in self.ports
        ]
        return Exposure(ports, self.every, self.public)

    def url(self, port: int, fallback: str) -> str:
        """Returns the URL of a port; raises `ValueError` if it is not exposed."""
        for one in self.ports:
            if one.port == port:
                return one.url
        if self.every:
            return fallback
        raise ValueError(f"port {port} is not exposed; name it in `expose` of the network")


def _values(fields: Fields) -> dict[str, Any]:
    return fields.values
