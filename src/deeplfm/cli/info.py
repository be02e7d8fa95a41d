"""``deeplfm info``: describe a saved model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deeplfm.cli import panels, summary
from deeplfm.cli.configuration import FILE_NAME
from deeplfm.cli.inputs import load_forecaster
from deeplfm.cli.options import Fitted, OutputOptions
from deeplfm.cli.terminal import Terminal, table

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

EXAMPLES = ("deeplfm info vitals-model", "deeplfm info vitals-model --json")


def info(model: Fitted, output: OutputOptions) -> None:
    """Describe a saved model: data, settings, candidates with weights, held-out scores."""
    forecaster = load_forecaster(model, may_be_panel=True)
    versions = json.loads((model / "model.json").read_text()).get("versions", {})
    config = model / FILE_NAME
    terminal = Terminal(output)
    if forecaster.panel_ is not None:
        terminal.print_json({"model": model, **panels.of_panel(forecaster), "versions": versions})
        panels.print_fit(forecaster, terminal)
        terminal.print("For one series, in Python: deeplfm.load(folder)[name].")
        return
    content = summary.of_model(forecaster) | {"versions": versions}
    terminal.print_json({"model": model, **content, "config": config if config.exists() else None})
    terminal.print(
        table(["model", str(model)], _rows(content, config, forecaster), words=2),
        summary.target_table(forecaster),
        summary.selection_table(forecaster),
    )


def _rows(
    content: dict[str, Any], config: Path, forecaster: DeepLFMForecaster
) -> list[tuple[str, str]]:
    time, settings, known = content["time"], content["settings"], forecaster.inputs_
    span = forecaster.timeline_.texts(forecaster.training_.index[[0, -1]])
    calendar = ", ".join(
        [*known.calendar, *([f"holidays of {known.country}"] * bool(known.country))]
    )
    zone = f" in {time['zone']}" if time["zone"] else ""
    rows = [
        ("kind", content["kind"]),
        ("rows", str(content["rows"])),
        ("time", f"{time['name']}: {time['kind']}s{zone}"),
        ("span", " to ".join(span)),
        ("covariates", ", ".join(map(str, content["covariates"])) or "none"),
        *([("calendar", calendar)] if calendar else []),
        ("seed", str(settings["random_state"])),
        ("settings", ", ".join(_changed(settings)) or "default"),
        ("versions", ", ".join(f"{k} {v}" for k, v in content["versions"].items()) or "unknown"),
        ("configuration", str(config) if config.exists() else "none: saved from Python"),
    ]
    if content["interrupted"]:
        rows.append(("interrupted", "yes: training was stopped before its end"))
    return rows


def _changed(settings: dict[str, Any]) -> list[str]:
    """Settings that differ from the defaults and affect the model."""
    from deeplfm.estimators import DeepLFMForecaster
    from deeplfm.terms import to_json

    default = DeepLFMForecaster().get_params()
    default |= {name: settings[name] for name in ("random_state", "n_jobs", "progress")}
    changed = {name: value for name, value in settings.items() if value != default[name]}
    return [
        f"{name} = {to_json(value) if name == 'model' else value}"
        for name, value in changed.items()
    ]
