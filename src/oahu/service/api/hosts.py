"""Names of machines, as they are listened at and as requests name them."""

from __future__ import annotations

from ipaddress import ip_address

from oahu.service.settings import Settings

__all__ = ["how_others_reach", "is_loopback", "name_of"]


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("127.example.com")
    (True, False, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def how_others_reach(settings: Settings) -> str | None:
    """By what other machines reach a service, directly or through a proxy; None if they do not.

    >>> how_others_reach(Settings(host="0.0.0.0")), how_others_reach(Settings(host="127.0.0.1"))
    ('Listening at 0.0.0.0', None)
    """
    if not is_loopback(settings.host):
        return f"Listening at {settings.host}"
    if settings.trusted_hosts:
        return f"Being known as {settings.trusted_hosts[0]} (OAHU_TRUSTED_HOSTS)"
    return "Being behind HTTPS (OAHU_HTTPS)" if settings.https else None


def name_of(host: str) -> str:
    """The name in a ``Host`` header, without the port.

    >>> name_of("Example.com:8000"), name_of("[::1]:8000"), name_of("[::1]")
    ('example.com', '::1', '::1')
    """
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name.removeprefix("[").removesuffix("]").lower()
