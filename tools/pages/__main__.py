"""Write the pages of docs/ again that are made from the code."""

from __future__ import annotations

from pathlib import Path

from tools.pages import apis, configuration, metrics, spark_options

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "apis.md": apis.page,
    "configuration.md": configuration.page,
    "metrics.md": metrics.page,
    "spark-options.md": spark_options.page,
}

for name, page in PAGES.items():
    (DOCS / name).write_text(page())
