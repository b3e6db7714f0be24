"""A model for the hub server of the tests, and a client that asks it alone."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import hub_server

# With all it imports, which is not imported anew below.
import huggingface_hub.file_download
import mask_models
import scripts

from checkpoints import hub


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
    return folder / "hf"


@contextlib.contextmanager
def client_of(
    server: hub_server.HubServer | str, cache: Path, **variables: str
) -> Iterator[None]:
    """Import the client anew: it reads its variables when it is imported.

    Args:
        server: whose models are seen, or an address.
        cache: HF_HOME.
        **variables: further environment variables.
    """
    url = server if isinstance(server, str) else server.url
    assert huggingface_hub.file_download
    environment = {"HF_ENDPOINT": url, "HF_HOME": str(cache), **variables}
    others = {n: m for n, m in sys.modules.items() if not _is_client(n)}
    hub._fetch.cache_clear()
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.dict(sys.modules, others, clear=True),
    ):
        yield
    hub._fetch.cache_clear()


def _is_client(module: str) -> bool:
    return module.split(".")[0] == "huggingface_hub"
