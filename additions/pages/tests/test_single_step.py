"""One recorded step of a model: the step that training would make, on a batch that can be looked at."""

import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from additions.pages.commands import step as main
from additions.pages.single_step import default_step, step_of_run
from additions.pages.tests.step_pages import StepPage
from autograd import random
from minitf.app.train import main as train
from minitf.errors import UserError
from minitf.run.start import start
from minitf.storage.checkpoints import load, save
from minitf.system.process import run_command
from minitf.training.optim import Adam, batch_loss, learning_rate, squared_norm
from minitf.training.run import SingleProcess


def ignore(message):
    pass


@pytest.fixture(autouse=True, scope="module")
def environment():
    """Keep AUTOGRAD_PLAIN, which the command sets, from other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRAD_PLAIN", "")
        yield


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The default step and its page."""
    path = tmp_path_factory.mktemp("step") / "step.html"
    step = default_step()
    before = {name: p.data.copy() for name, p in step.model.named_parameters().items()}
    losses = step.write_page(path)
    return step, losses, before, StepPage(path)


@pytest.mark.heavy
def test_the_recorded_step_is_the_real_one(recorded):
    step, losses, before, _ = recorded
    other = default_step()
    random.manual_seed(other.config.seed)
    random.begin_step(1)
    plain = batch_loss(other.model, other.batch, other.config.optimizer.label_smoothing)
    plain[0].backward()
    gradients = {name: p.grad.data.copy() for name, p in other.model.named_parameters().items()}
    other.update()
    assert [each.data.tobytes() for each in plain] == [each.data.tobytes() for each in losses]
    for name, p in step.model.named_parameters().items():
        assert p.grad.data.tobytes() == gradients[name].tobytes()
        assert p.data.tobytes() == other.model.named_parameters()[name].data.tobytes()
        assert not np.array_equal(p.data, before[name])


def test_the_page_has_every_parameter_with_its_gradient_and_update(recorded):
    step, _, before, page = recorded
    named = step.model.named_parameters()
    assert {leaf["name"] for leaf in page.leaves} == {*named}
    for name, p in named.items():
        leaf = page.leaf(name)
        for index, expected in (
            (leaf["value"], before[name]),
            (leaf["gradient"], p.grad.data),
            (leaf["after"], p.data),
            (leaf["states"]["m"][1], step.optimizer.m[name]),
            (leaf["states"]["v"][1], step.optimizer.v[name]),
        ):
            np.testing.assert_array_equal(page.array(index), expected)
    assert [each["phase"] for each in page.events[-len(named) :]] == ["update"] * len(named)


def test_three_gradients_meet_in_the_shared_embedding(recorded):
    _, _, _, page = recorded
    number = next(i for i, leaf in enumerate(page.leaves) if leaf["name"] == "source_embedding.weight")
    into = [(op, i) for _, op, i in page.arrivals if page.ops[op]["inputs"][i].get("leaf") == number]
    names = [page.classes[page.ops[op]["class"]]["name"] for op, _ in into]
    assert names == ["Linear", "Embedding", "Embedding"]


@pytest.mark.heavy
def test_the_fast_parts_are_shown_on_request(tmp_path):
    """The plain page shows the code that the documents tell to read; training's own parts are one flag away."""
    environment = {name: value for name, value in os.environ.items() if name != "AUTOGRAD_PLAIN"}
    losses, pages = [], []
    for flags in ([], ["--fast"]):
        path = tmp_path / f"step{len(flags)}.html"
        command = [sys.executable, "-m", "minitf", "step", *flags, "--output", str(path)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120)
        losses.append(done.stderr)
        pages.append(StepPage(path))
    assert losses[0] == losses[1] == f"loss {pages[0].step['loss'] / pages[0].step['loss_is_of'][0]:.4f} a token\n"
    plain, fast = ({each["file"] for each in page.places} for page in pages)
    assert not any("/fast/" in path for path in plain)
    assert any("/fast/" in path for path in fast)
    sources = [each["file"] for described in pages[0].classes for each in described["forward"] + described["backward"]]
    assert not any("/fast/" in path for path in sources)


def test_layers_and_phases(recorded):
    _, _, _, page = recorded
    scopes = {op["scope"] for op in page.ops}
    assert {"encoder.layers.0.self_attention", "decoder.layers.1.cross_attention.query", None} <= scopes
    phases = list(dict.fromkeys(each["phase"] for each in page.events))
    assert phases == ["forward", "loss", "backward", "update"]
    assert page.update["name"] == "Adam"
    assert "√(v / c₂)" in page.update["about"]


