"""Download a model from the Hugging Face Hub, with the optional package huggingface_hub."""

from __future__ import annotations

import re
from pathlib import Path

from minitf.errors import UserError

PREFIX = "hf:"
FILES = [
    "config.json", "generation_config.json", "model.safetensors", "pytorch_model.bin", "vocab.json",
    "target_vocab.json", "source.spm", "target.spm",
]  # fmt: skip
NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@[\w.-]+)?", re.ASCII)


def downloaded(source: str) -> Path:
    """The folder of `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`, downloaded or from the Hub's cache.

    The environment variables of huggingface_hub apply: HF_ENDPOINT, HF_HOME, HF_TOKEN, HF_HUB_OFFLINE.

    Raises: UserError without huggingface_hub, for a name that is none, and where the download fails
    """
    name = source.removeprefix(PREFIX)
    if not NAME.fullmatch(name):
        raise UserError(
            f"{source!r} names no model of the Hub; write hf:OWNER/NAME, such as hf:Helsinki-NLP/opus-mt-en-de"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(
            f"{source} is downloaded with huggingface_hub, which is not installed; install this project's extra `hub`"
        ) from None
    repository, _, revision = name.partition("@")
    try:
        folder = Path(snapshot_download(repository, revision=revision or None, allow_patterns=FILES))
    except Exception as error:  # of the network and of the server, of many classes
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"cannot download {name}: {reason or type(error).__name__}; check the name and the connection"
        ) from error
    return folder
