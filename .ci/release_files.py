"""Write what goes with a release into the directory of its files: a bill of materials and SHA-256 checksums.

    python .ci/release_files.py dist

`….cdx.json` (CycloneDX 1.6) names the packages of requirements.lock, with the hashes of their files; `SHA256SUMS` is
for `sha256sum --check`. Their bytes depend on the release and the lock alone.
"""

import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def component(name: str, version: str, **more: object) -> dict[str, object]:
    """A package, under the address that CycloneDX and databases of vulnerabilities know it by."""
    address = f"pkg:pypi/{canonicalize_name(name)}@{version}"
    return {"type": "library", "bom-ref": address, "name": name, "version": version, "purl": address, **more}


def locked(text: str) -> list[dict[str, object]]:
    """The components of a lock; those that only some systems or versions of Python need are optional."""
    found = []
    for line in text.replace("\\\n", "").splitlines():
        if line and not line.startswith("#"):
            package = Requirement(line.partition("--hash")[0])
            each = component(package.name, str(package.specifier).removeprefix("=="))
            each["scope"] = "optional" if package.marker else "required"
            each["externalReferences"] = [
                {"type": "distribution", "url": each["purl"], "hashes": [{"alg": "SHA-256", "content": digest}]}
                for digest in re.findall(r"--hash=sha256:(\w+)", line)
            ]
            found.append(each)
    return found


def bill_of_materials(version: str) -> dict[str, object]:
    """The project, the packages of a plain installation, and which of them the project itself names."""
    project = component(PROJECT["name"], version, licenses=[{"license": {"id": PROJECT["license"]}}])
    components = locked((ROOT / "requirements.lock").read_text())
    direct = {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]}
    needed = [each["bom-ref"] for each in components if canonicalize_name(str(each["name"])) in direct]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": project},
        "components": components,
        "dependencies": [{"ref": project["bom-ref"], "dependsOn": needed}],
    }


def write(folder: Path) -> None:
    """Write both files.  Raises: SystemExit where `folder` does not hold the files of one release"""
    archives = sorted(each.name for each in folder.iterdir() if each.name.endswith((".tar.gz", ".whl")))
    versions = {name.removesuffix(".tar.gz").split("-")[1] for name in archives}
    if len(versions) != 1:
        sys.exit(f"error: {folder} holds the files of {len(versions)} releases; leave those of one there")
    (version,) = versions
    bill = folder / f"{PROJECT['name'].replace('-', '_')}-{version}.cdx.json"
    bill.write_text(json.dumps(bill_of_materials(version), indent=1) + "\n")
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}" for name in (*archives, bill.name)]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
