"""What Flower and Ray are told before they are imported: call nobody, listen to nobody."""

from __future__ import annotations

import os

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Flower calls nobody, and does not build an environment a run."""

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""One machine is all the cluster there is, so Ray listens on the loopback device alone."""


def be_quiet() -> None:
    """Set what is not set already; both read it when they are imported."""
    for name, value in (QUIET | LOOPBACK).items():
        os.environ.setdefault(name, value)
