#!/usr/bin/python3
"""The scheduler's page in a browser, with a scheduler that is asked over its own ports."""
import json
import shutil
import subprocess
import time
import unittest

import browser
import pool
import scenes
from browser import Keys

HOSTILE = "<img src=x onerror=document.title='owned'>\"'`${1}</script><script>owned=1</script>"
MAX_BYTES = 200000
ETCD = "/usr/bin/etcd"


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.browser.wide(1440, 900)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def pool(self, *flags, **options):
        made = pool.Pool(flags, **options)
        self.addCleanup(made.close)
        return made

    def see(self, scene, *flags):
        made = self.pool(*flags)
        scene(made)
        self.browser.sign_in(made.url, made.operator)
        return made

    # --- Who sees what.

    def test_the_pool_is_for_who_has_a_credential(self):
        made = self.pool()
        scenes.idle(made)
        for credential in (None, "wrong", ""):
            self.assertEqual(made.get(credential=credential)[0], 401)
        self.assertEqual(made.get(credential=made.operator)[0], 200)
        self.browser.driver.get(made.url)
        self.browser.driver.find_element("id", "credential").send_keys("wrong", Keys.ENTER)
        self.browser.until_text("does not know this credential")
        self.assertEqual(self.browser.focused(), "credential")
        self.assertNotIn("gpu-a01", self.browser.js("return document.body.textContent"))
        self.browser.driver.get_log("browser")

    def test_a_tenant_sees_what_is_its_own(self):
        made = self.pool()
        scenes.busy(made)
        hidden = ("products", "search-ranking", "students", "serve_nothing", "backfill",
                  "nightly_rank", "homework")
        status, _, body = made.get(credential=made.tenants["research"])
        self.assertEqual(status, 200)
        seen = json.loads(body)
        self.assertEqual({t["name"] for t in seen["tenants"]}, {"research", "vision", "language"})
        self.assertEqual({lease["tenant"] for lease in seen["leases"]}, {"vision", "language"})
        for word in hidden:
            self.assertNotIn(word, body.decode())
        self.browser.sign_in(made.url, made.tenants["research"])
        self.browser.until_text("Tenant research")
        text = self.browser.js("return document.documentElement.outerHTML")
        for word in hidden:
            self.assertNotIn(word, text)
        self.browser.until_text("pretrain-13b")

    def test_signing_out_leaves_nothing(self):
        self.see(scenes.idle)
        self.browser.until_text("gpu-a01")  # The map is drawn after the rest.
        self.browser.driver.find_element("id", "sign-out").click()
        text = self.browser.js("return document.documentElement.outerHTML")
        for word in ("gpu-a01", "research", "medium"):
            self.assertNotIn(word, text)

    def test_hostile_names_are_only_text(self):
        made = self.pool()
        made.add_tenant("acme", "--slices=any")
        made.add_server("host", gpus=2)
        made.lease("acme", 10, program=HOSTILE)
        made.wait("acme", 79, gpus=2, gang=HOSTILE[:64], members=2, program=HOSTILE)
        made.warpline("servers", "cordon", "host", "--reason=" + HOSTILE)
        self.browser.sign_in(made.url, made.operator)
        self.browser.until_text(HOSTILE, "#leases")
        self.browser.until_text(HOSTILE[:40], "#waiting")
        self.browser.until_text("<img src=x", "#problems")
        self.assertEqual(self.browser.js("return typeof owned"), "undefined")
        self.assertEqual(self.browser.js("return document.querySelectorAll('#pool img, #pool script').length"), 0)
        self.assertNotEqual(self.browser.driver.title, "owned")

    # --- What goes on.

    def test_changes_are_seen_without_asking(self):
        made = self.see(scenes.idle)
        self.browser.until_text("No lease is held.")
        made.lease("vision", 40, gpus=2, program="late.py")
        self.browser.until_text("late.py", "#leases")
        made.fill("silence", "gpu-a04")
        self.browser.until_text("gpu-a04 is lost", "#problems")
        self.browser.until_text("gpu-a04 is lost", "#announcer")
        made.warpline("servers", "drain", "gpu-a03", "--within=1h", "--reason=new fan")
        self.browser.until_text("gpu-a03 is being drained", "#problems")
        self.browser.until_text("draining", "#map")

    def test_a_scheduler_that_dies_is_said_and_comes_back(self):
        made = self.see(scenes.idle)
        self.browser.until_text("gpu-a01", "#map")
        made.kill()
        self.browser.until_text("does not answer", "#banner")
        self.assertIn("gpu-a01", self.browser.text("#map"))
        made.start()
        self.browser.until(lambda: self.browser.js("return document.getElementById('banner').hidden"),
                           "it is connected again")
        self.browser.until_text("Connected again", "#announcer")
        self.browser.driver.get_log("browser")  # Refused connections.

    def test_one_that_does_not_lead_says_who_does(self):
        if not shutil.which(ETCD):
            self.skipTest("etcd-server is not installed")
        first = self.pool_on_etcd()
        scenes.idle(first)
        first.lease("vision", 40, program="kept.py")
        second = self.pool(state=first.state)
        shutil.copy(first.folder / "state/operator.credential", second.folder / "operator")
        credential = (second.folder / "operator").read_text().strip()
        self.browser.sign_in(second.url, credential)
        self.browser.until_text("This scheduler does not lead; %s does." % first.address, "#banner")
        self.browser.until_text("kept.py", "#leases")
        self.assertEqual(second.get()[0], 401)
        first.kill()
        self.browser.until(lambda: self.browser.js("return document.getElementById('banner').hidden"),
                           "the second one leads")
        self.browser.until_text("kept.py", "#leases")

    def pool_on_etcd(self):
        made = pool.tempfile.TemporaryDirectory(prefix="warpline-page-etcd-")
        self.addCleanup(made.cleanup)
        client, peer = pool.local_server.free_port(), pool.local_server.free_port()
        url = "http://127.0.0.1:%d"
        log = open(made.name + "/log", "wb")
        self.addCleanup(log.close)
        etcd = subprocess.Popen(
            [ETCD, "--data-dir=" + made.name + "/data", "--listen-client-urls=" + url % client,
             "--advertise-client-urls=" + url % client, "--listen-peer-urls=" + url % peer,
             "--initial-advertise-peer-urls=" + url % peer, "--initial-cluster=default=" + url % peer],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(etcd.wait)
        self.addCleanup(etcd.kill)
        first = self.pool(state="etcd://127.0.0.1:%d" % client)
        pool.wait_until(lambda: " leads epoch=" in first.log(), first.log)
        return first

    # --- Keyboard and screen reader.

    def test_the_keyboard_reaches_everything(self):
        made = self.pool()
        scenes.busy(made)
        self.browser.driver.get(made.url)
        self.browser.press(Keys.TAB)
        self.assertIn("Skip", self.browser.focused())
        self.browser.press(Keys.TAB, made.operator, Keys.ENTER)
        self.browser.until_text("Operator")
        self.assertEqual(self.browser.focused(), "content")
        for _ in range(4):
            self.browser.press(Keys.TAB)
            if self.browser.focused() == "find":
                break
        self.assertEqual(self.browser.focused(), "find")
        self.browser.press(Keys.TAB, Keys.TAB)
        self.assertIn("gpu-a01 GPU 0: leased 70 of 80 GiB", self.browser.focused())
        self.browser.press(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
        self.assertIn("gpu-a02 GPU 1", self.browser.focused())
        self.browser.press(Keys.END)
        self.assertIn("gpu-a02 GPU 7", self.browser.focused())
        self.browser.press(Keys.HOME, Keys.ENTER)
        self.assertEqual(self.browser.focused(), "place-heading")
        self.browser.until_text("train_vit.py", "#place")
        # Polling does not take the focus away.
        before = self.polls()
        self.browser.until(lambda: self.polls() > before + 1, "the page asks twice more")
        self.assertEqual(self.browser.focused(), "place-heading")
        self.browser.press(Keys.ESCAPE)
        self.assertIn("gpu-a02 GPU 0", self.browser.focused())
        outline = self.browser.js("return getComputedStyle(document.activeElement).outlineStyle")
        self.assertEqual(outline, "solid")
        self.browser.press(Keys.TAB)
        self.assertNotIn("GPU", self.browser.focused())

    def polls(self):
        """How often the page has been answered."""
        return self.browser.js("return performance.getEntriesByType('resource')"
                               ".filter(e => e.name.endsWith('/pool.json')).length")

    def test_finding(self):
        self.see(scenes.busy)
        self.browser.driver.find_element("id", "find").send_keys("students")
        self.browser.until_text(" of 12 hosts", "#map-count")
        self.assertEqual(set(self.browser.js(
            "return [...document.querySelectorAll('#leases tbody th')].map(e => e.textContent)")),
            {"students"})
        self.browser.driver.find_element("id", "find").send_keys(" nobody")
        self.browser.until_text("0 of 12 hosts", "#map-count")

    def test_the_accessibility_tree_names_everything(self):
        self.see(scenes.broken)
        self.browser.until_text("gpu-a03 is lost", "#problems")
        tree = self.browser.tree()
        by_role = {}
        for role, name, properties in tree:
            by_role.setdefault(role, []).append((name, properties))
        for role in ("button", "link", "searchbox", "combobox", "textbox", "checkbox", "gridcell",
                     "grid", "region", "navigation", "table", "search"):
            for name, _ in by_role.get(role, []):
                self.assertTrue(name.strip(), role)
        # The fifth has no row, and is not shown.
        self.assertEqual(sorted(name.split()[0] for name, _ in by_role["table"]),
                         ["Leases", "Requests", "Slices", "Tenants"])
        self.assertEqual(len(by_role["main"]), 1)
        self.assertEqual(len(by_role["banner"]), 1)
        self.assertEqual(len(by_role["gridcell"]), 64)
        self.assertGreaterEqual(len(by_role["columnheader"]), 25)
        self.assertGreaterEqual(len(by_role["rowheader"]), 8)
        levels = [properties["level"] for name, properties in by_role["heading"]]
        self.assertEqual(levels[0], 1)
        self.assertTrue(all(after - before <= 1 for before, after in zip(levels, levels[1:])))
        lost = [name for name, _ in by_role["gridcell"] if "gpu-a03" in name]
        self.assertTrue(all("server lost" in name for name in lost), lost)

    def test_texts_are_told_from_their_ground(self):
        """Contrast as WCAG 2.2 AA wants it: 4.5, in light and dark."""
        self.see(scenes.broken)
        self.browser.until_text("gpu-a03 is lost", "#problems")
        for scheme in ("light", "dark"):
            self.browser.cdp("Emulation.setEmulatedMedia",
                             features=[{"name": "prefers-color-scheme", "value": scheme}])
            weak = self.browser.js(CONTRAST)
            self.assertEqual(weak, [], scheme)
        self.browser.cdp("Emulation.setEmulatedMedia", features=[])

    # --- Size.

    def test_nothing_overflows_a_narrow_screen(self):
        self.see(scenes.broken)
        for width in (320, 390, 820, 1440):
            self.browser.wide(width, 900)
            self.assertLessEqual(
                self.browser.js("return document.documentElement.scrollWidth"), width)

    def test_a_thousand_gpus(self):
        made = self.pool()
        scenes.large(made, leases=1000)
        began = time.monotonic()
        self.browser.sign_in(made.url, made.operator)
        took = time.monotonic() - began
        self.browser.until(lambda: len(self.browser.all(".gpu[role=gridcell]")) == 1000, "all GPUs")
        sizes = self.browser.js(
            "return performance.getEntriesByType('resource').concat("
            "performance.getEntriesByType('navigation'))"
            ".map(e => [new URL(e.name).pathname, e.transferSize, e.decodedBodySize])")
        files = sum(size for path, _, size in sizes if path != "/pool.json")
        usable = self.browser.js(
            "const mark = performance.getEntriesByName('warpline-usable')[0].startTime;"
            "const asked = performance.getEntriesByType('resource')"
            ".filter(e => e.name.endsWith('/pool.json'))[0];"
            "return [asked.startTime, asked.responseEnd, mark]")
        print("files %d bytes; from asking to usable %.0f ms (answered after %.0f ms); signing in by "
              "keys %.1f s" % (files, usable[2] - usable[0], usable[1] - usable[0], took))
        self.assertLess(files, MAX_BYTES)
        status, headers, body = made.get(credential=made.operator)
        self.assertEqual(status, 200)
        print("pool.json %d bytes" % len(body))


# All texts that are seen, with the least contrast against the ground that they are on.
CONTRAST = """
const parse = (color) => color.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => c / 255).map((c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
  return .2126 * x + .7152 * y + .0722 * z;
};
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const color = parse(getComputedStyle(e).backgroundColor);
    if (color.length < 4 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const weak = new Set();
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const element = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !element.checkVisibility() || element.closest(".unseen, .skip, [aria-hidden]")) continue;
  const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
  const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (contrast < 4.5) weak.add(`${walk.currentNode.data.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
}
return [...weak];
"""

if __name__ == "__main__":
    unittest.main(verbosity=2)
