"""Every command that a page or an alert tells somebody to type can be typed."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from lakelog.cli.commands import KAFKA_TOOLS, main
from lakelog_kafka_tools.grammar import read_usage

ROOT = Path(__file__).parents[3]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.yml")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
ENDS = re.compile(r"[|;<>&]|\d?>")
_PROMPT = re.compile(r"\$ (?:.*\| )?(?:[A-Z_]+=\S+ )*(?:\S*/)?lakelog (.*)")
_NEXT = re.compile(r"(?<![\w/])lakelog ((?:[a-z][\w-]*)(?: [^\s,;\"'`)]+)*)")


class Written(NamedTuple):
    """A command, and where it stands."""

    where: str
    words: list[str]


def written(path: Path) -> list[Written]:
    """Return the commands of a page: behind a prompt, or what an alert says is next."""
    found: list[Written] = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        where = f"{path.relative_to(ROOT)}:{number + 1}"
        if path.suffix == ".yml":
            if line.strip().startswith("next:"):
                commands = _NEXT.findall(line.replace("{{ $labels.consumergroup }}", "GROUP"))
                found += [Written(where, command.split()) for command in commands]
            continue
        typed = _PROMPT.search(line)
        if typed is None:
            continue
        text, at = typed[1], number
        while text.rstrip().endswith("\\"):
            at += 1
            text = text.rstrip()[:-1] + lines[at].strip()
        # What it does stands behind two blanks, and what may be left out in brackets.
        text = re.split(r"\s{2,}(?=[a-z#])|\s#", text)[0]
        words = shlex.split(re.sub(r"[\[\]]", "", text))
        ends = [at for at, word in enumerate(words) if ENDS.match(word)]
        found.append(Written(where, words[: ends[0] if ends else None]))
    return found


COMMANDS = [one for path in PAGES for one in written(path)]


def test_there_are_commands_to_look_at() -> None:
    assert len(COMMANDS) > 60
    assert {one.where.split("/")[0] for one in COMMANDS} >= {"docs", "deploy"}


@pytest.mark.parametrize("one", COMMANDS, ids=lambda one: f"{one.where} {one.words[0]}")
def test_it_can_be_typed(one: Written) -> None:
    command: click.Command = main
    context = click.Context(main, info_name="lakelog")
    words = list(one.words)
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            return  # The command alone, or its options: --help, --version.
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no {name}"
        if name in KAFKA_TOOLS:
            known = read_usage(name).options
            said = [word.lstrip("-") for word in words if word.startswith("--")]
            assert not [word for word in said if word.partition("=")[0] not in known]
            return
        command, context = found, click.Context(found, context, info_name=name)
    given, left, _ = command.make_parser(context).parse_args(words)
    assert not left, f"nobody takes {left}"
    missing = [
        param.name
        for param in command.params
        if param.required and not given.get(str(param.name)) and param.envvar is None
    ]
    assert not missing
