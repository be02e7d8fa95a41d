"""The code and the documentation use the standard terms of the field.

``python tests/docs/test_words.py [PATH ...]`` lists every use of a word that has a standard term,
counted by directory. Each entry of :data:`WORDS` names the term to use in its place.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".md", ".html", ".js", ".css", ".cpp", ".toml"}
# Decisions quote what was tried under the name it had; results are made from records.
EXCLUDED = ("docs/decisions/", "docs/results")

# A word may stand alone, in a sentence or between the underscores of a name.
WORDS = {
    r"bells?": "mixture density, n_components",
    r"foret(?:ell\w*|old)": "forecast, predict",
    r"fores(?:ee\w*|aw)": "forecast, predict",
    r"hears?|heard|hearing": "depends on, observed, n_neighbours",
    r"has_say|have_say|a say|no say": "active",
    r"says?|said|saying|speaks?|spoke|spoken": "shows, means, reports",
    r"rhythms?": "season, period",
    r"entrants?": "Candidate",
    r"judg\w+": "score, Score",
    r"handicap\w*": "selection margin",
    r"kriging": "nearest-neighbour GP",
    r"swings?": "amplitude",
    r"heats?(?! equation)": "model selection",
    r"races?|raced|racing": "model selection",
    r"doubt\w*": "variance, uncertainty",
    r"remember\w*": "set_train_data, keep",
    r"absorb\w*": "condition_on",
    r"faults?": "outliers, sentinel values",
    r"manners?": "API",
    r"(?<!random )(?<!os\.)(?<!ast\.)walk(?:s|ed|ing)?": "local level (random walk)",
    r"wander\w*": "random walk",
    r"stretch(?:es)?": "segment",
    r"as they come": "by default",
    r"as a rule": "usually",
    r"tells?|told|telling": "report, show",
    r"n_bells|n_heard": "n_components, n_neighbours",
    r"rounds|(?:a|one|longer|whole|each|the) round(?= |\.|,|;)": "cycles",
    r"start=[\"']|--start|presets?": "model=, --model",
    r"answers?|answered|answering": "prediction, response",
    r"feedback": "nonlinear autoregression",
}
# Sentences that begin with "Who" or "What" name the thing itself instead.
OPENER = re.compile(r'(?:^\s*r?"""|(?<=[.:] )|^\s*# |^\s*|^- )(?:Who|What) (?!\w+ \w+[^.]*\?)')
PATTERNS = [
    (re.compile(rf"(?<![A-Za-z])(?:{word})(?![A-Za-z])", re.IGNORECASE), term)
    for word, term in WORDS.items()
]

# (path, part of the line): why the word may stay there.
ALLOWED: dict[tuple[str, str], str] = {
    ("src/deeplfm/estimators/tuning.py", "tudy.tell("): "a method of Optuna",
}


class Use(NamedTuple):
    """One word in one line."""

    path: str
    number: int
    word: str
    term: str
    line: str


def files(*paths: Path) -> Iterator[Path]:
    """Source and documentation below the given paths."""
    for path in paths or (
        ROOT / "src",
        ROOT / "docs",
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            name = file.relative_to(ROOT).as_posix()
            if file.suffix in SUFFIXES and not name.startswith(EXCLUDED):
                yield file


def uses(file: Path) -> Iterator[Use]:
    """Every word of a file that has a standard term, and is not allowed there."""
    path = file.relative_to(ROOT).as_posix()
    allowed = [part for (place, part) in ALLOWED if place == path]
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if any(part in line for part in allowed):
            continue
        for pattern, term in PATTERNS:
            for match in pattern.finditer(line):
                yield Use(path, number, match[0], term, line.strip())
        if match := OPENER.search(line):
            yield Use(
                path, number, match[0].strip(), "the thing itself as the subject", line.strip()
            )


def test_words_are_the_standard_terms() -> None:
    found = [use for file in files() for use in uses(file)]
    assert not found, "\n".join(f"{u.path}:{u.number}: {u.word!r}: {u.term}" for u in found[:50])


def test_every_exception_is_needed() -> None:
    for path, part in ALLOWED:
        assert part in (ROOT / path).read_text(encoding="utf-8"), (path, part)


def report(*paths: str) -> None:
    """Print the uses below the paths, and their number by directory."""
    found = [use for file in files(*(Path(p).resolve() for p in paths)) for use in uses(file)]
    for use in found if paths else []:
        print(f"{use.path}:{use.number}: {use.word!r} -> {use.term}\n    {use.line}")
    for name, count in sorted(Counter(str(Path(use.path).parent) for use in found).items()):
        print(f"{count:5d}  {name}")
    print(f"{len(found):5d}  in all")


if __name__ == "__main__":
    report(*sys.argv[1:])
