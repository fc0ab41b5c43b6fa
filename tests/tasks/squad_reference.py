"""run_squad.py's features and predictions, written slowly from the facts: dictionaries and loops, a step at a time."""

import math

SEPARATORS = " \t\r\n\u202f"


def words_of(text):
    """The words, and for each character the number of its word (of the one before, for what parts words)."""
    words, numbers = [], []
    is_new = True
    for char in text:
        if char in SEPARATORS:
            is_new = True
        elif is_new:
            words.append(char)
            is_new = False
        else:
            words[-1] += char
        numbers.append(len(words) - 1)
    return words, numbers


class Feature:
    """A window: its tokens, for each token of the passage its word, whether it is the best window for it, a target."""

    def __init__(self, tokens, word_of, is_best, target):
        self.tokens, self.word_of, self.is_best, self.target = tokens, word_of, is_best, target


def features(example, task, tokenizer):
    """The example's windows; None in place of targets where the answer cannot be learned from."""
    words, numbers = words_of(example.text)
    pieces, word_of_piece, first_piece = [], [], []
    for number, word in enumerate(words):
        first_piece.append(len(pieces))
        for piece in tokenizer.tokenize(word):
            pieces.append(piece)
            word_of_piece.append(number)
    question = tokenizer.tokenize(example.pair)[: task.max_question]
    target = piece_target(example, words, numbers, pieces, first_piece, tokenizer) if example.answers else (-1, -1)
    room = task.max_length - len(question) - 3
    spans, start = [], 0
    while start < len(pieces):
        length = min(len(pieces) - start, room)
        spans.append((start, length))
        if start + length == len(pieces):
            break
        start += min(length, task.stride)
    made = []
    for at, (start, length) in enumerate(spans):
        tokens = ["[CLS]", *question, "[SEP]"]
        word_of, is_best = {}, {}
        for place in range(start, start + length):
            word_of[len(tokens)] = word_of_piece[place]
            is_best[len(tokens)] = best_span(spans, place) == at
            tokens.append(pieces[place])
        tokens.append("[SEP]")
        window_target = target
        if target is not None:
            is_inside = target[0] >= start and target[1] <= start + length - 1
            moved = tuple(place - start + len(question) + 2 for place in target)
            window_target = moved if is_inside else (0, 0)
        made.append(Feature(tokens, word_of, is_best, window_target))
    return made


def best_span(spans, place):
    best, number = None, None
    for at, (start, length) in enumerate(spans):
        if start <= place <= start + length - 1:
            score = min(place - start, start + length - 1 - place) + 0.01 * length
            if best is None or score > best:
                best, number = score, at
    return number


def piece_target(example, words, numbers, pieces, first_piece, tokenizer):
    answer = example.answers[0]
    last_place = answer.start + len(answer.text) - 1
    if not words or answer.start < 0 or last_place >= len(numbers):
        return None
    first_word, last_word = numbers[answer.start], numbers[last_place]
    if " ".join(answer.text.split()) not in " ".join(words[first_word : last_word + 1]):
        return None
    first = first_piece[first_word]
    last = first_piece[last_word + 1] - 1 if last_word < len(words) - 1 else len(pieces) - 1
    said = tokenizer.tokenize(answer.text)
    wanted = " ".join(said)
    for start in range(first, last + 1):
        for end in range(last, start - 1, -1):
            if end - start + 1 == len(said) and " ".join(pieces[start : end + 1]) == wanted:
                return start, end
    return (first, last) if first <= last else None  # of words without a piece, where the original learns nonsense


def predict(example, windows, logits, task, tokenizer):
    """(answer, null odds, n-best) from the logits of each window, a list of pairs for each."""
    words, _ = words_of(example.text)
    weighed, null = [], None
    for window, of_tokens in zip(windows, logits, strict=True):
        starts = best_places([pair[0] for pair in of_tokens], task.num_best)
        ends = best_places([pair[1] for pair in of_tokens], task.num_best)
        if task.has_nulls and (null is None or sum(of_tokens[0]) < sum(null)):
            null = of_tokens[0]
        for start in starts:
            for end in ends:
                if start not in window.word_of or end not in window.word_of or not window.is_best.get(start, False):
                    continue
                if end < start or end - start + 1 > task.max_answer:
                    continue
                weighed.append((window, start, end, of_tokens[start][0], of_tokens[end][1]))
    if task.has_nulls and null is not None:
        weighed.append((None, 0, 0, null[0], null[1]))
    weighed.sort(key=lambda one: one[3] + one[4], reverse=True)
    best, seen = [], set()
    for window, start, end, start_logit, end_logit in weighed:
        if len(best) >= task.num_best:
            break
        text = "" if window is None else text_of(window, start, end, words, tokenizer)
        if window is not None and text in seen:
            continue
        seen.add(text)
        best.append((text, start_logit, end_logit))
    if task.has_nulls and "" not in seen and null is not None:
        best.append(("", null[0], null[1]))
    spans = [one for one in best if one[0]]
    if not spans:
        return "", None, best
    if not task.has_nulls:
        return best[0][0], None, best
    odds = null[0] + null[1] - spans[0][1] - spans[0][2]
    return "" if odds > task.null_threshold else spans[0][0], odds, best


def best_places(numbers, count):
    return [place for place, _ in sorted(enumerate(numbers), key=lambda one: one[1], reverse=True)[:count]]


def text_of(window, start, end, words, tokenizer):
    spelled = " ".join(window.tokens[start : end + 1]).replace(" ##", "").replace("##", "").strip()
    original = " ".join(words[window.word_of[start] : window.word_of[end] + 1])
    return final_text(" ".join(spelled.split()), original, tokenizer)


def final_text(spelled, original, tokenizer):
    cut = " ".join(tokenizer.words(original))
    start = cut.find(spelled)
    if start == -1:
        return original
    end = start + len(spelled) - 1
    bare_original, of_original = without_spaces(original)
    bare_cut, of_cut = without_spaces(cut)
    if len(bare_original) != len(bare_cut):
        return original
    number = {place: count for count, place in of_cut.items()}
    if start not in number or end not in number:
        return original
    return original[of_original[number[start]] : of_original[number[end]] + 1]


def without_spaces(text):
    kept, places = [], {}
    for place, char in enumerate(text):
        if char != " ":
            places[len(kept)] = place
            kept.append(char)
    return "".join(kept), places


def shares(best):
    total = sum(math.exp(start + end) for _, start, end in best)
    return [math.exp(start + end) / total for _, start, end in best]
