"""The list of what a server consists of: complete, and the same bytes each time."""

import json
from pathlib import Path

import lakelog
from release.build import build
from release.sbom import write_sbom
from release.versions import ROOT
from release.vulnerabilities import LOCKED, pins


def test_it_names_every_package_at_its_version_and_is_reproducible(tmp_path: Path) -> None:
    wheel = build(ROOT, tmp_path / "dist").wheel
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    one, other = (write_sbom(wheel, folder) for folder in folders)
    assert one.read_bytes() == other.read_bytes()
    bill = json.loads(one.read_text())
    assert bill["metadata"]["component"]["name"] == "lakelog"
    assert bill["metadata"]["component"]["version"] == lakelog.__version__
    locked = {f"{pin.name}@{pin.version}" for pin in pins(LOCKED.read_text())}
    assert {part["purl"].removeprefix("pkg:pypi/") for part in bill["components"]} == locked
    assert all(part.get("licenses") for part in bill["components"])
    direct = {row["ref"]: row.get("dependsOn", []) for row in bill["dependencies"]}
    assert any(one.startswith("kio==") for one in direct["root-component"])
