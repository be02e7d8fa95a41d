"""The examples run and show what they say they show; the code and the commands of the guide work."""

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from deeplfm.cli import main
from deeplfm.data import available

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GUIDE = ROOT / "docs" / "guide.md"


def number(pattern: str, text: str) -> float:
    """The number that an example printed in place of ``#``."""
    found = re.search(pattern.replace("#", r"(-?[\d.]+(?:e-?\d+)?)"), text)
    assert found, f"{pattern!r} is not in:\n{text}"
    return float(found[1])


def column(name: str, text: str) -> list[float]:
    """All values below a heading of the printed tables."""
    values, position = [], None
    for line in text.splitlines():
        cells = line.split()
        if name in cells:
            position = cells.index(name) - len(cells)
        elif position is not None and len(cells) > 1 and cells[0].split("_")[0].isupper():
            values.append(float(cells[position]))
    return values


def gap_and_forecast_are_near_the_truth(text: str) -> bool:
    forecast = number("forecast: root mean square error #", text)
    return number("gap: root mean square error #", text) < 0.06 and forecast < 0.15


def every_channel_is_filled_and_forecast(text: str) -> bool:
    scores = column("nmse", text)
    return len(scores) == 6 and max(scores) < 0.15 and "trained professional" in text


def the_rate_is_that_of_the_heart(text: str) -> bool:
    inside = number("inside the 95 % band: #%", text)
    return number("root mean square error # beats", text) < 2 and inside >= 80


def the_other_stations_fill_the_gap(text: str) -> bool:
    inside = number("with the others: .* #% inside", text)
    alone = number("alone: root mean square error #", text)
    return number("with the others: root mean square error #", text) < 0.6 * alone and inside >= 80


def the_plan_is_worth_its_while(text: str) -> bool:
    without = number("forecast without it: #", text)
    return (
        "2024-03-31 14:00:00+02:00" in text
        and number("with the plan: #", text) < 0.4 < 1 < without
        and number("lost day: #", text) < 0.3
        and number("holds the truth in #%", text) >= 90
    )


def force_and_decays_are_recovered(text: str) -> bool:
    decays = re.findall(r"decay of .*: ([\d.]+), true ([\d.]+)", text)
    return (
        len(decays) == 3
        and all(abs(float(found) / float(true) - 1) < 0.2 for found, true in decays)
        and number("correlation with the true force: #", text) > 0.99
    )


def the_search_finds_a_model_that_lasts(text: str) -> bool:
    return number("that the search has not seen: #", text) > 0.85


def updating_pays_and_is_exact(text: str) -> bool:
    frozen, updated = (number(f"{name} #", text) for name in ("mean: not updated", ", updated"))
    return updated < 0.8 * frozen and number("solved on all 240 rows: #", text) < 1e-9


def the_best_settings_are_found(text: str) -> bool:
    return number("quality #", text) > 0.99


def a_table_is_fitted(text: str) -> bool:
    return "1 processes" in text and number("error of new rows: #", text) < 0.6


CLAIMS: dict[str, Callable[[str], bool]] = {
    "bayesian_optimisation": the_best_settings_are_found,
    "gap_from_others": the_other_stations_fill_the_gap,
    "grid_search": the_search_finds_a_model_that_lasts,
    "heartbeat_clock": the_rate_is_that_of_the_heart,
    "online_update": updating_pays_and_is_exact,
    "quickstart": gap_and_forecast_are_near_the_truth,
    "recover_force": force_and_decays_are_recovered,
    "sensor_with_timestamps": the_plan_is_worth_its_while,
    "several_processes": a_table_is_fitted,
    "vital_signs": every_channel_is_filled_and_forecast,
}


WARNED = {"bayesian_optimisation"}  # by GPyTorch, of its own use of torch


def environment() -> dict[str, str]:
    """One thread; and the user's data folder only if the data set of the examples is there."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    (physiology,) = (entry for entry in available() if entry.name == "mimic-037")
    if not physiology.where().startswith("folder"):
        variables.pop("DEEPLFM_DATA", None)
    return variables


def test_every_example_makes_a_claim() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(CLAIMS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_anywhere_draws_and_keeps_its_promise(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore" if path.stem in WARNED else "error", str(path), "figures"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    figure = tmp_path / "figures" / f"{path.stem}.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert CLAIMS[path.stem](done.stdout), done.stdout


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of every block, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def quick_code(code: str) -> str:
    """The same with few steps, and one model in place of the ensemble."""
    code = code.replace("random_state=0", "n_steps=3, random_state=0")
    return code.replace("(n_steps=3", '(model="sinusoids(5)", n_steps=3')


def quick_command(line: str) -> list[str]:
    """The same for a command; its own name is left out."""
    words = shlex.split(line)[1:]
    if words[0] in ("fit", "impute", "compare") and "--fitted" not in words:
        words += ["--n-steps", "3"]
        words += [] if "--model" in words or words[0] == "compare" else ["--model", "sinusoids(5)"]
    return [*words, "--quiet"]


def test_the_guide_runs_from_its_first_block_to_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, content in blocks(GUIDE.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(quick_code(content), "guide.md", "exec"), names)
            continue
        for line in content.splitlines():
            with pytest.raises(SystemExit) as end:
                main(quick_command(line))
            assert end.value.code == 0, line
    written = {"forecast.csv", "forecast.html", "filled.csv", "with-flow.csv", "forces.png"}
    written |= {"components.csv", "components.png"}
    assert written <= {path.name for path in tmp_path.iterdir()}
    assert not names["filled"]["level"].isna().any()
    assert len(names["forecast"]) == 20


def test_links_of_the_guide_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", GUIDE.read_text(encoding="utf-8"))
    assert links
    assert all((GUIDE.parent / link).exists() for link in links)


def test_settings_that_the_guide_names_exist() -> None:
    from deeplfm import DeepLFMForecaster

    known = {*DeepLFMForecaster().get_params(), *signature(DeepLFMForecaster.fit).parameters}
    settings = GUIDE.read_text(encoding="utf-8").partition("## Choose a model")[2]
    settings += (GUIDE.parent / "choose.md").read_text(encoding="utf-8").partition("```")[0]
    named = re.findall(r"`([a-z_]+)=", settings)
    assert {"model", "n_steps", "log_targets"} <= set(named)
    assert set(named) <= known


def test_messages_that_the_guide_quotes_exist() -> None:
    table = GUIDE.read_text(encoding="utf-8").partition("## Solve problems")[2]
    quoted = re.findall(r'^\| "(.+?)" \|', table, flags=re.MULTILINE)
    parts = [part.strip() for text in quoted for part in text.split("…") if part.strip()]
    assert len(parts) > 5
    source = messages()
    missing = [
        part for part in parts if not re.search(r".{0,12}".join(part.split("20000")), source)
    ]
    assert not missing


def messages() -> str:
    """All texts in the source of the package, with the places of values left out."""
    texts = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                values = (getattr(part, "value", "") for part in node.values)
                texts.append("".join(value for value in values if isinstance(value, str)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)
