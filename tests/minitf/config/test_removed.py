"""Settings that earlier versions had."""

import json

import pytest

from minitf.app.train import read_train_args
from minitf.config import PRESETS
from minitf.config.options import to_plain
from minitf.config.removed import REMOVED, REMOVED_PRESETS, without_removed
from minitf.errors import UserError
from minitf.storage.run_directory import load_config

DEFAULTS = {
    "errors": "strict",
    "graphs": None,
    "init_digest": None,
    "init_weights": None,
    "on_divergence": "stop",
    "rank_timeout": 20.0,
    "reduce_dtype": "full",
    "valid_beam": 1,
    "valid_bleu_every": None,
}
"""As the last version with these settings wrote them."""


@pytest.fixture
def read(tmp_path):
    """Read the tiny preset with settings of an earlier version: (configuration, warnings)."""

    def read_with(**changes):
        path, warnings = tmp_path / "config.json", []
        resuming = changes.pop("resuming", True)
        path.write_text(json.dumps(to_plain(PRESETS["tiny"]) | changes))
        return load_config(path, resuming=resuming, warn=warnings.append), warnings

    return read_with


def test_values_that_are_still_meant_are_dropped(read):
    assert read(**DEFAULTS) == (PRESETS["tiny"], [])
    assert DEFAULTS.keys() <= REMOVED.keys()


def test_values_that_changed_no_result_are_dropped_with_one_warning(read):
    config, (warning,) = read(graphs=0, valid_beam=4, on_divergence="skip", rank_timeout=99)
    assert config == PRESETS["tiny"]
    assert warning.endswith(
        "config.json: settings of an earlier version have no effect any more: graphs=0, on_divergence='skip', "
        "valid_beam=4"
    )


@pytest.mark.parametrize("change", [{"reduce_dtype": "bfloat16"}, {"errors": "replace"}])
def test_values_that_changed_training_are_refused_by_training_alone(read, change):
    assert read(**change, resuming=False) == (PRESETS["tiny"], [])
    with pytest.raises(UserError, match=r"is a setting of earlier versions .* use the run with minitf 0"):
        read(**change)


def test_a_run_with_products_in_bfloat16_on_a_cpu_goes_on_in_float32(read):
    assert read(precision="bf16", kernels="numba", resuming=False)[0].precision == "float32"
    config, (warning,) = read(precision="bf16", kernels="numba")
    assert config.precision == "float32"
    assert warning.endswith("products in bf16 on a CPU went with minitf 0.1.0: training goes on in float32")
    assert read(precision="bf16", device="cuda")[0].precision == "bf16"


def test_minutes_between_checkpoints_become_updates(read):
    config, (warning,) = read(save_every=5, save_every_unit="minutes")
    assert (config.save_every, config.save_every_unit) == (1_500, "updates")
    assert "are no longer written" in warning


def test_nothing_is_changed_in_place():
    plain = {"graphs": 3, "model": {"layers": 2}}
    assert without_removed(plain, resuming=True, warn=print) == {"model": {"layers": 2}}
    assert plain == {"graphs": 3, "model": {"layers": 2}}


@pytest.mark.parametrize("name", REMOVED_PRESETS)
def test_what_stands_for_a_removed_preset_can_be_given(name):
    with pytest.raises(UserError, match="was removed; give --preset base"):
        read_train_args(["--preset", name])
    assert read_train_args(REMOVED_PRESETS[name].split()).config.preset == "base"


def test_flags_of_parsing_are_told():
    with pytest.raises(UserError, match=r"--parsing\.trees was removed; give --trees to minitf parse prepare"):
        read_train_args(["--parsing.trees", "x"])
