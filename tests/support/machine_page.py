"""Screenshots of the section "Machine" of a report page: machine_page.py REPORT.html OUT_DIR.

Light, dark, and 380 px wide; to be looked at.
"""

import pathlib
import sys

import chromium


def main():
    page_file, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    with chromium.Browser() as browser:
        for name, width, scheme in (("light", 1160, "light"), ("dark", 1160, "dark"), ("narrow", 380, "light")):
            page = browser.page(width=width, height=1000, scheme=scheme)
            page.open(page_file.as_uri() + "#machine")
            page.evaluate("document.querySelector('#machine').scrollIntoView()")
            page.screenshot(str(out / f"machine-{name}.png"), whole=False)


if __name__ == "__main__":
    main()
