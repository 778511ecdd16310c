"""Functions that parse host names, and detect whether other machines can connect to the service."""

from __future__ import annotations

from ipaddress import ip_address

from oahu.service.settings import Settings

__all__ = ["host_name", "is_loopback", "public_setting"]


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address, which only this machine can reach.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("127.example.com")
    (True, False, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def public_setting(settings: Settings) -> str | None:
    """Return the setting that lets other machines reach the service, or None if only this machine can reach it.

    Trusted host names and HTTPS count as such settings, because they imply that a proxy forwards requests from
    other machines.

    >>> public_setting(Settings(host="0.0.0.0")), public_setting(Settings(host="127.0.0.1"))
    ('host 0.0.0.0', None)
    """
    if not is_loopback(settings.host):
        return f"host {settings.host}"
    if settings.trusted_hosts:
        return f"OAHU_TRUSTED_HOSTS={settings.trusted_hosts[0]}"
    return "OAHU_HTTPS=true" if settings.https else None


def host_name(header: str) -> str:
    """Return the host name from a ``Host`` header, in lower case and without the port.

    >>> host_name("Example.com:8000"), host_name("[::1]:8000"), host_name("[::1]")
    ('example.com', '::1', '::1')
    """
    name = header if header.endswith("]") else header.rpartition(":")[0] or header
    return name.removeprefix("[").removesuffix("]").lower()
