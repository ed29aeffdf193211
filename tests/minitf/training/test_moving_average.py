"""The moving average follows its formula, leaves the weights alone, and goes on where it was."""

import numpy as np
import pytest

from minitf.config import TransformerConfig
from minitf.model.transformer import Transformer
from minitf.training.run import MovingAverage

CONFIG = TransformerConfig(layers=1, d_model=8, d_ff=16, heads=2, vocab_size=12)


@pytest.fixture
def model():
    return Transformer(CONFIG, seed=1, dtype=np.float64)


def shaken(model, rng):
    for parameter in model.parameters():
        parameter.data[...] += rng.normal(size=parameter.shape)


@pytest.mark.parametrize("decay", [0.1, 0.5, 0.999])
def test_the_formula_by_hand(model, decay):
    """Every weight by itself, as a weighted sum of all it has been."""
    rng = np.random.default_rng(0)
    average = MovingAverage(model.named_parameters(), decay)
    history = [{name: p.data.copy() for name, p in model.named_parameters().items()}]
    for t in range(1, 8):
        shaken(model, rng)
        history.append({name: p.data.copy() for name, p in model.named_parameters().items()})
        average.update(t)
    for name, found in average.arrays.items():
        weights = [1.0]  # of the start, the first, …
        for t in range(1, 8):
            d = min(decay, (1 + t) / (10 + t))
            weights = [w * d for w in weights] + [1 - d]
        assert sum(weights) == pytest.approx(1)
        expected = sum(w * each[name] for w, each in zip(weights, history, strict=True))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_in_place_and_back_to_the_bit(model):
    average = MovingAverage(model.named_parameters(), 0.9)
    shaken(model, np.random.default_rng(0))
    own = {name: p.data.copy() for name, p in model.named_parameters().items()}
    with average.in_place(model):
        assert all((p.data == average.arrays[name]).all() for name, p in model.named_parameters().items())
        assert not all((p.data == own[name]).all() for name, p in model.named_parameters().items())
    assert all((p.data == own[name]).all() for name, p in model.named_parameters().items())


def test_its_own_weights_come_back_from_a_failure(model):
    average = MovingAverage(model.named_parameters(), 0.9)
    shaken(model, np.random.default_rng(0))
    own = {name: p.data.copy() for name, p in model.named_parameters().items()}
    with pytest.raises(ValueError, match="the weights do not fit"), average.in_place(model):
        model.load_parameters({})
    assert all((p.data == own[name]).all() for name, p in model.named_parameters().items())


def test_what_does_not_fit_is_refused_and_changes_nothing(model):
    average = MovingAverage(model.named_parameters(), 0.9)
    before = {name: array.copy() for name, array in average.arrays.items()}
    name = next(iter(before))
    with pytest.raises(ValueError, match=f"the moving averages do not fit: missing \\['{name}'\\]"):
        average.load({each: array for each, array in before.items() if each != name})
    with pytest.raises(ValueError, match=f"do not fit: {name} has shape \\(3,\\), expected \\(12, 8\\)"):
        average.load({**{each: array + 1 for each, array in before.items()}, name: np.zeros(3)})
    assert all((average.arrays[each] == array).all() for each, array in before.items())
    average.load({each: array + 1 for each, array in before.items()})
    assert all((average.arrays[each] == array + 1).all() for each, array in before.items())
