"""Each site in a network of its own: namespaces joined to this machine by a bridge."""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType
from typing import Self

import pytest


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Networks:
    """A bridge with the server's address, and a namespace for each site with a cable to it."""

    def __init__(self, sites: int) -> None:
        if os.geteuid() != 0 or not shutil.which("ip"):
            pytest.skip("network namespaces need root and iproute2")
        own = os.getpid()
        # 198.18.0.0/15 is set aside for tests of networks (RFC 2544): nobody's real addresses.
        self._network = f"198.18.{own % 250}"
        self.host = f"{self._network}.1"
        self._bridge = f"aagb{own}"[:15]
        self.names = [f"aaggff-{own}-{site}" for site in range(sites)]
        self._cables = [f"aag{own % 1_000_000}s{site}" for site in range(sites)]

    def __enter__(self) -> Self:
        try:
            ip("link", "add", self._bridge, "type", "bridge")
            ip("address", "add", f"{self.host}/24", "dev", self._bridge)
            ip("link", "set", self._bridge, "up")
            for site, (name, cable) in enumerate(zip(self.names, self._cables)):
                ip("netns", "add", name)
                ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("link", "set", cable, "master", self._bridge, "up")
                ip("-n", name, "address", "add", f"{self._network}.{site + 2}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except OSError as error:
            self.remove()
            pytest.skip(f"no network namespaces here: {error}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Namespaces, cables and bridge, as far as they are there."""
        for words in (
            *(("link", "delete", cable) for cable in self._cables),
            *(("netns", "delete", name) for name in self.names),
            ("link", "delete", self._bridge),
        ):
            subprocess.run(["ip", *words], capture_output=True, check=False)

    def inside(self, site: int) -> list[str]:
        """Put before a command, it runs in the site's network."""
        return ["ip", "netns", "exec", self.names[site]]

    def cut_off(self, site: int) -> None:
        """Pull the site's cable."""
        ip("link", "set", self._cables[site], "down")

    def join(self, site: int) -> None:
        """Put it back."""
        ip("link", "set", self._cables[site], "up")
