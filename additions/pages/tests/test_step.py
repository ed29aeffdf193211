"""The page of a recorded step: what it holds, and as a person meets it in a browser."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import autograd as ag
from additions.inspect import memory
from additions.pages.step import step_page
from additions.pages.tests.step_pages import StepPage
from autograd import Tensor, random
from autograd.modes import current_modes

rng = np.random.default_rng(0)
X, W = rng.standard_normal((3, 4)), rng.standard_normal((4, 5))
HOSTILE = "</script><script>document.title='gone'</script><img src=x onerror=alert(1)>"


def weighed(x, w):
    return (ag.softmax(ag.tanh(x @ w), axis=-1) * np.arange(5.0)).sum()


@pytest.fixture
def page(tmp_path):
    """page(fn, *inputs, …): what the page of the step holds."""

    def make(*arguments, **settings):
        path = tmp_path / "step.html"
        step_page(arguments[0], path, *arguments[1:], **settings)
        return StepPage(path)

    return make


# ---- What it holds -----------------------------------------------------------------------------------------------


def test_events_are_the_forward_pass_the_loss_and_the_backward_pass(page):
    made = page(weighed, X, W)
    names = [made.classes[made.ops[each["of"]]["class"]]["name"] for each in made.events]
    forward = ["Matmul", "Tanh", "Softmax", "Multiply", "Sum"]
    assert names == forward + forward[::-1]
    assert [each["phase"] for each in made.events] == ["forward"] * 4 + ["loss"] + ["backward"] * 5
    assert [op["backward"] for op in made.ops] == [9, 8, 7, 6, 5]


def test_the_numbers_are_those_of_the_arrays(page):
    made = page(weighed, X, W)
    y = np.tanh(X @ W)
    p = np.exp(y) / np.exp(y).sum(-1, keepdims=True)
    g_p = np.broadcast_to(np.arange(5.0), p.shape)
    g_y = p * (g_p - (g_p * p).sum(-1, keepdims=True))
    g_product = g_y * (1 - y * y)
    matmul, tanh, softmax, *_ = made.ops
    for index, expected in (
        (matmul["inputs"][0]["value"], X), (tanh["outputs"][0], y),
        (softmax["outputs"][0], p), (softmax["g_outputs"][0], g_p),
        (softmax["inputs"][0]["gradient"], g_y), (tanh["g_outputs"][0], g_y), (matmul["g_outputs"][0], g_product),
        (made.leaf("w")["gradient"], X.T @ g_product), (made.leaf("x")["gradient"], g_product @ W.T),
    ):  # fmt: skip
        np.testing.assert_allclose(made.array(index), expected, rtol=1e-12)
        low, high, mean, rms = made.values[index]["stats"]
        stated = expected.min(), expected.max(), expected.mean(), np.sqrt((expected**2).mean())
        np.testing.assert_allclose((low, high, mean, rms), stated, rtol=1e-5, atol=1e-12)


def test_a_recorded_step_has_the_bits_of_any_other(tmp_path):
    weights = [rng.standard_normal((6, 6)).astype(np.float32) for _ in range(4)]

    def step(record):
        random.manual_seed(3)
        leaves = [Tensor(w, requires_grad=True) for w in weights]

        def fn():
            x = leaves[0]
            for w in leaves[1:]:
                x = ag.dropout(ag.relu(x @ w), 0.2) + x * leaves[0]
            return (x * x).mean()

        loss = step_page(fn, tmp_path / "step.html") if record else fn()
        if not record:
            loss.backward()
        return [loss.data, *(leaf.grad.data for leaf in leaves)]

    for plain, recorded in zip(step(False), step(True), strict=True):
        assert plain.tobytes() == recorded.tobytes()


def test_recording_ends_with_the_step(tmp_path):
    def fails():
        (Tensor(X, requires_grad=True) * 2).sum()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        step_page(fails, tmp_path / "step.html")
    assert current_modes().observers == ()
    assert not (tmp_path / "step.html").exists()


def test_saved_arrays_have_the_names_of_the_source(page):
    made = page(weighed, X, W)
    saved = {made.classes[op["class"]]["name"]: op["saved"] for op in made.ops}
    assert [each["name"] for each in saved["Matmul"]] == ["a", "b"]
    (kept,) = saved["Softmax"]
    assert (kept["name"], kept["nbytes"]) == ("y", 3 * 5 * 8)
    np.testing.assert_array_equal(made.array(kept["value"]), made.array(made.ops[2]["outputs"][0]))
    assert "buffer" not in saved["Matmul"][0]  # the memory of a leaf


def test_what_attention_keeps_has_the_name_that_its_kernel_gives_it(page):
    q, k, v = (rng.standard_normal((1, 2, 3, 4)) for _ in range(3))
    made = page(lambda q, k, v: ag.scaled_dot_product_attention(q, k, v).sum(), q, k, v)
    (attention,) = made.named("ScaledDotProductAttention")
    assert [each["name"] for each in attention["saved"]] == ["q", "k", "v", "keep", "p"]
    p = made.array(attention["saved"][-1]["value"])
    np.testing.assert_allclose(p.sum(-1), 1)


def test_gradients_that_meet_are_listed_in_their_order(page):
    made = page(lambda x: (x * x + x.sum() + ag.exp(x)).sum(), X)
    into = [(op, i) for _, op, i in made.arrivals if made.ops[op]["inputs"][i].get("leaf") == 0]
    assert [made.classes[made.ops[op]["class"]]["name"] for op, _ in into] == ["Exp", "Sum", "Multiply", "Multiply"]
    total = sum(made.array(made.ops[op]["inputs"][i]["gradient"]) for op, i in into)
    np.testing.assert_allclose(made.array(made.leaf("x")["gradient"]), total)
    assert made.leaf("x")["complete"] == len(made.events) - 1


def test_memory_is_that_of_the_memory_profile(page):
    made = page(weighed, X, W)
    with memory() as followed:
        weighed(Tensor(X, requires_grad=True), Tensor(W, requires_grad=True)).backward()
    assert max(made.memory["bytes"]) == followed.peak_bytes
    at = made.memory["bytes"].index(followed.peak_bytes)
    alive = [each["bytes"] for each in made.memory["buffers"] if each["born"] <= at < each["died"]]
    held = followed.at_peak()
    assert sorted(alive) == sorted(buffer.nbytes for buffers in held.values() for buffer in buffers)
    for event, total in enumerate(made.memory["bytes"]):
        assert total == sum(b["bytes"] for b in made.memory["buffers"] if b["born"] <= event < b["died"])


def test_leaves_have_the_names_of_variables(page):
    weights = [Tensor(W, requires_grad=True), Tensor(W, requires_grad=True)]
    by_name = {"scale": Tensor(np.ones(5), requires_grad=True)}
    other = Tensor(X, requires_grad=True)
    made = page(lambda: ((other @ weights[0] + other @ weights[1]) * by_name["scale"]).sum())
    assert {leaf["name"] for leaf in made.leaves} == {"other", "weights[0]", "weights[1]", "by_name['scale']"}


def test_source_lines_stand_for_forward_and_backward(page):
    made = page(weighed, X, W)
    (softmax,) = [each for each in made.classes if each["name"] == "Softmax"]
    assert "def forward(xp, x" in softmax["forward"][0]["text"]
    assert "def backward(xp, g, y" in softmax["backward"][0]["text"]
    assert softmax["forward"][0]["file"] == "autograd/ops/reduce.py"
    place = made.places[made.ops[2]["where"]]
    assert place["text"] == "return (ag.softmax(ag.tanh(x @ w), axis=-1) * np.arange(5.0)).sum()"


def test_an_op_without_source_and_documentation_has_a_page(page):
    namespace = {"ag": ag}
    exec("class Odd(ag.Op):\n  def forward(self, x): return 2 * x\n  def backward(self, g): return 2 * g", namespace)
    made = page(lambda x: ag.apply(namespace["Odd"], x).sum(), X)
    odd = made.classes[0]
    assert (odd["name"], odd["formula"], odd["forward"], odd["backward"]) == ("Odd", "", [], [])


def test_several_results_of_any_shape_are_differentiated_from_ones(page):
    made = page(lambda x: (x * 2, x * 3), X)
    np.testing.assert_array_equal(made.array(made.leaf("x")["gradient"]), np.full_like(X, 3))  # of the second pass
    assert made.step["loss"] is None


class Both(ag.Op):
    """a = x + 1, b = 2 x"""

    def forward(self, x):
        return x + 1, 2 * x

    def backward(self, g_a, g_b):
        return g_a + 2 * g_b


def test_gradients_go_to_the_output_that_was_used(page):
    def fn(x):
        a, b = ag.apply(Both, x)
        return (a + b * b).sum()

    made = page(fn, X)
    assert [each["output"] for each in made.named("Multiply")[0]["inputs"]] == [1, 1]
    assert made.named("Add")[0]["inputs"][0]["output"] == 0
    g_a, g_b = (made.array(index) for index in made.named("Both")[0]["g_outputs"])
    np.testing.assert_array_equal(g_a, np.ones_like(X))
    np.testing.assert_array_equal(g_b, 4 * X)


def test_a_function_without_a_graph_has_a_forward_pass(page):
    made = page(lambda: Tensor(X) * 2 + 1)
    assert [each["phase"] for each in made.events] == ["forward", "forward"]
    with pytest.raises(TypeError, match="returned float; return a Tensor"):
        page(lambda: 1.0)


def test_a_function_without_ops_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="the function runs no op on Tensors"):
        step_page(lambda x: x, tmp_path / "page.html", np.ones(3))
    assert not (tmp_path / "page.html").exists()


def test_a_graph_made_before_is_followed(page):
    before = ag.exp(Tensor(X, requires_grad=True))
    made = page(lambda: (before * 2).sum())
    assert [made.classes[op["class"]]["name"] for op in made.ops] == ["Multiply", "Exp", "Sum"]
    assert made.named("Exp")[0]["forward"] is None
    assert made.named("Exp")[0]["backward"] == len(made.events) - 1


def test_ops_that_checkpoint_computes_again_are_in_the_backward_pass(page):
    made = page(lambda x: ag.checkpoint(lambda y: ag.tanh(y) * y, x).sum(), X)
    again = [each for each in made.events if each["again"]]
    assert [each["phase"] for each in again] == ["backward", "backward"]


def test_an_update_is_recorded_with_its_states(page):
    w = Tensor(W.copy(), requires_grad=True)
    before, velocity = W.copy(), {"w": np.zeros_like(W)}

    def descend():
        """w - 0.1 · v"""
        velocity["w"] += w.grad.data
        w.data -= 0.1 * velocity["w"]

    made = page(lambda: (w * w).sum(), update=descend, states={"velocity": velocity})
    leaf = made.leaf("w")
    assert made.events[-1] == {"kind": "update", "of": 0, "again": False, "phase": "update"}
    np.testing.assert_allclose(made.array(leaf["value"]), before)
    np.testing.assert_allclose(made.array(leaf["after"]), before - 0.2 * before)
    assert made.array(leaf["states"]["velocity"][0]).any() == False  # noqa: E712
    np.testing.assert_allclose(made.array(leaf["states"]["velocity"][1]), 2 * before)
    assert made.update["formula"] == "w - 0.1 · v"


def test_hostile_text_stays_text(page):
    def make(name):
        op = type(
            name, (ag.Op,), {"forward": lambda self, x: 2 * x, "backward": lambda self, g: 2 * g, "__doc__": name}
        )
        values = {name: Tensor(X, requires_grad=True)}
        axes = {"B": 3, name: [name] * 4}
        return page(lambda: ag.apply(op, values[name]).sum(), title=name, about=name, axes=axes)

    hostile = make(HOSTILE)
    assert hostile.tags == make("harmless").tags  # not one element more
    assert hostile.step["title"] == HOSTILE
    assert hostile.classes[0]["name"] == HOSTILE


def test_the_page_asks_for_nothing_else(page):
    text = page(weighed, X, W).text
    for directive in ("default-src", "base-uri", "form-action"):
        assert f"{directive} 'none'" in text
    assert not re.search(r"@import|url\((?!\"#)|fetch\(|XMLHttpRequest|\bimport\(|sourceMappingURL", text)
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert "Permission is hereby granted" in text  # dagre's licence


# ---- In a browser ------------------------------------------------------------------------------------------------

TEXT = "return document.querySelector(arguments[0]).textContent"


def opened(chromium, path):
    chromium.complaints()
    chromium.requests()
    chromium.open(path)
    chromium.wait_for("document.body.dataset.ready === 'true'")
    return chromium


def assert_quiet(chromium, path):
    assert chromium.complaints() == []
    assert [each for each in chromium.requests() if each not in (path.as_uri(), "data:,")] == []


@pytest.mark.heavy
def test_any_function_can_be_walked_through_by_keyboard(chromium, tmp_path):
    path = tmp_path / "step.html"
    step_page(weighed, path, X, W)
    window = opened(chromium, path)
    window.press("Right", "Right")
    assert window.run(TEXT, "#op h2") == "Softmax"
    window.press("f")
    assert window.run("return [state.at, document.querySelector('.pass[aria-pressed=true]').textContent]") == [
        7, "backward moment 8"
    ]  # fmt: skip
    window.press("End")
    assert window.run("return state.at") == 9
    window.press("Home")
    window.press("/", *"soft", "Enter")
    assert window.run(TEXT, "#op h2") == "Softmax"
    assert_quiet(window, path)


@pytest.mark.heavy
def test_hostile_text_is_shown_as_text(chromium, tmp_path):
    path = tmp_path / "step.html"
    op = type(
        HOSTILE, (ag.Op,), {"forward": lambda self, x: 2 * x, "backward": lambda self, g: 2 * g, "__doc__": HOSTILE}
    )
    x = {HOSTILE: Tensor(X, requires_grad=True)}
    step_page(lambda: ag.apply(op, x[HOSTILE]).sum(), path, title=HOSTILE, axes={"B": 3, "T": [HOSTILE] * 4})
    window = opened(chromium, path)
    assert window.run(TEXT, "#op h2") == HOSTILE
    assert window.run("return document.title") == HOSTILE
    assert window.run("return document.querySelectorAll('img').length") == 0
    assert_quiet(window, path)


@pytest.mark.heavy
def test_values_that_are_not_finite_and_empty_arrays_have_a_page(chromium, tmp_path):
    path = tmp_path / "step.html"
    with np.errstate(all="ignore"):
        step_page(lambda x: ag.concatenate([ag.log(x), x[:0]]).sum(), path, np.array([-1.0, 0.0, 2.0]))
    window = opened(chromium, path)
    assert "2 not finite" in window.run(TEXT, "#op")
    window.press("End")
    assert_quiet(window, path)


@pytest.mark.slow
def test_two_thousand_ops_stay_smooth(chromium, tmp_path):
    def deep(x, w):
        for i in range(1000):
            x = ag.tanh(x @ w) if i % 2 else x + 0.1 * x
        return (x * x).sum()

    path = tmp_path / "step.html"
    step_page(deep, path, rng.standard_normal((8, 16)), rng.standard_normal((16, 16)) / 4)
    window = opened(chromium, path)
    assert window.run("return ops.length") > 2000
    # Folded at every moment: what is laid out and drawn does not grow with the graph
    counted = "[shown.nodes.length, document.querySelectorAll('svg *').length]"
    walk = f"const most = []; for (let i = 0; i < 60; i++) {{ go(i * 63); most.push({counted}); }} return most"
    nodes, drawn = (max(each) for each in zip(*window.run(walk), strict=True))
    assert nodes < 100
    assert drawn < 2000
    assert_quiet(window, path)


PLAIN = """
import numpy as np
import autograd as ag
from additions.pages.step import step_page

x = ag.Tensor(np.ones(3), requires_grad=True)
step_page(lambda: (x * x).sum(), "step.html")
assert '"line":7' in open("step.html", encoding="utf-8").read()
"""


def test_lines_of_the_plain_core(tmp_path):
    (tmp_path / "script.py").write_text(PLAIN, encoding="utf-8")
    environment = {**os.environ, "AUTOGRAD_PLAIN": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
