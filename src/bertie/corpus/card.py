"""What a corpus is made of: what is in it, and what was dropped or mended on the way, by the reason."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CorpusCard:
    """counts: by part, the documents, sentences and tokens. changes: how often something was dropped or mended, by what
    it was. not_utf8: bytes dropped, by file. The last two are of the text before repeated documents were dropped;
    unknown_share: of the tokens, those that stand for words the vocabulary cannot spell."""

    language: str
    counts: Mapping[str, Mapping[str, int]]
    changes: Mapping[str, int]
    not_utf8: Mapping[str, int]
    characters_per_token: float
    unknown_share: float

    def rows(self) -> list[tuple[str, str]]:
        """The card as a person reads it: names and figures."""
        rows = [("language", self.language)]
        for part, counts in self.counts.items():
            named = [f"{number:,} {unit.removesuffix('s') if number == 1 else unit}" for unit, number in counts.items()]
            rows.append((part, ", ".join(named)))
        rows.append(("characters a token", f"{self.characters_per_token:.2f}"))
        rows.append(("unknown words", f"{self.unknown_share:.3%} of the tokens"))
        rows += [(what, f"{number:,}") for what, number in sorted(self.changes.items())]
        for name, number in sorted(self.not_utf8.items()):
            rows.append((f"not UTF-8 in {name}", f"{number:,} byte{'' if number == 1 else 's'} dropped"))
        return rows
