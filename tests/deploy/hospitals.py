"""Heart's four hospitals twice: the generated app, and the local engine on what its record says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file

from aaggff import Federation
from aaggff.data import heart
from aaggff.deploy.template import new_app
from aaggff.federation.local import LocalTraining

SEED = 2


def make_app(folder: Path, *more: str) -> Path:
    """The app as `aaggff deploy new` writes it, with keys as its own script makes them."""
    app = new_app(folder / "app", "flower")
    subprocess.run([sys.executable, "make_keys.py", *more], cwd=app, check=True)
    return app


class AsRecorded:
    """Asks everybody; who did not answer is as the record says."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.dropped = {record["round"]: record["dropped"] for record in records}

    def sample(self, round: int) -> np.ndarray:
        return np.arange(len(heart.HOSPITALS))

    def answering(self, round: int, asked: np.ndarray) -> np.ndarray:
        return np.setdiff1d(asked, self.dropped[round])


def local_engine(records: list[dict[str, Any]]) -> Federation:
    """The local engine after the same rounds, with the same hospitals missing in each."""
    federation = Federation(
        heart.load(seed=SEED),
        "logistic",
        "aaggff-s",
        method_options={"cdf": "frechet"},
        local=LocalTraining(lr=0.01, decay=0.999, decay_every=2, batch_size=20, epochs=1),
        sampler=AsRecorded(records),
        seed=SEED,
    )
    for record in records:
        own = federation.step()
        assert own["clients"] == record["clients"]
        np.testing.assert_allclose(own["weights"], record["weights"], atol=1e-6)
        np.testing.assert_allclose(own["losses"], record["losses"], atol=1e-6)
    return federation


def assert_equal_to_local_engine(directory: Path, records: list[dict[str, Any]]) -> None:
    """Model and decision state on disk are what the local engine has after these rounds."""
    federation = local_engine(records)
    saved = load_file(directory / "checkpoint.safetensors")
    model = {name: value for name, value in saved.items() if name.startswith("model/")}
    own = federation.model.state_dict()
    assert model.keys() == {f"model/{name}" for name in own}
    for name, value in own.items():
        torch.testing.assert_close(
            torch.from_numpy(model[f"model/{name}"]), value, rtol=1e-6, atol=1e-6
        )
    for name, value in federation.decision_maker.state_dict().items():
        np.testing.assert_allclose(saved[f"decision/{name}"], value, atol=1e-6, err_msg=name)


def secrets_of(keys: Path) -> list[bytes]:
    """The lines that make a private key, of all there are."""
    lines = [line for key in keys.glob("*.key") for line in key.read_bytes().splitlines()]
    return [line for line in lines if len(line) > 30 and not line.startswith(b"-----")]


def holding(secrets: Iterable[bytes], folder: Path, *, but: Path) -> list[Path]:
    """Files under a folder in which one of the secrets stands."""
    secrets = list(secrets)
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and but not in path.parents:
            content = path.read_bytes()
            if any(secret in content for secret in secrets):
                found.append(path)
    return found
