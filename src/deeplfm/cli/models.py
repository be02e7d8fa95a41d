"""``deeplfm models``: list the named models and terms that ``--model`` takes."""

from __future__ import annotations

import dataclasses
from typing import Any

from deeplfm.cli.options import OutputOptions
from deeplfm.cli.terminal import Terminal, table

EXAMPLES = ("deeplfm models", "deeplfm models --json")
_NAMED = {
    "ensemble": "compare LFMs, DLFMs and other models on held-out rows, and average the best",
    "auto": "the default: sums solved in state-space form; of a table, a smooth function of the inputs",
    "dlfm": "one deep latent force model, beside sinusoids",
    "lfm": "the classical latent force model, whose outputs share their forces",
}


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
