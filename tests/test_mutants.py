"""The machine of deliberate mistakes: one of each rule is noticed, and no survivor is hidden."""

import os

import pytest

import autograd as ag

pytest.importorskip("additions.course", reason="the rules of mistakes are those of the course, which is not here")

from tests.helpers.marks import parametrize_some
from tests.mutants import __main__ as command
from tests.mutants import checks
from tests.mutants.checks import checks_for, try_out
from tests.mutants.mutants import ROOMS, RULES, Mutant, all_mutants

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each mutant is a fork of the process")
SIGN = "the sign of … is wrong: its minus is missing"
NEGATIVE = Mutant("Ops", "autograd.ops.arithmetic", "Negative.backward", SIGN, 0, "the sign")


def slope():
    """The slope of -x, as a check."""
    x = ag.Tensor(2.0, requires_grad=True)
    (g,) = ag.grad(ag.negative(x), x)
    return None if g.item() == -1 else f"it is {g.item()}"


@pytest.fixture(scope="module")
def quick():
    """The mutants whose checks are quick, by their rules."""
    return {mutant.rule: mutant for mutant in all_mutants(rooms=("Ops", "Optimizer"))}


@pytest.mark.heavy
@parametrize_some("rule", RULES, keep=range(0, len(RULES), 6))
def test_one_of_each_rule_is_noticed(quick, rule):
    if rule in quick:
        assert next(try_out([quick[rule]]))[1] is not None, quick[rule]


def test_the_rules_make_mistakes_in_every_room():
    mutants = all_mutants()
    assert {mutant.room for mutant in mutants} == set(ROOMS)
    assert {mutant.rule for mutant in mutants} == set(RULES)


def test_each_mutant_has_checks():
    for mutant in all_mutants(percent=5):
        assert next(checks_for(mutant), None), mutant


def test_a_mistake_is_made_in_a_process_of_its_own():
    assert [*try_out([NEGATIVE, None], 2, lambda _: iter([slope]))].count((NEGATIVE, "it is 1.0")) == 1
    assert slope() is None


def test_a_process_that_is_ended_has_noticed():
    (result,) = try_out([None], checks=lambda _: iter([lambda: os.kill(os.getpid(), 9)]))
    assert result == (None, "the process ended: it took too long, or too much memory")


def test_a_mutant_that_no_test_here_runs_is_told_apart(monkeypatch):
    monkeypatch.setattr(checks, "skipped", ["no GPU"])
    found = [*try_out([NEGATIVE], checks=lambda _: iter([lambda: None]))]
    assert command.summary(dict(found)) == "1 mutants, 0 detected, 1 not run here: no GPU"
    assert [*try_out([NEGATIVE], checks=lambda _: iter([lambda: slope() and None]))] == [(NEGATIVE, None)]


def test_the_command_tells_survivors(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "all_mutants", lambda percent: [NEGATIVE])
    monkeypatch.setattr(command, "import_tests", lambda modules: None)
    monkeypatch.setattr(command, "all_checks", lambda mutants: iter([slope]))
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n**0 mutants")
    monkeypatch.setattr(command, "try_out", lambda mutants, *_: ((mutant, None) for mutant in mutants))
    assert command.main(["--write", str(page)]) == 1
    assert page.read_text("utf-8").endswith("**0 mutants")
    assert f"NOT DETECTED: {NEGATIVE}\n1 mutants, 0 detected\n" in capsys.readouterr().out
    monkeypatch.setattr(
        command, "try_out", lambda mutants, jobs=1, only=None: try_out(mutants, jobs, lambda _: iter([slope]))
    )
    assert command.main(["--write", str(page)]) == 0
    assert page.read_text("utf-8").startswith("# Page\n\n**1 mutants, 1 detected.**")
    assert command.main(["--only", "no such mutant"]) == 1


def test_a_check_that_fails_on_the_code_as_it_is_proves_nothing(monkeypatch, capsys):
    monkeypatch.setattr(command, "all_mutants", lambda percent: [NEGATIVE])
    monkeypatch.setattr(command, "import_tests", lambda modules: None)
    monkeypatch.setattr(command, "all_checks", lambda mutants: iter([lambda: "it fails"]))
    assert command.main([]) == 1
    assert capsys.readouterr().out == "NOTHING PROVEN: a check fails on the code as it is: it fails\n"
