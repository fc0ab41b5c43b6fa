"""A sheet of paper that SVG is drawn on: light in either theme, with a title for those who cannot see it."""

from dataclasses import dataclass, field
from html import escape

INK, FAINT, PAPER = "#222", "#8a8a8a", "#fbfaf7"
BLUE, ORANGE, GREEN, PURPLE, GREY = "#2f6db5", "#d9822b", "#3b8f5a", "#8156a8", "#d5d2ca"


@dataclass
class Canvas:
    """Shapes in the order they are drawn; places and sizes in pixels."""

    width: int
    height: int
    title: str
    shapes: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, fill: str, opacity: float = 1.0) -> None:
        seen = f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
        self.shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{fill}"{seen}/>'
        )

    def tiles(self, boxes: list[tuple[int, int, int, int]], fill: str, opacity: float) -> None:
        """Many boxes (x, y, width, height) of one colour as one shape."""
        path = "".join(f"M{x} {y}h{width}v{height}h-{width}z" for x, y, width, height in boxes)
        self.shapes.append(f'<path d="{path}" fill="{fill}" fill-opacity="{opacity:.2f}"/>')

    def text(self, x: float, y: float, words: str, anchor: str = "start", colour: str = INK, size: float = 13) -> None:
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size:g}">'
            f"{escape(words)}</text>"
        )

    def line(self, places: list[tuple[float, float]], colour: str = INK, width: float = 1.5) -> None:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        self.shapes.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>')

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="system-ui, sans-serif">'
        )
        title = f"<title>{escape(self.title)}</title>"
        paper = f'<rect width="{self.width}" height="{self.height}" rx="8" fill="{PAPER}"/>'
        return "\n".join([head, title, paper, *self.shapes, "</svg>", ""])
