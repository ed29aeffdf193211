"""The loss against its formula, Adam against its textbook loop, equation 3, and updates made of several batches."""

import math
from dataclasses import replace

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.model.parameters import Parameter
from minitf.model.transformer import Transformer
from minitf.training.optim import Adam, batch_loss, learning_rate

PAPER = OptimizerConfig()


# ---- The loss of a batch ----


def test_the_loss_of_a_batch(run):
    run.model.eval()
    batch = run.data.train.batch(0, 0)
    smooth, nll = batch_loss(run.model, batch, 0.1)
    plain, same = batch_loss(run.model, batch, 0.0)
    logits = run.model(batch.source, batch.target_in).numpy().astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    real = batch.target_out != PAD
    expected = -np.take_along_axis(log_p, batch.target_out[..., None], -1)[..., 0][real].sum()
    uniform = -log_p.mean(-1)[real].sum()
    assert nll.item() == same.item() == plain.item() == pytest.approx(expected, rel=1e-5)
    assert smooth.item() == pytest.approx(0.9 * expected + 0.1 * uniform, rel=1e-5)


# ---- The schedule (section 5.3) ----


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (1, 1 / (math.sqrt(512) * 4000 * math.sqrt(4000))),
        (1000, 1000 / (math.sqrt(512) * 4000 * math.sqrt(4000))),
        (4000, 1 / math.sqrt(512 * 4000)),
        (16_000, 1 / math.sqrt(512 * 16_000)),
        (100_000, 1 / math.sqrt(512 * 100_000)),
    ],
)
def test_equation_3_by_hand(step, expected):
    assert learning_rate(step, 512, PAPER) == pytest.approx(expected, rel=1e-12)


def test_it_falls_in_a_line_to_0():
    config = OptimizerConfig(warmup_steps=4, peak_learning_rate=0.006, decay_steps=10)
    rates = [learning_rate(step, 64, config) for step in range(1, 12)]
    expected = [0.0015, 0.003, 0.0045, 0.006, 0.005, 0.004, 0.003, 0.002, 0.001, 0, 0]
    assert rates == pytest.approx(expected, rel=1e-12, abs=1e-15)
    by_equation_3 = replace(PAPER, decay_steps=8_000)  # the line starts at the peak of equation 3
    assert learning_rate(4000, 512, by_equation_3) == learning_rate(4000, 512, PAPER)
    assert learning_rate(6000, 512, by_equation_3) == pytest.approx(learning_rate(4000, 512, PAPER) / 2, rel=1e-12)


def test_a_given_peak():
    """The same curve with its top at the number given, whatever the width."""
    config = replace(PAPER, peak_learning_rate=0.003, warmup_steps=50)
    assert learning_rate(50, 512, config) == pytest.approx(0.003, rel=1e-12)
    plain = replace(PAPER, warmup_steps=50)
    for step in (1, 20, 50, 51, 800):
        ratio = learning_rate(step, 512, plain) / learning_rate(50, 512, plain)
        for d_model in (64, 512):
            assert learning_rate(step, d_model, config) == pytest.approx(0.003 * ratio, rel=1e-12)


# ---- Adam ----


def textbook_adam(theta, gradients, rates, beta1, beta2, eps):
    """Algorithm 1 of Kingma & Ba 2015, line by line."""
    m = v = np.zeros_like(theta)
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
        theta = theta - rate * m_hat / (np.sqrt(v_hat) + eps)
    return theta, m, v


def two_parameters(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "a": Parameter(rng.standard_normal((3, 4)).astype(dtype)),
        "b.c": Parameter(rng.standard_normal(5).astype(dtype)),
    }


