"""``forces``, ``plot``, ``info``, ``doctor`` and ``data``: what can be seen of a model and of deeplfm."""

import io
import json
from typing import get_args

import numpy as np
import pandas as pd
import pytest

import deeplfm
from deeplfm.cli.figures import Kind
from deeplfm.cli.summary import explained_variance


def test_forces_are_those_of_the_library(place, call):
    done = call("forces", "vitals-model", "--plot", "forces.png", "-o", "forces.csv")
    assert (done.code, done.err) == (0, "")
    model = deeplfm.load("vitals-model")
    curves = model.regressor_.forces(model.timeline_.numbers(model.training_.index)[:, None])
    table = pd.read_csv("forces.csv", index_col="t")
    np.testing.assert_allclose(table.index, model.training_.index)
    assert list(table.columns) == [f"{c.label}{end}" for c in curves for end in ("", "_std")]
    np.testing.assert_allclose(table.iloc[:, 0], curves[0].mean, atol=1e-3)
    assert (place / "forces.png").read_bytes().startswith(b"\x89PNG")


def test_components_add_up_to_the_forecast(place, call):
    files = ["--plot", "components.png", "-o", "components.csv"]
    done = call("components", "vitals-model", "--horizon", 5, *files)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Components at 75 times: ")
    table = pd.read_csv("components.csv", index_col="t")
    means = table[[name for name in table if name.startswith("abp") and "_" not in name]]
    forecast = deeplfm.load("vitals-model").forecast(horizon=5)["abp"]
    np.testing.assert_allclose(means.sum(axis=1).iloc[-5:], forecast, atol=0.01)
    assert (place / "components.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads(call("components", "vitals-model", "--from", 2, "--json").out)
    assert content["table"]["t"][0] == 2 and len(content["components"]) >= 2
    assert call("components", "vitals-model", "--horizon", 5, "--points", 9).code == 2


def test_components_of_a_model_with_covariates(place, call):
    arguments = ["components", "driven-model", "--horizon", 3]
    assert call(*arguments).code == 2
    assert call(*arguments, "--covariates", "driven-later.csv").code == 0


def test_forces_at_chosen_times(place, call):
    done = call("forces", "vitals-model", "--from", "2", "--until", "9", "--points", "8")
    table = pd.read_csv(io.StringIO(done.out), index_col="t")
    np.testing.assert_allclose(table.index, range(2, 10))
    assert call("forces", "vitals-model", "--from", "5", "--until", "3").code == 2


@pytest.mark.parametrize("kind", [kind for kind in get_args(Kind) if kind != "layers"])
def test_every_kind_of_figure(kind, place, call):
    done = call("plot", "vitals-model", kind, "-o", "figure.png")
    assert (done.code, done.err, done.out) == (0, "", "Figure: figure.png\n")
    assert (place / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_hidden_layers_are_drawn_where_there_are_some(place, call):
    done = call("plot", "vitals-model", "layers", "-o", "figure.png")
    assert done.code == 2
    assert "no hidden layers" in done.err
    assert call("plot", "driven-model", "layers", "-o", "figure.png").code == 0


def test_figures_take_the_options_that_they_have(place, call):
    later = ["--data", "later.csv", "-o", "figure.png"]
    assert call("plot", "vitals-model", "forecast", "--horizon", 9, "--from", 5, *later).code == 0
    assert call("plot", "vitals-model", "calibration", *later).code == 0
    assert call("plot", "vitals-model", "forces", "--points", 9, "-o", "f.svg", "-q").out == ""
    done = call("plot", "vitals-model", "learning", *later)
    assert done.code == 2
    assert "--data: not an option of a learning figure" in done.err
    content = json.loads(call("plot", "vitals-model", "spectrum", "-o", "f.pdf", "--json").out)
    assert content == {"model": "vitals-model", "kind": "spectrum", "files": {"plot": "f.pdf"}}


def test_info_says_what_a_model_is(place, call):
    done = call("info", "vitals-model")
    assert (done.code, done.err) == (0, "")
    for words in (
        "70",
        "t: numbers",
        "0.0 to 6.9",
        "model = sinusoids + broadband",
        "n_steps = 3",
        "variance predicted of held-out rows",
        "MNLL, in own units",
        "deeplfm 0.",
    ):
        assert words in done.out
    assert "vitals-model/run.toml" in done.out
    content = json.loads(call("info", "vitals-model", "--json").out)
    assert content["time"]["first"] == 0.0
    assert content["targets"]["abp"]["known"] == 63
    assert content["settings"]["model"] == "sinusoids + broadband"
    assert content["config"] == "vitals-model/run.toml"


def test_held_out_scores_are_in_the_users_units(place, call):
    content = json.loads(call("info", "vitals-model", "--json").out)
    model = deeplfm.load("vitals-model").regressor_
    (scores,) = model.fit_result_.held_out_mnll.values()
    for output, name in enumerate(["abp", "ecg"]):
        expected = scores[output] + np.log(model.scaling_.y_scale[output])
        assert content["targets"][name]["held_out_mnll"] == pytest.approx(expected)
        assert content["candidates"]["sinusoids + broadband"]["held_out_mnll"][
            name
        ] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("nmse", "words"),
    [
        (0.1, "90 %"),
        (0.0042, "99.6 %"),
        (1.0, "none"),
        (3.0, "none"),
        (float("nan"), "not scored"),
        (None, "not scored"),
    ],
)
def test_scores_in_words(nmse, words):
    assert explained_variance(nmse) == words


def test_a_model_saved_from_python_is_described_as_such(place, call):
    t = np.linspace(0, 5, 40)
    regressor = deeplfm.DeepLFMRegressor(model="sinusoids + broadband", n_steps=1).fit(
        t, np.sin(3 * t)
    )
    regressor.save("regressor")
    done = call("forecast", "regressor", "--horizon", 3)
    assert done.code == 2
    assert "DeepLFMRegressor" in done.err


def test_models_lists_names_terms_and_systems_of_the_registries(call):
    from deeplfm.estimators.candidates import NAMES
    from deeplfm.features import SYSTEMS
    from deeplfm.terms import NAMED_MODELS, TERMS

    content = json.loads(call("models", "--json").out)
    assert set(NAMES) | set(NAMED_MODELS) | {"autoregression"} <= set(content["models"])
    assert list(content["terms"]) == sorted(TERMS)
    assert content["systems"] == list(SYSTEMS)
    assert all(entry["summary"] for part in ("models", "terms") for entry in content[part].values())
    shown = call("models").out
    assert "season(" in shown and "ensemble" in shown


def test_doctor_names_versions_and_what_works(call, monkeypatch, tmp_path):
    monkeypatch.setenv("DEEPLFM_CACHE", str(tmp_path))
    monkeypatch.setenv("DEEPLFM_DATA", str(tmp_path))
    content = json.loads(call("doctor", "--json").out)
    assert content["deeplfm"] == deeplfm.__version__
    assert content["packages"]["torch"]
    assert content["threads"]["torch"] >= 1
    assert content["compiled_kernels"] == "work" or content["compiled_kernels"].startswith("do not")
    assert content["cache"].startswith(str(tmp_path))
    assert content["data_folders"][0] == str(tmp_path)
    shown = call("doctor").out
    assert "compiled kernels" in shown
    assert "torch" in shown


def test_doctor_says_what_is_missing(call, monkeypatch):
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("DEEPLFM_DATA", "nowhere")
    monkeypatch.setattr(
        "importlib.metadata.requires",
        lambda _: ["rich>=13", 'nothing-of-this-name>=1; extra == "parquet"', "x; extra == 'dev'"],
    )
    done = call("doctor")
    assert done.code == 0
    assert 'pip install "deeplfm[parquet]"' in done.out
    assert "--compile has no effect" in done.out
    assert "there is no folder nowhere" in done.out


def test_data_sets_are_listed_and_fetched(call, tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPLFM_CACHE", str(tmp_path / "cache"))
    listed = json.loads(call("data", "list", "--json").out)["datasets"]
    assert {"name": "toy", "where": "built in"}.items() <= listed[0].items()
    assert "toy" in call("data", "list").out
    done = call("data", "fetch", "toy", "-o", tmp_path / "here")
    (path,) = done.out.split()
    assert pd.read_csv(path).columns.tolist() == ["time", "value", "split"]


def test_info_names_the_calendar_and_times_have_no_digits_of_rounding(place, call):
    days = pd.date_range("2022-01-01", periods=60, name="day")
    shop = pd.DataFrame({"day": days, "sales": np.sin(np.arange(60.0)).round(2)})
    shop.to_csv("shop.csv", index=False)
    fit = ["--model", "trend", "--calendar", "weekday", "--holidays", "DE", "-o", "shop"]
    assert call("fit", "shop.csv", *fit).code == 0
    out = call("info", "shop").out
    assert "weekday, holidays of DE" in out and "2022-01-01 to 2022-03-01" in out
    nights = np.sort(np.random.default_rng(0).uniform(58000, 58090, 40))
    pd.DataFrame({"mjd": nights, "magnitude": np.sin(nights)}).to_csv("star.csv", index=False)
    assert call("fit", "star.csv", "--model", "trend", "-o", "star").code == 0
    words = call("forecast", "star", "--horizon", 2, "-o", "f.csv").out.split()
    assert all(len(words[words.index(side) + 1].rstrip(",")) <= 11 for side in ("from", "to"))
