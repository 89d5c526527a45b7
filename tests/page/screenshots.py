#!/usr/bin/python3
"""Takes the pictures of pools for docs/page.md, and for looking at: screenshots.py FOLDER

Run it where the tests run: TEST_SRCDIR is a folder whose `warpline` is laid out as bazel-bin is.
"""
import pathlib
import sys
import time

import browser
import pool
import scenes

SIZES = ((1440, 900), (820, 1100), (390, 844))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    window = browser.Browser()

    def shoot(name):
        for width, height in SIZES:
            window.wide(width, height)
            time.sleep(1)
            window.driver.save_screenshot(str(folder / ("%s-%d.png" % (name, width))))
        window.wide(*SIZES[0])

    for name, scene in (("idle", scenes.idle), ("busy", scenes.busy), ("broken", scenes.broken),
                        ("large", scenes.large)):
        made = pool.Pool()
        scene(made)
        window.sign_in(made.url, made.operator)
        if name == "broken":
            window.until_text("gpu-a03 is lost")
        shoot(name)
        if name == "busy":
            window.js("document.querySelectorAll('.gpu')[3].click()")
            shoot("place")
            window.sign_in(made.url, made.tenants["research"])
            shoot("tenant")
        if name == "broken":
            made.kill()
            window.until_text("does not answer", "#banner")
            shoot("gone")
        made.close()
    window.close()


if __name__ == "__main__":
    main()
