"""The files that say how a model cuts text: `vocab.txt`, `tokenizer.json` and, beside them, `tokenizer_config.json`."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tokenizers import AddedToken
from tokenizers import Tokenizer as Pipeline

from bertie.carried import listed
from bertie.text.rules import Rules

BERT_ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
OTHER_ROLES = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}


@dataclass(frozen=True)
class Source:
    """What a folder says of its tokenizer.

    name: its path, for messages.
    entries: the vocabulary in the order of its ids. is_bert: whether they are WordPieces, cut the way BERT does.
    pipeline: tokenizer.json as the `tokenizers` library opens it; it is there wherever the vocabulary is not BERT's.
    lowercase, strip_accents: None where nothing is said. roles: pad, unk, cls, sep, mask -> how the token is spelled.
    added: the tokens that tokenizer.json wants recognised in raw text. config: all of tokenizer_config.json.
    """

    name: str
    entries: list[str]
    is_bert: bool
    pipeline: Pipeline | None
    lowercase: bool | None
    strip_accents: bool | None
    split_cjk: bool
    roles: dict[str, str]
    added: list[AddedToken]
    config: dict[str, object]


def read_source(path: Path) -> Source:
    """What the folder, `vocab.txt` or `tokenizer.json` says; ValueError names the file that is missing or wrong."""
    _require_there(path)
    if path.suffix == ".json":
        return _read_pipeline(path, None)
    if path.is_file():
        return _read_vocabulary(path)
    vocabulary, pipeline = path / "vocab.txt", path / "tokenizer.json"
    if not pipeline.is_file():
        return _read_vocabulary(vocabulary)
    return _read_pipeline(pipeline, vocabulary if vocabulary.is_file() else None)


def write_source(source: Source, settings: Rules, pipeline: Pipeline) -> dict[str, bytes]:
    """The files of a folder that `transformers` opens too, by name."""
    files = {"tokenizer.json": pipeline.to_str(pretty=False).encode()}
    config = source.config | {f"{role}_token": piece for role, piece in source.roles.items()}
    if source.is_bert:
        files["vocab.txt"] = "".join(f"{piece}\n" for piece in source.entries).encode()
        config |= {
            "do_lower_case": settings.lowercase,
            "strip_accents": settings.strip_accents,
            "tokenize_chinese_chars": settings.split_cjk,
        }
    config.setdefault("tokenizer_class", "BertTokenizer" if source.is_bert else "PreTrainedTokenizerFast")
    files["tokenizer_config.json"] = (json.dumps(config, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    return files


def _read_vocabulary(path: Path) -> Source:
    entries = read_vocabulary(path)
    # A tokenizer.json beside it says whether text is lower-cased; its vocabulary was not asked for.
    said = _as_object(read_object(path.with_name("tokenizer.json")).get("normalizer"))
    return _bert_source(path, entries, None, said)


def _read_pipeline(path: Path, vocabulary: Path | None) -> Source:
    settings, pipeline = read_object(path), _open_pipeline(path)
    _require_template(_as_object(settings.get("post_processor")), path)
    entries = _entries(pipeline)
    if _is_bert(settings):
        if vocabulary:
            _require_agreement(read_vocabulary(vocabulary), entries, path.parent)
        return _bert_source(path, entries, pipeline, _as_object(settings["normalizer"]))
    config = read_object(path.with_name("tokenizer_config.json"))
    roles = _roles(entries, read_object(path.with_name("special_tokens_map.json")) | config)
    return Source(str(path), entries, False, pipeline, _lowers(pipeline), None, True, roles, [], config)


def _bert_source(path: Path, entries: list[str], pipeline: Pipeline | None, said: dict[str, object]) -> Source:
    place = path.with_name("tokenizer_config.json")
    config = read_object(place)
    said = said | _said(config, place)
    return Source(
        str(path),
        entries,
        True,
        pipeline,
        _as_bool(said.get("lowercase")),
        _as_bool(said.get("strip_accents")),
        said.get("handle_chinese_chars") is not False,
        _roles(entries, read_object(path.with_name("special_tokens_map.json")) | config),
        [token for _, token in sorted(pipeline.get_added_tokens_decoder().items())] if pipeline else [],
        config,
    )


def read_vocabulary(path: Path) -> list[str]:
    """The entries in the order of their ids: one a line, without the white space around it, as Google reads them."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}. Give a vocabulary with one entry a line.") from None
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path} is not UTF-8: line {line} holds other bytes. Save it as UTF-8.") from None
    vocabulary = [line.strip() for line in (lines if lines[-1].strip() else lines[:-1])]
    if not any(vocabulary):
        raise ValueError(f"{path} is empty: a vocabulary has one entry a line.")
    return distinct(vocabulary, str(path), "lines")


