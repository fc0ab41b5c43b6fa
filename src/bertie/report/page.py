"""One self-contained HTML page: sections with text, tables and figures. It opens from disk and fetches nothing.

Whoever has something to show makes `Section`s and hands them to `write_page`. A figure is a kind, which names the
script that draws it, and data, which that script reads:

    Section(id="loss", heading=words("Loss"), kind="lines", data={...}, alternative=words("Loss by step."), table=...)

`assets/KIND.js` is the script of a kind, and `assets/KIND.css`, where it is there, its style; kinds called FAMILY-KIND
share FAMILY.js and FAMILY.css. The script registers one function, which is called once for each figure of the kind when
the page is open:

    bertie.kinds["KIND"] = (element, data, words) => { ... };

`element` is an empty <div> to fill, `data` the section's data, `words` the section's `words`: all text that the script
shows comes from there, since the page may be Chinese. `bertie` offers what scripts share (see assets/frame.js):
`bertie.chart(element, options)` for a chart by ECharts that follows size and theme, `bertie.colour(name)` for a
colour of the style sheet as it is now, `bertie.onTheme(redraw)`, `bertie.make(tag, attributes, ...children)`,
`bertie.format(number)`.

The page's policy allows this page's own scripts and style sheets only. So scripts set style by `element.style.x = ...`
or by classes, never by `style="..."` in HTML, and put text in by `textContent`, never as HTML.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from bertie.report.words import Words
from bertie.sealed import write_file

ASSETS = Path(__file__).with_name("assets")
SHORT = 20  # characters of a cell that is not broken into lines
LIBRARY = ASSETS / "echarts" / "echarts.min.js"


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page, its heading and texts in the page's language.

    id: its place in the page's address, unique, of letters, digits and hyphens. text: paragraphs before the figure.
    kind, data, words: the figure (see above); data is whatever JSON can say. alternative: what the figure shows, in
    words, for those who do not see it; a figure has one, or is refused. table: the figures behind it, folded below the
    figure; without a figure it stands open. code: a file to read, folded. parts: sections inside this one.
    """

    id: str
    heading: str
    text: Sequence[str] = ()
    kind: str | None = None
    data: object = None
    words: Mapping[str, str] = field(default_factory=dict)
    alternative: str = ""
    table: Table | None = None
    code: str = ""
    parts: Sequence["Section"] = ()

    def __post_init__(self) -> None:
        assert self.id.replace("-", "").isalnum() and self.id.isascii(), self.id
        assert self.kind is None or self.alternative, f"the figure {self.id} says nothing to who does not see it"


def write_page(path: Path, title: str, lead: Sequence[str], sections: Sequence[Section], words: Words) -> None:
    """Write the page: under its title the paragraphs of the lead, then the sections, with a list of them beside."""
    kinds = {section.kind for section in _all(sections) if section.kind}
    names = sorted(kinds | {kind.partition("-")[0] for kind in kinds})
    styles = [ASSETS / "frame.css", *_there(f"{name}.css" for name in names)]
    scripts = [*([LIBRARY] if kinds else []), ASSETS / "frame.js", *_there(f"{name}.js" for name in names)]
    page = _page(title, lead, sections, words, [_read(one) for one in styles], [_read(one) for one in scripts])
    write_file(path, page.encode("utf-8", "replace"))


def _page(
    title: str, lead: Sequence[str], sections: Sequence[Section], words: Words, styles: list[str], scripts: list[str]
) -> str:
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    contents = "".join(f'<li><a href="#{one.id}">{escape(one.heading)}</a></li>' for one in sections)
    shared = {key: words(text) for key, text in SHARED.items()}
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="{words.tag}">',
            '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            *(f"<style>{style}</style>" for style in styles),
            "</head><body>",
            f'<a class="skip" href="#content">{escape(words("Skip to the content"))}</a>',
            f'<header><h1>{escape(title)}</h1><button id="theme" type="button" hidden></button>{_paragraphs(lead)}',
            "</header>",
            f'<nav aria-label="{escape(words("Contents"))}"><ol>{contents}</ol></nav>',
            f'<main id="content">{"".join(_section(one, words) for one in sections)}</main>',
            _data("shared-words", shared),
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


SHARED = {
    "light": "Light",
    "dark": "Dark",
    "automatic": "As the system",
    "theme": "Theme: {name}",
    "failed": "This figure could not be drawn; the table below says the same.",
}


def _section(section: Section, words: Words, level: int = 2) -> str:
    id_, table = section.id, section.table
    figure = [] if section.kind is None else _figure(section)
    shown = "" if table is None else _table(table, section.heading)
    return "".join(
        [
            f'<section id="{id_}" aria-labelledby="{id_}-heading">',
            f'<h{level} id="{id_}-heading">{escape(section.heading)}</h{level}>{_paragraphs(section.text)}',
            *figure,
            _folded(words("The same as a table"), shown) if figure and shown else shown,
            _folded(words("Show"), f"<pre>{escape(section.code)}</pre>") if section.code else "",
            *(_section(part, words, min(level + 1, 6)) for part in section.parts),
            "</section>",
        ]
    )


def _figure(section: Section) -> list[str]:
    id_ = section.id
    return [
        f'<figure><div class="figure" id="{id_}-figure" data-kind="{escape(section.kind or "")}" role="group" ',
        f'aria-labelledby="{id_}-heading" aria-describedby="{id_}-alternative"></div>',
        f'<figcaption id="{id_}-alternative">{escape(section.alternative)}</figcaption></figure>',
        _data(f"{id_}-figure-data", section.data),
        _data(f"{id_}-figure-words", dict(section.words)),
    ]


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def _table(table: Table, label: str) -> str:
    """A table; on a phone one of more than two columns has a block for each row, each cell under its column's name."""
    head = "".join(f'<th scope="col" role="columnheader"{_width(cell)}>{escape(cell)}</th>' for cell in table.header)
    body = "".join(f'<tr role="row">{_row(table.header, row)}</tr>' for row in table.rows)
    shape = "stacked" if len(table.header) > 2 else "plain"
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f'<table class="{shape}" role="table"><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table></div>'
    )


def _row(header: Sequence[str], row: Sequence[str]) -> str:
    first, *rest = row
    cells = "".join(
        f'<td role="cell" data-label="{escape(name)}"{_width(cell)}>{escape(cell)}</td>'
        for name, cell in zip(header[1:], rest, strict=True)
    )
    return f'<th scope="row" role="rowheader"{_width(first)}>{escape(first)}</th>{cells}'


def _width(cell: str) -> str:
    return ' class="short"' if len(cell) <= SHORT else ""


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def _data(id_: str, data: object) -> str:
    """The data as JSON in which nothing can end the element that it stands in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{id_}">{text}</script>'


def _all(sections: Sequence[Section]) -> Iterator[Section]:
    for section in sections:
        yield section
        yield from _all(section.parts)


def _there(names: Iterable[str]) -> list[Path]:
    return [ASSETS / name for name in names if (ASSETS / name).is_file()]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _hashes(texts: Sequence[str]) -> str:
    """The texts as a content policy names them."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
