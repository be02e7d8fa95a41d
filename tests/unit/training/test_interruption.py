"""Ctrl-C and time limits keep the best so far: real signals, also in the middle of a fit."""

import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from deeplfm.training.interruption import (
    graceful_interrupts,
    stop_reason,
    stop_requested,
    time_left,
    within,
)

# Fits that would take hours; each prints a line when it trains and when it is asked to stop.
FITS = """
import json, signal, sys, time, warnings
import numpy as np
from deeplfm import DeepLFMRegressor
from deeplfm.training.interruption import stop_requested
from deeplfm.training import loop

plain_step = loop._Run._step

def step(run, *arguments):
    global n_steps
    plain_step(run, *arguments)
    n_steps += 1
    if n_steps == case["at"]:
        print("training", flush=True)
        while not stop_requested():
            time.sleep(0.01)
        print("asked", flush=True)
        while case["signals"] == 2:
            time.sleep(0.01)

loop._Run._step = step
x = np.linspace(0, 10, 60)
for case in json.loads(sys.argv[1]):
    n_steps, quit_at_once = 0, False
    model = DeepLFMRegressor(**case["options"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(x, np.sin(3 * x))
        except KeyboardInterrupt:
            quit_at_once = True
    found = {
        "quit": quit_at_once,
        "restored": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "asked": stop_requested(),
        "warnings": [str(warning.message) for warning in caught],
    }
    if not quit_at_once:
        mean, std = model.predict(x, return_std=True)
        model.save(case["folder"])
        found |= {
            "interrupted": DeepLFMRegressor.load(case["folder"]).fit_result_.interrupted,
            "names": model.fit_result_.names,
            "stopped": [history.stopped for history in model.fit_result_.histories.values()],
            "finite": bool(np.isfinite([mean, std]).all()),
            "error": float(np.abs(mean - np.sin(3 * x)).mean()),
        }
    print(json.dumps(found), flush=True)
"""

ENDLESS = 10**7
# options of the fit, and the step after which it is interrupted
CASES: dict[str, tuple[dict[str, object], int]] = {
    "alone": ({"model": "sinusoids + broadband", "n_steps": ENDLESS}, 3),
    "paper": ({"model": "paper", "n_steps": ENDLESS}, 3),
    "refit": ({"model": "sinusoids + broadband", "n_steps": 5}, 7),
    "ensemble": ({"model": "ensemble", "n_steps": 2}, 3),
    "twice": ({"model": "sinusoids + broadband", "n_steps": ENDLESS}, 3),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Results of fits in another process, each interrupted by a real signal."""
    folder = tmp_path_factory.mktemp("models")
    cases = [
        {
            "options": options,
            "at": at,
            "signals": 2 if name == "twice" else 1,
            "folder": str(folder / name),
        }
        for name, (options, at) in CASES.items()
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", FITS, json.dumps(cases)],
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is ignored in jobs that a shell runs in the background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    results = {}
    with process:
        try:
            for case, name in zip(cases, CASES, strict=True):
                for number, line in enumerate(("training\n", "asked\n")):
                    assert process.stdout.readline() == line
                    if number < case["signals"]:
                        process.send_signal(signal.SIGINT)
                results[name] = json.loads(process.stdout.readline())
        finally:
            process.kill()
    return results


@pytest.mark.parametrize("name", ["alone", "paper", "refit", "ensemble"])
def test_an_interrupted_fit_ends_with_a_model(
    name: str, found: dict[str, dict[str, object]]
) -> None:
    result = found[name]
    assert result["interrupted"] and result["finite"] and result["restored"]
    assert not result["quit"] and not result["asked"]
    (message,) = result["warnings"]
    assert message.startswith("fit: interrupted. Kept the best so far")
    if name != "paper":  # which has not learned anything in three steps
        assert result["error"] < 0.1


def test_the_history_has_the_reason_of_the_stop(found: dict[str, dict[str, object]]) -> None:
    assert found["alone"]["stopped"] == ["interrupt"]
    assert found["refit"]["stopped"] == ["steps"]  # the first fit is kept, and was whole


def test_an_interrupted_selection_keeps_the_candidates_that_were_fitted(
    found: dict[str, dict[str, object]],
) -> None:
    assert set(found["ensemble"]["names"]) <= {"sinusoids", "sinusoids + trend"}


def test_a_second_interrupt_quits_at_once(found: dict[str, dict[str, object]]) -> None:
    assert found["twice"] == {"quit": True, "restored": True, "asked": False, "warnings": []}


@pytest.fixture
def default_handler() -> Iterator[None]:
    """Python's own reaction to Ctrl-C, whatever the tests were started by."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_handler")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_interrupts(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), graceful_interrupts():
        assert not stop_requested()
        signal.raise_signal(number)
        assert stop_requested()
        signal.raise_signal(number)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not stop_requested()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("default_handler")
def test_sigterm_is_heeded_where_ctrl_c_is_ignored() -> None:
    """As in a job that a shell runs in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with graceful_interrupts():
        signal.raise_signal(signal.SIGTERM)
        assert stop_requested()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert not stop_requested()


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
def test_another_handler_stays_in_place() -> None:
    received = []
    signal.signal(signal.SIGINT, lambda *_: received.append("signal"))
    with graceful_interrupts():
        signal.raise_signal(signal.SIGINT)
        assert not stop_requested()
    assert received == ["signal"]


@pytest.mark.usefixtures("default_handler")
def test_a_worker_in_the_same_process_leaves_the_request_to_the_outer() -> None:
    with graceful_interrupts():
        with graceful_interrupts(since=time.monotonic()):
            signal.raise_signal(signal.SIGINT)
        assert stop_requested()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_handler")
def test_a_worker_stops_for_requests_since_the_work_began() -> None:
    began = time.monotonic()
    for _ in range(2):
        with graceful_interrupts(since=began):
            assert not stop_requested()
    signal.raise_signal(signal.SIGINT)  # between two calls nothing is broken off
    assert not stop_requested()
    with graceful_interrupts(since=began):
        assert stop_requested()
    with graceful_interrupts(since=time.monotonic()):  # other work
        assert not stop_requested()


def test_time_is_over_inside_its_limit_only() -> None:
    assert time_left() == math.inf and stop_reason() is None
    with within(60):
        assert 0 < time_left() <= 60 and not stop_requested()
        with pytest.raises(ZeroDivisionError), within(-1):
            assert stop_requested() and stop_reason() == "time"
            raise ZeroDivisionError
        with within(math.inf):  # nobody has more than those around
            assert 0 < time_left() <= 60
        assert not stop_requested()
    assert time_left() == math.inf


def test_a_limit_is_for_its_own_thread() -> None:
    seen = []
    with within(-1):
        thread = threading.Thread(target=lambda: seen.append(stop_reason()))
        thread.start()
        thread.join()
    assert seen == [None]


@pytest.mark.usefixtures("default_handler")
def test_the_users_choice_comes_before_the_time_of_day() -> None:
    with graceful_interrupts(), within(-1):
        signal.raise_signal(signal.SIGINT)
        assert stop_reason() == "interrupt"