def distinct(vocabulary: Iterable[str], name: str, unit: str) -> list[str]:
    """The entries, all different; ValueError names one that is there twice, and both its places."""
    first_place: dict[str, int] = {}
    for place, piece in enumerate(vocabulary, 1):
        if first_place.setdefault(piece, place) != place:
            raise ValueError(
                f"{name} holds {piece!r} twice, as {unit} {first_place[piece]} and {place}: an entry's place is "
                "its id, so each must stand once."
            )
    return list(first_place)


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in the file, empty where there is no file; ValueError where it is something else."""
    try:
        value: object = json.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds no JSON object, but {type(value).__name__}: copy it anew.")
    return value


def _require_there(path: Path) -> None:
    if not path.exists():
        raise ValueError(
            f"{path} does not exist: give a vocab.txt, a tokenizer.json, a folder that holds one, or the name of a "
            f"model that the package carries: {listed()}."
        )
    if path.is_dir() and not any((path / name).is_file() for name in ("vocab.txt", "tokenizer.json")):
        is_sentencepiece = any(path.glob("*.model"))
        way = "have transformers save its tokenizer.json" if is_sentencepiece else "give a folder that has one of them"
        raise ValueError(f"{path} holds neither vocab.txt nor tokenizer.json: {way}.")


def _open_pipeline(path: Path) -> Pipeline:
    text = path.read_text("utf-8")
    try:
        return Pipeline.from_str(text)
    except Exception as error:  # the library raises Exception itself, nothing narrower
        if type(error) is not Exception:
            raise
        raise ValueError(f"{path} is no tokenizer.json that the tokenizers library can open: {error}.") from None


def _require_template(post_processor: dict[str, object], path: Path) -> None:
    """Refuse what the library opens and then, when a text is framed, ends the process for."""
    for one in _as_list(post_processor.get("processors")) or [post_processor]:
        template = _as_object(one)
        known = _as_object(template.get("special_tokens"))
        for piece in [*_as_list(template.get("single")), *_as_list(template.get("pair"))]:
            name = _as_object(_as_object(piece).get("SpecialToken")).get("id")
            if name is not None and name not in known:
                raise ValueError(f"{path}: its template has {name!r}, which its special_tokens lack. Copy it anew.")


def _is_bert(settings: Mapping[str, object]) -> bool:
    """True for the pipeline that every BERT folder has, which Google's rules can stand in for."""
    model, normalizer, splitter = (_as_object(settings.get(part)) for part in ("model", "normalizer", "pre_tokenizer"))
    return (
        model.get("type", "WordPiece") == "WordPiece"
        and model.get("continuing_subword_prefix") == "##"
        and normalizer.get("type") == "BertNormalizer"
        and normalizer.get("clean_text") is True
        and splitter.get("type") == "BertPreTokenizer"
    )


def _entries(pipeline: Pipeline) -> list[str]:
    """The pipeline's vocabulary and added tokens in the order of their ids; an id that no entry has is an empty one."""
    ids = {at: piece for piece, at in pipeline.get_vocab(with_added_tokens=True).items()}
    return [ids.get(at, "") for at in range(max(ids, default=-1) + 1)]


def _lowers(pipeline: Pipeline) -> bool:
    return pipeline.normalizer is not None and "A" not in pipeline.normalizer.normalize_str("A")


def _said(config: Mapping[str, object], path: Path) -> dict[str, object]:
    """What tokenizer_config.json says of case, accents and Chinese characters, by the names that tokenizer.json has."""
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    for key in names:
        if not isinstance(config.get(key), bool | None):
            raise ValueError(f"{path}: {key} is {config[key]!r}; allowed: true, false or null.")
    return {name: config[key] for key, name in names.items() if config.get(key) is not None}


def _require_agreement(vocabulary: Sequence[str], entries: Sequence[str], path: Path) -> None:
    for number, (line, entry) in enumerate(zip_longest(vocabulary, entries[: len(vocabulary)]), 1):
        if entry is None or line != entry.strip():
            raise ValueError(
                f"{path}: vocab.txt and tokenizer.json contradict each other: line {number} is {line!r}, but the "
                f"same id is {entry!r} there. Remove the file that is wrong."
            )


def _roles(entries: Collection[str], config: Mapping[str, object]) -> dict[str, str]:
    """How each special token is spelled: as the folder's files say, else by the two customary spellings."""
    known, roles = set(entries), {}
    for role, usual in BERT_ROLES.items():
        said = config.get(f"{role}_token")
        said = said.get("content") if isinstance(said, dict) else said
        other = OTHER_ROLES[role]
        roles[role] = said if isinstance(said, str) else other if other in known and usual not in known else usual
    return roles


def _as_object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _as_bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
