"""The path of `minitf learn build` can be walked to its end, and each classic mistake on it is called by its name."""

import pytest

from minitf.learn.path.judge import judge_step
from minitf.learn.path.steps import STEPS, find_step
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
