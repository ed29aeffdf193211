"""The path of `minitf learn build` can be walked to its end, and each classic mistake on it is called by its name."""

import inspect

import pytest

from minitf.learn.path.checks import CHECKS, Work
from minitf.learn.path.judge import judge_step
from minitf.learn.path.model_checks import PARTS
from minitf.learn.path.steps import STEPS, find_step
from minitf.learn.path.system import OUR_OPS, check_training_step
from minitf.model import layers, parameters, transformer
from tests.helpers.learner.mistakes import MISTAKES
from tests.helpers.learner.walk import ANSWERS, write_answers

EACH_MISTAKE = [(name, *mistake) for name, mistakes in MISTAKES.items() for mistake in mistakes]


def verdict_on(folder, name, changes=()):
    step = find_step(name)
    write_answers(folder, step, tuple(zip(changes[::2], changes[1::2], strict=True)))
    return judge_step(step, folder)


@pytest.mark.parametrize("name", [step.name for step in STEPS])
def test_the_reference_answer_is_right(tmp_path, name):
    verdict = verdict_on(tmp_path, name)
    assert verdict.message == ""
    assert verdict.passed


@pytest.mark.parametrize("mistake", EACH_MISTAKE, ids=lambda mistake: f"{mistake[0]}: {mistake[1][:40]}")
def test_a_classic_mistake_is_called_by_its_name(tmp_path, mistake):
    name, message, *changes = mistake
    verdict = verdict_on(tmp_path, name, changes)
    assert message in verdict.message
    assert verdict.message


def test_each_step_has_an_answer_and_mistakes():
    assert [*ANSWERS] == [step.name for step in STEPS]
    assert {*MISTAKES} == {*ANSWERS}
    assert min(map(len, MISTAKES.values())) >= 3


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
    for _, mistakes in PARTS:
        for message, *texts in mistakes:
            assert all(right in source for right in texts[::2]), message


def variants_of(check):
    return getattr(check, "keywords", {}).get("variants")


@pytest.mark.parametrize("name", [*OUR_OPS, "apply", "backward", "unbroadcast"])
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