def test_each_length_names_one_axis(recorded):
    step, _, _, page = recorded
    sizes = {name: axis["size"] for name, axis in page.axes.items()}
    assert len(set(sizes.values())) == len(sizes)
    assert (sizes["B"], sizes["S"], sizes["T"]) == (*step.batch.source.shape, step.batch.target_in.shape[1])
    assert page.axes["T"]["labels"][0][0] == "<s>"
    assert "<pad>" in str(page.axes["T"]["labels"] + page.axes["S"]["labels"])


def test_the_page_of_the_default_model_is_small(recorded):
    assert len(recorded[3].text.encode()) < 3e6


def test_the_norm_of_the_gradient_is_clipped():
    step = default_step()
    step.config = replace(step.config, optimizer=replace(step.config.optimizer, clip_norm=0.5))
    tokens = step.batch.target_tokens
    update = step.update
    step.loss()[0].backward()
    norm = math.sqrt(squared_norm([p.grad.data for p in step.model.parameters()])) / tokens
    assert norm > 0.5
    assert update.keywords["gradient_scale"] == 0.5 / norm / tokens


# ---- Of a run ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(ground, tmp_path_factory):
    """A run of 13 steps."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert run_command(train, [*ground.flags, "--output", str(folder)]) == 0
    return folder


@pytest.mark.heavy
def test_the_step_of_a_run_continues_it(trained, tmp_path):
    step = step_of_run(trained, ignore)
    assert (step.number, step.optimizer.step_count, len(step.batch.source)) == (14, 13, 3)
    with start(replace(step.config, output=trained), SingleProcess(step.config), ignore, trained) as run:
        for name, p in run.model.named_parameters().items():
            np.testing.assert_array_equal(p.data, step.model.named_parameters()[name].data)
            np.testing.assert_array_equal(run.optimizer.m[name], step.optimizer.m[name])
    rate = step.update.keywords["rate"]
    assert rate == learning_rate(14, step.config.model.d_model, step.config.optimizer)
    step.write_page(tmp_path / "step.html")
    page = StepPage(tmp_path / "step.html")
    assert str(trained) in page.about
    pieces = {piece for row in page.axes["T"]["labels"] for piece in row}
    assert pieces <= {*step.vocabulary.pieces(range(len(step.vocabulary))), "<s>", "</s>", "<pad>"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"skipped_updates": 2}, "2 updates of this run were skipped .*; continue it with minitf "),
        ({"step": "thirteen"}, "step='thirteen'; choose a whole number"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(trained, tmp_path, changes, message):
    shutil.copytree(trained, tmp_path / "run")
    path = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    arrays, state = load(path)
    save(path, arrays, {**state, **changes})
    with pytest.raises(UserError, match=f"the last checkpoint of .*run does not match this run: .*{message}"):
        step_of_run(tmp_path / "run", ignore)


@pytest.mark.heavy
def test_the_step_of_a_run_with_frozen_parts_updates_the_others(ground, tmp_path):
    folder = tmp_path / "run"
    assert (
        run_command(train, [*ground.flags, "--set", "freeze=encoder", "--max-steps", "2", "--output", f"{folder}"]) == 0
    )
    step = step_of_run(folder, ignore)
    assert step.optimizer.step_count == 2
    before = {name: p.data.copy() for name, p in step.model.named_parameters().items()}
    step.loss()[0].backward()
    step.update()
    same = {name for name, p in step.model.named_parameters().items() if np.array_equal(p.data, before[name])}
    assert same == {name for name in before if name.startswith("encoder.")}


def test_sentences_of_ones_own(tiny_run):
    step = step_of_run(tiny_run, ignore, [("the cat", "die Katze"), ("a house", "ein Haus")])
    assert len(step.batch.source) == 2
    assert isinstance(step.optimizer, Adam)
    with pytest.raises(UserError, match="pair 1 has an empty side"):
        step_of_run(tiny_run, ignore, [("the cat", " ")])


def test_a_run_without_texts_asks_for_sentences(tiny_run):
    with pytest.raises(UserError, match="has no copy of its training text; give sentences with --pair SOURCE TARGET"):
        step_of_run(tiny_run, ignore)


# ---- In a browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walked(chromium, tmp_path_factory):
    """The page that the command writes, in a browser that is asked for nothing else and has nothing to complain of."""
    path = tmp_path_factory.mktemp("walked") / "step.html"
    assert run_command(main, ["--output", str(path)]) == 0
    chromium.complaints()
    chromium.requests()
    chromium.prefer("light")
    chromium.viewport(1280, 800)
    chromium.open(path)
    chromium.wait_for("document.body.dataset.ready === 'true'")
    yield chromium, StepPage(path)
    assert chromium.complaints() == []
    assert [each for each in chromium.requests() if each not in (path.as_uri(), "data:,")] == []


@pytest.mark.slow
def test_every_moment_is_shown_and_it_plays_to_the_end(walked):
    window, page = walked
    last = len(page.events) - 1
    assert window.run("for (let moment = 0; moment < events.length; moment++) go(moment); return state.at") == last
    window.run("$('speed').append(new Option('all', 1e9)); $('speed').value = '1000000000'")
    window.run(f"window.seen = new Set(); go({last - 30})")
    window.run(
        "new MutationObserver(() => window.seen.add(+document.body.dataset.at))"
        ".observe(document.body, {attributes: true})"
    )
    window.press("Space")
    window.wait_for(f"state.at === {last} && !state.playing")
    assert window.run("return window.seen.size") >= 30


@pytest.mark.slow
def test_ten_nodes_are_clicked(walked):
    window, page = walked
    window.run("go(0); $('fold-all').click()")
    window.run("reveal(homeOfOp[9]); fit()")
    clicked = set()
    for number in range(10):
        window.run(f"reveal(homeOfOp[{number}])")
        selector = f'[data-key="op {number}"] .name'
        window.click(selector)
        assert window.run("return state.at") == page.ops[number]["forward"]
        name = page.classes[page.ops[number]["class"]]["name"]
        assert window.run("return document.querySelector('#op h2').textContent") == name
        clicked.add(number)
    assert len(clicked) == 10
    window.run("bringIntoView('group encoder.layers.1')")
    window.click('[data-key="group encoder.layers.1"] .name')
    assert window.run("return open.has('encoder.layers.1')")


IN_SIGHT = """const box = (element) => element.getBoundingClientRect();
const [map, now] = [$("graph"), document.querySelector(".node.now")].map(box);
return [map.left <= now.left && now.right <= map.right && map.top <= now.top && now.bottom <= map.bottom,
  box(document.querySelector(".node.now .name")).height]"""


@pytest.mark.slow
def test_the_graph_opens_folded_and_legible_and_follows_the_current_op(walked):
    window, page = walked
    for width, height in ((1366, 768), (760, 760), (400, 800)):
        window.viewport(width, height)
        window.run("view.moved = false; go(0); $('fold-all').click(); measure()")
        assert window.run("return shown.nodes.filter((each) => each.kind === 'group').length") >= 4
        whole = "return view.width * view.scale <= view.screen.width && view.height * view.scale <= view.screen.height"
        assert window.run(f"openHere(); $('zoom-fit').click(); {whole}") or width < 500
        for moment in range(0, len(page.events), 10):
            window.run(f"go({moment})")
            in_sight, text_px = window.run(IN_SIGHT)
            assert in_sight, (width, moment)
            assert text_px > 10, (width, moment)
    window.viewport(1500, 950)


@pytest.mark.look
@pytest.mark.heavy
def test_ten_numbers_are_those_of_the_arrays(walked, recorded):
    """Under the pointer, the page shows the numbers of the arrays that an independent run of the step has."""
    window, page = walked
    step = default_step()
    loss, _ = step.loss()
    loss.backward()
    gradients = {name: p.grad.data for name, p in step.model.named_parameters().items()}
    names = [name for name, g in gradients.items() if g.ndim == 2 and "layers" in name][::3][:10]
    assert len(names) == 10
    for name in names:
        window.run("showLeaf(leaves.findIndex((leaf) => leaf.name === arguments[0]))", name)
        index = page.leaf(name)["gradient"]
        selector = f'#op [data-value="{index}"] canvas'
        window.hover(selector, 3, 2)
        text = window.run("return document.getElementById('tooltip').textContent")
        row, column, number = re.fullmatch(r"\[(\d+)[^,]*, (\d+)[^,]*\] = (\S+)", text).groups()
        expected = gradients[name][int(row), int(column)]
        np.testing.assert_allclose(float(number.replace("−", "-")), expected, rtol=1e-4)


@pytest.mark.heavy
def test_the_page_answers_questions(walked):
    """What does softmax keep?  Which gradients meet in the shared embedding?  When is the peak, and who holds it?"""
    window, page = walked
    text = "return document.querySelector(arguments[0]).textContent"
    window.run("go(0)")
    window.press("/", *"softmax", "Enter")
    assert "softmax" in window.run(text, "#op .formula")
    kept = window.run(text, "#op .saved")
    assert "the probabilities" in kept
    assert "freed after its backward pass, at moment" in kept
    window.click("#jump-sums summary")
    window.click("#jump-sums li button")
    assert window.run(text, "#op h2") == "source_embedding.weight"
    meeting = window.run(text, "#op .meeting")
    assert "3 gradients meet here" in meeting
    assert [meeting.count(name) for name in ("Linear", "Embedding")] == [1, 2]
    window.press("Escape")
    window.click("#jump-peak")
    memory = page.memory["bytes"]
    assert window.run("return state.at") == memory.index(max(memory))
    assert "the peak" in window.run(text, "#op details:last-of-type summary")
    assert "saved for the backward pass" in window.run(text, "#op details:last-of-type")


@pytest.mark.slow
def test_it_fits_the_screen_and_the_phone(walked, screenshots):
    window, page = walked
    attention = next(i for i, op in enumerate(page.ops) if "kᵀ" in page.classes[op["class"]]["formula"])
    seen = []
    for name, colours, size, mobile in (
        ("light", "light", (1280, 800), False),
        ("dark", "dark", (1280, 800), False),
        ("phone", "light", (390, 844), True),
        ("phone-dark", "dark", (390, 844), True),
    ):
        window.prefer(colours)
        window.viewport(*size, mobile=mobile)
        window.run("go(ops[arguments[0]].backward); openHere()", attention)
        window.wait_for(
            "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))))"
        )
        seen.append(window.screenshot(screenshots / f"step-{name}.png"))
        assert window.run("return document.documentElement.scrollWidth <= innerWidth"), name
        if not mobile:
            assert window.run("return document.documentElement.scrollHeight <= innerHeight")
    assert len({*seen}) == 4
    window.prefer("light")
    window.viewport(1280, 800)
    window.click("#theme")
    window.click("#theme")
    assert window.run("return getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 27)"
    window.click("#theme")


@pytest.mark.heavy
def test_the_graph_is_walked_by_keyboard(walked):
    """One node is a tab stop, whatever is open; arrows go to the others, Enter opens a layer and shows an op."""
    window, _ = walked
    window.run("go(0); $('fold-all').click()")
    tab_stops = "return document.querySelectorAll('#world [tabindex=\"0\"]').length"
    assert window.run(tab_stops) == 1
    window.run("toggle('encoder.layers.0')")
    assert window.run(tab_stops) == 1  # the open layer
    window.run("toggle('encoder.layers.0.self_attention'); $('fold-all').click()")
    assert window.run(tab_stops) == 1  # not the folded part, which is not shown
    window.run("toggle('encoder'); document.querySelector('#world [tabindex=\"0\"]').focus()")
    key = "return document.activeElement.dataset.key"
    seen = [window.run(key)]
    while seen[-1] != "group encoder.layers.1":
        window.press("Down")
        assert window.run(key) not in seen
        seen.append(window.run(key))
    shown = "return shown.nodes.length"
    before = window.run(shown)
    window.press("Enter")
    assert window.run(shown) > before
    assert window.run(key) == "group encoder.layers.1"
    window.press("Down", "Down", "Down")
    window.press("Right")
    assert window.run("return state.at") == 1


@pytest.mark.heavy
def test_every_control_has_a_name(walked):
    window, _ = walked
    nameless = """
        return [...document.querySelectorAll('button, select, input, canvas, [role]')].filter((each) => !each.hidden &&
            !(each.getAttribute('aria-label') || each.textContent.trim() || each.labels?.length || each.id === 'found'
              || each.id === 'status' || each.id === 'problem')).map((each) => each.outerHTML)"""
    assert window.run(nameless) == []


@pytest.mark.heavy
def test_heat_maps_are_read_by_keyboard(walked):
    window, page = walked
    window.run("go(0); document.querySelector('#op canvas').focus()")
    window.press("Right", "Down")
    read = window.run("return document.getElementById('status').textContent")
    value = page.ops[0]["inputs"][0]["value"]
    assert float(read.partition(" = ")[2].replace("−", "-")) == pytest.approx(page.array(value)[1, 1], rel=1e-5)
    assert window.run("return state.at") == 0
