"""Documents to sentences, English and Chinese by one set of rules, since a text of either quotes the other.

A sentence ends where its stop stands, inside quotations too. What closes behind the stop belongs to it, and so does
what goes on in lower case or says who spoke ('"Stop!" he said.'). The end of a line always ends one.
How often that errs is measured in tests/text/test_sentences.py.
"""

import re

CLOSERS = r"""["'”’»)\]」』）》〉】〕]"""
WIDE = "。！？；｡"
STOPS = f".!?…{WIDE}"
CJK = r"\u3400-\u9fff\uf900-\ufaff"
# All of a run of stops and what closes behind it, where a sentence may begin next. It begins with a plain set of
# characters, for which the search runs through text ten times as fast as for alternatives.
CANDIDATE = re.compile(
    rf"""( [{STOPS}] (?<! [{STOPS}][{STOPS}] ) [{STOPS}]*+ (?:
               (?<= [{WIDE}] ) {CLOSERS}*+ (?! [，、,：:—。！？；] )
             | {CLOSERS}*+ (?: \s? \[ \d++ \] )*+ (?= \s++ (?! [a-z–—-] ) )
             | (?: (?<= [!?] ) | (?<= …… ) | (?<= \.{{6}} ) ) {CLOSERS}*+ (?= [{CJK}“「『（《] )
         ) ) \s*+""",
    re.VERBOSE,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Before a name, or in the middle of a sentence: never its end.
NEVER_LAST = _words("""
    Mr Mrs Ms Mx Dr Prof Gen Sen Rep Gov Pres Rev Hon Capt Cpt Lt Col Maj Sgt Cpl Pvt Cmdr Adm Brig Messrs Mme Mlle
    Msgr Fr Supt Insp Gens Sens Reps Lieut Mt Ft Pt Ste vs v Vs cf Cf e.g E.g i.e I.e viz ca c approx Ph pp""")
# The end of a sentence only if the next word begins sentences more often than it is part of a name.
SELDOM_LAST = _words("""
    St Ave Blvd Rd Inc Co Corp Ltd Bros Jr Sr etc al Univ Dept Est ed eds trans Jan Feb Mar Apr Jun Jul Aug Sept Sep
    Oct Nov Dec Vol vol Vols vols Fig fig Figs figs Ch ch chap Sec Eq sp spp subsp var Nr nr Nos nos""")
# The end of a sentence unless a number follows.
BEFORE_NUMBERS = _words("No no Op op Art art sec ft lb lbs oz hr hrs tbsp tsp Rs")
STARTERS = _words("""
    The He She It They We You A An This These That Those There Here His Her Its Their My Our Your In On At After
    Before Later When While As By For From With To But And Or So If Although Though Because Since However Also Another
    Other Others Some Many Most Both All Each Every Few Several One Two Three Four Five During Under Among According
    Then Thus Today Now Once Only Not What Who Why How Where Which Nobody Nothing Somebody Someone Despite Unlike Until
    Such Between Through Throughout Upon Within Without Over Like Is Are Was Were Did Do Does Has Had Have Can Could
    Would Should Afterwards Meanwhile Instead Finally Eventually Initially Originally Subsequently Furthermore
    Nevertheless Therefore Moreover Following Again Perhaps Still Yet Even Just Never None Neither I""")
LONGEST_ABBREVIATION = max(map(len, NEVER_LAST | SELDOM_LAST | BEFORE_NUMBERS))
DOTTED = re.compile(r"(?:[A-Za-z]{1,2}\.)+[A-Za-z]{1,4}")  # U.S, Ph.D, p.m
ENUMERATOR = re.compile(r"[(\[]?(?:\d{1,3}|[A-Za-z]|[ivx]{1,5})")
NEXT_WORD = re.compile(r"""["'“‘«(\[]*(\w+)""")
ENGLISH_SPEAKER = re.compile(
    r"(?:[A-Z][\w.'’-]{0,30}\s+){1,3}(?:said|says|asked|cried|replied|answered|shouted|whispered|exclaimed|called|added|"
    r"murmured|muttered|demanded|inquired|thought|wondered|screamed|yelled|sighed|observed|remarked|continued)\b"
)
CHINESE_SPEAKER = re.compile(r"\w{1,8}?(?:[说說道问問喊叫答笑嚷吼骂罵][着著了道]?|一声|一聲)(?=[，。！？…])")
SHORT_CLAUSE, LONGEST_QUOTATION, LONGEST_TITLE = 40, 1000, 60  # characters that are looked at before a stop, at most
QUOTES = {"”": "“", "’": "‘", "」": "「", "』": "『"}


def cut_sentences(text: str) -> list[str]:
    """The sentences of a document in order, without the white space around them; none is empty."""
    sentences = []
    for line in text.split("\n"):
        start = 0
        for match in CANDIDATE.finditer(line):
            if _is_end(line, start, match):
                sentences.append(line[start : match.end(1)].lstrip())
                start = match.end()
        rest = line[start:].strip()
        if rest:
            sentences.append(rest)
    return sentences


def _is_end(line: str, start: int, match: re.Match[str]) -> bool:
    """Whether the sentence that begins at `start` ends at the candidate."""
    stop, at, after = match[1], match.start(), match.end()
    if stop[0] == "." and (len(stop) == 1 or stop[1] not in STOPS):
        return _is_end_at_period(line, start, at, after)
    if stop[-1] in "》〉" or _is_in_title(line, start, at):
        return False
    is_wide = any(char in WIDE for char in stop)
    if stop[0] in ".…" and not is_wide and not _is_clause(line, start, at):
        return False
    if stop[-1] in QUOTES or stop[-1] == '"':
        return not _names_speaker(line, at, after, stop[-1])
    return is_wide or not line[after : after + 1].islower()


def _is_end_at_period(line: str, start: int, at: int, after: int) -> bool:
    if line[after : after + 1].islower():
        return False
    first = max(start, at - LONGEST_ABBREVIATION - 3)
    word = line[max(line.rfind(" ", first, at) + 1, first) : at].lstrip("\"'“‘«([")
    if len(word) > LONGEST_ABBREVIATION:
        return True
    if ENUMERATOR.fullmatch(line, start, at) or word in NEVER_LAST or word.capitalize() in NEVER_LAST:
        return False
    next_word = NEXT_WORD.match(line, after)
    if word in BEFORE_NUMBERS:
        return next_word is None or not next_word[1][0].isdigit()
    if word in SELDOM_LAST or (len(word) == 1 and word.isalpha()) or DOTTED.fullmatch(word):
        return next_word is not None and next_word[1] in STARTERS
    return True


def _is_in_title(line: str, start: int, at: int) -> bool:
    opener = line.rfind("《", max(start, at - LONGEST_TITLE), at)
    return opener >= 0 and line.find("》", opener, opener + LONGEST_TITLE) > at


def _is_clause(line: str, start: int, at: int) -> bool:
    """Whether enough stands before an ellipsis for it to be more than a hesitation: two words, four characters."""
    before = line[max(start, at - SHORT_CLAUSE) : at].strip()
    return " " in before if before.isascii() else before[-4:].isalnum() and len(before) >= 4


def _names_speaker(line: str, at: int, after: int, closer: str) -> bool:
    """Whether what follows a quotation says who spoke, unless that was said before it."""
    english = ENGLISH_SPEAKER.match(line, after)
    if english:
        return english[0].split()[0] not in STARTERS or english[0].startswith("I ")
    opener = line.rfind(QUOTES.get(closer, '"'), max(0, at - LONGEST_QUOTATION), at)
    return CHINESE_SPEAKER.match(line, after) is not None and line[opener - 1 : opener] not in ("：", "，", ":", ",")
