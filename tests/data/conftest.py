"""Folders with real or made-up official files, never written to where they lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shared import shared


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stores that cannot lie beside the files go here, not into the user's cache."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


@pytest.fixture
def real(tmp_path: Path) -> Callable[[str], Path]:
    """`real(NAME)`: a data folder in which DIR/NAME links to the real files, entry by entry."""

    def link(name: str) -> Path:
        files = shared("data", name)
        folder = tmp_path / "real" / name
        folder.mkdir(parents=True)
        for file in files.iterdir():
            if not file.name.startswith("."):
                (folder / file.name).symlink_to(file)
        return tmp_path / "real"

    return link


@pytest.fixture(scope="session")
def small_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `save_pretrained` writes it: a narrow BERT of one layer, untrained."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("encoder")
    config = BertConfig(
        vocab_size=5_000,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=256,
    )
    BertModel(config).save_pretrained(folder)
    return folder
