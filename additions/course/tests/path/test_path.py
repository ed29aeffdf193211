"""The path of `minitf learn build` can be walked to its end, and each classic mistake on it is called by its name."""

import inspect
import time
from pathlib import Path

import numpy as np
import pytest

import autograd as ag
from additions.course.build_command import FILE_NAME
from additions.course.build_command import main as build
from additions.course.path import demo
from additions.course.path.checks import CHECKS, Work
from additions.course.path.judge import judge_step
from additions.course.path.model_checks import PARTS
from additions.course.path.steps import MILESTONES, STEPS, find_step
from additions.course.path.system import LABELS, OUR_OPS, SOURCE, TARGET, check_training_step
from additions.course.path.training_checks import STILL
from additions.course.progress import Progress
from additions.course.tests.learner.mistakes import MISTAKES
from additions.course.tests.learner.walk import ANSWERS, write_answers
from additions.course.verdict import judge
from minitf.corpora.built_in import built_in_corpus
from minitf.model import layers, parameters, transformer
from tests.helpers.marks import parametrize_some

ROOT = Path(__file__).parents[4]
EACH_MISTAKE = [(name, *mistake) for name, mistakes in MISTAKES.items() for mistake in mistakes]


@pytest.fixture
def work(tmp_path):
    write_answers(tmp_path, STEPS[-1])
    work = Work(tmp_path, STEPS[-1])
    work.run()
    work.engine.Tensor.detach = lambda x: work.engine.Tensor(x.data)
    return work


def verdict_on(folder, name, changes=()):
    step = find_step(name)
    write_answers(folder, step, tuple(zip(changes[::2], changes[1::2], strict=True)))
    return judge_step(step, folder, limit_s=600)  # the machine may be busy


@parametrize_some("name", [step.name for step in STEPS], keep=len(STEPS) - 1)  # the last trains for seconds
def test_the_reference_answer_is_right(tmp_path, name):
    verdict = verdict_on(tmp_path, name)
    assert verdict.message == ""
    assert verdict.passed


@pytest.mark.heavy
@parametrize_some(
    "mistake",
    EACH_MISTAKE,
    keep=range(0, len(EACH_MISTAKE), 32),
    ids=lambda mistake: f"{mistake[0]}: {mistake[1][:40]}",
)
def test_a_classic_mistake_is_called_by_its_name(tmp_path, mistake):
    name, message, *changes = mistake
    verdict = verdict_on(tmp_path, name, changes)
    assert message in verdict.message
    assert verdict.message


