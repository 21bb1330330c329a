"""Fixtures of the end-to-end tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def babyllama() -> Path:
    """Folder of the BabyLlama checkpoint, test data that is not part of the project."""
    default = Path(__file__).parents[3] / "shared" / "models" / "babyllama"
    folder = Path(os.environ.get("HEADRACE_BABYLLAMA", default))
    if not folder.is_dir():
        pytest.skip(f"no checkpoint at {folder}")
    return folder
