"""A text's output is its own whatever it is batched with; every option does what its formula says."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bertie.kernels.attention import by_bands, padded
from bertie.kernels.plain import Pattern
from bertie.model.config import Family, ModelConfig, preset
from bertie.model.encoder import Batch, Encoder, pack
from bertie.model.heads import Model, initialise

MakeModel = Callable[[ModelConfig, dict[str, int]], Model]


def test_pack() -> None:
    batch = pack([[7, 8, 9], [5], [6, 6]], [[0, 0, 1], [0], [0, 1]])
    assert batch.ids_N.tolist() == [7, 8, 9, 5, 6, 6]
    assert batch.segments_N.tolist() == [0, 0, 1, 0, 0, 1]
    assert batch.positions_N.tolist() == [0, 1, 2, 0, 0, 1]
    assert (batch.starts_S.tolist(), batch.starts_S.dtype, batch.max_length) == ([0, 3, 4, 6], torch.int32, 3)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "there is no text"),
        ([[1], []], "text 2 has no tokens"),
        ([[1], [1] * 41], "text 2 has 41 tokens, but the model has 40 positions"),
    ],
)
def test_pack_refuses(texts: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack(texts, max_positions=40)


def test_batch_moves_as_a_whole(batch: Batch) -> None:
    batch = replace(batch, masked_M=torch.tensor([1]), labels_M=torch.tensor([7]))
    moved = batch.to("meta")
    tensors = {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
    assert len(tensors) == 6
    assert all(getattr(moved, name).device.type == "meta" for name in tensors)
    assert (moved.max_length, moved.pair_S) == (batch.max_length, None)


def test_output_does_not_depend_on_the_batch(
    config: ModelConfig, make_model: MakeModel, texts: list[list[int]], batch: Batch
) -> None:
    encoder = make_model(config, {}).encoder
    together = encoder(batch).split(batch.starts_S.diff().tolist())
    segments = batch.segments_N.split(batch.starts_S.diff().tolist())
    for text, segment, expected in zip(texts, segments, together, strict=True):
        torch.testing.assert_close(encoder(pack([text], [segment.tolist()])), expected, atol=1e-5, rtol=0)


def test_unused_sequences_and_fillers_change_nothing(config: ModelConfig, make_model: MakeModel, batch: Batch) -> None:
    """A batch of fixed size: a sequence that fills it up, and starts of sequences there are none of."""
    encoder = make_model(config, {}).encoder
    num_tokens = len(batch.ids_N)
    fixed = Batch(
        ids_N=torch.cat((batch.ids_N, torch.zeros(6, dtype=torch.long))),
        segments_N=torch.cat((batch.segments_N, torch.zeros(6, dtype=torch.long))),
        positions_N=torch.cat((batch.positions_N, torch.arange(6))),
        starts_S=torch.cat((batch.starts_S, torch.full((4,), num_tokens + 6, dtype=torch.int32))),
        max_length=40,
    )
    torch.testing.assert_close(encoder(fixed)[:num_tokens], encoder(batch), atol=1e-5, rtol=0)


def test_paths_agree(config: ModelConfig, make_model: MakeModel, batch: Batch) -> None:
    fast = make_model(config, {}).encoder
    slow = Encoder(config, attention="plain").eval()
    slow.load_state_dict(fast.state_dict(), assign=True)
    torch.testing.assert_close(fast(batch), slow(batch), atol=1e-5, rtol=0)


def test_unknown_path_is_refused(config: ModelConfig) -> None:
    with pytest.raises(ValueError, match="'fast' does not exist; allowed: plain, sdpa, varlen"):
        Encoder(config, attention="fast")


def test_trace(config: ModelConfig, make_model: MakeModel, batch: Batch) -> None:
    encoder = make_model(config, {}).encoder
    trace = encoder.trace(batch)
    torch.testing.assert_close(trace.hidden_LND[-1], encoder(batch), atol=1e-5, rtol=0)
    assert len(trace.hidden_LND) == config.num_layers + 1
    lengths = batch.starts_S.diff().tolist()
    for probabilities_SHTT in trace.probabilities_LSHTT:
        assert [tuple(each.shape) for each in probabilities_SHTT] == [(config.num_heads, n, n) for n in lengths]
        for each in probabilities_SHTT:
            torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:2]))


def test_sinusoidal_positions(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    """PE(p, 2i) = sin(p / 10000^(2i/E)), PE(p, 2i + 1) = cos of the same, added to the words."""
    config = replace(small["bertie"], num_segments=0, embedding_width=None)
    embeddings = make_model(config, {}).encoder.embeddings
    embeddings.norm = torch.nn.Identity()
    batch = pack([[7] * 12])
    added = (embeddings(batch) - embeddings.words(batch.ids_N)).detach()
    for position in range(12):
        for column in range(config.width):
            angle = position / 10_000 ** ((column - column % 2) / config.width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert abs(added[position, column].item() - expected) < 1e-5


def test_rotary_positions_count_distances_only(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    config = replace(small["modernbert"], attention="full", max_positions=1000)
    encoder = make_model(config, {}).encoder
    batch = pack([[7, 8, 9, 10, 11]])
    shifted = replace(batch, positions_N=batch.positions_N + 500)
    torch.testing.assert_close(encoder(batch), encoder(shifted), atol=1e-4, rtol=0)
    stretched = replace(batch, positions_N=batch.positions_N * 2)
    assert (encoder(batch) - encoder(stretched)).abs().max() > 0.01


def test_causal_attention_sees_no_future(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    encoder = make_model(small["bertie"], {}).encoder
    one, other = encoder(pack([[7, 8, 9, 10]])), encoder(pack([[7, 8, 9, 11]]))
    torch.testing.assert_close(one[:3], other[:3], atol=1e-6, rtol=0)
    assert (one[3] - other[3]).abs().max() > 0.01


def test_a_window_reaches_half_its_width(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    config = replace(small["modernbert"], num_layers=2, global_every=1000)
    encoder = make_model(config, {}).encoder
    encoder.patterns[0] = encoder.patterns[1]  # the first layer is global: give it the window as well
    one, other = encoder(pack([[7] * 30])), encoder(pack([[*[7] * 29, 8]]))
    changed = (one - other).abs().max(-1).values > 1e-6
    assert changed.nonzero().min() == 29 - 2 * 4, "two layers, each with 4 of its window of 8 to this side"


def test_shared_layers_are_one(small: dict[Family, ModelConfig]) -> None:
    assert len(Encoder(small["albert"]).layers) == 1
    assert len(Encoder(small["bert"]).layers) == 3


def test_dropout_is_where_it_is_set(config: ModelConfig, make_model: MakeModel, batch: Batch) -> None:
    """Each rate alone makes training differ from evaluation; with all at 0 they are the same."""
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
    if config.family != "modernbert":
        config = replace(config, family="bertie")
    for rate in (None, *rates):
        settings = rates | ({} if rate is None else {rate: 0.5})
        model = make_model(replace(config, **settings), {})
        evaluated = model.encoder(batch)
        torch.manual_seed(0)
        difference = (model.encoder.train()(batch) - evaluated).abs().max()
        assert (difference < 1e-5) == (rate is None), rate


@pytest.mark.parametrize("is_autocast", [True, False], ids=["autocast", "weights"])
def test_bfloat16_is_close(config: ModelConfig, make_model: MakeModel, batch: Batch, is_autocast: bool) -> None:
    """Both ways of computing in half precision run, and differ by rounding only."""
    batch = replace(batch, masked_M=torch.tensor([0, 9]))
    heads = {"masked": 0, "class": 3, "span": 0}
    expected = make_model(config, heads)(batch)
    model = make_model(config, heads)
    if not is_autocast:
        model = model.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
        found = model(batch)
    for name, output in expected.items():
        error = (found[name].float() - output).norm() / output.norm()
        assert 0 < error < 0.05, name


def test_compiles_once_for_batches_of_one_shape(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    """No number is read off the device on the way, so that other lengths are not another program."""
    model = make_model(small["modernbert"], {"class": 3})
    model.encoder.attend = attend_as_on_a_gpu
    batches = [
        Batch(
            ids_N=torch.arange(100) % 60,
            segments_N=torch.zeros(100, dtype=torch.long),
            positions_N=torch.arange(100) % 40,
            starts_S=torch.tensor(starts, dtype=torch.int32),
            max_length=40,
        )
        for starts in ([0, 40, 70, 100, 100], [0, 30, 60, 80, 100])
    ]
    expected = [model(batch)["class"] for batch in batches]
    programs = []

    def count(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        programs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=count, fullgraph=True)
    for batch, logits in zip(batches, expected, strict=True):
        torch.testing.assert_close(compiled(batch)["class"], logits)
    assert len(programs) == 1


def attend_as_on_a_gpu(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, max_length: int, pattern: Pattern) -> Tensor:
    return (padded if pattern.window is None else by_bands)(q, k, v, starts, max_length, pattern)


def test_recomputing_layers_changes_no_number() -> None:
    config = replace(preset("tiny"), vocabulary_size=50)
    gradients = []
    for recomputes in (False, True):
        model = initialise(Model(config, {"pair": 0}), torch.Generator().manual_seed(0)).train()
        model.encoder.recomputes = recomputes
        torch.manual_seed(1)  # of dropout, which is to be drawn the same way twice
        model(pack([[1, 2, 3, 4], [5, 6]]))["pair"].sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
