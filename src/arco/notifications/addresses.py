"""Which addresses a webhook may not reach unless its channel allows it.

A URL comes from the configuration, and is called by a process inside the network: it must not give
access to services that trust the network.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

_INSIDE: Final = (".localhost", ".local", ".internal", ".localdomain")
_PUBLIC: Final = ipaddress.ip_network("2000::/3")
"""All of IPv6 that the public network has; site-local and translated addresses are outside."""
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def private_address(host: str) -> str:
    """Why a host is not public, by its name; empty if it may be."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(_INSIDE):
        return "a name of this machine or network"
    address = _literal(name)
    return "" if address is None else not_public(address)


def not_public(address: Address) -> str:
    """The kind of an address that is not public; empty for a public one."""
    address = _inner(address)
    if address.is_loopback or address.is_unspecified:
        return "a loopback address"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast:
        return "a multicast address"
    public = address.is_global and (address.version == 4 or address in _PUBLIC)
    return "" if public else "a private address"


def _literal(host: str) -> Address | None:
    """An address, also as `2130706433`, `0x7f.1` and `[::1]` write it; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo
    inner = address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)
    return inner or address
