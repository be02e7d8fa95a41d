"""TOML files of options: read by ``--config``, and saved with a model.

The keys of a file are the long names of the command's options (``n-steps`` or ``n_steps``) and the
names of its arguments (``data``). An option that may be repeated takes a list, and a table ``[model]``
holds candidates, ``name = "sum of terms"``. The command line takes precedence over the file.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from deeplfm.errors import ConfigError

FILE_NAME = "run.toml"  # as in deeplfm.io.storage
_NOT_IN_FILES = ("config", "debug", "help")
_NOT_SAVED = (*_NOT_IN_FILES, "json", "quiet", "verbose", "overwrite", "checkpoint")


def use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of a file the defaults of the command; the callback of ``--config``."""
    if path is not None and not context.resilient_parsing:
        parameters = _parameters(context)
        values = {}
        for key, value in _read(path).items():
            parameter = parameters.get(key.replace("-", "_"))
            if parameter is None:
                raise ConfigError(_unknown(path, key, value, list(parameters)))
            values[parameter.name] = _as_typed(path, key, value, parameter)
        context.default_map = values
    return path


def save_config(path: Path, context: typer.Context, resolved: Mapping[str, Any]) -> None:
    """Write the options of a command to a file with which ``--config`` repeats it."""
    from deeplfm.io.files import write_whole

    values = {**context.params, **resolved}
    if str(values.get("model")).startswith("{"):
        values["model"] = json.loads(values["model"])
    lines = [
        f"# deeplfm {context.info_name} --config {FILE_NAME} repeats this run. Paths are relative "
        "to the working folder.",
        *(
            f"{key} = {_toml(values[parameter.name])}"
            for key, parameter in _parameters(context).items()
            if key not in _NOT_SAVED and values.get(parameter.name) not in (None, (), [])
        ),
    ]
    text = "\n".join(lines) + "\n"
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _parameters(context: typer.Context) -> dict[str, Any]:
    """Parameters of a command by their keys in a file."""
    found = {}
    for parameter in context.command.params:
        long = [option for option in parameter.opts if option.startswith("--")]
        key = (long or [parameter.name])[0].lstrip("-").replace("-", "_")
        if key not in _NOT_IN_FILES:
            found[key] = parameter
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"--config: cannot read {path} ({error.strerror or error}). Give a TOML file."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--config: {path} is not TOML ({error}). Write one 'key = value' on each line, text in "
            "quotes."
        ) from error


def _unknown(path: Path, key: str, value: Any, known: list[str]) -> str:
    if isinstance(value, dict):
        return f"--config: {path} has a table [{key}]. Write all keys flat, without tables."
    near = difflib.get_close_matches(key.replace("-", "_"), known, n=1)
    advice = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(known)}."
    return f"--config: {path} has an unknown key {key!r}. {advice}"


def _as_typed(path: Path, key: str, value: Any, parameter: Any) -> str | list[str]:
    """A value as text of the command line, which is checked in the same way."""
    if isinstance(value, dict) and "--model" in parameter.opts:
        if value and all(isinstance(item, str) for item in value.values()):
            return json.dumps(value, ensure_ascii=False)
        raise ConfigError(
            f"--config: [{key}] in {path} holds values that are not text. Write candidates as "
            'name = "trend + season(12)".'
        )
    items = value if isinstance(value, list) else [value]
    if isinstance(value, dict) or any(isinstance(item, dict | list) for item in items):
        raise ConfigError(f"--config: {key} in {path} is a table. Give a value or a list.")
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in items]
    return texts if getattr(parameter, "multiple", False) else ",".join(texts)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
