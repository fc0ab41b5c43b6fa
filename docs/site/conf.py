"""What Sphinx is told, for either language.

The navigation follows index.md, and Chinese is searched by pairs of characters."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.search import SearchLanguage, languages

project = "bertie"
copyright = "the authors of bertie, Apache-2.0"  # noqa: A001 (Sphinx's name)
extensions = ["myst_parser"]
root_doc = "index"
myst_heading_anchors = 3
html_theme = "furo"
html_title = "bertie"
html_copy_source = html_show_sphinx = html_use_index = False
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
UNLISTED = {"en": "More", "zh_CN": "其他"}
LINK = re.compile(r"\]\(([\w-]+)\.md\)")
BROKEN_LINE = re.compile(r"(?<=[\u3001-\u9fff\uff01-\uff5e])\n(?=[\u3001-\u9fff\uff01-\uff5e])")
OTHER_LANGUAGE = re.compile(r"\[([^\]]+)\]\((\.\./(?:en|zh)/[\w-]+)\.md(#[^)]*)?\)")


class Chinese(SearchLanguage):
    """Words of Latin letters, and each pair of neighbouring Chinese characters, so that no segmenter is needed."""

    lang = "zh"
    language_name = "Chinese"
    js_splitter_code = """
var splitQuery = (query) => (query.match(/[\\u4e00-\\u9fff]+|[\\w]+/g) || []).flatMap((run) =>
  /[\\u4e00-\\u9fff]/.test(run) && run.length > 2
    ? Array.from({ length: run.length - 1 }, (_, start) => run.slice(start, start + 2))
    : [run]);
"""

    def split(self, text: str) -> list[str]:
        words = []
        for run in re.findall(r"[\u4e00-\u9fff]+|[A-Za-z0-9_]+", text):
            is_chinese = "\u4e00" <= run[0] <= "\u9fff"
            words += [run[start : start + 2] for start in range(max(1, len(run) - 1))] if is_chinese else [run]
        return words


languages["zh"] = Chinese


def contents(text: str, pages: set[str], rest: str) -> str:
    """The navigation: a list for each heading of index.md, of the pages it links to; those it does not, at the end."""
    sections = {}
    for section in text.split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        sections[heading.strip()] = [page for page in LINK.findall(body) if page in pages]
    listed = {page for names in sections.values() for page in names}
    sections[rest] = sorted(pages - listed)
    trees = [
        "\n".join(["```{toctree}", ":hidden:", f":caption: {heading}", "", *names, "```"])
        for heading, names in sections.items()
        if names
    ]
    return "\n\n".join(["", *trees, ""])


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """The page as Sphinx shall read it: links into the other language as HTML, no space where a line of Chinese was
    broken, and index.md with its navigation."""
    source[0] = BROKEN_LINE.sub("", source[0])
    source[0] = OTHER_LANGUAGE.sub(r'<a href="\2.html\3">\1</a>', source[0])
    if page == root_doc:
        pages = {path.stem for path in Path(app.srcdir).glob("*.md")} - {root_doc}
        source[0] += contents(source[0], pages, UNLISTED[app.config.language])


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", read)
    app.connect("html-page-context", name_other_language)


def name_other_language(app: Sphinx, page: str, template: str, context: dict[str, object], tree: object) -> None:
    """Tells language.html where the same page stands in the other language; where there is none, its contents."""
    folder, label = ("zh", "中文") if app.config.language == "en" else ("en", "English")
    exists = (Path(app.srcdir).parent / folder / f"{page}.md").exists()
    context["other_language"] = (f"../{folder}/{page if exists else root_doc}.html", label)
