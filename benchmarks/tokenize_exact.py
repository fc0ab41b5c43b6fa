"""Claim: Tokenizer gives Google's ids on 10 million generated texts and on Wikipedia, without a difference.

The reference is the plain one of the tests (tests/text/google_reference.py), which imports nothing of bertie. Three
kinds of vocabulary take turns: uncased and cased English, uncased Chinese. With --text FOLDER every line of the
folder's files is compared too; with --offsets every tenth text is also encoded with offsets. The exit code is 1 if
anything differs.
"""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests" / "text"
KINDS = ("uncased", "cased", "chinese")
BATCH = 20_000
