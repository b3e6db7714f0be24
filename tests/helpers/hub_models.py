"""A model for the hub server of the tests, and a client that asks it alone."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import hub_server
import mask_models
import scripts

from checkpoints import hub, published


def write_model(folder: Path) -> Path:
    """Write a tiny masked LM as a Hugging Face directory; return it."""
    source = folder / "source"
    source.mkdir(parents=True)
    mask_models.write_model(source)
    scripts.run(
        scripts.load("convert_checkpoint"),
        input=source,
        output=folder / "hf",
        output_format="huggingface",
    )
    lines = (folder / "hf" / published.VOCAB_NAME).read_text().splitlines()
    parts = {
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"vocab": {line: i for i, line in enumerate(lines)}},
    }
    text = json.dumps(parts)
    (folder / "hf" / published.TOKENIZER_NAME).write_text(text)
    return folder / "hf"


@contextlib.contextmanager
def client_of(
    server: hub_server.HubServer | str, cache: Path, **variables: str
) -> Iterator[None]:
    """Import the client anew: it reads its variables when it is imported.

    What it imports stays imported. With a second httpcore2, say, the classes
    of errors would not be those that httpx2 knows.

    Args:
        server: whose models are seen, or an address.
        cache: HF_HOME.
        **variables: further environment variables.
    """
    url = server if isinstance(server, str) else server.url
    environment = {"HF_ENDPOINT": url, "HF_HOME": str(cache), **variables}
    before = _remove_client()
    hub.fetch.cache_clear()
    try:
        with mock.patch.dict(os.environ, environment):
            yield
    finally:
        _remove_client()
        sys.modules.update(before)
        hub.fetch.cache_clear()


def _remove_client() -> dict[str, ModuleType]:
    """Forget the client's modules; return them by name."""
    names = [n for n in sys.modules if n.split(".")[0] == "huggingface_hub"]
    return {name: sys.modules.pop(name) for name in names}
