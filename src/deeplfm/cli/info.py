"""``deeplfm info``: what a saved model is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deeplfm.cli import summary
from deeplfm.cli.configuration import FILE_NAME
from deeplfm.cli.models import load_forecaster
from deeplfm.cli.options import Asking, Model
from deeplfm.cli.terminal import Terminal, table

EXAMPLES = ("deeplfm info vitals-model", "deeplfm info vitals-model --json")


def info(model: Model, asking: Asking) -> None:
    """Show what a model is: data, settings, starts and their weights, held-out scores."""
    forecaster = load_forecaster(model)
    content = summary.of_model(forecaster) | {"versions": _versions(model)}
    config = model / FILE_NAME
    terminal = Terminal(asking)
    terminal.answer({"model": model, **content, "config": config if config.exists() else None})
    terminal.say(
        table(["model", str(model)], _rows(content, config), words=2),
        summary.target_table(forecaster),
        summary.start_table(forecaster),
    )


def _rows(content: dict[str, Any], config: Path) -> list[tuple[str, str]]:
    time, settings = content["time"], content["settings"]
    zone = f" in {time['zone']}" if time["zone"] else ""
    changed = [f"{name} = {value!r}" for name, value in summary.changed(settings).items()]
    rows = [
        ("rows", str(content["rows"])),
        ("time", f"{time['name']}: {time['kind']}s{zone}"),
        ("span", f"{time['first']} to {time['last']}"),
        ("covariates", ", ".join(map(str, content["covariates"])) or "none"),
        ("seed", str(settings["random_state"])),
        ("settings", ", ".join(changed) or "all as they come"),
        ("versions", ", ".join(f"{k} {v}" for k, v in content["versions"].items()) or "not known"),
        ("configuration", str(config) if config.exists() else "none: saved from Python"),
    ]
    if content["interrupted"]:
        rows.append(("interrupted", "yes: training was stopped before its end"))
    return rows


def _versions(model: Path) -> dict[str, str]:
    """What the model was made with."""
    return json.loads((model / "model.json").read_text()).get("versions", {})