def test_five_milestones_are_named_on_the_way(tmp_path, capsys):
    assert len(MILESTONES) == 5
    numbers = [find_step(name).number for name in MILESTONES]
    assert numbers == sorted(numbers)
    assert numbers[-1] == len(STEPS)
    step = find_step("leaves")
    progress = Progress(tmp_path, [each.name for each in STEPS], FILE_NAME)
    for each in STEPS[: step.number]:
        progress.set(each, "started" if each is step else "solved")
    write_answers(tmp_path, step)
    assert build([str(tmp_path), "--seconds", "600"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"milestone 1 of 5: your code now does what {MILESTONES['leaves']}" in said


def test_each_step_has_an_answer_and_mistakes():
    assert [*ANSWERS] == [step.name for step in STEPS]
    assert {*MISTAKES} == {*ANSWERS}
    assert min(map(len, MISTAKES.values())) >= 3


@pytest.mark.heavy
def test_every_mistake_that_the_judge_knows_is_one_of_our_source():
    """A changed text of ours would leave a mistake without its name."""
    lists = {
        id(variants): variants for checks in CHECKS.values() for check in checks if (variants := variants_of(check))
    }
    assert len(lists) > 10
    for variants in lists.values():
        for message, variant in variants():  # raises LookupError for a text that is not there
            assert message
            assert variant


def test_every_mistake_of_the_model_is_one_of_our_source():
    source = "".join(inspect.getsource(module) for module in (parameters, layers, transformer))
    assert len(PARTS) > 10
    for _, _, mistakes in PARTS:
        for message, *texts in mistakes:
            assert all(right in source for right in texts[::2]), message


def variants_of(check):
    return getattr(check, "keywords", {}).get("variants")


def test_the_documentation_has_all_steps_with_chapters_that_exist():
    text = (ROOT / "docs/learn.md").read_text("utf-8")
    rows = [f"| {step.number} | `{step.name}` | {step.title} | {step.chapter} |" for step in STEPS]
    assert "\n".join(rows) in text
    assert f"leads in {len(STEPS)} steps" in text
    for step in STEPS:
        assert [*(ROOT / "docs/book").glob(f"{step.chapter:02}-*.md")]


@parametrize_some("name", ["apply", "backward", "unbroadcast", *OUR_OPS], keep=5)
def test_the_system_runs_on_the_learners_code(tmp_path, name):
    """With any part of theirs broken, the training step fails."""
    write_answers(tmp_path, STEPS[-1])
    work = Work(tmp_path, STEPS[-1])
    work.run()
    check_training_step(work)
    if name in OUR_OPS:
        vars(work.ops.module)[name].backward = staticmethod(broken)
    else:
        setattr(work.engine.module, name, broken)
        work.engine.Tensor.backward = work.engine.backward
    vars(work.ops.module)["apply"] = work.engine.apply
    with pytest.raises(ZeroDivisionError, match="broken"):
        check_training_step(work)


def broken(*arguments, **parameters):
    raise ZeroDivisionError("broken")


@pytest.mark.heavy
def test_the_translator_is_asked_and_a_step_of_it_becomes_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PAIRS", 30)
    write_answers(tmp_path, STEPS[-1])
    said = []
    page = demo.run_demo(tmp_path, 1, [""], said.append)
    assert said[0].startswith("step 1  loss ")
    assert said[1].startswith("\n  → ")
    text = page.read_text(encoding="utf-8")
    for name in (
        "A step of my own",
        "ScaledDotProductAttention",
        "LayerNorm",
        "ops.py",
        "encoder.layers.1.feed_forward",
    ):
        assert name in text


def test_the_replayed_step_has_the_gradients_of_the_learners_engine(work):
    model = work.model.Transformer(STILL, 0, np.float64)
    loss = model.loss(SOURCE, TARGET, LABELS, 0.1)
    loss.backward()
    leaves = {id(p): ag.Tensor(p.data, requires_grad=True) for p in model.parameters()}
    demo.replayed(work, loss, leaves).backward()
    for p in model.parameters():
        np.testing.assert_allclose(leaves[id(p)].grad.data, p.grad.data, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_the_path_is_walked_to_its_end(tmp_path):
    """Each step in a process of its own, as the command judges it, within ten seconds."""
    longest = 0.0
    for step in STEPS:
        write_answers(tmp_path, step)
        began = time.monotonic()
        verdict = judge("additions.course.path.judge", step.name, tmp_path, 10.0)
        longest = max(longest, time.monotonic() - began)
        assert verdict.message == "", step
    print(f"{len(STEPS)} steps, the longest {longest:.1f} s")


@pytest.mark.slow
def test_the_translator_learns_the_built_in_corpus(tmp_path):
    write_answers(tmp_path, STEPS[-1])
    said = []
    held_out = built_in_corpus(train_pairs=0, valid_pairs=12, test_pairs=0).valid
    demo.run_demo(tmp_path, 1000, [english for english, _ in held_out], said.append)
    losses = [float(line.rpartition(" ")[2]) for line in said if line.startswith("step")]
    assert losses[-1] < 1.5 < losses[0]
    right = sum(line.endswith(f"  → {german}") for line, (_, german) in zip(said[-12:], held_out, strict=True))
    assert right >= 6
