"""requirements.lock: each package of a plain installation, in an allowed version, with the hashes of its files."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {
    "requirements.lock": PROJECT["project"]["dependencies"],
    "requirements-build.lock": PROJECT["build-system"]["requires"],
}


def locked(name):
    """(requirement, number of hashes) of each package of a lock."""
    text = (ROOT / name).read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(Requirement(line.partition("--hash")[0]), line.count("--hash=sha256:")) for line in lines]


@pytest.mark.parametrize("name", LOCKS)
@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0", "3.14.0"])
def test_each_package_has_one_allowed_version_and_hashes(name, python):
    place = {"python_version": python.rpartition(".")[0], "python_full_version": python}
    here = [(each, hashes) for each, hashes in locked(name) if not each.marker or each.marker.evaluate(place)]
    assert all(hashes for _, hashes in here)
    versions = {each.name: str(each.specifier).removeprefix("==") for each, _ in here}
    assert len(versions) == len(here)
    for needed in map(Requirement, LOCKS[name]):
        assert needed.specifier.contains(versions[needed.name]), f"{needed}: run .ci/lock"


def test_the_lowest_versions_are_those_of_the_project():
    done = subprocess.run([sys.executable, ROOT / ".ci" / "lowest.py"], capture_output=True, text=True, check=True)
    lowest = dict(line.split("==") for line in done.stdout.splitlines())
    assert {"numpy", "safetensors", "pytest", "hypothesis"} <= lowest.keys()
    for needed in map(Requirement, PROJECT["project"]["dependencies"]):
        assert needed.specifier.contains(lowest[needed.name])
