"""Ctrl-C keeps the best so far: real signals, to this process and to others in the middle of a fit."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deeplfm.interruption import graceful_interrupts, stop_requested

# A fit that would take hours says when it trains, and what it does when asked to stop.
FIT = """
import json, signal, sys, time, warnings
import numpy as np
from deeplfm import DeepLFMRegressor
from deeplfm.interruption import stop_requested
from deeplfm.training import loop

folder, options, waits, at = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:])
plain_step, n_steps = loop._Run._step, 0

def step(run, optimiser):
    global n_steps
    plain_step(run, optimiser)
    n_steps += 1
    if n_steps == at:
        print("training", flush=True)
        while not stop_requested():
            time.sleep(0.01)
        print("asked", flush=True)
        while waits:
            time.sleep(0.01)

loop._Run._step = step
x = np.linspace(0, 10, 60)
model = DeepLFMRegressor(n_features=5, hidden=(1,), **options)
quit_at_once = False
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    try:
        model.fit(x, np.sin(3 * x))
    except KeyboardInterrupt:
        quit_at_once = True
found = {
    "quit": quit_at_once,
    "restored": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "asked": stop_requested(),
    "told": [str(warning.message) for warning in told],
}
if not quit_at_once:
    mean, std = model.predict(x, return_std=True)
    model.save(folder)
    found |= {
        "interrupted": DeepLFMRegressor.load(folder).report_.interrupted,
        "names": model.report_.names,
        "stopped": [history.stopped for history in model.report_.histories.values()],
        "finite": bool(np.isfinite([mean, std]).all()),
        "error": float(np.abs(mean - np.sin(3 * x)).mean()),
    }
print(json.dumps(found))
"""

ENDLESS = 10**7


def interrupted(
    folder: Path, options: dict[str, object], signals: int = 1, at: int = 3
) -> dict[str, object]:
    """What came of a fit that was interrupted once it had made so many steps."""
    process = subprocess.Popen(
        [sys.executable, "-c", FIT, str(folder), json.dumps(options), str(signals - 1), str(at)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C is ignored in jobs that a shell runs in the background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        for expected in ("training", "asked")[:signals]:
            assert process.stdout.readline() == f"{expected}\n", process.communicate()[1]
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize(
    ("options", "at", "stopped"),
    [
        ({"start": "pursuit", "n_steps": ENDLESS}, 3, "interrupt"),
        ({"start": "pursuit", "n_steps": 5}, 7, "steps"),  # while refitting: the first fit is kept
        ({"preset": "paper", "n_steps": ENDLESS}, 3, "interrupt"),
    ],
)
def test_an_interrupted_fit_ends_with_a_model(
    options: dict[str, object], at: int, stopped: str, tmp_path: Path
) -> None:
    found = interrupted(tmp_path / "model", options, at=at)
    assert found["interrupted"] and found["finite"] and found["restored"]
    assert not found["quit"] and not found["asked"]
    (message,) = found["told"]
    assert message.startswith("fit: interrupted. Kept the best so far")
    assert found["stopped"] == [stopped]
    if "preset" not in options:
        assert found["error"] < 0.1


def test_an_interrupted_race_keeps_the_starts_that_were_fitted(tmp_path: Path) -> None:
    found = interrupted(tmp_path / "model", {"n_steps": 2}, at=3)
    assert found["interrupted"] and found["finite"]
    assert set(found["names"]) <= {"pursuit: steady lines", "pursuit: drifting"}


def test_a_second_interrupt_quits_at_once(tmp_path: Path) -> None:
    options = {"start": "pursuit", "n_steps": ENDLESS}
    found = interrupted(tmp_path / "model", options, signals=2)
    assert found == {"quit": True, "restored": True, "asked": False, "told": []}


@pytest.fixture
def default_handler() -> Iterator[None]:
    """Python's own reaction to Ctrl-C, whatever the tests were started by."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_handler")
def test_the_first_signal_asks_and_the_second_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), graceful_interrupts():
        assert not stop_requested()
        signal.raise_signal(signal.SIGINT)
        assert stop_requested()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not stop_requested()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("default_handler")
def test_an_error_inside_leaves_no_trace() -> None:
    with pytest.raises(ZeroDivisionError), graceful_interrupts():
        signal.raise_signal(signal.SIGINT)
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not stop_requested()


@pytest.mark.usefixtures("default_handler")
def test_inner_work_leaves_the_request_to_the_outer() -> None:
    with graceful_interrupts():
        with graceful_interrupts():
            signal.raise_signal(signal.SIGINT)
        assert stop_requested()
    assert not stop_requested()


@pytest.mark.usefixtures("default_handler")
def test_in_a_thread_nothing_changes() -> None:
    seen = []

    def work() -> None:
        with graceful_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


@pytest.mark.usefixtures("default_handler")
def test_who_else_listens_goes_on_to_hear() -> None:
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append("signal"))
    with graceful_interrupts():
        signal.raise_signal(signal.SIGINT)
        assert not stop_requested()
    assert heard == ["signal"]
