"""Debian's Chromium without a screen, and what tests do with a page in it."""
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PATIENCE_S = 240


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="warpline-browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--lang=en", "--force-color-profile=srgb",
                     "--user-data-dir=" + self.folder.name):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.wide(1440, 900)

    def close(self):
        self.driver.quit()
        self.folder.cleanup()

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def wide(self, width, height):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def text(self, selector="body"):
        return self.js("return document.querySelector(arguments[0]).innerText", selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "not within %d s: %s\n%s" % (
                PATIENCE_S, what, self.text())
            time.sleep(0.05)

    def until_text(self, words, selector="body"):
        self.until(lambda: words in self.text(selector), words)

    def press(self, *keys):
        """Presses the keys wherever the focus is."""
        for key in keys:
            webdriver.ActionChains(self.driver).send_keys(key).perform()

    def focused(self):
        """What the focus is on: its id, or its label, or its text; empty for nothing."""
        return self.js("const e = document.activeElement;"
                       "if (e === document.body) return '';"
                       "return e.id || e.getAttribute('aria-label') || e.textContent")

    def sign_in(self, url, credential):
        self.driver.get(url)
        self.driver.find_element(By.ID, "credential").send_keys(credential, Keys.ENTER)
        self.until(lambda: not self.js("return document.getElementById('pool').hidden"),
                   "the pool is shown")

    def complaints(self):
        """What the console has that is no answer of the server: violations, exceptions."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] in ("SEVERE", "WARNING") and "/pool.json" not in entry["message"]]

    def tree(self):
        """The accessibility tree: (role, name, properties) of what is not ignored."""
        nodes = self.cdp("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", ""),
                 {p["name"]: p["value"].get("value") for p in node.get("properties", [])})
                for node in nodes if not node["ignored"]]
