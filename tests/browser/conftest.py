import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deeplfm.estimators import DeepLFMForecaster
from deeplfm.report import write_report

selenium = pytest.importorskip("selenium")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

NASTY = "<script>window.isRun = 1</script><b>ecg</b> %{x}"


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about two targets, forecast and scored; the name of one is full of markup."""
    time = 0.1 * np.arange(120)
    noise = 0.1 * np.random.default_rng(0).normal(size=(120, 2))
    waves = np.stack([90 + 10 * np.sin(2 * np.pi * time), np.cos(2 * np.pi * time)], axis=1)
    frame = pd.DataFrame(
        waves + noise, columns=["abp", NASTY], index=pd.Index(time, name="<i>t</i>")
    )
    frame.iloc[20:40, 0] = np.nan
    model = DeepLFMForecaster(model="sinusoids + broadband", n_steps=3, random_state=0).fit(
        frame.iloc[:90]
    )
    path = tmp_path_factory.mktemp("browser") / "page.html"
    write_report(path, model, forecast=model.forecast(horizon=30), evaluation=frame.iloc[90:])
    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    """One browser for all tests, whose log and network are watched."""
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no chromium, or no chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--window-size=1200,1000",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    browser.set_page_load_timeout(120)
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome, page: Path) -> Iterator[webdriver.Chrome]:
    """The browser with the page in it, all charts drawn, and nothing of the last test left."""
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    chromium.get(page.as_uri())
    is_drawn = "return document.documentElement.dataset.drawn === 'yes'"
    WebDriverWait(chromium, 60).until(lambda driver: driver.execute_script(is_drawn))
    yield chromium
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
