"""Progress and duration of work in parts."""

from deeplfm.training import progress as module
from deeplfm.training.progress import announce, duration, on_part, work


def test_the_first_part_tells_how_long_all_take(monkeypatch):
    clock = iter([0.0, 10.0, 20.0, 30.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    lines = []
    token = announce.set(lines.append)
    try:
        with work(18, "9357 rows of 13 outputs", progress=False):
            for _ in range(3):
                on_part.get()()
    finally:
        announce.reset(token)
    assert lines == ["Fitting 9357 rows of 13 outputs: about 3 minutes"]


def test_short_work_is_silent(monkeypatch):
    lines = []
    token = announce.set(lines.append)
    try:
        with work(3, "9 rows", progress=False):
            on_part.get()()
    finally:
        announce.reset(token)
    assert lines == [] and on_part.get() is None


def test_durations_have_few_digits():
    assert [duration(s) for s in (3, 59, 61, 3590, 7200)] == [
        "10 seconds",
        "60 seconds",
        "1 minute",
        "60 minutes",
        "2.0 hours",
    ]
