"""Made the checkpoints in this folder with TensorFlow 2.21 (`python make.py`); kept to tell what they hold."""

import json
import zlib
from pathlib import Path

import numpy as np
import tensorflow as tf

HERE = Path(__file__).parent
CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 8,
    "initializer_range": 0.02,
    "intermediate_size": 16,
    "max_position_embeddings": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "type_vocab_size": 2,
    "vocab_size": 12,
}
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "on", "a", "mat"]
LAYER = "bert/encoder/layer_0"
SHAPES = {
    "bert/embeddings/word_embeddings": (12, 8),
    "bert/embeddings/token_type_embeddings": (2, 8),
    "bert/embeddings/position_embeddings": (8, 8),
    "bert/embeddings/LayerNorm/gamma": (8,),
    "bert/embeddings/LayerNorm/beta": (8,),
    **{
        f"{LAYER}/attention/{part}/{name}": (8, 8) if name == "kernel" else (8,)
        for part in ("self/query", "self/key", "self/value", "output/dense")
        for name in ("kernel", "bias")
    },
    f"{LAYER}/attention/output/LayerNorm/gamma": (8,),
    f"{LAYER}/attention/output/LayerNorm/beta": (8,),
    f"{LAYER}/intermediate/dense/kernel": (8, 16),
    f"{LAYER}/intermediate/dense/bias": (16,),
    f"{LAYER}/output/dense/kernel": (16, 8),
    f"{LAYER}/output/dense/bias": (8,),
    f"{LAYER}/output/LayerNorm/gamma": (8,),
    f"{LAYER}/output/LayerNorm/beta": (8,),
    "bert/pooler/dense/kernel": (8, 8),
    "bert/pooler/dense/bias": (8,),
    "cls/predictions/transform/dense/kernel": (8, 8),
    "cls/predictions/transform/dense/bias": (8,),
    "cls/predictions/transform/LayerNorm/gamma": (8,),
    "cls/predictions/transform/LayerNorm/beta": (8,),
    "cls/predictions/output_bias": (12,),
    "cls/seq_relationship/output_weights": (2, 8),
    "cls/seq_relationship/output_bias": (2,),
}
KINDS = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int64, tf.int32, tf.uint8, tf.int16, tf.int8, tf.bool)


def values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small numbers that follow from the name and are exact in every float type."""
    numbers = np.arange(np.prod(shape, dtype=int)) * 37 + zlib.crc32(name.encode())
    return ((numbers % 64 - 32) / 256).astype(np.float32).reshape(shape)


def make_bert() -> None:
    """Google's names, with what its training leaves beside them."""
    folder = HERE / "bert"
    folder.mkdir(exist_ok=True)
    (folder / "bert_config.json").write_text(json.dumps(CONFIG, indent=2))
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY))
    slots = {f"{name}/adam_{slot}": SHAPES[name] for name in list(SHAPES)[:3] for slot in "mv"}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, shape in {**SHAPES, **slots}.items():
            tf.compat.v1.get_variable(name, initializer=values(name, shape))
        tf.compat.v1.get_variable("global_step", initializer=np.int64(7))
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(folder / "bert_model.ckpt"), write_meta_graph=False)
    (folder / "checkpoint").unlink()


def make_kinds() -> None:
    """Every type of number in two shards, a scalar, an empty tensor and a text."""
    first = {kind.name: tf.cast(tf.constant([[0.0, 1.0, 2.0], [3.0, 5.0, 8.0]]), kind) for kind in KINDS[:5]}
    second = {kind.name: tf.cast(tf.constant([[0.0, 1.0, 2.0], [3.0, 5.0, 8.0]]), kind) for kind in KINDS[5:]}
    second |= {"scalar": tf.constant(2.5), "empty": tf.zeros((0, 4)), "text": tf.constant(["bertie"])}
    parts = [str(HERE / f"part{number}") for number in range(2)]
    for part, tensors in zip(parts, (first, second), strict=True):
        tf.raw_ops.SaveV2(
            prefix=part, tensor_names=list(tensors), shape_and_slices=[""] * len(tensors), tensors=[*tensors.values()]
        )
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=str(HERE / "kinds"))


def make_old() -> None:
    """A checkpoint of the V1 format: one sorted table, its blocks packed with snappy."""
    old = HERE / "old"
    old.mkdir(exist_ok=True)
    tensors = {"steps": tf.range(600) // 40, "zeros": tf.zeros(500)}
    tf.raw_ops.Save(filename=str(old / "old.ckpt"), tensor_names=list(tensors), data=[*tensors.values()])


if __name__ == "__main__":
    make_bert()
    make_kinds()
    make_old()
