"""``deeplfm info``, ``models`` and ``data``: what a saved model is, and what there is to choose from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deeplfm.cli import panels, summary
from deeplfm.cli.configuration import FILE_NAME
from deeplfm.cli.inputs import load_forecaster
from deeplfm.cli.options import Fitted, OutputOptions, option
from deeplfm.cli.outputs import check_folder
from deeplfm.cli.terminal import Terminal, table

if TYPE_CHECKING:
    from deeplfm.estimators import DeepLFMForecaster

INFO_EXAMPLES = ("deeplfm info vitals-model", "deeplfm info vitals-model --json")
MODELS_EXAMPLES = ("deeplfm models", "deeplfm models --json")
LIST_EXAMPLES = ("deeplfm data list", "deeplfm data list --json")
FETCH_EXAMPLES = ("deeplfm data fetch toy -o .", "deeplfm data fetch toy --json")
_NAMED = {
    "ensemble": "compare LFMs, DLFMs and other models on held-out rows, and average the best",
    "auto": "the default: sums solved in state-space form; of a table, a smooth function of the inputs",
    "dlfm": "one deep latent force model, beside sinusoids",
    "lfm": "the classical latent force model, whose outputs share their forces",
}


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


def models(output: OutputOptions) -> None:
    """List the named models and the terms of --model.

    A model is a name, or a sum of terms: "trend + season(12) + level". Arguments are written as in
    Python; durations and words need no quotes: season(1D), deep(3, 3, system=ode1), level(damped).
    """
    from deeplfm.estimators.candidates import NAMES, OF_ALL, OF_SERIES
    from deeplfm.features import SYSTEMS
    from deeplfm.terms import NAMED_MODELS, TERMS

    declared = {name: _of_class(kind) for name, kind in NAMED_MODELS.items()}
    named = {name: {"text": name, "summary": _NAMED.get(name, "")} for name in NAMES} | declared
    for name in {**OF_SERIES, **OF_ALL}:
        named[name.lower().replace(" ", "-")] = {
            "text": name.lower().replace(" ", "-"),
            "summary": "member of the ensemble, neither LFM nor DLFM",
        }
    terms = {name: _of_class(TERMS[name]) for name in sorted(TERMS)}
    terminal = Terminal(output)
    for title, entries in (("model", named), ("term", terms)):
        rows = [(entry["text"], entry["summary"]) for entry in entries.values()]
        terminal.print(table((title, ""), rows, words=2))
    terminal.print(f"Systems of layers (system=): {', '.join(SYSTEMS)}")
    terminal.print_json({"models": named, "terms": terms, "systems": list(SYSTEMS)})


def _of_class(kind: Any) -> dict[str, str]:
    """A term or named model with its arguments and their defaults."""
    arguments = ", ".join(
        field.name if field.default is dataclasses.MISSING else f"{field.name}={field.default}"
        for field in dataclasses.fields(kind)
    )
    text = f"{kind.term_name}({arguments})" if arguments else kind.term_name
    return {
        "text": text,
        "summary": (kind.__doc__ or "").partition("\n")[0].rstrip(".").replace("``", ""),
    }


def list_data(output: OutputOptions) -> None:
    """List the data sets and their locations."""
    from deeplfm.data.catalogue import available

    columns = ("name", "summary", "licence", "where")
    sets = [
        {key: getattr(entry, key) for key in (*columns[:-1], "source")} | {"where": entry.where()}
        for entry in available()
    ]
    terminal = Terminal(output)
    terminal.print(table(columns, [[entry[key] for key in columns] for entry in sets], words=4))
    terminal.print("Fetch one: deeplfm data fetch toy -o .")
    terminal.print_json({"datasets": sets})


def _complete(incomplete: str) -> list[str]:
    from deeplfm.data.catalogue import available

    return [entry.name for entry in available() if entry.name.startswith(incomplete)]


def fetch_data(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name in deeplfm data list.",
            autocompletion=_complete,
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        option(
            None, "FOLDER", "Folder for copies. Default: print the cached files.", "--out", "-o"
        ),
    ] = None,
    record: Annotated[str | None, option(None, "NAME", "Of charis: charis1 to charis13.")] = None,
    first: Annotated[int | None, option(None, "N", "Of charis: first row.", min=0)] = None,
    length: Annotated[int | None, option(None, "N", "Of charis: number of rows.", min=1)] = None,
    output: OutputOptions,
) -> None:
    """Fetch the files of a data set: from the folder DEEPLFM_DATA, the cache, or the internet."""
    from deeplfm.data.catalogue import fetch

    if out is not None:
        check_folder(out, "--out")
    part = {"record": record, "first": first, "length": length}
    paths = fetch(name, out, **{key: value for key, value in part.items() if value is not None})
    terminal = Terminal(output)
    terminal.print(*map(str, paths))
    terminal.print_json({"name": name, "files": paths})
