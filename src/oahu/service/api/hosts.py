"""Names of machines, as they are listened at and as requests name them."""

from __future__ import annotations

from ipaddress import ip_address

__all__ = ["is_loopback", "name_of"]


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


def name_of(host: str) -> str:
    """The name in a ``Host`` header, without the port.

    >>> name_of("Example.com:8000"), name_of("[::1]:8000"), name_of("[::1]")
    ('example.com', '::1', '::1')
    """
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name.removeprefix("[").removesuffix("]").lower()
