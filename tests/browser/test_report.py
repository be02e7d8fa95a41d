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
RANGES = "return [...document.querySelectorAll('[data-over-time]')].map(c => c.chart.range)"


def wait_until(browser: Chrome, script: str) -> Any:
    return WebDriverWait(browser, 20).until(lambda driver: driver.execute_script(script))


def plot_area(browser: Chrome, number: int = 0) -> WebElement:
    area = browser.find_elements(By.CSS_SELECTOR, ".chart")[number]
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
        "c => [c.offsetWidth > 200, c.querySelectorAll('svg path[d^=M]').length > 0])"
    )
    assert len(drawn) >= 8
    assert all(all(chart) for chart in drawn)


def test_a_drag_zooms_all_charts_over_time_and_a_double_click_returns(browser: Chrome) -> None:
    at_first = browser.execute_script(RANGES)
    area = plot_area(browser)
    ActionChains(browser).move_to_element_with_offset(
        area, -150, 0
    ).click_and_hold().move_by_offset(200, 0).release().perform()
    narrow = f"const r = {FIRST}.chart.range; return r[1] - r[0] < "
    width = at_first[0][1] - at_first[0][0]
    wait_until(browser, narrow + str(width / 2))
    zoomed = browser.execute_script(RANGES)
    assert at_first[0][0] < zoomed[0][0] < zoomed[0][1] < at_first[0][1]
    assert all(other == pytest.approx(zoomed[0]) for other in zoomed)
    ActionChains(browser).double_click(area).perform()
    wait_until(browser, f"const r = {FIRST}.chart.range; return r[1] - r[0] > {0.9 * width}")
    back = browser.execute_script(RANGES)
    assert all(other == pytest.approx(at_first[0]) for other in back)


def test_pointing_at_the_chart_shows_values_and_intervals(browser: Chrome) -> None:
    area = plot_area(browser)
    ActionChains(browser).move_to_element_with_offset(area, 200, 0).perform()
    read = f"return {FIRST}.querySelector('.note').textContent"
    wait_until(browser, f"{read}.length > 0")
    text = browser.execute_script(read)
    assert "prediction " in text
    for level in (50, 80, 95):
        assert f"{level} %: " in text
    assert "held out " in text
    low, high = text.split("95 %: ")[1].split("\n")[0].split(" to ")
    assert 70 < float(low) < float(high) < 110


def test_buttons_choose_what_is_shown(browser: Chrome) -> None:
    at_first = browser.execute_script(RANGES)[0]
    follows, everything = browser.find_elements(By.CSS_SELECTOR, "button[data-range]")
    everything.click()
    wait_until(browser, f"return {FIRST}.chart.range[0] < 0.1")
    assert all(shown[1] > 11.8 for shown in browser.execute_script(RANGES))
    follows.click()
    wait_until(browser, f"return {FIRST}.chart.range[0] > 0.1")
    assert browser.execute_script(RANGES)[0] == pytest.approx(at_first)


def test_the_vertical_axis_follows_the_visible_range(browser: Chrome) -> None:
    read = f"return {FIRST}.chart.yRange"
    at_first = browser.execute_script(read)
    browser.execute_script(f"{FIRST}.chart.show([8.9, 9.1])")
    low, high = browser.execute_script(read)
    assert high - low < 0.7 * (at_first[1] - at_first[0])
    shown = "c => c.chart.range[0] === 8.9"
    charts = "[...document.querySelectorAll('[data-over-time]')]"
    assert browser.execute_script(f"return {charts}.every({shown})")


def test_markup_in_names_is_shown_as_text(browser: Chrome) -> None:
    name = "<script>window.isRun = 1</script><b>ecg</b> %{x}"
    assert browser.execute_script("return window.isRun") is None
    headings = [item.text for item in browser.find_elements(By.TAG_NAME, "h3")]
    assert name in headings
    assert name in browser.title
    axis = browser.execute_script(f"return {FIRST}.querySelector('.x-title').textContent")
    assert axis == "<i>t</i>"
    assert not browser.find_elements(By.CSS_SELECTOR, "h1 b, h3 b, th b, .chart i")


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_the_page_is_as_wide_as_its_window(browser: Chrome, width: int) -> None:
    resize(browser, width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    size = "c.querySelector('svg').viewBox.baseVal.width"
    fits = f"return [...document.querySelectorAll('.chart')].every(c => {size} <= {width})"
    wait_until(browser, fits)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_charts_follow_the_colour_scheme_and_keep_their_zoom(browser: Chrome) -> None:
    emulate(browser, "light")
    line = f"getComputedStyle({FIRST}.querySelector('path.line')).stroke"
    wait_until(browser, f"return {line} === 'rgb(0, 114, 178)'")
    browser.execute_script(f"{FIRST}.chart.show([4, 5])")
    emulate(browser, "dark")
    wait_until(browser, f"return {line} === 'rgb(86, 180, 233)'")
    assert browser.execute_script(f"return {FIRST}.chart.range") == [4, 5]
    background = "return getComputedStyle(document.body).backgroundColor"
    assert browser.execute_script(background) == "rgb(20, 22, 26)"


def test_paper_is_light(browser: Chrome) -> None:
    emulate(browser, "dark", media="print")
    line = f"getComputedStyle({FIRST}.querySelector('path.line')).stroke"
    wait_until(browser, f"return {line} === 'rgb(0, 114, 178)'")
    result = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(result["data"]).startswith(b"%PDF")
    assert browser.get_log("browser") == []


def test_rows_of_wide_tables_are_cards_on_a_phone(browser: Chrome) -> None:
    shown = "return getComputedStyle(document.querySelector('.wide td')).display"
    assert browser.execute_script(shown) == "table-cell"
    resize(browser, 360)
    wait_until(browser, f"{shown} === 'flex'")
    label = "getComputedStyle(document.querySelector('.wide td'), '::before').content"
    assert browser.execute_script(f"return {label}") == '"known"'


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


def test_buttons_zoom_for_fingers(browser: Chrome) -> None:
    width = f"const r = {FIRST}.chart.range; return r[1] - r[0]"
    before = browser.execute_script(width)
    closer, further = browser.find_elements(By.CSS_SELECTOR, "button[data-zoom]")
    closer.click()
    assert browser.execute_script(width) == pytest.approx(before / 2)
    further.click()
    assert browser.execute_script(width) == pytest.approx(before)
