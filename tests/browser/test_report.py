"""The page in a real browser, driven as a reader would."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

selenium = pytest.importorskip("selenium")

from selenium.webdriver import ActionChains, Chrome  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

FIRST = "document.querySelectorAll('.chart')[0]"
RANGES = "return [...document.querySelectorAll('[data-over-time]')].map(c => c.layout.xaxis.range)"


def wait_until(browser: Chrome, script: str) -> Any:
    return WebDriverWait(browser, 20).until(lambda driver: driver.execute_script(script))


def plot_area(browser: Chrome, number: int = 0) -> WebElement:
    area = browser.find_elements(By.CSS_SELECTOR, ".chart .nsewdrag")[number]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", area)
    return area


def emulate(browser: Chrome, scheme: str = "light", media: str = "") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def resize(browser: Chrome, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def test_the_console_is_silent_and_the_network_unused(browser: Chrome, page: Path) -> None:
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requested = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in requested if not url.startswith("data:")] == [page.as_uri()]


def test_every_chart_is_drawn(browser: Chrome) -> None:
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('.chart')].map("
        "c => [c.offsetWidth > 200, c.querySelectorAll('.main-svg path').length > 0])"
    )
    assert len(drawn) >= 8
    assert all(all(chart) for chart in drawn)


def test_a_drag_zooms_all_charts_over_time_and_a_double_click_returns(browser: Chrome) -> None:
    at_first = browser.execute_script(RANGES)
    area = plot_area(browser)
    ActionChains(browser).move_to_element_with_offset(
        area, -150, 0
    ).click_and_hold().move_by_offset(200, 0).release().perform()
    narrow = f"const r = {FIRST}.layout.xaxis.range; return r[1] - r[0] < "
    width = at_first[0][1] - at_first[0][0]
    wait_until(browser, narrow + str(width / 2))
    zoomed = browser.execute_script(RANGES)
    assert at_first[0][0] < zoomed[0][0] < zoomed[0][1] < at_first[0][1]
    assert all(other == pytest.approx(zoomed[0]) for other in zoomed)
    ActionChains(browser).double_click(area).perform()
    wait_until(browser, f"const r = {FIRST}.layout.xaxis.range; return r[1] - r[0] > {0.9 * width}")
    back = browser.execute_script(RANGES)
    assert all(other == pytest.approx(at_first[0]) for other in back)


def test_pointing_at_the_chart_shows_values_and_intervals(browser: Chrome) -> None:
    area = plot_area(browser)
    ActionChains(browser).move_to_element_with_offset(area, 200, 0).perform()
    read = f"return {FIRST}.querySelector('.hoverlayer').textContent"
    wait_until(browser, f"{read}.length > 0")
    text = browser.execute_script(read)
    assert "prediction " in text
    for level in (50, 80, 95):
        assert f"{level} %: " in text
    assert "held out " in text
    low, high = text.split("95 %: ")[1].split("held out")[0].split(" to ")
    assert 70 < float(low) < float(high) < 110


def test_buttons_choose_what_is_shown(browser: Chrome) -> None:
    at_first = browser.execute_script(RANGES)[0]
    follows, everything = browser.find_elements(By.CSS_SELECTOR, "button[data-range]")
    everything.click()
    wait_until(browser, f"return {FIRST}.layout.xaxis.range[0] < 0.1")
    assert all(shown[1] > 11.8 for shown in browser.execute_script(RANGES))
    follows.click()
    wait_until(browser, f"return {FIRST}.layout.xaxis.range[0] > 0.1")
    assert browser.execute_script(RANGES)[0] == pytest.approx(at_first)


def test_no_button_sends_the_data_anywhere(browser: Chrome) -> None:
    titles = browser.execute_script(
        "return [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)"
    )
    assert len(titles) > 0
    assert not [title for title in titles if "cloud" in title.lower() or "share" in title.lower()]
    assert not browser.find_elements(By.CSS_SELECTOR, ".modebar a[href]")


def test_markup_in_names_is_shown_as_text(browser: Chrome) -> None:
    name = "<script>window.isRun = 1</script><b>ecg</b> %{x}"
    assert browser.execute_script("return window.isRun") is None
    headings = [item.text for item in browser.find_elements(By.TAG_NAME, "h3")]
    assert name in headings
    assert name in browser.title
    axis = browser.execute_script(f"return {FIRST}.querySelector('.xtitle').textContent")
    assert axis == "<i>t</i>"
    assert not browser.find_elements(By.CSS_SELECTOR, "h1 b, h3 b, th b, .chart i")


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_the_page_is_as_wide_as_its_window(browser: Chrome, width: int) -> None:
    resize(browser, width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    fits = f"return [...document.querySelectorAll('.chart')].every(c => c._fullLayout.width <= {width})"
    wait_until(browser, fits)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_charts_follow_the_colour_scheme_and_keep_their_zoom(browser: Chrome) -> None:
    emulate(browser, "light")
    at_first = browser.execute_script(RANGES)[0]
    line = f"{FIRST}.data.find(t => t.name === 'prediction').line.color"
    wait_until(browser, f"return {line} === '#0072b2'")
    browser.execute_script(f"return Plotly.relayout({FIRST}, {{'xaxis.range': [4, 5]}})")
    emulate(browser, "dark")
    wait_until(browser, f"return {line} === '#56b4e9'")
    assert browser.execute_script(f"return {FIRST}.layout.xaxis.range") == [4, 5]
    ActionChains(browser).double_click(plot_area(browser)).perform()
    wait_until(browser, f"return {FIRST}.layout.xaxis.range[0] < 4")
    assert browser.execute_script(RANGES)[0] == pytest.approx(at_first)
    background = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(background) == "rgb(20, 22, 26)"


def test_paper_is_light_and_charts_fit_on_it(browser: Chrome) -> None:
    emulate(browser, "dark")
    browser.execute_script(
        "window.printed = [];"
        "addEventListener('beforeprint', () => printed.push("
        "...[...document.querySelectorAll('.chart')].map(c => [c._fullLayout.width,"
        " c.data.at(-1).line ? c.data.at(-1).line.color : ''])))"
    )
    result = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(result["data"]).startswith(b"%PDF")
    printed = browser.execute_script("return window.printed")
    assert len(printed) >= 8
    assert all(width <= 660 for width, _ in printed)
    assert printed[0][1] == "#0072b2"
    wait_until(browser, f"return {FIRST}._fullLayout.width > 660")
    assert browser.execute_script("return document.documentElement.dataset.scheme") is None
    assert browser.get_log("browser") == []


def test_headings_tables_and_charts_have_names_for_screen_readers(browser: Chrome) -> None:
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and "role" in node
    ]
    for role, least in (("heading", 10), ("image", 8), ("table", 4), ("button", 2)):
        found = [name for kind, name in named if kind == role]
        assert len(found) >= least, role
        assert all(found), role


def test_a_finger_scrolls_the_page_and_buttons_zoom(browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        browser.refresh()
        wait_until(browser, "return document.documentElement.dataset.drawn === 'yes'")
        assert browser.execute_script(f"return {FIRST}._fullLayout.dragmode") is False
        width = f"const r = {FIRST}.layout.xaxis.range; return r[1] - r[0]"
        before = browser.execute_script(width)
        zoom = "a => a.dataset.title === 'Zoom in'"
        browser.execute_script(
            f"[...{FIRST}.querySelectorAll('.modebar-btn')].find({zoom}).click()"
        )
        wait_until(browser, f"{width} < {0.9 * before}")
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
