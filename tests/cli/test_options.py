"""Options that commands share: one name, one meaning, one help text."""

from collections import defaultdict
from dataclasses import fields

import pytest

pytest.importorskip("typer")

from typer.main import get_command

from sphereot.cli import build_app
from sphereot.cli.options import ReadOptions, WeightedReadOptions

GROUP = get_command(build_app())
COMMANDS = {name: command for name, command in GROUP.commands.items() if not hasattr(command, "commands")} | {
    f"density {name}": command for name, command in GROUP.commands["density"].commands.items()
}


def options(command):
    return {parameter.name: parameter for parameter in COMMANDS[command].params}


@pytest.mark.parametrize(
    "command",
    ["distance", "pairwise", "test", "uniformity", "drift", "density fit", "density evaluate", "density plot"],
)
def test_commands_that_read_points_take_every_reading_option(command):
    assert {field.name for field in fields(ReadOptions)} <= set(options(command))
    assert ("weights" in options(command)) == (command not in ("density evaluate", "density plot"))


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"info"}))
def test_every_command_shows_a_traceback_if_asked(command):
    assert options(command)["debug"].opts == ["--debug"]


def test_shared_options_have_one_help_text():
    shared = {field.name for field in fields(WeightedReadOptions)} | {
        "p",
        "as_json",
        "debug",
        "max_projections",
        "rtol",
    }
    texts = defaultdict(set)
    for command in set(COMMANDS) - {"density sample"}:  # whose --lonlat is about the points that it writes
        for name, option in options(command).items():
            if name in shared and not option.hidden:
                texts[name].add((option.help, *option.opts))
    assert set(texts) == shared
    assert len(texts.pop("p")) == 2  # the order of a distance, and the order that a test shows
    assert all(len(each) == 1 for each in texts.values()), texts
