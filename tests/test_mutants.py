"""The mutants: a few of them detected for real, all of them still possible, and a runner that hides no survivor."""

import pytest

import autograd as ag
from additions.course.exercise import BUG_EXERCISES
from autograd.engine import Op
from autograd.ops import arithmetic
from tests.mutants import __main__ as command
from tests.mutants import checks, run
from tests.mutants.checks import NETWORKS, ROOT, Finding, run_tests
from tests.mutants.damage import Mutant, StaleMutantError, damaged
from tests.mutants.lists import GROUPS, representatives
from tests.mutants.page import page
from tests.mutants.run import Verdict, shortened, summary, try_out

pytestmark = pytest.mark.heavy
PAGE = ROOT / "docs" / "mutants.md"
COMMAND = "python -m tests.mutants --write docs/mutants.md"
EVERY = [mutant for mutants in GROUPS.values() for mutant in mutants]
SIGN = Mutant("autograd.ops.arithmetic:Negative.backward", "sign", "-g", "g")
HARMLESS = Mutant("autograd.ops.arithmetic:Negative.backward", "nothing that shows", "-g", "-(+g)")
STALE = Mutant("autograd.ops.arithmetic:Negative.backward", "of other days", "-gg", "g")


# ---- The mutants ----


@pytest.mark.parametrize("mutant", representatives(), ids=str)
def test_one_of_each_kind_is_detected(mutant):
    verdict = try_out(mutant)
    assert verdict.is_detected, verdict.problem
    assert verdict.detected_by
    assert verdict.error


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [mutant for mutant in EVERY if mutant not in representatives()], ids=str)
def test_every_mutant_is_detected(mutant):
    verdict = try_out(mutant)
    assert verdict.is_detected, verdict.problem


def test_every_mutant_says_what_it_damages():
    """Whoever changes a line that a mutant replaces hears of it here, not half an hour into `make mutants`."""
    for mutant in EVERY:
        with damaged(mutant):
            pass
        for name in mutant.near:
            if name.endswith(".py"):
                assert (ROOT / name).exists(), f"{mutant}: there is no {name}"
            else:
                assert name in {*Op.registry, *NETWORKS, "exact zeros"}, f"{mutant}: there are no checks of {name}"
    assert len(EVERY) >= 60
    assert len({str(mutant) for mutant in EVERY}) == len(EVERY)


def test_the_page_is_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert f"**{len(EVERY)} mutants, {len(EVERY)} detected**" in text, f"write it again: {COMMAND}"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{len(EVERY)} deliberate errors, {len(EVERY)} detected" in readme
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.endswith(" | detected |")]
    listed = page({group: [Verdict(mutant) for mutant in mutants] for group, mutants in GROUPS.items()}).splitlines()
    expected = [line for line in listed if line.startswith("| ") and line.endswith(" | detected |")]
    assert len(rows) == len(expected) == len(EVERY)
    for row, start in zip(rows, expected, strict=True):  # number, place, damage; what noticed may be another check
        assert row.startswith(start.removesuffix("|  | ``  `` | detected |")), f"write it again: {COMMAND}"


# ---- Damage ----


def test_damage_lasts_as_long_as_its_block():
    whole = ag.negative
    x = ag.Tensor(2.0, requires_grad=True)

    def slope():
        (g,) = ag.grad(whole(x), x)
        return g.item()

    assert slope() == -1
    with damaged(SIGN):
        assert slope() == 1  # also under a name that was imported before
    assert slope() == -1
    with pytest.raises(ZeroDivisionError), damaged(SIGN):
        raise ZeroDivisionError
    assert slope() == -1


def test_damage_to_an_attribute_lasts_as_long_as_its_block():
    with damaged(Mutant("autograd.ops.arithmetic:Add.broadcasts", "", True, False, attribute=True)):
        assert arithmetic.Add.broadcasts is False
    assert arithmetic.Add.broadcasts is True


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (STALE, "the text '-gg' occurs 0 times in it, must occur once"),
        (Mutant("autograd.engine:run_backward", "", "node", "edge"), r"the text 'node' occurs \d+ times"),
        (Mutant("autograd.engine:run_backward", "", "nodes, arrivals =", "nodes, arrivals ="), "occurs 1 times"),
        (Mutant("autograd.engine:run_backward", "", "# wanted itself", "# wanted too"), "changes nothing that runs"),
        (Mutant("autograd.engine:_stroll", "", "a", "b"), "there is no '_stroll'"),
        (Mutant("autograd.ops.elementwise:Exp.save", "", "a", "b"), "is it inherited, renamed or gone"),
        (Mutant("autograd.engine:_order", "", "a", "b"), "is not a function"),
        (Mutant("autograd.ops.arithmetic:Add.broadcasts", "", False, True, attribute=True), "its value is True"),
    ],
    ids=lambda value: value.damage if isinstance(value, Mutant) else "",
)
def test_a_mutant_that_no_longer_applies(mutant, message):
    with pytest.raises(StaleMutantError, match=message), damaged(mutant):
        pass


