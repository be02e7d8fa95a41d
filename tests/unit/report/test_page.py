import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sample_series import NASTY, quick

from deeplfm.errors import InputError
from deeplfm.estimators import DeepLFMForecaster
from deeplfm.report import write_report

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """What a page is made of: elements, their attributes, and the text outside scripts and styles."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.raw = path.read_text(encoding="utf-8")
        self.feed(self.raw)
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"
        self.words.append(" " if tag in ("td", "th") else "")

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def full(
    forecaster: DeepLFMForecaster, later: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> Page:
    path = tmp_path_factory.mktemp("report") / "page.html"
    forecast = forecaster.forecast(horizon=30)
    write_report(path, forecaster, forecast=forecast, evaluation=later)
    return Page(path)


def page(path: Path, model: DeepLFMForecaster, **options: object) -> Page:
    write_report(path / "page.html", model, **options)
    return Page(path / "page.html")


def test_everything_that_is_open_is_closed_and_every_id_is_one(full: Page) -> None:
    assert full.open == []
    ids = Counter(attrs["id"] for _, attrs in full.elements if "id" in attrs)
    assert set(ids.values()) == {1}
    targets = {attrs["href"] for attrs in full.all("a")}
    assert {target.removeprefix("#") for target in targets if target} <= set(ids)
    assert {attrs["data-figure"] for attrs in full.all("div") if "data-figure" in attrs} <= set(ids)


def test_the_page_is_semantic(full: Page) -> None:
    assert full.all("html") == [{"lang": "en"}]
    assert len(full.all("h1")) == len(full.all("main")) == 1
    assert len(full.all("table")) == len(full.all("caption")) >= 5
    charts = [attrs for attrs in full.all("div") if "data-figure" in attrs]
    assert len(charts) == len(full.all("figure")) >= 2 + 4 + 2
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in charts)
    assert {attrs["scope"] for attrs in full.all("th")} == {"row", "col"}


def test_the_page_refers_to_nothing_outside_itself(full: Page) -> None:
    for tag, attrs in full.elements:
        assert "src" not in attrs
        assert (attrs.get("href") or "#").startswith(("#", "data:")), tag
    policies = [attrs for attrs in full.all("meta") if "http-equiv" in attrs]
    assert "default-src 'none'" in str(policies[0]["content"])


def test_text_of_the_user_is_shown_and_never_run(full: Page) -> None:
    assert NASTY in full.text
    assert "<script>alert" not in full.raw
    scripts = full.all("script")
    assert all("src" not in attrs for attrs in scripts)
    assert sum("type" not in attrs for attrs in scripts) == 1  # the page's own
    assert len(full.raw) < 1_500_000


def test_summary_scores_and_settings_are_on_the_page(full: Page) -> None:
    for words in (
        "at 30 times, from 9 to 11.9",
        "based on 90 rows from 0 to 8.9",
        "scored on 30 later rows",
        "one every 0.1 units of time",
        "Cautions",
        "Data about people",
        "NMSE",
        "MNLL, CRPS, RMSE and MAE are for the target in its own units",
        "50 % interval",
        "Components",
        "abp: sinusoids",
        "Latent forces",
        "Learned spectrum",
        "Seed: 0",
        "random_state",
        "McDonald",
        "deeplfm 0",
    ):
        assert words in full.text, words


def test_gaps_are_counted_in_the_table(full: Page) -> None:
    row = full.text[full.text.index("lowest mean highest") :].split("abp ")[1]
    assert row.split()[:4] == ["70", "20", "1", "2.1"]


def test_without_forecast_and_scores_the_page_shows_the_fit(
    forecaster: DeepLFMForecaster, tmp_path: Path
) -> None:
    found = page(tmp_path, forecaster, title="A <b>title</b>")
    assert "A <b>title</b>" in found.text and "<b>" not in found.raw.split("</head>")[0]
    assert "has not been scored" in found.text
    assert "The forecast as a table" not in found.text
    assert "known rows that were forecast" in found.text


def test_timestamps_covariates_and_whole_numbers_as_names(tmp_path: Path) -> None:
    hours = pd.date_range("2024-10-26", periods=90, freq="h", tz="Europe/Berlin", name="when")
    wave = np.sin(np.arange(90) * 2 * np.pi / 12)
    frame = pd.DataFrame({0: wave, 1: np.arange(90.0) % 2}, index=hours)
    model = quick().fit(frame.iloc[:70], targets=[0], covariates=[1])
    ahead = frame.iloc[70:]
    forecast = model.forecast(covariates=ahead[[1]])
    found = page(tmp_path, model, forecast=forecast, evaluation=ahead)
    assert "Forecast of 0" in found.text
    assert "Times are in UTC" in found.text  # the clocks were turned back
    assert "one every hour" in found.text
    assert "Gaussians with its mean" in found.text
    assert "Data about people" not in found.text


@pytest.mark.parametrize(
    "index",
    [
        pd.to_timedelta(np.arange(60), unit="min"),
        pd.bdate_range("2024-01-01", periods=60),
        pd.Index(np.cumsum(np.random.default_rng(0).exponential(size=60))),
    ],
    ids=["durations", "weekdays", "irregular"],
)
def test_other_kinds_of_time(index: pd.Index, tmp_path: Path) -> None:
    values = np.stack([np.sin(np.arange(60.0)), np.full(60, 3.0)], axis=1)
    frame = pd.DataFrame(values, columns=["y", "still"], index=index)
    with pytest.warns(UserWarning, match="still"):
        model = quick().fit(frame)
    found = page(tmp_path, model, forecast=model.forecast(horizon=5))
    assert "all 60 known values are 3" in found.text


def test_a_loaded_forecaster_makes_the_same_page(
    forecaster: DeepLFMForecaster, tmp_path: Path
) -> None:
    forecaster.save(tmp_path / "model")
    loaded = DeepLFMForecaster.load(tmp_path / "model")
    first, second = (page(tmp_path, model).text for model in (forecaster, loaded))
    assert first.split("Made by")[0] == second.split("Made by")[0]


def test_values_known_in_training_are_not_scored(
    forecaster: DeepLFMForecaster, record: pd.DataFrame, later: pd.DataFrame, tmp_path: Path
) -> None:
    both = pd.concat([record.iloc[80:], later])
    with pytest.warns(UserWarning, match="known in training"):
        found = page(tmp_path, forecaster, evaluation=both)
    assert "Scored on 30 rows from 9 to 11.9" in found.text
    assert f"{NASTY} 30 " in found.text


def test_bad_input_is_refused(
    forecaster: DeepLFMForecaster, later: pd.DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"folder .*nowhere does not exist"):
        write_report(tmp_path / "nowhere" / "page.html", forecaster)
    with pytest.raises(InputError, match="no column 'abp_std'"):
        write_report(tmp_path / "page.html", forecaster, forecast=later)
    with pytest.raises(InputError, match="0 rows"):
        empty = forecaster.forecast(horizon=1).iloc[:0]
        write_report(tmp_path / "page.html", forecaster, forecast=empty)
    assert list(tmp_path.iterdir()) == []


def test_a_solved_average_names_its_sums_and_seasons_by_their_periods(tmp_path: Path) -> None:
    days = pd.date_range("2022-01-01", periods=750, name="day")
    cycles = np.arange(750)[:, None] / [7, 365.25]
    noise = np.random.default_rng(0).normal(size=750)
    frame = pd.DataFrame({"sales": np.sin(2 * np.pi * cycles).sum(1) + 0.1 * noise}, index=days)
    model = DeepLFMForecaster(effort="fast", random_state=0).fit(frame)
    write_report(tmp_path / "r.html", model)
    text = (tmp_path / "r.html").read_text()
    assert re.search(r"The model is an average of 2 LFMs: “\w+” and “\w+”\. Seed: 0\.", text)
    names = set(model.components(5)["sales"].columns.get_level_values(0))
    assert {"season", "season(365.25)"} <= names
