"""Print the requirements of the package from pyproject.toml, one per line.

    python tools/requirements.py release              those of an extra, without the package itself
    python tools/requirements.py core-test --oldest   constraints: the lower bound of every requirement

The first installs the tools of an extra where the package is not to be built. The second is for `pip install
--constraint`; `numpy>=2.0` becomes `numpy==2.0.*`.
"""

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
OWN_EXTRAS = re.compile(r"sphereot\[(.*)\]")
LOWER_BOUND = re.compile(r"(?P<name>[\w.-]+)(?:\[.*\])?>=(?P<version>[\d.]+)[^;]*(?P<marker>;.*)?")


def of_extra(project: dict[str, Any], extra: str) -> Iterator[str]:
    """The requirements of an extra and of the extras that it names."""
    for requirement in project["optional-dependencies"][extra]:
        if named := OWN_EXTRAS.fullmatch(requirement):
            for other in named[1].split(","):
                yield from of_extra(project, other)
        else:
            yield requirement


def oldest(requirement: str) -> str:
    """The constraint that admits the lower bound of a requirement, and patches of it."""
    bound = LOWER_BOUND.fullmatch(requirement)
    if bound is None:
        return requirement  # a single version
    return f"{bound['name']}=={bound['version']}.*{bound['marker'] or ''}"


def main(arguments: list[str] | None = None) -> None:
    """Print the requirements that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="+", metavar="extra", help="names of extras")
    parser.add_argument("--oldest", action="store_true", help="constraints with the lower bounds, of the core too")
    options = parser.parse_args(arguments)
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    requirements = [line for extra in options.extras for line in of_extra(project, extra)]
    if options.oldest:
        requirements = [oldest(line) for line in project["dependencies"] + requirements]
    print(*dict.fromkeys(requirements), sep="\n")


if __name__ == "__main__":
    main()