# ---- The runner ----


def slope_check():
    """The slope of -x, as a check."""
    x = ag.Tensor(2.0, requires_grad=True)

    def check():
        try:
            (g,) = ag.grad(arithmetic.negative(x), x)
        except NameError as error:
            return Finding("slope", f"NameError: {error}", check)
        return None if g.item() == -1 else Finding("slope", f"it is {g.item()}", check)

    return check


@pytest.fixture
def few_checks(monkeypatch):
    """Only two checks: one that sees nothing, and the slope of -x."""
    monkeypatch.setattr(run, "checks_for", lambda mutant: iter([lambda: None, slope_check()]))


def test_verdicts(few_checks):
    assert try_out(SIGN) == Verdict(SIGN, "slope", "it is 1.0")
    assert try_out(SIGN).is_detected
    assert try_out(HARMLESS).problem == "SURVIVES: no check notices"
    assert try_out(STALE).problem.startswith(f"STALE: {STALE}: the text '-gg' occurs 0 times")


def test_a_check_that_fails_on_the_code_as_it_is_proves_nothing(monkeypatch):
    def fails():
        return Finding("always", "it fails", fails)

    monkeypatch.setattr(run, "checks_for", lambda mutant: iter([fails]))
    verdict = try_out(SIGN)
    assert not verdict.is_detected
    assert verdict.problem == "UNPROVEN: this check fails on the code as it is too: it fails"


def test_damage_that_cannot_run_proves_nothing(few_checks):
    broken = Mutant("autograd.ops.arithmetic:Negative.backward", "a slip of the pen", "-g", "-gg")
    assert try_out(broken).problem == "BROKEN: the damage cannot run: NameError: name 'gg' is not defined"


def test_the_command_tells_every_verdict(few_checks, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "GROUPS", {"Ops": [SIGN, HARMLESS], "Engine": [STALE]})
    written = tmp_path / "page.md"
    assert command.main(["--write", str(written)]) == 1
    assert not written.exists()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["1", "detected"], ["2", "SURVIVES"], ["3", "STALE"]]
    assert lines[1].endswith("Negative.backward: sign  [slope]")
    assert lines[4] == f"NOT DETECTED: {HARMLESS}: SURVIVES: no check notices"
    assert lines[5].startswith(f"NOT DETECTED: {STALE}: STALE: ")
    assert lines[-1] == "3 mutants, 1 detected"


def test_the_command_is_content_when_all_are_detected(few_checks, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "GROUPS", {"Ops": [SIGN, HARMLESS]})
    assert command.main(["--only", "sign"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 mutants, 1 detected"
    assert command.main(["--only", "no such mutant"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 mutants, 0 detected"
    with pytest.raises(SystemExit):
        command.main(["--only", "sign", "--write", str(tmp_path / "page.md")])


def test_the_command_writes_a_page(few_checks, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "GROUPS", {"Ops": [SIGN]})
    assert command.main(["--write", str(tmp_path / "page.md")]) == 0
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "**1 mutants, 1 detected**" in text
    assert "| 1 | `ops.arithmetic.Negative.backward` | sign | slope | `` it is 1.0 `` | detected |" in text


def test_tests_are_run_and_their_failure_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    file = tmp_path / "test_something.py"
    code = "def test_right():\n    pass\n\ndef test_wrong():\n    assert 1 == 2, 'not equal'\n"
    file.write_text(code, encoding="utf-8")
    finding = run_tests(str(file))
    assert finding is not None
    assert finding.name.endswith("test_wrong")
    assert "not equal" in finding.error
    assert finding.again() is not None
    assert run_tests(str(file), "right") is None
    with pytest.raises(RuntimeError, match="no test ran"):
        run_tests(str(file), "no such test")


def test_a_long_error_is_shortened():
    assert shortened("wrong gradient …\nlikely cause: the sign is wrong") == "the sign is wrong"
    assert shortened("assert ('/somewhere/file.py', 3) == 4") == "assert ('…', 3) == 4"
    found = "wrong gradient, most that of x[0]:\n  analytic   {}\n  numerical  {}"
    assert shortened(found.format("1.23456789e-05", "0, by a finer step")) == "x[0] is 1.235e-05, should be 0"
    assert shortened(found.format("nan", "-inf")) == "x[0] is nan, should be -inf"
    assert shortened(found.format("(1+2j)", "1+2j")) == "wrong gradient, most that of x[0]:"
    assert shortened("AssertionError: " + "x" * 300) == "x" * 99 + "…"
    assert summary([Verdict(SIGN), Verdict(SIGN, problem="SURVIVES")]) == "2 mutants, 1 detected"
    assert "0 by" not in page({"Ops": [Verdict(SIGN, "slope", "it is 1.0")]})


@pytest.mark.parametrize("exercise", BUG_EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_a_bug_to_find_is_one_of_the_mutants(exercise):
    assert exercise.constant("MUTANT") in [(mutant.place, mutant.damage) for mutant in EVERY]
