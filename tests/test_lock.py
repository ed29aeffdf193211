"""requirements.lock: each package of a plain installation, in an allowed version, with the hashes of its files.

And what a release says of them.
"""

import hashlib
import json
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


def write_release_files(folder):
    return subprocess.run([sys.executable, ROOT / ".ci" / "release_files.py", folder], capture_output=True, text=True)


def test_a_release_names_its_packages_and_has_checksums(tmp_path):
    archives = {"minitf_transformer-1.2.3.tar.gz": b"source", "minitf_transformer-1.2.3-py3-none-any.whl": b"wheel"}
    for name, content in archives.items():
        (tmp_path / name).write_bytes(content)
    done = write_release_files(tmp_path)
    assert done.returncode == 0, done.stderr
    bill = "minitf_transformer-1.2.3.cdx.json"
    sums = dict(reversed(line.split("  ")) for line in (tmp_path / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() == {*archives, bill}
    assert all(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest for name, digest in sums.items())
    text = json.loads((tmp_path / bill).read_text())
    project = text["metadata"]["component"]
    assert (text["bomFormat"], text["specVersion"]) == ("CycloneDX", "1.6")
    assert (project["name"], project["version"]) == ("minitf-transformer", "1.2.3")
    components = {(each["name"], each["version"]): each for each in text["components"]}
    packages = locked("requirements.lock")
    assert len(components) == len(packages)
    for package, hashes in packages:
        version = str(package.specifier).removeprefix("==")
        each = components[package.name, version]
        assert each["purl"] == f"pkg:pypi/{package.name}@{version}"
        assert len({one["content"] for file in each["externalReferences"] for one in file["hashes"]}) == hashes
        assert (each["scope"] == "optional") == (package.marker is not None)
    (dependencies,) = text["dependencies"]
    assert dependencies["ref"] == project["purl"]
    direct = {Requirement(each).name for each in PROJECT["project"]["dependencies"]}
    assert {each.split("/")[1].split("@")[0] for each in dependencies["dependsOn"]} == direct