def some_steps(optimizer, count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        for p in optimizer.named_parameters.values():
            p.grad = Tensor(rng.standard_normal(p.shape))
        optimizer.step(0.1)


@pytest.mark.parametrize("settings", [{}, {"beta1": 0.5, "beta2": 0.7}, {"epsilon": 0.3}, {"beta1": 0.0}])
@pytest.mark.parametrize("gradient_scale", [1.0, 1 / 37])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_adam_is_the_textbook_s(settings, gradient_scale, dtype, tolerance):
    config = replace(PAPER, **settings)
    named = two_parameters(dtype)
    start = {name: p.data.astype(np.float64) for name, p in named.items()}
    optimizer = Adam(named, config)
    rng = np.random.default_rng(1)
    rates = [0.1, 0.03, 0.2, 0.01, 0.05]
    gradients = {name: [rng.standard_normal(p.shape) * 10.0**t for t in range(-2, 3)] for name, p in named.items()}
    for t, rate in enumerate(rates):
        for name, p in named.items():
            p.grad = Tensor(gradients[name][t].astype(dtype))
        optimizer.step(rate, gradient_scale=gradient_scale)
    for name, p in named.items():
        scaled = [g * gradient_scale for g in gradients[name]]
        theta, m, v = textbook_adam(start[name], scaled, rates, config.beta1, config.beta2, config.epsilon)
        assert p.dtype == optimizer.m[name].dtype == optimizer.v[name].dtype == dtype
        np.testing.assert_allclose(p.data, theta, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(optimizer.m[name], m, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(optimizer.v[name], v, rtol=tolerance, atol=tolerance)
    assert optimizer.step_count == 5


@pytest.mark.parametrize(("which", "other"), [("a", "b.c"), ("b.c", "a")])
def test_a_parameter_without_gradient_stays(which, other):
    """So do its moments: no gradient is not a gradient of 0, with which earlier ones would move it on."""
    named = two_parameters()
    optimizer = Adam(named, PAPER)
    some_steps(optimizer, 2, seed=1)
    before = {name: p.data.copy() for name, p in named.items()}
    moments = {name: a.copy() for name, a in optimizer.state_arrays().items()}
    named[which].grad = None
    optimizer.step(0.1)
    assert (named[other].data != before[other]).all()
    np.testing.assert_array_equal(named[which].data, before[which])
    for name, a in optimizer.state_arrays().items():
        assert (a == moments[name]).all() == name.endswith(f".{which}")


def test_a_list_of_parameters_and_one_learning_rate():
    """The same as parameters by name and the rate of each step."""
    named, listed = two_parameters(), [*two_parameters().values()]
    for optimizer, rates in ((Adam(named, PAPER), [0.1, 0.1]), (Adam(listed, lr=0.1), [])):
        rng = np.random.default_rng(0)
        for step in range(2):
            for p in optimizer.named_parameters.values():
                p.grad = Tensor(rng.standard_normal(p.shape))
            optimizer.step(*rates[step : step + 1])
    for one, other in zip(named.values(), listed, strict=True):
        np.testing.assert_array_equal(one.data, other.data)
    with pytest.raises(TypeError, match=r"config=0\.1 is of type float, not OptimizerConfig"):
        Adam(named, 0.1)


# ---- Its state ----


def test_a_state_saved_and_loaded_goes_on_as_if_nothing_had_been():
    straight, first = (Adam(two_parameters(), PAPER) for _ in range(2))
    some_steps(straight, 3, seed=1)
    some_steps(first, 3, seed=1)
    state = {name: a.copy() for name, a in first.state_arrays().items()}
    assert list(state) == ["m.a", "m.b.c", "v.a", "v.b.c"]
    parameters = {name: Parameter(p.data.copy()) for name, p in first.named_parameters.items()}
    second = Adam(parameters, PAPER)
    second.load_state(first.step_count, state)
    state["m.a"][...] = 0  # it was copied
    some_steps(straight, 2, seed=2)
    some_steps(second, 2, seed=2)
    assert second.step_count == 5
    for name, p in straight.named_parameters.items():
        np.testing.assert_array_equal(p.data, second.named_parameters[name].data)
    np.testing.assert_equal(straight.state_arrays(), second.state_arrays())


def test_a_state_that_does_not_fit_is_refused_and_nothing_is_loaded():
    optimizer = Adam(two_parameters(), PAPER)
    some_steps(optimizer, 1, seed=1)
    before = {name: a.copy() for name, a in optimizer.state_arrays().items()}
    zeros = {name: np.zeros_like(a) for name, a in before.items()}
    without = {name: a for name, a in zeros.items() if name != "v.a"}
    with pytest.raises(ValueError, match=r"the optimizer's moments do not fit: missing \['v.a'\]"):
        optimizer.load_state(9, without)
    with pytest.raises(ValueError, match=r"moments do not fit: missing none, unknown \['m.d'\]"):
        optimizer.load_state(9, {**zeros, "m.d": np.zeros(1)})
    with pytest.raises(ValueError, match=r"moments do not fit: v.b.c has shape \(1,\), expected \(5,\)"):
        optimizer.load_state(9, {**zeros, "v.b.c": np.zeros(1)})
    assert optimizer.step_count == 1
    np.testing.assert_equal(optimizer.state_arrays(), before)


# ---- The length of a gradient ----


def with_gradients(*gradients):
    parameters = [Parameter(np.zeros_like(g)) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = Tensor(g)
    return parameters


def global_norm(parameters):
    return Adam({str(i): p for i, p in enumerate(parameters)}, OptimizerConfig()).gradient_norm()


def test_global_norm():
    """Over all parameters together, of any shape and layout; one without a gradient counts for nothing."""
    parameters = with_gradients(np.array([[3.0, 0.0], [0.0, 4.0]]), np.array(12.0), np.zeros((0, 3)))
    assert global_norm(parameters) == 13
    assert global_norm([*parameters, Parameter(np.ones(3))]) == 13
    assert global_norm([]) == 0
    g = np.random.default_rng(0).standard_normal((700, 300))
    expected = math.sqrt((g**2).sum())
    assert global_norm(with_gradients(g)) == pytest.approx(expected, rel=1e-12)
    assert global_norm(with_gradients(g.T, g[:0])) == pytest.approx(expected, rel=1e-12)
    assert global_norm(with_gradients(*np.array_split(g, 7))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_global_norm_tells_what_is_not_a_number(bad):
    norm = global_norm(with_gradients(np.ones(3), np.array([1.0, bad])))
    assert not math.isfinite(norm)


# ---- One update from several batches ----

COPY = TransformerConfig(vocab_size=12, layers=1, d_model=16, heads=2, d_ff=32, dropout=0.0)


def copy_task(rng, sentences, longest=5):
    """Sources, targets shifted right, and targets: each sentence is its own translation."""
    source = np.full((sentences, longest + 1), PAD)
    for row in source:
        length = rng.integers(2, longest + 1)
        row[:length] = rng.integers(4, COPY.vocab_size, length)
        row[length] = EOS
    return source, np.concatenate([np.full((sentences, 1), BOS), source[:, :-1]], axis=1), source


def summed_loss(model, source, target_in, target_out):
    logits = model(source, target_in)
    return ag.cross_entropy(logits, target_out, label_smoothing=0.1, ignore_index=PAD, reduction="sum")


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_micro_batches_equal_one_batch(parts):
    """Summed losses, and one division by the target tokens of the whole update; means of means would differ."""
    data = copy_task(np.random.default_rng(0), 8)
    tokens = int((data[2] != PAD).sum())
    models = [Transformer(COPY, seed=1, dtype=np.float64) for _ in range(2)]
    optimizers = [Adam(model.named_parameters(), PAPER) for model in models]
    for step in range(3):
        for model, optimizer, count in zip(models, optimizers, (1, parts), strict=True):
            optimizer.zero_grad()
            for part in np.array_split(np.arange(8), count):
                summed_loss(model, *(a[part] for a in data)).backward()
            optimizer.step(learning_rate(step + 1, 16, replace(PAPER, warmup_steps=4)), gradient_scale=1 / tokens)
    whole, several = (model.named_parameters() for model in models)
    for name, p in whole.items():
        np.testing.assert_allclose(several[name].grad.data, p.grad.data, rtol=1e-9, atol=1e-11, err_msg=name)
        if not name.endswith("key.bias"):  # its true gradient is 0, and Adam turns rounding into steps
            np.testing.assert_allclose(several[name].data, p.data, rtol=1e-7, atol=1e-7, err_msg=name)
