"""Settings that earlier versions had, so that runs of those versions are read.

A removed setting is dropped if it has the value that the code still means. Another value is dropped with a warning if
it changed only how fast or how often something is done; if it changed what the model computes, or what training would
compute next, the run is refused.
"""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

from minitf.config.options import shown
from minitf.errors import UserError

LAST_VERSION = "0.1.0"
"""The last version that has these settings."""
SPLITS = ("train", "valid")
ANY = object()
"""A value that no longer means anything, whatever it is."""


REMOVED: dict[str, tuple[Any, str]] = {
    "allow_config_edits": (ANY, "nothing"),
    "errors": ("strict", "training"),
    "graphs": (None, "nothing"),
    "init_digest": (ANY, "nothing"),
    "model.attention": ("scaled-dot-product", "model"),
    "model.kernel_width": (ANY, "nothing"),
    "model.mixing": ("self-attention", "model"),
    "model.neighbourhood": (ANY, "nothing"),
    "init_weights": (None, "nothing"),  # the run has started
    "on_divergence": ("stop", "nothing"),
    "rank_timeout": (ANY, "nothing"),
    "reduce_dtype": ("full", "training"),
    "valid_beam": (1, "nothing"),
    "valid_bleu_every": (None, "nothing"),
}
"""The removed settings by name, `field` or `section.field`: the only value that is still meant, and what another one
changes: the model, its further training, or nothing."""

REMOVED_FLAGS = {
    "--shortlist": "omit it: every piece of the vocabulary is searched",
    "--checkpoint": "load one checkpoint in Python: Translator.load(run, checkpoint=STEP)",
    "--beta": "set it in the run: minitf train --set beta=0",
    "--resumable": "copy the whole directory of the run",
    "--alignment": "give the text to minitf align, or use additions.decoding.attention.align",
    **dict.fromkeys(
        ("--sample", "--temperature", "--top-k", "--top-p", "--seed"), "give the text to minitf sample, which draws it"
    ),
    **{
        f"--parsing.{name}": f"give --{name} to minitf parse prepare"
        for name in ("trees", "valid-trees", "test-trees", "tags", "form")
    },
}
"""Flags that earlier versions had, each with what to do."""
REMOVED_PRESETS = {
    "base-pre-norm": "--preset base --model.norm pre",
    "base-concatenated-sinusoids": "--preset base --set model.positions=sinusoidal-concatenated",
    "base-attention-dropout": "--preset base --set model.attention_dropout=0.1",
    "base-relu-dropout": "--preset base --set model.activation_dropout=0.1",
    "tensor2tensor-1.0.3": "--preset base --set model.positions=sinusoidal-concatenated",
}
"""Presets that earlier versions had, each with what to give in its place."""


def without_removed(
    plain: dict[str, Any], *, resuming: bool, warn: Callable[[str], object], run: Path = Path()
) -> dict[str, Any]:
    """Return the content of a config.json without the settings that earlier versions had.

    run: the directory of the run
    resuming: whether the run is to be trained further

    Raises: UserError for a value that changes what the model, or the training to be resumed, computes
    """
    if not isinstance(plain, dict):
        return plain
    kept = {name: {**value} if isinstance(value, dict) else value for name, value in plain.items()}
    if kept.get("save_every_unit") == "minutes":
        kept |= {"save_every": 1_500, "save_every_unit": "updates"}
        warn("checkpoints at intervals of minutes are no longer written: the run saves every 1,500 updates")
    if kept.get("precision") == "bf16" and kept.get("device") == "cpu" and (kept.get("devices") or "cpu")[:3] == "cpu":
        kept["precision"] = "float32"  # in which such a run always kept its weights, and translated on a CPU
        if resuming:
            warn(f"products in bf16 on a CPU went with minitf {LAST_VERSION}: training goes on in float32")
    kept.pop("parsing", None)
    if kept.pop("task", "translation") == "parsing":  # a translation of words into tokens of trees
        texts = {split: [f"{run}/data/treebank/{split}.{side}" for side in ("words", "tokens")] for split in SPLITS}
        kept |= {**texts, "bleu_tokenize": "none"}
        warn(f"the run writes trees as tokens; minitf parse trees {quote(str(run))} writes trees")
    ignored = []
    for name, (meant, changes) in REMOVED.items():
        section, _, field = name.rpartition(".")
        place = kept.get(section) if section else kept
        if not isinstance(place, dict) or field not in place:
            continue
        value = place.pop(field)
        if meant is ANY or value == meant:
            continue
        if changes == "model" or (changes == "training" and resuming):
            raise UserError(
                f"{name}={shown(value)} is a setting of earlier versions that this version cannot compute (it always "
                f"has {shown(meant)}); use the run with minitf {LAST_VERSION}"
            )
        if changes == "nothing":
            ignored.append(f"{name}={shown(value)}")
    if ignored:
        warn(f"settings of an earlier version have no effect any more: {', '.join(ignored)}")
    return kept
